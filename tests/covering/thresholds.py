"""Constants of the package at which a size decides which way a fit goes, and how each is crossed at 30 cases."""

from __future__ import annotations

from dataclasses import dataclass

from tests.covering.arrays import Cell
from tests.covering.options import FIT

FACTS = {"offset": "numbers", "weights": "counts"}
CELLS: dict[str, Cell] = {
    name: {**{option: values[0] for option, values in FIT.items()}, **given}
    for name, given in {
        "counts": {"likelihood": "poisson", "kernel": "groups", **FACTS},
        "counts, evidence": {"likelihood": "poisson", "kernel": "smooth", "hyper": "evidence", **FACTS},
        "counts, corrected evidence": {"likelihood": "poisson", "hyper": "corrected evidence", **FACTS},
        "trials": {"likelihood": "binomial, trials of each", "kernel": "smooth", **FACTS},
        "trials, hmc": {"likelihood": "binomial, trials of each", "hyper": "hmc", **FACTS},
        "trials, laplace": {"likelihood": "binomial, trials of each", "method": "laplace", **FACTS},
        "noise, leave-one-out": {"likelihood": "gaussian, noise of each", "hyper": "loo", **FACTS},
        "noise, integrate": {"likelihood": "gaussian, noise of each", "hyper": "integrate", **FACTS},
        "labels": {"likelihood": "probit with flips", "kernel": "groups", **FACTS},
        "labels, corrected": {"likelihood": "probit", "offset": "numbers", "corrected": "yes"},
        "labels, naive": {"likelihood": "probit", "method": "naive", **FACTS},
        "logit": {"likelihood": "logit", **FACTS},
        "student": {"likelihood": "student", **FACTS},
        "levels": {"likelihood": "ordinal", **FACTS},
        "inducing": {"likelihood": "poisson", "matrix": "inducing", **FACTS},
        "softmax": {"likelihood": "softmax"},
        "softmax, laplace": {"likelihood": "softmax", "method": "laplace", "weights": "counts", "kernel": "smooth"},
        "classes": {"likelihood": "multinomial probit"},
        "classes, flips": {"likelihood": "multinomial probit with flips", "kernel": "groups"},
    }.items()
}
ROUNDING = 1e-9
"""Where the same sums are taken in other parts: rounding, through a solution to a tolerance."""
SOLVED = 1e-6
"""Where the way to a solution differs: what the solvers and searches promise, in posterior standard deviations."""
ESTIMATED = 5e-3
"""Where leave-one-out corrects its worst cases up to a size: what the correction is worth here."""


@dataclass(frozen=True)
class Threshold:
    """A constant of a module, what it decides, the value that these cells are beyond, and what must then hold.

    Both sides agree to ``within``, or the far side is refused in ``words``.
    """

    module: str
    name: str
    decides: str
    lowered: int
    cells: tuple[str, ...]
    within: float = ROUNDING
    words: str = ""


THRESHOLDS = (
    Threshold("container.checks", "MOST_MEANS", "means looked at again when a container is read", 3, ("counts",)),
    Threshold("container.draws", "DRAWN_AT_ONCE", "draws made at once", 64, ("inducing", "noise, leave-one-out")),
    Threshold("container.layout", "MANY", "labels stored in a byte", 10, ("labels", "classes")),
    Threshold(
        "hyper.forecast",
        "FROM",
        "time told before work",
        10,
        ("counts", "counts, evidence", "trials, hmc", "noise, integrate", "noise, leave-one-out", "softmax"),
    ),
    Threshold(
        "hyper.scores",
        "WHOLE",
        "gradient of the correction",
        10,
        ("counts, corrected evidence",),
        words="at most 10 cases",
    ),
    Threshold(
        "hyper.integrate", "LARGEST_DESIGN", "nodes of a design", 2, ("noise, integrate",), words="takes 2 at most"
    ),
    Threshold(
        "inference.assembly",
        "SMALLEST",
        "low rank looked for",
        10,
        ("counts", "trials", "counts, evidence", "trials, hmc", "noise, integrate", "noise, leave-one-out", "softmax"),
        SOLVED,
    ),
    Threshold("inference.assembly", "DIAGONAL_BLOCK", "variances at once", 3, ("inducing", "counts, evidence")),
    Threshold("inputs.labels", "FEW", "warning of classes of one case", 2, ("softmax, laplace", "classes")),
    Threshold("inputs.scales", "BLOCK", "rows of the check of scales", 3, ("labels",)),
    Threshold("kernels.stationary", "PAIRS", "distances at once", 16, ("noise, leave-one-out", "classes")),
    Threshold("likelihoods.below", "ENTRIES", "nodes at once", 300, ("inducing",)),
    Threshold("likelihoods.centred", "_ENTRIES", "nodes at once", 70, ("counts",)),
    Threshold("likelihoods.logit", "_ENTRIES", "nodes at once", 70, ("logit", "trials, laplace")),
    Threshold("likelihoods.one_factor", "_ENTRIES", "nodes at once", 64, ("classes", "classes, flips")),
    Threshold("likelihoods.ordinal", "_AT_ONCE", "cases at once", 3, ("levels",)),
    Threshold("likelihoods.quadrature", "_BLOCK", "cases at once", 3, ("labels",)),
    Threshold("likelihoods.softmax_integral", "_ENTRIES", "points at once", 100, ("softmax, laplace",)),
    Threshold("likelihoods.softmax_tilted", "_ENTRIES", "nodes at once", 64, ("softmax",)),
    Threshold(
        "likelihoods.softmax_tilted", "MOST_CLASSES", "classes of TAP", 2, ("softmax",), words="beyond 2 classes"
    ),
    Threshold("likelihoods.student_t", "_ENTRIES", "nodes at once", 64, ("student",)),
    Threshold("matrices.blas", "SMALL", "one BLAS thread", 5, ("labels",)),
    Threshold("matrices.blocks", "BLOCK", "cases at once", 7, ("inducing", "softmax", "noise, leave-one-out")),
    Threshold(
        "matrices.dense",
        "LEAST",
        "begins on a part of the cases",
        20,
        ("counts", "labels", "logit", "trials, hmc"),
        SOLVED,
    ),
    Threshold("matrices.factors", "SMALL_TRIANGLE", "LAPACK's own inverse", 4, ("labels, corrected", "softmax")),
    Threshold("matrices.inducing", "LEAST_COARSE", "begins on few columns", 1, ("inducing",), SOLVED),
    Threshold("matrices.root_gram", "AT_ONCE", "cases at once", 40, ("inducing",)),
    Threshold("matrices.sites", "AT_ONCE", "columns at once", 40, ("labels, corrected", "logit")),
    Threshold("matrices.sites", "SQUARES_KEPT", "squares kept", 5, ("labels, corrected",)),
    Threshold("multiclass.correction", "BLOCK", "cases at once", 4, ("softmax", "softmax, laplace", "classes")),
    Threshold("multiclass.joint", "_ENTRIES", "covariances at once", 40, ("classes",)),
    Threshold("processes.corrected", "LARGEST", "cases at once", 100, ("labels, corrected",)),
    Threshold(
        "processes.probed", "MOST_CASES", "probabilities measured", 10, ("counts", "labels, corrected"), ESTIMATED
    ),
    Threshold("processes.several_classes", "BLOCK", "new cases at once", 2, ("softmax", "classes")),
    Threshold("processes.single", "BLOCK", "new cases at once", 2, ("labels, corrected", "noise, integrate")),
    Threshold("processes.single", "LARGEST_BLOCK", "features at once", 60, ("labels, corrected", "noise, integrate")),
    Threshold("solvers.fixed_variance", "_FEW_PRODUCTS", "products before a factor", 2, ("labels, naive",)),
    Threshold(
        "solvers.meanfield",
        "SINGLE_FROM",
        "first steps in single precision",
        10,
        ("counts", "trials, hmc", "labels"),
        SOLVED,
    ),
    Threshold("solvers.newton", "_MANY", "finer steps", 10, ("labels, corrected",), SOLVED),
    Threshold("solvers.partial_response", "OTHERS", "cases that do not answer", 4, ("labels, corrected",)),
    Threshold("solvers.ratio", "AT_ONCE", "ratios at once", 100, ("labels, corrected",)),
    Threshold("solvers.second_order", "WHOLE", "pairs of some cases", 10, ("labels",)),
)
