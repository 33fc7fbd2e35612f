"""The user's door: from data to a container, from a container to predictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import as_generator, as_mapping, check_flags, check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.layout import TABLE, check_parameter_names
from bayesgp_mf.container.predictions import NewCases, add_predictions
from bayesgp_mf.container.quality import SMALL_EVIDENCE
from bayesgp_mf.container.read import from_container
from bayesgp_mf.container.stored import describe_likelihood, describe_priors
from bayesgp_mf.container.write import to_container
from bayesgp_mf.errors import BoundWarning, ConvergenceWarning, UndefinedQuantityError, warn
from bayesgp_mf.hyper import Evidence, HyperName, Prior, Strategy, Target, default_model, get_strategy
from bayesgp_mf.hyper.default import with_starts
from bayesgp_mf.hyper.forecast import inducing_by_default, warn_before
from bayesgp_mf.hyper.rounds import RECORDS, check_moves
from bayesgp_mf.hyper.scores import CorrectedScore
from bayesgp_mf.hyper.target import Model, bounds_pair, public_names, with_own_priors
from bayesgp_mf.inference import assembly
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inference.solver import Solver, traits_of
from bayesgp_mf.inputs import tables
from bayesgp_mf.inputs.frames import as_pandas, kind_of, row_labels
from bayesgp_mf.inputs.groups import as_inputs_of
from bayesgp_mf.inputs.inducing import as_inducing, warn_of_groups
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.inputs.options import as_kernel, as_likelihood, as_names, as_probabilities, check_model
from bayesgp_mf.inputs.scales import warn_of_offset, warn_of_scale
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.methods import MethodName, check_marginals, get_method
from bayesgp_mf.monotone import MONOTONE, as_monotone, check_monotone, describe_monotone, fit_monotone
from bayesgp_mf.names import naming_absent
from bayesgp_mf.processes.process import Marginals, Part, Process, Tuned, with_new_cases
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.tuning import tune
from bayesgp_mf.types import Array

FEWER_DRAWS = "Ask for fewer: fit(..., draws=...)."

SAME_WEIGHT = 1e-9
"""Of a mean weight above one: rounding of weights that were divided by theirs."""
SAME_EVIDENCE = 1e-3
"""Two log evidences closer than this, in nats, belong to one solution."""

Seed = int | np.random.Generator | None


@naming_absent()
def fit(
    X: Any,
    y: Any,
    kernel: Any = None,
    likelihood: str | Likelihood = Probit(),
    *,
    positive: Any = None,
    method: MethodName | Solver = "tap",
    hyper: HyperName | Strategy | None = None,
    priors: Mapping[str, Prior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Collection[str] = (),
    draws: int = 1000,
    chains: int = 4,
    marginals: Marginals = "gaussian",
    random_seed: Seed = None,
    control: Control = Control(),
    progress: bool = True,
    inducing: int | ArrayLike | Inducing | None = None,
    offset: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    monotone: Mapping[Any, int] | None = None,
) -> Container:
    """Fit a Gaussian process to labels, counts or measurements, and return its posterior as an ArviZ container.

    The default model of a table; counts with an exposure and a tuned kernel; many cases:

    .. code-block:: python

        idata = bgp.fit(frame, labels)
        idata = bgp.fit(X, y, Gaussian([1.0, 1.0]), bgp.Poisson(), offset=np.log(years), hyper="evidence")
        idata = bgp.fit(X, y, Matern32(1.0), bgp.Probit(), inducing=500, hyper="evidence")

    Parameters
    ----------
    X : (n, d) array_like
        Inputs, finite. A data frame of pandas, polars, pyarrow or xarray keeps its column names and row labels. `fit`
        does not scale inputs: scale them to suit the length scales of the kernel. A Dask collection goes to
        `sharded.fit`.
    y : (n,) array_like
        Targets. Labels may be any two distinct values. Class 1 is the larger one, or the later one in the alphabet; of
        a pandas Categorical it is the later category, and categories without a case are dropped. With `Softmax` there
        may be any number of classes, in sorted order, or in that of a Categorical, all of whose categories are classes.
        With `likelihoods.Censored` a structured array of a boolean field (was it seen?) and one of times, as
        scikit-survival has it; two columns, time and event (booleans, or 0 and 1); or two columns, lower and upper
        limit, the same where the target was seen and infinite where there is none.
        Rows match those of ``X`` by position; if both have row labels, these must be the same in the same order.
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. By default that of `hyper.default_model`, whose parameters are chosen: a smooth function of
        all columns in any units, with a length scale for each, an effect for each group that a column of text tells,
        and a constant; the noise of measurements then has a prior, too. A search for hyperparameters starts from the
        parameters of a kernel. The parameters of a PyMC covariance function are its random variables, and their
        distributions are the priors. A container cannot hold such a function, nor your own class, so `predict` needs it
        again; the same is true of ``likelihood`` and ``method``.
    likelihood : Likelihood or str
        A word such as "poisson", for one that needs no argument; or one of them: `Probit` (default, noise variance 1),
        `Logit`, `Step`; `MultinomialProbit` (by "tap") or `Softmax` (by "tap" or
        "laplace") for more than two classes; ``likelihoods.Gaussian`` for real targets; or your own.
    positive : label, optional
        The label that is class 1, whatever the order.
    method : str or Solver
        Name of a method, a key of `methods.METHODS`; or a solver with options, such as ``Exact(log2_points=16)``; or
        your own solver.
    hyper : None, str or Strategy
        How to choose the parameters of kernel and likelihood. None keeps them, or is "evidence" if no kernel is given.
        "evidence" and "loo" maximise the log
        evidence or the leave-one-out log predictive density. "scan" counts leave-one-out errors on a grid. The others
        average: "hmc" over draws by the papers' hybrid Monte Carlo, "nuts" over draws by PyMC's sampler (the strategy
        is `pymc.Nuts`), "surrogate" over weighted draws from a Gaussian process that has learned evidence times prior,
        "integrate" over a few nodes around the mode. A strategy from `hyper` has options, such as
        ``hyper.Evidence(starts=5)``, the points from which to search, or ``hyper.Evidence(method="laplace")``, whose
        evidence counts if not that of ``method``. Tuned parameters of the likelihood are ``noise_variance`` of
        ``likelihoods.Gaussian``, ``dispersion``, ``scale``, and a ``flip`` that is not zero; ``noise_variance`` of
        `Probit`, and ``df``, only with a prior or bounds.
    priors : mapping of str to Prior, optional
        By name of a parameter of kernel or likelihood, such as ``{"lengthscale": hyper.LogNormal(0.0, 1.0)}``. If both
        have a parameter of the same name, that of the likelihood is ``likelihood_...``.
    bounds : mapping of str to (float, float), optional
        By name of a parameter, in its own units.
    fixed : collection of str
        Names of parameters that keep their values.
    draws, chains : int
        Draws of f from the posterior for each chain. They are independent; chains are only ArviZ's layout. With
        "surrogate", draws that share hyperparameters are adjacent, so that ArviZ's errors are right. "hmc" and "nuts"
        have one draw of f for each draw of the hyperparameters instead.
    marginals : {"gaussian", "tilted"}
        Whether draws of single latent values come from the Gaussian approximation, or from the tilted distribution,
        cavity times likelihood, whose shape is closer to the exact posterior (2000, fig. 1). "tilted" works with "tap",
        "naive" and "variational", not with several classes, and needs an invertible Gram matrix.
    random_seed : int, numpy.random.Generator or None
        Source of all randomness: draws and random starts.
    control : Control
        Tolerance of the solver, and whether it raises.
    progress : bool
        Show a progress bar if it takes longer than a second.
    inducing : int, (M, d) array_like or Inducing, optional
        For very many cases under any kernel: the number of inducing cases, through which all cases are related; or
        inputs like ``X``; or an `Inducing` with options. The part of a prior variance that they do not explain counts
        as independent noise. Time grows as n M^2, memory as n M. A search for hyperparameters uses fewer of them, and
        beyond 20,000 cases a part of the cases. With "tap", "naive", "laplace" and, for real targets, "exact". Without
        a kernel 500 are taken from 3,001 cases on, but where the Gram matrix is of low rank, of several classes, or
        where a method or ``control`` asks for the Gram matrix of all.
    offset : float or (n,) array_like, optional
        Added to the latent value in the likelihood, p(y | f + offset), such as the log of an exposure. Results named
        ``f`` and ``latent`` do not include it. `predict` needs that of new cases.
    weights : (n,) array_like, optional
        How often each case counts, p(y | f)^weight: >= 0, and not all 0. New cases count once. Of several classes under
        `Softmax` by "laplace".
    monotone : mapping of str or int to {+1, -1}, optional
        Columns, by name or position, in which the function rises (+1) or falls (-1), such as ``{"dose": +1}``. Slopes
        are held to their signs at places in the data's range, which are added where the posterior breaks this most,
        until at most 1 % (``monotone.SHARE``) of some hundred places that are looked at have the wrong sign with a
        probability above 0.25. The log evidence, by which hyperparameters are chosen, is then that of the data given
        these signs: a fit without ``monotone`` has one to compare. By "tap", under a kernel whose functions have
        slopes, and without ``inducing``.

    Returns
    -------
    InferenceData or DataTree
        The type of the installed ArviZ, with groups ``posterior`` (f), ``posterior_predictive`` (y), ``log_likelihood``
        (y; missing if the likelihood is piecewise constant, as a step is), ``sample_stats`` (log_p, log_q, converged,
        n_iterations), ``observed_data``, ``constant_data`` (X) and ``fit`` (alpha, site_variance, latent_mean,
        latent_sd, cavity_mean, cavity_sd, loo_i, log_evidence, hyperparameters by name; how the search went; method,
        kernel, likelihood and status as attributes). An average over hyperparameters has them in ``fit`` by ``node``,
        with ``node_weight``, and ``sample_stats`` has the node of each draw. Random hyperparameters, but not the nodes
        of "integrate", are in ``posterior`` by draw too.

    Raises
    ------
    ValueError
        If an argument is invalid; the message says what was expected and what came.
    InconsistentDataError
        If the labels have probability zero under a noise-free likelihood.
    UndefinedQuantityError
        If the likelihood cannot draw targets, as a `Quadrature` of real targets without a ``sampler``.
    ConvergenceError
        If the equations were not solved and ``control.throw``.
    NotPositiveDefiniteError
        If the method, or ``marginals="tilted"``, needs an invertible Gram matrix and this one is singular.
    MemoryError
        If the draws, or dense matrices of n cases (`Control`), would not fit into this machine's memory.

    Warns
    -----
    BoundWarning, ConvergenceWarning
        If a tuned parameter is at a bound, the evidence has no maximum in it (noise beside weights), or the search did
        not finish.
    UserWarning
        If the scale of the inputs makes most cases independent of all others under the kernel, or all cases alike.

    See Also
    --------
    predict : Predictions at new inputs.
    sharded.fit : The same for a table in parts, on many machines.
    loo : Leave-one-out, to compare models.
    solve : The same for a Gram matrix and targets.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> kernel = bgp.kernels.Gaussian(lengthscale=3.0) + bgp.kernels.Bias()
    >>> idata = bgp.fit(pima.X, pima.y, kernel, bgp.Probit(), random_seed=1)
    >>> round(float(idata["fit"]["log_evidence"]), 2)
    -104.1
    """
    tables.check_here(X, y)
    kind, table, y = kind_of(X), as_pandas("X", X), as_pandas("y", y)
    features, labels = tables.feature_names("X", table), row_labels("X", table)
    tables.check_all_same_cases(X=table, y=y, offset=offset, weights=weights)
    y, likelihood = with_limits(y, as_likelihood(likelihood))
    strategy = None if hyper is None else get_strategy(hyper)
    by_default: Collection[str] = ()
    without_kernel = kernel is None
    if without_kernel:
        kernel, of_default = default_model(table, y, likelihood, offset=offset, weights=weights)
        limits = {k: bounds_pair(k, pair) for k, pair in as_mapping("bounds", bounds).items() if k in of_default}
        within = {name: np.clip(value, *limits[name]) for name, value in kernel.params.items() if name in limits}
        stated = {*as_mapping("priors", priors), *limits, *as_names("fixed", fixed)}
        of_default = {name: prior for name, prior in of_default.items() if name not in stated}
        started = with_starts(Model.of(kernel.replace(**within), likelihood), of_default)
        kernel, likelihood = started.kernel, started.likelihood
        priors, by_default = {**of_default, **(priors or {})}, of_default
        strategy = strategy or Evidence()
        if not isinstance(hyper, Strategy):  # one start, since it begins at the best that is alike
            strategy = strategy.with_starts(1)
    kernel = as_kernel(kernel, tuned=strategy is not None).with_column_names(features)
    X, kernel = as_inputs_of(kernel, table)
    t, class_names = encode_targets(y, X.shape[0], likelihood, positive)
    likelihood = likelihood.with_classes(class_names)
    describe_likelihood(likelihood)  # which raises if a container can say nothing of it
    by_log = tables.as_offset(offset, table, len(X))
    likelihood = by_case(likelihood, by_log, tables.as_weights(weights, table, len(X)))
    warn_of_offset(by_log, likelihood)
    check_control(control)
    check_flags(progress=progress)
    rng, fixed = as_generator(random_seed), as_names("fixed", fixed)
    if strategy is None:
        given = {"priors": as_mapping("priors", priors), "bounds": as_mapping("bounds", bounds), "fixed": fixed}
        for name, value in given.items():
            if value:
                raise ValueError(f"{name} says how hyperparameters are chosen, and hyper=None keeps them. Give hyper.")
    solver = get_method(method, likelihood)
    judge = solver if strategy is None or strategy.method is None else get_method(strategy.method, likelihood)
    control = control_of(marginals, solver, likelihood, control)
    if without_kernel and inducing is None and monotone is None:
        inducing = inducing_by_default(kernel, X, t, likelihood, (solver, judge), control)
    signs = {} if monotone is None else as_monotone(monotone, features, kernel, X)
    if signs:
        check_monotone(likelihood, inducing, strategy, (solver, judge))
        control = replace(control, gram="dense")
    chosen = as_inducing(inducing, X, features, kernel)
    check_integers(1, draws=draws, chains=chains)
    recorded = (*(() if strategy is None else strategy.records), *(() if chosen is None else RECORDS))
    _check_model(kernel, X, likelihood, (solver, judge), recorded)
    with one_thread_if_small(t.shape[0]):
        _check_sample(likelihood, t.shape[0], class_names)
    if chosen is not None:
        assembly.check_shared_kernel(kernel)
        assembly.check_inducing(likelihood, solver)
        assembly.check_inducing(likelihood, judge)
        check_moves(chosen, strategy, kernel)
        _check_form(marginals, control)
    if strategy is None or not strategy.averages:  # an average brings its own number
        values = X.shape[0] * (len(class_names) if likelihood.has_classes else 1)
        check_draws(int(draws) * int(chains), values, "training", FEWER_DRAWS)

    attrs = {"hyper": "none", TABLE: kind}

    begin = Model.of(kernel, likelihood, public_names(kernel, likelihood)).params

    def choose(data: tuple[Kernel, Array, Array, Likelihood], solver: Solver, judge: Solver) -> Tuned:
        now, X, t, likelihood = data
        if strategy is None:
            points = None if chosen is None else chosen.chosen(X, t, now, rng)
            if points is None:
                warn_before(now, X, t, likelihood, solver, control)
            process = _solve(now, X, t, likelihood, solver, replace(control, progress=progress), points)
            return Tuned(process, np.zeros((chains, draws), dtype=np.intp))
        # a point that was not solved has no evidence, whatever the last solution may be
        inner = replace(control, throw=True, progress=False)
        own = with_own_priors(now, priors, fixed)
        target = Target(X, t, likelihood, now, judge, inner, own, bounds or {}, fixed)
        if now.before_slopes is not kernel:  # it goes on from another search
            first = target.model.replace(**{name: begin[name] for name in target.model.params})
            target = replace(target, origin=first)
        check_parameter_names(target.model.params, recorded)
        _warn_of_weights(target, by_default)
        how: dict[str, Any] = {"draws": draws, "chains": chains, "rng": rng, "progress": progress}
        found = tune(target, strategy, solver, control=control, inducing=chosen, **how)
        attrs.update({"hyper": strategy.name, "hyper_judged_by": judge.name})
        attrs.update(describe_priors(found.priors, target.bounds, target.fixed))
        if strategy.corrected:
            attrs["hyper_score"] = CorrectedScore.noun
        if judge is solver and found.log_evidence is not None:
            _compare_with_search(found.posterior.parts[0], found.log_evidence)
        return found

    with one_thread_if_small(X.shape[0]):
        if signs:
            searches, data = strategy is not None and not strategy.averages, (kernel, X, t, likelihood)
            found = fit_monotone(choose, data, signs, (solver, judge), control, features, searches=searches)
            attrs[MONOTONE] = describe_monotone(signs)
        else:
            found = choose((kernel, X, t, likelihood), solver, judge)
        found = _with_correction(found)
        if chosen is not None:
            found = _with_inducing_error(found)
        warn_of_scale(X, [kernel, *(part.kernel for part in found.posterior.parts)])
        if chosen is not None:
            on_points: Any = found.posterior.parts[0].problem.matrix
            warn_of_groups(kernel, X, on_points.points, features)
        names: dict[str, Any] = {"class_names": class_names, "feature_names": features, "labels": labels}
        return to_container(found, **names, rng=rng, attrs=attrs, marginals=marginals)


def _with_correction(found: Tuned) -> Tuned:
    """Return a fit with what the second-order correction does to its evidence and its probabilities.

    Where there is one: at one setting of the hyperparameters, by TAP.
    """
    if found.posterior.averaged:
        return found
    (part,) = found.posterior.parts
    known, shift = part.corrections
    if known is None:
        return found
    solution = part.solution
    evidence = replace(solution.evidence, correction=known.correction, remaining=known.remaining)
    info = replace(solution.info, probability_shift=shift)
    return replace(found, posterior=replace(part, solution=replace(solution, evidence=evidence, info=info)))


def warn_of_inducing(error: float) -> None:
    """Warn if a log evidence may be off by more than is small by what became of the inducing inputs."""
    if error > SMALL_EVIDENCE:
        warn(
            "of inducing inputs that others nearly determine, as where they nearly repeat each other, double precision "
            f"has few digits left, or some were left out or moved: the log evidence may be off by {error:.2g} nats "
            "from that on all of them. Give inducing inputs that are farther apart, or fewer.",
            ConvergenceWarning,
        )


def _with_inducing_error(found: Tuned) -> Tuned:
    """Return a fit with what inducing inputs change that were moved apart or left out, and warn if it is much."""
    parts = found.posterior.parts
    errors = [assembly.inducing_error(part.kernel, part.X, part.problem, part.solution, part.method) for part in parts]
    if all(error is None for error in errors):
        return found
    warn_of_inducing(max(error or 0.0 for error in errors))
    infos = [replace(part.solution.info, inducing_error=e or 0.0) for part, e in zip(parts, errors, strict=True)]
    pairs = zip(parts, infos, strict=True)
    stated = [replace(part, solution=replace(part.solution, info=info)) for part, info in pairs]
    return replace(found, posterior=found.posterior.with_parts(stated))


@naming_absent()
def predict(
    idata: Container,
    X_new: ArrayLike,
    *,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    draws: bool = True,
    corrected: bool = False,
    random_seed: Seed = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    quantiles: ArrayLike | None = None,
) -> Container:
    """Add predictions at new inputs to a container, and return it.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file. It is changed in place; earlier predictions are replaced.
    X_new : (m, d) array_like
        New inputs, with the columns and scale of the training inputs. Predictions of a data frame have its row labels.
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        The kernel of the fit again, if a container cannot hold it: a covariance function of PyMC or your own class,
        also within a sum or product. Its parameters are those of the container.
    likelihood : Likelihood, optional
        The same for your own likelihood.
    method : Solver, optional
        The same for your own method.
    draws : bool
        Also draw latent values and targets, as many as the posterior has. False is much faster, and enough for
        probabilities, means and quantiles. Beyond 5000 new cases draws may be joint only within blocks; a warning says
        so.
    corrected : bool
        Correct predictions for most of TAP's error. The probability of one of two labels becomes the ratio of the
        evidences with and without it, both corrected to second order. For counts, levels and measurements the density
        of the latent value is corrected so, and with it all moments, quantiles and probabilities. Draws are not
        corrected. The attributes of the group say how many were ``corrected``, and by how much the two probabilities
        of a case, or the integral of its density, missed one before it was made one, at most: ``largest_sum_error``.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    offset : float or (m,) array_like, optional
        Offsets of the new cases, such as the log of their exposures; required if the fit has offsets.
    trials : int or (m,) array_like, optional
        Trials of the new cases, under `likelihoods.Binomial`.
    quantiles : (q,) array_like, optional
        Probabilities such as ``(0.05, 0.95)``. Adds ``y_quantile``, these quantiles of real targets, without
        Monte-Carlo error and averaged over the hyperparameters. For counts it is the smallest count that is reached
        with such a probability. All likelihoods of this package with numbers as targets have quantiles, except
        `Quadrature`.

    Returns
    -------
    InferenceData or DataTree
        ``idata`` with the groups ``predictions`` and ``predictions_constant_data``. ``predictions`` has for each case
        ``latent_mean``, ``latent_sd`` and ``p``, the probability of class 1 (with several classes, of each along
        ``class``) integrated over the posterior (by TAP with several classes, more accurately than by its Gaussian:
        `multiclass.joint`, `multiclass.nearest`); and draws ``f`` and ``y`` (chain, draw, obs_id), joint over the new
        cases. For real targets ``y_mean``, ``y_sd`` and, if asked for, ``y_quantile`` (obs_id, quantile) of a new
        target take the place of ``p``.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or ``X_new`` does not match it; if ``offset``, ``trials``,
        ``kernel``, ``likelihood`` or ``method`` is missing, not needed, or another than in the fit; if ``corrected`` is
        not possible for this fit; or if ``quantiles`` are not probabilities.
    UndefinedQuantityError
        If you ask for ``quantiles``, and targets are labels, or the likelihood has none.
    MemoryError
        If the draws would not fit into this machine's memory.

    Warns
    -----
    UserWarning
        If there are too many new cases to draw them jointly, and they are drawn in blocks; or if their probabilities
        may be off by more than 0.02, and by more than those at the data: see Notes.
    ConvergenceWarning
        If some of the probabilities could not be corrected.

    Notes
    -----
    By TAP, up to 4000 cases, corrections are measured at the few new cases whose latent values are the most skewed. The
    attribute ``probability_error`` of the group is the scale of the largest errors that follows.

    New cases are processed in blocks. Without draws, memory grows only by the results. Draws of f and y take 16 bytes
    each.

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
    check_flags(draws=draws, corrected=corrected)
    rng, process = as_generator(random_seed), from_container(idata, kernel, likelihood, method)
    kind, table = kind_of(X_new), as_pandas("X_new", X_new)
    new = process.new_inputs(table)
    given = tables.facts_of_new_cases(table, len(new), offset, trials)
    process = with_new_cases(process, given)
    warn_of_offset(given.get("offset"), process.parts[0].problem.likelihood)
    levels = as_probabilities("quantiles", quantiles)
    cases = NewCases(new, row_labels("X_new", table), kind)
    return add_predictions(idata, process, cases, draws=draws, rng=rng, corrected=corrected, quantiles=levels)


def posterior(
    idata: Container, *, kernel: Any = None, likelihood: Likelihood | None = None, method: Solver | None = None
) -> Process:
    """Return the posterior of a fit as an object whose methods take and return plain arrays.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    Process
        Both have ``latent(X_new)``, ``predict_proba(X_new)`` and ``loo``. For one setting of the hyperparameters there
        are also ``log_evidence``, ``kernel`` and ``draw``; for an average ``parts`` and ``weights``.

    Raises
    ------
    ValueError
        If the container was not made by this package, or one of these arguments is missing, not needed, or another than
        in the fit.

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
    return from_container(idata, kernel, likelihood, method)


def _check_sample(likelihood: Likelihood, n: int, class_names: tuple[str, ...]) -> None:
    """Raise an error if targets that are drawn at latent values of zero are none: before the search, not after it."""
    f = np.zeros((1, n, len(class_names)) if likelihood.has_classes else (1, n))
    drawn = np.asarray(likelihood.sample(f, np.random.default_rng(0)), dtype=np.float64)
    if drawn.shape != (1, n) or np.any(np.isnan(drawn)):  # the heaviest tails have targets beyond all digits
        what = "NaN for some" if drawn.shape == (1, n) else f"of shape {drawn.shape}"
        raise ValueError(
            f"sample(f, rng) of {type(likelihood.of_one_case).__name__} must return a target for each case, "
            f"shape {(1, n)} for f of shape {f.shape}, and what it returned is {what}."
        )


def _check_model(
    kernel: Kernel, X: Array, likelihood: Likelihood, solvers: tuple[Solver, ...], recorded: tuple[str, ...]
) -> None:
    """Raise an error if kernel, likelihood and methods do not go together, before any work is done.

    Nor if targets cannot be drawn, which a container has beside the latent values; nor if a parameter has the name of a
    dimension of what is ``recorded`` of a choice of hyperparameters.
    """
    check_model(kernel, X, likelihood)
    check_parameter_names(Model.of(kernel, likelihood).params, recorded)
    for solver in solvers:
        if not traits_of(solver).variance:
            raise UndefinedQuantityError(
                f"method {solver.name!r} is a limit in which the posterior is a single function, without variances, "
                f"draws or evidence. Use method='tap', or bgp.solve(kernel.gram(X), t, likelihood, "
                f"method={solver.name!r}) for that function, with t of -1 and +1."
            )
        check = traits_of(solver).check
        if check is not None:
            check(likelihood)


def control_of(marginals: Marginals, solver: Solver, likelihood: Likelihood, control: Control) -> Control:
    """Return the control that such marginals need, or raise a ValueError if there are none."""
    check_marginals(marginals, solver)
    if marginals != "tilted":
        return control
    if likelihood.has_classes:
        raise ValueError(
            "marginals='tilted' are of one latent value for each case, and there is one for each class. Use "
            "marginals='gaussian'."
        )
    if control.gram == "low_rank":  # values changed one by one leave the span of a root of low rank
        raise ValueError("marginals='tilted' needs the dense Gram matrix. Use Control(gram='dense'), or 'auto'.")
    return replace(control, gram="dense")


def _check_form(marginals: Marginals, control: Control) -> None:
    """Raise a ValueError if something else asks for another form of the Gram matrix than that on inducing cases."""
    if marginals == "tilted":  # values do not say which part of them is a case's own
        raise ValueError(
            "marginals='tilted' needs the dense Gram matrix. Use marginals='gaussian', or leave out inducing."
        )
    if control.gram != "auto":
        raise ValueError(
            f"inducing and Control(gram={control.gram!r}) ask for two forms of the Gram matrix. Leave out one of them."
        )


def _solve(
    kernel: Kernel,
    X: Array,
    t: Array,
    likelihood: Likelihood,
    solver: Solver,
    control: Control,
    points: Array | None = None,
) -> Process:
    """Return the posterior process of a kernel as it is, on inducing inputs if there are some."""
    with np.errstate(over="ignore", invalid="ignore"):  # a kernel that overflows is refused by Problem
        if points is not None:
            problem = assembly.assemble_inducing(kernel, X, t, likelihood, inducing=points)
        else:
            problem = assembly.assemble(kernel, X, t, likelihood, solver=solver, control=control)
    return make_process(kernel, X, problem, solver.solve(problem, control), solver)


def _warn_of_weights(target: Target, by_default: Collection[str]) -> None:
    """Warn if noise is tuned by itself under weights that make targets look repeated: then there is a best of none.

    A prior that is there ``by_default`` is too wide to hold it.
    """
    weights = target.likelihood.stored_by_case.get("weights")
    free = target.free_of_likelihood.items()
    names = [
        name
        for name, own in free
        if own in target.likelihood.of_one_case.unbounded_if_weighted
        and (name not in target.priors or name in by_default)
        and name not in target.bounds
    ]
    if weights is None or not names or np.mean(weights[weights > 0]) <= 1.0 + SAME_WEIGHT:
        return
    warn(
        f"weights above one in the mean ({np.mean(weights[weights > 0]):.3g}) count cases several times, and "
        f"{names[0]} is tuned: copies of one target look as if there were no noise, so that the evidence rises without "
        "a bound without noise, under every kernel that follows the targets. Divide the weights by their mean, fix "
        f"{names[0]}, or give it a narrow prior.",
        BoundWarning,
    )


def _compare_with_search(part: Part, search: float) -> None:
    """Warn if the equations at the tuned hyperparameters, solved from the prior, have another solution."""
    value = part.solution.evidence.value
    if abs(value - search) > SAME_EVIDENCE:
        warn(
            f"at the tuned hyperparameters the log evidence is {value:.3f} nats, but the search, which went from "
            f"solution to solution, saw {search:.3f}: the equations have several solutions there. Allow noise by "
            f"{part.problem.likelihood.ways_to_noise}, or compare fits at fixed hyperparameters.",
            ConvergenceWarning,
        )
