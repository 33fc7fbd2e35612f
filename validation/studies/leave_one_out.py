"""Is leaving out for free the same as leaving out? Estimates against n refits, against NUTS, and against the truth.

Three questions on fixed hyperparameters: does the estimate that comes with a solution agree with the refits that it
stands for; does TAP's agree with importance sampling (PSIS) from a sample by NUTS; and where the two differ, which is
right? The last is answered by exact leave-one-out, integrated by minimax tilting case by case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.methods import get_method
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD
from validation.sampling import latent
from validation.sampling.arviz_calls import convergence, elpd, psis_loo
from validation.studies.study import Findings, Study, Task
from validation.tables.selection import Split

LOAD = {"sonar": bgp.datasets.load_sonar, "crabs": bgp.datasets.load_crabs, "Pima": bgp.datasets.load_pima}
KERNELS = {
    "sonar": bgp.kernels.Gaussian(lengthscale=6.5, variance=100.0),
    "crabs": bgp.kernels.Gaussian(lengthscale=4.0, variance=100.0),
    "Pima": bgp.kernels.Gaussian(lengthscale=6.4, variance=3.9),
}
"""Length scales near TAP's highest evidence. That of sonar and crabs grows with the variance without end; the hundred
is of our choice, and large enough to be hard."""
NAMES = {
    "tap": "TAP",
    "naive": "naive",
    "variational": "variational",
    "laplace": "Laplace",
    "online": "online",
    "svm": "SVM",
}
IN_KERNEL = ("variational", "svm")
"""Methods for which the noise of the probit stands in the kernel."""
TRUTH = ("sonar", "crabs")
"""Where leave-one-out is integrated; Pima would take minutes."""
ELPD = 0.5
"""Tolerance of the sum of log predictive densities, in nats."""
ERRORS = 1
"""Tolerance of the error counts, in cases."""
UNRELIABLE = 0.7
"""Pareto k above which PSIS is not to be trusted."""
CASE = 0.25
"""Tolerance of the log density of one case, in nats."""
DRAWS, TUNE, CHAINS = 1000, 500, 4
R_HAT, ESS = 1.01, 1000.0


def cases(data: str, n: int | None = None) -> Split:
    """Return all training cases of a data set, or ``n`` of them drawn at random."""
    split = Split.of(LOAD[data]())
    if n is None:
        return split
    chosen = np.random.default_rng(0).permutation(split.t.size)[:n]
    return Split(split.X[chosen], split.t[chosen], split.X_test, split.t_test)


def problem_of(data: str, method: str, n: int | None = None) -> Problem:
    """Return the problem in the form of the model that the method takes."""
    split = cases(data, n)
    gram = KERNELS[data].gram(split.X)
    if method in IN_KERNEL:
        return Problem(gram + np.eye(split.t.size), split.t, bgp.Step())
    return Problem(gram, split.t, bgp.Probit(1.0))


def refits(data: str, method: str, n: int | None = None) -> dict[str, Any]:
    """Return the estimate of a method and what n refits say, case by case.

    Returns
    -------
    dict
        ``errors`` and ``refit_errors``, counts; and but for the SVM the log predictive densities ``free``, ``refit``
        and ``seen`` (n), the last with the case left in, in nats.
    """
    problem = problem_of(data, method, n)
    solver = get_method(method)
    solution = solver.solve(problem)
    free, refit = solver.leave_one_out(problem, solution), exact_loo(problem, method)
    found: dict[str, Any] = {"errors": free.error_count(problem.t), "refit_errors": refit.error_count(problem.t)}
    if not solution.has_variance:
        return found
    gram = problem.gram
    variance = np.diag(gram) - solution.correction.quadratic_diagonal(gram)
    seen = problem.likelihood.log_partition(problem.t, gram @ solution.alpha, variance).value
    densities = {"free": free.log_density, "refit": refit.log_density, "seen": seen}
    return found | {name: values.tolist() for name, values in densities.items()}


def sampled(data: str, seed: int, n: int | None = None, draws: int = DRAWS, tune: int = TUNE) -> dict[str, Any]:
    """Sample the same posterior by NUTS and leave out by PSIS.

    Returns
    -------
    dict
        ``psis``, log predictive densities (n) in nats; ``pareto_k`` (n); ``r_hat`` and ``ess``, the worst over f.
    """
    problem = problem_of(data, "tap", n)
    samples = latent.sample_latent(
        problem.gram,
        problem.t,
        bgp.Probit(1.0),
        draws=draws,
        tune=tune,
        chains=CHAINS,
        cores=1,
        random_seed=seed,
        sampler="pymc",
    )
    r_hat, bulk, tail = convergence(get_group(samples, "posterior")["f"])
    found = elpd(psis_loo(samples))
    if found.pareto_k is None:
        raise ArithmeticError("ArviZ gave no Pareto k, and without them PSIS cannot be judged.")
    return {
        "psis": found.pointwise.tolist(),
        "pareto_k": found.pareto_k.tolist(),
        "r_hat": float(r_hat.max()),
        "ess": float(min(bulk.min(), tail.min())),
    }


def integrated(data: str, n: int | None = None) -> dict[str, list[float]]:
    """Return the exact log predictive densities ``truth`` (n) in nats."""
    problem = problem_of(data, "exact", n)
    solver = get_method("exact")
    # the full posterior only says where to look; that its evidence is uncertain by some thousandths does not matter
    solution = solver.solve(problem, bgp.Control(throw=False))
    return {"truth": solver.leave_one_out(problem, solution).log_density.tolist()}


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the estimates against refits, NUTS and the truth; densities of cases left in are the control."""
    checks = [check for data in LOAD for method in NAMES for check in _refit_checks(data, method, results)]
    checks += [check for data in LOAD for check in _sample_checks(data, results)]
    control = min(
        abs(_sum(np.subtract(results[_name(data, "tap")]["seen"], results[_name(data, "tap")]["refit"])))
        for data in LOAD
    )
    checks.append(at_least("Control: cases left in, TAP, elpd", control, ELPD, "nats"))
    return Findings(
        tuple(checks),
        (
            "Hyperparameters are fixed, and not chosen again without the case. Models: a Gaussian kernel, "
            + "; ".join(
                f"{data} length scale {kernel.params['lengthscale']:g} and variance {kernel.params['variance']:g}"
                for data, kernel in KERNELS.items()
            )
            + ". Probit likelihood with noise of variance 1; for the variational method and the SVM it stands in the "
            "kernel.",
            Table(
                "The estimate that comes with a solution, and n refits. elpd is the sum of log predictive densities, "
                "in nats.",
                ("", "elpd, estimate", "elpd, refits", "Difference", "Mean", "Largest, one case", "Errors", "Refits"),
                [_refit_row(data, method, results) for data in LOAD for method in NAMES],
            ),
            f"PSIS is made from {CHAINS} x {DRAWS} draws by NUTS. {_said_of_psis(results)}",
            Table(
                "TAP's estimate, PSIS from NUTS, and the integrated truth: elpd, and largest difference from the truth "
                "of one case, in nats.",
                (
                    "",
                    f"Cases with k > {UNRELIABLE:g}",
                    "TAP",
                    "PSIS",
                    "Exact",
                    "TAP, one case",
                    f"PSIS, one case, k <= {UNRELIABLE:g}",
                    f"PSIS, one case, k > {UNRELIABLE:g}",
                ),
                [_sample_row(data, results) for data in LOAD],
            ),
            Figures(
                [
                    (
                        _refit_figure(results),
                        "Log predictive density of each case: the free estimate less that of the refit, in nats. The "
                        "scales are those of the data sets.",
                    ),
                    (
                        _sample_figure(results),
                        "Log predictive density of each case: TAP's estimate against PSIS from NUTS, and against the "
                        "exact value where that is known, in nats.",
                    ),
                ]
            ),
        ),
    )


def _refit_checks(data: str, method: str, results: Mapping[str, Any]) -> list[Check]:
    found, name = results[_name(data, method)], f"{data}, {NAMES[method]}"
    off = abs(found["errors"] - found["refit_errors"])
    errors = at_most(f"{name}: errors less those of refits", off, ERRORS, "cases")
    if "free" not in found:
        return [errors]
    off = np.subtract(found["free"], found["refit"])
    return [
        at_most(f"{name}: estimate less refits, elpd", abs(_sum(off)), ELPD, "nats"),
        at_most(f"{name}: estimate less refits, one case", _max(np.abs(off)), CASE, "nats"),
        errors,
    ]


def _sample_checks(data: str, results: Mapping[str, Any]) -> list[Check]:
    """Hold TAP against the truth where that is known, else against PSIS, if that may be believed."""
    found = results[f"{data}, NUTS"]
    other, noun = (_truth(data, results), "exact") if data in TRUTH else (np.array(found["psis"]), "PSIS")
    off = _tap(data, results) - other
    checks = [
        at_most(f"{data}: NUTS, largest r-hat", found["r_hat"], R_HAT),
        at_least(f"{data}: NUTS, least effective number of draws", found["ess"], ESS, "draws"),
        at_most(f"{data}: TAP less {noun}, elpd", abs(_sum(off)), ELPD, "nats"),
        at_most(f"{data}: TAP less {noun}, one case", _max(np.abs(off)), CASE, "nats"),
    ]
    if data not in TRUTH:
        count = int(np.sum(_unreliable(data, results)))
        checks.append(at_most(f"{data}: cases with k > {UNRELIABLE:g}", count, 0, "cases"))
    return checks


def _unreliable(data: str, results: Mapping[str, Any]) -> Any:
    return np.array(results[f"{data}, NUTS"]["pareto_k"]) > UNRELIABLE


def _tap(data: str, results: Mapping[str, Any]) -> Array:
    return np.array(results[_name(data, "tap")]["free"])


def _truth(data: str, results: Mapping[str, Any]) -> Array:
    return np.array(results[f"{data}, exact"]["truth"])


def _sum(values: Any) -> float:
    return float(np.sum(values))


def _max(values: Array) -> float:
    return float(np.max(values, initial=0.0))


def _refit_row(data: str, method: str, results: Mapping[str, Any]) -> tuple[str, ...]:
    found, name = results[_name(data, method)], f"{data}, {NAMES[method]}"
    counts = (f"{found['errors']}", f"{found['refit_errors']}")
    if "free" not in found:
        return (name, "", "", "", "", "", *counts)
    off = np.subtract(found["free"], found["refit"])
    sums = (_sum(found["free"]), _sum(found["refit"]))
    numbers = (f"{off.sum():+.3f}", f"{off.mean():+.5f}", f"{_max(np.abs(off)):.4f}")
    return (name, f"{sums[0]:.3f}", f"{sums[1]:.3f}", *numbers, *counts)


def _sample_row(data: str, results: Mapping[str, Any]) -> tuple[str, ...]:
    unfit, tap, psis = _unreliable(data, results), _tap(data, results), np.array(results[f"{data}, NUTS"]["psis"])
    row = (data, f"{unfit.sum()} of {unfit.size}", f"{tap.sum():.2f}", f"{psis.sum():.2f}")
    if data not in TRUTH:
        return (*row, "not computed", "", "", "")
    truth = _truth(data, results)
    off_tap, off_psis = np.abs(tap - truth), np.abs(psis - truth)
    largest = (_max(off_tap), _max(off_psis[~unfit]), _max(off_psis[unfit]))
    return (*row, f"{truth.sum():.2f}", *(f"{value:.3f}" for value in largest))


def _said_of_psis(results: Mapping[str, Any]) -> str:
    """Say how often PSIS gives up, and which of the two is then nearer to the truth."""
    counts, closer, known = [], 0, 0
    for data in LOAD:
        unfit = _unreliable(data, results)
        counts.append(f"{data} {unfit.sum()} of {unfit.size}")
        if data in TRUTH:
            truth, psis = _truth(data, results), np.array(results[f"{data}, NUTS"]["psis"])
            closer += int(np.sum((np.abs(_tap(data, results) - truth) < np.abs(psis - truth))[unfit]))
            known += int(unfit.sum())
    return (
        f"A Pareto k above {UNRELIABLE:g} says that the posterior with a case is too far from the one without it for "
        f"weights to bridge: {', '.join(counts)}. Of the {known} such cases where the exact value is known, TAP is "
        f"nearer to it than PSIS in {closer}."
    )


def _refit_figure(results: Mapping[str, Any]) -> Any:
    """Draw estimate less refit against the refit: a row for each method, a column for each data set."""
    methods = [method for method in NAMES if method != "svm"]
    figure = Figure(figsize=(6.4, 8.4), layout="constrained")
    axes = figure.subplots(len(methods), len(LOAD), sharex="col", sharey="col", squeeze=False)
    for row, method in zip(axes, methods, strict=True):
        row[0].set_ylabel(f"{NAMES[method]}", fontsize=9)
        for ax, data in zip(row, LOAD, strict=True):
            found = results[_name(data, method)]
            ax.plot(found["refit"], np.subtract(found["free"], found["refit"]), ".", color=FIRST, ms=4, alpha=0.7)
            ax.axhline(0.0, color=QUIET, linewidth=0.8)
            ax.tick_params(labelsize=7)
    for ax, data in zip(axes[0], LOAD, strict=True):
        ax.set_title(data, loc="left", fontsize=10)
    figure.supxlabel("log predictive density by refit (nats)", fontsize=9)
    figure.supylabel("estimate less refit (nats)", fontsize=9)
    return axes[0, 0]


def _sample_figure(results: Mapping[str, Any]) -> Any:
    """Draw TAP against PSIS, and the truth beside it where it is known."""
    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    panels = figure.subplots(2, 2)
    for ax, data in zip(panels.flat, LOAD, strict=False):
        found, tap = results[f"{data}, NUTS"], _tap(data, results)
        psis, unfit = np.array(found["psis"]), _unreliable(data, results)
        ends = [min(psis.min(), tap.min()), 0.0]
        ax.plot(ends, ends, color=QUIET, linewidth=0.8)
        ax.plot(psis[~unfit], tap[~unfit], ".", color=FIRST, ms=5, alpha=0.7, label=f"PSIS, k at most {UNRELIABLE:g}")
        ax.plot(psis[unfit], tap[unfit], "x", color=SECOND, ms=4, alpha=0.7, label=f"PSIS, k above {UNRELIABLE:g}")
        if data in TRUTH:
            ax.plot(_truth(data, results), tap, "+", color=THIRD, ms=5, label="exact")
        ax.set_title(data, loc="left", fontsize=10)
        ax.locator_params(nbins=5)
        ax.tick_params(labelsize=7)
    panels.flat[-1].axis("off")
    panels.flat[-1].legend(*panels.flat[0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=9)
    figure.supxlabel("log predictive density by PSIS, or exact (nats)", fontsize=9)
    figure.supylabel("log predictive density by TAP (nats)", fontsize=9)
    return panels.flat[0]


def _name(data: str, method: str) -> str:
    return f"{data}, {NAMES[method]}"


STUDY = Study(
    "leave_one_out",
    "Leave-one-out for free against leaving out",
    [
        *(Task(_name(data, m), refits, {"data": data, "method": m}, cost=1e8) for data in LOAD for m in NAMES),
        *(Task(f"{data}, NUTS", sampled, {"data": data, "seed": 1}, cost=3e9) for data in LOAD),
        *(Task(f"{data}, exact", integrated, {"data": data}, cost=5e9) for data in TRUTH),
    ],
    conclude,
)
