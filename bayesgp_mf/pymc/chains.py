"""Chains of NUTS on evidence times prior of hyperparameters: one after the other, or each in a process of its own."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Variable

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.errors import LowRankError
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.hyper.strategy import Advance
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.pymc.graph import FloatOp
from bayesgp_mf.pymc.op import FAILURES
from bayesgp_mf.types import Array

_operations: WeakValueDictionary[int, LogTarget] = WeakValueDictionary()


def _operation(number: int) -> LogTarget:
    return _operations[number]


class LogTarget(FloatOp):
    """Log evidence plus log prior as a PyTensor operation of the free logarithms: ``[value, gradient (p,)]``.

    Where there is no solution the value is -inf and the gradient zero. It has no memory but its counts: each solution
    starts from the prior. Each operation counts for itself, so that no two are equal, and a copy is the same one.
    """

    def __init__(self, target: Target, advance: Advance) -> None:
        self.target, self.advance = target, advance
        self.n_evaluations = 0
        self.n_failures = 0
        self._counting = threading.Lock()  # chains of nutpie are threads
        _operations[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        # numba pickles what it calls back, in the same process, and what a copy of the operation counts would be lost
        return _operation, (id(self),)

    def _output_shapes(self, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [(), shapes[0]]

    def _results(self, *inputs: Array) -> Sequence[float | Array]:
        """Solve, and return the value and the gradient."""
        (log_free,) = inputs
        answer = None
        try:
            with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
                answer = Objective(self.target, EvidenceScore(KNOWN))(log_free)
        except (*FAILURES, MemoryError, LowRankError):  # the last two: a rougher kernel than that of the start
            pass  # counted below
        value, gradient = (-np.inf, np.zeros(log_free.shape)) if answer is None else answer
        with self._counting:
            self.n_evaluations += 1
            self.n_failures += answer is None
            self.advance(f"{self.n_evaluations} solutions, log target {value:.2f}")
        return value, gradient

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivative in the free logarithms, given that in the value."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            raise NotImplementedError("only the value of LogTarget can be differentiated, and only once.")
        return [cotangents[0] * outputs[1]]


Sampler: TypeAlias = Literal["pymc", "nutpie"]
"""Those that can call the inner solver."""

LOOK_SECONDS = 0.5
"""Between two looks at what chains in other processes have done."""


class Chains(NamedTuple):
    """What came of some chains."""

    draws: Array  # (chains, draws, p), free logarithms
    diverging: NDArray[np.bool_]  # (chains, draws)
    n_steps: NDArray[np.int64]  # of each trajectory, (chains, draws)
    n_evaluations: int  # tuning included
    n_failures: int  # points among them without a solution


@dataclass(frozen=True, slots=True)
class Sampling:
    """How chains are run, with the options of `Nuts`."""

    target: Target
    start: Array  # of all chains, strictly within bounds
    draws: int
    tune: int
    target_accept: float
    nuts_sampler: Sampler

    def run(self, seed: int, advance: Advance, *, chains: int = 1, cores: int = 1) -> Chains:
        """Run chains in this process; with nutpie ``cores`` of them at the same time, as threads."""
        density = LogTarget(self.target, advance)
        with (
            one_thread_if_small(self.target.t.size),
            _model(self.target, density, self.start),
            # compiled, the few nodes around the solver would be no faster than it takes to compile them
            pytensor.config.change_flags(mode="FAST_COMPILE"),
            _interruptible(),
        ):
            idata = pm.sample(
                self.draws,
                tune=self.tune,
                chains=chains,
                cores=cores,
                target_accept=self.target_accept,
                random_seed=seed,
                progressbar=False,
                quiet=True,
                compute_convergence_checks=False,  # they log; `Nuts` warns of divergences
                nuts_sampler=self.nuts_sampler,
            )
        draws = get_group(idata, "posterior")["log_parameters"].values
        if draws.shape[:2] != (chains, self.draws):  # interrupted, PyMC returns what it has
            raise KeyboardInterrupt
        stats = get_group(idata, "sample_stats")
        return Chains(
            draws,
            np.asarray(stats["diverging"].values, dtype=np.bool_),
            np.asarray(stats["n_steps"].values, dtype=np.int64),
            density.n_evaluations,
            density.n_failures,
        )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let an interruption through that came before the first draw, of which PyMC makes this error."""
    try:
        yield
    except ValueError as error:
        if "Not enough samples" in str(error):
            raise KeyboardInterrupt from error
        raise


def run_chains(sampling: Sampling, chains: int, cores: int, rng: np.random.Generator, advance: Advance) -> Chains:
    """Run chains, ``cores`` of them at the same time; the draws do not depend on how many.

    PyMC's sampler has a seed and a run of its own for each chain, in this process or in another. The chains of nutpie
    are threads, which share one compiled model.
    """
    if sampling.nuts_sampler == "nutpie":
        return sampling.run(int(rng.integers(2**31)), advance, chains=chains, cores=cores)
    seeds = [int(seed) for seed in rng.integers(2**31, size=chains)]
    if cores == 1:
        return _together([sampling.run(seed, advance) for seed in seeds])
    with TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        np.zeros(chains, dtype=np.int64).tofile(counts)
        with _watched(counts, advance), parallel_config(backend="loky", inner_max_num_threads=1):
            tasks = (delayed(_in_process)(sampling, seed, counts, k) for k, seed in enumerate(seeds))
            return _together(Parallel(n_jobs=cores)(tasks))


def _in_process(sampling: Sampling, seed: int, counts: Path, k: int) -> Chains:
    """Run a chain, and count its solutions where the process that waits for it can see them."""
    numbers = itertools.count(1)
    with counts.open("r+b", buffering=0) as file:

        def advance(_: str) -> None:
            file.seek(8 * k)
            file.write(np.int64(next(numbers)).tobytes())

        return sampling.run(seed, advance)


@contextmanager
def _watched(counts: Path, advance: Advance) -> Iterator[None]:
    """Tell ``advance``, now and then, how many solutions the processes have made."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            each = np.fromfile(counts, dtype=np.int64)
            advance(f"{each.sum()} solutions by {each.size} chains")

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _together(parts: list[Chains]) -> Chains:
    draws, diverging, n_steps, n_evaluations, n_failures = zip(*parts, strict=True)
    counts = sum(n_evaluations), sum(n_failures)
    return Chains(np.concatenate(draws), np.concatenate(diverging), np.concatenate(n_steps), *counts)


def _model(target: Target, density: LogTarget, start: Array) -> pm.Model:
    """Return the model: logarithms that PyMC keeps within their bounds, if any, and one density for all of them."""
    bounded = np.isfinite(target.upper)  # with the lower one; Target has both or neither
    parts = []
    with pm.Model() as model:
        if bounded.any():
            low, high = target.lower[bounded], target.upper[bounded]
            parts.append(pm.Uniform("bounded", low, high, initval=start[bounded]))
        if not bounded.all():
            free = ~bounded
            parts.append(pm.Flat("free", shape=int(free.sum()), initval=start[free]))
        order = np.argsort(np.concatenate([np.flatnonzero(bounded), np.flatnonzero(~bounded)]))
        log_parameters = pm.Deterministic("log_parameters", pt.concatenate(parts)[order])
        pm.Potential("log_target", density(log_parameters)[0])
    return model
