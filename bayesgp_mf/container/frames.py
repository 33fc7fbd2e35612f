"""What a container says of each case, as a table of the kind that its cases came in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pandas as pd
import xarray as xr

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.container.layout import TABLE
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.container.write import check_has_cases

ROWS = "obs_id"
_SEVERAL = ("class", "quantile")
"""Dimensions of which each entry has a column of its own."""
_FIRST = ("latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "loo_i", "y_mean", "y_sd")
_INTERNAL = ("alpha", "site_variance", "site_weight", "site_matrix")  # what `predict` needs, and nobody reads


def to_frame(idata: Container, group: Literal["predictions", "fit"] | None = None) -> Any:
    """Return the results for each case as a table, with the row labels of the input.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` or `predict` returned, or the same loaded from a file; or one group of it, such as
        ``idata["predictions"]``.
    group : {"predictions", "fit"}, optional
        The new cases, with ``latent_mean``, ``latent_sd`` and ``p`` (or ``y_mean`` and ``y_sd``); or those of the fit,
        with ``latent_mean``, ``latent_sd``, ``cavity_mean``, ``cavity_sd`` and ``loo_i``. The default is "predictions"
        if there are any.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame, pyarrow.Table or xarray.Dataset
        A table of the same kind as the inputs of these cases; of pandas for arrays. It has a row for each case, in
        their order, and for several classes or quantiles a column for each, such as ``p[setosa]``. Row labels are the
        index, or, in polars, the column ``obs_id``. In xarray the variables keep the dimensions ``class`` and
        ``quantile``.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, there is no such group, or the group has nothing about single cases.
    UndefinedQuantityError
        If the fit is to a table in parts, which has nothing about single cases.
    ImportError
        If the library of that kind is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0]}, index=["ann", "bob", "cat", "dan"])
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.to_frame(bgp.predict(idata, X.loc[["dan", "ann"]], draws=False)).round(2)
         latent_mean  latent_sd     p
    dan         1.78       1.38  0.85
    ann        -1.78       1.38  0.15
    """
    dataset = _group_of(idata, group)
    wide = ((ROWS,), *((ROWS, dim) for dim in _SEVERAL))
    there = [str(name) for name, each in dataset.data_vars.items() if each.dims in wide]
    if not there:
        raise ValueError(f"this group has nothing about single cases, only {list(dataset.data_vars)}. Pass idata.")
    names = dict.fromkeys([*(name for name in _FIRST if name in there), *there])
    table = dataset[[name for name in names if name not in _INTERNAL]].drop_attrs()
    kind = str(dataset.attrs.get(TABLE, "pandas"))
    return _MAKERS.get(kind, _as_pandas)(table)


def _group_of(idata: Container | xr.Dataset, group: str | None) -> xr.Dataset:
    """Return the group that is asked for, or that was given."""
    if isinstance(idata, xr.DataTree) and not idata.children:
        idata = idata.to_dataset()
    if isinstance(idata, xr.Dataset):
        if group is not None:
            raise ValueError(f"group says which group of a container, got {group!r} with a group. Leave it out.")
        return idata
    fit = fit_group(idata)
    has_predictions = "predictions" in group_names(idata)
    if group is None:
        group = "predictions" if has_predictions else "fit"
    check_one_of("group", group, "predictions", "fit")
    if group == "predictions" and not has_predictions:
        raise ValueError("there are no predictions in this container. Make them: predict(idata, X_new).")
    if group == "fit":
        check_has_cases(fit, "table of the cases")
    return get_group(idata, group)


def _as_pandas(table: xr.Dataset) -> pd.DataFrame:
    each: dict[Any, Any] = {name: values.to_pandas() for name, values in table.data_vars.items()}
    columns = [
        part.rename(name) if part.ndim == 1 else part.rename(columns=f"{name}[{{}}]".format)
        for name, part in each.items()
    ]
    return pd.concat(columns, axis=1).rename_axis(index=None, columns=None)


def _as_polars(table: xr.Dataset) -> Any:
    import narwhals.stable.v2 as nw

    frame = _as_pandas(table)
    columns = {ROWS: frame.index.to_list(), **{name: frame[name].to_numpy() for name in frame}}
    return nw.from_dict(columns, backend="polars").to_native()


def _as_pyarrow(table: xr.Dataset) -> Any:
    import pyarrow

    return pyarrow.Table.from_pandas(_as_pandas(table))


_MAKERS: dict[str, Callable[[xr.Dataset], Any]] = {
    "polars": _as_polars,
    "pyarrow": _as_pyarrow,
    "xarray": lambda table: table,
}
