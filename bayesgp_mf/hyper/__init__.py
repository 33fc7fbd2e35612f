"""Choosing hyperparameters: point estimates, and averages over what the data leave open.

The doors, `tuning`, `pymc` and `sharded` look inside, for objectives, targets and models.
"""

from __future__ import annotations

import importlib
from typing import Literal, TypeAlias, get_args

from bayesgp_mf.hyper.default import DefaultModel, default_model
from bayesgp_mf.hyper.hmc import HybridMonteCarlo
from bayesgp_mf.hyper.integrate import Integrate
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import Run
from bayesgp_mf.hyper.priors import Distance, Exponential, LogNormal, Prior
from bayesgp_mf.hyper.scores import EvidenceScore, LooScore
from bayesgp_mf.hyper.search import Evidence, LeaveOneOut, Scan
from bayesgp_mf.hyper.strategy import HyperResult, Strategy
from bayesgp_mf.hyper.surrogate.strategy import Surrogate
from bayesgp_mf.hyper.target import Model, Target

__all__ = [
    "HYPER",
    "DefaultModel",
    "Distance",
    "Evidence",
    "EvidenceScore",
    "Exponential",
    "HybridMonteCarlo",
    "HyperResult",
    "Integrate",
    "LeaveOneOut",
    "LogNormal",
    "LooScore",
    "Model",
    "Objective",
    "Prior",
    "Run",
    "Scan",
    "Strategy",
    "Surrogate",
    "Target",
    "default_model",
    "get_strategy",
]

SearchName: TypeAlias = Literal["evidence", "loo", "scan"]
"""The strategies that end in one kernel, for editors and type checkers."""

HyperName: TypeAlias = Literal[SearchName, "hmc", "integrate", "surrogate", "nuts"]
"""All of `strategy_names`."""

SEARCHES: tuple[SearchName, ...] = get_args(SearchName)

HYPER: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (Evidence(), LeaveOneOut(), Scan(), HybridMonteCarlo(), Integrate(), Surrogate())
}
"""The strategies by name, with their default options."""

# `bayesgp_mf.pymc` lies above this layer and needs seconds to import: by name, and only when it is asked for
IN_PYMC: dict[str, tuple[str, str]] = {"nuts": ("bayesgp_mf.pymc.nuts", "Nuts")}
"""Strategies of `bayesgp_mf.pymc`: the module and the class, to be used with default options."""


def strategy_names() -> list[str]:
    """Return the names of all strategies, sorted."""
    return sorted(HYPER | IN_PYMC)


def get_strategy(hyper: str | Strategy) -> Strategy:
    """Return a strategy by name, with its default options, or as it is.

    Raises
    ------
    ValueError
        If there is no such strategy; the message lists those there are.

    Examples
    --------
    >>> from bayesgp_mf.hyper import get_strategy
    >>> get_strategy("loo")
    LeaveOneOut(starts=3, method=None)
    """
    if isinstance(hyper, str) and hyper in HYPER:
        return HYPER[hyper]
    if isinstance(hyper, str) and hyper in IN_PYMC:
        module, class_name = IN_PYMC[hyper]
        strategy: Strategy = getattr(importlib.import_module(module), class_name)()
        return strategy
    if not isinstance(hyper, Strategy):
        given = f"the class {hyper.__name__}: write it with ()" if isinstance(hyper, type) else repr(hyper)
        raise ValueError(
            f"hyper must be None, one of {strategy_names()}, or a strategy with options such as Evidence(starts=5), "
            f"a hyper.Strategy; got {given}."
        )
    return hyper
