"""What changes in a stream: its state, its scores, the cases that it keeps, and whether a file could have held it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.types import Array

LEAST_TOLD = 1e-6
"""By how much rounding may leave a precision below that of the prior."""


class LogScore(NamedTuple):
    """How well a stream predicted each batch before it learned from it (A. P. Dawid's prequential score).

    Attributes
    ----------
    total : float
        Log density of all targets, each given the batches before its own, in nats.
    mean : float
        The same per case; NaN before the first.
    batches, cases : (b,) array
        The log density of each batch, and how many cases it had.
    """

    total: float
    mean: float
    batches: Array
    cases: NDArray[np.int64]

    @classmethod
    def of(cls, scores: Sequence[float], cases: Sequence[int]) -> LogScore:
        """Return the score of batches, each with its log density and its number of cases."""
        batches, sizes = np.array(scores, dtype=np.float64), np.array(cases, dtype=np.int64)
        total = float(batches.sum())
        return cls(total, total / float(sizes.sum()) if sizes.size else math.nan, batches, sizes)


@dataclass(frozen=True, eq=False)
class StreamState:
    """All that changes in a stream; it is replaced as a whole when a batch is done.

    Attributes
    ----------
    kernel : Kernel
        Prior covariance, which may be tuned.
    factor : Factor
        What the past says.
    n_seen, n_batches : int
        Cases and batches learned from.
    is_tuned : bool
        Whether the kernel is as it is to stay.
    X, rows : (m, d) and (m, 3) array
        The reservoir: a random part of the cases seen, all of them at first, with target, offset and weight of each.
    independent : float
        Mean part of the prior variances of the last batch that the basis inputs do not explain.
    has_offset : bool
        Whether a batch came with offsets.
    """

    kernel: Kernel
    factor: Factor
    n_seen: int
    n_batches: int
    is_tuned: bool
    X: Array
    rows: Array
    independent: float = math.nan
    has_offset: bool = False

    @property
    def t(self) -> Array:
        """The targets ``(m,)`` of the reservoir."""
        return np.ascontiguousarray(self.rows[:, 0])

    @property
    def is_plain(self) -> bool:
        """Whether all cases of the reservoir have offset 0 and weight 1."""
        return np.array_equal(self.rows, rows_of(self.t))


def rows_of(t: Array, offset: Array | float | None = None, weights: Array | float | None = None) -> Array:
    """Return target, offset and weight ``(m, 3)`` of cases; 0 and 1 where they have no others."""
    known = 0.0 if offset is None else offset, 1.0 if weights is None else weights
    return np.column_stack([t, *(np.broadcast_to(values, t.shape) for values in known)])


def sampled(
    state: StreamState, X: Array, rows: Array, size: int, forget: float | None, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return a random part of all cases: each so far and each of these is in it with the same probability.

    J. S. Vitter (1985). Random sampling with a reservoir. ACM Trans. Math. Softw. 11, 37-57, algorithm R. With a
    half-life, each comes in with a probability that does not fall, in place of a random one, so that ages are
    exponential with that half-life, or younger (C. C. Aggarwal, 2006, VLDB, 607-618).
    """
    room = max(0, size - len(state.rows))
    kept_X, kept_rows = np.concatenate([state.X, X[:room]]), np.concatenate([state.rows, rows[:room]])
    X, rows = X[room:], rows[room:]
    if len(rows):
        many = state.n_seen + room + 1 + np.arange(len(rows))
        if forget is not None:
            many = np.minimum(many, math.ceil(max(size, forget / math.log(2.0))))
        places = rng.integers(0, many)
        here = places < size
        kept_X[places[here]], kept_rows[places[here]] = X[here], rows[here]
    return kept_X, kept_rows


def check_state(
    state: StreamState, settings: Mapping[str, Any], arrays: Mapping[str, Any], likelihood: Likelihood
) -> None:
    """Raise a ValueError that names what could not have been saved."""
    factor, (rows, columns) = state.factor, state.X.shape
    M, rows_of_B, budget = factor.size, factor.size * factor.outputs, settings["budget"]
    whole = {name: settings[name] for name in ("entropy", "n_seen")}
    wrong = {
        "points": factor.points.shape != (M, columns) or (budget is not None and budget < M),
        "root": factor.root.shape != (M, M)
        or not np.array_equal(factor.root, np.tril(factor.root))
        or not np.all(factor.root.diagonal() > 0),
        "precision": factor.precision.shape != (rows_of_B, rows_of_B)
        or not np.allclose(factor.precision, factor.precision.T, rtol=1e-9),
        "shift": factor.shift.shape != (rows_of_B,),
        "t": not _are_targets(state.t, likelihood, factor.outputs + 1),
        "by_case": not np.all(state.rows[:, 2] >= 0),
        "log_score": arrays["log_score"].shape != arrays["n_cases"].shape or arrays["log_score"].ndim != 1,
        "n_cases": not np.all(arrays["n_cases"] > 0) or not arrays["n_cases"].sum() <= state.n_seen,
        "features": settings["features"] is not None and len(settings["features"]) != columns,
        "is_tuned": not isinstance(state.is_tuned, bool),
        "n_seen": state.n_seen < rows or (state.n_seen == 0) != (rows == 0),
        **{name: isinstance(value, bool) or not isinstance(value, int) or value < 0 for name, value in whole.items()},
    }
    wrong |= {
        name: True for name, array in arrays.items() if array.dtype.kind not in "fi" or not np.all(np.isfinite(array))
    }
    named = [name for name, is_wrong in wrong.items() if is_wrong]
    if named:
        raise ValueError(f"{named[0]} is not as it would be")
    if not np.all(np.isfinite(factor.mean)):  # which raises where there is no posterior
        raise ValueError("precision and shift leave no posterior")
    if likelihood.log_concave and M and np.linalg.eigvalsh(factor.precision)[0] < 1.0 - LEAST_TOLD:
        raise ValueError("precision is below that of the prior")


def _are_targets(t: Array, likelihood: Likelihood, n_classes: int) -> bool:
    """Tell whether targets are some that a stream keeps: labels -1 and +1, codes of classes, or real ones."""
    if likelihood.is_real:
        return True
    if likelihood.is_binary:
        return bool(np.all(np.abs(t) == 1.0))
    return bool(np.all((t >= 0) & (t < n_classes) & (t == np.floor(t))))
