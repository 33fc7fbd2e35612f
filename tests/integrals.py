"""Integrals over a Gaussian, enclosed to many digits by ball arithmetic: what rules of quadrature are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from flint import acb, arb, ctx

Function = Callable[[acb, bool], acb]
"""Of a complex number, and whether it has to be analytic there (as `acb.integral` asks)."""


def over_gaussian(function: Function, mean: float, variance: float, around: Iterable[float] = (), sds: int = 40) -> arb:
    """Return the integral of function times N(f | mean, variance), to some 30 digits, within so many standard
    deviations; it should be near 1. At places ``around`` it is split."""
    ctx.prec = 200
    m, v = arb(mean), arb(variance)
    scale, reach = (2 * arb.pi() * v).sqrt(), sds * variance**0.5
    inside = (place for place in around if abs(place - mean) < reach)
    cuts = sorted({*inside, mean - reach, mean, mean + reach})
    total = acb(0)
    for left, right in pairwise(cuts):
        total += acb.integral(
            lambda f, analytic: function(f, analytic) * (-((f - m) ** 2) / (2 * v)).exp(),
            acb(left),
            acb(right),
            rel_tol=arb(2) ** -110,
        )
    return (total / scale).real
