"""Times to an event: how likely each case is to be without it, when half are, its hazard, and how good that was.

All is of fits to targets whose distribution function is known: times, and measurements too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtri

from bayesgp_mf.arguments import as_generator, check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.read import from_container
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.frames import as_pandas, row_labels
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.inputs.options import as_probabilities
from bayesgp_mf.inputs.tables import as_numbers, facts_of_new_cases
from bayesgp_mf.likelihoods import Censored, Exponential, Likelihood
from bayesgp_mf.likelihoods.below import quantiles
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.processes.process import Part, with_new_cases
from bayesgp_mf.types import Array

__all__ = [
    "brier_curve",
    "concordance_index",
    "hazard",
    "kaplan_meier",
    "median_time",
    "population_survival",
    "survival_function",
]

_NODES = 199
"""Latent values of each case at each setting of the hyperparameters, by whose quantiles bands are made."""


def survival_function(
    idata: Container,
    X_new: ArrayLike,
    times: ArrayLike,
    *,
    level: float = 0.9,
    offset: ArrayLike | None = None,
    **given: Any,
) -> xr.Dataset:
    """Return how likely new cases are to be without the event at given times.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    X_new : (m, d) array_like
        New inputs, as `predict` takes them.
    times : (q,) array_like
        Times.
    level : float
        Posterior probability of the bands.
    offset : float or (m,) array_like, optional
        Offsets of the new cases; required if the fit has offsets.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    Dataset
        ``mean``, the probability integrated over the posterior, and ``lower`` and ``upper``, the band of the
        probability given latent value and hyperparameters, (obs_id, time).

    Raises
    ------
    ValueError
        If an argument is invalid.
    UndefinedQuantityError
        If the likelihood does not know how likely its targets are to be below a time.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import Censored, Weibull
    >>> X, y = np.arange(6.0)[:, None], [[2.0, 1], [1.0, 1], [3.0, 0], [5.0, 1], [4.0, 1], [6.0, 0]]
    >>> kernel = bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias()
    >>> idata = bgp.fit(X, y, kernel, Censored(Weibull(1.5)), draws=10, random_seed=1)
    >>> bgp.survival.survival_function(idata, X[[0, 5]], [1.0, 4.0])["mean"].values.round(2)
    array([[0.71, 0.17],
           [0.94, 0.65]])
    """
    new, at = _new_cases(idata, X_new, offset, given), _as_times(times)
    found = [_with_band(new, lambda setting, t=t: 1.0 - setting.below(t), level) for t in at]
    return new.dataset(np.stack(found, axis=-1), "mean", at)


def hazard(
    idata: Container,
    X_new: ArrayLike,
    times: ArrayLike,
    *,
    level: float = 0.9,
    offset: ArrayLike | None = None,
    **given: Any,
) -> xr.Dataset:
    """Return the rate of the event at given times among those new cases that are still without it.

    Parameters
    ----------
    idata, X_new, times, level, offset, **given
        As for `survival_function`; times > 0.

    Returns
    -------
    Dataset
        ``mean``, the rate among all that a case may be, density over survival probability, each integrated over the
        posterior; and ``lower`` and ``upper``, the band of the rate given latent value and hyperparameters.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import Exponential
    >>> X = np.arange(6.0)[:, None]
    >>> idata = bgp.fit(X, [2.0, 1.0, 3.0, 5.0, 4.0, 6.0], bgp.kernels.Bias(), Exponential(), draws=10, random_seed=1)
    >>> bgp.survival.hazard(idata, X[:1], [1.0, 9.0])["mean"].values.round(2)  # those who are left lived longer
    array([[0.33, 0.25]])
    """
    new, at = _new_cases(idata, X_new, offset, given), _as_times(times)
    if new.settings[0].likelihood.of_times and np.any(at <= 0):
        raise ValueError("times must be > 0: at 0 a hazard may be zero or infinite.")
    found = []
    for t in at:  # in logarithms, as late there is little of either
        density, above = (new.log_average(lambda s, of=of, t=t: of(s, t)) for of in (_log_density, _log_above))
        band = _with_band(new, lambda s, t=t: np.exp(_log_density(s, t) - _log_above(s, t)), level)
        found.append(np.stack([np.exp(density - above), *band[1:]]))
    return new.dataset(np.stack(found, axis=-1), "mean", at)


def median_time(
    idata: Container, X_new: ArrayLike, *, level: float = 0.9, offset: ArrayLike | None = None, **given: Any
) -> xr.Dataset:
    """Return when half of those like each new case have had the event.

    Parameters
    ----------
    idata, X_new, level, offset, **given
        As for `survival_function`.

    Returns
    -------
    Dataset
        ``median``, at which the ``mean`` of `survival_function` is one half, and ``lower`` and ``upper``, the band of
        the median given latent value and hyperparameters, (obs_id).

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import LogNormal
    >>> X, times = np.arange(4.0)[:, None], [1.0, 2.0, 4.0, 8.0]
    >>> idata = bgp.fit(X, times, bgp.kernels.Linear() + bgp.kernels.Bias(), LogNormal(0.1), draws=10, random_seed=1)
    >>> bgp.survival.median_time(idata, [[4.0]])["median"].values.round(0)
    array([15.])
    """
    new, half = _new_cases(idata, X_new, offset, given), np.array([0.5])
    centre, spread = new.average(lambda s: s.mean), new.average(lambda s: np.sqrt(s.variance)) + 1.0

    def below(t: Array) -> Array:
        return new.average(lambda setting: setting.below(t))

    def of_values(setting: _Setting) -> Array:
        shape = setting.mean.shape
        flat = [np.broadcast_to(each, shape).ravel() for each in (centre, spread)]
        return quantiles(lambda t: setting.below(t.reshape(shape)).reshape(t.shape), half, *flat, whole=False).reshape(
            shape
        )

    middle = quantiles(below, half, centre, spread, whole=False)[0]
    return new.dataset(np.stack([middle, *_with_band(new, of_values, level)[1:]]), "median")


def population_survival(
    idata: Container,
    times: ArrayLike,
    X_new: ArrayLike | None = None,
    *,
    level: float = 0.9,
    draws: int = 200,
    random_seed: Any = None,
    offset: ArrayLike | None = None,
    **given: Any,
) -> xr.Dataset:
    """Return which share of a group of cases is expected to be without the event at given times.

    Parameters
    ----------
    idata, times, level, offset, **given
        As for `survival_function`.
    X_new : (m, d) array_like, optional
        Inputs of the group; by default the cases of the fit.
    draws : int
        Functions of the posterior, by which the band is made.
    random_seed : int, numpy.random.Generator or None
        Source of them.

    Returns
    -------
    Dataset
        ``mean``, and ``lower`` and ``upper``, the band of the share given the function and the hyperparameters (time).

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import Exponential
    >>> X = np.arange(6.0)[:, None]
    >>> idata = bgp.fit(X, [2.0, 1.0, 3.0, 5.0, 4.0, 6.0], bgp.kernels.Bias(), Exponential(), draws=10, random_seed=1)
    >>> bgp.survival.population_survival(idata, [1.0, 9.0], random_seed=1)["mean"].values.round(2)
    array([0.72, 0.07])
    """
    new, at, rng = _new_cases(idata, X_new, offset, given), _as_times(times), as_generator(random_seed)
    check_integers(1, draws=draws)
    drawn = [
        setting._replace(mean=f, variance=np.zeros(f.shape))
        for setting, part in zip(new.settings, new.parts, strict=True)
        for f in [part.draw_at(new.X, max(1, round(draws * setting.weight)), rng)]
    ]
    shares = np.concatenate([np.stack([(1.0 - s.below(t)).mean(axis=-1) for t in at], axis=-1) for s in drawn])
    weights = np.concatenate([np.full(len(s.mean), s.weight / len(s.mean)) for s in drawn])
    mean = [new.average(lambda setting, t=t: 1.0 - setting.below(t)).mean() for t in at]
    found = zip(("mean", "lower", "upper"), (mean, *_band(shares, weights, level)), strict=True)
    return xr.Dataset({name: ("time", np.asarray(each)) for name, each in found}, {"time": at})


class _Setting(NamedTuple):
    """Latent Gaussians of new cases ``(..., m)`` at one setting of the hyperparameters, and its weight."""

    likelihood: Likelihood
    mean: Array
    variance: Array
    weight: float

    def below(self, t: Any) -> Array:
        """Return how likely targets are to be at most t."""
        known = self.likelihood.predictive_below(t + np.zeros_like(self.mean), self.mean, self.variance)
        if known is None:
            raise UndefinedQuantityError(
                f"{self.likelihood.display_name} does not know how likely a target is to be at most t. Fit times by "
                "likelihoods.Weibull or another one of times, or likelihoods.Censored of it."
            )
        return known

    def values(self) -> _Setting:
        """Return latent values ``(nodes, m)`` that are known, of equal weights."""
        scores = ndtri((np.arange(_NODES) + 0.5) / _NODES)
        f = self.mean + np.sqrt(self.variance) * scores[:, None]
        return self._replace(mean=f, variance=np.zeros(f.shape))


def _log_density(of: _Setting, t: float) -> Array:
    """Return the log density of targets at t."""
    return of.likelihood.log_partition(np.full(of.mean.shape, t), of.mean, of.variance).value


def _log_above(of: _Setting, t: float) -> Array:
    """Return the log of how likely targets are to be above t, with its digits where that is next to nothing."""
    one = of.likelihood.of_one_case
    if not hasattr(one, "between"):
        return np.asarray(np.log1p(-of.below(t)))
    later = by_case(Censored(one, np.full(of.mean.shape[-1], np.inf)), of.likelihood.stored_by_case.get("offset"))
    return _log_density(of._replace(likelihood=later), t)


class _NewCases(NamedTuple):
    """New cases at each setting of the hyperparameters, and their labels."""

    settings: list[_Setting]
    labels: NDArray[Any]
    parts: tuple[Part, ...]
    X: Array

    def average(self, of: Any) -> Array:
        """Return the average of what a function finds at the settings."""
        return np.asarray(sum(setting.weight * of(setting) for setting in self.settings))

    def log_average(self, of: Any) -> Array:
        """Return the logarithm of the average of what a function finds the logarithms of."""
        return np.asarray(logsumexp([np.log(setting.weight) + of(setting) for setting in self.settings], axis=0))

    def dataset(self, found: Array, name: str, times: Array | None = None) -> xr.Dataset:
        """Return an average and its band ``(3, m, ...)`` by name."""
        dims = ("obs_id",) if times is None else ("obs_id", "time")
        coords = {"obs_id": self.labels} | ({} if times is None else {"time": times})
        return xr.Dataset(dict(zip((name, "lower", "upper"), ((dims, each) for each in found), strict=True)), coords)


def _new_cases(idata: Container, X_new: Any, offset: Any, given: dict[str, Any]) -> _NewCases:
    """Return what is to be asked of new cases."""
    process, table = from_container(idata, **given), as_pandas("X_new", X_new)
    first = process.parts[0]
    X = first.X if table is None else process.new_inputs(table)
    if table is None:
        offset = first.problem.likelihood.stored_by_case.get("offset")
    process = with_new_cases(process, facts_of_new_cases(X if table is None else table, len(X), offset, None))
    labels = row_labels("X_new", table)

    def at(part: Part, weight: float) -> _Setting:
        return _Setting(part.new_likelihood, *part.latent_at(X), weight)

    settings = [at(*pair) for pair in zip(process.parts, process.weights, strict=True)]
    return _NewCases(settings, np.arange(len(X)) if labels is None else labels, process.parts, X)


def _with_band(new: _NewCases, of: Any, level: float) -> Array:
    """Return the average ``(m,)`` of what a function finds of settings, and the band of what it finds of values."""
    values = np.concatenate([of(setting.values()) for setting in new.settings])
    return np.stack([new.average(of), *_band(values, np.repeat([one.weight for one in new.settings], _NODES), level)])


def _band(values: Array, weights: Array, level: float) -> Array:
    """Return the ends ``(2, m)`` of the central interval of values ``(k, m)`` with weights ``(k,)``."""
    (inside,) = as_probabilities("level", [level])  # type: ignore[misc]
    ends, each = [0.5 * (1.0 - inside), 0.5 * (1.0 + inside)], weights[:, None] + np.zeros(values.shape)
    return np.asarray(np.quantile(values, ends, axis=0, weights=each, method="inverted_cdf"))


def _as_times(times: ArrayLike) -> Array:
    found = np.atleast_1d(as_numbers("times", times))
    if found.ndim != 1 or not np.all(np.isfinite(found)):
        raise ValueError(f"times must be finite numbers (q,), got {times!r:.80}.")
    return found


def _time_and_event(name: str, y: Any) -> tuple[Array, NDArray[np.bool_]]:
    """Return times, and whether each is that of the event, of targets as `fit` takes them."""
    t, censored = with_limits(y, Censored(Exponential()))
    other = np.full(len(t), np.nan) if censored.other_limit is None else np.asarray(censored.other_limit)  # type: ignore[attr-defined]
    if np.any(other < np.inf):
        raise ValueError(f"{name} must have times that were seen or are censored from the right, and has other limits.")
    return np.asarray(t, dtype=np.float64), np.isnan(other)


def kaplan_meier(y: ArrayLike) -> tuple[Array, Array]:
    """Return the distinct times ``(k,)`` of cases and the share without the event after each (Kaplan and Meier, 1958).

    Parameters
    ----------
    y : array_like
        Times and events, as `fit` takes them.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.survival.kaplan_meier([[1.0, 1], [2.0, 0], [2.0, 1], [3.0, 1]])[1]
    array([0.75, 0.5 , 0.  ])
    """
    time, event = _time_and_event("y", y)
    return _product_limit(time, event)


def _product_limit(
    time: Array, event: NDArray[np.bool_], after: NDArray[np.bool_] | None = None
) -> tuple[Array, Array]:
    """Return distinct times and the share without the event after each; ``after`` are gone before one is at risk."""
    distinct, which = np.unique(time, return_inverse=True)
    at_risk = np.cumsum(np.bincount(which)[::-1])[::-1].astype(np.float64)
    if after is not None:
        at_risk = at_risk - np.bincount(which, after)
    happened = np.bincount(which, event)
    return distinct, np.asarray(np.cumprod(1.0 - happened / np.maximum(at_risk, 1)), dtype=np.float64)


def concordance_index(y: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of pairs of cases that were predicted in the order in which they had the event.

    Pairs of which it is known who had it first (Harrell et al., Statistics in Medicine 15, 1996, p. 370); one that was
    predicted to be equal counts half. Two events at one time are no such pair.

    Parameters
    ----------
    y : array_like
        Times and events, as `fit` takes them.
    predicted : (n,) array_like
        What is larger where the event comes later, such as `median_time`.

    Raises
    ------
    ValueError
        If there is no such pair.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.survival.concordance_index([[1.0, 1], [2.0, 0], [3.0, 1]], [0.5, 2.0, 1.5])
    1.0
    """
    time, event = _time_and_event("y", y)
    score = np.asarray(predicted, dtype=np.float64)
    if score.shape != time.shape or not np.all(np.isfinite(score)):
        raise ValueError(f"predicted must be a finite number for each of {time.size} cases, got shape {score.shape}.")
    pairs = ordered = 0.0
    for one in np.flatnonzero(event):
        gap = (score - score[one])[(time > time[one]) | ((time == time[one]) & ~event)]
        pairs += gap.size
        ordered += np.sum(gap > 0) + 0.5 * np.sum(gap == 0)
    if not pairs:
        raise ValueError("y has no two cases of which it is known who had the event first.")
    return float(ordered / pairs)


def brier_curve(y: ArrayLike, survival: ArrayLike, times: ArrayLike, *, y_fit: ArrayLike | None = None) -> Array:
    """Return mean squared errors of survival probabilities at given times, in which censored cases are weighed for.

    Each case counts by the inverse of the probability to be still observed (Graf et al., Statistics in Medicine 18,
    1999, eq. 10), from the Kaplan-Meier curve of the censoring.

    Parameters
    ----------
    y : array_like
        Times and events, as `fit` takes them.
    survival : (n, q) array_like
        Probability of each case to be without the event at each time, such as `survival_function`.
    times : (q,) array_like
        Times, before the last one that was observed.
    y_fit : array_like, optional
        Times and events by which the censoring is estimated, such as those of the fit; by default ``y``.

    Returns
    -------
    (q,) array
        0 is best; 0.25 is what a probability of one half has.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.survival.brier_curve([[1.0, 1], [2.0, 0], [3.0, 1]], [[0.2], [0.9], [0.7]], [1.5]).round(3)
    array([0.047])
    """
    (time, event), at = _time_and_event("y", y), _as_times(times)
    p = np.asarray(survival, dtype=np.float64)
    if p.shape != (time.size, at.size) or not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"survival must hold probabilities ({time.size}, {at.size}), a row a case, got {p.shape}.")
    known, seen = (time, event) if y_fit is None else _time_and_event("y_fit", y_fit)
    distinct, observed = _product_limit(known, ~seen, seen)
    steps = np.concatenate([[1.0], observed])

    def still(t: Array) -> Array:
        return steps[np.searchsorted(distinct, t, side="right")]

    if np.any(still(at) <= 0):
        raise ValueError(f"times must be before {distinct[observed <= 0][0]:g}, from which on no case was observed.")
    had, not_yet = (time[:, None] <= at) & event[:, None], time[:, None] > at
    own = np.where(time <= at.max(), still(time), 1.0)[:, None]  # nobody may be left at a later time
    return np.asarray(np.mean(had * p**2 / own + not_yet * (1.0 - p) ** 2 / still(at), axis=0))
