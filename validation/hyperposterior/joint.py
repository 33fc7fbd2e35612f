r"""Hyperparameters and latent values together, in variables that NUTS moves through easily; nothing is approximated.

Noise. A probit with noise variance v is a step with Gaussian noise, and the noise may be split:
:math:`t = \mathrm{sign}(h + e)`, where h = f + (noise of variance s), e has variance v - s. So h has the covariance
:math:`C = K + s I`, which can always be factorised, C = L L', and its likelihood is the probit with noise variance
v - s. This is the same model of theta and t, whatever s: no jitter is added to anything.

White variables. With h = L w and w ~ N(0, I), the posterior of w given theta is narrower than its prior, and moves
with theta. Let the likelihood be replaced by Gaussian factors :math:`\exp(-\tfrac12 \tau_i h_i^2 + \nu_i h_i)`, the
sites of TAP's solution at one theta. Then the posterior of w is normal with precision A = I + L' T L and mean
:math:`A^{-1} L' \nu`, and

.. math:: w = A^{-1} L' \nu + R^{-T} z, \qquad A = R R^T

makes z ~ N(0, I), independent of theta. Under the true likelihood it is nearly so: theta and z are nearly independent,
and z nearly white. The change of variables adds :math:`-\sum_i \log R_{ii}` to the log density; the sites are
constants, which decide how fast the sampler is and not what it draws from [1]_. Without sites z is w.

References
----------
.. [1] Murray, I., & Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent Gaussian models. NIPS 23.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.linalg import cholesky, solve_triangular
from scipy.linalg import solve_triangular as solve_lower

import bayesgp_mf as bgp
from bayesgp_mf.matrices.factors import cholesky as factor
from bayesgp_mf.pymc import observe
from bayesgp_mf.types import Array
from validation.hyperposterior.setting import LIKELIHOOD, kernel_at
from validation.tables.crabs_and_pima import PRIOR_MEAN, PRIOR_SD

SHIFTED = 1e-3
"""s, the part of the noise variance that is counted to the latent values."""
REST = bgp.Probit(noise_variance=LIKELIHOOD.noise_variance - SHIFTED)
"""The likelihood of h."""


class Sites(NamedTuple):
    """Gaussian factors exp(-precision h^2 / 2 + shift h) in place of the likelihood, ``(n,)`` each."""

    precision: Array
    shift: Array


def sites_at(X: Array, t: Array, log_parameters: Array) -> Sites:
    """Return the sites of TAP's solution at log parameters ``(d + 1,)``."""
    gram = kernel_at(log_parameters).gram(X) + SHIFTED * np.eye(t.size)
    solution = bgp.solve(gram, t, REST, method="tap")
    if solution.cavity is None:
        raise ArithmeticError("TAP's solution has no cavities.")
    mean, variance = solution.cavity
    d2 = REST.log_partition(t, mean, variance).d2
    precision = -d2 / (1.0 + variance * d2)
    # the posterior mean is h = C alpha, and stationary under the sites: alpha = shift - precision h
    return Sites(precision, solution.alpha + precision * (gram @ solution.alpha))


def joint_model(X: Array, t: Array, sites: Sites | None) -> pm.Model:
    """Return the PyMC model of log parameters and latent values.

    Parameters
    ----------
    X : (n, d) array
        Standardised inputs.
    t : (n,) array
        Labels -1/+1.
    sites : Sites or None
        In whose posterior z is white; None for the prior.

    Returns
    -------
    pymc.Model
        With ``log_parameters`` ``(d + 1,)``: log w_l and log v_0; ``z`` ``(n,)``; ``h`` ``(n,)``, the latent values
        with noise of variance `SHIFTED`; and ``y``, observed as 0/1.
    """
    n, d = X.shape
    with pm.Model() as model:
        log_parameters = pm.Normal("log_parameters", PRIOR_MEAN, PRIOR_SD, shape=d + 1)
        z = pm.Normal("z", shape=n)
        scaled = X * pt.exp(0.5 * log_parameters[:-1])
        squares = (scaled**2).sum(axis=1)
        squared_distance = squares[:, None] + squares[None, :] - 2.0 * scaled @ scaled.T
        gram = pt.exp(log_parameters[-1] - 0.5 * squared_distance)
        root = cholesky(gram + SHIFTED * np.eye(n))
        if sites is None:
            white = z
        else:
            precision_root = cholesky(np.eye(n) + root.T @ (sites.precision[:, None] * root))
            centre = solve_triangular(precision_root, root.T @ sites.shift, lower=True)
            white = solve_triangular(precision_root.T, centre + z, lower=False)
            # the density of w, in place of that of z, and the change of variables
            log_volume = -pt.sum(pt.log(pt.diag(precision_root)))
            pm.Potential("density_of_white", log_volume - 0.5 * pt.sum(white**2) + 0.5 * pt.sum(z**2))
        h = pm.Deterministic("h", root @ white)
        observe("y", h, t, REST)
    return model


def probabilities(X: Array, X_test: Array, log_parameters: Array, h: Array) -> Array:
    """Return the probability ``(m,)`` of class +1 at new cases, given log parameters ``(d + 1,)`` and h ``(n,)``.

    The latent value of a new case is integrated out: it is normal given h, and its average of the probit is known.
    """
    kernel = kernel_at(log_parameters)
    root = factor(kernel.gram(X) + SHIFTED * np.eye(X.shape[0]))
    projected = solve_lower(root, np.column_stack([kernel.cross(X, X_test), h]), lower=True)
    weights, white = projected[:, :-1], projected[:, -1]
    variance = kernel.diag(X_test) - np.sum(weights**2, axis=0)
    if np.any(variance < 0.0):  # C is K plus noise: no rounding comes near
        raise ArithmeticError(f"a conditional variance came out as {variance.min():.3g}, below zero.")
    return LIKELIHOOD.predict_proba(weights.T @ white, variance)
