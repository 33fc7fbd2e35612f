"""What a fit predicts for cases whose targets are known, its own, each left out, or new ones, against what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.container.layout import class_names_of
from bayesgp_mf.container.loo import log_densities
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.solution import ClassLeaveOneOut
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.labels import encode_labels, encode_targets
from bayesgp_mf.inputs.limits import have_two_parts, with_limits, with_other_limit
from bayesgp_mf.inputs.tables import check_all_same_cases, facts_of_new_cases
from bayesgp_mf.likelihoods import Censored, Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.processes.process import Process, with_new_cases
from bayesgp_mf.types import Array


class _Setting(NamedTuple):
    """What is predicted at one setting of the hyperparameters, and its weight for each case."""

    weight: Array
    likelihood: Likelihood
    mean: Array
    variance: Array


@shown_as_table(lambda found: f"{len(found.targets)} cases: {found.description}.")
@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for cases, and what came; it prints the table that `to_frame` returns.

    Attributes
    ----------
    targets : (m,) array
        What came: codes of labels and of levels, positions in ``classes``; else numbers.
    classes : tuple of str
        Names of the labels or the levels; empty for other numbers.
    probability : (m, C) array or None
        Of each class or level, where there are probabilities of such.
    score : (m,) array or None
        Of two classes what ranks the cases: the probability of the second.
    left_out : bool
        Whether the cases are those of the fit, each predicted from the others; else new ones.
    """

    targets: NDArray[Any]
    classes: tuple[str, ...]
    probability: Array | None
    score: Array | None
    left_out: bool
    settings: Sequence[_Setting] = ()

    @property
    def description(self) -> str:
        """Which cases they are, for a title or a message."""
        return "each case predicted from the others" if self.left_out else "new cases"

    @property
    def is_whole(self) -> bool:
        """Whether targets are whole numbers that are no labels: counts, and ordered levels."""
        return bool(self.settings) and self.settings[0].likelihood.is_discrete

    @property
    def log_density(self) -> Array:
        """Log predictive densities ``(m,)`` of numbers and of levels, in nats."""
        weights = np.array([weight for weight, *_ in self.settings])
        each = [known.log_partition(self.targets, mean, variance).value for _, known, mean, variance in self.settings]
        return np.asarray(logsumexp(each, b=weights, axis=0))

    def below(self, t: Array, cases: NDArray[np.intp] | None = None) -> Array:
        """Return how likely the target of each case, or of those with the given numbers, was to be at most t."""
        which = np.arange(len(self.targets)) if cases is None else cases
        found = np.zeros(which.size)
        for weight, likelihood, mean, variance in self.settings:
            each = likelihood.of_cases(which).predictive_below(t, mean[which], variance[which])
            if each is None and likelihood.takes_limits:
                raise UndefinedQuantityError(
                    "some targets are limits, of which nobody knows whether they are below a predicted quantile. "
                    "plots.plot_survival shows predicted beside observed times."
                )
            if each is None:
                raise UndefinedQuantityError(
                    f"{likelihood.display_name} does not say how likely a target is to be below a number "
                    "(predictive_below)."
                )
            found += weight[which] * each
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each case: target, and probability of each class, or mean and sd of f + offset."""
        if self.probability is not None:
            table = pd.DataFrame(self.probability, columns=list(self.classes))
            table.insert(0, "target", np.asarray(self.classes)[self.targets], allow_duplicates=True)
            return table
        mean = sum(one.weight * one.mean for one in self.settings)
        variance = sum(one.weight * (one.variance + (one.mean - mean) ** 2) for one in self.settings)
        return pd.DataFrame({"target": self.targets, "predictor_mean": mean, "predictor_sd": np.sqrt(variance)})


def predicted(
    idata: Container | Predicted,
    y_new: ArrayLike | None = None,
    *,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
) -> Predicted:
    """Return the leave-one-out predictions of a fit for its own cases, or those of `predict` for new ones.

    Parameters
    ----------
    idata : InferenceData, DataTree or Predicted
        What `fit` or `predict` returned, or the same loaded from a file; or what this function returned, which it
        returns again.
    y_new : (m,) array_like, optional
        Targets of the cases in the group ``predictions``; without them the cases of the fit are
        judged by leave-one-out.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    Predicted
        Targets and probabilities; for numbers also ``below(t)``.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or there are no predictions, or not as many as ``y_new``.
    UndefinedQuantityError
        If the container has nothing about single cases, or no posterior without some case.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> found = bgp.diagnostics.predicted(idata)
    >>> found.targets, found.probability[:, 1].round(2)
    (array([0, 0, 1, 1]), array([0.32, 0.49, 0.51, 0.68]))
    """
    if isinstance(idata, Predicted):
        if any(given is not None for given in (y_new, kernel, likelihood, method)):
            raise ValueError(
                "y_new, kernel, likelihood and method go with a fit, and these are its predictions already. Leave them "
                "out."
            )
        return idata
    fit = fit_group(idata)
    classes = class_names_of(fit)
    if y_new is None:
        log_densities(idata)  # which raises where there are none
    elif "predictions" not in group_names(idata):
        raise ValueError("y_new are the targets of predictions, and there are none. First predict(idata, X_new).")
    process = from_container(idata, kernel, likelihood, method)
    levels = process.problem.likelihood.of_one_case.n_levels
    if levels is not None and not classes:
        classes = tuple(str(level) for level in range(levels))
    if y_new is None:
        return _left_out(process, get_group(idata, "observed_data")["y"].values, classes)
    return _of_new(idata, process, y_new, classes)


def _left_out(process: Process, y: NDArray[Any], classes: tuple[str, ...]) -> Predicted:
    """Return the leave-one-out predictions of the cases of a fit."""
    likelihood = process.problem.likelihood
    loo = process.loo
    if isinstance(loo, ClassLeaveOneOut):
        return _of_labels(y, classes, loo.probability, left_out=True)
    if likelihood.is_binary and "weights" not in likelihood.stored_by_case:
        own = np.exp(loo.log_density)
        return _of_labels(y, classes, np.where(y == 1, own, 1.0 - own), left_out=True)
    settings = []
    for part, weight in zip(process.parts, process.loo_weights, strict=True):
        problem = part.problem
        offset = problem.likelihood.stored_by_case.get("offset", 0.0)
        settings.append(_Setting(weight, problem.likelihood.of_one_case, part.loo.mean + offset, part.loo.variance))
    return _with_probabilities(y, classes, settings, left_out=True)


def _of_new(idata: Container, process: Process, y_new: ArrayLike, classes: tuple[str, ...]) -> Predicted:
    """Return the predictions of new cases."""
    data = get_group(idata, "predictions_constant_data")
    X = np.asarray(data["X"].values, dtype=np.float64)
    likelihood = process.problem.likelihood
    limits = likelihood.takes_limits and have_two_parts(y_new)
    if np.shape(y_new)[:1] != (len(X),) or (np.ndim(y_new) > 1 and not limits):
        raise ValueError(
            f"y_new must have a target for each of the {len(X)} cases that were predicted, got shape {np.shape(y_new)}."
        )
    if not likelihood.is_real:
        y = encode_labels(y_new, classes, "the classes of the fit").astype(np.int64)
        return _of_labels(y, classes, get_group(idata, "predictions")["p"].values, left_out=False)
    given = {name: data[name].values for name in likelihood.new_case_facts if name in data}
    queried = with_new_cases(process, given)
    y, limited = with_limits(y_new, with_other_limit(likelihood.of_one_case, None), whole=False)
    t, _ = encode_targets(y, len(X), queried.parts[0].new_likelihood)
    settings = [
        _Setting(np.full(len(X), weight), _of_limits(part.new_likelihood, limited), *part.latent_at(X))
        for part, weight in zip(queried.parts, queried.weights, strict=True)
    ]
    return _with_probabilities(t, classes, settings, left_out=False)


def _of_labels(y: NDArray[Any], classes: tuple[str, ...], p: Array, *, left_out: bool) -> Predicted:
    """Return predictions of labels with the probability of the second of two ``(m,)``, or of each ``(m, C)``."""
    if p.ndim > 1:
        return Predicted(y, classes, p, None, left_out)
    return Predicted(y, classes, np.stack([1.0 - p, p], axis=1), p, left_out)


def _with_probabilities(
    y: NDArray[Any], classes: tuple[str, ...], settings: Sequence[_Setting], *, left_out: bool
) -> Predicted:
    """Return predictions of settings, with the probabilities of classes or levels where targets are such."""
    likelihood = settings[0].likelihood
    if likelihood.is_binary:
        second = sum(one.weight * one.likelihood.predict_proba(one.mean, one.variance) for one in settings)
        return _of_labels(y, classes, np.asarray(second), left_out=left_out)
    if likelihood.n_levels is None:
        return Predicted(y, classes, None, None, left_out, settings)
    each = [(one.weight, one.likelihood.level_probabilities(one.mean, one.variance)) for one in settings]
    p = np.asarray(sum(weight[:, None] * found for weight, found in each if found is not None))
    return Predicted(y.astype(np.int64), classes, p, None, left_out, settings)


def log_predictive_density(
    idata: Container,
    X_new: ArrayLike,
    y_new: ArrayLike,
    *,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Array:
    r"""Return the log predictive density of new targets that are numbers: measurements, counts, ordered levels.

    .. math:: \log \sum_k w_k \int p(y_j|f)\, N(f | m_{jk}, v_{jk})\, df

    with the posterior at each setting of the hyperparameters. Its mean over held-out cases is a proper score. For
    counts and levels it is the log of a probability. For labels use `mean_log_score` and `class_scores`, with their
    ``p``.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    X_new : (m, d) array_like
        New inputs, in the order and scale of the training inputs.
    y_new : (m,) array_like
        Their targets; of `likelihoods.Censored` as `fit` takes them, with what is known of those that are limits.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.
    offset, trials : optional
        Of the new cases, as for `predict`.

    Returns
    -------
    (m,) array
        In nats, each target by itself.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or ``X_new``, ``y_new``, ``offset`` or ``trials`` do not fit it.
    UndefinedQuantityError
        If the targets of the fit are labels.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> week, accidents = np.arange(8.0)[:, None], [1, 0, 2, 3, 5, 9, 12, 8]
    >>> idata = bgp.fit(week[:6], accidents[:6], bgp.kernels.Gaussian(3.0, 2.0), bgp.Poisson(), draws=50, random_seed=1)
    >>> bgp.diagnostics.log_predictive_density(idata, week[6:], accidents[6:]).round(1)
    array([-3.1, -2.9])
    """
    process = from_container(idata, kernel, likelihood, method)
    own = process.problem.likelihood.of_one_case
    if not own.is_real:
        raise UndefinedQuantityError(
            f"{type(own).__name__} has labels, which have no density. Use diagnostics.mean_log_score(labels, p), of "
            "several classes class_scores, with the p of predict."
        )
    table = as_pandas("X_new", X_new)
    check_all_same_cases(X_new=table, y_new=y_new, offset=offset, trials=trials)
    X = process.new_inputs(table)
    process = with_new_cases(process, facts_of_new_cases(table, len(X), offset, trials))
    y, limited = with_limits(y_new, with_other_limit(own, None), whole=False)
    t, _ = encode_targets(y, len(X), process.parts[0].new_likelihood)
    likelihoods = [_of_limits(part.new_likelihood, limited) for part in process.parts]
    at = zip(likelihoods, process.parts, strict=True)
    each = np.array([likelihood.log_partition(t, *part.latent_at(X)).value for likelihood, part in at])
    return np.asarray(logsumexp(each, b=process.weights[:, None], axis=0))


def _of_limits(likelihood: Likelihood, limited: Any) -> Likelihood:
    """Return the likelihood of new cases, told which of their targets are limits, if some are."""
    if not limited.takes_limits or limited.all_seen:
        return likelihood
    return by_case(Censored(likelihood.of_one_case, limited.other_limit), likelihood.stored_by_case.get("offset"))


SURE = 1e-13
"""How likely a count may be to lie beyond another one that is then said to be the last of a case."""
MOST_COUNTS = 1000
"""Largest count of a table that has a row for each: a figure has no room for more."""


class PitCurve(NamedTuple):
    """How often targets fell below the quantiles that were predicted for them.

    Attributes
    ----------
    level : (k,) array
        Probabilities of the quantiles.
    observed : (k,) array
        Share of the targets below; of whole numbers in the mean over a randomised tie (Czado et al. 2009,
        Biometrics 65).
    cases : int
        How many targets there were.
    """

    level: Array
    observed: Array
    cases: int


class CountTable(NamedTuple):
    """How many cases had each count, and how many were expected to.

    Attributes
    ----------
    counts : (k,) array
        Whole numbers from 0.
    observed, expected : (k,) array
        Cases with this count; the sum of the probabilities of it.
    beyond : float
        How many cases were expected above the last.
    """

    counts: NDArray[np.int64]
    observed: NDArray[np.int64]
    expected: Array
    beyond: float


def confusion_table(found: Predicted) -> NDArray[np.int64]:
    """Return how many cases of each class ``(C, C)`` were predicted to be of each: rows came, columns were predicted.

    The prediction is the most probable class, the first of several.

    Raises
    ------
    ValueError
        If targets are neither labels nor levels.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.diagnostics.confusion_table(bgp.diagnostics.predicted(idata))
    array([[2, 0],
           [0, 2]])
    """
    check_has_classes(found)
    assert found.probability is not None  # as of all classes
    guess, size = np.argmax(found.probability, axis=1), len(found.classes)
    table = np.bincount(found.targets.astype(np.int64) * size + guess, minlength=size * size)
    return table.reshape(size, size).astype(np.int64)


def check_has_classes(found: Predicted) -> None:
    """Raise a ValueError if targets are neither labels nor ordered levels."""
    if not found.classes:
        raise ValueError(
            "the targets of this fit are numbers, which are neither right nor wrong. Use plot_calibration, plot_loo, "
            "or plot_counts of whole numbers."
        )


def pit_curve(found: Predicted, levels: ArrayLike) -> PitCurve:
    """Return how often targets fell below predicted quantiles: the distribution of the probability integral transform.

    If predictions are calibrated, ``observed`` equals ``level`` up to chance.

    Raises
    ------
    ValueError
        If targets are labels.
    UndefinedQuantityError
        If the likelihood does not say how likely a target is to be below a number.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40.0 * x[:, 0])
    >>> noise = bgp.likelihoods.Gaussian(0.01)
    >>> idata = bgp.fit(x, y, bgp.kernels.Gaussian(1.5), noise, method="exact", draws=10, random_seed=1)
    >>> curve = bgp.diagnostics.pit_curve(bgp.diagnostics.predicted(idata), [0.1, 0.5, 0.9])
    >>> curve.observed.round(2)
    array([0. , 0.5, 1. ])
    """
    if not found.settings:
        raise ValueError("targets of this fit are labels, which have no quantiles.")
    u = np.asarray(levels, dtype=np.float64)
    t = np.asarray(found.targets, dtype=np.float64)
    upper = found.below(t)
    lower = found.below(t - 1.0) if found.is_whole else upper
    width = upper - lower
    inside = (u[:, None] - lower) / np.where(width > 0, width, 1.0)
    each = np.where(width > 0, np.clip(inside, 0.0, 1.0), u[:, None] >= upper)
    return PitCurve(u, each.mean(axis=1), t.size)


def count_table(found: Predicted) -> CountTable:
    """Return how many cases had each count, and how many were expected to: the numbers of a rootogram.

    Raises
    ------
    ValueError
        If targets are not whole numbers, or one of them is above 1000.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> week, accidents = np.arange(8.0)[:, None], [1, 2, 1, 3, 6, 4, 2, 1]
    >>> kernel = bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias()
    >>> idata = bgp.fit(week, accidents, kernel, bgp.Poisson(), draws=10, random_seed=1)
    >>> table = bgp.diagnostics.count_table(bgp.diagnostics.predicted(idata))
    >>> table.counts[:4], table.observed[:4], table.expected[:4].round(1)
    (array([0, 1, 2, 3]), array([0, 3, 2, 1]), array([1.3, 1.7, 1.6, 1.2]))
    """
    if not found.is_whole or found.classes:
        raise ValueError(
            "counts are targets that are whole numbers, as under Poisson, NegativeBinomial and Binomial. Use "
            "plot_calibration or plot_confusion."
        )
    t = found.targets.astype(np.int64)
    largest = int(t.max())
    if largest > MOST_COUNTS:
        raise ValueError(
            f"there is a row for each count, up to {MOST_COUNTS}, and the largest of this fit is {largest}. Use "
            "plot_calibration."
        )
    total = _below_each(found, t, largest)
    observed = np.bincount(t, minlength=largest + 1)
    return CountTable(np.arange(largest + 1), observed, np.diff(total, prepend=0.0), t.size - total[-1])


def _below_each(found: Predicted, t: NDArray[np.int64], largest: int) -> Array:
    """Return how many cases are expected to have at most 0, 1, ... ``largest``.

    Each case is looked at from its own count upwards and downwards, as far as the answer is neither one nor zero.
    """
    total, reached = np.zeros(largest + 1), np.zeros(largest + 2)
    for step, count in ((1, t), (-1, t - 1)):
        (cases,) = np.nonzero(count >= 0)
        count = count[cases]
        while cases.size:
            share = found.below(count.astype(np.float64), cases)
            np.add.at(total, count, share)
            ends = (share > 1.0 - SURE) | (count == largest) if step > 0 else (share < SURE) | (count == 0)
            np.add.at(reached, count[ends] + 1, float(step > 0))
            cases, count = cases[~ends], count[~ends] + step
    return total + np.cumsum(reached[:-1])
