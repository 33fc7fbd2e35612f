r"""Online learning as a solver: one sweep over a Gram matrix, or several.

References
----------
.. [1] Csato, L. (2002). Gaussian processes: iterative sparse approximations. PhD thesis, Aston University.
   Chapter 2, eqs. 51 to 57.
.. [2] Csato, L., Fokoue, E., Opper, M., Schottky, B., & Winther, O. (2000). Efficient approaches to Gaussian
   process classification. NIPS 12 ("1999" in this package), the sequential approach and its simulations.
.. [3] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field algorithms.
   Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bayesgp_mf import errors
from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.inference.problem import Problem, explain_infeasible, status_in_words
from bayesgp_mf.inference.solution import Control, Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import GramGradient, Traits, gradient_at_cavities
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.online.sweep import Reuse, Sweep, evidence_gradient, parameter_gradient, running_evidence, sweep
from bayesgp_mf.solvers.accuracy import EPS, Gap, assessed, latent_and_log_det, refined, require_accurate
from bayesgp_mf.solvers.driver import require_solved
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.solvers.sites import SiteState, iterate_sites, linear_response, sites_of
from bayesgp_mf.types import Array


@dataclass(frozen=True, slots=True)
class Online:
    """Online learning: process the cases one after the other, each as a Gaussian factor.

    Parameters
    ----------
    sweeps : int or None
        1: every case once, assumed-density filtering (thesis, eqs. 52 to 57). More: needs ``reuse="as_new"``.
        None: until another sweep would change nothing, which needs ``reuse="replace"``.
    reuse : {"replace", "as_new"}
        What happens to the former factor of a case when it is visited again. "replace" removes it first: this is
        sequential expectation propagation, whose fixed point is TAP's. "as_new" is the papers' heuristic (1999,
        simulations): update again as if the case were new. It **counts the data once for every sweep**: the mean may
        fit the training labels better, the variances are too small, and there is no fixed point.
    order : sequence of int, optional
        A permutation of the cases; by default the order of the rows. The result of one sweep, and of "as_new", depends
        on it. A fixed point does not, unless there are several (labels flipped with a high probability).

    Raises
    ------
    ValueError
        If ``sweeps`` is not a positive integer or None, or does not go with ``reuse``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.online import Online
    >>> problem = bgp.Problem([[2.0, 1.0], [1.0, 2.0]], [1, -1], bgp.Step())
    >>> Online().solve(problem).alpha.round(4)
    array([ 0.8327, -0.8436])
    >>> Online(sweeps=None).solve(problem).alpha.round(4)
    array([ 0.8468, -0.8468])
    """

    name: str = "online"
    sweeps: int | None = 1
    reuse: Reuse = "replace"
    order: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.sweeps is not None and (not isinstance(self.sweeps, int) or self.sweeps < 1):
            raise ValueError(f"sweeps must be a positive integer or None, got {self.sweeps!r}.")
        check_one_of("reuse", self.reuse, "replace", "as_new")
        if self.reuse == "as_new" and self.sweeps is None:
            raise ValueError(
                "sweeps must be an integer with reuse='as_new', got None: counted as new without end, the data leave "
                "no variance at all. Give sweeps=2, or reuse='replace'."
            )
        if self.reuse == "replace" and self.sweeps not in (1, None):
            raise ValueError(
                f"sweeps must be 1, or None for as many as needed, with reuse='replace', got {self.sweeps}. "
                "reuse='as_new' takes any number of sweeps, but counts the data as often."
            )
        if self.order is not None:
            object.__setattr__(self, "order", tuple(operator.index(i) for i in self.order))

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        r"""Take in the cases of a problem.

        Parameters
        ----------
        problem : Problem
            Gram matrix ``(n, n)``, targets ``(n,)``, likelihood.
        control : Control
            For ``sweeps=None``: tolerance, largest number of sweeps, and whether to raise if they were not enough.
        start : Solution, optional
            For ``sweeps=None``: a solution with the same n whose sites to start from. A single sweep, and "as_new",
            always start from the prior.

        Returns
        -------
        Solution
            With a correction in site form. The evidence of one sweep is the running one, kind "online": the sum of
            :math:`\log Z(m, \sigma^2)` of each case given those before it (1999, the sequential approach); later
            sweeps with "as_new" add nothing to it, since p(t) has each target once. For ``sweeps=None`` it is that of
            expectation propagation, kind "ep", with the cavities; otherwise ``cavity`` is None.

        Raises
        ------
        ConvergenceError
            For ``sweeps=None``, if ``control.throw`` and the sites still changed after ``control.max_iterations``; and,
            whatever ``throw``, if some case was left without a cavity, so that there is no evidence.
        InconsistentDataError
            For ``sweeps=None``, if there is no solution because the labels have probability zero. A single sweep
            does not notice that.
        NotPositiveDefiniteError
            If a latent value is known before its target comes and the likelihood has no noise; for ``sweeps=None``, if
            rounding in the Gram matrix decides the result.
        ValueError
            If ``order`` is not a permutation of the cases.

        Notes
        -----
        O(n^3) for each sweep, O(n^2) memory. With ``sweeps=None`` the sweeps start from what each case says on its
        own and are mixed by the driver of all solvers, which needs fewer of them. In one sweep the order matters:
        labels sorted by class look predictable, and the running evidence then comes out far too high. Shuffle first.
        """
        control.check_scheme(self.name)
        order = self._order(problem.n)
        if start is not None:
            start.check_start(problem.n)
        if self.sweeps is None:
            return self._until_solved(problem, order, control, start)
        first = done = sweep(problem, order, tap.init(problem), "as_new")
        for _ in range(self.sweeps - 1):
            done = sweep(problem, order, done.sites, "as_new")
        info = Info(errors.Status.CONVERGED, self.sweeps, 0.0)
        weights = _weights_under(problem, done.sites)

        def gap(at: _Weights) -> Gap:
            latent = problem.matrix @ at.alpha
            return Gap(done.latent - latent, done.sites.shift - at.alpha - done.sites.precision * latent)

        with np.errstate(divide="ignore"):
            # a variance that is lost in rounding is no certainty
            least = EPS * np.minimum(problem.matrix.diagonal(), 1.0 / np.abs(done.sites.precision))
        sd = np.maximum(done.sd, np.sqrt(least))
        weights, mean_error = refined(
            problem.matrix, weights, gap, lambda at, alpha: at._replace(alpha=alpha), sd, info
        )
        known = weights if done is first else _weights_under(problem, first.sites)
        evidence_of = partial(running_evidence, problem.matrix.diagonal(), first, known.alpha)
        value = evidence_of(problem.matrix @ known.alpha, known.correction.log_det)
        solution = Solution(self.name, weights.alpha, weights.correction, Evidence(value, "online"), None, info)

        def precisely() -> float | None:
            extended = latent_and_log_det(problem, known.alpha, first.sites.precision)
            return None if extended is None else evidence_of(*extended)

        gradient = partial(self.gram_gradient, problem)
        return require_accurate(
            assessed(solution, problem.matrix, mean_error, done.sites.precision, gradient, precisely)
        )

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return the derivative ``(n, n)`` of the log evidence with respect to the Gram matrix; exact.

        For a fixed point that of expectation propagation, (alpha alpha' - R)/2. For the running evidence it is found
        by running the sweep again, and then backwards: O(n^3). The order must be the solution's.
        """
        if solution.evidence.kind == "ep":
            return tap.gram_gradient(problem, solution)
        order = self._order(problem.n)
        return evidence_gradient(problem, order, sweep(problem, order, tap.init(problem), "as_new")).gram

    def _parameter_gradient(self, problem: Problem, solution: Solution, name: str) -> float | None:
        if solution.evidence.kind == "ep":
            return gradient_at_cavities(problem, solution, name)
        order = self._order(problem.n)
        return parameter_gradient(problem, order, sweep(problem, order, tap.init(problem), "as_new"), name)

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return the leave-one-out predictions: the posterior without each case's own factor.

        At a fixed point these are the cavities. After one sweep the factors of the later cases have still seen the
        case that is left out (and with "as_new" so have those of the earlier ones), so that the prediction is a
        little too good; with "as_new" all copies of its factor are taken out.

        Raises
        ------
        UndefinedQuantityError
            If the solution is that of a stream, which keeps no factors.
        """
        if solution.correction.sites is None:
            raise errors.UndefinedQuantityError(
                "leave-one-out needs each case's own factor, and a stream keeps none. Solve the problem with "
                "Online() over its Gram matrix, which does."
            )
        return linear_response(problem, solution)

    @property
    def traits(self) -> Traits:
        """To its fixed point it is TAP."""
        return Traits(
            loo_gradient=lambda problem, solution, others: (
                tap.loo_gradient(problem, solution, others) if solution.evidence.kind == "ep" else None
            ),
            parameter_gradient=self._parameter_gradient,
        )

    def _order(self, n: int) -> tuple[int, ...]:
        if self.order is None:
            return tuple(range(n))
        if sorted(self.order) != list(range(n)):
            raise ValueError(
                f"order must hold each of the numbers 0 to {n - 1} once, for the {n} cases of the problem, "
                f"got {len(self.order)} entries: {list(self.order[:5])}{' ...' if len(self.order) > 5 else ''}."
            )
        return tuple(self.order)

    def _until_solved(
        self, problem: Problem, order: tuple[int, ...], control: Control, start: Solution | None
    ) -> Solution:
        log_concave = problem.likelihood.log_concave

        def step(sites: SiteState) -> SiteState:
            done = sweep(problem, order, sites, "replace")
            if log_concave and _left_out(done):  # its factors are never negative: this state is one of rounding
                raise errors.NotPositiveDefiniteError("a case has no cavity")
            return done.sites

        # from what each case says on its own: a first sweep from the prior can end far out when the labels are sorted
        firsts = [tap.step(problem, tap.init(problem))]
        if start is not None:
            firsts.insert(0, sites_of(start, problem))
        if not log_concave:
            firsts.append(tap.init(problem))
        for first in firsts:
            state, info = iterate_sites(problem, step, first, control)
            if info.status is errors.Status.CONVERGED and _left_out(sweep(problem, order, state, "replace")):
                # a case that every sweep leaves out never changes, and no equation of its own is solved
                info = replace(info, status=errors.Status.NO_VALID_STEP)
            if info.status is errors.Status.CONVERGED:
                break
        require_solved(self.name, problem, info, control)
        try:
            solution = replace(tap.finish(problem, state, info), method=self.name)
        except errors.NotPositiveDefiniteError as error:
            # a sweep leaves out a case that has no cavity; here it is needed
            reason = explain_infeasible(problem)
            if reason is not None:
                raise errors.InconsistentDataError(reason) from error
            status = errors.Status.NO_VALID_STEP
            raise errors.ConvergenceError(
                f"{self.name}: {status_in_words(status, problem.likelihood, self.name)} ({error})", status
            ) from error
        return require_accurate(solution)


class _Weights(NamedTuple):
    alpha: Array
    correction: SiteCorrection


def _weights_under(problem: Problem, sites: SiteState) -> _Weights:
    correction = SiteCorrection(problem.dense_gram, sites.precision)
    return _Weights(correction.weights(sites.shift), correction)


def _left_out(done: Sweep) -> bool:
    """Tell whether a sweep left out some case, for which there was no proper Gaussian without its factor."""
    return bool(np.isnan(done.mean).any())


online = Online()
