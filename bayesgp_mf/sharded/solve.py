"""TAP on inducing cases whose rows are on several machines: rounds of two messages, by the loop of `solvers.driver`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status, UndefinedQuantityError
from bayesgp_mf.inference.problem import status_in_words
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.matrices.factors import cholesky, symmetric, triangular_inverse
from bayesgp_mf.matrices.inducing import InducingGram
from bayesgp_mf.matrices.root import RootGradient
from bayesgp_mf.matrices.root_gram import RootCorrection
from bayesgp_mf.parallel import Answer, Backend
from bayesgp_mf.sharded.shard import Begin, Form, Measure, ShardModel, begin, form, gradient, measure
from bayesgp_mf.solvers.accuracy import EPS, rounding_decides, rounding_of_sums, unknown
from bayesgp_mf.solvers.driver import iterate
from bayesgp_mf.solvers.meanfield import MOST_SINGLE, NEAR_BY_STEPS
from bayesgp_mf.types import Array

RCOND = 1e-12
"""Part of the largest below which products of differences say nothing but rounding."""

LOSSES = 10
"""How often a piece of work is begun again, because shards were lost."""


class ShardedSolution(NamedTuple):
    """The solution on all shards.

    Attributes
    ----------
    precision : (M, M) array
        A, the posterior precision of the weights of the features.
    shift : (M,) array
        A times their mean.
    log_evidence : float
        In nats.
    info : Info
        How the iteration went.
    posterior : Measure
        The last message, from which the gradient goes on.
    """

    precision: Array
    shift: Array
    log_evidence: float
    info: Info
    posterior: Measure


def _assessed(info: Info, found: Answer, value: float, posterior: _Posterior) -> Info:
    """Return how well the numbers are known, as `solvers.accuracy` has it, or raise if rounding decides.

    Of known sites the equations are linear, A mu = L' b': what L' alpha is beside mu says how well they hold.
    """
    linear = (
        float(np.linalg.norm(posterior.inverse_factor @ (found["back"] - posterior.mean))) if found["linear"] else 0.0
    )
    mean_error = float(np.max([found["gap"], linear, rounding_of_sums(found["information"], found["weight"])]))
    rounding = EPS * max(float(np.sqrt(found["terms"])) - abs(value), 0.0)
    independent = float(found["independent"] / found["n"])
    info = replace(info, mean_error=mean_error, rounding=rounding, independent=independent)
    unsure = unknown(info)
    if unsure:
        raise rounding_decides("tap", " and ".join(unsure))
    return info


class _RestartError(Exception):
    """Some shards had to start from nothing, or single precision will not do: all begin again from where they are."""


class _Rounds:
    """The messages, numbered, and what came of the last: the states of TAP's iteration (`solvers.driver.Iterates`).

    Parameters
    ----------
    backend : Backend
        Of parts.
    model : ShardModel
        The model.
    number : int
        Of the last message.
    single : bool
        Whether the first rounds are in single precision.
    """

    def __init__(self, backend: Backend, model: ShardModel, number: int, single: bool) -> None:
        self.backend, self.model, self.number, self.single = backend, model, number, single
        self.count, self.cases = 0, 0.0
        self.posterior: _Posterior | None = None
        self.found: Answer = {}
        self._before: list[str] = []
        self._products: Array | None = None

    def begin(self, known: tuple[Array, Array] | None) -> None:
        """Let all shards match their sites to a posterior, or forget them."""
        self._ask(begin, lambda number: Begin(self.model, number, known))

    def first(self) -> float | None:
        """Begin again from here; return the largest change."""
        self._products = None
        return self._round(None, 0.0)

    def attempt(self, damping: float, by_newton: bool) -> tuple[float | None, bool]:
        """Try the next state; return the largest change there."""
        return self._round(None if self._products is None else _weights(self._products), damping), False

    def take(self) -> None:
        """Go to the state that was tried, and remember the differences."""
        self._before.append("take")
        self._products = self.found["products"]

    def forget(self) -> bool:
        """Forget all differences; return whether there were some."""
        had_some, self._products = self._products is not None and bool(self._products.any()), None
        self._before.append("forget")
        return had_some

    def keep(self) -> bool:
        """Call this state the best."""
        self._before.append("keep")
        return False

    def back(self) -> None:
        """Return to the best state, without any differences."""
        self._products = None
        self._before.append("back")

    @property
    def has_posterior(self) -> bool:
        """Whether a posterior follows from the sites that were tried last."""
        return self.posterior is not None and not self.found["refused"]

    def _round(self, weights: Array | None, damping: float) -> float | None:
        """Let all shards go on; return by how much their sites would change, or None where there is no posterior."""
        before, self._before = tuple(self._before), []
        self.count += 1
        formed = self._ask(form, lambda number: Form(self.model, number, before, weights, damping, self.single))
        self.posterior = None if formed["lost"] else _posterior(formed, self.model.points.shape[0])
        self.found = formed if self.posterior is None else self._measured(self.posterior)
        if self.found["lost"]:  # the sum that the posterior comes from is not that of all
            raise _RestartError
        if not self.has_posterior:
            if self.single:  # which may be all that is wrong
                self.single = False
                raise _RestartError
            return None
        size, self.cases = float(self.found["size"]), float(self.found["n"])
        if not self.single:
            return size
        self.single = size > NEAR_BY_STEPS and self.count < MOST_SINGLE
        return max(size, NEAR_BY_STEPS)  # what is less is not known yet

    def _measured(self, posterior: _Posterior) -> Answer:
        factor, mean = posterior.inverse_factor, posterior.mean
        return self._ask(measure, lambda number: Measure(self.model, number, factor, mean, self.single))

    def _ask(self, function: Callable[[Any, Any], Answer], message: Callable[[int], Any]) -> Answer:
        self.number += 1
        return self.backend.map_reduce(function, message(self.number))


def shards_lost() -> RuntimeError:
    """Return the error of work in which shards are lost sooner than they answer."""
    return RuntimeError(
        f"shards were lost {LOSSES} times in the same piece of work: their workers end sooner than they answer. Look "
        "into the logs of the workers, give them more memory, or use more and smaller parts."
    )


def solve(
    backend: Backend,
    model: ShardModel,
    control: Control,
    advance: Callable[[str], None],
    after: int = -1,
    known: tuple[Array, Array] | None = None,
) -> ShardedSolution:
    """Solve TAP's equations on all shards.

    Parameters
    ----------
    backend : Backend
        Of parts, `sources.Rows`.
    model : ShardModel
        The model.
    control : Control
        Tolerance and largest number of rounds, and whether to raise if they were not enough.
    advance : callable
        Takes a note of each round.
    after : int
        Number of the last message to the same shards, so that they start from their sites.
    known : (Array, Array), optional
        Factor and mean of the posterior of a part of the cases, to which the sites are matched before the first round.

    Raises
    ------
    ConvergenceError
        If the equations were not solved and ``control.throw``, or there is no posterior to return.
    NotPositiveDefiniteError
        If rounding decides.
    """
    linear = model.likelihood.known_sites(np.zeros(1), 0.0) is not None
    rounds = _Rounds(backend, model, after, single=not linear and control.tolerance < NEAR_BY_STEPS)
    if known is not None:
        rounds.begin(known)
        try:
            return _solve(rounds, control, linear, advance)
        except ConvergenceError as error:
            if error.status is Status.MAX_ITERATIONS:
                raise
        rounds.begin(None)  # the straight way may lead where that did not
        rounds = _Rounds(backend, model, rounds.number, single=control.tolerance < NEAR_BY_STEPS)
    return _solve(rounds, control, linear, advance)


def _solve(rounds: _Rounds, control: Control, linear: bool, advance: Callable[[str], None]) -> ShardedSolution:
    began = time.monotonic()

    def shown(iteration: int, smallest: float) -> None:
        speed = rounds.cases * iteration / max(time.monotonic() - began, 1e-9)
        how_far = f"largest change {smallest:.1e} (tolerance {control.tolerance:.0e})"
        advance(f"round {iteration}, {how_far}, {speed:,.0f} cases a second")

    for _ in range(LOSSES):
        try:
            info = iterate(rounds, control, shown, rounds.count)
            if info.status is not Status.CONVERGED and not control.throw:
                rounds.back()
                rounds.first()
            break
        except _RestartError:
            continue
    else:
        raise shards_lost()
    if info.status is Status.CONVERGED:
        shown(info.n_iterations, info.residual)
    if info.status is Status.CONVERGED or (not control.throw and rounds.has_posterior):
        return _solution(rounds, linear, info)
    what = status_in_words(info.status, rounds.model.likelihood, "tap")
    raise ConvergenceError(
        f"tap: {what} (residual {info.residual:.2g} after {info.n_iterations} rounds on shards)", info.status
    )


def _solution(rounds: _Rounds, linear: bool, info: Info) -> ShardedSolution:
    posterior, found = rounds.posterior, rounds.found
    assert posterior is not None
    value = found["value"] - 0.5 * posterior.log_det
    if linear:
        value -= 0.5 * float(posterior.mean @ posterior.mean)
    info = _assessed(replace(info, rank=posterior.mean.size), found | {"linear": linear}, value, posterior)
    last = Measure(rounds.model, rounds.number, posterior.inverse_factor, posterior.mean)
    return ShardedSolution(posterior.precision, posterior.shift, value, info, last)


def evidence_gradient(backend: Backend, solution: ShardedSolution) -> dict[str, Array] | None:
    """Return the derivatives of the log evidence in the parameters of the kernel, at fixed inducing inputs.

    None where some shard was lost since the solution, whose sites are then no longer there.
    """
    kernel, points = solution.posterior.model.kernel, solution.posterior.model.points
    factor = cholesky(np.asfortranarray(kernel.cross(points, points), dtype=np.float64))
    found = backend.map_reduce(gradient, solution.posterior)
    if found.pop("lost"):
        return None
    mean, inverse = solution.posterior.mean, solution.posterior.inverse_factor
    nothing = np.empty(0)  # no case is here
    gram = InducingGram(np.empty((0, len(points))), nothing, points, factor)
    correction = RootCorrection(gram, nothing, inverse)
    bar = RootGradient(gram, nothing, nothing, correction, nothing, (0.5 * mean, mean))
    result = {name[2:]: value for name, value in found.items() if name != "square"}
    for name, value in kernel.cross_vjp(points, points, bar.of_inducing(found["square"])).items():
        result[name] = result[name] + value
    wrong = [name for name, value in result.items() if not np.all(np.isfinite(value))]
    if wrong:
        raise UndefinedQuantityError(
            f"the derivative of the log evidence in {wrong[0]} is beyond what floating-point numbers hold. Give inputs "
            "and hyperparameters of ordinary size."
        )
    return result


class _Posterior(NamedTuple):
    precision: Array
    shift: Array
    inverse_factor: Array
    mean: Array
    log_det: float


def _posterior(answer: Answer, rank: int) -> _Posterior | None:
    """Return what follows from the sums of all shards, or None if no posterior does."""
    if answer["refused"]:
        return None
    precision = symmetric(answer["precision"])
    precision.ravel(order="K")[:: rank + 1] += 1.0
    if not np.all(np.isfinite(precision)):
        return None
    try:
        factor = cholesky(np.asfortranarray(precision))
    except NotPositiveDefiniteError:
        return None
    inverse = triangular_inverse(factor)
    mean = np.asarray(inverse.T @ (inverse @ answer["shift"]))
    return _Posterior(precision, answer["shift"], inverse, mean, 2.0 * float(np.sum(np.log(np.diag(factor)))))


def _weights(products: Array) -> Array | None:
    """Return how the last differences explain the change best, from their products with each other and with it."""
    k = int(np.count_nonzero(products.diagonal() > 0))
    if k == 0:
        return None
    # the oldest falls out of the memory of the shards when the newest comes in
    first = max(0, k - (products.shape[0] - 1))
    gram, right = products[first:k, first:k], products[first:k, -1]
    scale = 1.0 / np.sqrt(gram.diagonal())
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    kept = values > RCOND * values[-1]
    solved = vectors[:, kept] @ ((vectors[:, kept].T @ (scale * right)) / values[kept])
    return np.asarray(scale * solved)
