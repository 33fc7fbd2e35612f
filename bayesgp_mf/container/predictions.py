"""What is added to a container that is there: predictions at new cases, and draws at those that were observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.checks import nodes_of_draws
from bayesgp_mf.container.draws import draw_new
from bayesgp_mf.container.groups import Container, drop_group, get_group, group_names, group_or_empty, set_group
from bayesgp_mf.container.layout import SAMPLE_DIMS, TABLE, Layout, common_attrs
from bayesgp_mf.container.quality import GOOD_PROBABILITY, PROBABILITY_ERROR, quality_of_fit
from bayesgp_mf.container.stored import DAMAGED, refused_as
from bayesgp_mf.errors import UndefinedQuantityError, warn
from bayesgp_mf.likelihoods.below import quantiles as quantiles_of
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.processes.corrected import Points
from bayesgp_mf.processes.process import LARGEST_JOINT, Latent, Part, Process
from bayesgp_mf.types import Array

FEWER_NEW_DRAWS = "Predict without them, predict(idata, X_new, draws=False), in parts, or from a fit with fewer draws."

_OMITTED = (
    "A new target has no finite {} under this likelihood, or under those of some hyperparameters that are averaged "
    "over: its tails are too heavy. The draws y have quantiles all the same."
)


class NewCases(NamedTuple):
    """Cases to predict.

    Attributes
    ----------
    X : (m, d) array
        Inputs.
    labels : (m,) array or None
        What they are called, if they have labels.
    table : str
        Which library the table was of that they came in.
    """

    X: Array
    labels: NDArray[Any] | None = None
    table: str = "array"


def add_predictions(
    idata: Container,
    posterior: Process,
    cases: NewCases,
    *,
    draws: bool,
    rng: np.random.Generator,
    corrected: bool = False,
    quantiles: Array | None = None,
) -> Container:
    """Add to a container what its posterior says of each new case, and with ``draws`` as many as it has at training.

    Each draw is of the same setting of the hyperparameters as that at training. The probabilities are ``corrected`` if
    that is asked for. With ``quantiles`` ``(q,)`` there are those of real targets.
    """
    X_new = cases.X
    if quantiles is not None:
        _check_has_quantiles(posterior, len(X_new))
    if corrected:
        posterior.check_corrected()
    size = max(part.problem.matrix.width for part in posterior.parts)
    at_once = X_new.shape[0] if X_new.shape[0] <= LARGEST_JOINT else 0  # more are worked on in blocks
    drawn, jointly = dict[str, NDArray[Any]](), len(X_new)
    if draws:
        n_chains, n_draws, _, *classes = get_group(idata, "posterior")["f"].shape
        check_draws(n_chains * n_draws, X_new.shape[0] * int(np.prod(classes)), "new", FEWER_NEW_DRAWS)
        with one_thread_if_small(max(size, at_once)):  # draws first, since they may be refused
            drawn, jointly = _draw(idata, posterior, X_new, rng)
    with one_thread_if_small(size):
        values, attrs = (
            _corrected_moments(posterior, X_new, quantiles)
            if corrected
            else (moments_at(posterior, X_new, quantiles), _stated_error(get_group(idata, "fit"), posterior, X_new))
        )
    attrs |= _without_undefined(values)
    attrs |= {"cases_drawn_jointly": jointly} if jointly < len(X_new) else {}
    given = posterior.parts[0].new_cases
    set_predictions(idata, cases, values, drawn, Layout.of(idata), given, levels=quantiles, attrs=attrs)
    if jointly < len(X_new):
        warn(
            f"{len(X_new)} new cases are too many to be drawn jointly: several classes, or a kernel as rough as this, "
            f"allow {LARGEST_JOINT}. They are drawn in blocks of {jointly} in their order, jointly within each, and "
            "independently of the other blocks. Means, probabilities and the draws of each case are not concerned. "
            f"Predict at most {LARGEST_JOINT} cases at once, or without draws: predict(idata, X_new, draws=False)."
        )
    return idata


def _draw(
    idata: Container, posterior: Process, X_new: Array, rng: np.random.Generator
) -> tuple[dict[str, NDArray[Any]], int]:
    """Draw at new cases as many values as the container has at training, and return how many cases jointly."""
    there = get_group(idata, "posterior")
    node = np.zeros(there["f"].shape[:2], dtype=np.intp)
    if posterior.averaged:
        with refused_as(DAMAGED):
            node = nodes_of_draws(get_group(idata, "sample_stats")["node"], posterior, there)
    return draw_new(posterior, X_new, node, rng)


def moments_at(posterior: Process, X_new: Array, quantiles: Array | None = None) -> dict[str, NDArray[Any]]:
    """Return what is said of each new case without draws, ``(m,)`` or ``(m, C)``, by name."""
    if posterior.problem.likelihood.is_real:
        return _moments_of_targets(posterior, X_new, quantiles)
    mean, variance, proba = posterior.predictive_at(X_new)
    return {"latent_mean": mean, "latent_sd": np.sqrt(variance), "p": proba}


def _corrected_moments(
    posterior: Process, X_new: Array, quantiles: Array | None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what `moments_at` does, corrected, and attributes that say how far."""
    if posterior.problem.likelihood.is_real:
        points = [part.corrected_points_at(X_new) for part in posterior.parts]
        values = _moments_of_targets(posterior, X_new, quantiles, points)
        known = [each for each in points if each is not None]
        settled = np.all([np.ones(len(X_new), dtype=bool), *(each.settled for each in known)], axis=0)
        sum_error = max((each.largest_sum_error for each in known), default=0.0)
    else:
        values, found = moments_at(posterior, X_new), posterior.corrected_at(X_new)
        values["p"], sum_error, settled = found.p, found.largest_sum_error, found.settled
    return values, {
        "corrected": int(np.sum(settled)),
        "largest_sum_error": sum_error,
        "draws_of": "the Gaussian posterior: f and y are not tilted to what is corrected",
    }


def _stated_error(fit: xr.Dataset, posterior: Process, X_new: Array) -> dict[str, float]:
    """Return how far probabilities of new cases may be off, if it is known, and warn if it is more than the fit's."""
    shift = posterior.shift_at(X_new)
    if shift is None:
        return {}
    quality = quality_of_fit(fit, fit.sizes.get("obs_id", 0))
    error, of_fit = quality.error_of_shift(shift), quality.probability_error
    if error > max(GOOD_PROBABILITY, of_fit or 0.0):
        of_data = "" if of_fit is None else f", and at the training inputs by {of_fit:.2g}"
        warn(
            f"probabilities of these new cases may be off by about {error:.2g}{of_data}: the posterior of their latent "
            "values is skewed, as far from the data or with few cases. Use predict(idata, X_new, corrected=True)."
        )
    return {PROBABILITY_ERROR: error}


def _check_has_quantiles(posterior: Process, m: int) -> None:
    """Raise an UndefinedQuantityError if it is not known how likely targets of m cases are to be below a number."""
    likelihood, nothing = posterior.parts[0].problem.likelihood, np.zeros(m)
    name = type(likelihood.of_one_case).__name__
    if not likelihood.is_real:
        raise UndefinedQuantityError(
            f"quantiles are those of numbers, and {name} has labels, of which p is the probability. Leave them out."
        )
    if posterior.parts[0].new_likelihood.predictive_below(nothing, nothing, nothing) is None:
        raise UndefinedQuantityError(
            f"{name} does not say how likely a target is to be below a number (predictive_below). Take quantiles of "
            "draws, predictions['y'].quantile([0.05, 0.95], dim=('chain', 'draw')), or leave quantiles out."
        )


def _moments_of_targets(
    posterior: Process, X_new: Array, quantiles: Array | None, corrected: Sequence[Points | None] = ()
) -> dict[str, NDArray[Any]]:
    """Return mean and standard deviation ``(m,)`` of latent values, and of real targets where the likelihood knows.

    Of levels also their probabilities ``(m, K)``, and the quantiles ``(m, q)`` that are asked for. The latent values
    are those of the approximation, or ``corrected`` ones of each part.
    """
    known: list[tuple[float, Latent]] = []
    points = iter(corrected)

    def ask(part: Part, weight: float) -> tuple[Array, Array]:
        latent = part.latent_of_new(X_new, next(points, None))
        if quantiles is not None and weight > 0:
            known.append((weight, latent))
        target = latent.target_moments()
        each = [latent.latent_moments()] if target is None else [latent.latent_moments(), target]
        levels = latent.level_probabilities()
        each += [] if levels is None else [(p, np.zeros_like(p)) for p in levels.T]
        return np.array([mean for mean, _ in each]), np.array([variance for _, variance in each])

    mean, variance = posterior.moments(ask)
    names = (("latent_mean", "latent_sd"), ("y_mean", "y_sd"))[: len(mean)]
    found = zip(names, mean, np.sqrt(variance), strict=False)
    attrs = {name: value for pair, *values in found for name, value in zip(pair, values, strict=True)}
    if quantiles is not None:
        attrs["y_quantile"] = _quantiles(known, quantiles, attrs["latent_mean"], attrs["latent_sd"]).T
    return attrs if posterior.problem.likelihood.n_levels is None else {**attrs, "p": mean[len(names) :].T}


def _quantiles(known: list[tuple[float, Latent]], levels: Array, mean: Array, sd: Array) -> Array:
    """Return quantiles ``(q, m)`` of targets, given the weight and the latent values of each setting."""
    total = sum(weight for weight, _ in known)

    def below(t: Array) -> Array:
        return np.asarray(sum(weight * np.asarray(latent.below(t)) for weight, latent in known)) / total

    return quantiles_of(below, levels, mean, sd + 1.0, whole=known[0][1].likelihood.is_discrete)


def _without_undefined(values: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Leave out moments of targets that there are for no case, and return attributes that say why."""
    attrs: dict[str, Any] = {}
    for name, what in (("y_mean", "mean"), ("y_sd", "variance")):
        if name in values and (attrs or not np.any(np.isfinite(values[name]))):  # no variance without a mean
            del values[name]
            attrs[f"{name}_omitted"] = _OMITTED.format(what)
    return attrs


def set_predictions(
    idata: Container,
    cases: NewCases,
    values: dict[str, NDArray[Any]],
    draws: dict[str, NDArray[Any]],
    of_fit: Layout,
    by_case: Mapping[str, Array] | None = None,
    levels: Array | None = None,
    attrs: dict[str, Any] | None = None,
) -> None:
    """Put predictions into the groups ``predictions`` and ``predictions_constant_data``, in place of earlier ones.

    ``values`` are ``(m,)``; ``draws`` are ``(chains, draws, m)``, with targets under the name ``y``.
    What there is of each of several classes has them along a last axis, named as in the layout of what was fitted.
    ``by_case`` is what else was given of each new case, ``(m,)``, ``levels`` are those of the quantiles, and ``attrs``
    are further attributes of ``predictions``.
    """
    sizes = next((drawn.shape[:2] for drawn in draws.values()), (0, 0))
    layout = replace(of_fit, n=len(cases.X), sizes=sizes, labels=cases.labels)
    variables = {}
    for given, lead in ((values, ()), (draws, SAMPLE_DIMS)):
        for name, array in given.items():
            variables[name] = layout.targets(array, lead) if name == "y" else layout.variable(name, array, lead)
    if levels is not None:
        variables["y_quantile"] = variables["y_quantile"].assign_coords(quantile=levels)
    set_group(idata, "predictions", xr.Dataset(variables, attrs=common_attrs() | {TABLE: cases.table} | (attrs or {})))
    known = {"X": cases.X, **(by_case or {})}
    new = xr.Dataset({name: layout.variable(name, each) for name, each in known.items()}, attrs=common_attrs())
    set_group(idata, "predictions_constant_data", new)


def set_draws(
    idata: Container,
    group: str,
    name: str,
    values: NDArray[Any],
    observed: str | None = None,
    attrs: dict[str, str] | None = None,
) -> None:
    """Put a value for each draw ``(chain, draw)`` into a group, in place of a variable of that name.

    It has the coordinates of the draws in ``posterior``; and with ``observed``, of a value for each case too
    ``(chain, draw, n)``, those of that variable in ``observed_data``.
    """
    dims: tuple[Any, ...] = SAMPLE_DIMS
    coords: dict[Any, Any] = {dim: get_group(idata, "posterior")[dim] for dim in dims}
    if observed is not None:
        cases = get_group(idata, "observed_data")[observed]
        dims, coords = (*dims, *cases.dims), {**coords, **cases.coords}
    array = xr.DataArray(values, dims=dims, coords=coords, attrs=attrs)
    dataset = group_or_empty(idata, group)
    # one that is there, as PyMC's joint log-likelihood, may have other dimensions
    set_group(idata, group, dataset.drop_vars(name, errors="ignore").assign({name: array}))


def drop_variable(idata: Container, group: str, name: str) -> None:
    """Take a variable out of a group, if it is there; and the group with its last one."""
    if group not in group_names(idata):
        return
    dataset = get_group(idata, group).drop_vars(name, errors="ignore")
    if dataset.data_vars:
        set_group(idata, group, dataset)
    else:
        drop_group(idata, group)
