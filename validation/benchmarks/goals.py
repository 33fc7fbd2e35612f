"""What was asked of the measured numbers, and whether they keep it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from validation.benchmarks.listing import Listing
from validation.reporting.checks import Check

HEADER = ("Goal", "Asked", "Measured", "Met")


@dataclass(frozen=True, slots=True)
class Goals:
    """Some numbers against their bounds."""

    title: str
    goals: Sequence[Check]

    def lines(self) -> list[str]:
        """Return aligned text."""
        return self._listing("NO").lines()

    def markdown(self) -> list[str]:
        """Return a table of markdown."""
        return self._listing("**no**").markdown()

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        return self._listing("no").to_dict()

    def _listing(self, missed: str) -> Listing:
        verdicts = {True: "yes", False: missed, None: "not measured"}
        rows = tuple(
            (goal.name, f"{goal.allowed} {goal.unit}", _shown(goal.value), verdicts[goal.passed]) for goal in self.goals
        )
        numbers = [asdict(goal) | {"met": goal.passed} for goal in self.goals]
        return Listing(self.title, HEADER, rows, numbers)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
