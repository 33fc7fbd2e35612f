"""From one state of a stream to the next: what it learns from a batch, and how it chooses its kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesgp_mf.fitting import fit, posterior
from bayesgp_mf.hyper import SearchName, Strategy
from bayesgp_mf.hyper.model import public_names
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inputs.options import as_kernel, as_names
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case as with_cases
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.streams.classes import ClassValues
from bayesgp_mf.streams.factor import Factor, nothing
from bayesgp_mf.streams.state import StreamState, sampled
from bayesgp_mf.streams.values import Absorbed, Values
from bayesgp_mf.types import Array

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

    def likelihood_of(self, rows: Array) -> Likelihood:
        """Return the likelihood of cases with the offsets and weights of their rows ``(m, 3)``."""
        _, offset, weights = np.ascontiguousarray(rows.T)
        given = {"offset": offset} if offset.any() else {}
        return with_cases(self.likelihood, **given, **({} if np.all(weights == 1.0) else {"weights": weights}))

    def learned(self, state: StreamState, X: Array, rows: Array) -> tuple[StreamState, float]:
        """Return the state after one batch, with a kernel tuned when enough cases have come, and its log score.

        ``X (m, d)`` and ``rows (m, 3)`` are as those of the state.
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
            after = self.retuned(after, self.hyper)
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
        found = fit(state.X, state.t, state.kernel, coded, hyper=hyper, **given)
        process: Any = posterior(found)
        return as_kernel(process.kernel)


def values_of(likelihood: Likelihood) -> Values:
    """Return what the latent values of a case are under a likelihood."""
    return ClassValues(likelihood) if likelihood.has_classes else Values(likelihood)
