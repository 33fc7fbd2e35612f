"""The default model: the kernel and the priors of `fit` where no kernel is given.

The kernel is a smooth function of all columns, with a length scale for each, plus a constant. Its length scales are
held against the spread of the columns, so that their units do not matter, and have a hierarchical prior: what they
share moves freely, and each is near to it. A search begins with one for all (`optimise.alike`). Many columns share a
unit, as pixels do, and columns with a long tail are made straighter, if the evidence is for it. The numbers were chosen
on some tables and looked at on others: docs/default_model.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from bayesgp_mf.errors import warn
from bayesgp_mf.hyper.objective import NOT_HERE, Objective
from bayesgp_mf.hyper.optimise import uphill
from bayesgp_mf.hyper.priors import LogNormal, Prior
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.problem import check_scale
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import columns_of_groups, with_columns
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.inputs.options import as_likelihood
from bayesgp_mf.inputs.tables import as_inputs, as_offset, as_weights, check_here, feature_names
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Kernel, Sum, Warped
from bayesgp_mf.kernels.warped import straightened
from bayesgp_mf.likelihoods import Censored, Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.gaussian import Gaussian as Normal
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array

REACH = 1.5
"""The median of a length scale, in standard deviations of its column times the root of their number."""
SHARED, OWN = 1.2, 0.5
"""Standard deviations of the logarithm of what length scales share, and of what each has of its own."""
SPREAD = 1.5
"""Of the logarithm of a variance."""
OF_LABELS = 10.0
"""The median variance of the latent function of labels, whose noise has variance 1."""
OF_COUNTS = 1.0
"""That of the logarithm of an expected count."""
MANY, APART = 6, 0.5
"""Columns, and how far apart the logarithms of their spreads are, at least, where it is asked whether they share a
unit: of few columns units differ more often, and one that varies much would hide the others."""
SKEWED = 1.0
"""Skewness beyond which a column may be made straighter."""
COMPARED = 200
"""Cases by whose evidence it is asked whether it should, at most."""
KNOWN = 0.05
"""In nats; an iteration that gains less is the last."""
WORTH = 2.0
"""In nats; by less the evidence does not tell the two apart, and the plain columns stay."""
NOISE, NOISE_SPREAD = 0.1, 1.0
"""The median noise variance of measurements, as a share of theirs, and the spread of its logarithm: a wider prior lets
it go, in a few cases without any, to where rounding decides."""
QUARTILES = 1.349
"""Standard deviations between the quartiles of a normal variable."""
OUTLYING = 10.0
"""A standard deviation of so many of those that the quartiles have is that of outliers."""
LARGEST_LEVEL = 3e3
"""Standard deviations of targets that they may be from zero: the prior variance of the constant is that squared, and a
Gram matrix in doubles, with the noise of a case beside it, keeps some nine digits."""
SMALLEST = 1e-200
"""A variance of targets below this is none."""
WIDER = 10.0
"""The logarithm of how much larger a variance of censored targets is than that of their limits, at most."""
FLAT = 1e-12
"""Relative to its largest number, a standard deviation of a column below this is rounding."""


class DefaultModel(NamedTuple):
    """A kernel, and priors of its parameters by name, with that of the noise of measurements.

    Attributes
    ----------
    kernel : Kernel
        `kernels.Gaussian` with a length scale for each column of numbers, `kernels.Categorical` for each column of
        text, and `kernels.Bias`; each parameter at the median of its prior. `kernels.Warped` is around it where the
        evidence of some cases is for straighter columns.
    priors : dict of str to LogNormal
        Of all of its parameters, and of the noise variance, or the scale, of measurements where it is tuned.
    """

    kernel: Kernel
    priors: dict[str, Prior]


def default_model(
    X: Any,
    y: ArrayLike | None = None,
    likelihood: Likelihood = Probit(),
    *,
    offset: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> DefaultModel:
    """Return the kernel and the priors that `fit` takes where no kernel is given.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs, as `fit` takes them. Columns of text, or of a categorical type of pandas, are groups.
    y : (n,) array_like, optional
        Targets. Where they are measurements, their spread is that of the function; the level of measurements or counts
        says how far from zero the constant may be.
    likelihood : Likelihood
        Of the targets.
    offset, weights : float or (n,) array_like, optional
        As `fit` takes them.

    Returns
    -------
    DefaultModel
        A pair of a kernel and a dict of priors.

    Raises
    ------
    ValueError
        If inputs are malformed, or dates, or if measurements are missing.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> kernel, priors = bgp.hyper.default_model(pima.X, pima.y)
    >>> list(priors)
    ['gaussian_lengthscale', 'gaussian_variance', 'bias_variance']
    """
    check_here(X, None)
    table, likelihood = as_pandas("X", X), as_likelihood(likelihood)
    if y is not None:
        y, likelihood = with_limits(y, likelihood)
    names, groups = feature_names("X", table), columns_of_groups(table)
    inputs = as_inputs("X", with_columns(table, dict.fromkeys(groups, np.zeros(len(table)))))
    n, d = inputs.shape
    smooth = [j for j in range(d) if j not in groups]
    by_log, by_case_weights = as_offset(offset, table, n), as_weights(weights, table, n)
    w = np.ones(n) if by_case_weights is None else by_case_weights
    t, class_names = (None, ()) if y is None else encode_targets(y, n, likelihood)
    spread, level = _of_targets(t, likelihood, 0.0 if by_log is None else by_log, w)
    counted = np.flatnonzero(w > 0)

    def model(spreads: Array) -> DefaultModel:
        """Return the model of columns with these spreads, as they are or as a transformation made them."""
        terms: list[Kernel] = []
        if smooth:
            lengthscale = REACH * math.sqrt(d) * spreads[smooth]
            columns = (smooth if names is None else [names[j] for j in smooth]) if groups else None
            terms.append(Gaussian(lengthscale if len(smooth) > 1 else lengthscale[0], spread, columns=columns))
        # all groups together move as much as the noise of a label
        of_groups = spread / OF_LABELS / max(len(groups), 1)
        terms += [Categorical(of_groups, columns=j if names is None else names[j]) for j in groups]
        kernel = Sum(*terms, Bias(level))
        priors = {name: _prior(name, value) for name, value in kernel.params.items()}
        return DefaultModel(kernel, priors | _of_noise(likelihood, spread))

    centres, spreads = _units(inputs[counted], w[counted])
    if t is None:
        return model(spreads)
    ways: list[tuple[Array, Array, tuple[Any, ...]]] = [
        (inputs, spreads, ())
    ]  # inputs, units, and how they were warped
    away = (inputs[counted] - centres) / spreads
    varying = [j for j in smooth if np.ptp(away[:, j]) > FLAT * np.max(np.abs(away[:, j]))]
    if len(varying) >= MANY and np.ptp(np.log(spreads[varying])) > APART:
        most = np.max(spreads[varying])  # squares of numbers up to 1 are numbers
        ways.append((inputs, np.full(d, most * math.sqrt(np.mean((spreads[varying] / most) ** 2))), ()))
    skewed = [j for j in varying if _is_skewed(away[:, j], w[counted])]
    if skewed:
        power = [straightened(away[:, j], w[counted]) for j in skewed]
        how = skewed, power, centres[skewed].tolist(), spreads[skewed].tolist()
        warped = Warped(Bias(), *how).warp(inputs)
        ways.append((warped, _units(warped[counted], w[counted])[1], how))
    if len(ways) == 1:
        return model(spreads)
    of_cases = likelihood.with_classes(class_names)
    if likelihood.has_classes:  # one of two tells as much, in a fraction of the time
        t, of_cases = np.where(t == np.bincount(t.astype(np.intp)).argmax(), 1.0, -1.0), Probit()
    some = np.sort(np.random.default_rng(0).permutation(counted)[:COMPARED])
    given = t[some], by_case(of_cases, by_log, by_case_weights).of_cases(some), spread, level
    known = np.array([_evidence((seen[some] / unit)[:, smooth], *given) for seen, unit, _ in ways])
    known[1:] -= WORTH
    _, unit, how = ways[np.argmax(known)]  # of equal ones the first
    kernel, priors = model(unit)
    return DefaultModel(Warped(kernel, *how) if how else kernel, priors)


def _prior(name: str, value: Array) -> Prior:
    """Return the prior of a parameter whose median is ``value``."""
    if value.ndim:
        return LogNormal(tuple(np.log(value).tolist()), OWN, common=SHARED)
    return LogNormal(float(np.log(value)), SHARED if name.endswith("lengthscale") else SPREAD)


def _of_noise(likelihood: Likelihood, variance: float) -> dict[str, Prior]:
    """Return the prior of the noise of measurements with this variance, where it is tuned."""
    if likelihood.is_discrete:
        return {}
    medians = {"noise_variance": NOISE * variance, "scale": math.sqrt(NOISE * variance)}
    medians["shape"] = 1.0 / math.sqrt(variance)  # of times, which vary mostly by themselves
    named = Model.of(Bias(), likelihood).named.items()
    return {name: LogNormal(math.log(medians[own]), NOISE_SPREAD) for name, own in named if own in medians}


def with_starts(model: Model, priors: Mapping[str, Prior]) -> Model:
    """Return a model of which the noise of measurements begins at the median of its prior."""
    begin = {k: prior.mean for k, prior in priors.items() if k in model.named and isinstance(prior, LogNormal)}
    return model.replace(**{name: np.exp(mean) for name, mean in begin.items()})


def _is_skewed(z: Array, w: Array) -> bool:
    """Tell whether the tails of a column ``(n,)`` of more than two values, in its own units, differ much."""
    away = np.average(z**2, weights=w)
    with np.errstate(over="ignore"):  # of outliers, which are a tail
        return bool(abs(np.average(z**3, weights=w)) > SKEWED * away**1.5) and np.unique(z).size > 2


def _evidence(X: Array, t: Array, likelihood: Likelihood, spread: float, level: float) -> float:
    """Return the highest log evidence, with the prior, of one length scale in units of the columns; -inf if none is.

    What this says of two transformations the one with many length scales says too, after ten times as long.
    """
    lengthscale = REACH * math.sqrt(X.shape[1])
    kernel = Gaussian(lengthscale, spread) + Bias(level)
    priors = {name: _prior(name, value) for name, value in kernel.params.items()}
    priors |= _of_noise(likelihood, spread)
    model = with_starts(Model.of(kernel, likelihood), priors)
    target = Target(X, t, model.likelihood, kernel, get_method("tap", likelihood), priors=priors)
    with warnings.catch_warnings(), one_thread_if_small(t.size):
        warnings.simplefilter("ignore")  # nothing of this is an answer
        bounds = target.lower, target.upper
        try:
            return uphill(Objective(target, EvidenceScore()), target.start, bounds, gain=KNOWN, first_step=np.inf).value
        except NOT_HERE:
            return -np.inf


def _units(X: Array, w: Array) -> tuple[Array, Array]:
    """Return centre and spread of each column, with weights: 0 and 1 where all numbers are equal.

    They are mean and standard deviation, but where a few outliers make these: then the median, and the range of the
    middle half in units of that of a normal variable.
    """
    largest = np.max(np.abs(X), axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of numbers near 1 are numbers
    z = X / unit
    mean = np.average(z, axis=0, weights=w)
    sd = np.sqrt(np.average((z - mean) ** 2, axis=0, weights=w))
    low, median, high = np.quantile(z, [0.25, 0.5, 0.75], axis=0, weights=w, method="inverted_cdf")
    middle = (high - low) / QUARTILES
    robust, equal = (middle > 0) & (sd > OUTLYING * middle), sd <= FLAT
    centre, spread = np.where(robust, median, mean), np.where(robust, middle, sd)
    return np.where(equal & ~robust, 0.0, centre * unit), np.where(equal & ~robust, 1.0, spread * unit)


def _of_targets(t: Array | None, likelihood: Likelihood, offset: Array | float, w: Array) -> tuple[float, float]:
    """Return the median variances of the function and of its constant, in squared latent units."""
    of_trials = "trials" in likelihood.new_case_facts
    if of_trials or (likelihood.is_discrete and not likelihood.whole_targets):
        return OF_LABELS, 1.0
    if t is None:
        name = likelihood.display_name
        raise ValueError(f"y is missing: the targets of {name} say how large the function and its constant are.")
    check_scale("y", t)
    if likelihood.whole_targets:
        exposed = float(np.average(np.broadcast_to(offset, t.shape), weights=w))
        rate = math.log(max(float(np.average(t, weights=w)), 0.0) + 0.5) - exposed
        return OF_COUNTS, 1.0 + rate**2
    counted = w > 0
    constant = np.ptp(t[counted]) == 0.0
    if constant and np.count_nonzero(counted) > 1:
        warn(f"y is constant ({t[counted][0]:g}): there is nothing to learn a function from.")
    of_function = (likelihood.link(t) - offset)[counted]
    (mean,), (sd,) = _units(of_function[:, None], w[counted])
    variance = float(sd) ** 2
    far = np.abs(of_function - mean)
    if likelihood.log_concave and not constant and np.max(far) > OUTLYING * sd * math.sqrt(t.size):
        row = int(np.flatnonzero(counted)[np.argmax(far)])
        warn(
            f"y is {t[row]:g} in row {row}, {np.max(far) / sd:.0e} standard deviations of the others from them. If it "
            "is a slip, or stands for a missing value, drop it; bgp.StudentT(1.0) allows outliers."
        )
    if variance < SMALLEST:
        raise ValueError("y varies so little that its square is no number. Measure in another unit.")
    level = float(np.average(of_function, weights=w[counted])) if mean == 0.0 else float(mean)
    if abs(level) > LARGEST_LEVEL * sd and not constant:
        what, how = "y is", "Subtract its mean, and add it to predictions, as GPRegressor(normalize_y=True) does."
        if likelihood.link(t) is not t:
            what, how = "the logarithms of y are", "Divide y by its mean, and multiply predictions by it."
        raise ValueError(
            f"{what} {level:.6g} on average, with a spread of {float(sd):.3g}: rounding hides what varies beside a "
            f"constant so large. {how}"
        )
    if likelihood.takes_limits and not constant:
        level, variance = _behind_limits(likelihood, t, offset, w, (level, variance))
    return variance, variance + level**2


def _behind_limits(
    likelihood: Any, t: Array, offset: Array | float, w: Array, found: tuple[float, float]
) -> tuple[float, float]:
    """Return the likeliest mean and variance of normal targets, or logarithms of times, of which some are censored.

    Limits lie closer together than what is behind them: the variance is at least that of both, which was ``found``.
    Where all are on one side of their limits nothing tells, and it is that.
    """
    other = np.broadcast_to(np.nan if likelihood.other_limit is None else likelihood.other_limit, t.shape)
    if np.isnan(other).all() or (other == np.inf).all() or (other == -np.inf).all():
        return found
    finite = np.isfinite(other)
    limits = np.where(finite, likelihood.link(np.where(finite, other, t)), other)
    (mean, variance), targets = found, likelihood.link(t) - offset

    def misfit(x: Array) -> float:
        normal = Censored(Normal(variance * math.exp(x[1])), limits - offset)
        return -float(np.sum(w * normal.log_prob(targets, np.full(t.shape, mean + math.sqrt(variance) * x[0])).value))

    away, wider = minimize(misfit, np.zeros(2), method="Nelder-Mead", bounds=((None, None), (0.0, WIDER))).x
    return mean + math.sqrt(variance) * float(away), variance * math.exp(wider)
