r"""The mode of a posterior by Newton's steps, for one latent value of a case or for one of each class.

It maximises, over f = K alpha,

.. math:: \Psi = \sum_i \log p(t_i|f_i) - \tfrac12 \alpha^T K \alpha .

With W = -d^2 log p / df^2 and R = (K + W^{-1})^{-1}, Newton's step from alpha to (I - R K) b, b = W f + grad log p, is
computed as the difference :math:`(I - R K)(\nabla \log p(t|f) - \alpha)`. It goes uphill, so that a line search along
it makes the iteration converge from anywhere if p is log-concave in f.

How well the equations of a mode hold: alpha = grad log p(t|K alpha), without cavities.

With a Gaussian likelihood they are the normal equations of the exact posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Info, Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.matrices.corrections import Sites
from bayesgp_mf.solvers.accuracy import assessed, log_evidence
from bayesgp_mf.solvers.ascent import SMALLEST_FRACTION, climb, first_that_rises
from bayesgp_mf.solvers.refinement import EPS, Gap, coarseness, in_deviations, most_rounding_of_weights, refined
from bayesgp_mf.types import Array, Derivs

_SETTLED = 1e-7
"""In nats: the log determinant stands still if the last step changed it by no more; the next one squares that ..."""
_DRIFT = 1e-8
"""... and by no more may the sites at latent values that were carried along differ from those at K alpha.

Both are meant for the default tolerance; with a coarser one they grow in proportion."""
_ROUNDS = 4
NEGLIGIBLE = 1e-9
"""Of a mean, in posterior standard deviations: less than elsewhere, since an error counts to first order in the log
evidence of Laplace's method, which is not stationary at the mode."""


class ModeState(NamedTuple):
    """What the next step needs.

    Attributes
    ----------
    alpha : (n,) or (n, C) array
        Weights, in latent units to the power -1; the latent values are K alpha.
    latent : array or None
        K alpha, where it is known already: computed anew in each step, its rounding would shake the last digits.
    derivs : Derivs or None
        log p(t|f) there, where it is known already.
    correction : Sites or None
        That of the state before, whose factor led here, where it is kept.
    """

    alpha: Array
    latent: Array | None = None
    derivs: Derivs | None = None
    correction: Sites | None = None


class Hill(Protocol):
    """What the climb asks of a problem."""

    @property
    def scale(self) -> Array:
        """Standard deviations of the prior: alpha times them is a pure number."""

    def times(self, weights: Array) -> Array:
        """Return K times weights."""

    def log_prob(self, latent: Array) -> Derivs:
        """Return log p(t|f) of each case, its slopes, and minus W, in the form that the correction takes."""

    def precision_at(self, derivs: Derivs) -> Array:
        """Return the diagonal of W, as many numbers as there are weights."""

    def direction(self, derivs: Derivs, residual: Array) -> tuple[Array, Sites | None]:
        """Return (I - R K) times ``residual``, or another direction that leads up, and R if it is to be kept."""


def find_mode(hill: Hill, zero: ModeState, control: Control, start: Array | None = None) -> tuple[ModeState, Info]:
    """Return the mode and how it was come by, from weights ``start`` or, if that leads nowhere, from ``zero``.

    Weights that stand still need not be those of a mode: where the likelihood saturates they are as good as zero in
    units of the prior, and the sites still change. So must the log determinant of I + K W stand still. And latent
    values that were carried along may have drifted from K alpha: then the climb goes on from the weights alone.
    """
    if start is not None:
        latent = hill.times(start)
        if np.isfinite(psi(hill.log_prob(latent), start, latent)):
            state, info = _climb(hill, ModeState(start), control)
            if info.status is Status.CONVERGED:  # a start far out can be lost in rounding
                return state, info
    return _climb(hill, zero, control)


def _climb(hill: Hill, state: ModeState, control: Control) -> tuple[ModeState, Info]:
    steps, coarser = 0, coarseness(control.tolerance)
    settled, drift = _SETTLED * coarser, _DRIFT * coarser
    for _ in range(_ROUNDS):
        state, info = climb(
            lambda at: newton(hill, at),
            state,
            hill.scale,
            control,
            lambda before, after: log_det_change(hill, _precision(hill, before), _precision(hill, after)) <= settled,
            lambda at: float(np.max(np.abs((_derivs(hill, at).d1 - at.alpha) * hill.scale))),
        )
        steps += info.n_iterations
        if info.status is not Status.CONVERGED:
            break
        carried, latent = _precision(hill, state), hill.times(state.alpha)
        state = ModeState(state.alpha, latent, hill.log_prob(latent), state.correction)
        if log_det_change(hill, carried, _precision(hill, state)) <= drift:
            break
    return state, replace(info, n_iterations=steps)


def log_det_change(hill: Hill, precision_at: Array, other: Array) -> float:
    """Return by how much, at most, log det(I + K W) differs between two sets of sites, given the diagonals of W.

    In nats and to first order: the change with W_ii is the posterior variance, at most K_ii and 1/W_ii.
    """
    strongest = np.maximum(np.abs(precision_at), np.abs(other))
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.sum(np.abs(precision_at - other) * np.minimum(hill.scale**2, 1.0 / strongest)))


def _precision(hill: Hill, state: ModeState) -> Array:
    return hill.precision_at(_derivs(hill, state))


def _derivs(hill: Hill, state: ModeState) -> Derivs:
    if state.derivs is not None:
        return state.derivs
    return hill.log_prob(hill.times(state.alpha) if state.latent is None else state.latent)


def psi(derivs: Derivs, alpha: Array, latent: Array) -> float:
    """Return Psi = log p(t|f) - alpha' K alpha / 2 in nats."""
    return float(derivs.value.sum() - 0.5 * np.vdot(alpha, latent))


def newton(hill: Hill, state: ModeState) -> ModeState | None:
    """Return the state after Newton's step, shortened until Psi rises enough, or None if it cannot."""
    alpha = state.alpha
    f = hill.times(alpha) if state.latent is None else state.latent
    derivs = hill.log_prob(f) if state.derivs is None else state.derivs
    here = psi(derivs, alpha, f)
    # the step from alpha to (I - R K) b, less (I - R K)(W f + alpha) = alpha, which would only add rounding
    residual = derivs.d1 - alpha
    direction, correction = hill.direction(derivs, residual)
    rise = hill.times(direction)
    terms = float(np.abs(derivs.value).sum()) + 0.5 * abs(float(np.vdot(alpha, f))) + derivs.value.size

    def at(fraction: float) -> tuple[ModeState, float]:
        trial, there = alpha + fraction * direction, f + fraction * rise
        known = hill.log_prob(there)
        return ModeState(trial, there, known, correction), psi(known, trial, there) - here

    return first_that_rises(at, float(np.vdot(residual, rise)), terms, SMALLEST_FRACTION)


class AtMode(NamedTuple):
    """Weights, the latent values K alpha, what the likelihood says there, and R of the sites W at the mode."""

    alpha: Array
    latent: Array
    derivs: Derivs
    correction: Sites


def at_mode(problem: Problem, alpha: Array, correction: Sites) -> AtMode:
    """Return what follows from weights ``(n,)``, with R as it is."""
    latent = problem.matrix @ alpha
    return AtMode(alpha, latent, problem.likelihood.log_prob(problem.t, latent), correction)


def refined_mode(problem: Problem, first: AtMode, info: Info) -> tuple[AtMode, float, Array]:
    """Return weights alpha = grad log p(t|K alpha) that hold as well as they can, and how far the means are off.

    Also what Newton's step would still change the latent values by ``(n,)``. There are no cavities here: the equation
    is that of the mode (`solvers.laplace`), and with a Gaussian likelihood that of the exact posterior.
    """
    matrix, correction, precision = problem.matrix, first.correction, first.correction.site_precision
    with np.errstate(divide="ignore"):
        # what no posterior variance exceeds where all sites are positive, ...
        variance = np.minimum(matrix.diagonal(), 1.0 / np.abs(precision))
    residual = first.derivs.d1 - first.alpha
    own = variance * np.abs(residual)
    is_easy = bool((precision >= 0).all()) and in_deviations(own, np.sqrt(variance)) <= NEGLIGIBLE
    # a likelihood may be far narrower than the posterior: latent values are known, too
    is_easy = is_easy and bool((own <= NEGLIGIBLE * np.abs(first.latent)).all())
    if not (is_easy and most_rounding_of_weights(matrix, first) <= NEGLIGIBLE):
        # ... and what they are; of one that is lost in rounding, no more is known than that
        variance = np.maximum(correction.covariance_diagonal(), EPS * variance)

    def gap(here: AtMode) -> Gap:
        residual = here.derivs.d1 - here.alpha
        return Gap(variance * residual, residual)

    def moved(here: AtMode, weights: Array) -> AtMode:
        return at_mode(problem, weights, here.correction)

    best, error = refined(matrix, first, gap, moved, np.sqrt(variance), info, NEGLIGIBLE)
    residual = best.derivs.d1 - best.alpha
    return best, error, (np.zeros_like(residual) if is_easy else matrix @ correction.weights(residual))


def assessed_mode(
    problem: Problem,
    solution: Solution,
    correction: Sites,
    mean_error: float,
    gradient: Callable[[Solution], GramGradient],
) -> Solution:
    """Return a solution at a mode that says how well its numbers are known (`accuracy.assessed`)."""
    precision = correction.site_precision
    return assessed(
        solution,
        problem.matrix,
        mean_error,
        precision,  # R has no larger trace
        gradient,
        lambda: log_evidence(problem, solution.alpha, precision, np.zeros(problem.n)),
    )
