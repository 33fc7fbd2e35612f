"""Writing what a job made: its page, its numbers, its figures, its containers.

Each is written beside its place and renamed when it is whole: a job that is killed, or a disk that is full, leaves the
file as it was, or none. Folders are made where they are missing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayesgp_mf.container.groups import Container


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name in the same folder to write to, and rename that file to ``path`` when all of it is on the disk.

    If anything goes wrong it is removed, and what was at ``path`` stays. Only a killed process leaves one behind, under
    a name that begins with a dot and ends in the number of the process and "part".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # which no one takes for a page or a container
    try:
        yield part
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:  # Ctrl-C too
        part.unlink(missing_ok=True)
        error.add_note(f"{path} was not written; what was there before is still there.")
        raise


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
