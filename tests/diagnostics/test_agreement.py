"""Two containers held against each other: known distances, Monte-Carlo errors that are true, verdicts both ways."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, make_container
from bayesgp_mf.diagnostics import agreement
from bayesgp_mf.diagnostics.agreement import Compared
from bayesgp_mf.kernels import Matern32

X = np.linspace(-2.0, 2.0, 20)[:, None]
KERNEL = Matern32(variance=4.0)


def samples(seed, shift=0.0, stretch=1.0, cases=3, draws=2000, dim="f_dim_0", persistence=0.0, **groups):
    """A container as PyMC makes them: chains of normal draws, autocorrelated if asked for."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((4, draws, cases))
    f = noise.copy()
    for i in range(1, draws):
        f[:, i] = persistence * f[:, i - 1] + np.sqrt(1.0 - persistence**2) * noise[:, i]
    posterior = xr.Dataset({"f": (("chain", "draw", dim), shift + stretch * f)})
    return make_container({"posterior": posterior, **groups})


def fitted(method="tap", seed=1, **options):
    idata = bgp.fit(X, X[:, 0] > 0, KERNEL, method=method, random_seed=seed, **options)
    return bgp.predict(idata, [[0.5], [1.0]], draws=False)


def test_distances_of_known_normals():
    """W1 of N(0, 1) and N(m, 1) is m; of N(0, 1) and N(0, s^2) it is sqrt(2/pi) |s - 1|."""
    moved = agreement(samples(0), samples(1, shift=0.5))
    np.testing.assert_allclose(moved.w1, 0.5, atol=0.08)
    np.testing.assert_allclose(moved.mean.difference, -0.5, atol=0.08)
    np.testing.assert_allclose(moved.quantiles.difference, -0.5, atol=0.2)
    np.testing.assert_allclose(moved.quantiles.first[:, 0], [-1.645, 0.0, 1.645], atol=0.1)
    wider = agreement(samples(0), samples(1, stretch=2.0))
    np.testing.assert_allclose(wider.w1, np.sqrt(2.0 / np.pi), atol=0.1)
    np.testing.assert_allclose(wider.sd.second, 2.0, atol=0.1)
    assert moved.verdict == wider.verdict == "differ"
    assert "mean 0.495 ± 0.02 sd where 0.1 is allowed" in str(moved)
    assert "mean" not in str(wider).split("error): ")[1]


@pytest.mark.parametrize("persistence", [0.0, 0.8])
def test_errors_are_those_of_repeated_chains(persistence):
    """Over 40 pairs of the same distribution, differences scatter as their errors say, and W1 stays below its own."""
    found = [
        agreement(samples(2 * k, draws=500, persistence=persistence), samples(2 * k + 1, draws=500)) for k in range(40)
    ]
    for name in ("mean", "sd", "quantiles"):
        differences = np.array([getattr(one, name).difference for one in found])
        errors = np.array([getattr(one, name).error for one in found])
        assert 0.7 < differences.std() / np.sqrt(np.mean(errors**2)) < 1.4, name
    w1, bound = (np.mean([getattr(one, name) for one in found], axis=0) for name in ("w1", "w1_error"))
    assert np.all(w1 < 1.1 * bound)
    assert np.all(w1 > 0.5 * bound)


def test_a_fit_and_itself_agree_and_its_moments_have_no_error():
    found = agreement(fitted(seed=1), fitted(seed=2))
    assert found.verdict == "agree"
    assert str(found).startswith("They agree; largest differences over 20 cases")
    assert not found.mean.error.any()
    assert not found.probability.difference.any()
    assert found.log_evidence.difference == 0.0


def test_methods_differ_and_the_line_says_where():
    found = agreement(fitted("laplace"), fitted("tap"))
    assert found.verdict == "differ"
    assert "sd" in str(found)
    assert "20 cases" in str(found)
    assert found.log_evidence.first.shape == (1,)
    reversed_ = agreement(fitted("tap"), fitted("laplace"))
    np.testing.assert_array_equal(reversed_.mean.difference, -found.mean.difference)
    np.testing.assert_array_equal(reversed_.w1, found.w1)


def test_tilted_marginals_are_averaged_over_their_draws():
    gaussian, tilted = (fitted(marginals=kind, draws=5000) for kind in ("gaussian", "tilted"))
    found = agreement(tilted, gaussian)
    assert np.all(found.mean.first_error > 0)
    assert not found.mean.second_error.any()
    assert np.all(np.abs(found.mean.difference) < 4.5 * found.mean.error)  # TAP: the same mean and sd
    assert np.all(np.abs(found.sd.difference) < 4.5 * found.sd.error)
    assert np.max(found.w1 / found.w1_error) > 2.0  # and another shape


def test_of_densities_it_is_said_how_many_were_compared():
    found = agreement(fitted(), fitted())
    some = Compared(*(values[:1] for values in astuple(found.leave_one_out)))
    one = replace(found, left_out=found.left_out[:1], leave_one_out=some)
    gaps = " ".join(map(str, one._gaps()))  # noqa: SLF001  the line of the verdict has the largest of them alone
    assert "leave-one-out density (1 of 20 cases, those with a k-hat of at most" in gaps


def test_too_few_draws_are_no_verdict():
    found = agreement(samples(0, draws=20), samples(1, draws=20))
    assert found.verdict == "open"
    assert str(found).startswith("Too few draws to tell whether they agree")


def test_what_only_one_has_is_left_out():
    found = agreement(samples(0, cases=20), fitted())
    assert found.probability is None
    assert found.log_evidence is None
    assert "probability_first" not in found.to_dataset()


def test_probabilities_from_draws_or_with_their_error():
    rng = np.random.default_rng(0)
    p = rng.beta(2.0, 2.0, size=(4, 2000, 2))
    averaged = xr.Dataset({"p": ("obs_id", p.mean(axis=(0, 1))), "p_mcse": ("obs_id", np.full(2, 0.01))})
    drawn = xr.Dataset({"p": (("chain", "draw", "obs_id"), p)})
    found = agreement(samples(0, predictions=averaged), samples(1, predictions=drawn))
    np.testing.assert_allclose(found.probability.difference, 0.0, atol=1e-12)
    np.testing.assert_array_equal(found.probability.first_error, 0.01)
    np.testing.assert_allclose(found.probability.second_error, np.sqrt(0.05 / 8000), rtol=0.1)


def test_probabilities_of_ordered_levels_are_compared(tmp_path):
    levels = np.digitize(X[:, 0], [-0.5, 0.7])
    one, other = (
        bgp.predict(bgp.fit(X, levels, KERNEL, bgp.Ordinal([-0.5, 0.7]), method=method, random_seed=1), [[0.5], [9.0]])
        for method in ("laplace", "tap")
    )
    found = agreement(one, other)
    p, q = (each["predictions"]["p"].values for each in (one, other))
    np.testing.assert_allclose(found.probability.difference, p - q)
    assert found.to_dataset()["probability_first"].dims == ("predicted_id", "level")
    assert "probability" in str(found)
    ax = bgp.plots.plot_agreement(other, one, quantity="probability")
    assert sum(line.get_xdata().size == p.size for line in ax.lines) == 1
    bgp.report(one, tmp_path / "levels.html", reference=other)


def test_data_set_holds_everything():
    found = agreement(fitted("laplace"), fitted("tap"))
    dataset = found.to_dataset()
    assert dict(dataset.sizes) == {"obs_id": 20, "quantile": 3, "predicted_id": 2, "left_out_id": 20}
    np.testing.assert_array_equal(dataset["mean_first"] - dataset["mean_second"], found.mean.difference)
    np.testing.assert_array_equal(dataset["quantile_value_second"].sel(quantile=0.5), found.quantiles.second[1])
    assert float(dataset["log_evidence_first"]) == found.log_evidence.first[0]
    assert dataset.attrs == {"verdict": "differ", "summary": str(found)}


def test_what_cannot_be_compared_is_refused():
    ours = fitted()
    with pytest.raises(ValueError, match="first must be an ArviZ container, got dict"):
        agreement({}, ours)
    with pytest.raises(ValueError, match="second has no draws of f"):
        agreement(ours, make_container({"fit": get_group(ours, "fit")}))
    with pytest.raises(ValueError, match="first has 3 cases and second 20"):
        agreement(samples(0), ours)
    with pytest.raises(ValueError, match="different targets y"):
        agreement(bgp.fit(X, X[:, 0] > 0.3, KERNEL, draws=10), ours)
    with pytest.raises(ValueError, match="predictions for 1 cases and second 2"):
        agreement(bgp.predict(fitted(), [[0.0]], draws=False), fitted())
    flat = make_container({"posterior": xr.Dataset({"f": (("chain", "draw"), np.zeros((2, 50)))})})
    with pytest.raises(ValueError, match="must have dimensions chain, draw and one for the cases"):
        agreement(flat, ours)
    with pytest.raises(ValueError, match="no case whose draws are all the same"):
        agreement(samples(0, stretch=0.0), samples(1))
    with pytest.raises(ValueError, match=r"at least 4 draws in a chain, .* it has 4 chains of 3 draws"):
        agreement(samples(0), samples(1, draws=3))
