"""What was asked of the measured numbers, and whether they keep it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from validation.benchmarks.listing import Listing

HEADER = ("Goal", "Asked", "Measured", "Met")


@dataclass(frozen=True, slots=True)
class Goal:
    """One number against its bound.

    Attributes
    ----------
    name : str
        What is bounded.
    value : float or None
        The number; None where it could not be measured, because a peer is not installed or was not run.
    bound : {"at most", "at least"}
        To which side it may go.
    limit : float
        How far.
    unit : str
        Of both.
    """

    name: str
    value: float | None
    bound: Literal["at most", "at least"]
    limit: float
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether the number keeps its bound; None without a number. What is not a number keeps none."""
        if self.value is None:
            return None
        return self.value <= self.limit if self.bound == "at most" else self.value >= self.limit


@dataclass(frozen=True, slots=True)
class Goals:
    """Some numbers against their bounds."""

    title: str
    goals: Sequence[Goal]

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
            (goal.name, f"{goal.bound} {goal.limit:g} {goal.unit}", _shown(goal.value), verdicts[goal.met])
            for goal in self.goals
        )
        numbers = [asdict(goal) | {"met": goal.met} for goal in self.goals]
        return Listing(self.title, HEADER, rows, numbers)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
