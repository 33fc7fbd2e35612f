"""Prior covariances of several classes: one matrix for all of them, or one for each."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.types import Array


def of_class(gram: Array, c: int) -> Array:
    """Return the matrix of class ``c`` from one ``(n, m)`` that all share, or from a stack ``(C, n, m)``."""
    return gram if gram.ndim == 2 else gram[c]


def times_gram(values: Array, gram: Array) -> Array:
    """Return ``(..., m, C)``, for each class its values ``(..., n, C)`` times its matrix ``(n, m)``."""
    if gram.ndim == 2:
        return np.asarray(np.swapaxes(np.swapaxes(values, -1, -2) @ gram, -1, -2))
    return np.stack([values[..., c] @ gram[c] for c in range(values.shape[-1])], axis=-1)


def prior_variance(gram: Array, n_classes: int) -> Array:
    """Return the prior variances ``(n, C)``."""
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
    return np.array(np.broadcast_to(diagonal, (n_classes, gram.shape[-1])).T)
