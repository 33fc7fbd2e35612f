"""From one state of a stream to the next: what it learns from a batch, and how it chooses its kernel.

The state is all that changes in a stream: its factor, its scores, the cases that it keeps. It knows whether a file
could have held it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.container.stored import not_stored
from bayesgp_mf.fitting import fit, posterior
from bayesgp_mf.hyper import SearchName, Strategy
from bayesgp_mf.hyper.target import public_names
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inputs.groups import with_columns
from bayesgp_mf.inputs.limits import with_other_limit
from bayesgp_mf.inputs.options import as_kernel, as_names
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case as with_cases
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.streams.classes import ClassValues
from bayesgp_mf.streams.factor import Factor, nothing
from bayesgp_mf.streams.values import Absorbed, Values
from bayesgp_mf.types import Array

LEAST_TOLD = 1e-6
"""By how much rounding may leave a precision below that of the prior."""


class LogScore(NamedTuple):
    """How well a stream predicted each batch before it learned from it (Dawid's prequential score).

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
    X, rows : (m, d) and (m, 4) array
        The reservoir: a random part of the cases seen, all of them at first; target, offset, weight and limit of
        each.
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
        return np.array_equal(self.rows[:, :3], rows_of(self.t)[:, :3])


def rows_of(
    t: Array,
    offset: Array | float | None = None,
    weights: Array | float | None = None,
    other_limit: Array | None = None,
) -> Array:
    """Return target, offset, weight and other limit ``(m, 4)`` of cases; 0, 1 and NaN where they have no others."""
    facts = (offset, 0.0), (weights, 1.0), (other_limit, np.nan)
    known = (usual if fact is None else fact for fact, usual in facts)
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
    other = state.rows[:, 3]
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
        "other_limit": not np.all(
            np.isnan(other) | (likelihood.takes_limits & ((other > state.t) | np.isneginf(other)))
        ),
        "log_score": arrays["log_score"].shape != arrays["n_cases"].shape or arrays["log_score"].ndim != 1,
        "n_cases": not np.all(arrays["n_cases"] > 0) or not arrays["n_cases"].sum() <= state.n_seen,
        "features": settings["features"] is not None and len(settings["features"]) != columns,
        "is_tuned": not isinstance(state.is_tuned, bool),
        "n_seen": state.n_seen < rows or (state.n_seen == 0) != (rows == 0),
        **{name: isinstance(value, bool) or not isinstance(value, int) or value < 0 for name, value in whole.items()},
    }
    wrong |= {
        name: True
        for name, array in arrays.items()
        if array.dtype.kind not in "fi" or not (name == "other_limit" or np.all(np.isfinite(array)))
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


FEWEST = 10
"""Cases of each class without which there is nothing to tune on."""
WAITING = 4
"""Cases that are held for it before, at most, times their usual number: then the past is carried over instead."""
PARTS = 8
"""With a half-life, a batch has at most this part of it: all its cases are forgotten alike."""
ARRIVE = 4
"""Once the budget is full, a batch brings in a quarter of it at most: what is best kept is found out after that."""


@dataclass(frozen=True, eq=False)
class Learner:
    """How a stream learns: what of it stays while cases come. `Stream` says what each option is.

    Attributes
    ----------
    likelihood, budget, hyper, first, reservoir, forget, batch, control
        Options of `Stream`.
    entropy : int
        Whence the random numbers of each batch come, which are the same after a crash.
    by_default : bool
        Whether no kernel was given, so that it is that of `hyper.default_model`.
    """

    likelihood: Likelihood
    budget: int | None
    hyper: SearchName | None
    first: int
    reservoir: int
    forget: float | None
    batch: int
    control: Control
    entropy: int
    by_default: bool = False

    def likelihood_of(self, rows: Array) -> Likelihood:
        """Return the likelihood of cases with the offsets, weights and limits of their rows ``(m, 4)``."""
        _, offset, weights, other = np.ascontiguousarray(rows.T)
        given = {"offset": offset} if offset.any() else {}
        return with_cases(
            with_other_limit(self.likelihood, other),
            **given,
            **({} if np.all(weights == 1.0) else {"weights": weights}),
        )

    def learned(self, state: StreamState, X: Array, rows: Array, *, progress: bool) -> tuple[StreamState, float]:
        """Return the state after one batch, with a kernel tuned when enough cases have come, and its log score.

        ``X (m, d)`` and ``rows (m, 4)`` are as those of the state; ``progress`` says whether tuning shows a bar.
        """
        if not state.n_seen:
            factor = nothing(X.shape[1], values_of(self.likelihood).outputs)
            state = replace(state, factor=factor, X=np.empty((0, X.shape[1])))
        rng = np.random.default_rng([self.entropy, state.n_batches])  # the same after a crash
        with one_thread_if_small(max(state.factor.size, len(rows))):
            done = self._absorbed(state.factor, state.kernel, X, rows, rng)
        capacity = self.reservoir if state.is_tuned else max(self.reservoir, WAITING * self.first)
        kept_X, kept_rows = sampled(state, X, rows, capacity, self.forget, rng)
        after = replace(
            state,
            factor=done.factor,
            n_seen=state.n_seen + len(rows),
            n_batches=state.n_batches + 1,
            X=kept_X,
            rows=kept_rows,
            independent=done.independent,
        )
        if not after.is_tuned and after.n_seen >= self.first and self.hyper is not None and self._may_tune(after.t):
            after = self.retuned(after, self.hyper, progress=progress)
            fewer = np.sort(rng.permutation(after.t.size)[: self.reservoir])
            after = replace(after, X=after.X[fewer], rows=after.rows[fewer])
        return after, float(done.log_score.sum())

    def retuned(self, state: StreamState, hyper: SearchName | Strategy, **options: Any) -> StreamState:
        """Return the state under the kernel that a strategy chooses on the reservoir."""
        kernel = self._tuned(state, hyper, **options)
        factor = self._again(state, kernel) if len(state.rows) == state.n_seen else state.factor.under(kernel)
        return replace(state, kernel=kernel, factor=factor, is_tuned=True)

    def _may_tune(self, t: Array) -> bool:
        """Tell whether there are enough cases of two classes."""
        if self.likelihood.is_real:
            return True
        cases = np.unique(t, return_counts=True)[1]
        return cases.size > 1 and bool(np.sort(cases)[-2] >= FEWEST)

    def _again(self, state: StreamState, kernel: Kernel) -> Factor:
        """Return what all cases say under another kernel, while all of them are still held."""
        factor = nothing(state.X.shape[1], values_of(self.likelihood).outputs)
        rng = np.random.default_rng([self.entropy, state.n_batches, 2])
        with one_thread_if_small(max(state.factor.size, self.batch)):
            for some in blocks(len(state.rows), self.part):
                factor = self._absorbed(factor, kernel, state.X[some], state.rows[some], rng).factor
        return factor

    @property
    def part(self) -> int:
        """Cases that are solved for at once."""
        return self.batch if self.forget is None else max(1, min(self.batch, int(self.forget / PARTS)))

    def _absorbed(self, factor: Factor, kernel: Kernel, X: Array, rows: Array, rng: np.random.Generator) -> Absorbed:
        """Return what came of a batch, with the factor within the budget."""
        t = np.ascontiguousarray(rows[:, 0])
        if self.forget is not None:
            factor = factor.forgetting(0.5 ** (t.size / self.forget))
        room = t.size if self.budget is None else max(self.budget - factor.size, -(-self.budget // ARRIVE))
        new = X if room >= t.size else X[np.sort(rng.choice(t.size, room, replace=False))]
        values = values_of(self.likelihood_of(rows))
        done = values.absorb(factor, kernel, X, t, new, self.control, whole=self.budget is None)
        return done if self.budget is None else done._replace(factor=done.factor.within(self.budget))

    def _tuned(self, state: StreamState, hyper: SearchName | Strategy, **options: Any) -> Kernel:
        """Return the kernel that a strategy chooses on the reservoir; what was learned is under this likelihood."""
        inducing = None if self.budget is None or self.budget >= len(state.rows) else self.budget
        rng = np.random.default_rng([self.entropy, state.n_batches, 1])
        fixed = as_names("fixed", options.pop("fixed", ())) | set(public_names(state.kernel, self.likelihood))
        given: dict[str, Any] = {
            "inducing": inducing,
            "draws": 1,
            "chains": 1,
            "random_seed": rng,
            "fixed": fixed,
            **options,
        }
        if not state.is_plain:
            given |= {"offset": state.rows[:, 1], "weights": state.rows[:, 2]}
        # of several classes the targets that are kept are codes
        coded = self.likelihood.with_classes(tuple(range(values_of(self.likelihood).outputs + 1)))
        coded = with_other_limit(coded, state.rows[:, 3])
        start = None if self.by_default else state.kernel
        texts = state.kernel.levels_of_columns()
        names = {j: np.array(known, dtype=object)[state.X[:, j].astype(np.intp)] for j, known in texts.items()}
        found = fit(with_columns(state.X, names), state.t, start, coded, hyper=hyper, **given)
        return as_kernel(posterior_given(found, kernel=start, likelihood=coded).kernel).with_levels(texts)


def values_of(likelihood: Likelihood) -> Values:
    """Return what the latent values of a case are under a likelihood."""
    return ClassValues(likelihood) if likelihood.has_classes else Values(likelihood)


def posterior_given(idata: Container, **given: Any) -> Any:
    """Return the posterior of a fit to a given ``kernel`` and ``likelihood``, again if no file holds them."""
    return posterior(idata, **not_stored(get_group(idata, "fit"), given))
