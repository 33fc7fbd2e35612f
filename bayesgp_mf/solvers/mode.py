r"""The mode of a posterior by Newton's steps, for one latent value of a case or for one of each class.

It maximises, over f = K alpha,

.. math:: \Psi = \sum_i \log p(t_i|f_i) - \tfrac12 \alpha^T K \alpha .

With W = -d^2 log p / df^2 and R = (K + W^{-1})^{-1}, Newton's step from alpha to (I - R K) b, b = W f + grad log p, is
computed as the difference :math:`(I - R K)(\nabla \log p(t|f) - \alpha)`. It goes uphill, so that a line search along
it makes the iteration converge from anywhere if p is log-concave in f.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import Status
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.matrices.corrections import Sites
from bayesgp_mf.solvers.ascent import SMALLEST_FRACTION, climb, first_that_rises
from bayesgp_mf.solvers.refinement import coarseness
from bayesgp_mf.types import Array, Derivs

_SETTLED = 1e-7
"""In nats: the log determinant stands still if the last step changed it by no more; the next one squares that ..."""
_DRIFT = 1e-8
"""... and by no more may the sites at latent values that were carried along differ from those at K alpha.

Both are meant for the default tolerance; with a coarser one they grow in proportion."""
_ROUNDS = 4


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
