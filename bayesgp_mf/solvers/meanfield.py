r"""Mean-field theories of Gaussian-process classification: one fixed point, one rule for each theory.

All of them solve the same n equations (2000, eqs. 19, 21, 26),

.. math:: \alpha_i = \partial_{m_i} \log Z_i(m_i, \lambda_i), \qquad m = K\alpha - \lambda \odot \alpha,

and differ in one line, the cavity variance lambda, and in what follows from it: a term of the evidence
and its gradient. The rules hold those three; everything here is common.

Each example acts like a measurement with variance :math:`\omega_i = -1/\partial^2_{m_i}\log Z_i - \lambda_i`
(2000, eq. 29). The state is what these measurements say, W = 1/omega and b = W times the measured value:
from it one Cholesky factor gives the posterior, hence alpha, lambda and m, hence new measurements. For fixed
lambda this is Newton's step on alpha. Every such state is a proper Gaussian posterior, also far from the
solution, which (alpha, lambda) as the papers iterate them are not.

References
----------
.. [1] Opper, M., & Winther, O. (1998). Mean field methods for classification with Gaussian processes. NIPS 11.
.. [2] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field algorithms.
   Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Control, Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import GramGradient, LooGradient, Traits
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.solvers import accuracy, sites
from bayesgp_mf.solvers.driver import require_solved
from bayesgp_mf.solvers.fixed_variance import solve_at_fixed_variance
from bayesgp_mf.solvers.loo_gradient import loo_gradient
from bayesgp_mf.solvers.newton import newton_step, strength
from bayesgp_mf.solvers.paper_scheme import paper_scheme
from bayesgp_mf.solvers.rules import Naive, Rule, Tap, Variational
from bayesgp_mf.solvers.sites import SitePosterior, SiteState, match
from bayesgp_mf.types import Array, Derivs

ANNEALING = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Extra latent noise, in mean prior variances, through which a likelihood that is not log-concave is reached."""
ROUGH = 1e-2
"""Tolerance of what only leads to a solution, where a step is cheap."""
SINGLE_FROM = 400
"""Cases from which first steps in single precision pay for the copy of the Gram matrix ..."""
NEAR = 0.1
"""... which end, as those of a noisier model, where no site changes by more than this, in units of the tolerance ..."""
NEAR_BY_STEPS = 3e-3
"""... or, where Newton's step is not known, by more than this, ..."""
SETTLED = 1e-4
"""... and leave a first state as it is that changes by no more than this, ..."""
MOST_SINGLE = 12
"""... or are given up after so many."""
WITHIN_REACH = 1.0
"""Largest change of a site, in those units, by a step to the noisier model after the next that leaves out the next."""
SHARE_OF_START = 0.25
"""Part of all steps after which a start is given up that led to no solution, where there may be several."""
CAUTION = 4.0
"""By how much an error of the log evidence that is judged by the last one is taken to be larger."""
UNSETTLED = 0.1
"""Largest change of a site, in units in which the tolerance is meant, at which the log evidence may be called known."""
SHARE_OF_VARIANCE = 0.3
"""Where posterior variances are off by a part, means are off by no more than so much of it, in standard deviations."""
LEFT_OUT = 1.0
"""What columns of a root may say of the log evidence, in nats, so that a first solution does without them ..."""
MOST_COLUMNS = 0.8
"""... if those that are left are not more than this part of all."""


@dataclass(frozen=True, slots=True)
class MeanField:
    """A mean-field solver: the common equations under one rule.

    Parameters
    ----------
    name : str
        The name users call it by.
    rule : type of Rule
        Its cavity variance, evidence and gradient.
    """

    name: str
    rule: type[Rule]

    @property
    def traits(self) -> Traits:
        """It has cavities; its evidence is stationary in them, and so in a prior mean but for the weights."""
        return Traits(
            matrices=self.rule.matrices,
            cavities=True,
            starts_again=True,
            stationary=True,
            mean_gradient=lambda problem, solution: solution.alpha,
            loo_gradient=self.loo_gradient,
        )

    def init(self, problem: Problem) -> SiteState:
        """Return the state before any data: sites that say nothing."""
        return SiteState(np.zeros(problem.n), np.zeros(problem.n))

    def step(self, problem: Problem, state: SiteState) -> SiteState:
        """Return the next state: the sites that match the likelihood at the cavities of this one."""
        return _Equations(self.rule(problem.matrix), problem).step(state)

    def finish(self, problem: Problem, state: SiteState, info: Info) -> Solution:
        r"""Return the solution at a state: weights, correction, cavities and the evidence.

        The log evidence (for TAP the negative of 1998, eqs. 8 to 11 at the fixed point, and equal to
        expectation propagation's) is

        .. math:: \sum_i \log Z_i(m_i, \lambda_i) - \tfrac12 \alpha^T K \alpha
                  + \tfrac12 \sum_i \lambda_i \alpha_i^2 - B.
        """
        return _finish(self.name, _Equations(self.rule(problem.matrix), problem), state, info)

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        r"""Solve the mean-field equations of a problem.

        Parameters
        ----------
        problem : Problem
            Gram matrix ``(n, n)``, targets ``(n,)``, likelihood.
        control : Control
            Tolerance, largest number of steps, and whether to raise if they were not enough.
        start : Solution, optional
            Warm start with the same n; the default starts from the prior, as ``control.scheme="paper"`` always does.

        Returns
        -------
        Solution
            With ``info.status`` saying whether the equations hold.

        Raises
        ------
        ConvergenceError
            If ``control.throw`` and the equations were not solved.
        InconsistentDataError
            If they have no solution because the labels have probability zero.
        NotPositiveDefiniteError
            If rounding in the Gram matrix decides the solution.

        Notes
        -----
        O(n^3) for each step: one Cholesky factor and one triangular inverse; O(n^2) memory. Where the
        cavity variances are fixed (naive, variational) and the likelihood is log-concave, a step takes O(n^2)
        (`solvers.fixed_variance`), and the correction is factorised when it is first used. The papers
        iterate alpha with a small learning rate and refresh lambda every 20 steps
        (2000, section 4; ``control.scheme="paper"``); the fixed point is the same.

        For a log-concave likelihood the solution found does not depend on where the iteration starts. With label
        flips it may: then the iteration first solves noisier models and follows their solution down.
        """
        if start is not None:
            start.check_start(problem.n)
        equations = _Equations(self.rule(problem.matrix), problem)
        state, info = self._from_start(equations, control, self._on_fewer_columns(equations, control, start) or start)
        solution = None
        if info.status is Status.CONVERGED:
            solution = _finish(self.name, equations, state, info)
            if accuracy.is_accurate(solution):
                return solution
        if info.status is not Status.MAX_ITERATIONS:
            better = self._in_root_form(equations, control, info.n_iterations)
            if better is not None:
                return accuracy.require_accurate(better)
        if info.status is Status.NO_VALID_STEP and problem.likelihood.known_sites(problem.t, 0.0) is not None:
            raise accuracy.rounding_decides(self.name, accuracy.NO_FACTOR)  # of known sites there is a posterior
        require_solved(self.name, problem, info, control)
        return accuracy.require_accurate(_finish(self.name, equations, state, info) if solution is None else solution)

    def _on_fewer_columns(self, equations: _Equations, control: Control, start: Solution | None) -> Solution | None:
        """Return a solution nearby, on some columns of the Gram matrix or of its root.

        A step on them costs a part of a full one. None where there are none to leave out, or nothing comes of it; or
        where full steps are as cheap, since cavity variances are fixed (`solvers.fixed_variance`).
        """
        rule, problem = equations.rule, equations.problem
        is_cheap = rule.fixed_variance is not None and problem.likelihood.log_concave
        if control.scheme == "paper" or is_cheap or problem.likelihood.forbids:  # which asks for all columns
            return None
        fewer = problem.matrix.coarser(lambda: LEFT_OUT / strength(problem), MOST_COLUMNS, started=start is not None)
        if fewer is None:
            return None
        rough = replace(control, tolerance=max(ROUGH, control.tolerance), throw=True, progress=False)
        try:
            return self.solve(Problem(fewer, problem.t, problem.likelihood), rough, start)
        except (ConvergenceError, NotPositiveDefiniteError):
            return None

    def _from_start(self, equations: _Equations, control: Control, start: Solution | None) -> tuple[SiteState, Info]:
        """Solve from a given solution if there is one, then from the prior, then by way of noisier models."""
        rule, problem = equations.rule, equations.problem
        if control.scheme == "paper":
            return paper_scheme(rule, problem, control)
        variance = rule.fixed_variance
        if variance is not None:
            alpha = None if start is None else start.alpha
            for noise in [] if alpha is not None or problem.likelihood.log_concave else _noises(problem):
                nearer, _ = solve_at_fixed_variance(problem, variance, replace(control, tolerance=ROUGH), alpha, noise)
                alpha = alpha if nearer is None else nearer.alpha
            for first in [None] if alpha is None else [alpha, None]:
                found, info = solve_at_fixed_variance(problem, variance, control, first)
                if found is not None and _has_covariance(problem, found):
                    return found, info
        if start is not None:
            share = 1.0 if problem.likelihood.log_concave else SHARE_OF_START
            few = replace(control, max_iterations=math.ceil(share * control.max_iterations))
            state, steps = self._in_single_precision(equations, few, sites.sites_of(start, problem))
            state, info = equations.iterate(state, few, steps)
            if info.status is Status.CONVERGED:
                return state, info
        return self._from_prior(equations, control)

    def _in_root_form(self, equations: _Equations, control: Control, steps: int) -> Solution | None:
        """Return the solution in the form that small eigenvalues do not spoil, if there is one.

        Rounding may be all that was wrong before; and where the noisier models led nowhere, the straight way may not.
        """
        rule, problem = equations.rule, equations.problem
        matrix = problem.matrix.in_root_form() if control.scheme == "fast" else None
        if matrix is None:
            return None
        in_root_form = _EquationsInRootForm(rule, problem, matrix)
        found, info = self._from_prior(in_root_form, control)
        if info.status is not Status.CONVERGED and not problem.likelihood.log_concave:
            found, info = in_root_form.iterate(self.init(problem), control)
        if info.status is not Status.CONVERGED:
            return None
        try:
            found = found._replace(alpha=in_root_form.posterior(found).alpha)
            return _finish(self.name, equations, found, replace(info, n_iterations=steps + info.n_iterations))
        except NotPositiveDefiniteError:  # sites so strong that only rounding tells them apart
            return None

    def _from_prior(self, equations: _Equations, control: Control) -> tuple[SiteState, Info]:
        # all steps come out of one budget
        problem = equations.problem
        state, steps = self.init(problem), 0
        if problem.likelihood.log_concave:
            state, steps = self._in_single_precision(equations, control, state)
            state, info = equations.iterate(state, control, steps)
            is_near = info.residual <= ROUGH  # where steps stand still, noisier models lead back
            if info.status is Status.CONVERGED or is_near or info.n_iterations >= control.max_iterations:
                return state, info
            state, steps = self.init(problem), info.n_iterations
        # where there are several solutions, the one that grows out of a noisier model is the simplest; where
        # the only one is far away, the noisier models are steps on the way
        noises = [*_noises(problem), 0.0]
        while len(noises) > 1:
            nearer, info = equations.iterate(state, replace(control, tolerance=NEAR), steps, noises.pop(0))
            steps = info.n_iterations
            if info.status is not Status.CONVERGED:  # nor will one with less noise
                break
            state = nearer
            while len(noises) > 1 and equations.largest_change(state, noises[1]) <= WITHIN_REACH:
                noises.pop(0)
        return equations.iterate(state, control, steps)

    def _in_single_precision(self, equations: _Equations, control: Control, first: SiteState) -> tuple[SiteState, int]:
        """Return a state near the solution and the steps to it, at half the time of as many in double precision.

        It is where Newton's step led from the last of them. The first state, and no step, where the problem
        is too small to gain by it, where cavity variances are fixed (nothing is factorised then), or where single
        precision did not come near.
        """
        single = equations.in_single_precision()
        if single is None:
            return first, 0
        near = NEAR_BY_STEPS if single.matrix.factor_is_cheap else NEAR
        rough = replace(control, tolerance=near, max_iterations=min(MOST_SINGLE, control.max_iterations))
        state, info = single.iterate(first, rough)  # what judges the evidence also remembers the last change
        if info.status is not Status.CONVERGED:  # its rounding is felt from some size of a change on
            return (state if info.residual <= NEAR else first), info.n_iterations
        if info.n_iterations == 1 and info.residual <= SETTLED:
            return first, info.n_iterations
        after = single.step(state)
        residual = SiteState(after.precision - state.precision, after.shift - state.shift)
        move = single.newton_step(state, residual, info.residual)
        if move is None or not np.all(np.isfinite(np.concatenate(move[:2]))):
            return after, info.n_iterations
        equations.know_as(single)
        return SiteState(state.precision + move.precision, state.shift + move.shift), info.n_iterations

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return the derivative ``(n, n)`` of the log evidence with respect to the Gram matrix.

        Symmetric; contract it with dK/dtheta over both indices for a hyperparameter theta.
        """
        return self.rule(problem.matrix).gram_gradient(solution)

    def loo_gradient(self, problem: Problem, solution: Solution, others: LeaveOneOut) -> LooGradient | None:
        """Return how to compute the derivatives of the leave-one-out log density; there is no formula on a root."""
        return loo_gradient(problem, solution, others, self.rule(problem.matrix).pull_back)

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return the leave-one-out predictions by linear response; for TAP they are its own cavities."""
        return sites.linear_response(problem, solution)


def _has_covariance(problem: Problem, state: SiteState) -> bool:
    """Tell whether sites leave a posterior covariance: where the equations have a saddle, negative ones do not."""
    if problem.likelihood.log_concave:
        return True
    try:
        return bool(np.isfinite(problem.matrix.sites(state.precision).log_det))
    except NotPositiveDefiniteError:
        return False


def _noises(problem: Problem) -> list[float]:
    """Return the extra latent noise of the models on the way to one whose likelihood is not log-concave."""
    return [level * float(np.mean(problem.matrix.diagonal())) for level in ANNEALING]


class _Equations:
    """The equations of a problem under a rule, and what follows from the state that was asked for last."""

    def __init__(self, rule: Rule, problem: Problem, matrix: Matrix | None = None) -> None:
        self.rule, self.problem, self.matrix = rule, problem, problem.matrix if matrix is None else matrix
        self._last: tuple[SiteState, float, SitePosterior] | None = None
        self._error: float | None = None  # of the log evidence, where Newton's step was asked for last ...
        self._square = 0.0  # ... and the change there, squared

    def in_single_precision(self) -> _Equations | None:
        """Return the same equations in single precision, where that saves time."""
        if self.problem.n < SINGLE_FROM or self.rule.fixed_variance is not None:
            return None
        matrix = self.matrix.in_single_precision()
        return None if matrix is None else _Equations(self.rule, self.problem, matrix)

    def iterate(
        self, first: SiteState, control: Control, done: int = 0, extra_noise: float = 0.0
    ) -> tuple[SiteState, Info]:
        """Iterate from a state, after some steps; the log evidence alone is enough where there is no extra noise."""
        step, newton = partial(self.step, extra_noise=extra_noise), partial(self.newton_step, extra_noise=extra_noise)
        enough = self.evidence_is_known(control.evidence_tolerance) if extra_noise == 0.0 else None
        return sites.iterate_sites(self.problem, step, first, control, newton, enough, done)

    def posterior(self, state: SiteState, extra_noise: float = 0.0) -> SitePosterior:
        """Return what follows from a state, at the cost of one factorisation unless it was asked for last."""
        known, self._last = self._last, None  # an error leaves nothing behind
        if known is not None and (known[0] is state or all(map(np.array_equal, known[0][:2], state[:2]))):
            _, noise, posterior = known
            if noise != extra_noise:
                posterior = posterior._replace(derivs=self._derivs(posterior.cavity, extra_noise))
        else:
            posterior = self._posterior(state, extra_noise)
        self._last = state, extra_noise, posterior
        return posterior

    def _posterior(self, state: SiteState, extra_noise: float) -> SitePosterior:
        matrix = self.matrix
        correction = matrix.sites(state.precision)
        if state.alpha is None:
            alpha, latent = correction.posterior(state.shift)
        else:
            alpha, latent = state.alpha, matrix @ state.alpha
        variance = self.rule.cavity_variance(correction)
        positive = variance > 0
        # a value is certain only if it was so beforehand
        if not positive.all() and not (positive | (matrix.diagonal() == 0)).all():
            raise NotPositiveDefiniteError("a cavity variance is not positive: the sites contradict each other")
        mean = latent - variance * alpha  # 2000, eqs. 19 and 26
        if not np.isfinite(mean).all():
            raise NotPositiveDefiniteError("a latent value overflows: the sites are far from a solution")
        cavity = Cavity(mean, variance)
        return SitePosterior(alpha, correction, cavity, self._derivs(cavity, extra_noise))

    def _derivs(self, cavity: Cavity, extra_noise: float = 0.0) -> Derivs:
        # latent noise in the likelihood is variance of the value that it sees (2000, appendix A)
        return self.problem.likelihood.log_partition(self.problem.t, cavity.mean, cavity.variance + extra_noise)

    def with_weights(self, posterior: SitePosterior, alpha: Array) -> SitePosterior:
        """Return a posterior with other weights under the same sites."""
        variance = posterior.cavity.variance
        cavity = Cavity(self.matrix @ alpha - variance * alpha, variance)  # 2000, eqs. 19 and 26
        return SitePosterior(alpha, posterior.correction, cavity, self._derivs(cavity))

    def step(self, state: SiteState, extra_noise: float = 0.0) -> SiteState:
        """Return the sites that match the likelihood at the cavities of a state."""
        _, _, cavity, derivs = self.posterior(state, extra_noise)
        return match(self.problem.likelihood, self.problem.t, cavity, derivs, extra_noise)

    def largest_change(self, state: SiteState, extra_noise: float) -> float:
        """Return by how much a step would change a site at most, in units of the tolerance; NaN if it leads nowhere."""
        pack = sites.SiteUnits(self.problem.at_prior).pack
        with np.errstate(all="ignore"):
            return float(np.abs(pack(self.step(state, extra_noise)) - pack(state)).max())

    def newton_step(
        self, state: SiteState, residual: SiteState, accuracy: float, extra_noise: float = 0.0
    ) -> SiteState | None:
        """Return by how much Newton's step would change a state, or None where it is not known."""
        if self.rule.fixed_variance is not None:
            return None
        posterior = self.posterior(state, extra_noise)
        move, self._error = newton_step(self.problem, state, posterior, residual, accuracy, extra_noise)
        return move

    def evidence(self, posterior: SitePosterior) -> float:
        """Return the log evidence; where the equations do not hold yet, it is off by the order of the square."""
        alpha, correction, (mean, variance), derivs = posterior
        # alpha' K alpha is alpha' (m + lambda alpha)
        return float(derivs.value.sum() - 0.5 * (alpha @ mean) - self.rule.site_term(correction, variance))

    def evidence_is_known(self, tolerance: float) -> Callable[[Array], bool] | None:
        """Return a judge of changes that says when the log evidence is known to ``tolerance``, or None for zero.

        It is stationary at the solution: its error goes with the square of the change, and Newton's step knew how large
        both were one step earlier.
        """
        if tolerance == 0.0:
            return None

        def judge(change: Array) -> bool:
            before, self._square = self._square, float(change @ change)
            error_before, self._error = self._error, None
            if error_before is None or np.abs(change).max() > UNSETTLED:  # squares are errors near the solution only
                return False
            return CAUTION * error_before * self._square <= tolerance * before

        return judge

    def know_as(self, other: _Equations) -> None:
        """Take over how far off the log evidence was in the last state of others."""
        self._error, self._square = other._error, other._square


class _EquationsInRootForm(_Equations):
    """The same on K = A A', whose steps small eigenvalues do not spoil; for Newton's, all columns cost too much.

    With f = A w, w has precision I + A' W A. Means and variances are of one root F of the posterior covariance F F', so
    that they are rounded alike: where prior variances are 10^11 of the noise this settles to 8e-9, other steps to 2e-8.
    """

    def __init__(self, rule: Rule, problem: Problem, matrix: Matrix) -> None:
        super().__init__(rule, problem, matrix)
        self._root = np.asarray(matrix.root)

    def in_single_precision(self) -> None:
        """Return None: rounding is why there is this form."""

    def newton_step(self, *args: object, **options: object) -> None:
        """Return None."""

    def step(self, state: SiteState, extra_noise: float = 0.0) -> SiteState:
        """Return the sites that match the likelihood at the cavities of a state."""
        precision, shift = state.precision, state.shift
        covariance_root = self._root
        if precision.any():
            inner = (self._root.T * precision) @ self._root
            inner.ravel()[:: inner.shape[0] + 1] += 1.0
            if not np.all(np.isfinite(inner)):
                raise NotPositiveDefiniteError("the sites are too strong to be added up")
            covariance_root = self._root @ triangular_inverse(cholesky(inner)).T
        latent = covariance_root @ (covariance_root.T @ shift)
        variance = self.rule.fixed_variance
        if variance is None:
            sigma = np.einsum("ij,ij->i", covariance_root, covariance_root)
            rest = 1.0 - precision * sigma
            if not np.all(rest > 0):
                raise NotPositiveDefiniteError("a cavity variance is not positive: the sites contradict each other")
            variance = sigma / rest
            mean = (latent - sigma * shift) / rest
        else:
            mean = latent - variance * (shift - precision * latent)
        cavity = Cavity(mean, variance)
        return match(self.problem.likelihood, self.problem.t, cavity, self._derivs(cavity, extra_noise), extra_noise)


def _finish(method: str, equations: _Equations, state: SiteState, info: Info) -> Solution:
    rule, problem = equations.rule, equations.problem
    posterior = equations.posterior(state)
    if not problem.matrix.is_whole:  # a step on a root takes its means another way than what is node_evidence, K alpha
        posterior = equations.with_weights(posterior, posterior.alpha)
    precision, variance = posterior.correction.site_precision, posterior.cavity.variance
    growth = 1.0 + precision * variance
    sd = np.sqrt(np.maximum(variance / growth, 0.0))

    def gap(at: SitePosterior) -> accuracy.Gap:
        residual = at.derivs.d1 - at.alpha
        return accuracy.Gap(variance * residual, growth * residual)

    posterior, mean_error = accuracy.refined(problem.matrix, posterior, gap, equations.with_weights, sd, info)
    if rule.fixed_variance is None:  # cavity variances react to the sites: these must be those of their cavities
        site = match(problem.likelihood, problem.t, posterior.cavity, posterior.derivs)
        unsettled = float((np.abs(site.precision - precision) * sd**2).max())
        mean_error = float(np.maximum(mean_error, SHARE_OF_VARIANCE * unsettled))  # NaN stays
    of_sites = sites.lost_digits(problem.likelihood, problem.t, posterior.cavity, posterior.derivs)
    mean_error = float(np.maximum(mean_error, SHARE_OF_VARIANCE * of_sites))
    evidence = Evidence(equations.evidence(posterior), rule.kind, rule.bound)
    lost = accuracy.lost_in_sum(evidence.value, posterior.derivs.value, 0.5 * posterior.alpha * posterior.cavity.mean)
    if rule.fixed_variance is None and problem.matrix.is_whole:
        # K_ii is known to eps K_ii, and lambda_i no better: half that part of it is felt in what the others predict
        prior = problem.matrix.diagonal()
        lost = float(np.maximum(lost, 0.5 * accuracy.EPS * np.max(prior / np.where(prior > 0, variance, 1.0))))
    stated = rule.gram.stated
    info = replace(info, **stated) if stated else info
    solution = Solution(method, posterior.alpha, posterior.correction, evidence, posterior.cavity, info)
    return accuracy.assessed(
        solution,
        problem.matrix,
        mean_error,
        precision / growth,
        rule.gram_gradient,
        lambda: rule.extended_evidence(problem, posterior.alpha, precision, variance),
        lost,
    )


tap = MeanField("tap", Tap)
naive = MeanField("naive", Naive)
variational = MeanField("variational", Variational)
