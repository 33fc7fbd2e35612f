"""An average over hyperparameters: PyMC's NUTS on evidence times prior, whatever the method.

Its chains run one after the other, or each in a process of its own.
"""

from __future__ import annotations

import itertools
import numbers
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args
from weakref import WeakValueDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from joblib import Parallel, cpu_count, delayed, parallel_config
from numpy.typing import NDArray
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Variable

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.errors import ConvergenceWarning, LowRankError
from bayesgp_mf.hyper import EvidenceScore, HyperResult, Objective, Strategy, Target
from bayesgp_mf.hyper.forecast import FEWEST_SEEN
from bayesgp_mf.hyper.optimise import no_solution
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.hyper.strategy import Advance
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import MethodName
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

    def __init__(self, target: Any, advance: Advance) -> None:
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
        (x,) = inputs
        answer = self._answer(x)
        value, gradient = (-np.inf, np.zeros(x.shape)) if answer is None else answer
        with self._counting:
            self.n_evaluations += 1
            self.n_failures += answer is None
            self.advance(f"{self.n_evaluations} solutions, log target {value:.2f}")
        return value, gradient

    def _answer(self, x: Array) -> tuple[float, Array] | None:
        """Return the value and the gradient ``(p,)``; None where there is no solution, which is counted."""
        try:
            with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
                return Objective(self.target, EvidenceScore(KNOWN))(x)
        except (*FAILURES, MemoryError, LowRankError):  # the last two: a rougher kernel than that of the start
            return None

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivative in the free logarithms, given that in the value."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            raise NotImplementedError("only the value of LogTarget can be differentiated, and only once.")
        return [cotangents[0] * outputs[1]]


SamplerName: TypeAlias = Literal["pymc", "nutpie"]
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
    """How chains are run, with the options of `Nuts`; the target knows the bounds, and the operation its density."""

    target: Any
    start: Array  # of all chains, strictly within bounds
    draws: int
    tune: int
    target_accept: float
    nuts_sampler: SamplerName
    operation: Callable[[Any, Advance], LogTarget] = LogTarget

    def run(self, seed: int, advance: Advance, *, chains: int = 1, cores: int = 1) -> Chains:
        """Run chains in this process; with nutpie ``cores`` of them at the same time, as threads."""
        density = self.operation(self.target, advance)
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
        ended = False
        while not ended:  # and once more at the end
            ended = done.wait(LOOK_SECONDS)
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


def _model(target: Any, density: LogTarget, start: Array) -> pm.Model:
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


SAMPLERS: tuple[SamplerName, ...] = get_args(SamplerName)
"""PyMC's samplers that can call back to Python; the others compile the density for JAX."""
USUAL_STEPS = 6
"""Leapfrog steps of a trajectory, to guess how long chains take."""
WORTH_SECONDS = 20.0
"""Chains that take less than this, all together, are done sooner without processes."""
INSET = 1e-2
"""Share of the range between its bounds by which a parameter starts away from them: there the transform is infinite."""


@dataclass(frozen=True, slots=True)
class Nuts(Strategy):
    """Draw the hyperparameters from evidence times prior, by the No-U-Turn sampler of PyMC on their logarithms.

    Parameters
    ----------
    draws, tune : int
        Draws of each chain that are kept, and those before them, in which the sampler adapts its steps.
    chains : int
        Number of chains. Each has its own start and its own random numbers.
    target_accept : float
        Target acceptance rate. Nearer to 1 the steps are smaller, and divergences fewer.
    nuts_sampler : {"pymc", "nutpie"}
        Whose implementation. nutpie needs numba beside it: ``nutpie[pymc]``.
    cores : int, optional
        Chains that run at the same time: those of PyMC in their own processes with one BLAS thread each, those of
        nutpie as threads. By default there are as many as processors, but only one if all chains together would take
        PyMC less than 20 seconds, judged by a solution at the start. The draws do not depend on it.
    method : str or Solver, optional
        The method whose evidence counts, if not that of the fit.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if the method has no evidence.

    Notes
    -----
    Every point is solved from the prior, so that the density is a function of the hyperparameters alone. Without a
    solution it is zero: a trajectory that reaches such a point ends as a divergence, and the points are counted
    (``hyper_n_failures``).

    Parameters stay within bounds, with a uniform prior in the logarithm between them if no other is given. A parameter
    with neither gets a log-normal prior around the kernel's own value, with standard deviation 1.5 in the logarithm:
    95% lie within a factor of 20 to either side. ``hyper_default_prior`` says which parameters have one.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.pymc import Nuts
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=20, random_seed=4)
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), hyper=Nuts(draws=30, tune=30), random_seed=1,
    ...     priors={"lengthscale": pm.InverseGamma.dist(5.0, 5.0)}, fixed={"variance"}, progress=False)
    >>> dict(idata["posterior"]["lengthscale"].sizes)
    {'chain': 2, 'draw': 30}
    """

    name = "nuts"
    averages: ClassVar[bool] = True
    draws: int = 500
    tune: int = 500
    chains: int = 2
    target_accept: float = 0.8
    nuts_sampler: SamplerName = "pymc"
    cores: int | None = None
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        check_integers(1, draws=self.draws, tune=self.tune, chains=self.chains)
        if self.cores is not None:
            check_integers(1, cores=self.cores)
        if not isinstance(self.target_accept, numbers.Real) or not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must be a number, 0 < target_accept < 1, got {self.target_accept!r}.")
        if self.nuts_sampler not in SAMPLERS:
            raise ValueError(
                f"nuts_sampler must be one of {SAMPLERS}, got {self.nuts_sampler!r}: samplers that need JAX "
                "cannot call the inner solver."
            )
        absent = [name for name in ("nutpie", "numba") if self.nuts_sampler == "nutpie" and find_spec(name) is None]
        if absent:
            raise ValueError(
                f"nuts_sampler='nutpie' needs {' and '.join(absent)}: pip install 'nutpie[pymc]', or use 'pymc'."
            )

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take, about."""
        return self.chains * (self.tune + self.draws) * USUAL_STEPS

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Run the chains.

        Raises
        ------
        MemoryError
            If the solutions at all draws would not fit into this machine's memory.
        ConvergenceError
            If the inner solver found no solution at the start.

        Warns
        -----
        ConvergenceWarning
            If trajectories diverged.
        """
        target.check_memory(self.chains * self.draws)  # all are kept, and sampling takes long
        target, by_default = target.with_default_priors()
        objective = Objective(target, EvidenceScore(), from_prior=True)
        start = inside(target)
        if objective.value(start) is None:
            raise no_solution(objective, "the starting point")
        for _ in range(FEWEST_SEEN - 1):  # by these and the first the forecast knows what a solution takes
            began = time.perf_counter()
            objective(start)
        at_once = self._at_once(target, time.perf_counter() - began)
        target = replace(target, forecast=None)  # chains compile first, and may run in other processes
        objective = Objective(target, EvidenceScore(), from_prior=True)
        sampling = Sampling(target, start, self.draws, self.tune, float(self.target_accept), self.nuts_sampler)
        found = run_chains(sampling, self.chains, at_once, rng, advance)
        draws = found.draws.reshape(-1, start.size)
        lp = _log_target(objective, draws, advance)
        stats: dict[str, Any] = {"diverging": found.diverging.ravel(), "n_steps": found.n_steps.ravel()}
        record = {
            "hyper_start": (("hyper",), start),
            "hyper_default_prior": (("hyper",), by_default),
            "hyper_n_evaluations": ((), np.array(found.n_evaluations)),
            "hyper_n_failures": ((), np.array(found.n_failures)),
        }
        _warn(found)
        return HyperResult.average(
            target,
            draws,
            lp,
            chains=self.chains,
            sampled=True,
            stats=stats,
            record=record,
            priors=target.priors,
            solutions=objective.solutions_at(draws),
        )

    def _at_once(self, target: Target, seconds: float) -> int:
        """Return how many chains to run at the same time, where a solution takes so many ``seconds``."""
        if self.cores is not None:
            return min(self.cores, self.chains)
        if self.nuts_sampler == "pymc" and self.solutions(target) * seconds < WORTH_SECONDS:
            return 1  # a process takes seconds to import PyMC
        return min(self.chains, int(cpu_count()))


def inside(target: Any) -> Array:
    """Return the start ``(p,)``, moved away from a bound it may lie on."""
    bounded = np.isfinite(target.upper)
    inset = np.zeros(target.start.size)
    inset[bounded] = INSET * (target.upper - target.lower)[bounded]
    return np.asarray(np.clip(target.start, target.lower + inset, target.upper - inset))


def _log_target(objective: Objective, draws: Array, advance: Advance) -> Array:
    """Return log evidence plus log prior at each draw; the backends report it with other terms, by other names."""
    moved = np.append(True, np.any(draws[1:] != draws[:-1], axis=1))  # else the step was rejected
    values = objective.at_nodes(draws[moved], advance, noun="log target at draw")
    return np.asarray(values[np.cumsum(moved) - 1])


def _warn(found: Chains) -> None:
    if found.diverging.any():
        warnings.warn(
            f"{int(found.diverging.sum())} of {found.diverging.size} trajectories diverged; {found.n_failures} of "
            f"{found.n_evaluations} points, tuning included, had no solution. Draws from nearby may be missing: use "
            "a target_accept nearer to 1, narrower bounds or priors, or allow noise in the likelihood.",
            ConvergenceWarning,
            stacklevel=4,
        )
