"""An average over hyperparameters: PyMC's NUTS on evidence times prior, whatever the method."""

from __future__ import annotations

import numbers
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

from bayesgp_mf.errors import ConvergenceWarning
from bayesgp_mf.hyper import EvidenceScore, HyperResult, LogNormal, Objective, Prior, Target
from bayesgp_mf.hyper.optimise import no_solution
from bayesgp_mf.hyper.result import Advance, check_positive_integers
from bayesgp_mf.inferencedata import get_group
from bayesgp_mf.pymc.op import FAILURES
from bayesgp_mf.types import Array

DEFAULT_SD = 1.5
"""Of the logarithm of a parameter that has neither prior nor bounds, around where it starts."""
SAMPLERS = ("pymc", "nutpie")
"""PyMC's samplers that can call back to Python; the others compile the density for JAX."""
INSET = 1e-2
"""Share of the range between its bounds by which a parameter starts away from them: there the transform is infinite."""


@dataclass(frozen=True, slots=True)
class Nuts:
    r"""Draws of the hyperparameters from evidence times prior, by the No-U-Turn sampler of PyMC on their logarithms.

    Parameters
    ----------
    draws, tune : int
        Of each chain: those that are kept, and those before them in which the sampler adapts its steps.
    chains : int
        They run one after the other, in this process.
    target_accept : float
        Acceptance rate aimed at; nearer to 1 the steps are smaller, and divergences fewer.
    nuts_sampler : {"pymc", "nutpie"}
        Whose implementation. nutpie must be installed.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if the method has no evidence.

    Notes
    -----
    Every point is solved from the prior, so that the density is one function of the hyperparameters. Where there is no
    solution it is zero: a trajectory that comes there ends as a divergence, and the points are counted
    (``hyper_n_failures``).

    Bounds are walls, with a uniform prior in the logarithm between them where no other is given. A parameter with
    neither gets a log-normal prior around the kernel's own value, with the standard deviation 1.5 in the logarithm:
    a factor of 20 to either side holds 95%. ``hyper_default_prior`` says which parameters did.

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

    name: ClassVar[str] = "nuts"
    draws: int = 500
    tune: int = 500
    chains: int = 2
    target_accept: float = 0.9
    nuts_sampler: str = "pymc"

    def __post_init__(self) -> None:
        check_positive_integers(draws=self.draws, tune=self.tune, chains=self.chains)
        if not isinstance(self.target_accept, numbers.Real) or not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must be a number, 0 < target_accept < 1, got {self.target_accept!r}.")
        if self.nuts_sampler not in SAMPLERS:
            raise ValueError(
                f"nuts_sampler must be one of {SAMPLERS}, got {self.nuts_sampler!r}: samplers that need JAX "
                "cannot call the inner solver."
            )

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Run the chains.

        Raises
        ------
        ConvergenceError
            If the inner solver found no solution at the start.

        Warns
        -----
        ConvergenceWarning
            If trajectories diverged.
        """
        target, by_default = with_default_priors(target)
        objective = Objective(target, EvidenceScore(), from_prior=True)
        start = inside(target)
        if objective.value(start) is None:
            raise no_solution(objective, "the starting point")
        density = LogTarget(target, advance)
        with _model(target, density, start), pytensor.config.change_flags(mode="FAST_COMPILE"):
            # compiled, the few nodes around the solver would be no faster than it takes to compile them
            idata = pm.sample(
                self.draws,
                tune=self.tune,
                chains=self.chains,
                cores=1,  # in other processes nothing could be counted
                target_accept=float(self.target_accept),
                random_seed=int(rng.integers(2**31)),
                progressbar=False,
                quiet=True,
                compute_convergence_checks=False,  # they log; divergences are warned about below
                nuts_sampler=self.nuts_sampler,
            )
        by_chain = get_group(idata, "posterior")["log_parameters"].values
        draws = by_chain.reshape(-1, start.size)
        sampled = get_group(idata, "sample_stats")
        diverging = np.asarray(sampled["diverging"].values, dtype=np.bool_).ravel()
        stats: dict[str, Any] = {
            "lp": _log_target(objective, draws, advance),
            "diverging": diverging,
            "n_steps": np.asarray(sampled["n_steps"].values, dtype=np.int64).ravel(),
        }
        record = {
            "hyper_start": (("hyper",), start),
            "hyper_default_prior": (("hyper",), by_default),
            "hyper_n_evaluations": ((), np.array(density.n_evaluations)),
            "hyper_n_failures": ((), np.array(density.n_failures)),
        }
        _warn(diverging, density)
        kernels = tuple(target.kernel_at(draw) for draw in draws)
        weights = np.full(len(kernels), 1.0 / len(kernels))
        chains = by_chain.shape[0]  # an interrupted pm.sample returns what it has
        return HyperResult(kernels, weights, chains, True, stats, record)


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


def inside(target: Target) -> Array:
    """Return the start ``(p,)``, moved away from a bound it may lie on."""
    bounded = np.isfinite(target.upper)
    inset = np.zeros(target.start.size)
    inset[bounded] = INSET * (target.upper - target.lower)[bounded]
    return np.clip(target.start, target.lower + inset, target.upper - inset)


_operations: WeakValueDictionary[int, LogTarget] = WeakValueDictionary()


def _operation(number: int) -> LogTarget:
    return _operations[number]


class LogTarget(Op):  # type: ignore[misc]
    """Log evidence plus log prior as a PyTensor operation of the free logarithms: ``[value, gradient (p,)]``.

    Where there is no solution the value is -inf and the gradient zero. It has no memory but its counts: each solution
    starts from the prior. Each operation counts for itself, so that no two are equal, and a copy is the same one.

    Parameters
    ----------
    target : Target
        Data, method, priors.
    advance : callable
        Is told of each evaluation.

    Attributes
    ----------
    n_evaluations, n_failures : int
        Points asked for, and those among them without a solution.
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

    def make_node(self, log_free: Any) -> Apply:
        """Return the application to the free logarithms ``(p,)``."""
        log_free = pt.as_tensor_variable(log_free, dtype="float64")
        return Apply(self, [log_free], [pt.dscalar(), pt.tensor(dtype="float64", shape=(self.target.start.size,))])

    def infer_shape(self, *args: Any) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs; the last argument holds those of the inputs, in old and new PyTensor."""
        return [(), args[-1][0]]

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: Sequence[list[Any]]) -> None:
        """Solve, and store the value and the gradient."""
        answer = None
        try:
            with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
                answer = Objective(self.target, EvidenceScore())(inputs[0])
        except FAILURES:
            pass  # counted below
        value, gradient = (-np.inf, np.zeros(inputs[0].shape)) if answer is None else answer
        with self._counting:
            self.n_evaluations += 1
            self.n_failures += answer is None
            self.advance(f"{self.n_evaluations} solutions, log target {value:.2f}")
        output_storage[0][0] = np.array(value, dtype=np.float64)
        output_storage[1][0] = np.array(gradient, dtype=np.float64)

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivative in the free logarithms, given that in the value."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            raise NotImplementedError("only the value of LogTarget can be differentiated, and only once.")
        return [cotangents[0] * outputs[1]]

    L_op = pullback  # the name in PyTensor 2


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


def _log_target(objective: Objective, draws: Array, advance: Advance) -> Array:
    """Return log evidence plus log prior at each draw; the backends report it with other terms, by other names."""
    values: list[float] = []
    for k, draw in enumerate(draws):
        if k and np.array_equal(draw, draws[k - 1]):
            values.append(values[-1])  # a rejected step
            continue
        value = objective.value(draw)
        values.append(-np.inf if value is None else value)
        advance(f"log target at draw {k + 1} of {len(draws)}")
    return np.array(values)


def _warn(diverging: NDArray[np.bool_], density: LogTarget) -> None:
    if diverging.any():
        warnings.warn(
            f"{int(diverging.sum())} of {diverging.size} trajectories diverged; {density.n_failures} of "
            f"{density.n_evaluations} points, tuning included, had no solution. Draws from nearby may be missing: use "
            "a target_accept nearer to 1, narrower bounds or priors, or allow noise in the likelihood.",
            ConvergenceWarning,
            stacklevel=4,
        )
