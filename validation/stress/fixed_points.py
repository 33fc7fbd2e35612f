r"""TAP's solution in many bits, next to the sites that a solver returned.

Newton's method, with residuals in many bits and the direction in floats: where there are several solutions, the one
found is the one that was meant. Everything is counted in posterior units: a site's precision times the variance of its
case, and its shift, less the precision's part, times the standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from bayesgp_mf.types import Array
from validation.stress.densities import Answer, Density
from validation.stress.digits import Numbers, dot, float_matrix, floats, total
from validation.stress.posterior import (
    NoTruthError,
    Posterior,
    Truth,
    gaussian_rounding,
    log_det,
    posterior,
    site_of,
)

STEPS = 60
SOLVED = 1e-11
"""Largest change by a plain step at the solution, in posterior units; the evidence is off by its square."""
BETTER = 0.95
"""What a step must make of the changes to be taken."""
PARTS = (1.0, 0.5, 0.1)
"""Of a plain step."""


class Changes(NamedTuple):
    """By how much a step changes the sites, in posterior units: two arrays ``(n,)``."""

    precision: Array
    shift: Array

    @property
    def size(self) -> float:
        """The largest."""
        return float(max(np.abs(self.precision).max(), np.abs(self.shift).max()))


class Point(NamedTuple):
    """A posterior, its cavities, what the likelihood answers there and what a plain step would change."""

    posterior: Posterior
    cavity_mean: Numbers
    cavity_variance: Numbers
    answers: list[Answer]
    change: Changes


def tap(gram: arb_mat, t: Numbers, density: Density, precision: Numbers, shift: Numbers) -> Truth:
    """Return TAP's solution from some sites near it."""
    point = _point(gram, t, density, precision, shift)
    for _ in range(STEPS):
        if point.change.size <= SOLVED:
            return _truth(gram, point)
        moved = next((there for there in _steps(gram, t, density, point) if there is not None), None)
        if moved is None:
            break
        point = moved
    raise NoTruthError(f"TAP's equations could not be solved: a step changes sites by {point.change.size:.1e}")


def _steps(gram: arb_mat, t: Numbers, density: Density, point: Point) -> Iterator[Point | None]:
    """Yield what Newton's step leads to, and parts of the plain one; None where that is not nearer."""
    newton = _newton(point)
    if newton is not None:
        yield _moved(gram, t, density, point, newton)
    for part in PARTS:
        yield _moved(gram, t, density, point, Changes(*(part * change for change in point.change)))


def _moved(gram: arb_mat, t: Numbers, density: Density, point: Point, move: Changes) -> Point | None:
    here = point.posterior
    precision, shift = [], []
    for w, b, f, v, dw, du in zip(here.precision, here.shift, here.mean, here.variance, *move, strict=True):
        by_precision = arb(dw) / v if v > 0 else arb(0)
        by_shift = arb(du) / v.sqrt() if v > 0 else arb(0)
        precision.append((w + by_precision).mid())
        shift.append((b + by_shift + f * by_precision).mid())
    try:
        there = _point(gram, t, density, precision, shift)
    except NoTruthError:
        return None
    return there if there.change.size < BETTER * point.change.size else None


def _point(gram: arb_mat, t: Numbers, density: Density, precision: Numbers, shift: Numbers) -> Point:
    here = posterior(gram, precision, shift)
    means, variances, answers, dw, du = [], [], [], [], []
    for w, b, f, v, target in zip(precision, shift, here.mean, here.variance, t, strict=True):
        rest = 1 - w * v
        if not rest > 0 or v < 0:
            raise NoTruthError("a cavity variance is not positive")
        means.append(((f - v * b) / rest).mid())
        variances.append((v / rest).mid())
        answers.append(density(target, means[-1], variances[-1]))
        new_w, new_b = site_of(means[-1], variances[-1], answers[-1])
        dw.append(float((new_w - w) * v))
        du.append(float((new_b - b - f * (new_w - w)) * v.sqrt()))
    change = Changes(np.array(dw), np.array(du))
    if not np.isfinite(change.size):
        raise NoTruthError("sites overflow")
    return Point(here, means, variances, answers, change)


def _newton(point: Point) -> Changes | None:
    """Return Newton's step by the derivatives of a plain one; `bayesgp_mf.solvers.newton` has the formulas."""
    here, answers, change = point.posterior, point.answers, point.change
    variance = floats(here.variance)
    one = np.eye(variance.size)
    sd = np.where(variance > 0, np.sqrt(np.maximum(variance, 0.0)), 1.0)  # a value that is certain has no covariances
    with np.errstate(all="ignore"):
        correlation = float_matrix(here.covariance) / sd[:, None] / sd
        gamma = floats(s / v if v > 0 else arb(1) for s, v in zip(point.cavity_variance, here.variance, strict=True))
        gain = floats(1 / (1 + s * a.d2) for s, a in zip(point.cavity_variance, answers, strict=True))
        d1, d3, d4 = (
            floats(v ** (arb(k) / 2) * a for v, a in zip(here.variance, each, strict=True))
            for k, each in ((1, [a.d1 for a in answers]), (3, [a.d3 for a in answers]), (4, [a.d4 for a in answers]))
        )
        alpha = floats(a * v.sqrt() for a, v in zip(here.alpha, here.variance, strict=True))
        variance_by_w = -(gamma**2)[:, None] * (correlation**2 - one)
        u_by_w = 0.5 * (gain * d3)[:, None] * variance_by_w
        mean_by_u = gamma[:, None] * (correlation - one)
        mean_by_w = mean_by_u @ u_by_w - alpha[:, None] * variance_by_w
        w_by_w = -(gain**2)[:, None] * (d3[:, None] * mean_by_w + (0.5 * d4 + d1 * d3)[:, None] * variance_by_w)
        right = change.precision - gain**2 * d3 * (mean_by_u @ change.shift)
        if not (np.isfinite(w_by_w).all() and np.isfinite(right).all()):
            return None
        try:
            dw = np.linalg.solve(one - w_by_w, right)
        except np.linalg.LinAlgError:
            return None
        move = Changes(dw, change.shift + u_by_w @ dw)
    return move if np.isfinite(move.size) else None


def _truth(gram: arb_mat, point: Point) -> Truth:
    here, variances = point.posterior, point.cavity_variance
    evidence = total(answer.value for answer in point.answers) - dot(here.alpha, here.mean) / 2
    evidence += total(s * a * a for s, a in zip(variances, here.alpha, strict=True)) / 2
    evidence -= log_det(gram, here.precision) / 2
    evidence += total((1 + w * s).log() for w, s in zip(here.precision, variances, strict=True)) / 2
    rounding = gaussian_rounding(gram, here)
    return Truth(here.mean, here.variance, evidence.mid(), rounding, point.cavity_mean, variances)
