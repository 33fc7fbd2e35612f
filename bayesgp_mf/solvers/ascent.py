r"""The only loop uphill, by Newton's steps with a line search (Armijo's rule), that says how it ended.

By it the mode of a posterior is found, for one latent value of a case or for one of each class: the maximum, over
f = K alpha, of

.. math:: \Psi = \sum_i \log p(t_i|f_i) - \tfrac12 \alpha^T K \alpha .

With W = -d^2 log p / df^2 and R = (K + W^{-1})^{-1}, Newton's step from alpha to (I - R K) b, b = W f + grad log p, is
computed as the difference :math:`(I - R K)(\nabla \log p(t|f) - \alpha)`. It goes uphill, so that a line search along
it makes the iteration converge from anywhere if p is log-concave in f. How well the equations of a mode hold,
alpha = grad log p(t|K alpha), without cavities, is measured here too; with a Gaussian likelihood they are the normal
equations of the exact posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.matrices.matrix import Sites
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solvers import accuracy
from bayesgp_mf.types import Array, Derivs

SMALLEST_FRACTION = 2.0**-40
"""Of a step: if the objective does not rise along so little of it, it is at the summit but for rounding."""
_PATIENCE = 25  # steps without a smaller change before the rest is called rounding
_SUFFICIENT = 1e-4  # part of the rise promised by the slope that a step must keep
_STRONGEST = 1e8  # times the prior variance: sites of which half of all digits are left beside it
_ROUNDING = 1e-13  # rises below this part of the terms of the objective cannot be seen


class HasWeights(Protocol):
    """A state of the climb."""

    @property
    def alpha(self) -> Array:
        """The weights, which are what converges."""


S = TypeVar("S", bound=HasWeights)


def climb(
    newton: Callable[[S], S | None],
    state: S,
    scale: Array,
    control: Control,
    is_summit: Callable[[S, S], bool] = lambda before, after: True,
    gap_of: Callable[[S], float] = lambda state: float("inf"),
) -> tuple[S, Info]:
    """Return the summit and how the climb went; the residual is the change by the last step.

    Parameters
    ----------
    newton : callable
        Returns the state after a step, or None if no step from here leads up.
    state : state
        Where to start.
    scale : array
        Standard deviations of the prior, in which the change of the weights is measured.
    control : Control
        Tolerance and largest number of steps.
    is_summit : callable
        Whether the state after a step in which the weights stood still is the summit, given also that before it; a
        step may be short for other reasons.
    gap_of : callable
        Another measure of how far a state is from the summit, which may fall where the changes do not.
    """
    residual = smallest = least = float("inf")
    last_best = 0
    with progress_bar("finding the mode", enabled=control.progress) as advance:
        for iteration in range(1, control.max_iterations + 1):
            moved = newton(state)
            if moved is None:
                return state, Info(Status.STALLED, iteration, residual)
            residual = largest_change(scale, state.alpha, moved.alpha)
            before, state = state, moved
            if residual <= control.tolerance and is_summit(before, state):
                return state, Info(Status.CONVERGED, iteration, residual)
            if residual < smallest:
                smallest, last_best = residual, iteration
            elif (gap := gap_of(state)) < least:
                least, last_best = gap, iteration
            elif iteration - last_best >= _PATIENCE:
                return state, Info(Status.STALLED, iteration, residual)
            advance(f"step {iteration}, change {residual:.1e} (tolerance {control.tolerance:.0e})")
    return state, Info(Status.MAX_ITERATIONS, control.max_iterations, residual)


def largest_change(scale: Array, before: Array, after: Array) -> float:
    """Return the largest change of weights by a step, in proportion where they are large."""
    return float(np.abs(np.arcsinh(scale * after) - np.arcsinh(scale * before)).max())


Point = TypeVar("Point")


def first_that_rises(
    at: Callable[[float], tuple[Point, float]], slope: float, terms: float, smallest: float
) -> Point | None:
    """Return the point after a step, halved until the objective rises enough, or None if it never does.

    Parameters
    ----------
    at : callable
        From the fraction of the step that is taken to the point there, and the rise of the objective up to it; one that
        is not a number is no rise.
    slope : float
        Derivative of the objective along the step, at its start.
    terms : float
        Size of the terms whose sum the objective is: it says what rounding can do.
    smallest : float
        Fraction below which no step is tried.
    """
    fraction = 1.0
    while fraction >= smallest:
        point, rise = at(fraction)
        if rise >= _SUFFICIENT * fraction * slope - _ROUNDING * terms:
            return point
        fraction *= 0.5
    return None


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
        Weights, in latent units to the power -1.
    latent : array
        The latent values K alpha, carried along: computed anew in each step, its rounding would shake the last digits.
    derivs : Derivs
        log p(t|f) there.
    correction : Sites or None
        R of the sites: during the climb those of the state before, whose factor led here, where it is kept.
    """

    alpha: Array
    latent: Array
    derivs: Derivs
    correction: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Hill:
    """The log posterior of a problem, to be climbed: of one latent value for each case."""

    problem: Problem

    @property
    def scale(self) -> Array:
        """Standard deviations of the prior: alpha times them is a pure number."""
        return np.sqrt(self.problem.matrix.diagonal())

    def times(self, weights: Array) -> Array:
        """Return K times weights."""
        return self.problem.matrix @ weights

    def log_prob(self, latent: Array) -> Derivs:
        """Return log p(t|f) of each case, its slopes, and minus W, in the form that the correction takes."""
        return self.problem.likelihood.log_prob(self.problem.t, latent)

    def precision_at(self, derivs: Derivs) -> Array:
        """Return the diagonal of W, as many numbers as there are weights."""
        return np.asarray(-derivs.d2)

    def direction(self, derivs: Derivs, residual: Array, share: float) -> tuple[Array, Sites | None]:
        """Return (I - R K) times ``residual``, or another direction that leads up, and R if it is to be kept.

        Of both W and ``residual`` it takes a ``share``.
        """
        correction = self.problem.matrix.sites(-share * derivs.d2)
        try:
            return correction.weights(share * residual), correction
        except NotPositiveDefiniteError:
            # between the summits of a likelihood that is not log-concave; this direction still leads up
            correction = self.problem.matrix.sites(np.abs(share * derivs.d2))
        try:
            return correction.weights(share * residual), correction
        except NotPositiveDefiniteError as error:
            raise accuracy.rounding_decides("laplace", accuracy.NO_FACTOR) from error


def find_mode(hill: Hill, zero: ModeState, control: Control, start: Array | None = None) -> tuple[ModeState, Info]:
    """Return the mode and how it was come by, from weights ``start`` or, if that leads nowhere, from ``zero``.

    Weights that stand still need not be those of a mode: where the likelihood saturates they are as good as zero in
    units of the prior, and the sites still change. So must the log determinant of I + K W stand still. And latent
    values that were carried along may have drifted from K alpha: then the climb goes on from the weights alone.
    """
    if start is not None:
        first = state_at(hill, start)
        if np.isfinite(psi(first)):
            state, info = _climb(hill, first, control)
            if info.status is Status.CONVERGED:  # a start far out can be lost in rounding
                return state, info
    return _climb(hill, zero, control)


def _climb(hill: Hill, state: ModeState, control: Control) -> tuple[ModeState, Info]:
    steps, coarser = 0, accuracy.coarseness(control.tolerance)
    settled, drift = _SETTLED * coarser, _DRIFT * coarser

    def moved(before: Derivs, after: Derivs) -> float:
        return log_det_change(hill, hill.precision_at(before), hill.precision_at(after))

    for _ in range(_ROUNDS):
        state, info = climb(
            lambda at: newton(hill, at),
            state,
            hill.scale,
            control,
            lambda before, after: moved(before.derivs, after.derivs) <= settled,
            lambda at: float(np.max(np.abs((at.derivs.d1 - at.alpha) * hill.scale))),
        )
        steps += info.n_iterations
        if info.status is not Status.CONVERGED:
            break
        carried, state = state.derivs, state_at(hill, state.alpha, state.correction)
        if moved(carried, state.derivs) <= drift:
            break
    return state, replace(info, n_iterations=steps)


def log_det_change(hill: Hill, precision_at: Array, other: Array) -> float:
    """Return by how much, at most, log det(I + K W) differs between two sets of sites, given the diagonals of W.

    In nats and to first order: the change with W_ii is the posterior variance, at most K_ii and 1/W_ii.
    """
    strongest = np.maximum(np.abs(precision_at), np.abs(other))
    with np.errstate(divide="ignore", over="ignore"):
        return float(np.sum(np.abs(precision_at - other) * np.minimum(hill.scale**2, 1.0 / strongest)))


def state_at(hill: Hill, alpha: Array, correction: Sites | None = None) -> ModeState:
    """Return what follows from weights, with R as it is."""
    latent = hill.times(alpha)
    return ModeState(alpha, latent, hill.log_prob(latent), correction)


def psi(state: ModeState) -> float:
    """Return Psi = log p(t|f) - alpha' K alpha / 2 in nats."""
    return float(state.derivs.value.sum() - 0.5 * np.vdot(state.alpha, state.latent))


def newton(hill: Hill, state: ModeState) -> ModeState | None:
    """Return the state after Newton's step, shortened until Psi rises enough, or None if it cannot."""
    strongest = float(np.max(np.abs(state.derivs.d2) * hill.scale**2))
    if not _STRONGEST < strongest < np.inf:
        return _higher(hill, state, 1.0)
    # sites far stronger than at the mode, as at f = 0 of times in seconds: rounding may take the direction
    with suppress(NotPositiveDefiniteError):
        moved = _higher(hill, state, 1.0)
        if moved is not None:
            return moved
    return _higher(hill, state, _STRONGEST / strongest)


def _higher(hill: Hill, state: ModeState, share: float) -> ModeState | None:
    """Return the state after a step by a share of the sites, shortened until Psi rises enough, or None."""
    alpha, f, derivs, _ = state
    here = psi(state)
    # the step from alpha to (I - R K) b, less (I - R K)(W f + alpha) = alpha, which would only add rounding
    residual = derivs.d1 - alpha
    direction, correction = hill.direction(derivs, residual, share)
    kept = correction if share == 1.0 else None  # else it is that of other sites
    rise = hill.times(direction)
    terms = float(np.abs(derivs.value).sum()) + 0.5 * abs(float(np.vdot(alpha, f))) + derivs.value.size

    def at(fraction: float) -> tuple[ModeState, float]:
        there = f + fraction * rise
        trial = ModeState(alpha + fraction * direction, there, hill.log_prob(there), kept)
        return trial, psi(trial) - here

    return first_that_rises(at, float(np.vdot(residual, rise)), terms, SMALLEST_FRACTION)


def refined_mode(problem: Problem, hill: Hill, first: ModeState, info: Info) -> tuple[ModeState, float, Array]:
    """Return weights alpha = grad log p(t|K alpha) that hold as well as they can, and how far the means are off.

    Also what Newton's step would still change the latent values by ``(n,)``. There are no cavities here: the equation
    is that of the mode (`solvers.laplace`), and with a Gaussian likelihood that of the exact posterior.
    """
    matrix, correction, precision = problem.matrix, first.correction, first.correction.site_precision
    with np.errstate(divide="ignore", over="ignore"):
        # what no posterior variance exceeds where all sites are positive, ...
        variance = np.minimum(matrix.diagonal(), 1.0 / np.abs(precision))
    residual = first.derivs.d1 - first.alpha
    own = variance * np.abs(residual)
    is_easy = bool((precision >= 0).all()) and accuracy.in_deviations(own, np.sqrt(variance)) <= NEGLIGIBLE
    # a likelihood may be far narrower than the posterior: latent values are known, too
    is_easy = is_easy and bool((own <= NEGLIGIBLE * np.abs(first.latent)).all())
    if not (is_easy and accuracy.most_rounding_of_weights(matrix, first) <= NEGLIGIBLE):
        # ... and what they are; of one that is lost in rounding, no more is known than that
        variance = np.maximum(correction.covariance_diagonal(), accuracy.EPS * variance)

    def gap(here: ModeState) -> accuracy.Gap:
        residual = here.derivs.d1 - here.alpha
        return accuracy.Gap(variance * residual, residual)

    def moved(here: ModeState, weights: Array) -> ModeState:
        return state_at(hill, weights, here.correction)

    best, error = accuracy.refined(matrix, first, gap, moved, np.sqrt(variance), info, NEGLIGIBLE)
    residual = best.derivs.d1 - best.alpha
    return best, error, (np.zeros_like(residual) if is_easy else matrix @ correction.weights(residual))
