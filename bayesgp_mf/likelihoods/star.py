r"""Sites of a case of several classes: those that have the form of a star, and those that are any symmetric matrix.

A likelihood that does not change when a constant is added to all latent values of a case makes sites that do not see
that constant. Those of star form are

.. math:: W = \mathrm{diag}(w) - w w^T / \textstyle\sum_c w_c, \qquad w \ge 0,

C numbers for each case: what measurements of all C classes with precisions w tell when their common offset is unknown.
As conductances they are a star, the unknown offset its middle.

Labels that tell which of the latent values is largest, without noise, and labels that may be flipped make others:
differences :math:`f_t - f_c` are measured with nothing between the classes, or a label is so unlikely that it makes its
case *less* certain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.types import Array

_HALVINGS = 60  # of the interval for the logarithm of the sum of w
_HEAVIEST = 7.0  # its upper end: a class whose weight is some thousand times the others' is as good as any heavier


class InnerSites(NamedTuple):
    """Where an inner loop over the C - 1 comparisons of a label begins, and how far from its end it may stop."""

    precision: Array  # (n, C - 1)
    shift: Array  # (n, C - 1)
    tolerance: float


class StarSites(NamedTuple):
    """What one label of each case makes of the Gaussian of its latent values, by a site of star form."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C), of log Z in the means; the tilted mean is m + V gradient; rows sum to zero
    weight: Array  # w (n, C)
    inner: InnerSites | None = None  # from which those at Gaussians nearby are found sooner


class MatrixSites(NamedTuple):
    """The same by a site that is any symmetric matrix."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C), of log Z in the means; rows sum to zero
    precision: Array  # W (n, C, C), symmetric, of any sign; its rows sum to zero


def star_precision(weight: Array) -> Array:
    """Return W = diag(w) - w w'/sum(w) ``(n, C, C)`` of each case, from ``w (n, C)``."""
    outer = weight[:, :, None] * weight[:, None, :] / np.sum(weight, axis=1)[:, None, None]
    return np.asarray(weight[:, :, None] * np.eye(weight.shape[1]) - outer)


def star_root(weight: Array) -> Array:
    """Return F ``(n, C, C)`` with F F' = W, of rank C - 1, from ``w (n, C)``.

    With p the root of w/sum(w), a unit vector, W is S (I - p p') S for S = diag(w)^(1/2), and I - p p' its own square.
    """
    unit = np.sqrt(weight / np.sum(weight, axis=1, keepdims=True))
    projector = np.eye(weight.shape[1]) - unit[:, :, None] * unit[:, None, :]
    return np.asarray(np.sqrt(weight)[:, :, None] * projector)


def star_weights(diagonal: Array) -> Array:
    """Return w ``(n, C)`` such that diag(w) - w w'/sum(w) has a given diagonal.

    With s the sum and p = w/s that is :math:`p_c (1 - p_c) = D_c / s`: of the two roots the lower one for all classes
    but, where their sum would stay below one, that with the largest D_c. What is left is one equation for s.

    Parameters
    ----------
    diagonal : (n, C) array
        D >= 0, no entry above the sum of the others.
    """
    top = np.max(diagonal, axis=1, keepdims=True)
    scaled = diagonal / top
    largest = np.argmax(diagonal, axis=1)

    def shares(log_s: Array) -> Array:
        """Return the lower roots p at s = 4 exp(log_s) times the largest D."""
        ratio = scaled * np.exp(-log_s)[:, None]
        return np.asarray(0.5 * ratio / (1.0 + np.sqrt(np.maximum(1.0 - ratio, 0.0))))

    each = np.arange(diagonal.shape[0])
    upper = np.sum(shares(np.zeros(diagonal.shape[0])), axis=1) < 1.0
    low, high = np.zeros(diagonal.shape[0]), np.full(diagonal.shape[0], _HEAVIEST)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        p = shares(middle)
        own = p[each, largest]
        others = np.sum(p, axis=1) - own
        # all lower roots fall with s; one less the largest falls slower than the others do
        beyond = np.where(upper, others >= own, own + others < 1.0)
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    p = shares(0.5 * (low + high))
    p[each[upper], largest[upper]] = 1.0 - p[each[upper], largest[upper]]
    return np.asarray(p * 4.0 * np.exp(0.5 * (low + high))[:, None] * top)
