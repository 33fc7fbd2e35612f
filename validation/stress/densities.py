r"""The likelihoods once more, in many bits: log of an average over a Gaussian, with four derivatives in its mean."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import asinh, exp, sinh
from typing import NamedTuple, Protocol

from flint import arb, ctx

from bayesgp_mf import Logit, Probit
from bayesgp_mf.likelihoods import Gaussian, Likelihood

PANEL = 20
"""Nodes of a panel of Gauss and Legendre's rule."""
REACH = 13.0
"""Standard deviations of a Gaussian beyond which nothing is left to 36 digits."""
INTEGRAL_BITS = 140
"""Of a numerical integral, which is right to some 30 digits; closed forms have as many as are asked for."""


class Answer(NamedTuple):
    """Log Z in nats, and its derivatives in the mean."""

    value: arb
    d1: arb
    d2: arb
    d3: arb
    d4: arb


class Density(Protocol):
    """What a likelihood answers."""

    def __call__(self, t: arb, mean: arb, variance: arb) -> Answer:
        """Return log of the integral of p(t|f) N(f | mean, variance) and its derivatives in the mean."""


def density(likelihood: Likelihood) -> Density:
    """Return a likelihood's density in many bits."""
    match likelihood:
        case Gaussian(noise_variance=noise):
            return lambda t, mean, variance: _gaussian(arb(noise), t, mean, variance)
        case Probit(noise_variance=noise, flip=flip):
            return lambda t, mean, variance: _probit(arb(noise), arb(flip), t, mean, variance)
        case Logit():
            return _logit
    raise ValueError(f"there is no density in many bits for {likelihood!r}.")


def _gaussian(noise: arb, t: arb, mean: arb, variance: arb) -> Answer:
    whole = variance + noise
    rest = t - mean
    value = -((2 * arb.pi() * whole).log() + rest * rest / whole) / 2
    return _middle(value, rest / whole, -1 / whole, arb(0), arb(0))


def _probit(noise: arb, flip: arb, t: arb, mean: arb, variance: arb) -> Answer:
    whole = variance + noise
    right, zero = 1 - 2 * flip, arb(0)
    if whole == 0:  # a step at a value that is known
        side = arb(1) if t * mean > 0 else (zero if t * mean < 0 else arb(1) / 2)
        return _middle((flip + right * side).log(), zero, zero, zero, zero)
    scale = whole.sqrt()
    z = (t * mean / scale).mid()
    # of a ball far out arb bounds erfc by powers of two, so coarsely that nothing is known of it; of a number it knows
    total_mass = flip + right * (-z / arb(2).sqrt()).mid().erfc() / 2
    rho = (right * (-z * z / 2).exp() / (2 * arb.pi()).sqrt() / total_mass).mid()
    # rho' = -rho (rho + z), and so on
    sum_ = (rho + z).mid()
    first = (-rho * sum_).mid()
    second = (-first * sum_ - rho * (first + 1)).mid()
    third = -second * sum_ - 2 * first * (first + 1) - rho * second
    return _middle(total_mass.log(), t * rho / scale, first / whole, t * second / (whole * scale), third / whole**2)


def _logit(t: arb, mean: arb, variance: arb) -> Answer:
    centre = (t * mean).mid()
    if variance == 0:
        likely = (1 + (-centre).exp()).mid()
        p = 1 / likely
        q = (-centre).exp() / likely if centre > 0 else 1 - p
        d2 = -p * q
        return _middle(-likely.log(), t * q, d2, t * d2 * (q - p), d2 * ((q - p) ** 2 + 2 * d2))
    before, ctx.prec = ctx.prec, INTEGRAL_BITS
    try:
        answer = _logistic_integral(centre, variance)
    finally:
        ctx.prec = before
    return _middle(answer.value, t * answer.d1, answer.d2, t * answer.d3, answer.d4)


def _logistic_integral(mean: arb, variance: arb) -> Answer:
    """Integrate over panels that are narrow where the sigmoid bends and as wide as the Gaussian elsewhere."""
    scale = variance.sqrt()
    peak, width = float(mean), float(scale)
    mode = _mode(peak, width)
    moments = [arb(0)] * 5
    centre = arb(mode)
    half = (centre - mean) ** 2 / (2 * variance)
    largest = -half + _sigmoid(centre).log()
    for low, high in _panels(mode, width):
        middle, radius = (arb(low) + arb(high)) / 2, (arb(high) - arb(low)) / 2
        for node, weight in gauss_legendre():
            f = middle + radius * node
            x = (f - centre) / scale
            there = (-((f - mean) ** 2) / (2 * variance) - largest).exp() * _sigmoid(f)
            part = (there * weight * radius).mid()
            for k in range(5):
                moments[k] = (moments[k] + part).mid()
                part = (part * x).mid()
    mass = moments[0]
    raw = [(moment / mass).mid() for moment in moments[1:]]
    offset = (centre - mean) / scale  # tilted moments in units of the Gaussian
    average = raw[0]
    second = raw[1] - average**2
    third = raw[2] - 3 * average * raw[1] + 2 * average**3
    fourth = raw[3] - 4 * average * raw[2] - 3 * raw[1] ** 2 + 12 * average**2 * raw[1] - 6 * average**4
    value = largest + mass.log() - (2 * arb.pi() * variance).log() / 2
    return Answer(
        value,
        (offset + average) / scale,
        (second - 1) / variance,
        third / (variance * scale),
        fourth / variance**2,
    )


def _sigmoid(f: arb) -> arb:
    """Return 1/(1 + exp(-f)), without a number that is too large even for arb."""
    if f > 0:
        return (1 / (1 + (-f).exp())).mid()
    small = f.exp()
    return (small / (1 + small)).mid()


def _mode(mean: float, scale: float) -> float:
    """Return about where sigma(f) N(f | mean, scale^2) is largest, by halving an interval of asinh f."""
    low, high = asinh(mean), asinh(mean + scale**2)
    for _ in range(100):
        middle = 0.5 * (low + high)
        f = sinh(middle)
        wrong = 1.0 / (1.0 + exp(min(f, 700.0)))
        low, high = (middle, high) if (mean - f) + scale**2 * wrong > 0 else (low, middle)
    return sinh(low)


def _panels(mode: float, scale: float) -> list[tuple[float, float]]:
    """Return intervals around the mode, none wider than about its distance from where the sigmoid bends."""
    low, high = mode - REACH * scale, mode + REACH * scale
    ends, at = [low], low
    while at < high:
        # the poles are at +-i pi: a panel may be about as wide as its middle is far from them
        width = min(1.5 * scale, max(2.0, 0.7 * abs(at)) if at > 0 else max(2.0, 0.45 * abs(at)))
        at = min(at + width, high)
        ends.append(at)
    return list(pairwise(ends))


@cache
def gauss_legendre() -> list[tuple[arb, arb]]:
    """Return nodes and weights on [-1, 1]."""
    before, ctx.prec = ctx.prec, 2 * INTEGRAL_BITS
    try:
        pairs = [arb.legendre_p_root(PANEL, k, weight=True) for k in range(PANEL)]
        return [(node.mid(), weight.mid()) for node, weight in pairs]
    finally:
        ctx.prec = before


def _middle(*values: arb) -> Answer:
    return Answer(*(value.mid() for value in values))
