"""From a kernel and inputs to a problem, and in which form its Gram matrix is: dense, sparse, low rank, inducing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import LowRankError
from bayesgp_mf.inference.problem import Problem, classes_of, derivs_at_prior
from bayesgp_mf.inference.solution import Control, Solution
from bayesgp_mf.inference.solver import Solver, traits_of
from bayesgp_mf.kernels import Kernel, White, all_parts, is_built_in, leaves
from bayesgp_mf.kernels.base import is_outdated
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.inducing import InducingGram, inducing_gram
from bayesgp_mf.matrices.inducing_points import evidence_error, inducing_points, rounding_error
from bayesgp_mf.matrices.low_rank import ROUNDING, Entries, LowRankGram, pivoted_cholesky
from bayesgp_mf.matrices.memory import check_memory, keeps_root, largest_rank
from bayesgp_mf.matrices.precision import PrecisionGram
from bayesgp_mf.types import Array

SMALLEST = 1000
"""Cases from which on a sparse precision or a root of low rank is looked for unasked (the docs have the times)."""
LARGEST = {"auto": 3, "low_rank": 2}
"""The largest rank is n over this; above the first it hardly pays, and above the second not at all."""
ACCURACY = 1e-6
"""In nats: how far what a root leaves out may move a log evidence (`matrices.low_rank`)."""
PART, GROWN = 2000, 2.0
"""Cases by which it is known before what rank will be found, and by how much it grows with many times as many: of a
Gaussian kernel of three inputs from 2000 to 200,000."""
LEAST_STATED = 1e-4
"""Nats: below that what rounding of inducing inputs' covariances does to a log evidence is not stated."""
DIAGONAL_BLOCK = 32
"""Cases whose covariances are asked for at once where only the variances are wanted."""


def assemble(
    kernel: Kernel,
    X: Array,
    t: Array,
    likelihood: Likelihood,
    *,
    solver: Solver,
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
    solver : Solver
        The method that is to solve it, which says whether it works on a root of low rank.
    control : Control
        ``control.gram`` asks for a form; "auto" takes a sparse precision, where the kernel has one, from 1000 cases on,
        and else looks for a root, which it takes up to rank n/3; "low_rank" up to n/2.
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
    n, reason = X.shape[0], None
    if control.gram == "auto" and n >= SMALLEST and PrecisionGram.form in traits_of(solver).matrices:
        field = None if likelihood.forbids else kernel.field(X)
        if field is not None:
            return Problem(PrecisionGram(field), t, likelihood)
    if control.gram == "low_rank" or (control.gram == "auto" and n >= SMALLEST):
        reason = _needs_dense(kernel, X, t, likelihood, solver)
        if reason is None:
            part, diagonal = LARGEST[control.gram], kernel.diag(X)
            tolerance = 2.0 * ACCURACY / strongest_site(likelihood, t, diagonal)
            most = min(n // part, largest_rank(n))
            gram = pivoted_cholesky(kernel_entries(kernel, X), diagonal, tolerance, most, first)
            if gram is not None and gram.rank > 0:
                return Problem(gram, t, likelihood)
            reason = _why_none(n, gram, part)
        if control.gram == "low_rank":
            raise LowRankError(f"Control(gram='low_rank') is not possible: {reason}; use Control(gram='auto').")
    _check_memory_of_dense(t, likelihood, reason)
    return Problem(kernel.gram(X), t, likelihood, covariance=is_built_in(kernel))


def expected_rank(
    kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, *, solver: Solver, control: Control
) -> int:
    """Return how many columns the root of many cases will have, about, by that of a part of them; n if it is dense."""
    n = int(X.shape[0])
    if control.gram == "dense" or _needs_dense(kernel, X, t, likelihood, solver):
        return n
    some = np.random.default_rng(0).choice(n, min(PART, n), replace=False)
    diagonal = kernel.diag(X[some])
    tolerance = 2.0 * ACCURACY / strongest_site(likelihood.of_cases(some), t[some], diagonal) * some.size / n
    gram = pivoted_cholesky(kernel_entries(kernel, X[some]), diagonal, tolerance, some.size)
    rank = n if gram is None else int(GROWN * gram.rank)
    return rank if rank <= min(n // LARGEST["auto"], largest_rank(n)) else n


def assemble_inducing(
    kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, *, inducing: Array, settings: int = 1
) -> Problem:
    """Return the inference problem of a kernel with its Gram matrix on inducing inputs.

    Parameters
    ----------
    kernel, X, t, likelihood
        As for `assemble`.
    inducing : (M, d) array
        Inducing inputs; those that nearly repeat each other are moved apart, those that others determine left out.
    settings : int
        How many such problems are kept at the same time: the root ``(n, M)`` of each is kept where they all fit into
        memory, and else computed anew, a few rows at a time, whenever it is needed.

    Raises
    ------
    NotPositiveDefiniteError
        If the prior variances at the inducing inputs are zero, or overflow.
    """
    points = inducing_points(kernel, inducing)
    keep = keeps_root(settings * X.shape[0], points.which.size)
    gram = replace(inducing_gram(kernel, X, points.used, keep_root=keep), inducing=points)
    problem = Problem(gram, t, likelihood)
    gram.own  # noqa: B018 - so that covariances larger than the variances allow are named as such
    return problem


def assemble_as(
    other: Problem, kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, *, solver: Solver, control: Control
) -> Problem:
    """Return the problem of a kernel at inputs, on the inducing inputs of another problem if that is on such."""
    matrix: Any = other.matrix
    if matrix.form == "inducing":
        return assemble_inducing(kernel, X, t, likelihood, inducing=matrix.points)
    return assemble(kernel, X, t, likelihood, solver=solver, control=control)


def inducing_error(kernel: Kernel, X: Array, problem: Problem, solution: Solution, solver: Solver) -> float | None:
    """Return `Info.inducing_error` of a solution, or None where inducing inputs as given are known to all digits."""
    gram: Any = problem.matrix
    sites: Any = solution.correction
    if not gram.inducing.changed:
        error = rounding_error(gram, solution.alpha, sites.site_precision)
        return error if error > LEAST_STATED else None
    of_mean = traits_of(solver).mean_gradient
    # alpha by itself; what is beyond comes from sites in which the evidence is not stationary, as Laplace's
    response = None if of_mean is None else of_mean(problem, solution) - solution.alpha
    shared = diagonal_of_cross(kernel, X)
    return evidence_error(kernel, X, gram, solution.alpha, sites.site_precision, shared, response)


def check_shared_kernel(kernel: Kernel) -> None:
    """Raise a ValueError if a kernel cannot be worked with on inducing cases: if each class has its own."""
    if kernel.per_class:
        raise ValueError(
            "inducing needs one kernel for all classes, and kernels.PerClass has one for each. Give one kernel, or "
            "leave out inducing."
        )


def check_inducing(likelihood: Likelihood, solver: Solver) -> None:
    """Raise a ValueError if a likelihood or a method cannot work on inducing cases, with the reason."""
    if likelihood.forbids:
        raise ValueError(
            f"inducing needs a likelihood with latent noise or flips, and {likelihood!r} is a step without: it asks "
            f"for every digit of the Gram matrix. Use {type(likelihood).__name__}(noise_variance=1.0)."
        )
    traits = traits_of(solver)
    of_labels = likelihood.is_binary and traits.known_posterior is not None
    if of_labels or InducingGram.form not in traits.matrices:
        raise ValueError(
            f"method {solver.name!r} does not work on inducing cases{' with labels' * of_labels}: it needs the dense "
            "Gram matrix. Use method='tap', 'naive' or 'laplace', for real targets also 'exact', or leave out inducing."
        )


def kernel_entries(kernel: Kernel, X: Array) -> Entries:
    """Return the function of rows and columns that returns this part of the Gram matrix."""
    return lambda rows, columns: kernel.cross(X[rows], X[columns])


def _needs_dense(kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, solver: Solver) -> str | None:
    """Return why only the dense matrix will do, or None."""
    if kernel.per_class:
        return "each class has a kernel of its own"
    if LowRankGram.form not in traits_of(solver).matrices:
        return f"method {solver.name!r} needs the dense Gram matrix"
    curvature = curvature_of(likelihood, t)
    if not (np.isfinite(curvature) and curvature > 0):
        return (
            f"{likelihood.display_name} is a step without latent noise, which asks for every digit of the Gram "
            "matrix; allow noise, such as Probit(noise_variance=1.0)"
        )
    incomplete = [type(part).__name__ for part in all_parts(kernel) if not _has_own_cross_vjp(type(part))]
    if incomplete:
        return f"{incomplete[0]} has no method cross_vjp, or one that is older than its gram, cross or gram_vjp"
    return _own_noise(kernel, X, 2.0 * ACCURACY / curvature)


def _has_own_cross_vjp(kernel: type[Kernel]) -> bool:
    """Tell whether a class has a `cross_vjp` that no class derived from the one that defines it can have made wrong."""
    if kernel.cross_vjp is Kernel.cross_vjp:
        return False
    return not is_outdated(kernel, "cross_vjp", ("gram", "cross", "gram_vjp"))


def _own_noise(kernel: Kernel, X: Array, tolerance: float) -> str | None:
    """Return why no columns of the Gram matrix explain its diagonal, or None if they do, but for a small trace.

    The columns are those of `Kernel.cross`, which knows nothing of noise on single cases.
    """
    if any(isinstance(leaf, White) and leaf.params["variance"] > 0 for leaf in leaves(kernel)):
        found = "the kernel has noise of its own for every case (White)"
    elif is_built_in(kernel):
        return None  # their diag is that of their cross
    else:
        diagonal = kernel.diag(X)
        noise = np.abs(diagonal - diagonal_of_cross(kernel, X))
        largest = float(np.max(noise))
        if largest <= max(tolerance / X.shape[0], ROUNDING * float(np.max(diagonal))):  # false if it overflows
            return None
        found = (
            f"the variance that the kernel's diag has for a case is not the covariance that its cross has for that "
            f"case with itself (they differ by {largest:.3g} for case {int(np.argmax(noise))}), as if it had noise of "
            "its own for every case (White)"
        )
    return (
        f"{found}, so that its Gram matrix has full rank; noise in the likelihood, Probit(noise_variance=...), is the "
        "same model"
    )


def diagonal_of_cross(kernel: Kernel, X: Array) -> Array:
    """Return k(x_i, x_i) ``(n,)``, or that of each class, as `Kernel.cross` has it, without noise of single cases.

    It comes from small blocks along the diagonal.
    """
    parts = (X[block] for block in blocks(X.shape[0], DIAGONAL_BLOCK))
    return np.concatenate([np.diagonal(kernel.cross(part, part), axis1=-2, axis2=-1) for part in parts], axis=-1)


def curvature_of(likelihood: Likelihood, t: Array) -> float:
    """Return the largest curvature of log p(t|f) in f, about: of each target, where it bends most.

    It says whether targets have one.
    """
    at = np.zeros((*t.shape, classes_of(likelihood, t))) if likelihood.has_classes else likelihood.curved_at(t)
    return float(np.max(np.abs(likelihood.log_prob(t, at).d2), initial=0.0))


def strongest_site(likelihood: Likelihood, t: Array, prior: Array) -> float:
    """Return the strongest site precision, about: a curvature, or that at the prior, of variances ``prior (n,)``.

    What counts say is the stronger the larger they are, and is seen at the prior. Zero for targets that have no
    curvature, as those of a step.
    """
    curvature = curvature_of(likelihood, t)
    if likelihood.has_classes or not curvature > 0.0:
        return curvature
    with np.errstate(all="ignore"):  # far out something may overflow; what is not finite says nothing
        d2 = derivs_at_prior(likelihood, t, prior).d2
        sites = np.abs(d2 / (1.0 + prior * d2))  # 2000, eq. 29
    return float(max(curvature, np.max(sites[np.isfinite(sites)], initial=0.0)))


def _why_none(n: int, gram: LowRankGram | None, part: int) -> str:
    if gram is not None:
        return "the prior variances are so small that no column of the Gram matrix matters"
    return (
        f"the root would have more than n/{part} = {n // part} columns, or not fit into memory, before it "
        f"leaves out so little that the log evidence is right to {ACCURACY:.0e} nats: the kernel is too rough, or its "
        "length scales are too short"
    )


def _check_memory_of_dense(t: Array, likelihood: Likelihood, reason: str | None) -> None:
    """Raise a MemoryError if dense matrices would not fit, with the reason why they are needed if there is one."""
    try:
        check_memory(t.size, classes=classes_of(likelihood, t))
    except MemoryError as error:
        if reason is None:
            raise
        raise MemoryError(f"{error} A Gram matrix of low rank would need less, but {reason}.") from None
