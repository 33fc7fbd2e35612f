"""Models that misfit are said to: beside a constant, and by the coverage of intervals; those that fit are not."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy import stats

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import misfit
from bayesgp_mf.likelihoods import Gaussian

RNG = np.random.default_rng(4)
X = RNG.uniform(-3.0, 3.0, (60, 1))
F = np.sin(X[:, 0])
QUICK = {"draws": 5, "chains": 1, "random_seed": 1, "progress": False}
KERNEL = bgp.kernels.Gaussian(1.0)
EXPOSURE = RNG.uniform(1.0, 9.0, 60)
LABELS = np.where(F + 0.3 * RNG.normal(size=60) > 0, "yes", "no")
REAL = F + 0.3 * RNG.normal(size=60)
COUNTS = RNG.poisson(EXPOSURE * np.exp(F))
LEVELS = np.digitize(F + 0.3 * RNG.normal(size=60), [-0.5, 0.5])


def fitted(y, likelihood, kernel=KERNEL, **options):
    return bgp.fit(X, y, kernel, likelihood, **QUICK, **options)


@pytest.mark.parametrize(
    ("y", "likelihood", "options"),
    [
        (LABELS, bgp.Probit(), {}),
        (REAL, Gaussian(0.09), {}),
        (COUNTS, bgp.Poisson(), {"offset": np.log(EXPOSURE)}),
        (LEVELS, bgp.Ordinal([-0.5, 0.5], 0.09), {}),
    ],
)
def test_a_model_that_fits_is_better_than_a_constant_and_covers(y, likelihood, options, tmp_path):
    idata = fitted(y, likelihood, **options)
    found = misfit(idata)
    assert found.sentence == ""
    assert found.loo > found.constant
    np.testing.assert_allclose(found.loo, float(idata["fit"]["loo_i"].mean()))
    assert "The model misfits" not in bgp.report(idata, tmp_path / "fit.html").read_text()


def test_what_is_wrong_is_said_in_the_report_too(tmp_path):
    noise = RNG.normal(size=60)
    idata = fitted(noise, Gaussian(0.1), bgp.kernels.Matern32(0.3))
    found = misfit(idata)
    assert found.constant > found.loo
    assert found.coverage < 0.75
    assert "worse than a constant does" in found.sentence
    assert "90% intervals are too narrow" in found.sentence
    assert found.sentence[:60] in bgp.report(idata, tmp_path / "fit.html").read_text()
    wide = misfit(fitted(F, Gaussian(9.0)))
    assert wide.coverage == 1.0
    assert "worse than a constant does" in wide.sentence


def test_constants_are_those_of_textbooks():
    """Each target given the others: by scipy, with their own formulas."""
    normal = []
    for i, y in enumerate(REAL):
        others = np.delete(REAL, i)
        normal.append(stats.t.logpdf(y, 58, loc=others.mean(), scale=others.std(ddof=1) * np.sqrt(1.0 + 1.0 / 59.0)))
    np.testing.assert_allclose(misfit(fitted(REAL, Gaussian(0.09))).constant, np.mean(normal), rtol=1e-10)
    shares = [np.log((np.sum(np.delete(LABELS, i) == LABELS[i]) + 0.5) / 60) for i in range(60)]
    np.testing.assert_allclose(misfit(fitted(LABELS, bgp.Probit())).constant, np.mean(shares), rtol=1e-12)
    rates = [
        stats.nbinom.logpmf(COUNTS[i], 0.5 + np.delete(COUNTS, i).sum(), b / (b + EXPOSURE[i]))
        for i in range(60)
        for b in [np.delete(EXPOSURE, i).sum()]
    ]
    found = misfit(fitted(COUNTS, bgp.Poisson(), offset=np.log(EXPOSURE)))
    np.testing.assert_allclose(found.constant, np.mean(rates), rtol=1e-9)


def test_counts_of_a_negative_binomial_are_beside_a_constant_of_that():
    y = RNG.negative_binomial(1.5, 0.1, 60)
    found = misfit(fitted(y, bgp.NegativeBinomial(1.5), offset=np.log(EXPOSURE)))
    each = []
    for i in range(60):
        rate = EXPOSURE[i] * (0.5 + np.delete(y, i).sum()) / np.delete(EXPOSURE, i).sum()
        each.append(stats.nbinom.logpmf(y[i], 1.5, 1.5 / (1.5 + rate)))
    np.testing.assert_allclose(found.constant, np.mean(each), rtol=1e-10)
    assert found.constant > misfit(fitted(y, bgp.Poisson(), offset=np.log(EXPOSURE))).constant + 1.0


def test_a_population_in_place_of_its_logarithm_is_warned_of():
    population = RNG.integers(100, 690, 60).astype(float)
    message = r"offset has numbers as large as .* give the log, offset=np\.log\(population\)"
    with (
        pytest.warns(UserWarning, match=message),
        contextlib.suppress(bgp.ConvergenceError, ArithmeticError, ValueError),
    ):
        fitted(COUNTS, bgp.Poisson(), offset=population)
    idata = fitted(COUNTS, bgp.Poisson(), offset=np.log(population))
    with pytest.warns(UserWarning, match=message):
        bgp.predict(idata, X[:2], offset=[60.0, 5.0], draws=False)
    with pytest.raises(ValueError, match=r"offset must be between .* of an exposure pass the logarithm"):
        fitted(COUNTS, bgp.Poisson(), offset=100.0 * population)
    with pytest.raises(TypeError, match=r"no argument 'exposure'.*offset=np\.log\(exposure\)"):
        fitted(COUNTS, bgp.Poisson(), exposure=population)


def test_constants_of_trials_and_of_weights_are_averages_over_the_others():
    trials, weights = RNG.integers(1, 9, 60), RNG.integers(1, 4, 60).astype(np.float64)
    y = RNG.binomial(trials, 1.0 / (1.0 + np.exp(-F)))
    shares = [
        stats.betabinom.logpmf(y[i], trials[i], 0.5 + up.sum(), 0.5 + down.sum())
        for i in range(60)
        for up, down in [(np.delete(y, i), np.delete(trials - y, i))]
    ]
    found = misfit(fitted(y, bgp.likelihoods.Binomial(trials)))
    np.testing.assert_allclose(found.constant, np.mean(shares), rtol=1e-9)

    n, of_class, of_rate = 12, [], []
    some = {"weights": weights[:n], **QUICK}
    for i in range(n):
        others, w, largest = np.delete(np.arange(n), i), weights[i], EXPOSURE[:n].max()
        a = 0.5 + weights[others][LABELS[others] == LABELS[i]].sum()
        steps, total = np.arange(w), 1.0 + weights[others].sum()
        of_class.append(np.sum(np.log((a + steps) / (total + steps))))
        rate = stats.gamma(0.5 + weights[others] @ COUNTS[others], scale=largest / (weights[others] @ EXPOSURE[others]))
        r, step = np.linspace(0.0, 30.0 * rate.mean(), 400_001)[1:], 30.0 * rate.mean() / 400_000
        each = rate.pdf(r) * stats.poisson.pmf(COUNTS[i], r * EXPOSURE[i] / largest) ** w
        of_rate.append(np.log(np.sum(each) * step))
    found = misfit(bgp.fit(X[:n], LABELS[:n], KERNEL, bgp.Probit(), **some))
    np.testing.assert_allclose(found.constant, np.mean(of_class), rtol=1e-12)
    found = misfit(bgp.fit(X[:n], COUNTS[:n], KERNEL, bgp.Poisson(), offset=np.log(EXPOSURE[:n]), **some))
    np.testing.assert_allclose(found.constant, np.mean(of_rate), rtol=1e-7)
    assert misfit(bgp.fit(X[:n], REAL[:n], KERNEL, Gaussian(0.09), **some)).constant is None


def test_a_console_shows_what_is_wrong_and_the_numbers():
    found = misfit(fitted(F, Gaussian(9.0)))
    head, *rows = repr(found).splitlines()
    assert head == found.sentence
    assert rows[0].split() == ["cases", "loo", "constant", "coverage"]
    assert float(found.to_frame()["loo"].iloc[0]) == found.loo
    assert repr(misfit(fitted(LABELS, bgp.Probit()))).startswith("Nothing is seen against the model.")
