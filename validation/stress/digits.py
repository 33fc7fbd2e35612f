"""Vectors and matrices of some hundred bits: arb's balls, of which only the middle is carried on.

Radii that are carried along only grow; that the bits were enough is seen by asking again with twice as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
from flint import arb, arb_mat, ctx

from bayesgp_mf.types import Array

Numbers: TypeAlias = list[arb]
"""A vector ``(n,)``."""


@contextmanager
def bits(count: int) -> Iterator[None]:
    """Compute with so many bits while the block runs."""
    before, ctx.prec = ctx.prec, count
    try:
        yield
    finally:
        ctx.prec = before


def numbers(values: Iterable[float]) -> Numbers:
    """Return floats exactly."""
    return [arb(float(value)) for value in values]


def matrix(values: Array) -> arb_mat:
    """Return a matrix of floats exactly."""
    return arb_mat([[float(value) for value in row] for row in values])


def times(matrix: arb_mat, vector: Sequence[arb]) -> Numbers:
    """Return a product with a vector."""
    return [value.mid() for value in (matrix * arb_mat(len(vector), 1, list(vector))).entries()]


def dot(a: Sequence[arb], b: Sequence[arb]) -> arb:
    """Return an inner product."""
    return total(x * y for x, y in zip(a, b, strict=True))


def total(values: Iterable[arb]) -> arb:
    """Return a sum."""
    return sum(values, arb(0)).mid()


def solved(matrix: arb_mat, right: arb_mat) -> arb_mat:
    """Return the solution X of ``matrix X = right``; raises ZeroDivisionError where the matrix is singular."""
    return matrix.solve(right).mid()


def one_plus(matrix: arb_mat, scale: Sequence[arb]) -> arb_mat:
    """Return I + M D with D the diagonal matrix of ``scale``."""
    n, entries = len(scale), matrix.entries()
    product = [(entries[i * n + j] * scale[j] + (1 if i == j else 0)).mid() for i in range(n) for j in range(n)]
    return arb_mat(n, n, product)


def floats(values: Iterable[arb]) -> Array:
    """Return the nearest floats."""
    return np.array([float(value) for value in values])


def float_matrix(matrix: arb_mat) -> Array:
    """Return a matrix as floats."""
    return floats(matrix.entries()).reshape(matrix.nrows(), matrix.ncols())
