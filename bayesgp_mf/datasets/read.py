"""Bundled CSV files as columns of text, and columns of text as arrays."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from bayesgp_mf.types import Array


def read_columns(file: str) -> dict[str, list[str]]:
    """Read a CSV file of ``bayesgp_mf/datasets/data`` (a header line, then rows) into its columns, as text."""
    text = files("bayesgp_mf.datasets").joinpath("data", file).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def input_matrix(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> Array:
    """Put the named columns of `read_columns` side by side as numbers, in the order of the names."""
    return np.column_stack([np.array(columns[name], dtype=np.float64) for name in names])
