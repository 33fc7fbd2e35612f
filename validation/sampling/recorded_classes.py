"""A recorded sample of latent values with one for each class: what it holds, and reading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesgp_mf.types import Array
from validation.sampling.recorded import load_record, provenance, statistics_in
from validation.sampling.statistics import Statistics


@dataclass(frozen=True, slots=True, eq=False)
class RecordedClasses:
    """What is kept of a long run of NUTS on the latent values of several classes.

    Attributes
    ----------
    probabilities, latent : Statistics
        Of the probabilities of the classes given the latent values, and of the latent values less their mean over the
        classes; ``(n, C)`` each.
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


def read(path: Path) -> RecordedClasses:
    """Read a record.

    Raises
    ------
    ValueError
        If a number is not finite, or the probabilities of a case do not sum to one.
    """
    found = load_record(path)
    recorded = RecordedClasses(
        probabilities=statistics_in(found, "p"),
        latent=statistics_in(found, "f"),
        observed=int(found.attrs["observed"]),
        **provenance(found),
    )
    off: Array = np.abs(recorded.probabilities.mean.sum(axis=1) - 1.0)
    if np.any(off > 1e-5):
        raise ValueError(f"the probabilities of case {int(np.argmax(off))} in {path} do not sum to one.")
    return recorded
