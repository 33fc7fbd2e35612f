"""The two types that every layer shares: a float64 array and the answer of a likelihood."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array; its shape stands in the docstring of whatever takes or returns it."""


class Derivs(NamedTuple):
    """A function of one latent value per case, with its first two derivatives.

    Attributes
    ----------
    value : (n,) array
        The function, in nats.
    d1, d2 : (n,) array
        First and second derivative with respect to the latent value or to its mean.
    """

    value: Array
    d1: Array
    d2: Array
