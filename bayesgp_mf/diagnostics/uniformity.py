"""Whether ranks are uniform: their distribution function against bands that hold for all ranks at once [1]_.

References
----------
.. [1] Säilynoja, T., Bürkner, P.-C., & Vehtari, A. (2022). Graphical test for discrete uniformity and its applications
   in goodness-of-fit evaluation and multiple sample comparison. Statistics and Computing 32, 32.
   https://doi.org/10.1007/s11222-022-10090-6
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from bayesgp_mf.types import Array

SIMULATIONS = 4000
"""Sets of uniform ranks; they tell probabilities down to one in so many."""


@dataclass(frozen=True)
class UniformRanks:
    """Sets of ranks that are uniform, to hold others against.

    Attributes
    ----------
    count : int
        Ranks in a set.
    draws : int
        A rank is one of 0, ..., draws.
    """

    count: int
    draws: int

    @property
    def levels(self) -> Array:
        """The distribution function ``(draws,)`` of a uniform rank, but for its last value, which is one."""
        return np.arange(1.0, self.draws + 1.0) / (self.draws + 1.0)

    @cached_property
    def _tails(self) -> Array:
        """Two-sided tail probability ``(draws, count + 1)`` of each number of ranks at or below each value."""
        found = np.arange(self.count + 1)[None, :]
        chance = self.levels[:, None]
        below, above = binom.cdf(found, self.count, chance), binom.sf(found - 1, self.count, chance)
        return np.asarray(2.0 * np.minimum(below, above))

    @cached_property
    def _smallest(self) -> Array:
        """The smallest tail probability of each simulated set, sorted."""
        rng = np.random.default_rng(0)
        sets = rng.multinomial(self.count, np.full(self.draws + 1, 1.0 / (self.draws + 1)), size=SIMULATIONS)
        return np.sort(self._smallest_of(np.cumsum(sets, axis=1)[:, :-1]))

    def _smallest_of(self, found: NDArray[np.int64]) -> Array:
        return np.asarray(self._tails[np.arange(self.draws), found].min(axis=-1))

    def p_value(self, ranks: ArrayLike) -> float:
        """Return the share of uniform sets that are somewhere as far off as ``ranks (count,)`` are somewhere."""
        smallest = self._smallest_of(self._found(ranks))
        as_far = int(np.searchsorted(self._smallest, smallest * (1.0 + 1e-12), side="right"))
        return (as_far + 1.0) / (SIMULATIONS + 1.0)

    def spread(self, ranks: ArrayLike) -> float:
        """Return the mean squared deviation of ranks from their middle, relative to that of uniform ones."""
        share = (np.asarray(ranks) + 0.5) / (self.draws + 1.0)
        return float(np.mean((share - 0.5) ** 2) * 12.0 / (1.0 - (self.draws + 1.0) ** -2))

    def excess(self, ranks: ArrayLike) -> Array:
        """Return the distribution function of ranks ``(count,)`` less that of uniform ones, ``(draws,)``."""
        return self._found(ranks) / self.count - self.levels

    def band(self, level: float) -> tuple[Array, Array]:
        """Return limits ``(draws,)`` of `excess` within which all of it stays for a share ``level`` of uniform sets."""
        tail = 0.5 * float(np.quantile(self._smallest, 1.0 - level))
        low, high = binom.ppf(tail, self.count, self.levels), binom.isf(tail, self.count, self.levels)
        return low / self.count - self.levels, high / self.count - self.levels

    def _found(self, ranks: ArrayLike) -> NDArray[np.int64]:
        """Return how many ranks are at most 0, 1, ..., draws - 1."""
        given = np.asarray(ranks)
        if given.shape != (self.count,) or given.dtype.kind not in "iu" or given.min() < 0 or given.max() > self.draws:
            raise ValueError(f"expected {self.count} whole ranks from 0 to {self.draws}, got {given!r}.")
        return np.cumsum(np.bincount(given, minlength=self.draws + 1))[:-1]
