r"""Newton's step for TAP: the mean-field equations linearised, cavity variances and all.

One step of `meanfield` takes sites (W, b) to the sites (W', b') that match the likelihood at their cavities. With the
posterior covariance :math:`\Sigma`, means :math:`f = \Sigma b`, weights :math:`\alpha = b - W \odot f`, cavities
(m, lambda), :math:`\gamma = 1 + W \lambda`, :math:`g = 1/(1 + \lambda d_2)`, and d_3, d_4 the further derivatives of
log Z in m, a small change of the sites, written as dW and :math:`u = db - f \odot dW`, changes

.. math::
    d\lambda_i &= -\gamma_i^2 \sum_{j \ne i} \Sigma_{ij}^2\, dW_j, \qquad
    dm = \gamma \odot \Sigma u - \lambda \odot u - \alpha \odot d\lambda \\
    dW' &= -g^2 \odot [d_3 \odot dm + (\tfrac12 d_4 + d_1 \odot d_3) \odot d\lambda] \\
    db' &= (m + \lambda \odot d_1) \odot dW' + \tfrac12 g \odot d_3 \odot d\lambda

by the heat equation (see `hyper.loo_gradient`, which has the same lines backwards). Newton's step asks that
W + dW = W' + dW' and b + db = b' + db'. The second gives u in terms of dW, so that n linear equations for dW are left;
each product with their matrix is two with n x n matrices. They are close to the identity: a few products do.

The log evidence as a function of the sites (the sum in `MeanField.finish` at any of them) has the differential

.. math:: \sum_i (d_1 - \alpha)_i\, dm_i + \tfrac12 (d_2 + d_1^2 - \alpha^2 + W/\gamma)_i\, d\lambda_i,

zero at the solution; half of it along Newton's step is what the log evidence is off by, to second order.

Generalised conjugate residuals, for the linear equations of Newton's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.likelihoods.cumulants import higher_derivatives
from bayesgp_mf.solvers.sites import SitePosterior, SiteState
from bayesgp_mf.types import Array

_MOST_PRODUCTS = 30
_LEFT_OUT = 10.0  # trace that the columns of a root may leave out, in units in which a site is of order one
_LEAST_SIZE = 0.1  # precision, beside that of its cavity, that a negative site counts for at least
_ROUGHEST = 0.1  # residual of the linear equations, relative to the right-hand side; finer near the solution ...
_FINER = 0.1  # ... and finer still, by this factor, ...
_MANY = 500  # ... from so many cases on, where a few more products cost little beside a factor


def newton_step(
    problem: Problem,
    state: SiteState,
    posterior: SitePosterior,
    residual: SiteState,
    accuracy: float,
    extra_noise: float = 0.0,
) -> tuple[SiteState | None, float | None]:
    """Return the change of the sites that Newton's step makes, and how far off the log evidence is.

    Parameters
    ----------
    problem : Problem
        Targets and likelihood.
    state : SiteState
        The sites.
    posterior : SitePosterior
        What follows from them under TAP.
    residual : SiteState
        By how much a plain step would change them.
    accuracy : float
        Relative accuracy with which the linear equations are solved, if below 0.1.
    extra_noise : float
        Variance added to the cavities in the likelihood.

    Returns
    -------
    move : SiteState or None
        None where some sites say nothing.
    evidence_error : float or None
        By how much the log evidence of the present sites is off, in nats, summed over cases in absolute values. None
        where the direction is that of a part of the columns of a root: it does not see what the others would change.
    """
    precision = state.precision
    alpha, correction, (mean, variance), derivs = posterior
    if not precision.all():
        return None, None
    covariance = correction.covariance(variance, lambda: _LEFT_OUT / strength(problem))
    if covariance is None:
        return None, None
    latent = mean + variance * alpha
    _, d1, d2 = derivs
    left = 1.0 + variance * d2  # the share of the cavity variance that the target leaves
    if not (left > 0).all():  # which rounding may take
        return None, None
    d3, d4 = higher_derivatives(problem.likelihood, problem.t, mean, variance + extra_noise, derivs, rough=True)
    gamma, g = 1.0 + precision * variance, 1.0 / left
    covariance_times, squared_times, is_whole = covariance
    by_variance = 0.5 * d4 + d1 * d3
    off = mean + variance * d1 - latent  # zero at the solution
    constant = (residual.shift - latent * residual.precision) - off * residual.precision
    by_others_in_u, square, gain = 0.5 * d3 * g, -(gamma**2), -(g**2)

    def respond(dw: Array, start: Array | float) -> tuple[Array, Array, Array, Array]:
        """Return dW', u, which is ``start`` plus what follows from dW, and the cavities' dm and dlambda."""
        by_others = square * squared_times(dw)
        u = start + off * dw + by_others_in_u * by_others
        dm = gamma * covariance_times(u) - variance * u - alpha * by_others
        return gain * (d3 * dm + by_variance * by_others), u, dm, by_others

    # in relative changes, in which sites of different strength count the same; one on its way below zero is small by
    # chance alone
    size = precision if (precision > 0).all() else np.hypot(precision, _LEAST_SIZE / variance)

    def multiply(dw_relative: Array) -> Array:
        return np.asarray(dw_relative - respond(size * dw_relative, 0.0)[0] / size)

    # what `respond` returns for dW = 0, at half the price
    at_rest = gain * d3 * (gamma * covariance_times(constant) - variance * constant)
    right = (residual.precision + at_rest) / size
    wanted = accuracy if problem.n < _MANY else _FINER * accuracy
    dw = size * gmres(multiply, right, min(_ROUGHEST, wanted), _MOST_PRODUCTS)
    _, u, dm, dvariance = respond(dw, constant)
    move = SiteState(dw, u + latent * dw)
    if not is_whole:
        return move, None
    # the evidence would change by half its slope along the step; in absolute values, lest large errors cancel
    slope_mean, slope_variance = d1 - alpha, 0.5 * (d2 + d1**2 - alpha**2 + precision / gamma)
    evidence_error = 0.5 * float(np.sum(np.abs(slope_mean * dm + slope_variance * dvariance)))
    return move, evidence_error


def strength(problem: Problem) -> float:
    """Return the strongest site precision at the prior, in latent units to the power -2."""
    return float(np.max(np.abs(problem.at_prior.d2)))


@np.errstate(over="ignore", invalid="ignore")  # of what overflows NaN is returned
def gmres(multiply: Callable[[Array], Array], right: Array, accuracy: float, most: int) -> Array:
    """Return x ``(n,)`` with A x near ``right (n,)``, by generalised conjugate residuals.

    For matrices close to the identity, where a few products with A do and SciPy's own would spend most of the time
    around them. Each x is that of generalised minimal residuals. (S. C. Eisenstat, H. C. Elman & M. H. Schultz, 1983,
    SIAM J. Numer. Anal. 20, 345-357.)

    Parameters
    ----------
    multiply : callable
        Returns A x.
    right : (n,) array
        Right-hand side.
    accuracy : float
        Length of the residual that is wanted, relative to that of ``right``.
    most : int
        Products after which x is returned as it is.

    Returns
    -------
    (n,) array
        x; NaN if a product overflows.
    """
    x, residual, wanted = np.zeros_like(right), right, accuracy * math.sqrt(right @ right)
    steps, images = np.empty((2, most, right.size))  # the images A p of the steps p are orthonormal
    for k in range(most):
        if math.sqrt(residual @ residual) <= wanted:
            break
        image = multiply(residual)
        known = images[:k] @ image
        image = image - known @ images[:k]
        length = math.sqrt(image @ image)
        if not math.isfinite(length):
            return np.full_like(right, np.nan)
        if length == 0.0:  # A is singular on what was found: nothing more to gain
            break
        steps[k], images[k] = (residual - known @ steps[:k]) / length, image / length
        part = images[k] @ residual
        x, residual = x + part * steps[k], residual - part * images[k]
    return x
