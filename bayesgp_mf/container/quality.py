r"""What a fit says of its own quality, in numbers and one sentence.

The one word is that of probabilities. The evidence, probabilities at the training inputs, at new cases, and
leave-one-out have each a size of their own.

How far probabilities are off is measured at training inputs, by the largest change :math:`\Delta` that the correction
makes, or for counts and levels by what tilted latent values say in place of Gaussian ones (`processes.probed`); and
at new cases where they are predicted, always by the correction. The scale of the largest errors is

.. math:: \delta p = 0.002 + 1.25\, \Delta.

Where it was not measured, it is estimated from what the evidence leaves out. That has two parts of comparable size in a
probability: the other cases' share in it, which is linear in the correction for each case, and the shape of single
distributions, whose square is. So with x = (\|correction\| + remaining) / n

.. math:: \delta p \approx \sqrt{\varepsilon^2 + \min(12 x, 0.6 \sqrt x)^2}, \qquad \varepsilon = 0.005.

The numbers of both were chosen on exact probabilities of random problems; the study `corrected_quality` of ``make
validate`` has others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import hypot, inf, isfinite, sqrt
from typing import Any, Literal

import pandas as pd
import xarray as xr

from bayesgp_mf.container.layout import class_names_of
from bayesgp_mf.inference.solution import EvidenceKind
from bayesgp_mf.notebook import as_html
from bayesgp_mf.solvers.second_order import SecondOrder

Verdict = Literal["good", "fair", "off", "exact", "unsolved", "unknown"]

GOOD_PROBABILITY, FAIR_PROBABILITY = 0.02, 0.05
"""Up to the first a fit is good: hardly any of it would show in a table. Beyond the second it is off: in the first
digit."""
SMALL_EVIDENCE = 0.1
"""Nats up to which neither a warning nor the sentence speaks of what inducing inputs left out."""
PROBABILITY_ERROR = "probability_error"
"""Attribute of predictions: what was measured there."""
LEFT_OF_CORRECTION = 0.15
"""Share of the correction that it may leave out itself, beside what remains."""
TIMES_SHIFT, BESIDE_SHIFT = 1.25, 0.002
"""By which the change at a few training inputs becomes the scale of the largest errors: what the correction itself
leaves, and new cases elsewhere."""
TIMES_CROWDED = 2.0
"""Times that, where the correction leaves more than it is."""
LEAST_PROBABILITY = 0.005
"""Less is not promised of a probability that was not measured: a new case may be closer to one than the cases are to
each other."""
LINEAR, ROOT = 12.0, 0.6
"""Of what the evidence leaves out for each case, and of its root: the smaller is the scale of a probability's error."""
LARGEST_MEAN_ERROR, LARGEST_ROUNDING = 1e-2, 1e-2
"""Equations that are solved worse than this, in standard deviations and in nats, are what limits a fit."""
FEWEST_EFFECTIVE = 100.0
"""Effective draws of each hyperparameter, without which means have errors beyond 0.1 posterior standard deviations."""

_LARGEST = ("residual", "mean_error", "rounding", "independent", "inducing_error")
_KINDS = {
    "laplace": "Laplace's approximation does not say what it leaves out, which is often nats of the log evidence",
    "lower_bound": "the log evidence is a lower bound, and how far below is not known",
    "naive": "naive mean field does not say what it leaves out, which is often nats of the log evidence",
    "online": "a sweep through the cases does not say what it leaves out",
}
_BETTER = (
    "marginals='tilted' for draws with exact tails of each case, diagnostics.importance if its k-hat allows, "
    "method='exact' for some hundred labels under Probit or Step, or NUTS by bgp.pymc"
)
_BETTER_OF_CLASSES = "diagnostics.importance if its k-hat allows, or NUTS by bgp.pymc.latent_model"


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a fit is; ``print`` shows the numbers and a sentence.

    Attributes
    ----------
    method, kind : str
        Of the fit and its log evidence, as in the attributes of the container.
    n : int
        Cases.
    converged : bool
        Whether the equations were solved.
    log_evidence, log_evidence_error : float or None
        In nats, and its Monte-Carlo standard error; None for an average over hyperparameters, or a method without.
    correction, remaining : float or None
        What the correction of second order adds to the log evidence, and the size of what is left then, in nats; None
        where they are not known.
    residual, mean_error, rounding : float or None
        Of the equations, as in the container.
    independent : float or None
        The part of the prior variances that inducing cases leave to each case.
    probability_shift : float or None
        By how much the correction moves a probability at training inputs, at most; of counts and levels, how far
        that of at most a number is off. None where it was not measured.
    inducing_error : float or None
        How far the log evidence may be off that on the inducing inputs as they were given, in nats; None where all of
        them are worked with as they are, and known to all digits.
    averaged : bool
        Whether it is of an average over hyperparameters.
    in_parts : bool
        Whether it is of a table in parts, whose cases are elsewhere.
    new_probability_error : float or None
        How far probabilities of the latest predictions may be off; None where there are none, or it is not known.
    loo_error : float or None
        What the sum of leave-one-out densities may be off by in `loo`, in nats; None where it was not computed.
    misfit : str
        What is wrong with the model, by `diagnostics.misfit`; empty if nothing was found, or it was not looked for.
    pareto_k : float or None
        Of the draws weighed by the exact posterior; None where it was not computed.
    labels : bool
        Whether targets are labels, whose probabilities can be corrected.
    joint_classes : bool
        Whether each case has a latent value for each of several classes.
    effective_draws : float or None
        The fewest effective draws of a hyperparameter; None where none was sampled.
    """

    method: str
    kind: EvidenceKind
    n: int
    converged: bool
    log_evidence: float | None
    log_evidence_error: float | None
    correction: float | None
    remaining: float | None
    residual: float | None
    mean_error: float | None
    rounding: float | None
    independent: float | None
    probability_shift: float | None = None
    inducing_error: float | None = None
    averaged: bool = False
    new_probability_error: float | None = None
    loo_error: float | None = None
    misfit: str = ""
    pareto_k: float | None = None
    in_parts: bool = False
    labels: bool = True
    joint_classes: bool = False
    effective_draws: float | None = None

    @property
    def left_out(self) -> float | None:
        """Size of what the evidence leaves out without its correction, in nats; None where it is not known."""
        if self.correction is None or self.remaining is None:
            return None
        return (1.0 + LEFT_OF_CORRECTION) * abs(self.correction) + self.remaining

    @property
    def probability_error(self) -> float | None:
        """The scale of the largest errors of probabilities at the data, measured or estimated; None if not known."""
        # the evidence of cases that know nothing of each other is exact, and probabilities where they are need not be
        if self.left_out is None or not (self.left_out or self.probability_shift):
            return self.left_out
        if self.probability_shift is not None:
            return self.error_of_shift(self.probability_shift)
        each = self.left_out / self.n
        return hypot(LEAST_PROBABILITY, min(LINEAR * each, ROOT * sqrt(each)))

    @property
    def leaves_more(self) -> bool:
        """Whether the correction of the evidence leaves more than it is, so that what it measures is less certain."""
        return self.correction is not None and SecondOrder(self.correction, self.remaining or 0.0).leaves_more

    def error_of_shift(self, shift: float) -> float:
        """Return the scale of the largest errors of probabilities, given the largest change by a correction."""
        return BESIDE_SHIFT + TIMES_SHIFT * (TIMES_CROWDED if self.leaves_more else 1.0) * shift

    @property
    def verdict(self) -> Verdict:
        """One word: good, fair, off, exact, unsolved, or unknown where the method does not say."""
        if not self.converged:
            return "unsolved"
        if self._limited_by_equations:
            return "off"
        if self.kind == "exact":
            return "exact"
        if self.probability_error is None:
            return "unknown"
        largest = max(self.probability_error, self.new_probability_error or 0.0)
        return "good" if largest <= GOOD_PROBABILITY else "fair" if largest <= FAIR_PROBABILITY else "off"

    @property
    def sentence(self) -> str:
        """What may be trusted to how much, and what to do if that is not enough."""
        return f"{self.verdict}: {self._text()}{self._of_inducing}{self._of_draws}"

    @property
    def _of_inducing(self) -> str:
        if (self.inducing_error or 0.0) <= SMALL_EVIDENCE:
            return ""
        return (
            " Inducing inputs that nearly repeat each other are known to few digits, or were moved or left out: the "
            f"log evidence may be off by {self.inducing_error:.2g} nats from that on the inputs as given."
        )

    @property
    def _of_draws(self) -> str:
        if self.effective_draws is None or self.effective_draws >= FEWEST_EFFECTIVE:
            return ""
        error = 1.0 / sqrt(max(self.effective_draws, 1.0))
        return (
            f" Of some hyperparameter at most {self.effective_draws:.0f} draws are effective, so that its mean has a "
            f"Monte-Carlo error of {error:.2g} posterior sd or more. Take more: "
            "hyper=hyper.HybridMonteCarlo(iterations=...), or pymc.Nuts(draws=...)."
        )

    @property
    def _limited_by_equations(self) -> bool:
        return (self.mean_error or 0.0) > LARGEST_MEAN_ERROR or (self.rounding or 0.0) > LARGEST_ROUNDING

    @property
    def _better(self) -> str:
        return _BETTER_OF_CLASSES if self.joint_classes else _BETTER

    def _text(self) -> str:
        verdict = self.verdict
        if verdict == "unsolved":
            return "the equations were not solved, so that no number of this fit means anything yet; see its status."
        if self._limited_by_equations:
            return (
                "the equations are solved to a mean_error and rounding that show in what is predicted. Use a lower "
                "tolerance, or a kernel with more noise."
            )
        if verdict == "exact":
            return f"the model is integrated, with a standard error of {self.log_evidence_error or 0.0:.2g} nats."
        if self.correction is None or self.remaining is None:  # so that the verdict is unknown
            if self.in_parts:
                return (
                    "of a table in parts what the approximation leaves out is not computed. To know, fit some thousand "
                    "cases of it that are here, at these hyperparameters: fit(X, y, posterior(idata).kernel, "
                    "inducing=...)."
                )
            return f"{self._why_unknown()}. To know, {self._how_to_know()}use {self._better}."
        if not (self.left_out or self.probability_error):
            return "there is nothing left out of the log evidence, as under Gaussian noise or of a single case."
        predicted = self.new_probability_error
        known = (
            f"the log evidence is off by about {abs(self.correction):.2g} nats, and with its correction by about "
            f"{self.remaining:.2g}; probabilities at the data may be off by up to about {self.probability_error:.2g}, "
            f"{'estimated' if self.probability_shift is None else 'measured'}"
        )
        known += "." if predicted is None else f", those predicted by about {predicted:.2g}."
        if self.remaining > abs(self.correction):
            known += " What is left is larger than the correction, which may be no better than none."
        if self.independent:
            left = f"which leave {self.independent:.1%} of the prior variances to noise"
            known += f" That is of the model on the inducing cases, {left}: diagnostics.inducing says how many to take."
        if verdict == "good":
            return known
        corrected = "corrected=True for probabilities, " if self.labels and self.probability_shift is not None else ""
        return f"{known} Where that is not enough: {corrected}{self._better}."

    def _why_unknown(self) -> str:
        if self.averaged:
            return "of an average over hyperparameters or models what the approximation leaves out is not computed"
        if self.kind != "ep":
            return _KINDS.get(self.kind, f"method {self.method!r} does not say what it leaves out")
        return "the correction of the evidence is not known for this likelihood, or was not computed for this fit"

    def _how_to_know(self) -> str:
        if self.averaged:
            return "fit with method='tap' and hyper='evidence', under the same priors, or "
        return "" if self.kind == "ep" else "fit with method='tap' at these hyperparameters, or "

    def __str__(self) -> str:
        rows = self.rows()
        width, wide = (max(len(row[k]) for row in rows) for k in (0, 1))
        lines = [f"{name:{width}}  {value:>{wide}}  {unit}".rstrip() for name, value, unit in rows]
        return "\n".join([*lines, self.sentence, *([self.misfit] if self.misfit else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.sentence, [(name, f"{value} {unit}") for name, value, unit in self.rows()])

    def to_frame(self) -> pd.DataFrame:
        """Return what is printed: ``value`` and ``unit`` of each number, in words; `to_dict` has the numbers."""
        return pd.DataFrame(self.rows(), columns=["number", "value", "unit"]).set_index("number")

    def rows(self) -> list[tuple[str, str, str]]:
        """Return what is known as names, numbers and units in words."""
        return [row for row in self._rows() if row[1]]

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        yield "log evidence", _shown(self.log_evidence, ".4f"), "nats"
        yield "correction", _shown(self.correction, "+.4f"), "nats"
        yield "left after it", _shown(self.remaining, ".4f"), "nats"
        how = "estimated" if self.probability_shift is None else "measured"
        yield "errors of probabilities at the data", _shown(self.probability_error, ".3f"), how
        yield "errors of probabilities predicted", _shown(self.new_probability_error, ".3f"), "measured"
        yield "error of leave-one-out", _shown(self.loo_error, ".3f"), "nats"
        if self.pareto_k is None:
            k_hat = "not computed", "see diagnostics.importance"
        else:
            k_hat = ("none", "the weights are equal") if self.pareto_k == -inf else (f"{self.pareto_k:.2f}", "")
        yield "Pareto k-hat of the draws", *k_hat
        yield "fewest effective draws of a hyperparameter", _shown(self.effective_draws, ".0f"), ""
        yield "residual of the equations", _shown(self.residual, ".1e"), ""
        yield "error of the means", _shown(self.mean_error, ".1e"), "posterior sd"
        yield "rounding", _shown(self.rounding, ".1e"), "nats"
        yield "left to noise by inducing cases", _shown(self.independent, ".1%"), ""
        yield "inducing inputs moved or left out", _shown(self.inducing_error, ".2g"), "nats"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as numbers and strings, which JSON can hold where they are finite."""
        more = {"probability_error": self.probability_error, "verdict": self.verdict, "sentence": self.sentence}
        return asdict(self) | more


def quality_of_fit(fit: xr.Dataset, n: int, in_parts: bool = False) -> Quality:
    """Return what the group ``fit`` of a container says of ``n`` cases; the largest of what there is of several.

    ``in_parts`` says that they are those of a table in parts.
    """
    averaged = "node_weight" in fit
    largest: dict[str, Any] = {name: float(fit[name].max()) if name in fit else None for name in _LARGEST}

    def single(name: str) -> float | None:
        return None if averaged or name not in fit else float(fit[name])

    return Quality(
        method=fit.attrs["method"],
        kind=fit.attrs["evidence_kind"],
        n=n,
        converged=fit.attrs["status"] == "CONVERGED",
        log_evidence=single("log_evidence"),
        log_evidence_error=single("log_evidence_se"),
        correction=single("log_evidence_correction"),
        remaining=single("log_evidence_remaining"),
        probability_shift=single("probability_shift"),
        averaged=averaged,
        in_parts=in_parts,
        labels=bool(class_names_of(fit)),
        joint_classes="class" in fit.dims,
        **largest,
    )


def _shown(value: float | None, form: str) -> str:
    return "" if value is None or not isfinite(value) else format(value, form)
