"""Arguments that many functions have: counts, flags, and what a user calls a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

LARGEST_COUNT = 10**15
"""A larger number is a slip: nothing that is counted here would fit into memory, or come to an end."""


def as_generator(random_seed: Any) -> np.random.Generator:
    """Return the source of randomness that ``random_seed`` stands for, or raise a ValueError that names it."""
    try:
        if isinstance(random_seed, np.matrix):  # whose rows are matrices, for ever
            raise TypeError("a matrix is no seed")
        return np.random.default_rng(random_seed)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_seed must be a non-negative integer, a numpy.random.Generator or None, got {random_seed!r}."
        ) from error


def check_integers(least: Literal[0, 1], **options: object) -> None:
    """Raise a ValueError that names the first option that is no integer from 0 or 1 on, or a huge one from 1 on."""
    expected = "a positive integer" if least else "an integer of at least 0"
    for name, value in options.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be {expected}, got {value!r}.")
        if least and value > LARGEST_COUNT:
            raise ValueError(f"{name} must be at most {LARGEST_COUNT}, got {value!r}. Ask for fewer.")


def check_flags(**options: object) -> None:
    """Raise a ValueError that names the first option that is not True or False: 'no' would count as true."""
    for name, value in options.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_one_of(name: str, value: object, *names: str) -> None:
    """Raise a ValueError if an option is none of its names."""
    if not isinstance(value, str | None) or value not in names:  # what is no word may not know whether it is one
        raise ValueError(f"{name} must be {', '.join(map(repr, names[:-1]))} or {names[-1]!r}, got {value!r}.")


def as_mapping(argument: str, given: Any) -> Mapping[str, Any]:
    """Return what is given by name, which is nothing if it is None, or raise a ValueError."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{argument} must map names of parameters to what is known of them, got {given!r}.")
    return {} if given is None else given
