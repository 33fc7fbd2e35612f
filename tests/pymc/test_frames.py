"""Data frames in a model of PyMC: their columns and rows are those of the labels and of new cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

from bayesgp_mf.container.groups import make_container
from bayesgp_mf.pymc import Marginal, latent_model, sample_latent

OTHER = r"X_new has columns \['b', 'a'\], but the model was fitted to \['a', 'b'\]"


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame(data.X, columns=["a", "b"], index=[f"case{i}" for i in range(20)])


def build(X, y, **options):
    with pm.Model():
        gp = Marginal(pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")), **options)
        gp.marginal_likelihood("y", X, y)
    return gp


@pytest.mark.parametrize("mean_func", [None, lambda X: 0.1 * X[:, 0]], ids=["no mean", "mean"])
def test_columns_of_new_cases_are_those_of_the_data(data, frame, mean_func):
    gp, swapped = build(frame, data.y, mean_func=mean_func), frame[["b", "a"]]
    process = gp.posterior({"ls": 1.0})
    for ask in (
        lambda X: process.predict_proba(X),
        lambda X: process.latent_mean(X),
        lambda X: gp.predict(X, {"ls": 1.0})[0],
        lambda X: gp.predict(X, {"ls": 1.0}, diag=True)[0],
    ):
        with pytest.raises(ValueError, match=OTHER):
            ask(swapped)
        np.testing.assert_array_equal(ask(frame), ask(data.X))
    groups = {
        "posterior": xr.Dataset({"ls": xr.DataArray(np.ones((1, 2)), dims=("chain", "draw"))}),
        "observed_data": xr.Dataset({"y": xr.DataArray(data.y, dims=("y_dim_0",))}),
    }
    with pytest.raises(ValueError, match=OTHER):
        sample_latent(make_container(groups), gp, swapped, random_seed=1, progress=False)


def test_rows_are_those_of_the_labels(data, frame):
    y = pd.Series(data.y, index=frame.index)[::-1]
    with pytest.raises(ValueError, match="X and y have the same index in another order"):
        build(frame, y)
    with pytest.raises(ValueError, match="X and y have the same index in another order"):
        latent_model(frame, y, pm.gp.cov.ExpQuad(2, ls=1.0))
    np.testing.assert_array_equal(build(frame, y.loc[frame.index]).observed.y, data.y)


def test_options_are_named(data):
    with pytest.raises(ValueError, match="control must be a Control"):
        build(data.X, data.y, control=None)
    posterior = xr.Dataset({"ls": xr.DataArray(np.ones((1, 2)), dims=("chain", "draw"))})
    idata, gp = make_container({"posterior": posterior}), build(data.X, data.y)
    with pytest.raises(ValueError, match="random_seed must be a non-negative integer"):
        sample_latent(idata, gp, random_seed="a")
