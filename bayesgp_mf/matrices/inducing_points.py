r"""Inducing inputs that nearly repeat each other, told apart; and what those are worth that are left out all the same.

Two inputs at a distance e say what the function is there and, by their difference over e, what its slope is. That
difference has the part e^2 of the prior variance, of which the covariances as they are rounded have no digit left once
e is 1e-8. Slopes are known as well at a larger distance: with inputs moved apart by the factor s, about their middle,

.. math:: \frac{f(z + s e/2) - f(z - s e/2)}{s e} = f'(z) + O((s e)^2),

so that inputs nearer than double precision can tell are moved to where it can. That changes the model by about the
square of the distance at which they are then (of a rough function, by that distance), and rounding by eps over that
square: 1e-9 and 1e-7 where the difference has the part 1e-9 of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular
from scipy.sparse.csgraph import connected_components

from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.inducing import InducingGram, independent_points, inducing_gram
from bayesgp_mf.matrices.root import features_of
from bayesgp_mf.matrices.root_gram import RootCorrection
from bayesgp_mf.types import Array

LEVELS = (1e-9, 1e-8, 1e-7, 1e-6)
"""Parts of the variance of one of some inputs that the others leave it, as far as which they are moved apart in turn,
until further inputs outside determine none of them."""
FARTHEST = 100.0
"""Times that: at such inputs the least of several is still too small, and farther apart they would be another model."""
WIDEST = 10.0
"""Times as far from inputs that are moved apart as these are then from each other are others at most that go along."""
DOUBLINGS = 60
"""Of distances, from the smallest between floats to where any kernel tells them apart that ever does."""
PROBED = 256
"""Cases at which the rounding of what the inducing inputs leave of prior variances is looked at."""
DIGITS = 1e-13
"""A part of a variance below this is rounding."""


Moved: TypeAlias = tuple[NDArray[np.intp], float]


@dataclass(frozen=True, eq=False)
class InducingPoints:
    """What some inducing inputs come to.

    Attributes
    ----------
    used : (m, d) array
        Those that are worked with, in their order; those that nearly repeat each other are moved apart.
    which : (m,) array of int
        Which of the given ones they are.
    left_out : (k, d) array
        Those that the others determine up to rounding, and are no repetition of them.
    moved : tuple of pairs
        Numbers of given inputs that were moved apart together, and the factor of their distances.
    beside : (m, d) array, optional
        The used ones where they were when those left out were last looked at: a difference between some of both says
        how a function bends, of which the direction is known only if all are as far apart.
    """

    used: Array
    which: NDArray[np.intp]
    left_out: Array
    moved: tuple[Moved, ...] = ()
    beside: Any = None

    @property
    def changed(self) -> bool:
        """Whether some were moved or left out."""
        return bool(len(self.left_out) or self.moved)

    def farther(self, kernel: Any) -> Array:
        """Return those that are worked with ``(m, d)``, with twice the distances between those that were moved."""
        result = self.used
        for some, factor in self.moved:
            here = np.flatnonzero(np.isin(self.which, some))
            if here.size:
                result = _spread_among(kernel, result, here, 2.0, 2.0 * factor)
        return result

    def pull_back(self, bar: Array, number: int) -> Array:
        """Return derivatives in the inputs as given ``(number, d)`` from those in the inputs used ``(m, d)``."""
        result = np.zeros((number, bar.shape[1]))
        result[self.which] = bar
        for some, factor in self.moved:
            # z -> middle + factor (z - middle) is linear, and its own transpose
            result[some] = factor * result[some] + (1.0 - factor) * result[some].mean(axis=0)
        return result


def inducing_points(kernel: Any, points: Array) -> InducingPoints:
    """Return what is worked with of inducing inputs ``(M, d)``.

    Raises
    ------
    NotPositiveDefiniteError
        If the prior variances there, without noise of each case's own, are all zero, or overflow.
    """
    which = independent_points(kernel, points)
    if which.size == len(points):
        return InducingPoints(points, which, points[:0])
    _, first, place = np.unique(points + 0.0, axis=0, return_index=True, return_inverse=True)  # -0 is 0
    place = place.ravel()  # which of the distinct ones each is
    unshared = _unshared(kernel.cross(points[first], points[first]))
    apart, tried, moved = points, tuple[Moved, ...](), tuple[Moved, ...]()
    concerned = np.zeros(first.size, dtype=bool)
    for level in LEVELS:
        left = np.isin(np.arange(first.size), place[which], invert=True)
        concerned |= left  # those that were told apart must be so at the next level as well
        near = unshared < level
        if not left.any() or not np.any(near[left].sum(axis=1) > 1):
            continue
        there, tried = _moved_apart(kernel, points, place, near, concerned, level)
        found = independent_points(kernel, there) if tried else which
        if found.size > which.size:
            apart, moved, which = there, tried, found
    left = np.isin(np.arange(first.size), place[which], invert=True)
    looked_at = points
    for some, factor in tried:
        looked_at = _spread_among(kernel, looked_at, some, factor, factor)
    return InducingPoints(apart[which], which, looked_at[first[left]], moved, looked_at[which])


def evidence_error(
    kernel: Any,
    X: Array,
    gram: InducingGram,
    alpha: Array,
    precision: Array,
    shared: Array,
    response: Array | None = None,
) -> float:
    r"""Return how far a log evidence may be off that of the model on all inducing inputs as they were given, in nats.

    With sites W, b as they are it is

    .. math:: -\tfrac12 \log\det(I + K W) + \tfrac12\, b^T (K^{-1} + W)^{-1} b

    but for a constant: here with the columns of what is left out, as far as there are digits of them; of the rest with
    what it is at most, all that is noise of the cases' own; and with inputs twice as far apart as they were moved.
    Classes count one by one.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance.
    X : (n, d) array
        Inputs of the cases.
    gram : InducingGram
        The Gram matrix that was worked with.
    alpha, precision : (n,) or (n, C) array
        Weights, and precisions of the sites.
    shared : (n,) array
        Prior variances of the cases without noise of their own, that of `Kernel.cross`.
    response : (n,) array, optional
        Derivative of the log evidence in the latent values by way of the sites, where it is not stationary in these.
    """
    points, errors = gram.inducing, []
    with_left, own, unknown = gram, gram.own, False
    left_out = points.left_out
    if len(left_out):
        left_out = left_out[~_repeated(kernel, left_out, points.used)]
    if len(left_out):
        beside = inducing_gram(kernel, X, points.beside)
        columns, unknown = _columns(kernel, X, beside, left_out)
        unknown = unknown and not _determined(kernel, points.used, left_out)
        with_left = replace(beside, source=np.hstack([beside.root[:], columns]), known=None, keep_root=False)
        own = np.maximum(beside.own - np.einsum("ij,ij->i", columns, columns), 0.0)
        vars(with_left)["own"] = own  # what is left of it by rounding alone may be below zero
    farther = inducing_gram(kernel, X, points.farther(kernel)) if points.moved else gram
    rest = np.maximum(own - (gram.prior - shared), 0.0) if unknown else np.zeros(len(X))
    for weights, site in zip(alpha.reshape(len(X), -1).T, precision.reshape(len(X), -1).T, strict=True):
        latent = gram @ weights
        shift = weights + site * latent
        here = _parts(RootCorrection(gram, site), shift)
        for other in (with_left, farther):
            # the parts may cancel to first order, and what follows of second order is then all there is
            errors.append(float(np.sum(np.abs(_parts(RootCorrection(other, site), shift) - here))))
            if response is not None:
                errors.append(float(np.abs(response) @ np.abs(other @ weights - latent)))
        errors.append(0.5 * float(np.sum(np.log1p(np.maximum(site, 0.0) * rest) + rest * weights**2)))
    return sum(errors) + rounding_error(gram, alpha, precision)


def rounding_error(gram: InducingGram, alpha: Array, precision: Array) -> float:
    r"""Return by how much the rounding of the covariances of inducing inputs may move a log evidence, in nats.

    What is known of a case by them is :math:`k_i^T K^{-1} k_j = a_i^T K a_j`, with covariances K rounded by eps of
    the variance. So the evidence moves by half of that times :math:`|\sum_i \alpha_i a_i|_1^2` and, since what is left
    of a prior variance is noise of the case's own, times :math:`\sum_i (R_{ii} + \alpha_i^2) |a_i|^2`. The last sum is
    that of some cases, and R at most :math:`W/(1 + W d)`.
    """
    n, eps = len(gram.prior), float(np.finfo(np.float64).eps)
    some = np.unique(np.linspace(0, n - 1, min(n, PROBED)).astype(np.intp))
    a = _triangular(gram.factor, gram.source[some].T)
    size = np.einsum("ij,ij->j", a, a)
    size += 2.0 * np.sqrt(size)
    total = 0.0
    for weights, site in zip(alpha.reshape(n, -1).T, np.maximum(precision, 0.0).reshape(n, -1).T, strict=True):
        total += float(np.sum(np.abs(_triangular(gram.factor, gram.in_features(weights)))) ** 2)
        known = site[some] / (1.0 + site[some] * gram.own[some]) + weights[some] ** 2
        total += n / some.size * float(known @ size)
    return 0.5 * eps * float(np.max(gram.prior)) * total


def _triangular(factor: Array, values: Array) -> Array:
    """Return the solution of L' x = values."""
    return np.asarray(solve_triangular(factor, values, lower=True, trans=1))


def _repeated(kernel: Any, left_out: Array, used: Array) -> NDArray[np.bool_]:
    """Tell which of some inputs are one of those used by other numbers, such as a pole by another longitude."""
    there, number = np.vstack([left_out, used]), len(left_out)
    unshared = _unshared(kernel.cross(there, there))[:number, number:]
    pairs = zip(unshared.min(axis=1), left_out, used[unshared.argmin(axis=1)], strict=True)
    return np.array([least < DIGITS and _is_one(kernel, np.stack(pair)) for least, *pair in pairs])


def _is_one(kernel: Any, pair: Array) -> bool:
    """Tell whether two inputs ``(2, d)`` have one function value, also with their numbers however far apart."""
    if np.any(np.ptp(pair[:, _groups(kernel, pair)], axis=0)):
        return False
    spreads = (_spread(pair, 2.0**k) for k in range(DOUBLINGS))
    return all(_unshared(kernel.cross(each, each))[0, 1] < DIGITS for each in spreads)


def _determined(kernel: Any, used: Array, left_out: Array) -> bool:
    """Tell whether some inputs are known from others however far apart all are, as under a kernel of finite rank."""
    everything = np.vstack([used, left_out])
    groups = _groups(kernel, everything)
    for k in range(0, DOUBLINGS, 3):
        apart = _spread(everything, 2.0**k)
        apart[:, groups] = everything[:, groups]
        with np.errstate(all="ignore"):  # so far apart a polynomial has no end
            gram = kernel.cross(apart, apart)
            scale = np.sqrt(np.diagonal(gram))
            scaled = gram / np.outer(scale, scale)
        if not np.all(np.isfinite(scaled)):
            break
        if lapack.dpstrf(np.asfortranarray(scaled), lower=1, tol=LEVELS[-1])[2] > len(used):
            return False
    return True


def _parts(sites: RootCorrection, shift: Array) -> Array:
    return 0.5 * np.array([shift @ sites.posterior(shift)[1], -sites.log_det])


def _columns(kernel: Any, X: Array, gram: InducingGram, left_out: Array) -> tuple[Array, bool]:
    """Return what inputs that are left out explain of the cases ``(n, r)``, and whether some have no digits left."""
    features = features_of(kernel, gram.points, gram.factor, left_out)
    among = kernel.cross(left_out, left_out)
    scale = np.sqrt(np.diagonal(among))
    rest = (among - features.T @ features) / np.outer(scale, scale)
    factor, order, rank, _ = lapack.dpstrf(np.asfortranarray(rest), lower=1, tol=DIGITS)
    rank = rank if np.any(np.diagonal(rest) > DIGITS) else 0  # LAPACK does not ask this of the first one
    some = order[:rank] - 1
    beside = np.empty((len(X), rank))
    for block in blocks(len(X)):
        beside[block] = kernel.cross(X[block], left_out[some]) - gram.root[block] @ features[:, some]
    triangle = np.asfortranarray(np.tril(factor[:rank, :rank]))
    return np.asarray(blas.dtrsm(1.0, triangle, (beside / scale[some]).T, lower=1).T), rank < len(left_out)


def _moved_apart(
    kernel: Any,
    points: Array,
    place: NDArray[np.intp],
    near: NDArray[np.bool_],
    concerned: NDArray[np.bool_],
    level: float,
) -> tuple[Array, tuple[Moved, ...]]:
    """Return inputs ``(M, d)`` of which those near to one that it concerns are moved apart, and which by how much."""
    apart, moved = points.copy(), []
    _, cluster = connected_components(near, directed=False)
    groups = _groups(kernel, points)
    for number in np.flatnonzero((np.bincount(cluster) > 1) & (np.bincount(cluster, weights=concerned) > 0)):
        (some,) = np.nonzero(cluster[place] == number)
        if np.any(points[some][:, groups] != points[some[0], groups]):
            continue  # a kernel that does not tell these groups
        factor = _factor(kernel, points[some], level)
        if factor > 1.0:
            apart[some] = _spread(points[some], factor)
            moved.append((some, factor))
    return apart, tuple(moved)


def _factor(kernel: Any, points: Array, level: float) -> float:
    """Return the smallest power of two by which distances tell most of some inputs apart; 1 where none does."""
    best, most = 1.0, 1
    for k in range(DOUBLINGS):
        gram = kernel.cross(*2 * [_spread(points, 2.0**k)])
        unshared = _unshared(gram)
        if not np.all(np.isfinite(gram)) or unshared.max() > FARTHEST * level or most == len(points):
            break
        if unshared.max() > level:
            scale = np.sqrt(np.diagonal(gram))
            rank = lapack.dpstrf(np.asfortranarray(gram / np.outer(scale, scale)), lower=1, tol=level)[2]
            best, most = (2.0**k, rank) if rank > most else (best, most)
    return best


def _groups(kernel: Any, points: Array) -> list[int]:
    return sorted(kernel.readers("groups", points.shape[1]))


def _middle(points: Array) -> Array:
    return np.asarray(points[0] + (points - points[0]).mean(axis=0))


def _spread(points: Array, factor: float) -> Array:
    middle = _middle(points)
    return np.asarray(middle + factor * (points - middle))


def _spread_among(kernel: Any, points: Array, some: NDArray[np.intp], factor: float, times: float) -> Array:
    """Return inputs ``(M, d)`` with some of them spread, and those among which these come to lie by up to ``times``.

    All together say how a function bends, in a direction that is theirs only while the shape of all is.
    """
    result, middle, groups = points.copy(), _middle(points[some]), _groups(kernel, points)
    result[some] = _spread(points[some], factor)
    reach = float(_unshared(kernel.cross(result[some], result[some])).max())
    near = _unshared(kernel.cross(points, points))[some].min(axis=0)
    near[some] = np.inf
    among = (near < reach) & np.all(points[:, groups] == points[some[0], groups], axis=1)
    widest = WIDEST * np.sqrt(reach / near[among])
    result[among] = middle + np.minimum(times, widest)[:, None] * (points[among] - middle)
    return result


def _unshared(gram: Array) -> Array:
    """Return 1 - rho^2 of the correlations rho ``(m, m)``, from covariances; 1 where there is no variance."""
    scale = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    both = np.outer(scale, scale)
    rho = np.divide(gram, both, out=np.zeros_like(gram), where=both > 0)
    return np.asarray((1.0 - rho) * (1.0 + rho))
