"""Streams in files: numbers as they are, and a description in plain words; no code is ever read from one.

A stream as the numbers and the plain words of a file, and back. Nothing in a file is compressed: before an array is
made, what the file says of its sizes is compared with its own size.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.container import stored
from bayesgp_mf.errors import DamagedFileError
from bayesgp_mf.files import whole
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.memory import available_bytes
from bayesgp_mf.streams.arguments import plain
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.learning import Learner, LogScore, StreamState, check_state, rows_of, values_of

FORMAT = 1
"""Changes when a file of today could not be read."""
HEADER, CHECKSUM, VALUES = "header", "checksum", "values"
OF_FACTOR = ("points", "root", "precision", "shift")
"""Names of the arrays of what the past says."""
ARRAYS = (*OF_FACTOR, "X", "t", "log_score", "n_cases", "by_case", "other_limit")
"""Names of all arrays; the last two are there only in some files."""
OPTIONS = ("budget", "hyper", "first", "reservoir", "forget", "batch")
"""Of those of `Stream`, by name."""


class Saved(NamedTuple):
    """What a file holds."""

    arrays: dict[str, NDArray[Any]]
    settings: dict[str, Any]
    kernel: Kernel
    likelihood: Likelihood
    control: Control


def write(
    path: Path,
    state: StreamState,
    learner: Learner,
    score: LogScore,
    features: list[str] | None,
    classes: tuple[Any, ...] | None,
) -> None:
    """Write a stream, as a whole or not at all."""
    check_writable(path)
    kernel, likelihood = stored.describe_kernel(state.kernel), stored.describe_likelihood(learner.likelihood)
    if "program" in kernel:  # of which a description has the names of the parameters alone
        kernel[VALUES] = {name: np.asarray(value).tolist() for name, value in state.kernel.params.items()}
    arrays = {
        **{name: getattr(state.factor, name) for name in OF_FACTOR},
        "X": state.X,
        "t": state.t,
        "log_score": score.batches,
        "n_cases": score.cases,
        **({} if state.is_plain else {"by_case": state.rows[:, 1:3]}),
        **({} if np.isnan(state.rows[:, 3]).all() else {"other_limit": state.rows[:, 3]}),
    }
    settings = {
        **{name: getattr(learner, name) for name in (*OPTIONS, "entropy")},
        "classes": None if classes is None else [plain(label) for label in classes],
        "features": features,
        "n_seen": state.n_seen,
        "is_tuned": state.is_tuned,
        "independent": state.independent,
        **({"has_offset": True} if state.has_offset else {}),
        **({"by_default": True} if learner.by_default else {}),
    }
    header = json.dumps(
        {
            "format": FORMAT,
            "settings": settings,
            "kernel": kernel,
            "likelihood": likelihood,
            "control": asdict(learner.control),
        },
        default=lambda number: number.item(),  # of NumPy
    )
    with whole(path) as part, part.open("wb") as file:
        np.savez(file, **{HEADER: np.array(header), CHECKSUM: np.array(_checksum(header, arrays))}, **arrays)  # type: ignore[arg-type]


def check_writable(path: Path) -> None:
    """Raise if a file could not be written there, as far as that is known before."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to.")


def read(path: Path, kernel: Any = None, likelihood: Likelihood | None = None) -> Saved:
    """Return what a file holds, with a kernel or likelihood that is a program and was given, or raise an error.

    Raises
    ------
    DamagedFileError
        If it is no file of a stream, or not what was written.
    ValueError
        If a kernel or likelihood is missing, not wanted, or another one.
    MemoryError
        If it holds more than the memory of this machine.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    with path.open("rb") as opened:
        try:
            with zipfile.ZipFile(opened) as archive:
                members = _members(archive, path.stat().st_size)
                found = {name: _member(archive, info) for name, info in members.items()}
            header, checksum = str(found.pop(HEADER)), str(found.pop(CHECKSUM))
            described = json.loads(header)
            version = described["format"]
        except MemoryError:
            raise
        except Exception as error:  # whatever a damaged archive makes its readers say
            raise DamagedFileError(f"{path} is no file of Stream.save, or damaged: {error}.") from error
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r}, and this version reads format {FORMAT}.")
    if checksum != _checksum(header, found):
        raise DamagedFileError(f"{path} is damaged, or was changed: its checksum does not match what is in it.")
    try:
        settings, stated = described["settings"], (described["kernel"], described["likelihood"])
        values = stated[0].pop(VALUES, {})
        names, classes, control = settings["features"], settings["classes"], Control(**described["control"])
    except stored.WRONG as error:
        raise DamagedFileError(f"{path} is no file of Stream.save, or damaged: {error}.") from error
    if likelihood is not None:
        check_likelihood(likelihood)
        likelihood = likelihood if classes is None else likelihood.with_classes(tuple(classes))
    try:
        kernel = stored.stated_kernel(stated[0], lambda name: values[name], kernel, names)
        likelihood = stored.stated_likelihood(stated[1], likelihood)
    except DamagedFileError as error:
        raise DamagedFileError(f"{path} is no file of Stream.save, or damaged: {error.__cause__}") from error
    return Saved(found, settings, kernel, likelihood, control)


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return what an archive has, by name, or raise a ValueError where that cannot be in a file of this size."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    unknown = sorted(set(members) - {HEADER, CHECKSUM, *ARRAYS})
    if unknown or len(members) < len(archive.infolist()):
        raise ValueError(f"it has {', '.join(unknown)[:80] or 'one array twice'}, which no stream has")
    if any(info.compress_type != zipfile.ZIP_STORED for info in members.values()):
        raise ValueError("something in it is compressed, which Stream.save does not do")
    total = sum(info.file_size for info in members.values())
    if total > size:
        raise ValueError(f"its arrays would have {total} bytes, and the file has {size}")
    if total > available_bytes():
        raise MemoryError(
            f"this stream holds {total} bytes, more than the memory of this machine. Load it on a larger one."
        )
    return members


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array of an archive, or raise a ValueError if its shape does not go with its size in the file."""
    with archive.open(info) as opened:
        if np.lib.format.read_magic(opened) != (1, 0):
            raise ValueError(f"{info.filename} is not as NumPy writes it")
        shape, _, dtype = np.lib.format.read_array_header_1_0(opened)
        expected = opened.tell() + prod(shape) * dtype.itemsize
        if dtype.hasobject or expected != info.file_size:
            raise ValueError(f"{info.filename} would have {expected} bytes, and has {info.file_size}")
        opened.seek(0)
        array: NDArray[Any] = np.lib.format.read_array(opened, allow_pickle=False)
    return array


def _checksum(header: str, arrays: dict[str, NDArray[Any]]) -> str:
    found = blake2b(header.encode(), digest_size=16)
    for name in (name for name in ARRAYS if name in arrays):
        found.update(repr((name, arrays[name].shape, arrays[name].dtype.str)).encode())
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def state_of(saved: Saved) -> StreamState:
    """Return the state that a file holds, or raise a ValueError that names what could not have been saved."""
    settings, arrays = saved.settings, saved.arrays
    factor = Factor(
        arrays["points"],
        np.asfortranarray(arrays["root"]),
        np.asfortranarray(arrays["precision"]),
        arrays["shift"],
        values_of(saved.likelihood).outputs if settings["n_seen"] else 1,
    )
    n_seen, n_batches, is_tuned = settings["n_seen"], len(arrays["n_cases"]), settings["is_tuned"]
    X, t, by_case = arrays["X"], arrays["t"], arrays.get("by_case", np.array([[0.0, 1.0]]))
    for name, shape in (("t", (len(X),)), ("by_case", (len(X), 2)), ("other_limit", (len(X),))):
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} is not as it would be")
    cases = (
        X,
        rows_of(t, by_case[:, 0], by_case[:, 1], arrays.get("other_limit")),
        settings["independent"],
        bool(settings.get("has_offset", False)),
    )
    state = StreamState(saved.kernel, factor, n_seen, n_batches, is_tuned, *cases)
    check_state(state, settings, arrays, saved.likelihood)
    return state
