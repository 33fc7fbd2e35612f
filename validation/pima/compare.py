"""An approximation held against samples of the same posterior: the numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import agreement, error_count, importance, mean_log_score
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most, passed
from validation.reporting.files import plain
from validation.sampling import arviz_calls
from validation.sampling.arviz_calls import ComparedModel, Elpd

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What counts as agreement, and what the samples must be like for the comparison to mean anything."""

    probability_max: float = 0.02
    probability_mean: float = 0.005
    latent_mean: float = 0.1
    """Largest difference of posterior means, in posterior standard deviations."""
    latent_sd: float = 0.1
    """Largest relative difference of posterior standard deviations."""
    elpd: float = 0.5
    """Difference of leave-one-out elpd, in nats over all cases."""
    log_evidence: float = 0.1
    """In nats."""
    r_hat: float = 1.01
    ess: float = 2000.0
    divergences: int = 0


@dataclass(frozen=True, slots=True)
class Latent:
    """Posterior moments of f at the training cases, ``(n,)`` each, in latent units."""

    tap_mean: Array
    tap_sd: Array
    nuts_mean: Array
    nuts_mean_mcse: Array
    nuts_sd: Array
    nuts_sd_mcse: Array
    prior_sd: Array

    @property
    def shift(self) -> Array:
        """Difference of the means in posterior standard deviations."""
        return (self.tap_mean - self.nuts_mean) / self.nuts_sd

    @property
    def stretch(self) -> Array:
        """Ratio of the standard deviations less one."""
        return self.tap_sd / self.nuts_sd - 1.0


@dataclass(frozen=True, slots=True)
class Predictions:
    """Probabilities of class 1 at the test cases, ``(m,)`` each, and the labels that occurred."""

    labels: NDArray[np.bool_]
    tap: Array
    nuts: Array
    nuts_mcse: Array

    @property
    def difference(self) -> Array:
        """TAP less NUTS."""
        return self.tap - self.nuts

    @property
    def difference_from_noise(self) -> float:
        """Mean absolute difference that Monte-Carlo error alone would make."""
        return float(np.mean(self.nuts_mcse) * math.sqrt(2.0 / math.pi))


@dataclass(frozen=True, slots=True)
class Score:
    """What the predictions of one method are worth on the test cases."""

    errors: int
    mean_log_score: float


@dataclass(frozen=True, slots=True)
class Sampler:
    """Quality of the samples: worst case over the latent values, and over test probabilities for ``p_ess``."""

    r_hat: float
    ess_bulk: float
    ess_tail: float
    p_ess: float
    divergences: int


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Analytic and sampled leave-one-out."""

    tap: Elpd
    nuts: Elpd
    table: list[ComparedModel]


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """Log evidence in nats: the method's, and the estimate by weighting its draws."""

    tap: float
    weighted: float
    weighted_se: float
    draws: int
    ess: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """All numbers of the comparison, and the verdicts."""

    latent: Latent
    predictions: Predictions
    tap_score: Score
    nuts_score: Score
    sampler: Sampler
    loo: LeaveOneOut
    evidence: LogEvidence
    checks: list[Check]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return passed(self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and text; what is not finite is None."""
        numbers = asdict(self)
        numbers["passed"] = self.passed
        numbers["checks"] = [check.to_dict() for check in self.checks]
        numbers["loo"] = {
            "tap": self.loo.tap._asdict(),
            "nuts": self.loo.nuts._asdict(),
            "compare": [row._asdict() for row in self.loo.table],
        }
        result: dict[str, Any] = plain(numbers)
        return result


def compare(tap: Container, nuts: Container, labels: NDArray[np.bool_], tolerances: Tolerances) -> Comparison:
    """Compare a fit with samples of the same posterior.

    Parameters
    ----------
    tap : InferenceData or DataTree
        What ``bgp.predict(bgp.fit(...))`` returned.
    nuts : InferenceData or DataTree
        What `latent.add_predictions` returned for the same Gram matrix and test cases.
    labels : (m,) bool array
        Labels of the test cases: whether class 1.
    tolerances : Tolerances
        What counts as agreement.
    """
    latent = compare_latent(tap, nuts)
    expected = get_group(nuts, "predictions")
    predictions = Predictions(
        labels, get_group(tap, "predictions")["p"].values, expected["p"].values, expected["p_mcse"].values
    )
    analytic, sampled = bgp.loo(tap), arviz_calls.psis_loo(nuts)
    loo = LeaveOneOut(
        arviz_calls.elpd(analytic),
        arviz_calls.elpd(sampled),
        arviz_calls.compare({"TAP, analytic": analytic, "NUTS, PSIS": sampled}),
    )
    sampler, evidence = sampler_quality(nuts), weighted_evidence(tap)
    return Comparison(
        latent,
        predictions,
        Score(error_count(labels, predictions.tap), mean_log_score(labels, predictions.tap)),
        Score(error_count(labels, predictions.nuts), mean_log_score(labels, predictions.nuts)),
        sampler,
        loo,
        evidence,
        verdicts(latent, predictions, sampler, loo, evidence, tolerances),
    )


def compare_latent(tap: Container, nuts: Container) -> Latent:
    """Return the posterior moments at the training cases of both."""
    found = agreement(tap, nuts)
    prior_sd = np.sqrt(np.diag(bgp.posterior(tap).problem.gram))
    mean, sd = found.mean, found.sd
    return Latent(mean.first, sd.first, mean.second, mean.second_error, sd.second, sd.second_error, prior_sd)


def sampler_quality(nuts: Container) -> Sampler:
    """Return what ArviZ says of the samples."""
    r_hat, bulk, tail = arviz_calls.convergence(get_group(nuts, "posterior")["f"])
    return Sampler(
        r_hat=float(np.max(r_hat)),
        ess_bulk=float(np.min(bulk)),
        ess_tail=float(np.min(tail)),
        p_ess=float(np.min(get_group(nuts, "predictions")["p_ess"].values)),
        divergences=int(np.sum(get_group(nuts, "sample_stats")["diverging"].values)),
    )


def weighted_evidence(tap: Container) -> LogEvidence:
    """Return the log evidence by importance sampling with the fit's own independent draws."""
    found = importance(tap)
    return LogEvidence(
        tap=float(get_group(tap, "fit")["log_evidence"]),
        weighted=found.log_evidence,
        weighted_se=found.log_evidence_error,
        draws=found.n_draws,
        ess=found.ess,
    )


def verdicts(
    latent: Latent,
    predictions: Predictions,
    sampler: Sampler,
    loo: LeaveOneOut,
    evidence: LogEvidence,
    tolerances: Tolerances,
) -> list[Check]:
    """Hold each number against its tolerance."""
    off = np.abs(predictions.difference)
    elpd_off, evidence_off = abs(loo.tap.elpd - loo.nuts.elpd), abs(evidence.tap - evidence.weighted)
    worst_shift, worst_stretch = float(np.max(np.abs(latent.shift))), float(np.max(np.abs(latent.stretch)))
    ess = min(sampler.ess_bulk, sampler.ess_tail, sampler.p_ess)
    t = tolerances
    return [
        at_most("Probabilities, largest difference", off.max(), t.probability_max),
        at_most("Probabilities, mean absolute difference", off.mean(), t.probability_mean),
        at_most("Posterior means, largest difference", worst_shift, t.latent_mean, "posterior sd"),
        at_most("Posterior sds, largest relative difference", worst_stretch, t.latent_sd),
        at_most("Leave-one-out elpd, difference", elpd_off, t.elpd, "nats"),
        at_most("Log evidence, difference", evidence_off, t.log_evidence, "nats"),
        at_most("Sampler: largest r-hat", sampler.r_hat, t.r_hat),
        at_least("Sampler: smallest effective number of draws", ess, t.ess, "draws"),
        at_most("Sampler: divergences", sampler.divergences, t.divergences, "draws"),
    ]
