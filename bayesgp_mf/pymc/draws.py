"""What was integrated out, drawn again: latent values and predictions for each draw of the hyperparameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.container.predictions import NewCases, set_draws, set_predictions
from bayesgp_mf.errors import ConvergenceError, Status, UndefinedQuantityError
from bayesgp_mf.inputs import as_inputs, as_offset, as_pandas, as_trials, check_same_features, kind_of, row_labels
from bayesgp_mf.likelihoods.optional import unshifted
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.processes.new_cases import check_new_cases
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.pymc.marginal import Marginal
from bayesgp_mf.pymc.op import FAILURES
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

Pointwise = Literal["leave_one_out", "latent"]


def sample_latent(
    idata: Container,
    gp: Marginal,
    X_new: ArrayLike | None = None,
    *,
    pointwise: Pointwise = "leave_one_out",
    random_seed: int | np.random.Generator | None = None,
    progress: bool = True,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Container:
    """Add latent values, labels and pointwise log-likelihoods to draws of the hyperparameters.

    One draw for each draw of the hyperparameters, from the Gaussian approximation at it.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a model with ``gp``; it is changed in place.
    gp : Marginal
        After `Marginal.marginal_likelihood`.
    X_new : (m, d) array_like, optional
        Inputs to predict at, too.
    pointwise : {"leave_one_out", "latent"}
        What the group ``log_likelihood`` holds, for ``az.loo``: log p(y_i | other labels, hyperparameters), the
        method's own leave-one-out, in which f is integrated out [1]_; or log p(y_i | f_i) of the drawn latent value.
        The first leaves ``az.loo`` only the hyperparameters to weigh. With the second it is less reliable, as its
        Pareto k say, and may be far off where few labels decide about a latent value.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    progress : bool
        Show a progress bar if it takes longer than a second.
    offset, trials : (m,) array_like, optional
        Of the new cases, as `predict` has them.

    Returns
    -------
    InferenceData or DataTree
        ``idata`` with ``f`` in ``posterior`` (chain, draw, cases); and, under the name of the observed variable, the
        group ``log_likelihood``, and in ``posterior_predictive`` labels drawn for the same ``f``. With ``X_new`` also
        the groups ``predictions`` (``f``, ``y``, and ``p``, the probability of class 1 with f integrated out) and
        ``predictions_constant_data``.

    Raises
    ------
    ValueError
        If ``idata`` has no draws of a hyperparameter, or ``offset`` or ``trials`` is missing or not wanted.
    UndefinedQuantityError
        If log p(y_i | f_i) is asked for under a step likelihood, where it takes two values only.
    ConvergenceError
        If the inner solver finds no solution at a draw.

    References
    ----------
    .. [1] Vehtari, A., Mononen, T., Tolvanen, V., Sivula, T., & Winther, O. (2016). Bayesian leave-one-out
       cross-validation approximations for Gaussian latent variable models. JMLR 17(103), 1-38.
    """
    if pointwise not in ("latent", "leave_one_out"):
        raise ValueError(f"pointwise must be 'leave_one_out' or 'latent', got {pointwise!r}.")
    posterior = get_group(idata, "posterior")
    missing = [name for name in gp.hyperparameters if name not in posterior]
    if missing:
        raise ValueError(f"the process depends on {missing[0]!r}, of which idata has no draws, only {list(posterior)}.")
    values = {name: posterior[name].transpose(*SAMPLE_DIMS, ...).values for name in gp.hyperparameters}
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    rng = as_generator(random_seed)
    kind, table = kind_of(X_new), as_pandas("X_new", X_new)
    check_same_features(gp.observed.features, table)
    X_new = None if table is None else as_inputs("X_new", table)
    m = 0 if X_new is None else len(X_new)
    given = {"offset": as_offset(offset, table, m, "X_new"), "trials": as_trials(trials, table, m)}
    new_cases = {key: known for key, known in given.items() if known is not None}
    rows, new_rows = list[dict[str, Array]](), list[dict[str, Array]]()
    n = get_group(idata, "observed_data")[gp.observed.name].size
    with one_thread_if_small(n), progress_bar("drawing", total=shape[0] * shape[1], enabled=progress) as advance:
        for at in np.ndindex(shape):
            try:
                process = gp.posterior({name: value[at] for name, value in values.items()})
            except FAILURES as reason:
                text = f"there is no solution at chain {at[0]}, draw {at[1]}: {reason}"
                raise ConvergenceError(text, Status.NO_VALID_STEP) from reason
            rows.append(_draw(process, pointwise, rng))
            if X_new is not None:
                check_new_cases(process.problem.likelihood, new_cases)
                new_rows.append(_draw_new(replace(process, new_cases=new_cases), X_new, rng))
            advance("")
    drawn, name = _stack(rows, shape), gp.observed.name
    targets = (drawn["y"] > 0).astype(np.int64) if gp.observed.class_names else drawn["y"]
    set_draws(idata, name, "posterior", "f", drawn["f"])
    set_draws(idata, name, "log_likelihood", name, drawn["log_likelihood"], {"pointwise": pointwise})
    set_draws(idata, name, "posterior_predictive", name, targets)
    if X_new is not None:
        cases = NewCases(X_new, row_labels(table), kind)
        features = None if gp.observed.features is None else np.array(gp.observed.features)
        predicted, names = _stack(new_rows, shape), gp.observed.class_names
        set_predictions(idata, cases, {}, predicted, names, features, by_case=new_cases)
    return idata


def _draw(process: Posterior, pointwise: Pointwise, rng: np.random.Generator) -> dict[str, Array]:
    """Draw f and targets for it, ``(n,)`` each, and return them with the pointwise log-likelihood."""
    problem, likelihood = process.problem, unshifted(process.problem.likelihood)
    f = process.draw(1, rng).f[0]
    log_prob = likelihood.log_prob(problem.t, f)
    if pointwise == "leave_one_out":
        log_likelihood = process.loo.log_density
    elif np.any(log_prob.d1):
        log_likelihood = log_prob.value
    else:
        raise UndefinedQuantityError(
            "under a step likelihood log p(y|f) takes two values only, and importance weights with it. Use "
            "pointwise='leave_one_out', which integrates f out."
        )
    return {"f": f, "y": likelihood.sample(f, rng), "log_likelihood": log_likelihood}


def _draw_new(process: Posterior, X_new: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Draw f and targets at new cases, ``(m,)`` each, and return them with the probability of class 1."""
    likelihood = process.new_likelihood
    f = process.draw_new(X_new, 1, rng)[0]
    drawn = {"f": f, "y": likelihood.sample(f, rng)}
    return drawn | ({"p": process.predict_proba(X_new)} if likelihood.targets == "binary" else {})


def _stack(rows: list[dict[str, Array]], shape: tuple[int, int]) -> dict[str, Array]:
    return {name: np.array([row[name] for row in rows]).reshape(*shape, -1) for name in rows[0]}
