r"""Simulation-based calibration: whether the posteriors of a method are right, on average, for a model [1]_.

Hyperparameters, latent values and targets are drawn from the model at the user's own inputs, and fitted. Among draws of
the exact posterior the rank of the true value is uniform, for every quantity, also for one that depends on the targets
[2]_, of which the log likelihood sees most. An approximation that is too sure puts the truth too often at either end,
one that is too wide too often in the middle, and a biased one to one side.

References
----------
.. [1] Talts, S., Betancourt, M., Simpson, D., Vehtari, A., & Gelman, A. (2018). Validating Bayesian inference
   algorithms with simulation-based calibration. https://arxiv.org/abs/1804.06788
.. [2] Modrák, M., Moon, A. H., Kim, S., Bürkner, P.-C., Huurre, N., Faltejsková, K., Gelman, A., & Vehtari, A. (2023).
   Simulation-based calibration checking for Bayesian computation: the choice of test quantities shapes sensitivity.
   Bayesian Analysis. https://arxiv.org/abs/2211.02383
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import check_flags, check_integers
from bayesgp_mf.container import stored
from bayesgp_mf.container.checks import checksum
from bayesgp_mf.container.draws import draw_training
from bayesgp_mf.container.groups import Container, make_container
from bayesgp_mf.container.layout import SAMPLE_DIMS, common_attrs
from bayesgp_mf.diagnostics.sensitivity import Quantity, as_quantities, value_of
from bayesgp_mf.diagnostics.uniformity import UniformRanks
from bayesgp_mf.errors import ConvergenceError, DamagedFileError, Status
from bayesgp_mf.fitting import Seed, control_of
from bayesgp_mf.hyper import HyperName, Prior, Strategy, Target, get_strategy
from bayesgp_mf.hyper.objective import NO_VALUE
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import as_inputs_of
from bayesgp_mf.inputs.options import as_kernel, check_model
from bayesgp_mf.inputs.tables import feature_names
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.processes.process import Marginals, Tuned
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.tuning import tune
from bayesgp_mf.types import Array
from bayesgp_mf.workflow.log import Log, done_of
from bayesgp_mf.workflow.model import Generative, generative

LEVEL = 0.01
"""The share of exact methods that would be called off, all quantities together."""
MOST_FAILED = 0.01
"""The share of replicas without a solution, beyond which nothing is said of the others."""
FEWEST = 20
"""Data sets of which at least so many must be seen."""
MANY = 200
"""Replicas from which on a spread that is off by a quarter is seen."""
FEWER_DRAWS = "Ask for fewer: calibrate(..., draws=...)."
GROUP = "prior_sbc"
"""The group that simuk writes, and ArviZ's plot_ecdf_pit reads."""


def calibrate(
    X: Any,
    kernel: Any,
    likelihood: Likelihood = Probit(),
    *,
    priors: Mapping[str, Prior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Collection[str] = (),
    method: MethodName | Solver = "tap",
    hyper: HyperName | Strategy | None = None,
    replicas: int = 500,
    draws: int = 99,
    marginals: Marginals = "gaussian",
    quantities: Mapping[str, Quantity] | None = None,
    true_kernel: Any = None,
    offset: ArrayLike | None = None,
    path: Any = None,
    processes: int = 1,
    client: Any = None,
    random_seed: Seed = None,
    progress: bool = True,
) -> Calibration:
    """Check by simulation whether the computation holds for a model at these inputs.

    Each replica draws hyperparameters, latent values and targets from the model, fits them, and finds the rank of what
    was true among draws of the posterior. Where posteriors are right on average ranks are uniform.

    Parameters
    ----------
    X, kernel, likelihood, priors, bounds, fixed, offset
        The model, as `prior_predictive` takes it.
    method, hyper
        The computation, as `fit` takes it. With ``hyper`` each parameter that is not fixed needs a prior or bounds,
        from which it is drawn. Point estimates, such as ``hyper="evidence"``, leave out what is not known of the
        hyperparameters, and cannot pass; the verdict says so.
    replicas : int
        Data sets.
    draws : int
        Draws of each posterior. A rank is a whole number from 0 to that.
    marginals : {"gaussian", "tilted"}
        Shape of the draws, as `fit` takes it. Where outliers are expected, as by Student's t, posteriors of single
        latent values are not Gaussian, and the log likelihood passes with "tilted" only.
    quantities : mapping of str to callable, optional
        More to rank: functions of draws of latent values ``(k, n)``, of several classes ``(k, n, C)``, and of targets
        ``(n,)`` as the likelihood has them (labels -1/+1), that return a number for each draw. Always there are f at a
        random case, and with it the probability there; the mean of f over the cases; the log likelihood; and of
        hyperparameters that are drawn each entry.
    true_kernel : Kernel, optional
        The covariance from which data sets are drawn, if not that of the fits: how far posteriors are off where a prior
        is wrong. Its parameters are not drawn.
    path : str or Path, optional
        A file to which each replica is written when it is done. A second call with the same arguments goes on there;
        a quantity is known by its name, so that another function needs another one.
    processes, client
        How many replicas at a time, each in its own process; or a Dask cluster (`hyper.Evidence`).
    random_seed : int, numpy.random.Generator or None
        Source of all randomness. Each replica has a source of its own, whoever computes it.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    Calibration
        With ``verdict``, ``passed``, ``to_frame()``, and ``idata``, whose group ``prior_sbc`` ArviZ can plot. It prints
        the verdict and the table.

    Raises
    ------
    ValueError
        If an argument is invalid, or ``path`` has replicas of another call.
    ConvergenceError
        If no replica has a solution.

    Warns
    -----
    UserWarning
        If Ctrl-C ended it early: what was done until then is returned.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2.0, 2.0, 20)[:, None]
    >>> found = bgp.calibrate(X, bgp.kernels.Gaussian(), replicas=100, draws=19, random_seed=1)
    >>> found.passed
    True
    """
    check_integers(1, replicas=replicas, draws=draws, processes=processes)
    check_flags(progress=progress)
    model = generative(X, kernel, likelihood, priors, bounds, fixed, offset)
    if not model.likelihood.of_one_case.all_seen:
        raise ValueError(
            "targets are drawn as they are when all are seen, and this likelihood has limits of certain cases. Leave "
            "out other_limit: likelihoods.Censored(likelihood)."
        )
    strategy = None if hyper is None else get_strategy(hyper)
    source = model if true_kernel is None else _drawn_from(true_kernel, X, model)
    solver = get_method(method, model.likelihood)
    _check_all_random(model, strategy)
    drawn = () if model.random is None else model.random.names
    named = as_quantities(quantities, (*SAMPLE_DIMS, "f", "mean_f", "log_likelihood", *drawn))
    check_draws(int(draws), len(model.X) * (model.likelihood.n_classes or 1), "training", FEWER_DRAWS)
    control = control_of(marginals, solver, model.likelihood, Control(progress=False))
    stated = _stated(model, source, solver, strategy, named, draws) | {"marginals": marginals}
    log = Log.of(path, stated, "calibrate", "replicas", random_seed, partial(_is_rank, int(draws)))
    task = _Task(model, source, solver, strategy, named, int(draws), marginals, control, log.entropy)
    how = {"processes": int(processes), "client": client, "progress": progress}
    return _calibration(task, done_of(_Task.ranks, task, int(replicas), log, title="calibrating", **how))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The ranks of what was true among draws of the posterior, for data sets drawn from a model.

    Attributes
    ----------
    idata : InferenceData or DataTree
        With the group ``prior_sbc``, in which each quantity has the share of the draws below the truth, (chain, draw),
        a draw for each replica: ``az.plot_ecdf_pit(calibration.idata)`` shows it where ArviZ has that.
    ranks : dict of str to (replicas,) array of int
        How many draws are below the truth, by quantity.
    draws : int
        Draws of each posterior.
    failed : int
        Replicas that had no solution, and are left out.
    note : str
        What is to be known beforehand, as of hyperparameters that are no draws.
    point : bool
        Whether fits end in one setting of the hyperparameters, with which ranks are not uniform.
    """

    idata: Container = field(repr=False)
    ranks: dict[str, NDArray[np.int64]] = field(repr=False)
    draws: int
    failed: int = 0
    note: str = ""
    point: bool = False

    @property
    def replicas(self) -> int:
        """How many data sets were fitted."""
        return len(next(iter(self.ranks.values())))

    @property
    def _uniform(self) -> UniformRanks:
        return UniformRanks(self.replicas, self.draws)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """The chance that uniform ranks are somewhere as far off as these, by quantity."""
        uniform = self._uniform
        return {name: uniform.p_value(ranks) for name, ranks in self.ranks.items()}

    @property
    def _uniform_ranks(self) -> bool:
        return min(self.p_values.values()) * len(self.ranks) >= LEVEL

    @property
    def _undecided(self) -> str | None:
        """Why uniform ranks would not say that the method holds, if they do not."""
        total = self.replicas + self.failed
        if self.failed > MOST_FAILED * total:
            return f"{self.failed} of {total} data sets drawn from the model had no solution."
        if self.replicas < FEWEST:
            return f"{self.replicas} data sets are too few to see anything. Take {FEWEST} or more, better {MANY}."
        return f"in {self.replicas} data sets it does not show yet." if self.point else None

    @property
    def passed(self) -> bool:
        """Whether nothing is seen against the method: no quantity is off at the level of 1 % for all together.

        Not with fewer than 20 data sets, nor if fits end in one setting of the hyperparameters.
        """
        return self._undecided is None and self._uniform_ranks

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each quantity.

        Its columns are the chance that uniform ranks are as far off, the mean of the ranks as a share, which is 0.5 if
        nothing is off, and their spread, the variance relative to that of uniform ranks: above 1 the method is too
        sure.
        """
        return pd.DataFrame(
            {
                "chance": self.p_values,
                "mean": {name: float(np.mean(ranks + 0.5)) / (self.draws + 1.0) for name, ranks in self.ranks.items()},
                "spread": {name: self._uniform.spread(ranks) for name, ranks in self.ranks.items()},
            }
        )

    @property
    def verdict(self) -> str:
        """What was seen, in a sentence or two."""
        if self._undecided is not None and (self._uniform_ranks or not self.point):
            head = f"undecided: {self._undecided}"
        elif self.passed:
            head = f"passed: in {self.replicas} data sets drawn from the model nothing speaks against the computation."
            head += "" if self.replicas >= MANY else f" Fewer than {MANY} show gross errors only: take more replicas."
        else:
            table = self.to_frame()
            name = str(table["chance"].idxmin())
            mean, spread = table.loc[name, "mean"], table.loc[name, "spread"]
            head = (
                f"off: ranks of {name} are not uniform (chance {table.loc[name, 'chance']:.2g}); their mean is "
                f"{mean:.2f}, where 0.5 is right, and their spread {spread:.2f}, where 1 is right: posteriors are "
                f"{'too sure' if spread > 1 else 'too wide'}{'' if abs(mean - 0.5) < 0.03 else ' or biased'}."
            )
        return f"{head} {self.note}".strip()

    def __repr__(self) -> str:
        limit = f"off is a chance below {LEVEL / len(self.ranks):.2g}, {LEVEL:.0%} for all together"
        return f"{self.verdict}\n{self.to_frame().round(3).to_string()}\n{limit}"


@dataclass(frozen=True, eq=False)
class _Task:
    """What is the same for all replicas."""

    model: Generative
    source: Generative
    solver: Solver
    strategy: Strategy | None
    quantities: Mapping[str, Quantity]
    draws: int
    marginals: Marginals
    control: Control
    entropy: int

    def ranks(self, replica: int, *, throw: bool = False) -> dict[str, int] | None:
        """Return the rank of the truth among draws for each quantity; None, or its error, if there is no solution."""
        rng = np.random.default_rng([self.entropy, replica])
        (truth,) = self.source.models(1, rng)
        try:  # a count may have more digits than numbers
            f, y = (drawn[0] for drawn in self.source.draw([truth], rng))
            self.model.likelihood.check_targets("y", y)
        except ValueError:
            if throw:
                raise
            return None
        try:
            with warnings.catch_warnings(), one_thread_if_small(len(self.model.X)):
                warnings.simplefilter("ignore")  # of single fits, of which there are hundreds
                found = self._fitted(np.asarray(y, dtype=np.float64), rng)
                drawn = draw_training(found.posterior, found.node, rng, self.marginals, found.node_evidence)
        except NO_VALUE:
            if throw:
                raise
            return None
        places = tuple(int(rng.integers(size)) for size in f.shape)
        known = {
            "f": (f[places], drawn["f"][0][(slice(None), *places)]),
            "mean_f": (f.mean(axis=0).flat[0], drawn["f"][0].mean(axis=1).reshape(self.draws, -1)[:, 0]),
        }
        if "log_likelihood" in drawn:
            log_likelihood = truth.likelihood.log_prob(y, f).value
            known["log_likelihood"] = float(np.sum(log_likelihood)), drawn["log_likelihood"][0].sum(axis=1)
        for name, quantity in self.quantities.items():
            known[name] = value_of(name, quantity, f[None], y)[0], value_of(name, quantity, drawn["f"][0], y)
        if found.sampled:
            known |= self._hyperparameters(truth, found)
        return {name: _rank(value, draws, rng) for name, (value, draws) in known.items()}

    def _fitted(self, t: Array, rng: np.random.Generator) -> Tuned:
        model, control = self.model, self.control
        if self.strategy is None:
            problem = assemble(model.kernel, model.X, t, model.likelihood, solver=self.solver, control=control)
            process = make_process(model.kernel, model.X, problem, self.solver.solve(problem, control), self.solver)
            return Tuned(process, np.zeros((1, self.draws), dtype=np.intp))
        given = model.X, t, model.likelihood, model.kernel, self.solver, replace(control, throw=True)
        target = Target(*given, model.priors, model.bounds, model.fixed)
        found = tune(
            target, self.strategy, self.solver, control=control, draws=self.draws, chains=1, rng=rng, progress=False
        )
        return _thinned(found, self.draws, rng)

    def _hyperparameters(self, truth: Model, found: Tuned) -> dict[str, tuple[float, Array]]:
        """Return the true value and the draws of each entry that is random."""
        target = self.model.random
        if target is None or self.source is not self.model:
            return {}
        models = [Model.of(part.kernel, part.problem.likelihood, truth.named) for part in found.posterior.parts]
        values = np.array([target.free_logarithms(model) for model in models])[found.node[0]]
        true = target.free_logarithms(truth)
        return {name: (float(true[k]), values[:, k]) for k, name in enumerate(target.names)}


def _is_rank(draws: int, replica: Any, found: Any) -> bool:
    """Return whether that may come of a replica."""
    ranks = {"f": 0} if found is None else found
    is_one = type(replica) is int and replica >= 0 and isinstance(ranks, dict) and bool(ranks)
    return is_one and all(type(rank) is int and 0 <= rank <= draws for rank in ranks.values())


def _thinned(found: Tuned, draws: int, rng: np.random.Generator) -> Tuned:
    """Return so many draws that know little of each other: by weights, or evenly from a Markov chain."""
    node = found.node.reshape(1, -1)
    if node.size != draws:
        every = np.linspace(0, node.size - 1, draws).round().astype(np.intp)
        return replace(found, node=node[:, every])
    if found.posterior.averaged:
        chosen = rng.choice(len(found.posterior.parts), size=(1, draws), p=found.posterior.weights)
        return replace(found, node=chosen)
    return found


def _rank(truth: float, draws: Array, rng: np.random.Generator) -> int:
    """Return how many draws are below the truth; of those that equal it a random share."""
    ties = int(np.count_nonzero(draws == truth))
    return int(np.count_nonzero(draws < truth)) + (int(rng.integers(ties + 1)) if ties else 0)


def _drawn_from(kernel: Any, X: Any, model: Generative) -> Generative:
    """Return the model of data sets that have another covariance, or raise an error if it is none of these inputs."""
    table = as_pandas("X", X)
    other = as_inputs_of(as_kernel(kernel).with_column_names(feature_names("X", table)), table)[1]
    check_model(other, model.X, model.likelihood)
    other.gram(model.X[:1])  # which raises where columns or length scales are not those of the inputs
    return replace(model, kernel=other, priors={}, bounds={})


def _check_all_random(model: Generative, strategy: Strategy | None) -> None:
    """Raise a ValueError unless hyperparameters are drawn from what the fits know of them."""
    if strategy is None:
        if model.random is not None:
            raise ValueError(
                f"priors and bounds are of hyperparameters that fits choose or average over, and hyper=None keeps "
                f"{', '.join(dict.fromkeys(model.random.owners.tolist()))}. Give hyper='surrogate', or leave them out."
            )
        return
    free = Model.of(model.kernel, model.likelihood, {*model.priors, *model.bounds}).params
    lacking = [
        name
        for name, value in free.items()
        if np.any(value != 0) and name not in {*model.fixed, *model.priors, *model.bounds}
    ]
    if lacking:
        raise ValueError(
            f"priors has none of {', '.join(lacking)}, from which data sets could be drawn. Give one for each, such as "
            "bgp.priors.suggest(X, kernel, likelihood), or name them in fixed."
        )


def _calibration(task: _Task, found: list[dict[str, int] | None]) -> Calibration:
    solved = [ranks for ranks in found if ranks is not None]
    if not solved:
        try:
            task.ranks(0, throw=True)
        except (ValueError, *NO_VALUE) as reason:
            raise ConvergenceError(
                f"none of {len(found)} data sets drawn from the model had a solution. The first: {reason}",
                Status.MAX_ITERATIONS,
            ) from reason
    if any(each.keys() != solved[0].keys() for each in solved):
        raise DamagedFileError("path has replicas without some of their ranks. Give another name, or remove the file.")
    ranks = {name: np.array([each[name] for each in solved]) for name in solved[0]}
    random = task.model.random
    note = _note(task.strategy, sampled=random is not None and random.names[0] in ranks)
    point = task.strategy is not None and not task.strategy.averages
    made = Calibration(make_container({}), ranks, task.draws, len(found) - len(solved), note, point)
    shares = {name: (SAMPLE_DIMS, (values[None] + 0.5) / (task.draws + 1.0)) for name, values in ranks.items()}
    coords = {"chain": [0], "draw": np.arange(len(solved))}
    attrs = {**common_attrs(), "verdict": made.verdict, "draws": task.draws, "failed": made.failed}
    return replace(made, idata=make_container({GROUP: xr.Dataset(shares, coords, attrs)}))


def _note(strategy: Strategy | None, *, sampled: bool) -> str:
    """Return what is to be known of a strategy beforehand."""
    if strategy is None:
        return ""
    if not strategy.averages:
        return (
            f"hyper={strategy.name!r} ends in one setting of the hyperparameters: its posteriors leave out what is not "
            "known of them, are too sure by that, and cannot pass for certain. Averages can: hyper='surrogate'."
        )
    if not sampled:
        return f"hyper={strategy.name!r} has nodes and no draws of the hyperparameters, which are not ranked."
    return ""


def _stated(
    model: Generative,
    source: Generative,
    solver: Solver,
    strategy: Strategy | None,
    quantities: Mapping[str, Quantity],
    draws: int,
) -> dict[str, Any]:
    """Return what a file says of the call that its replicas are of."""
    likelihood = model.likelihood
    return {
        "inputs": checksum(model.X),
        "offset": checksum(likelihood.stored_by_case.get("offset", np.empty(0))),
        "kernel": stored.describe_kernel(model.kernel),
        "true_kernel": None if source is model else stored.describe_kernel(source.kernel),
        "values": {name: np.asarray(value).tolist() for name, value in model.kernel.params.items()},
        "likelihood": stored.describe_likelihood(likelihood.of_one_case),
        "method": [solver.name, stored.describe_method(solver, likelihood)],
        "hyper": repr(strategy),
        **stored.describe_priors(model.priors, model.bounds, model.fixed),
        "quantities": sorted(quantities),
        "draws": int(draws),
    }
