r"""TAP, or expectation propagation, for several classes under a softmax.

The equations are those of two classes (2000, eqs. 19, 26, 28, 29; `solvers.meanfield`) with C - 1 numbers in place of
one, the contrasts of the C latent values of a case, since a constant added to all of them changes nothing:

.. math:: \alpha_i = \nabla_{m_i} \log Z_i(m_i, V_i), \qquad m = K \alpha - V \alpha,

where :math:`Z_i = \int \pi_{t_i}(f)\, N(f|m_i, V_i)\, df`. The site of a case is what the softmax adds to the
precision of its cavity, and V_i is what the others leave of the prior,

.. math:: W_i = (V_i + V_i \nabla^2 \log Z_i\, V_i)^{-1} - V_i^{-1}, \qquad V_i = (\Sigma_i^{-1} - W_i)^{-1},

with Sigma_i the posterior covariance of its contrasts. The integrals have C - 1 dimensions, and
`likelihoods.softmax_tilted` says how they are done. W_i is any positive semi-definite matrix: nothing is factorised
beyond the approximation itself. It takes matrices of (C - 1) n rows; `star_tap` has sites of C numbers, whose solution
differs very little, and is the registered method.

The state is a symmetric root S of W, and b. Every such state is a proper posterior, so that steps can be mixed freely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, ClassLeaveOneOut, Control, Evidence, Info, Solution
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.softmax_tilted import (
    Tilted,
    check_number_of_classes,
    points_for,
    tilted,
)
from bayesgp_mf.matrices.memory import available_bytes
from bayesgp_mf.multiclass.class_gram import without_own_site
from bayesgp_mf.multiclass.correction import case_covariances, prior_variance, times_gram
from bayesgp_mf.multiclass.star_tap import (
    cavity_predictions,
    check_variances,
    rough_then_fine,
)
from bayesgp_mf.solvers.driver import fixed_point, require_solved
from bayesgp_mf.types import Array
from tests.multiclass.block_correction import BlockCorrection

DAMPING = 0.5
"""Part of a step that is taken."""

PEAK = 5
"""Matrices of (C - 1) n rows alive at once."""


class State(NamedTuple):
    """What the next step needs: the site of each case, in C - 1 orthonormal contrasts h of its latent values.

    Attributes
    ----------
    root : (n, C - 1, C - 1) array
        S, symmetric; the site is exp(b'h - h'SSh/2). In latent units to the power -1.
    shift : (n, C - 1) array
        b, in latent units to the power -1.
    """

    root: Array
    shift: Array


class Posterior(NamedTuple):
    """The Gaussian posterior of a state; means and covariances are those of contrasts.

    Attributes
    ----------
    alpha : (n, C - 1) array
        Weights.
    correction : BlockCorrection
        R.
    mean, covariance : (n, C - 1), (n, C - 1, C - 1) array
        Cavities m and V.
    site_term : float
        B of `MulticlassTap.finish`, in nats.
    """

    alpha: Array
    correction: BlockCorrection
    mean: Array
    covariance: Array
    site_term: float


@dataclass(frozen=True, slots=True)
class MulticlassTap:
    """TAP for several classes.

    Parameters
    ----------
    name : str
        The name users call it by.
    points : int, optional
        Nodes for each of C - 2 variables of a case's integral (`likelihoods.softmax_tilted`).

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> problem = bgp.Problem(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([0.0, 2.0]), bgp.Softmax(("a", "b", "c")))
    >>> multiclass_tap.solve(problem).alpha.round(4)
    array([[ 0.4914, -0.201 , -0.2905],
           [-0.2905, -0.201 ,  0.4914]])
    """

    name: str = "tap"
    points: int | None = None

    def init(self, problem: Problem) -> State:
        """Return the state before any data: sites that say nothing."""
        size = problem.n_classes - 1
        return State(np.zeros((problem.n, size, size)), np.zeros((problem.n, size)))

    def step(self, problem: Problem, state: State) -> State:
        """Return the next state: the sites that match the softmax at the cavities of this one."""
        return _step(problem, state, self._points(problem))

    def finish(self, problem: Problem, state: State, info: Info) -> Solution:
        r"""Return the solution at a state: weights, correction, cavities and the evidence.

        The log evidence is that of expectation propagation,

        .. math:: \sum_i \log Z_i(m_i, V_i) - \tfrac12 \sum_c \alpha_c^T K_c \alpha_c
                  + \tfrac12 \sum_i \alpha_i^T V_i \alpha_i - B, \quad
                  B = \tfrac12 \log\det(I + K W) - \tfrac12 \sum_i \log\det(I + V_i W_i).
        """
        posterior = _posterior(problem, state)
        found = tilted(problem.t, posterior.mean, posterior.covariance, self._points(problem))
        basis = contrast_basis(problem.n_classes)
        alpha = posterior.alpha @ basis.T
        value = float(np.sum(found.log_partition)) - 0.5 * float(np.sum(alpha * times_gram(alpha, problem.dense_gram)))
        value += 0.5 * float(np.einsum("ia,iab,ib->", posterior.alpha, posterior.covariance, posterior.alpha))
        value -= posterior.site_term
        mean, covariance = cavities(problem, posterior.correction, alpha)
        return Solution(self.name, alpha, posterior.correction, Evidence(value, "ep"), Cavity(mean, covariance), info)

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Solve the equations of a problem.

        Parameters
        ----------
        problem : Problem
            Gram matrix ``(n, n)`` or ``(C, n, n)``, codes ``(n,)``, softmax likelihood.
        control : Control
            Tolerance, largest number of steps, and whether to raise if they were not enough.
        start : Solution, optional
            Warm start by this method with the same n and C; the default starts from the prior.

        Returns
        -------
        Solution
            With ``alpha (n, C)``, cavities ``(n, C)`` and ``(n, C, C)``, and ``info.status``.

        Raises
        ------
        ConvergenceError
            If ``control.throw`` and the equations were not solved.
        MemoryError
            If this machine cannot hold some five matrices of (C - 1) n rows.
        NotPositiveDefiniteError
            If a case has no prior variance, or its integral is too coarse.
        ValueError
            If there are more than ten classes, or ``start`` has another number of cases or classes, or
            is of another method.

        Notes
        -----
        O((C - 1)^3 n^3) for each step, and for each case an integral with q^(C - 2) nodes.
        """
        control.check_scheme(self.name)
        check_number_of_classes(problem.n_classes)
        check_class_memory(problem.n, problem.n_classes)
        check_variances(problem)
        if start is None:
            first = self.init(problem)
        else:
            start.check_start(problem.n, problem.n_classes)
            first = _sites_of(problem, start)
        iterate, points = partial(_iterate, problem), self._points(problem)
        state, info = (
            rough_then_fine(iterate, first, control, points) if start is None else iterate(first, control, points)
        )
        require_solved(self.name, problem, info, control)
        return self.finish(problem, state, info)

    def gram_gradient(self, problem: Problem, solution: Solution) -> Array:
        """Return the derivative of the log evidence with respect to the Gram matrix, or to that of each class.

        ``(n, n)``, summed over the classes, where they share a kernel, and ``(C, n, n)`` where they do not; symmetric.
        It is (alpha_c alpha_c' - R_cc)/2 for class c: the evidence is stationary in the sites, up to the error of the
        integrals.
        """
        return _blocks_of(solution).gradient(0.5 * solution.alpha, solution.alpha)

    def leave_one_out(self, problem: Problem, solution: Solution) -> ClassLeaveOneOut:
        """Return the leave-one-out predictions: the cavities are what the other cases say."""
        # a solution that was read from a file has its sites, from which they follow
        cavity = solution.cavity or Cavity(*cavities(problem, _blocks_of(solution), solution.alpha))
        return cavity_predictions(problem, cavity, self._points(problem))

    def _points(self, problem: Problem) -> int:
        return points_for(problem.n_classes) if self.points is None else self.points


def check_class_memory(n: int, n_classes: int) -> None:
    """Raise a MemoryError if TAP's matrices of ``n`` cases and some classes would not fit into this machine."""
    needed, available = PEAK * 8 * (n * (n_classes - 1)) ** 2, available_bytes()
    if needed > available:
        raise MemoryError(
            f"method 'tap' with {n} cases of {n_classes} classes needs about {needed / 2**30:.0f} GiB for matrices of "
            f"(classes - 1) times as many rows, and this machine has {available / 2**30:.0f} GiB. Use "
            "StarTap, which needs no such matrix."
        )


def _iterate(problem: Problem, first: State, control: Control, points: int) -> tuple[State, Info]:
    """Iterate from a state to a fixed point, in units in which the tolerance of `Control` is meant."""
    n, size = first.shift.shape
    lower = np.tril_indices(size)
    scale = np.sqrt(np.mean(prior_variance(problem.dense_gram, size + 1), axis=1))[:, None]

    # asinh: a change counts in proportion where a site is strong
    def pack(state: State) -> Array:
        entries = np.concatenate([state.root[:, lower[0], lower[1]], state.shift], axis=1)
        return np.asarray(np.arcsinh(scale * entries).ravel())

    def unpack(x: Array) -> State:
        entries = np.sinh(x.reshape(n, -1)) / scale
        root = np.empty((n, size, size))
        root[:, lower[0], lower[1]] = root[:, lower[1], lower[0]] = entries[:, : lower[0].size]
        return State(root, entries[:, lower[0].size :])

    def update(x: Array) -> Array:
        state = unpack(x)
        return pack(_between(state, _step(problem, state, points)))

    # the tolerance is meant for a whole step
    part = replace(control, tolerance=DAMPING * control.tolerance)
    x, info = fixed_point(update, pack(first), part)
    return unpack(x), replace(info, residual=info.residual / DAMPING)


def _between(old: State, new: State) -> State:
    """Return the state a part of the way from one to another, in precision and shift."""
    precision = (1.0 - DAMPING) * old.root @ old.root + DAMPING * new.root @ new.root
    return State(symmetric_root(precision), (1.0 - DAMPING) * old.shift + DAMPING * new.shift)


def _step(problem: Problem, state: State, points: int) -> State:
    posterior = _posterior(problem, state)
    return site_of(
        posterior.mean, posterior.covariance, tilted(problem.t, posterior.mean, posterior.covariance, points)
    )


def site_of(mean: Array, covariance: Array, found: Tilted) -> State:
    """Return the sites that the softmax amounts to at cavities ``(n, C - 1)`` and ``(n, C - 1, C - 1)``."""
    precision, gradient = found.precision, found.gradient
    # the tilted precision times the tilted mean, less the same of the cavity
    shift = np.einsum("iab,ib->ia", precision, mean + np.einsum("iab,ib->ia", covariance, gradient)) + gradient
    return State(symmetric_root(precision), shift)


def _posterior(problem: Problem, state: State) -> Posterior:
    """Return the posterior and the cavities under given sites."""
    n, size = state.shift.shape
    gram, root = problem.dense_gram, state.root
    basis = contrast_basis(size + 1)
    correction = BlockCorrection(gram, root)
    inverse_factor = correction.inverse_factor
    shift = state.shift @ basis.T
    alpha = correction.weights(shift)
    remaining = correction.remaining()
    projected = (inverse_factor @ correction.prior_with()).reshape(-1, n, size)
    prior = np.einsum("ca,ic,cb->iab", basis, prior_variance(gram, size + 1), basis)
    sigma = prior - np.einsum("ria,rib->iab", projected, projected)
    through = sigma @ root
    # V = (Sigma^-1 - W)^-1, without a difference
    covariance = sigma + through @ np.linalg.solve(remaining, np.swapaxes(through, 1, 2))
    contrasts = alpha @ basis
    mean = times_gram(alpha, gram) @ basis - np.einsum("iab,ib->ia", covariance, contrasts)
    _, own = np.linalg.slogdet(remaining)  # -log det(I + V W)
    return Posterior(contrasts, correction, mean, covariance, 0.5 * (correction.log_det + float(np.sum(own))))


def cavities(problem: Problem, correction: BlockCorrection, alpha: Array) -> tuple[Array, Array]:
    """Return means ``(n, C)`` and covariances ``(n, C, C)`` of the cavities of all latent values of a case."""
    prior = prior_variance(problem.dense_gram, problem.n_classes)
    sigma = case_covariances(correction, prior, problem.dense_gram)
    basis, root = contrast_basis(problem.n_classes), correction.site_root
    covariance = without_own_site(sigma, sigma @ basis @ root, correction.remaining())
    return times_gram(alpha, problem.dense_gram) - np.einsum("icd,id->ic", covariance, alpha), covariance


def _sites_of(problem: Problem, solution: Solution) -> State:
    """Return the state that gave a solution, to start the next problem from."""
    correction = _blocks_of(solution)
    basis = contrast_basis(problem.n_classes)
    latent, alpha = times_gram(solution.alpha, problem.dense_gram) @ basis, solution.alpha @ basis
    root = correction.site_root
    # b = W (K alpha) + alpha, since alpha = b - W K alpha
    return State(root, np.einsum("iab,ibc,ic->ia", root, root, latent) + alpha)


def _blocks_of(solution: Solution) -> BlockCorrection:
    if not isinstance(solution.correction, BlockCorrection):
        raise ValueError(f"this needs a solution of method 'tap' for several classes, got one of {solution.method!r}.")
    return solution.correction


def symmetric_root(matrix: Array) -> Array:
    """Return the root ``(n, C - 1, C - 1)`` of positive semi-definite matrices."""
    values, vectors = np.linalg.eigh(matrix)
    root = np.sqrt(np.maximum(values, 0.0))  # rounding
    return np.asarray((vectors * root[:, None, :]) @ np.swapaxes(vectors, 1, 2))


multiclass_tap = MulticlassTap()
"""TAP for several classes with sites of any form: what `star_tap`, the registered method, is held against."""
