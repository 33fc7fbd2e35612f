"""The recorded sample of the softmax process: what it holds, and reading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesgp_mf.types import Array
from validation.sampling.recorded import FOLDER, load_record, provenance, statistics_in
from validation.sampling.statistics import Statistics

PATH = FOLDER / "glass_softmax_nuts.nc"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSoftmax:
    """What is kept of a long run of NUTS on the latent values of six classes.

    Attributes
    ----------
    probabilities, latent : Statistics
        Of the softmax probabilities, and of the latent values less their mean over the classes; ``(214, 6)`` each.
    observed : int
        How many of the first cases were observed; the others are predicted.
    settings : dict
        Sampler, draws, tuning steps, chains, seed.
    seconds : float
        Of tuning and draws of all chains, one after the other, without compilation.
    divergences : int
        Of all draws.
    versions : dict
        Of what sampled.
    """

    probabilities: Statistics
    latent: Statistics
    observed: int
    settings: dict[str, Any]
    seconds: float
    divergences: int
    versions: dict[str, str]


def read(path: Path = PATH) -> RecordedSoftmax:
    """Read a record that `record_softmax.main` wrote.

    Raises
    ------
    ValueError
        If a number is not finite, or the probabilities of a case do not sum to one.
    """
    found = load_record(path)
    recorded = RecordedSoftmax(
        probabilities=statistics_in(found, "p"),
        latent=statistics_in(found, "f"),
        observed=int(found.attrs["observed"]),
        **provenance(found),
    )
    off: Array = np.abs(recorded.probabilities.mean.sum(axis=1) - 1.0)
    if np.any(off > 1e-5):
        raise ValueError(f"the probabilities of case {int(np.argmax(off))} in {path} do not sum to one.")
    return recorded
