"""What is asked of a solution by TAP: what one label more, another label, or a known latent value does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants, tilted_cumulants
from bayesgp_mf.matrices.posterior_covariance import Cases, PosteriorCovariance, SomeCovariance
from bayesgp_mf.solvers.response import site_form
from bayesgp_mf.solvers.settling import Question, ask_partition, gaussians, log_site
from bayesgp_mf.types import Array


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
        The numbers of left-out cases.
    label : (B,) array or None
        Their labels, if these are to be known; else their latent values are.
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
        return Query(
            None if self.features is None else self.features[:, rows],
            self.covariance[rows],
            self.mean[rows],
            self.variance[rows],
            None if self.itself is None else self.itself[rows],
            None if self.label is None else self.label[rows],
            None if self.value is None else self.value[rows],
            lambda some: self.likelihood(rows[some]),
            self.offset[rows],
        )

    def ask(self, some: NDArray[np.intp], mean: Array, variance: Array, question: Question) -> Array:
        """Ask the likelihood of some of them, of cavities ``(b,)``."""
        assert self.label is not None
        return question(self.likelihood(some), self.label[some], mean + self.offset[some], variance)

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

    @property
    def is_new(self) -> bool:
        """Whether a site comes in: that of a new case with a label."""
        return self.label is not None and self.itself is None


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
        sites = site_form(solution)
        whole = sites.posterior_covariance() if covariance is None else covariance
        self.cases = np.flatnonzero(whole.diagonal > 0)
        """Those whose latent value is not known without a label; the others know and are known of nothing."""
        is_all = self.cases.size == problem.n
        some: Cases = slice(None) if is_all else self.cases
        self.n = self.cases.size
        self.t = problem.t[some]
        self.likelihood = problem.likelihood if is_all else problem.likelihood.of_cases(self.cases)
        self.covariance = whole if is_all else SomeCovariance(whole, self.cases)
        self.mean = (problem.in_form(solution.correction.form) @ solution.alpha)[some]
        self.precision = sites.site_precision[some]
        self.shift = self.precision * self.mean + solution.alpha[some]
        self.variance = self.covariance.diagonal
        self.cavity = self.variance / (1.0 - self.precision * self.variance)
        self.cavity_mean = self.mean - self.cavity * solution.alpha[some]
        self.derivs = self.likelihood.log_partition(self.t, self.cavity_mean, self.cavity)
        cumulants = tilted_cumulants(self.likelihood, self.t, self.cavity_mean, self.cavity, 4)
        self.d3, self.d4 = derivatives_of_cumulants(cumulants, self.cavity, self.derivs[2])
        self.skewness = cumulants[0] / self.variance**1.5
        """Over the cube of the standard deviation, as the terms of the correction have it."""
        self.bent = np.abs(cumulants[0]) + 0.5 * np.abs(cumulants[1])
        """How far the tilted distribution is from a Gaussian: how much a site changes with its cavity."""
        self.term = self.derivs[0] - log_site(self.precision, self.shift, self.cavity_mean, self.cavity)
