r"""Probabilities that several normal variables with one common factor are all positive, by one integral.

With u and all e_j standard normal and independent, :math:`x_j = h_j + l_j u + \sqrt{1 - l_j^2}\, e_j` is positive for
all j with the probability

.. math:: Z = \int \varphi(u) \prod_j \Phi\!\left(\frac{h_j + l_j u}{\sqrt{1 - l_j^2}}\right) du .

The integrand is log-concave and entire, so that the trapezoidal rule about its mode converges faster than any power of
the step. All is in logarithms: the digits of Z are relative ones, however small it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.probit import hazard
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array

_STEP = 0.7  # times a width of the integrand: the rule's error is exp(-2 pi^2 / 0.7^2) = 3e-18 of the largest term
_REACH = 9.0  # the integrand's logarithm falls at least as fast as -u^2/2: beyond, it is below 1e-17 of its mode
_ENTRIES = 2**18  # nodes times factors held at once
MOST_POINTS = 2**20
"""Of one integral: a factor is then some 30 000 times as steep as the density of u is."""
_NEAR = 0.05  # of the mode, which only says where the nodes are
_STEPS = 100
_SMALL = 1e-250  # a Z above it has terms without underflow near the mode, and so all its digits


class Nodes(NamedTuple):
    """Nodes u of some rows, the logarithms of their weights, and the lines in u of which the factors are taken."""

    rows: slice
    u: Array  # (k, nodes)
    log_weight: Array  # (k, nodes)
    intercept: Array  # (k, q)
    slope: Array  # (k, q)

    @property
    def x(self) -> Array:
        """Arguments of the factors, ``(k, nodes, q)``."""
        return np.asarray(self.intercept[:, None, :] + self.u[..., None] * self.slope[:, None, :])

    @property
    def log_term(self) -> Array:
        """Logarithms of the terms ``(k, nodes)``, which add up to Z."""
        return np.asarray(np.sum(log_ndtr(self.x), axis=-1) + self.log_weight)

    @property
    def total(self) -> Array:
        """Z ``(k,)`` without logarithms of its factors, which take more than twice the time; 0 where all underflows."""
        term = np.exp(self.log_weight)
        for intercept, slope in zip(self.intercept.T, self.slope.T, strict=True):
            term *= ndtr(intercept[:, None] + self.u * slope[:, None])
        return np.asarray(np.sum(term, axis=1))

    def some(self, which: NDArray[np.bool_]) -> Nodes:
        """Return those of some of the rows."""
        return Nodes(self.rows, *(each[which] for each in self[1:]))


def log_all_positive(mean: Array, loading: Array) -> Array:
    """Return log Z ``(m,)`` for ``h (m, q)`` and ``l (m, q)``, with each l between -1 and 1.

    Raises
    ------
    NotPositiveDefiniteError
        If a loading is so near to one that the integral has no end.
    """
    result = np.empty(mean.shape[0])
    for nodes in each_rule(mean, loading):
        found = nodes.total
        small = found < _SMALL
        found[~small] = np.log(found[~small])
        if np.any(small):
            found[small] = logsumexp(nodes.some(small).log_term, axis=1)
        result[nodes.rows] = found
    return result


def each_rule(mean: Array, loading: Array) -> Iterator[Nodes]:
    """Yield the nodes of the integrals of some rows after the other."""
    left = np.sqrt((1.0 - loading) * (1.0 + loading))
    with np.errstate(divide="ignore"):
        slope = loading / left
    step = _STEP / np.sqrt(1.0 + np.sum(slope**2, axis=1))
    if mean.shape[0] == 0:
        return
    half = int(np.ceil(_REACH / np.min(step))) if np.all(step > 0) else MOST_POINTS
    if half >= MOST_POINTS // 2:
        raise NotPositiveDefiniteError(
            "two differences of latent values of a case are one and the same, but for rounding: their probability is "
            "not known to the digits that are wanted"
        )
    mode = _mode(mean / left, slope)
    for rows in blocks(mean.shape[0], max(1, _ENTRIES // (half * mean.shape[1]))):
        points = int(np.ceil(_REACH / np.min(step[rows])))
        u = mode[rows, None] + step[rows, None] * np.arange(-points, points + 1)
        log_weight = np.log(step[rows, None] / np.sqrt(2.0 * np.pi)) - 0.5 * u**2
        yield Nodes(rows, u, log_weight, mean[rows] / left[rows], slope[rows])


def _mode(intercept: Array, slope: Array) -> Array:
    """Return nearly where the integrand is largest, by Newton's steps inside a bracket."""
    u = np.zeros(intercept.shape[0])
    low, high = np.full_like(u, -np.inf), np.full_like(u, np.inf)
    for _ in range(_STEPS):
        rho, total = hazard(intercept + u[:, None] * slope)
        rise = np.sum(slope * rho, axis=1) - u
        fall = 1.0 + np.sum(slope**2 * rho * total, axis=1)
        low, high = np.where(rise > 0, u, low), np.where(rise > 0, high, u)
        step = rise / fall
        if np.all(np.abs(step) * np.sqrt(fall) < _NEAR):
            break
        inside = (u + step >= low) & (u + step <= high)
        u = np.where(inside, u + step, 0.5 * (low + high))
    return np.asarray(u)
