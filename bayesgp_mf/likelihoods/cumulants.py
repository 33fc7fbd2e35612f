r"""Cumulants of tilted distributions: how a case's own target bends what the others say of its latent value.

The tilted distribution of a case is its cavity times the likelihood, p(t|f) N(f | m, lambda) / Z. From the third on its
cumulants are :math:`c_l = \lambda^l\, \partial^l \log Z / \partial m^l` (JMLR 14, 2857, section 3.2). Here they are in
units of its own standard deviation: skewness, excess kurtosis and so on. A Gaussian has none of them.
"""

from __future__ import annotations

import numpy as np

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.quadrature import Quadrature
from bayesgp_mf.types import Array, Derivs


def tilted_cumulants(likelihood: Likelihood, t: Array, mean: Array, variance: Array, order: int) -> Array:
    """Return the cumulants of order 3 to ``order`` of the tilted distributions, in units of their standard deviations.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f), of two classes or of real targets.
    t, mean, variance : (n,) array
        Targets, means and variances of the cavities.
    order : int
        The highest cumulant, at least 3.

    Returns
    -------
    (order - 2, n) array
        By a closed form where the likelihood has one (`Likelihood.tilted_cumulants`), else by adaptive quadrature. Zero
        where a variance is zero.
    """
    uncertain = variance > 0
    spread = np.where(uncertain, variance, 1.0)
    found = likelihood.tilted_cumulants(t, mean, spread, order)
    if found is None:
        rule = Quadrature(lambda targets, f: likelihood.log_prob(targets, f).value, targets="real")
        found = rule.tilted_cumulants(t, mean, spread, order)
    return np.where(uncertain, found, 0.0)


def derivatives_of_cumulants(cumulants: Array, variance: Array, d2: Array) -> Array:
    """Return the derivatives of log Z in the mean that belong to tilted cumulants, from the third on.

    The cumulants ``(k, ...)`` are in units of tilted standard deviations, of cavities with variances ``variance``, at
    which the second derivative is ``d2``.
    """
    tilted = np.sqrt(1.0 / variance + d2)  # the tilted standard deviation over the cavity's variance
    return np.array([cumulant * tilted**order for order, cumulant in enumerate(cumulants, start=3)])


# weights of a first and of a second difference, at one, two and three steps: of order six, and of order two
_FINE = np.array([[45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0], [270.0 / 180.0, -27.0 / 180.0, 2.0 / 180.0]])
_ROUGH = np.array([[0.5], [1.0]])
_STEP = 0.02  # in units of the scale of log Z: there truncation and rounding are both near 1e-11


def higher_derivatives(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, derivs: Derivs, *, rough: bool = False
) -> tuple[Array, Array]:
    """Return the third and fourth derivative ``(n,)`` in the mean of log Z, given ``derivs``, to some ten digits.

    If ``rough``, to three or four digits, with two evaluations instead of seven.
    """
    known = likelihood.higher_derivatives(t, mean, variance, derivs)
    if known is not None:
        return known
    d2 = derivs.d2
    if rough and np.all(variance > 0):
        cumulants = likelihood.tilted_cumulants(t, mean, variance, 4)
        if cumulants is not None:
            third, fourth = derivatives_of_cumulants(cumulants, variance, d2)
            return third, fourth
    if rough:  # log Z changes on the scale of the Gaussian, or on a larger one
        step, weights = _STEP * np.sqrt(np.where(variance > 0, variance, 1.0)), _ROUGH
    else:  # the curvature says on what scale it changes
        own = likelihood.unshifted
        curvature = np.maximum(np.abs(d2), np.abs(own.log_partition(t, own.curved_at(t), variance).d2))
        step, weights = _STEP / np.sqrt(np.where(curvature > 0, curvature, 1.0)), _FINE
    multiples = np.arange(1.0, weights.shape[1] + 1.0)
    shifted = mean + np.multiply.outer(np.concatenate([multiples, -multiples]), step)
    t, variance = np.tile(t, (len(shifted), 1)), np.tile(variance, (len(shifted), 1))
    above, below = np.split(likelihood.log_partition(t, shifted, variance).d2, 2)
    return weights[0] @ (above - below) / step, weights[1] @ (above - 2.0 * d2 + below) / step**2
