"""Which numbers of the package a size is compared with, as its source says, and which of them are no thresholds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import bayesgp_mf

LEAST = 1000.0
"""Numbers with a point below this are tolerances, seconds and the like."""
ROOT = Path(bayesgp_mf.__file__).parent
BOUNDS = {"min", "max", "minimum", "maximum", "clip", "blocks", "blocks_by_size", "by_more_points", "cover"}
"""Calls by which a number bounds a size or divides it."""
NO_THRESHOLDS: dict[str, str] = {
    "Ranges of numbers: beyond these arithmetic fails, whatever the number of cases.": (
        "hyper.default.LARGEST_LEVEL hyper.hmc.LARGEST_ENERGY_ERROR "
        "arguments.LARGEST_COUNT design.beliefs.MOST_COUNTS design.information.FARTHEST "
        "inputs.tables.LARGEST_WHOLE likelihoods.base.LARGEST_WEIGHT "
        "likelihoods.below.LARGEST likelihoods.by_case.LARGEST_POWER likelihoods.counts._POISSON_LARGEST "
        "likelihoods.counts._LARGE likelihoods.logit.LARGEST_TRIALS likelihoods.zeros._LARGEST "
        "kernels.stationary.FARTHEST processes.corrected.FARTHEST "
        "solvers.ascent._STRONGEST solvers.driver.SMALLEST_DAMPING solvers.svm.MOST_STEPS "
        "streams.arguments.LARGEST_INPUT"
    ),
    "Steps and tries of a loop, which ends by its tolerance first.": (
        "likelihoods.probit_tilted.AFRESH parallel.cluster.IN_FLIGHT parallel.cluster.TRIES parallel.worker.AHEAD "
        "solvers.ascent._PATIENCE solvers.meanfield.MOST_SINGLE solvers.paper_scheme.REFRESH "
        "solvers.settling.MOST_TRIES "
        "hyper.forecast.FEWEST_SEEN hyper.objective.FOLLOWED hyper.priors.COARSE "
        "monotone.MOST"
    ),
    "Nodes of rules, whose errors the tests of the rules know.": (
        "likelihoods.centred._POINTS likelihoods.one_factor.MOST_POINTS "
        "likelihoods.quadrature._MAX_ACTIVE likelihoods.softmax_tilted.FEWEST "
        "likelihoods.student_t._SCAN likelihoods.student_t._POINTS likelihoods.student_t._SHARED "
        "processes.corrected.FEW_NODES "
        "processes.corrected.FIRST processes.probed.EACH solvers.second_order.HIGHEST"
    ),
    "Samples and starts: another number is another random choice, held against the whole where it is tested.": (
        "diagnostics.curves.CASES diagnostics.curves.DRAWS diagnostics.curves.PAIRS diagnostics.influence.FOLLOWED "
        "hyper.default.COMPARED hyper.optimise.SOME hyper.rounds.FEWEST "
        "hyper.optimise.SCREENED hyper.surrogate.strategy.WALKERS hyper.surrogate.strategy.FEWEST_NEW "
        "hyper.surrogate.strategy.PER_PARAMETER hyper.surrogate.strategy.FEWEST hyper.surrogate.strategy.USUAL_ROWS "
        "hyper.surrogate.strategy.MOST_ROWS hyper.integrate.FEW_PARAMETERS inference.inducing.SEARCH "
        "kernels.values.MEASURED monotone.LOOKED_AT matrices.dense.PART matrices.inducing.COARSER "
        "processes.corrected.WORST "
        "processes.corrected.OTHERS processes.probed.PROBES processes.probed.DENSITIES "
        "processes.probed.LOOKED_AT solvers.second_order.PAIRS "
        "solvers.fixed_variance._PRODUCTS_IN_A_FACTOR"
    ),
    "Fewest draws and cases by which something is said at all.": (
        "design.experiment.FIRST diagnostics.importance.FEWEST_IN_CHAIN diagnostics.importance.MOST_VALUES "
        "diagnostics.misfit.FEWEST "
        "diagnostics.misfit.FEWEST_COVERED workflow.plan.TARGETS hyper.pareto.FEWEST_WEIGHTS "
        "workflow.calibrate.FEWEST "
        "workflow.calibrate.MANY "
        "diagnostics.sensitivity.FEWEST_DRAWS"
    ),
    "Parts of a budget of memory or time, whose sums are compared.": (
        "design.information.AT_ONCE design.look_ahead.AT_ONCE "
        "hyper.forecast.INDUCING inputs.frames.MOST_DENSE inference.assembly.LARGEST matrices.memory.ROOTS "
        "matrices.precision.AT_ONCE kernels.functionals.AT_ONCE "
        "streams.learning.WAITING "
        "streams.learning.PARTS streams.learning.ARRIVE"
    ),
    "What is shown: letters, rows and entries of text and figures.": (
        "inputs.inducing.NAMED kernels.combinations.DEEPEST notebook.FEW plots._axes.ROWS "
        "plots._axes.ACROSS plots.cases.SMALL plots.cases.FEWEST plots.curves.MOST "
        "plots.curves.A_PERIOD plots.curves.MANY plots.curves.MOST_LEVEL plots.duels.FEW plots.duels.LABELLED "
        "plots.duels.ROWS plots.predictions.MANY "
        "plots.predictions.LETTERS plots.rows.ROWS plots.surface.FEW_CLASSES plots.surface.FEWEST "
        "plots.surface.MOST_CASES "
        "processes.process.SHOWN reports.computation.MOST_INPUTS reports.computation.MOST_CLASSES "
        "reports.computation.LONGEST reports.computation.MOST reports.page.LARGEST_SVG reports.page.WIDE "
        "reports.page.LONG reports.predictions.MOST_CLASSES reports.predictions.MOST_INPUTS "
        "reports.predictions.NAMED "
        "streams.stream.MOST_SHOWN"
    ),
    "Numbers of columns and of cases, whose other side a test of the default model has.": (
        "hyper.default.MANY hyper.forecast.MOST_DENSE"
    ),
    "Formats and facts of files and data.": (
        "container.layout.FORMAT design.experiment.FORMAT container.netcdf.TOO_LARGE streams.files.FORMAT "
        "datasets.loaders._GROUP_TRAINING_ROWS "
        "workflow.plan.FEW_VALUES"
    ),
}
"""Numbers of this kind that are no thresholds on size, by the reason."""


def numbers(tree: ast.Module) -> Iterator[str]:
    """Yield the names in capitals at the top of a module that may stand for a whole number, or several."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        (target,) = node.targets if isinstance(node, ast.Assign) else [node.target]
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and is_whole(value):
                yield name.id


def is_whole(value: ast.expr) -> bool:
    """Tell whether an expression is of whole numbers, with or without a point, and of no calls."""
    parts = list(ast.walk(value))
    known = [each.value for each in parts if isinstance(each, ast.Constant)]
    of = [type(each) is int or (type(each) is float and each >= LEAST) for each in known]
    return any(of) and not any(isinstance(each, ast.Call | ast.Subscript) for each in parts)


def compared(tree: ast.Module) -> set[str]:
    """Return the names that a module compares, takes the least or most with, or cuts and divides wholly by."""
    places: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.Slice) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)
        ):
            places.append(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BOUNDS:
            places += node.args
    return {each.id for place in places for each in ast.walk(place) if isinstance(each, ast.Name)}


@cache
def trees() -> dict[str, ast.Module]:
    """Return the modules of the package by name, as they are parsed."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in ROOT.rglob("*.py")
    }


def imported(tree: ast.Module) -> dict[str, str]:
    """Return what a module imports from others of the package, by name: where it is from."""
    return {
        each.asname or each.name: f"{node.module.removeprefix('bayesgp_mf.')}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("bayesgp_mf.")
        for each in node.names
    }


def sizes(of: Mapping[str, ast.Module]) -> set[str]:
    """Return the numbers of some modules that something is compared with, by module and name."""
    used: set[str] = set()
    for module, tree in of.items():
        elsewhere = imported(tree)
        used |= {elsewhere.get(name, f"{module}.{name}") for name in compared(tree)}
    return {f"{module}.{name}" for module, tree in of.items() for name in numbers(tree)} & used


def origin(module: str, name: str) -> str:
    """Return where a number is from that a module reads."""
    return imported(trees()[module]).get(name, f"{module}.{name}")
