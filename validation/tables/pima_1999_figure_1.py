"""Pima: free energy and test errors along the descent of the hyperparameters from equal widths (1999, figure 1).

The paper follows the naive free energy; that of TAP is ours. Plain gradient descent on the logarithms of the widths
and of the noise, as in the paper. Each step is shortened until the free energy falls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.kernels import log_vector, with_log_vector
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.reporting.drawing import FIRST, SECOND, axes_or_new, legend_above
from validation.tables import crabs_and_pima as common
from validation.tables.making import main
from validation.tables.paper_table import Entry, PaperTable
from validation.tables.selection import NAMES, Split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "pima_1999_figure_1"
UPDATES = 100
FIRST_RATE = 0.05
LONGER, SHORTER = 1.1, 0.5
"""Factors of the learning rate after a step that went down, and after one that did not (as 2000, section 4)."""
SMALLEST_RATE = 1e-8
SHORT_OF_THE_END = 0.1
"""Nats."""
LABELS = {"free_energy": "free energy, -log evidence (nats)", "errors": "errors on the 332 test cases"}
STYLES = {"naive": (FIRST, "-"), "tap": (SECOND, "--")}


class Descent(NamedTuple):
    """Free energy in nats and test errors, before the first update and after each."""

    free_energy: Array
    errors: Array


def make(advance: Callable[[str], None]) -> PaperTable:
    """Regenerate the figure."""
    split = Split.of(bgp.datasets.load_pima())
    descents = {method: _descend(split, method, advance) for method in STYLES}
    entries = [entry for method, descent in descents.items() for entry in _entries(NAMES[method], descent)]
    return PaperTable(
        NAME,
        "Pima: free energy and test errors along the descent of the hyperparameters (Csato et al. 1999, figure 1)",
        "1999, figure 1",
        tuple(entries),
        (
            "Model as in table 1 of the same paper. Start: w_l = 1/d for all inputs, v = 1; the paper's values are "
            f"lost, and so are the numbers on its axes. Up to {UPDATES} updates, each a step along the gradient. The "
            "free energy falls with each of them by construction; the question is whether the test error follows.",
        ),
        tuple(
            (
                f"{NAME}_{field}",
                _draw({method: getattr(descent, field) for method, descent in descents.items()}, label),
                f"Pima: {label} against the number of hyperparameter updates, each method by its own free energy.",
            )
            for field, label in LABELS.items()
        ),
    )


def _descend(split: Split, method: str, advance: Callable[[str], None]) -> Descent:
    likelihood = bgp.Probit(noise_variance=1.0)  # v_0/v is the kernel's variance
    kernel = common.uniform_start(split)
    objective = Objective(Target(split.X, split.t, likelihood, kernel, get_method(method), Control()), EvidenceScore())
    free_energy, errors = [], []

    def note(log_parameters: Array, log_evidence: float) -> None:
        free_energy.append(-log_evidence)
        errors.append(common.fit(split, with_log_vector(kernel, log_parameters), likelihood, method)[1])

    x, rate = log_vector(kernel), FIRST_RATE
    here = objective(x)
    if here is None:
        raise RuntimeError(f"the first point has no solution: {objective.last_failure}")
    note(x, here[0])
    while len(errors) <= UPDATES and rate > SMALLEST_RATE:
        there = objective(x + rate * here[1])
        if there is None or there[0] <= here[0]:
            rate *= SHORTER
            continue
        x, here, rate = x + rate * here[1], there, rate * LONGER
        note(x, here[0])
        advance(f"{NAMES[method]}, update {len(errors) - 1}")
    return Descent(np.array(free_energy), np.array(errors, dtype=np.float64))


def _entries(name: str, descent: Descent) -> list[Entry]:
    near = int(np.argmax(descent.free_energy < descent.free_energy[-1] + SHORT_OF_THE_END))
    return [
        Entry(f"{name}: free energy at the start", None, descent.free_energy[0]),
        Entry(f"{name}: free energy at the end", None, descent.free_energy[-1]),
        Entry(f"{name}: updates until within {SHORT_OF_THE_END} nats of it", None, near),
        Entry(f"{name}: test errors at the start", None, descent.errors[0]),
        Entry(f"{name}: test errors at the end", None, descent.errors[-1]),
        Entry(f"{name}: least test errors on the way", None, descent.errors.min()),
        Entry(f"{name}: most test errors on the way", None, descent.errors.max()),
    ]


def _draw(values: Mapping[str, Array], label: str) -> Axes:
    ax = axes_or_new(None)
    for method, numbers in values.items():
        color, line = STYLES[method]
        ax.plot(numbers, line, color=color, linewidth=1.4, label=NAMES[method])
    ax.set(xlabel="Hyperparameter updates", ylabel=label.capitalize())
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
