"""A method that is no part of the package, from a fit to a loaded file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import arviz as az
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.inference.solution import Evidence, Info, LeaveOneOut
from bayesgp_mf.matrices.sites import SiteCorrection


@dataclass(frozen=True)
class LeastSquares:
    """Regression on the labels: each is taken for a measurement of its latent value, with noise of one variance."""

    noise: float = 1.0
    name = "least_squares"

    def solve(self, problem, control=bgp.Control(), start=None):
        """Return the posterior, whose weights are alpha = R t with R = (K + noise I)^-1."""
        correction = SiteCorrection(problem.dense_gram, np.full(problem.n, 1.0 / self.noise))
        alpha = correction.multiply(problem.t)
        log_det = correction.log_det + problem.n * np.log(2.0 * np.pi * self.noise)
        evidence = Evidence(-0.5 * float(problem.t @ alpha + log_det), "least_squares")
        info = Info(bgp.Status.CONVERGED, n_iterations=1, residual=0.0)
        return bgp.Solution(self.name, alpha, correction, evidence, None, info)

    def gram_gradient(self, problem, solution):
        """Return the derivative of the log evidence with respect to K, (alpha alpha' - R) / 2."""
        return 0.5 * (np.outer(solution.alpha, solution.alpha) - solution.correction.dense())

    def leave_one_out(self, problem, solution):
        """Return what the other cases say of each: without its own measurement, by one division."""
        variance = 1.0 / np.diag(solution.correction.dense())
        mean, variance = problem.t - variance * solution.alpha, variance - self.noise
        return LeaveOneOut(mean, variance, problem.likelihood.log_partition(problem.t, mean, variance).value)


own = LeastSquares(noise=0.5)
pima = bgp.datasets.load_pima()
idata = bgp.fit(
    pima.X, pima.y, bgp.kernels.Gaussian(3.0), method=own, hyper=bgp.hyper.Evidence(starts=1), random_seed=1
)
assert idata["fit"].attrs["method"] == "least_squares"
idata = bgp.predict(idata, pima.X_test, method=own, random_seed=2)
assert np.mean((idata["predictions"]["p"].values > 0.5) == (pima.y_test == pima.class_names[1])) > 0.75
elpd = bgp.loo(idata, method=own)

with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder, "pima.nc"))
    idata.to_netcdf(file)
    loaded = bgp.predict(az.from_netcdf(file), pima.X_test, method=own, random_seed=2)
    for name in ("p", "latent_mean", "f", "y"):
        np.testing.assert_array_equal(loaded["predictions"][name].values, idata["predictions"][name].values)
    assert bgp.loo(loaded, method=own)["se"] == elpd["se"]
