"""How much each input does to what a fit says."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.diagnostics.settings import some_settings, weighted_quantiles
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

PAIRS, SHIFTS, SEED = 1000, 5, 0
"""Cases whose input is exchanged for that of another one, how often, and the seed of who with whom."""
NOTHING = 0.01
"""Share of the variance below which an input is said to do nothing."""


class Relevance(NamedTuple):
    """The total effect of each input on the posterior mean of the latent value.

    Attributes
    ----------
    features : tuple of str
        Names of the inputs.
    effect : (d,) array
        Share of the variance over cases that is lost if the input is exchanged between cases; 0 means no effect.
    low, high : (d,) array
        Its 5 and 95 % quantiles over the settings of the hyperparameters; equal to it where there is one setting.
    unused : (d,) bool array
        Whether the share is below 1 % at the upper quantile too.
    """

    features: tuple[str, ...]
    effect: Array
    low: Array
    high: Array
    unused: NDArray[np.bool_]


def relevance(
    idata: Container, *, kernel: Any = None, likelihood: Likelihood | None = None, method: Solver | None = None
) -> Relevance:
    r"""Return how much each input matters for the prediction: its total effect.

    .. math:: S_j = \frac{E (m(x) - m(x'))^2}{2 \,\mathrm{var}\, m(x)}

    where m is the posterior mean of the latent value, x a case, and x' the same with its j-th input taken from another
    case (Jansen 1999, Computer Physics Communications 117). It works for any kernel. It counts the effect of an input
    together with others, so the sum may exceed one. With several classes variances are summed over them. If inputs are
    correlated, an exchanged case may be impossible in reality. The variance is taken over the same pairs of cases.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    Relevance
        From up to 1000 cases, with a fixed seed.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, has fewer than two cases, or predicts the same for all cases.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [4.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian([1.0, 99.0], 4.0), draws=10, random_seed=1)
    >>> bgp.diagnostics.relevance(idata).unused
    array([False,  True])
    """
    fit = fitted(idata, kernel, likelihood, method)
    rng = np.random.default_rng(SEED)
    X = fit.X[rng.permutation(len(fit.X))[:PAIRS]]
    if len(X) < 2:
        raise ValueError("inputs are exchanged between cases, and this fit has one. Fit to more cases.")
    parts, weights = some_settings(fit.process)
    each = np.array([_total_effect(part.latent_mean_at, X) for part in parts])
    if not np.all(np.isfinite(each)):
        raise ValueError("the prediction is the same for all cases: no input does anything.")
    low, high = weighted_quantiles(each, weights, np.array([0.05, 0.95]))
    return Relevance(fit.names, weights @ each, low, high, high < NOTHING)


def _total_effect(latent_mean: Any, X: Array) -> Array:
    """Return the total effects ``(d,)``; NaN if the mean is the same everywhere."""
    n, d = X.shape
    here = latent_mean(X)
    shifts = np.unique(np.linspace(1, n - 1, SHIFTS).astype(int))  # with whom a case exchanges
    # twice the variance, by the same pairs of cases: an input that is alone then has all of it
    total = sum(np.sum((np.roll(here, shift, axis=0) - here) ** 2) for shift in shifts)
    found = np.zeros(d)
    for j in range(d):
        for shift in shifts:
            other = X.copy()
            other[:, j] = np.roll(X[:, j], shift)
            found[j] += np.sum((latent_mean(other) - here) ** 2)
    return found / total if total > 0 else np.full(d, np.nan)
