r"""The running log evidence of one sweep, from the factors that it ends with.

It is the sum of :math:`\log Z_i(m_i, \lambda_i)` of each case given those before it. Where a case that was seen before
comes again, or nearly so, :math:`\lambda_i` is a small rest of what it was, known to no more digits than that has; far
from what was expected, at hundreds of standard deviations, its square counts. The same number is

.. math:: \sum_i \left[\log Z_i(m_i, \lambda_i) - \log G_i(m_i, \lambda_i)\right]
          + \log \int N(f | 0, K) \prod_i e^{b_i f_i - W_i f_i^2 / 2}\, df,

with :math:`G_i` the integral of the case's own factor :math:`e^{b f - W f^2 / 2}` over :math:`N(m_i, \lambda_i)`. That
factor has the first two moments of the likelihood there, so that an error of :math:`m_i` or :math:`\lambda_i` counts by
its square. The integral over all is the largest value of :math:`b^T f - f^T W f / 2 - \alpha^T f / 2` with f = K alpha,
less :math:`\log\det(I + K W) / 2`: an error of alpha counts by its square, too.
"""

from __future__ import annotations

import numpy as np

from bayesgp_mf.online.sweep import Sweep
from bayesgp_mf.solvers.extended import Extended
from bayesgp_mf.types import Array


def running_evidence(
    prior: Array, first: Sweep, alpha: Array, latent: Array | Extended, log_det: float | np.longdouble
) -> float:
    """Return the running log evidence of a first sweep, in nats.

    Parameters
    ----------
    prior : (n,) array
        K_ii, in squared latent units.
    first : Sweep
        From sites that say nothing.
    alpha : (n,) array
        Weights under its sites.
    latent : (n,) array
        K alpha; in extended precision, all else is so, too.
    log_det : float
        Log determinant of I + K W, in nats.
    """
    value, d1, _ = first.derivs
    (precision, shift), variance = first.sites[:2], first.variance
    residual = shift - precision * latent - alpha  # zero but for rounding
    # twice the exponents of the integral over all, less those of each G: where a site says much, all that is large in
    # them is taken out of their difference, which is exact
    weak = shift * (latent - first.mean - variance * d1) + latent * residual - d1 * first.mean
    strong = precision * prior > 1.0
    weight = np.where(strong, precision, 1.0)
    much = d1**2 * (variance + 1.0 / weight) - (shift * alpha + residual * (alpha + residual)) / weight
    exponents = 0.5 * np.where(strong, much, weak)
    return float(np.sum(value + exponents + 0.5 * np.log1p(precision * variance)) - 0.5 * log_det)
