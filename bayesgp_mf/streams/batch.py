"""One batch of a stream: TAP on it, given all that the past says, and what it adds to that."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.assembly import diagonal_of_cross
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.matrices.inducing import own_part
from bayesgp_mf.streams.classes import check_rows
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.values import Cases, Values
from bayesgp_mf.types import Array

FELT = 1e-5
"""Part of the variance of a measurement that may come from what was left out of a basis that is to be whole."""


class Absorbed(NamedTuple):
    """What came of a batch.

    Attributes
    ----------
    factor : Factor
        The state after it.
    log_score : (m,) array
        Log density of each target, given the past alone, in nats.
    independent : float
        Mean part of the prior variances of the batch that the basis inputs did not explain.
    """

    factor: Factor
    log_score: Array
    independent: float


def _check_nothing_felt(left_out: Array, learned: Array) -> None:
    """Raise if what a basis leaves of cases, but noise of their own that a White kernel gives, is felt by the sites."""
    felt = float(np.max(left_out * np.linalg.norm(learned, 2, axis=(1, 2)), initial=0.0))
    if felt > FELT:
        raise NotPositiveDefiniteError(
            "some inputs are determined by others up to rounding, and what rounding leaves of them is felt: it is "
            f"{felt:.1g} of the variance of a measurement. Give a budget, with which that counts as noise of the cases'"
            " own, allow more noise, or take a smaller variance."
        )


def predictive(factor: Factor, kernel: Any, X: Array) -> Cases:
    """Return what a factor says of cases ``(m, d)``."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        features = factor.features(kernel, X)
        prior = np.array(np.broadcast_to(kernel.diag(X), (X.shape[0],)), dtype=np.float64)
    own = prior - np.einsum("ij,ij->j", features, features)
    if not np.all(np.isfinite(prior)):
        raise NotPositiveDefiniteError(f"the prior variance of case {int(np.argmax(prior))} overflows under {kernel!r}")
    return Cases(features, *factor.moments(features), own_part(own, prior, "basis inputs"), prior)


def absorb(
    factor: Factor,
    kernel: Any,
    X: Array,
    t: Array,
    values: Values,
    new: Array,
    control: Control,
    *,
    whole: bool = False,
) -> Absorbed:
    """Return the state after a batch, and how well the past predicted it.

    Parameters
    ----------
    factor : Factor
        The state before.
    kernel : Kernel
        Prior covariance.
    X, t : (m, d) and (m,) array
        The batch.
    values : Values
        The latent values of the cases, with their likelihood p(t | f).
    new : (k, d) array
        Inputs that join the basis, as far as they are not determined by others.
    control : Control
        Of TAP on the batch.
    whole : bool
        Whether nothing is to be left out of the basis but what makes no difference.

    Raises
    ------
    ValueError
        If, with ``whole``, the basis inputs are too many for so many classes.
    ConvergenceError, NotPositiveDefiniteError
        If the batch has no solution given the past, or, with ``whole``, inputs that are left out because others
        determine them up to rounding make a difference.
    """
    log_score = values.log_density(predictive(factor, kernel, X), t)
    if len(new):
        factor = factor.with_points(kernel, new)
    if whole:
        check_rows(factor.size, values.outputs)
    if factor.size == 0:  # all values are certain, or independent of all others: nothing is learned
        return Absorbed(factor, log_score, 1.0)
    cases = predictive(factor, kernel, X)
    learned = values.natural_parameters(factor, cases, t, control)
    if whole:
        _check_nothing_felt(cases.own - (kernel.diag(X) - diagonal_of_cross(kernel, X)), learned.precision)
    share = np.divide(cases.own, cases.prior, out=np.zeros_like(cases.own), where=cases.prior > 0)
    return Absorbed(factor.with_sites(cases.features, *learned), log_score, float(np.mean(share)))
