r"""Likelihoods without a closed form, in many bits: the log of an average over a Gaussian, with four derivatives.

The density is integrated by Gauss and Legendre's rule on panels that are as narrow as it bends. Central moments give
the derivatives in the Gaussian's mean, which are cumulants.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, inf, sqrt
from typing import NamedTuple

from flint import acb, arb, ctx

from validation.stress.densities import INTEGRAL_BITS, Answer, gauss_legendre
from validation.stress.posterior import NoTruthError

Curve = Callable[[arb], list[arb]]
"""log p(t|f) and its four derivatives in f."""
NOTHING = 110.0
"""In nats: how far below the largest a panel counts for nothing."""
MOST_PANELS = 5000


class Likely(NamedTuple):
    """A likelihood of one case.

    Attributes
    ----------
    curve : callable
        log p(t|f) and its four derivatives in f, in many bits.
    value : callable
        The first of them in floats.
    bend : callable
        About how wide a panel may be at f, in floats.
    peak : float or None
        Where log p is largest if it is not concave; None if it is.
    """

    curve: Curve
    value: Callable[[float], float]
    bend: Callable[[float], float]
    peak: float | None = None


def averaged(likely: Likely, mean: arb, variance: arb) -> Answer:
    """Return log of the average over N(mean, variance), with derivatives in the mean."""
    if variance == 0:
        return Answer(*(value.mid() for value in likely.curve(mean)))
    before, ctx.prec = ctx.prec, INTEGRAL_BITS
    try:
        return _integral(likely, mean, variance)
    finally:
        ctx.prec = before


def _integral(likely: Likely, mean: arb, variance: arb) -> Answer:
    nodes, weights = [], []
    for low, high in _panels(likely, float(mean), float(variance)):
        middle, radius = (arb(low) + arb(high)) / 2, (arb(high) - arb(low)) / 2
        for node, weight in gauss_legendre():
            f = (middle + radius * node).mid()
            log_density = likely.curve(f)[0] - (f - mean) ** 2 / (2 * variance)
            nodes.append(f)
            weights.append((log_density.mid().exp() * weight * radius).mid())
    mass = sum(weights, arb(0)).mid()
    centre = (sum((w * f for w, f in zip(weights, nodes, strict=True)), arb(0)) / mass).mid()
    central = []
    for k in (2, 3, 4):
        moment = sum((w * (f - centre) ** k for w, f in zip(weights, nodes, strict=True)), arb(0))
        central.append((moment / mass).mid())
    value = mass.log() - (2 * arb.pi() * variance).log() / 2
    second, third, fourth = central
    return Answer(
        *(
            answer.mid()
            for answer in (
                value,
                (centre - mean) / variance,
                (second / variance - 1) / variance,
                third / variance**3,
                (fourth - 3 * second**2) / variance**4,
            )
        )
    )


def _panels(likely: Likely, mean: float, variance: float) -> list[tuple[float, float]]:
    """Return the intervals in which the density is, each about as wide as it bends there."""
    sd = sqrt(variance)

    def log_density(f: float) -> float:
        return likely.value(f) - 0.5 * (f - mean) ** 2 / variance

    def width(f: float) -> float:
        return min(1.2 * sd, likely.bend(f))

    if likely.peak is not None:  # all where a likelihood as at its peak would leave something of the Gaussian
        reach = sqrt(2.0 * (NOTHING + likely.value(likely.peak) - max(map(log_density, (mean, likely.peak)))))
        low, high = mean - reach * sd, mean + reach * sd
        found, at = [], low
        while at < high:
            # a panel may not jump over the peak, near which panels are narrow
            step = min(width(at), max(0.5 * abs(likely.peak - at), width(likely.peak)))
            found.append((at, at + step))
            _check_count(found)
            at += step
        largest = max(log_density(f) for panel in found for f in panel)
        return [panel for panel in found if max(map(log_density, panel)) > largest - NOTHING]
    mode = _mode(log_density, mean, sd)
    found = []
    for side in (-1.0, 1.0):
        at = mode
        while log_density(at) > log_density(mode) - NOTHING:
            step = width(at + side * width(at))  # the narrower of here and there
            step = min(step, width(at))
            found.append((min(at, at + side * step), max(at, at + side * step)))
            _check_count(found)
            at += side * step
    return found


def _check_count(found: list[tuple[float, float]]) -> None:
    if len(found) > MOST_PANELS:
        raise NoTruthError(f"an integral in many bits would take more than {MOST_PANELS} panels")


def _mode(log_density: Callable[[float], float], mean: float, sd: float) -> float:
    """Return about where a concave function is largest, by the golden section, from the mean outwards."""
    step = sd
    low, high = mean - step, mean + step
    while log_density(low) > max(log_density(low + 0.5 * step), -inf):
        low, step = low - step, 2.0 * step
    step = sd
    while log_density(high) > max(log_density(high - 0.5 * step), -inf):
        high, step = high + step, 2.0 * step
    share = 0.5 * (sqrt(5.0) - 1.0)
    for _ in range(90):
        one, other = high - share * (high - low), low + share * (high - low)
        low, high = (low, other) if log_density(one) >= log_density(other) else (one, high)
    return 0.5 * (low + high)


def powers_of_logistic(up: arb, down: arb, x: arb) -> list[arb]:
    """Return a log sigma(x) + b log sigma(-x), and its four derivatives in x."""
    q = 1 / (1 + x.exp()) if x < 0 else (-x).exp() / (1 + (-x).exp())  # sigma(-x), without overflow
    p = (1 - q).mid() if x < 0 else 1 / (1 + (-x).exp())
    p = x.exp() / (1 + x.exp()) if x < 0 else p
    both, slope = p * q, q - p
    total = up + down
    log_p = -(1 + (-x).exp()).log() if x > 0 else x - (1 + x.exp()).log()
    log_q = log_p - x
    d2 = -total * both
    return [up * log_p + down * log_q, up * q - down * p, d2, d2 * slope, d2 * (slope**2 - 2 * both)]


def student(scale: arb, df: arb, residual: arb) -> list[arb]:
    """Return the log density of Student's t, and its four derivatives in f of the residual t - f."""
    half = (df + 1) / 2
    constant = half.lgamma() - (df / 2).lgamma() - (df * arb.pi()).log() / 2 - scale.log()
    w = 1 / acb(df.sqrt() * scale, residual)
    derivatives, power = [], acb(1)
    for k in range(4):
        power = power * acb(0, 1) * w
        derivatives.append((df + 1) * [1, 1, 2, 6][k] * power.real)
    return [constant - half * (1 + (residual / scale) ** 2 / df).log(), *derivatives]


def log_choose(n: int, k: int) -> arb:
    """Return the log of a binomial coefficient."""
    return arb(comb(n, k)).log()
