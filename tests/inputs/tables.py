"""One small table in every kind of frame there is, with labels of its rows where the kind has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import xarray as xr

RNG = np.random.default_rng(1)
N = 16
ROWS = [f"woman {k}" for k in range(N)]
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, N).round(1),
        "visits": RNG.integers(0, 9, N),
        "site": RNG.choice(["north", "south", "west"], N),
        "treated": RNG.random(N) < 0.5,
    },
    index=ROWS,
)
LABELS = pd.Series(np.where(TABLE["age"] + 10.0 * RNG.standard_normal(N) > 50.0, "well", "ill"), ROWS, name="state")
NUMBERS = TABLE[["age", "visits"]].astype(float)


def to_xarray(table: Any) -> Any:
    """Return a frame as a Dataset, and a series as a DataArray, along the dimension ``woman``."""
    if isinstance(table, pd.DataFrame):
        return xr.Dataset({name: ("woman", table[name].to_numpy()) for name in table}, {"woman": table.index})
    return xr.DataArray(table.to_numpy(), {"woman": table.index}, ("woman",))


def to_pyarrow(table: Any) -> Any:
    return pa.Table.from_pandas(table) if isinstance(table, pd.DataFrame) else pa.array(table)


KINDS: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "pyarrow": to_pyarrow,
    "xarray": to_xarray,
}
"""How a table, or a column, of pandas becomes one of each kind."""
