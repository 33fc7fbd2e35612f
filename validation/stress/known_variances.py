r"""Naive and variational mean field, and Laplace's mode, in many bits: alpha = d1(K alpha - lambda alpha).

The cavity variances lambda are known beforehand; for Laplace they are zero. Newton's method from the weights that a
solver returned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from validation.stress.densities import Answer, Density
from validation.stress.digits import Numbers, dot, float_matrix, floats, times, total
from validation.stress.posterior import (
    NoTruthError,
    Posterior,
    Truth,
    correction,
    log_det,
    posterior,
    rounding,
    site_of,
)

STEPS = 60
SOLVED = 1e-11
"""Largest change by the last step, in posterior units."""


class _Solution(NamedTuple):
    posterior: Posterior
    variance: Numbers  # lambda
    mean: Numbers  # of the cavities
    answers: list[Answer]

    @property
    def common(self) -> arb:
        """Sum log Z - alpha' K alpha / 2 + sum lambda alpha^2 / 2."""
        value = total(answer.value for answer in self.answers)
        return (value - dot(self.posterior.alpha, self.mean) / 2).mid()


def naive(gram: arb_mat, t: Numbers, density: Density, alpha: Numbers) -> Truth:
    """Return the solution of naive mean field."""
    found = _solve(gram, t, density, [gram[i, i] for i in range(len(t))], alpha)
    weights, d2 = floats(found.posterior.alpha), floats(answer.d2 for answer in found.answers)
    return _truth(found, found.common, rounding(gram, 0.5 * (np.outer(weights, weights) + np.diag(d2))))


def variational(gram: arb_mat, t: Numbers, density: Density, alpha: Numbers) -> Truth:
    """Return the solution of the variational product approximation."""
    try:
        inverse = gram.inv().mid()
    except ZeroDivisionError as error:
        raise NoTruthError("K is singular") from error
    variance = [(1 / inverse[i, i]).mid() for i in range(len(t))]
    if not all(s > 0 for s in variance):
        raise NoTruthError("K is not positive definite")
    found = _solve(gram, t, density, variance, alpha)
    evidence = found.common - gram.det().mid().log() / 2 + total(s.log() for s in variance) / 2
    weights, known = floats(found.posterior.alpha), float_matrix(inverse)
    weight = floats(s * s * (a.d2 + 1 / s) / 2 for a, s in zip(found.answers, variance, strict=True))
    with np.errstate(all="ignore"):
        gradient = 0.5 * np.outer(weights, weights) - 0.5 * known + (known * weight) @ known
    return _truth(found, evidence.mid(), rounding(gram, gradient))


def laplace(gram: arb_mat, t: Numbers, density: Density, alpha: Numbers) -> Truth:
    """Return the mode next to given weights and the Gaussian there."""
    found = _solve(gram, t, density, [arb(0)] * len(t), alpha)
    here = found.posterior
    evidence = found.common - log_det(gram, here.precision) / 2
    pull = [v * a.d3 / 2 for v, a in zip(here.variance, found.answers, strict=True)]  # how log det reacts to the mode
    response = floats(s - w * f for s, w, f in zip(pull, here.precision, times(here.covariance, pull), strict=True))
    weights = floats(here.alpha)
    cross = 0.5 * np.outer(response, weights)
    gradient = 0.5 * (np.outer(weights, weights) - correction(here)) + cross + cross.T
    return Truth(here.mean, here.variance, evidence.mid(), rounding(gram, gradient))


def _truth(found: _Solution, evidence: arb, rounding: float) -> Truth:
    here = found.posterior
    return Truth(here.mean, here.variance, evidence, rounding, found.mean, found.variance)


def _solve(gram: arb_mat, t: Numbers, density: Density, variance: Numbers, alpha: Numbers) -> _Solution:
    size = float("inf")
    for _ in range(STEPS):
        mean, answers = _answers(times(gram, alpha), t, density, variance, alpha)
        sites = [site_of(m, s, answer) for m, s, answer in zip(mean, variance, answers, strict=True)]
        here = posterior(gram, [w for w, _ in sites], [b for _, b in sites])
        size = _change(gram, here, alpha)
        alpha = here.alpha
        if size <= SOLVED:  # all at the same weights, where the evidence is stationary
            return _Solution(here, variance, *_answers(here.mean, t, density, variance, alpha))
        if not np.isfinite(size):
            break
    raise NoTruthError(f"the equations could not be solved: a step changes means by {size:.1e} posterior sd")


def _answers(
    latent: Numbers, t: Numbers, density: Density, variance: Numbers, alpha: Numbers
) -> tuple[Numbers, list[Answer]]:
    mean = [(f - s * a).mid() for f, s, a in zip(latent, variance, alpha, strict=True)]
    return mean, [density(target, m, s) for target, m, s in zip(t, mean, variance, strict=True)]


def _change(gram: arb_mat, here: Posterior, alpha: Numbers) -> float:
    """Return by how much a step changed means and weights, in posterior units."""
    sd = [abs(v).sqrt() for v in here.variance]
    means = [(f - g) / s if s > 0 else arb(0) for f, g, s in zip(here.mean, times(gram, alpha), sd, strict=True)]
    weights = [(a - b) * s for a, b, s in zip(here.alpha, alpha, sd, strict=True)]
    return float(np.abs(floats([*means, *weights])).max())
