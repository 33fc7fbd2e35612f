"""Is TAP right? Its means, probabilities and evidence against the exact posterior of a hundred cases.

``python -m validation.studies.exact_posterior`` prints the verdicts and writes JSON and a figure; about two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import ThreadpoolController

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.posterior_process import Posterior
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.types import Array
from validation.checks import Check
from validation.studies.record import Study
from validation.tables.drawing import FIRST, QUIET, SECOND
from validation.tables.selection import Split

N = 100
MEAN, PROBABILITY, EVIDENCE = 0.02, 0.01, 0.3
"""Tolerances: of posterior means, in prior standard deviations; of probabilities; of the log evidence, in nats."""
EXACT_ERROR = 1e-3
"""Largest standard error of the exact log evidence, in nats."""
REPEATS = 8
"""Sets of random points from which exact means and probabilities are averaged, and their errors estimated."""
OUTPUT = Path("reports/studies")
LIKELIHOODS = {"probit": bgp.Probit(noise_variance=1.0), "step": bgp.Step()}


@dataclass(frozen=True, slots=True)
class Setting:
    """A data set with a kernel at fixed hyperparameters."""

    name: str
    split: Split
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """A method less the exact posterior, and the exact posterior itself.

    Attributes
    ----------
    mean, exact_mean : (n,) array
        Posterior means at the training cases, in prior standard deviations.
    probability, exact_probability : (m,) array
        Of class +1 at the test cases.
    sd_ratio : (n,) array
        Posterior standard deviations, the method's over the exact.
    mean_error, probability_error : float
        Largest standard error of the exact values, from repeats with other random points.
    evidence, exact_evidence, exact_error : float
        In nats.
    """

    mean: Array
    exact_mean: Array
    probability: Array
    exact_probability: Array
    sd_ratio: Array
    mean_error: float
    probability_error: float
    evidence: float
    exact_evidence: float
    exact_error: float


def settings(likelihood: bgp.Probit, n: int = N) -> Iterator[Setting]:
    """Yield the three data sets, ``n`` training cases of each, with the kernels of their own scale.

    The toy labels are drawn from the model; of sonar and Pima a random choice of training cases. The diagonal noise of
    the kernel keeps the Gram matrix invertible under a step, where the exact posterior needs that.
    """
    white = bgp.kernels.White(0.01)
    kernel = bgp.kernels.Gaussian(1.0, 4.0) + white
    toy = bgp.datasets.make_toy(kernel, likelihood, n=n, random_seed=1)
    yield Setting("toy", Split(toy.X, 2.0 * toy.y - 1.0, toy.X_test, 2.0 * toy.y_test - 1.0), kernel)
    rng = np.random.default_rng(0)
    for name, data, lengthscale in (
        ("sonar", bgp.datasets.load_sonar(), 4.0),
        ("Pima", bgp.datasets.load_pima(), 3.0),
    ):
        split = Split.of(data)
        chosen = rng.permutation(split.t.size)[:n]
        part = Split(split.X[chosen], split.t[chosen], split.X_test, split.t_test)
        yield Setting(name, part, bgp.kernels.Gaussian(lengthscale, 4.0) + white)


def differences(setting: Setting, likelihood: bgp.Probit, method: str, exact: Exact) -> Differences:
    """Solve by a method and exactly, and compare."""
    split = setting.split
    problem = bgp.Problem(setting.kernel.gram(split.X), split.t, likelihood)
    prior, prior_new = np.diag(problem.gram), setting.kernel.diag(split.X_test)
    cross = setting.kernel.cross(split.X, split.X_test)
    means, squares, probabilities = [], [], []
    for k in range(REPEATS):
        cloud = replace(exact, random_seed=exact.random_seed + k).cloud(problem)
        at_training, rest = cloud.moments(problem.gram, prior)
        means.append(cloud.share @ at_training)
        squares.append(rest + cloud.share @ at_training**2)
        probabilities.append(cloud.predict_proba(likelihood, cross, prior_new))
    exact_mean, mean_error = _average(means)
    exact_probability, probability_error = _average(probabilities)
    exact_sd = np.sqrt(_average(squares)[0] - exact_mean**2)
    evidence = exact.solve(problem).evidence
    solution = bgp.solve(problem.gram, problem.t, likelihood, method=method)
    approximation = Posterior(setting.kernel, split.X, problem, solution)
    mean, variance = approximation.at_training
    prior_sd = np.sqrt(prior)
    return Differences(
        (mean - exact_mean) / prior_sd,
        exact_mean / prior_sd,
        approximation.predict_proba(split.X_test) - exact_probability,
        exact_probability,
        np.sqrt(variance) / exact_sd,
        float(np.max(mean_error / prior_sd)),
        float(np.max(probability_error)),
        approximation.log_evidence - evidence.value,
        evidence.value,
        evidence.standard_error,
    )


def _average(repeated: Sequence[Array]) -> tuple[Array, Array]:
    """Return the mean over independent repeats, and its standard error."""
    values = np.array(repeated)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def checks_of(name: str, found: Differences) -> list[Check]:
    """Hold one comparison against the tolerances."""
    return [
        Check(f"{name}: means, largest difference", float(np.abs(found.mean).max()), "at most", MEAN, "prior sd"),
        Check(f"{name}: probabilities, largest", float(np.abs(found.probability).max()), "at most", PROBABILITY, ""),
        Check(f"{name}: log evidence", abs(found.evidence), "at most", EVIDENCE, "nats"),
        Check(f"{name}: error of the exact evidence", found.exact_error, "at most", EXACT_ERROR, "nats"),
    ]


def make(advance: Callable[[str], None], n: int = N, exact: Exact = Exact()) -> Study:
    """Compare TAP with the exact posterior, and Laplace with it as a control that must fail."""
    found: dict[str, Differences] = {}
    control: list[str] = []
    for name, likelihood in LIKELIHOODS.items():
        for setting in settings(likelihood, n):
            found[f"{setting.name}, {name}"] = differences(setting, likelihood, "tap", exact)
            advance(f"{setting.name}, {name}")
    probit = LIKELIHOODS["probit"]
    for setting in settings(probit, n):
        laplace = checks_of("", differences(setting, probit, "laplace", exact))
        control.append(f"{sum(not check.passed for check in laplace)} of {len(laplace)} on {setting.name}")
        advance(f"{setting.name}, Laplace")
    checks = [check for label, values in found.items() for check in checks_of(label, values)]
    missed = [f"{check.name} ({check.value:.3f})" for check in checks if not check.passed]
    return Study(
        "exact_posterior",
        f"TAP against the exact posterior at n = {n}",
        tuple(checks),
        {label: _numbers(values) for label, values in found.items()},
        (
            f"Hyperparameters are fixed. The toy labels are drawn from the model; of sonar and Pima {n} training cases "
            "were drawn once. Means are compared at the training cases, probabilities at all test cases. The exact "
            "posterior is integrated by minimax tilting; the kernel has noise of variance 0.01, without which the "
            "step's Gram matrix would be singular.",
            f"Standard errors of the exact values, from {REPEATS} repeats: means at most "
            f"{_largest(found, 'mean_error'):.4f} prior standard deviations, probabilities at most "
            f"{_largest(found, 'probability_error'):.4f}.",
            f"Out of tolerance: {'; '.join(missed) or 'nothing'}.",
            f"Control: with the probit, Laplace misses {', '.join(control)} of the same tolerances.",
        ),
        _figure(found),
    )


def _largest(found: dict[str, Differences], field: str) -> float:
    return max(float(getattr(values, field)) for values in found.values())


def _numbers(values: Differences) -> dict[str, Any]:
    return {
        "log_evidence_tap": values.exact_evidence + values.evidence,
        "log_evidence_exact": values.exact_evidence,
        "log_evidence_exact_standard_error": values.exact_error,
        "mean_largest": float(np.abs(values.mean).max()),
        "mean_root_mean_square": float(np.sqrt(np.mean(values.mean**2))),
        "probability_largest": float(np.abs(values.probability).max()),
        "probability_root_mean_square": float(np.sqrt(np.mean(values.probability**2))),
        "mean_exact_standard_error": values.mean_error,
        "probability_exact_standard_error": values.probability_error,
        "sd_ratio_least": float(values.sd_ratio.min()),
        "sd_ratio_largest": float(values.sd_ratio.max()),
    }


def _figure(found: dict[str, Differences]) -> Figure:
    """Draw the differences of means and probabilities: a column for each data set, a colour for each likelihood."""
    names = list(dict.fromkeys(label.partition(", ")[0] for label in found))
    figure = Figure(figsize=(3.4 * len(names), 5.6), layout="constrained")
    axes = figure.subplots(2, len(names), sharey="row", squeeze=False)
    for column, name in enumerate(names):
        for likelihood, color in zip(LIKELIHOODS, (FIRST, SECOND), strict=True):
            values = found[f"{name}, {likelihood}"]
            label = f"{likelihood}, evidence {values.evidence:+.2f} nats"
            axes[0, column].plot(values.exact_mean, values.mean, ".", color=color, ms=4, label=label)
            axes[1, column].plot(values.exact_probability, values.probability, ".", color=color, ms=4)
        axes[0, column].set_title(name, loc="left", fontsize=10)
        axes[0, column].legend(frameon=False, fontsize=7)
        axes[0, column].set_xlabel("exact mean / prior sd", fontsize=9)
        axes[1, column].set_xlabel("exact probability", fontsize=9)
        for row, tolerance in enumerate((MEAN, PROBABILITY)):
            for level in (-tolerance, tolerance):
                axes[row, column].axhline(level, color=QUIET, linewidth=0.8, linestyle=":")
    axes[0, 0].set_ylabel("TAP less exact mean / prior sd", fontsize=9)
    axes[1, 0].set_ylabel("TAP less exact probability", fontsize=9)
    return figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the study, print it and write its files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder to write to (default: {OUTPUT})")
    folder = parser.parse_args(arguments).output
    with ThreadpoolController().limit(limits=1, user_api="blas"), progress_bar("exact posterior") as advance:
        study = make(advance)
    paths = study.write(folder)
    print("\n".join([*study.lines(), "", *(f"Wrote {path}" for path in paths)]), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
