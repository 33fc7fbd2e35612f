"""Bundled CSV files as columns of text, and columns of text as arrays."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from bayesgp_mf.types import Array


def read_columns(file: str) -> dict[str, list[str]]:
    """Read a bundled CSV file (a header line, then rows) into its columns, as text.

    Parameters
    ----------
    file : str
        Name of the file in ``bayesgp_mf/datasets/data``.

    Returns
    -------
    dict of str to list of str
        The columns by name, in file order.
    """
    text = files("bayesgp_mf.datasets").joinpath("data", file).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def input_matrix(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> Array:
    """Put the named columns side by side as numbers.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        What :func:`read_columns` returns, ``n`` cells a column.
    names : sequence of str, length d
        The columns to take, in the order wanted.

    Returns
    -------
    (n, d) float64 array
        The parsed cells.
    """
    return np.column_stack([np.array(columns[name], dtype=np.float64) for name in names])
