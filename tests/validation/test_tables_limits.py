"""The likelihood with a margin, TAP on its way to the support-vector machine, and the papers' iteration."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.methods import get_method
from validation.tables import schemes_2000_section_4 as schemes
from validation.tables.margin import MarginStep
from validation.tables.svm_limit_2000_section_7 import walk

MARGIN = MarginStep()
BETAS = (1.0, 10.0, 100.0, 1000.0)


@pytest.fixture(scope="module")
def small():
    """Twelve cases of a known process, without noise."""
    kernel = bgp.kernels.Gaussian(1.0)
    toy = bgp.datasets.make_toy(kernel, bgp.Step(), n=12, random_seed=3)
    return bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, bgp.Step())


@pytest.mark.parametrize("t", [-1.0, 1.0])
@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.7, 2.0])
@pytest.mark.parametrize("variance", [0.2, 1.5])
def test_the_margin_is_averaged_over_a_gaussian(t, mean, variance):
    def log_z(m):
        start, end = (1.0, np.inf) if t > 0 else (-np.inf, -1.0)
        return np.log(quad(lambda f: norm.pdf(f, m, np.sqrt(variance)), start, end, epsabs=0.0, epsrel=1e-11)[0])

    t_array, v = np.array([t]), np.array([variance])
    value, d1, d2 = MARGIN.log_partition(t_array, np.array([mean]), v)
    assert value[0] == pytest.approx(log_z(mean), abs=1e-8)
    step = 1e-4
    (up, up1, _), (down, down1, _) = (MARGIN.log_partition(t_array, np.array([mean + s]), v) for s in (step, -step))
    assert d1[0] == pytest.approx((up - down)[0] / (2 * step), rel=1e-6)
    assert d2[0] == pytest.approx((up1 - down1)[0] / (2 * step), rel=1e-6)


def test_the_margin_is_at_one_and_predictions_know_nothing_of_it():
    t, f = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.1, 0.9, -1.1, -0.9])
    np.testing.assert_array_equal(MARGIN.log_prob(t, f).value, [0.0, -np.inf, 0.0, -np.inf])
    mean, variance = np.array([-0.5, 0.0, 0.5]), np.array([1.0, 2.0, 0.3])
    np.testing.assert_allclose(MARGIN.predict_proba(mean, variance), norm.cdf(mean / np.sqrt(variance)))


def test_tap_with_a_margin_walks_to_the_machine(small):
    machine = get_method("svm").solve(small)
    assert 0 < np.count_nonzero(machine.alpha) < 12
    notes = []
    distances = walk(small, machine, BETAS, notes.append)
    assert [distance.beta for distance in distances] == list(BETAS)
    assert len(notes) == len(BETAS)
    for name in ("weights", "conditions", "fields"):
        values = np.array([getattr(distance, name) for distance in distances])
        assert np.all(np.diff(values) < 0), name
        assert values[-1] < 0.02, name
    # the violation of the conditions goes as 1/beta
    assert distances[-1].conditions == pytest.approx(distances[-2].conditions / 10, rel=0.1)
    assert distances[-1].loo == get_method("svm").leave_one_out(small, machine).error_count(small.t)


def test_tap_with_a_margin_does_not_walk_to_another_function(small):
    machine = get_method("svm").solve(small)
    longer = dataclasses.replace(machine, alpha=1.1 * machine.alpha)
    distances = walk(small, longer, BETAS, lambda note: None)
    assert distances[-1].weights > 0.05


def test_schemes_are_measured_on_the_same_problem(small, monkeypatch):
    problem = dataclasses.replace(small, likelihood=bgp.Probit())
    for method in schemes.METHODS:
        outcomes = schemes.measure(problem, method)
        assert list(outcomes) == list(schemes.SCHEMES)
        assert all(outcome.arrived and outcome.seconds > 0 for outcome in outcomes.values())
        ours, rough, fine = (outcomes[name] for name in (schemes.OURS, schemes.ROUGH, schemes.FINE))
        assert ours.steps < rough.steps < fine.steps
        off = [np.abs(outcome.solution.alpha - ours.solution.alpha).max() for outcome in (rough, fine)]
        assert off[1] < 1e-7 < off[0] < 0.1
    hasty = bgp.Control(tolerance=1e-8, scheme="paper", max_iterations=5, throw=False)
    monkeypatch.setitem(schemes.SCHEMES, schemes.FINE, hasty)
    unsolved = schemes.measure(problem, "naive")[schemes.FINE]
    assert not unsolved.arrived
    assert unsolved.steps == 5
