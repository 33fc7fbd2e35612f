r"""Softmax probabilities averaged over a Gaussian of the latent values of one case, with a stated error.

Wanted are, for :math:`f \sim N(m, V)` with C entries, the integrals

.. math:: p_t = E[\pi_t(f)], \qquad \pi_t = e^{f_t} / \textstyle\sum_c e^{f_c},

and the derivatives of their logarithms in m. Since :math:`\pi_t` is the probability that :math:`f_t + g_t` is the
largest of all :math:`f_c + g_c` with independent Gumbel variables g, for a diagonal covariance
:math:`V = \mathrm{diag}(s)` it is an integral in one dimension,

.. math:: p_t = \int G_t'(x) \prod_{c \ne t} G_c(x)\, dx, \qquad G_c(x) = P(f_c + g_c < x),

which the trapezoidal rule takes to seven digits, also where :math:`p_t` is tiny. A covariance that is not diagonal is
split,

.. math:: V \equiv \mathrm{diag}(s) + B B^T ,

where the sign says that both sides give all differences of latent values the same covariance: a common offset changes
nothing. The covariances that a posterior has are nearly diagonal in this sense; those of three classes mostly are so
exactly. The rest is a mean over :math:`z \sim N(0, I)` of the above with :math:`m + B z`, a smooth function: Smolyak's
sparse combinations of Gauss-Hermite rules [1]_, with higher degrees along the axes on which z does most, each level
against the one before, until the difference is small enough. Where that does not come about, Sobol's points in 8
independent scrambles, whose spread is the error, twice as many each time; their seeds are fixed, so that the answer is
a function of m and V. For two classes the integral is that of `Logit`.

References
----------
.. [1] Gerstner, T., & Griebel, M. (1998). Numerical integration using sparse grids. Numerical Algorithms 18, 209-232.
   https://doi.org/10.1023/A:1019129717644
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bayesgp_mf.errors import ConvergenceError, Status
from bayesgp_mf.likelihoods.logit import Logit
from bayesgp_mf.likelihoods.moments import scrambled_points
from bayesgp_mf.matrices.factors import blocks_by_size
from bayesgp_mf.types import Array, Derivs

ABSOLUTE = 1e-4
"""Estimated error of a probability that is good enough."""
RELATIVE = 3e-4
"""The same of a density, in proportion: an error in nats."""
SCRAMBLES = 8
"""Independent sets of Sobol's points."""
FIRST, LAST = 6, 12
"""Logarithms to base 2 of the number of points in each set: at first, and at the end."""
LEVELS = 6
"""The last level of the sparse rules that is tried."""
_MOST = 5000  # points of all rules of a level; those with more are left out
_ENTRIES = 200_000  # numbers held at once: what fits into a cache
_STEP = 0.4  # of the trapezoidal rule, in units of the scale of the least smooth G; its error is below 1e-7
_BELOW, _ABOVE, _TAIL = 8.0, 6.0, 18.0  # reach in standard deviations to either side, and of the Gumbel tail
_GUMBEL_STEP = 0.5  # of the mean over the Gumbel variable; its error is below 1e-7
_NARROW = 1.0  # variance up to which G is a mean over the Gaussian, and above one over the Gumbel variable
_GRADES = (0.02, 2e-3, 2e-4)  # of the spread of m + B z along an axis, by which higher degrees are spared there
_LOWEST = 1e-250  # values of G below this count as zero
_ROUNDING = 1e-8  # in units of the largest variance: eigenvalues down to minus this are zero
_REFINEMENTS = 12
_GUMBEL_VARIANCE = np.pi**2 / 6.0
_NO_COVARIANCE = "the covariance of the latent values of a case is not positive semi-definite"

Index = NDArray[np.intp]


def class_probabilities(mean: Array, covariance: Array, codes: Index | None = None) -> Array:
    """Return the probabilities ``(m, C)`` of the classes of cases with Gaussian latent values; rows sum to one.

    Those of the classes ``codes (m,)``, where they are given, have a small relative error too.

    Raises
    ------
    ConvergenceError
        If all points leave an estimated error above 1e-4.
    ArithmeticError
        If one of the covariances ``(m, C, C)`` is not positive semi-definite.
    """
    if mean.shape[1] == 2:
        difference, variance = _of_two(mean, covariance)
        logit = Logit()
        return np.stack([logit.predict_proba(-difference, variance), logit.predict_proba(difference, variance)], 1)

    def good(rows: Index, value: Array, error: Array) -> NDArray[np.bool_]:
        enough = np.max(error, axis=1) <= ABSOLUTE
        if codes is not None:
            own = np.arange(rows.size), codes[rows]
            enough &= error[own] <= RELATIVE * value[own]
        return np.asarray(enough)

    result = _until_good(_split(mean, covariance), _first_moments, good, "probability")
    return np.asarray(result / np.sum(result, axis=1, keepdims=True))  # one already, but for rounding


def class_predictions(t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return the log probabilities ``(m,)`` of the classes ``t (m,)``, in nats, and those of all classes ``(m, C)``.

    The errors are those of `log_class_density` and `class_probabilities`, at the cost of the latter.
    """
    if mean.shape[1] == 2:
        return log_class_density(t, mean, covariance).value, class_probabilities(mean, covariance)
    codes = t.astype(np.intp)
    probability = class_probabilities(mean, covariance, codes)
    return np.log(probability[np.arange(t.size), codes]), probability


def log_class_density(t: Array, mean: Array, covariance: Array) -> Derivs:
    """Return the log probability ``(m,)`` of the classes ``t (m,)``, and its derivatives in the means ``(m, C)``.

    It raises what `class_probabilities` does, but the estimated error allowed is 3e-4 nats.
    """
    codes = t.astype(np.intp)
    if mean.shape[1] == 2:
        difference, variance = _of_two(mean, covariance)
        value, slope, curvature = Logit().log_partition(2.0 * t - 1.0, difference, variance)
        contrast = np.array([-1.0, 1.0])
        return Derivs(value, slope[:, None] * contrast, curvature[:, None, None] * np.outer(contrast, contrast))
    slope, curvature = np.empty_like(mean), np.empty((*mean.shape, mean.shape[1]))

    def estimate(rows: Index, cases: _Cases, rule: _Rule) -> Array:
        each, slope[rows], curvature[rows] = _moments_of(codes[rows], cases, rule)
        return each[:, :, None]

    def good(rows: Index, value: Array, error: Array) -> NDArray[np.bool_]:
        return np.asarray(error[:, 0] <= RELATIVE * value[:, 0])

    probability = _until_good(_split(mean, covariance), estimate, good, "log density")[:, 0]
    d1 = slope / probability[:, None]
    d2 = curvature / probability[:, None, None] - d1[:, :, None] * d1[:, None, :]
    return Derivs(np.log(probability), d1, d2)


def contrast_basis(n_classes: int) -> Array:
    """Return H ``(C, C - 1)``: orthonormal columns that are orthogonal to the vector of ones (Helmert's)."""
    columns = np.tril(np.ones((n_classes, n_classes)), -1)[:, :-1]
    below = np.arange(n_classes - 1, 0, -1)
    columns[np.arange(n_classes - 1), np.arange(n_classes - 1)] = -below
    return np.asarray(columns / np.sqrt(below * (below + 1.0)))


def _of_two(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return mean and variance ``(m,)`` of f_1 - f_0, all that two classes depend on."""
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - covariance[:, 0, 1] - covariance[:, 1, 0]
    scale = np.maximum(covariance[:, 0, 0], covariance[:, 1, 1])
    if not np.all(variance >= -_ROUNDING * scale):  # also if one is NaN
        raise ArithmeticError(_NO_COVARIANCE)
    return mean[:, 1] - mean[:, 0], np.maximum(variance, 0.0)


class _Cases(NamedTuple):
    """Gaussians as sums of independent latent values and of a part that they share."""

    mean: Array  # (k, C)
    variance: Array  # s (k, C)
    shared: Array  # B (k, C, C - 1), the largest column first

    def of(self, rows: Index) -> _Cases:
        return _Cases(self.mean[rows], self.variance[rows], self.shared[rows])


def _split(mean: Array, covariance: Array) -> _Cases:
    """Split covariances ``(m, C, C)`` into diag(s) + B B' up to a common offset, with s as large as is found."""
    n_classes = mean.shape[1]
    diagonal = np.diagonal(covariance, axis1=1, axis2=2)
    basis = contrast_basis(n_classes)
    inner = basis.T @ covariance @ basis
    values, vectors = np.linalg.eigh(0.5 * (inner + np.swapaxes(inner, 1, 2)))
    scale = np.max(np.abs(diagonal), axis=1, initial=0.0)[:, None]
    if not np.all(values >= -_ROUNDING * scale):  # also if one is NaN
        raise ArithmeticError(_NO_COVARIANCE)
    # where all covariances between classes are a_c + a_d, taking these away leaves a diagonal: least squares for a
    between = np.sum(covariance, axis=2) - diagonal
    total = np.sum(between, axis=1, keepdims=True) / (2.0 * (n_classes - 1))
    variance = diagonal - 2.0 * (between - total) / (n_classes - 2)
    variance = np.maximum(variance, 1e-3 * diagonal)
    # what is left must be positive semi-definite on contrasts
    tiny = np.finfo(np.float64).tiny
    whiten = vectors / np.sqrt(np.maximum(values, 1e-13 * scale + tiny))[:, None, :]
    for _ in range(_REFINEMENTS):
        largest, share = _excess(variance, basis @ whiten)
        if np.all(largest <= 1.0 + 1e-12):
            break
        power = share / np.maximum(np.max(share, axis=1, keepdims=True), tiny)  # none has a share of no variance
        variance = variance * np.maximum(largest, 1.0)[:, None] ** -power
    variance = variance / np.maximum(_excess(variance, basis @ whiten)[0], 1.0)[:, None]
    values, vectors = np.linalg.eigh(inner - (basis.T * variance[:, None, :]) @ basis)
    values = np.where(values > 1e-12 * scale, values, 0.0)[:, None, ::-1]
    return _Cases(mean, variance, (basis @ vectors[:, :, ::-1]) * np.sqrt(values))


def _excess(variance: Array, whiten: Array) -> tuple[Array, Array]:
    """Return the largest eigenvalue ``(m,)`` of diag(s) relative to V on contrasts, and the classes' shares in it."""
    values, vectors = np.linalg.eigh(np.swapaxes(whiten, 1, 2) @ (variance[:, :, None] * whiten))
    direction = np.einsum("kcd,kd->kc", whiten, vectors[:, :, -1])
    share = variance * direction**2
    return values[:, -1], share / np.maximum(np.sum(share, axis=1, keepdims=True), np.finfo(np.float64).tiny)


class _Rule(NamedTuple):
    """A mean over z: several sets of points, and the weights of one set, which sum to one."""

    points: Array  # (sets, p, C - 1)
    weights: Array  # (p,)


def _until_good(
    cases: _Cases,
    estimate: Callable[[Index, _Cases, _Rule], Array],
    good: Callable[[Index, Array, Array], NDArray[np.bool_]],
    what: str,
) -> Array:
    """Return estimates ``(m, q)`` by rules of more and more points, until each row is good enough.

    ``estimate(rows, cases, rule)`` returns one for each set of points, ``(k, sets, q)``, and
    ``good(rows, value, error)`` judges their mean.
    """
    (count, n_classes), pending = cases.mean.shape, np.arange(cases.mean.shape[0])
    exact = ~np.any(cases.shared, axis=(1, 2))
    value: Array | None = None

    def refine(rule: _Rule, some: Index, judge: bool) -> Index:
        """Estimate some rows by a rule, and return those that are not good enough."""
        nonlocal value
        undecided = [some[:0]]
        for rows in _blocks(cases, some, rule.points.shape[0] * rule.points.shape[1]):
            each = estimate(rows, cases.of(rows), rule)
            if value is None:
                value = np.empty((count, each.shape[2]))
            found, sets = np.mean(each, axis=1), each.shape[1]
            if judge:
                # twice the last change: what follows is mostly less than it
                error = 2.0 * np.abs(found - value[rows])
                if sets > 1:  # three standard errors
                    error = 3.0 * np.std(each, axis=1, ddof=1) / np.sqrt(sets)
                undecided.append(rows[~good(rows, found, error)])
            value[rows] = found
        return np.concatenate(undecided)

    refine(_sparse_rule((1,) * (n_classes - 1), 0), pending, judge=False)
    pending = pending[~exact]
    # of each axis of z (m, C - 1): 1 where it moves much, up to 4 where it hardly does
    spread = np.sum(cases.shared**2 / (_GUMBEL_VARIANCE + cases.variance)[:, :, None], axis=1)
    grades, unsettled = 1 + np.sum(spread[:, :, None] <= _GRADES, axis=2), [pending[:0]]
    for grade in sorted({tuple(int(g) for g in row) for row in grades[pending]}):
        some = pending[np.all(grades[pending] == grade, axis=1)]
        for level in range(1, LEVELS + 1):
            if some.size == 0 or _size(grade, level) > _MOST:
                break
            some = refine(_sparse_rule(grade, level), some, judge=True)
        unsettled.append(some)
    pending = np.concatenate(unsettled)
    for log2_points in range(FIRST, LAST + 1):
        if pending.size == 0:
            break
        pending = refine(_sobol(n_classes - 1, log2_points), pending, judge=True)
    if pending.size or value is None:
        raise ConvergenceError(
            f"the {what} of {pending.size} cases (the first is {int(pending[0])}) was not integrated to the wanted "
            f"error by {SCRAMBLES} times 2**{LAST} points: the latent values of its classes are very wide and far from "
            "independent. Use a kernel with less variance.",
            Status.MAX_ITERATIONS,
        )
    return value


@cache
def _sparse_rule(grade: tuple[int, ...], level: int) -> _Rule:
    """Return a sparse combination of Gauss-Hermite rules of 1, 3, 5, ... nodes along each axis.

    The products i with sum_j grade_j i_j <= level are combined, and those with one i_j = 1: all polynomials of degree 3
    are exact from level 1 on.
    """
    indices = _indices(grade, level)
    steps = [up for count in range(max(level, 1) + 1) for up in combinations(range(len(grade)), count)]
    combined: dict[tuple[float, ...], float] = {}
    for index in indices:
        # of the combination: the sum of (-1)^|u| over steps u of 0 and 1 that stay inside
        ahead = [len(up) for up in steps if tuple(i + (j in up) for j, i in enumerate(index)) in indices]
        factor = sum((-1) ** count for count in ahead)
        if factor == 0:
            continue
        for nodes in product(*[list(zip(*_hermite(2 * i + 1), strict=True)) for i in index]):
            point = tuple(float(x) for x, _ in nodes)
            combined[point] = combined.get(point, 0.0) + factor * float(np.prod([weight for _, weight in nodes]))
    return _Rule(np.array(list(combined))[None], np.array(list(combined.values())))


def _indices(grade: tuple[int, ...], level: int) -> set[tuple[int, ...]]:
    single = {tuple(int(j == k) for j in range(len(grade))) for k in range(len(grade))} if level else set()
    return {*_up_to(grade, level), *single}


def _size(grade: tuple[int, ...], level: int) -> int:
    """Return the number of points of all products of a sparse rule, which share many."""
    return sum(prod(2 * i + 1 for i in index) for index in _indices(grade, level))


def _up_to(grade: tuple[int, ...], level: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples i of integers >= 0 with sum_j grade_j i_j <= level."""
    if not grade:
        yield ()
        return
    for first in range(level // grade[0] + 1):
        yield from ((first, *rest) for rest in _up_to(grade[1:], level - grade[0] * first))


@cache
def _sobol(dimensions: int, log2_points: int) -> _Rule:
    """Return Sobol's points as standard normal ones, in independent scrambles."""
    sets = [scrambled_points(dimensions, log2_points, np.random.default_rng(seed)).T for seed in range(SCRAMBLES)]
    return _Rule(np.asarray(ndtri(np.stack(sets))), np.full(2**log2_points, 2.0**-log2_points))


def _blocks(cases: _Cases, rows: Index, points: int) -> Iterator[Index]:
    """Yield rows that are handled at once, those with grids of similar size together."""
    lower, upper = _reach(cases.of(rows), np.zeros(1))
    sizes = np.ceil((upper - lower) / _steps(cases.of(rows)))
    return (rows[some] for some in blocks_by_size(sizes, _ENTRIES / (points * cases.mean.shape[1])))


def _reach(cases: _Cases, shift: Array) -> tuple[Array, Array]:
    """Return lower and upper ends ``(..., k)`` that hold the integrals at ``mean + shift``, ``shift (..., k, C)``."""
    sd, mean = np.sqrt(cases.variance), cases.mean + shift
    return np.max(mean - _BELOW * sd, axis=-1) - 4.0, np.max(mean + _ABOVE * sd, axis=-1) + _TAIL


def _steps(cases: _Cases) -> Array:
    """Return the steps ``(k,)`` of the trapezoidal rule."""
    return np.asarray(_STEP * np.sqrt(1.0 + np.min(cases.variance, axis=1) / _GUMBEL_VARIANCE))


class _Grid(NamedTuple):
    """log G and its derivatives at the nodes of the trapezoidal rule."""

    log_g: Array  # (k, scrambles, points, C, nodes)
    slope: Array
    curvature: Array
    step: Array  # (k,)


def _on_grid(cases: _Cases, points: Array) -> _Grid:
    """Return log G_c(x - (B z)_c) on a grid for each case and z, from a table by quintic interpolation."""
    shift = np.einsum("kcd,spd->spkc", cases.shared, points, optimize=True)
    lower, upper = _reach(cases, shift)  # (scrambles, points, k)
    step = _steps(cases)
    nodes = int(np.max(np.ceil((upper - lower) / step))) + 1
    start = np.floor((lower - np.min(lower, axis=(0, 1))) / step)
    margin = np.ceil(np.max(shift / step[:, None], axis=(0, 1, 3))) + 1.0
    # grid node j lies at y = x - m_c - (B z)_c, which is node position + j of the table
    position = np.moveaxis(start[..., None] + margin[:, None] - shift / step[:, None], 2, 0)
    size = int(np.max(position)) + nodes + 2
    x = np.min(lower, axis=(0, 1))[:, None] + step[:, None] * (np.arange(size) - margin[:, None])
    table = _table(x[:, None, :] - cases.mean[:, :, None], cases.variance[:, :, None])
    first = np.floor(position).astype(np.intp)
    weights = _quintic(position - first)
    k, c = np.arange(shift.shape[2])[:, None, None, None, None], np.arange(shift.shape[3])[:, None]
    at = first[..., None] + np.arange(nodes)
    spacing = step[:, None, None]
    scaled = (table[0], table[1] * spacing, table[2] * spacing**2)
    ends = [part[k, c, at + end] for end in (0, 1) for part in scaled]
    h = step[:, None, None, None, None]
    log_g, slope, curvature = (
        sum(weight[..., None] * end for weight, end in zip(row, ends, strict=True)) / h**order
        for order, row in enumerate(weights)
    )
    return _Grid(log_g, slope, curvature, step)


def _quintic(u: Array) -> list[list[Array]]:
    """Return the weights of value, slope and curvature at both ends of [0, 1] for the same three at ``u``."""
    polynomials = (
        (1, 0, 0, -10, 15, -6),
        (0, 1, 0, -6, 8, -3),
        (0, 0, 0.5, -1.5, 1.5, -0.5),
        (0, 0, 0, 10, -15, 6),
        (0, 0, 0, -4, 7, -3),
        (0, 0, 0, 0.5, -1, 0.5),
    )
    each = [np.polynomial.Polynomial(coefficients) for coefficients in polynomials]
    return [[polynomial.deriv(order)(u) if order else polynomial(u) for polynomial in each] for order in range(3)]


def _table(y: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return log G and its first two derivatives for f ~ N(0, variance), at ``y``, where they count; -1e3 where not."""
    y, variance = np.broadcast_arrays(y, variance)
    g, d1, d2 = np.zeros(y.shape), np.zeros(y.shape), np.zeros(y.shape)
    narrow = variance[..., 0] < _NARROW
    for some, formula in ((narrow, _narrow), (~narrow, _wide)):
        if some.any():
            g[some], d1[some], d2[some] = formula(y[some], variance[some])
    counts = g > _LOWEST
    safe = np.where(counts, g, 1.0)
    slope = np.where(counts, d1 / safe, 0.0)
    return np.where(counts, np.log(safe), -1e3), slope, np.where(counts, d2 / safe - slope**2, 0.0)


def _narrow(y: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return E exp(-e^-(y - f)) and its derivatives, over nodes of the Gaussian of f."""
    nodes, weights = _hermite(32)
    g, d1, d2 = np.zeros(y.shape), np.zeros(y.shape), np.zeros(y.shape)
    sd = np.sqrt(variance)
    for node, weight in zip(nodes, weights, strict=True):
        rate = np.exp(np.minimum(node * sd - y, 50.0))
        below = weight * np.exp(-rate)
        g += below
        d1 += below * rate
        d2 += below * rate * (rate - 1.0)
    return g, d1, d2


def _wide(y: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return E Phi((y - g) / sd) and its derivatives, over nodes of the Gumbel variable g."""
    g, d1, d2 = np.zeros(y.shape), np.zeros(y.shape), np.zeros(y.shape)
    sd = np.sqrt(variance)
    for node in np.arange(-4.0, 32.0, _GUMBEL_STEP):  # the trapezoidal rule
        weight = _GUMBEL_STEP * np.exp(-node - np.exp(-node))
        score = (y - node) / sd
        density = weight * np.exp(-0.5 * score**2) / (sd * np.sqrt(2.0 * np.pi))
        g += weight * ndtr(score)
        d1 += density
        d2 -= density * score / sd
    return g, d1, d2


@cache
def _hermite(count: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss-Hermite rule for a standard normal variable; the middle one is zero."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    nodes = 0.5 * (nodes - nodes[::-1])
    return np.asarray(nodes), np.asarray(weights / np.sum(weights))


def _first_moments(rows: Index, cases: _Cases, rule: _Rule) -> Array:
    """Return the probabilities ``(k, sets, C)``, averaged over each set of points."""
    grid = _on_grid(cases, rule.points)
    together = np.exp(np.sum(grid.log_g, axis=3))
    each = np.einsum("kspcx,kspx->kspc", grid.slope, together, optimize=True)
    return np.asarray(np.einsum("kspc,p,k->ksc", each, rule.weights, grid.step))


def _moments_of(codes: Index, cases: _Cases, rule: _Rule) -> tuple[Array, Array, Array]:
    """Return p_t ``(k, sets)``, averaged over each set of points, and its derivatives, ``(k, C)`` and ``(k, C, C)``."""
    grid = _on_grid(cases, rule.points)
    k, n_classes = cases.mean.shape
    rows, every = np.arange(k), np.arange(n_classes)
    weight = grid.slope[rows, :, :, codes] * np.exp(np.sum(grid.log_g, axis=3))
    weight *= grid.step[:, None, None, None] * rule.weights[:, None]
    each = np.sum(weight, axis=(2, 3))
    weight /= weight.shape[1]
    # the derivative in m_c, for c other than t, brings down -G_c'/G_c; that in m_t follows, since all together are zero
    other = every != codes[:, None]
    slope = -np.einsum("kspx,kspcx->kc", weight, grid.slope, optimize=True) * other
    curvature = np.einsum("kspx,kspcx,kspdx->kcd", weight, grid.slope, grid.slope, optimize=True)
    curvature[:, every, every] += np.einsum("kspx,kspcx->kc", weight, grid.curvature, optimize=True)
    curvature *= other[:, :, None] & other[:, None, :]
    slope[rows, codes] = -np.sum(slope, axis=1)
    curvature[rows, codes] = -np.sum(curvature, axis=1)
    curvature[rows, :, codes] = -np.sum(curvature, axis=2)
    return each, slope, curvature
