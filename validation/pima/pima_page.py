"""What the report says: words, tables and figures around the numbers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.quality import evidence_of_fit
from bayesgp_mf.diagnostics import error_count, mean_log_score, quality
from bayesgp_mf.plots import plot_agreement, plot_calibration, plot_loo
from bayesgp_mf.reports.page import Figures, Section, Table, render
from bayesgp_mf.types import Array
from validation.pima.run import Run
from validation.reporting.checks import count, verdict, verdict_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = ("NUTS", "TAP")
TITLE = "Pima: TAP approximation against PyMC"


def lead(run: Run) -> list[str]:
    """What was found: first in words, then the count of checks."""
    c = run.comparison
    off, t = np.abs(c.predictions.difference), run.settings.tolerances
    return [
        f"For the {off.size} test cases of the Pima data, the probabilities of diabetes from the fast approximation "
        f"(TAP) differ from those of a long simulation of the same model (NUTS) by at most {off.max():.4f} and by "
        f"{off.mean():.4f} on average, where up to {t.probability_max:g} and {t.probability_mean:g} were allowed: "
        f"{verdict(c.checks[:2])}.",
        f"By its second-order correction, which needs no simulation: {evidence_of_fit(get_group(run.tap, 'fit'))}, "
        "in nats. "
        f"The fit's own verdict is {quality(run.tap).sentence}",
        count(c.checks),
    ]


def pima_page(run: Run) -> str:
    """Return the report as HTML."""
    makers = (_setting, _latent, _probabilities, _scores, _leave_one_out, _evidence, _hyperparameters, _sampler, _made)
    return render(TITLE, lead(run), verdict_table(run.comparison.checks), [make(run) for make in makers])


def _setting(run: Run) -> Section:
    s, d = run.settings, run.dataset
    n, m = d.X.shape[0], d.X_test.shape[0]
    return Section(
        "What is compared",
        [
            f"Data: {d.description} Inputs are rescaled to mean 0 and variance 1 over the training cases.",
            "Model: a latent function with a Gaussian-process prior, whose covariance is a Gaussian kernel with one "
            "length scale for each input plus a constant, and the probit likelihood P(diabetes | f) = Phi(f). "
            "Latent values f are in units of the standard deviation of the probit's noise.",
            f"TAP is a deterministic approximation to the posterior of f, here with the hyperparameters that maximise "
            f"its evidence. NUTS is a Markov-chain sampler that draws from the exact posterior of the {n} latent "
            "values at those same hyperparameters, so the two should differ only by the error of the approximation "
            "and by the Monte-Carlo error of the sampler, which is given beside each number. Uncertainty about the "
            "hyperparameters is not part of this comparison.",
            f"The sampler was NUTS as implemented in {s.sampler} {run.versions[s.sampler]}, with {s.chains} chains of "
            f"{s.draws} draws after {s.tune} tuning steps each. Both predict {m} test cases that neither has seen.",
        ],
    )


def _latent(run: Run) -> Section:
    a, t = run.comparison.latent, run.settings.tolerances
    shift_mcse = a.nuts_mean_mcse / a.nuts_sd
    stretch_mcse = a.nuts_sd_mcse / a.nuts_sd
    rows = [
        _difference_row("Mean, latent units", a.tap_mean - a.nuts_mean, a.nuts_mean_mcse),
        _difference_row("Mean, posterior sds", a.shift, shift_mcse),
        _difference_row("Mean, prior sds", (a.tap_mean - a.nuts_mean) / a.prior_sd, a.nuts_mean_mcse / a.prior_sd),
        _difference_row("Sd, relative", a.stretch, stretch_mcse),
    ]

    means = (a.nuts_mean, a.tap_mean, a.nuts_mean_mcse, "posterior mean of f", "latent units")
    sds = (a.nuts_sd, a.tap_sd, a.nuts_sd_mcse, "posterior sd of f", "latent units")
    figures = [
        (_agreement(*means), "Posterior mean of the latent value of each training case, TAP against NUTS."),
        (_agreement(*means, difference=True), "The difference of the means, with the Monte-Carlo error of NUTS."),
        (_agreement(*sds), "Posterior standard deviation of the latent value of each training case."),
        (
            _agreement(*sds, difference=True),
            "The difference of the standard deviations, with the Monte-Carlo error of NUTS.",
        ),
    ]
    return Section(
        "Posterior at the training cases",
        [
            f"Compared: mean and standard deviation of the latent value of each of the {a.tap_mean.size} training "
            f"cases. Tolerance: means within {t.latent_mean:g} posterior standard deviations, standard deviations "
            f"within {100 * t.latent_sd:g} %, for every case.",
            Table(
                "TAP less NUTS at the training cases; the last column is the standard error of NUTS that such a "
                "difference contains.",
                ("Difference", "Largest, absolute", "Mean, absolute", "Mean", "Standard error, average"),
                rows,
            ),
            Figures(figures),
        ],
    )


def _probabilities(run: Run) -> Section:
    p, t = run.comparison.predictions, run.settings.tolerances
    worst = int(np.argmax(np.abs(p.difference)))

    both = (p.nuts, p.tap, p.nuts_mcse, "probability of diabetes")
    figures = [
        (
            _agreement(*both, tolerance=t.probability_max),
            "Predicted probability of diabetes for each test case, TAP against NUTS.",
        ),
        (
            _agreement(*both, tolerance=t.probability_max, difference=True),
            "The difference of the two probabilities for each test case, with the Monte-Carlo error of NUTS and the "
            "tolerance.",
        ),
    ]
    return Section(
        "Predictive probabilities",
        [
            f"Compared: the probability of diabetes of each of the {p.tap.size} test cases. Tolerance: "
            f"{t.probability_max:g} for the largest absolute difference and {t.probability_mean:g} for the mean "
            "absolute difference. For NUTS, the latent value of the test case is integrated out for each draw, and the "
            "resulting probabilities are averaged.",
            Table(
                "TAP less NUTS at the test cases, in probability.",
                ("Difference", "Largest, absolute", "Mean, absolute", "Mean", "Standard error, average"),
                [_difference_row("Probability of diabetes", p.difference, p.nuts_mcse)],
            ),
            f"The largest difference is at test case {worst} (counted from 0): {p.tap[worst]:.4f} by TAP and "
            f"{p.nuts[worst]:.4f} by NUTS, with a Monte-Carlo standard error of {p.nuts_mcse[worst]:.4f}. Monte-Carlo "
            f"error alone would make a mean absolute difference of about {p.difference_from_noise:.4f}.",
            Figures(figures),
        ],
    )


def _scores(run: Run) -> Section:
    c = run.comparison
    p = c.predictions
    share = float(np.mean(run.dataset.y == run.positive_class))
    constant = np.full(p.tap.size, share)
    rows = [
        ("TAP", c.tap_score.errors, c.tap_score.mean_log_score),
        ("NUTS", c.nuts_score.errors, c.nuts_score.mean_log_score),
        (f"Constant {share:.2f}", error_count(p.labels, constant), mean_log_score(p.labels, constant)),
    ]
    disagree = int(np.count_nonzero((p.tap > 0.5) != (p.nuts > 0.5)))
    calibration = (
        plot_calibration(p.labels, p.tap, class_name="diabetes"),
        "Calibration of TAP on the test cases: observed frequency of diabetes in ten bins of predicted probability, "
        "with 95 % binomial (Clopper-Pearson) intervals and the number of cases in each bin.",
    )
    return Section(
        "Test errors, log score and calibration",
        [
            "Compared: what the two sets of predictions are worth against the labels that occurred. There is no "
            "tolerance here, since all of it follows from the probabilities above. Higher log scores are better; "
            "always saying 1/2 scores -0.6931. The constant predicts the share of diabetics in the training set.",
            Table(
                f"Errors among {p.tap.size} test cases and mean log predictive probability of their labels.",
                ("Prediction", "Errors", "Error rate", "Mean log score (nats)"),
                [(name, f"{e}", f"{e / p.tap.size:.3f}", f"{score:.4f}") for name, e, score in rows],
            ),
            f"TAP and NUTS predict different labels for {disagree} of the test cases.",
            Figures([calibration]),
        ],
    )


def _leave_one_out(run: Run) -> Section:
    loo, t = run.comparison.loo, run.settings.tolerances
    off = loo.tap.pointwise - loo.nuts.pointwise
    k = np.asarray(loo.nuts.pareto_k)
    figure = (
        plot_loo(loo.tap.pointwise, loo.nuts.pointwise, names=("NUTS, PSIS", "TAP, analytic")),
        "Leave-one-out log predictive density of each training case. The cases predicted worst are named by their "
        "number, counted from 0.",
    )
    return Section(
        "Leave-one-out",
        [
            f"Compared: the log predictive density of the label of each training case given all others. TAP has it in "
            "closed form from its cavities; for NUTS it is estimated by Pareto-smoothed importance sampling "
            "(PSIS). Both keep the hyperparameters at the values tuned on all cases. Tolerance: the sums (elpd) "
            f"within {t.elpd:g} nats.",
            Table(
                "ArviZ's comparison of the two estimates; these are estimates for one and the same model, so neither "
                "is expected to be better.",
                (
                    "Estimate",
                    "Rank",
                    "elpd (nats)",
                    "se (nats)",
                    "Effective parameters",
                    "Difference (nats)",
                    "Its se (nats)",
                    "Weight",
                ),
                [
                    (
                        row.name,
                        f"{row.rank}",
                        f"{row.elpd:.3f}",
                        f"{row.se:.3f}",
                        f"{row.p:.2f}",
                        f"{row.difference:.3f}",
                        f"{row.difference_se:.3f}",
                        f"{row.weight:.2f}",
                    )
                    for row in loo.table
                ],
            ),
            f"Case by case the two differ by at most {np.abs(off).max():.4f} nats and by {np.abs(off).mean():.4f} nats "
            f"on average. The largest Pareto k is {k.max():.2f}; {int(np.sum(k > 0.7))} of {k.size} are above 0.7, "
            "where PSIS becomes unreliable.",
            Figures([figure]),
        ],
    )


def _evidence(run: Run) -> Section:
    e, t = run.comparison.evidence, run.settings.tolerances
    known = evidence_of_fit(get_group(run.tap, "fit"))
    return Section(
        "Evidence",
        [
            "Compared: the log evidence of TAP, which is that of expectation propagation, with an estimate that is "
            "exact up to Monte-Carlo error: the mean importance weight of independent draws from the TAP posterior. "
            f"NUTS gives no evidence. Tolerance: {t.log_evidence:g} nats.",
            Table(
                "Log evidence at the tuned hyperparameters.",
                ("Estimate", "Log evidence (nats)", "Standard error (nats)"),
                [
                    ("TAP", f"{e.tap:.4f}", "0"),
                    (
                        "TAP, corrected to second order",
                        f"{known.corrected:.4f}",
                        f"± {known.remaining or 0.0:.4f}, left",
                    ),
                    ("Weighted draws", f"{e.weighted:.4f}", f"{e.weighted_se:.4f}"),
                ],
            ),
            f"In short: {known}. What is left after the correction is stated by its size, not as a standard error.",
            f"The {e.draws} weighted draws are worth {e.ess:.0f} draws from the exact posterior.",
        ],
    )


def _hyperparameters(run: Run) -> Section:
    fit = get_group(run.tap, "fit")
    found = fit["hyper_log_evidence"].values
    evaluations = fit["hyper_n_evaluations"].values
    return Section(
        "Hyperparameters",
        [
            "Not compared: both methods use these values, found by maximising TAP's log evidence over the logarithms "
            f"of all parameters from {found.size} starts. Length scales are in standard deviations of their input, "
            "variances in squared latent units. The longer a length scale, the less its input matters.",
            Table(
                "Kernel parameters at the highest evidence.",
                ("Parameter", "Value"),
                [(name, f"{value:.4g}") for name, value in run.hyperparameters.items()],
            ),
            Table(
                "The search for them from each start.",
                ("Start", "Log evidence reached (nats)", "Solutions computed"),
                [(f"{i + 1}", f"{v:.4f}", f"{k}") for i, (v, k) in enumerate(zip(found, evaluations, strict=True))],
            ),
            *(f"The fit warned: {note}" for note in run.notes),
        ],
    )


def _sampler(run: Run) -> Section:
    q, t = run.comparison.sampler, run.settings.tolerances
    total = run.settings.chains * run.settings.draws
    rows = [
        ("Largest r-hat", f"{q.r_hat:.4f}", f"at most {t.r_hat:g}"),
        ("Smallest bulk effective number of draws", f"{q.ess_bulk:.0f}", f"at least {t.ess:g}"),
        ("Smallest tail effective number of draws", f"{q.ess_tail:.0f}", f"at least {t.ess:g}"),
        ("Smallest effective number of draws, test probabilities", f"{q.p_ess:.0f}", f"at least {t.ess:g}"),
        ("Divergences", f"{q.divergences}", f"at most {t.divergences}"),
    ]
    return Section(
        "Sampler",
        [
            "Checked: whether the samples are good enough to judge by, with ArviZ's rank-normalised r-hat and "
            "effective numbers of draws over all latent values, each with the tolerance in the table.",
            Table(f"Quality of the {total} NUTS draws.", ("Quantity", "Value", "Tolerance"), rows),
        ],
    )


def _made(run: Run) -> Section:
    fit, s = get_group(run.tap, "fit"), run.settings
    seeds = [("Fit", s.seed_fit), ("Draws of predictions", s.seed_predict), ("NUTS", s.seed_sampler)]
    return Section(
        "Versions and seeds",
        [
            f"At the tuned hyperparameters TAP took {int(fit['n_iterations'])} iterations to a residual of "
            f"{float(fit['residual']):.1g}; status: {fit.attrs['status_message']} By these equations its means are off "
            f"by at most {float(fit['mean_error']):.0e} posterior standard deviations, and rounding of the Gram matrix "
            f"moves its log evidence by at most {float(fit['rounding']):.0e} nats.",
            "The same versions and seeds give the same page. How long each part of the work took is another matter, "
            "and stands in pima_times.json.",
            Table(
                "Versions.",
                ("Package", "Version"),
                [(name, version or "not installed") for name, version in run.versions.items()],
            ),
            Table("Seeds.", ("Random numbers for", "Seed"), [(name, f"{seed}") for name, seed in seeds]),
        ],
    )


def _agreement(
    nuts: Array,
    tap: Array,
    error: Array,
    quantity: str,
    unit: str = "",
    tolerance: float | None = None,
    *,
    difference: bool = False,
) -> Axes:
    return plot_agreement(
        nuts,
        tap,
        reference_error=error,
        quantity=quantity,
        unit=unit,
        names=NAMES,
        tolerance=tolerance,
        difference=difference,
    )


def _difference_row(name: str, difference: Array, error: Array) -> tuple[str, ...]:
    absolute = np.abs(difference)
    numbers = (absolute.max(), absolute.mean(), difference.mean(), error.mean())
    return name, *(f"{number:.4f}" for number in numbers)
