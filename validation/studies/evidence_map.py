"""Which evidence to tune by? Four approximations against the exact log evidence over a grid of hyperparameters.

The comparison of Kuss and Rasmussen [1]_, who had Monte Carlo estimates of the evidence of some hundred cases; here the
truth is integrated by minimax tilting, cell by cell, with its standard error.

References
----------
.. [1] Kuss, M., & Rasmussen, C. E. (2005). Assessing approximate inference for binary Gaussian process classification.
   Journal of Machine Learning Research 6, 1679-1704.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST
from validation.studies.study import Findings, Study, Task
from validation.tables.selection import Split

LOG_LENGTHSCALES = tuple(np.linspace(0.5, 5.0, 7).tolist())
"""Logarithms of length scales; inputs have variance 1."""
LOG_AMPLITUDES = tuple(np.linspace(0.0, 4.5, 7).tolist())
"""Logarithms of the prior standard deviation of f, in units of that of the probit's noise."""
NAMES = {"tap": "TAP", "laplace": "Laplace", "variational": "variational", "naive": "naive"}
SIZES = {"sonar": 80, "toy": 80}
TOY_INPUTS = 34
"""As many as the ionosphere data has, one of the sets of Kuss and Rasmussen."""
MISSING = 0.02
"""Above this standard error, in nats, a cell has no exact evidence."""
EVIDENCE = 0.3
"""Tolerance of the log evidence, in nats, anywhere on the grid."""
LOST = 0.05
"""Tolerance of the exact log evidence that is lost where the approximate one is highest, in nats."""
LEAST_SHOWN = 1e-3
"""Differences below this, in nats, have one colour."""


def cases(data: str, n: int) -> tuple[Array, Array]:
    """Return inputs ``(n, d)`` and labels ``(n,)``: a random choice of sonar's training cases, or draws of a model."""
    if data == "sonar":
        split = Split.of(bgp.datasets.load_sonar())
        chosen = np.random.default_rng(1).permutation(split.t.size)[:n]
        return split.X[chosen], split.t[chosen]
    kernel = bgp.kernels.Gaussian(lengthscale=12.0, variance=20.0)
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(1.0), n=n, n_test=0, d=TOY_INPUTS, random_seed=1)
    return toy.X, 2.0 * toy.y - 1.0


def kernel_at(log_lengthscale: float, log_amplitude: float) -> Kernel:
    """Return the kernel of a cell."""
    return bgp.kernels.Gaussian(lengthscale=np.exp(log_lengthscale), variance=np.exp(2.0 * log_amplitude))


def column(
    data: str, n: int, log_lengthscale: float, log_amplitudes: Sequence[float], log2_points: int = 13
) -> dict[str, list[float]]:
    """Return the log evidences of one length scale, in nats.

    Returns
    -------
    dict
        For each amplitude the ``exact`` log evidence and its standard ``error``, and that of each method by its name.
    """
    X, t = cases(data, n)
    exact = Exact(log2_points=log2_points, most_scrambles=12)
    found: dict[str, list[float]] = {name: [] for name in ("exact", "error", *NAMES)}
    for log_amplitude in log_amplitudes:
        gram = kernel_at(log_lengthscale, log_amplitude).gram(X)
        # the error is judged in the conclusion, where a cell may be left out
        truth = exact.solve(bgp.Problem(gram, t, bgp.Probit(1.0)), bgp.Control(throw=False)).evidence
        found["exact"].append(truth.value)
        found["error"].append(truth.standard_error)
        for method in NAMES:
            found[method].append(_evidence(gram, t, method))
    return found


def _evidence(gram: Array, t: Array, method: str) -> float:
    """Solve by a method; the variational one in the form of the model in which its bound is tight."""
    if method == "variational":
        return bgp.solve(gram + np.eye(t.size), t, bgp.Step(), method=method).evidence.value
    return bgp.solve(gram, t, bgp.Probit(1.0), method=method).evidence.value


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """One data set on the grid; rows are length scales, columns amplitudes, cells without a truth are masked.

    Attributes
    ----------
    exact, error : (7, 7) masked array
        Log evidence and its standard error, in nats.
    difference : dict of (7, 7) masked array
        By method: its log evidence less the exact one, in nats.
    """

    exact: Any
    error: Any
    difference: Mapping[str, Any]

    def peak(self, method: str | None = None) -> tuple[int, int]:
        """Return the cell where the log evidence of a method is highest, or the exact one, among those with a truth."""
        values = self.exact if method is None else self.exact + self.difference[method]
        row, column = np.unravel_index(int(np.ma.argmax(values)), values.shape)
        return int(row), int(column)

    def lost(self, method: str) -> float:
        """Return by how much the exact log evidence is lower where the method's is highest, in nats."""
        return float(self.exact[self.peak()] - self.exact[self.peak(method)])

    def largest(self, method: str) -> float:
        """Return the largest absolute difference, in nats."""
        return float(np.ma.max(np.abs(self.difference[method])))

    def excess(self, method: str) -> float:
        """Return the largest difference less four standard errors: above zero the method is no lower bound."""
        return float(np.ma.max(self.difference[method] - 4.0 * self.error))

    @property
    def missing(self) -> list[tuple[float, float]]:
        """Log length scale and log amplitude of the cells without a truth."""
        return [(LOG_LENGTHSCALES[i], LOG_AMPLITUDES[j]) for i, j in np.argwhere(np.ma.getmaskarray(self.exact))]


def map_of(results: Mapping[str, Any], data: str) -> Map:
    """Return the map of a data set from the results of its tasks."""
    columns = [results[_name(data, log_lengthscale)] for log_lengthscale in LOG_LENGTHSCALES]
    values = {key: np.array([found[key] for found in columns]) for key in ("exact", "error", *NAMES)}
    refused = values["error"] > MISSING
    if refused.all():
        raise ArithmeticError(f"{data}: no cell of the grid has an exact evidence with an error below {MISSING} nats.")
    masked = {key: np.ma.array(value, mask=refused) for key, value in values.items()}
    return Map(masked["exact"], masked["error"], {method: masked[method] - masked["exact"] for method in NAMES})


def checks_of(maps: Mapping[str, Map]) -> tuple[Check, ...]:
    """Hold TAP and the variational bound against the exact evidence, with Laplace as a control that must fail."""
    checks = []
    for data, found in maps.items():
        checks += [
            at_most(f"{data}: TAP, largest difference", found.largest("tap"), EVIDENCE, "nats"),
            at_most(f"{data}: exact log evidence lost at TAP's maximum", found.lost("tap"), LOST, "nats"),
            at_most(f"{data}: variational less exact, less 4 errors", found.excess("variational"), 0, "nats"),
            at_most(f"{data}: cells without an exact evidence", len(found.missing), 4, "cells"),
        ]
    control = min(found.largest("laplace") for found in maps.values())
    return (*checks, at_least("Control: Laplace, largest difference", control, EVIDENCE, "nats"))


def conclude(results: Mapping[str, Any]) -> Findings:
    """Say where each evidence is off, and by how much."""
    maps = {data: map_of(results, data) for data in SIZES}
    return Findings(
        checks_of(maps),
        (
            f"Probit likelihood, Gaussian kernel with one length scale; {SIZES['sonar']} training cases of sonar drawn "
            f"once, and {SIZES['toy']} toy cases of {TOY_INPUTS} inputs whose labels were drawn from the model (log "
            "length scale 2.5, log amplitude 1.5). For the variational method the noise of the probit stands in the "
            "kernel, which is the same model and a much tighter bound.",
            f"The largest standard error of the exact log evidence is "
            f"{max(float(np.ma.max(found.error)) for found in maps.values()):.4f} nats. A cell is left out where it "
            f"exceeds {MISSING} nats: {_missing(maps)}.",
            Table(
                "Log evidence less the exact one, in nats: over all cells, and at the exact maximum. Then where the "
                "method's own maximum lies, and how much exact log evidence is lost there.",
                ("", "Lowest", "Highest", "At the exact maximum", "Maximum: log length scale, log amplitude", "Lost"),
                [row for data, found in maps.items() for row in _rows(data, found)],
            ),
            Figures([(_figure(found), _caption(data)) for data, found in maps.items()]),
        ),
    )


def _missing(maps: Mapping[str, Map]) -> str:
    cells = [f"{data} at ({x:.2f}, {y:.2f})" for data, found in maps.items() for x, y in found.missing]
    return ", ".join(cells) or "none"


def _rows(data: str, found: Map) -> list[tuple[str, ...]]:
    top = found.peak()
    rows = [(f"{data}, exact", "", "", f"{found.exact[top]:.2f} in all", _place(top), "")]
    for method, noun in NAMES.items():
        off = found.difference[method]
        rows.append(
            (
                f"{data}, {noun}",
                f"{np.ma.min(off):+.3f}",
                f"{np.ma.max(off):+.3f}",
                f"{off[top]:+.3f}",
                _place(found.peak(method)),
                f"{found.lost(method):.3f}",
            )
        )
    return rows


def _place(cell: tuple[int, int]) -> str:
    return f"{LOG_LENGTHSCALES[cell[0]]:.2f}, {LOG_AMPLITUDES[cell[1]]:.2f}"


def _caption(data: str) -> str:
    return (
        f"Log evidence of {SIZES[data]} cases of {data}, and what the approximations make of it: their value less the "
        "exact one in each cell, in nats. Grey cells, where there are any, have no exact value."
    )


def _figure(found: Map) -> Any:
    """Draw the exact log evidence, and the differences of all methods with one scale of colours."""
    figure = Figure(figsize=(6.4, 8.0), layout="constrained")
    panels = figure.subplots(3, 2, sharex=True, sharey=True)
    figure.supxlabel("log length scale (input standard deviations)", fontsize=9)
    figure.supylabel("log amplitude (standard deviations of the noise)", fontsize=9)
    exact, *others, scale = panels.flat
    _panel(exact, found.exact, None, "exact log evidence (nats)", "viridis")
    norm = LogNorm(LEAST_SHOWN, max(found.largest(method) for method in NAMES), clip=True)
    for ax, (method, noun) in zip(others, NAMES.items(), strict=True):
        image = _panel(ax, found.difference[method], norm, f"{noun} less exact (nats)", "YlOrBr")
        _mark(ax, found.peak(method), "o")
    for ax in (exact, *others):
        _mark(ax, found.peak(), "s")
    scale.axis("off")
    bar = figure.colorbar(image, cax=scale.inset_axes([0.05, 0.7, 0.9, 0.08]), orientation="horizontal")
    bar.set_label("absolute difference (nats)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.ax.axvline(EVIDENCE, color=FIRST, linewidth=1.5)
    note = f"line: the tolerance of TAP, {EVIDENCE:g} nats\nsquare: the exact maximum\ncircle: the method's maximum"
    scale.text(0.05, 0.38, note, color=FIRST, fontsize=8, va="top", linespacing=1.5, transform=scale.transAxes)
    return exact


def _panel(ax: Any, values: Any, norm: Any, title: str, colors: str) -> Any:
    shades = values if norm is None else np.abs(values)
    image = ax.pcolormesh(LOG_LENGTHSCALES, LOG_AMPLITUDES, shades.T, norm=norm, cmap=colors)
    ax.set_facecolor("#bbbbbb")
    ax.set_title(title, loc="left", fontsize=9)
    ax.tick_params(labelsize=7)
    for i, j in np.argwhere(~np.ma.getmaskarray(values)):
        light = float(np.dot(image.cmap(image.norm(shades[i, j]))[:3], (0.299, 0.587, 0.114)))
        place = (LOG_LENGTHSCALES[i], LOG_AMPLITUDES[j])
        ax.text(*place, _short(values[i, j]), ha="center", va="center", fontsize=6, color="k" if light > 0.5 else "w")
    return image


def _short(value: float) -> str:
    """Return a number of nats in at most five characters, to a hundredth."""
    places = 0 if abs(value) >= 9.95 else 1 if abs(value) >= 0.995 else 2
    text = f"{value:.{places}f}"
    return "0" if float(text) == 0.0 else text


def _mark(ax: Any, cell: tuple[int, int], marker: str) -> None:
    place = ([LOG_LENGTHSCALES[cell[0]]], [LOG_AMPLITUDES[cell[1]]])
    ax.plot(*place, marker, color=FIRST, markersize=19, markerfacecolor="none", markeredgewidth=1.5)


def _name(data: str, log_lengthscale: float) -> str:
    return f"{data}, log length scale {log_lengthscale:.2f}"


STUDY = Study(
    "evidence_map",
    "Four log evidences over a grid of hyperparameters",
    [
        Task(
            _name(data, log_lengthscale),
            column,
            {"data": data, "n": n, "log_lengthscale": log_lengthscale, "log_amplitudes": LOG_AMPLITUDES},
            cost=1e8 * n,
        )
        for data, n in SIZES.items()
        for log_lengthscale in LOG_LENGTHSCALES
    ],
    conclude,
)
