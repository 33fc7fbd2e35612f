"""From a kernel and inputs to a problem, and whether its Gram matrix is dense or of low rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import LowRankError
from bayesgp_mf.kernels import Kernel, is_built_in, leaves
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.lowrank import Entries, LowRankGram, Rows, pivoted_cholesky
from bayesgp_mf.memory import check_memory, largest_rank
from bayesgp_mf.problem import Problem
from bayesgp_mf.solution import Control
from bayesgp_mf.types import Array

LOW_RANK_METHODS = ("tap", "naive", "laplace")
"""Methods that work with a Gram matrix of low rank by its root alone."""
SMALLEST = 1000
"""Cases from which on a root of low rank is looked for without being asked for (the docs have the times)."""
LARGEST = {"auto": 3, "low_rank": 2}
"""The largest rank is n over this; above the first it hardly pays, and above the second not at all."""
ACCURACY = 1e-6
"""In nats: how far what a root leaves out may move a log evidence (`lowrank`)."""


def assemble(
    kernel: Kernel,
    X: Array,
    t: Array,
    likelihood: Likelihood,
    *,
    method: str,
    control: Control,
    first: NDArray[np.intp] | None = None,
) -> Problem:
    """Return the inference problem of a kernel at inputs, with the Gram matrix in the form that suits it.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance.
    X : (n, d) array
        Inputs.
    t : (n,) array
        Targets.
    likelihood : Likelihood
        p(t | f).
    method : str
        The method that is to solve it: "tap", "naive" and "laplace" can work by a root of low rank.
    control : Control
        ``control.gram`` asks for a form; "auto" looks for a root from 1000 cases on, and takes it up to rank n/3;
        "low_rank" up to n/2.
    first : (k,) array of int, optional
        Cases among which to look for pivots first: those of a kernel nearby.

    Raises
    ------
    LowRankError
        If ``control.gram`` asks for low rank and there is none.
    ValueError
        What `Problem` raises.
    MemoryError
        If the dense matrices of n cases would not fit into this machine's memory, and no root of low rank is found.
    """
    n = X.shape[0]
    if control.gram == "low_rank" or (control.gram == "auto" and n >= SMALLEST):
        reason = _needs_dense(kernel, X, t, likelihood, method)
        gram = None if reason else _low_rank(kernel, X, t, likelihood, X.shape[0] // LARGEST[control.gram], first)
        if gram is not None and gram.rank > 0:
            return Problem(gram, t, likelihood)
        if control.gram == "low_rank":
            raise LowRankError(f"Control(gram='low_rank') is not possible: {reason or _why_none(n, gram)}.")
    check_memory(n, classes=int(np.max(t)) + 1 if likelihood.targets == "classes" else 1)
    return Problem(kernel.gram(X), t, likelihood, covariance=is_built_in(kernel))


def kernel_entries(kernel: Kernel, X: Array) -> Entries:
    """Return the function of rows and columns that returns this part of the Gram matrix."""

    def entries(rows: Rows, columns: NDArray[np.intp]) -> Array:
        return kernel.cross(X[rows], X[columns])

    return entries


def _low_rank(
    kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, most: int, first: NDArray[np.intp] | None
) -> LowRankGram | None:
    tolerance = 2.0 * ACCURACY / _curvature(likelihood, t)
    most = min(most, largest_rank(X.shape[0]))
    return pivoted_cholesky(kernel_entries(kernel, X), kernel.diag(X), tolerance, most, first)


def _needs_dense(kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, method: str) -> str | None:
    """Return why only the dense matrix will do, or None."""
    if likelihood.targets == "classes":
        return "several classes need the dense Gram matrix"
    if method not in LOW_RANK_METHODS:
        return f"method {method!r} needs the dense Gram matrix, as all do but {', '.join(LOW_RANK_METHODS)}"
    curvature = _curvature(likelihood, t)
    if not (np.isfinite(curvature) and curvature > 0):
        return (
            f"{type(likelihood).__name__} is a step without latent noise, which asks for every digit of the Gram "
            "matrix; allow noise, such as Probit(noise_variance=1.0)"
        )
    own, diagonal = kernel.cross(X[:1], X[:1])[0, 0], kernel.diag(X[:1])[0]
    if not np.isclose(own, diagonal, rtol=1e-6, atol=0.0):  # nor if it overflows
        return (
            "the kernel has noise of its own for every case (White), so that its Gram matrix has full rank; noise in "
            "the likelihood, Probit(noise_variance=...), is the same model"
        )
    without = [type(leaf).__name__ for leaf in leaves(kernel) if type(leaf).cross_vjp is Kernel.cross_vjp]
    return f"{without[0]} has no method cross_vjp" if without else None


def _curvature(likelihood: Likelihood, t: Array) -> float:
    """Return the largest curvature of log p(t|f) in f at zero: of the order of the strongest site precision."""
    return float(np.max(np.abs(likelihood.log_prob(t, np.zeros(t.shape)).d2), initial=0.0))


def _why_none(n: int, gram: LowRankGram | None) -> str:
    if gram is not None:
        return "the prior variances are so small that no column of the Gram matrix matters"
    part = LARGEST["low_rank"]
    return (
        f"the root would have more than n/{part} = {n // part} columns, or not fit into memory, before it "
        f"leaves out so little that the log evidence is right to {ACCURACY:.0e} nats. The kernel is too rough, or its "
        "length scales are too short: use Control(gram='auto')"
    )
