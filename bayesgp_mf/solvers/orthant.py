r"""Gaussian vectors seen through their signs: the probability of all labels, and exact draws, by minimax tilting.

Let g ~ N(0, C) and :math:`y_i = t_i g_i`. With y = L z along a Cholesky factor, in an order of choice, z is white and
:math:`y_i > 0` says :math:`z_i > -\sum_{j<i} L_{ij} z_j / L_{ii}`, which depends on earlier variables only. So z can be
proposed one variable after the other, each normal with mean :math:`\mu_i` and cut where its own label asks for it [1]_.
The weight of a proposal is :math:`e^{\psi}`,

.. math::
    \psi(z, \mu) = \sum_i \left[\log \Phi(x_i) - \mu_i z_i + \tfrac12 \mu_i^2\right], \qquad
    x_i = \mu_i + \sum_{j<i} L_{ij} z_j / L_{ii},

and its mean the probability, whatever the tilt mu is. Minimax tilting takes the mu with the least largest weight [2]_:
psi is concave in z and convex in mu, and at its saddle point

.. math:: z_i = \mu_i + \rho_i, \qquad \mu_j = \sum_{i>j} L_{ij} \rho_i / L_{ii}, \qquad \rho_i = \phi(x_i)/\Phi(x_i).

Put in terms of :math:`\alpha_i = t_i \rho_i / L_{ii}` and :math:`m_i = t_i L_{ii} x_i`, that is

.. math:: \alpha_i = \partial_{m_i} \log \Phi(t_i m_i / \sqrt{\lambda_i}), \qquad m = (C - \Lambda)\, \alpha, \qquad
    \lambda_i = L_{ii}^2:

the mean-field equations, with the variance that the variables *before* it leave to each. `fixed_variance` solves them
by minimising a convex function, whose value at the minimum is psi at the saddle point, an upper bound on the log
probability. It bounds the weights, so that accepting a proposal with probability :math:`e^{\psi - \max \psi}` makes
exact, independent draws.

Where labels may be flipped, a variable lies on the *wrong side* now and then. If flips are rare, so may be a proposal
that goes there, and what follows from it may be all that counts: of two labels that contradict each other, one was
flipped. Averages are then taken in parts, by the first variable on the wrong side; after it flips are proposed as if
they were not rare, and weighed with what that is too often.

References
----------
.. [1] Genz, A. (1992). Numerical computation of multivariate normal probabilities. Journal of Computational
   and Graphical Statistics 1, 141-149. https://doi.org/10.1080/10618600.1992.10477010
.. [2] Botev, Z. I. (2017). The normal law under linear restrictions: simulation and estimation via minimax tilting.
   Journal of the Royal Statistical Society B 79, 125-148. https://doi.org/10.1111/rssb.12162
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods import Step
from bayesgp_mf.likelihoods.moments import scrambled_points
from bayesgp_mf.likelihoods.probit import hazard
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.solvers.fixed_variance import solve_at_fixed_variance
from bayesgp_mf.types import Array

LIKELY = -2.0
"""Labels that are more probable than this, in nats, are not tilted: without a tilt the weights are smoother."""
PASSES = 3
"""How often an order is chosen; the tilt for one says where the variables will be, which helps to choose the next."""
FIRST_NOISE, FIRST_RATIO, LEAST_RATIO = 1.0, 10.0, 1.2
"""The tilt is found under noise of this part of the prior variances, then of ever less, by this ratio or less."""
NEAREST = 1e-6
"""None is tried for once it is less than the least variance; where that leads nowhere, less by the first ratio, down to
this part of it."""
BATCH = 8192
"""Proposals made at once by `Orthant.draw`."""
FEWEST_ACCEPTED = 1e-5
"""Part of the proposals that must be accepted for `Orthant.draw` to go on."""
ROUNDING = 1e-6
"""By how many nats a weight may exceed its bound, which is known to the square of the solver's tolerance."""
LARGEST_EXPONENT = 300.0
"""Of a ratio that says that nothing is known."""
NOT_FAR = (-5.0, 6.0)
"""Limits between these leave a piece of the distribution function that needs no logs, which take twice the time; beyond
the second, a point near one would round to infinity."""
RARE = 0.05
"""Flips that are less probable than this are rare; as if this were their probability they are proposed after one."""


class Estimate(NamedTuple):
    """The log probability of the labels, and the first two moments of the whitened variables given them.

    Attributes
    ----------
    log_probability, standard_error : float
        In nats.
    mean, second : (n,) and (n, n) array
        E[z] and E[z z'].
    scrambles : int
        Sets of points that were averaged over.
    """

    log_probability: float
    standard_error: float
    mean: Array
    second: Array
    scrambles: int


@dataclass(frozen=True, slots=True, eq=False)
class Orthant:
    """The labels' event, with all that is needed to propose and to weigh; `tilted` makes it.

    Attributes
    ----------
    t : (n,) array
        Labels -1/+1.
    order : (n,) array of int
        The variables in the order in which they are proposed.
    factor : (n, n) array
        L, lower triangular: ``(t * g)[order] = L @ z``.
    tilt : (n,) array
        mu, the means of the proposals in which no label is flipped, in that order; those of the others are zero.
    log_bound : float
        No weight exceeds its exponential where no label may be flipped; in nats.
    flip : float
        Probability kappa that a label was flipped.
    """

    t: Array
    order: NDArray[np.intp]
    factor: Array
    tilt: Array
    log_bound: float
    flip: float

    @property
    def _log_unflipped(self) -> float:
        """Log probability that no label was flipped; no proposal of either side as often as asked for weighs more."""
        return self.t.size * float(np.log1p(-self.flip))

    def propose(self, uniform: Array, first_wrong: NDArray[np.intp] | None = None) -> tuple[Array, Array]:
        """Turn points of the unit cube into proposals of z and their log weights.

        Parameters
        ----------
        uniform : (n, points) array
            In (0, 1).
        first_wrong : (points,) array of int, optional
            The first variable, in the order of the factor, that lies on the wrong side. If it is not given, either side
            is proposed as often as its label, and those before, ask for.

        Returns
        -------
        z : (n, points) array
            White in the prior, in the order of the factor.
        log_weight : (points,) array
            psi, in nats; with ``first_wrong`` those of one choice are, on average, its part of the probability.
        """
        z = np.empty_like(uniform)
        log_weight = np.zeros(uniform.shape[1])
        for i in range(self.t.size):
            mu = self.tilt[i] if self.flip == 0.0 else 0.0
            above = mu + self.factor[i, :i] @ z[:i] / self.factor[i, i]  # x_i
            # invert the distribution function piece by piece
            if self.flip == 0.0 and NOT_FAR[0] < np.min(above) and np.max(above) < NOT_FAR[1]:
                total = ndtr(above)
                log_total = np.log(total)
                z[i] = mu - ndtri(uniform[i] * total)
            elif self.flip == 0.0:  # in logs: a piece may be smaller than any number
                log_total = log_ndtr(above)
                z[i] = mu - ndtri_exp(np.log(uniform[i]) + log_total)
            else:
                log_right, log_wrong = log_ndtr(above), log_ndtr(-above)
                log_share, log_rest = self._shares(i, log_right, log_wrong, first_wrong)
                right = np.log(uniform[i]) <= log_share
                wrong = ~right
                z[i, right] = mu - ndtri_exp(np.log(uniform[i, right]) - log_share[right] + log_right[right])
                z[i, wrong] = mu + ndtri_exp(np.log1p(-uniform[i, wrong]) - log_rest[wrong] + log_wrong[wrong])
                log_total = np.where(
                    right, np.log1p(-self.flip) + log_right - log_share, np.log(self.flip) + log_wrong - log_rest
                )
            log_weight += log_total - mu * z[i] + 0.5 * mu**2
        return z, log_weight

    def _shares(
        self, i: int, log_right: Array, log_wrong: Array, first_wrong: NDArray[np.intp] | None
    ) -> tuple[Array, Array]:
        """Return the logs ``(points,)`` of the shares of proposals of variable i on the right and on the wrong side."""
        flip = self.flip if first_wrong is None else max(self.flip, RARE)
        odds = np.log(flip) - np.log1p(-flip) + log_wrong - log_right
        log_share, log_rest = -np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)
        if first_wrong is None:
            return log_share, log_rest
        log_share = np.where(first_wrong > i, 0.0, np.where(first_wrong < i, log_share, -np.inf))
        return log_share, np.where(first_wrong > i, -np.inf, np.where(first_wrong < i, log_rest, 0.0))

    @property
    def _in_parts(self) -> bool:
        """Whether what no flip leads to is averaged over on its own."""
        return self.flip < RARE

    def scramble(self, log2_points: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return z ``(n, points)`` of one set of scrambled points, and log weights whose sum is the probability.

        Where flips are rare, that is the part in which all variables are on the right side, and there is a second set,
        divided evenly among the first variables on the wrong side.
        """
        n = self.t.size
        if not self._in_parts:
            z, log_weight = self.propose(scrambled_points(n, log2_points, rng))
            return z, log_weight - log2_points * np.log(2.0)
        z, log_weight = replace(self, flip=0.0).propose(scrambled_points(n, log2_points, rng))
        log_weight += self._log_unflipped - log2_points * np.log(2.0)
        if self.flip == 0.0:
            return z, log_weight
        more = max(log2_points, (n - 1).bit_length())
        first_wrong = np.arange(2**more) * n // 2**more
        z_wrong, log_wrong = self.propose(scrambled_points(n, more, rng), first_wrong)
        log_wrong -= np.log(np.bincount(first_wrong, minlength=n))[first_wrong]
        return np.hstack([z, z_wrong]), np.concatenate([log_weight, log_wrong])

    def estimate(
        self, log2_points: int, scrambles: int, most_scrambles: int, tolerance: float, random_seed: int
    ) -> Estimate:
        """Average over scrambled points; the spread over the scrambles is the standard error.

        Nothing is known of what happens in less of the cube than one point stands for: the standard error is at least
        the share that one would have of the largest weight there may be.

        Parameters
        ----------
        log2_points : int
            Logarithm to base 2 of the number of points in each scramble.
        scrambles, most_scrambles : int
            How many at first, and at most.
        tolerance : float
            As long as the standard error exceeds this, in nats, there are as many more.
        random_seed : int
            Of the scrambles.
        """
        rng = np.random.default_rng(random_seed)
        log_masses: list[float] = []
        means, seconds = list[Array](), list[Array]()
        error, largest = np.inf, -np.inf
        if self._in_parts:
            largest = self.log_bound + self._log_unflipped - log2_points * float(np.log(2.0))
        while error > tolerance and len(log_masses) < most_scrambles:
            for _ in range(scrambles):
                z, log_weight = self.scramble(log2_points, rng)
                log_masses.append(float(logsumexp(log_weight)))
                weight = np.exp(log_weight - log_masses[-1])
                means.append(z @ weight)
                seconds.append((z * weight) @ z.T)
                largest = max(largest, float(np.max(log_weight)))
            relative = np.exp(np.array(log_masses) - max(log_masses))
            spread = np.std(relative, ddof=1) / np.sqrt(relative.size) / np.mean(relative)
            unseen = np.exp(min(largest - max(log_masses), LARGEST_EXPONENT)) / relative.sum()
            unseen = unseen if self.t.size > 1 else 0.0  # a single weight is the same at all points
            error = float(np.hypot(spread, unseen))
        share = relative / relative.sum()
        return Estimate(
            max(log_masses) + float(np.log(np.mean(relative))),
            error,
            share @ np.array(means),
            np.einsum("s,sij->ij", share, np.array(seconds)),
            len(log_masses),
        )

    def weighted(self, log2_points: int, most_scrambles: int, random_seed: int) -> tuple[Array, Array]:
        """Return points z ``(n, points)`` with weights ``(points,)`` that sum to one.

        They are of one scramble, or of as many, up to ``most_scrambles``, as it takes for the effective number of
        points to be half that of one.
        """
        rng = np.random.default_rng(random_seed)
        parts: list[Array] = []
        log_weights = np.empty(0)
        while len(parts) < most_scrambles:
            z, log_weight = self.scramble(log2_points, rng)
            parts.append(z)
            log_weights = np.concatenate([log_weights, log_weight])
            weights = np.exp(log_weights - logsumexp(log_weights))
            if 1.0 / np.sum(weights**2) >= 2.0 ** (log2_points - 1):
                break
        return np.concatenate(parts, axis=1), weights

    def draw(self, draws: int, rng: np.random.Generator) -> Array:
        """Return exact independent draws ``(n, draws)`` of z given the labels.

        Raises
        ------
        ConvergenceError
            If fewer than one proposal in 100 000 is accepted.
        """
        log_bound = self.log_bound if self.flip == 0.0 else self._log_unflipped
        kept: list[Array] = []
        accepted = proposed = 0
        while accepted < draws:
            z, log_weight = self.propose(1.0 - rng.random((self.t.size, BATCH)))
            excess = float(np.max(log_weight)) - log_bound
            if excess > ROUNDING:
                raise ArithmeticError(
                    f"a weight exceeds its bound by {excess:.2g} nats: the saddle point was lost to rounding. Add "
                    "noise to the diagonal of the Gram matrix."
                )
            keep = -rng.standard_exponential(BATCH) < log_weight - log_bound
            if self.flip == 0.0:  # rounding may put a proposal onto its own boundary, or beyond
                keep[keep] = np.all(self.factor @ z[:, keep] > 0, axis=0)
            kept.append(z[:, keep])
            accepted += int(keep.sum())
            proposed += BATCH
            if proposed >= 10.0 / FEWEST_ACCEPTED and accepted < FEWEST_ACCEPTED * proposed:
                raise ConvergenceError(
                    f"only {accepted} of {proposed} proposals of an exact draw were accepted: too many cases, or too "
                    "improbable labels. Use diagnostics.sample_orthant_chains, whose draws are Markov chains.",
                    Status.MAX_ITERATIONS,
                )
        return np.concatenate(kept, axis=1)[:, :draws]

    def values(self, z: Array) -> Array:
        """Return g ``(points, n)`` of whitened variables ``(n, points)``."""
        return self._in_order(self.factor @ z)

    def weights(self, z: Array) -> Array:
        """Return C^-1 g ``(points, n)`` of whitened variables ``(n, points)``."""
        return self._in_order(triangular_inverse(self.factor).T @ z)

    def _in_order(self, y: Array) -> Array:
        result = np.empty(y.shape[::-1])
        result[:, self.order] = y.T
        return result * self.t

    def quadratic_form(self, whitened: Array) -> Array:
        """Return C^-1 cov(g) C^-1 ``(n, n)``, or the like, from the same of z."""
        inverse = triangular_inverse(self.factor)
        form = np.empty_like(whitened)
        form[np.ix_(self.order, self.order)] = inverse.T @ whitened @ inverse
        return np.asarray(self.t[:, None] * (0.5 * (form + form.T)) * self.t)


def tilted(covariance: Array, t: Array, flip: float = 0.0, expected: Array | None = None) -> Orthant:
    """Choose the order and the tilt for the labels ``t (n,)`` of g ~ N(0, ``covariance``).

    Of some orders, the one with the least largest weight. Where the equations of the tilt have no solution in the
    digits there are (labels that the prior all but forbids), mu is zero: the weights are right all the same, and vary
    more.

    Parameters
    ----------
    covariance : (n, n) array
        C, positive definite.
    t : (n,) array
        Labels -1/+1.
    flip : float
        Probability that a label was flipped.
    expected : (n,) array, optional
        About where g will be, given the labels, if that is known from a problem nearby; it saves time.

    Raises
    ------
    NotPositiveDefiniteError
        If the covariance is singular.
    """
    positions = None if expected is None else t * expected
    best = _untilted(covariance, t, flip, positions)
    best_bound = np.inf
    for _ in range(PASSES if expected is None else 1):
        plain = _untilted(covariance, t, flip, positions)
        alpha = _saddle_point(covariance, t, plain)
        if alpha is None:
            break
        diagonal, beta = np.diag(plain.factor), (t * alpha)[plain.order]  # beta is rho / L_ii
        rho, z = diagonal * beta, plain.factor.T @ beta
        x = plain.factor @ z / diagonal - rho
        # psi at the saddle point, where z - mu = rho
        bound = float(np.sum(log_ndtr(x)) + 0.5 * (rho @ rho - z @ z))
        positions = t * (covariance @ alpha)  # y = L z there
        if bound < best_bound:
            best_bound, best = bound, replace(plain, tilt=z - rho, log_bound=bound)
    return replace(best, tilt=np.zeros(t.size), log_bound=0.0) if best_bound > LIKELY else best


def _saddle_point(covariance: Array, t: Array, plain: Orthant) -> Array | None:
    """Return alpha ``(n,)`` of the saddle point in an order, or None if it was not found.

    The equations are solved for more noise first, and then for less and less of it: Newton's method takes hundreds of
    steps from nothing to labels that the prior finds very unlikely.
    """
    prior = np.diag(covariance)
    variance = np.empty(t.size)
    variance[plain.order] = np.diag(plain.factor) ** 2
    alpha, solved, ratio = None, FIRST_NOISE, FIRST_RATIO
    noise, near = FIRST_NOISE, 1.0  # in units of the least variance: below it none is tried
    least = float(np.min(variance / prior))
    while True:
        problem = Problem(covariance + np.diag(noise * prior), t, Step())
        state, _ = solve_at_fixed_variance(problem, variance + noise * prior, Control(), alpha)
        if state is not None and state.alpha is not None:
            if noise == 0.0:
                return state.alpha
            alpha, solved = state.alpha, noise
        elif alpha is None or ratio < LEAST_RATIO or near < NEAREST:
            return None
        elif noise == 0.0:
            near /= FIRST_RATIO
        else:
            ratio = float(np.sqrt(ratio))
        noise = solved / ratio
        if noise < near * least:
            noise = 0.0


def _untilted(covariance: Array, t: Array, flip: float, expected: Array | None) -> Orthant:
    signed = t[:, None] * covariance * t
    natural = cholesky(signed)
    order = elimination_order(signed, expected)
    try:
        factor = cholesky(signed[np.ix_(order, order)])
    except NotPositiveDefiniteError:  # singular but for rounding, which the order decides about
        order, factor = np.arange(t.size), natural
    return Orthant(t, order, factor, np.zeros(t.size), 0.0, flip)


def elimination_order(covariance: Array, expected: Array | None = None) -> NDArray[np.intp]:
    """Return an order of the variables in which each is the least likely to be positive given those before it.

    With the hardest conditions first, the later ones hardly cut.

    Parameters
    ----------
    covariance : (n, n) array
        Of the variables y, which shall be positive.
    expected : (n,) array, optional
        The values at which those before are put; if None, at their means given that they are positive.
    """
    n = covariance.shape[0]
    mean, variance = np.zeros(n), np.diag(covariance).copy()
    columns = np.zeros((n, n))
    left = np.ones(n, dtype=np.bool_)
    order = np.empty(n, dtype=np.intp)
    for k in range(n):
        (candidates,) = np.nonzero(left & (variance > 0))
        if candidates.size == 0:  # nothing but rounding is left of their variances
            order[k:] = np.flatnonzero(left)
            break
        sd = np.sqrt(variance[candidates])
        best = int(np.argmin(mean[candidates] / sd))
        chosen, scale = candidates[best], sd[best]
        if expected is None:
            innovation = hazard(mean[chosen : chosen + 1] / scale)[0]
        else:
            innovation = (expected[chosen] - mean[chosen]) / scale
        columns[:, k] = (covariance[:, chosen] - columns[:, :k] @ columns[chosen, :k]) / scale
        mean += columns[:, k] * innovation
        variance -= columns[:, k] ** 2
        order[k], left[chosen] = chosen, False
    return order
