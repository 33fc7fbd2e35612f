"""The truth about a problem, by the method that solved it; next to what was returned where there may be several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from flint import arb, arb_mat

from bayesgp_mf import Probit, Solution
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.types import Array
from validation.stress.classes import softmax_laplace, two_class_tap
from validation.stress.digits import Numbers, matrix, numbers, times, total
from validation.stress.fixed_points import tap
from validation.stress.known_variances import laplace, naive, variational
from validation.stress.posterior import Truth, shift_of
from validation.stress.problems import Drawn
from validation.stress.sequential import online

MOST_OF_ORTHANT = 3
"""Cases up to which an orthant's probability has a closed form."""


def truth(drawn: Drawn, solution: Solution) -> Truth | None:
    """Return what the solution should be, or None where only its being finite is checked.

    Raises
    ------
    NoTruthError
        If there is nothing near it that solves the equations.
    """
    method, alpha = drawn.method, solution.alpha
    if drawn.likelihood.targets == "classes":
        if method == "laplace":
            return softmax_laplace(drawn.gram, drawn.t, alpha)
        two = alpha.shape[1] == 2
        return two_class_tap(drawn.gram, drawn.t, alpha, drawn.likelihood, solution.correction.site) if two else None
    if method == "svm" or (method == "exact" and not isinstance(drawn.likelihood, Gaussian)):
        return None
    gram, weights = drawn.prior(), numbers(alpha)
    t, likelihood = drawn.by_case()
    if method == "online":
        return online(gram, t, likelihood)
    known: dict[str, Callable[..., Truth]] = {"naive": naive, "variational": variational, "laplace": laplace}
    if method in known:
        return known[method](gram, t, likelihood, weights)
    precision = numbers(solution.correction.site_precision)
    return tap(gram, t, likelihood, precision, shift_of(gram, weights, precision))


def latent(drawn: Drawn, solution: Solution) -> Numbers:
    """Return the posterior means K alpha that the weights stand for, in the order of the truth's."""
    alpha = solution.alpha
    if alpha.ndim == 1:
        return drawn.means(alpha)
    each = drawn.gram if drawn.gram.ndim == 3 else np.broadcast_to(drawn.gram, (alpha.shape[1], *drawn.gram.shape))
    columns = [times(matrix(each[c]), numbers(alpha[:, c])) for c in range(alpha.shape[1])]
    if drawn.method == "tap":
        return [(b - a).mid() for a, b in zip(*columns, strict=True)]
    return [value for case in zip(*columns, strict=True) for value in case]


def margin_violation(drawn: Drawn, solution: Solution) -> float:
    """Return by how much the Kuhn-Tucker conditions of the hard-margin machine are violated, in units of the margin."""
    gram = _with_noise(drawn)
    weight = [t * a for t, a in zip(numbers(drawn.t), numbers(solution.alpha), strict=True)]
    margin = [t * f for t, f in zip(numbers(drawn.t), times(gram, numbers(solution.alpha)), strict=True)]
    largest = max(float(gram[i, i]) for i in range(drawn.t.size))
    off = [float(1 - m) if w == 0 else float(abs(m - 1)) for w, m in zip(weight, margin, strict=True)]
    return max(0.0, *off, *(-float(w) * largest for w in weight))


def orthant_evidence(drawn: Drawn) -> float | None:
    """Return the log evidence of a probit with at most three cases: orthants, summed over which labels were flipped."""
    n, likelihood = drawn.t.size, drawn.likelihood
    if n > MOST_OF_ORTHANT or not isinstance(likelihood, Probit):
        return None
    gram, flip = _with_noise(drawn), arb(likelihood.flip)
    parts = []
    for flips in product((False, True), repeat=n):
        t = [-label if flipped else label for label, flipped in zip(drawn.t, flips, strict=True)]
        chance = total([arb(1)])
        for flipped in flips:
            chance *= flip if flipped else 1 - flip
        parts.append(chance * _orthant(gram, t))
    return float(total(parts).log())


def _orthant(gram: arb_mat, t: Sequence[float]) -> arb:
    """Return the probability of signs ``t`` of at most three Gaussian values."""
    n, angles = len(t), arb(0)
    for i in range(n):
        for j in range(i):
            correlation = gram[i, j] / (gram[i, i] * gram[j, j]).sqrt()
            angles += (arb(t[i]) * arb(t[j]) * _inside(correlation)).asin()
    base = arb(1) / 2**n
    return base + angles / (2 * arb.pi() if n == 2 else 4 * arb.pi())


def _inside(correlation: arb) -> arb:
    middle = correlation.mid()
    return arb(1) if middle > 1 else (arb(-1) if middle < -1 else middle)


def _with_noise(drawn: Drawn) -> arb_mat:
    assert isinstance(drawn.likelihood, Probit)
    noise: Array = np.full(drawn.t.size, drawn.likelihood.noise_variance)
    gram = matrix(drawn.gram)
    for i, value in enumerate(noise):
        gram[i, i] = gram[i, i] + arb(float(value))
    return gram
