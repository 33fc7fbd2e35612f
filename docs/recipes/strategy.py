"""A strategy that is no part of the package, from a fit to a loaded file."""

import tempfile
from pathlib import Path

import arviz as az
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf import hyper


class RandomSearch(hyper.Strategy):
    """The best of some random points around the kernel, by log evidence plus log prior."""

    name = "random"
    records = ("tried",)

    def choose(self, target, rng, advance):
        """Return the best model, and how it was found."""
        objective = hyper.Objective(target, hyper.EvidenceScore())
        points = target.start + rng.standard_normal((20, target.start.size))
        points = np.clip(points, target.lower, target.upper)
        values = objective.at_nodes(points, advance)
        best = np.argmax(values)
        record = {"hyper_tried": (("tried", "hyper"), points), "hyper_tried_lp": (("tried",), values)}
        models, stats = (target.model_at(points[best]),), {"lp": values[[best]]}
        return hyper.HyperResult(models, np.ones(1), stats=stats, record=record)


pima = bgp.datasets.load_pima()
kernel = bgp.kernels.Gaussian(3.0)
idata = bgp.fit(pima.X, pima.y, kernel, bgp.Probit(), hyper=RandomSearch(), random_seed=1)
idata = bgp.predict(idata, pima.X_test, random_seed=2)
elpd = bgp.loo(idata)

by_gradient = bgp.fit(pima.X, pima.y, kernel, bgp.Probit(), hyper=bgp.hyper.Evidence(starts=1), draws=1)
short = float(by_gradient["fit"]["log_evidence"] - idata["fit"]["log_evidence"])
assert 0.0 <= short < 1.0, short
assert idata["fit"].attrs["hyper"] == "random"
assert idata["fit"]["hyper_tried"].dims == ("tried", "hyper")

with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder, "pima.nc"))
    idata.to_netcdf(file)
    loaded = bgp.predict(az.from_netcdf(file), pima.X_test, random_seed=2)
    for name in ("p", "latent_mean", "f", "y"):
        np.testing.assert_array_equal(loaded["predictions"][name].values, idata["predictions"][name].values)
    assert bgp.loo(loaded)["se"] == elpd["se"]
