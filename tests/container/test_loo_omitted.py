"""A fit without some leave-one-out prediction is a fit all the same, and says what it lacks."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.errors import UndefinedQuantityError

LACKING = "no leave-one-out prediction for 1 cases"


@pytest.fixture(scope="module")
def idata():
    """Laplace's approximation beside an outlier that the others alone would not hold in place."""
    rng = np.random.default_rng(6)
    X = np.sort(rng.uniform(-3, 3, (20, 1)), 0)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_t(2, 20)
    kernel, likelihood = bgp.kernels.Gaussian(lengthscale=0.5), bgp.StudentT(0.3, 2.0)
    return bgp.fit(X, y, kernel, likelihood, method="laplace", draws=5, random_seed=1)


def test_the_container_is_built_and_predicts(idata):
    fit = get_group(idata, "fit")
    assert not {"loo_i", "cavity_mean", "cavity_sd"} & set(fit)
    assert LACKING in fit.attrs["loo_omitted"]
    assert np.all(np.isfinite(fit["latent_sd"]))
    new = get_group(bgp.predict(idata, [[0.3]], random_seed=1), "predictions")
    assert np.all(np.isfinite(new["latent_sd"]))


@pytest.mark.parametrize("ask", [bgp.loo, bgp.plots.plot_loo, lambda idata: bgp.compare({"a": idata, "b": idata})])
def test_who_asks_is_told_why(idata, ask):
    with pytest.raises(UndefinedQuantityError, match=LACKING):
        ask(idata)


def test_a_file_says_the_same(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "fit.nc"))
    loaded = az.from_netcdf(str(tmp_path / "fit.nc"))
    expected, found = (bgp.posterior(each).latent([[0.3]]) for each in (idata, loaded))
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(UndefinedQuantityError, match=LACKING):
        bgp.loo(loaded)


def test_a_fit_that_has_them_says_nothing():
    X = np.linspace(-2, 2, 8)[:, None]
    idata = bgp.fit(X, X[:, 0], bgp.kernels.Gaussian(), bgp.StudentT(0.3), method="laplace", draws=5, random_seed=1)
    assert "loo_omitted" not in get_group(idata, "fit").attrs
    assert np.isfinite(get_group(idata, "fit")["loo_i"]).all()
