"""Probabilities of labels that are corrected for what TAP's approximation leaves out, of new and of left-out cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods.optional import known_sites
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.solvers.ratio import OneLabelMore, Ratios
from bayesgp_mf.types import Array

LARGEST = 2**23
"""Covariances of new with training cases that are in memory at once."""


class CorrectedProba(NamedTuple):
    """Corrected probabilities of new cases.

    Attributes
    ----------
    p : (m,) array
        Of class 1.
    largest_sum_error : float
        Each label's probability is found by itself; by how much the sum of the two is off one, at most, before it is
        made one.
    settled : (m,) bool array
        Where it is corrected. Elsewhere p is TAP's own.
    """

    p: Array
    largest_sum_error: float
    settled: NDArray[np.bool_]


class Corrected:
    """Corrected predictions of one solution.

    Parameters
    ----------
    problem, solution
        Of two classes by TAP, with a dense Gram matrix.

    Raises
    ------
    ValueError
        If they are others.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        check_corrected(problem, solution)
        self._more = OneLabelMore(problem, solution)
        self._problem = problem

    def new(
        self, kernel: Kernel, X: Array, X_new: Array, latent: tuple[Array, Array], offset: Array, uncorrected: Array
    ) -> CorrectedProba:
        """Return the probabilities of new cases, of which TAP says mean and variance less the prior mean, and p."""
        mean, variance = latent
        uncertain = variance > 0  # a value that is known has one probability

        def ask(rows: NDArray[np.intp]) -> Ratios:
            return self._more.new_cases(kernel.cross(X, X_new[rows]), mean[rows], variance[rows], offset[rows])

        odds, total, settled = _in_blocks(ask, np.flatnonzero(uncertain), X_new.shape[0], X.shape[0])
        settled |= ~uncertain
        _say_unsettled(settled, "new")
        p = np.where(settled & uncertain, expit(odds), uncorrected)
        sums = total[settled & uncertain]
        return CorrectedProba(p, float(np.max(np.abs(sums - 1.0), initial=0.0)), settled)

    def left_out(self, uncorrected: Array) -> Array:
        """Return the log probability ``(n,)`` of each label given the others, where TAP's own is ``uncorrected``."""
        n = self._problem.n
        odds, _, settled = _in_blocks(self._more.left_out, np.arange(n), n, n)
        _say_unsettled(settled, "training")
        return np.where(settled, log_expit(self._problem.t * odds), uncorrected)


def check_corrected(problem: Problem, solution: Solution) -> None:
    """Raise a ValueError if there are no corrected predictions of such a solution, which says what to do."""
    if solution.evidence.kind != "ep":
        raise ValueError(
            f"corrected=True corrects what TAP leaves out, and this fit is by method {solution.method!r}. Fit with "
            "method='tap', or leave out corrected."
        )
    if problem.likelihood.targets != "binary":
        raise ValueError(
            f"corrected=True is for two classes, and {type(problem.likelihood).__name__} has "
            f"{'several' if problem.likelihood.targets == 'classes' else 'real targets'}. Leave it out."
        )
    if problem.matrix.rank is not None:
        raise ValueError(
            "corrected=True needs the dense Gram matrix, and this fit has one of low rank or on inducing cases. Fit "
            "without inducing and with control=bgp.Control(gram='dense'), or leave out corrected."
        )


def nothing_to_correct(problem: Problem) -> bool:
    """Tell whether TAP is exact, since its sites are known: with Gaussian noise."""
    return known_sites(problem.likelihood, problem.t, 0.0) is not None


def _in_blocks(
    ask: Callable[[NDArray[np.intp]], Ratios], asked: NDArray[np.intp], m: int, n: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    odds, total, settled = np.zeros(m), np.full(m, np.nan), np.zeros(m, dtype=bool)
    for part in blocks(asked.size, max(1, LARGEST // max(n, 1))):
        rows = asked[part]
        odds[rows], total[rows], settled[rows] = ask(rows)
    return odds, total, settled


def _say_unsettled(settled: NDArray[np.bool_], which: str) -> None:
    if not settled.all():
        warn(
            f"the probabilities of {int(np.sum(~settled))} of {settled.size} {which} cases are not corrected but TAP's "
            "own: more cases answer to their labels than are let answer, or the equations did not settle. Fewer "
            "training cases, a shorter length scale or more latent noise make them fewer.",
            ConvergenceWarning,
        )
