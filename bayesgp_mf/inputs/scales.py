"""Whether the scale of inputs and offsets suits the model: warnings where no case says anything about another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayesgp_mf.errors import warn
from bayesgp_mf.inference.assembly import diagonal_of_cross
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

UNRELATED = 1e-8
"""Prior correlation below which two cases say nothing about each other, whatever their labels."""
ONE = 1.0 - 1e-12
"""Prior correlation from which on two latent values are one and the same."""
LARGEST_LOG = 53 * np.log(2.0)
"""Of whole numbers that a double holds."""
FEWEST = 3
"""Cases whose distances say something of a scale."""
BLOCK = 32
"""Cases whose correlations with all others are asked for at once."""
PROBED = 24
"""Cases at which other scales are tried."""
DECADES = 320
"""By how many powers of ten inputs are shrunk or stretched then, as far as doubles go; correlations fall from 0.99 to
0.01 over more than one of them."""


def warn_of_scale(X: Array, kernels: Iterable[Kernel]) -> None:
    """Warn if most cases are unrelated to all others under every kernel, or all are one, because of the inputs' scale.

    What is so at any scale is so by design: noise of the cases' own, a constant, inputs at right angles under a dot
    product.

    Parameters
    ----------
    X : (n, d) array
        Inputs.
    kernels : iterable of Kernel
        The one that was given and, where a search went on from it, those it came to.
    """
    if X.shape[0] < FEWEST:
        return
    message = None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for kernel in kernels:
            message = _complaint(kernel, X)
            if message is None:
                return
    if message is not None:
        warn(
            f"{message} Scale the inputs, such as by (X - X.mean(axis=0)) / X.std(axis=0), or choose length scales in "
            "their units.",
            UserWarning,
        )


def warn_of_offset(offset: Array | None, likelihood: Likelihood) -> None:
    """Warn if an offset of counts is no logarithm of an exposure, as far as that is seen from its size."""
    if offset is None or not likelihood.whole_targets:
        return
    largest = float(np.max(np.abs(offset)))
    if largest > LARGEST_LOG:
        warn(
            f"offset has numbers as large as {largest:.3g}, and it is added to the logarithm of a rate: no logarithm "
            f"of a count is beyond {LARGEST_LOG:.0f}. Of a population or an exposure give the log, "
            "offset=np.log(population).",
            UserWarning,
        )


def _complaint(kernel: Kernel, X: Array) -> str | None:
    """Return what is wrong with the scale of inputs, or None."""
    n, scale = X.shape[0], np.sqrt(diagonal_of_cross(kernel, X))
    related = np.zeros(n, dtype=bool)
    for start in range(0, n, BLOCK):
        rows = np.arange(start, min(start + BLOCK, n))
        correlation = _correlation(kernel, X[rows], X, scale[..., rows], scale)
        correlation[:, np.arange(rows.size), rows] = np.nan  # with itself
        if start == 0 and not np.any(correlation < ONE):
            if not _between(kernel, X, 1):
                return None
            return f"To this kernel the inputs are so close that all {n} cases have one latent value."
        connected = np.any(np.abs(correlation) > UNRELATED, axis=0)
        related[rows] |= connected.any(axis=1)
        related |= connected.any(axis=0)
        if 2 * np.count_nonzero(related) >= n:
            return None
    if not _between(kernel, X, -1):
        return None
    return (
        f"To this kernel the inputs are so far apart that {n - np.count_nonzero(related)} of {n} cases have no prior "
        f"correlation above {UNRELATED:.0e} with any other: nothing is learnt from one about another."
    )


def _correlation(kernel: Kernel, A: Array, B: Array, scale_a: Array, scale_b: Array) -> Array:
    """Return correlations ``(classes, a, b)`` under a kernel, without noise of the cases' own."""
    correlation = kernel.cross(A, B) / (scale_a[..., :, None] * scale_b[..., None, :])
    return np.reshape(correlation, (-1, *correlation.shape[-2:]))


def _between(kernel: Kernel, X: Array, sign: int) -> bool:
    """Tell whether some pairs have correlations between 0 and 1 where the inputs are stretched, or shrunk (sign -1)."""
    some = X[:: -(-X.shape[0] // PROBED)].copy()
    numbers, groups = (kernel.readers(how, X.shape[1]) for how in ("numbers", "groups"))
    stretched = sorted(numbers.keys() - groups.keys())  # codes have no scale
    for _ in range(DECADES):
        some[:, stretched] *= 10.0**sign
        if not np.all(np.isfinite(some)) or not np.any(some[:, stretched]):
            return False
        scale = np.sqrt(diagonal_of_cross(kernel, some))
        size = np.abs(_correlation(kernel, some, some, scale, scale))
        if np.any((size > 0.01) & (size < 0.99)):
            return True
    return False
