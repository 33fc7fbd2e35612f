"""How good an approximation is: its draws weighed by the exact posterior, and all that is known in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesgp_mf.container.groups import Container, get_group, group_names, group_or_empty
from bayesgp_mf.container.layout import CASES, MODELS, SAMPLE_DIMS
from bayesgp_mf.container.quality import PROBABILITY_ERROR, Quality, quality_of_fit
from bayesgp_mf.container.read import fit_group, from_container, has_random_kernels
from bayesgp_mf.container.write import check_has_cases, is_in_parts
from bayesgp_mf.diagnostics.misfit import misfit
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.hyper.pareto import FEWEST_WEIGHTS, LARGEST_K, largest_k, smooth
from bayesgp_mf.types import Array

FEWEST_EFFECTIVE = 100.0
"""Fewer effective draws than these leave errors that are as uncertain as what they are of."""
FEWEST_IN_CHAIN = 4
"""Draws of which ArviZ can tell how they hang together."""
MOST_VALUES = 10**7
"""Drawn latent values up to which they are weighed as well, in less than a second."""
_OF_CASES = ("mean", "mean_error", "sd", "sd_error")


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """What importance weights say about an approximation and about the exact posterior; ``str`` of it is a verdict.

    Attributes
    ----------
    pareto_k : float
        Shape of the tail of the weights. Above 0.7 averages are unreliable. It is minus infinity if all weights are
        equal, and infinity if too few draws have a weight.
    n_draws : int
        How many draws there are.
    ess : float
        How many draws of the exact posterior they are worth.
    mean, sd : (n,) array
        Mean and standard deviation of the latent values at the training cases under the exact posterior, in latent
        units; ``(n, C)`` for several classes.
    mean_error, sd_error : (n,) array
        Their standard errors.
    log_evidence : float or None
        Of the exact model, in nats; None for an average over hyperparameters.
    log_evidence_error : float or None
        Its standard error in nats.
    obs_id : (n,) array or None
        Labels of the training cases, if they are known.
    """

    pareto_k: float
    n_draws: int
    ess: float
    mean: Array
    mean_error: Array
    sd: Array
    sd_error: Array
    log_evidence: float | None
    log_evidence_error: float | None
    obs_id: NDArray[Any] | None = None

    @property
    def trusted(self) -> bool:
        """Whether the corrected numbers and their errors mean anything."""
        return self.pareto_k <= self.largest_k and self.ess >= FEWEST_EFFECTIVE

    @property
    def largest_k(self) -> float:
        """The largest shape that so many draws allow, at most 0.7."""
        return largest_k(self.n_draws)

    def __str__(self) -> str:
        found = f"Pareto k-hat {self.pareto_k:.2f}, {self.ess:.0f} effective of {self.n_draws} draws"
        if self.pareto_k > LARGEST_K:
            why = (
                f"k-hat is above {LARGEST_K:g}. The exact posterior has mass where the approximation has next to none."
            )
        elif self.pareto_k > self.largest_k:
            why = f"so few draws bear a k-hat of {self.largest_k:.2f} only. Take more draws."
        elif self.ess < FEWEST_EFFECTIVE:
            why = f"fewer than {FEWEST_EFFECTIVE:.0f} draws are effective."
        else:
            return f"{found}: the approximation is close enough to be corrected."
        return f"{found}: do not trust these numbers, since {why}"

    def to_dataset(self) -> xr.Dataset:
        """Return all numbers as a data set, with the dimension obs_id."""
        dims = ("obs_id", "class")[: self.mean.ndim]
        variables = {name: (dims, getattr(self, name)) for name in _OF_CASES}
        scalars = {name: getattr(self, name) for name in ("pareto_k", "ess", "log_evidence", "log_evidence_error")}
        known = {name: value for name, value in scalars.items() if value is not None}
        coords = {} if self.obs_id is None else {"obs_id": self.obs_id}
        return xr.Dataset({**variables, **known}, coords, attrs={"summary": str(self)})


def importance(idata: Container) -> Importance:
    r"""Weight the draws of a fit by the exact posterior, with Pareto-smoothed importance sampling.

    With :math:`w = p(t, f) / q(f)` for draws from q, averages weighted by w are those of the exact posterior, and the
    mean of w is the evidence. The tail of the weights, which is smoothed [1]_, shows whether there are enough draws.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.

    Returns
    -------
    Importance
        k-hat, effective number of draws, corrected means, standard deviations and evidence with standard errors;
        ``print`` says whether to trust them.

    Raises
    ------
    ValueError
        If the container was not made by this package, or has fewer than 30 draws or none at all.

    Notes
    -----
    At fixed hyperparameters, and at the nodes of ``hyper="integrate"``, the draws of `fit` are independent. After
    "surrogate" they share kernels, and after "hmc" or "nuts" they are a chain: then errors are those that ArviZ finds
    in the order of the weighted draws, and fewer draws are effective.

    k-hat is for all latent values at once, and rises with the number of cases even if every marginal is good. Under a
    step likelihood most Gaussian draws contradict some label and have weight zero; with ``marginals="tilted"`` they do
    not.

    References
    ----------
    .. [1] Vehtari, A., Simpson, D., Gelman, A., Yao, Y., & Gabry, J. (2024). Pareto smoothed importance sampling.
       Journal of Machine Learning Research 25(72), 1-58.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> kernel = bgp.kernels.Matern32(variance=4.0)
    >>> idata = bgp.fit(X, X[:, 0] > 0, kernel, bgp.Probit(), marginals="tilted", random_seed=1)
    >>> found = bgp.diagnostics.importance(idata)
    >>> found.trusted, found.pareto_k < 0.5
    (True, True)
    >>> round(found.log_evidence, 2), round(found.log_evidence_error, 2), round(float(idata["fit"]["log_evidence"]), 2)
    (-6.13, 0.01, -6.19)
    """
    fit = fit_group(idata)
    check_has_cases(fit, "draw at a training case to weigh")
    if "sample_stats" not in group_names(idata):
        raise ValueError(
            f"this fit by method {fit.attrs['method']!r} has no draws to weigh: the group sample_stats is missing."
        )
    if MODELS in fit.attrs:
        raise UndefinedQuantityError("models with weights have no exact posterior in common. Ask each of the fits.")
    stats = get_group(idata, "sample_stats")
    f = get_group(idata, "posterior")["f"].values
    cases = f.shape[2:]  # (n,), or (n, C) for several classes
    log_weights = (stats["log_p"] - stats["log_q"]).values.ravel()
    chains = f.shape[:2] if has_random_kernels(fit) else None
    found = weigh(f.reshape(log_weights.size, -1), log_weights, "node" not in fit.dims, chains)
    each = {name: getattr(found, name).reshape(cases) for name in _OF_CASES}
    return replace(found, **each, obs_id=fit["obs_id"].values)


def error_of_sum(terms: Array, shape: tuple[int, int] | None) -> Array:
    """Return the standard error of the sum of each column of terms ``(draws, n)``, which is zero.

    Draws are independent, or depend on their neighbours in chains of that shape.
    """
    if shape is None:
        return np.asarray(np.sqrt(np.einsum("si,si->i", terms, terms)))
    if shape[1] < FEWEST_IN_CHAIN:
        raise ValueError(
            f"an average over random hyperparameters needs at least {FEWEST_IN_CHAIN} draws in a chain to have errors, "
            f"got {shape[1]}. Fit with more."
        )
    errors, varies = np.zeros(terms.shape[1]), np.any(terms != 0.0, axis=0)
    chains = xr.DataArray(terms[:, varies].reshape(*shape, -1), dims=("chain", "draw", "obs_id"))
    errors[varies] = terms.shape[0] * mean_and_error(chains)[1]
    return errors


def weigh(f: Array, log_weights: Array, has_evidence: bool = True, chains: tuple[int, int] | None = None) -> Importance:
    """Answer `importance` for draws ``(draws, n)`` with log weights ``(draws,)`` in nats, -inf where there is none."""
    n_draws = log_weights.size
    if n_draws < FEWEST_WEIGHTS:
        raise ValueError(f"importance weights need at least {FEWEST_WEIGHTS} draws, got {n_draws}. Fit with more.")
    if np.any(np.isnan(log_weights)) or np.any(log_weights == np.inf):
        raise ValueError("some log weights, log_p - log_q, are NaN or infinite: the container is damaged.")
    (some,) = np.nonzero(log_weights > -np.inf)
    if some.size == 0:
        raise ValueError(
            f"none of {n_draws} draws is possible under the exact posterior: each contradicts some label. Fit with "
            "marginals='tilted'."
        )
    log_smoothed, k = smooth(log_weights[some])
    log_total = float(logsumexp(log_smoothed))
    weights = np.zeros(n_draws)
    weights[some] = np.exp(log_smoothed - log_total)
    mean = weights @ f
    apart = f - mean
    variance = weights @ apart**2
    sd = np.sqrt(variance)
    terms = weights[:, None] * apart
    mean_error = error_of_sum(terms, chains)
    variance_error = error_of_sum(terms * apart - weights[:, None] * variance, chains)
    sd_error = np.divide(variance_error, 2.0 * sd, out=np.zeros_like(sd), where=sd > 0)
    log_evidence = error = None
    if has_evidence:
        log_evidence = log_total - math.log(n_draws)
        # standard error of the mean weight, in units of it; draws without weight count as zeros
        error = math.sqrt(max(float(weights @ weights) - 1.0 / n_draws, 0.0) * n_draws / (n_draws - 1.0))
    ess, independent = 1.0 / float(weights @ weights), float(np.sum(terms**2))
    if independent > 0:
        ess *= min(1.0, independent / float(np.sum(mean_error**2)))
    return Importance(k, n_draws, ess, mean, mean_error, sd, sd_error, log_evidence, error)


def quality(idata: Container) -> Quality:
    r"""Say how far the numbers of a fit can be trusted, and what to do if that is not enough.

    It uses the second-order correction of TAP's log evidence with the size of what that leaves out [1]_, the Pareto
    k-hat of the draws, and how well the equations are solved.

    The error of predictive probabilities is measured at the training inputs where TAP is worst. For labels it is 0.002
    plus 1.25 times what the correction changes there; for counts and levels, 1.25 times the largest change of a
    cumulative probability when the tilted distribution of the latent value takes the place of its Gaussian. With more
    than 4000 cases, label flips or outliers it is estimated instead, as :math:`\min(12 x, 0.6 \sqrt x)` and at least
    0.005, with :math:`x = (|\text{correction}| + \text{remaining}) / n`. Both rules are calibrated against exact
    probabilities. They are no bounds.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.

    Returns
    -------
    Quality
        The numbers, the ``verdict`` in one word, and a ``sentence``; ``print`` shows them. ``good``: probabilities are
        within 0.02, at the data and at the latest predictions; ``off``: beyond 0.05; ``fair``: between them. ``exact``;
        ``unsolved``; and ``unknown`` if the method does not estimate its error.

    Raises
    ------
    ValueError
        If the container was not made by this package.

    Notes
    -----
    The k-hat is left out beyond 10 million drawn values; `importance` has it.

    The verdict is about the solution that was found. Under `StudentT`, which is not log-concave, the posterior may have
    a second mode where two targets contradict each other; then k-hat is above 0.7.

    References
    ----------
    .. [1] Opper, M., Paquet, U., & Winther, O. (2013). Perturbative corrections for approximate inference in Gaussian
       latent variable models. Journal of Machine Learning Research 14, 2857-2898.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), random_seed=1)
    >>> found = bgp.diagnostics.quality(idata)
    >>> found.verdict
    'good'
    >>> step = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(0.5), bgp.Step(), random_seed=1)
    >>> bgp.diagnostics.quality(step).verdict
    'off'
    """
    found = quality_of_approximation(idata)
    try:
        return found if found.in_parts else replace(found, misfit=misfit(idata).sentence)
    except ValueError:  # the container does not hold the kernel, the likelihood or the method, or nothing is left out
        return found


def quality_of_approximation(idata: Container) -> Quality:
    """Return what `quality` does, without looking whether the model fits."""
    fit = fit_group(idata)
    if is_in_parts(fit):
        return quality_of_fit(fit, int(fit.attrs[CASES]), in_parts=True)
    found = replace(
        quality_of_fit(fit, fit.sizes["obs_id"]),
        new_probability_error=group_or_empty(idata, "predictions").attrs.get(PROBABILITY_ERROR),
        loo_error=_loo_error(idata),
        effective_draws=_effective_draws(idata, fit),
    )
    if "sample_stats" not in group_names(idata) or has_random_kernels(fit) or MODELS in fit.attrs:
        return found
    stats = get_group(idata, "sample_stats")
    log_weights = (stats["log_p"] - stats["log_q"]).values
    if log_weights.size < FEWEST_WEIGHTS or get_group(idata, "posterior")["f"].size > MOST_VALUES:
        return found
    if not np.any(log_weights > -np.inf):  # each draw contradicts some label
        return replace(found, pareto_k=np.inf)
    return replace(found, pareto_k=importance(idata).pareto_k)


def _loo_error(idata: Container) -> float | None:
    """Return what the sum of leave-one-out densities may be off by; None if it is not known."""
    try:
        of_worst = from_container(idata).loo_of_worst
    except ValueError:  # the container does not hold the kernel, the likelihood or the method
        return None
    return None if of_worst is None else of_worst.error


def _effective_draws(idata: Container, fit: xr.Dataset) -> float | None:
    """Return the fewest effective draws of a hyperparameter, at most; None where none was sampled."""
    tuned = {str(name).partition("[")[0] for name in fit["hyper"].values} if "hyper" in fit.coords else set[str]()
    posterior = group_or_empty(idata, "posterior")
    draws = posterior[[name for name in posterior if name in tuned]]
    if not draws or set(SAMPLE_DIMS) - set(draws.dims) or not all(draws.sizes.values()):  # some were taken out
        return None
    for name, values in draws.items():
        if values.dtype.kind not in "fiu" or not np.all(np.isfinite(values.values)):
            raise ValueError(
                f"the draws of {name!r} in the group posterior must be finite numbers, as fit left them. The container "
                "was changed: load the file again, or fit again."
            )
    spread = draws.max("draw") - draws.min("draw")
    if any(bool((spread[name] == 0.0).any()) for name in spread):  # a chain that never moved has no autocorrelation
        return 1.0
    chains, length = (draws.sizes[name] for name in SAMPLE_DIMS)
    return fewest_effective(draws) if length >= FEWEST_IN_CHAIN else float(chains * length)


def fewest_effective(posterior: xr.Dataset) -> float:
    """Return the fewest effective draws, by ranks, of an entry of what was drawn."""
    import arviz as az

    ess = az.ess(posterior, method="bulk")
    return min(float(ess[name].min()) for name in ess)


def mean_and_error(draws: xr.DataArray) -> tuple[Array, Array, Array]:
    """Return mean, Monte-Carlo standard error of the mean, and effective number of draws."""
    import arviz as az

    dataset = xr.Dataset({"x": draws})
    mean = draws.mean(dim=SAMPLE_DIMS).values
    return mean, az.mcse(dataset, method="mean")["x"].values, az.ess(dataset, method="mean")["x"].values


def sd_and_error(draws: xr.DataArray) -> tuple[Array, Array]:
    """Return standard deviation and its Monte-Carlo standard error.

    By the delta method from the mean squared deviation; ``az.mcse(method="sd")`` of ArviZ 0.23 fails with
    NumPy 2.4.
    """
    squared = (draws - draws.mean(dim=SAMPLE_DIMS)) ** 2
    variance, error, _ = mean_and_error(squared)
    sd = np.sqrt(variance)
    return sd, error / (2.0 * sd)


def quantile_and_error(draws: xr.DataArray, level: float) -> tuple[Array, Array]:
    """Return a quantile and its Monte-Carlo standard error."""
    import arviz as az

    quantile = draws.quantile(level, dim=SAMPLE_DIMS).values
    return quantile, az.mcse(xr.Dataset({"x": draws}), method="quantile", prob=level)["x"].values
