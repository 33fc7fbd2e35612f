"""How times grow with the number of cases: fitted slopes of log time against log n, and their figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.types import Array
from validation.benchmarks.listing import Listing
from validation.benchmarks.timing import Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FITTED = 3
"""The largest sizes, to which a slope is fitted."""
COLORS = ("#777777", "#1f5fa8", "#7aa6d6", "#c03a2b", "#e8a317", "#2a8c5a", "#7b4fa3", "#444444")
MARKERS = "osv^D<>p"


@dataclass(frozen=True, slots=True)
class Growth:
    """Medians of the same cases for several n.

    Attributes
    ----------
    title : str
        What was timed.
    tables : mapping of int to Benchmark
        By the number of cases.
    """

    title: str
    tables: Mapping[int, Benchmark]

    def series(self) -> dict[str, tuple[Array, Array]]:
        """Return sizes ``(k,)`` and seconds ``(k,)`` of each case, those that were timed at two sizes or more."""
        found: dict[str, list[tuple[int, float]]] = {}
        for n, table in sorted(self.tables.items()):
            for row in table.rows:
                found.setdefault(row.name, []).append((n, row.median))
        return {
            name: (np.array([n for n, _ in points], dtype=np.float64), np.array([second for _, second in points]))
            for name, points in found.items()
            if len(points) > 1
        }

    def lines(self) -> list[str]:
        """Return slopes as aligned text."""
        return self._listing().lines()

    def markdown(self) -> list[str]:
        """Return slopes in markdown."""
        return self._listing().markdown()

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        return self._listing().to_dict()

    def _listing(self) -> Listing:
        numbers = [
            {"name": name, "n": sizes.tolist(), "seconds": seconds.tolist(), "slope": slope(sizes, seconds)}
            for name, (sizes, seconds) in self.series().items()
        ]
        rows = tuple(
            (row["name"], f"{row['n'][-FITTED:][0]:.0f} .. {row['n'][-1]:.0f}", f"{row['slope']:.2f}")
            for row in numbers
        )
        remark = f"Slopes of log time against log n, by least squares on the {FITTED} largest sizes."
        return Listing(self.title, ("Case", "n", "Slope"), rows, numbers, (remark,))

    def draw(self) -> Axes:
        """Draw median times against n, both logarithmic, with the fitted lines."""
        from matplotlib.figure import Figure

        ax = Figure(figsize=(7.2, 4.6), layout="constrained").subplots()
        for (name, (sizes, seconds)), color, marker in zip(self.series().items(), COLORS, MARKERS, strict=False):
            power, last = slope(sizes, seconds), sizes[-FITTED:]
            middle = np.exp(np.mean(np.log(seconds[-FITTED:])) - power * np.mean(np.log(last)))
            ax.plot(sizes, seconds, marker, color=color, markersize=5, label=f"{name}: slope {power:.1f}", zorder=3)
            ax.plot(last, middle * last**power, color=color, linewidth=1.4, zorder=2)
        counts = sorted(self.tables)
        ax.set(xscale="log", yscale="log", xlabel="cases", ylabel="median time, s")
        ax.set_xticks(counts, [str(n) for n in counts])
        ax.minorticks_off()
        low, high = ax.get_ylim()
        if high < 100.0 * low:  # too few powers of ten to read it by
            ticks = [k * 10.0**p for p in range(-9, 9) for k in (1, 2, 5) if low <= k * 10.0**p <= high]
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.grid(color="#e2e2e2", linewidth=0.6)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.figure.legend(loc="outside right upper", frameon=False, fontsize=9)
        return ax


def slope(sizes: Array, seconds: Array) -> float:
    """Return the slope of log time ``(k,)`` against log n, fitted to the largest sizes."""
    return float(np.polyfit(np.log(sizes[-FITTED:]), np.log(seconds[-FITTED:]), 1)[0])
