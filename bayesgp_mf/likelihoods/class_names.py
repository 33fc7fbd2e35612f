"""The classes of a likelihood of several, as users name them, and the part of it that holds them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bayesgp_mf.likelihoods.base import ClassLikelihood

_MISSING = ("None", "nan", "NaT", "<NA>")  # how Python, NumPy and pandas write what is missing


def checked_classes(classes: Any) -> tuple[Any, ...]:
    """Return classes as a tuple, or raise a ValueError if they are fewer than two, alike, missing, or without order."""
    if isinstance(classes, str | Set) or not isinstance(classes, Iterable):  # a set has no order
        raise ValueError(f"classes must be a sequence of labels such as ('a', 'b', 'c'), got {classes!r}.")
    given = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    if not all(isinstance(c, Hashable) and (isinstance(c, str) or str(c) not in _MISSING) for c in given):
        raise ValueError(f"classes must be labels such as text or numbers, none of them missing, got {given!r}.")
    names = [str(label) for label in given]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"classes must be two or more, with names that differ, got {names}.")
    return tuple(given)


def described_classes(classes: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return the names of the classes as a file holds them, where they are known."""
    return {} if classes is None else {"classes": [str(label) for label in classes]}


@dataclass(frozen=True, slots=True)
class NamedClasses(ClassLikelihood):
    """What a likelihood with a latent value for each class knows of its classes.

    Attributes
    ----------
    classes : tuple or None
        All classes there are, in order; None where the labels decide.
    """

    classes: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", checked_classes(self.classes))

    @property
    def n_classes(self) -> int | None:
        """Number of classes C, or None where the labels decide."""
        return None if self.classes is None else len(self.classes)

    def with_classes(self, classes: tuple[str, ...]) -> Self:
        """Return the likelihood with its classes named."""
        return replace(self, classes=classes)
