"""Writing what a job made: its page, its numbers, its figures, its containers.

Each is written beside its place and renamed when it is whole: a job that is killed, or a disk that is full, leaves the
file as it was, or none. Folders are made where they are missing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayesgp_mf.files import whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayesgp_mf.container.groups import Container


def write_text(path: Path, text: str) -> Path:
    """Write text, and return where."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def write_json(path: Path, numbers: Any) -> Path:
    """Write what JSON can hold, all numbers finite, and return where."""
    return write_text(path, json.dumps(numbers, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_figure(path: Path, ax: Axes) -> Path:
    """Write the figure that axes are in, all axes of it, and return where."""
    with whole(path) as part:
        cast("Figure", ax.figure).savefig(part, dpi=150, format=path.suffix[1:])
    return path


def write_netcdf(path: Path, data: Container | xr.Dataset, **options: Any) -> Path:
    """Write a container or a data set, and return where."""
    with whole(path) as part:
        data.to_netcdf(str(part), engine="h5netcdf", **options)
    return path


def plain(value: Any) -> Any:
    """Return a nested value with arrays as lists and what is not finite as None, as JSON wants it."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case np.ndarray() | np.generic():
            return plain(np.asarray(value).tolist())
        case float() if not math.isfinite(value):
            return None
    return value
