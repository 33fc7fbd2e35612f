"""The face of every way to choose hyperparameters, and what a strategy may say of itself besides."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from bayesgp_mf.hyper.result import Advance, HyperResult
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.parallel import Backend, backend


@runtime_checkable
class Strategy(Protocol):
    """A way to choose hyperparameters.

    It may have more attributes: ``averages``, True if it ends in many models, with draws of its own or weights to draw
    by; ``records``, the names of dimensions of its own, which parameters of a model must not have then;
    ``solutions``, which returns how many solutions it will take for a target, about, so that a user is told before how
    long it will be; and ``processes`` and ``client``, where solutions that know nothing of each other are computed.
    """

    @property
    def name(self) -> str:
        """What users call it by."""

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Return the model, or models, that the data speak for: kernels with their likelihoods."""


@runtime_checkable
class Restartable(Strategy, Protocol):
    """A strategy that searches from a number of starts, which may be given by itself: ``fit(..., starts=5)``."""

    def with_starts(self, starts: int) -> Strategy:
        """Return the same strategy with another number of starts."""


def averages(strategy: Strategy) -> bool:
    """Return whether a strategy ends in many models; one that does not say so ends in one."""
    return bool(getattr(strategy, "averages", False))


def solutions(strategy: Strategy, target: Target) -> int | None:
    """Return how many solutions a strategy will take, about; None if it does not say."""
    count = getattr(strategy, "solutions", None)
    return None if count is None else int(count(target))


def records(strategy: Strategy) -> tuple[str, ...]:
    """Return the names of the dimensions of a strategy's record that are its own; one that names none has none."""
    return tuple(getattr(strategy, "records", ()))


def workers(strategy: Strategy) -> Backend:
    """Return where a strategy has its solutions computed; of one that does not say, here."""
    return backend(getattr(strategy, "processes", 1), getattr(strategy, "client", None))
