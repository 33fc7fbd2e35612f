"""TAP mean field walks to the support-vector machine (2000, section 7 and appendix E).

With the likelihood Theta(t f - 1) and the Gram matrix K/beta, TAP is solved for growing beta; its weights divided by
beta, its Kuhn-Tucker conditions (eq. 37) and its leave-one-out fields are held against the machine's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.linalg import SiteCorrection
from bayesgp_mf.methods import get_method
from bayesgp_mf.problem import Problem
from bayesgp_mf.solution import Solution
from bayesgp_mf.solvers.response import site_form
from bayesgp_mf.types import Array
from validation.tables import sonar
from validation.tables.command import main
from validation.tables.drawing import FIRST, SECOND, axes_or_new, legend_above
from validation.tables.margin import MarginStep
from validation.tables.record import Entry, PaperTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGMA2 = 0.5
BETA = 10.0 ** np.arange(0.0, 6.1, 0.5)
CONTROL = bgp.Control(tolerance=3e-6)
"""At beta = 1e6 the site precisions span so many powers of ten that rounding keeps the residual above 1e-8."""


class Distance(NamedTuple):
    """How far TAP at one beta is from the machine."""

    beta: float
    weights: float  # largest difference of the weights, over the largest weight
    conditions: float  # largest violation of t f >= 1, and of a (t f - 1) = 0
    fields: float  # largest difference of the leave-one-out fields
    loo: int  # errors that they count


def make(advance: Callable[[str], None]) -> PaperTable:
    """Solve along beta and compare."""
    split = sonar.load()
    gram = sonar.gaussian(SIGMA2, split.X.shape[1]).gram(split.X)
    problem = Problem(gram, split.t, bgp.Step())
    machine = get_method("svm").solve(problem)
    loo = get_method("svm").leave_one_out(problem, machine)
    distances = walk(gram, split.t, machine.alpha, loo.mean, advance)
    last = distances[-1]
    falls = np.polyfit(np.log(BETA[4:]), np.log([d.conditions for d in distances[4:]]), 1)[0]
    entries = (
        Entry(f"Weights, beta = {last.beta:.0e}: largest difference from the machine, relative", 0.0, last.weights),
        Entry(f"Kuhn-Tucker conditions, beta = {last.beta:.0e}: largest violation", 0.0, last.conditions),
        Entry("Kuhn-Tucker conditions: power of beta with which the violation goes", None, float(falls)),
        Entry(f"Leave-one-out fields, beta = {last.beta:.0e}: largest difference from eq. 38", 0.0, last.fields),
        Entry("Leave-one-out errors: TAP at the last beta less the machine", 0.0, last.loo - loo.error_count(split.t)),
        Entry("Weights, beta = 1: largest difference from the machine, relative", None, distances[0].weights),
    )
    return PaperTable(
        "svm_limit_2000_section_7",
        "TAP with a margin walks to the support-vector machine (Opper & Winther 2000, section 7 and appendix E)",
        "2000, section 7",
        entries,
        (
            f"Sonar, Gaussian kernel with sigma^2 = {SIGMA2:g}, {split.t.size} training cases, of which "
            f"{np.count_nonzero(machine.alpha)} are support vectors. TAP with the likelihood Theta(t f - 1) and the "
            "Gram matrix K/beta; its weights over beta are compared with those of the machine, which is solved by "
            "non-negative least squares. Each beta starts from the sites of the last one, scaled with beta.",
            "The paper shows that the equations become the Kuhn-Tucker conditions in the limit, so its number is zero.",
            f"The tolerance on TAP's equations is {CONTROL.tolerance:g} here instead of 1e-8: the site precisions of "
            "support vectors and of the other cases lie so many powers of ten apart that rounding leaves no less.",
        ),
        (
            (
                "svm_limit_2000_section_7",
                draw(distances),
                "Distance of TAP with a margin and the Gram matrix K/beta from the support-vector machine, sonar.",
            ),
        ),
    )


def walk(gram: Array, t: Array, weights: Array, fields: Array, advance: Callable[[str], None]) -> list[Distance]:
    """Return the distance of TAP from a machine with the given weights and leave-one-out fields, for each beta."""
    tap, start, distances = get_method("tap"), None, []
    for k, beta in enumerate(BETA):
        advance(f"TAP at beta = {beta:.1e}")
        problem = Problem(gram / beta, t, MarginStep())
        solution = tap.solve(problem, CONTROL, start)
        loo = tap.leave_one_out(problem, solution)
        alpha = solution.alpha / beta
        slack = t * (gram @ alpha) - 1.0
        violation = max(0.0, -float(slack.min()), float(np.abs(alpha * slack).max()))
        difference = float(np.abs(alpha - weights).max() / np.abs(weights).max())
        distances.append(
            Distance(beta, difference, violation, float(np.abs(loo.mean - fields).max()), loo.error_count(t))
        )
        if k + 1 < BETA.size:
            start = _scaled(solution, gram, float(beta), float(BETA[k + 1]))
    return distances


def _scaled(solution: Solution, gram: Array, beta: float, following: float) -> Solution:
    """Return a solution at beta as a start at the following one: variances of f fall as 1/beta, precisions grow."""
    ratio = following / beta
    correction = SiteCorrection(gram / following, site_form(solution).site_precision * ratio)
    return replace(solution, alpha=solution.alpha * ratio, correction=correction)


def draw(distances: list[Distance]) -> Axes:
    """Plot the distances against beta."""
    ax = axes_or_new(None)
    for name, label, color, marker in (
        ("weights", "weights (relative)", FIRST, "o"),
        ("conditions", "Kuhn-Tucker conditions", SECOND, "s"),
        ("fields", "leave-one-out fields", "#3a7d44", "^"),
    ):
        values = [getattr(distance, name) for distance in distances]
        ax.loglog(BETA, values, marker=marker, color=color, markersize=4, linewidth=1.2, label=label)
    ax.set(xlabel="beta", ylabel="largest difference from the machine")
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
