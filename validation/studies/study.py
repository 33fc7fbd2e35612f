"""What a study is: tasks that compute plain numbers, and what follows from all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from validation.reporting.checks import Check

if TYPE_CHECKING:
    from bayesgp_mf.reports.page import Block


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of a study, which some process computes on its own.

    Attributes
    ----------
    name : str
        Unique within the study.
    function : callable
        At the top level of a module. Takes the arguments by name, seeds among them, and returns what JSON can hold: the
        same for the same arguments.
    arguments : mapping
        What JSON can hold.
    cost : float
        Roughly how long it takes, in any unit; the longest are begun first.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    cost: float = 1.0

    def digest(self, code: str) -> str:
        """Return a name for its result: that of the function, its arguments and the code it runs, all hashed."""
        what = [self.function.__module__, self.function.__qualname__, dict(self.arguments), code]
        return hashlib.sha256(json.dumps(what, sort_keys=True, allow_nan=False).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a study found.

    Attributes
    ----------
    checks : tuple of Check
        Its numbers against their tolerances.
    blocks : tuple of str, Table or Figures
        What the report says: set-up, tables, figures, and what falls short and why.
    """

    checks: tuple[Check, ...]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """A question about the approximations, and how to answer it.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    title : str
        Of its section in the report.
    tasks : sequence of Task
        What must be computed.
    conclude : callable
        Makes the findings from the results, by name of the task.
    """

    name: str
    title: str
    tasks: Sequence[Task]
    conclude: Callable[[Mapping[str, Any]], Findings]

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise ValueError(f"study {self.name!r} has two tasks of one name, among {names}.")
