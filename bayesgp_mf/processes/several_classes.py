"""The posterior process of several classes: what a solution says about their latent values anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import KnownClasses, Solver, traits_of
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.methods import check_cavities
from bayesgp_mf.multiclass.class_gram import ClassGram, class_correction, class_gram, class_likelihood_of
from bayesgp_mf.multiclass.correction import ClassCorrection, case_covariances
from bayesgp_mf.processes.given_slopes import PosteriorGivenSlopes
from bayesgp_mf.processes.process import LARGEST_JOINT, Draws, Marginals, NotJointlyError, Part
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.second_order import SecondOrder
from bayesgp_mf.types import Array, Derivs

BLOCK = 512
"""New cases handled at once: C matrices of n rows and so many columns."""
_ENTRIES = 4_000_000
"""Latent values drawn at once."""


@dataclass(frozen=True, eq=False, repr=False)
class MulticlassPosterior(Part):
    """A posterior Gaussian process for each of several classes: kernel, training inputs, and a solution.

    Attributes are those of `process.Part`. The class is the last axis of latent values.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.processes.several_classes import MulticlassPosterior
    >>> X, kernel = np.array([[0.0], [1.0], [2.0]]), bgp.kernels.Gaussian(1.0, 4.0)
    >>> problem = bgp.Problem(kernel.gram(X), np.array([0.0, 1.0, 2.0]), bgp.Softmax())
    >>> solution = bgp.solve(problem.dense_gram, problem.t, problem.likelihood, method="laplace")
    >>> MulticlassPosterior(kernel, X, problem, solution).predict_proba([[0.0], [1.0]]).round(2)
    array([[0.53, 0.29, 0.18],
           [0.26, 0.48, 0.26]])
    """

    @cached_property
    def _gram(self) -> ClassGram:
        return class_gram(self.problem)

    @property
    def _correction(self) -> ClassCorrection:
        return class_correction(self.solution)

    def latent_mean_at(self, X_new: Array) -> Array:
        """Return what `latent_mean` does at inputs that were checked."""
        means = (self._gram.means(self.solution.alpha, seen) for _, seen, _ in self._new_cases(X_new))
        return np.concatenate(list(means))

    def latent_at(self, X: Array) -> tuple[Array, Array]:
        """Return what `latent` does at inputs that were checked."""
        mean, covariance = self.covariance_at(X)
        return mean, np.array(np.diagonal(covariance, axis1=1, axis2=2))

    def latent_covariance(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return the posterior means ``(m, C)``, and the covariances ``(m, C, C)`` of the classes at each new case.

        They are k_c' alpha_c and delta_cd k_c(x,x) - k_c' R_cd k_d (GPML, algorithm 3.4).

        Raises
        ------
        ValueError
            If ``X_new`` is not a finite ``(m, d)`` array with the d of the training inputs.
        """
        return self.covariance_at(self.new_inputs(X_new))

    def covariance_at(self, X_new: Array) -> tuple[Array, Array]:
        """Return what `latent_covariance` does at inputs that were checked."""
        n_classes = self.problem.n_classes
        mean = np.empty((X_new.shape[0], n_classes))
        covariance = np.empty((X_new.shape[0], n_classes, n_classes))
        for block, features, prior in self._new_cases(X_new):
            mean[block] = self._gram.means(self.solution.alpha, features)
            covariance[block] = case_covariances(self._correction, prior, features)
        return mean, covariance

    def _new_cases(self, X_new: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Go through new cases in blocks, with their features (`Matrix.features`) and their prior variances (m, C)."""
        for block in blocks(X_new.shape[0], BLOCK):
            features = self.problem.matrix.features(self.kernel, self.X, X_new[block])
            prior = self.kernel.diag(X_new[block])
            yield block, features, np.array(np.broadcast_to(prior, (self.problem.n_classes, prior.shape[-1])).T)

    def predictive_at(self, X: Array) -> tuple[Array, Array, Array]:
        """Return what `predictive` does at inputs that were checked."""
        mean, covariance = self.covariance_at(X)
        if self._known is None:
            proba = self.problem.likelihood.predict_proba(mean, covariance)
        else:
            each = (self._known.probabilities(features, prior) for _, features, prior in self._new_cases(X))
            proba = np.concatenate(list(each))
        return mean, np.array(np.diagonal(covariance, axis1=1, axis2=2)), proba

    @cached_property
    def _known(self) -> KnownClasses | None:
        """What the method knows of the observed cases beyond the Gaussian posterior."""
        known = traits_of(self.method).known_classes
        return None if known is None else known(self.problem, self.solution)

    @property
    def corrections(self) -> tuple[SecondOrder | None, float | None]:
        """What the evidence is off by, and probabilities, where the cases are few enough to be integrated."""
        exact = None if self._known is None else self._known.log_evidence
        if exact is None:
            return None, None
        value, error = exact
        return SecondOrder(value - self.solution.evidence.value, error), min(error, 1.0)

    @cached_property
    def _covariance_at_training(self) -> Array:
        return self._correction.covariances()

    @cached_property
    def at_training(self) -> tuple[Array, Array]:
        """Posterior means and variances ``(n, C)`` of the latent values of the training cases."""
        return self.mean_at_training, np.array(np.diagonal(self._covariance_at_training, axis1=1, axis2=2))

    @property
    def mean_at_training(self) -> Array:
        """Posterior means ``(n, C)`` of the latent values of the training cases."""
        return self._gram.times(self.solution.alpha)

    def mean_at_some(self, which: NDArray[np.intp]) -> Array:
        """Return the posterior means ``(k, C)`` of the latent values of the training cases with given numbers."""
        return self.mean_at_training[which]

    @property
    def log_density_at_training(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        if self._known is not None:
            return self._known.log_density
        likelihood, at = class_likelihood_of(self.problem), (self.mean_at_training, self._covariance_at_training)
        return likelihood.predictions(self.problem.t, *at)[0]

    def draw_in_blocks(
        self, draws: int, size: int, rng: np.random.Generator, marginals: Marginals = "gaussian"
    ) -> Iterator[Draws]:
        """Return the draws of `draw`, all at once: some at a time are worked on here."""
        if marginals != "gaussian":
            if marginals == "tilted":
                check_cavities(self.method)
            raise ValueError(f"marginals of several classes must be 'gaussian', got {marginals!r}.")
        problem, likelihood = self.problem, class_likelihood_of(self.problem)
        n, n_classes = problem.latent_shape
        sampler = self._gram.sampler(self.solution.alpha, self._correction)
        f, log_likelihood = np.empty((draws, n, n_classes)), np.empty((draws, n))
        log_p, log_q = np.empty(draws), np.empty(draws)
        for block in blocks(draws, max(1, _ENTRIES // (n * n_classes))):
            f[block], log_prior, log_q[block] = sampler.draw(log_p[block].size, rng)
            log_likelihood[block] = likelihood.log_density(problem.t, f[block])
            log_p[block] = log_likelihood[block].sum(axis=1) + log_prior
        probability = np.exp(log_likelihood / likelihood.case_weights)
        own = (
            np.zeros_like(probability) if problem.likelihood.is_flat else likelihood.case_weights * (1.0 - probability)
        )
        slopes = Derivs(log_likelihood, own, -probability * own)
        yield Draws(f, slopes, log_p, log_q)

    def draw_at(self, X_new: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return what `draw_new` does at inputs that were checked."""
        m = X_new.shape[0]
        if m > LARGEST_JOINT:
            raise NotJointlyError(
                f"joint draws are limited to {LARGEST_JOINT} new cases at once, got {m}. Predict in parts, or "
                "without draws: predict(idata, X_new, draws=False)."
            )
        sampler = self._gram.sampler(self.solution.alpha, self._correction)
        features, new = self.problem.matrix.features(self.kernel, self.X, X_new), self.kernel.gram(X_new)
        draw, f = sampler.at_new(features, new), np.empty((draws, m, self.problem.n_classes))
        size = max(1, _ENTRIES // ((self.problem.n + m) * self.problem.n_classes))
        for block in blocks(draws, size):
            f[block] = draw(f[block].shape[0], rng)
        return f


def make_process(
    kernel: Kernel,
    X: Array,
    problem: Problem,
    solution: Solution,
    solver: Solver | None = None,
    feature_names: Sequence[str] | None = None,
) -> Part:
    """Return the posterior process of a solution; `Posterior` says what ``solver`` and ``feature_names`` are."""
    if problem.likelihood.has_classes:
        return MulticlassPosterior(kernel, X, problem, solution, solver, feature_names=feature_names)
    made = Posterior if kernel.mean is None else PosteriorGivenSlopes
    return made(kernel, X, problem, solution, solver, feature_names=feature_names, mean=kernel.mean)
