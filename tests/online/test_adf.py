"""A stream, one example at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.online import Online, finish, init, update
from tests.online.conftest import KERNEL, every_likelihood, make_inputs, make_problem


def stream(X, t, likelihood, kernel=KERNEL):
    state = init()
    for x, target in zip(X, t, strict=True):
        state = update(state, kernel, x, target, likelihood)
    return state


def test_the_state_is_frozen_and_an_update_leaves_it_as_it_was():
    X, t = make_inputs(6)
    before = stream(X[:5], t[:5], bgp.Probit())
    copies = before.X.copy(), before.alpha.copy(), before.C.copy(), before.log_evidence
    x = X[5].copy()
    after = update(before, KERNEL, x, t[5], bgp.Probit())
    for value, copy in zip((before.X, before.alpha, before.C, before.log_evidence), copies, strict=True):
        np.testing.assert_array_equal(value, copy)
    assert (before.n_seen, after.n_seen) == (5, 6)
    assert after.X.shape == (6, 2)
    first = update(init(), KERNEL, x, t[5], bgp.Probit())
    x[:] = 7.0  # the caller's array is the caller's own
    np.testing.assert_array_equal(after.X[5], X[5])
    np.testing.assert_array_equal(first.X[0], X[5])
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.n_seen = 0


@every_likelihood
def test_a_stream_is_one_sweep_over_the_gram_matrix(likelihood):
    X, t = make_inputs()
    solution = finish(stream(X, t, likelihood))
    sweep = Online().solve(make_problem(likelihood))
    np.testing.assert_allclose(solution.alpha, sweep.alpha, atol=1e-9)
    np.testing.assert_allclose(solution.correction.dense(), sweep.correction.dense(), atol=1e-9)
    np.testing.assert_allclose(solution.evidence.value, sweep.evidence.value, atol=1e-10)
    assert (solution.method, solution.evidence.kind, solution.cavity) == ("online", "online", None)
    assert solution.info.status is bgp.Status.CONVERGED


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Step(), bgp.Probit(0.5, 0.1)])
def test_the_evidence_is_the_product_of_what_the_earlier_examples_predict(likelihood):
    X, t = make_inputs(8)
    prior = KERNEL.diag(X[:1])
    total = float(np.log(likelihood.predict_proba(np.zeros(1), prior)[0]))  # P(t=+1); one half at the prior
    for i in range(1, 8):
        solution = finish(stream(X[:i], t[:i], likelihood))
        past = bgp.Problem(KERNEL.gram(X[:i]), t[:i], likelihood)
        positive = bgp.Posterior(KERNEL, X[:i], past, solution).predict_proba(X[i : i + 1])[0]
        total += np.log(positive if t[i] > 0 else 1.0 - positive)
    np.testing.assert_allclose(finish(stream(X, t, likelihood)).evidence.value, total, rtol=1e-12)


def test_a_visit_keeps_the_mean_and_variance_of_bayes_rule():
    """Moments of likelihood times Gaussian by quadrature, spread to the other values by regression on this one."""
    likelihood = bgp.Probit(0.3, 0.1)
    X, t = make_inputs(5)
    mu, sigma, total = np.zeros(5), KERNEL.gram(X), 0.0
    for i in range(5):
        m, sd = mu[i], np.sqrt(sigma[i, i])

        def tilted(f, power, m=m, sd=sd, i=i):
            return f**power * norm.pdf(f, m, sd) * (0.1 + 0.8 * norm.cdf(t[i] * f / np.sqrt(0.3)))

        mass, first, second = (quad(tilted, m - 12 * sd, m + 12 * sd, (k,), epsabs=1e-13)[0] for k in range(3))
        mean = first / mass
        gain = sigma[:, i] / sd**2
        total += np.log(mass)
        mu = mu + gain * (mean - m)
        sigma = sigma + np.outer(gain, gain) * (second / mass - mean**2 - sd**2)
    solution = finish(stream(X, t, likelihood))
    gram = KERNEL.gram(X)
    np.testing.assert_allclose(gram @ solution.alpha, mu, atol=1e-9)
    np.testing.assert_allclose(gram - solution.correction.quadratic(gram), sigma, atol=1e-9)
    np.testing.assert_allclose(solution.evidence.value, total, atol=1e-10)


def test_a_finished_stream_predicts_as_any_other_solution():
    X, t = make_inputs()
    solution = finish(stream(X, t, Gaussian(0.5)))
    problem = bgp.Problem(KERNEL.gram(X), t, Gaussian(0.5))
    exact = bgp.Posterior(KERNEL, X, problem, bgp.solve(problem.gram, t, Gaussian(0.5), method="exact"))
    X_new = np.array([[0.3, -0.2], [2.0, 1.0]])
    np.testing.assert_allclose(
        bgp.Posterior(KERNEL, X, problem, solution).latent(X_new), exact.latent(X_new), atol=1e-10
    )


def test_a_new_case_at_an_old_place_has_its_own_white_noise():
    kernel = KERNEL + bgp.kernels.White(0.3)
    X, t = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0, 1.0])
    solution = finish(stream(X, t, bgp.Step(), kernel))
    sweep = Online().solve(bgp.Problem(kernel.gram(X), t, bgp.Step()))
    np.testing.assert_allclose(solution.alpha, sweep.alpha, atol=1e-10)


@pytest.mark.parametrize(
    ("x", "t", "message"),
    [
        (
            [0.0, np.nan],
            1.0,
            r"x must be finite, but 1 of its 2 entries are NaN or infinite \(the first at index \(1,\)",
        ),
        ([0.0], 1.0, "x must have 2 entries, as the 3 inputs before it, got 1"),
        ([0.0, 1.0, 2.0], 1.0, "x must have 2 entries, as the 3 inputs before it, got 3"),
        ([[0.0, 1.0]], 1.0, r"x must be one input, a vector \(d,\) with d >= 1, got shape \(1, 2\)"),
        ([], 1.0, r"x must be one input, a vector \(d,\) with d >= 1, got shape \(0,\)"),
        (["a", "b"], 1.0, "x must hold numbers"),
        ([0.0, 1.0], 0.5, r"t must be a label -1 or \+1 for Probit, got 0.5"),
        ([0.0, 1.0], np.nan, r"t must be a label -1 or \+1 for Probit, got nan"),
        ([0.0, 1.0], [1.0, -1.0], r"t must be one number, got shape \(2,\)"),
    ],
)
def test_malformed_examples_are_refused_in_words(x, t, message):
    X, labels = make_inputs(3)
    state = stream(X, labels, bgp.Probit())
    with pytest.raises(ValueError, match=message):
        update(state, KERNEL, x, t, bgp.Probit())


def test_real_targets_must_be_finite():
    with pytest.raises(ValueError, match="t must be a finite number, got inf"):
        update(init(), KERNEL, [0.0, 0.0], np.inf, Gaussian(0.5))
    assert update(init(), KERNEL, [0.0, 0.0], 0.7, Gaussian(0.5)).n_seen == 1


def test_a_value_known_beforehand_cannot_take_a_noise_free_label():
    with pytest.raises(
        bgp.NotPositiveDefiniteError, match=r"example 0 must have a positive variance .* got 0 \(prior 0"
    ):
        update(init(), bgp.kernels.Linear(), [0.0, 0.0], 1.0, bgp.Step())
    state = update(init(), bgp.kernels.Linear(), [0.0, 0.0], 1.0, bgp.Probit())  # with noise it says nothing, rightly
    np.testing.assert_allclose(state.log_evidence, np.log(0.5))


def test_there_is_no_solution_before_the_first_example():
    with pytest.raises(ValueError, match="after at least one example, got one that has seen none"):
        finish(init())
