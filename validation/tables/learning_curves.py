"""Online learning of a data set example by example: the posterior means after each, and their error rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.datasets import Dataset
from bayesgp_mf.methods import METHODS, Solver
from bayesgp_mf.online.sweep import Reuse, sweep
from bayesgp_mf.solvers.sites import SiteState
from bayesgp_mf.types import Array
from validation.tables.selection import Split

Order: TypeAlias = tuple[int, ...]

SWEEPS = 3
TRAIN, TEST = 0, 1
"""The two rows of error rates."""


class Cases(NamedTuple):
    """Training cases, the first ``n``, and test cases of a data set under one polynomial kernel."""

    problem: bgp.Problem
    n: int

    @classmethod
    def of(cls, dataset: Dataset, degree: int) -> Cases:
        """Return the cases under (1 + x.x'/d)^degree and the noise-free likelihood (1999, simulations)."""
        kernel = bgp.kernels.Polynomial(degree, weight=1.0 / dataset.X.shape[1])
        split = Split.of(dataset)
        gram = kernel.gram(np.concatenate([split.X, split.X_test]))
        return cls(bgp.Problem(gram, np.concatenate([split.t, split.t_test]), bgp.Step()), split.t.size)

    def errors(self, means: Array) -> Array:
        """Return the shares ``(2, ...)`` of training and test cases that posterior means ``(..., cases)`` get wrong."""
        wrong = means * self.problem.t <= 0
        return np.stack([wrong[..., : self.n].mean(axis=-1), wrong[..., self.n :].mean(axis=-1)])

    def learn(self, order: Order, reuse: Reuse, sweeps: int = SWEEPS) -> Array:
        """Return the posterior means ``(sweeps * n, cases)`` after each example, for an order of the training cases.

        The test cases are in the Gram matrix so that their means come along. They are never visited, and their labels
        not looked at.
        """
        zeros = np.zeros(self.problem.n)
        sites, mean, path = SiteState(zeros, zeros), zeros, []
        for _ in range(sweeps):
            done = sweep(self.problem, order, sites, reuse)
            matched = done.mean + done.variance * done.derivs.d1  # the mean of a case after its visit
            for i in order:
                if np.isfinite(matched[i]):  # else the sweep left this case out
                    # the others follow in proportion to their covariances with it (thesis, eq. 52)
                    mean = mean + done.columns[:, i] * ((matched[i] - mean[i]) / done.columns[i, i])
                path.append(mean)
            sites = done.sites
        return np.array(path)

    def solve(self, method: Solver = METHODS["tap"]) -> Array:
        """Return the posterior means ``(cases,)`` by a method that sees the training cases."""
        gram, t = self.problem.gram, self.problem.t
        training = bgp.Problem(gram[: self.n, : self.n], t[: self.n], self.problem.likelihood)
        return np.asarray(gram[:, : self.n] @ method.solve(training).alpha)

    def distance(self, means: Array, reference: Array) -> Array:
        """Return the largest difference ``(...)`` of means ``(..., cases)``, in standard deviations of the prior."""
        return np.asarray(np.max(np.abs(means - reference) / np.sqrt(np.diag(self.problem.gram)), axis=-1))


class LearningCurves(NamedTuple):
    """Many runs on one data set: two ways to use the cases again, and TAP.

    Attributes
    ----------
    n : int
        Training cases.
    as_new, replaced : (runs, 2, SWEEPS * n) array
        Training and test error rates after each example.
    tap : (runs, 2) array
        Those of TAP.
    distance : (runs, SWEEPS) array
        Of the posterior means after each sweep of "replaced" from TAP's.
    """

    n: int
    as_new: Array
    replaced: Array
    tap: Array
    distance: Array

    def after(self, sweeps: int, *, replaced: bool = False) -> Array:
        """Return the error rates ``(2, runs)`` after some sweeps."""
        rates = self.replaced if replaced else self.as_new
        return np.asarray(rates[:, :, sweeps * self.n - 1].T)


def study(runs: Iterable[tuple[Cases, Order]], advance: Callable[[str], None], name: str) -> LearningCurves:
    """Learn the cases of each run in its order."""
    n = 0
    as_new, replaced, tap, distance = [], [], [], []
    for cases, order in runs:
        n = cases.n
        again, solution = cases.learn(order, "replace"), cases.solve()
        as_new.append(cases.errors(cases.learn(order, "as_new")))
        replaced.append(cases.errors(again))
        tap.append(cases.errors(solution))
        distance.append(cases.distance(again[n - 1 :: n], solution))
        advance(f"{name}: run {len(distance)}")
    return LearningCurves(n, np.array(as_new), np.array(replaced), np.array(tap), np.array(distance))


def random_order(n: int, seed: int | tuple[int, int]) -> Order:
    """Return a random order of n cases."""
    return tuple(np.random.default_rng(seed).permutation(n).tolist())
