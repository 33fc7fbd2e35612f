"""The posterior of a stream as an ArviZ container."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, make_container
from bayesgp_mf.container.layout import SAMPLE_DIMS, common_attrs
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.types import Array


def to_container(
    factor: Factor,
    kernel: Kernel,
    likelihood: Likelihood,
    *,
    features: list[str] | None,
    classes: tuple[Any, ...] | None,
    f: Array,
    scores: dict[str, NDArray[Any]],
    n_seen: int,
) -> Container:
    """Return draws ``f`` of latent values at the basis inputs, these, and how well batches were predicted."""
    attrs = common_attrs()
    chains, draws = f.shape[:2]
    names = features if features is not None else list(range(factor.points.shape[1]))
    cases = {"basis": np.arange(factor.size)}
    along = {SAMPLE_DIMS[0]: np.arange(chains), SAMPLE_DIMS[1]: np.arange(draws), **cases}
    of_each = {} if f.ndim == 3 or classes is None else {"class": [str(label) for label in classes]}
    posterior = xr.Dataset({"f": ((*SAMPLE_DIMS, "basis", *of_each), f)}, coords={**along, **of_each})
    inputs = xr.Dataset({"X": (("basis", "feature"), factor.points)}, coords={**cases, "feature": names})
    fit = xr.Dataset({name: ("batch", values) for name, values in scores.items()})
    for name, value in kernel.params.items():
        fit[name] = (("feature",) if np.ndim(value) else (), value)
    fit = fit.assign_attrs(n_seen=n_seen, kernel=repr(kernel), likelihood=repr(likelihood), method="stream")
    if classes is not None:
        fit = fit.assign_attrs(class_names=json.dumps([str(label) for label in classes]))
    groups = {"posterior": posterior, "constant_data": inputs, "fit": fit}
    return make_container({name: group.assign_attrs(attrs) for name, group in groups.items()})
