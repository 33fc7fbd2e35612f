"""A study: numbers against stated tolerances, what they mean in words, and a figure."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.checks import Check
from validation.compare import plain
from validation.tables.record import WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Study:
    """What a study found.

    Attributes
    ----------
    name, title : str
        Stem of its files; what it asks.
    checks : tuple of Check
        Numbers with their tolerances.
    numbers : dict
        What else was measured, by name: plain numbers, text, lists and dictionaries.
    remarks : tuple of str
        Paragraphs: the set-up, and what falls short.
    figure : matplotlib.figure.Figure
        The picture.
    """

    name: str
    title: str
    checks: tuple[Check, ...]
    numbers: dict[str, Any]
    remarks: tuple[str, ...]
    figure: Figure

    def lines(self) -> list[str]:
        """Return the checks as aligned text, with the title above and the remarks below."""
        width = max(len(check.name) for check in self.checks)
        rows = [
            f"{check.name:{width}}  {check.shown:>9} {check.bound} {check.tolerance:g} {check.unit:10} {check.verdict}"
            for check in self.checks
        ]
        remarks = [line for remark in self.remarks for line in ("", *textwrap.wrap(remark, WIDTH))]
        return [self.title, "", *rows, *remarks]

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        checks = [asdict(check) | {"verdict": check.verdict} for check in self.checks]
        result: dict[str, Any] = plain(
            {
                "name": self.name,
                "title": self.title,
                "passed": all(check.passed for check in self.checks),
                "checks": checks,
                "numbers": self.numbers,
                "remarks": self.remarks,
            }
        )
        return result

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.json`` and ``<name>.png``, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        numbers, image = folder / f"{self.name}.json", folder / f"{self.name}.png"
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        numbers.write_text(text + "\n", encoding="utf-8")
        self.figure.savefig(image, dpi=150)
        return [numbers, image]
