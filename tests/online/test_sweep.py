"""One sweep, visit by visit, against posteriors computed afresh."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.online.sweep import sweep
from bayesgp_mf.solvers.sites import SiteState
from tests.online.conftest import make_problem


def fresh_moments(gram, precision, shift):
    """Return means and covariances from the definition: one regression."""
    covariance = np.linalg.solve(np.eye(len(shift)) + gram * precision, gram)
    return covariance @ shift, covariance


@pytest.mark.parametrize("reuse", ["replace", "as_new"])
def test_a_visit_starts_from_what_the_other_factors_say(reuse):
    problem = make_problem(bgp.Probit(0.5, 0.1), 8)
    rng = np.random.default_rng(6)
    precision, shift = rng.uniform(0.1, 1.0, 8), rng.standard_normal(8)
    order = (5, 2, 7, 0, 1, 3, 6, 4)
    done = sweep(problem, order, SiteState(precision.copy(), shift.copy()), reuse)
    for i in order:
        kept = 0.0 if reuse == "replace" else 1.0
        precision[i] *= kept
        shift[i] *= kept
        mu, sigma = fresh_moments(problem.gram, precision, shift)
        m, v = mu[i : i + 1], sigma[i, i][None]
        _, d1, d2 = problem.likelihood.log_partition(problem.t[i : i + 1], m, v)
        # the factor that brings N(m, v) to the mean and variance after Bayes' rule
        mean, variance = m + v * d1, v + v**2 * d2
        precision[i] += (1.0 / variance - 1.0 / v)[0]
        shift[i] += (mean / variance - m / v)[0]
        np.testing.assert_allclose((done.mean[i], done.variance[i]), (m[0], v[0]), rtol=1e-9)
    np.testing.assert_allclose(done.sites.precision, precision, rtol=1e-9)
    np.testing.assert_allclose(done.sites.shift, shift, rtol=1e-9)


def test_the_start_is_left_as_it_was():
    start = SiteState(np.full(8, 0.3), np.full(8, -0.2))
    sweep(make_problem(bgp.Probit(), 8), tuple(range(8)), start, "replace")
    np.testing.assert_array_equal(start.precision, np.full(8, 0.3))
    np.testing.assert_array_equal(start.shift, np.full(8, -0.2))


def test_a_case_whose_rest_is_no_gaussian_is_left_out():
    problem = bgp.Problem(np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 1.0]), bgp.Probit(1.0, 0.1))
    done = sweep(problem, (0, 1), SiteState(np.array([3.0, -1.2]), np.array([0.5, 0.0])), "replace")
    assert (done.sites.precision[0], done.sites.shift[0]) == (3.0, 0.5)
    assert np.isnan(done.mean[0])
    assert np.isfinite(done.mean[1])
    assert done.sites.precision[1] != -1.2


def test_sites_that_leave_no_gaussian_at_all_are_an_error():
    problem = bgp.Problem(np.eye(2), np.array([1.0, 1.0]), bgp.Probit())
    with pytest.raises(bgp.NotPositiveDefiniteError):
        sweep(problem, (0, 1), SiteState(np.array([-2.0, 0.0]), np.zeros(2)), "replace")


def test_a_measurement_next_to_without_noise_is_its_own_factor():
    """Found from the curvature at the cavity it would be lost: 1 - lambda / (lambda + v) is zero."""
    problem = bgp.Problem(np.eye(1), np.array([1.0]), Gaussian(1e-20))
    done = sweep(problem, (0,), SiteState(np.zeros(1), np.zeros(1)), "as_new")
    np.testing.assert_allclose(done.sites.precision, 1e20, rtol=1e-15)
    np.testing.assert_allclose(done.latent, 1.0, rtol=1e-15)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_target_that_overflows_has_no_factor():
    problem = bgp.Problem(np.eye(1), np.array([1e200]), Gaussian(1.0))
    with pytest.raises(bgp.NotPositiveDefiniteError, match="case 0 has no proper Gaussian factor: latent mean 0, var"):
        sweep(problem, (0,), SiteState(np.zeros(1), np.zeros(1)), "as_new")
