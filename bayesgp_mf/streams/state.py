"""What changes in a stream: its state, its scores, the cases that it keeps, and whether a file could have held it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    X, t : (m, d) and (m,) array
        The reservoir: a random part of the cases seen, all of them at first.
    independent : float
        Mean part of the prior variances of the last batch that the basis inputs do not explain.
    by_case : (m, 2) array
        Offset and weight of the cases of the reservoir; without rows where all have offset 0 and weight 1.
    has_offset : bool
        Whether a batch came with offsets.
    """

    kernel: Kernel
    factor: Factor
    n_seen: int
    n_batches: int
    is_tuned: bool
    X: Array
    t: Array
    independent: float = math.nan
    by_case: Array = field(default_factory=lambda: np.empty((0, 2)))
    has_offset: bool = False

    @property
    def rows(self) -> Array:
        """Target, offset and weight ``(m, 3)`` of the cases of the reservoir."""
        return np.column_stack([self.t, self.by_case if len(self.by_case) else plain_cases(self.t.size)])


def plain_cases(m: int) -> Array:
    """Return the offsets 0 and weights 1 ``(m, 2)`` of cases that have no others."""
    return np.tile([0.0, 1.0], (m, 1))


def sampled(
    state: StreamState, X: Array, t: Array, size: int, forget: float | None, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return a random part of all cases: each so far and each of these is in it with the same probability.

    Of these ``t`` has the targets ``(m,)``, or rows ``(m, 3)`` as those of the state, of which rows are kept then.

    J. S. Vitter (1985). Random sampling with a reservoir. ACM Trans. Math. Softw. 11, 37-57, algorithm R. With a
    half-life, each comes in with a probability that does not fall, in place of a random one, so that ages are
    exponential with that half-life, or younger (C. C. Aggarwal, 2006, VLDB, 607-618).
    """
    room = max(0, size - state.t.size)
    before = state.rows if t.ndim > 1 else state.t
    kept_X, kept_t = np.concatenate([state.X, X[:room]]), np.concatenate([before, t[:room]])
    X, t = X[room:], t[room:]
    if len(t):
        many = state.n_seen + room + 1 + np.arange(len(t))
        if forget is not None:
            many = np.minimum(many, math.ceil(max(size, forget / math.log(2.0))))
        places = rng.integers(0, many)
        here = places < size
        kept_X[places[here]], kept_t[places[here]] = X[here], t[here]
    return kept_X, kept_t


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
        "t": state.t.shape != (rows,) or not _are_targets(state.t, likelihood, factor.outputs + 1),
        "by_case": state.by_case.shape not in ((0, 2), (rows, 2)) or not np.all(state.by_case[:, 1] >= 0),
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
