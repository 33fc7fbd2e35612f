"""TAP's equations of many small changes to one problem that is solved, all at once: where the sites come to rest.

What a label, or a known latent value, does to the posterior is known exactly once the sites are, by a `Change`; this
moves the sites until they match the likelihood again, from where they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.cumulants import tilted_cumulants
from bayesgp_mf.solvers.sites import site_of_cavity
from bayesgp_mf.types import Array

NEAR = 1.0
"""Change of a site, in standard deviations of its latent value, below which the better direction is asked for."""
LEAST_PART = 0.1
"""Part of that for which precisions must leave room, else a part of a plain step is taken."""
SHORTER = 0.4
"""Part of a step that is tried next when what is left to change did not fall ..."""
MOST_TRIES = 4
"""... which is done so often."""

Question = Callable[[Likelihood, Array, Array, Array], Array]
Evaluate = Callable[[NDArray[np.intp], Array, Array, Question], Array]
"""Asks the likelihood of the cases of some problems, of cavities ``(B, k)``: ``(..., B, k)``."""


def ask_partition(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    """Return log Z and its first two derivatives in the mean."""
    return np.array(likelihood.log_partition(t, mean, variance))


def ask_cumulants(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    """Return the tilted skewness and excess kurtosis."""
    return tilted_cumulants(likelihood, t, mean, variance, 4)


class Change(Protocol):
    """B changes of one solution, each with k sites that may answer to it."""

    tolerance: float
    """Change of a site, in standard deviations of its latent value, below which it is settled."""
    most_steps: int
    """Steps after which those that are not are given up."""

    def evaluate(self, some: NDArray[np.intp], mean: Array, variance: Array, ask: Question) -> Array:
        """Ask the likelihood of the cases of some of the changes."""

    def after(self, some: NDArray[np.intp], precision: Array, shift: Array) -> Any:
        """Return the `Gaussians` of some changes under sites ``(b, k)``."""

    def direction(
        self, now: Gaussians, some: NDArray[np.intp], derivs: Array, plain: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return a better step than the plain one, of some of the Gaussians."""

    def write(self, now: Any, numbers: NDArray[np.intp], some: NDArray[np.bool_], derivs: Array) -> None:
        """Keep what some of the Gaussians came to, under the numbers of their changes."""


class Gaussians(NamedTuple):
    """Gaussian posteriors ``(b, k)`` under given sites, and the cavities of these."""

    precision: Array
    shift: Array
    mean: Array
    variance: Array
    valid: NDArray[np.bool_]
    cavity: Array
    cavity_mean: Array
    details: Any
    """What the change that made it knows of it."""

    @property
    def alpha(self) -> Array:
        """Shift less precision times mean."""
        return self.shift - self.precision * self.mean

    def plain_step(self, derivs: Array) -> tuple[Array, Array]:
        """Return the changes of the sites to those that match the likelihood."""
        precision, shift = site_of_cavity(self.cavity_mean, derivs[1], derivs[2], self.cavity)
        return precision - self.precision, shift - self.shift

    def largest_change(self, step: tuple[Array, Array]) -> Array:
        """Return the largest change ``(b,)`` that a step makes, in standard deviations."""
        dw, db = step
        by_mean = np.abs(db - self.mean * dw) * np.sqrt(self.variance)
        return np.asarray(np.max(np.maximum(np.abs(dw) * self.variance, by_mean), axis=1, initial=0.0))

    def part(self, some: NDArray[np.intp], dw: Array) -> Array:
        """Return how much of a step may be taken: no precision loses more than nine tenths of what it has."""
        precision = self.precision[some]
        with np.errstate(over="ignore"):  # of a precision that is nearly none: no step is taken then
            ratio = np.where(precision > 0, -dw, 0.0) / np.where(precision > 0, precision, 1.0)
        return np.asarray(np.minimum(1.0, 0.9 / np.maximum(np.max(ratio, axis=1, initial=0.0), 0.1)))


def gaussians(
    precision: Array, shift: Array, mean: Array, variance: Array, valid: NDArray[np.bool_], details: Any
) -> Gaussians:
    """Return posteriors with their cavities; those that are none have cavities with mean zero and variance one."""
    left = 1.0 - precision * variance
    valid = valid & np.all((left > 0) & (variance > 0) & np.isfinite(variance) & np.isfinite(mean), axis=1)
    with np.errstate(all="ignore"):
        cavity = np.where(valid[:, None], variance / left, 1.0)
        cavity_mean = np.where(valid[:, None], mean - cavity * (shift - precision * mean), 0.0)
    return Gaussians(precision, shift, mean, variance, valid, cavity, cavity_mean, details)


def settle(change: Change, precision: Array, shift: Array) -> NDArray[np.bool_]:
    """Move the sites ``(B, k)`` of each change, from where they are, to where they match the likelihood.

    Returns
    -------
    (B,) bool array
        Where they do, to the tolerance. What all came to is written into ``change``, if it came to a posterior.
    """
    precision, shift = precision.copy(), shift.copy()
    count = precision.shape[0]
    settled = np.zeros(count, dtype=bool)
    best, tries, length = np.full(count, np.inf), np.zeros(count, dtype=int), np.ones(count)
    # sites, the direction that was taken from them, and the plain step
    there = tuple(np.zeros_like(precision) for _ in range(6))
    active = np.arange(count)
    for step in range(change.most_steps):
        with np.errstate(all="ignore"):  # a state that is none is stepped back from
            now = change.after(active, precision[active], shift[active])
            derivs = change.evaluate(active, now.cavity_mean, now.cavity, ask_partition)
            plain = now.plain_step(derivs)
            off = np.where(now.valid, now.largest_change(plain), np.inf)
        worse = ~(off < best[active])
        finished = ~worse & (off < change.tolerance)
        if step == change.most_steps - 1:
            finished = now.valid
        if finished.any():
            settled[active[finished]] = off[finished] < change.tolerance
            change.write(now, active[finished], finished, derivs)
        i, j = active[~worse], np.flatnonzero(~worse)
        best[i], tries[i], length[i] = off[j], 0, 1.0
        for kept, given in zip(there, (now.precision, now.shift, *plain, *plain), strict=True):
            kept[i] = given[j]
        near = np.flatnonzero(~worse & ~finished & (off < NEAR))
        if near.size:
            dw, db = change.direction(now, near, derivs, plain)
            part = now.part(near, dw)
            far = part > LEAST_PART
            i = active[near[far]]
            there[2][i], there[3][i], length[i] = dw[far], db[far], part[far]
            length[active[near[~far]]] = SHORTER
        i = active[worse]
        tries[i] += 1
        length[i] *= SHORTER
        i = active[tries[active] > MOST_TRIES]  # the direction leads nowhere: some plain steps, whatever comes of them
        for kept, given in zip(there[2:4], there[4:], strict=True):
            kept[i] = given[i]
        best[i], tries[i], length[i] = np.inf, 0, SHORTER
        for kept, at, move in zip((precision, shift), there[:2], there[2:4], strict=True):
            kept[active] = at[active] + length[active][:, None] * move[active]
        active = active[~finished]
        if not active.size:
            break
    return settled


def log_site(precision: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """Return the log of the integral of exp(b f - W f^2 / 2) over cavities."""
    grown = 1.0 + precision * variance
    return np.asarray(
        (2.0 * mean * shift + variance * shift**2 - precision * mean**2) / (2.0 * grown) - 0.5 * np.log(grown)
    )


def cube(x: Array) -> Array:
    """Return x^3."""
    return np.asarray(x * x * x)  # a power takes ten times as long


def sum_over_pairs(skewness: Array, covariance: Array, itself: Array) -> Array:
    """Return the correction's third order ``(B,)``: all pairs of skewness over cubed deviations, less a case's own."""
    terms = np.einsum("bi,bij,bj->b", skewness, cube(covariance), skewness, optimize=True)
    return np.asarray((terms - itself) / 12.0)
