"""What a fit may say of each case beside its target: an offset of its latent value, and a weight."""

from __future__ import annotations

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.shifted import Shifted
from bayesgp_mf.likelihoods.weighted import Weighted
from bayesgp_mf.types import Array


def by_case(likelihood: Likelihood, offset: Array | None = None, weights: Array | None = None) -> Likelihood:
    """Return p(t | f + offset)^weights of cases, with those of the two that are given ``(n,)``.

    Raises
    ------
    UndefinedQuantityError
        If the likelihood forbids latent values, or is one of several classes: a `Softmax` takes weights.
    """
    if weights is not None:
        likelihood = likelihood.weighted(weights) or Weighted(likelihood, weights)
    return likelihood if offset is None else Shifted(likelihood, offset, of_prior=False)
