"""The posterior Gaussian process: what a solution says about latent values and labels anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError, Status, UndefinedQuantityError
from bayesgp_mf.inference.solution import LeaveOneOut
from bayesgp_mf.inference.solver import Cloud, KnownPosterior, traits_of
from bayesgp_mf.inference.undefined import without_cases
from bayesgp_mf.matrices.factors import blocks, psd_root
from bayesgp_mf.matrices.matrix import Correction, Matrix, PosteriorCovariance
from bayesgp_mf.methods import METHODS, check_cavities, check_marginals
from bayesgp_mf.processes import corrected, probed
from bayesgp_mf.processes.corrected import CorrectedProba, LeftOut, Points
from bayesgp_mf.processes.paths import TooRoughError, cover, draw_weights, training_basis, values
from bayesgp_mf.processes.process import LARGEST_JOINT, Draws, Latent, Marginals, NotJointlyError, Part
from bayesgp_mf.processes.tilted import tilted_values
from bayesgp_mf.solvers.second_order import SecondOrder, second_order
from bayesgp_mf.types import Array

BLOCK = 4096
"""New cases handled at once, at most."""

LARGEST_BLOCK = 2**24
"""Covariances of new with training cases that are in memory at once, however many there are of either: 128 MiB."""

LOOKED_AT_ENTRIES = 2**20
"""Covariances of new with training cases by which those are chosen where corrections are measured."""

MIXED_BLOCK = 128
"""The same where the posterior is a mixture, whose parts are thousands."""

MOST_WAYS = 5000
"""Ways in which more than those may vary that the training cases do not determine, for which they are drawn jointly."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Part):
    """A posterior Gaussian process: kernel, training inputs, and a solution of the inference problem.

    Attributes are those of `process.Part`, and:

    Attributes
    ----------
    mean : callable, optional
        The prior mean ``(m,)`` of inputs ``(m, d)``; zero by default. With one, ``problem`` (with a shifted likelihood)
        and ``solution`` describe the deviations from it, and everything else the latent values.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X, kernel = np.array([[0.0], [1.0]]), bgp.kernels.Gaussian()
    >>> problem = bgp.Problem(kernel.gram(X), np.array([-1.0, 1.0]), bgp.Probit())
    >>> solution = bgp.solve(problem.gram, problem.t, problem.likelihood)
    >>> posterior = bgp.Posterior(kernel, X, problem, solution)
    >>> posterior.predict_proba([[0.0], [0.5], [1.0]]).round(3)
    array([0.413, 0.5  , 0.587])
    """

    mean: Callable[[Array], Array] | None = None

    @cached_property
    def _matrix(self) -> Matrix:
        """The Gram matrix in the form that the correction is of."""
        return self.problem.in_form(self.solution.correction.form)

    @cached_property
    def _offset(self) -> Array | float:
        return 0.0 if self.mean is None else self.mean(self.X)

    @cached_property
    def _known(self) -> KnownPosterior | None:
        """The posterior, if it is not a Gaussian process but known all the same."""
        if self.solver is None and self.solution.method not in METHODS:  # only the Gaussian process is known
            return None
        known = traits_of(self.method).known_posterior
        return None if known is None else known(self.problem)

    def _check_cases(self, what: str) -> None:
        """Raise an UndefinedQuantityError if no case is here: see `container.write`."""
        if not self.problem.n:
            raise without_cases(what)

    @property
    def _cloud(self) -> Cloud | None:
        """The mixture of Gaussian processes that such a posterior is."""
        return None if self._known is None else self._known.cloud

    @cached_property
    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions: latent mean and variance, log predictive density of each case."""
        self._check_cases("leave-one-out prediction")
        others = self.method.leave_one_out(self.problem, self.solution)
        return others if self.mean is None else replace(others, mean=others.mean + self._offset)

    def latent_mean_at(self, X: Array) -> Array:
        """Return what `latent_mean` does at inputs that were checked."""
        weights = self._matrix.in_features(self.solution.alpha)
        parts = [weights @ self._features(X[block]) for block in self._blocks(X)]
        return np.concatenate(parts) + self._prior_mean(X)

    def latent_at(self, X: Array) -> tuple[Array, Array]:
        """Return what `latent` does at inputs that were checked."""
        drawn: tuple[Array, _Moments] | None = vars(self).get("_drawn")  # at these very inputs?
        moments = drawn[1] if drawn is not None and drawn[0] is X else None
        if moments is None:
            moments = self._moments(X)
            for block in self._blocks(X):
                moments.see(block, self._features(X[block]))
        return moments.mean + self._prior_mean(X), _nonnegative(moments.variance, moments.prior)

    def joint_at(self, X: Array) -> tuple[Array, Array]:
        """Return mean ``(m,)`` and covariance ``(m, m)`` of latent values at inputs that were checked."""
        features = self._features(X)
        mean = self._matrix.in_features(self.solution.alpha) @ features + self._prior_mean(X)
        prior = self.kernel.gram(X)
        covariance = prior - self.solution.correction.quadratic(features)
        np.fill_diagonal(covariance, _nonnegative(covariance.diagonal(), prior.diagonal()))
        return mean, covariance

    def _moments(self, X: Array) -> _Moments:
        weights = self._matrix.in_features(self.solution.alpha)
        return _Moments(self.kernel.diag(X), weights, self.solution.correction)

    def _prior_mean(self, X: Array) -> Array | float:
        return 0.0 if self.mean is None else self.mean(X)

    def _blocks(self, X_new: Array) -> Iterator[slice]:
        """Go through new cases in blocks whose features are few."""
        return blocks(X_new.shape[0], max(1, min(BLOCK, LARGEST_BLOCK // max(self._matrix.width, 1))))

    def _features(self, X_new: Array) -> Array:
        return self._matrix.features(self.kernel, self.X, X_new)

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return the corrected probabilities of `predict_proba`, and how good they are, at inputs that were checked."""
        mean, variance, proba = self.predictive_at(X)
        prior = np.broadcast_to(self._prior_mean(X), mean.shape)
        added = prior + self.new_cases.get("offset", 0.0)
        return self._corrected.new(lambda rows: self._features(X[rows]), (mean - prior, variance), added, proba)

    def corrected_points_at(self, X: Array) -> Points | None:
        """Return latent values less the prior mean with corrected weights; None where there is nothing to correct."""
        if corrected.nothing_to_correct(self.problem):
            return None
        mean, variance = self.latent_at(X)
        self._corrected.say_if_unsure()
        return self._corrected.points(lambda rows: self._features(X[rows]), (mean - self._prior_mean(X), variance))

    def latent_of_new(self, X: Array, corrected: Points | None = None) -> Latent:
        """Return latent values at inputs that were checked, for what the likelihood says of targets there."""
        if corrected is None:
            return super().latent_of_new(X)
        prior = np.broadcast_to(self._prior_mean(X), len(X))
        return Latent.at_points(self.new_likelihood, corrected, prior)

    def shift_at(self, X: Array) -> float | None:
        """How far a probability may be off at new cases, at those few where TAP is worst.

        None where it is not measured, as for `probability_shift`. Of many new cases some at equal steps are looked at.
        """
        if corrected.nothing_to_correct(self.problem):
            return 0.0
        if not len(X) or not probed.is_measured(self.problem, self.solution):
            return None
        most = LOOKED_AT_ENTRIES // self.problem.n if self.problem.likelihood.is_binary else probed.LOOKED_AT
        rows = np.unique(np.linspace(0, len(X) - 1, max(probed.PROBES, most)).astype(np.intp))
        some = X[rows]
        mean, variance = self.latent_at(some)
        prior = np.broadcast_to(self._prior_mean(some), mean.shape)
        offset = np.broadcast_to(self.new_cases.get("offset", 0.0), (len(X),))[rows]
        return probed.shift_at(
            corrected.Corrected(self.problem, self.solution, self._answering(self._stated)),
            lambda which: self._features(some[which]),
            (mean - prior, variance),
            prior,
            offset,
            self.new_likelihood.of_cases(rows),
        )

    def density_at(self, X: Array, f: Array) -> Array:
        """Return what `density` does at inputs and values ``(m, q)`` that were checked."""
        mean, variance = self.latent_at(X)
        if not variance.all():
            raise UndefinedQuantityError(
                f"the latent value of case {int(np.argmin(variance))} of X_new is known: it has no density."
            )
        if corrected.nothing_to_correct(self.problem):
            return corrected.gaussian_density(f, mean, variance)
        prior = np.broadcast_to(self._prior_mean(X), mean.shape)
        self._corrected.say_if_unsure()
        return self._corrected.density(
            lambda rows: self._features(X[rows]), (mean - prior, variance), f - prior[:, None]
        )

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each case given the others, corrected as in `predict_proba`."""
        uncorrected = self.loo.log_density
        if corrected.nothing_to_correct(self.problem):
            return uncorrected
        self._corrected.say_if_unsure()
        found, settled = self._corrected.left_out(uncorrected)
        corrected.say_unsettled(settled, "densities of", "training cases")
        return found

    @property
    def loo_of_worst(self) -> LeftOut | None:
        """Leave-one-out densities, corrected where TAP's are farthest off; None where they cannot be.

        Beside what it knows by itself, their sum may be off by what the corrected evidence leaves.
        """
        if corrected.nothing_to_correct(self.problem):
            return LeftOut(self.loo.log_density, np.zeros(self.problem.n, dtype=bool), 0.0)
        if not probed.is_measured(self.problem, self.solution):
            return None
        found = self._corrected.left_out_of_worst(self.loo.log_density)
        known = self._stated or second_order(self.problem, self.solution)  # of one that did not go through fit
        return found if known is None else found._replace(error=found.error + known.remaining)

    @property
    def probability_shift(self) -> float | None:
        """How far a probability may be off at the training inputs where TAP is worst.

        None where it is not measured: of other methods, of likelihoods that are not log-concave, and beyond 4000 cases
        (`processes.probed`).
        """
        return self._shift(None, self._answering(self._stated))

    @property
    def _stated(self) -> SecondOrder | None:
        """The correction that a fit has found."""
        correction, remaining = self.solution.evidence.correction, self.solution.evidence.remaining
        return None if correction is None or remaining is None else SecondOrder(correction, remaining)

    @staticmethod
    def _answering(known: SecondOrder | None) -> int | None:
        """Return how many cases answer at first where errors are measured: all, where they are crowded."""
        return None if known is not None and known.leaves_more else probed.ANSWERING

    def _shift(self, covariance: PosteriorCovariance | None, few: int | None) -> float | None:
        def as_new(which: NDArray[np.intp]) -> probed.NewCases:
            X = self.X[which]
            mean, variance = self.latent_at(X)
            prior = np.broadcast_to(self._prior_mean(X), mean.shape)
            # a new case with the offset of the one that is there
            offset = self.problem.likelihood.stored_by_case.get("offset", np.zeros(self.problem.n))[which]
            p = self.problem.likelihood.of_one_case.predict_proba(mean + offset, variance)
            return probed.NewCases(self._features(X), mean - prior, variance, prior + offset, p)

        return probed.probability_shift(self.problem, self.solution, as_new, covariance, few)

    @property
    def corrections(self) -> tuple[SecondOrder | None, float | None]:
        """The second-order correction of the evidence, and `probability_shift`; None where they are not known.

        The second is not measured where the equations were not solved.
        """
        is_solved, covariance = self.solution.info.status is Status.CONVERGED, None
        if (
            is_solved and self.problem.likelihood.is_binary and probed.is_measured(self.problem, self.solution)
        ):  # both ask for it, and it is large
            covariance = self.solution.sites.posterior_covariance()
        known = second_order(self.problem, self.solution, covariance)
        if known is None or not is_solved:
            return known, None
        return known, self._shift(covariance, self._answering(known))

    @cached_property
    def _corrected(self) -> corrected.Corrected:
        self._check_cases("corrected prediction")
        return corrected.Corrected(self.problem, self.solution)

    def predictive_at(self, X: Array) -> tuple[Array, Array, Array]:
        """Return what `predictive` does at inputs that were checked."""
        mean, variance = self.latent_at(X)
        if self._cloud is None:
            return mean, variance, self.new_likelihood.predict_proba(mean, variance)
        each = [
            self._cloud.predict_proba(self.problem.likelihood, self.kernel.cross(self.X, some), self.kernel.diag(some))
            for some in (X[block] for block in blocks(X.shape[0], MIXED_BLOCK))
        ]
        return mean, variance, np.concatenate(each)

    @cached_property
    def at_training(self) -> tuple[Array, Array]:
        """Posterior mean and variance ``(n,)`` of the latent values of the training cases."""
        return self.mean_at_training, self._variance_at_training

    @cached_property
    def _variance_at_training(self) -> Array:
        self._check_cases("posterior variance of a training case")
        return _nonnegative(self._matrix.posterior_variance(self.solution.correction), self.problem.matrix.diagonal())

    @property
    def mean_at_training(self) -> Array:
        """Posterior mean ``(n,)`` of the latent values of the training cases."""
        self._check_cases("posterior mean of a training case")
        return np.asarray(self.problem.matrix @ self.solution.alpha + self._offset)

    def mean_at_some(self, which: NDArray[np.intp]) -> Array:
        """Return the posterior mean ``(k,)`` of the latent values of the training cases with given numbers."""
        self._check_cases("posterior mean of a training case")
        mean = self.problem.matrix.some_of_product(which, self.solution.alpha)
        return np.asarray(mean + np.broadcast_to(self._offset, (self.problem.n,))[which])

    @property
    def log_density_at_training(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        problem = self.problem
        if self._cloud is None:
            return problem.likelihood.unshifted.log_partition(problem.t, *self.at_training).value
        moments = self._cloud.moments(problem.dense_gram, problem.matrix.diagonal())
        density = np.exp(problem.likelihood.log_partition(problem.t, *moments).value)
        return np.asarray(np.log(self._cloud.share @ density))

    def draw_in_blocks(
        self, draws: int, size: int, rng: np.random.Generator, marginals: Marginals = "gaussian"
    ) -> Iterator[Draws]:
        """Return the draws of `draw` a few at a time, at most ``size``, so that memory need not hold more of them.

        Exact draws come all at once.
        """
        self._check_cases("draw at a training case")
        # of a Gaussian posterior the solution itself says, in `_tilt`, whether it has cavities
        check_marginals(marginals, None if self._known is None else self.method)
        if self._known is not None:
            f, log_prior = self._known.draw(draws, rng)
            log_likelihood = self.problem.likelihood.log_prob(self.problem.t, f)
            log_p = log_likelihood.value.sum(axis=1) + log_prior
            yield Draws(f, log_likelihood, log_p, log_p - self.log_evidence)
            return
        sampler = self._matrix.sampler(self.solution.alpha, self.solution.correction)
        for block in blocks(max(draws, 1), max(size, 1)):
            f, log_prior, log_q = sampler.draw(min(block.stop, draws) - block.start, rng)
            if marginals == "tilted":
                f, log_slope = self._tilt(f)
                log_q = log_q - log_slope  # the density of f, and so of u = A^-1 f, is divided by the slope of the map
                log_prior = sampler.log_prior(f)
            log_likelihood = self.problem.likelihood.log_prob(self.problem.t, f)
            yield Draws(f + self._offset, log_likelihood, log_likelihood.value.sum(axis=1) + log_prior, log_q)

    def _tilt(self, f: Array) -> tuple[Array, Array]:
        """Carry Gaussian draws ``(draws, n)`` to the tilted marginals; also the log of the slope of the whole map."""
        cavity = self.solution.cavity
        if cavity is None:
            check_cavities(self.method)
            raise ValueError(
                "this solution has no cavities to tilt: it was read from a container, which keeps those of TAP at one "
                f"setting of the hyperparameters and no others (fit again), or method {self.method.name!r} states "
                "cavities that its solutions do not have."
            )
        mean, variance = self.problem.matrix @ self.solution.alpha, self._variance_at_training
        rank = self._matrix.root.shape[1]
        if rank < self.problem.n or np.any(variance <= 0):
            raise NotPositiveDefiniteError(
                f"tilted marginals need an invertible Gram matrix, and this one of {self.problem.n} cases has rank "
                f"{rank}. Add kernels.White(...), or use marginals='gaussian'."
            )
        sd = np.sqrt(variance)
        values, log_slopes = tilted_values(self.problem.likelihood, self.problem.t, cavity, (f - mean) / sd)
        return values, np.sum(log_slopes - np.log(sd), axis=1)

    def draw_at(self, X: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return what `draw_new` does at inputs that were checked."""
        weights, correction = self.solution.alpha, self.solution.correction
        if self._known is not None:  # each draw has weights of its own
            cloud = self._known.draw_cloud(draws, rng)
            weights, correction = cloud.weights, cloud.correction
        matrix = self.problem.in_form(correction.form)
        if X.shape[0] <= LARGEST_JOINT and matrix.is_whole:
            cross = self.kernel.cross(self.X, X)
            root = psd_root(self.kernel.gram(X) - correction.quadratic(cross))
            f = weights @ cross + rng.standard_normal((draws, root.shape[1])) @ root.T
            return np.asarray(f + self._prior_mean(X))
        if self._known is None:
            drawn = matrix.draw_new(self.kernel, X, weights, correction, lambda k: rng.standard_normal((draws, k)))
            if drawn is not None:
                return np.asarray(drawn + self._prior_mean(X))
        known = training_basis(self.kernel, self.X, matrix)
        basis, noise, moments = known, None, None
        if X.shape[0] <= LARGEST_JOINT or not matrix.independent_rest:
            try:
                basis, noise = cover(known, X, MOST_WAYS)
            except TooRoughError as reason:
                raise NotJointlyError(
                    f"joint draws of new cases are limited to {LARGEST_JOINT} at once under a kernel as rough as this: "
                    f"{reason} that the training cases do not determine. Predict in parts, or without draws: "
                    "predict(idata, X_new, draws=False)."
                ) from reason
        elif self._known is None:
            moments = self._moments(X)
        features = draw_weights(basis, self.X, matrix, weights, correction, draws, rng)
        f = values(basis, features, noise, X, rng, None if moments is None else moments.see)
        vars(self)["_drawn"] = None if moments is None else (X, moments)  # who draws asks for these next
        f += self._prior_mean(X)
        return f


class _Moments:
    """Posterior means and variances ``(m,)`` of new cases less the prior mean, as their features come along."""

    def __init__(self, prior: Array, weights: Array, correction: Correction) -> None:
        self.prior, self._weights, self._correction = prior, weights, correction
        self.mean, self.variance = np.empty(prior.size), np.empty(prior.size)

    def see(self, block: slice, features: Array) -> None:
        """Work out those of some cases."""
        self.mean[block] = self._weights @ features
        self.variance[block] = self.prior[block] - self._correction.quadratic_diagonal(features)


def _nonnegative(variance: Array, prior: Array) -> Array:
    """Set to zero what is below it by no more than rounding of the prior variance."""
    rounding = -1e-8 * prior
    if np.any(variance < rounding):
        raise ArithmeticError(
            f"a posterior variance came out as {float(variance.min()):.3g}, below zero by more than rounding; "
            "please report this with the kernel and the data."
        )
    return np.asarray(np.where(variance < 0, 0.0, variance))
