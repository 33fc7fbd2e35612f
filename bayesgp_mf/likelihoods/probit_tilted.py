r"""What one label of C classes makes of the Gaussian of a case under a multinomial probit: integral, moments, site.

Each class has noise of its own, of variance v, and the largest sum of latent value and noise names the label. With
:math:`d_c = f_t - f_c` the C - 1 differences to the other classes, and u the noise of class t itself,

.. math:: p(t|f) = \int N(u|0, v) \prod_{c \ne t} \Phi\!\left(\frac{d_c + u}{\sqrt v}\right) du .

For two classes it is a probit of one difference. For three its average over a Gaussian is the probability that two
normal variables are positive, which is exact here to 1e-12. For more, u is one more latent value of the case, and each
factor depends on one sum :math:`z_c = d_c + u` only: expectation propagation over these C - 1 factors has closed
moments. It is the inner loop of nested expectation propagation ([1]_, section 3.2), run to its end for all cases at
once. Its sites have precisions :math:`\tau_c` in z; with u integrated out they are

.. math:: \left(\mathrm{diag}(\tau)^{-1} + v\,\mathbf{1}\mathbf{1}^T\right)^{-1}

in d: the star (`likelihoods.star`) with :math:`w_c = \tau_c` and :math:`w_t = 1/v` ([1]_, eq. 29). Nothing is lost by
that form, so that the evidence built on it is stationary in all sites, and its gradient exact.

References
----------
.. [1] Riihimaki, J., Jylanki, P., & Vehtari, A. (2013). Nested expectation propagation for Gaussian process
   classification with a multinomial probit likelihood. JMLR 14, 75-109.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr, owens_t

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.class_names import flipped
from bayesgp_mf.likelihoods.one_factor import each_rule, log_all_positive
from bayesgp_mf.likelihoods.probit import Probit, hazard
from bayesgp_mf.likelihoods.star import InnerSites, MatrixSites, StarSites
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array, Derivs

SWEEPS = 200
"""Over the factors of a case; all but a few need some ten."""
AFRESH = 4
"""Sweeps after which means and covariances are computed anew: changes one by one gather rounding."""
TOLERANCE = 1e-11
"""Largest change of a factor's site by a sweep, in units of what is known of its variable without the label."""
_ROUGH = 1e-6  # of log Z alone, which is stationary in the sites: their error counts squared
_ENTRIES = 2**17  # of covariances worked on together, so that they stay in the cache
_UNLIKELY = 1e-5  # below it a probability is not taken from differences, which leave digits of one only
_EXACT_TO = 3  # classes
_LARGEST_LOADING = 0.98  # of a common factor, so that its integral needs no more than some 300 nodes
_FITTING_SWEEPS = 30
_ROUNDED = 1e-12  # of a variance
_TINY = float(np.finfo(np.float64).tiny)
_LEAST_EDGE = 1e-14  # of a triangle of conductances, as part of its largest
_HALF_SHARED = float(np.sqrt(0.5))  # of the noise of two differences half the variance is that of class t
_LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Moments(NamedTuple):
    """What one label tells of the C - 1 differences d of a case: derivatives are those in the mean of d."""

    log_partition: Array  # (n,) in nats
    gradient: Array  # (n, C - 1)
    curvature: Array  # (n, C - 1, C - 1), of log Z; not positive: the likelihood is log-concave
    precision: Array | None = None  # tau (n, C - 1) of the inner sites, of four classes or more
    shift: Array | None = None  # b (n, C - 1) of these


@cache
def other_classes(n_classes: int) -> NDArray[np.intp]:
    """Return, for each class, the others in order ``(C, C - 1)``."""
    every = np.arange(n_classes)
    return np.stack([every[every != t] for t in every])


@cache
def difference_matrices(n_classes: int) -> Array:
    """Return, for each class t, the matrix ``(C - 1, C)`` that takes latent values to f_t - f_c."""
    every = np.eye(n_classes)
    return np.stack([every[t] - every[others] for t, others in enumerate(other_classes(n_classes))])


def log_density(t: Array, f: Array, noise_variance: float) -> Array:
    """Return log p(t|f) ``(m,)`` in nats, for codes ``t (m,)`` and latent values ``f (m, C)``."""
    if noise_variance == 0.0:
        return _log_step(t, f)
    scaled = _scaled_differences(t, f, noise_variance)
    if scaled.shape[1] == 1:
        return np.asarray(log_ndtr(scaled[:, 0]))
    return log_all_positive(scaled, np.full_like(scaled, _HALF_SHARED))


def _log_step(t: Array, f: Array) -> Array:
    """Return the log ``(m,)`` of the part that class t has of the largest of latent values ``f (m, C)``."""
    largest = f == np.max(f, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):  # log 0 = -inf is the answer, not an accident
        every = np.log(largest / np.sum(largest, axis=1, keepdims=True))
    return np.asarray(np.take_along_axis(every, t.astype(np.intp)[:, None], axis=1)[:, 0])


def log_prob(t: Array, f: Array, noise_variance: float) -> Derivs:
    r"""Return log p(t|f) ``(m,)`` and its derivatives ``(m, C)`` and ``(m, C, C)`` in f.

    With :math:`\lambda_c` the hazard of factor c at u, and averages over u under the integrand, those in d are
    :math:`E \lambda_c` and :math:`\mathrm{Cov}(\lambda_c, \lambda_{c'}) - \delta_{cc'} E \lambda_c (x_c + \lambda_c)`.
    Without noise they are zero, as they are wherever no two values are the same.
    """
    if noise_variance == 0.0:
        return Derivs(_log_step(t, f), np.zeros_like(f), np.zeros((*f.shape, f.shape[1])))
    scaled = _scaled_differences(t, f, noise_variance)
    size = scaled.shape[1]
    value, first, second = np.empty(t.shape), np.empty_like(scaled), np.empty((*scaled.shape, size))
    for nodes in each_rule(scaled, np.full_like(scaled, _HALF_SHARED)):
        rows, log_term = nodes.rows, nodes.log_term
        value[rows] = logsumexp(log_term, axis=1)
        share = np.exp(log_term - value[rows, None])
        rho, total = hazard(nodes.x)
        first[rows] = np.einsum("mp,mpc->mc", share, rho)
        off = rho - first[rows, None, :]
        second[rows] = np.swapaxes(share[..., None] * off, 1, 2) @ off
        second[rows][:, range(size), range(size)] -= np.einsum("mp,mpc->mc", share, rho * total)
    turn = difference_matrices(f.shape[1])[t.astype(np.intp)] / np.sqrt(noise_variance)
    return Derivs(value, np.einsum("mac,ma->mc", turn, first), np.swapaxes(turn, 1, 2) @ second @ turn)


def log_probabilities(mean: Array, covariance: Array, noise_variance: float) -> Array:
    """Return the logs of the probabilities ``(m, C)`` of the classes at Gaussians ``(m, C)`` and ``(m, C, C)``.

    From four classes on the error of expectation propagation is taken from an integral that is exact: that of the
    nearest covariance whose variables have one common factor (`likelihoods.one_factor`), as those of the differences
    to one class nearly are. Against 4e5 random points, of classes with random posteriors, what is left is 2e-7 for four
    classes, and 5e-5 for six and for ten, where expectation propagation itself is off by 1e-2. Rows sum to one. Without
    noise, differences without a variance are what they are, as at an input where all functions of the prior are zero.
    """
    m, n_classes = mean.shape
    certain = ~np.any(covariance - covariance[:, :1, :1], axis=(1, 2)) & (noise_variance == 0.0)
    if np.any(certain):
        result = np.empty((m, n_classes))
        result[~certain] = log_probabilities(mean[~certain], covariance[~certain], noise_variance)
        known = [_log_step(np.full(np.count_nonzero(certain), float(c)), mean[certain]) for c in range(n_classes)]
        result[certain] = np.transpose(known)
        return result
    each = np.empty((m, n_classes))
    for c, turn in enumerate(difference_matrices(n_classes)):
        centre, spread = mean @ turn.T, turn @ covariance @ turn.T
        if n_classes > _EXACT_TO:
            each[:, c] = _of_many(centre, spread, noise_variance, _ROUGH).log_partition
            each[:, c] += _error_of_many(centre, spread, noise_variance)
        else:
            each[:, c] = tilted(np.full(m, float(c)), mean, covariance, noise_variance).log_partition
    return np.asarray(each - logsumexp(each, axis=1, keepdims=True))


def _error_of_many(mean: Array, covariance: Array, noise_variance: float) -> Array:
    """Return by how much the log Z ``(m,)`` of `_of_many` is too low at the nearest one-factor covariance."""
    noise = noise_variance * (1.0 + np.eye(mean.shape[1]))
    spread = covariance + noise
    sd = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    loading = _one_factor(spread / sd[:, :, None] / sd[:, None, :])
    near = loading[:, :, None] * loading[:, None, :]
    every = np.arange(mean.shape[1])
    near[:, every, every] = 1.0
    near *= sd[:, :, None] * sd[:, None, :]
    return log_all_positive(mean / sd, loading) - _of_many(mean, near - noise, noise_variance, _ROUGH).log_partition


def _one_factor(correlation: Array) -> Array:
    """Return loadings ``(m, q)`` whose products are nearly the correlations ``(m, q, q)``, by least squares in turn."""
    size = correlation.shape[1]
    others = ~np.eye(size, dtype=bool)
    mean_square = (np.sum(correlation, axis=2) - 1.0) / (size - 1)
    loading = np.sqrt(np.clip(mean_square, 1.0 - _LARGEST_LOADING, _LARGEST_LOADING))
    for _ in range(_FITTING_SWEEPS):
        for j, rest in enumerate(others):
            projected = np.einsum("mk,mk->m", correlation[:, j, rest], loading[:, rest])
            found = projected / np.sum(loading[:, rest] ** 2, axis=1)
            loading[:, j] = np.clip(found, -_LARGEST_LOADING, _LARGEST_LOADING)
    return np.asarray(loading)


def opposed_at_most(mean: Array, covariance: Array, noise_variance: float) -> Array:
    r"""Return what the probability ``(r,)`` of labels a and b of two cases cannot exceed.

    They need :math:`d = f_a - f_b`, with its noise, to be above zero at the first case and below at the second. Of
    normal variables with a positive regression :math:`\beta` of the second on the first, what is left having mean m and
    standard deviation s,

    .. math:: P(d_1 > 0, d_2 < 0) = \int_0^\infty p(d_1)\, \Phi\left(-\frac{m + \beta d_1}{s}\right) dd_1
              \le \max_{d > 0} p(d)\, \frac{s}{\beta} \left(\varphi(z) - z\, \Phi(-z)\right), \qquad z = m / s,

    which is tight where the two are nearly the same.
    """
    spread = covariance + 2.0 * noise_variance * np.eye(2)
    result = np.ones(mean.shape[0])
    scale = np.sqrt(np.maximum(np.diagonal(spread, axis1=1, axis2=2), 0.0))
    largest = scale[:, 0] * scale[:, 1]
    (related,) = np.nonzero((spread[:, 0, 1] > 0.5 * largest) & (largest > 0))  # of others it says next to nothing
    first, both, second = (spread[related, a, b] for a, b in ((0, 0), (0, 1), (1, 1)))
    slope = both / first
    # what is left of a variance is known to its rounding; more of it makes the bound larger
    left = np.sqrt(np.maximum(second - slope * both, _ROUNDED * np.abs(second) + _TINY))
    z = (mean[related, 1] - slope * mean[related, 0]) / left
    sd = scale[related, 0]
    density = np.exp(-0.5 * np.minimum(mean[related, 0] / sd, 0.0) ** 2) / sd
    below = np.exp(-0.5 * z**2 - 0.5 * _LOG_TWO_PI) - z * ndtr(-z)
    result[related] = density * np.exp(-0.5 * _LOG_TWO_PI) * left / slope * below
    return np.minimum(result, 1.0)


def tilted(t: Array, mean: Array, covariance: Array, noise_variance: float) -> Moments:
    """Return what a label of each case tells of its differences: log Z with two derivatives, and the site.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance is not positive definite but for a common offset, or the inner loop finds no end.
    """
    return _tilted(*_in_differences(t, mean, covariance)[1:], noise_variance)


def _tilted(centre: Array, spread: Array, noise_variance: float, start: InnerSites | None = None) -> Moments:
    """Return what labels tell of differences with means ``(n, C - 1)`` and their covariances."""
    if not (np.all(np.isfinite(centre)) and np.all(np.isfinite(spread))):
        raise NotPositiveDefiniteError("the latent values of a case have a mean or covariance that is not finite")
    exact = {1: _of_one, 2: _of_two}.get(centre.shape[1])
    if exact is not None:
        return exact(centre, spread, noise_variance)
    return _of_many(centre, spread, noise_variance, TOLERANCE if start is None else start.tolerance, start)


def _in_differences(t: Array, mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Return the matrices ``(n, C - 1, C)`` that make differences of latent values, and their means and covariances."""
    turn = difference_matrices(mean.shape[1])[t.astype(np.intp)]
    return turn, np.einsum("nac,nc->na", turn, mean), turn @ covariance @ np.swapaxes(turn, 1, 2)


def star_sites(
    t: Array, mean: Array, covariance: Array, noise_variance: float, start: InnerSites | None = None
) -> StarSites:
    """Return the sites of cases with classes ``t (n,)`` at Gaussians ``(n, C)`` and ``(n, C, C)``."""
    turn, centre, spread = _in_differences(t, mean, covariance)
    found, inner = _tilted(centre, spread, noise_variance, start), None
    if found.precision is not None and found.shift is not None:
        inner = InnerSites(found.precision, found.shift, TOLERANCE)
        weight = np.concatenate([np.full((t.size, 1), 1.0 / noise_variance), found.precision], axis=1)
    elif turn.shape[1] == 1:
        weight = np.repeat(2.0 * _site(found.curvature, spread)[:, 0], 2, axis=1)  # two in series are half of one
    else:
        weight = _star_of_two(_site(found.curvature, spread))
    return StarSites(found.log_partition, in_classes(t, found.gradient), _in_order(t, weight), inner)


def matrix_sites(t: Array, mean: Array, covariance: Array, noise_variance: float, flip: float = 0.0) -> MatrixSites:
    """Return the sites of cases with classes ``t (n,)`` as whole matrices: without noise, or of labels with flips.

    They match all moments of the tilted distribution; with four classes or more, those of the mixture of the Gaussian
    and of what expectation propagation finds of a label that is not flipped. Without flips that is a star, whose middle
    is the latent value of class t with its noise: where there is none, a site is left for each difference.
    """
    turn, centre, spread = _in_differences(t, mean, covariance)
    unflipped = _tilted(centre, spread, noise_variance)
    found = flipped(Derivs(*unflipped[:3]), flip, mean.shape[1])
    if unflipped.precision is not None and flip == 0.0:
        site = _of_differences(unflipped.precision, noise_variance)
    else:
        site = _site(found.d2, spread)
    precision = np.swapaxes(turn, 1, 2) @ site @ turn
    return MatrixSites(found.value, in_classes(t, found.d1), precision)


def _site(curvature: Array, covariance: Array) -> Array:
    """Return the precision ``(n, q, q)`` that a label adds to that of differences: -(I + H S)^-1 H."""
    try:
        site = -np.linalg.solve(np.eye(curvature.shape[1]) + curvature @ covariance, curvature)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError("a label says all that is known of its case, but for rounding") from error
    return np.asarray(0.5 * (site + np.swapaxes(site, 1, 2)))


def _of_differences(precision: Array, noise_variance: float) -> Array:
    """Return (diag(tau)^-1 + v 1 1')^-1 ``(n, q, q)``, in which the noise of class t is integrated out."""
    share = noise_variance / (1.0 + noise_variance * np.sum(precision, axis=1))
    every = precision[:, :, None] * np.eye(precision.shape[1])
    return np.asarray(every - share[:, None, None] * precision[:, :, None] * precision[:, None, :])


def in_classes(t: Array, slope: Array) -> Array:
    """Return derivatives ``(m, C)`` in the latent values from those ``(m, C - 1)`` in the differences."""
    return _in_order(t, np.concatenate([np.sum(slope, axis=1, keepdims=True), -slope], axis=1))


def _in_order(t: Array, own_first: Array) -> Array:
    """Return columns by class from those of class t and then of the others."""
    codes, result = t.astype(np.intp), np.empty_like(own_first)
    np.put_along_axis(result, codes[:, None], own_first[:, :1], axis=1)
    np.put_along_axis(result, other_classes(own_first.shape[1])[codes], own_first[:, 1:], axis=1)
    return result


def _scaled_differences(t: Array, f: Array, noise_variance: float) -> Array:
    """Return (f_t - f_c)/sqrt(2 v) ``(m, C - 1)``: in units of the noise of a difference."""
    codes = t.astype(np.intp)[:, None]
    own, others = np.take_along_axis(f, codes, axis=1), other_classes(f.shape[1])[codes[:, 0]]
    return np.asarray((own - np.take_along_axis(f, others, axis=1)) / np.sqrt(2.0 * noise_variance))


def _of_one(mean: Array, covariance: Array, noise_variance: float) -> Moments:
    """Two classes: a probit of one difference."""
    value, d1, d2 = Probit(2.0 * noise_variance).log_partition(np.ones(1), mean[:, 0], covariance[:, 0, 0])
    return Moments(value, d1[:, None], d2[:, None, None])


def _of_two(mean: Array, covariance: Array, noise_variance: float) -> Moments:
    """Three classes: both of two normal variables are positive."""
    spread = covariance + noise_variance * (1.0 + np.eye(2))
    sd = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
    h = mean / sd
    correlation = spread[:, 0, 1] / (sd[:, 0] * sd[:, 1])
    within = (1.0 - correlation) * (1.0 + correlation)
    if not np.all(within > 0):
        raise NotPositiveDefiniteError("the latent values of a case have no positive-definite covariance")
    left = np.sqrt(within)
    value = _log_both_positive(h, correlation)
    # h of each variable where the other one is zero
    given = (h[:, ::-1] - correlation[:, None] * h) / left[:, None]
    log_both = -0.5 * (h[:, 0] ** 2 + given[:, 0] ** 2) - _LOG_TWO_PI - np.log(left * sd[:, 0] * sd[:, 1])
    slope = np.exp(-0.5 * h**2 - 0.5 * _LOG_TWO_PI + log_ndtr(given) - value[:, None]) / sd
    both = np.exp(log_both - value)
    curvature = np.empty_like(covariance)
    curvature[:, 0, 1] = curvature[:, 1, 0] = both - slope[:, 0] * slope[:, 1]
    for a in range(2):
        own = -h[:, a] / sd[:, a] * slope[:, a] - spread[:, 0, 1] / spread[:, a, a] * both
        curvature[:, a, a] = own - slope[:, a] ** 2
    return Moments(value, slope, curvature)


def _log_both_positive(h: Array, correlation: Array) -> Array:
    """Return the log probability ``(n,)`` that two standard normal variables exceed -h ``(n, 2)``, by Owen's T."""
    left = np.sqrt((1.0 - correlation) * (1.0 + correlation))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (h[:, ::-1] / h - correlation[:, None]) / left[:, None]
    either = np.where((h[:, 0] * h[:, 1] < 0) | ((h[:, 0] * h[:, 1] == 0) & (h.sum(axis=1) < 0)), 0.5, 0.0)
    probability = 0.5 * np.sum(ndtr(h), axis=1) - np.sum(owens_t(h, ratio), axis=1) - either
    known = probability > _UNLIKELY  # nor is it known where an h is zero, and the ratio no number
    result = np.log(np.where(known, probability, 1.0))
    if not np.all(known):
        loading = np.sqrt(np.abs(correlation[~known]))
        loadings = np.stack([loading, np.copysign(loading, correlation[~known])], axis=1)
        result[~known] = log_all_positive(h[~known], loadings)
    return np.asarray(result)


def _star_of_two(site: Array) -> Array:
    """Return the star weights ``(n, 3)``, of class t first, of sites ``(n, 2, 2)`` in the differences.

    As conductances the site is a triangle, and w the star that is its equivalent.
    """
    between = -0.5 * (site[:, 0, 1] + site[:, 1, 0])
    edges = np.stack([between, site[:, 1, 1] - between, site[:, 0, 0] - between], axis=1)  # each opposite to its class
    # a conductance below zero has no star: nearest to it is that of none, but for what keeps all weights finite
    edges = np.maximum(edges, _LEAST_EDGE * np.max(edges, axis=1, keepdims=True))
    products = edges[:, 0] * edges[:, 1] + edges[:, 0] * edges[:, 2] + edges[:, 1] * edges[:, 2]
    return np.asarray(products[:, None] / edges)


def _of_many(
    mean: Array, covariance: Array, noise_variance: float, tolerance: float = TOLERANCE, start: InnerSites | None = None
) -> Moments:
    """Four classes or more: expectation propagation over the factors of the differences."""
    n, size = mean.shape
    result = Moments(np.empty(n), np.empty((n, size)), np.empty((n, size, size)), *np.empty((2, n, size)))
    first = np.zeros((2, n, size)) if start is None else np.stack([start.precision, start.shift])
    for rows in blocks(n, max(1, _ENTRIES // size**2)):
        of_these = mean[rows], covariance[rows] + noise_variance
        found = _propagated(*of_these, noise_variance, tolerance, first[0, rows], first[1, rows])
        for whole, part in zip(cast("tuple[Array, ...]", result), found, strict=True):
            whole[rows] = part
    return result


def _propagated(
    mean: Array, covariance: Array, noise_variance: float, tolerance: float, precision: Array, shift: Array
) -> Moments:
    """Return what factors Phi(z_j/sqrt(v)) tell of z ``(n, q)``, which has the covariance of d + u.

    From first sites, which are overwritten.

    By expectation propagation: sites are put right one after the other, which needs no damping. Each case stops on its
    own; if all went on until the last one stands still, as one vector under `solvers.driver` would, the sweeps would
    take 1.2 to 1.6 times as long (measured with 2000 cases of five and of ten classes).
    """
    open_, (m, c) = np.arange(mean.shape[0]), (mean, covariance)
    now, left = _cases_last(*(_posterior(precision, shift, m, c)[:2] if precision.any() else (m, c)))
    for sweep in range(1, SWEEPS + 1):
        tau, b = _cases_last(precision[open_], shift[open_])
        _sweep(tau, b, now, left, noise_variance)
        going = _moved(precision[open_], shift[open_], tau.T, b.T, np.diagonal(c, axis1=1, axis2=2)) > tolerance
        precision[open_], shift[open_] = tau.T, b.T
        if not np.any(going):
            break
        open_, m, c = open_[going], m[going], c[going]
        if sweep % AFRESH == 0:
            now, left = _cases_last(*_posterior(precision[open_], shift[open_], m, c)[:2])
        else:
            now, left = now[:, going], left[..., going]
    else:
        raise NotPositiveDefiniteError("the factors of a label of several classes have no fixed point that was found")
    centre, spread, solved = _posterior(precision, shift, mean, covariance)
    slope = shift - precision * centre
    variance = np.diagonal(spread, axis1=1, axis2=2)
    cavity = variance / (1.0 - precision * variance)
    cavity_mean = centre - cavity * slope
    value = np.sum(log_ndtr(cavity_mean / np.sqrt(noise_variance + cavity)), axis=1)
    value += 0.5 * np.sum(np.log1p(precision * cavity) + cavity * slope**2, axis=1)
    value -= 0.5 * np.einsum("na,nab,nb->n", slope, covariance, slope)
    value -= 0.5 * np.linalg.slogdet(np.eye(mean.shape[1]) + covariance * precision[:, None, :])[1]
    return Moments(value, slope, -np.swapaxes(solved, 1, 2), precision, shift)


def _cases_last(*arrays: Array) -> list[Array]:
    """Return arrays ``(n, ...)`` as ``(..., n)``: sums over long rows take a third of the time of those over short."""
    return [np.moveaxis(each, 0, -1).copy() for each in arrays]


def _solved(precision: Array, covariance: Array) -> Array:
    """Return (S + T^-1)^-1 = T (I + S T)^-1, for T >= 0."""
    root = np.sqrt(precision)
    inner = np.eye(root.shape[1]) + root[:, :, None] * covariance * root[:, None, :]
    try:
        inverse = np.linalg.inv(inner)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError("the latent values of a case have no positive-definite covariance") from error
    return np.asarray(root[:, :, None] * inverse * root[:, None, :])


def _posterior(precision: Array, shift: Array, mean: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """Return mean and covariance under sites, and (S + T^-1)^-1."""
    solved = _solved(precision, covariance)
    spread = covariance - covariance @ solved @ covariance
    residual = shift - precision * mean
    return mean + np.einsum("nab,nb->na", spread, residual), spread, solved


def _moved(precision: Array, shift: Array, new: Array, new_shift: Array, prior: Array) -> Array:
    """Return the largest change of any site of a case ``(n,)``, in units of what is known without the label."""
    sd = np.sqrt(prior)
    by_precision = np.abs(new - precision) * prior / (1.0 + new * prior)
    by_shift = np.abs(new_shift - shift) * sd / (1.0 + np.abs(new_shift) * sd)
    return np.asarray(np.max(np.maximum(by_precision, by_shift), axis=1))


def _sweep(precision: Array, shift: Array, mean: Array, spread: Array, noise_variance: float) -> None:
    """Put each site right in turn, in place with mean and covariance.

    Cases are the last axis: sites and means ``(q, n)``, covariances ``(q, q, n)``.
    """
    for j in range(mean.shape[0]):
        column, variance = spread[j].copy(), spread[j, j].copy()
        tau, b = precision[j], shift[j]
        left = 1.0 - tau * variance
        cavity, cavity_mean = variance / left, (mean[j] - variance * b) / left
        sd = np.sqrt(noise_variance + cavity)
        rho, total = hazard(cavity_mean / sd)
        fall = rho * total
        new = fall / (noise_variance + cavity * (1.0 - fall))
        slope = rho / sd
        new_shift = (cavity_mean + cavity * slope) * new + slope
        more, further = new - tau, new_shift - b
        precision[j], shift[j] = new, new_shift
        gain = 1.0 + more * variance
        mean += column * ((further - more * mean[j]) / gain)
        spread -= column[:, None] * (column * (more / gain))
