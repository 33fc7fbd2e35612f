r"""Several classes in many bits: Laplace's mode under a softmax, and TAP where there are two.

The latent values of all cases and classes are one vector, a case's classes next to each other. Two classes depend on
f_1 - f_0 alone, whose prior covariance is the sum of theirs: TAP for them is TAP for a logistic likelihood, or for a
probit with flips.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat

from bayesgp_mf import Logit, MultinomialProbit, Probit
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array
from validation.stress.densities import density
from validation.stress.digits import Numbers, dot, floats, matrix, numbers, solved, times, total
from validation.stress.fixed_points import tap
from validation.stress.posterior import NoTruthError, Truth, rounding, shift_of

STEPS = 100
SOLVED = 1e-11
"""Largest change of a latent value by the last step, in posterior standard deviations."""


def softmax_laplace(gram: Array, t: Array, alpha: Array) -> Truth:
    """Return the mode next to given weights ``(n, C)`` and the Gaussian there."""
    n, n_classes = alpha.shape
    size, codes = n * n_classes, t.astype(np.intp)
    prior, weights = block_gram(gram, n_classes), numbers(alpha.ravel())
    change = float("inf")
    for _ in range(STEPS):
        f = times(prior, weights)
        pi = _shares(f, n_classes)
        curvature = _curvature(pi, n_classes)
        own = [arb(1 if k % n_classes == codes[k // n_classes] else 0) for k in range(size)]
        shift = [(wf + o - p).mid() for wf, o, p in zip(times(curvature, f), own, pi, strict=True)]
        one = arb_mat(size, size, [1 if k % (size + 1) == 0 else 0 for k in range(size * size)])
        try:
            covariance = solved((one + prior * curvature).mid(), prior)
        except ZeroDivisionError as error:
            raise NoTruthError("I + K W is singular") from error
        moved = times(covariance, shift)
        variance = [covariance[k, k] for k in range(size)]
        triples = zip(moved, f, variance, strict=True)
        change = float(max(floats(abs(a - b) / v.sqrt() if v > 0 else arb(0) for a, b, v in triples)))
        weights = [(b - w).mid() for b, w in zip(shift, times(curvature, moved), strict=True)]
        if change <= SOLVED:
            break
    else:
        raise NoTruthError(f"the mode could not be found: a step changes it by {change:.1e} posterior sd")
    pi = _shares(moved, n_classes)
    value = total(pi[i * n_classes + c].log() for i, c in enumerate(codes)) - dot(weights, moved) / 2
    value -= (one + prior * curvature).mid().det().mid().log() / 2
    as_floats = floats(weights)
    return Truth(moved, variance, value.mid(), rounding(prior, 0.5 * np.outer(as_floats, as_floats)))


def two_class_tap(gram: Array, t: Array, alpha: Array, likelihood: Any, site: Any) -> Truth:
    """Return TAP's solution for f_1 - f_0 from given weights ``(n, 2)`` and sites of both, under its own likelihood."""
    both = gram if gram.ndim == 3 else np.stack([gram, gram])
    prior = matrix(both[0]) + matrix(both[1])
    of_difference: Likelihood = Logit()
    if isinstance(likelihood, MultinomialProbit):
        # both have noise; a matrix site of the difference has its precision on the diagonal
        of_difference = Probit(2.0 * likelihood.noise_variance, likelihood.flip)
    if site.numbers.ndim == 3:
        precision = numbers(site.numbers[:, 1, 1])
    else:
        first, second = numbers(site.numbers[:, 0]), numbers(site.numbers[:, 1])
        precision = [(a * b / (a + b)).mid() if a + b > 0 else arb(0) for a, b in zip(first, second, strict=True)]
    shift = shift_of(prior, numbers(alpha[:, 1]), precision)
    return tap(prior, numbers(2.0 * t - 1.0), density(of_difference), precision, shift)


def block_gram(gram: Array, n_classes: int) -> arb_mat:
    """Return the prior covariance of all latent values, a case's classes next to each other."""
    n = gram.shape[-1]
    each = gram if gram.ndim == 3 else np.broadcast_to(gram, (n_classes, n, n))
    whole = np.zeros((n, n_classes, n, n_classes))
    for c in range(n_classes):
        whole[:, c, :, c] = each[c]
    return matrix(whole.reshape(n * n_classes, -1))


def _shares(f: Numbers, n_classes: int) -> Numbers:
    shares = []
    for start in range(0, len(f), n_classes):
        of_case = f[start : start + n_classes]
        largest = max(of_case, key=float)
        parts = [(value - largest).exp() for value in of_case]
        whole = total(parts)
        shares += [(part / whole).mid() for part in parts]
    return shares


def _curvature(pi: Numbers, n_classes: int) -> arb_mat:
    """Return W = diag(pi) - pi pi' of each case."""
    size = len(pi)
    entries = [arb(0)] * (size * size)
    for start in range(0, size, n_classes):
        for a in range(start, start + n_classes):
            for b in range(start, start + n_classes):
                entries[a * size + b] = (pi[a] * ((1 if a == b else 0) - pi[b])).mid()
    return arb_mat(size, size, entries)
