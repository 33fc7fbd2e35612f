"""The cases of a fit that the others predict worst, with their targets and inputs in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.container.loo import pointwise_loo
from bayesgp_mf.container.parts import check_has_cases
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.diagnostics.curves import relevance
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.types import Array


class WorstCases(NamedTuple):
    """Cases of a fit, the one that is predicted worst first.

    Attributes
    ----------
    labels : tuple of str
        Labels of their rows.
    log_density : (k,) array
        Log predictive density of each target given all other cases, in nats.
    targets : tuple of str
        Classes by name, or numbers with three digits.
    features : tuple of str
        Names of the inputs that are stated, the most relevant one first if some are left out.
    values : tuple of tuple of str
        For each case these inputs, with three digits, or the name of the group.
    """

    labels: tuple[str, ...]
    log_density: Array
    targets: tuple[str, ...]
    features: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


def worst_cases(idata: Container, number: int = 5, *, inputs: int = 3, **given: Any) -> WorstCases:
    """Return the cases that are predicted worst from all others, by leave-one-out log density.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    number : int
        How many cases, if there are so many.
    inputs : int
        How many inputs to state, those that do most by `diagnostics.relevance`; all if there are no more.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Raises
    ------
    ValueError
        If ``number`` or ``inputs`` is less than one, or ``idata`` is not a fit of this package.
    UndefinedQuantityError
        If the fit has no predictive density, or has nothing about single cases.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.diagnostics.worst_cases import worst_cases
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "no"]
    >>> idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> worst_cases(idata, 1).targets
    ('yes',)
    """
    check_positive_integers(number=number, inputs=inputs)
    loo_i = log_densities(idata)
    fit = fitted(idata, **given)
    columns = np.arange(len(fit.names))
    if columns.size > inputs:
        columns = np.argsort(-relevance(idata, **given).effect, kind="stable")[:inputs]
    lowest = np.argsort(loo_i.values, kind="stable")[:number]
    y = get_group(idata, "observed_data")["y"].values
    return WorstCases(
        tuple(label_in_words(label) for label in loo_i["obs_id"].values[lowest]),
        loo_i.values[lowest],
        tuple(fit.classes[int(y[i])] if fit.classes else f"{y[i]:.3g}" for i in lowest),
        tuple(fit.names[j] for j in columns),
        tuple(tuple(fit.value_in_words(int(j), fit.X[i, j]) for j in columns) for i in lowest),
    )


def label_in_words(label: Any) -> str:
    """Return the label of a row as text, a date or a time without digits that say nothing."""
    return np.datetime_as_string(label, unit="auto") if isinstance(label, np.datetime64) else str(label)


def log_densities(idata: Container) -> xr.DataArray:
    """Return the leave-one-out log predictive density of each case of a fit, or raise an UndefinedQuantityError."""
    fit = fit_group(idata)
    check_has_cases(fit, "leave-one-out prediction")
    return pointwise_loo(fit)
