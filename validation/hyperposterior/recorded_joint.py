"""The recorded sample of the joint posterior: what it holds, and reading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesgp_mf.types import Array
from validation.sampling.recorded import FOLDER, load_record, provenance, statistics_in
from validation.sampling.statistics import Statistics

PATH = FOLDER / "pima_joint_nuts.nc"


@dataclass(frozen=True, slots=True, eq=False)
class RecordedJoint:
    """What is kept of a long run of NUTS on log parameters and latent values.

    Attributes
    ----------
    names : list of str
        Of the log parameters.
    log_parameters : (chain, draw, p) array
        Draws of them, thinned; for figures.
    parameters, probabilities : Statistics
        Of the log parameters ``(p,)`` and of the probabilities of class +1 at the test cases ``(m,)``, from all draws.
    settings : dict
        Sampler, draws, tuning steps, chains, seed.
    seconds : float
        Of tuning and draws of all chains, one after the other, without compilation.
    divergences : int
        Of all draws.
    versions : dict
        Of what sampled.
    """

    names: list[str]
    log_parameters: Array
    parameters: Statistics
    probabilities: Statistics
    settings: dict[str, Any]
    seconds: float
    divergences: int
    versions: dict[str, str | None]

    @property
    def ess_per_second(self) -> float:
        """The least bulk effective sample size of a log parameter, by second of tuning and draws."""
        return float(self.parameters.ess_bulk.min()) / self.seconds


def read(path: Path = PATH) -> RecordedJoint:
    """Read a record that `record_joint.main` wrote.

    Raises
    ------
    ValueError
        If numbers are not finite, or do not belong together: means that those of the draws contradict.
    """
    found = load_record(path)
    recorded = RecordedJoint(
        names=[str(name) for name in found["parameter"].values],
        log_parameters=found["log_parameters"].values.astype(np.float64),
        parameters=statistics_in(found, "parameter"),
        probabilities=statistics_in(found, "p"),
        **provenance(found),
    )
    draws, all_of_them = recorded.log_parameters, recorded.parameters
    # the thinned draws have at worst the Monte-Carlo error of as many independent ones
    error = 6.0 * all_of_them.sd * np.sqrt(1.0 / all_of_them.ess_bulk.min() + 1.0 / draws[..., 0].size)
    off = np.abs(draws.mean(axis=(0, 1)) - all_of_them.mean)
    if np.any(off > error):
        worst = int(np.argmax(off / error))
        raise ValueError(
            f"the draws of {recorded.names[worst]} in {path} have a mean {off[worst]:.3g} away from that recorded, "
            f"where chance allows {error[worst]:.3g}: they are of different runs. Record it again."
        )
    return recorded
