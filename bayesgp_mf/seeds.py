"""From what a user calls a seed to a source of randomness."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_generator(random_seed: Any) -> np.random.Generator:
    """Return the source of randomness that ``random_seed`` stands for, or raise a ValueError that names it."""
    try:
        return np.random.default_rng(random_seed)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_seed must be a non-negative integer, a numpy.random.Generator or None, got {random_seed!r}."
        ) from error
