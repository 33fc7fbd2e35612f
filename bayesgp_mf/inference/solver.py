"""The face of every method, and what it says that it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, LeaveOneOut, Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.matrix import Correction
from bayesgp_mf.types import Array

GramGradient: TypeAlias = Any
"""A derivative with respect to a Gram matrix, as the `pull_back` of that matrix takes it: ``(n, n)`` of a dense one."""


LooGradient: TypeAlias = Callable[[Sequence[str]], tuple[GramGradient, Mapping[str, float] | None]]
"""From names of parameters of the likelihood to the derivatives of the leave-one-out log density in the Gram matrix and
in each of them, None where there is no formula for these."""


class Solver(Protocol):
    """The face of every method.

    A method that can do more says so in an attribute ``traits`` (`Traits`); one without it has the defaults.
    """

    @property
    def name(self) -> str:
        """What users call it by."""

    def solve(self, problem: Problem, control: Control = ..., start: Solution | None = None) -> Solution:
        """Solve a problem, from the prior or from an earlier solution."""

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return the derivative of the log evidence with respect to the Gram matrix."""

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return what the other cases predict for each case."""


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """A posterior as a weighted mixture of Gaussians with one covariance.

    Attributes
    ----------
    weights : (points, n) array
        Of each Gaussian the weights w: its mean at x is k(x)' w.
    share : (points,) array
        Of the mixture; they sum to one.
    correction : Correction
        R of all of them.
    """

    weights: Array
    share: Array
    correction: Correction

    def moments(self, cross: Array, prior: Array) -> tuple[Array, Array]:
        """Return the means ``(points, m)`` and the one variance ``(m,)`` at new cases, from k(x) ``(n, m)``."""
        variance = prior - self.correction.quadratic_diagonal(cross)
        # what is known exactly, as at a training case of a step, has no variance but rounding
        return self.weights @ cross, np.where(np.abs(variance) < 1e-10 * prior, 0.0, variance)

    def predict_proba(self, likelihood: Likelihood, cross: Array, prior: Array) -> Array:
        """Return the probability ``(m,)`` of t = +1 at new cases, averaged over the mixture."""
        p = likelihood.predict_proba(*self.moments(cross, prior))
        highest = np.max(p, axis=0)  # which rounding of the shares does not exceed
        return np.asarray(highest - self.share @ (highest - p))


class KnownPosterior(Protocol):
    """A posterior that is no Gaussian process, but known all the same."""

    @property
    def cloud(self) -> Cloud:
        """The mixture of Gaussian processes that it is."""

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return draws of f ``(draws, n)`` at the training cases, and the log prior density of each."""

    def draw_cloud(self, draws: int, rng: np.random.Generator) -> Cloud:
        """Return the process given each of some draws, each with the same share."""


class KnownClasses(Protocol):
    """What a method knows of several classes beyond its Gaussian posterior."""

    @property
    def log_evidence(self) -> tuple[float, float] | None:
        """The log evidence and its standard error, in nats, where that is known beyond the method's own."""

    @property
    def log_density(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""

    def probabilities(self, cross: Array, prior: Array) -> Array:
        """Return those of the classes ``(m, C)``, from covariances of old with new cases and variances of these."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a method can do beside what every `Solver` does; the defaults are those of one that says nothing.

    Attributes
    ----------
    matrices : frozenset of str
        Forms of Gram matrices that it works with by themselves.
    targets : frozenset of str
        Kinds of targets that it takes: "binary", "real", "classes".
    cavities : bool
        Whether its solutions have the cavities of mean-field equations.
    variance : bool
        Whether its posterior has variances, and so draws and an evidence.
    starts_again : bool
        Whether `solve` goes on from the prior by itself where a start leads nowhere.
    stationary : bool
        Whether its evidence is stationary in its cavities: it may stop as soon as that is known
        (`Control.evidence_tolerance`), and in a parameter of the likelihood it changes as the sum of log Z does.
    mean_gradient : callable or None
        Returns the derivative ``(n,)`` of the log evidence in the prior means, from a problem and its solution.
    loo_gradient : callable or None
        Returns how to compute the derivatives of the leave-one-out log density (`LooGradient`), from a problem, its
        solution and its leave-one-out predictions; or None where there is no formula.
    parameter_gradient : callable or None
        Returns the derivative of the log evidence in a parameter of the likelihood, from a problem, its solution and
        the name of the parameter; or None where there is no formula. Without it that of a stationary evidence is the
        sum of those of log Z at the cavities, and of others there is no formula.
    known_posterior : callable or None
        Returns the posterior of a problem as a `KnownPosterior`, or None where it is the Gaussian process.
    known_classes : callable or None
        Returns what is known beyond the Gaussian posterior of several classes, from a problem and its
        solution; or None where there is nothing.
    check : callable or None
        Raises the error of `solve` for a likelihood that the method cannot take, before any work.
    """

    matrices: frozenset[str] = frozenset({"dense"})
    targets: frozenset[str] = frozenset({"binary", "real"})
    cavities: bool = False
    variance: bool = True
    starts_again: bool = False
    stationary: bool = False
    mean_gradient: Callable[[Problem, Solution], Array] | None = None
    loo_gradient: Callable[[Problem, Solution, LeaveOneOut], LooGradient | None] | None = None
    parameter_gradient: Callable[[Problem, Solution, str], float | None] | None = None
    known_posterior: Callable[[Problem], KnownPosterior | None] | None = None
    known_classes: Callable[[Problem, Solution], KnownClasses | None] | None = None
    check: Callable[[Likelihood], object] | None = None


def parameter_gradient(
    solver: Solver, problem: Problem, solution: Solution, names: Sequence[str]
) -> dict[str, float] | None:
    """Return the derivative of the log evidence in each named parameter of the likelihood, in nats per unit of it.

    None if there is no formula for one of them.
    """
    traits, found = traits_of(solver), dict[str, float]()
    for name in names:
        ask = traits.parameter_gradient or (gradient_at_cavities if traits.stationary else None)
        slope = None if ask is None else ask(problem, solution, name)
        if slope is None:
            return None
        found[name] = slope
    return found


def gradient_at_cavities(problem: Problem, solution: Solution, name: str) -> float | None:
    """Return the sum of the derivatives of log Z at the cavities of a solution, None if it has none."""
    if solution.cavity is None:
        return None
    return float(np.sum(problem.likelihood.parameter_derivative(name, problem.t, *solution.cavity).value))


def traits_of(solver: Solver) -> Traits:
    """Return what a method says that it can do."""
    return getattr(solver, "traits", Traits())
