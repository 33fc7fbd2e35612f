"""Averages over hyperparameters, and their way into a container and back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.write import to_container
from bayesgp_mf.fitting import posterior, predict
from bayesgp_mf.processes.process import Process, Tuned

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(0.7), n=15, random_seed=2)
T = 2.0 * TOY.y - 1.0


def make_part(lengthscale, variance=2.0, X=TOY.X, t=T, likelihood=bgp.Probit(0.5)) -> bgp.Posterior:
    kernel = bgp.kernels.Gaussian([lengthscale, 1.0], variance)
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    return bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, t, likelihood))


@pytest.fixture
def mixture() -> Process:
    return Process(tuple(make_part(scale) for scale in (0.4, 0.8, 1.6)), np.array([0.2, 0.5, 0.3]))


def test_predictions_are_weighted_averages(mixture):
    parts, w = mixture.parts, mixture.weights
    expected = sum(weight * part.predict_proba(TOY.X_test) for weight, part in zip(w, parts, strict=True))
    np.testing.assert_allclose(mixture.predict_proba(TOY.X_test), expected)
    mean, variance = mixture.latent(TOY.X_test)
    moments = [part.latent(TOY.X_test) for part in parts]
    second = sum(weight * (v + m**2) for weight, (m, v) in zip(w, moments, strict=True))
    np.testing.assert_allclose(mean, sum(weight * m for weight, (m, _) in zip(w, moments, strict=True)))
    np.testing.assert_allclose(variance, second - mean**2)
    np.testing.assert_allclose(mixture.latent_mean(TOY.X_test), mean)


def test_it_prints_as_a_few_lines():
    scales = np.linspace(0.4, 1.6, 30)
    many = Process(tuple(make_part(scale) for scale in scales), np.full(30, 1 / 30))
    lines = repr(many).split("\n")
    assert lines[0] == "Average of 30 x Posterior, 15 cases"
    assert lines[1:4] == ["  weights: 0.03333 to 0.03333", "  lengthscale: 0.4 to 1.6", "  variance: 2 to 2"]
    assert lines[4].startswith("  log evidence: -")
    assert len(lines) == 5
    part = many.parts[0]
    long_kernel = part.kernel
    for _ in range(4):
        long_kernel = long_kernel + bgp.kernels.Bias() + bgp.kernels.White()
    problem = bgp.Problem(long_kernel.gram(part.X), T, bgp.Probit())
    solved = bgp.Posterior(long_kernel, part.X, problem, bgp.solve(problem.gram, T, bgp.Probit()))
    assert len(repr(Process((solved,) * 3, np.full(3, 1 / 3))).split("\n")) == 9


def test_one_part_is_that_part(mixture):
    part = mixture.parts[0]
    alone = Process((part,), np.ones(1))
    np.testing.assert_allclose(alone.predict_proba(TOY.X_test), part.predict_proba(TOY.X_test))
    np.testing.assert_allclose(alone.loo.log_density, part.loo.log_density)
    np.testing.assert_allclose(alone.loo.variance, part.loo.variance)
    np.testing.assert_allclose(alone.log_density_at_training, part.log_density_at_training)


def test_leave_one_out_weighs_the_settings_without_the_case():
    """Against the definition, under a flat prior over three settings; for regression nothing is approximated."""
    scales, regression = (0.4, 0.8, 1.6), bgp.likelihoods.Gaussian(0.3)
    t = TOY.f + 0.3 * T
    parts = tuple(make_part(scale, t=t, likelihood=regression) for scale in scales)
    evidences = np.array([part.log_evidence for part in parts])
    mixture = Process(parts, np.exp(evidences - logsumexp(evidences)))
    for i in range(t.size):
        rest = np.delete(np.arange(t.size), i)
        without = [make_part(scale, X=TOY.X[rest], t=t[rest], likelihood=regression) for scale in scales]
        log_weights = np.array([part.log_evidence for part in without])
        shares = np.exp(log_weights - logsumexp(log_weights))
        mean, variance = np.array([part.latent(TOY.X[[i]]) for part in without])[:, :, 0].T
        each = regression.log_partition(t[i], mean, variance).value
        np.testing.assert_allclose(mixture.loo.log_density[i], logsumexp(each, b=shares), atol=1e-8)
        np.testing.assert_allclose(mixture.loo.mean[i], shares @ mean, atol=1e-8)
        expected = shares @ (variance + mean**2) - (shares @ mean) ** 2
        np.testing.assert_allclose(mixture.loo.variance[i], expected, atol=1e-8)


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_container_holds_hyperparameters_by_draw_and_comes_back(mixture, through_a_file, tmp_path):
    rng = np.random.default_rng(1)
    node = rng.choice(3, size=(2, 40), p=mixture.weights)
    idata = to_container(
        Tuned(mixture, node, {"diverging": np.zeros((2, 40), dtype=bool)}, sampled=True),
        class_names=("no", "yes"),
        feature_names=["a", "b"],
        rng=rng,
        attrs={"hyper": "hmc"},
    )
    if through_a_file:
        import arviz as az

        idata.to_netcdf(str(tmp_path / "mixture.nc"), engine="h5netcdf")
        idata = az.from_netcdf(str(tmp_path / "mixture.nc"), engine="h5netcdf")
    drawn = get_group(idata, "posterior")
    assert drawn["lengthscale"].dims == ("chain", "draw", "feature")
    np.testing.assert_allclose(drawn["lengthscale"].values[..., 0], np.array([0.4, 0.8, 1.6])[node])
    assert drawn["variance"].dims == ("chain", "draw")
    stats = get_group(idata, "sample_stats")
    assert not stats["diverging"].values.any()
    # importance weights: each setting's evidence is in the mixture's weights already
    np.testing.assert_allclose(np.exp(stats["log_p"] - stats["log_q"]).mean(), 1.0, atol=0.2)
    back = posterior(idata)
    np.testing.assert_allclose(back.weights, mixture.weights)
    np.testing.assert_allclose(back.predict_proba(TOY.X_test), mixture.predict_proba(TOY.X_test), rtol=1e-6)
    np.testing.assert_allclose(get_group(idata, "fit")["loo_i"].values, mixture.loo.log_density)
    done = predict(idata, TOY.X_test, random_seed=3)
    np.testing.assert_allclose(done["predictions"]["p"].values, mixture.predict_proba(TOY.X_test), rtol=1e-6)
    assert done["predictions"]["f"].shape == (2, 40, TOY.X_test.shape[0])
    assert np.isfinite(float(bgp.loo(idata)["se"]))


def test_draws_come_from_the_part_they_say(mixture):
    far = Process((mixture.parts[0], make_part(0.4, variance=1e4)), np.array([0.5, 0.5]))
    node = np.array([[0, 1] * 50])
    idata = to_container(
        Tuned(far, node), class_names=("a", "b"), feature_names=None, rng=np.random.default_rng(0), attrs={}
    )
    f = get_group(idata, "posterior")["f"].values[0]
    assert np.abs(f[0::2]).mean() < 0.1 * np.abs(f[1::2]).mean()
    new = predict(idata, TOY.X_test, random_seed=3)["predictions"]["f"].values[0]
    assert np.abs(new[0::2]).mean() < 0.1 * np.abs(new[1::2]).mean()


@pytest.mark.parametrize("method", ["tap", "laplace"])
def test_a_posterior_prints_what_it_is_in_three_lines(method):
    X = np.linspace(-2.0, 2.0, 300)[:, None]
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), method=method, draws=1, chains=1, progress=False)
    said = repr(bgp.posterior(idata))
    assert said.startswith(f"Posterior, 300 cases, 1 inputs, method '{method}'")
    assert said.count("\n") == 2
    assert len(said) < 400


def test_threads_may_be_the_first_to_ask_the_same_posterior():
    X = np.random.default_rng(1).normal(size=(300, 3))
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), draws=1, chains=1, random_seed=1, progress=False)
    expected = bgp.posterior(idata).latent(X[:50])
    for _ in range(5):
        posterior, start = bgp.posterior(idata), threading.Barrier(8)

        def ask(posterior=posterior, start=start):
            start.wait()
            return posterior.latent(X[:50])

        with ThreadPoolExecutor(8) as pool:
            for found in [each.result() for each in [pool.submit(ask) for _ in range(8)]]:
                np.testing.assert_allclose(found, expected, rtol=1e-9)
