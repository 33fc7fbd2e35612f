"""Moments and cumulants of distributions of one variable, Gauss rules that moments make, and points in a unit cube."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array

AGREE = 1e-8
"""How much two halves of a rule may differ, relative to the integral of the absolute values."""
ROUNDING = 1e-13
"""Part of a moment below which what is left of it in the factor is rounding."""


def from_moments(moments: Array) -> Array:
    r"""Return cumulants ``(order, ...)``, the first in place 0, from raw moments of the same orders.

    .. math:: \kappa_n = m_n - \sum_{k=1}^{n-1} \binom{n-1}{k-1} \kappa_k\, m_{n-k}
    """
    cumulants = np.array(moments)
    for n in range(2, len(moments) + 1):
        for k in range(1, n):
            cumulants[n - 1] -= comb(n - 1, k - 1) * cumulants[k - 1] * moments[n - k - 1]
    return cumulants


def average(weight: Array, values: Array) -> Array:
    """Return the averages ``(k,)`` of values ``(k, points)`` under weights that sum to one."""
    return np.asarray(np.einsum("ij,ij->i", weight, values))


def midpoints(points: int) -> Array:
    """Return 1/2, 3/2, ... of a trapezoidal rule, every other one first: sums along neighbours are the fastest."""
    return np.concatenate([np.arange(0, points, 2), np.arange(1, points, 2)]) + 0.5


def halves_agree(weight: Array, factors: Iterable[Array]) -> NDArray[np.bool_]:
    """Tell where two rules of half the points each, those of `midpoints`, agree on integrals ``(k,)`` of all factors.

    They converge geometrically, so that the error of both together is about the square of what is allowed here.
    """
    agree, halved = np.ones(len(weight), dtype=bool), weight.reshape(len(weight), 2, -1)
    for factor in factors:
        halves = np.einsum("ihj,ihj->ih", halved, factor.reshape(halved.shape))
        agree &= np.abs(halves[:, 0] - halves[:, 1]) <= AGREE * average(weight, np.abs(factor))
    return agree


def by_more_points(
    count: int,
    sizes: Sequence[int],
    entries: int,
    rule: Callable[[NDArray[np.intp], int], tuple[Any, NDArray[np.bool_]]],
) -> Iterator[tuple[NDArray[np.intp], Any]]:
    """Yield numbers of cases and what a rule finds of them, with more and more points until each is settled.

    ``rule(some, points)`` returns what it finds of those of some cases that are settled, and which these are.
    """
    todo = np.arange(count)
    for points in sizes:
        unsettled = [todo[:0]]
        for some in (todo[part] for part in blocks(todo.size, max(1, entries // points))):
            found, settled = rule(some, points)
            if settled.any():
                yield some[settled], found
            unsettled.append(some[~settled])
        todo = np.concatenate(unsettled)


def standardised_cumulants(weight: Array, values: Array, order: int) -> Array:
    """Return the cumulants from the third on, ``(order - 2, k)``, of values ``(k, points)`` with such weights.

    They are in units of the standard deviations.
    """
    offset = values - average(weight, values)[:, None]
    scaled = offset / np.sqrt(average(weight, offset**2))[:, None]
    moments, powers = np.empty((order, len(scaled))), weight
    for k in range(order):
        powers = powers * scaled
        moments[k] = np.sum(powers, axis=1)
    return from_moments(moments)[2:]


def to_moments(cumulants: Array) -> Array:
    """Return raw moments ``(order, ...)`` from cumulants: the way back of `from_moments`."""
    moments = np.array(cumulants)
    for n in range(2, len(cumulants) + 1):
        for k in range(1, n):
            moments[n - 1] += comb(n - 1, k - 1) * cumulants[k - 1] * moments[n - k - 1]
    return moments


def gauss_rule(cumulants: Array, most: int) -> tuple[Array, Array]:
    """Return nodes and weights ``(most, n)`` that integrate polynomials over distributions of mean 0 and variance 1.

    Parameters
    ----------
    cumulants : (k, n) array
        From the third on, up to order ``2 * most - 1`` or more.
    most : int
        Nodes of a rule. Where rounding leaves fewer, the others weigh nothing.

    Notes
    -----
    The Cholesky factor of the matrix of moments holds the recurrence of the orthogonal polynomials, whose tridiagonal
    matrix has the nodes as eigenvalues (Golub and Welsch, Mathematics of Computation 23, 1969, section 4).
    """
    n = cumulants.shape[1]
    known = np.concatenate([np.zeros((1, n)), np.ones((1, n)), cumulants[: 2 * most - 3]])
    along, beside, count = _recurrence(np.concatenate([np.ones((1, n)), to_moments(known)]), most)
    nodes, weights = np.zeros((most, n)), np.zeros((most, n))
    for k in np.unique(count):
        these = np.flatnonzero(count == k)
        jacobi = np.zeros((these.size, k, k))
        jacobi[:, range(k), range(k)] = along[:k, these].T
        jacobi[:, range(1, k), range(k - 1)] = beside[: k - 1, these].T
        values, vectors = np.linalg.eigh(jacobi)
        nodes[:k, these], weights[:k, these] = values.T, vectors[:, 0, :].T ** 2
    return nodes, weights


def _recurrence(moments: Array, most: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return the diagonals ``(most, n)`` and ``(most - 1, n)`` of Jacobi matrices, and how many rows of each are known.

    ``moments (2 * most, n)`` are raw ones, from the zeroth on.
    """
    n = moments.shape[1]
    upper = np.zeros((most, most + 1, n))
    count = np.full(n, most)
    for row in range(most):
        for column in range(row, most + 1):
            upper[row, column] = moments[row + column] - np.sum(upper[:row, row] * upper[:row, column], axis=0)
        lost = ~(upper[row, row] > ROUNDING * moments[2 * row])
        count[lost & (count == most)] = row
        upper[row, row, lost] = 1.0  # nothing is asked of what follows, but that it is a number
        upper[row] /= np.sqrt(upper[row, row])
    ratio = np.array([upper[k, k + 1] / upper[k, k] for k in range(most)])
    along = np.diff(ratio, axis=0, prepend=0.0)
    beside = np.array([upper[k + 1, k + 1] / upper[k, k] for k in range(most - 1)])
    return along, beside, count


BITS = 30


def scrambled_points(dimensions: int, log2_points: int, rng: np.random.Generator) -> Array:
    """Return ``(dimensions, 2**log2_points)`` coordinates strictly between 0 and 1, those of one point in a column.

    They are Sobol's points, scrambled: each is uniform in the cube, so that the mean over them is unbiased, and the
    spread over independent scrambles is its error.
    """
    from scipy.stats import qmc  # takes a third of a second, and no other method needs it

    points = qmc.Sobol(dimensions, scramble=True, bits=BITS, seed=rng).random_base2(log2_points)
    # multiples of 2^-BITS, zero among them, which would be a point at infinity: to the middle of their cells
    return np.ascontiguousarray(points.T) + 0.5 * 2.0**-BITS
