"""Numbers against their bounds: the verdict on one, and on all of them in a line, a sentence and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

if TYPE_CHECKING:
    from bayesgp_mf.reports.page import Table

HEADER = ("Check", "Verdict", "Value", "Tolerance", "Unit")


@dataclass(frozen=True, slots=True)
class Check:
    """One number against its bound; anything that is not a number fails.

    Attributes
    ----------
    name : str
        What is bounded.
    value : float or None
        The number; None where it could not be measured.
    bound : {"at most", "at least"}
        To which side it may go.
    tolerance : float
        How far.
    unit : str
        Of both.
    """

    name: str
    value: float | None
    bound: Literal["at most", "at least"]
    tolerance: float
    unit: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the number keeps its bound; None without a number."""
        if self.value is None:
            return None
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

    @property
    def line(self) -> str:
        """The verdict, the number and its bound."""
        bound = f"{self.allowed} {self.unit}".rstrip()
        return f"  {self.verdict}  {self.name}: {self.shown} ({bound})"

    def to_dict(self) -> dict[str, Any]:
        """Return the number, its bound and the verdict."""
        return asdict(self) | {"verdict": self.verdict}


def at_most(name: str, value: SupportsFloat | None, tolerance: float, unit: str = "") -> Check:
    """Return the check of a number that may not be larger."""
    return Check(name, None if value is None else float(value), "at most", float(tolerance), unit)


def at_least(name: str, value: SupportsFloat | None, tolerance: float, unit: str = "") -> Check:
    """Return the check of a number that may not be smaller."""
    return Check(name, None if value is None else float(value), "at least", float(tolerance), unit)


def passed(checks: Sequence[Check]) -> bool:
    """Return whether all numbers keep their bounds."""
    return all(check.passed for check in checks)


def verdict(checks: Sequence[Check]) -> str:
    """Return PASS or FAIL for all of them."""
    return "PASS" if passed(checks) else "FAIL"


def count(checks: Sequence[Check]) -> str:
    """Return a sentence on how many passed, which names those that failed."""
    if passed(checks):
        return f"All {len(checks)} checks passed."
    failed = [check.name for check in checks if not check.passed]
    return f"{len(failed)} of {len(checks)} checks failed: {'; '.join(failed)}."


def verdict_table(checks: Sequence[Check], more: str = "") -> Table:
    """Return all checks and their verdicts; ``more`` ends the caption."""
    from bayesgp_mf.reports.page import Table  # here: processes that do tasks import no pages, which takes seconds

    rows = [(check.name, check.verdict, check.shown, check.allowed, check.unit) for check in checks]
    return Table(f"Every number that has a tolerance, and the verdict on it.{more}", HEADER, rows)
