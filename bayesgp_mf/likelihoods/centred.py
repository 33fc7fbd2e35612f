r"""Likelihoods of one mode averaged over Gaussians by a trapezoidal rule about the mode, which checks itself.

The tilted density p(t|f) N(f | m, v) of a log-concave likelihood has one mode, and falls off about it at least as fast
as the Gaussian does. Newton's method within a bracket finds the mode, and where the density has fallen by 42 nats on
either side; between these ends the trapezoidal rule converges geometrically, since the densities are
analytic. It is made of two rules of half its points each, one between the points of the other. Where these two
agree to 1e-8, in the mass, the second moments and the averages of the derivatives of log p, each relative to itself,
their mean is right to rounding; where they do not there are more points, and in the end the integral is
left to `Quadrature`.

Where the likelihood is not log-concave, but has one mode, the tilted density may have two, between this mode and the
Gaussian's mean. Beyond both it falls as before, so that the ends are looked for there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.likelihoods.base import Likelihood, check_gaussian_variance
from bayesgp_mf.likelihoods.moments import average, by_more_points, halves_agree, midpoints, standardised_cumulants
from bayesgp_mf.likelihoods.quadrature import Quadrature
from bayesgp_mf.types import Array, Derivs

Curve: TypeAlias = Callable[[Any, Array], Derivs]
"""``curve(rows, f)`` is log p(t|f) with two derivatives, for the cases named by an index array that broadcasts to f."""
Bracket: TypeAlias = Callable[[Any, Array, Array], tuple[Array, Array]]
"""``bracket(rows, mean, variance)`` has the mode of each tilted density between its two answers.

Where log p is not concave, the mean and all modes: they are between it and the mode of log p, and no farther than the
steepest slope of log p takes them. Infinite where that is not known.
"""
_DROP = 42.0  # nats below the mode: exp(-42) is 1/1000 of rounding
# about a Gaussian, halves of 16 points agree to 1e-7, and of 24 to rounding
_POINTS = (64, 128, 256, 512, 1024, 4096, 8192)
_ENTRIES = 2**13  # held at once, so that a handful of such arrays stay in the cache
_AIM, _FAR = 48.0, 60.0  # nats at which an end is looked for, and above which it is farther than need be
_STEPS = 40


class Cases(NamedTuple):
    """Numbers of cases, Gaussians ``(k,)`` of variance above zero, and brackets of the modes of tilted densities."""

    rows: NDArray[np.intp]
    mean: Array
    variance: Array
    lower: Array
    upper: Array

    def take(self, which: Any) -> Cases:
        """Return some of the cases."""
        return Cases(*(part[which] for part in self))


class _Nodes(NamedTuple):
    """Distances from the means, normalised weights ``(k, points)``, log integrals ``(k,)`` and log p at the nodes."""

    distance: Array
    weight: Array
    log_integral: Array
    log_prob: Derivs

    def take(self, which: Any) -> _Nodes:
        """Return those of some cases."""
        log_prob = Derivs(*(part[which] for part in self.log_prob))
        return _Nodes(self.distance[which], self.weight[which], self.log_integral[which], log_prob)


class Centred(Likelihood):
    """A likelihood whose averages are those of this module. `_of_targets` says what is averaged."""

    __slots__ = ()
    forbids: ClassVar[bool] = False

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean.

        With averages under the tilted density and :math:`l = \log p(t|f)` they are :math:`\langle l' \rangle` and
        :math:`\langle l'' \rangle + \mathrm{Var}(l')`; or, where the target says more than the Gaussian does,
        :math:`(\langle f \rangle - m)/v` and :math:`(\mathrm{Var}(f) - v)/v^2`, which keep their digits there. At
        variance 0 it is `log_prob`. For other variances it is a rule that checks itself, good to some 1e-13.
        """
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        curve, bracket = self._of_targets(t)

        def adaptively(rule: Quadrature, numbers: Array, mean: Array, variance: Array) -> Array:
            if self.is_flat:  # it has no slopes to average, and moments alone
                return replace(rule, step=np.finfo(np.float64).tiny).partition(numbers, mean, variance)
            return rule.partition(numbers, mean, variance, lambda i, f: curve(i.astype(np.intp)[:, None], f))

        return Derivs(*_integrals(self, curve, mean, variance, bracket, 3, curve, _derivatives, adaptively))

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does, for variances ``(n,)`` above zero, by the nodes of log Z."""
        curve, bracket = self._of_targets(t)

        def by_nodes(_: Cases, nodes: _Nodes) -> Array:
            return standardised_cumulants(nodes.weight, nodes.distance, order)

        def adaptively(rule: Quadrature, numbers: Array, mean: Array, variance: Array) -> Array:
            return rule.tilted_cumulants(numbers, mean, variance, order)

        return _integrals(
            self, curve, mean, variance, bracket, order - 2, lambda _, f: np.zeros_like(f), by_nodes, adaptively
        )

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return what `Likelihood.tilted_share` does, for variances ``(n,)`` above zero, by the nodes of log Z."""
        curve, bracket = self._of_targets(t)

        def left(some: Cases, nodes: _Nodes) -> Array:
            offset = nodes.distance - average(nodes.weight, nodes.distance)[:, None]
            return average(nodes.weight, offset**2) / some.variance

        adaptively = Quadrature.tilted_share
        found = _integrals(self, curve, mean, variance, bracket, 1, lambda _, f: np.ones_like(f), left, adaptively)
        return found.reshape(mean.shape)

    def mode_bracket(self, t: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return bounds ``(n,)`` between which p(t|f) N(f | mean, variance) is largest."""
        return self._of_targets(t)[1](slice(None), mean, variance)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the derivative of `log_partition` in a parameter, and its two derivatives in mean.

        With :math:`g = \partial_\theta \log p(t|f)`, and averages, covariances and the third joint cumulant under the
        tilted density, they are

        .. math::
            \langle g \rangle, \quad \langle g' \rangle + \mathrm{Cov}(g, l'), \quad \langle g'' \rangle
            + 2 \mathrm{Cov}(g', l') + \mathrm{Cov}(g, l'') + \kappa(g, l', l'),

        and, where the target says more than the Gaussian does, :math:`\mathrm{Cov}(g, f)/v` and
        :math:`\kappa(g, f, f)/v^2`. At variance 0 they are those of g.
        """
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        (curve, bracket), slope = self._of_targets(t), self._slope_of_targets(name, t)
        centre, sd = mean.ravel(), np.sqrt(variance.ravel())

        def by_nodes(some: Cases, nodes: _Nodes) -> ArrayLike:
            return _parameter_derivatives(nodes, slope(some.rows[:, None], some.mean[:, None] + nodes.distance), some)

        def adaptively(rule: Quadrature, numbers: Array, mean: Array, variance: Array) -> ArrayLike:
            def averaged(power: int, *, of_value: bool) -> Array:
                def values(which: Array, f: Array) -> Array:
                    rows = which.astype(np.intp)[:, None]
                    unit = ((f - centre[rows]) / sd[rows]) ** power
                    return np.asarray(slope(rows, f).value * unit if of_value else unit)

                return rule.tilted_average(numbers, mean, variance, values)

            g, g1, g2 = (averaged(power, of_value=True) for power in range(3))
            u1, u2 = (averaged(power, of_value=False) for power in (1, 2))
            once = g1 - g * u1
            return g, once / np.sqrt(variance), (g2 - g * u2 - 2.0 * u1 * once) / variance

        return Derivs(*_integrals(self, curve, mean, variance, bracket, 3, slope, by_nodes, adaptively))

    @abstractmethod
    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        """Return log p and brackets of modes for targets, whose cases are numbered along the flattened shape."""

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        """Return the derivative of log p in a parameter for such targets."""
        raise NotImplementedError(f"{type(self).__name__} has no parameter {name!r}.")


def _integrals(
    likelihood: Likelihood,
    curve: Curve,
    mean: Array,
    variance: Array,
    bracket: Bracket,
    count: int,
    certain: Callable[[Any, Array], ArrayLike],
    by_nodes: Callable[[Cases, _Nodes], ArrayLike],
    adaptively: Callable[[Quadrature, Array, Array, Array], ArrayLike],
) -> Array:
    """Return ``count`` numbers of each case, ``(count, ...)``: at variance zero, by nodes, and where none settled.

    What is adaptive is asked for numbers of cases as targets, means and variances. So are cases without a bracket.
    """
    check_gaussian_variance(variance)
    centre, spread = mean.ravel(), variance.ravel()
    answer = np.empty((count, centre.size))
    (rows,) = np.nonzero(spread == 0)
    if rows.size:
        answer[:, rows] = certain(rows, centre[rows])
    (rows,) = np.nonzero(spread > 0)
    if rows.size:
        cases = Cases(rows, centre[rows], spread[rows], *bracket(rows, centre[rows], spread[rows]))
        (known,), left = np.nonzero(np.isfinite(cases.lower) & np.isfinite(cases.upper)), np.ones(rows.size, dtype=bool)
        if known.size:
            cases = cases.take(known)
            ends = _ends(curve, cases, concave=likelihood.log_concave)

            def rule(some: NDArray[np.intp], points: int) -> tuple[_Nodes, NDArray[np.bool_]]:
                return _rule(curve, cases.take(some), tuple(end[some] for end in ends), points)

            for some, nodes in by_more_points(known.size, _POINTS, _ENTRIES, rule):
                answer[:, cases.rows[some]] = by_nodes(cases.take(some), nodes)
                left[known[some]] = False
        rest = rows[left]
        if rest.size:
            quadrature = Quadrature(lambda i, f: curve(i.astype(np.intp), f).value, targets="real")
            answer[:, rest] = adaptively(quadrature, rest.astype(np.float64), centre[rest], spread[rest])
    return answer.reshape(count, *mean.shape)


def _ends(curve: Curve, cases: Cases, *, concave: bool) -> tuple[Array, Array, Array, Array]:
    """Return the modes as distances from the means, those of both ends from the modes, and the log densities there.

    Where the log density has fallen by d it is a power of the distance from the mode, of an exponent that changes
    slowly: Newton's method on its logarithm against that of the distance, within a bracket, starts where the curvature
    at the mode says.
    """
    start = _modes(curve, cases)
    with np.errstate(over="ignore", invalid="ignore"):
        value, _, bend = curve(cases.rows, cases.mean + start)
        peak = np.asarray(value - 0.5 * start**2 / cases.variance)
        first = np.sqrt(2.0 * _AIM / (1.0 / cases.variance + np.abs(bend)))
    n, farthest = start.size, np.sqrt(2.0 * _AIM * cases.variance)  # it falls off as the Gaussian does
    both = cases.take(np.tile(np.arange(n), 2))  # the left ends and the right ones at once
    centre, top, far, reach = (np.tile(each, 2) for each in (start, peak, farthest, np.fmin(first, farthest)))
    side, near, there = np.repeat([-1.0, 1.0], n), np.zeros(2 * n), np.zeros(2 * n, dtype=bool)
    if not concave:
        between = cases.mean + start
        near = np.concatenate([between - cases.lower, cases.upper - between])
        far, reach = near + far, near + reach
    for _ in range(_STEPS):
        distance = centre + side * reach
        with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is compared
            value, d1, _ = curve(both.rows, both.mean + distance)
            drop = top - value + 0.5 * distance**2 / both.variance
            slope = side * (distance / both.variance - d1)
            newton = reach * np.exp(-np.log(drop / _AIM) * drop / (reach * slope))
        beyond = ~(drop < _DROP)  # minus infinity too
        near, far = np.where(beyond, near, reach), np.where(beyond, reach, far)
        there |= beyond & (drop < _FAR) | (far <= 1.05 * near)
        if there.all():
            break
        inside = (near < newton) & (newton < far)
        reach = np.where(inside, newton, np.where(near > 0, np.sqrt(near) * np.sqrt(far), far / 8.0))
    left, right = np.split(far, 2)
    return start, left, right, peak


def _modes(curve: Curve, cases: Cases) -> Array:
    """Return the modes as distances from the means, to a third of the width: they need only be near."""
    low, high = cases.lower - cases.mean, cases.upper - cases.mean
    start, before = np.clip(0.0, low, high), high - low
    todo = np.ones(start.size, dtype=bool)
    while todo.any():
        with np.errstate(over="ignore", invalid="ignore"):
            _, d1, d2 = curve(cases.rows, cases.mean + start)
            slope, bend = d1 - start / cases.variance, 1.0 / cases.variance - d2
            step = slope / bend
            there = (np.abs(step) * np.sqrt(bend) < 0.3) | (high - low <= 1e-15 * (np.abs(low) + np.abs(high)))
            there |= ~np.isfinite(start)  # nothing is near what is no number
        low, high = np.where(slope > 0, start, low), np.where(slope > 0, high, start)
        newton = start + step
        poor = ~((newton > low) & (newton < high) & (np.abs(step) < 0.5 * before))
        new = np.where(poor, 0.5 * (low + high), newton)
        todo &= ~there
        before = np.abs(new - start)
        start = np.where(todo, new, start)
    return np.asarray(start)


def _rule(curve: Curve, cases: Cases, ends: tuple[Array, ...], points: int) -> tuple[_Nodes, NDArray[np.bool_]]:
    """Return the nodes of the rule of so many points where its halves agree, and where they do ``(k,)``."""
    start, left, right, peak = ends
    begin, width = start - left, left + right
    step = width / points
    along = step[:, None] * midpoints(points)
    distance = begin[:, None] + along
    with np.errstate(over="ignore", invalid="ignore"):
        log_prob = curve(cases.rows[:, None], cases.mean[:, None] + distance)
        log_density = log_prob.value - distance * distance * (0.5 / cases.variance)[:, None]
        weight = np.exp(np.minimum(log_density - peak[:, None], _DROP))  # more is rounding, which does not settle
    heavy = weight > 0
    if not heavy.all():  # where the weight is nothing a derivative may be infinite
        log_prob = Derivs(log_prob.value, *(np.where(heavy, part, 0.0) for part in log_prob[1:]))
    # what the target says may be little beside the mass, and is looked at for itself
    back = width[:, None] - along
    settled = halves_agree(weight, (np.ones_like(along), along * along, back * back, log_prob.d1, log_prob.d2))
    mass = np.sum(weight, axis=1)
    settled &= mass > 0  # else all of it is between nodes
    mass = np.where(settled, mass, 1.0)
    log_integral = peak + np.log(mass * step) - 0.5 * np.log(2.0 * np.pi * cases.variance)
    return _Nodes(distance, weight / mass[:, None], log_integral, log_prob).take(settled), settled


def _derivatives(cases: Cases, nodes: _Nodes) -> tuple[Array, Array, Array]:
    """Return log Z and its two derivatives in the mean, ``(k,)`` each."""
    weight, distance, (_, slope, bend), variance = nodes.weight, nodes.distance, nodes.log_prob, cases.variance
    d1, bent = average(weight, slope), average(weight, bend)
    d2 = bent + average(weight, (slope - d1[:, None]) ** 2)
    offset = average(weight, distance)
    tilted = average(weight, (distance - offset[:, None]) ** 2)
    much = -bent * variance > 1.0
    return (
        nodes.log_integral,
        np.where(much, offset / variance, d1),
        np.where(much, (tilted - variance) / variance / variance, d2),
    )


def _parameter_derivatives(nodes: _Nodes, g: Derivs, cases: Cases) -> tuple[Array, Array, Array]:
    """Return the derivative of log Z in a parameter, and its two derivatives in the mean, ``(k,)`` each."""
    weight, variance = nodes.weight, cases.variance
    heavy = weight > 0  # where the weight is nothing a derivative may be infinite
    value, slope, bend, l1, l2 = (np.where(heavy, part, 0.0) for part in (*g, *nodes.log_prob[1:]))

    def centred(values: Array) -> Array:
        return np.asarray(values - average(weight, values)[:, None])

    about, along, across = centred(value), centred(l1), centred(nodes.distance)
    d1 = average(weight, slope + about * along)
    d2 = average(weight, bend + 2.0 * centred(slope) * along + about * (centred(l2) + along**2))
    much = -average(weight, l2) * variance > 1.0
    with np.errstate(over="ignore"):
        by_distance = average(weight, about * across) / variance
        twice = average(weight, about * across**2) / variance / variance
    # the third joint cumulant of centred values is their third moment
    return average(weight, value), np.where(much, by_distance, d1), np.where(much, twice, d2)
