"""Regression with tuned noise against scikit-learn's optimum, recorded by ``tests/reference/record_regression.py``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import bayesgp_mf as bgp
from tests.reference.regression_tables import tables

RECORD = json.loads(Path(__file__).with_name("regression_optima.json").read_text())["tables"]
START = bgp.kernels.Gaussian(1.0)


@pytest.mark.parametrize("method", ["laplace", "tap", "exact"])
@pytest.mark.parametrize("name", RECORD)
def test_the_noise_is_tuned_to_scikit_learns_optimum(name, method):
    """In nats to 1e-6; parameters are as flat there as that allows. Without a White kernel."""
    (X, y), expected = tables()[name], RECORD[name]
    options = {"method": method, "hyper": bgp.hyper.Evidence(starts=1), "draws": 1, "chains": 1, "random_seed": 1}
    fit = bgp.fit(X, y, START, bgp.likelihoods.Gaussian(0.5), **options)["fit"]
    assert float(fit["log_evidence"]) == pytest.approx(expected["log_evidence"], abs=1e-6)
    for parameter in ("variance", "lengthscale", "noise_variance"):
        assert float(fit[parameter]) == pytest.approx(expected[parameter], rel=2e-3)
    # kept as it was, the noise would have cost nats
    kept = bgp.fit(X, y, START, bgp.likelihoods.Gaussian(0.5), **options, fixed={"noise_variance"})["fit"]
    assert float(kept["noise_variance"]) == 0.5
    assert float(kept["log_evidence"]) < expected["log_evidence"] - 0.1


@pytest.mark.parametrize("name", RECORD)
def test_the_record_is_the_evidence_of_its_parameters(name):
    (X, y), said = tables()[name], RECORD[name]
    gram = bgp.kernels.Gaussian(said["lengthscale"], said["variance"]).gram(X)
    covariance = gram + said["noise_variance"] * np.eye(y.size)
    value = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2.0 * np.pi * covariance)[1])
    assert value == pytest.approx(said["log_evidence"], abs=1e-9)
