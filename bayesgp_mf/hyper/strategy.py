"""The base class of every way to choose hyperparameters: what each must do, and defaults of all else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from bayesgp_mf.hyper.result import Advance, HyperResult
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solution import check_flag
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.methods import MethodName
from bayesgp_mf.parallel import Backend, backend, check_client


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
        check_positive_integers(starts=self.starts, processes=self.processes)
        check_client(self.client)
        check_flag("corrected", self.corrected)

    @property
    def name(self) -> str:
        """What users call it by."""
        return type(self).__name__

    @abstractmethod
    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Return the model, or models, that the data speak for: kernels with their likelihoods."""

    def solutions(self, target: Target) -> int | None:
        """Return how many solutions it will take, about, for a warning before a long choice; None if not known."""
        return None

    def with_starts(self, starts: int) -> Self:
        """Return the same search from another number of starts; what is none stays as it is."""
        return self

    def workers(self) -> Backend:
        """Return where solutions that know nothing of each other are computed."""
        return backend(self.processes, self.client)
