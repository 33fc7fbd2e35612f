"""The likelihood of the support-vector limit: a step at the margin (2000, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayesgp_mf import Step
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array, Derivs

STEP = Step()


@dataclass(frozen=True, slots=True)
class MarginStep(Likelihood):
    """Theta(t f - 1): a step moved by t, since t f - 1 = t (f - t). It is no distribution of t."""

    targets: Literal["binary"] = "binary"
    forbids: bool = True
    log_concave: bool = True

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return 0 inside the margin's half line and minus infinity outside, and zeros."""
        return STEP.log_prob(t, f - t)

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the log of the integral of Theta(t f - 1) N(f | mean, variance), and its derivatives in mean."""
        return STEP.log_partition(t, mean - t, variance)

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return the probability that f is positive, which decides without the margin."""
        return STEP.predict_proba(mean, variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return the sign of f."""
        return STEP.sample(f, rng)

    def to_dict(self) -> dict[str, Any]:
        """Return a name: this likelihood is not saved."""
        return {"likelihood": "MarginStep"}
