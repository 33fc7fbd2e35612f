"""A posterior averaged over hyperparameters: one posterior process for each setting of them, and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import ClassLeaveOneOut, LeaveOneOut
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.notebook import as_html
from bayesgp_mf.processes.correctable import correctable
from bayesgp_mf.processes.corrected import CorrectedProba, together
from bayesgp_mf.processes.several_classes import Process
from bayesgp_mf.types import Array

SHOWN = 6
"""Parameters of the kernel whose ranges a mixture prints."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A weighted set of posterior processes that differ in the hyperparameters of their kernels and likelihoods.

    Attributes
    ----------
    parts : tuple of Posterior or of MulticlassPosterior
        One for each setting of the hyperparameters, of the same training cases.
    weights : (k,) array
        Posterior weights of the settings; they sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X, t = np.array([[0.0], [1.0]]), np.array([-1.0, 1.0])
    >>> parts = []
    >>> for lengthscale in (0.5, 2.0):
    ...     kernel = bgp.kernels.Gaussian(lengthscale)
    ...     problem = bgp.Problem(kernel.gram(X), t, bgp.Probit())
    ...     parts.append(bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, t, bgp.Probit())))
    >>> Mixture(tuple(parts), np.array([0.5, 0.5])).predict_proba([[1.0]]).round(3)
    array([0.592])
    """

    parts: tuple[Process, ...]
    weights: Array

    def __repr__(self) -> str:
        return "\n  ".join([self._title, *(f"{name}: {text}" for name, text in self._ranges())])

    def _repr_html_(self) -> str:
        kernel, likelihood = self.parts[0].kernel, self.problem.likelihood.of_one_case
        first = [("kernel of the first", repr(kernel)), ("likelihood of the first", repr(likelihood))]
        return as_html(self._title, [*first, *self._ranges()])

    @property
    def _title(self) -> str:
        return f"Mixture of {len(self.parts)} x {type(self.parts[0]).__name__}, {self.problem.n} cases"

    def _ranges(self) -> list[tuple[str, str]]:
        """Return the smallest and largest weight, hyperparameters and log evidence."""
        ranges = {"weights": self.weights}
        for name in list(self.parts[0].kernel.params)[:SHOWN]:
            ranges[name] = np.array([part.kernel.params[name] for part in self.parts])
        likelihoods = [part.problem.likelihood for part in self.parts]
        if any(likelihood is not likelihoods[0] for likelihood in likelihoods):
            for name in likelihoods[0].parameters:
                ranges[f"likelihood {name}"] = np.array([likelihood.parameters[name] for likelihood in likelihoods])
        if all(part.solution.has_variance for part in self.parts):
            ranges["log evidence"] = self.log_evidences
        return [(name, f"{np.min(values):.4g} to {np.max(values):.4g}") for name, values in ranges.items()]

    @property
    def problem(self) -> Problem:
        """The problem of the first part; targets, and the kind of likelihood, are those of all."""
        return self.parts[0].problem

    @property
    def new_likelihood(self) -> Likelihood:
        """That of new cases, of the first part."""
        return self.parts[0].new_likelihood

    @property
    def log_evidences(self) -> Array:
        """Log evidence ``(k,)`` of each setting, in nats."""
        return np.array([part.log_evidence for part in self.parts])

    def latent_mean(self, X_new: ArrayLike) -> Array:
        """Return the mean ``(m,)`` of the latent process at new cases, averaged over the settings."""
        return self.latent_mean_at(self.new_inputs(X_new))

    def latent_mean_at(self, X: Array) -> Array:
        """Return what `latent_mean` does at inputs that were checked."""
        return self._average(lambda part: part.latent_mean_at(X))

    def latent(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)`` of the latent process at new cases, over the settings too."""
        return self.latent_at(self.new_inputs(X_new))

    def latent_at(self, X: Array) -> tuple[Array, Array]:
        """Return what `latent` does at inputs that were checked."""
        return self.moments(lambda part, _: part.latent_at(X))

    def predict_proba(self, X_new: ArrayLike, *, corrected: bool = False) -> Array:
        """Return the probability ``(m,)`` of the second class, averaged over the settings (1996, eq. 9).

        Of several classes, the probabilities ``(m, C)`` of all. Those of two are ``corrected`` for what TAP leaves out
        as in `Posterior.predict_proba`.
        """
        if not corrected:
            return self.predictive(X_new)[2]
        return self.corrected_at(self.new_inputs(X_new)).p

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return corrected probabilities, and how good they are, at inputs that were checked."""
        return together(self.weights, [part.corrected_at(X) for part in correctable(self.parts)])

    def density(self, X_new: ArrayLike, f: ArrayLike) -> Array:
        """Return the marginal densities ``(m, q)`` of single latent values: see `Posterior.density`."""
        return self._average(lambda part: correctable([part])[0].density(X_new, f))

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each case given the others, corrected, by the formula of `loo`."""
        return -self._without_cases([part.corrected_loo for part in correctable(self.parts)])[1]

    def predictive(self, X_new: ArrayLike) -> tuple[Array, Array, Array]:
        """Return mean, variance and probability ``(m,)`` at new cases at one go, over the settings."""
        return self.predictive_at(self.new_inputs(X_new))

    def predictive_at(self, X: Array) -> tuple[Array, Array, Array]:
        """Return what `predictive` does at inputs that were checked."""
        proba: Array = np.zeros(())

        def ask(part: Process, weight: float) -> tuple[Array, Array]:
            nonlocal proba
            mean, variance, each = part.predictive_at(X)
            proba = proba + weight * each
            return mean, variance

        mean, variance = self.moments(ask)
        return mean, variance, proba

    @cached_property
    def at_training(self) -> tuple[Array, Array]:
        """Mean and variance ``(n,)`` of the latent values of the training cases."""
        return self.moments(lambda part, _: part.at_training)

    @property
    def mean_at_training(self) -> Array:
        """Mean ``(n,)`` of the latent values of the training cases."""
        return self._average(lambda part: part.mean_at_training)

    def mean_at_some(self, which: NDArray[np.intp]) -> Array:
        """Return the mean ``(k,)`` of the latent values of the training cases with given numbers."""
        return self._average(lambda part: part.mean_at_some(which))

    @property
    def log_density_at_training(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        each = np.array([part.log_density_at_training for part in self.parts])
        return np.asarray(logsumexp(each, b=self.weights[:, None], axis=0))

    @cached_property
    def loo(self) -> LeaveOneOut:
        r"""Leave-one-out predictions, with the hyperparameters uncertain too.

        Without case i a setting weighs :math:`w_k / p_k(t_i|t_{-i})` times a constant, since the weights hold the case
        itself. So

        .. math:: p(t_i|t_{-i}) = \Bigl[\sum_k w_k / p_k(t_i|t_{-i})\Bigr]^{-1},

        with each p_k the free estimate of its method, and mean and variance are averaged with those weights.
        """
        parts = [part.loo for part in self.parts]
        log_weights, total = self._without_cases([loo.log_density for loo in parts])
        shares = np.exp(log_weights - total)
        means = np.array([loo.mean for loo in parts])
        mean = np.einsum("ki,ki...->i...", shares, means)
        spread = np.array([loo.variance for loo in parts]) + (means - mean) ** 2
        variance = np.einsum("ki,ki...->i...", shares, spread)
        each = [loo.probability for loo in parts if isinstance(loo, ClassLeaveOneOut)]
        if each:
            return ClassLeaveOneOut(mean, variance, -total, np.einsum("ki,ki...->i...", shares, np.array(each)))
        return LeaveOneOut(mean, variance, -total)

    @property
    def loo_weights(self) -> Array:
        """Weights ``(k, n)`` of the settings without each case, which sum to one."""
        log_weights, total = self._without_cases([part.loo.log_density for part in self.parts])
        return np.asarray(np.exp(log_weights - total))

    def _without_cases(self, log_densities: Sequence[Array]) -> tuple[Array, Array]:
        """Return the logs of the weights ``(k, n)`` without each case, times a constant, and of their sums."""
        with np.errstate(divide="ignore"):  # a setting may have no weight
            log_weights = np.log(self.weights)[:, None] - np.array(log_densities)
        return log_weights, np.asarray(logsumexp(log_weights, axis=0))

    def new_inputs(self, X_new: ArrayLike) -> Array:
        """Return new inputs as an array ``(m, d)``, or raise a ValueError that says why they do not fit the others."""
        return self.parts[0].new_inputs(X_new)

    def _average(self, ask: Callable[[Process], Array]) -> Array:
        return np.asarray(sum(weight * ask(part) for weight, part in zip(self.weights, self.parts, strict=True)))

    def moments(self, ask: Callable[[Process, float], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return mean and variance over the settings, from each one's, of which no two are kept (West, 1979)."""
        total, mean, spread = 0.0, np.zeros(()), np.zeros(())
        for weight, part in zip(self.weights, self.parts, strict=True):
            here, variance = ask(part, float(weight))
            if weight > 0:
                total += weight
                change = here - mean
                mean = mean + (weight / total) * change
                spread = spread + weight * (variance + change * (here - mean))
        return mean, spread / total
