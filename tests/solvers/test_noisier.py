"""Where the equations may have several solutions: the way through noisier models, and from the solution of another."""

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.solvers.meanfield import ANNEALING, SHARE_OF_START, tap

TIGHT = bgp.Control(tolerance=1e-10, max_iterations=80)


@pytest.fixture
def outliers():
    """A Gram matrix, and targets about a smooth curve of which some are far off."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 6.0, (80, 1)), axis=0)
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_t(3.0, 80)
    y[::16] += 5.0
    return bgp.kernels.Gaussian(0.7).gram(X), y


@pytest.fixture
def asked(monkeypatch):
    """A list that grows with each time that Student's t is asked for its log Z."""
    known, times = bgp.StudentT.log_partition, []
    monkeypatch.setattr(bgp.StudentT, "log_partition", lambda *each: times.append(1) or known(*each))
    return times


def test_models_with_noise_that_hardly_matters_are_left_out(outliers):
    """Each takes a step at least, and of a likelihood much wider than the prior all are alike."""
    gram, y = outliers
    wide = tap.solve(bgp.Problem(1e-3 * gram, y, bgp.StudentT(scale=3.0)))
    assert wide.info.n_iterations < len(ANNEALING)


@pytest.mark.parametrize("scale", [0.05, 0.1, 1.0])
def test_from_another_solution_it_goes_through_them_where_that_leads_nowhere(outliers, scale, asked):
    gram, y = outliers
    problem = bgp.Problem(gram, y, bgp.StudentT(scale=scale))
    cold = tap.solve(problem, TIGHT)
    other = tap.solve(bgp.Problem(gram, y, bgp.StudentT(scale=1.0)))
    asked.clear()
    again = tap.solve(problem, TIGHT)
    of_cold = len(asked)
    from_other = tap.solve(problem, TIGHT, other)
    assert len(asked) - of_cold <= of_cold + 2 * SHARE_OF_START * TIGHT.max_iterations
    for found in (again, from_other):
        assert found.evidence.value == pytest.approx(cold.evidence.value, abs=1e-8)
        np.testing.assert_allclose(found.alpha, cold.alpha, atol=1e-6 * np.max(np.abs(cold.alpha)))


def test_few_steps_are_no_more_than_that_in_any_form(asked):
    """A search that allows a point few steps pays for no more of them, from a start or in the form of roots."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 1))
    y = np.sin(2.0 * X[:, 0]) + 5.0 * (rng.random(60) < 0.2)
    problem = bgp.Problem(bgp.kernels.Gaussian(0.7, 10.0).gram(X), y, bgp.StudentT(df=1.0, scale=1e-3))
    with pytest.raises(bgp.errors.ConvergenceError):
        tap.solve(problem, bgp.Control(max_iterations=30))
    assert len(asked) <= 2 * 30
