"""Whether a model fits its data, by its leave-one-out predictions: what an approximation's quality says nothing of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, logsumexp, xlog1py, xlogy
from scipy.stats import t as student_t

from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.container.loo import log_densities
from bayesgp_mf.diagnostics.predicted import Predicted, predicted
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.counts import log_choose
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.types import Array

INTERVAL = 0.9
"""Probability of the central intervals whose coverage is counted."""
WORSE = 1.0
"""Nats of all cases by which a model must be worse than a constant to be called so."""
DEVIATIONS = 3.0
"""Standard deviations of a binomial share, beyond which a coverage is not one by chance."""
FEWEST, FEWEST_COVERED = 5, 20
"""Cases; a constant says nothing of fewer, left out one by one, and neither does a share of them."""


@shown_as_table(lambda found: found.sentence or "Nothing is seen against the model.")
class Misfit(NamedTuple):
    """How a model predicts its own cases, each from the others.

    Attributes
    ----------
    cases : int
        How many there are.
    loo : float
        Mean leave-one-out log predictive density, in nats a case.
    constant : float or None
        The same of a constant: of the shares of the classes, of one rate of Poisson counts, or of a Gaussian, whose
        parameters are integrated under Jeffreys' prior; under another likelihood of counts, as the negative binomial of
        the fit, at the rate of the other cases. None where measurements have weights, or cases are too few.
    coverage : float or None
        Part of the cases that lie in the central intervals which should hold 90 % of them; of whole numbers, which
        have steps, as if these were smoothed. None for classes and levels, and where the likelihood does not know.
    """

    cases: int
    loo: float
    constant: float | None
    coverage: float | None

    @property
    def sentence(self) -> str:
        """What is wrong with the model, and what to do; empty if nothing was found."""
        found = []
        if self.constant is not None and self.cases * (self.constant - self.loo) > WORSE:
            beside = f"{self.loo:.3f} and {self.constant:.3f} nats a case"
            found.append(f"it predicts cases worse than a constant does ({beside})")
        if self.coverage is not None and self.cases >= FEWEST_COVERED:
            allowed = DEVIATIONS * np.sqrt(INTERVAL * (1.0 - INTERVAL) / self.cases)
            if abs(self.coverage - INTERVAL) > allowed:
                how = "narrow" if self.coverage < INTERVAL else "wide"
                found.append(f"its {INTERVAL:.0%} intervals are too {how}, they hold {self.coverage:.0%} of the cases")
        if not found:
            return ""
        return (
            f"The model misfits: {', and '.join(found)}, each case predicted from the others. That is of the model, "
            "and not of the approximation to it: choose hyperparameters by hyper=, or another kernel or likelihood."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row with the numbers; NaN where there is none."""
        return pd.DataFrame([self], columns=self._fields, index=["model"]).astype(float).astype({"cases": int})


def misfit(
    idata: Container, *, kernel: Any = None, likelihood: Likelihood | None = None, method: Solver | None = None
) -> Misfit:
    """Return how a model predicts its own cases, each from the others: beside a constant, and in its intervals.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    Misfit
        Numbers, and a ``sentence``, which is empty if nothing is wrong.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package.
    UndefinedQuantityError
        If the container has no leave-one-out predictions.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(0.0, 3.0, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + np.random.default_rng(1).normal(size=40)
    >>> gaussian = bgp.likelihoods.Gaussian(0.1)  # a tenth of the variance that there is
    >>> idata = bgp.fit(X, y, bgp.kernels.Gaussian(), gaussian, draws=10, random_seed=1)
    >>> found = bgp.diagnostics.misfit(idata)
    >>> found.loo < found.constant, found.coverage < 0.7
    (True, True)
    """
    return misfit_of(idata, predicted(idata, kernel=kernel, likelihood=likelihood, method=method))


def misfit_of(idata: Container, found: Predicted) -> Misfit:
    """Return the same where the cases have been left out already."""
    each, data = log_densities(idata).values, get_group(idata, "constant_data")
    offset = np.asarray(data["offset"].values, dtype=np.float64) if "offset" in data else np.zeros(len(each))
    weights = np.asarray(data["weights"].values, dtype=np.float64) if "weights" in data else np.ones(len(each))
    constant = _of_constant(found, offset, weights) if len(each) >= FEWEST else None
    return Misfit(
        len(each),
        float(np.mean(each)),
        None if constant is None else float(np.mean(constant)),
        None if found.classes else _coverage(found),
    )


def _of_constant(found: Predicted, offset: Array, weights: Array) -> Array | None:
    """Return the log density ``(n,)`` of each target under a constant that was learned from the others."""
    y = np.asarray(found.targets, dtype=np.float64)
    if found.classes:
        return _of_shares(found.targets.astype(np.intp), len(found.classes), weights)
    likelihood: Any = found.settings[0].likelihood
    if not found.is_whole:
        if not likelihood.all_seen or not np.all(weights == 1.0):
            return None
        if likelihood.of_times:  # on the scale of their logarithms
            return _of_gaussian(likelihood.link(y) - offset) - np.log(y)
        return _of_gaussian(y - offset)
    if "trials" in likelihood.new_case_facts:
        return _of_share(y, np.broadcast_to(np.asarray(likelihood.trials, dtype=np.float64), y.shape), weights)
    if likelihood.parameters:
        return _at_rate(found, offset, weights)
    return _of_rate(y, offset, weights)


def _others(weighted: Array) -> Array:
    """Return the sums over all cases but one each."""
    return np.asarray(np.sum(weighted, axis=0) - weighted)


def _of_shares(codes: NDArray[np.intp], classes: int, weights: Array) -> Array:
    """Return the log average of p_c^w under Jeffreys' prior: (n_c + 1/2)/(n + C/2) of the others where w is 1."""
    own = (codes[:, None] == np.arange(classes)) * weights[:, None]
    a, total = 0.5 + _others(own)[np.arange(codes.size), codes], 0.5 * classes + _others(weights)
    return np.asarray(gammaln(a + weights) - gammaln(a) - gammaln(total + weights) + gammaln(total))


def _of_share(y: Array, trials: Array, weights: Array) -> Array:
    """Return the beta-binomial of each number of successes, by Jeffreys' prior of one share."""
    up, down = weights * y, weights * (trials - y)
    a, b = 0.5 + _others(up), 0.5 + _others(down)
    return np.asarray(weights * log_choose(trials, y) + betaln(a + up, b + down) - betaln(a, b))


def _of_rate(y: Array, offset: Array, weights: Array) -> Array:
    """Return the negative binomial of each count: a gamma distribution of the rate per exposure, exp(offset)."""
    # exposures relative to the largest: only ratios matter
    exposure = weights * np.exp(offset - np.max(offset))
    up = weights * y
    a, b = 0.5 + _others(up), _others(exposure)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = gammaln(a + up) - gammaln(a) - weights * gammaln(y + 1.0) - a * np.log1p(exposure / b)
        found -= xlog1py(up, b / exposure) + xlogy(up, weights)
    return np.asarray(np.where(np.isnan(found), -np.inf, found))


def _at_rate(found: Predicted, offset: Array, weights: Array) -> Array:
    """Return the density of each count under the likelihood of the fit, at the rate per exposure of the others."""
    offset = offset - np.max(offset)  # only ratios matter, as above
    with np.errstate(divide="ignore"):  # where no other case counts, any rate may be
        f = np.log((0.5 + _others(weights * found.targets)) / _others(weights * np.exp(offset))) + offset
    each = [weights * one.likelihood.log_prob(found.targets.astype(np.float64), f).value for one in found.settings]
    return np.asarray(logsumexp(each, b=np.array([one.weight for one in found.settings]), axis=0))


def _of_gaussian(y: Array) -> Array:
    """Return Student's t of each target, with the mean and the variance of the others."""
    n = y.size
    mean = (np.sum(y) - y) / (n - 1)
    squares = np.maximum(np.sum((y - y.mean()) ** 2) - (y - y.mean()) ** 2 * n / (n - 1), np.finfo(float).tiny)
    scale = np.sqrt(squares / (n - 2) * n / (n - 1))
    return np.asarray(student_t.logpdf(y, n - 2, mean, scale))


def _coverage(found: Predicted) -> float | None:
    """Return which part of the cases lies in the central intervals."""
    low, high = 0.5 * (1.0 - INTERVAL), 0.5 * (1.0 + INTERVAL)
    try:
        upper = found.below(found.targets)
        lower = found.below(found.targets - 1.0) if found.is_whole else upper
    except UndefinedQuantityError:
        return None
    if not found.is_whole:
        return float(np.mean((upper >= low) & (upper <= high)))
    width = np.maximum(upper - lower, np.finfo(float).tiny)
    return float(np.mean(np.clip((np.minimum(upper, high) - np.maximum(lower, low)) / width, 0.0, 1.0)))
