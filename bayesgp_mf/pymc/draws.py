"""What was integrated out, drawn again: latent values and predictions for each draw of the hyperparameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import as_generator
from bayesgp_mf.container.draws import as_stored
from bayesgp_mf.container.groups import Container, get_group, group_names, set_group
from bayesgp_mf.container.layout import SAMPLE_DIMS, Layout
from bayesgp_mf.container.loo import LEAVE_ONE_OUT
from bayesgp_mf.container.predictions import NewCases, drop_variable, set_draws, set_predictions
from bayesgp_mf.errors import ConvergenceError, Status, UndefinedQuantityError
from bayesgp_mf.inputs.frames import as_pandas, kind_of, row_labels
from bayesgp_mf.inputs.tables import as_inputs, check_same_features, facts_of_new_cases
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.processes.process import check_new_cases
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.pymc.marginal import Marginal
from bayesgp_mf.pymc.op import FAILURES
from bayesgp_mf.types import Array

Pointwise = Literal["leave_one_out", "latent"]


def sample_latent(
    idata: Container,
    gp: Marginal,
    X_new: ArrayLike | None = None,
    *,
    pointwise: Pointwise | None = None,
    random_seed: int | np.random.Generator | None = None,
    progress: bool = True,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Container:
    """Add latent values, labels and pointwise log-likelihoods to draws of the hyperparameters.

    For each draw of the hyperparameters it makes one draw from the Gaussian approximation there.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a model with ``gp``; it is changed in place.
    gp : Marginal
        The process, after `Marginal.marginal_likelihood`.
    X_new : (m, d) array_like, optional
        New inputs to predict.
    pointwise : {"latent", "leave_one_out"}, optional
        What the group ``log_likelihood`` holds. "latent" is log p(y_i | f_i) of the drawn latent value, as `fit` has
        it. "leave_one_out" is log p(y_i | other labels, hyperparameters), the method's own leave-one-out, with f
        integrated out [1]_. The default is "latent", or nothing under a step likelihood, where that takes only two
        values. ArviZ's functions expect "latent". With "leave_one_out", ``az.loo`` weights only the hyperparameters,
        and counts only them as parameters. `bgp.loo` always weights the leave-one-out densities, and counts all
        parameters.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    progress : bool
        Show a progress bar if it takes longer than a second.
    offset, trials : (m,) array_like, optional
        Those of the new cases, as for `predict`.

    Returns
    -------
    InferenceData or DataTree
        ``idata`` with ``f`` in ``posterior`` (chain, draw, cases). Under the name of the observed variable it has the
        group ``log_likelihood``, and in ``posterior_predictive`` labels drawn for the same ``f``. ``sample_stats`` has
        ``log_p`` and ``log_q`` for ``az.loo_approximate_posterior``, as `fit` has. The group ``leave_one_out``, for
        `bgp.loo` and `bgp.compare`, has ``log_density``, log p(y_i | other labels, hyperparameters), and
        ``log_density_at_training``, log p(y_i | all labels, hyperparameters). With ``X_new`` there are also the groups
        ``predictions`` (``f``, ``y``, and ``p``, the probability of class 1 with f integrated out) and
        ``predictions_constant_data``.

    Raises
    ------
    ValueError
        If ``idata`` has no draws of a hyperparameter, or ``offset`` or ``trials`` is missing or not needed.
    UndefinedQuantityError
        With ``pointwise="latent"`` under a step likelihood.
    ConvergenceError
        If the inner solver finds no solution at a draw.

    References
    ----------
    .. [1] Vehtari, A., Mononen, T., Tolvanen, V., Sivula, T., & Winther, O. (2016). Bayesian leave-one-out
       cross-validation approximations for Gaussian latent variable models. JMLR 17(103), 1-38.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> with pm.Model():
    ...     lengthscale = pm.LogNormal("lengthscale", 0.0, 0.5)
    ...     gp = bgp.pymc.Marginal(4.0 * pm.gp.cov.ExpQuad(toy.X.shape[1], ls=lengthscale))
    ...     y = gp.marginal_likelihood("y", toy.X, toy.y)
    ...     idata = pm.sample(5, tune=5, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    >>> idata = bgp.pymc.sample_latent(idata, gp, toy.X[:3], random_seed=2)
    >>> dict(idata["predictions"]["f"].sizes)
    {'chain': 1, 'draw': 5, 'obs_id': 3}
    """
    if pointwise not in ("latent", "leave_one_out", None):
        raise ValueError(f"pointwise must be 'latent', 'leave_one_out' or None, got {pointwise!r}.")
    posterior = get_group(idata, "posterior")
    missing = [name for name in gp.hyperparameters if name not in posterior]
    if missing:
        raise ValueError(f"the process depends on {missing[0]!r}, of which idata has no draws, only {list(posterior)}.")
    values = {name: posterior[name].transpose(*SAMPLE_DIMS, ...).values for name in gp.hyperparameters}
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    rng = as_generator(random_seed)
    kind, table = kind_of(X_new), as_pandas("X_new", X_new)
    check_same_features(gp.observed.features, table)
    X_new = None if table is None else as_inputs("X_new", table, copy=True)
    m = 0 if X_new is None else len(X_new)
    new_cases = facts_of_new_cases(table, m, offset, trials)
    rows, new_rows = list[dict[str, Array]](), list[dict[str, Array]]()
    n = get_group(idata, "observed_data")[gp.observed.name].size
    with one_thread_if_small(n), progress_bar("drawing", total=shape[0] * shape[1], enabled=progress) as advance:
        for at in np.ndindex(shape):
            try:
                process = gp.posterior({name: value[at] for name, value in values.items()})
            except FAILURES as reason:
                text = f"there is no solution at chain {at[0]}, draw {at[1]}: {reason}"
                raise ConvergenceError(text, Status.NO_VALID_STEP) from reason
            rows.append(_draw(process, rng))
            if pointwise == "latent" and not np.any(rows[-1]["slope"]):
                raise UndefinedQuantityError(
                    "under a step likelihood log p(y|f) takes two values only, and importance weights with it. Use "
                    "pointwise='leave_one_out', which integrates f out."
                )
            if X_new is not None:
                check_new_cases(process.problem.likelihood, new_cases)
                new_rows.append(_draw_new(replace(process, new_cases=new_cases), X_new, rng))
            advance("")
    drawn, name = _stack(rows, shape), gp.observed.name
    targets = (drawn["y"] > 0).astype(np.int64) if gp.observed.class_names else drawn["y"]
    set_draws(idata, "posterior", "f", drawn["f"], name)
    set_draws(idata, "posterior_predictive", name, targets, name)
    if "observed_data" in group_names(idata):  # where PyMC has them as reals, and ArviZ would not count them
        known = get_group(idata, "observed_data")
        set_group(idata, "observed_data", known.assign({name: known[name].astype(targets.dtype)}))
    for variable in ("log_density", "log_density_at_training"):
        set_draws(idata, LEAVE_ONE_OUT, variable, drawn[variable], name)
    densities = get_group(idata, LEAVE_ONE_OUT).assign_attrs(
        observed=name, probabilities=int(process.problem.likelihood.is_discrete)
    )
    if (weights := process.problem.likelihood.stored_by_case.get("weights")) is not None:
        observed = get_group(idata, "observed_data")[name]
        densities = densities.assign(weights=(observed.dims, weights))
    set_group(idata, LEAVE_ONE_OUT, densities)
    for variable in ("log_p", "log_q"):
        set_draws(idata, "sample_stats", variable, drawn[variable][..., 0])
    if pointwise == "leave_one_out":
        set_draws(idata, "log_likelihood", name, drawn["log_density"], name, {"pointwise": pointwise})
    elif np.any(drawn["slope"]):
        set_draws(idata, "log_likelihood", name, drawn["log_likelihood"], name, {"pointwise": "latent"})
    else:  # and what PyMC has there, of all labels at once, is none of single ones
        drop_variable(idata, "log_likelihood", name)
    if X_new is not None:
        cases = NewCases(X_new, row_labels("X_new", table), kind)
        features = np.arange(X_new.shape[1]) if gp.observed.features is None else np.array(gp.observed.features)
        layout = Layout(0, features, gp.observed.class_names)
        set_predictions(idata, cases, {}, _stack(new_rows, shape), layout, by_case=new_cases)
    return idata


def _draw(process: Posterior, rng: np.random.Generator) -> dict[str, Array]:
    """Draw f and targets for it, ``(n,)`` each, and return them with what is known of them: ``(n,)`` or ``(1,)``."""
    f, log_likelihood, log_p, log_q = process.draw(1, rng)
    return {
        "f": f[0],
        "y": as_stored(process.problem.likelihood, process.problem.likelihood.unshifted.sample(f[0], rng)),
        "log_likelihood": log_likelihood.value[0],
        "slope": log_likelihood.d1[0],
        "log_p": log_p,
        "log_q": log_q + process.log_evidence,
        "log_density": process.loo.log_density,
        "log_density_at_training": process.log_density_at_training,
    }


def _draw_new(process: Posterior, X_new: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Draw f and targets at new cases, ``(m,)`` each, and return them with the probability of class 1."""
    likelihood = process.new_likelihood
    f = process.draw_new(X_new, 1, rng)[0]
    drawn = {"f": f, "y": as_stored(likelihood, likelihood.sample(f, rng))}
    return drawn | ({"p": process.predict_proba(X_new)} if likelihood.is_binary else {})


def _stack(rows: list[dict[str, Array]], shape: tuple[int, int]) -> dict[str, Array]:
    return {name: np.array([row[name] for row in rows]).reshape(*shape, -1) for name in rows[0]}
