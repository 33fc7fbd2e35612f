"""Models side by side: evidence and leave-one-out, each as it stands in the fits, and what cannot be compared."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.arviz_version import arviz_major

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # ArviZ 0.2x under pandas 3
FEW = {"draws": 20, "chains": 2, "random_seed": 1, "progress": False}
X = np.linspace(-2.0, 2.0, 30)[:, None]
Y = np.sin(3.0 * X[:, 0]) > 0


def fit(kernel, y=Y, likelihood=bgp.Probit(), **options):
    return bgp.fit(X, y, kernel, likelihood, **FEW, **options)


@pytest.fixture(scope="module")
def fits():
    gaussian, matern = bgp.kernels.Gaussian(0.7, 4.0), bgp.kernels.Matern32(0.7, 4.0)
    return {
        "line": fit(bgp.kernels.Linear() + bgp.kernels.Bias()),
        "smooth": fit(gaussian),
        "rough": fit(matern),
        "laplace": fit(gaussian, method="laplace"),
    }


def some(fits, *names):
    return {name: fits[name] for name in names}


def test_the_numbers_are_those_of_the_fits(fits):
    found = bgp.compare(some(fits, "line", "smooth", "rough")).table
    evidence = {name: bgp.posterior(fits[name]).solution.evidence for name in found.index}
    best = max(evidence, key=lambda name: evidence[name].corrected)
    for name, known in evidence.items():
        row = found.loc[name]
        assert row["log_evidence"] == known.corrected != known.value
        assert row["evidence_left"] == known.remaining
        assert row["log_bayes_factor"] == known.corrected - evidence[best].corrected
        left = 0.0 if name == best else known.remaining + evidence[best].remaining
        assert row["log_bayes_factor_left"] == pytest.approx(left)
        loo = bgp.loo(fits[name])
        assert row["elpd"] == pytest.approx(float(loo["elpd_loo"] if arviz_major() < 1 else loo.elpd))
    whole = {} if arviz_major() < 1 else {"round_to": "none"}
    theirs = az.compare({name: bgp.loo(fits[name]) for name in found.index}, **whole)
    assert list(found.index) == list(theirs.index)
    for name in ("weight", "dse", "rank"):
        np.testing.assert_allclose(found[name], theirs[name].astype(float), atol=1e-12)  # a search ends near zero
    np.testing.assert_allclose(np.abs(found["elpd_difference"]), np.abs(theirs["elpd_diff"].astype(float)), atol=1e-9)
    assert found["elpd_difference"].max() == 0.0


def test_it_says_what_both_prefer(fits):
    found = bgp.compare(some(fits, "line", "smooth"))
    off = found.table.loc["line"]
    assert found.sentence.startswith("Both the evidence and leave-one-out prefer smooth, by")
    for value in (-off["log_bayes_factor"], -off["elpd_difference"], off["dse"]):
        assert f"{value:.2g}" in found.sentence
    assert repr(found) == str(found)
    assert str(found).endswith(found.sentence)
    assert "line" in str(found)


def test_it_says_where_they_disagree():
    """A prior much wider than needed costs evidence, and no prediction; a narrow one costs some of those.

    By integrals over the slope the evidences are -17.89 and -15.65 nats, and leave-one-out -13.55 and -13.77.
    """
    noisy = X[:, 0] + np.random.default_rng(2).standard_normal(30) > 0
    wide, narrow = (fit(bgp.kernels.Linear(variance), noisy) for variance in (1e4, 0.1))
    found = bgp.compare({"wide": wide, "narrow": narrow})
    assert found.sentence.startswith("They disagree: the evidence prefers narrow to wide by")
    assert "two standard errors" in found.sentence


def test_containers_without_names_are_numbered_and_their_order_does_not_matter(fits):
    one, other = bgp.compare(fits["line"], fits["smooth"]), bgp.compare(fits["smooth"], fits["line"])
    assert set(one.table.index) == {"model 1", "model 2"}
    numbers = [each.table.select_dtypes("number").to_numpy() for each in (one, other)]
    np.testing.assert_allclose(*numbers, atol=1e-9)


def test_evidences_of_other_kinds_are_not_held_against_each_other(fits):
    found = bgp.compare(some(fits, "smooth", "laplace"))
    assert "cannot be compared (" in found.sentence
    assert "laplace: Laplace's" in found.sentence
    assert "Leave-one-out prefers" in found.sentence
    assert found.table[["log_bayes_factor", "log_bayes_factor_left"]].isna().all(axis=None)
    assert np.isnan(found.table.loc["laplace", "evidence_left"])
    both = bgp.compare(some(fits, "smooth", "rough", "laplace")).table["log_bayes_factor"]
    assert list(both.index[both.isna()]) == ["laplace"]
    assert both.max() == 0.0


def test_a_fit_beside_itself_is_preferred_by_nothing(fits):
    found = bgp.compare({"one": fits["smooth"], "again": fits["smooth"], "line": fits["line"]})
    assert found.sentence.startswith("Neither the evidence nor leave-one-out tells ")


def test_evidences_within_what_they_leave_out_do_not_disagree_with_anything():
    """The same model twice: by integration, whose evidence is the higher one here, and by TAP."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(12, 2))
    labels, kernel = inputs[:, 0] + 0.5 * rng.normal(size=12) > 0, bgp.kernels.Gaussian(1.5, 4.0)
    tap, exact = (bgp.fit(inputs, labels, kernel, bgp.Probit(), method=m, **FEW) for m in ("tap", "exact"))
    found = bgp.compare({"tap": tap, "exact": exact})
    assert found.table["elpd"].idxmax() != found.table["log_bayes_factor"].idxmax()  # or there is nothing to say
    assert found.sentence.startswith("The evidence does not tell exact and tap apart: they differ by")
    assert "Leave-one-out has no clear preference: tap is ahead of exact by" in found.sentence


def test_less_than_two_standard_errors_are_no_preference(fits):
    for names in (("smooth", "laplace"), ("smooth", "rough"), ("line", "smooth"), ("line", "laplace")):
        found = bgp.compare(some(fits, *names))
        second = found.table.iloc[1]
        clear = -second["elpd_difference"] >= 2.0 * second["dse"]
        assert clear == ("leave-one-out prefer" in found.sentence.lower()), names
        assert clear != ("no clear preference" in found.sentence), names


def test_an_average_over_hyperparameters_has_no_evidence(fits):
    priors = {"lengthscale": bgp.hyper.LogNormal(0.5, 0.5)}
    averaged = fit(
        bgp.kernels.Gaussian(0.7, 4.0), hyper="integrate", priors=priors, fixed=("variance",), method="laplace"
    )
    found = bgp.compare({"averaged": averaged, "smooth": fits["smooth"]})
    assert "not known of averaged" in found.sentence
    assert np.isnan(found.table.loc["averaged", "log_evidence"])
    assert np.isfinite(found.table["elpd"]).all()


def test_an_exact_evidence_and_taps_are_of_one_number():
    few = slice(0, 30, 6)
    kernel = bgp.kernels.Gaussian(0.7, 4.0)
    tap, exact = (bgp.fit(X[few], Y[few], kernel, bgp.Probit(), method=m, **FEW) for m in ("tap", "exact"))
    table = bgp.compare({"tap": tap, "exact": exact}).table
    off = table.loc["tap", "log_evidence"] - table.loc["exact", "log_evidence"]
    assert table["log_bayes_factor"].min() == pytest.approx(-abs(off))
    assert abs(off) < 2.0 * table["log_bayes_factor_left"].max() + 1e-4


def test_other_data_and_fewer_than_two_models_are_refused(fits):
    with pytest.raises(ValueError, match="other was fitted to other data than smooth"):
        bgp.compare({"smooth": fits["smooth"], "other": fit(bgp.kernels.Gaussian(), ~Y)})
    with pytest.raises(ValueError, match="needs two models at least, got 1"):
        bgp.compare(fits["smooth"])
    with pytest.raises(ValueError, match="either one mapping"):
        bgp.compare(fits, fits["smooth"])
    with pytest.raises(ValueError, match="expected an ArviZ container"):
        bgp.compare({"smooth": fits["smooth"], "no fit": 3})


def test_cases_count_alike_in_all_models(fits):
    """Evidence and elpd are sums over cases: with a tenth of the weight they are a tenth of a sum, and no better."""
    kernel = bgp.kernels.Gaussian(0.7, 4.0)
    tenth, again, ones = (fit(kernel, method="laplace", weights=np.full(30, w)) for w in (0.1, 0.1, 1.0))
    with pytest.raises(ValueError, match="tenth was fitted with other weights than all"):
        bgp.compare({"all": fits["laplace"], "tenth": tenth})
    assert bgp.compare({"tenth": tenth, "again": again}).sentence.startswith("Neither")
    assert bgp.compare({"all": fits["laplace"], "ones": ones}).table["elpd_difference"].abs().max() < 1e-9


def test_probabilities_are_not_held_against_densities(fits):
    y, kernel = Y.astype(float), bgp.kernels.Gaussian(0.7, 4.0)
    density, count = fit(kernel, y, bgp.likelihoods.Gaussian(0.2)), fit(kernel, y, bgp.Poisson())
    for discrete in (fits["smooth"], count):
        with pytest.raises(ValueError, match=r"mass has probabilities of the targets.* and density densities"):
            bgp.compare({"density": density, "mass": discrete})
    assert set(bgp.compare({"levels": fits["smooth"], "count": count}).table.index) == {"levels", "count"}


class Own(bgp.Probit):
    """A likelihood that no container holds."""


def test_what_a_container_does_not_hold_is_given_again(fits):
    own = fit(bgp.kernels.Linear() + bgp.kernels.Bias(), likelihood=Own())
    both = {"own": own, "smooth": fits["smooth"]}
    wanted = bgp.compare(some(fits, "line", "smooth")).table
    for likelihood in (Own(), {"own": Own()}):
        found = bgp.compare(both, likelihood=likelihood).table
        np.testing.assert_allclose(found["elpd"], wanted["elpd"], rtol=1e-12)
    with pytest.raises(ValueError, match=r"Pass the one that was fitted: likelihood=\.\.\."):
        bgp.compare(both)
    with pytest.raises(ValueError, match=r"likelihood is given for \['other'\].*Give it by their names"):
        bgp.compare(both, likelihood={"other": Own()})


def test_stacked_weights_are_the_best_beside_a_gross_error_too():
    """Whose density is below the smallest double in all models: no weight gains from a shift of one."""
    X, rng = np.linspace(-2.0, 2.0, 30)[:, None], np.random.default_rng(0)
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=30)
    y[0] = 60.0
    kernels = (bgp.kernels.Gaussian(0.7), bgp.kernels.Linear(), bgp.kernels.Bias())
    fits = {str(k): bgp.fit(X, y, k, bgp.likelihoods.Gaussian(0.3), draws=10, random_seed=1) for k in kernels}
    table = bgp.compare(fits).table
    each = np.array([idata["fit"]["loo_i"].values for idata in fits.values()])
    assert each.max(axis=0).min() < -800.0
    density = np.exp(each - each.max(axis=0))
    gain = np.mean(density / (table["weight"].reindex(list(fits)).to_numpy() @ density), axis=1)
    assert gain.max() < 1.001
    np.testing.assert_allclose(table["elpd"].reindex(list(fits)), each.sum(axis=1), rtol=1e-9)
