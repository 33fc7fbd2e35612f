"""What the sonar tables and figures share: the data, the two kernels, the scan over sigma^2 and the choice from it.

All follow section 8 of the 2000 paper: inputs standardised over the training set, one width for all inputs, a step
likelihood without noise, and the sigma^2 of the least leave-one-out count. Where several sigma^2 share the least
count, the papers do not say which they took; `choose` has our rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf import diagnostics
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.methods import get_method
from bayesgp_mf.problem import Problem
from bayesgp_mf.solution import LeaveOneOut, Solution
from bayesgp_mf.types import Array
from validation.tables.record import Entry

Family: TypeAlias = Callable[[float, int], Kernel]
"""A kernel from sigma^2 and the number of inputs."""
NAMES = {"tap": "TAP", "naive": "Naive", "svm": "SVM"}
SCAN = np.geomspace(0.04, 4.0, 401)
"""Widths sigma^2 of the Gaussian kernel. Below, fields of the estimate are lost in rounding (see figure 2)."""
RULE = (
    "Chosen is the sigma^2 of the least leave-one-out estimate; where several share the least count, the middle of "
    "the longest stretch of neighbours on the scan. The papers scanned roughly and do not say which of them they took."
)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Standardised inputs and labels -1/+1 (mine +1) of a training and a test set."""

    X: Array
    t: Array
    X_test: Array
    t_test: Array

    def exchanged(self) -> Split:
        """Return the same inputs with the roles of the two sets exchanged."""
        return Split(self.X_test, self.t_test, self.X, self.t)


class Counts(NamedTuple):
    """Errors at one sigma^2: on the test set, and by the leave-one-out estimate."""

    sigma2: float
    test: int
    loo: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The sigma^2 of the least leave-one-out count.

    Attributes
    ----------
    best : Counts
        Of the sigma^2 that is chosen.
    stretches : tuple of tuple of Counts
        All neighbours of the scan that share the least count.
    """

    best: Counts
    stretches: tuple[tuple[Counts, ...], ...]

    @property
    def tests(self) -> tuple[int, int]:
        """The least and the largest test error among all sigma^2 with the least leave-one-out count."""
        tests = [counts.test for stretch in self.stretches for counts in stretch]
        return min(tests), max(tests)


def load(exchange: bool = False) -> Split:
    """Return the split of Gorman and Sejnowski, standardised over what is then the training set."""
    data = bgp.datasets.load_sonar(exchange=exchange)
    t, t_test = (np.where(y == "M", 1.0, -1.0) for y in (data.y, data.y_test))
    return Split(data.X, t, data.X_test, t_test)


def gaussian(sigma2: float, d: int) -> Kernel:
    """Return the Gaussian kernel with w_l = 1/(sigma^2 d) (2000, section 8.1 and appendix B, item 3)."""
    return bgp.kernels.Gaussian(lengthscale=np.sqrt(sigma2 * d))


def infinite_net(sigma2: float, d: int) -> Kernel:
    """Return the arcsine kernel with w_l = sigma^2/d (1998, eq. 1 and section 5; 2000, appendix B, item 2)."""
    return bgp.kernels.NeuralNetwork(weight=sigma2 / d)


def solve(split: Split, kernel: Kernel, method: str) -> tuple[Problem, Solution]:
    """Solve for the training set with a noise-free step likelihood (kappa = v = 0, as the papers found best)."""
    problem = Problem(kernel.gram(split.X), split.t, bgp.Step())
    return problem, get_method(method).solve(problem)


def leave_one_out(problem: Problem, solution: Solution) -> LeaveOneOut:
    """Return the estimate without refits (2000, eqs. 32, 48 and 38)."""
    return get_method(solution.method).leave_one_out(problem, solution)


def errors_on_test_set(split: Split, kernel: Kernel, solution: Solution) -> int:
    """Count the test cases on the wrong side of the posterior mean (1998, section 2; 2000, eq. 17)."""
    mean = kernel.cross(split.X_test, split.X) @ solution.alpha
    return int(np.count_nonzero(split.t_test * mean < 0))


def exact(split: Split, kernel: Kernel, method: str) -> LeaveOneOut:
    """Return leave-one-out by as many refits as there are cases."""
    problem = Problem(kernel.gram(split.X), split.t, bgp.Step())
    return diagnostics.exact_loo(problem, method=method)


def count(split: Split, family: Family, sigma2: float, method: str) -> Counts:
    """Return the errors at one sigma^2."""
    kernel = family(sigma2, split.X.shape[1])
    problem, solution = solve(split, kernel, method)
    loo = leave_one_out(problem, solution).error_count(split.t)
    return Counts(sigma2, errors_on_test_set(split, kernel, solution), loo)


def choose(scan: Iterable[Counts]) -> Choice:
    """Choose the middle of the longest stretch of neighbours that share the least leave-one-out count.

    The longest stretch depends least on the grid; of two that are equally long the first one is taken.
    """
    scan = list(scan)
    least = min(counts.loo for counts in scan)
    stretches = tuple(
        tuple(stretch) for is_least, stretch in groupby(scan, key=lambda counts: counts.loo == least) if is_least
    )
    longest = max(stretches, key=len)
    return Choice(longest[(len(longest) - 1) // 2], stretches)


class Published(NamedTuple):
    """A row of a published table, as printed."""

    test: float
    loo: float
    exact: float


def compare(
    split: Split,
    family: Family,
    widths: Sequence[float] | Array,
    method: str,
    published: Published,
    label: str,
    advance: Callable[[str], None],
) -> tuple[list[Entry], str]:
    """Scan, choose, refit, and return the lines of the table and a paragraph on ties."""
    n, n_test = split.t.size, split.t_test.size
    scan = []
    for sigma2 in widths:
        scan.append(count(split, family, float(sigma2), method))
        advance(f"{label}, sigma^2 = {sigma2:.3g}")
    choice = choose(scan)
    best, (lowest, highest) = choice.best, choice.tests
    advance(f"{label}: {n} refits")
    exact_errors = exact(split, family(best.sigma2, split.X.shape[1]), method).error_count(split.t)
    finer = "; our scan finds a lower count than the paper's" if round(best.loo / n, 3) < published.loo else ""
    same = [c.sigma2 for c in scan if (round(c.test / n_test, 3), round(c.loo / n, 3)) == published[:2]]
    entries = [
        Entry(f"{label}: test error", published.test, best.test / n_test, f"{best.test} of {n_test}"),
        Entry(f"{label}: leave-one-out estimate", published.loo, best.loo / n, f"{best.loo} of {n}{finer}"),
        Entry(f"{label}: exact leave-one-out", published.exact, exact_errors / n, f"{exact_errors} of {n}"),
        Entry(f"{label}: sigma^2", None, best.sigma2),
        Entry(f"{label}: least test error at the least leave-one-out count", None, lowest / n_test),
        Entry(f"{label}: largest test error at the least leave-one-out count", None, highest / n_test),
        Entry(f"{label}: number of sigma^2 scanned with the published test error and estimate", None, len(same)),
    ]
    stretches = " and ".join(_stretch(stretch) for stretch in choice.stretches)
    found = f"from {same[0]:.4f} to {same[-1]:.4f}" if same else "nowhere on the scan"
    return entries, (
        f"{label}: the least leave-one-out count, {best.loo}, is that of {stretches}. "
        f"The published pair of test error and estimate is found {found}."
    )


def describe(widths: Array) -> str:
    """Return a sentence on a geometric scan."""
    step = 100.0 * (widths[1] / widths[0] - 1.0)
    ends = f"from {widths[0]:.4g} to {widths[-1]:.4g}"
    return f"Scan: {widths.size} values of sigma^2 {ends}, each {step:.1f} % above the last."


def _stretch(stretch: Sequence[Counts]) -> str:
    tests = sorted({counts.test for counts in stretch})
    errors = f"{tests[0]}" if len(tests) == 1 else f"{tests[0]} to {tests[-1]}"
    return f"sigma^2 from {stretch[0].sigma2:.4f} to {stretch[-1].sigma2:.4f} ({errors} test errors)"
