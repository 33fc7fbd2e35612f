"""A kernel that is no part of the package, from a fit to a loaded file."""

import tempfile
from pathlib import Path

import arviz as az
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels.stationary import Stationary


class Cauchy(Stationary):
    """Cauchy kernel v_0 / (1 + r^2), with r the scaled distance."""

    def profile(self, squared):
        """Return the kernel at variance 1, as a function of r^2."""
        return 1.0 / (1.0 + squared)

    def slope(self, squared):
        """Return the derivative of the profile in r^2."""
        return -1.0 / (1.0 + squared) ** 2


pima = bgp.datasets.load_pima()
idata = bgp.fit(pima.X, pima.y, Cauchy(3.0), bgp.Probit(), hyper=bgp.hyper.Evidence(starts=1), random_seed=1)
assert float(idata["fit"]["log_evidence"]) > -103.0
assert float(idata["fit"]["lengthscale"]) != 3.0

# a container holds the parameters of such a kernel, and not its code, which is passed again
idata = bgp.predict(idata, pima.X_test, kernel=Cauchy(), random_seed=2)
elpd = bgp.loo(idata, kernel=Cauchy())

with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder, "pima.nc"))
    idata.to_netcdf(file)
    loaded = bgp.predict(az.from_netcdf(file), pima.X_test, kernel=Cauchy(), random_seed=2)
    for name in ("p", "latent_mean", "f", "y"):
        np.testing.assert_array_equal(loaded["predictions"][name].values, idata["predictions"][name].values)
    assert bgp.loo(loaded, kernel=Cauchy())["se"] == elpd["se"]
    message = ""
    try:
        bgp.predict(loaded, pima.X_test)
    except ValueError as error:
        message = str(error)
    assert "kernel=" in message, message
