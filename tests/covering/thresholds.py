"""Constants of the package at which a size decides which way a fit goes, and how each is crossed at 30 cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tests.covering.arrays import Cell
from tests.covering.options import FIT, KERNELS

FACTS = {"offset": "numbers", "weights": "counts"}
CELLS: dict[str, Cell] = {
    name: {**{option: values[0] for option, values in FIT.items()}, **given}
    for name, given in {
        "counts": {"likelihood": "poisson", "kernel": "groups", **FACTS},
        "counts, evidence": {"likelihood": "poisson", "kernel": "smooth", "hyper": "evidence", **FACTS},
        "areas": {"likelihood": "poisson", "kernel": "areas alone", **FACTS},
        "areas, evidence": {"likelihood": "poisson", "kernel": "areas alone", "hyper": "evidence", **FACTS},
        "areas, laplace, integrate": {
            **{"likelihood": "poisson", "kernel": "areas alone", "method": "laplace", "hyper": "integrate"},
            **FACTS,
        },
        "counts, corrected evidence": {"likelihood": "poisson", "hyper": "corrected evidence", **FACTS},
        "trials": {"likelihood": "binomial, trials of each", "kernel": "smooth", **FACTS},
        "trials, hmc": {"likelihood": "binomial, trials of each", "hyper": "hmc", **FACTS},
        "trials, laplace": {"likelihood": "binomial, trials of each", "method": "laplace", **FACTS},
        "noise, leave-one-out": {"likelihood": "gaussian, noise of each", "hyper": "loo", **FACTS},
        "noise, integrate": {"likelihood": "gaussian, noise of each", "hyper": "integrate", **FACTS},
        "labels": {"likelihood": "probit with flips", "kernel": "groups", **FACTS},
        "counts, corrected": {"likelihood": "poisson", "corrected": "yes"},
        "labels, corrected": {"likelihood": "probit", "offset": "numbers", "corrected": "yes"},
        "labels, naive": {"likelihood": "probit", "method": "naive", **FACTS},
        "logit": {"likelihood": "logit", **FACTS},
        "student": {"likelihood": "student", **FACTS},
        "levels": {"likelihood": "ordinal", **FACTS},
        "inducing": {"likelihood": "poisson", "matrix": "inducing", **FACTS},
        "low rank": {"likelihood": "poisson", "kernel": "smooth", "matrix": "low rank", **FACTS},
        "exact": {"method": "exact"},
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
NEGLECTED = 1e-3
"""What cases may change of a log density or a probability whose sites do not answer to a label (`solvers.ratio`)."""
Found: TypeAlias = Mapping[str, Any]


def correction_as_stated(near: Found, far: Found) -> None:
    """Corrections of the evidence are no farther apart than both say that they may be off."""
    assert abs(near["correction"] - far["correction"]) <= near["remaining"] + far["remaining"]


def corrected_or_not(near: Found, far: Found) -> None:
    """Each left-out density is that without a correction, or that with one."""
    of_near = np.abs(near["loo"] - far["loo"])
    assert np.all(np.minimum(of_near, np.abs(near["loo"] - near["corrected loo"])) < ROUNDING)
    assert np.max(of_near) > NEGLECTED


def between(near: Found, far: Found) -> None:
    """An average over some kernels is between what they say; a quantile of few points, between its neighbours."""
    (name,) = near.keys() - {"low", "high"}
    assert np.all((far[name] >= near["low"]) & (far[name] <= near["high"]))
    assert np.any(far[name] != near[name])


def integrated(near: Found, far: Found) -> None:
    """A few cases are integrated, and more are not: probabilities differ by what the page on several classes says."""
    assert ROUNDING < np.max(np.abs(far["p"] - near["p"])) < 0.05


def not_warned(near: Found, far: Found) -> None:
    """Too few cases say nothing of a scale."""
    assert (near["warnings"], far["warnings"]) == (1, 0)


def not_tuned(near: Found, far: Found) -> None:
    """The kernel is another, or what it was."""
    assert near["kernel"] != far["kernel"] == str(KERNELS["rough"]())


@dataclass(frozen=True)
class Threshold:
    """A constant of a module, what it decides, the value that these cells are beyond, and what must then hold.

    Both sides agree to ``within``, or differ as ``differs`` states, or the far side is refused in ``words``. The
    constants of ``beside`` have values without which this one is not met, on both sides; ``together`` are other
    modules that have imported it.
    """

    module: str
    name: str
    decides: str
    beyond: Any
    cells: tuple[str, ...]
    within: float = ROUNDING
    words: str = ""
    differs: Callable[[Found, Found], None] | None = None
    beside: tuple[tuple[str, str, Any], ...] = ()
    together: tuple[str, ...] = ()


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
        "low rank or a sparse precision looked for",
        10,
        (
            *(
                "counts",
                "trials",
                "counts, evidence",
                "trials, hmc",
                "noise, integrate",
                "noise, leave-one-out",
                "softmax",
            ),
            *("areas", "areas, evidence", "areas, laplace, integrate"),
        ),
        SOLVED,
    ),
    Threshold("inference.assembly", "DIAGONAL_BLOCK", "variances at once", 3, ("inducing", "counts, evidence")),
    Threshold("inputs.labels", "FEW", "warning of classes of one case", 2, ("softmax, laplace", "classes")),
    Threshold("inputs.scales", "BLOCK", "rows of the check of scales", 3, ("labels",)),
    Threshold("kernels.stationary", "PAIRS", "distances at once", 16, ("noise, leave-one-out", "classes")),
    Threshold("likelihoods.below", "ENTRIES", "nodes at once", 300, ("inducing",)),
    Threshold("likelihoods.centred", "_ENTRIES", "nodes at once", 500, ("counts",)),
    Threshold("likelihoods.logit", "_ENTRIES", "nodes at once", 70, ("logit", "trials, laplace")),
    Threshold("likelihoods.one_factor", "_ENTRIES", "nodes at once", 64, ("classes", "classes, flips")),
    Threshold("likelihoods.pieces", "_AT_ONCE", "pieces at once", 40, ("levels",)),
    Threshold(
        "likelihoods.quadrature",
        "_BLOCK",
        "cases at once",
        3,
        ("labels",),
        beside=(("likelihoods.probit", "_SHARP", 0.0),),
    ),
    Threshold("likelihoods.softmax_integral", "_ENTRIES", "points at once", 100, ("softmax, laplace",)),
    Threshold("likelihoods.softmax_tilted", "_ENTRIES", "nodes at once", 64, ("softmax",)),
    Threshold(
        "likelihoods.softmax_tilted", "MOST_CLASSES", "classes of TAP", 2, ("softmax",), words="beyond 2 classes"
    ),
    Threshold("likelihoods.student_t", "_ENTRIES", "nodes at once", 64, ("student",)),
    Threshold("matrices.blas", "SMALL", "one BLAS thread", 5, ("labels",)),
    Threshold("matrices.factors", "BLOCK", "cases at once", 7, ("inducing", "softmax", "noise, leave-one-out")),
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
    Threshold("matrices.inducing_points", "PROBED", "cases whose rounding is looked at", 5, ("inducing",)),
    Threshold("matrices.root_gram", "AT_ONCE", "cases at once", 40, ("inducing",)),
    Threshold("matrices.low_rank", "SMALL", "leaves out columns", 10, ("low rank",), SOLVED),
    Threshold("pymc.op", "SMALLEST", "low rank looked for", 10, ("in a model",)),
    Threshold("matrices.sites", "AT_ONCE", "columns at once", 40, ("labels, corrected", "logit")),
    Threshold("matrices.sites", "SQUARES_KEPT", "squares kept", 5, ("labels, corrected",)),
    Threshold("multiclass.correction", "BLOCK", "cases at once", 4, ("softmax", "softmax, laplace", "classes")),
    Threshold("multiclass.joint", "_ENTRIES", "covariances at once", 40, ("classes",)),
    Threshold("processes.corrected", "LARGEST", "cases at once", 100, ("labels, corrected",)),
    Threshold(
        "processes.probed",
        "MOST_CASES",
        "probabilities measured",
        10,
        ("counts, corrected", "labels, corrected"),
        differs=corrected_or_not,
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
    Threshold(
        "solvers.second_order",
        "WHOLE",
        "pairs of some cases",
        10,
        ("labels",),
        differs=correction_as_stated,
        beside=(("solvers.second_order", "FEW", (3, 5)),),
    ),
    Threshold(
        "solvers.second_order",
        "FEW",
        "cases with pairs",
        (3, 5),
        ("labels",),
        differs=correction_as_stated,
        beside=(("solvers.second_order", "WHOLE", 10),),
    ),
    Threshold(
        "solvers.second_order", "MOST_PAIRS", "pairs integrated", 30, ("labels", "levels"), differs=correction_as_stated
    ),
    Threshold(
        "solvers.second_order", "LOOKED_AT", "terms looked at", 50, ("labels", "levels"), differs=correction_as_stated
    ),
    Threshold("solvers.second_order", "AT_ONCE", "covariances at once", 40, ("labels, corrected",)),
    Threshold("solvers.ratio", "ANSWERING", "cases that answer", (4, 8, 30), ("labels, corrected",), NEGLECTED),
    *(
        Threshold(
            "solvers.full_response",
            name,
            decides,
            beyond,
            ("labels, corrected",),
            within,
            beside=(("solvers.ratio", "ANSWERING", (4, 8, 30)),),
        )
        for name, decides, beyond, within in (
            ("WORK", "columns of the answers of all", 30.0, NEGLECTED),
            ("MOST_CUBES", "cases that stand for all", 2, SOLVED),
            ("LARGEST", "Newton's matrix factorised", 10, SOLVED),
        )
    ),
    Threshold("solvers.accuracy", "MOST_ROWS", "rows of the check", 5, ("rounded counts",), SOLVED),
    Threshold("solvers.accuracy", "MOST_CASES", "sums with more digits", 5, ("rounded measurements",), SOLVED),
    Threshold("solvers.orthant", "BATCH", "proposals at once", 64, ("exact draws",)),
    Threshold("matrices.low_rank", "PANEL", "columns at once", 3, ("low rank",)),
    Threshold("matrices.low_rank", "CANDIDATES", "pivots looked for", 8, ("low rank",), SOLVED),
    Threshold(
        "matrices.low_rank",
        "PROBED",
        "cases that show the rank",
        5,
        ("low rank",),
        SOLVED,
        beside=(("matrices.low_rank", "CANDIDATES", 8),),
    ),
    Threshold(
        "matrices.factors",
        "SQUARED",
        "columns squared at once",
        4,
        ("counts, corrected",),
        beside=(("matrices.sites", "SQUARES_KEPT", 5),),
    ),
    Threshold(
        "inference.assembly",
        "PART",
        "cases that show the rank",
        5,
        ("counts, evidence",),
        beside=(("hyper.forecast", "FROM", 10),),
    ),
    Threshold("inference.inducing", "PER_CENTRE", "cases to choose from", 2, ("k-means", "greedy")),
    Threshold("inputs.labels", "MOST_REAL", "classes", 4, ("measurements as labels",), words="distinct real numbers"),
    Threshold("inputs.scales", "FEWEST", "check of scales", 100, ("far apart",), differs=not_warned),
    Threshold("inputs.scales", "PROBED", "cases of the check of scales", 3, ("far apart",)),
    Threshold("likelihoods.below", "LONG", "panels, where a tail is long", 1000.0, ("below",)),
    Threshold("likelihoods.probit_tilted", "_ENTRIES", "covariances at once", 9, ("four classes",)),
    Threshold("likelihoods.probit_tilted", "_EXACT_TO", "exact probabilities", 2, ("classes",)),
    Threshold("likelihoods.softmax", "_BLOCK", "cases at once", 3, ("softmax",)),
    Threshold("likelihoods.softmax_integral", "_MOST", "sparse rules", 40, ("integrated",), NEGLECTED),
    Threshold("multiclass.star_tap", "FEW", "cases that are integrated", 3, ("few cases",), differs=integrated),
    Threshold("multiclass.joint", "CANDIDATES", "cases that may be near", 5, ("classes",), NEGLECTED),
    Threshold("processes.single", "MIXED_BLOCK", "new cases at once", 2, ("exact",)),
    Threshold("processes.single", "LOOKED_AT_ENTRIES", "new cases that are measured", 30, ("logit",)),
    Threshold(
        "processes.single", "MOST_WAYS", "ways to vary", 2, ("draws, inducing",), words="joint draws of new cases"
    ),
    Threshold("processes.single", "LARGEST_JOINT", "new cases drawn by a basis", 2, ("draws",)),
    Threshold(
        "processes.several_classes",
        "LARGEST_JOINT",
        "new cases drawn jointly",
        2,
        ("draws of classes",),
        together=("container.draws",),
    ),
    Threshold("processes.several_classes", "_ENTRIES", "draws at once", 100, ("draws of classes",)),
    Threshold("container.predictions", "LARGEST_JOINT", "threads of draws", 2, ("draws",)),
    Threshold(
        "container.layout",
        "FEW_CLASSES",
        "labels stored in a byte",
        2,
        ("labels, corrected",),
        beside=(("container.layout", "MANY", 10),),
    ),
    Threshold("container.netcdf", "LARGEST_RATIO", "size of a file", 0, ("file",), words="bytes of arrays"),
    Threshold("datasets.dataset", "MOST_INPUTS", "inputs that are named", 1, ("notebook",)),
    Threshold("diagnostics.curves", "SETTINGS", "kernels that stand for all", 2, ("curve",), differs=between),
    Threshold("diagnostics.curves", "SCORES", "points of a quantile", 8, ("medians",), differs=between),
    Threshold(
        "diagnostics.predicted", "MOST_COUNTS", "rows of a table", 1, ("counts of each",), words="a row for each count"
    ),
    Threshold("plots.predictions", "MOST_TICKS", "ticks", 1, ("ticks",)),
    Threshold("sharded.fit", "START", "cases that begin", 5, ("shards",), SOLVED),
    Threshold("sharded.fit", "FEW", "cases of the check of scales", 5, ("shards",)),
    Threshold("sharded.shard", "SINGLE_BLOCK", "cases at once", 4, ("shards",)),
    Threshold("streams.factor", "_ENTRIES", "covariances at once", 40, ("stream",)),
    Threshold("streams.learning", "FEWEST", "cases to tune on", 100, ("stream, first",), differs=not_tuned),
    Threshold(
        "streams.values", "LARGEST", "basis inputs", 5, ("stream of classes",), words="basis inputs are too many"
    ),
)
"""Each is crossed at 30 cases, by a constant that is changed: both sides agree, or differ as it is said."""
