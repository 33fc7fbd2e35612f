"""One sweep of online learning in many bits: a Gaussian after each case (thesis, eqs. 52 and 53)."""

from __future__ import annotations

from flint import arb, arb_mat

from validation.stress.densities import Density
from validation.stress.digits import Numbers
from validation.stress.posterior import NoTruthError, Posterior, Truth, gaussian_rounding, site_of


def online(gram: arb_mat, t: Numbers, density: Density) -> Truth:
    """Return what one sweep in order leaves."""
    n = len(t)
    mean, covariance, evidence = [arb(0)] * n, gram, arb(0)
    precision, shift = [], []
    for i, target in enumerate(t):
        m, s = mean[i], covariance[i, i]
        if s < 0:
            raise NoTruthError("a variance is negative")
        answer = density(target, m, s)
        column = [covariance[j, i] for j in range(n)]
        as_matrix = arb_mat(n, 1, column)
        covariance = (covariance + as_matrix * (as_matrix.transpose() * answer.d2)).mid()
        mean = [(f + answer.d1 * c).mid() for f, c in zip(mean, column, strict=True)]
        evidence = (evidence + answer.value).mid()
        w, b = site_of(m, s, answer)
        precision.append(w)
        shift.append(b)
    alpha = [(b - w * f).mid() for b, w, f in zip(shift, precision, mean, strict=True)]
    variance = [covariance[i, i] for i in range(n)]
    after = Posterior(precision, shift, covariance, mean, alpha, variance)
    # as if the evidence were stationary in the sites: near enough for the size of its rounding
    return Truth(mean, variance, evidence, gaussian_rounding(gram, after))
