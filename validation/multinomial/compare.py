"""The multinomial probit as `bayesgp_mf.fit` approximates it, held against the recorded samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.types import Array
from validation.multinomial.density import probabilities
from validation.multinomial.settings import Setting
from validation.sampling.recorded_classes import RecordedClasses

POINTS = 1024
"""Of a scrambled Sobol sequence, by which a cavity is averaged over: errors of some 0.001."""


class Compared(NamedTuple):
    """A fit beside a sample.

    Attributes
    ----------
    observed, predicted : array
        Largest difference of a probability, over the classes, of `bgp.predict` at the inputs of each case that was
        observed, and of each that was not.
    gaussian : array
        That of averages over the Gaussian posterior, at the inputs of the observed cases.
    tilted : array
        That of averages over cavity times likelihood, of the observed cases.
    log_evidence : float
        In nats.
    """

    observed: Array
    predicted: Array
    gaussian: Array
    tilted: Array
    log_evidence: float


def compare(setting: Setting, recorded: RecordedClasses) -> Compared:
    """Fit by TAP at fixed hyperparameters, and hold the probabilities of all cases against the sample."""
    n, likelihood, exact = setting.observed, bgp.MultinomialProbit(setting.class_names), recorded.probabilities.mean
    idata = bgp.fit(
        setting.X[:n],
        setting.labels[:n],
        setting.kernel,
        likelihood,
        method="tap",
        draws=1,
        chains=1,
        random_seed=1,
        progress=False,
    )
    posterior = bgp.posterior(idata)
    p = posterior.predict_proba(setting.X)
    gaussian = likelihood.predict_proba(*posterior.latent_covariance(setting.X[:n]))
    solution = bgp.solve(setting.gram[:n, :n], setting.codes[:n].astype(np.float64), likelihood)
    off = (p[:n] - exact[:n], p[n:] - exact[n:], gaussian - exact[:n], tilted(setting, solution) - exact[:n])
    return Compared(*(_largest(each) for each in off), float(get_group(idata, "fit")["log_evidence"]))


def tilted(setting: Setting, solution: Solution) -> Array:
    """Return the probabilities ``(n, C)`` of observed cases, averaged over cavity times likelihood."""
    assert solution.cavity is not None
    white = ndtri(qmc.Sobol(len(setting.class_names), seed=1).random(POINTS))
    averages = []
    for code, mean, covariance in zip(setting.codes, *solution.cavity, strict=False):
        p = probabilities(mean + white @ np.linalg.cholesky(covariance).T)
        averages.append(p[:, code] @ p / p[:, code].sum())
    return np.array(averages)


def _largest(difference: Array) -> Array:
    return np.asarray(np.abs(difference).max(axis=1))
