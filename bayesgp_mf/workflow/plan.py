r"""What further cases would bring: data that have not been observed, drawn from a fit, and fitted with it.

On average over functions from the posterior, and over targets drawn from those, a model knows how well it will do if it
is right. How far it is right for predictions shows in leave-one-out, which is known. With :math:`\bar s_m` what the
model says of m further cases, :math:`\hat s` the leave-one-out value, and :math:`\bar s` what the model says of that,
over targets drawn from what the other cases say of each, :math:`\hat s\, \bar s_m / \bar s` is to be expected; of log
densities of numbers, which have no zero of their own, :math:`\hat s + \bar s_m - \bar s`. How far a leave-one-out value
is off is seen in data sets that are drawn, where it is known what it estimates: by more than its standard error, since
its terms share their cases. What more cases bring is off too, since no model is quite right: its logarithm by a factor
that is the same for all numbers of cases.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from bayesgp_mf.arguments import check_flags, check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.stored import priors_of
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.diagnostics.curves import some_settings
from bayesgp_mf.diagnostics.fitted import expected_target
from bayesgp_mf.errors import NO_SOLUTION, ConvergenceError, Status, UndefinedQuantityError, warn
from bayesgp_mf.fitting import Seed
from bayesgp_mf.hyper import HyperName, Strategy, Target, get_strategy
from bayesgp_mf.inference.assembly import assemble_as
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.tables import as_offset
from bayesgp_mf.kernels.given_slopes import check_without_slopes
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_bytes
from bayesgp_mf.processes.process import LARGEST_JOINT, Part, Process
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.tuning import tune
from bayesgp_mf.types import Array
from bayesgp_mf.workflow.log import Log, done_of

QUANTITIES = ("log_score", "error", "width")
WIDE = 2.0 * float(ndtri(0.95))
"""Standard deviations of a normal distribution across its middle 90 %."""
BYTES = 80
"""For each further case: its inputs, latent value and target, and their copies."""
GAIN_OFF = 1.0
"""Standard deviation of the log of what more cases bring over what a model says, chosen on four tables."""
TARGETS = 20_000
"""Drawn, of all cases together, to know what the fit says of leave-one-out."""
FEW_VALUES = 10
"""A column with no more different values than that keeps to them."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be expected with further cases; ``print`` shows the table.

    Attributes
    ----------
    table : pandas.DataFrame
        By number of further ``cases`` and by ``quantity``: ``mean`` and the ends ``lower``, ``upper`` of the band. Log
        score and error are moved to the leave-one-out values of the fit, which are off as they are in data sets drawn.
    values : (replicas, sizes, 3) array
        log_score, error and width of each data set as the model has them itself.
    level : float
        Probability of the bands.
    """

    table: pd.DataFrame
    values: Array
    level: float

    def __str__(self) -> str:
        return str(self.table.to_string(float_format="{:.3f}".format))


def plan(
    idata: Container,
    sizes: ArrayLike,
    *,
    X: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    replicas: int = 50,
    test: int = 200,
    level: float = 0.8,
    hyper: HyperName | Strategy | None = None,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    processes: int = 1,
    client: Any = None,
    random_seed: Seed = None,
    progress: bool = True,
) -> Plan:
    """Return how good predictions would be with so many further cases.

    Each replica draws a function from the posterior, further cases and test cases with their targets, fits all cases
    together, and looks at the test cases. The band says how far results differ from replica to replica: by what is not
    known yet, by the cases that would come, and by the choice of ``test`` cases.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    sizes : int or (s,) array_like of int
        Numbers of further cases; 0 is the fit as it is, of an average each of its settings as if it were known.
    X : (m, d) array_like, optional
        Inputs from which those of further cases and of test cases are drawn, without replacement where there are
        enough. By default they are drawn around those of the fit, by a smoothed bootstrap; a column with at most ten
        different values, and groups, keep to their values.
    offset : (m,) array_like, optional
        Offsets of the cases of X, as logs of exposures. Cases drawn around those of the fit have theirs, and so have
        those of X if all of the fit share one.
    replicas : int
        Data sets.
    test : int
        Test cases of each.
    level : float
        Probability of the bands.
    hyper : None, str or Strategy
        How each fit chooses its hyperparameters, as in `fit`. By default it has those under which its data were drawn,
        as if they were known.
    kernel, likelihood, method : optional
        Those of the fit that the container does not hold.
    processes, client
        How many replicas at a time, each in its own process; or a Dask cluster (`hyper.Evidence`).
    random_seed : int, numpy.random.Generator or None
        Source of all randomness.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    Plan
        With ``log_score``, the mean log predictive density of a test target in nats; ``error``, the share of labels
        that are not the more probable one, or else the mean distance of a target from its predicted mean, NaN where
        there is no mean, as with ``df`` of at most 1; and ``width``, the mean width of 90 % intervals of latent values.

    Raises
    ------
    ValueError
        If an argument is invalid.
    UndefinedQuantityError
        If cases have several latent values, or weights, trials, noise variances or limits of their own, or the method
        no variance.
    ConvergenceError
        If no replica has a solution.

    Warns
    -----
    UserWarning
        If Ctrl-C ended it early, or some replicas have no solution.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> idata = bgp.fit(X, np.sin(3 * X[:, 0]) > 0, bgp.kernels.Gaussian(0.7, 4.0), draws=50, random_seed=1)
    >>> found = bgp.plan(idata, [0, 100], replicas=10, random_seed=1)
    >>> width = found.table["mean"].unstack()["width"]
    >>> bool(width[100] < width[0])
    True
    """
    fit = fit_group(idata)
    check_has_cases(fit, "plan")
    check_integers(1, replicas=replicas, test=test, processes=processes)
    check_flags(progress=progress)
    if not (isinstance(level, float) and 0.0 < level < 1.0):
        raise ValueError(f"level must be a probability between 0 and 1, such as 0.8, got {level!r}.")
    counts = np.atleast_1d(np.asarray(sizes))
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or not counts.size or np.any(counts < 0):
        raise ValueError(f"sizes must be whole numbers >= 0 of further cases, such as [100, 400], got {sizes!r}.")
    most = int(counts.max()) + int(test)
    check_bytes(f"{most} further cases", BYTES * most, "Ask for fewer: plan(idata, sizes, test=...).")
    process = from_container(idata, kernel, likelihood, method)
    known = process.problem.likelihood
    for part in process.parts:
        check_without_slopes(part.kernel)
    offsets = known.stored_by_case.get("offset", np.zeros(process.problem.n))
    one = known.of_one_case
    is_same = one.of_cases(np.arange(1)) is one and not one.new_case_facts  # as one noise variance for all
    if known.has_classes or known.stored_by_case.keys() - {"offset"} or not is_same:
        raise UndefinedQuantityError(
            "a plan is for cases with one latent value each and without weights, trials, noise variances or limits "
            "of their own, which further cases would need."
        )
    strategy = None if hyper is None else get_strategy(hyper)
    chosen = {} if strategy is None else priors_of(fit, None, process.parts[0].kernel)
    log = Log.of(None, {}, "plan", "replicas", random_seed)
    try:
        pool = None if X is None else process.new_inputs(X)
    except ValueError as error:
        raise ValueError(f"X, the inputs of further cases, must be like those of the fit: {error}") from None
    of_pool = None if pool is None else _offsets(offset, offsets, len(pool))
    if pool is None and offset is not None:
        raise ValueError("offset is of the cases of X, and there is no X: cases around those of the fit have theirs.")
    now = *_leave_one_out(process), _expected(process, offsets, np.random.default_rng(log.entropy))
    all_sizes = np.unique([0, *counts.tolist()])  # of an unsigned type neither
    task = _Task(process, pool, all_sizes, int(test), strategy, chosen, offsets, of_pool, log.entropy)
    how = {"processes": int(processes), "client": client, "progress": progress}
    done = done_of(_Task.scores, task, int(replicas), log, title="drawing data sets", **how)
    values = [each for each in done if each is not None]
    if len(values) < len(done):
        warn(f"{len(done) - len(values)} of {len(done)} data sets had no solution, and are left out.")
    if not values:
        raise ConvergenceError(f"none of the data sets had a solution. {task.why_none()}", Status.MAX_ITERATIONS)
    return _plan(np.array(values), task.sizes, np.unique(counts), now, known, level)


@dataclass(frozen=True, eq=False)
class _Task:
    """What a replica must know."""

    process: Process
    pool: Array | None
    sizes: Array
    test: int
    strategy: Strategy | None
    chosen: dict[str, Any]
    offset: Array  # of the cases of the fit
    of_pool: Array | None
    entropy: int

    def scores(self, replica: int) -> list[list[float]] | None:
        """Return log score, error and width for each size; then how far leave-one-out is off in targets drawn anew.

        That is its difference, ``(3,)``, from a score of test cases, and the variance of that score. Together they are
        ``(sizes + 2, 3)``. None if there is no solution.
        """
        with suppress(*NO_SOLUTION), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of single fits, of which there are hundreds
            return self._scores(replica)
        return None

    def why_none(self) -> str:
        """Return why the first replica has no solution."""
        try:
            self._scores(0)
        except NO_SOLUTION as reason:
            return f"The first: {reason}"
        return ""

    def _scores(self, replica: int) -> list[list[float]]:
        rng = np.random.default_rng([self.entropy, replica])
        part = self.process.parts[rng.choice(len(self.process.parts), p=self.process.weights)]
        likelihood, most = part.problem.likelihood.of_one_case, int(self.sizes[-1])
        X, offset = self._inputs(part.X, most + self.test, rng)
        at = part.X[: len(part.X) if len(part.X) + len(X) <= LARGEST_JOINT else 0]  # of many cases errors are small
        f = part.draw_at(np.concatenate([at, X]), 1, rng)[0]
        targets = likelihood.sample(f + np.concatenate([self.offset[: len(at)], offset]), rng)
        again, t = np.split(np.asarray(targets, dtype=np.float64), [len(at)])
        X_test, t_test = X[most:], t[most:]
        rows = []

        def scores(process: Process) -> Array:
            mean, variance = process.latent_at(X_test)
            each = *_scores(likelihood, t_test, mean + offset[most:], variance), WIDE * np.sqrt(variance)
            return np.array(each)

        for size in self.sizes:
            pairs = (part.X, X), (part.problem.t, t), (self.offset, offset)
            all_X, all_t, offsets = (np.concatenate([old, new[:size]]) for old, new in pairs)
            known = size == 0 and self.strategy is None  # then it is the fit as it is
            fitted = part if known else self._fitted(part, all_X, all_t, offsets, rng)
            rows.append(scores(fitted).mean(axis=1).tolist())
        if not len(at):
            return [*rows, *np.zeros((2, 3)).tolist()]
        other = self._solved(part, at, again, self.offset[: len(at)])
        each = scores(other)
        rows.append([*(_leave_one_out(other)[0] - each[:2].mean(axis=1)).tolist(), 0.0])
        return [*rows, (each.var(axis=1) / self.test).tolist()]

    def _inputs(self, X: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return inputs of further cases, and their offsets."""
        if self.pool is not None and self.of_pool is not None:
            chosen = rng.choice(len(self.pool), count, replace=len(self.pool) < count)
            return self.pool[chosen], self.of_pool[chosen]
        n, d = X.shape
        spread = X.std(axis=0)
        spread[[np.unique(column).size <= FEW_VALUES for column in X.T]] = 0.0
        width = n ** (-1.0 / (d + 4.0))  # Scott's rule
        rows = rng.integers(n, size=count)
        drawn = X[rows]
        moved = X.mean(axis=0) + (drawn - X.mean(axis=0)) / np.sqrt(1.0 + width**2)  # so that variances stay
        moved += width / np.sqrt(1.0 + width**2) * spread * rng.standard_normal(drawn.shape)
        return np.where(spread > 0, moved, drawn), self.offset[rows]

    def _fitted(self, part: Part, X: Array, t: Array, offset: Array, rng: np.random.Generator) -> Process:
        if self.strategy is None:
            return self._solved(part, X, t, offset)
        quiet, solver = Control(progress=False), part.method
        given = X, t, _likelihood(part, offset), part.kernel, solver, replace(quiet, throw=True)
        how: dict[str, Any] = {"control": quiet, "draws": 1, "chains": 1, "rng": rng, "progress": False}
        with one_thread_if_small(len(t)):
            return tune(Target(*given, **self.chosen), self.strategy, solver, **how).posterior

    def _solved(self, part: Part, X: Array, t: Array, offset: Array) -> Process:
        solver, control = part.method, Control(throw=True, progress=False)
        likelihood = _likelihood(part, offset)
        with one_thread_if_small(len(t)):
            problem = assemble_as(part.problem, part.kernel, X, t, likelihood, solver=solver, control=control)
            return make_process(part.kernel, X, problem, solver.solve(problem, control), solver)


def _likelihood(part: Part, offset: Array) -> Likelihood:
    return by_case(part.problem.likelihood.of_one_case, offset if offset.any() else None)


def _offsets(given: ArrayLike | None, known: Array, count: int) -> Array:
    """Return the offsets ``(m,)`` of so many cases, by those of the fit."""
    if given is not None:
        return np.asarray(as_offset(given, None, count))
    if np.any(known != known[0]):
        raise ValueError("the cases of the fit have offsets of their own. Give those of X: offset, a number for each.")
    return np.full(count, known[0])


def _scores(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return log predictive densities and errors ``(m,)`` of targets, given moments of their latent values."""
    score = likelihood.log_partition(t, mean, variance).value
    if likelihood.is_binary:
        return score, ((likelihood.predict_proba(mean, variance) > 0.5) != (t > 0)).astype(np.float64)
    return score, np.abs(t - expected_target(likelihood, mean, variance))


def _leave_one_out(process: Process) -> tuple[Array, Array]:
    """Return log score and error of the cases, each by the others, with their standard errors, ``(2,)`` each."""
    problem, loo = process.problem, process.loo
    each = np.array([loo.log_density, _scores(problem.likelihood, problem.t, loo.mean, loo.variance)[1]])
    return each.mean(axis=1), each.std(axis=1) / np.sqrt(problem.n)


def _expected(process: Process, offset: Array, rng: np.random.Generator) -> Array:
    """Return what a fit says of its leave-one-out values ``(2,)``: of targets drawn from what the others say.

    Of an average that is the mean of what its settings say, each as if it were known, as in data sets that are drawn.
    """
    some, expected = some_settings(process), np.zeros(2)
    times = -(-TARGETS // (offset.size * len(some.parts)))
    for weight, part in zip(some.weights, some.parts, strict=True):
        loo, likelihood = part.loo, part.problem.likelihood.of_one_case
        mean, variance = np.tile(loo.mean + offset, times), np.tile(loo.variance, times)
        drawn = likelihood.sample(mean + np.sqrt(variance) * rng.standard_normal(mean.size), rng)
        expected += weight * np.mean(_scores(likelihood, np.asarray(drawn, dtype=np.float64), mean, variance), axis=1)
    return expected


def _log_normal(mean: float, sd: float, z: Array) -> Array:
    """Return values of one sign with that mean and sd, by standard normal ones."""
    spread = float(np.sqrt(np.log1p((sd / mean) ** 2)))
    return np.asarray(mean * np.exp(spread * z - 0.5 * spread**2))


def _plan(
    values: Array, sizes: Array, shown: Array, now: tuple[Array, Array, Array], likelihood: Likelihood, level: float
) -> Plan:
    """Return the plan from ``values (replicas, sizes + 2, 3)``, moved to leave-one-out and its errors."""
    values, off, spread = values[:, :-2], values[:, -2, :2], values[:, -1, :2]
    seen = np.maximum(off.var(axis=0) - spread.mean(axis=0), 0.0)
    rng, sd = np.random.default_rng(0), np.maximum(now[1], np.sqrt(seen))
    z = rng.standard_normal((len(values), 3))
    gain_off = np.exp(GAIN_OFF * z[:, 2:] - 0.5 * GAIN_OFF**2) - 1.0
    mean, moved = values.mean(axis=0), values.copy()
    for k, by_ratio in enumerate((likelihood.is_discrete, True)):
        of_model, value, base = mean[:, k].copy(), now[0][k], now[2][k]
        if by_ratio and base:
            at = _log_normal(value, sd[k], z[:, k]) if value else np.sign(base) * sd[k] * np.abs(z[:, k])
            gain = np.divide(of_model, of_model[0], out=np.ones_like(of_model), where=of_model * of_model[0] > 0)
            moved[:, :, k] *= (at / base)[:, None] * gain**gain_off
            mean[:, k] *= value / base
        else:
            moved[:, :, k] += (value + sd[k] * z[:, k] - base)[:, None] + (of_model - of_model[0]) * gain_off
            mean[:, k] += value - base
    for each in (moved, mean):
        each[..., 0] = np.minimum(each[..., 0], 0.0 if likelihood.is_discrete else np.inf)
        each[..., 1] = np.clip(each[..., 1], 0.0, 1.0 if likelihood.is_binary else np.inf)
    kept = np.isin(sizes, shown)
    ends = np.quantile(moved[:, kept], [0.5 * (1.0 - level), 0.5 * (1.0 + level)], axis=0)
    index = pd.MultiIndex.from_product([shown.tolist(), QUANTITIES], names=["cases", "quantity"])
    columns = {"mean": mean[kept].ravel(), "lower": ends[0].ravel(), "upper": ends[1].ravel()}
    return Plan(pd.DataFrame(columns, index=index), values[:, kept], level)
