"""What the cells of `streams.Stream` do not have."""

from __future__ import annotations

import pytest

import bayesgp_mf as bgp
from bayesgp_mf.streams import Stream
from tests.covering import functions


def test_a_likelihood_of_functions_is_tuned_with():
    """No file holds it, and the container of a search neither."""
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=24, random_seed=1)
    likelihood = bgp.likelihoods.Quadrature(functions.log_logistic)
    stream = Stream(bgp.kernels.Gaussian(1.0), likelihood).update(toy.X, toy.y, progress=False)
    stream.retune(bgp.hyper.Evidence(starts=1), fixed=["variance"], progress=False)
    logit = Stream(bgp.kernels.Gaussian(1.0), bgp.Logit()).update(toy.X, toy.y, progress=False)
    logit.retune(bgp.hyper.Evidence(starts=1), fixed=["variance"], progress=False)
    assert stream.kernel.lengthscale == pytest.approx(logit.kernel.lengthscale, rel=1e-3)
    table = bgp.sharded.from_arrays([(toy.X, toy.y)])
    options = {"inducing": 10, "hyper": bgp.hyper.Evidence(starts=1)}
    found = bgp.sharded.fit_stream(table, None, stream.kernel, likelihood, **options, progress=False, random_seed=1)
    assert found.n == 24
