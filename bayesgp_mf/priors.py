"""Priors of hyperparameters from the inputs, and from what a user knows of the targets.

A length scale is held against the distances between cases: a tenth of the median distance, below which most cases know
nothing of each other, and the largest one, beyond which all are alike. A variance is held against how far targets move:
the standard deviation of a latent value at which nine in ten of them lie where the user says. A dispersion of counts is
held against their mean, and any other parameter of a likelihood against its present value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import norm

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.hyper.priors import Distance, Exponential, LogNormal, Prior
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.inference.problem import check_finite
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import as_inputs_of
from bayesgp_mf.inputs.options import as_kernel, as_likelihood
from bayesgp_mf.inputs.tables import as_offset, check_here, feature_names
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Logit, NegativeBinomial, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.types import Array

__all__ = ["Suggestion", "suggest"]

Form = Literal["log-normal", "penalised complexity"]
NINE_IN_TEN = float(norm.ppf(0.95))
"""Standard deviations between which and their negative nine in ten values of a normal variable lie."""
PROBABILITIES = (0.05, 0.95)
"""Between which the probability of a label moves, if nothing else is said."""
LOG_SD = 1.5
"""Of the logarithm of a variance around its median: nine in ten within a factor of 12."""
NOISE = 0.1
"""The median of a noise variance, as a share of that of the latent values."""
VARY = (1.1, 5.0)
"""The variance of a count relative to its mean, between which it is with 90 % probability."""
FACTOR = 4.0
"""Within which of its present value a parameter of a likelihood is with 90 % probability, if nothing else is known."""
RARE = 0.05
"""The probability of a length scale below the short one under a penalised-complexity prior."""
BELOW_ONE = 2.0 / 3.0
"""The probability of a mixing below one half, odds below one, under such a prior [Riebler et al. 2016]."""
LINEAR = 1e-9
"""Relative: a parameter in which the prior variance of the cases bends less scales a part of it."""
DIGITS = 4
"""Behind the point, of the numbers of a prior."""
LEAST = 1e-100
"""It, and its inverse, are squared without a loss."""
ROUNDS = 10
"""In which medians of variances, in sums of products, are made to have the prior variance together."""
FARTHEST = 40.0
"""Latent units within which the probability of a label is looked for."""


class Suggestion(dict[str, Prior]):
    """Priors by name of a parameter, for ``fit(..., priors=...)``, with a sentence on each.

    Attributes
    ----------
    sentences : dict of str to str
        What each prior says, by name.
    """

    def __init__(self, priors: Mapping[str, Prior], sentences: Mapping[str, str]) -> None:
        super().__init__(priors)
        self.sentences = dict(sentences)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {self[name]!r}\n    {self.sentences[name]}" for name in self)


def suggest(
    X: Any,
    kernel: Any,
    likelihood: Likelihood = Probit(),
    *,
    between: tuple[float, float] | None = None,
    offset: ArrayLike | None = None,
    form: Form = "log-normal",
) -> Suggestion:
    """Return a prior for each length scale, variance and noise of a model, and each parameter of its likelihood.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs, as `fit` takes them.
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        Prior covariance. Its length scales and variances get priors, and the odds of `kernels.Areal`; a period, or a
        shape, gets none.
    likelihood : Likelihood
        Of the targets. Its parameters that `fit` tunes get priors, and gaps between ordered levels, which are tuned if
        they have one; `fit` takes ``fixed`` for those that it should keep. What is tuned only if it has a prior, as
        ``df`` of Student's t, gets none else.
    between : (float, float), optional
        Where nine in ten targets move if each variance is at its median, noise apart: probabilities, of the second
        class or of a trial, by default 0.05 and 0.95 before labels are flipped; expected counts, or measurements, for
        which there is no default.
        A prior has the mean zero, which is a count of one, or a probability of a half: the middle is for the ``offset``
        of `fit` and of `prior_predictive`.
    offset : (n,) array_like or float, optional
        Offsets of the cases, as logs of exposures. Then ``between`` is for an offset of zero: of counts it is rates,
        expected counts of an exposure of one. The middle of ``between``, which `fit` gets in its offset, is no part of
        this one.
    form : {"log-normal", "penalised complexity"}
        Of the priors. The second kind is largest at the simplest model, a latent function of zero or without end to its
        length scale (`hyper.Exponential`).

    Returns
    -------
    Suggestion
        A mapping of names to priors, which prints a sentence on each.

    Raises
    ------
    ValueError
        If an argument is invalid, or ``between`` is missing.

    Notes
    -----
    Draws of `prior_predictive` are wider, as variances are not at their medians. Under one log-normal variance nine in
    ten latent values lie within 1.5 times the range, and 81 % inside it; under a penalised-complexity prior within 1.8
    times, and 78 % inside. Give a narrower ``between`` if you mean the draws.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> bgp.priors.suggest(pima.X, bgp.kernels.Gaussian())
    lengthscale: LogNormal(mean=0.5938, sd=1.012, power=1.0)
        with 90 % probability between 0.343 (a tenth of the median distance between cases) and 9.57 (the largest)
    variance: LogNormal(mean=0.0, sd=1.5, power=1.0)
        the median is 1: then nine in ten probabilities lie between 0.05 and 0.95
    """
    check_here(X, None)
    check_one_of("form", form, *get_args(Form))
    table, likelihood = as_pandas("X", X), as_likelihood(likelihood)
    inputs, kernel = as_inputs_of(as_kernel(kernel, tuned=True).with_column_names(feature_names("X", table)), table)
    sd, moves = _latent_sd(likelihood, between)
    offsets = as_offset(offset, table, len(inputs))
    by_case(likelihood, offsets, None)  # which raises where it takes none of these
    moves = moves if offsets is None else f"at an offset of zero {moves}"
    found: dict[str, tuple[Prior, str]] = _of_length_scales(kernel, inputs, form)
    found |= _of_variances(kernel, inputs, sd, moves, form, set(found))
    found |= _of_distances(kernel, form)
    gaps = () if likelihood.n_levels is None else likelihood.parameters.keys() - {"noise_variance"}
    model = Model.of(kernel, likelihood, gaps)
    for name, own in model.named.items():
        value = likelihood.parameters[own]
        if own in ("noise_variance", "scale"):
            power = 2.0 if own == "scale" else 1.0
            median = (NOISE * sd**2) ** (1.0 / power)
            found[name] = (
                LogNormal(_plain(np.log(median)), LOG_SD / power),
                _median(median, "the noise has a tenth of the variance"),
            )
        elif between is not None and isinstance(likelihood, NegativeBinomial):
            rate, exposure = np.exp(np.mean(np.log(_pair(between)))), 1.0 if offsets is None else np.exp(offsets.mean())
            mean = rate * exposure
            product = "" if offsets is None else f", {rate:.3g} times an exposure of {exposure:.3g},"
            text = f"the variance of a count of mean {mean:.3g}{product} is {VARY[0]:g} to {VARY[1]:g} times its mean"
            found[name] = _within(*(mean / (ratio - 1.0) for ratio in VARY[::-1])), f"with 90 % probability {text}"
        else:
            low, high = value / FACTOR, min(FACTOR * value, model.limit(name))
            text = f"with 90 % probability between {low:.3g} and {high:.3g}, around the present {value:.3g}"
            found[name] = _within(low, high), text
    return Suggestion({n: prior for n, (prior, _) in found.items()}, {n: text for n, (_, text) in found.items()})


def _of_length_scales(kernel: Kernel, X: Array, form: Form) -> dict[str, tuple[Prior, str]]:
    """Return priors of the length scales that are not zero."""
    found: dict[str, tuple[Prior, str]] = {}
    for name, (short, long) in kernel.spans(X).items():
        present = np.asarray(kernel.params[name]) > 0
        low, high = np.atleast_1d(short)[np.atleast_1d(present)], np.atleast_1d(long)[np.atleast_1d(present)]
        apart = (low > 0) & (high > low)
        if not np.any(apart):  # all cases are at one place
            continue
        # in a column of equal values a length scale means nothing, and gets the middle of the others
        low, high = (np.where(apart, ends, np.exp(np.mean(np.log(ends[apart])))) for ends in (low, high))
        texts = f"{_range(low)} (a tenth of the median distance between cases)", f"{_range(high)} (the largest)"
        if form == "log-normal":
            found[name] = _within(low, high), f"with 90 % probability between {texts[0]} and {texts[1]}"
        else:
            power = -0.5 * (X.shape[1] if not np.ndim(short) else 1)
            found[name] = (
                Exponential(_rate(-np.log(RARE) * low ** (-power)), power),
                f"with {100 * RARE:g} % probability below {texts[0]}",
            )
    return found


def _of_distances(kernel: Kernel, form: Form) -> dict[str, tuple[Prior, str]]:
    """Return priors of the parameters that take the model so far from a simpler one: odds, of a mixing."""
    found: dict[str, tuple[Prior, str]] = {}
    for name, (log_values, distances) in kernel.distances().items():
        if form == "log-normal":
            found[name] = LogNormal(0.0, LOG_SD), "the median is 1, with 90 % probability within a factor of 12"
        else:
            at_one = np.exp(np.interp(0.0, log_values, np.log(distances)))
            known = tuple(log_values.tolist()), tuple(distances.tolist())
            text = f"with {100 * BELOW_ONE:.0f} % probability below 1, and smaller ones are likelier"
            found[name] = Distance(*known, _rate(-np.log1p(-BELOW_ONE) / at_one)), text  # type: ignore[arg-type]
    return found


def _within(low: Any, high: Any) -> Prior:
    """Return the prior with 90 % probability between two numbers, or those of each entry."""
    ends = np.log(low), np.log(high)  # their product may overflow
    return LogNormal(_plain(0.5 * (ends[0] + ends[1])), _plain(0.5 * (ends[1] - ends[0]) / NINE_IN_TEN))


def _of_variances(
    kernel: Kernel, X: Array, sd: float, moves: str, form: Form, taken: set[str]
) -> dict[str, tuple[Prior, str]]:
    """Return priors of the parameters in which the prior variance of the cases is linear, under which it is sd^2."""
    found: dict[str, tuple[Prior, str]] = {}
    shares = dict[str, float]()

    def variance(**values: Any) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.asarray(np.mean(kernel.replace(**values).diag(X)))
        check_finite(
            "the prior variance of the cases in X", mean[None], "Give X in another unit: the kernel overflows."
        )
        return float(mean)

    before = variance()
    for name, value in kernel.params.items():
        if name in taken or np.ndim(value) or not value > 0:
            continue
        twice, thrice = (variance(**{name: k * value}) for k in (2.0, 3.0))
        share = twice - before
        if share > 0 and abs(thrice - twice - share) <= LINEAR * thrice:
            shares[name] = share
    present = {name: float(kernel.params[name]) for name in shares}
    # a term of a sum has a part of the prior variance; of a product each factor has all of it, and takes a root
    doubled = {name: 2.0 * value for name, value in present.items()}
    of_doubled = variance(**doubled)
    factors = {
        name: float(np.log2(max(2.0, (variance(**doubled | {name: 4.0 * present[name]}) - of_doubled) / share)))
        for name, share in shares.items()
    }
    terms = sum(1.0 / each for each in factors.values())
    medians = {name: present[name] * (sd**2 / terms / share) ** (1.0 / factors[name]) for name, share in shares.items()}
    rest = variance(**{name: LEAST * median for name, median in medians.items()})
    for _ in range(ROUNDS if shares else 0):  # where a factor is a sum, terms have unlike numbers of factors
        excess = (variance(**medians) - rest) / sd**2
        medians = {name: median / excess ** (1.0 / factors[name]) for name, median in medians.items()}
    together = "" if len(shares) < 2 else ", where the others are at theirs"
    for name, median in medians.items():
        text = f"{_median(median, moves)}{together}"
        if form == "log-normal":
            found[name] = LogNormal(_plain(np.log(median)), LOG_SD), text
        else:
            rate = _rate(np.log(2.0) / np.sqrt(median))
            found[name] = Exponential(rate, 0.5), f"{text}, and smaller ones are likelier"
    return found


def _latent_sd(likelihood: Likelihood, between: tuple[float, float] | None) -> tuple[float, str]:
    """Return the standard deviation of latent values at which nine in ten targets move so far, and that in words."""
    of_trials = "trials" in likelihood.new_case_facts
    if between is None and (likelihood.is_real and likelihood.n_levels is None) and not of_trials:
        what = "expected counts, such as (1, 20)" if likelihood.whole_targets else "measurements, such as (10.0, 30.0)"
        raise ValueError(f"between is missing: say where nine in ten {what}, lie.")
    low, high = PROBABILITIES if between is None else _pair(between)
    if not likelihood.is_real or likelihood.n_levels is not None or of_trials:
        if not 0.0 < low < high < 1.0:
            raise ValueError(f"between must be two probabilities, 0 < low < high < 1, got {between!r}.")
        plain = likelihood if likelihood.is_binary else Logit() if of_trials else Probit()
        if plain.forbids:
            return 1.0, "nothing more: without noise a label tells the sign alone, and no scale means anything"
        if between is None:  # these are said of labels before some are flipped
            flip = plain.parameters.get("flip", 0.0)
            low, high = (flip + (1.0 - 2.0 * flip) * p for p in PROBABILITIES)
        far = [_latent_of(plain, p) for p in (low, high)]
        half, shift = 0.5 * (far[1] - far[0]), round(0.5 * (far[0] + far[1]), DIGITS)
        lie = f"between {low:g} and {high:g}"
        if shift:  # classes have no offset, which would bring them there
            without = "between {:.4g} and {:.4g}".format(*plain.predict_proba(np.array([-half, half]), np.zeros(2)))
            lie = without if likelihood.has_classes else _with_offset(lie, f"{shift:.3g}", without)
        return half / NINE_IN_TEN, f"nine in ten probabilities lie {lie}"
    if likelihood.whole_targets:
        if low <= 0:
            raise ValueError(f"between must be two expected counts > 0, got {between!r}.")
        middle = f"{np.sqrt(low * high):.3g}"
        around = "" if middle == "1" else f", around {_with_offset(middle, f'log({middle})', '1')}"
        moves = f"nine in ten expected counts lie within a factor of {high / low:g}{around}"
        return float(0.5 * (np.log(high) - np.log(low)) / NINE_IN_TEN), moves
    ends = likelihood.link(np.array([low, high]))
    if not np.all(np.isfinite(ends)):
        raise ValueError(f"between must be two means of targets of {likelihood.display_name}, got {between!r}.")
    if np.any(ends != (low, high)):
        apart = f"nine in ten means are as far apart as {low:g} and {high:g}"
        moves = f"{apart}, which they lie between if {np.mean(ends):.3g} is added to the offset of each case"
        return float(0.5 * np.ptp(ends) / NINE_IN_TEN), moves
    middle = f"{0.5 * (low + high):.3g}"
    around = "" if middle == "0" else f", around {_with_offset(middle, middle, '0')}"
    moves = f"nine in ten measurements lie within {high - low:g} of each other{around}"
    return 0.5 * (high - low) / NINE_IN_TEN, moves


def _with_offset(there: str, offset: str, without: str) -> str:
    """Return where targets lie: a prior has the mean zero, and what is added to it is an offset."""
    return f"{there} if {offset} is added to the offset of each case (of fit, not of suggest), and {without} if not"


def _latent_of(likelihood: Likelihood, p: float) -> float:
    """Return the latent value at which the second class has probability p."""

    def excess(f: float) -> float:
        return float(likelihood.predict_proba(np.array([f]), np.array([0.0]))[0]) - p

    if excess(-FARTHEST) * excess(FARTHEST) >= 0:
        raise ValueError(
            f"between holds {p:g}, which no latent value reaches under {likelihood.display_name}: labels may be "
            "flipped. Give probabilities nearer to one half."
        )
    return float(brentq(excess, -FARTHEST, FARTHEST))


def _pair(between: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in between)
    except (TypeError, ValueError):
        raise ValueError(f"between must be two numbers, (low, high), got {between!r}.") from None
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"between must be two finite numbers, low < high, got {between!r}.")
    if not LEAST < high - low < 1.0 / LEAST:
        raise ValueError(
            f"between must be from {LEAST:g} to {1.0 / LEAST:g} apart, got {between!r}: take another unit."
        )
    return low, high


def _plain(values: Array) -> float | tuple[float, ...]:
    """Return numbers as a prior takes them, with as many digits as anyone reads."""
    rounded = np.round(np.atleast_1d(values), DIGITS) + 0.0  # no negative zero
    return float(rounded[0]) if rounded.size == 1 else tuple(rounded.tolist())


def _rate(values: Array) -> float | tuple[float, ...]:
    """Return rates likewise, which may be small."""
    rounded = [round(rate, DIGITS) if rate > 0.1 else float(f"{rate:.{DIGITS}g}") for rate in np.atleast_1d(values)]
    return float(rounded[0]) if len(rounded) == 1 else tuple(map(float, rounded))


def _range(values: Array) -> str:
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return low if low == high else f"{low} to {high}"


def _median(median: float, what: str) -> str:
    return f"the median is {median:.3g}: then {what}"
