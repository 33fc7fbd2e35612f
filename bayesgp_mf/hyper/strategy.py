"""The base class of every way to choose hyperparameters, with defaults of what need not be stated; what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from bayesgp_mf.arguments import check_flags, check_integers
from bayesgp_mf.hyper.priors import Prior
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.methods import MethodName
from bayesgp_mf.parallel import Backend, backend, check_client
from bayesgp_mf.types import Array

Record: TypeAlias = dict[str, tuple[tuple[str, ...], Array]]
"""Arrays by name, each with the names of its dimensions."""

Advance: TypeAlias = Callable[[str], None]
"""Is called after each part of the work with a word on how it stands."""


@dataclass(frozen=True, slots=True, eq=False)
class HyperResult:
    """One model, or several with weights: kernels, and the likelihoods that go with them.

    Attributes
    ----------
    models : tuple of Model
        One for a point estimate; one for each draw or node otherwise.
    weights : (k,) array
        Sum to one.
    chains : int, optional
        Of Markov chains: the models are arranged as (chains, k // chains), with equal weights, and each is used once.
        None where draws of f are spread over the models by their weights.
    sampled : bool
        Whether the models are random draws, in the order in which they were drawn, so that averages over them have a
        Monte-Carlo error. Else they are the nodes of a rule, whose averages have none, and a container keeps the
        hyperparameters as nodes with weights.
    stats : dict
        Of each model, ``(k,)``: ``lp``, the log of what was maximised or integrated, in nats (a scan has none); others
        by strategy.
    record : dict
        How it went: for each name its dimensions and values. The dimension ``hyper`` is that of ``Target.names``.
    log_evidence : float, optional
        Of the one model, as a search for the highest saw it last: `fit` warns if it finds another.
    solutions : tuple of Solution or None
        At each model, as it was found from the prior, where that is known. None at all if nothing is known.
    lower : tuple of (float, Model)
        Of one model, others that a search saw, by how much lower they are, in nats: where the one cannot be solved as
        closely as a fit is.
    node_evidence : (k,) array, optional
        Of an average, the log evidence by which each model was weighed or drawn, in nats, without its log prior. It
        need not be that of the posterior: it may be corrected, or of another method. That of the
        posterior if not given.
    priors : mapping of str to Prior, optional
        Of an average, the priors under which its models were weighed, by name of a parameter, where the strategy had
        more than the target.
    """

    models: tuple[Model, ...]
    weights: Array
    chains: int | None = None
    sampled: bool = False
    stats: dict[str, Array] = field(default_factory=dict)
    record: Record = field(default_factory=dict)
    log_evidence: float | None = None
    solutions: tuple[Solution | None, ...] = ()
    lower: tuple[tuple[float, Model], ...] = ()
    node_evidence: Array | None = None
    priors: Mapping[str, Prior] | None = None

    @classmethod
    def average(
        cls, target: Target, points: Array, lp: Array, weights: Array | None = None, **stated: Any
    ) -> HyperResult:
        """Return an average over log parameters ``points (k, p)`` with log evidence plus log prior ``lp (k,)``.

        Their weights ``(k,)`` are equal if none are given; ``stated`` is all else, by the names of the attributes.
        """
        return cls(
            tuple(target.model_at(point) for point in points),
            np.full(len(points), 1.0 / len(points)) if weights is None else weights,
            node_evidence=lp - np.array([target.log_prior(point)[0] for point in points]),
            **{**stated, "stats": {"lp": lp, **stated.get("stats", {})}},
        )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernel of each model."""
        return tuple(model.kernel for model in self.models)

    def __post_init__(self) -> None:
        k = len(self.models)
        if not all(isinstance(model, Model) for model in self.models):
            raise ValueError(
                "models must be kernels with their likelihoods, as target.model_at(log_free) and "
                "target.model.replace(...) return them."
            )
        if self.weights.shape != (k,) or abs(float(np.sum(self.weights)) - 1.0) > 1e-9 or np.any(self.weights < 0):
            raise ValueError(f"weights must be {k} numbers >= 0 that sum to one, got {self.weights!r}.")
        if self.chains is not None:
            if k % self.chains:
                raise ValueError(f"{k} models cannot be arranged in {self.chains} chains of one length.")
            if not self.sampled or np.ptp(self.weights) > 1e-9 / k:
                raise ValueError(
                    "chains are of random draws with equal weights: give sampled=True and such weights, or no chains."
                )
        if self.node_evidence is not None and self.node_evidence.shape != (k,):
            raise ValueError(f"node_evidence must be None or have shape ({k},), got {self.node_evidence.shape}.")
        if len(self.solutions) not in (0, k):
            raise ValueError(f"solutions must be none at all or one for each of {k} models, got {len(self.solutions)}.")
        for name, values in self.stats.items():
            if values.shape != (k,):
                raise ValueError(f"stats[{name!r}] must have shape ({k},), got {values.shape}.")
        for name in self.record:
            if not name.startswith("hyper_"):
                raise ValueError(f"names in the record must begin with 'hyper_', as 'hyper_{name}' does, got {name!r}.")
        taken = sorted(self.stats.keys() & {"log_p", "log_q", "converged", "n_iterations", "node"})
        if taken:
            raise ValueError(
                f"stats must not be called {taken[0]!r}, which says something of the draws of f. Rename it."
            )


class Strategy(ABC):
    """A way to choose hyperparameters: a subclass has a ``name`` and `choose`, and may state more of itself.

    Attributes
    ----------
    name : str
        What users call it by.
    method : str, Solver or None
        The method by whose solutions `fit` lets it choose, if not that of the posterior (2000, section 9).
    averages : bool
        Whether it ends in many models, with draws of its own or weights to draw by.
    records : tuple of str
        Names of dimensions of its own in the record, which parameters of a model must not have then.
    for_evidence : bool
        Whether it is a search for the highest log evidence, with which inducing inputs can move.
    corrected : bool
        Whether it goes by TAP's log evidence with its second-order correction.
    starts : int
        From how many starts it searches.
    processes, client
        Where solutions that know nothing of each other are computed.
    """

    __slots__ = ()

    method: MethodName | Solver | None = None
    averages: ClassVar[bool] = False
    records: ClassVar[tuple[str, ...]] = ()
    for_evidence: ClassVar[bool] = False
    corrected: bool = False
    starts: int = 1
    processes: int = 1
    client: Any = None

    def __post_init__(self) -> None:
        """Raise a ValueError if an option that is common to strategies is out of its range."""
        check_integers(1, starts=self.starts, processes=self.processes)
        check_client(self.client)
        check_flags(corrected=self.corrected)

    @property
    def name(self) -> str:
        """What users call it by."""
        return type(self).__name__

    @abstractmethod
    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Return the model, or models, that the data speak for: kernels with their likelihoods."""

    def check(self, target: Target) -> None:
        """Raise a ValueError if it cannot choose for this model, which is known before any case is there."""
        return

    def solutions(self, target: Target) -> int | None:
        """Return how many solutions it will take, about, with those of the posteriors that it averages over.

        A long choice is warned of by this. None if it is not known.
        """
        return None

    def with_starts(self, starts: int) -> Self:
        """Return the same search from another number of starts; what is none stays as it is."""
        return self

    def workers(self) -> Backend:
        """Return where solutions that know nothing of each other are computed."""
        return backend(self.processes, self.client)
