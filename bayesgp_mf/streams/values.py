"""What cases say of the functions of a stream, by what their likelihood has: one latent value each.

A batch is solved by TAP, given all that the past says, and what it says of the functions is added to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.assembly import diagonal_of_cross
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.matrices.inducing import InducingGram, own_part
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.solvers.sites import sites_of
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.types import Array

FELT = 1e-5
"""Part of the variance of a measurement that may come from what was left out of a basis that is to be whole."""
LARGEST = 5000
"""Rows of the matrix that a stream of several classes keeps: basis inputs times contrasts."""


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


class Absorbed(NamedTuple):
    """What came of a batch.

    Attributes
    ----------
    factor : Factor
        The state after it.
    log_score : (m,) array
        Log density of each target, given the past alone, in nats.
    independent : float
        Mean part of the prior variances of the batch that the basis inputs did not explain.
    """

    factor: Factor
    log_score: Array
    independent: float


@dataclass(frozen=True, eq=False)
class Values:
    """The latent values of a case, in terms of the functions that a stream keeps: here one, that of one function."""

    likelihood: Likelihood

    @property
    def outputs(self) -> int:
        """How many functions there are, q."""
        return 1

    def gaussian(self, cases: Cases) -> tuple[Array, Array]:
        """Return mean and (co)variance of the latent values, in the shapes that the likelihood takes."""
        return cases.mean[:, 0], cases.covariance[:, 0, 0] + cases.own

    def marginals(self, cases: Cases) -> tuple[Array, Array]:
        """Return mean and variance of each latent value, as users have them."""
        return self.gaussian(cases)

    def log_density(self, cases: Cases, t: Array) -> Array:
        """Return the log density ``(m,)`` of targets, in nats."""
        return self.likelihood.log_partition(t, *self.gaussian(cases)).value

    def natural_parameters(self, factor: Factor, cases: Cases, t: Array, control: Control) -> NaturalParameters:
        """Return what targets tell, by TAP with the posterior so far as its prior.

        Given the past, v = C w + E[v] with w ~ N(0, I) and C C' its covariance: the batch is a problem on inducing
        cases with the root phi' C and the prior mean phi' E[v].

        Raises
        ------
        ConvergenceError, NotPositiveDefiniteError
            If there is no solution.
        """
        mean, variance = self.gaussian(cases)
        root = np.asfortranarray(cases.features.T @ factor.inverse_factor.T)
        gram = InducingGram(root, variance, factor.points, factor.root)
        vars(gram)["own"] = cases.own  # which a difference of the two would know less well
        problem = Problem(gram, t, by_case(self.likelihood, prior_mean=mean), covariance=True)
        precision, shift, _ = sites_of(tap.solve(problem, control), problem)
        share = 1.0 + precision * cases.own  # what is a case's own is noise of the measurement
        on_basis = precision / share
        return NaturalParameters(on_basis[:, None, None], (shift / share + on_basis * mean)[:, None])

    def absorb(
        self, factor: Factor, kernel: Any, X: Array, t: Array, new: Array, control: Control, *, whole: bool = False
    ) -> Absorbed:
        """Return the state after a batch, and how well the past predicted it.

        Parameters
        ----------
        factor : Factor
            The state before.
        kernel : Kernel
            Prior covariance.
        X, t : (m, d) and (m,) array
            The batch.
        new : (k, d) array
            Inputs that join the basis, as far as they are not determined by others.
        control : Control
            Of TAP on the batch.
        whole : bool
            Whether nothing is to be left out of the basis but what makes no difference.

        Raises
        ------
        ValueError
            If, with ``whole``, the basis inputs are too many for so many classes.
        ConvergenceError, NotPositiveDefiniteError
            If the batch has no solution given the past, or, with ``whole``, inputs that are left out because others
            determine them up to rounding make a difference.
        """
        log_score = self.log_density(predictive(factor, kernel, X), t)
        if len(new):
            factor = factor.with_points(kernel, new)
        if whole:
            check_rows(factor.size, self.outputs)
        if factor.size == 0:  # all values are certain, or independent of all others: nothing is learned
            return Absorbed(factor, log_score, 1.0)
        cases = predictive(factor, kernel, X)
        learned = self.natural_parameters(factor, cases, t, control)
        if whole:
            _check_nothing_felt(cases.own - (kernel.diag(X) - diagonal_of_cross(kernel, X)), learned.precision)
        share = np.divide(cases.own, cases.prior, out=np.zeros_like(cases.own), where=cases.prior > 0)
        return Absorbed(factor.with_sites(cases.features, *learned), log_score, float(np.mean(share)))

    def draw(self, factor: Factor, sizes: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return draws of the latent values at the basis inputs, ``(chains, draws, M)`` or with a last axis more."""
        return self._of_functions(factor.draw(sizes, rng), lambda: factor.root, rng)

    def draw_at(self, factor: Factor, features: Array, gram: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return joint draws ``(draws, m)``, or with a last axis more, at cases with prior covariances ``(m, m)``."""
        return self._of_functions(factor.draw_at(features, gram, draws, rng), lambda: psd_root(gram), rng)

    def _of_functions(self, values: Array, root: Callable[[], Array], rng: np.random.Generator) -> Array:
        """Return latent values from those of the functions ``(..., m, q)``; a root of their prior covariance is L."""
        return values[..., 0]


def predictive(factor: Factor, kernel: Any, X: Array) -> Cases:
    """Return what a factor says of cases ``(m, d)``."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        features = factor.features(kernel, X)
        prior = np.array(np.broadcast_to(kernel.diag(X), (X.shape[0],)), dtype=np.float64)
    own = prior - np.einsum("ij,ij->j", features, features)
    if not np.all(np.isfinite(prior)):
        raise NotPositiveDefiniteError(f"the prior variance of case {int(np.argmax(prior))} overflows under {kernel!r}")
    return Cases(features, *factor.moments(features), own_part(own, prior, "basis inputs"), prior)


def check_rows(inputs: int, outputs: int) -> None:
    """Raise a ValueError if so many basis inputs are too many for so many contrasts of classes."""
    if outputs > 1 and inputs * outputs > LARGEST:
        raise ValueError(
            f"a stream of {outputs + 1} classes keeps {outputs} numbers for each basis input, and a matrix with a row "
            f"for each, {LARGEST} at most: {inputs} basis inputs are too many. Give a budget of at most "
            f"{LARGEST // outputs}."
        )


def _check_nothing_felt(left_out: Array, learned: Array) -> None:
    """Raise if what a basis leaves of cases, but noise of their own that a White kernel gives, is felt by the sites."""
    felt = float(np.max(left_out * np.linalg.norm(learned, 2, axis=(1, 2)), initial=0.0))
    if felt > FELT:
        raise NotPositiveDefiniteError(
            "some inputs are determined by others up to rounding, and what rounding leaves of them is felt: it is "
            f"{felt:.1g} of the variance of a measurement. Give a budget, with which that counts as noise of the cases'"
            " own, allow more noise, or take a smaller variance."
        )
