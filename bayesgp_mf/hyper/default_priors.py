"""Priors of the parameters for which none is given, where hyperparameters are averaged over and need one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.hyper.priors import LogNormal, Prior
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.types import Array

DEFAULT_SD = 1.5
"""Of the logarithm of a parameter that has neither prior nor bounds, around where it starts."""


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The prior of a parameter for which none is given: log-normal, each entry around where it starts.

    Parameters
    ----------
    centre : (k,) array
        Logarithms of the entries at the start.
    """

    centre: Array

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""
        return LogNormal(0.0, DEFAULT_SD).log_density(log_value - self.centre)


def with_default_priors(target: Target) -> tuple[Target, NDArray[np.bool_]]:
    """Return the target with a prior for each parameter that has neither prior nor bounds, and which those are."""
    by_default = ~np.isin(target.owners, [*target.priors, *target.bounds])
    added: dict[str, Prior] = {
        name: Around(target.start[target.owners == name]) for name in np.unique(target.owners[by_default]).tolist()
    }
    return replace(target, priors={**target.priors, **added}), by_default
