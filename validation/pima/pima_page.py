"""What the report says: words, tables and figures around the numbers of a run."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.stored import evidence_of_fit
from bayesgp_mf.diagnostics import error_count, mean_log_score, quality
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.plots import plot_agreement, plot_loo
from bayesgp_mf.plots._axes import apart
from bayesgp_mf.reports.page import Figures, Section, Table, render
from bayesgp_mf.reports.report import sections_of
from validation.pima.run import Run
from validation.reporting.checks import count, verdict, verdict_table

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


@apart()
def pima_page(run: Run) -> str:
    """Return the report as HTML: the comparison, and all that `bayesgp_mf.report` says of the fit."""
    about, y_test = fitted(run.tap), run.dataset.y_test
    fit = sections_of(about, quality(run.tap), y_test=y_test, reference=run.nuts)
    compared = [make(run) for make in (_predictions, _leave_one_out, _evidence, _sampler, _made)]
    return render(TITLE, lead(run), verdict_table(run.comparison.checks), [_setting(run), *fit, *compared])


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


def _predictions(run: Run) -> Section:
    c = run.comparison
    p, t = c.predictions, run.settings.tolerances
    worst = int(np.argmax(np.abs(p.difference)))
    share = float(np.mean(run.dataset.y == run.positive_class))
    constant = np.full(p.tap.size, share)
    rows = [
        ("TAP", c.tap_score.errors, c.tap_score.mean_log_score),
        ("NUTS", c.nuts_score.errors, c.nuts_score.mean_log_score),
        (f"Constant {share:.2f}", error_count(p.labels, constant), mean_log_score(p.labels, constant)),
    ]
    disagree = int(np.count_nonzero((p.tap > 0.5) != (p.nuts > 0.5)))
    difference = plot_agreement(
        p.nuts,
        p.tap,
        reference_error=p.nuts_mcse,
        quantity="probability of diabetes",
        names=NAMES,
        tolerance=t.probability_max,
        difference=True,
    )
    return Section(
        "Test cases by TAP and by NUTS",
        [
            f"Compared: the probability of diabetes of each of the {p.tap.size} test cases. Tolerance: "
            f"{t.probability_max:g} for the largest absolute difference and {t.probability_mean:g} for the mean "
            "absolute difference. For NUTS, the latent value of the test case is integrated out for each draw, and the "
            "resulting probabilities are averaged.",
            f"The largest difference is at test case {worst} (counted from 0): {p.tap[worst]:.4f} by TAP and "
            f"{p.nuts[worst]:.4f} by NUTS, with a Monte-Carlo standard error of {p.nuts_mcse[worst]:.4f}. Monte-Carlo "
            f"error alone would make a mean absolute difference of about {p.difference_from_noise:.4f}.",
            Figures(
                [
                    (
                        difference,
                        "The difference of the two probabilities for each test case, with the Monte-Carlo error of "
                        "NUTS and the tolerance.",
                    )
                ]
            ),
            Table(
                f"Errors among {p.tap.size} test cases and mean log predictive probability of their labels.",
                ("Prediction", "Errors", "Error rate", "Mean log score (nats)"),
                [(name, f"{e}", f"{e / p.tap.size:.3f}", f"{score:.4f}") for name, e, score in rows],
            ),
            f"TAP and NUTS predict different labels for {disagree} of the test cases. The constant predicts the share "
            "of diabetics in the training set.",
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
    s = run.settings
    seeds = [("Fit", s.seed_fit), ("Draws of predictions", s.seed_predict), ("NUTS", s.seed_sampler)]
    return Section(
        "Versions and seeds",
        [
            *(f"The fit warned: {note}" for note in run.notes),
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
