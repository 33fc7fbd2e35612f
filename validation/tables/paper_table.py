"""One regenerated table or figure: lines of paper, ours and difference, with remarks and figures."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADER = ("Quantity", "Paper", "Ours", "Difference", "Note")
WIDTH = 120
"""Columns of printed remarks."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: a published number, ours, and why they differ if they do.

    Attributes
    ----------
    quantity : str
        Such as "TAP, Gaussian kernel: test error".
    paper : float or None
        The published number; None where the paper gives none.
    ours : float
        What this package gives.
    note : str
        Why it differs, when it does.

    Raises
    ------
    ValueError
        If a number is not finite.
    """

    quantity: str
    paper: float | None
    ours: float
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("paper", "ours"):
            value = getattr(self, name)
            if value is None and name == "paper":
                continue
            if not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value} for {self.quantity!r}.")
            object.__setattr__(self, name, float(value))  # NumPy's integers are no JSON

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, or None where the paper has no number."""
        return None if self.paper is None else self.ours - self.paper

    def cells(self) -> tuple[str, ...]:
        """Return the line as text, one cell for each word of `HEADER`."""
        paper = "" if self.paper is None else f"{self.paper:.10g}"
        difference = "" if self.difference is None else self._shown(self.difference, "+")
        return self.quantity, paper, self._shown(self.ours), difference, self.note

    def _shown(self, value: float, sign: str = "") -> str:
        """Whole numbers without decimals, others with as many as the size of ours asks for."""
        if value == 0:
            return "0"
        if self.ours.is_integer() and (self.paper is None or self.paper.is_integer()):
            return f"{value:{sign}.0f}"
        if abs(self.ours) < 1e-3 and self.ours != 0:
            return f"{value:{sign}.2g}"
        return f"{value:{sign}.{4 if abs(self.ours) < 10 else 2}f}"


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table or figure of a paper, regenerated.

    Attributes
    ----------
    name : str
        Stem of its files, and the name of its script.
    title : str
        What it shows, and of which paper.
    source : str
        Where it stands, such as "2000, table 1".
    entries : tuple of Entry
        Its lines.
    remarks : tuple of str
        Paragraphs: the set-up, and what falls short and why.
    figures : tuple of (str, Axes, str)
        Stem of the file, axes, caption. All axes of a figure are drawn: name one of them.
    """

    name: str
    title: str
    source: str
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...] = ()
    figures: tuple[tuple[str, Axes, str], ...] = ()

    def lines(self) -> list[str]:
        """Return the table as aligned text, with its title above and its remarks below."""
        rows = [HEADER, *(entry.cells() for entry in self.entries)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER) - 1)]
        aligned = [
            "  ".join([row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in (1, 2, 3)), row[4]]).rstrip()
            for row in rows
        ]
        remarks = [line for remark in self.remarks for line in ("", *textwrap.wrap(remark, WIDTH))]
        return [self.title, "", *aligned, *remarks]

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "entries": [
                {
                    "quantity": entry.quantity,
                    "paper": entry.paper,
                    "ours": entry.ours,
                    "difference": entry.difference,
                    "note": entry.note,
                }
                for entry in self.entries
            ],
            "remarks": list(self.remarks),
            "figures": [{"file": f"{stem}.png", "caption": caption} for stem, _, caption in self.figures],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.json`` and one PNG for each figure, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        numbers = folder / f"{self.name}.json"
        numbers.write_text(
            json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        images = []
        for stem, ax, _ in self.figures:
            images.append(folder / f"{stem}.png")
            cast("Figure", ax.figure).savefig(images[-1], dpi=150)
        return [numbers, *images]
