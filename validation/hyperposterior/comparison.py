"""The work of the study, without words: sample by two evidences, weigh, compare with the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bayesgp_mf.hyper import Surrogate
from bayesgp_mf.pymc import Nuts
from validation.hyperposterior.approximate import Sampled, sample
from validation.hyperposterior.averaged import Averaged, average
from validation.hyperposterior.importance import Weighted, weighted
from validation.hyperposterior.recorded_joint import Recorded
from validation.hyperposterior.setting import load
from validation.pima.compare import plain
from validation.reporting.checks import Check
from validation.sampling.statistics import Apart, apart
from validation.tables.selection import Split

METHODS = ("tap", "laplace")
"""The first is judged; the second stands beside it."""
WEIGHTED, LATENT_DRAWS = 500, 200
"""Draws by each evidence that are weighted, and latent functions for each."""
SURROGATE = Surrogate(nodes=1000)
"""Twice the usual number of nodes, for Monte-Carlo errors that are well below what is tolerated."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What counts as agreement, and what the samples must be like for it to mean anything."""

    parameter: float = 0.15
    """Of means and standard deviations of log parameters, in posterior standard deviations, beside chance."""
    probability_max: float = 0.02
    probability_mean: float = 0.005
    error: float = 0.05
    """Largest Monte-Carlo standard error of a difference of means, in posterior standard deviations."""
    r_hat: float = 1.02
    ess: float = 200.0
    divergences: int = 0
    pareto_k: float = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class JointComparison:
    """All that the page is made of.

    Attributes
    ----------
    reference : Recorded
        The joint posterior.
    sampled : dict of str to Sampled
        By method.
    weighted : dict of str to Weighted
        Some of those draws with weights.
    averaged : Averaged
        Nodes by TAP's evidence and a surrogate of it.
    nuts : Nuts
        How was sampled.
    tolerances : Tolerances
        What counts as agreement.
    """

    reference: Recorded
    sampled: dict[str, Sampled]
    weighted: dict[str, Weighted]
    averaged: Averaged
    nuts: Nuts
    tolerances: Tolerances = field(default_factory=Tolerances)

    def apart(self, method: str) -> Apart:
        """How far the log parameters by a method are from the reference."""
        return apart(self.sampled[method].parameters, self.reference.parameters)

    @property
    def averaged_apart(self) -> Apart:
        """How far the log parameters by the surrogate are from the reference."""
        return apart(self.averaged, self.reference.parameters)

    @property
    def averaged_probability_difference(self) -> Any:
        """Probabilities of the test cases by the surrogate, less those of the reference, ``(m,)``."""
        return self.averaged.probabilities - self.reference.probabilities.mean

    def probability_difference(self, method: str) -> Any:
        """Probabilities of the test cases by a method, less those of the reference, ``(m,)``."""
        return self.sampled[method].probabilities.mean - self.reference.probabilities.mean

    @property
    def checks(self) -> list[Check]:
        """The verdicts on TAP, by NUTS and by the surrogate, and on the samples they rest on."""
        tap, off, t = self.sampled["tap"], self.apart("tap"), self.tolerances
        p = np.abs(self.probability_difference("tap"))
        beyond_mean, beyond_sd = np.abs(off.mean) - off.mean_error, np.abs(off.sd) - off.sd_error
        checks = [
            Check(
                "means of log parameters: largest difference beyond its Monte-Carlo error",
                float(beyond_mean.max()),
                "at most",
                t.parameter,
                "posterior sd",
            ),
            Check(
                "sds of log parameters: largest difference beyond its Monte-Carlo error",
                float(beyond_sd.max()),
                "at most",
                t.parameter,
                "posterior sd",
            ),
            Check("probabilities of test cases: largest difference", float(p.max()), "at most", t.probability_max, ""),
            Check("probabilities of test cases: mean difference", float(p.mean()), "at most", t.probability_mean, ""),
            Check(
                "Monte-Carlo error of a difference of means, largest",
                float(off.mean_error.max()),
                "at most",
                t.error,
                "posterior sd",
            ),
        ]
        for name, found, divergences in (
            ("joint", self.reference.parameters, self.reference.divergences),
            ("TAP", tap.parameters, tap.divergences),
        ):
            checks += [
                Check(f"{name}: largest r-hat", float(found.r_hat.max()), "at most", t.r_hat, ""),
                Check(f"{name}: least bulk ESS", float(found.ess_bulk.min()), "at least", t.ess, "draws"),
                Check(f"{name}: divergences", float(divergences), "at most", t.divergences, ""),
            ]
        off, p = self.averaged_apart, np.abs(self.averaged_probability_difference)
        return [
            *checks,
            Check(
                "TAP by the surrogate: means and sds, largest difference beyond its Monte-Carlo error",
                float(off.beyond_error().max()),
                "at most",
                t.parameter,
                "posterior sd",
            ),
            Check(
                "TAP by the surrogate: probabilities of test cases, largest difference",
                float(p.max()),
                "at most",
                t.probability_max,
                "",
            ),
            Check("TAP by the surrogate: Pareto k-hat", self.averaged.pareto_k, "at most", t.pareto_k, ""),
            Check("TAP by the surrogate: least ESS", float(self.averaged.ess.min()), "at least", t.ess, "draws"),
        ]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers but the draws."""
        by_method = {
            method: {
                "parameters": found.parameters._asdict(),
                "apart": self.apart(method)._asdict(),
                "probabilities": found.probabilities.mean,
                "probability_error": found.probabilities.mean_error,
                "seconds": found.seconds,
                "evaluations": found.n_evaluations,
                "divergences": found.divergences,
                "ess_per_second": found.ess_per_second,
                "weighted": {
                    "ess": self.weighted[method].ess,
                    "mean": self.weighted[method].mean,
                    "moved": self.weighted[method].moved,
                    "log_weights": self.weighted[method].log_weights,
                },
            }
            for method, found in self.sampled.items()
        }
        result: dict[str, Any] = plain(
            {
                "names": self.reference.names,
                "nuts": asdict(self.nuts),
                "tolerances": asdict(self.tolerances),
                "reference": {
                    "parameters": self.reference.parameters._asdict(),
                    "seconds": self.reference.seconds,
                    "ess_per_second": self.reference.ess_per_second,
                    "settings": self.reference.settings,
                    "versions": self.reference.versions,
                },
                "methods": by_method,
                "surrogate": {
                    "mean": self.averaged.mean,
                    "mean_error": self.averaged.mean_error,
                    "sd": self.averaged.sd,
                    "sd_error": self.averaged.sd_error,
                    "probabilities": self.averaged.probabilities,
                    "pareto_k": self.averaged.pareto_k,
                    "ess": self.averaged.ess,
                    "seconds": self.averaged.seconds,
                    "evaluations": self.averaged.n_evaluations,
                },
                "checks": [check.to_dict() for check in self.checks],
            }
        )
        return result


def run(reference: Recorded, nuts: Nuts, seed: int, advance: Callable[[str], None]) -> JointComparison:
    """Sample by both evidences, weigh the draws, average over nodes by the first, and return all of it."""
    split = load()
    sampled = {method: sample(split, method, nuts, seed, advance) for method in METHODS}
    weights = {name: weigh(split, found, seed) for name, found in sampled.items()}
    return JointComparison(reference, sampled, weights, average(split, METHODS[0], SURROGATE, seed, advance), nuts)


def weigh(split: Split, sampled: Sampled, seed: int) -> Weighted:
    """Weigh some of the draws by an evidence, evenly spread over all."""
    flat = sampled.log_parameters.reshape(-1, sampled.log_parameters.shape[-1])
    step = max(1, len(flat) // WEIGHTED)
    return weighted(split, sampled.method, flat[::step], LATENT_DRAWS, np.random.default_rng(seed))
