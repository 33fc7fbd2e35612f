"""What is asked of a solution by TAP: what one label more, another label, or a known latent value does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants, tilted_cumulants
from bayesgp_mf.matrices.matrix import Cases, PosteriorCovariance
from bayesgp_mf.solvers.sites import site_of_cavity
from bayesgp_mf.types import Array

Question = Callable[[Likelihood, Array, Array, Array], Array]
"""Asks the likelihood of some cases, of cavities ``(...)``: ``(k, ...)``."""


def ask_partition(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    """Return log Z and its first two derivatives in the mean."""
    return np.array(likelihood.log_partition(t, mean, variance))


def ask_cumulants(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    """Return the tilted skewness and excess kurtosis."""
    return tilted_cumulants(likelihood, t, mean, variance, 4)


class Gaussians(NamedTuple):
    """Gaussian posteriors ``(b, k)`` under given sites, and the cavities of these."""

    precision: Array
    shift: Array
    mean: Array
    variance: Array
    valid: NDArray[np.bool_]
    cavity: Array
    cavity_mean: Array
    details: Any
    """What the change that made it knows of it."""

    @property
    def alpha(self) -> Array:
        """Shift less precision times mean."""
        return self.shift - self.precision * self.mean

    def plain_step(self, derivs: Array) -> tuple[Array, Array]:
        """Return the changes of the sites to those that match the likelihood."""
        precision, shift = site_of_cavity(self.cavity_mean, derivs[1], derivs[2], self.cavity)
        return precision - self.precision, shift - self.shift

    def largest_change(self, step: tuple[Array, Array]) -> Array:
        """Return the largest change ``(b,)`` that a step makes, in standard deviations."""
        dw, db = step
        by_mean = np.abs(db - self.mean * dw) * np.sqrt(self.variance)
        return np.asarray(np.max(np.maximum(np.abs(dw) * self.variance, by_mean), axis=1, initial=0.0))

    def part(self, some: NDArray[np.intp], dw: Array) -> Array:
        """Return how much of a step may be taken: no precision loses more than nine tenths of what it has."""
        precision = self.precision[some]
        with np.errstate(over="ignore"):  # of a precision that is nearly none: no step is taken then
            ratio = np.where(precision > 0, -dw, 0.0) / np.where(precision > 0, precision, 1.0)
        return np.asarray(np.minimum(1.0, 0.9 / np.maximum(np.max(ratio, axis=1, initial=0.0), 0.1)))


def gaussians(
    precision: Array, shift: Array, mean: Array, variance: Array, valid: NDArray[np.bool_], details: Any
) -> Gaussians:
    """Return posteriors with their cavities; those that are none have cavities with mean zero and variance one."""
    left = 1.0 - precision * variance
    valid = valid & np.all((left > 0) & (variance > 0) & np.isfinite(variance) & np.isfinite(mean), axis=1)
    with np.errstate(all="ignore"):
        cavity = np.where(valid[:, None], variance / left, 1.0)
        cavity_mean = np.where(valid[:, None], mean - cavity * (shift - precision * mean), 0.0)
    return Gaussians(precision, shift, mean, variance, valid, cavity, cavity_mean, details)


def log_site(precision: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """Return the log of the integral of exp(b f - W f^2 / 2) over cavities."""
    grown = 1.0 + precision * variance
    return np.asarray(
        (2.0 * mean * shift + variance * shift**2 - precision * mean**2) / (2.0 * grown) - 0.5 * np.log(grown)
    )


EPS = float(np.finfo(np.float64).eps)
LOST = 1e-4
"""Relative error of a cavity's variance; that of a leave-one-out density was a tenth of it."""
BY_CASE = ("covariance", "mean", "variance", "itself", "label", "value", "offset")
"""Of the attributes of a query, those with a row or an entry for each case."""


class Query(NamedTuple):
    """B cases, new or left out, and what is to be known of each.

    Attributes
    ----------
    features : (r, B) array or None
        Of new cases, by which their covariances with training cases are known; None for left-out ones.
    covariance : (B, n) array
        With the training cases.
    mean, variance : (B,) array
        Of their latent values under the solution, deviations from the prior mean.
    itself : (B,) array of int or None
        The numbers of training cases, if these are to have another label, or none.
    label : (B,) array or None
        Their labels, if these are to be known; else their latent values are. NaN where a case is to have none.
    value : (B,) array or None
        Latent values that are to be known.
    likelihood : callable
        Returns the likelihood of some of them.
    offset : (B,) array
        Prior means and offsets, which are not in ``mean``.
    """

    features: Array | None
    covariance: Array
    mean: Array
    variance: Array
    itself: NDArray[np.intp] | None
    label: Array | None
    value: Array | None
    likelihood: Callable[[NDArray[np.intp]], Likelihood]
    offset: Array

    def only(self, rows: NDArray[np.intp]) -> Query:
        """Return what is asked of some of them."""
        known = {name: getattr(self, name) for name in BY_CASE}
        of_cases = {name: value[rows] for name, value in known.items() if value is not None}
        if self.features is not None:
            of_cases["features"] = self.features[:, rows]
        return self._replace(**of_cases, likelihood=lambda some: self.likelihood(rows[some]))

    def ask(self, some: NDArray[np.intp], mean: Array, variance: Array, question: Question) -> Array:
        """Ask the likelihood of some of them, of cavities ``(b,)``; that of a case without a label is one."""
        assert self.label is not None
        likelihood, has_none = self.likelihood(some), np.isnan(self.label[some])
        label = np.where(has_none, likelihood.some_target, self.label[some])
        found = question(likelihood, label, mean + self.offset[some], variance)
        return np.where(has_none, 0.0, found)

    def matched(self, precision: Array, shift: Array) -> tuple[Array, Array]:
        """Return the changes of their sites ``(B,)`` to those that match their labels, the others as before."""
        now = gaussians(
            precision[:, None],
            shift[:, None],
            self.mean[:, None],
            self.variance[:, None],
            np.ones(self.mean.size, dtype=bool),
            None,
        )
        derivs = self.ask(np.arange(self.mean.size), now.cavity_mean[:, 0], now.cavity[:, 0], ask_partition)
        dw, db = now.plain_step(derivs[:, :, None])
        return dw[:, 0], db[:, 0]


class Base:
    """A solution by TAP: its sites, cavities and cumulants, and its covariance.

    Parameters
    ----------
    problem : Problem
        Of two classes.
    solution : Solution
        TAP's.
    covariance : PosteriorCovariance, optional
        That of the solution, where it is there already.
    """

    covariance: PosteriorCovariance

    def __init__(self, problem: Problem, solution: Solution, covariance: PosteriorCovariance | None = None) -> None:
        sites = solution.sites
        whole = sites.posterior_covariance() if covariance is None else covariance
        self.cases = np.flatnonzero(whole.diagonal > 0)
        """Those whose latent value is not known without a label; the others know and are known of nothing."""
        is_all = self.cases.size == problem.n
        some: Cases = slice(None) if is_all else self.cases
        self.n = self.cases.size
        self.t = problem.t[some]
        self.likelihood = problem.likelihood if is_all else problem.likelihood.of_cases(self.cases)
        self.covariance = whole if is_all else whole.of(self.cases)
        self.mean = (problem.in_form(solution.correction.form) @ solution.alpha)[some]
        self.precision = sites.site_precision[some]
        self.shift = self.precision * self.mean + solution.alpha[some]
        self.variance = self.covariance.diagonal
        self.cavity = sites.cavity_variance()[some]
        self.known_without = LOST * (1.0 - self.precision * self.variance) >= EPS
        """Where enough digits are left of a variance without the case, as a change of its site finds it."""
        self.cavity_mean = self.mean - self.cavity * solution.alpha[some]
        self.derivs = self.likelihood.log_partition(self.t, self.cavity_mean, self.cavity)
        cumulants = tilted_cumulants(self.likelihood, self.t, self.cavity_mean, self.cavity, 4)
        self.d3, self.d4 = derivatives_of_cumulants(cumulants, self.cavity, self.derivs[2])
        self.skewness = cumulants[0] / self.variance**1.5
        """Over the cube of the standard deviation, as the terms of the correction have it."""
        self.bent = np.abs(cumulants[0]) + 0.5 * np.abs(cumulants[1])
        """How far the tilted distribution is from a Gaussian: how much a site changes with its cavity."""
        self.term = self.derivs[0] - log_site(self.precision, self.shift, self.cavity_mean, self.cavity)

    def skewness_of(self, covariance: Array, variance: Array) -> Array:
        r"""Return the skewness ``(m,)`` of latent values, of which covariances ``(m, n)`` and variances are given.

        To first order in the training cases, of which the third cumulants are known, the third cumulant of a value is
        :math:`\sum_i \kappa_i \Sigma_{i*}^3`. It is zero where nothing is uncertain.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(variance > 0, cube(covariance) @ self.skewness / variance**1.5, 0.0)


def cube(x: Array) -> Array:
    """Return x^3."""
    return np.asarray(x * x * x)  # a power takes ten times as long
