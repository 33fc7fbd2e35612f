"""What cases say of the functions of a stream, by what their likelihood has: one latent value each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.inducing import InducingGram
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.solvers.sites import sites_of
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.types import Array


class Cases(NamedTuple):
    """What a factor says of cases before their targets are seen.

    Attributes
    ----------
    features : (M, m) array
        phi, what the basis inputs know them by.
    mean, covariance : (m, q) and (m, q, q) array
        Of what the basis says of the q functions there.
    own : (m,) array
        The part of each prior variance that no basis input explains.
    prior : (m,) array
        Prior variances of each function.
    """

    features: Array
    mean: Array
    covariance: Array
    own: Array
    prior: Array


class NaturalParameters(NamedTuple):
    """What targets tell of phi'v: precisions ``(m, q, q)`` and shifts ``(m, q)``."""

    precision: Array
    shift: Array


class Values(Protocol):
    """The latent values of a case, in terms of the functions that a stream keeps."""

    @property
    def outputs(self) -> int:
        """How many functions there are, q."""

    def gaussian(self, cases: Cases) -> tuple[Array, Array]:
        """Return mean and (co)variance of the latent values, in the shapes that the likelihood takes."""

    def marginals(self, cases: Cases) -> tuple[Array, Array]:
        """Return mean and variance of each latent value, as users have them."""

    def log_density(self, cases: Cases, t: Array) -> Array:
        """Return the log density ``(m,)`` of targets, in nats."""

    def natural_parameters(self, factor: Factor, cases: Cases, t: Array, control: Control) -> NaturalParameters:
        """Return what targets tell, by TAP with the posterior so far as its prior.

        Raises
        ------
        ConvergenceError, NotPositiveDefiniteError
            If there is no solution.
        """

    def draw(self, factor: Factor, sizes: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return draws of the latent values at the basis inputs, ``(chains, draws, M)`` or with a last axis more."""

    def draw_at(self, factor: Factor, features: Array, gram: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return joint draws ``(draws, m)``, or with a last axis more, at cases with prior covariances ``(m, m)``."""


@dataclass(frozen=True, eq=False)
class OneValue:
    """One latent value of each case, that of one function."""

    likelihood: Likelihood

    @property
    def outputs(self) -> int:
        """One function."""
        return 1

    def gaussian(self, cases: Cases) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)``."""
        return cases.mean[:, 0], cases.covariance[:, 0, 0] + cases.own

    def marginals(self, cases: Cases) -> tuple[Array, Array]:
        """Return the same."""
        return self.gaussian(cases)

    def log_density(self, cases: Cases, t: Array) -> Array:
        """Return the log density ``(m,)`` of targets."""
        return self.likelihood.log_partition(t, *self.gaussian(cases)).value

    def natural_parameters(self, factor: Factor, cases: Cases, t: Array, control: Control) -> NaturalParameters:
        """Return what targets tell.

        Given the past, v = C w + E[v] with w ~ N(0, I) and C C' its covariance: the batch is a problem on inducing
        cases with the root phi' C and the prior mean phi' E[v].
        """
        mean, variance = self.gaussian(cases)
        root = np.asfortranarray(cases.features.T @ factor.inverse_factor.T)
        gram = InducingGram(lambda: root, variance, factor.points, factor.root)
        vars(gram)["own"] = cases.own  # which a difference of the two would know less well
        problem = Problem(gram, t, by_case(self.likelihood, prior_mean=mean), covariance=True)
        precision, shift, _ = sites_of(tap.solve(problem, control), problem)
        share = 1.0 + precision * cases.own  # what is a case's own is noise of the measurement
        on_basis = precision / share
        return NaturalParameters(on_basis[:, None, None], (shift / share + on_basis * mean)[:, None])

    def draw(self, factor: Factor, sizes: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return draws of the function at the basis inputs, ``(chains, draws, M)``."""
        return factor.draw(sizes, rng)[..., 0]

    def draw_at(self, factor: Factor, features: Array, gram: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return joint draws ``(draws, m)`` of the function at cases."""
        return factor.draw_at(features, gram, draws, rng)[..., 0]
