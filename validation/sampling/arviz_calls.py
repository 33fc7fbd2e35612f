"""ArviZ's own estimates, asked for so that both of its generations give the same answer.

ArviZ 0.2x and 1.x differ in the names of results and in the sign of differences; this is the only file here
that knows it. Arrays are ``(chain, draw, case)``; results are ``(case,)``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import arviz as az
import numpy as np
import xarray as xr

from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container


class Elpd(NamedTuple):
    """A leave-one-out estimate.

    Attributes
    ----------
    elpd, se, p : float
        Sum of log predictive densities, its standard error over cases (nats), and the effective number of
        parameters.
    pointwise : (n,) array
        Log predictive density of each case, in nats.
    pareto_k : (n,) array or None
        Shape of the tail of the importance weights; above 0.7 they are unreliable. None without sampling.
    """

    elpd: float
    se: float
    p: float
    pointwise: Array
    pareto_k: Array | None


class ComparedModel(NamedTuple):
    """A row of ``az.compare``: ``difference`` is the elpd less that of the best, so at most 0."""

    name: str
    rank: int
    elpd: float
    p: float
    se: float
    difference: float
    difference_se: float
    weight: float


def convergence(draws: xr.DataArray) -> tuple[Array, Array, Array]:
    """Return rank-normalised split r-hat, bulk and tail effective sample size."""
    dataset = xr.Dataset({"x": draws})
    bulk, tail = (az.ess(dataset, method=method)["x"].values for method in ("bulk", "tail"))
    return az.rhat(dataset)["x"].values, bulk, tail


def psis_loo(idata: Container) -> Any:
    """Return ArviZ's leave-one-out estimate by Pareto-smoothed importance sampling, with pointwise values.

    Its warning of large Pareto k is left out, since `elpd` returns k for each case.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Estimated shape parameter of Pareto distribution")
        return az.loo(idata, pointwise=True)


def elpd(result: Any) -> Elpd:
    """Return the numbers of an ``ELPDData``."""
    old = arviz_major() < 1
    names = ("elpd_loo", "p_loo", "loo_i") if old else ("elpd", "p", "elpd_i")
    value, p, pointwise = (result[name] for name in names)
    pareto_k = getattr(result, "pareto_k", None)  # the older class has it only where there was sampling
    return Elpd(
        elpd=float(value),
        se=float(result["se"]),
        p=float(p),
        pointwise=np.asarray(pointwise, dtype=np.float64),
        pareto_k=None if pareto_k is None else np.asarray(pareto_k, dtype=np.float64),
    )


def compare(results: Mapping[str, Any]) -> list[ComparedModel]:
    """Return the rows of ``az.compare`` for leave-one-out estimates by name, the best first."""
    old = arviz_major() < 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The inplace keyword in")  # ArviZ 0.23 with pandas 3.1
        table = az.compare(dict(results), **({} if old else {"round_to": "none"}))
    elpd_name, p_name = ("elpd_loo", "p_loo") if old else ("elpd", "p")
    return [
        ComparedModel(
            name=str(name),
            rank=int(row["rank"]),
            elpd=float(row[elpd_name]),
            p=float(row[p_name]),
            se=float(row["se"]),
            difference=0.0 - abs(float(row["elpd_diff"])),
            difference_se=float(row["dse"]),
            weight=float(row["weight"]),
        )
        for name, row in table.iterrows()
    ]
