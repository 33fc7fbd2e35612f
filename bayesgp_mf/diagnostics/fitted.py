"""A fit as figures see it: its cases by the names of their inputs, and what it says at inputs of one's choice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.container.layout import CASES, class_names_of
from bayesgp_mf.container.predictions import moments_at
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.write import is_in_parts
from bayesgp_mf.diagnostics.predicted import Predicted, predicted
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.groups import reads
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.processes.process import Part, Process, with_new_cases
from bayesgp_mf.types import Array

NEUTRAL = {"offset": 0.0, "trials": 1.0}
"""What stands for the offset and the trials of cases that nobody observed: an exposure of one, and one trial."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit with its cases, and the names that its users gave.

    Attributes
    ----------
    idata : InferenceData or DataTree
        The fit.
    given : dict
        ``kernel``, ``likelihood`` and ``method``, as for `predict`.
    fit : Dataset
        Its group ``fit``.
    process : Process
        What it says anywhere.
    X : (n, d) array
        Inputs of its cases, groups by their codes; of a table in parts its inducing inputs.
    y : (n,) array or None
        Targets as in ``observed_data``; None of a table in parts.
    offset : (n,) array
        Offset of each case, 0 where there is none.
    trials : (n,) array
        Of counts among trials, how many each case had; else 1.
    names : tuple of str
        Of the inputs.
    classes : tuple of str
        Of the labels, or of ordered levels; empty for other numbers.
    """

    idata: Container
    given: dict[str, Any]
    fit: xr.Dataset
    process: Process
    X: Array
    y: NDArray[Any] | None
    offset: Array
    trials: Array
    names: tuple[str, ...]
    classes: tuple[str, ...]

    @cached_property
    def left_out(self) -> Predicted:
        """What is predicted for each case from the others, which takes long for many settings."""
        return predicted(self.idata, **self.given)

    @property
    def n(self) -> int:
        """How many cases there are, also of a table in parts."""
        return int(self.fit.attrs[CASES]) if self.y is None else len(self.y)

    @property
    def likelihood(self) -> Likelihood:
        """That of the cases; of an average over several, of the first."""
        return self.process.problem.likelihood

    @property
    def levels(self) -> dict[int, tuple[str, ...]]:
        """Names of the groups that a column tells apart, by position of the column; codes where these have no names."""
        kernel = self.process.reader
        texts = kernel.levels_of_columns()
        columns = sorted(kernel.readers("groups", self.X.shape[1]))
        codes = {column: tuple(f"{code:g}" for code in np.unique(self.X[:, column])) for column in columns}
        return {column: tuple(texts.get(column, codes[column])) for column in columns}

    @cached_property
    def shown(self) -> NDArray[np.intp]:
        """The cases that are averaged over and drawn: of the first kind, where there are kinds and it has any."""
        found = np.flatnonzero(self.process.reader.of_first_kind(self.X))
        return found if found.size else np.arange(len(self.X))

    @cached_property
    def stated(self) -> list[int]:
        """Columns whose values are known: where no kernel reads one, zeros may stand for what was no number."""
        return [j for j in range(len(self.names)) if reads(self.process.reader, j) or self.X[:, j].any()]

    @property
    def is_location(self) -> bool:
        """Whether a target is its latent value plus noise, so that both have one axis."""
        if not self.likelihood.is_real:
            return False
        if self.likelihood.of_one_case.latent_noise is not None:
            return True
        at = np.array([0.0, 1.0])
        moments = self.for_cases(2).new_likelihood.predictive_moments(at, np.zeros(2))
        return moments is not None and bool(np.array_equal(moments[0], at))

    @property
    def is_share(self) -> bool:
        """Whether targets are successes among trials."""
        return "trials" in self.likelihood.new_case_facts

    @property
    def is_rate(self) -> bool:
        """Whether targets are counts without an end, whose mean is multiplied by the exponential of the offset."""
        return self.likelihood.of_one_case.whole_targets and not self.is_share

    def column(self, feature: Any) -> int:
        """Return the position of an input, given by its name or its position, or raise a ValueError."""
        if isinstance(feature, str) and feature in self.names:
            return self.names.index(feature)
        if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(self.names):
            return int(feature)
        raise ValueError(f"feature must be one of the inputs {list(self.names)} or its position, got {feature!r}.")

    def value_in_words(self, column: int, value: float) -> str:
        """Return a value of an input with three digits, of groups its name."""
        if column not in self.levels:
            return f"{value:.4g}"
        has_texts = column in self.process.reader.levels_of_columns()
        place = value if has_texts else np.searchsorted(np.unique(self.X[:, column]), value)
        return self.levels[column][int(place)]

    def middle(self) -> Array:
        """Return one case ``(d,)`` with the median of each input, and of groups the most frequent one."""
        found = np.median(self.X[self.shown], axis=0)
        for column in self.levels:
            codes, counts = np.unique(self.X[self.shown, column], return_counts=True)
            found[column] = codes[np.argmax(counts)]
        return found

    def grid(self, column: int, points: int) -> Array:
        """Return values of an input from its smallest to its largest, or the codes of all its groups."""
        values = self.X[:, column]
        if column in self.levels:
            return np.unique(values)
        low, high = float(values.min()), float(values.max())
        return np.linspace(low, high, points) if high > low else np.array([low - 0.5, low, low + 0.5])

    def for_cases(self, m: int) -> Process:
        """Return the process, to be asked of m cases of an exposure of one, and one trial."""
        facts = self.likelihood.new_case_facts
        return with_new_cases(self.process, {name: np.full(m, NEUTRAL[name]) for name in facts})

    def expected(self, X: Array) -> Array:
        """Return the probability of class 1 ``(m,)``, of each class ``(m, C)``, or the mean of a new number ``(m,)``.

        Raises
        ------
        ValueError
            If it has none: heavy tails may have no mean.
        """
        values = moments_at(self.for_cases(len(X)), X)
        found = values["p"] if not self.likelihood.is_real else values.get("y_mean")
        if found is None or not np.all(np.isfinite(found)):
            raise ValueError(
                f"{self.likelihood.display_name} has no finite mean of a new target: its tails are too heavy. Use "
                "scale='latent'."
            )
        return np.asarray(found)


def expected_target(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """Return the probability of class 1, or the mean of a target, given moments ``(k,)`` of latent values.

    The mean is that of the latent value under a likelihood that does not state it.
    """
    if likelihood.is_binary:
        return likelihood.predict_proba(mean, variance)
    known = likelihood.predictive_moments(mean, variance)
    return mean if known is None else known[0]


def expected_given(part: Part, f: Array) -> Array:
    """Return the probability or the mean of a target given its latent value, in the shape of ``f (..., m)``.

    Of several classes ``f (..., m, C)`` has a latent value for each, and there is a probability of each.
    """
    likelihood = part.new_likelihood
    if likelihood.has_classes:
        rows, of_classes = f.reshape(-1, f.shape[-1]), cast("ClassLikelihood", likelihood)
        logs = [of_classes.log_density(np.full(len(rows), float(code)), rows) for code in range(rows.shape[1])]
        return np.exp(np.stack(logs, axis=-1)).reshape(f.shape)
    if likelihood.is_binary:
        return np.asarray(likelihood.predict_proba(f, np.zeros_like(f)))
    moments = likelihood.predictive_moments(f, np.zeros_like(f))
    if moments is None:
        raise ValueError(f"{likelihood.display_name} does not state the mean of a target. Use scale='latent'.")
    return np.asarray(moments[0])


def fitted(
    idata: Container,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    **unknown: Any,
) -> Fitted:
    """Return a fit as figures see it; kernel, likelihood and method as for `predict`.

    Raises
    ------
    TypeError
        If there is another argument, which a figure did not know either.
    """
    if unknown:
        raise TypeError(
            f"unexpected argument {', '.join(unknown)}: beside those of its own, the function takes kernel, "
            "likelihood and method, as predict does."
        )
    fit = fit_group(idata)
    process = from_container(idata, kernel, likelihood, method)
    data = get_group(idata, "constant_data")
    X, n = np.asarray(data["X"].values, dtype=np.float64), len(data["X"])
    y = None if is_in_parts(fit) else get_group(idata, "observed_data")["y"].values
    offset = np.asarray(data["offset"].values) if "offset" in data else np.zeros(n)
    own = getattr(process.problem.likelihood.of_one_case, "trials", 1.0)
    names = tuple(str(name) for name in data["feature"].values)
    classes = class_names_of(fit)
    trials = np.broadcast_to(np.asarray(own, dtype=np.float64), (n,))
    given = {"kernel": kernel, "likelihood": likelihood, "method": method}
    return Fitted(idata, given, fit, process, X, y, offset, trials, names, classes)
