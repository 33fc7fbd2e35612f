"""TAP mean field walks to the support-vector machine (2000, section 7 and appendix E).

With the likelihood Theta(t f - 1) and the Gram matrix K/beta, TAP is solved for growing beta; its weights divided by
beta, its Kuhn-Tucker conditions (eq. 37) and its leave-one-out fields are held against the machine's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.reporting.drawing import FIRST, SECOND, THIRD, axes_or_new, legend_above
from validation.tables import sonar
from validation.tables.making import main
from validation.tables.margin import MarginStep
from validation.tables.paper_table import Entry, PaperTable
from validation.tables.selection import leave_one_out, solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "svm_limit_2000_section_7"
SIGMA2 = 0.5
BETAS = 10.0 ** np.arange(0.0, 6.1, 0.5)
FALLING = 100.0
"""From this beta on the rate at which the distance falls is measured."""
CONTROL = bgp.Control(tolerance=3e-6)
"""At beta = 1e6 rounding keeps the residual of the equations above the default, 1e-8."""


class Distance(NamedTuple):
    """How far TAP at one beta is from the machine.

    Attributes
    ----------
    beta : float
        What the Gram matrix is divided by.
    weights : float
        Largest difference of the weights, over the largest weight.
    conditions : float
        Largest violation of t f >= 1 and of a (t f - 1) = 0.
    fields : float
        Largest difference of the leave-one-out fields.
    loo : int
        Errors that the fields of TAP count.
    """

    beta: float
    weights: float
    conditions: float
    fields: float
    loo: int


def make(advance: Callable[[str], None]) -> PaperTable:
    """Solve along beta and compare."""
    split = sonar.load()
    problem, machine = solve(split, sonar.gaussian(SIGMA2, split.X.shape[1]), "svm")
    loo = leave_one_out(problem, machine)
    distances = walk(problem, machine, BETAS, advance)
    last = distances[-1]
    falling = [(d.beta, d.conditions) for d in distances if d.beta >= FALLING]
    log_beta, log_violation = np.log(falling).T
    power = np.polyfit(log_beta, log_violation, 1)[0]
    entries = (
        Entry(f"Weights, beta = {last.beta:.0e}: largest difference from the machine, relative", 0.0, last.weights),
        Entry(f"Kuhn-Tucker conditions, beta = {last.beta:.0e}: largest violation", 0.0, last.conditions),
        Entry(f"Kuhn-Tucker conditions: power of beta with which the violation goes, from {FALLING:g} on", None, power),
        Entry(f"Leave-one-out fields, beta = {last.beta:.0e}: largest difference from eq. 38", 0.0, last.fields),
        Entry("Leave-one-out errors: TAP at the last beta less the machine", 0.0, last.loo - loo.error_count(split.t)),
        Entry("Weights, beta = 1: largest difference from the machine, relative", None, distances[0].weights),
    )
    return PaperTable(
        NAME,
        "TAP with a margin walks to the support-vector machine (Opper & Winther 2000, section 7 and appendix E)",
        "2000, section 7",
        entries,
        (
            f"Sonar, Gaussian kernel with sigma^2 = {SIGMA2:g}, {split.t.size} training cases, of which "
            f"{np.count_nonzero(machine.alpha)} are support vectors. TAP with the likelihood Theta(t f - 1) and the "
            "Gram matrix K/beta; its weights over beta are compared with those of the machine, which is solved by "
            "non-negative least squares. Each beta starts from the sites of the last one, scaled with beta.",
            "The paper shows that the equations become the Kuhn-Tucker conditions in the limit, so its number is zero. "
            f"TAP's equations are solved to {CONTROL.tolerance:g} here instead of 1e-8, which rounding does not allow "
            "at the largest beta.",
        ),
        ((NAME, _draw(distances), _CAPTION),),
    )


def walk(problem: Problem, machine: Solution, betas: Iterable[float], advance: Callable[[str], None]) -> list[Distance]:
    """Return the distance of TAP from the machine that solves a problem, at each beta in turn."""
    tap, t = get_method("tap"), problem.t
    fields = leave_one_out(problem, machine).mean
    start: Solution | None = None
    distances: list[Distance] = []
    for beta in map(float, betas):
        scaled = Problem(problem.gram / beta, t, MarginStep())
        if start is not None:
            start = _scaled(start, scaled.gram, beta / distances[-1].beta)
        start = tap.solve(scaled, CONTROL, start)
        loo = tap.leave_one_out(scaled, start)
        alpha = start.alpha / beta
        slack = t * (problem.gram @ alpha) - 1.0
        distances.append(
            Distance(
                beta,
                weights=float(np.abs(alpha - machine.alpha).max() / np.abs(machine.alpha).max()),
                conditions=max(-float(slack.min()), float(np.abs(alpha * slack).max())),
                fields=float(np.abs(loo.mean - fields).max()),
                loo=loo.error_count(t),
            )
        )
        advance(f"TAP at beta = {beta:.1e}")
    return distances


def _scaled(solution: Solution, gram: Array, ratio: float) -> Solution:
    """Return a solution as a start at a beta larger by a factor: variances of f fall with it, precisions grow."""
    correction = SiteCorrection(gram, solution.sites.site_precision * ratio)
    return replace(solution, alpha=solution.alpha * ratio, correction=correction)


_CAPTION = (
    "Distance of TAP with a margin and the Gram matrix K/beta from the support-vector machine, sonar. At a dip the "
    "difference of the worst case changes its sign."
)


def _draw(distances: Sequence[Distance]) -> Axes:
    ax = axes_or_new(None)
    betas = [distance.beta for distance in distances]
    for values, label, color, marker in (
        ([distance.weights for distance in distances], "weights (relative)", FIRST, "o"),
        ([distance.conditions for distance in distances], "Kuhn-Tucker conditions", SECOND, "s"),
        ([distance.fields for distance in distances], "leave-one-out fields", THIRD, "^"),
    ):
        ax.loglog(betas, values, marker=marker, color=color, markersize=4, linewidth=1.2, label=label)
    ax.set(xlabel="beta", ylabel="Largest difference from the machine")
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
