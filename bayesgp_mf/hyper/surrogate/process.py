r"""A Gaussian process for a log density that is dear to evaluate, learned from its values and gradients.

In coordinates :math:`u_j = (x_j - c_j) / s_j`, with centre and standard deviation of the density as known so far, the
process has the mean :math:`m - u'u / (2 \cdot 2^2)`, in which m is estimated, and the rational quadratic covariance

.. math:: k(u, u') = a^2 \left(1 + \tfrac12 r^2\right)^{-1}, \qquad r = |u - u'| / 5,

with noise of variance :math:`a^2 / 20` on each value and on each derivative by u / 5. The mean falls off as the log
density of a normal distribution twice as wide, so that what is learned is a density also where nothing is known.
Derivatives of a Gaussian process are Gaussian, with covariances that are derivatives of k ([1]_, section 9.4; [2]_).

References
----------
.. [1] Rasmussen, C. E., & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press.
.. [2] Rasmussen, C. E. (2003). Gaussian processes to speed up hybrid Monte Carlo for expensive Bayesian integrals.
   Bayesian Statistics 7, 651-659.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_solve

from bayesgp_mf.matrices.factors import cholesky
from bayesgp_mf.types import Array

LENGTH, NOISE, WIDTH = 5.0, 0.05, 2.0
"""Length scale, variance of the noise over that of the process, and standard deviation of the mean. In units of its own
standard deviations one log density looks like another, so these are not tuned to it. Lengths of 4 and 6, a noise of
0.03 and 0.1, or a mean three times as wide gave 10 to 20 % fewer effective draws on Pima."""
CURVATURE = (LENGTH / WIDTH) ** 2
"""Of the mean, in coordinates in which the length scale is one."""


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateProcess:
    """The posterior mean of the Gaussian process; ``surrogate(x)`` is the value and the gradient at x.

    Attributes
    ----------
    centre, scale : (p,) array
        c, and :math:`5 s`: coordinates are z = (x - c) / 5 s.
    mean : float
        m.
    z : (n, p) array
        The points that were seen.
    value_weight, gradient_weight : (n,) and (n, p) array
        What each value and each entry of a gradient contributes.
    """

    centre: Array
    scale: Array
    mean: float
    z: Array
    value_weight: Array
    gradient_weight: Array
    _beyond_one: Array = field(init=False, repr=False)  # 1 + z'z / 2
    _offset: Array = field(init=False, repr=False)  # z' gradient_weight

    def __post_init__(self) -> None:
        # samplers ask thousands of times, for a few points each
        object.__setattr__(self, "_beyond_one", 1.0 + 0.5 * np.einsum("ij,ij->i", self.z, self.z))
        object.__setattr__(self, "_offset", np.einsum("ij,ij->i", self.z, self.gradient_weight))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the value ``(c,)`` and the gradient ``(c, p)`` at points ``(c, p)``."""
        z = (x - self.centre) / self.scale
        half = 0.5 * np.einsum("ij,ij->i", z, z)
        # with s = 1 / (1 + r^2 / 2): k = s, dk/dz' = s^2 (z - z'), and ds/d(r^2 / 2) = -s^2
        s = 1.0 / (self._beyond_one + (half[:, None] - z @ self.z.T))
        s2 = s * s
        slope = s2 * (z @ self.gradient_weight.T - self._offset)
        value = self.mean - CURVATURE * half + s @ self.value_weight + slope.sum(axis=1)
        inward = s2 * self.value_weight + 2.0 * s * slope
        gradient = inward @ self.z - (inward.sum(axis=1) + CURVATURE)[:, None] * z + s2 @ self.gradient_weight
        return value, gradient / self.scale


def fit_process(x: Array, value: Array, gradient: Array, centre: Array, sd: Array) -> SurrogateProcess:
    """Return the Gaussian process given what was seen.

    Parameters
    ----------
    x : (n, p) array
        Points; the work grows as (n (p + 1))^3.
    value : (n,) array
        The log density there, up to a constant.
    gradient : (n, p) array
        Its derivatives there.
    centre, sd : (p,) array
        Where the density is, roughly, and how wide, > 0.
    """
    n, p = x.shape
    scale = LENGTH * sd
    z = (x - centre) / scale
    covariance = _covariance(z)
    covariance[np.diag_indices_from(covariance)] += NOISE
    factor = (cholesky(covariance, overwrite=True), True)
    above = np.empty((n, p + 1))  # the mean
    above[:, 0] = value + 0.5 * CURVATURE * np.sum(z**2, axis=1)
    above[:, 1:] = gradient * scale + CURVATURE * z
    constant = np.zeros((n, p + 1))
    constant[:, 0] = 1.0
    solved = cho_solve(factor, np.stack([above.ravel(), constant.ravel()], axis=1), check_finite=False)
    of_values = solved.reshape(n, p + 1, 2)[:, 0].sum(axis=0)
    mean = float(of_values[0] / of_values[1])  # by generalised least squares
    weight = (solved[:, 0] - mean * solved[:, 1]).reshape(n, p + 1)
    return SurrogateProcess(centre, scale, mean, z, weight[:, 0], weight[:, 1:])


def _covariance(z: Array) -> Array:
    """Return the covariance of values and gradients at points, point by point: ``(n (p + 1), n (p + 1))``."""
    n, p = z.shape
    apart = z[:, None] - z  # z - z'
    s = 1.0 / (1.0 + 0.5 * np.sum(apart**2, axis=-1))
    slope = (s * s)[..., None] * apart
    covariance = np.empty((n, p + 1, n, p + 1))
    covariance[:, 0, :, 0] = s
    covariance[:, 0, :, 1:] = slope
    covariance[:, 1:, :, 0] = -slope.transpose(0, 2, 1)
    # d^2 k / dz dz' = s^2 I - 2 s^3 (z - z') (z - z')'
    outer = (-2.0 * s)[..., None, None] * slope[..., :, None] * apart[..., None, :]
    outer[..., np.arange(p), np.arange(p)] += (s * s)[..., None]
    covariance[:, 1:, :, 1:] = outer.transpose(0, 2, 1, 3)
    return covariance.reshape(n * (p + 1), n * (p + 1))
