"""The data that is timed: drawn from the prior, of a known smooth function, of clusters with heavy tails, and Pima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, ndtr

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import mean_log_score
from bayesgp_mf.types import Array
from validation.benchmarks.timing import EVIDENCE, SCORE, STEPS

if TYPE_CHECKING:
    from bayesgp_mf.kernels import Kernel

SEED = 1
HALF_WIDTH = 3.0
"""The inputs of the smooth problem are uniform in the square of twice this width around zero."""
CLUSTERS, COLUMNS = 3, 10
"""Of each class, and of the inputs, of the table of clusters."""
SPREAD = 0.6
"""Standard deviation of the centres of clusters, in units of a cluster's own width."""


@dataclass(frozen=True, slots=True)
class Data:
    """Cases to fit and cases to be scored on.

    Attributes
    ----------
    X, y : (n, d) and (n,) array
        Inputs, labels 0/1.
    X_test, y_test : (m, d) and (m,) array
        The same, held out.
    true : (m,) array or None
        Probability of class 1 of the held-out cases, where the data were made.
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    true: Array | None = None

    @property
    def t(self) -> Array:
        """Labels -1/+1, ``(n,)``."""
        return 2.0 * self.y - 1.0

    def first(self, n: int) -> Data:
        """Return the first n cases to fit, with the same held out."""
        return Data(self.X[:n], self.y[:n], self.X_test, self.y_test, self.true)

    def score(self, probabilities: Array) -> float:
        """Return the mean log probability of the labels that were held out, in nats."""
        return mean_log_score(self.y_test, _inside(probabilities))

    def score_difference(self, probabilities: Array, others: Array) -> tuple[float, float]:
        """Return by how much the mean log score of some probabilities is above that of others, and its standard error.

        Both are of the same labels, so that most of the noise of each is not in their difference.
        """
        first, second = (np.where(self.y_test == 1, p, 1 - p) for p in (_inside(probabilities), _inside(others)))
        difference = np.log(first) - np.log(second)
        return float(np.mean(difference)), float(np.std(difference, ddof=1) / np.sqrt(difference.size))


def _inside(probabilities: Array) -> Array:
    """Return probabilities in [0, 1], which those of a peer may leave by rounding; by more is an error."""
    inside = np.clip(probabilities, 0.0, 1.0)
    if not np.max(np.abs(inside - probabilities)) <= 1e-12:
        raise ValueError(f"probabilities must be in [0, 1], got {np.min(probabilities)} to {np.max(probabilities)}.")
    return inside


class Fitted(NamedTuple):
    """What a fit is compared by.

    Attributes
    ----------
    log_evidence : float
        Of its own approximation to its own model, in nats.
    predict : callable
        Returns probabilities ``(m,)`` of class 1 at inputs ``(m, d)``.
    steps : int or None
        Of the iteration at fixed hyperparameters, or of the search for them; None where it is not said.
    """

    log_evidence: float
    predict: Callable[[Array], Array]
    steps: int | None = None

    def numbers(self, probabilities: Array, data: Data) -> dict[str, float | None]:
        """Return what stands beside its time, with ``probabilities (m,)`` predicted for the held-out cases."""
        return {STEPS: self.steps, EVIDENCE: self.log_evidence, SCORE: data.score(probabilities)}


def from_prior(kernel: Kernel, n: int, n_test: int, d: int) -> Data:
    """Return labels of one function, drawn from the prior, at inputs from N(0, I); probit with noise variance 1."""
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(), n=n, n_test=n_test, d=d, random_seed=SEED)
    return Data(toy.X, toy.y, toy.X_test, toy.y_test, np.asarray(ndtr(toy.f_test)))


def smooth_function(X: Array) -> Array:
    """Return a latent function of two inputs ``(m, 2)``, between -3 and 3."""
    return np.asarray(1.5 * np.sin(1.5 * X[:, 0]) + 1.5 * np.cos(1.2 * X[:, 1] + 0.5 * X[:, 0]))


def smooth(n: int, n_test: int) -> Data:
    """Return labels of the smooth function at uniform inputs; the probability of class 1 is the normal cdf of it."""
    inputs, labels = (np.random.default_rng(seed) for seed in np.random.SeedSequence(SEED).spawn(2))
    X = inputs.uniform(-HALF_WIDTH, HALF_WIDTH, (n + n_test, 2))
    true = ndtr(smooth_function(X))
    y = (labels.random(n + n_test) < true).astype(np.float64)
    # the held-out ones first: more cases to fit leave them, and the others, as they are
    return Data(X[n_test:], y[n_test:], X[:n_test], y[:n_test], true[:n_test])


def clusters(n: int, n_test: int) -> Data:
    """Return labels of two classes, each of several Gaussian clusters in ten columns; every other one has heavy tails.

    The columns are standardised. The probability of class 1 follows from the densities of the clusters.
    """
    shapes, cases = (np.random.default_rng(seed) for seed in np.random.SeedSequence(SEED).spawn(2))
    centres = shapes.normal(0.0, SPREAD, (2, CLUSTERS, COLUMNS))
    widths = shapes.uniform(0.4, 1.6, (2, CLUSTERS, COLUMNS))
    y = cases.integers(2, size=n + n_test)
    which = cases.integers(CLUSTERS, size=n + n_test)
    Z = centres[y, which] + widths[y, which] * cases.standard_normal((n + n_test, COLUMNS))
    log_density = np.stack([_log_density(Z, *of_class) for of_class in zip(centres, widths, strict=True)])
    true = expit(log_density[1] - log_density[0])
    X = np.where(np.arange(COLUMNS) % 2 == 0, Z, np.sinh(Z))  # monotone: the probabilities stay
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = y.astype(np.float64)
    return Data(X[n_test:], labels[n_test:], X[:n_test], labels[:n_test], true[:n_test])


def _log_density(Z: Array, centres: Array, widths: Array) -> Array:
    """Return the log density ``(m,)`` of a mixture of Gaussians, all as likely, at ``(m, d)``; up to a constant."""
    parts = [
        -0.5 * np.sum(((Z - centre) / width) ** 2, axis=1) - np.sum(np.log(width))
        for centre, width in zip(centres, widths, strict=True)
    ]
    return np.asarray(logsumexp(parts, axis=0))


def pima() -> Data:
    """Return the Pima data with the published split."""
    data = bgp.datasets.load_pima()
    return Data(data.X, (data.y == "Yes").astype(np.float64), data.X_test, (data.y_test == "Yes").astype(np.float64))
