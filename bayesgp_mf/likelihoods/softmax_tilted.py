r"""What one label of C classes makes of the Gaussian of a case: the moments of softmax times normal, by quadrature.

Wanted are, for a class t and a Gaussian of the C latent values, the integral Z of :math:`\pi_t(f) N(f|m, V)` and the
mean and covariance of f under that product, the *tilted* distribution. The softmax depends on the C - 1 differences
:math:`d_c = f_t - f_c` only, and is a product of logistic functions of one more of them each,

.. math:: \pi_t(f) = \frac{1}{1 + \sum_c e^{-d_c}} = \prod_k \sigma(d_k + \log a_{k-1}),
          \quad a_k = 1 + \sum_{l \le k} e^{-d_l}.

With d = mean + L x, where L is lower triangular and x white, factor k is logistic in x_k, given those before it. So the
integral is done one variable after the other: x_k has the density :math:`\varphi(x_k) \sigma(c + s x_k)`, for
which `logistic_normal` has a Gauss rule of its own; the last one is integrated to full accuracy, and so is the first
of three classes. All that the rule leaves to be approximated by a polynomial is how the integral over the later
variables depends on the earlier. Nodes move smoothly with m and V, so that the equations built on them have a solution
to all digits: moved by 1e-9, a Gaussian of variance up to 1000 changes log Z by what its derivative says, to 1e-14.

A rule with q nodes has q^(C-2) of them at the last variable but one. For two classes nothing is left to approximate.
Largest errors of log Z with the default q, over random Gaussians of variance s, with means of that size and labels
likely and not, against many more nodes; those of tilted means, in standard deviations, are much the same:

=======  ===  ======  ======  =======
classes  q    s = 1   s = 10  s = 100
=======  ===  ======  ======  =======
3        56   3e-14   1e-10   1e-8
4        12   2e-6    2e-4    8e-4
5        7    1e-5    1e-3    2e-3
6        5    4e-5    2e-3    3e-3
=======  ===  ======  ======  =======

Where a standard deviation is above 300 the trapezoidal rule has more points, and so have three classes nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.logistic_normal import COARSE, FINE, Discrete, GridRule, by_rule, discretise, gauss_rule
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.star import StarSites, star_weights
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array

WHOLE_GRID = COARSE[0][1].points
"""Of so many nodes ask for those of the trapezoidal rule itself; there are more where latent values are very wide."""
POINTS = {2: 1, 3: WHOLE_GRID, 4: 12, 5: 7, 6: 5, 7: 4}
"""Nodes for each variable but the last, by number of classes."""
FEWEST = 3
"""For still more classes, and on the way to a solution."""
MOST_CLASSES = 10
"""Each further class has three times as many nodes: ten take some 0.05 s for each case and step."""
_ENTRIES = 65_536  # nodes held at once, those of the last variable too, so that they stay in the cache
_LEAST_GAIN = 1e-12  # of a precision, relative to that before the label, by one that was certain before
_ROUNDING = 1e-10  # a variance may exceed that before the label by this part


class Tilted(NamedTuple):
    """Softmax times a Gaussian, in C - 1 orthonormal contrasts of the latent values."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C - 1), of log Z in the means; the tilted mean is m + V gradient
    precision: Array  # (n, C - 1, C - 1), tilted less that of the Gaussian; not negative: the softmax is log-concave


def tilted(t: Array, mean: Array, covariance: Array, points: int | None = None) -> Tilted:
    """Return integral and moments of softmax times Gaussian, for classes ``t (n,)``.

    ``mean (n, C - 1)`` and ``covariance (n, C - 1, C - 1)`` are those of the contrasts,
    `softmax_integral.contrast_basis`; ``points`` are the nodes for each variable but the last, by default `points_for`.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance is not positive definite, or the nodes are too few to tell that a label makes latent values
        more certain and not less.
    """
    n, size = mean.shape
    result = Tilted(np.empty(n), np.empty((n, size)), np.empty((n, size, size)))
    for rows, turn, nodes in _blocks(t, mean, covariance, points):
        found = _moments(nodes)
        result.log_partition[rows] = found.log_partition
        result.gradient[rows] = np.einsum("nji,nj->ni", turn, found.gradient)
        result.precision[rows] = np.swapaxes(turn, 1, 2) @ found.precision @ turn
    return result


def star_sites(t: Array, mean: Array, covariance: Array, points: int | None = None) -> StarSites:
    """Return the sites of cases at Gaussians ``(n, C)`` and ``(n, C, C)`` of all their latent values.

    w has the diagonal that moment matching asks for: for three classes every site is of star form, and for more the
    means are matched, and covariances as far as w can.
    """
    basis = contrast_basis(mean.shape[1])
    found = tilted(t, mean @ basis, basis.T @ covariance @ basis, points)
    weight = star_weights(np.einsum("ca,iab,cb->ic", basis, found.precision, basis))
    return StarSites(found.log_partition, found.gradient @ basis.T, weight)


def log_partition(t: Array, mean: Array, covariance: Array, points: int | None = None) -> Array:
    """Return log Z ``(n,)`` of `tilted`, for labels however unlikely."""
    result = np.empty(mean.shape[0])
    for rows, _, nodes in _blocks(t, mean, covariance, points):
        result[rows] = logsumexp(nodes.log_weight, axis=1)
    return result


def tilted_probabilities(mean: Array, covariance: Array, points: int | None = None) -> Array:
    """Return the probabilities ``(m, C)`` of the classes of cases with Gaussian latent values; rows sum to one.

    ``covariance (m, C, C)`` is positive definite but for a common shift. Before it is divided out, the sum over all
    classes is one up to the error of the integrals.
    """
    basis = contrast_basis(mean.shape[1])
    contrasts, inner = mean @ basis, basis.T @ covariance @ basis
    each = [log_partition(np.full(mean.shape[0], c), contrasts, inner, points) for c in range(mean.shape[1])]
    log_probability = np.stack(each, axis=1)
    return np.asarray(np.exp(log_probability - logsumexp(log_probability, axis=1, keepdims=True)))


def check_number_of_classes(n_classes: int) -> None:
    """Raise a ValueError if there are so many classes that the nodes would not be done with."""
    if n_classes > MOST_CLASSES:
        raise ValueError(
            f"TAP integrates over C - 1 latent values of each case, which takes too long beyond {MOST_CLASSES} "
            f"classes under a softmax, and there are {n_classes}. Use bgp.MultinomialProbit(), for any number, or "
            "method='laplace'."
        )


def points_for(n_classes: int) -> int:
    """Return the default number of nodes for each variable but the last."""
    return POINTS.get(n_classes, FEWEST)


@cache
def _differences(n_classes: int) -> Array:
    """Return, for each class t, the matrix ``(C - 1, C - 1)`` that takes contrasts to the differences f_t - f_c."""
    basis, each = contrast_basis(n_classes), np.arange(n_classes)
    return np.stack([basis[t] - basis[each != t] for t in each])


class _Nodes(NamedTuple):
    """The tree of nodes of some cases: white x of all variables but the last, and the density of that one."""

    x: Array  # (n, nodes, C - 2)
    log_weight: Array  # (n, nodes), with the integral over the last variable
    last: Discrete
    factor: Array  # (n, C - 1, C - 1), L


def _blocks(
    t: Array, mean: Array, covariance: Array, points: int | None
) -> Iterator[tuple[NDArray[np.intp], Array, _Nodes]]:
    """Yield rows, the matrices ``(k, C - 1, C - 1)`` that take their contrasts to differences, and their nodes."""
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(covariance))):
        raise NotPositiveDefiniteError("the latent values of a case have a mean or covariance that is not finite")
    size = mean.shape[1]
    q = points_for(size + 1) if points is None else points
    turned = _differences(size + 1)[t.astype(np.intp)]
    centre = np.einsum("nij,nj->ni", turned, mean)
    spread = turned @ covariance @ np.swapaxes(turned, 1, 2)
    largest = np.max(np.diagonal(spread, axis1=1, axis2=2), axis=1)  # no slope has a larger square
    for rule, some in by_rule(np.sqrt(np.maximum(largest, 0.0)), FINE if size == 1 else COARSE):
        nodes = rule.points if q == WHOLE_GRID else q
        for part in blocks(some.size, max(1, _ENTRIES // (rule.points * nodes ** (size - 1)))):
            rows = some[part]
            yield rows, turned[rows], _nodes(centre[rows], spread[rows], q, rule)


def _nodes(mean: Array, covariance: Array, q: int, rule: GridRule) -> _Nodes:
    """Return the nodes for differences d with mean ``(n, C - 1)`` and covariance ``(n, C - 1, C - 1)``."""
    n, size = mean.shape
    try:
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError(
            "the latent values of a case have no positive-definite covariance, up to a common shift"
        ) from error
    x, log_weight, log_a = np.empty((n, 1, 0)), np.zeros((n, 1)), np.zeros((n, 1))
    for k in range(size):
        # d_k = centre + slope x_k, given the variables before it
        centre = mean[:, k, None] + np.einsum("nj,npj->np", factor[:, k, :k], x)
        slope = np.broadcast_to(factor[:, k, k, None], centre.shape)
        density = discretise(centre + log_a, slope**2, rule)
        log_weight = log_weight + density.log_integral
        if k == size - 1:
            break
        nodes, weights = (density.x, density.weight) if q == WHOLE_GRID else gauss_rule(density, q)
        with np.errstate(divide="ignore"):  # a weight may underflow, and its node then counts for nothing
            log_weight = (log_weight[..., None] + np.log(weights)).reshape(n, -1)
        log_a = np.logaddexp(log_a[..., None], -(centre[..., None] + slope[..., None] * nodes)).reshape(n, -1)
        x = np.concatenate([np.repeat(x, nodes.shape[-1], axis=1), nodes.reshape(n, -1, 1)], axis=-1)
        some = np.any(log_weight > -np.inf, axis=0)  # of very wide Gaussians nearly half the nodes underflow
        x, log_weight, log_a = x[:, some], log_weight[:, some], log_a[:, some]
    return _Nodes(x, log_weight, density, factor)


def _moments(nodes: _Nodes) -> Tilted:
    """Return log Z, and its gradient and the precision in terms of the differences."""
    x, log_weight, last, factor = nodes
    total = logsumexp(log_weight, axis=1)
    weight = np.exp(log_weight - total[:, None])
    beyond = np.einsum("npk,npk->np", last.weight, last.offset)
    off = last.offset - beyond[..., None]
    own_variance = np.einsum("npk,npk,npk->np", last.weight, off, off)
    every = np.concatenate([x, (last.mode + beyond)[..., None]], axis=-1)
    white_mean = np.einsum("np,npi->ni", weight, every)
    centred = every - white_mean[:, None, :]
    white_covariance = np.swapaxes(weight[..., None] * centred, 1, 2) @ centred
    white_covariance[:, -1, -1] += np.sum(weight * own_variance, axis=1)
    values, vectors = np.linalg.eigh(white_covariance)
    # a label makes latent values more certain, since the softmax is log-concave; error of the rule is not let through.
    # Nor is a gain that is lost to rounding: a site with no weight at all would have no shares of the classes
    gained = np.maximum(1.0 / values - 1.0, _LEAST_GAIN)
    inverse = np.linalg.inv(factor)
    turned = np.swapaxes(inverse, 1, 2) @ vectors
    precision = (turned * gained[:, None, :]) @ np.swapaxes(turned, 1, 2)
    return Tilted(total, np.einsum("nji,nj->ni", inverse, white_mean), precision)
