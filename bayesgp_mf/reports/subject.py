"""What a page is about: a fit with its cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.container.parts import is_in_parts
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.reports.page import Block, Figures


@dataclass(frozen=True, eq=False)
class Subject:
    """A fit with its cases.

    Attributes
    ----------
    idata : InferenceData or DataTree
        The fit.
    held : dict
        ``kernel``, ``likelihood`` and ``method``, as for `predict`.
    first : Fitted
        The model with its cases.
    """

    idata: Container
    given: dict[str, Any]
    first: Fitted

    @property
    def fit(self) -> xr.Dataset:
        """The group ``fit``."""
        return fit_group(self.idata)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels or the levels; empty of other numbers."""
        return tuple(json.loads(self.fit.attrs["class_names"]))

    @property
    def y(self) -> NDArray[Any] | None:
        """Targets as in ``observed_data``; None of a table in parts."""
        return None if is_in_parts(self.fit) else get_group(self.idata, "observed_data")["y"].values

    @property
    def n(self) -> int:
        """How many cases there are."""
        return int(self.fit.attrs["n_cases"]) if self.y is None else len(self.y)

    @property
    def has_predictions(self) -> bool:
        """Whether new cases were predicted."""
        return "predictions" in group_names(self.idata)

    @property
    def target(self) -> str:
        """What a target is."""
        kind = self.first.likelihood.targets
        if self.classes and kind == "real":
            return f"one of {len(self.classes)} ordered levels"
        if self.classes:
            return f"one of {len(self.classes)} classes"
        return "a count of successes" if self.first.is_share else "a count" if self.first.is_rate else "a number"


def subject(idata: Container, given: dict[str, Any]) -> Subject:
    """Return what a page about a fit is about, or raise the ValueError of `predict` if it is none."""
    fit_group(idata)  # which raises if it is none
    return Subject(idata, given, fitted(idata, **given))


def or_words(*makes: Callable[[], Block | Sequence[Block]]) -> list[Block]:
    """Return what functions make, and in place of what a fit does not have the sentence that says so, once."""
    blocks: list[Block] = []
    for make in makes:
        try:
            made = make()
        except ValueError as error:  # how diagnostics and figures refuse a fit
            made = f"Not shown: {error}"
        blocks.extend([made] if isinstance(made, str) or not isinstance(made, Sequence) else made)
    return _together(blocks)


def _together(blocks: Iterable[Block]) -> list[Block]:
    """Return blocks, each sentence once, and figures that follow each other side by side."""
    kept: list[Block] = []
    for block in blocks:
        last = kept[-1] if kept else None
        if isinstance(block, Figures) and isinstance(last, Figures):
            kept[-1] = Figures([*last.figures, *block.figures])
        elif not (isinstance(block, str) and block in kept):
            kept.append(block)
    return kept


def number(value: Any) -> str:
    """Return a number with four digits, and a dash where there is none."""
    return f"{float(value):.4g}" if np.isfinite(value) else "\N{EN DASH}"
