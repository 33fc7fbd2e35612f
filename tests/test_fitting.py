"""The user's door: bad input is answered, good input of any form is taken, results are consistent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.exact import Exact

X = np.random.default_rng(0).standard_normal((12, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")
KERNEL = bgp.kernels.Gaussian(1.0)


def quick(X=X, y=Y, kernel=KERNEL, likelihood=bgp.Probit(), **options):
    return bgp.fit(X, y, kernel, likelihood, **{"draws": 20, "chains": 2, "random_seed": 0, **options})


def with_entry(value: float) -> np.ndarray:
    changed = X.copy()
    changed[3, 1] = value
    return changed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": with_entry(np.nan)}, r"X must be finite, but 1 of its 24 entries .* \(the first at index \(3, 1\)\)"),
        ({"X": with_entry(np.inf)}, "X must be finite"),
        ({"X": X[:, 0]}, r"X must have two dimensions .* got shape \(12,\)\. .* pass X\[:, None\]"),
        ({"X": X[None]}, r"X must have two dimensions .* got shape \(1, 12, 2\)"),
        ({"X": X[:0], "y": Y[:0]}, r"X is empty: shape \(0, 2\)"),
        ({"X": X[:, :0]}, r"X is empty: shape \(12, 0\)"),
        ({"X": [["a", "b"]] * 12}, "X must hold numbers"),
        ({"y": Y[:5]}, r"y must have shape \(12,\) to match X with 12 rows, got \(5,\)"),
        ({"y": Y[:, None]}, r"got \(12, 1\)\. Pass y\.ravel\(\)"),
        ({"y": np.ones(12)}, r"exactly two classes for Probit, got only \['1\.0'\]"),
        ({"y": list("abc") * 4}, r"exactly two classes for Probit, got 3: \['a', 'b', 'c'\]\. .* y == 'a'"),
        ({"y": X[:, 0]}, "got 12 distinct real numbers. Threshold them"),
        ({"y": np.where(X[:, 0] > 0, 1.0, np.nan)}, "y must hold a label for every case, but"),
        ({"y": np.where(X[:, 0] > 0, "a", None)}, "label for every case"),
        ({"y": ["a", float("nan")] * 6}, "6 of 12 are missing"),
        ({"y": ["a", None] * 6}, "6 of 12 are missing"),
        ({"y": pd.Series(["a", pd.NA] * 6, dtype="string")}, "6 of 12 are missing"),
        ({"y": np.ma.masked_array([0, 1] * 6, mask=[0, 1] * 6)}, "6 of 12 are missing"),
        ({"X": np.ma.masked_array(X, mask=X > 1)}, "X has masked entries"),
        ({"X": X + 1j}, "X must hold real numbers, got dtype complex128"),
        ({"X": 1e200 * X, "kernel": bgp.kernels.Linear()}, "gram must be finite.* rescale them"),
        ({"X": pd.DataFrame(X, columns=["a", "a"])}, "X has two columns of one name"),
        ({"likelihood": bgp.Probit}, r"likelihood must be an instance, got the class Probit: write it with \(\)"),
        ({"likelihood": 3.0}, r"likelihood must be one such as bayesgp_mf.Probit\(\), got float"),
        ({"likelihood": "probits"}, "likelihood must be one of"),
        ({"kernel": bgp.kernels.Gaussian}, "kernel must be an instance, got the class Gaussian"),
        ({"method": ["tap"]}, "method must be one of"),
        ({"kernel": 1.0}, "kernel must be one of bayesgp_mf.kernels.* got float"),
        ({"kernel": bgp.kernels.Gaussian([1.0, 1.0, 1.0])}, "lengthscale has 3 entries, but X has 2 columns"),
        ({"method": "laplacian"}, "method must be one of"),
        ({"hyper": "cv"}, "hyper must be None, one of .*'evidence'.* got 'cv'"),
        ({"draws": 0}, "draws must be a positive integer, got 0"),
        ({"chains": 1.5}, "chains must be a positive integer"),
        ({"hyper": bgp.hyper.Evidence(method="ep")}, "method must be one of"),
        ({"hyper": "evidence", "priors": {"width": 1.0}}, "priors names 'width', which this model does not have"),
        ({"hyper": "evidence", "bounds": {"lengthscale": (2.0, 1.0)}}, "must be 0 < low < high"),
        ({"hyper": "evidence", "fixed": ["lengthscale", "variance"]}, "no parameter to tune"),
        (
            {"hyper": "evidence", "bounds": {"lengthscale": (0.0, np.inf)}},
            r"0 < low < high, both finite.* got \(0, inf\)",
        ),
        ({"hyper": "evidence", "bounds": {"lengthscale": (np.nan, 1.0)}}, r"0 < low < high.* got \(nan, 1\)"),
        ({"hyper": "evidence", "bounds": {"lengthscale": (2.0, 3.0)}}, "does not hold where lengthscale starts"),
        (
            {"hyper": "evidence", "bounds": {"width": (2.0, 3.0)}},
            "bounds names 'width', which this model does not have",
        ),
        ({"method": "svm"}, r"method 'svm' is a limit .* or bgp\.solve\(kernel\.gram\(X\), t, likelihood"),
        ({"hyper": "scan", "method": "svm"}, "method 'svm' is a limit"),
        ({"hyper": bgp.hyper.Evidence(method="svm")}, "method 'svm' is a limit"),
        ({"hyper": "evidence", "draws": 0}, "draws must be a positive integer, got 0"),
        ({"bounds": {"lengthscale": (0.1, 1.0)}}, "bounds says how hyperparameters are chosen"),
        ({"priors": {"lengthscale": 1.0}}, "priors says how hyperparameters are chosen"),
        ({"likelihood": Gaussian(0.1), "y": np.full(12, np.nan)}, "y must be finite"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        quick(**arguments)


def test_contradicting_labels_under_a_step():
    doubled, labels = np.vstack([X, X[:1]]), np.append(Y, "yes" if Y[0] == "no" else "no")
    with pytest.raises(bgp.InconsistentDataError, match="cases 0 and 12"):
        quick(doubled, labels, likelihood=bgp.Step())
    quick(doubled, labels, likelihood=bgp.Step(flip=0.1))
    quick(doubled, labels, KERNEL + bgp.kernels.White(0.1), bgp.Step())


def test_too_many_cases_for_this_machine_are_refused_before_they_hurt(set_memory):
    set_memory(4096)
    with pytest.raises(MemoryError, match=r"12 training cases need about 0\.0 GiB"):
        quick(draws=1, chains=1)


@pytest.mark.parametrize(
    "labels",
    [Y.tolist(), pd.Series(Y), Y == "yes", (Y == "yes").astype(int), 2.0 * (Y == "yes") - 1, Y.astype(object)],
    ids=["list", "series", "bool", "int", "plus-minus", "object"],
)
def test_any_two_labels_will_do(labels):
    idata, reference = quick(y=labels), quick()
    np.testing.assert_array_equal(idata["observed_data"]["y"], (Y == "yes").astype(int))
    np.testing.assert_array_equal(idata["fit"]["alpha"], reference["fit"]["alpha"])


def test_numbers_among_objects_keep_their_order_and_mixed_labels_their_names():
    tens = quick(y=np.array([10 if label == "yes" else 2 for label in Y], dtype=object))
    assert get_group(tens, "fit").attrs["class_names"] == '["2", "10"]'
    mixed = quick(y=np.array([1 if label == "yes" else "none" for label in Y], dtype=object))
    assert get_group(mixed, "fit").attrs["class_names"] == '["1", "none"]'


def test_class_names_and_column_names_come_back():
    frame = pd.DataFrame(X, columns=["height", "weight"])
    idata = quick(frame, pd.Series(Y, dtype="category"))
    assert get_group(idata, "fit").attrs["class_names"] == '["no", "yes"]'
    assert list(idata["constant_data"]["feature"].values) == ["height", "weight"]
    idata = bgp.predict(idata, frame.iloc[:3], random_seed=0)
    assert list(idata["predictions_constant_data"]["feature"].values) == ["height", "weight"]


def test_the_same_seed_gives_the_same_fit():
    one, other, third = quick(random_seed=7), quick(random_seed=np.random.default_rng(7)), quick(random_seed=8)
    np.testing.assert_array_equal(one["posterior"]["f"], other["posterior"]["f"])
    assert not np.array_equal(one["posterior"]["f"], third["posterior"]["f"])


def test_draws_have_the_moments_of_the_posterior():
    idata = quick(draws=20_000, chains=1)
    f = idata["posterior"]["f"].values[0]
    process = bgp.posterior(idata)
    mean, variance = process.at_training
    np.testing.assert_array_less(np.abs(f.mean(axis=0) - mean), 5 * np.sqrt(variance / 20_000))
    covariance = process.problem.gram - process.solution.correction.quadratic(process.problem.gram)
    np.testing.assert_allclose(np.cov(f.T), covariance, atol=6 * variance.max() / np.sqrt(20_000))


def test_draws_are_centred_on_the_posterior_mean():
    class Silent(np.random.Generator):
        def standard_normal(self, size):
            return np.zeros(size)

    process = bgp.posterior(quick())
    silent = Silent(np.random.PCG64(0))
    np.testing.assert_allclose(process.draw(1, silent).f[0], process.at_training[0], atol=1e-12)
    np.testing.assert_allclose(process.draw_new(X[:3] + 0.1, 1, silent)[0], process.latent(X[:3] + 0.1)[0], atol=1e-12)


def test_the_fit_group_holds_what_the_posterior_says():
    idata = quick()
    process, fit = bgp.posterior(idata), idata["fit"]
    mean, variance = process.at_training
    np.testing.assert_allclose(fit["latent_mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(fit["latent_sd"], np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(fit["cavity_mean"], process.loo.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fit["cavity_sd"], np.sqrt(process.loo.variance), rtol=1e-6)
    np.testing.assert_allclose(fit["loo_i"], process.loo.log_density, rtol=1e-6)
    assert process.log_evidence == float(fit["log_evidence"])


def test_log_densities_of_draws_give_the_evidence_by_importance_sampling():
    # E_q[p(y, f) / q(f)] = p(y); the TAP evidence of 12 probit cases is within 0.02 nats of it
    idata = quick(draws=50_000, chains=1)
    stats = idata["sample_stats"]
    weights = np.exp(stats["log_p"].values - stats["log_q"].values - float(idata["fit"]["log_evidence"]))
    error = weights.std() / np.sqrt(weights.size)
    assert error < 0.01
    assert abs(np.log(weights.mean())) < 0.02 + 4 * error


def test_predictions_agree_with_the_posterior_and_with_their_draws():
    idata = bgp.predict(quick(draws=10_000), X[:5] + 0.1, random_seed=1)
    p = idata["predictions"]["p"].values
    process = bgp.posterior(idata)
    np.testing.assert_array_equal(p, process.predict_proba(X[:5] + 0.1))
    y = idata["predictions"]["y"].values
    assert y.shape == (2, 10_000, 5)
    assert set(np.unique(y)) == {0, 1}
    np.testing.assert_allclose(y.mean(axis=(0, 1)), p, atol=5 * 0.5 / np.sqrt(20_000))
    f = idata["predictions"]["f"].values
    mean, variance = process.latent(X[:5] + 0.1)
    np.testing.assert_allclose(f.mean(axis=(0, 1)), mean, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(f.std(axis=(0, 1)), idata["predictions"]["latent_sd"], rtol=0.05)


def test_the_seed_of_predictions_counts():
    first, again, other = (bgp.predict(quick(), X[:3], random_seed=s)["predictions"]["f"].values for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_predicting_again_replaces_the_predictions():
    idata = bgp.predict(quick(), X[:5], random_seed=1)
    idata = bgp.predict(idata, X[:2], draws=False)
    assert idata["predictions"]["p"].shape == (2,)
    assert "f" not in idata["predictions"]
    assert group_names(idata).count("predictions") == 1


def test_prediction_in_blocks_is_prediction_at_once(monkeypatch):
    from bayesgp_mf.processes import single as posterior_process

    process = bgp.posterior(quick())
    whole = process.latent(X)
    monkeypatch.setattr(posterior_process, "BLOCK", 5)
    np.testing.assert_allclose(process.latent(X), whole, rtol=1e-12)


def test_columns_of_new_cases_must_be_those_of_the_training_cases():
    frame = pd.DataFrame(X, columns=["a", "b"])
    idata = quick(frame)
    bgp.predict(idata, frame[["a", "b"]], draws=False)
    for other in (frame[["b", "a"]], frame.rename(columns={"b": "c"})):
        what_to_do = r"Pass these columns, such as X_new\[" if "b" in other else r"It has no \['b'\]"
        with pytest.raises(ValueError, match=rf"but the model was fitted to \['a', 'b'\]\. {what_to_do}"):
            bgp.predict(idata, other)
    bgp.predict(idata, X, draws=False)  # an array has no names to compare


def test_posterior_predictive_labels_follow_the_posterior():
    idata = quick(draws=10_000)
    process = bgp.posterior(idata)
    p = process.problem.likelihood.predict_proba(*process.at_training)
    y = idata["posterior_predictive"]["y"]
    np.testing.assert_allclose(y.mean(dim=("chain", "draw")), p, atol=5 * 0.5 / np.sqrt(20_000))
    assert y.attrs["class_names"] == '["no", "yes"]'


@pytest.mark.parametrize(
    ("X_new", "message"),
    [
        (X[:, :1], "X_new has 1 columns, but the model was fitted to 2"),
        (with_entry(np.nan), "X_new must be finite"),
        (X[0], "X_new must have two dimensions"),
    ],
)
def test_bad_new_inputs_are_named(X_new, message):
    with pytest.raises(ValueError, match=message):
        bgp.predict(quick(), X_new)


def test_many_new_cases_without_draws():
    idata = bgp.predict(quick(), np.random.default_rng(1).standard_normal((20_000, 2)), draws=False)
    assert idata["predictions"]["p"].shape == (20_000,)


def test_white_noise_is_part_of_the_process_at_new_cases_too():
    plain, noisy = (
        quick(likelihood=bgp.Probit(0.5)),
        quick(kernel=KERNEL + bgp.kernels.White(0.5), likelihood=bgp.Step()),
    )
    for idata in (plain, noisy):
        bgp.predict(idata, X[:4], draws=False)
    np.testing.assert_allclose(plain["predictions"]["p"], noisy["predictions"]["p"], atol=1e-7)
    np.testing.assert_allclose(plain["fit"]["log_evidence"], noisy["fit"]["log_evidence"], atol=1e-7)


@pytest.mark.parametrize("likelihood", [bgp.Step(), bgp.Step(0.1)], ids=repr)
def test_a_step_likelihood_leaves_the_pointwise_group_out_and_says_so(likelihood):
    idata = quick(likelihood=likelihood)
    assert "log_likelihood" not in group_names(idata)
    assert "bayesgp_mf.loo needs no draws" in get_group(idata, "fit").attrs["log_likelihood_omitted"]
    assert np.isfinite(get_group(idata, "fit")["loo_i"]).all()


def test_regression_goes_the_same_way():
    idata = bgp.predict(quick(y=X[:, 0], likelihood=Gaussian(0.1)), X[:3], random_seed=0)
    np.testing.assert_array_equal(idata["observed_data"]["y"], X[:, 0])
    assert "p" not in idata["predictions"]
    np.testing.assert_allclose(idata["predictions"]["latent_mean"], X[:3, 0], atol=0.3)


def test_exact_method_through_the_same_door():
    idata = bgp.predict(quick(X[:6], Y[:6], method="exact"), X[:2], random_seed=0)
    tap = bgp.predict(quick(X[:6], Y[:6]), X[:2], random_seed=0)
    np.testing.assert_allclose(idata["predictions"]["p"], tap["predictions"]["p"], atol=0.01)
    assert float(idata["fit"]["log_evidence_se"]) > 0
    assert "site_variance" not in idata["fit"]
    # exact draws: importance weights that correct them are all the same
    stats = idata["sample_stats"]
    np.testing.assert_allclose(stats["log_p"] - stats["log_q"], float(idata["fit"]["log_evidence"]), rtol=1e-12)
    f, mean = idata["predictions"]["f"], idata["predictions"]["latent_mean"]
    error = f.std(("chain", "draw")) / np.sqrt(f.sizes["chain"] * f.sizes["draw"])
    assert bool((abs(f.mean(("chain", "draw")) - mean) < 4 * error).all())


def test_exact_under_a_step_keeps_every_draw_on_its_side():
    idata = bgp.predict(quick(X[:6], Y[:6], likelihood=bgp.Step(), method="exact"), X[:2], random_seed=0)
    t = 2.0 * idata["observed_data"]["y"] - 1.0
    assert bool((idata["posterior"]["f"] * t > 0).all())
    gaussian = quick(X[:6], Y[:6], likelihood=bgp.Step())
    assert not bool((gaussian["posterior"]["f"] * t > 0).all())
    again = bgp.posterior(idata)
    np.testing.assert_allclose(again.predict_proba(X[:2]), idata["predictions"]["p"], rtol=1e-12)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("exact", "svm")])
@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit()], ids=repr)
def test_every_method_goes_through_the_same_door(method, likelihood, tmp_path):
    idata = bgp.predict(quick(likelihood=likelihood, method=method), X[:3] + 0.1, draws=False)
    reference = bgp.predict(quick(likelihood=likelihood), X[:3] + 0.1, draws=False)
    fit = get_group(idata, "fit")
    assert fit.attrs["method"] == method
    np.testing.assert_allclose(idata["predictions"]["p"], reference["predictions"]["p"], atol=0.1)
    process = bgp.posterior(idata)
    assert process.problem.likelihood == likelihood
    np.testing.assert_allclose(process.loo.log_density, fit["loo_i"], rtol=1e-6)
    assert np.isfinite(float(bgp.loo(idata)["se"]))


def test_a_likelihood_of_a_function_without_a_name_is_fitted_and_asked_for_again():
    likelihood = bgp.likelihoods.Quadrature(lambda t, f: -np.logaddexp(0, -t * f))
    idata = quick(likelihood=likelihood)
    with pytest.raises(ValueError, match=r"does not hold its likelihood.*likelihood=\.\.\."):
        bgp.predict(idata, X[:2])
    got = bgp.predict(idata, X[:2], likelihood=likelihood)["predictions"]["p"].values
    expected = bgp.predict(quick(likelihood=bgp.Logit()), X[:2])["predictions"]["p"].values
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_a_likelihood_that_says_it_cannot_be_saved_is_refused_before_any_work():
    likelihood = by_case(bgp.Logit(), prior_mean=np.zeros(12))
    with pytest.raises(bgp.UndefinedQuantityError, match="prior mean"):
        quick(likelihood=likelihood)


def test_exact_that_is_not_exact_enough_comes_back_when_asked_for(monkeypatch):
    control = bgp.Control(throw=False)
    monkeypatch.setitem(METHODS, "exact", Exact(log2_points=7, most_scrambles=12))  # too few points
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 9.0), n=25, random_seed=0)
    options = {"method": "exact", "control": control}
    idata = quick(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 9.0), bgp.Probit(0.1), **options)
    assert get_group(idata, "fit").attrs["status"] == "MAX_ITERATIONS"
    assert not bool(idata["sample_stats"]["converged"].any())


def test_a_case_without_prior_variance_is_an_even_chance():
    inputs = np.vstack([np.zeros(2), X])
    idata = quick(inputs, np.append(Y, "yes"), bgp.kernels.Linear(), bgp.Step(0.1))
    assert float(idata["fit"]["loo_i"][0]) == np.log(0.5)


def test_nothing_is_warned_about_in_a_plain_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick()
