"""The user's door: from data to a container, from a container to predictions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.container.inferencedata import (
    check_parameter_names,
    draw_targets,
    fit_group,
    from_container,
    get_group,
    predictions_datasets,
    set_group,
    to_container,
)
from bayesgp_mf.errors import ConvergenceWarning
from bayesgp_mf.hyper import Evidence, LeaveOneOut, Prior, Scan, Strategy, Target, get_strategy
from bayesgp_mf.hyper.result import HyperResult, Record
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.inference.solution import Control, Solution, check_control
from bayesgp_mf.inputs import (
    as_generator,
    as_inputs,
    as_kernel,
    as_names,
    as_new_inputs,
    check_flags,
    check_positive_integers,
    check_same_cases,
    encode_targets,
    feature_names,
    warn_of_scale,
)
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit, Softmax
from bayesgp_mf.likelihoods.softmax_tilted import check_number_of_classes
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.low_rank import rank_of
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.methods import check_marginals, get_method
from bayesgp_mf.processes.mixture import Mixture
from bayesgp_mf.processes.several_classes import Process, make_process
from bayesgp_mf.processes.single import LARGEST_JOINT, Marginals
from bayesgp_mf.solvers.svm import svm
from bayesgp_mf.tuning import tune
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.container.inferencedata import Container

FEWER_DRAWS = "Ask for fewer: fit(..., draws=...)."
FEWER_NEW_DRAWS = "Predict without them, predict(idata, X_new, draws=False), in parts, or from a fit with fewer draws."

SAME_EVIDENCE = 1e-3
"""Two log evidences closer than this, in nats, belong to one solution."""

Seed = int | np.random.Generator | None


def fit(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Any,
    likelihood: Likelihood = Probit(),
    *,
    positive: Any = None,
    method: str = "tap",
    hyper: str | Strategy | None = None,
    evidence_of: str | None = None,
    priors: Mapping[str, Prior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Collection[str] = (),
    starts: int | None = None,
    draws: int = 1000,
    chains: int = 4,
    marginals: Marginals = "gaussian",
    random_seed: Seed = None,
    control: Control = Control(),
    progress: bool = True,
) -> Container:
    """Fit a Gaussian-process classifier and return its posterior as an ArviZ container.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs, finite; a data frame keeps its column names. They are used as they come: scale them to
        suit the length scales of the kernel.
    y : (n,) array_like
        Labels: any two distinct values. The larger, or later in the alphabet, is class 1; of a pandas Categorical the
        later category, where categories without a case are left out. With `Softmax` any number of classes, in sorted
        order or in that of a Categorical, whose categories are all classes, with or without a case. Rows are matched
        with those of ``X`` by position; of two pandas objects with the same index it must have the same order.
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        Prior covariance; with ``hyper="evidence"`` its parameters are where the search starts. Of a covariance function
        of PyMC these are its random variables, which bring their distributions as priors; the container cannot hold
        it, so that `predict` wants it again.
    likelihood : Likelihood
        `Probit` (default, noise variance 1), `Logit`, `Step`, `Softmax` for more than two classes (with
        ``method="tap"`` or "laplace"), or ``likelihoods.Gaussian`` for real targets.
    positive : label, optional
        Which of two labels is class 1, whatever their order.
    method : str
        Name of a method: a key of `methods.METHODS`.
    hyper : None, str or Strategy
        How the parameters of the kernel are chosen. None keeps them as given; "evidence" and "loo" maximise the log
        evidence or the leave-one-out log predictive density, "scan" takes the fewest leave-one-out errors on a grid,
        "hmc" draws them by the papers' hybrid Monte Carlo, "nuts" by PyMC's sampler (the strategy is `pymc.Nuts`),
        "surrogate" averages over draws from a Gaussian process that has learned evidence times prior, corrected by
        weights, and "integrate" over a few nodes around the mode. A strategy from `hyper`, such as
        ``hyper.Evidence(starts=5)``, has options. The likelihood is kept as given.
    evidence_of : str, optional
        The method by which hyperparameters are judged, if not ``method``: the papers' hybrid (2000, section 9).
    priors : mapping of str to Prior, optional
        By name of a parameter, such as ``{"lengthscale": hyper.LogNormal(0.0, 1.0)}``.
    bounds : mapping of str to (float, float), optional
        By name of a parameter, in its own units.
    fixed : collection of str
        Names of parameters that stay as given.
    starts : int, optional
        Descents of "evidence" and "loo" (3 by default); all but the first start at random around ``kernel``.
    draws, chains : int
        Draws of f from the posterior for each chain. They are independent; chains are ArviZ's layout. With "hmc" there
        is one draw of f for each draw of the hyperparameters instead.
    marginals : {"gaussian", "tilted"}
        Whether the draws of single latent values come from the Gaussian approximation, or from cavity times likelihood,
        whose shape is that of the exact posterior (2000, fig. 1). "tilted" is there for "tap", "naive" and
        "variational", needs an invertible Gram matrix, and is not for `Softmax`.
    random_seed : int, numpy.random.Generator or None
        Source of all randomness: draws, and random starts.
    control : Control
        Tolerance of the solver, and whether it raises.
    progress : bool
        Show a progress bar for what takes longer than a second.

    Returns
    -------
    InferenceData or DataTree
        What the installed ArviZ uses, with groups ``posterior`` (f), ``posterior_predictive`` (y),
        ``log_likelihood`` (y; left out where the likelihood is piecewise constant, as a step is),
        ``sample_stats`` (log_p, log_q, converged, n_iterations), ``observed_data``,
        ``constant_data`` (X) and ``fit`` (alpha, site_variance, latent_mean, latent_sd, cavity_mean, cavity_sd,
        loo_i, log_evidence, hyperparameters by name; how the search went; method, kernel, likelihood and
        status as attributes). A support-vector machine has no variance: there are no draws, and in ``fit`` only
        alpha, latent_mean and cavity_mean, its leave-one-out field. Where hyperparameters are averaged over, they stand
        in ``posterior`` by draw, ``sample_stats`` says which ``node`` a draw is of, and ``fit`` has the nodes.

    Raises
    ------
    ValueError
        If an argument is malformed; the message says what was expected and what came.
    InconsistentDataError
        If the labels have probability zero under a noise-free likelihood.
    ConvergenceError
        If the equations were not solved and ``control.throw``.
    NotPositiveDefiniteError
        If the method, or ``marginals="tilted"``, needs an invertible Gram matrix and this one is singular.
    MemoryError
        If the draws, or the dense matrices of n cases where they are needed (`Control`), would not fit into this
        machine's memory.

    Warns
    -----
    BoundWarning, ConvergenceWarning
        If a tuned parameter sits at a bound, or the search did not finish.
    UserWarning
        If the inputs have a scale at which the kernel makes most cases independent of all others, or all cases one.

    See Also
    --------
    predict : Predictions at new inputs.
    loo : Leave-one-out, to compare models.
    solve : The same from arrays, without inputs or a kernel.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> kernel = bgp.kernels.Gaussian(lengthscale=3.0) + bgp.kernels.Bias()
    >>> idata = bgp.fit(pima.X, pima.y, kernel, bgp.Probit(), random_seed=1)
    >>> round(float(idata["fit"]["log_evidence"]), 2)
    -104.1
    """
    names = feature_names("X", X)
    check_same_cases(X, y)
    X = as_inputs("X", X)
    t, class_names = encode_targets(y, X.shape[0], likelihood, positive)
    if isinstance(likelihood, Softmax):
        likelihood = likelihood.with_classes(class_names)
    strategy = _strategy(hyper, starts)
    check_positive_integers(draws=draws, chains=chains)
    check_control(control)
    check_flags(progress=progress)
    rng, fixed = as_generator(random_seed), as_names("fixed", fixed)
    kernel = as_kernel(kernel, tuned=strategy is not None)
    _check_kernel_per_class(kernel, likelihood)
    likelihood.to_dict()  # what cannot be saved is refused here, before any work is done
    check_parameter_names(kernel)
    solver = get_method(method, likelihood)
    if solver is not svm and (strategy is None or isinstance(strategy, Evidence | LeaveOneOut | Scan)):
        values = X.shape[0] * (len(class_names) if likelihood.targets == "classes" else 1)
        check_draws(draws * chains, values, "training", FEWER_DRAWS)  # other strategies bring their own number
    check_marginals(marginals, method)
    if likelihood.targets == "classes":
        _check_several_classes(len(class_names), (method, evidence_of), marginals)
    if marginals == "tilted":  # values changed one by one leave the span of a root of low rank
        if control.gram == "low_rank":
            raise ValueError("marginals='tilted' needs the dense Gram matrix. Use Control(gram='dense'), or 'auto'.")
        control = replace(control, gram="dense")
    posterior: Process | Mixture
    node, stats = np.zeros((chains, draws), dtype=np.intp), dict[str, Array]()
    extras, attrs = dict[str, xr.DataArray](), {"hyper": "none"}
    with one_thread_if_small(X.shape[0]):
        if strategy is None:
            _refuse_options(evidence_of=evidence_of, priors=priors, bounds=bounds, fixed=fixed)
            with np.errstate(over="ignore", invalid="ignore"):  # a kernel that overflows is refused by Problem
                problem = assemble(kernel, X, t, likelihood, method=method, control=control)
            posterior = make_process(kernel, X, problem, solver.solve(problem, replace(control, progress=progress)))
        else:
            judge = solver if evidence_of is None else get_method(evidence_of, likelihood)
            # a point that was not solved has no evidence, whatever the last solution may be
            inner = replace(control, throw=True, progress=False)
            priors = _with_own_priors(kernel, priors or {}, fixed)
            target = Target(X, t, likelihood, kernel, judge, inner, priors, bounds or {}, fixed)
            tuned = tune(
                target, strategy, solver, control=control, draws=draws, chains=chains, rng=rng, progress=progress
            )
            posterior, node, stats = tuned.posterior, tuned.node, tuned.stats
            extras = _record_variables(tuned.result.record, target.names)
            attrs = {"hyper": strategy.name, "hyper_judged_by": judge.name}
            if strategy.name == "evidence" and judge is solver:
                _compare_with_search(posterior.parts[0].solution, tuned.result)
        warn_of_scale(X, [kernel, *(part.kernel for part in posterior.parts)])
        return to_container(
            posterior,
            class_names=class_names,
            feature_names=names,
            node=node,
            rng=rng,
            sampler_stats=stats,
            fit_extras=extras,
            attrs=attrs,
            marginals=marginals,
        )


def predict(
    idata: Container, X_new: ArrayLike, *, kernel: Any = None, draws: bool = True, random_seed: Seed = None
) -> Container:
    """Add predictions at new inputs to a container, and return it.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file. It is changed in place; earlier predictions
        are replaced.
    X_new : (m, d) array_like
        New inputs, in the order and scale of the training inputs.
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Only for a fit whose kernel a container cannot hold, a covariance function of PyMC or a class of your own: the
        same again. Its parameters are those of the container.
    draws : bool
        Also draw latent values and labels, as many as the posterior has. More than 5000 new cases are drawn as
        functions of a smooth process, with prior covariances that are exact to 1e-8 of the prior variance; it is an
        error if they vary in more than 5000 ways that the training cases do not determine.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.

    Returns
    -------
    InferenceData or DataTree
        ``idata`` with the groups ``predictions`` and ``predictions_constant_data``. In ``predictions``, for
        each case, ``p``, the probability of class 1 (of each class, along ``class``, if there are several) integrated
        over the posterior (by TAP with several classes, over more than its Gaussian: `multiclass.nearest`),
        ``latent_mean`` and ``latent_sd``; and draws ``f`` and ``y`` (chain, draw, obs_id), jointly over the new cases.
        For real targets there is no ``p``. A support-vector machine has neither draws nor probabilities, only
        ``latent_mean`` and its sign, the ``decision`` (0 or 1, the class).

    Raises
    ------
    ValueError
        If ``idata`` is not ours, ``X_new`` does not fit it, there are too many cases to draw jointly, or ``kernel`` is
        missing, not wanted, or another one.
    MemoryError
        If the draws would not fit into this machine's memory.

    Notes
    -----
    New cases are gone through in blocks: without draws the memory beyond that of the training cases does not grow with
    their number, but for the results. Draws of f and y take 16 bytes each.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> idata = bgp.predict(idata, [[-1.0], [1.0]], random_seed=2)
    >>> idata["predictions"]["p"].values.round(2)
    array([0.09, 0.91])
    """
    class_names = tuple(json.loads(fit_group(idata).attrs["class_names"]))
    with one_thread_if_small(get_group(idata, "observed_data").sizes["obs_id"]):
        process = from_container(idata, kernel)
    check_flags(draws=draws)
    rng, first = as_generator(random_seed), process.parts[0]
    X_new = as_new_inputs(X_new, first.X, first.features)
    draws = draws and process.parts[0].solution.has_variance
    node = _nodes(idata) if draws else np.zeros((0, 0), dtype=np.intp)
    n_values = X_new.shape[0] * int(np.prod(process.problem.latent_shape[1:]))  # of each class
    check_draws(node.size, n_values, "new", FEWER_NEW_DRAWS)
    size = max(rank_of(part.problem.gram) or part.problem.n for part in process.parts)
    jointly = X_new.shape[0] if X_new.shape[0] <= LARGEST_JOINT else 0  # more are worked on in blocks
    with one_thread_if_small(max(size, jointly)):  # draws first, since they may be refused
        drawn = _draw_new(process, X_new, node, rng) if draws else {}
    with one_thread_if_small(size):
        values = _moments(process, X_new)
    features = get_group(idata, "constant_data")["feature"].values
    groups = predictions_datasets(X_new, features, values, drawn, class_names)
    for name, dataset in groups.items():
        set_group(idata, name, dataset)
    return idata


def _moments(process: Process | Mixture, X_new: Array) -> dict[str, NDArray[Any]]:
    """Return what is said of each new case without draws, ``(m,)`` or ``(m, C)``, by name."""
    if not process.parts[0].solution.has_variance:
        mean = process.latent_mean(X_new)
        return {"latent_mean": mean, "decision": (mean > 0).astype(np.int64)}
    if process.problem.likelihood.targets == "real":
        mean, variance = process.latent(X_new)
        return {"latent_mean": mean, "latent_sd": np.sqrt(variance)}
    mean, variance, proba = process.predictive(X_new)
    return {"latent_mean": mean, "latent_sd": np.sqrt(variance), "p": proba}


def _nodes(idata: Container) -> NDArray[np.intp]:
    """Return which part of the posterior each draw of the training cases is of, ``(chains, draws)``."""
    stats = get_group(idata, "sample_stats")
    if "node" in stats:
        return np.asarray(stats["node"].values, dtype=np.intp)
    return np.zeros(get_group(idata, "posterior")["f"].shape[:2], dtype=np.intp)


def _draw_new(
    process: Process | Mixture, X_new: Array, node: NDArray[np.intp], rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Draw latent values and targets ``(chains, draws, m)``, each at the hyperparameters of its draw at training."""
    if len(process.parts) == 1:
        f = process.parts[0].draw_new(X_new, node.size, rng)
        f = f.reshape(*node.shape, *f.shape[1:])
    else:
        f = np.empty((*node.shape, X_new.shape[0], *process.problem.latent_shape[1:]))
        for k, part in enumerate(process.parts):
            f[node == k] = part.draw_new(X_new, int(np.count_nonzero(node == k)), rng)
    return {"f": f, "y": draw_targets(process.problem.likelihood, f, rng)}


def posterior(idata: Container, *, kernel: Any = None) -> Process | Mixture:
    """Return the posterior process of a container: functions of arrays instead of labelled data.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file; nothing is unpickled.
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        As for `predict`: the kernel of the fit, if the container does not hold it.

    Returns
    -------
    Posterior, MulticlassPosterior or Mixture
        With ``latent(X_new)``, ``predict_proba(X_new)`` and ``loo``; for one setting of the hyperparameters also
        ``log_evidence``, ``kernel`` and ``draw``, for an average over several ``parts`` and ``weights``.

    Raises
    ------
    ValueError
        If the container was not made by this package, or ``kernel`` is missing, not wanted, or another one.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> mean, variance = bgp.posterior(idata).latent([[0.0]])
    >>> bool(abs(mean[0]) < 1e-6)
    True
    """
    return from_container(idata, kernel)


def _strategy(hyper: str | Strategy | None, starts: int | None) -> Strategy | None:
    """Return the strategy that is asked for, with its number of starts if that is given."""
    if hyper is None:
        _refuse_options(starts=starts)
        return None
    strategy = get_strategy(hyper)
    if starts is None:
        return strategy
    if not isinstance(hyper, str) or not isinstance(strategy, Evidence | LeaveOneOut):
        raise ValueError(
            f"starts goes with hyper='evidence' and 'loo', got starts={starts!r} with hyper={hyper!r}. "
            "Leave it out; a strategy has options of its own."
        )
    return replace(strategy, starts=starts)


def _check_kernel_per_class(kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise a ValueError if a kernel is one for each class, and the likelihood has a single latent value."""
    if kernel.per_class and likelihood.targets != "classes":
        raise ValueError(
            f"kernels.PerClass has a kernel for each class, and {type(likelihood).__name__} one latent value for each "
            "case. Use likelihood=bgp.Softmax(), or one kernel."
        )


def _check_several_classes(n_classes: int, methods: tuple[str | None, ...], marginals: str) -> None:
    """Raise a ValueError for what several classes do not have, before a search begins."""
    if "tap" in methods:
        check_number_of_classes(n_classes)
    if marginals == "tilted":
        raise ValueError(
            "marginals='tilted' are of one latent value for each case, and Softmax has one for each class. Use "
            "marginals='gaussian'; the probabilities p of predict have the shape that TAP knows all the same."
        )


def _refuse_options(**options: object) -> None:
    """Raise a ValueError if an option is given that does something only where hyperparameters are chosen."""
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} says how hyperparameters are chosen, and hyper=None keeps them. Give hyper.")


def _with_own_priors(kernel: Kernel, priors: Mapping[str, Prior], fixed: Collection[str]) -> Mapping[str, Prior]:
    """Add the priors that a kernel's parameters bring themselves, where none is given and they are not fixed."""
    own = {name: prior for name, prior in kernel.priors.items() if name not in fixed}
    return {**own, **priors} if own else priors  # what is malformed is for Target to refuse


def _compare_with_search(solution: Solution, result: HyperResult) -> None:
    """Warn if the equations at the tuned hyperparameters, solved from the prior, have another solution."""
    ends = {name: result.record[name][1] for name in ("hyper_log_evidence", "hyper_log_prior") if name in result.record}
    best = np.argmax(sum(ends.values()))  # with the prior: that is what was searched for
    search, value = float(ends["hyper_log_evidence"][best]), solution.evidence.value
    if abs(value - search) > SAME_EVIDENCE:
        warnings.warn(
            f"at the tuned hyperparameters the log evidence is {value:.3f} nats, but the search, which went from "
            f"solution to solution, saw {search:.3f}: the equations have several solutions there. Allow latent noise "
            "(Probit(noise_variance=...)), or compare fits at fixed hyperparameters.",
            ConvergenceWarning,
            stacklevel=3,
        )


def _record_variables(record: Record, names: tuple[str, ...]) -> dict[str, xr.DataArray]:
    """How the hyperparameters were found, with their names along ``hyper``."""
    return {
        name: xr.DataArray(values, dims=dims, coords={"hyper": list(names)} if "hyper" in dims else None)
        for name, (dims, values) in record.items()
    }
