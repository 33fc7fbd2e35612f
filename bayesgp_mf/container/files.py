"""Containers in files: with a digest of the whole behind the data, which is looked at before anything reads them.

HDF5 reads nothing behind the end that it states of itself, so that such a file is any reader's, ArviZ's too. A file
that was written without a digest is read by another process first.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from os import PathLike
from pathlib import Path

from bayesgp_mf.container.groups import Container, get_group, group_names, make_container
from bayesgp_mf.container.layout import common_attrs
from bayesgp_mf.container.netcdf import ENGINE, read, read_elsewhere
from bayesgp_mf.container.read import checked_groups, fit_group
from bayesgp_mf.errors import DamagedFileError
from bayesgp_mf.files import as_path, reserve, whole

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MARK = b"\nbayesgp_mf blake2b "
DIGEST_SIZE = 32
OF_A_VARIABLE = 8192
"""Bytes that a file has for each beside its values: some 3,500, and more where there are long names."""
TRAILER_SIZE = len(MARK) + 2 * DIGEST_SIZE


def save(idata: Container, path: str | PathLike[str]) -> Path:
    """Write a container to a netCDF file, which is there as a whole or not at all, with a digest for `load`.

    ArviZ's ``from_netcdf`` reads the file too.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` or `predict` returned, or ``to_container`` of a stream; a ``reference`` of `validate`, or what
        `prior_predictive` drew.
    path : str or path
        The file to write. An existing one is replaced once the new one is complete; missing folders are created.

    Returns
    -------
    pathlib.Path
        Where it was written.

    Raises
    ------
    ValueError
        If ``idata`` was not made by this package, or ``path`` is no name of a file.
    OSError
        If the file cannot be written, such as where the disk has no room for it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import bayesgp_mf as bgp
    >>> idata = bgp.fit([[0.0], [1.0]], [0, 1], bgp.kernels.Gaussian(), draws=5, random_seed=1)
    >>> with TemporaryDirectory() as folder:
    ...     again = bgp.load(bgp.save(idata, Path(folder) / "fit.nc"))
    >>> bool((again["posterior"]["f"] == idata["posterior"]["f"]).all())
    True
    """
    path = as_path("path", path)
    if path.is_dir():
        raise ValueError(f"path must be the file to write, and {str(path)!r} is a folder.")
    if not _has_no_fit(idata):
        fit_group(idata)
    with whole(path) as part:
        reserve(part, _most_bytes(idata))  # HDF5 may end the process where a disk is full
        idata.to_netcdf(str(part), engine=ENGINE)
        digest = _digest(part, part.stat().st_size)
        with part.open("ab") as file:
            file.write(MARK + digest)
    return path


def load(path: str | PathLike[str]) -> Container:
    """Return a container from a file, which is looked at first, in memory: the file is closed.

    Of a file of `save` every byte is checked before it is read. One of ``to_netcdf`` is first read by another process,
    which takes a second or two, and what `fit` found, the data and their names have checksums; draws have none.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    InferenceData or DataTree
        What was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DamagedFileError
        If it is no container of this package, or not what was written.
    MemoryError
        If it holds more than the memory of this machine.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import bayesgp_mf as bgp
    >>> idata = bgp.fit([[0.0], [1.0]], [0, 1], bgp.kernels.Gaussian(), draws=5, random_seed=1)
    >>> with TemporaryDirectory() as folder:
    ...     path = bgp.save(idata, Path(folder) / "fit.nc")
    ...     damaged = path.write_bytes(path.read_bytes()[:1000] + bytes(9) + path.read_bytes()[1009:])
    ...     try:
    ...         bgp.load(path)
    ...     except bgp.DamagedFileError as error:
    ...         print(str(error).partition(": ")[2])
    its digest is not that of what is in it. Load a fresh copy.
    """
    path = as_path("path", path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_file():
        raise ValueError(f"path must be the name of a file, and {path} is a folder, or no regular file.")
    is_whole = _has_right_digest(path)
    try:
        if not is_whole:
            read_elsewhere(path)
        groups = read(path)
        attrs = groups.pop("").attrs
        idata = make_container(groups)
        idata.attrs.update(attrs)
        if not _has_no_fit(idata):
            checked_groups(idata)
    except MemoryError:
        raise
    except Exception as error:  # whatever it makes its readers say
        raise _damaged(path, str(error)) from error
    return idata


def digest_of(path: Path) -> str:
    """Return the digest that a file of `save` ends in."""
    with path.open("rb") as file:
        file.seek(-2 * DIGEST_SIZE, os.SEEK_END)
        return file.read().decode()


def _has_no_fit(idata: Container) -> bool:
    """Tell whether all of a container is of this package, and none of it a fit: of a stream, a reference, a prior."""
    each = [get_group(idata, name).attrs for name in group_names(idata)] if hasattr(idata, "groups") else []
    ours = [attrs.get("inference_library") == common_attrs()["inference_library"] for attrs in each]
    return bool(each) and all(ours) and not any("bayesgp_mf_format" in attrs for attrs in each)


def _most_bytes(idata: Container) -> int:
    each = [values for name in group_names(idata) for values in get_group(idata, name).variables.values()]
    return sum(values.nbytes + OF_A_VARIABLE for values in each)


def _damaged(path: Path, why: str) -> DamagedFileError:
    return DamagedFileError(f"{path} is damaged, or no container of bayesgp_mf: {why.rstrip('.')}. Load a fresh copy.")


def _digest(path: Path, size: int) -> bytes:
    """Return the digest of the first bytes of a file, as text."""
    found, left = blake2b(digest_size=DIGEST_SIZE), size
    with path.open("rb") as file:
        while left:
            some = file.read(min(left, 2**20))
            found.update(some)
            left -= len(some)
    return found.hexdigest().encode()


def _has_right_digest(path: Path) -> bool:
    """Return whether a file has a digest, or raise a DamagedFileError if it is no netCDF file, or has a wrong one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(len(SIGNATURE))
        file.seek(max(0, size - TRAILER_SIZE))
        end = file.read()
    if begin != SIGNATURE:
        advice = ". A stream is loaded by bgp.streams.load" if begin.startswith(b"PK") else ""
        raise _damaged(path, f"it does not begin as a netCDF file does{advice}")
    if not end.startswith(MARK):
        return False
    if end != MARK + _digest(path, size - TRAILER_SIZE):
        raise _damaged(path, "its digest is not that of what is in it")
    return True
