r"""TAP for several classes with sites of the softmax's own form: C numbers for each case, O(C n^3) for each step.

The equations are those of two classes (2000, eqs. 19, 26, 28, 29; `solvers.meanfield`) with the C latent values of a
case in place of one,

.. math:: \alpha_i = \nabla_{m_i} \log Z_i(m_i, V_i), \qquad m = K \alpha - V \alpha,

where :math:`Z_i = \int \pi_{t_i}(f)\, N(f|m_i, V_i)\, df`; `likelihoods.softmax_tilted` says how it is integrated. A
site of full expectation propagation is any matrix W_i that does not see a common offset. At its solution these matrices
are very nearly

.. math:: W_i = \mathrm{diag}(w_i) - w_i w_i^T / \textstyle\sum_c w_{ic},

the form that Laplace's sites have, and those of nested expectation propagation ([1]_); for three classes every W_i
is of it. Here they are made so: w has the diagonal that moment matching asks for, and b the tilted mean. All latent
means are matched exactly, and covariances as far as w can. Nothing then needs a matrix of more than n rows
(`correction.SoftmaxCorrection`).

References
----------
.. [1] Riihimaki, J., Jylanki, P., & Vehtari, A. (2013). Nested expectation propagation for Gaussian process
   classification with a multinomial probit likelihood. JMLR 14, 75-109.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, ClassLeaveOneOut, Control, Evidence, Info, Solution
from bayesgp_mf.inference.solver import GramGradient, KnownClasses, Traits, gradient_at_cavities
from bayesgp_mf.likelihoods import Likelihood, Softmax
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.likelihoods.softmax_tilted import FEWEST
from bayesgp_mf.multiclass import class_gram
from bayesgp_mf.multiclass.few import FEW, FewCases
from bayesgp_mf.multiclass.joint import JointCases
from bayesgp_mf.multiclass.nearest import NearestCases
from bayesgp_mf.multiclass.site_form import CaseSites, MatrixForm, SiteForm, match, site_form
from bayesgp_mf.solvers.accuracy import assessed, in_deviations, require_accurate
from bayesgp_mf.solvers.driver import fixed_point, require_solved
from bayesgp_mf.types import Array

MEAN_STEPS, MEAN_GAIN = 6, 0.1
"""Of the means between two factorisations, at most, until they lack that part of what they lacked. With none, whole
steps of all cases at once may overshoot for ever; of 12 000 cases of ten classes they did so with two, too."""
ROUGH = 1e-3
"""Tolerance of the first steps, which have the fewest nodes."""
WAYS = ((True, 1.0), (True, 0.5), (False, 0.5), (True, 0.25), (True, 0.125), (False, 0.25), (False, 0.125))
"""Whole steps first, whose solution takes half as many as with half steps where there are many cases to a latent value;
of all cases at once they may overshoot for ever. The shortest are for cases of several labels that lie near one another
under a large variance, and for labels that may be flipped."""
PATIENCE = 16
"""Steps without progress before the next of these ways. Half as many led to the last way too early."""
LONG_PATIENCE = 25
"""Where labels may be flipped, they look so and not so by turns before it is settled which are."""


class ClassSites(NamedTuple):
    """The site of each case: W in its form, and b ``(n, C)``, which sums to zero."""

    site: SiteForm
    shift: Array


@dataclass(frozen=True, slots=True)
class StarTap:
    """TAP for several classes, with C numbers for each site.

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
    >>> star_tap.solve(problem).alpha.round(3)
    array([[ 0.491, -0.201, -0.29 ],
           [-0.29 , -0.201,  0.491]])
    """

    name: str = "tap"
    points: int | None = None

    @property
    def traits(self) -> Traits:
        """Under a softmax it knows more of the observed cases than its Gaussian posterior says."""
        return Traits(
            matrices=class_gram.FORMS,
            targets=frozenset({"classes"}),
            cavities=True,
            check=_check_likelihood,
            known_classes=self._known_classes,
            parameter_gradient=gradient_at_cavities,
        )

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Solve the equations of a problem, from the prior or from a solution of this method or Laplace's.

        The Gram matrix is ``(n, n)``, a root, or ``(C, n, n)``; targets are codes of classes, under a softmax of at
        most ten. There is a NotPositiveDefiniteError if a case has no prior variance.
        """
        control.check_scheme(self.name)
        state, info, points = self._solved(problem, control, start)
        return require_accurate(self._finish(problem, state, info, points))

    def sites(
        self, problem: Problem, control: Control = Control(), prior_mean: Array | float = 0.0
    ) -> tuple[Any, Array]:
        """Return the sites alone at the solution, as a stream adds them up; `solve` says more.

        They are what the Gram matrix of the classes makes of their precisions (`ClassGram.sites`), and shifts b
        ``(n, C)``; with a prior mean ``(n, C)`` they are those of deviations from it.
        """
        state, *_ = self._solved(problem, control, None, prior_mean)
        return _posterior(problem, state)[1], state.shift

    def _solved(
        self, problem: Problem, control: Control, start: Solution | None, prior_mean: Array | float = 0.0
    ) -> tuple[ClassSites, Info, int | None]:
        """Return the solution's state and the nodes that it was found with."""
        points = self._points(problem)
        check_variances(problem)
        iterate = partial(_iterate, problem, prior_mean)
        if start is None:
            first = self._first(problem, prior_mean)
            state, info = rough_then_fine(iterate, first, control, points)
            if info.status is Status.NO_VALID_STEP:  # some at the prior are negative, and leave no posterior together
                state, info = rough_then_fine(
                    iterate,
                    ClassSites(type(first.site)(np.zeros_like(first.site.numbers)), np.zeros_like(first.shift)),
                    control,
                    points,
                )
        else:
            start.check_start(problem.n, problem.n_classes)
            state, info = iterate(_state_of(problem, start), control, points)
        require_solved(self.name, problem, info, control)
        return state, info, points

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return (alpha_c alpha_c' - R_cc)/2, summed over the classes where they share a kernel.

        It is the derivative of the log evidence where sites match covariances: under a multinomial probit, and a
        softmax of two or three classes. Under a softmax of more it is as far as sites of this form can.
        """
        return class_gram.class_correction(solution).gradient(0.5 * solution.alpha, solution.alpha)

    def leave_one_out(self, problem: Problem, solution: Solution) -> ClassLeaveOneOut:
        """Return the leave-one-out predictions: the cavities are what the other cases say."""
        return cavity_predictions(problem, self.cavity(problem, solution), self._points(problem))

    def cavity(self, problem: Problem, solution: Solution) -> Cavity:
        """Return the cavities ``(n, C)`` and ``(n, C, C)`` of a solution, which one that was read from a file lacks."""
        if solution.cavity is not None:
            return solution.cavity
        return class_gram.class_cavity(
            problem, class_gram.own_sites(class_gram.class_correction(solution)), solution.alpha
        )

    def _known_classes(self, problem: Problem, solution: Solution) -> KnownClasses | None:
        """Return what is known beyond the Gaussian posterior.

        Two classes have none of it, as in binary TAP, nor has a root, on which it would cost n^2 for each new case.
        Sites matched anew for each new case would take too long by quadrature, and need not settle where labels may
        be flipped; there, and without noise, a few cases are integrated.
        """
        likelihood, n_classes = star_of(problem), problem.n_classes
        if not problem.matrix.is_whole:
            return None
        if likelihood.site_shape == "matrix" and likelihood.largest_wins is not None and problem.n <= FEW:
            return FewCases(problem)
        with_cavity = replace(solution, cavity=self.cavity(problem, solution))
        if isinstance(likelihood, Softmax):
            return NearestCases(problem, with_cavity)
        if n_classes == 2 or likelihood.star_points(n_classes) is not None or not likelihood.log_concave:
            return None
        return JointCases(problem, with_cavity)

    def _points(self, problem: Problem) -> int | None:
        by_default = star_of(problem).star_points(problem.n_classes)
        return by_default if self.points is None else self.points

    def _first(self, problem: Problem, prior_mean: Array | float) -> ClassSites:
        """Return the sites at the prior."""
        prior = class_gram.class_gram(problem).prior
        mean, covariance = np.zeros_like(prior), prior[:, :, None] * np.eye(problem.n_classes)
        found = match(problem.likelihood, problem.t, mean + prior_mean, covariance, FEWEST)
        return ClassSites(found.site, _shift(found.site.precision, mean, covariance, found))

    def _finish(self, problem: Problem, state: ClassSites, info: Info, points: int | None) -> Solution:
        alpha, correction = _posterior(problem, state)
        own = class_gram.own_sites(correction)
        mean, covariance = cavity = class_gram.class_cavity(problem, own, alpha)
        found = match(problem.likelihood, problem.t, mean, covariance, points)
        value = float(np.sum(found.log_partition)) - 0.5 * float(
            np.sum(alpha * class_gram.class_gram(problem).times(alpha))
        )
        value += 0.5 * float(np.einsum("ic,icd,id->", alpha, covariance, alpha))
        value -= 0.5 * correction.log_det + 0.5 * float(np.sum(np.linalg.slogdet(own.remaining)[1]))
        info = replace(info, **problem.matrix.stated)
        solution = Solution(self.name, alpha, correction, Evidence(value, "ep"), cavity, info)
        class_gram.require_known_determinant(solution)
        # by so much would sites, put right one by one, move the means of their cases
        residual = found.gradient - alpha
        moved = np.einsum("icd,id->ic", covariance, residual)
        mean_error = in_deviations(moved, np.sqrt(np.diagonal(own.sigma, axis1=1, axis2=2)))
        return assessed(
            solution,
            problem.matrix,
            mean_error,
            np.abs(np.diagonal(state.site.precision, axis1=1, axis2=2)),
            partial(self.gram_gradient, problem),
        )


S = TypeVar("S")


def rough_then_fine(
    iterate: Callable[[S, Control, int | None], tuple[S, Info]], first: S, control: Control, points: int | None
) -> tuple[S, Info]:
    """Iterate from a state far from the solution: at first roughly, with the fewest nodes for each integral."""
    if points is None or points <= FEWEST:
        return iterate(first, control, points)
    near, rough = iterate(first, replace(control, tolerance=max(ROUGH, control.tolerance)), FEWEST)
    state, info = iterate(near, control, points)
    return state, replace(info, n_iterations=info.n_iterations + rough.n_iterations)


def cavity_predictions(problem: Problem, cavity: Cavity, points: int | None) -> ClassLeaveOneOut:
    """Return what the cavities say of the cases' own classes: of TAP they are its leave-one-out predictions."""
    mean, covariance = cavity
    log_density, probability = star_of(problem).star_predictions(problem.t, mean, covariance, points)
    return ClassLeaveOneOut(mean, np.array(np.diagonal(covariance, axis1=1, axis2=2)), log_density, probability)


def check_variances(problem: Problem) -> None:
    """Raise a NotPositiveDefiniteError if a latent value has no prior variance."""
    (certain,) = np.nonzero(np.any(class_gram.class_gram(problem).prior == 0, axis=1))
    if certain.size:
        raise NotPositiveDefiniteError(
            f"method 'tap' for several classes needs latent values with a prior variance, and that of case "
            f"{int(certain[0])} is zero for some class ({certain.size} such cases). Add kernels.Bias() or "
            "kernels.White(...)."
        )


def star_of(problem: Problem) -> ClassLikelihood:
    """Return the likelihood of a problem, or raise a ValueError if it makes no sites of star form."""
    _check_likelihood(problem.likelihood)
    return cast("ClassLikelihood", problem.likelihood)


def _check_likelihood(likelihood: Likelihood) -> None:
    if likelihood.site_shape is None:
        raise ValueError(
            f"TAP for several classes needs a likelihood with star_sites, such as Softmax or MultinomialProbit, got "
            f"{likelihood.display_name}."
        )
    known = likelihood.n_classes
    if known is not None:
        cast("ClassLikelihood", likelihood).star_points(known)


def _shift(precision: Array, mean: Array, covariance: Array, found: CaseSites) -> Array:
    """Return b ``(n, C)``, W times the tilted mean and the slope, of sites at cavities ``(n, C)`` and ``(n, C, C)``."""
    tilted_mean = mean + np.einsum("icd,id->ic", covariance, found.gradient)
    return np.asarray(np.einsum("icd,id->ic", precision, tilted_mean) + found.gradient)


def _posterior(problem: Problem, state: ClassSites) -> tuple[Array, Any]:
    """Return alpha and R under given sites."""
    if not (np.all(np.isfinite(state.site.numbers)) and np.all(np.isfinite(state.shift))):
        raise NotPositiveDefiniteError("the sites of a state are not finite")
    correction = class_gram.class_gram(problem).correction(state.site)
    return correction.weights(state.shift), correction


def _state_of(problem: Problem, solution: Solution) -> ClassSites:
    """Return the state that gave a solution, to start the next problem from."""
    correction, latent = class_gram.class_correction(solution), class_gram.class_gram(problem).times(solution.alpha)
    # b = W (K alpha) + alpha, since alpha = b - W K alpha
    shift = np.einsum("icd,id->ic", correction.site.precision, latent) + solution.alpha
    site = correction.site
    if site_form(problem.likelihood) is MatrixForm:
        site = MatrixForm(site.precision)
    elif not site.is_noise:
        raise ValueError("this needs a solution with C numbers for each site, got one with a matrix for each.")
    return ClassSites(site, shift)


def _iterate(
    problem: Problem, prior_mean: Array | float, first: ClassSites, control: Control, points: int | None
) -> tuple[ClassSites, Info]:
    """Iterate from a state to a fixed point, in units in which the tolerance of `Control` is meant."""
    n, n_classes = first.shift.shape
    scale, form = np.sqrt(np.mean(class_gram.class_gram(problem).prior, axis=1))[:, None], site_form(problem.likelihood)

    def pack(state: ClassSites) -> Array:
        return np.concatenate([np.arcsinh(scale * state.shift), state.site.pack(scale)], axis=1).ravel()

    def unpack(x: Array) -> ClassSites:
        entries = x.reshape(n, -1)
        return ClassSites(form.unpack(entries[:, n_classes:], scale), np.sinh(entries[:, :n_classes]) / scale)

    def update(x: Array) -> Array:
        state = unpack(x)
        precision = state.site.precision
        alpha, correction = _posterior(problem, state)
        mean, covariance = class_gram.class_cavity(problem, class_gram.own_sites(correction), alpha)
        found = match(problem.likelihood, problem.t, mean + prior_mean, covariance, points)
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        residual = np.linalg.norm(sd * (found.gradient - alpha))
        enough = MEAN_GAIN * residual
        for _ in range(MEAN_STEPS):
            # towards alpha = grad log Z by sites of the old precision with the new mean and slope: factors and cavity
            # covariances stay, and nothing costs more than a product of K with C columns
            alpha = correction.weights(_shift(precision, mean, covariance, found))
            further = class_gram.cavity_mean(problem, covariance, alpha)
            nearer = match(problem.likelihood, problem.t, further + prior_mean, covariance, points)
            left = np.linalg.norm(sd * (nearer.gradient - alpha))
            if not left < residual:
                break
            mean, found, residual = further, nearer, left
            if residual <= enough:
                break
        return pack(ClassSites(found.site, _shift(found.site.precision, mean, covariance, found)))

    patience = PATIENCE if problem.likelihood.log_concave else LONG_PATIENCE
    x, info = fixed_point(update, pack(first), control, stages=WAYS, patience=patience)
    return unpack(x), info


star_tap = StarTap()
"""TAP for several classes, as a registered method."""
