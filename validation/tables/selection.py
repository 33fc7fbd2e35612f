"""What the tables of errors share: a split of data, the errors of a method on it, and the choice from a scan.

All follow section 8 of the 2000 paper: inputs standardised over the training set, a step likelihood without noise, and
the hyperparameter of the least leave-one-out count. Where several values share the least count, the papers do not say
which they took; `choose` has our rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf import diagnostics
from bayesgp_mf.datasets import Dataset
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array

NAMES = {"tap": "TAP", "naive": "Naive", "svm": "SVM"}
"""Of the methods of the 2000 paper, as in its tables."""
RULE = (
    "Chosen is the value of the least leave-one-out estimate; where several share the least count, the middle of the "
    "longest stretch of neighbours on the scan. The papers scanned roughly and do not say which of them they took."
)
"""What `choose` does, for readers of a table."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Standardised inputs and labels -1/+1 of a training and a test set."""

    X: Array
    t: Array
    X_test: Array
    t_test: Array

    @classmethod
    def of(cls, dataset: Dataset) -> Split:
        """Return a data set of two classes; the later one in the alphabet is +1."""
        t, t_test = (np.where(y == dataset.class_names[1], 1.0, -1.0) for y in (dataset.y, dataset.y_test))
        return cls(dataset.X, t, dataset.X_test, t_test)

    def exchanged(self) -> Split:
        """Return the same inputs with the roles of the two sets exchanged."""
        return Split(self.X_test, self.t_test, self.X, self.t)


class Published(NamedTuple):
    """A row of a published table: test set, leave-one-out estimate, leave-one-out by refits; errors or rates."""

    test: float
    loo: float
    exact: float


class Counts(NamedTuple):
    """Errors at one value of the hyperparameter that is scanned: on the test set, and by the leave-one-out estimate."""

    value: float
    test: int
    loo: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What has the least leave-one-out count of a scan.

    Attributes
    ----------
    best : Counts
        Of the value that is chosen.
    stretches : tuple of tuple of Counts
        All neighbours of the scan that share the least count.
    """

    best: Counts
    stretches: tuple[tuple[Counts, ...], ...]

    @property
    def tests(self) -> tuple[int, int]:
        """The least and the largest number of test errors among all values with the least leave-one-out count."""
        tests = [counts.test for stretch in self.stretches for counts in stretch]
        return min(tests), max(tests)


def solve(split: Split, kernel: Kernel, method: str, likelihood: Likelihood = bgp.Step()) -> tuple[Problem, Solution]:
    """Solve for the training set, by default without noise in the likelihood (kappa = v = 0)."""
    problem = Problem(kernel.gram(split.X), split.t, likelihood)
    return problem, get_method(method).solve(problem)


def errors_on_test_set(split: Split, kernel: Kernel, solution: Solution) -> int:
    """Count the test cases on the wrong side of the posterior mean (1998, section 2; 2000, eq. 17)."""
    mean = kernel.cross(split.X_test, split.X) @ solution.alpha
    return int(np.count_nonzero(split.t_test * mean < 0))


def leave_one_out(problem: Problem, solution: Solution) -> LeaveOneOut:
    """Return the estimate without refits (2000, eqs. 32, 48 and 38)."""
    return get_method(solution.method).leave_one_out(problem, solution)


def exact_loo_errors(split: Split, kernel: Kernel, method: str) -> int:
    """Count the errors of leave-one-out by as many refits as there are cases."""
    problem = Problem(kernel.gram(split.X), split.t, bgp.Step())
    return diagnostics.exact_loo(problem, method=method).error_count(split.t)


def count(split: Split, kernel: Kernel, method: str, value: float) -> Counts:
    """Return the errors under the kernel at one value of the scan."""
    problem, solution = solve(split, kernel, method)
    loo = leave_one_out(problem, solution).error_count(split.t)
    return Counts(value, errors_on_test_set(split, kernel, solution), loo)


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


def describe_scan(quantity: str, values: Array) -> str:
    """Return words on a geometric scan."""
    ends = f"from {values[0]:.4g} to {values[-1]:.4g}"
    return f"{values.size} values of {quantity} {ends}, each {values[1] / values[0]:.3g} times the last"
