"""What `record` keeps of a model and of its sample by NUTS: a file for each set, with the data themselves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.types import Array
from validation.sampling.recorded import FOLDER as RECORDED
from validation.studies.models.problems import Model

FOLDER = RECORDED / "models"


class Reference(NamedTuple):
    """Means and standard deviations ``(n,)`` of latent values without offset, with Monte-Carlo standard errors."""

    mean: Array
    mean_error: Array
    sd: Array
    sd_error: Array


class Record(NamedTuple):
    """The model that was sampled, what the sample says, and how it was drawn: r-hat, effective draws, settings."""

    model: Model
    reference: Reference
    sampling: dict[str, Any]


def path_of(likelihood: str, name: str, folder: Path = FOLDER) -> Path:
    """Return the file of a set."""
    return folder / f"{likelihood}_{name.replace(' ', '_').replace('-', '_')}.json"


def digest_of(path: Path) -> str:
    """Return a hash of a file, by which a result is known to be of this record."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def written_model(model: Model) -> dict[str, Any]:
    """Return a model as JSON can hold it."""
    arrays = {key: getattr(model, key).tolist() for key in ("X", "y", "offset")}
    return {**arrays, "kernel": model.kernel.to_dict(), "likelihood": model.likelihood.to_dict()}


def read(path: Path) -> Record:
    """Return what a file holds.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    arrays = {key: np.array(found.pop(key), dtype=np.float64) for key in ("X", "y", "offset", *Reference._fields)}
    if not all(np.all(np.isfinite(array)) for array in arrays.values()):
        raise ValueError(f"{path} must have finite numbers; record it again.")
    reference = Reference(*(arrays.pop(key) for key in Reference._fields))
    kernel, likelihood = kernels.from_dict(found.pop("kernel")), likelihoods.from_dict(found.pop("likelihood"))
    return Record(Model(**arrays, kernel=kernel, likelihood=likelihood), reference, found)


def is_of(model: Model, recorded: Model) -> bool:
    """Tell whether a record is of this model, but for the last digits of its numbers.

    Targets are draws of a Gaussian process by a root of a matrix that is singular but for rounding: another processor's
    have moved them by up to 5e-8.
    """
    return (model.kernel, model.likelihood) == (recorded.kernel, recorded.likelihood) and all(
        here.shape == there.shape and np.allclose(here, there, rtol=1e-9, atol=1e-6)
        for here, there in zip(model[:3], recorded[:3], strict=True)
    )
