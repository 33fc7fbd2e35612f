"""Groups of netCDF files, read here, or first in another process: damage may crash a reader, or it comes to no end.

That process imports little, and has limits of memory and time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import xarray as xr

from bayesgp_mf.matrices.memory import available_bytes, mapped_bytes

ENGINE: Literal["h5netcdf"] = "h5netcdf"
"""Which both generations of ArviZ have."""
LARGEST_RATIO = 1032
"""Bytes that the compression of HDF5 can make of one."""
SECONDS, BYTES_A_SECOND, PATIENCE = 5.0, 1e7, 10.0
"""What reading may take of a processor, at least, and for so many bytes besides; of a clock, so many times as long."""
SPARE_BYTES = 2**30
"""Memory beside the arrays, of the process that reads first."""
TOO_LARGE = 3
"""Exit status of that process where the arrays do not fit into memory."""


def _check_memory(needed: int) -> None:
    if needed > available_bytes():
        raise MemoryError(f"this container holds {needed} bytes, more than the memory of this machine.")


def read(path: Path, check: Callable[[int], None] = _check_memory) -> dict[str, xr.Dataset]:
    """Return all groups of a netCDF file by name, in memory, the one at the root as "".

    ``check`` is called with the bytes of their arrays before these are read. There is a ValueError if they are more
    than there can be in a file of this size.
    """
    opened, size = xr.open_groups(path, engine=ENGINE), path.stat().st_size
    try:
        needed = sum(dataset.nbytes for dataset in opened.values())
        if needed > LARGEST_RATIO * size:
            raise ValueError(f"it states {needed} bytes of arrays, and has {size}")
        check(needed)
        return {name.strip("/"): dataset.load() for name, dataset in opened.items()}
    finally:
        for dataset in opened.values():
            dataset.close()


def read_elsewhere(path: Path) -> None:
    """Read a file in another process, and raise a ValueError if that goes wrong or comes to no end."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from bayesgp_mf.container.netcdf import read_first; "
        f"read_first({str(path)!r})"
    )
    seconds = PATIENCE * (SECONDS + LARGEST_RATIO * path.stat().st_size / BYTES_A_SECOND)
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"nothing could read it in {seconds:.0f} s") from error
    if done.returncode == TOO_LARGE:
        _check_memory(int(done.stdout))
    if done.returncode:
        message = done.stdout.decode(errors="replace").strip()
        raise ValueError(message or "what reads netCDF files crashed, or came to no end")


def read_first(path: str) -> None:
    """Read a file in a process of its own, which prints what is wrong with it, and says so by its exit status."""
    available = available_bytes()  # before there are limits

    def check(needed: int) -> None:
        if needed > available:
            print(needed)
            sys.exit(TOO_LARGE)
        _limit_this_process(needed)

    _limit_this_process(Path(path).stat().st_size)
    try:
        read(Path(path), check)
    except Exception as error:
        print(f"{type(error).__name__}, {error}")
        sys.exit(1)


def _limit_this_process(size: int) -> None:
    """Limit processor time and memory to what it takes to read so many bytes."""
    with suppress(ImportError, OSError, ValueError):  # as on Windows, or beyond a limit that there is
        import resource

        seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime + SECONDS + size / BYTES_A_SECOND
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), resource.RLIM_INFINITY))
        mapped = mapped_bytes()
        if mapped:
            resource.setrlimit(resource.RLIMIT_AS, (mapped + 3 * size + SPARE_BYTES, resource.RLIM_INFINITY))
