r"""One sweep over all training cases, as posterior means and covariances of their latent values.

Each case has a Gaussian factor, exp(b f - W f^2 / 2), its *site*. A visit works out which factor would give the
mean and variance that the case's likelihood gives, and changes the covariances by one rank. What the visit
starts from is all that differs between seeing a case for the first time, as if it were new, or instead of its
own former factor.

Covariances are kept as a root, Sigma = F F', and every change of them is a change of the root [1]_. Sigma itself would
lose what little variance is left where K is nearly singular, or where the noise is tiny beside it.

References
----------
.. [1] Potter's square-root filter; see Bierman, G. J. (1977). Factorization Methods for Discrete Sequential
   Estimation. Academic Press.

The running log evidence of one sweep, from the factors that it ends with.

It is the sum of :math:`\log Z_i(m_i, \lambda_i)` of each case given those before it. Where a case that was seen before
comes again, or nearly so, :math:`\lambda_i` is a small rest of what it was, known to no more digits than that has; far
from what was expected, at hundreds of standard deviations, its square counts. The same number is

.. math:: \sum_i \left[\log Z_i(m_i, \lambda_i) - \log G_i(m_i, \lambda_i)\right]
          + \log \int N(f | 0, K) \prod_i e^{b_i f_i - W_i f_i^2 / 2}\, df,

with :math:`G_i` the integral of the case's own factor :math:`e^{b f - W f^2 / 2}` over :math:`N(m_i, \lambda_i)`. That
factor has the first two moments of the likelihood there, so that an error of :math:`m_i` or :math:`\lambda_i` counts by
its square. The integral over all is the largest value of :math:`b^T f - f^T W f / 2 - \alpha^T f / 2` with f = K alpha,
less :math:`\log\det(I + K W) / 2`: an error of alpha counts by its square, too.

The derivative of the running evidence with respect to the Gram matrix: the sweep run backwards.

The sites of a single sweep are not stationary points of its evidence, so that (alpha alpha' - R)/2 is not its
gradient (but for a Gaussian likelihood). Each visit is a short chain of smooth operations on means mu and
covariances Sigma, with Sigma = K at the start,

.. math::
    m = \mu_i,\; \lambda = \Sigma_{ii},\; c = \Sigma_{\cdot i}, \qquad
    \mu \leftarrow \mu + d_1 c, \quad \Sigma \leftarrow \Sigma + d_2\, c c^T, \quad L \leftarrow L + \log Z(m, \lambda)

and its chain rule is applied from the last visit to the first, at O(n^2) each.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.likelihoods.cumulants import higher_derivatives
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.solvers.accuracy import Extended
from bayesgp_mf.solvers.sites import SiteState, match
from bayesgp_mf.types import Array, Derivs

Reuse = Literal["replace", "as_new"]
"""What becomes of a case's former factor when it is visited again."""


class Sweep(NamedTuple):
    """What one sweep did, indexed by case.

    Attributes
    ----------
    sites : SiteState
        The sites ``(n,)`` after it.
    mean, variance : (n,) array
        Of each latent value when its own target was taken in, in latent units and their square.
    derivs : Derivs
        log Z and its derivatives there; the sum of a first sweep's values is the running log evidence, in nats.
    columns : (n, n) array
        Column i: the covariances of case i with all cases when it was visited.
    latent, sd : (n,) array
        Posterior means and standard deviations after it, in latent units.
    """

    sites: SiteState
    mean: Array
    variance: Array
    derivs: Derivs
    columns: Array
    latent: Array
    sd: Array


def sweep(problem: Problem, order: tuple[int, ...], start: SiteState, reuse: Reuse) -> Sweep:
    r"""Visit every case once, in the given order.

    With W, b the case's site, :math:`(\mu, \sigma^2)` its current mean and variance and :math:`(m, \lambda)` the
    same without its former factor ("as_new": with it),

    .. math::
        W' = \frac{-d_2}{1 + \lambda d_2}, \qquad b' = W' m + \frac{d_1}{1 + \lambda d_2}

    is the factor that its likelihood amounts to (2000, eq. 29). It takes the place of the former one, or
    ("as_new") multiplies it. From sites that say nothing this is thesis, eqs. 52 and 53.

    O(n^3) time, O(n^2) memory. With "replace" a case is left out, and what is returned about it but its site is
    NaN, if without its factor there is no proper Gaussian; this happens with negative factors (labels that look
    flipped), far from a fixed point. There is a NotPositiveDefiniteError if the sites together leave no proper
    Gaussian, or a case's own factor is not one.
    """
    n, t, prior = problem.n, problem.t, problem.matrix.diagonal()
    precision, shift = start.precision.copy(), start.shift.copy()
    gram = DenseGram(problem.dense_gram).in_root_form()
    correction = gram.sites(start.precision)
    mu, root = correction.posterior(start.shift)[1], np.asarray(gram.root @ correction.inverse_factor.T)
    mean, variance, value, d1, d2 = np.full((5, n), np.nan)
    columns = np.empty((n, n))
    for i in order:
        own = root[i].copy()
        column = root @ own
        former = SiteState(precision[i], shift[i]) if reuse == "replace" else SiteState(np.zeros(()), np.zeros(()))
        rest = 1.0 - former.precision * column[i]
        if not rest > 0:  # without its factor the rest is no Gaussian; it may be when the others have changed
            continue
        variance[i] = column[i] / rest
        mean[i] = (mu[i] - former.shift * column[i]) / rest
        case, own_likelihood = slice(i, i + 1), problem.likelihood.of_cases(np.array([i]))
        if variance[i] > 0 or prior[i] == 0:  # otherwise an error is raised below
            value[case], d1[case], d2[case] = own_likelihood.log_partition(t[case], mean[case], variance[case])
        with np.errstate(all="ignore"):  # what is not finite is an error below
            derivs = Derivs(value[case], d1[case], d2[case])
            site = match(own_likelihood, t[case], Cavity(mean[case], variance[case]), derivs)
            proper = np.isfinite(value[i]) and np.isfinite(site.precision[0]) and np.isfinite(site.shift[0])
            share = 1.0 + variance[i] * site.precision[0]  # variance before the target came over variance after
        if not (proper and share > 0):
            raise NotPositiveDefiniteError(
                f"case {i} has no proper Gaussian factor: latent mean {mean[i]:.3g}, variance {variance[i]:.3g} "
                f"before its target {t[i]:g} came. Allow noise by {own_likelihood.ways_to_noise}."
            )
        change = site.precision[0] - former.precision
        change_shift = site.shift[0] - former.shift
        precision[i] += change
        shift[i] += change_shift
        # one more factor (change_shift, change) in f_i: q and r of thesis, eq. 52, at the current mean and variance
        share = 1.0 + change * column[i]
        mu += column * ((change_shift - change * mu[i]) / share)
        # Sigma - (change / share) column column'; of the two roots the one that stays next to F
        root -= np.outer(column, own * (change / (share + np.sqrt(share))))
        columns[:, i] = column
    sd = np.sqrt(np.einsum("ij,ij->i", root, root))
    return Sweep(SiteState(precision, shift), mean, variance, Derivs(value, d1, d2), columns, mu, sd)


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


class SweepGradient(NamedTuple):
    """What the evidence of a sweep says of the Gram matrix ``(n, n)``, and of d1 and d2 of each visit ``(n,)``."""

    gram: Array
    d1: Array
    d2: Array


def evidence_gradient(problem: Problem, order: tuple[int, ...], first: Sweep) -> SweepGradient:
    r"""Return the derivatives of the evidence of a first sweep.

    The derivatives in the variance follow from the heat equation,
    :math:`\partial_\lambda \log Z = (d_2 + d_1^2)/2` and so
    :math:`\partial_\lambda d_1 = d_3/2 + d_1 d_2`,
    :math:`\partial_\lambda d_2 = d_4/2 + d_2^2 + d_1 d_3`.

    O(n^3) time. ``first`` is a sweep in this ``order`` from sites that say nothing. Likelihoods answer with two
    derivatives; `likelihoods.higher` has the two that follow.
    """
    _, d1, d2 = first.derivs
    d3, d4 = higher_derivatives(problem.likelihood, problem.t, first.mean, first.variance, first.derivs)
    d2_by_variance = 0.5 * d4 + d2**2 + d1 * d3
    of_d1, of_d2 = np.zeros(problem.n), np.zeros(problem.n)
    mean_bar, covariance_bar = np.zeros(problem.n), np.zeros((problem.n, problem.n))
    for i in reversed(order):
        column = first.columns[:, i]
        pushed = covariance_bar @ column
        d1_bar = mean_bar @ column
        d2_bar = column @ pushed
        of_d1[i], of_d2[i] = d1_bar, d2_bar
        column_bar = d1[i] * mean_bar + 2.0 * d2[i] * pushed
        mean_bar[i] += d1[i] + d1_bar * d2[i] + d2_bar * d3[i]
        column_bar[i] += (  # of lambda, which is the column's own entry
            0.5 * (d2[i] + d1[i] ** 2) + d1_bar * (0.5 * d3[i] + d1[i] * d2[i]) + d2_bar * d2_by_variance[i]
        )
        # Sigma is symmetric: half of it was read along the row
        covariance_bar[:, i] += 0.5 * column_bar
        covariance_bar[i] += 0.5 * column_bar
    return SweepGradient(covariance_bar, of_d1, of_d2)


def parameter_gradient(problem: Problem, order: tuple[int, ...], first: Sweep, name: str) -> float:
    """Return the derivative of the evidence of a first sweep in a parameter of the likelihood."""
    bars = evidence_gradient(problem, order, first)
    value, d1, d2 = problem.likelihood.parameter_derivative(name, problem.t, first.mean, first.variance)
    return float(np.sum(value) + bars.d1 @ d1 + bars.d2 @ d2)
