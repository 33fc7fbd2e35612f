"""What a fit says along one of its inputs: at fixed others, and on average over its cases (partial dependence)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.diagnostics.fitted import Fitted, expected_given, fitted
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.options import as_probabilities
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.processes.process import Process
from bayesgp_mf.types import Array

SETTINGS = 20
"""How many stand for all, where a figure would take long otherwise."""


def settings_by_weight(weights: Array, count: int) -> NDArray[np.intp]:
    """Return numbers ``(count,)`` of settings, in order, each as often as it has weight, but for rounding."""
    chosen = np.searchsorted(np.cumsum(weights), (np.arange(count) + 0.5) / count)
    return np.minimum(chosen, len(weights) - 1)  # where the sum of the weights is rounded to less than one


def some_settings(process: Process, most: int | None = None) -> Process:
    """Return the average over some of the settings of the hyperparameters, chosen by their weights; 20, or so many."""
    most = SETTINGS if most is None else most
    if len(process.parts) <= most:
        return process
    places, times = np.unique(settings_by_weight(process.weights, most), return_counts=True)
    parts = tuple(process.parts[k] for k in places)
    return parts[0] if len(parts) == 1 else Process(parts, times / most)


def weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return quantiles ``(q, ...)`` of values ``(k, ...)`` along the first axis, with weights ``(k,)``."""
    return np.asarray(np.quantile(values, levels, axis=0, weights=weights, method="inverted_cdf"))


Scale: TypeAlias = Literal["latent", "target"]
SCORES = 64
"""Points of a standard normal, each as probable as the next, that stand for a latent value in an average."""
CASES, DRAWS, SEED = 100, 200, 0
"""Cases that are averaged over, draws of the function, and the seed of both: the same fit has the same curves."""


class Curve(NamedTuple):
    """What a fit says along an input.

    Attributes
    ----------
    feature : str
        Name of the input.
    x : (m,) array
        Its values; of groups their codes.
    mean : (m,) or (m, C) array
        Posterior mean of the latent value, or probability, or mean of the target; with several classes one for each.
    quantiles : (q, m) or (q, m, C) array
        Of the same in the posterior; without rows where the fit does not know them.
    levels : tuple of str
        Names of the groups, if it is an input that tells groups apart.
    """

    feature: str
    x: Array
    mean: Array
    quantiles: Array
    levels: tuple[str, ...] = ()


def check_scale(scale: str) -> None:
    """Raise a ValueError if there is no such scale."""
    if scale not in ("latent", "target"):
        raise ValueError(
            f"scale must be 'latent' (the function f) or 'target' (probability, or mean of the target), got {scale!r}."
        )


def curve(fit: Fitted, column: int, *, scale: Scale, probabilities: Sequence[float], points: int = 200) -> Curve:
    """Return what a fit says along an input, at the median of each other one.

    On the scale "latent" mean and quantiles are those of f; on the scale "target" the mean is the predicted probability
    or the mean of a target, and the quantiles those of the same given f. With several classes there are none of these.
    """
    check_scale(scale)
    at = fit.grid(column, points)
    X = np.tile(fit.middle(), (at.size, 1))
    X[:, column] = at
    levels = np.asarray(probabilities, dtype=np.float64)
    mean = fit.process.latent_at(X)[0] if scale == "latent" else fit.expected(X)
    unknown = scale == "target" and mean.ndim > 1
    quantiles = np.empty((0, *mean.shape)) if unknown else quantiles_at(fit.for_cases(at.size), X, scale, levels)
    return Curve(fit.names[column], at, mean, quantiles, fit.levels.get(column, ()))


def quantiles_at(process: Process, X: Array, scale: Scale, levels: Array) -> Array:
    """Return quantiles ``(q, m, ...)`` of f, or of the mean of a target given f, which rises with f."""
    scores = ndtri(levels) if len(process.parts) == 1 else ndtri((np.arange(SCORES) + 0.5) / SCORES)
    each = []
    for part in process.parts:
        mean, variance = part.latent_at(X)
        f = mean + np.multiply.outer(scores, np.sqrt(variance))
        each.append(f if scale == "latent" else expected_given(part, f))
    if len(process.parts) == 1:
        return each[0]
    return weighted_quantiles(np.concatenate(each), np.repeat(process.weights, SCORES), levels)


def partial_dependence(
    idata: Container,
    features: Sequence[Any] | str | int | None = None,
    *,
    scale: Scale = "target",
    probabilities: Sequence[float] = (0.05, 0.95),
    points: int = 25,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
) -> list[Curve]:
    r"""Return the prediction along each input, averaged over the cases: partial dependence.

    .. math:: F_j(x) = \frac1n \sum_i g\bigl(f(x_{i1}, \dots, x_{ij} = x, \dots, x_{id})\bigr)

    where g is the probability or the mean of a target given its latent value, or, on the latent scale, the identity
    (Friedman 2001, Annals of Statistics 29, section 8.2). f is random, and so is the average.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    features : str, int or sequence of these, optional
        Names or positions of inputs; all by default.
    scale : {"target", "latent"}
        Whether to average probabilities and means of targets, or latent values.
    probabilities : sequence of float
        Which quantiles of the average to return.
    points : int
        Number of values of an input; for groups, one for each group.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    list of Curve
        One for each input. The quantiles are of 200 draws of f at up to 100 cases, of several classes of half as many
        of both, with a fixed seed.

    Raises
    ------
    ValueError
        If there is no such input, or the fit has no probabilities or means on the scale of the target.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [4.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian([1.0, 9.0], 4.0), draws=10, random_seed=1)
    >>> dose, age = bgp.diagnostics.partial_dependence(idata, points=3)
    >>> dose.mean.round(1), age.mean.round(1)
    (array([0.2, 0.5, 0.8]), array([0.5, 0.5, 0.5]))
    """
    check_scale(scale)
    check_integers(1, points=points)
    levels = as_probabilities("probabilities", probabilities)
    fit = fitted(idata, kernel, likelihood, method)
    features = [features] if isinstance(features, str | int | np.integer) else features
    columns = range(len(fit.names)) if features is None else [fit.column(each) for each in features]
    if not columns:
        raise ValueError("features must name at least one input, got none. Leave it out for all of them.")
    return [_averaged(fit, column, scale, np.empty(0) if levels is None else levels, points) for column in columns]


def _averaged(fit: Fitted, column: int, scale: Scale, levels: Array, points: int) -> Curve:
    rng = np.random.default_rng(SEED)
    share = 2 if fit.likelihood.has_classes else 1  # whose probabilities take longer
    chosen = np.sort(rng.permutation(fit.shown)[: CASES // share])
    at, cases = fit.grid(column, points), fit.X[chosen]
    some = replace(fit, process=some_settings(fit.for_cases(len(cases))))
    parts, counts = some.process.parts, np.ceil(DRAWS // share * some.process.weights).astype(int)
    means, quantiles = [], []
    for value in at:
        cases[:, column] = value
        rng = np.random.default_rng(SEED)
        f = [(part, part.draw_at(cases, count, rng)) for part, count in zip(parts, counts, strict=True) if count]
        given = [each if scale == "latent" else expected_given(part, each) for part, each in f]
        drawn = np.concatenate(given).mean(axis=1)
        quantiles.append(np.quantile(drawn, levels, axis=0))
        if drawn.ndim > 1:  # probabilities of several classes, which take long one by one
            means.append(drawn.mean(axis=0))
        else:
            means.append((some.process.latent_at(cases)[0] if scale == "latent" else some.expected(cases)).mean(axis=0))
    return Curve(fit.names[column], at, np.array(means), np.stack(quantiles, axis=1), fit.levels.get(column, ()))


PAIRS, SHIFTS = 1000, 5
"""Cases whose input is exchanged for that of another one, and how often."""
NOTHING = 0.01
"""Share of the variance below which an input is said to do nothing."""


@shown_as_table(lambda _: "Total effect of each input, the strongest first:")
class Relevance(NamedTuple):
    """The total effect of each input on the posterior mean of the latent value; it prints the table of `to_frame`.

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

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each input, the strongest first: effect, its 5 and 95 % quantiles if it has any, unused."""
        columns: dict[str, Any] = {"effect": self.effect}
        if np.any(self.high > self.low):
            columns |= {"5%": self.low, "95%": self.high}
        table = pd.DataFrame(columns | {"unused": self.unused}, index=list(self.features))
        return table.sort_values("effect", ascending=False, kind="stable")


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
    X = fit.X[rng.permutation(fit.shown)[:PAIRS]]
    if len(X) < 2:
        raise ValueError("inputs are exchanged between cases, and this fit has one. Fit to more cases.")
    some = some_settings(fit.process)
    each = np.array([_total_effect(part.latent_mean_at, X) for part in some.parts])
    if not np.all(np.isfinite(each)):
        raise ValueError("the prediction is the same for all cases: no input does anything.")
    low, high = weighted_quantiles(each, some.weights, np.array([0.05, 0.95]))
    return Relevance(fit.names, some.weights @ each, low, high, high < NOTHING)


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
