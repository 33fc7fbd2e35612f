"""A sum that is the same whoever adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Answer: TypeAlias = dict[str, Any]
"""Numbers and arrays by name, which are added up name by name."""


def added(one: Answer, other: Answer) -> Answer:
    """Return the sum of two answers, name by name."""
    return {name: one[name] + other[name] for name in one}


def tree_sum(answers: Sequence[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """Return the sum of answers, in pairs and in order, so that it is the same whoever adds."""
    level = list(answers)
    while len(level) > 1:
        level = [add(*level[k : k + 2]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]
