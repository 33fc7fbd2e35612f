"""Draws of functions at very many inputs: the covariance of the posterior, without its matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.container import draws as container_draws
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.processes import paths
from bayesgp_mf.processes import single as posterior_process
from bayesgp_mf.processes.single import Posterior
from tests.processes.known import linear_map

RNG = np.random.default_rng(0)
X = RNG.standard_normal((25, 2))
T = np.where(X[:, 0] + 0.5 * RNG.standard_normal(25) > 0, 1.0, -1.0)
X_NEW = np.concatenate([2.0 * RNG.standard_normal((30, 2)), X[:3], X[:1]])
SMOOTH = kernels.Gaussian(1.5, 2.0)


def posterior_of(kernel, likelihood, method="tap", t=T):
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    return Posterior(kernel, X, problem, bgp.solve(problem.gram, t, likelihood, method=method))


def assert_is_the_posterior(process, X_new):
    mean, rows = linear_map(process, X_new)
    cross = process.kernel.cross(process.X, X_new)
    prior = process.kernel.gram(X_new)
    scale = np.sqrt(np.outer(np.diag(prior), np.diag(prior)))
    covariance = prior - process.solution.correction.quadratic(cross)
    np.testing.assert_array_less(np.abs(rows.T @ rows - covariance), 4 * paths.TOLERANCE * scale)
    np.testing.assert_allclose(mean, process.latent_mean(X_new), atol=1e-6 * np.sqrt(scale.max()))


@pytest.fixture
def as_functions(monkeypatch):
    """Draw however few new cases as if they were very many, in blocks of a few."""
    monkeypatch.setattr(posterior_process, "LARGEST_JOINT", 0)
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 7)


@pytest.mark.parametrize(
    "kernel",
    [
        SMOOTH,
        SMOOTH + kernels.Bias(3.0),
        SMOOTH + kernels.White(0.3),
        SMOOTH * kernels.Linear(),
        kernels.Matern32(1.0),
        kernels.Linear() + kernels.Bias(),
        kernels.White(2.0),
    ],
    ids=repr,
)
def test_functions_have_the_covariance_of_the_posterior_for_every_kind_of_kernel(kernel, as_functions):
    assert_is_the_posterior(posterior_of(kernel, bgp.Probit()), X_NEW)


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [
        (bgp.Probit(), "variational"),
        (bgp.Probit(), "naive"),
        (bgp.Logit(), "laplace"),
        (bgp.Probit(flip=0.1), "tap"),
        (bgp.Probit(1.0), "online"),
        (Gaussian(0.01), "exact"),
    ],
    ids=str,
)
def test_functions_have_the_covariance_of_the_posterior_for_every_kind_of_correction(likelihood, method, as_functions):
    t = T.copy()
    t[np.argmax(X[:, 0])] = -1.0  # a case that flips explain has a negative site
    process = posterior_of(SMOOTH + kernels.Bias(), likelihood, method, t)
    if isinstance(likelihood, bgp.Probit) and likelihood.flip:
        assert np.any(process.solution.correction.site_precision < 0)
    assert_is_the_posterior(process, X_NEW)


def test_the_covariance_matrix_gives_the_same_law():
    assert_is_the_posterior(posterior_of(SMOOTH + kernels.White(0.3), bgp.Probit()), X_NEW)


def test_functions_know_what_the_training_cases_know_of_far_places(as_functions):
    # 60 cases that are nearly one: their values say a little of directions that only new cases span
    close = X[0] + 0.05 * RNG.standard_normal((60, 2))
    t = np.sin(40.0 * close[:, 0])
    problem = bgp.Problem(SMOOTH.gram(close), t, Gaussian(1e-5))
    process = Posterior(SMOOTH, close, problem, bgp.solve(problem.gram, t, problem.likelihood, method="exact"))
    assert paths.cover(paths.empty_basis(SMOOTH, 2), close, 60)[0].size < 20
    mean, rows = linear_map(process, X_NEW)
    cross = SMOOTH.cross(close, X_NEW)
    covariance = SMOOTH.gram(X_NEW) - process.solution.correction.quadratic(cross)
    np.testing.assert_allclose(mean, process.latent_mean(X_NEW), atol=1e-6 * np.abs(process.latent_mean(X_NEW)).max())
    np.testing.assert_allclose(rows.T @ rows, covariance, atol=4 * paths.TOLERANCE * 2.0)


def test_exact_functions_keep_to_their_side_of_a_step(as_functions):
    problem = bgp.Problem(SMOOTH.gram(X[:6]), T[:6], bgp.Step())
    process = Posterior(SMOOTH, X[:6], problem, bgp.solve(problem.gram, problem.t, problem.likelihood, method="exact"))
    f = process.draw_new(X[:6], 500, np.random.default_rng(1))
    assert np.mean(f * T[:6] > -1e-6) == 1.0  # a Gaussian with the same moments would cross over


def test_a_posterior_that_is_exact_is_drawn_as_such(as_functions):
    problem = bgp.Problem(SMOOTH.gram(X[:6]), T[:6], bgp.Probit())
    process = Posterior(SMOOTH, X[:6], problem, bgp.solve(problem.gram, problem.t, problem.likelihood, method="exact"))
    f = process.draw_new(X_NEW[:4], 20_000, np.random.default_rng(1))
    mean, variance = process.latent(X_NEW[:4])
    np.testing.assert_array_less(np.abs(f.mean(axis=0) - mean), 5 * np.sqrt(variance / 20_000))
    np.testing.assert_allclose(f.var(axis=0), variance, rtol=0.06)
    p = problem.likelihood.predict_proba(f, np.zeros(())).mean(axis=0)
    np.testing.assert_allclose(p, process.predict_proba(X_NEW[:4]), atol=0.015)


def test_a_basis_covers_all_cases_whatever_the_blocks(monkeypatch):
    cases = RNG.uniform(-3, 3, (700, 2))
    scale = np.sqrt(SMOOTH.diag(cases))
    sizes = []
    for block in (50, 1000):
        monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", block)
        basis, noise = paths.cover(paths.empty_basis(SMOOTH, 2), cases, 400)
        rows = basis.rows(cases)
        assert np.abs(rows @ rows.T - SMOOTH.gram(cases)).max() < 2 * paths.TOLERANCE * scale[0] ** 2
        np.testing.assert_array_equal(noise, 0.0)
        np.testing.assert_array_equal(np.triu(basis.factor, 1), 0.0)
        sizes.append(basis.size)
    assert sizes[0] < 1.3 * sizes[1] < 170  # a few more pivots where they are not taken from all cases at once


def test_a_basis_is_as_small_as_the_rank():
    cases = np.concatenate([RNG.standard_normal((200, 3)) * 10.0 ** RNG.uniform(-3, 3, (200, 1)), np.zeros((1, 3))])
    for kernel, rank in ((kernels.Linear(), 3), (kernels.Linear() + kernels.Bias(), 4), (kernels.White(), 0)):
        basis, noise = paths.cover(paths.empty_basis(kernel, 3), cases, 10)
        assert basis.size == rank
        np.testing.assert_allclose(noise, kernel.diag(cases) if rank == 0 else 0.0)


def test_a_process_that_is_too_rough_is_refused():
    with pytest.raises(paths.TooRoughError, match="the first 100 of 100 vary in more than 20 independent ways"):
        paths.cover(paths.empty_basis(SMOOTH, 1), 100.0 * np.arange(100.0)[:, None], 20)


def test_new_cases_that_are_neither_few_nor_smooth_are_not_drawn_jointly(monkeypatch):
    monkeypatch.setattr(posterior_process, "LARGEST_JOINT", 20)
    monkeypatch.setattr(container_draws, "LARGEST_JOINT", 20)
    monkeypatch.setattr(posterior_process, "MOST_WAYS", 20)
    idata = bgp.fit(X, T, SMOOTH, draws=200, chains=2, random_seed=0)
    pairs = np.repeat(100.0 * np.arange(12.0), 2)  # each place twice, which a joint draw gives one value
    apart = np.concatenate([pairs, pairs[:1], pairs + 5000.0])[:, None] * [1.0, 1.0]
    jointly = bgp.predict(idata, apart[:20])["predictions"]
    assert "cases_drawn_jointly" not in jointly.attrs
    message = (
        "limited to 20 at once under .* the first 49 of 49 vary in more than 20 .* Predict in parts, or .*draws=False"
    )
    with pytest.raises(ValueError, match=message):
        bgp.posterior(idata).draw_new(apart, 2, RNG)
    with pytest.warns(UserWarning, match="49 new cases are too many to be drawn jointly.* in blocks of 17 in their"):
        bgp.predict(idata, apart, random_seed=1)
    assert idata["predictions"].attrs["cases_drawn_jointly"] == 17
    f = idata["predictions"]["f"].values.reshape(400, 49)
    np.testing.assert_allclose(f[:, 0], f[:, 1], atol=1e-6)  # in one block
    assert abs(np.corrcoef(f[:, 16], f[:, 17])[0, 1]) < 0.25  # in two
    np.testing.assert_allclose(f.std(axis=0), idata["predictions"]["latent_sd"].values, rtol=0.2)
    bgp.predict(idata, apart, draws=False)
    assert "cases_drawn_jointly" not in idata["predictions"].attrs
    bgp.predict(idata, np.concatenate([X, X, apart[:20]]))  # the training cases determine the first 50


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_new_cases_but_for_the_results(monkeypatch):
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 128)
    process = posterior_of(SMOOTH, bgp.Probit())
    few, many = (RNG.uniform(-2, 2, (m, 2)) for m in (20_000, 100_000))
    peaks = [peak_of(lambda cases=cases: process.predictive(cases)) for cases in (few, many)]
    assert peaks[1] - peaks[0] < 10 * 8 * 80_000  # some vectors, where covariances with 25 cases would be 25
    few, many = few[:6_000], many[:26_000]
    peaks = [
        peak_of(lambda cases=cases: process.draw_new(cases, 20, np.random.default_rng(0))) for cases in (few, many)
    ]
    assert peaks[1] - peaks[0] < 28 * 8 * 20_000  # 20 draws, and some vectors: 3 mostly, and 4 with other tests before
    assert peaks[1] < 24 * 8 * 26_000 + 2**21  # and the block that is worked on


def test_blocks_hold_a_bounded_number_of_covariances(monkeypatch):
    asked = []

    class Watched(kernels.Gaussian):
        def cross(self, A, B):
            asked.append(len(A) * len(B))
            return super().cross(A, B)

    kernel = Watched(1.5)
    process = posterior_of(kernel, bgp.Probit())
    whole = process.latent(X_NEW)
    monkeypatch.setattr(posterior_process, "LARGEST_BLOCK", 100)
    asked.clear()
    np.testing.assert_allclose(process.latent(X_NEW), whole, rtol=1e-12)
    assert max(asked) == 100
    assert sum(asked) == len(X) * len(X_NEW)


def test_many_new_cases_go_through_the_users_door():
    x = np.linspace(-3, 3, 40)[:, None]
    idata = bgp.fit(x, x[:, 0] > 0, bgp.kernels.Gaussian(), draws=200, chains=2, random_seed=0)
    new = np.linspace(-4, 4, 6001)[:, None]
    found = bgp.predict(idata, new, random_seed=1)["predictions"]
    f = found["f"].values.reshape(-1, 6001)
    score = (f - found["latent_mean"].values) / found["latent_sd"].values
    assert np.abs(score.mean(axis=0)).max() < 5 / np.sqrt(400)
    np.testing.assert_allclose(score.var(axis=0), 1.0, atol=6 * np.sqrt(2 / 400))
    assert np.abs(np.diff(f, axis=1)).max() < 0.05  # joint draws of a smooth process are smooth
    np.testing.assert_allclose(found["y"].mean(dim=("chain", "draw")), found["p"], atol=5 * 0.5 / np.sqrt(400))


def test_draws_that_do_not_fit_are_refused_by_name_before_any_work(set_memory):
    idata = bgp.fit(X, T, SMOOTH, draws=20, chains=2, random_seed=0)
    set_memory(409_600)
    with pytest.raises(
        MemoryError, match=r"4000 draws of 25 training cases need .* Ask for fewer: fit\(\.\.\., draws="
    ):
        bgp.fit(X, T, SMOOTH, random_seed=0)
    with pytest.raises(MemoryError, match=r"40 draws of 1000 new cases need .* draws=False"):
        bgp.predict(idata, np.zeros((1000, 2)))
    bgp.predict(idata, np.zeros((1000, 2)), draws=False)


def test_a_container_pairs_draws_with_what_is_said_of_them(monkeypatch):
    monkeypatch.setattr(container_draws, "DRAWN_AT_ONCE", 3 * len(X))
    idata = bgp.fit(X, T, SMOOTH, draws=5, chains=2, random_seed=0)
    f, stats, root = idata["posterior"]["f"].values, idata["sample_stats"], psd_root(SMOOTH.gram(X))
    log_likelihood = bgp.Probit().log_prob(T, f).value
    np.testing.assert_allclose(idata["log_likelihood"]["y"], log_likelihood, rtol=1e-9)
    u = np.linalg.lstsq(root, f.reshape(10, -1).T, rcond=None)[0]
    log_prior = -0.5 * np.sum(u**2, axis=0).reshape(2, 5)
    offset = stats["log_p"].values - log_likelihood.sum(axis=-1) - log_prior
    np.testing.assert_allclose(offset, offset[0, 0], atol=1e-3)


@pytest.mark.parametrize("marginals", ["gaussian", "tilted"])
def test_draws_in_blocks_are_the_draws_at_once(marginals):
    process = posterior_of(SMOOTH + kernels.White(0.1), bgp.Probit())
    whole = process.draw(10, np.random.default_rng(3), marginals)
    parts = list(process.draw_in_blocks(10, 4, np.random.default_rng(3), marginals))
    assert [len(part.f) for part in parts] == [4, 4, 2]
    np.testing.assert_allclose(np.concatenate([part.f for part in parts]), whole.f, rtol=1e-10)
    np.testing.assert_allclose(np.concatenate([part.log_p - part.log_q for part in parts]), whole.log_p - whole.log_q)
