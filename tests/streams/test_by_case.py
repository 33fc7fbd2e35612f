"""Offsets and weights in a stream: those of a fit, kept with the reservoir and in files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Censored, Poisson, Weibull
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
