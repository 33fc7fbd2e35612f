"""Offsets and weights in a stream: those of a fit, kept with the reservoir and in files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Censored, Gaussian, Poisson, Weibull
from bayesgp_mf.streams import Stream

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 1))
OFFSET, WEIGHTS = RNG.normal(size=24), RNG.integers(0, 3, 24).astype(float)
Y = X[:, 0] + OFFSET + RNG.normal(size=24) > 0
COUNTS = RNG.poisson(np.exp(X[:, 0] + OFFSET))
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)
GIVEN = {"offset": OFFSET, "weights": WEIGHTS}


def test_one_batch_is_a_fit():
    stream = Stream(KERNEL, budget=None).update(X, Y, **GIVEN)
    idata = bgp.predict(bgp.fit(X, Y, KERNEL, draws=2, **GIVEN), X[:4], offset=OFFSET[:4])
    got = stream.predict_proba(X[:4], offset=OFFSET[:4])
    np.testing.assert_allclose(got, idata["predictions"]["p"], atol=1e-8)
    without = Stream(KERNEL, budget=None).update(X, Y).predict_proba(X[:4])
    assert np.abs(got - without).max() > 0.05  # a control


def test_batches_of_gaussian_targets_are_one_fit():
    likelihood, y = bgp.likelihoods.Gaussian(0.4), X[:, 0] + OFFSET
    stream = Stream(KERNEL, likelihood, budget=None, batch=7).update(X, y, **GIVEN)
    fit = bgp.fit(X, y, KERNEL, likelihood, draws=2, **GIVEN)
    mean, variance = bgp.posterior(fit).latent(X[:4])
    np.testing.assert_allclose(stream.latent(X[:4]), [mean, variance], atol=1e-7)
    again = stream.retune(
        bgp.hyper.Evidence(starts=1), fixed=["variance"], priors={"lengthscale": bgp.hyper.LogNormal(0.5, 0.1)}
    )
    process = bgp.posterior(bgp.fit(X, y, again.kernel, likelihood, draws=2, **GIVEN))  # learned anew under that kernel
    assert abs(again.kernel.lengthscale - 1.0) > 0.01
    np.testing.assert_allclose(again.latent(X[:4]), process.latent(X[:4]), atol=1e-6)


def test_a_case_alone_has_its_own():
    one = Stream(KERNEL, Poisson()).update([0.3], 2, offset=0.5, weights=2.0)
    table = Stream(KERNEL, Poisson()).update([[0.3]], [2], offset=[0.5], weights=[2.0])
    assert one.latent([0.1])[0] == table.latent([0.1])[0]


def test_the_reservoir_and_files_have_them(tmp_path):
    stream = Stream(KERNEL, Poisson(), budget=None, batch=10).update(X, COUNTS, **GIVEN)
    stream.save(tmp_path / "stream.npz")
    loaded = Stream.load(tmp_path / "stream.npz")
    fixed = {"fixed": ["variance"], "priors": {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}}
    fixed["hyper"] = bgp.hyper.Evidence(starts=1)
    expected = bgp.fit(X, COUNTS, KERNEL, Poisson(), draws=2, **GIVEN, **fixed)
    tuned = bgp.posterior(expected).kernel.lengthscale
    assert loaded.retune(**fixed).kernel.lengthscale == pytest.approx(tuned, rel=1e-3)
    plain = Stream(KERNEL, Poisson(), budget=None).update(X, COUNTS).retune(**fixed)
    assert plain.kernel.lengthscale != pytest.approx(tuned, rel=1e-2)  # a control


def test_fewer_cases_are_kept_with_their_own_offsets(tmp_path):
    """Each offset says which case it is of."""
    stream = Stream(KERNEL, Poisson(), reservoir=8, first=8, batch=5)
    stream.update(X, COUNTS, offset=X[:, 0], weights=1.0 + X[:, 0] ** 2)
    stream.save(tmp_path / "stream.npz")
    with np.load(tmp_path / "stream.npz") as kept:
        assert len(kept["X"]) == 8
        np.testing.assert_array_equal(kept["by_case"], np.column_stack([kept["X"][:, 0], 1.0 + kept["X"][:, 0] ** 2]))


def test_what_is_missing_or_malformed_is_said():
    stream = Stream(KERNEL).update(X, Y, offset=OFFSET)
    with pytest.raises(ValueError, match="offset is missing: cases of this stream had"):
        stream.predict_proba(X)
    with pytest.raises(ValueError, match="goes with a stream whose cases had offsets"):
        Stream(KERNEL).update(X, Y).predict_proba(X, offset=OFFSET)
    with pytest.raises(ValueError, match="weights must be >= 0"):
        stream.update(X, Y, weights=-WEIGHTS)
    assert stream.n_seen == 24


def test_offsets_that_are_forgotten_are_missed():
    stream = Stream(KERNEL, Poisson()).update(X, COUNTS, offset=OFFSET, progress=False)
    before = stream.latent(X)
    with pytest.raises(ValueError, match="offset is missing: cases of this stream had offsets before"):
        stream.update(X, COUNTS, progress=False)
    np.testing.assert_array_equal(stream.latent(X), before)


def test_limits_come_with_the_targets_and_are_kept(tmp_path):
    times = Censored(Weibull(1.5))
    time = np.exp(0.5 * X[:, 0]) * RNG.weibull(1.5, len(X))
    event = RNG.uniform(size=len(X)) < 0.6
    y = pd.DataFrame({"time": time, "event": event})
    stream = Stream(KERNEL, times, budget=None, batch=10).update(X, y)
    stream.save(tmp_path / "stream.npz")
    loaded = Stream.load(tmp_path / "stream.npz")
    fixed = {"fixed": ["variance"], "priors": {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}}
    fixed["hyper"] = bgp.hyper.Evidence(starts=1)
    of_fit = {**fixed, "fixed": ["variance", "shape"]}  # a stream keeps its likelihood
    tuned = bgp.posterior(bgp.fit(X, y, KERNEL, times, draws=2, **of_fit)).kernel.lengthscale
    assert loaded.retune(**fixed).kernel.lengthscale == pytest.approx(tuned, rel=1e-3)
    seen = Stream(KERNEL, Weibull(1.5), budget=None).update(X, time)
    assert np.abs(stream.latent(X)[0] - seen.latent(X)[0]).max() > 0.05  # a control
    one = Stream(KERNEL, times).update(X[:6], y[:6].assign(event=False))  # others may be seen, and no warning is due
    assert np.isfinite(one.update(X[6:], time[6:]).log_score.total)
    with pytest.raises(ValueError, match="limits of certain cases"):
        Stream(KERNEL, Censored(Weibull(1.5), np.full(len(X), np.inf)))


def test_the_default_kernel_looks_behind_the_limits():
    time = np.exp(3.0 + 2.0 * X[:, 0]) * np.random.default_rng(1).weibull(1.5, len(X))
    end = np.quantile(time, 0.3)
    event = time < end
    y = pd.DataFrame({"time": np.minimum(time, end), "event": event})
    told = Censored(Weibull(1.5), np.where(event, np.nan, np.inf))
    expected = bgp.hyper.default_model(X, y["time"].to_numpy(), told).kernel
    assert Stream(likelihood=Censored(Weibull(1.5))).update(X, y).kernel == expected
    assert expected != bgp.hyper.default_model(X, y["time"].to_numpy(), Weibull(1.5)).kernel  # a control


def test_cases_one_by_one_are_all_of_them():
    likelihood, y = Censored(Weibull(1.5)), np.zeros(6, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = np.arange(6) % 2 == 0, np.arange(6) + 0.5
    stream, whole = Stream(KERNEL, likelihood), Stream(KERNEL, likelihood, batch=1).update(X[:6], y)
    for x, case in zip(X[:6], y, strict=True):
        stream.update(x, case)
    np.testing.assert_array_equal(stream.latent(X), whole.latent(X))


def test_few_numbers_that_may_be_limits_or_events_are_refused():
    stream = Stream(KERNEL, Censored(Gaussian(0.1)))
    for low, high in ([0.3, 1.0], [0.0, 0.0], [-2.0, 0.0]):
        with pytest.raises(ValueError, match="may be times and events, or limits"):
            stream.update(X[:1], [[low, high]])
    assert stream.update(X[:1], pd.DataFrame({"time": [0.3], "event": [True]})).n_seen == 1
    assert stream.update(X[:2], [[2.0, 1], [3.0, 0]]).update(X[:2], [[0.3, 1.0], [0.2, 0.4]]).n_seen == 5
