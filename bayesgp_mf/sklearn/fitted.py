"""What an estimator has learned: from all cases at once, or from a stream; both answer the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.container import groups
from bayesgp_mf.container.draws import draw_latent, draw_targets, draw_training, targets_of_nodes
from bayesgp_mf.container.layout import Layout, common_attrs
from bayesgp_mf.container.loo import loo
from bayesgp_mf.container.write import drawn_groups
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.groups import with_unread
from bayesgp_mf.inputs.tables import as_inputs
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.processes.process import Part, Process, Tuned
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.streams import Stream
from bayesgp_mf.streams.learning import values_of
from bayesgp_mf.types import Array


def with_draws(
    idata: groups.Container, posterior: Part, chains: int, draws: int, rng: np.random.Generator
) -> groups.Container:
    """Return a container of the same fit, at one setting of the hyperparameters, with other draws.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned; it is left as it is.
    posterior : Posterior or MulticlassPosterior
        What was read from it.
    chains, draws : int
        How many.
    rng : numpy.random.Generator
        Source of randomness.
    """
    node = np.zeros((chains, draws), dtype=np.intp)
    values = draw_training(posterior, node, rng, "gaussian")
    made = groups.copied(idata)
    for name, group in drawn_groups(Tuned(posterior, node), values, Layout.of(idata, node.shape)).items():
        groups.set_group(made, name, group.assign_attrs(common_attrs()))
    return made


CHAINS = 4

Learned: TypeAlias = Process | Stream
"""What users hold."""


class NotThereError(UndefinedQuantityError, AttributeError):
    """An attribute that a fit of this kind does not have; to ``hasattr``, and so to scikit-learn, it is not there."""


@dataclass(frozen=True, eq=False)
class Whole:
    """What was learned from all cases at once, by `fit`.

    Attributes
    ----------
    idata : InferenceData or DataTree
        What `fit` returned; with a single draw, unless it averages over hyperparameters.
    posterior : Process
        What was read from it.
    given : dict
        What `posterior` and `loo` ask for beside the container, as it does not hold it.
    weights : (n,) array or None
        Those of the cases.
    """

    idata: groups.Container
    posterior: Process
    given: dict[str, Any]
    weights: Array | None = None

    @property
    def kernel(self) -> Kernel:
        """The kernel, if there is one."""
        if self.posterior.averaged:
            raise self._averages("kernel_", "[part.kernel for part in posterior_.parts]")
        return self.posterior.parts[0].kernel

    @property
    def log_evidence(self) -> float:
        """That of the one setting, in nats."""
        if self.posterior.averaged:
            raise self._averages("log_evidence_", "posterior_.log_evidences")
        return self.posterior.parts[0].log_evidence

    def new_inputs(self, X: Any) -> Array:
        """Return new inputs with the codes of the groups of this fit, if it has some; scikit-learn compares names."""
        kernel = self.posterior.parts[0].kernel
        return self.posterior.new_inputs(X) if kernel.levels_of_columns() else as_inputs("X", with_unread(X, kernel))

    def loo(self) -> groups.LooEstimate:
        """Return the leave-one-out estimate from the cavities."""
        return loo(self.idata, **self.given)

    def container(self, draws: int, seed: int) -> groups.Container:
        """Return the container of the fit with so many draws for each chain; an average has them already."""
        if self.posterior.averaged:
            return self.idata
        return with_draws(self.idata, self.posterior.parts[0], CHAINS, draws, np.random.default_rng(seed))

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities of the posterior process."""
        with one_thread_if_small(self.posterior.problem.n):
            return self.posterior.predictive_at(X)[2]

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of targets, over the settings of the hyperparameters too."""

        def ask(part: Part, _: float) -> tuple[Array, Array]:
            return target_moments(part.new_likelihood, *part.latent_at(X))

        with one_thread_if_small(self.posterior.problem.n):
            return self.posterior.moments(ask)

    def covariance(self, X: Array) -> Array:
        """Return the covariances of targets, over the settings of the hyperparameters too."""
        parts, weights = self.posterior.parts, self.posterior.weights
        with one_thread_if_small(self.posterior.problem.n):
            means = np.array([part.latent_mean_at(X) for part in parts])
            means = means - weights @ means
            each = (_covariance(part, X) for part in parts if isinstance(part, Posterior))
            between = (weights[:, None] * means).T @ means
            return np.asarray(sum(weight * one for weight, one in zip(weights, each, strict=True)) + between)

    def sample(self, X: Array, draws: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return targets, each draw at a setting of the hyperparameters."""
        weights = self.posterior.weights
        node = np.sort(rng.choice(weights.size, size=(1, draws), p=weights))
        with one_thread_if_small(self.posterior.problem.n):
            f = draw_latent(self.posterior, X, node, rng)
            drawn = targets_of_nodes(self.posterior, f, node, rng, lambda part: part.new_likelihood)
        return _numbered(self.posterior.problem.likelihood, drawn[0])

    def _averages(self, name: str, instead: str) -> NotThereError:
        return NotThereError(
            f"{name} is of one setting of the hyperparameters, and this fit averages over several: use {instead}."
        )


@dataclass(frozen=True, eq=False)
class Streamed:
    """What was learned batch by batch, by ``partial_fit``."""

    posterior: Stream

    @property
    def kernel(self) -> Kernel:
        """The kernel, as it is now."""
        return self.posterior.kernel

    @property
    def log_evidence(self) -> float:
        """An error to read: each batch was told from those before it."""
        raise NotThereError("a stream has no evidence, but posterior_.log_score: how well it predicted each batch.")

    def new_inputs(self, X: Any) -> Array:
        """Return new inputs, which are numbers, or raise an error that names the column."""
        return as_inputs("X", with_unread(X, self.posterior.kernel))

    def loo(self) -> groups.LooEstimate:
        """Raise: the cases are gone."""
        raise NotThereError("a stream keeps no cases to leave out. How well it predicted each is posterior_.log_score.")

    def container(self, draws: int, seed: int) -> groups.Container:
        """Return draws at the basis inputs."""
        return self.posterior.to_container(draws=draws, chains=CHAINS, random_seed=seed)

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities of the stream."""
        return self.posterior.predict_proba(X)

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of targets."""
        return target_moments(self.posterior.likelihood, *self.posterior.latent(X))

    def covariance(self, X: Array) -> Array:
        """Return the covariances of targets."""
        factor, kernel = self.posterior.factor, self.posterior.kernel
        features = factor.features(kernel, X)
        known = factor.inverse_factor @ features
        covariance = kernel.gram(X) - features.T @ features + known.T @ known
        return _with_noise(self.posterior.likelihood, np.asarray(covariance))

    def sample(self, X: Array, draws: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return targets, drawn from the joint Gaussian at these inputs."""
        factor, kernel, likelihood = self.posterior.factor, self.posterior.kernel, self.posterior.likelihood
        f = values_of(likelihood).draw_at(factor, factor.features(kernel, X), kernel.gram(X), draws, rng)
        return _numbered(likelihood, draw_targets(likelihood, f[None], rng)[0])


Known: TypeAlias = Whole | Streamed
"""What has been learned."""


def target_moments(likelihood: Likelihood, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and variance ``(m,)`` of targets whose latent values are Gaussian, or raise in words."""
    found = likelihood.predictive_moments(mean, variance)
    if found is None:
        raise UndefinedQuantityError(
            f"{likelihood.display_name} does not say what the mean of a target is (predictive_moments). Use "
            "sample_y(X, n_samples) and the mean of the draws."
        )
    return found


def _covariance(part: Posterior, X: Array) -> Array:
    """Return the covariances ``(m, m)`` of targets at new cases, k(x,x') - k(x)' R k(x') and the noise."""
    correction = part.solution.correction
    features = part.problem.in_form(correction.form).features(part.kernel, part.X, X)
    return _with_noise(part.new_likelihood, part.kernel.gram(X) - correction.quadratic(features))


def _with_noise(likelihood: Likelihood, covariance: Array) -> Array:
    """Return covariances ``(m, m)`` of targets, from those of latent values."""
    noise = likelihood.latent_noise
    if not likelihood.is_real or noise is None:
        raise UndefinedQuantityError(
            f"return_cov is for Gaussian noise, and this is {likelihood!r}. Use return_std=True, or the covariance of "
            "draws, sample_y(X, n_samples)."
        )
    return np.asarray(covariance + noise.variance * np.eye(covariance.shape[0]))


def _numbered(likelihood: Likelihood, drawn: NDArray[Any]) -> NDArray[Any]:
    """Return drawn targets ``(draws, m)``, labels as numbers of classes."""
    return np.asarray(np.maximum(drawn, 0) if likelihood.is_binary else drawn)
