"""One regenerated table or figure: lines of paper, ours and difference, with remarks and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.reporting.files import write_figure, write_json
from validation.reporting.text import aligned, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = ("Quantity", "Paper", "Ours", "Difference", "Note")


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
    times : mapping of str to float
        What differs from run to run, by what it is of: seconds, or ratios of them. They are printed, and written to a
        file of their own.
    """

    name: str
    title: str
    source: str
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...] = ()
    figures: tuple[tuple[str, Axes, str], ...] = ()
    times: Mapping[str, float] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the table as aligned text, with its title above and its remarks below."""
        rows = [HEADER, *(entry.cells() for entry in self.entries)]
        table = aligned([row[:-1] for row in rows], [row[-1] for row in rows])
        times = [f"{name}: {value:.3g}" for name, value in self.times.items()]
        return [self.title, "", *table, *wrapped(self.remarks), *(["", *times] if times else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON: all but the times."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "entries": [asdict(entry) | {"difference": entry.difference} for entry in self.entries],
            "remarks": list(self.remarks),
            "figures": [{"file": f"{stem}.png", "caption": caption} for stem, _, caption in self.figures],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write ``<name>.json``, one PNG for each figure, times if there are any, and return the paths."""
        times = [write_json(folder / f"{self.name}_times.json", dict(self.times))] if self.times else []
        images = [write_figure(folder / f"{stem}.png", ax) for stem, ax, _ in self.figures]
        return [write_json(folder / f"{self.name}.json", self.to_dict()), *images, *times]
