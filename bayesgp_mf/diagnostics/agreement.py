"""Two containers of the same model, held against each other case by case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, group_names, group_or_empty
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.container.loo import is_of_draws, loo, pointwise_of
from bayesgp_mf.container.read import has_random_kernels
from bayesgp_mf.diagnostics import importance
from bayesgp_mf.hyper.pareto import smooth
from bayesgp_mf.types import Array

LEVELS = (0.05, 0.5, 0.95)
"""Of the quantiles."""
SHIFT, STRETCH, DISTANCE = 0.1, 0.1, 0.1
"""What counts as agreement: of means in posterior sds, of sds relative to each other, of W1 in posterior sds ..."""
PROBABILITY, NATS = 0.02, 0.1
"""... of predicted probabilities, and of log evidences and of log predictive densities of single cases."""
FOUR_MOMENTS = 0.25
"""Pareto's k-hat up to which importance weights have four moments: with fewer the errors of averages are not known."""
ERRORS = 4.0
"""Monte-Carlo standard errors by which the worst of many cases may miss a tolerance before that says anything."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One quantity from both containers, arrays of one shape.

    Attributes
    ----------
    first, second : array
        The quantity.
    first_error, second_error : array
        Monte-Carlo standard errors; 0 where the number does not come from draws.
    """

    first: Array
    first_error: Array
    second: Array
    second_error: Array

    @property
    def difference(self) -> Array:
        """The first less the second."""
        return self.first - self.second

    @property
    def error(self) -> Array:
        """Monte-Carlo standard error of the difference."""
        return np.hypot(self.first_error, self.second_error)


class _Gap(NamedTuple):
    """Differences, their errors, and what is allowed."""

    noun: str
    difference: Array
    error: Array
    allowed: float
    unit: str

    @property
    def differs(self) -> bool:
        return bool(np.any(np.abs(self.difference) - ERRORS * self.error > self.allowed))

    @property
    def agrees(self) -> bool:
        return bool(np.all(np.maximum(np.abs(self.difference), self.error) <= self.allowed))

    def __str__(self) -> str:
        worst = int(np.argmax(np.abs(self.difference)))
        return f"{self.noun} {abs(self.difference[worst]):.3g} ± {self.error[worst]:.1g}{self.unit}"


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How far two posteriors of the same latent values agree; ``str`` of it is a line with the verdict.

    Attributes
    ----------
    mean, sd : Compared
        Of f at each training case, ``(n,)`` in latent units; of several classes ``(n, C)``, and so below.
    quantiles : Compared
        The 5, 50 and 95 % quantiles of f, ``(3, n)`` in latent units.
    w1, w1_error : (n,) array
        Wasserstein distance of the marginals, the area between their distribution functions, in latent units, and
        a bound on its expected Monte-Carlo error. Draws of one and the same distribution have a distance of about
        that error, not of zero.
    probability : Compared or None
        Predicted probability of class 1, ``(m,)``, or of ordered levels or several classes, ``(m, K)``, if both have
        predictions of it.
    new_mean, new_sd : Compared or None
        Of f at each new case, ``(m,)`` in latent units, where predictions of both have no probabilities: of counts and
        measurements.
    log_evidence : Compared or None
        ``(1,)`` in nats, if both have one.
    leave_one_out : Compared or None
        Log predictive density of each case given the others, ``(k,)`` in nats, if both have it: by `bgp.loo` of a fit,
        by Pareto-smoothed importance sampling of draws.
    left_out : (k,) array of int
        The numbers of these cases: those whose importance weights have a Pareto k-hat of at most 0.25, of a fit all.
    obs_id : (n,) array or None
        Labels of the training cases, if one of the two has labels.
    """

    mean: Compared
    sd: Compared
    quantiles: Compared
    w1: Array
    w1_error: Array
    probability: Compared | None
    log_evidence: Compared | None
    obs_id: NDArray[Any] | None = None
    leave_one_out: Compared | None = None
    left_out: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    new_mean: Compared | None = None
    new_sd: Compared | None = None

    @property
    def verdict(self) -> str:
        """Whether they "agree", "differ", or it is "open" because the Monte-Carlo error is too large to tell."""
        gaps = list(self._gaps())
        if any(gap.differs for gap in gaps):
            return "differ"
        return "agree" if all(gap.agrees for gap in gaps) else "open"

    def __str__(self) -> str:
        gaps, n = list(self._gaps()), len(self.mean.first)
        largest = f"largest differences over {n} cases (± Monte-Carlo error): "
        match self.verdict:
            case "differ":
                named = [f"{gap} where {gap.allowed:g} is allowed" for gap in gaps if gap.differs]
                return f"They differ; {largest}{', '.join(named)}."
            case "agree":
                return f"They agree; {largest}{', '.join(map(str, gaps))}."
        named = [str(gap) for gap in gaps if not gap.agrees]
        return f"Too few draws to tell whether they agree; {largest}{', '.join(named)}. Take more draws."

    def to_dataset(self) -> xr.Dataset:
        """Return all numbers as a data set, with dimensions obs_id, quantile, predicted_id, left_out_id.

        Also level where targets are ordered, and class where there are several.
        """
        cases = ("obs_id", "class")[: self.mean.first.ndim]
        level = "level" if len(cases) == 1 else "class"
        predicted = ("predicted_id", level)[: 1 if self.probability is None else self.probability.first.ndim]
        variables: dict[str, Any] = {"w1": (cases, self.w1), "w1_error": (cases, self.w1_error)}
        parts = {
            "mean": (self.mean, cases),
            "sd": (self.sd, cases),
            "quantile_value": (self.quantiles, ("quantile", *cases)),
            "probability": (self.probability, predicted),
            "new_mean": (self.new_mean, ("predicted_id",)),
            "new_sd": (self.new_sd, ("predicted_id",)),
            "log_evidence": (self.log_evidence, ()),
            "leave_one_out": (self.leave_one_out, ("left_out_id",)),
        }
        for name, (compared, dims) in parts.items():
            if compared is not None:
                for side in ("first", "first_error", "second", "second_error"):
                    values = getattr(compared, side)
                    variables[f"{name}_{side}"] = (dims, values if dims else values[0])
        coords = {"quantile": np.array(LEVELS), **({} if self.obs_id is None else {"obs_id": self.obs_id})}
        coords |= {} if self.leave_one_out is None else {"left_out_id": self.left_out}
        return xr.Dataset(variables, coords, {"verdict": self.verdict, "summary": str(self)})

    def _gaps(self) -> Iterator[_Gap]:
        unit = self.sd.second

        def gap(noun: str, compared: Compared, allowed: float, in_words: str, unit: Array | float = 1.0) -> _Gap:
            difference, error = (np.ravel(values / unit) for values in (compared.difference, compared.error))
            return _Gap(noun, difference, error, allowed, in_words)

        yield gap("mean", self.mean, SHIFT, " sd", unit)
        yield gap("sd", self.sd, STRETCH, " (relative)", unit)
        yield _Gap("Wasserstein distance", np.ravel(self.w1 / unit), np.ravel(self.w1_error / unit), DISTANCE, " sd")
        if self.probability is not None:
            yield gap("probability", self.probability, PROBABILITY, "")
        if self.new_mean is not None and self.new_sd is not None:
            of_new = self.new_sd.second
            yield gap("mean of new cases", self.new_mean, SHIFT, " sd", of_new)
            yield gap("sd of new cases", self.new_sd, STRETCH, " (relative)", of_new)
        if self.log_evidence is not None:
            yield gap("log evidence", self.log_evidence, NATS, " nats")
        if self.leave_one_out is not None and self.left_out.size:
            n, of = len(self.mean.first), self.left_out.size
            but = "" if of == n else f" ({of} of {n} cases, those with a k-hat of at most {FOUR_MOMENTS:g})"
            yield gap(f"leave-one-out density{but}", self.leave_one_out, NATS, " nats")


def agreement(first: Container, second: Container) -> Agreement:
    """Compare two posteriors of one model: two methods, or a method and samples.

    Parameters
    ----------
    first, second : InferenceData or DataTree
        Containers with latent values ``f (chain, draw, case)`` of the same training cases in the group ``posterior``:
        what `fit` returned, or `pymc.sample` for a latent model. The second is the one to measure by: its standard
        deviations are the unit of the verdict.

    Returns
    -------
    Agreement
        Means, standard deviations, quantiles, Wasserstein distances, probabilities and evidences with Monte-Carlo
        errors; ``print`` gives the verdict in a line.

    Raises
    ------
    ValueError
        If a container has no such draws, or too few; or if cases, labels, classes or predictions differ.

    Notes
    -----
    Means and standard deviations of a fit with Gaussian marginals are those of the Gaussian, without Monte-Carlo
    error; everything else is taken from the draws, with the errors that ArviZ gives for chains.

    The expected error of W1 is at most the integral of sqrt(2/pi) s(x), where s is the standard error of the difference
    of the two distribution functions at x for as many independent draws as the effective ones.

    They agree if no difference, and no Monte-Carlo error, exceeds 0.1 posterior standard deviations (means, W1),
    10 % (standard deviations), 0.02 (probabilities) or 0.1 nats (evidences; leave-one-out densities of each case), and
    differ if some difference does by more than 4 Monte-Carlo errors.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> kernel = bgp.kernels.Gaussian(variance=4.0)
    >>> tap, laplace = (bgp.fit(X, X[:, 0] > 0, kernel, method=m, random_seed=1) for m in ("tap", "laplace"))
    >>> found = bgp.diagnostics.agreement(laplace, tap)
    >>> found.verdict, float(found.mean.difference[0].round(2)), float(found.log_evidence.difference[0].round(2))
    ('differ', 0.55, -0.1)
    """
    both = (first, second)
    draws = draws_of("first", first), draws_of("second", second)
    shapes = [group_or_empty(each, "posterior")["f"].shape[2:] for each in both]
    if shapes[0] != shapes[1]:
        named = [
            " and ".join(f"{k} {what}" for k, what in zip(shape, ("cases", "classes"), strict=False))
            for shape in shapes
        ]
        raise ValueError(f"first has {named[0]} and second {named[1]}: they are not fits of the same data.")
    labels = [each for each in map(_labels, both) if each is not None]
    if len(labels) == 2 and not np.array_equal(labels[0], labels[1]):
        raise ValueError(
            "first and second have other labels of cases, or the same in another order, and cases are compared by "
            "place. Fit both to the same rows in one order."
        )
    targets = [group["y"].values for group in (group_or_empty(each, "observed_data") for each in both) if "y" in group]
    if len(targets) == 2 and not np.array_equal(targets[0], targets[1]):
        raise ValueError("first and second have different targets y: they are not fits of the same data.")
    moments = [_moments(idata, f, group_or_empty(idata, "fit")) for idata, f in zip(both, draws, strict=True)]
    new = [_of_new(idata) for idata in both]
    quantiles = np.array([[importance.quantile_and_error(f, p) for p in LEVELS] for f in draws])  # (2, levels, 2, n)
    w1, w1_error = _wasserstein(*draws)
    left_out, leave_one_out = _leave_one_out(both)

    def of_cases(*given: Array) -> Compared:
        return Compared(*(values.reshape(*values.shape[:-1], *shapes[0]) for values in given))

    found = Agreement(
        mean=of_cases(*moments[0][:2], *moments[1][:2]),
        sd=of_cases(*moments[0][2:], *moments[1][2:]),
        quantiles=of_cases(*quantiles[0].swapaxes(0, 1), *quantiles[1].swapaxes(0, 1)),
        w1=w1.reshape(shapes[0]),
        w1_error=w1_error.reshape(shapes[0]),
        probability=_compared(map(_probability, both)),
        log_evidence=_compared(map(_log_evidence, both)),
        obs_id=labels[0] if labels else None,
        leave_one_out=leave_one_out,
        left_out=left_out,
        new_mean=_compared(each and each[:2] for each in new),
        new_sd=_compared(each and each[2:] for each in new),
    )
    if not all(np.all(np.isfinite(variable.values)) for variable in found.to_dataset().data_vars.values()):
        raise ValueError("a number or its Monte-Carlo error is not finite: one of the containers is damaged.")
    return found


def _labels(idata: Container) -> NDArray[Any] | None:
    """Return the labels ``(n,)`` of the training cases, or None where they are numbers from 0."""
    f = group_or_empty(idata, "posterior")["f"]
    labels = f[f.dims[2]].values
    return None if np.array_equal(labels, np.arange(labels.size)) else labels


def draws_of(name: str, idata: Container) -> xr.DataArray:
    """Return the draws of all latent values, or raise a ValueError if these are too few, or one does not vary."""
    advice = "Pass what bayesgp_mf.fit returned, or what pymc.sample did for a model with latent values f."
    if not hasattr(idata, "groups"):
        raise ValueError(f"{name} must be an ArviZ container, got {type(idata).__name__}. {advice}")
    posterior = group_or_empty(idata, "posterior")
    if "f" not in posterior:
        raise ValueError(f"{name} has no draws of f in a group posterior (groups: {group_names(idata)}). {advice}")
    f = posterior["f"]
    if f.ndim != (4 if "class" in f.dims else 3) or f.dims[:2] != SAMPLE_DIMS:
        raise ValueError(f"f of {name} must have dimensions chain, draw and one for the cases, got {f.dims}. {advice}")
    if (
        f.shape[1] < importance.FEWEST_IN_CHAIN
        or not np.all(np.isfinite(f.values))
        or np.any(np.ptp(f.values, axis=(0, 1)) == 0)
    ):
        raise ValueError(
            f"f of {name} must have at least {importance.FEWEST_IN_CHAIN} draws in a chain, all finite, and no case "
            f"whose draws are all the same; it has {f.shape[0]} chains of {f.shape[1]} draws. Draw more, or leave out "
            "such cases."
        )
    return xr.DataArray(f.values.reshape(*f.shape[:2], -1), dims=(*SAMPLE_DIMS, "obs_id"))


def _moments(idata: Container, f: xr.DataArray, known: xr.Dataset) -> tuple[Array, Array, Array, Array]:
    """Return mean and sd of each case with their errors: none where the draws are from Gaussians that are known.

    Over kernels that are random themselves even the mean of what is known has an error, which the draws have too.
    """
    fit = group_or_empty(idata, "fit")
    gaussian = "latent_sd" in known and fit.attrs.get("marginals", "gaussian") == "gaussian"
    if gaussian and not has_random_kernels(fit):
        none = np.zeros(f.sizes["obs_id"])
        return known["latent_mean"].values.ravel(), none, known["latent_sd"].values.ravel(), none
    mean, error, _ = importance.mean_and_error(f)
    return mean, error, *importance.sd_and_error(f)


def _wasserstein(first: xr.DataArray, second: xr.DataArray) -> tuple[Array, Array]:
    """Return the area between the distribution functions of each case, and what Monte-Carlo error makes of it."""
    sizes = [importance.mean_and_error(f)[2] for f in (first, second)]
    sorted_draws = [np.sort(f.values.reshape(-1, f.sizes["obs_id"]), axis=0) for f in (first, second)]
    n = first.sizes["obs_id"]
    distance, error = np.empty(n), np.empty(n)
    for i in range(n):
        x = np.sort(np.concatenate([a[:, i] for a in sorted_draws]))
        steps = np.diff(x)
        below = [np.searchsorted(a[:, i], x[:-1], side="right") / a.shape[0] for a in sorted_draws]
        variance = sum(p * (1.0 - p) / size[i] for p, size in zip(below, sizes, strict=True))
        distance[i] = np.abs(below[0] - below[1]) @ steps
        error[i] = np.sqrt(2.0 / np.pi) * (np.sqrt(variance) @ steps)
    return distance, error


def _probability(idata: Container) -> tuple[Array, Array] | None:
    """Return predicted probabilities and their errors: averages over draws, or numbers with an error beside them."""
    predictions = group_or_empty(idata, "predictions")
    if "p" not in predictions:
        return None
    p = predictions["p"]
    if set(SAMPLE_DIMS) <= set(p.dims):
        mean, error, _ = importance.mean_and_error(p)
        return mean, error
    return p.values, predictions["p_mcse"].values if "p_mcse" in predictions else np.zeros(p.shape)


def _of_new(idata: Container) -> tuple[Array, Array, Array, Array] | None:
    """Return what `_moments` does of new cases, where predictions have no probabilities."""
    predictions = group_or_empty(idata, "predictions")
    if "f" in predictions and "p" not in predictions:
        return _moments(idata, predictions["f"], predictions)
    if "latent_sd" not in predictions or "p" in predictions or has_random_kernels(group_or_empty(idata, "fit")):
        return None
    none = np.zeros(predictions.sizes["obs_id"])
    return predictions["latent_mean"].values, none, predictions["latent_sd"].values, none


def _log_evidence(idata: Container) -> tuple[Array, Array] | None:
    """Return the log evidence and its error, ``(1,)`` each; an average over hyperparameters has none of its own."""
    fit = group_or_empty(idata, "fit")
    if "log_evidence" not in fit or fit["log_evidence"].ndim > 0:
        return None
    return np.atleast_1d(fit["log_evidence"].values), np.atleast_1d(fit["log_evidence_se"].values)


def _compared(both: Iterable[tuple[Array, Array] | None]) -> Compared | None:
    first, second = both
    if first is None or second is None:
        return None
    sizes = first[0].size, second[0].size
    if first[0].shape != second[0].shape:  # of probabilities
        raise ValueError(f"first has predictions for {sizes[0]} cases and second {sizes[1]}. Predict the same ones.")
    return Compared(*first, *second)


def _leave_one_out(both: tuple[Container, Container]) -> tuple[NDArray[np.intp], Compared | None]:
    """Return the cases ``(k,)`` of which both have a log predictive density given the others, and these."""
    each = [_log_predictive(idata) for idata in both]
    known = [found for found in each if found is not None]
    if len(known) < 2:
        return np.empty(0, dtype=np.intp), None
    (rows,) = np.nonzero(np.all([np.isfinite(error) for _, error in known], axis=0))
    return rows, Compared(*(values[rows] for found in known for values in found))


def _log_predictive(idata: Container) -> tuple[Array, Array] | None:
    """Return the log predictive density ``(n,)`` of each case given the others, and its error, where there is one.

    The error is infinite where the importance weights of draws have fewer than four moments.
    """
    fit, of_draws = group_or_empty(idata, "fit"), group_or_empty(idata, "log_likelihood")
    if "loo_i" in fit or is_of_draws(idata):
        try:
            values = pointwise_of(loo(idata))
        except ValueError:  # the container does not hold the kernel, the likelihood or the method
            values = fit["loo_i"].values
        return values, np.zeros(values.size)
    if "bayesgp_mf_format" in fit.attrs:  # its draws are of the approximation
        return None
    f = group_or_empty(idata, "posterior")["f"]
    usable = [each for each in of_draws.data_vars.values() if each.shape == f.shape[:3]]
    if len(usable) != 1 or not np.all(np.isfinite(usable[0].values)):
        return None
    log_likelihood = usable[0].values.reshape(-1, f.shape[2])
    found, terms = np.empty(f.shape[2]), np.empty(log_likelihood.shape)
    bears = np.empty(f.shape[2], dtype=bool)
    for i, own in enumerate(log_likelihood.T):
        log_weights, k_hat = smooth(-own)
        weights = np.exp(log_weights - log_weights.max())
        weighted = weights * np.exp(own - own.max())
        found[i] = own.max() + np.log(np.mean(weighted) / np.mean(weights))
        terms[:, i] = weighted / np.mean(weighted) - weights / np.mean(
            weights
        )  # the slope of the logarithm of the ratio
        bears[i] = k_hat <= FOUR_MOMENTS
    error = importance.error_of_sum(terms, (f.shape[0], f.shape[1])) / len(terms)
    return found, np.where(bears, error, np.inf)
