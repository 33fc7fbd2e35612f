"""Targets without a mean or a variance: nothing that is not finite is said of them, and it is said why."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.sklearn import GPRegressor

X = np.linspace(-2.0, 2.0, 12)[:, None]
Y = np.sin(X[:, 0])
KERNEL = bgp.kernels.Gaussian(1.0)


def predicted(likelihood, **options):
    options = {"draws": 50, "chains": 1, "random_seed": 1, "progress": False, **options}
    return get_group(bgp.predict(bgp.fit(X, Y, KERNEL, likelihood, **options), [[0.2], [1.3]]), "predictions")


@pytest.mark.parametrize(("df", "there"), [(0.7, set()), (1.5, {"y_mean"}), (2.5, {"y_mean", "y_sd"})])
def test_a_single_heavy_tail(df, there):
    said = predicted(bgp.StudentT(0.3, df))
    assert {"y_mean", "y_sd"} & set(said) == there
    assert {f"{name}_omitted" for name in {"y_mean", "y_sd"} - there} == {a for a in said.attrs if "omitted" in a}
    assert all(np.isfinite(said[name]).all() for name in ("latent_mean", "latent_sd", "y", *there))


def test_an_average_has_the_moments_that_all_of_its_parts_have():
    options = {"hyper": "integrate", "fixed": ["lengthscale", "variance", "scale"]}
    tails = bgp.hyper.LogNormal(0.5, 0.5)
    said = predicted(bgp.StudentT(0.3, 2.0), priors={"df": tails}, **options)
    assert not {"y_mean", "y_sd"} & set(said)
    assert "averaged over" in said.attrs["y_mean_omitted"]
    assert np.isfinite(said["latent_sd"]).all()
    light = predicted(bgp.StudentT(0.3, 20.0), priors={"df": bgp.hyper.LogNormal(3.0, 0.1)}, **options)
    assert np.isfinite(light["y_sd"]).all()


def test_a_regressor_says_so():
    model = GPRegressor(KERNEL, bgp.StudentT(0.3, 1.5), hyper=None).fit(X, Y)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(UndefinedQuantityError, match="a target has no finite variance"):
        model.predict(X, return_std=True)
    with pytest.raises(UndefinedQuantityError, match="a target has no finite mean"):
        GPRegressor(KERNEL, bgp.StudentT(0.3, 1.0), hyper=None).fit(X, Y).predict(X)
