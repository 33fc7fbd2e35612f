"""The evidences of the papers' tables and of a toy, by every method, over length scale and variance.

TAP, TAP corrected to second order, Laplace and importance sampling against the exact log evidence (minimax tilting). A
logit has none; there many draws by importance sampling are the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Likelihood, Logit
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD, axes_or_new, legend_above
from validation.studies.corrected.evidence import TIMES, approximations, checks_of, errors_of, row_of
from validation.studies.leave_one_out import LOAD, cases
from validation.studies.study import Findings, Study, Task

CASES = {"toy": 60, "crabs": 80, "sonar": 104, "Pima": 100}
"""All training cases of crabs and sonar, and of Pima a random half: its whole table takes a minute a row."""
LENGTHSCALES = {"toy": (0.5, 1.0, 2.0), "crabs": (2.0, 4.0, 8.0), "sonar": (3.0, 5.0, 8.0), "Pima": (1.5, 3.0, 6.0)}
VARIANCES = {"probit": (1.0, 10.0, 100.0), "step": (10.0, 100.0), "logit": (1.0, 10.0, 100.0)}
LIKELIHOODS: Mapping[str, Likelihood] = {"probit": bgp.Probit(1.0), "step": bgp.Step(), "logit": Logit()}
WHITE = 0.01
"""Variance of the noise in the kernel, without which a step has no exact evidence."""
SCRAMBLES = 48
"""Sets of points of the exact evidence, at most."""
CERTAIN = 2e-3
"""Largest standard error of a log evidence that others are held against, in nats."""
DRAWS, MANY_DRAWS = 10_000, 80_000
"""That importance sampling weighs; and where it is the reference."""
RELIABLE = 0.7
"""Pareto k above which it says itself that it is not to be trusted."""


def data(name: str, n: int) -> tuple[Array, Array]:
    """Return inputs and labels -1/+1 of some cases; the labels of the toy are drawn from a model of its own."""
    if name in LOAD:
        split = cases(name, n)
        return split.X, split.t
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), bgp.Probit(1.0), n=n, random_seed=1)
    return toy.X, 2.0 * toy.y - 1.0


def evidences(
    name: str, likelihood: str, lengthscale: float, variance: float, n: int | None = None, draws: int | None = None
) -> dict[str, float | int | str | None]:
    """Return log evidences of a table at fixed hyperparameters, in nats.

    Returns
    -------
    dict
        What `corrected.evidence.evidences` returns, with the ``likelihood`` instead of its noise; ``importance`` and
        its standard error ``importance_error``, with its ``pareto_k``. Of a logit ``exact`` is the same.
    """
    X, t = data(name, n or CASES[name])
    kernel = bgp.kernels.Gaussian(lengthscale, variance) + bgp.kernels.White(WHITE)
    model, gram = LIKELIHOODS[likelihood], kernel.gram(X)
    draws = draws or (MANY_DRAWS if likelihood == "logit" else DRAWS)
    idata = bgp.fit(X, t > 0, kernel, model, marginals="tilted", draws=draws // 4, random_seed=1)
    weighed = bgp.diagnostics.importance(idata)
    sampled = {"importance": weighed.log_evidence, "importance_error": weighed.log_evidence_error}
    reference = {"exact": weighed.log_evidence, "error": weighed.log_evidence_error}
    if likelihood != "logit":
        solver, control = Exact(most_scrambles=SCRAMBLES), bgp.Control(throw=False)
        exact = solver.solve(bgp.Problem(gram, t, model), control).evidence
        reference = {"exact": exact.value, "error": exact.standard_error}
    return {
        "n": t.size,
        "likelihood": likelihood,
        **reference,
        **approximations(gram, t, model, has_mode=likelihood != "step"),
        **sampled,
        "pareto_k": weighed.pareto_k,
    }


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold every evidence against the exact one, where that is certain."""
    rows = {task.name: results[task.name] for task in STUDY.tasks}
    sure = [row for row in rows.values() if _is_sure(row)]
    integrated = [row for row in sure if row["likelihood"] != "logit"]
    unsure = [f"{name} ({row['error']:.4f})" for name, row in rows.items() if not _is_sure(row)]
    return Findings(
        (*checks_of(*errors_of(sure), len(rows), CERTAIN), *_more_checks(sure)),
        (
            "Cases: "
            + ", ".join(f"{name} {n}" for name, n in CASES.items())
            + " (crabs and sonar: all training cases). A Gaussian kernel with the length scale and the variance that "
            f"are named, and noise of variance {WHITE:g}, without which a step has no exact evidence; a probit with "
            "noise of variance 1, a step, or a logit. The truth is the probability of an orthant, by minimax tilting "
            f"with at most {SCRAMBLES} sets of points; of a logit it is importance sampling with {MANY_DRAWS} draws. "
            f"Rows whose truth has a standard error above {CERTAIN:g} nats, or a Pareto k above {RELIABLE:g}, are "
            f"shown and held against nothing: {'; '.join(unsure) or 'none'}.",
            Table(
                "Errors of log evidences in nats: the exact one less the approximate. Last, importance sampling of "
                f"{DRAWS} draws of TAP with tilted marginals, its standard error and Pareto k.",
                (
                    *("", "Cases", "Exact", "Its se", "Laplace", "TAP", "TAP, corrected", "Stated to be left"),
                    *("Importance", "Its se", "k"),
                ),
                [(name, f"{row['n']}", *row_of(row), *_importance(row)) for name, row in rows.items()],
            ),
            _of_importance(integrated),
            Figures([_figure(sure, integrated)]),
        ),
    )


def _more_checks(sure: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    """Return the checks that only the tables have: Laplace, and importance sampling where it trusts itself."""
    before, after, _ = errors_of(sure)
    laplace = [abs(row["exact"] - row["laplace"]) for row in sure if row["laplace"] is not None]
    return (
        at_most("Largest error after the correction", after.max(), 0.1, "nats"),
        at_least("Control: largest error of Laplace", max(laplace), 1.0, "nats"),
        at_least("Control: largest error of TAP", before.max(), 0.1, "nats"),
    )


def _is_sure(row: Mapping[str, Any]) -> bool:
    """Tell whether the truth of a row is one."""
    return bool(row["error"] < CERTAIN and (row["likelihood"] != "logit" or row["pareto_k"] < RELIABLE))


def _importance(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row["likelihood"] == "logit":
        return "truth", f"{row['importance_error']:.4f}", f"{row['pareto_k']:.2f}"
    off = row["exact"] - row["importance"]
    return f"{off:+.4f}", f"{row['importance_error']:.4f}", f"{row['pareto_k']:.2f}"


def _of_importance(sure: Sequence[Mapping[str, Any]]) -> str:
    trusted = [row for row in sure if row["pareto_k"] < RELIABLE]
    z = np.array([abs(row["exact"] - row["importance"]) / row["importance_error"] for row in trusted])
    after = errors_of(trusted)[1]
    nearer = np.mean(after < [abs(row["exact"] - row["importance"]) for row in trusted])
    return (
        f"Importance sampling trusts itself (Pareto k below {RELIABLE:g}) in {len(trusted)} of {len(sure)} rows. There "
        f"its error is above twice its standard error in {int(np.sum(z > 2))}, {z.max():.1f} times it at most: weights "
        f"with a heavy tail hide what they have not met. The corrected evidence is nearer to the truth in {nearer:.0%} "
        "of these rows."
    )


def _figure(sure: Sequence[Mapping[str, Any]], integrated: Sequence[Mapping[str, Any]]) -> tuple[Any, str]:
    """Draw the errors of three evidences against what each says of itself."""
    ax = axes_or_new(None)
    before, after, stated = errors_of(sure)
    error = np.array([row["error"] for row in sure])
    known = np.maximum(stated, error)
    sampled = np.array([row["importance_error"] for row in integrated])
    off = np.array([abs(row["exact"] - row["importance"]) for row in integrated])
    ends = np.array([known.min() / 1.5, max(known.max(), sampled.max()) * 1.5])
    ax.plot(ends, ends, color=QUIET, linewidth=0.8, zorder=1, label="as stated")
    ax.plot(ends, TIMES * ends, "--", color=QUIET, linewidth=0.8, zorder=1, label=f"{TIMES:g} times that")
    ax.plot(known, before, "o", color=SECOND, markersize=4, label="TAP")
    ax.plot(known, np.maximum(after, 1e-5), "o", color=FIRST, markersize=4, label="TAP, corrected")
    ax.plot(sampled, np.maximum(off, 1e-5), "x", color=THIRD, markersize=4, label="importance sampling")
    ax.set(
        xscale="log", yscale="log", xlabel="stated size of the error (nats)", ylabel="error of the log evidence (nats)"
    )
    legend_above(ax)
    return ax, (
        "Errors against what each evidence says of itself: what is stated to be left after the correction, or where "
        "that is less the standard error of the truth; of importance sampling its standard error."
    )


_SETTINGS = [
    {"name": name, "likelihood": likelihood, "lengthscale": lengthscale, "variance": variance}
    for name in CASES
    for likelihood, variances in VARIANCES.items()
    for lengthscale in (LENGTHSCALES[name][1:2] if likelihood == "logit" else LENGTHSCALES[name])
    for variance in variances
]
STUDY = Study(
    "corrected_tables",
    "The corrected evidence on tables, beside other methods",
    [
        Task(", ".join(v if isinstance(v, str) else f"{v:g}" for v in s.values()), evidences, s, cost=3.0)
        for s in _SETTINGS
    ],
    conclude,
)
