"""`streams.Stream` in every pair of values of its options."""

from __future__ import annotations

from itertools import combinations

import pytest

import bayesgp_mf as bgp
from bayesgp_mf.streams import Stream
from tests.covering import functions
from tests.covering.arrays import uncovered
from tests.covering.streams import OPTIONS, REFUSALS, SLOW, TABLE

PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_works_and_agrees_with_what_it_must_be_equal_to(part, tmp_path):
    for number, cell in list(enumerate(TABLE.pairs))[part::PARTS]:
        assert TABLE.tried(number, cell, tmp_path) == "works"


def test_what_does_not_go_together_is_refused_in_words(tmp_path):
    for number, cell in enumerate(TABLE.refused):
        assert TABLE.tried(number, cell, tmp_path) == "refused"


def test_the_cells_have_every_pair():
    assert not list(uncovered(TABLE.pairs, OPTIONS, 2, (*REFUSALS, *SLOW)))
    left = sum(1 for _ in uncovered(TABLE.pairs, OPTIONS, 2, REFUSALS))
    assert left <= 0.1 * sum(len(OPTIONS[a]) * len(OPTIONS[b]) for a, b in combinations(OPTIONS, 2))


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
