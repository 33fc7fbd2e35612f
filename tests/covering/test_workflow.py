"""`calibrate` of every likelihood and every kernel, and `validate` of those that `tests.pymc` has no fits of."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from tests.covering import laws
from tests.covering.arrays import Refusal
from tests.covering.options import CLASSES, FIT, KERNELS, LIKELIHOODS, SEVERAL_CLASSES, arguments, draw, likelihood_of
from tests.covering.streams import LIMITED

REPLICAS, DRAWS = 12, 19
USUAL = {name: values[0] for name, values in FIT.items()}
CELLS = {
    **{name: {**USUAL, "likelihood": name, "kernel": "areas"} for name in LIKELIHOODS},
    **{f"poisson, {name}": {**USUAL, "likelihood": "poisson", "kernel": name} for name in KERNELS},
}
REFUSALS = (
    Refusal(("likelihood",), lambda c: c["likelihood"] in LIMITED, "limits of certain cases. Leave out other_limit"),
    Refusal(("kernel",), lambda c: c["kernel"] == "of each class", "kernels.PerClass has a kernel for each class"),
)
SAMPLED = {
    "gamma", "beta", "zero-inflated", "hurdle", "truncated", "log-normal", "weibull", "exponential", "log-logistic",
    *LIMITED,
}  # fmt: skip
SHORT = {"draws": 200, "tune": 150, "chains": 2, "random_seed": 1, "progress": False}


def of_cell(name):
    cell = CELLS[name]
    return cell, arguments(cell, draw(cell, np.random.default_rng(0)))


@pytest.mark.parametrize("name", CELLS)
def test_it_is_calibrated_or_refused_in_words(name):
    cell, given = of_cell(name)
    named = likelihood_of(cell)
    if cell["likelihood"] in SEVERAL_CLASSES:
        named = named.with_classes(CLASSES)
    options = {"replicas": REPLICAS, "draws": DRAWS, "random_seed": 1, "progress": False}
    expected = [each for each in REFUSALS if each.refuses(cell)]

    def calibrated():
        return bgp.calibrate(given["X"], given["kernel"], named, **options)

    with laws.quiet():
        if expected:
            laws.refused_unsolved(calibrated, expected)
            return
        found = calibrated()
    assert found.replicas == REPLICAS
    for rank in found.ranks.values():  # a mean of ranks that is beyond four standard errors of uniform ones
        assert abs(np.mean(rank) / DRAWS - 0.5) < 4.0 * np.sqrt(1.0 / 12.0 / REPLICAS)


@pytest.mark.filterwarnings("ignore:np.dot:Warning")  # Numba, about speed, of PyTensor's own code
@pytest.mark.parametrize("name", sorted(SAMPLED))
def test_its_fit_agrees_with_samples_of_its_model(name):
    _, given = of_cell(name)
    idata = bgp.fit(**{**given, "draws": 1000})
    found = bgp.validate(idata, **SHORT).agreement
    assert np.all(np.abs(found.mean.difference) < 0.15 * found.sd.second + 4.5 * found.mean.error)
    assert found.log_evidence is not None
