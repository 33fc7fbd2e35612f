"""Sonar: embedding strengths and stabilities of SVM, naive and TAP mean field, same kernel (2000, figure 3).

TAP and naive are rescaled to the squared length of the SVM's weight vector, sum_ij a_i t_i C_ij t_j a_j, and the cases
stand in the order of the SVM's embedding strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesgp_mf.types import Array
from validation.reporting.drawing import FIRST, SECOND, axes_or_new, legend_above
from validation.tables import sonar
from validation.tables.making import main
from validation.tables.paper_table import Entry, PaperTable
from validation.tables.selection import NAMES, solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGMA2 = 0.5
"""About the middle of the sigma^2 with the least leave-one-out count of the SVM (table 1). The paper does not say
which it drew."""
STYLES = {"svm": ("^", FIRST), "naive": ("o", SECOND), "tap": ("*", "black")}


class Solved(NamedTuple):
    """One algorithm's solution, case by case.

    Attributes
    ----------
    strength : (n,) array
        Embedding strengths t_i alpha_i (the papers' alpha_i).
    stability : (n,) array
        t_i times the mean of f_i.
    """

    strength: Array
    stability: Array

    @property
    def length(self) -> float:
        """Squared length of the weight vector, sum_ij a_i t_i C_ij t_j a_j."""
        return float(self.strength @ self.stability)

    def rescaled(self, length: float) -> Solved:
        """Return the same function, larger or smaller by a factor, with this squared length."""
        factor = np.sqrt(length / self.length)
        return Solved(factor * self.strength, factor * self.stability)


def make(advance: Callable[[str], None]) -> PaperTable:
    """Regenerate the figure."""
    split = sonar.load()
    kernel = sonar.gaussian(SIGMA2, split.X.shape[1])
    solved = {}
    for method in STYLES:
        problem, solution = solve(split, kernel, method)
        solved[method] = Solved(split.t * solution.alpha, split.t * (problem.gram @ solution.alpha))
        advance(NAMES[method])
    rescaled = {method: one.rescaled(solved["svm"].length) for method, one in solved.items()}
    order = np.argsort(rescaled["svm"].strength, kind="stable")
    return PaperTable(
        "sonar_2000_figure_3",
        "Sonar: embedding strengths and stabilities of three algorithms (Opper & Winther 2000, figure 3)",
        "2000, figure 3",
        tuple(_entries(rescaled)),
        (
            f"Gaussian kernel with w_l = 1/(sigma^2 d) and sigma^2 = {SIGMA2:g} for all three, step likelihood without "
            "noise. The paper does not name its sigma^2 and prints no numbers. Its two statements are that the "
            "solutions are clearly correlated, and that the mean-field algorithms have both smaller and larger "
            "stabilities than the SVM. The smallest stability of the SVM is 1 by definition.",
        ),
        (
            (
                "sonar_2000_figure_3_strengths",
                _draw({method: one.strength[order] for method, one in rescaled.items()}, "Embedding strength"),
                "Embedding strengths t_i alpha_i, in ascending order of the SVM's.",
            ),
            (
                "sonar_2000_figure_3_stabilities",
                _draw({method: one.stability[order] for method, one in rescaled.items()}, "Stability"),
                "Stabilities, t_i times the posterior mean, of the same cases in the same order.",
            ),
        ),
    )


def _entries(solved: Mapping[str, Solved]) -> list[Entry]:
    svm = solved["svm"]
    support = int(np.count_nonzero(svm.strength))
    entries = [Entry("SVM: support vectors among 104 cases", None, support)]
    for method, one in solved.items():
        name = NAMES[method]
        if method != "svm":
            correlation = float(np.corrcoef(one.strength, svm.strength)[0, 1])
            entries.append(Entry(f"{name}: correlation of the strengths with those of the SVM", None, correlation))
        entries += [
            Entry(f"{name}: smallest stability", None, float(one.stability.min())),
            Entry(f"{name}: largest stability", None, float(one.stability.max())),
        ]
    return entries


def _draw(values: Mapping[str, Array], quantity: str) -> Axes:
    ax = axes_or_new(None)
    for method, numbers in values.items():
        marker, color = STYLES[method]
        ax.plot(numbers, marker, color=color, markersize=4, fillstyle="none", label=NAMES[method])
    ax.set(xlabel="Case, in the order of the SVM's strengths", ylabel=quantity)
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
