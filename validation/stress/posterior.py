r"""Gaussian posteriors under sites, in many bits, by code that shares none of the package's.

With sites W and b, n by n matrices and vectors as in `bayesgp_mf.solvers.meanfield`,

.. math:: \Sigma = (I + K W)^{-1} K, \quad f = \Sigma b, \quad \alpha = b - W f

need no inverse of K and no positive W; what cancels in them costs some of many bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from bayesgp_mf.types import Array
from validation.stress.densities import Answer
from validation.stress.digits import Numbers, floats, one_plus, solved, times


class NoTruthError(Exception):
    """The equations have no solution near what was returned, or none that could be found."""


class Truth(NamedTuple):
    """What a solution should be.

    Attributes
    ----------
    mean, variance : list of arb
        Posterior means and variances of the latent values.
    evidence : arb
        In nats.
    rounding : float
        By how much rounding of K moves the evidence, in nats: eps times the root of the sum over i, j of
        (sd_i G_ij sd_j)^2, with G its derivative in K and sd the prior's.
    cavity_mean, cavity_variance : list of arb or None
        Of a method with cavities.
    """

    mean: Numbers
    variance: Numbers
    evidence: arb
    rounding: float
    cavity_mean: Numbers | None = None
    cavity_variance: Numbers | None = None


class Posterior(NamedTuple):
    """What follows from sites: W, b, Sigma, f, alpha and the diagonal of Sigma."""

    precision: Numbers
    shift: Numbers
    covariance: arb_mat
    mean: Numbers
    alpha: Numbers
    variance: Numbers


def posterior(gram: arb_mat, precision: Numbers, shift: Numbers) -> Posterior:
    """Return the Gaussian posterior under sites."""
    try:
        covariance = solved(one_plus(gram, precision), gram)
    except ZeroDivisionError as error:
        raise NoTruthError("I + K W is singular") from error
    mean = times(covariance, shift)
    alpha = [(b - w * f).mid() for b, w, f in zip(shift, precision, mean, strict=True)]
    return Posterior(precision, shift, covariance, mean, alpha, [covariance[i, i] for i in range(len(shift))])


def shift_of(gram: arb_mat, alpha: Numbers, precision: Numbers) -> Numbers:
    """Return the shifts of sites with given precisions under which the weights are alpha: b = alpha + W K alpha."""
    return [(a + w * f).mid() for a, w, f in zip(alpha, precision, times(gram, alpha), strict=True)]


def site_of(mean: arb, variance: arb, answer: Answer) -> tuple[arb, arb]:
    """Return W and b of the site that a likelihood amounts to at a cavity."""
    tilted = 1 + variance * answer.d2
    precision = (-answer.d2 / tilted).mid()
    return precision, (precision * mean + answer.d1 / tilted).mid()


def log_det(gram: arb_mat, precision: Numbers) -> arb:
    """Return log det(I + K W)."""
    determinant = one_plus(gram, precision).det().mid()
    if not determinant > 0:
        raise NoTruthError("I + K W has no positive determinant")
    return determinant.log().mid()


def correction(after: Posterior) -> Array:
    """Return R = W - W Sigma W as floats."""
    n = len(after.precision)
    entries = [
        after.precision[i] * ((1 if i == j else 0) - after.covariance[i, j] * after.precision[j])
        for i in range(n)
        for j in range(n)
    ]
    return floats(entries).reshape(n, n)


def rounding(gram: arb_mat, gradient: Array) -> float:
    """Return by how much rounding of K moves what has this derivative in it."""
    sd = np.sqrt(np.maximum(floats(gram[i, i] for i in range(gram.nrows())), 0.0))
    with np.errstate(all="ignore"):
        return float(np.finfo(np.float64).eps * np.linalg.norm(sd[:, None] * gradient * sd))


def gaussian_rounding(gram: arb_mat, after: Posterior) -> float:
    """Return it for an evidence that is stationary in the sites, with derivative (alpha alpha' - R) / 2."""
    alpha = floats(after.alpha)
    with np.errstate(all="ignore"):
        return rounding(gram, 0.5 * (np.outer(alpha, alpha) - correction(after)))
