"""A likelihood that is no part of the package, from a fit to a loaded file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import arviz as az
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.types import Derivs


def log_density(t, f):
    """Return log p(t|f): an event, t = +1, has the probability 1 - exp(-exp(f))."""
    rate = np.exp(f)
    event = np.where(f < -37.0, f, np.log(-np.expm1(-rate)))  # one minus so small a number is one
    return np.where(t > 0, event, -rate)


AVERAGES = bgp.likelihoods.Quadrature(log_density)


@dataclass(frozen=True)
class ComplementaryLogLog(bgp.likelihoods.Likelihood):
    """Whether there was an event, of a process with the rate exp(f)."""

    targets = "binary"
    forbids = False
    log_concave = True

    def log_prob(self, t, f):
        """Return log p(t|f) and its first two derivatives in f."""
        rate = np.exp(f)
        slope = rate / np.expm1(rate)
        d1, d2 = np.where(t > 0, slope, -rate), np.where(t > 0, slope * (1.0 - rate - slope), -rate)
        return Derivs(log_density(t, f), d1, d2)

    def log_partition(self, t, mean, variance):
        """Return the log of the average of p(t|f) over f ~ N(mean, variance), and its derivatives in mean."""
        return AVERAGES.log_partition(t, mean, variance)

    def predict_proba(self, mean, variance):
        """Return the probability of an event for f ~ N(mean, variance)."""
        return AVERAGES.predict_proba(mean, variance)

    def sample(self, f, rng):
        """Draw a label for each latent value."""
        return np.where(rng.random(f.shape) < -np.expm1(-np.exp(f)), 1.0, -1.0)


own = ComplementaryLogLog()
pima = bgp.datasets.load_pima()
idata = bgp.fit(pima.X, pima.y, bgp.kernels.Gaussian(3.0) + bgp.kernels.Bias(), own, draws=100, random_seed=1)
idata = bgp.predict(idata, pima.X_test[:50], likelihood=own, random_seed=2)
elpd = bgp.loo(idata, likelihood=own)

with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder, "pima.nc"))
    idata.to_netcdf(file)
    loaded = bgp.predict(az.from_netcdf(file), pima.X_test[:50], likelihood=own, random_seed=2)
    for name in ("p", "latent_mean", "f", "y"):
        np.testing.assert_array_equal(loaded["predictions"][name].values, idata["predictions"][name].values)
    assert bgp.loo(loaded, likelihood=own)["se"] == elpd["se"]
