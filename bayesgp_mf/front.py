"""The door itself: `fit` for data that are here, and the same for tables in parts, here or on a cluster."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from bayesgp_mf.container.parts import check_storable_in_parts
from bayesgp_mf.fitting import fit as fit_here
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inputs import as_kernel, check_positive_integers, kind_of
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.methods import get_method
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.sharded.fit import fit as fit_in_parts
from bayesgp_mf.sharded.sources import Table, from_dask
from bayesgp_mf.solvers.meanfield import tap

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

_OF_PARTS = ("client", "processes", "refine")
_PASSED = ("hyper", "positive", "control", "progress")

P = ParamSpec("P")
T = TypeVar("T")


def _called_as(face: Callable[P, T]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """Return a decorator that gives a function the arguments, their types and the docstring of another."""
    decorator: Any = functools.wraps(face)
    return cast("Callable[[Callable[..., T]], Callable[P, T]]", decorator)


@_called_as(fit_here)
def fit(X: Any, *rest: Any, **options: Any) -> Container:
    """Fit what is here by `fitting.fit`, a table in parts by `sharded`."""
    y, *args = rest or (options.pop("y", None),)
    if isinstance(X, Table) or _is_dask(X):
        return _fit_in_parts(X, y, *args, **options)
    if _is_dask(y):
        raise ValueError(
            "y is a Dask collection and X is none. Give both as Dask arrays with the same rows in their blocks, a Dask "
            "frame with the name of its column, or y.compute()."
        )
    _check_here(X, y)
    return fit_here(X, y, *args, **options)


def _is_dask(value: Any) -> bool:
    """Tell whether rows are in parts; those of xarray, which knows Dask too, are gathered."""
    return hasattr(value, "__dask_graph__") and kind_of(value) != "xarray"


def _check_here(X: Any, y: Any) -> None:
    """Raise a ValueError for the name of a folder as X, or of a column as y, which tables in parts have."""
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X must be inputs (n, d), got the path {str(X)!r}. Parquet files are fitted as a table in parts: "
            f"fit(sharded.from_parquet({str(X)!r}, target=...), None, kernel, likelihood, inducing=500)."
        )
    if isinstance(y, str):
        raise ValueError(
            f"y must be labels (n,), got {y!r}: the name of a column goes with a Dask frame. Of a frame that is here "
            f"pass X.drop(columns={y!r}) and X[{y!r}]."
        )


def _fit_in_parts(X: Any, y: Any, kernel: Any = None, likelihood: Likelihood = Probit(), **options: Any) -> Container:
    """Return the container of a fit to a table in parts."""
    table = _table(X, y)
    if kernel is None:
        raise ValueError("kernel is missing: fit(X, y, kernel, likelihood, inducing=500).")
    check_likelihood(likelihood)
    _check_options(options)
    check_storable_in_parts(as_kernel(kernel, tuned=options.get("hyper") is not None), likelihood)
    sizes = {"draws": options.get("draws", 1000), "chains": options.get("chains", 4)}
    check_positive_integers(**sizes)
    rng = as_generator(options.get("random_seed"))
    processes = options.get("processes", 1)
    client = options.get("client")
    if client is None and processes == 1:
        client = _default_client()
    found = fit_in_parts(
        table,
        kernel,
        likelihood,
        inducing=options["inducing"],
        refine=options.get("refine", 0),
        client=client,
        processes=processes,
        random_seed=rng,
        **{name: options[name] for name in _PASSED if name in options},
    )
    return found.to_container(**sizes, random_seed=rng)


def _table(X: Any, y: Any) -> Table:
    if not isinstance(X, Table):
        if hasattr(X, "columns") and not isinstance(y, str):
            raise ValueError(
                f"y must be the name of a column of the Dask frame X, got {type(y).__name__}. Put the labels into the "
                "frame, X.assign(label=y), and give 'label'."
            )
        return from_dask(X, y)
    if y is not None and not (isinstance(y, str) and y == X.target):
        raise ValueError(f"the table has its labels, {X.target or 'one of each row'!r}: leave y out, got {y!r}.")
    return X


def _check_options(options: dict[str, Any]) -> None:
    """Raise a ValueError, or a TypeError for a name that is none, if options make no sense for a table in parts."""
    known = inspect.signature(fit_here).parameters
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")
    if options.get("inducing") is None:
        raise ValueError(
            "a table in parts is fitted on inducing cases: say how many, such as inducing=500, or give their inputs."
        )
    method = get_method(options.get("method", "tap"))
    if method != tap:
        raise ValueError(f"a table in parts is fitted by method 'tap', got {method.name!r}. Leave method out.")
    only = {*_OF_PARTS, *_PASSED, "inducing", "method", "random_seed", "draws", "chains"}
    for name in ("offset", "weights"):
        if options.pop(name, None) is not None:
            raise ValueError(
                f"{name} is not there for a table in parts. Fit a part of the table that is here, fit(X, y, ..., "
                f"{name}=...), or use a stream, whose every batch may have it."
            )
    for name, value in options.items():
        default = known[name].default
        if name not in only and value is not default and value != default:
            raise ValueError(
                f"{name} is not there for a table in parts, got {value!r}. Leave it out; hyperparameters can be chosen "
                "beforehand by a fit to a part of the table that is here."
            )
    if options.get("client") is not None and options.get("processes", 1) != 1:
        raise ValueError("client and processes are two places to work at. Give one of them.")


def _default_client() -> Any:
    """Return the Dask client that is there, or None; who has made one has imported Dask."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:  # there is none
        return None
