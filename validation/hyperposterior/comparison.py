"""The work of the study, without words: sample by two evidences, weigh, compare with the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from bayesgp_mf.hyper import Surrogate
from bayesgp_mf.pymc import Nuts
from validation.hyperposterior.approximate import Sampled, sample
from validation.hyperposterior.averaged import Averaged, average
from validation.hyperposterior.importance import Weighted, weighted
from validation.hyperposterior.recorded_joint import RecordedJoint
from validation.hyperposterior.setting import load
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.files import plain
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
    reference : RecordedJoint
        The joint posterior.
    sampled : dict of str to Sampled
        By method.
    weighted : dict of str to Weighted
        Some of those draws with weights.
    averaged : Averaged
        Nodes by TAP's evidence and a surrogate of it.
    corrected : Averaged
        The same by that evidence corrected to second order.
    nuts : Nuts
        How was sampled.
    tolerances : Tolerances
        What counts as agreement.
    """

    reference: RecordedJoint
    sampled: dict[str, Sampled]
    weighted: dict[str, Weighted]
    averaged: Averaged
    corrected: Averaged
    nuts: Nuts
    tolerances: Tolerances = field(default_factory=Tolerances)

    def apart(self, method: str) -> Apart:
        """How far the log parameters by a method are from the reference."""
        return apart(self.sampled[method].parameters, self.reference.parameters)

    @property
    def surrogates(self) -> dict[str, Averaged]:
        """Those without a chain, by name."""
        return {"TAP by the surrogate": self.averaged, "TAP corrected, by the surrogate": self.corrected}

    def averaged_apart(self, averaged: Averaged) -> Apart:
        """How far the log parameters by a surrogate are from the reference."""
        return apart(averaged, self.reference.parameters)

    def distance(self, averaged: Averaged) -> tuple[float, float]:
        """How far their means are from the reference, rms in its standard deviations, and what chance alone makes."""
        off = self.averaged_apart(averaged)
        return float(np.sqrt(np.mean(off.mean**2))), float(np.sqrt(np.mean(off.mean_error**2)))

    def averaged_probability_difference(self, averaged: Averaged) -> Any:
        """Probabilities of the test cases by a surrogate, less those of the reference, ``(m,)``."""
        return averaged.probabilities - self.reference.probabilities.mean

    def probability_difference(self, method: str) -> Any:
        """Probabilities of the test cases by a method, less those of the reference, ``(m,)``."""
        return self.sampled[method].probabilities.mean - self.reference.probabilities.mean

    @property
    def checks(self) -> list[Check]:
        """The verdicts on TAP, by NUTS and by the surrogate, and on the samples they rest on."""
        tap, off, t = self.sampled["tap"], self.apart("tap"), self.tolerances
        p = np.abs(self.probability_difference("tap"))
        beyond, sd = "largest difference beyond its Monte-Carlo error", "posterior sd"
        checks = [
            at_most(f"means of log parameters: {beyond}", np.max(np.abs(off.mean) - off.mean_error), t.parameter, sd),
            at_most(f"sds of log parameters: {beyond}", np.max(np.abs(off.sd) - off.sd_error), t.parameter, sd),
            at_most("probabilities of test cases: largest difference", p.max(), t.probability_max),
            at_most("probabilities of test cases: mean difference", p.mean(), t.probability_mean),
            at_most("Monte-Carlo error of a difference of means, largest", off.mean_error.max(), t.error, sd),
        ]
        for name, found, divergences in (
            ("joint", self.reference.parameters, self.reference.divergences),
            ("TAP", tap.parameters, tap.divergences),
        ):
            checks += [
                at_most(f"{name}: largest r-hat", found.r_hat.max(), t.r_hat),
                at_least(f"{name}: least bulk ESS", found.ess_bulk.min(), t.ess, "draws"),
                at_most(f"{name}: divergences", divergences, t.divergences),
            ]
        for by, averaged in self.surrogates.items():
            p = np.abs(self.averaged_probability_difference(averaged))
            excess = self.averaged_apart(averaged).beyond_error().max()
            checks += [
                at_most(f"{by}: means and sds, {beyond}", excess, t.parameter, sd),
                at_most(f"{by}: probabilities of test cases, largest difference", p.max(), t.probability_max),
                at_most(f"{by}: Pareto k-hat", averaged.pareto_k, t.pareto_k),
                at_least(f"{by}: least ESS", averaged.ess.min(), t.ess, "draws"),
            ]
        return checks

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers but the draws and the times, which are another each run."""
        r = self.reference
        by_method = {
            method: {
                "parameters": found.parameters._asdict(),
                "apart": self.apart(method)._asdict(),
                "probabilities": found.probabilities.mean,
                "probability_error": found.probabilities.mean_error,
                "evaluations": found.n_evaluations,
                "divergences": found.divergences,
                "weighted": _named(self.weighted[method], "ess", "mean", "moved", "log_weights"),
            }
            for method, found in self.sampled.items()
        }
        fields = ("mean", "mean_error", "sd", "sd_error", "probabilities", "pareto_k", "ess")
        surrogates = {
            name: _named(each, *fields) | {"evaluations": each.n_evaluations, "distance": self.distance(each)}
            for name, each in (("surrogate", self.averaged), ("surrogate_corrected", self.corrected))
        }
        result: dict[str, Any] = plain(
            {
                "names": r.names,
                "nuts": asdict(self.nuts),
                "tolerances": asdict(self.tolerances),
                "reference": {"parameters": r.parameters._asdict()}
                | _named(r, "seconds", "ess_per_second", "settings", "versions"),
                "methods": by_method,
                **surrogates,
                "checks": [check.to_dict() for check in self.checks],
            }
        )
        return result

    def times(self) -> dict[str, dict[str, float]]:
        """Return the seconds of each sampler, and its least effective draws of a log parameter by second."""
        timed = {
            **self.sampled,
            "surrogate": self.averaged,
            "surrogate, corrected": self.corrected,
            "joint, recorded": self.reference,
        }
        return {name: _named(found, "seconds", "ess_per_second") for name, found in timed.items()}


def _named(given: object, *names: str) -> dict[str, Any]:
    return {name: getattr(given, name) for name in names}


def run(reference: RecordedJoint, nuts: Nuts, seed: int, advance: Callable[[str], None]) -> JointComparison:
    """Sample by both evidences, weigh the draws, average over nodes by the first, and return all of it."""
    split = load()
    sampled = {method: sample(split, method, nuts, seed, advance) for method in METHODS}
    weights = {name: weigh(split, found, seed) for name, found in sampled.items()}
    plain_evidence, corrected = (
        average(split, METHODS[0], replace(SURROGATE, corrected=choice), seed, advance) for choice in (False, True)
    )
    return JointComparison(reference, sampled, weights, plain_evidence, corrected, nuts)


def weigh(split: Split, sampled: Sampled, seed: int) -> Weighted:
    """Weigh some of the draws by an evidence, evenly spread over all."""
    flat = sampled.log_parameters.reshape(-1, sampled.log_parameters.shape[-1])
    step = max(1, len(flat) // WEIGHTED)
    return weighted(split, sampled.method, flat[::step], LATENT_DRAWS, np.random.default_rng(seed))
