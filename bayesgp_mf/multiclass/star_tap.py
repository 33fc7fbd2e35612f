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
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, ClassLeaveOneOut, Control, Evidence, Info, Solution
from bayesgp_mf.inference.solver import GramGradient, KnownClasses, Traits, gradient_at_cavities
from bayesgp_mf.likelihoods import Likelihood, Softmax
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.likelihoods.probit_tilted import TOLERANCE
from bayesgp_mf.likelihoods.softmax_tilted import FEWEST
from bayesgp_mf.likelihoods.star import InnerSites
from bayesgp_mf.multiclass import class_gram
from bayesgp_mf.multiclass.few import FEW, FewCases
from bayesgp_mf.multiclass.joint import JointCases
from bayesgp_mf.multiclass.nearest import NearestCases
from bayesgp_mf.multiclass.site_form import CaseSites, MatrixForm, SiteForm, match, site_form
from bayesgp_mf.solvers.accuracy import assessed, in_deviations, require_accurate
from bayesgp_mf.solvers.driver import fixed_point, require_solved
from bayesgp_mf.solvers.meanfield import CAUTION, UNSETTLED
from bayesgp_mf.types import Array

MEAN_STEPS, MEAN_GAIN = 6, 0.1
"""Of the means between two factorisations, at most, until they lack that part of what they lacked. With none, whole
steps of all cases at once may overshoot for ever; of 12 000 cases of ten classes they did so with two, too."""
ROUGH = 1e-3
"""Tolerance of the first steps, which have the fewest nodes."""
INNER, INNER_ROUGH = 1e-3, 1e-6
"""What part of the last change the inner sites of a label may be off, and by how much at most."""
WAYS = ((True, 1.0), (True, 0.5), (False, 0.5), (True, 0.25), (True, 0.125), (False, 0.25), (False, 0.125))
"""Whole steps first, whose solution takes half as many as with half steps where there are many cases to a latent value;
of all cases at once they may overshoot for ever. The shortest are for cases of several labels that lie near one another
under a large variance, and for labels that may be flipped."""
WORSE = 3.0
"""A mixed step that makes changes larger by this factor is taken back."""
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
            stationary=True,
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
        return require_accurate(self._finish(*self._solved(problem, control, start)))

    def sites(
        self, problem: Problem, control: Control = Control(), prior_mean: Array | float = 0.0
    ) -> tuple[Any, Array]:
        """Return the sites alone at the solution, as a stream adds them up; `solve` says more.

        They are what the Gram matrix of the classes makes of their precisions (`ClassGram.sites`), and shifts b
        ``(n, C)``; with a prior mean ``(n, C)`` they are those of deviations from it.
        """
        equations, state, _ = self._solved(problem, control, None, prior_mean)
        return equations.posterior(state).correction, state.shift

    def _solved(
        self, problem: Problem, control: Control, start: Solution | None, prior_mean: Array | float = 0.0
    ) -> tuple[_Equations, ClassSites, Info]:
        """Return the solution's state, and the equations that it solves."""
        points = self._points(problem)
        check_variances(problem)
        equations = _Equations(problem, prior_mean)
        if start is None:
            first = equations.first()
            state, info = rough_then_fine(equations.iterate, first, control, points)
            if info.status is Status.NO_VALID_STEP:  # some at the prior are negative, and leave no posterior together
                state, info = rough_then_fine(
                    equations.iterate,
                    ClassSites(type(first.site)(np.zeros_like(first.site.numbers)), np.zeros_like(first.shift)),
                    control,
                    points,
                )
        else:
            start.check_start(problem.n, problem.n_classes)
            state, info = equations.iterate(_state_of(problem, start), control, points)
        require_solved(self.name, problem, info, control)
        return equations, state, info

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

    def _finish(self, equations: _Equations, state: ClassSites, info: Info) -> Solution:
        problem, posterior = equations.problem, equations.posterior(state)
        alpha, correction, own, cavity, found = posterior
        info = replace(info, **problem.matrix.stated)
        evidence = Evidence(equations.evidence(posterior), "ep")
        solution = Solution(self.name, alpha, correction, evidence, cavity, info)
        class_gram.require_known_determinant(solution)
        # by so much would sites, put right one by one, move the means of their cases
        moved = np.einsum("icd,id->ic", cavity.variance, found.gradient - alpha)
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


class _Posterior(NamedTuple):
    """What follows from a state."""

    alpha: Array  # (n, C)
    correction: Any
    own: class_gram.OwnSites
    cavity: Cavity
    found: CaseSites  # what the labels make of the cavities


class _Equations:
    """The equations of a problem, and what follows from the state that was asked for last."""

    def __init__(self, problem: Problem, prior_mean: Array | float) -> None:
        self.problem, self._prior_mean = problem, prior_mean
        self._gram, self._form = class_gram.class_gram(problem), site_form(problem.likelihood)
        self._points: int | None = FEWEST
        self._last: tuple[ClassSites, _Posterior] | None = None
        self._inner: InnerSites | None = None  # those that were found last
        self._change = 0.0  # by the last update, at most

    def _sites_at(self, mean: Array, covariance: Array) -> CaseSites:
        at = mean + self._prior_mean
        start: dict[str, Any] = {} if self._inner is None else {"start": self._inner}
        self._inner = None  # an error, or what is not finite, leaves nothing behind
        found = match(self.problem.likelihood, self.problem.t, at, covariance, points=self._points, **start)
        if found.inner is not None and np.all(np.isfinite(found.gradient)):
            self._inner = found.inner._replace(tolerance=min(INNER_ROUGH, max(TOLERANCE, INNER * self._change)))
        return found

    def first(self) -> ClassSites:
        """Return the sites at the prior, by the fewest nodes."""
        prior = self._gram.prior
        mean, covariance = np.zeros_like(prior), prior[:, :, None] * np.eye(prior.shape[1])
        found = self._sites_at(mean, covariance)
        return ClassSites(found.site, _shift(found.site.precision, mean, covariance, found))

    def posterior(self, state: ClassSites) -> _Posterior:
        """Return what follows from a state, at the cost of C factorisations unless it was asked for last."""
        numbers, shift = state.site.numbers, state.shift
        if self._last is not None:
            last, posterior = self._last
            if np.array_equal(last.site.numbers, numbers) and np.array_equal(last.shift, shift):
                return posterior
        self._last = None  # an error leaves nothing behind, and what there was is let go
        if not (np.all(np.isfinite(numbers)) and np.all(np.isfinite(shift))):
            raise NotPositiveDefiniteError("the sites of a state are not finite")
        correction = self._gram.correction(state.site)
        alpha, own = correction.weights(shift), class_gram.own_sites(correction)
        cavity = class_gram.class_cavity(self.problem, own, alpha)
        posterior = _Posterior(alpha, correction, own, cavity, self._sites_at(*cavity))
        self._last = state, posterior
        return posterior

    def evidence(self, posterior: _Posterior) -> float:
        """Return the log evidence; where the equations do not hold yet, it is off by the order of the square."""
        alpha, correction, own, (mean, _), found = posterior
        # alpha' K alpha is alpha' (m + V alpha)
        value = np.sum(found.log_partition) - 0.5 * np.sum(alpha * mean) - 0.5 * correction.log_det
        return float(value - 0.5 * np.sum(np.linalg.slogdet(own.remaining)[1]))

    def iterate(self, first: ClassSites, control: Control, points: int | None) -> tuple[ClassSites, Info]:
        """Iterate from a state to a fixed point, in units in which the tolerance of `Control` is meant."""
        self._points, self._last = points, None
        n, n_classes = first.shift.shape
        scale = np.sqrt(np.mean(self._gram.prior, axis=1))[:, None]

        def pack(state: ClassSites) -> Array:
            return np.concatenate([np.arcsinh(scale * state.shift), state.site.pack(scale)], axis=1).ravel()

        def unpack(x: Array) -> ClassSites:
            entries = x.reshape(n, -1)
            return ClassSites(self._form.unpack(entries[:, n_classes:], scale), np.sinh(entries[:, :n_classes]) / scale)

        def update(x: Array) -> Array:
            alpha, correction, _, (mean, covariance), found = self.posterior(unpack(x))
            precision = correction.site.precision
            sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            residual = np.linalg.norm(sd * (found.gradient - alpha))
            enough = MEAN_GAIN * residual
            for _ in range(MEAN_STEPS):
                # towards alpha = grad log Z by sites of the old precision with the new mean and slope: factors and
                # cavity covariances stay, and nothing costs more than a product of K with C columns
                alpha = correction.weights(_shift(precision, mean, covariance, found))
                further = class_gram.cavity_mean(self.problem, covariance, alpha)
                nearer = self._sites_at(further, covariance)
                left = np.linalg.norm(sd * (nearer.gradient - alpha))
                if not left < residual:
                    break
                mean, found, residual = further, nearer, left
                if residual <= enough:
                    break
            after = pack(ClassSites(found.site, _shift(found.site.precision, mean, covariance, found)))
            self._change = float(np.max(np.abs(after - x)))
            return after

        patience = PATIENCE if self.problem.likelihood.log_concave else LONG_PATIENCE
        known = self.evidence_is_known(control.evidence_tolerance)
        x, info = fixed_point(update, pack(first), control, enough=known, stages=WAYS, patience=patience, worse=WORSE)
        return unpack(x), info

    def evidence_is_known(self, tolerance: float) -> Callable[[Array], bool] | None:
        """Return a judge of changes that says when the log evidence is known to ``tolerance``, or None for zero.

        It is stationary at the solution: its error goes with the square of the change. How fast is seen by what it
        gained where changes became smaller. Where sites match moments nearly only it is not, and None is returned.
        """
        likelihood, n_classes = star_of(self.problem), self.problem.n_classes
        matched = n_classes <= 3 or (likelihood.star_points(n_classes) is None and likelihood.log_concave)
        if tolerance == 0.0 or not matched:
            return None
        near = list[tuple[float, float]]()  # squares of changes, and log evidences

        def judge(change: Array) -> bool:
            assert self._last is not None
            if np.abs(change).max() > UNSETTLED:  # squares are errors near the solution only
                return False
            near.append((float(change @ change), self.evidence(self._last[1])))
            rates = [abs(was - value) / (more - less) for (more, was), (less, value) in pairwise(near) if less < more]
            return bool(rates) and CAUTION * max(rates) * near[-1][0] <= tolerance

        return judge


def _shift(precision: Array, mean: Array, covariance: Array, found: CaseSites) -> Array:
    """Return b ``(n, C)``, W times the tilted mean and the slope, of sites at cavities ``(n, C)`` and ``(n, C, C)``."""
    tilted_mean = mean + np.einsum("icd,id->ic", covariance, found.gradient)
    return np.asarray(np.einsum("icd,id->ic", precision, tilted_mean) + found.gradient)


def _state_of(problem: Problem, solution: Solution) -> ClassSites:
    """Return the state that gave a solution, to start the next problem from."""
    correction = class_gram.class_correction(solution)
    if solution.cavity is None:
        latent = class_gram.class_gram(problem).times(solution.alpha)
    else:  # which may have been another Gram matrix
        latent = solution.cavity.mean + np.einsum("icd,id->ic", solution.cavity.variance, solution.alpha)
    # b = W (K alpha) + alpha, since alpha = b - W K alpha
    shift = np.einsum("icd,id->ic", correction.site.precision, latent) + solution.alpha
    site = correction.site
    if site_form(problem.likelihood) is MatrixForm:
        site = MatrixForm(site.precision)
    elif not site.is_noise:
        raise ValueError("this needs a solution with C numbers for each site, got one with a matrix for each.")
    return ClassSites(site, shift)


star_tap = StarTap()
"""TAP for several classes, as a registered method."""
