"""A stream as the numbers and the plain words of a file, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.streams.arguments import plain
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.files import Saved
from bayesgp_mf.streams.learning import Learner, values_of
from bayesgp_mf.streams.state import LogScore, State, check_state

OPTIONS = ("budget", "hyper", "first", "reservoir", "forget", "batch")
"""Of those of `Stream`, by name."""


def described(
    state: State, learner: Learner, score: LogScore, features: list[str] | None, classes: tuple[Any, ...] | None
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the settings of a stream."""
    factor = state.factor
    arrays = {
        "points": factor.points,
        "root": factor.root,
        "precision": factor.precision,
        "shift": factor.shift,
        "X": state.X,
        "t": state.t,
        "log_score": score.batches,
        "n_cases": score.cases,
        **({"by_case": state.by_case} if len(state.by_case) else {}),
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
    return arrays, settings


def state_of(saved: Saved) -> State:
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
    state = State(saved.kernel, factor, n_seen, n_batches, is_tuned, arrays["X"], arrays["t"], settings["independent"])
    state = replace(
        state,
        by_case=arrays.get("by_case", state.by_case),
        has_offset=bool(settings.get("has_offset", False)),
    )
    check_state(state, settings, arrays, saved.likelihood)
    return state
