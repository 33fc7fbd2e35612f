r"""Probabilities of new cases by TAP, jointly with the observed cases that tell most of them.

The probability of a class at a new case is a ratio of evidences, :math:`p(t_*=c|t) = Z(t, c)/Z(t)`. An average over
TAP's Gaussian posterior takes the sites of all observed cases as they are without the new label. Here the sites of the
nearest ones are matched anew along with that of the new label, c, and those of all others stay. With
:math:`q(f_1, \dots, f_k, f_*)` the posterior of these cases, and each site with its factor,

.. math:: \frac{Z(t, c)}{Z(t)} = \int q(f) \prod_{i \le k} \frac{\tilde t_i^{\rm new}(f_i)}{\tilde t_i(f_i)}\,
          \tilde t_c(f_*)\, df .

What changes is what the labels of the nearest cases make of their latent values beyond a Gaussian; at an observed input
that is nearly all there is. Against samples of the posterior the largest errors of a probability, of Gaussian averages,
with one case, with four and with sixteen:

======================  ========  =====  =====  =====
largest error           Gaussian  one    four   16
======================  ========  =====  =====  =====
wine, observed inputs   0.026     0.006  0.006  0.006
wine, others            0.009     0.008  0.008  0.006
glass, observed inputs  0.028     0.007  0.007  0.007
glass, others           0.020     0.012  0.011  0.007
======================  ========  =====  =====  =====
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Solution
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.multiclass.correction import DenseClassCorrection, case_covariances, of_class, times_gram
from bayesgp_mf.multiclass.site_form import match
from bayesgp_mf.types import Array

NEAREST = 4
"""Observed cases whose sites are matched anew."""
CANDIDATES = 16
"""Those with the largest prior correlation, of which the nearest are chosen by their posterior covariance."""
UNLIKELY = 1e-4
"""Classes below this probability keep it."""
TOLERANCE = 1e-5
"""Largest change of a probability, which is stationary in the sites, by a sweep over them."""
SWEEPS = 40
_ROUNDING = 1e-9  # of a variance, by which others of the same case may come out below zero
_ENTRIES = 2**20  # of joint covariances, or of rows gathered, held at once


class _Sites(NamedTuple):
    """Sites exp(b'x - x'P x/2) of cases, x their deviation from the posterior means, in C - 1 contrasts."""

    precision: Array  # P (..., q, q)
    shift: Array  # b (..., q)
    log_factor: Array  # (...), of the integral of the likelihood over that of this site, at the cavity


class _Normal(NamedTuple):
    mean: Array  # (b, N q)
    covariance: Array  # (b, N q, N q)


@dataclass(frozen=True, eq=False)
class JointCases:
    """What TAP knows of several classes beyond its Gaussian posterior, from a solution with its cavities."""

    problem: Problem
    solution: Solution
    log_evidence: ClassVar[None] = None

    @property
    def log_density(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        gram = self.problem.dense_gram
        every = self.probabilities(gram, class_gram(self.problem).prior)
        own = np.take_along_axis(every, self.problem.t.astype(np.intp)[:, None], axis=1)[:, 0]
        return np.asarray(np.log(own))

    def probabilities(self, cross: Array, prior: Array) -> Array:
        """Return those of the classes ``(m, C)`` at new cases; rows sum to one.

        ``cross (n, m)`` or ``(C, n, m)`` are prior covariances of observed with new cases, ``prior (m, C)`` the
        variances of these.
        """
        rows = max(1, _ENTRIES // (CANDIDATES * self.problem.n))
        every = (self._of_block(cross[..., some], prior[some]) for some in blocks(prior.shape[0], rows))
        return np.concatenate(list(every))

    def _of_block(self, cross: Array, prior: Array) -> Array:
        mean, covariance = times_gram(self.solution.alpha, cross), case_covariances(self._correction, prior, cross)
        result = cast("ClassLikelihood", self.problem.likelihood).predict_proba(mean, covariance)
        near, between = self._nearest(cross)
        joint = self._joint_covariance(near, between, covariance)
        size = joint.shape[1] * joint.shape[2]
        # a label says nothing of a case whose latent values are known, as at the origin under a linear kernel
        uncertain = np.trace(covariance, axis1=1, axis2=2) > 0
        result[uncertain] = self._bounded(result[uncertain], near[uncertain], mean[uncertain], joint[uncertain])
        for c in range(self.problem.n_classes):
            (likely,) = np.nonzero(uncertain & (result[:, c] > UNLIKELY))
            for some in blocks(likely.size, max(1, _ENTRIES // size**2)):
                j = likely[some]
                result[j, c] = self._revised(result[j, c], c, near[j], mean[j], joint[j])
        return np.asarray(result / np.sum(result, axis=1, keepdims=True))

    @property
    def _correction(self) -> DenseClassCorrection:
        return cast("DenseClassCorrection", self.solution.correction)

    @cached_property
    def _basis(self) -> Array:
        return contrast_basis(self.problem.n_classes)

    @cached_property
    def _own_covariance(self) -> Array:
        return np.asarray(self._basis.T @ self._correction.covariances() @ self._basis)

    @cached_property
    def _latent_mean(self) -> Array:
        return times_gram(self.solution.alpha, self.problem.dense_gram)

    @cached_property
    def _sites(self) -> _Sites:
        """Those of the observed cases in the solution."""
        cavity = cast("Cavity", self.solution.cavity)
        precision = _within(self._basis, self._correction.site.precision)
        shift = self.solution.alpha @ self._basis  # of deviations from the posterior mean
        mean = (cavity.mean - self._latent_mean) @ self._basis
        integral = _log_integral(_within(self._basis, cavity.variance), precision, shift, mean)
        return _Sites(precision, shift, self._log_partition - integral)

    @cached_property
    def _log_partition(self) -> Array:
        """Log Z ``(n,)`` of the observed cases at their cavities."""
        return match(self.problem.likelihood, self.problem.t, *cast("Cavity", self.solution.cavity)).log_partition

    def _nearest(self, cross: Array) -> tuple[NDArray[np.intp], Array]:
        """Return for each new case the observed ones that tell most of it ``(m, k)``, and their covariances with it.

        These are ``(m, k, q, q)``, in contrasts.
        """
        every, n_classes = np.broadcast_to(cross, (self.problem.n_classes, *cross.shape[-2:])), self.problem.n_classes
        explained = np.sum(every**2 / class_gram(self.problem).prior.T[:, :, None], axis=0).T
        candidates = _largest(explained, CANDIDATES)
        between = -self._correction.blocks_between(candidates, cross)
        for c in range(n_classes):
            between[:, :, c, c] += np.take_along_axis(every[c].T, candidates, axis=1)
        between = _within(self._basis, between)
        explained = np.einsum("mkab,mkab->mk", np.linalg.solve(self._own_covariance[candidates], between), between)
        chosen = _largest(explained, NEAREST)
        found = np.take_along_axis(candidates, chosen, axis=1)
        return found, np.take_along_axis(between, chosen[:, :, None, None], axis=1)

    def _joint_covariance(self, near: NDArray[np.intp], between: Array, own: Array) -> Array:
        """Return the posterior covariance ``(m, N, q, N, q)`` of the nearest cases and, last, the new one."""
        (m, k), q = near.shape, self._basis.shape[1]
        among = -self._correction.blocks_among(near)
        for c in range(self.problem.n_classes):
            among[..., c, c] += of_class(self.problem.dense_gram, c)[near[:, :, None], near[:, None, :]]
        result = np.empty((m, k + 1, q, k + 1, q))
        result[:, :k, :, :k] = np.moveaxis(_within(self._basis, among), 2, 3)
        result[:, k, :, k] = _within(self._basis, own)
        result[:, :k, :, k] = between
        result[:, k, :, :k] = np.transpose(between, (0, 3, 1, 2))
        return result

    def _bounded(self, plain: Array, near: NDArray[np.intp], mean: Array, joint: Array) -> Array:
        """Return probabilities ``(m, C)`` that a nearest case leaves next to nothing of as what it leaves.

        At nearly the same input a class other than that of the case needs the difference of both functions to change
        its sign in between. Where it cannot, sites of both labels would be matched to next to nothing.
        """
        bounding, (k, q) = cast("ClassLikelihood", self.problem.likelihood), (near.shape[1], self._basis.shape[1])
        result = plain.copy()
        for i, which in enumerate(near.T):
            # both cases without the site of the observed one
            pair = np.take(np.take(joint, [i, k], axis=1), [i, k], axis=3).reshape(-1, 2 * q, 2 * q)
            precision, column = self._sites.precision[which], pair[:, :, :q]
            right = np.concatenate([precision @ pair[:, :q], self._sites.shift[which][..., None]], axis=2)
            gain = column @ np.linalg.solve(np.eye(q) - precision @ column[:, :q], right)
            spread = (pair + gain[..., :-1]).reshape(-1, 2, q, 2, q)
            centre = np.stack([self._latent_mean[which], mean], axis=1) @ self._basis
            centre -= gain[..., -1].reshape(-1, 2, q)
            own = self.problem.t[which].astype(np.intp)
            for c in range(self.problem.n_classes):
                (other,) = np.nonzero(own != c)
                turn = self._basis[own[other]] - self._basis[c]
                covariance = np.einsum("ra,rjakb,rb->rjk", turn, spread[other], turn)
                most = bounding.opposed_at_most(np.einsum("ra,rja->rj", turn, centre[other]), covariance)
                share = np.exp(self._log_partition[which[other]])
                bounded = most < UNLIKELY * share
                rows = other[bounded]
                result[rows, c] = np.minimum(result[rows, c], most[bounded] / share[bounded])
        return result

    def _revised(self, plain: Array, c: int, near: NDArray[np.intp], mean: Array, joint: Array) -> Array:
        """Return the probability ``(b,)`` of class c from that where observed sites stay.

        These sweeps are no fixed point of `solvers.driver`: sites are put right one after the other, unmixed, and what
        stands still at their end is the probability, which is stationary in them.
        """
        (b, k), q = near.shape, self._basis.shape[1]
        old = _Sites(*(each[near] for each in self._sites))
        codes = np.concatenate([self.problem.t[near], np.full((b, 1), float(c))], axis=1)
        centre = np.concatenate([self._latent_mean[near], mean[:, None]], axis=1)
        sites = _Sites(np.zeros((b, k + 1, q, q)), np.zeros((b, k + 1, q)), np.zeros((b, k + 1)))
        sites.precision[:, :k], sites.shift[:, :k] = old.precision, old.shift
        prior = joint.reshape(b, (k + 1) * q, -1)
        posterior, result = _Normal(np.zeros(prior.shape[:2]), prior.copy()), np.full(b, np.inf)
        settled = np.zeros(b, dtype=bool)
        for sweep in range(SWEEPS):
            for i in (k, *range(k)):  # the others are matched but for what the new label changes
                log_partition = self._match_one(i, codes[:, i], centre[:, i], sites, posterior)
                if i == k and sweep == 0:
                    frozen = log_partition
            change, change_shift = sites.precision.copy(), sites.shift.copy()
            change[:, :k] -= old.precision
            change_shift[:, :k] -= old.shift
            log_ratio = np.sum(sites.log_factor, axis=1) - np.sum(old.log_factor, axis=1) - frozen
            log_ratio += _log_integral(prior, change, change_shift)
            # what has settled stays, so that the probabilities of a case do not depend on those it is predicted with
            before, result = result, np.where(settled, result, plain * np.exp(log_ratio))
            settled = np.abs(result - before) < TOLERANCE
            if np.all(settled):
                return np.asarray(result)
        raise ConvergenceError(
            f"the sites of {k} observed cases and a new one have not settled in {SWEEPS} sweeps. Predict with less "
            "variance of the kernel.",
            Status.MAX_ITERATIONS,
        )

    def _match_one(self, i: int, t: Array, centre: Array, sites: _Sites, posterior: _Normal) -> Array:
        """Match the site of one case of each group, in place with the posterior; return its log Z ``(b,)``."""
        basis, q = self._basis, self._basis.shape[1]
        part = slice(i * q, (i + 1) * q)
        at, own = posterior.mean[:, part], posterior.covariance[:, part, part]
        left = np.eye(q) - own @ sites.precision[:, i]
        residual = at - _times(own, sites.shift[:, i])
        solved = np.linalg.solve(left, np.concatenate([own, residual[..., None]], axis=2))
        covariance, mean = 0.5 * (solved[..., :q] + np.swapaxes(solved[..., :q], 1, 2)), solved[..., q]
        _require_covariances(covariance)
        found = match(self.problem.likelihood, t, centre + mean @ basis.T, basis @ covariance @ basis.T)
        precision, slope = _within(basis, found.site.precision), found.gradient @ basis
        shift = slope + _times(precision, mean + _times(covariance, slope))
        more, further = precision - sites.precision[:, i], shift - sites.shift[:, i]
        # the posterior under the new site, from that under the old one
        residual = (further - _times(more, at))[..., None]
        gain = np.linalg.solve(np.eye(q) + more @ own, np.concatenate([more, residual], axis=2))
        column = posterior.covariance[:, :, part].copy()
        posterior.mean[...] += _times(column, gain[..., q])
        posterior.covariance[...] -= column @ gain[..., :q] @ np.swapaxes(column, 1, 2)
        sites.precision[:, i], sites.shift[:, i] = precision, shift
        sites.log_factor[:, i] = found.log_partition - _log_integral(covariance, precision, shift, mean)
        return found.log_partition


def _within(basis: Array, matrices: Array) -> Array:
    """Return matrices ``(..., C, C)`` in contrasts."""
    return np.asarray(basis.T @ matrices @ basis)


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the product of each matrix ``(b, r, q)`` with its vector ``(b, q)``."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])


def _require_covariances(covariance: Array) -> None:
    lowest = np.linalg.eigvalsh(covariance)[:, 0]
    if not np.all(lowest >= -_ROUNDING * np.trace(covariance, axis1=1, axis2=2)):
        raise NotPositiveDefiniteError(
            "rounding decides: the latent values of a new case, or of an observed one near it, are left without a "
            "positive-definite covariance. Use a kernel of less variance, or standardise the inputs."
        )


def _largest(values: Array, k: int) -> NDArray[np.intp]:
    """Return where the k largest of each row are ``(m, k)``, the largest first."""
    return np.argsort(-values, axis=1, kind="stable")[:, :k]


def _log_integral(covariance: Array, precision: Array, shift: Array, mean: Array | float = 0.0) -> Array:
    """Return the log of the integral ``(b,)`` of exp(b'x - x'P x/2) over N(mean, covariance).

    ``covariance (b, r, r)``; ``precision (b, r, r)`` and ``shift (b, r)``, or blocks ``(b, N, q, q)`` and ``(b, N, q)``
    of a P that is zero elsewhere.
    """
    size = covariance.shape[1]
    if precision.ndim == 4:
        columns = np.swapaxes(covariance.reshape(*covariance.shape[:2], *shift.shape[1:]), 1, 2) @ precision
        spread = np.swapaxes(columns, 1, 2).reshape(covariance.shape)
        pull = shift.reshape(-1, size)
        value = np.zeros(shift.shape[0])
    else:
        at = np.broadcast_to(mean, shift.shape)
        pushed = _times(precision, at)
        spread, pull = covariance @ precision, shift - pushed
        value = np.sum((shift - 0.5 * pushed) * at, axis=1)
    spread[:, range(size), range(size)] += 1.0
    solved = np.linalg.solve(spread, _times(covariance, pull)[..., None])[..., 0]
    return np.asarray(value - 0.5 * np.linalg.slogdet(spread)[1] + 0.5 * np.sum(pull * solved, axis=1))
