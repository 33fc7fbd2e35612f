"""Streams in files: numbers as they are, and a description in plain words; no code is ever read from one.

A stream as the numbers and the plain words of a file, and back.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf import likelihoods
from bayesgp_mf.files import whole
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.kernels import Kernel, is_built_in
from bayesgp_mf.kernels import from_dict as kernel_from_dict
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods import from_dict as likelihood_from_dict
from bayesgp_mf.streams.arguments import plain
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.learning import Learner, values_of
from bayesgp_mf.streams.state import LogScore, StreamState, check_state, rows_of

FORMAT = 1
"""Changes when a file of today could not be read."""
HEADER, CHECKSUM = "header", "checksum"
OF_FACTOR = ("points", "root", "precision", "shift")
"""Names of the arrays of what the past says."""
ARRAYS = (*OF_FACTOR, "X", "t", "log_score", "n_cases", "by_case")
"""Names of all arrays; the last one is there only in some files."""
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
    check_writable(path, state.kernel, learner.likelihood)
    arrays = {
        **{name: getattr(state.factor, name) for name in OF_FACTOR},
        "X": state.X,
        "t": state.t,
        "log_score": score.batches,
        "n_cases": score.cases,
        **({} if state.is_plain else {"by_case": state.rows[:, 1:]}),
    }
    settings = {
        **{name: getattr(learner, name) for name in (*OPTIONS, "entropy")},
        "classes": None if classes is None else [plain(label) for label in classes],
        "features": features,
        "n_seen": state.n_seen,
        "is_tuned": state.is_tuned,
        "independent": state.independent,
        **({"has_offset": True} if state.has_offset else {}),
    }
    header = json.dumps(
        {
            "format": FORMAT,
            "settings": settings,
            "kernel": state.kernel.to_dict(),
            "likelihood": learner.likelihood.to_dict(),
            "control": asdict(learner.control),
        },
        default=lambda number: number.item(),  # of NumPy
    )
    with whole(path) as part, part.open("wb") as file:
        np.savez(file, **{HEADER: np.array(header), CHECKSUM: np.array(_checksum(header, arrays))}, **arrays)  # type: ignore[arg-type]


def check_writable(path: Path, kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise if a stream with this kernel and likelihood could not be written there, as far as that is known before."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to.")
    if not is_built_in(kernel):
        raise ValueError(
            f"a file holds kernels of this package only, and {kernel!r} is, or has in it, one that is not."
        )
    if not likelihoods.is_built_in(likelihood):
        why = "" if likelihood.unsaved is None else f" {likelihood.unsaved}"
        raise ValueError(f"a file holds likelihoods of this package only, and {likelihood!r} is none.{why}")


def read(path: Path) -> Saved:
    """Return what a file holds, or raise a ValueError that says what is wrong with it."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            header, checksum = str(file[HEADER]), str(file[CHECKSUM])
            arrays = {name: file[name] for name in ARRAYS if name in file or name != "by_case"}
        described = json.loads(header)
        version = described["format"]
    except Exception as error:  # whatever a damaged archive makes its readers say
        raise ValueError(f"{path} is no file of Stream.save, or damaged.") from error
    if version != FORMAT:
        raise ValueError(f"{path} has format {version!r}, and this version reads format {FORMAT}.")
    if checksum != _checksum(header, arrays):
        raise ValueError(f"{path} is damaged, or was changed: its checksum does not match what is in it.")
    try:
        kernel, likelihood = kernel_from_dict(described["kernel"]), likelihood_from_dict(described["likelihood"])
        control = Control(**described["control"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no file of Stream.save, or damaged. {error}") from error
    return Saved(arrays, described["settings"], kernel, likelihood, control)


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
    for name, shape in (("t", (len(X),)), ("by_case", (len(X), 2))):
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} is not as it would be")
    cases = X, rows_of(t, *by_case.T), settings["independent"], bool(settings.get("has_offset", False))
    state = StreamState(saved.kernel, factor, n_seen, n_batches, is_tuned, *cases)
    check_state(state, settings, arrays, saved.likelihood)
    return state
