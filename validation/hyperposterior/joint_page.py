"""What the page of the study says: words, tables and figures around its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.diagnostics import error_count, mean_log_score
from bayesgp_mf.reports.page import Figures, Section, Table, render
from bayesgp_mf.types import Array
from validation.hyperposterior.comparison import LATENT_DRAWS, JointComparison
from validation.hyperposterior.figures import plot_marginals, plot_probabilities
from validation.hyperposterior.setting import load
from validation.reporting.checks import count, verdict, verdict_table
from validation.sampling.statistics import Apart

TITLE = "Pima: hyperparameters by NUTS on an evidence, against NUTS on everything"
METHOD_NAMES = {"tap": "TAP", "laplace": "Laplace"}


def lead(run: JointComparison) -> list[str]:
    """What was found."""
    off, other = run.apart("tap"), run.apart("laplace")
    p, p_other = (np.abs(run.probability_difference(method)).max() for method in ("tap", "laplace"))
    t = run.tolerances
    return [
        f"NUTS on TAP's evidence and NUTS on hyperparameters and latent values together: the means of the "
        f"{off.mean.size} log parameters differ by at most {np.abs(off.mean).max():.3f} posterior standard deviations, "
        f"their standard deviations by at most {np.abs(off.sd).max():.3f}, where {t.parameter:g} and the Monte-Carlo "
        f"error were allowed; the probabilities of the test cases by at most {p:.4f}, where {t.probability_max:g} was: "
        f"{verdict(run.checks[:4])}. With Laplace's evidence the same numbers are {np.abs(other.mean).max():.3f}, "
        f"{np.abs(other.sd).max():.3f} and {p_other:.4f}.",
        count(run.checks),
    ]


def joint_page(run: JointComparison, body: Sequence[Section]) -> str:
    """Return the page as HTML; ``body`` is what `sections` returned, whose figures are also written elsewhere."""
    return render(TITLE, lead(run), verdict_table(run.checks, " Laplace is not judged."), body)


def sections(run: JointComparison) -> list[Section]:
    """The body of the page."""
    makers = (_setting, _parameters, _probabilities, _weighted, _surrogate, _speed)
    return [make(run) for make in makers]


def _setting(run: JointComparison) -> Section:
    s = run.reference.settings
    return Section(
        "The setting",
        [
            "Pima: 200 training cases, 332 test cases, seven standardised inputs. Kernel v0 exp(-sum_l w_l (x_l - "
            "x'_l)^2 / 2); log v0 and each log w_l are normal with mean -3 and standard deviation 3 (1996, section 3). "
            "Likelihood: probit with noise variance 1, p(t|f) = Phi(t f).",
            f"The reference is recorded: NUTS ({s['sampler']}) on the {len(run.reference.names)} log parameters and "
            f"200 latent values together, {s['chains']} chains of {s['draws']} draws after {s['tune']} of tuning, one "
            f"after the other, seeds from {s['seed']}. Nothing in it is approximated, and nothing is added to the Gram "
            "matrix: a part of the probit's noise is counted to the latent values, which is the same model, and makes "
            "their covariance one that can be factorised.",
            f"The others integrate the latent values out by an approximation, and run NUTS (PyMC) on evidence times "
            f"prior, as fit(..., hyper='nuts') does: {run.nuts.chains} chains of {run.nuts.draws} draws after "
            f"{run.nuts.tune} of tuning.",
        ],
    )


def _parameters(run: JointComparison) -> Section:
    reference = run.reference.parameters
    rows = [
        (name, *(f"{value:.3f}" for value in values))
        for name, *values in zip(
            run.reference.names,
            reference.mean,
            reference.mean_error,
            reference.sd,
            reference.sd_error,
            reference.r_hat,
            strict=True,
        )
    ]
    tables = [
        Table(
            "The reference: posterior means and standard deviations of the log parameters.",
            ("Log parameter", "Mean", "Its Monte-Carlo error", "Sd", "Its Monte-Carlo error", "r-hat"),
            rows,
        )
    ]
    for method, name in METHOD_NAMES.items():
        off = run.apart(method)
        beyond = off.beyond_error()
        tables.append(
            Table(
                f"{name} less the reference, in posterior standard deviations of the reference. The verdict is on both "
                f"differences, each less its Monte-Carlo error: at most {run.tolerances.parameter:g}.",
                ("Log parameter", "Mean", "Monte-Carlo error", "Sd", "Monte-Carlo error", "Verdict"),
                [
                    (*cells, "PASS" if excess <= run.tolerances.parameter else "FAIL")
                    for cells, excess in zip(_apart_cells(run, off), beyond, strict=True)
                ],
            )
        )
    caption = (
        "Marginal posterior densities of the log parameters, smoothed. Filled: NUTS on hyperparameters and latent "
        "values together. Lines: NUTS on the evidence of TAP and of Laplace's approximation. Dotted: the prior."
    )
    return Section("Hyperparameters", [*tables, Figures([(plot_marginals(run), caption)])])


def _apart_cells(run: JointComparison, off: Apart) -> list[tuple[str, ...]]:
    """Return a row for each log parameter: its name and the differences, each with its error."""
    return [
        (name, f"{mean:+.3f}", f"{mean_error:.3f}", f"{sd:+.3f}", f"{sd_error:.3f}")
        for name, mean, mean_error, sd, sd_error in zip(run.reference.names, *off, strict=True)
    ]


def _probabilities(run: JointComparison) -> Section:
    labels = load().t_test > 0
    reference = run.reference.probabilities
    rows: list[tuple[str, ...]] = [("Joint NUTS", "", "", "", *_scores(labels, reference.mean))]
    for method, name in METHOD_NAMES.items():
        off = run.probability_difference(method)
        error = np.hypot(reference.mean_error, run.sampled[method].probabilities.mean_error)
        numbers = (np.abs(off).max(), np.abs(off).mean(), error.max())
        values = _scores(labels, run.sampled[method].probabilities.mean)
        rows.append((name, *(f"{number:.4f}" for number in numbers), *values))
    figures = [
        (plot_probabilities(run, "tap", difference=False), "TAP: probabilities of diabetes of the test cases."),
        (plot_probabilities(run, "tap", difference=True), "TAP: their differences from the joint sample."),
        (plot_probabilities(run, "laplace", difference=True), "Laplace: the same differences."),
    ]
    return Section(
        "Probabilities of the test cases",
        [
            "Averaged over the draws of the hyperparameters, at each of which the latent value is integrated out.",
            Table(
                "Absolute differences from the joint sample, and scores.",
                ("", "Largest", "Mean", "Largest Monte-Carlo error", "Test errors of 332", "Mean log score (nats)"),
                rows,
            ),
            Figures(figures),
        ],
    )


def _scores(labels: NDArray[np.bool_], p: Array) -> tuple[str, str]:
    return f"{error_count(labels, p)}", f"{mean_log_score(labels, p):.4f}"


def _weighted(run: JointComparison) -> Section:
    names = [METHOD_NAMES[method] for method in run.weighted]
    found = run.weighted.values()
    rows = [
        ("Draws", *(f"{w.log_weights.size}" for w in found)),
        ("Log of the weights, mean (nats)", *(f"{w.log_weights.mean():+.4f}" for w in found)),
        ("Log of the weights, standard deviation (nats)", *(f"{w.log_weights.std():.4f}" for w in found)),
        ("Worth so many draws of equal weight", *(f"{w.ess:.0f}" for w in found)),
        *(
            (f"Mean of {name} moved by (posterior sd)", *(f"{w.moved[i]:+.3f}" for w in found))
            for i, name in enumerate(run.reference.names)
        ),
    ]
    return Section(
        "A second way to the exact posterior",
        [
            "Draws by an evidence, each weighted by an unbiased estimate of the exact evidence over the method's own: "
            f"the mean importance weight of {LATENT_DRAWS} latent functions from the method's Gaussian. By so much as "
            "the weights move a mean, the method is off; the differences above are mostly those of chance between two "
            "samples. The joint sample is not used here.",
            Table("What the weights are, and what they move.", ("", *names), rows),
        ],
    )


def _surrogate(run: JointComparison) -> Section:
    found, corrected = run.averaged, run.corrected
    (before, chance), (after, _) = run.distance(found), run.distance(corrected)
    ps = [np.abs(run.averaged_probability_difference(each)) for each in (found, corrected)]
    heads = ("Log parameter", "Mean", "Monte-Carlo error", "Sd", "Monte-Carlo error")
    return Section(
        "TAP without a chain, and with its evidence corrected",
        [
            f"The same evidence times prior by fit(..., hyper='surrogate'): {found.weights.size} draws from a Gaussian "
            f"process that learned it, each weighted by the exact value: Pareto k-hat {found.pareto_k:.2f}, worth "
            f"{found.ess.min():.0f} to {found.ess.max():.0f} independent draws for a mean. Then the same with the "
            "evidence corrected to second order, hyper=Surrogate(corrected=True).",
            Table(
                "Distance from the joint sample: the means of the log parameters, root mean square in posterior "
                f"standard deviations, where chance alone makes {chance:.3f}; and probabilities of the test cases, "
                f"whose own Monte-Carlo error is at most {run.reference.probabilities.mean_error.max():.4f}.",
                ("Evidence", "Means", "Probabilities, largest", "Probabilities, mean"),
                [
                    ("TAP", f"{before:.3f}", f"{ps[0].max():.4f}", f"{ps[0].mean():.4f}"),
                    ("TAP, corrected", f"{after:.3f}", f"{ps[1].max():.4f}", f"{ps[1].mean():.4f}"),
                ],
            ),
            *(
                Table(
                    f"{name}: less the reference, in posterior standard deviations of the reference.",
                    heads,
                    _apart_cells(run, run.averaged_apart(each)),
                )
                for name, each in run.surrogates.items()
            ),
        ],
    )


def _speed(run: JointComparison) -> Section:
    rows = [(METHOD_NAMES[method], f"{s.parameters.ess_bulk.min():.0f}") for method, s in run.sampled.items()]
    rows += [(name, f"{each.ess.min():.0f}") for name, each in run.surrogates.items()]
    rows.append(("Joint, recorded", f"{run.reference.parameters.ess_bulk.min():.0f}"))
    return Section(
        "Effective draws",
        [
            "How many by second is another number each run, and stands in hyperposterior_times.json: one thread, one "
            "chain after the other; tuning counts, compilation does not for the recorded run, which was made on "
            "another day, in variables that owe their shape to TAP. make bench ARGS=hyperposterior times all in one "
            "run, and beside them the joint sampler that PyMC has by itself.",
            Table("Least effective sample size of a log parameter.", ("Sampler", "Least ESS"), rows),
        ],
    )
