"""What counts as agreement, and the verdict on one number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

HEADER = ("Check", "Verdict", "Value", "Tolerance", "Unit")
"""Of a table whose rows are `Check.cells`."""


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
class Check:
    """One number against its bound; anything that is not a number fails."""

    name: str
    value: float
    bound: Literal["at most", "at least"]
    tolerance: float
    unit: str

    @property
    def passed(self) -> bool:
        """Whether the number keeps its bound."""
        return self.value <= self.tolerance if self.bound == "at most" else self.value >= self.tolerance

    @property
    def shown(self) -> str:
        """The number as text: counts of draws without decimals."""
        return f"{self.value:.0f}" if self.unit == "draws" else f"{self.value:.4f}"

    @property
    def allowed(self) -> str:
        """The bound as text, without the unit."""
        return f"{self.bound} {self.tolerance:g}"

    @property
    def verdict(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.passed else "FAIL"

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table under `HEADER`."""
        return self.name, self.verdict, self.shown, self.allowed, self.unit

    def to_dict(self) -> dict[str, Any]:
        """Return the number, its bound and the verdict."""
        return asdict(self) | {"verdict": self.verdict}
