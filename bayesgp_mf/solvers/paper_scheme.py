"""The papers' own iteration (2000, section 4), as the baseline that the faster one is measured against.

Weights move a small part of the way to what their equation asks for, with a learning rate that grows while the
error falls; cavity variances are refreshed every 20th step, each time at the cost of a factorisation.
"""

from __future__ import annotations

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Control, Info
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solvers.ascent import largest_change
from bayesgp_mf.solvers.rules import Rule
from bayesgp_mf.solvers.sites import SiteState, match
from bayesgp_mf.types import Array

LEARNING_RATE = 0.05  # 2000, section 4, initialisation, 1
FASTER, SLOWER = 1.1, 0.5  # 2000, footnote 1
REFRESH = 20  # 2000, section 4, iteration, 3
SMALLEST_RATE = 1e-12


def paper_scheme(rule: Rule, problem: Problem, control: Control) -> tuple[SiteState, Info]:
    """Solve mean-field equations as the papers did.

    Parameters
    ----------
    rule : Rule
        The theory: what it says of the cavity variances.
    problem : Problem
        Gram matrix ``(n, n)``, targets ``(n,)``, likelihood.
    control : Control
        Tolerance and largest number of steps. The papers stop where no squared change of alpha exceeds 1e-4; here
        it is the change of alpha in units of its size before any data, and the cavity variances must stand still
        too.

    Returns
    -------
    SiteState
        The sites at the last step.
    Info
        Steps, of which every 20th is followed by a factorisation, and the largest change that a full step would make.

    Notes
    -----
    The site variance is -1/d2 - lambda (eq. 29) with the second derivative of log Z. What the paper's recipe has in its
    place, lambda (1/(t alpha h) - 1), is the same at the solution for a step likelihood, and holds for no other.
    """
    gram, prior = problem.matrix, problem.matrix.diagonal()
    alpha, variance = np.zeros(problem.n), prior.copy()
    first = problem.at_prior.d1
    scale = 1.0 / np.where(first == 0, 1.0, np.abs(first))
    rate, last_error, change = LEARNING_RATE, float("inf"), float("inf")
    status, iteration = Status.MAX_ITERATIONS, 0
    mean, derivs = np.zeros(problem.n), None
    with progress_bar("solving as in the papers", enabled=control.progress) as advance, np.errstate(all="ignore"):
        while iteration < control.max_iterations:
            iteration += 1
            mean = gram @ alpha - variance * alpha  # eqs. 19, 26
            derivs = problem.likelihood.log_partition(problem.t, mean, variance)
            step = derivs.d1 - alpha  # eq. 23
            change = largest_change(scale, alpha, derivs.d1)
            if not np.isfinite(change):
                status = Status.NO_VALID_STEP
                break
            if change <= control.tolerance or iteration % REFRESH == 0:
                refreshed = _refresh(rule, match(problem.likelihood, problem.t, Cavity(mean, variance), derivs))
                if refreshed is None:
                    status = Status.NO_VALID_STEP
                    break
                moved = float(np.max(np.abs(refreshed - variance) / np.where(prior > 0, prior, 1.0)))
                if max(change, moved) <= control.tolerance:
                    status = Status.CONVERGED
                    break
                variance = refreshed
            error = float(step @ step)
            rate *= FASTER if error < last_error else SLOWER
            last_error = error
            if rate < SMALLEST_RATE:
                status = Status.STALLED
                break
            alpha = alpha + rate * step
            advance(f"step {iteration}, largest change {change:.1e} (tolerance {control.tolerance:.0e})")
    assert derivs is not None  # max_iterations is at least one
    return match(problem.likelihood, problem.t, Cavity(mean, variance), derivs), Info(status, iteration, change)


def _refresh(rule: Rule, sites: SiteState) -> Array | None:
    """Return the cavity variances that belong to the current sites (eqs. 28, 29), or None if there are none."""
    try:
        refreshed = rule.cavity_variance(rule.gram.sites(sites.precision))
    except NotPositiveDefiniteError:
        return None
    return refreshed if np.all(np.isfinite(refreshed) & (refreshed >= 0)) else None
