"""The default model: no units, no order of columns, weights are copies, and a hierarchical prior that is one."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, LogNormal, default_model
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Matern32, Warped
from bayesgp_mf.likelihoods import Gaussian as GaussianNoise

N = 60
RNG = np.random.default_rng(7)
X = np.column_stack([RNG.normal(size=N), RNG.normal(size=N), np.exp(1.5 * RNG.normal(size=N))])
LATENT = 2.0 * np.sin(X[:, 0]) + np.log(X[:, 2])
LABELS = np.where(LATENT + 0.3 * RNG.normal(size=N) > 0, "yes", "no")
COUNTS = RNG.poisson(np.exp(1.0 + 0.5 * LATENT))
REAL = 30.0 + 4.0 * LATENT + 0.5 * RNG.normal(size=N)
PLAIN = {"draws": 1, "chains": 1, "random_seed": 1, "progress": False}
MODELS = [(LABELS, bgp.Probit()), (COUNTS, bgp.Poisson()), (REAL, GaussianNoise(1.0))]


def p_of(X, y, likelihood, new, **options):
    idata = bgp.predict(bgp.fit(X, y, likelihood=likelihood, **PLAIN, **options), new, draws=False)
    return idata["predictions"]["latent_mean"].values, float(idata["fit"]["log_evidence"])


@pytest.mark.parametrize(("y", "likelihood"), MODELS)
def test_neither_units_nor_the_order_of_columns_matter(y, likelihood):
    new = X[:5] + 0.1
    mean, evidence = p_of(X, y, likelihood, new)
    units, shift = np.array([1e-3, 40.0, 7.0]), np.array([5.0, -2e3, 0.3])
    for change in (lambda Z: units * Z + shift, lambda Z: Z[:, [2, 0, 1]]):
        other, same = p_of(change(X), y, likelihood, change(new))
        np.testing.assert_allclose(other, mean, atol=2e-3)
        assert same == pytest.approx(evidence, abs=1e-4)


def test_a_long_tail_is_made_straighter_where_the_evidence_is_for_it():
    kernel, priors = default_model(X, LABELS)
    assert isinstance(kernel, Warped)
    assert kernel.columns == (2,)
    assert kernel.power[0] < 0.5
    assert list(kernel.params) == list(priors)
    plain = default_model(X).kernel  # without targets nothing speaks for it
    assert not isinstance(plain, Warped)
    gain = [
        float(bgp.fit(X, LABELS, each, hyper=Evidence(starts=1), priors=priors, **PLAIN)["fit"]["log_evidence"])
        for each in (kernel, plain)
    ]
    assert gain[0] > gain[1] + 2.0
    assert not isinstance(default_model(X, RNG.permutation(LABELS)).kernel, Warped)


def test_columns_share_a_unit_where_the_evidence_is_for_it():
    rng = np.random.default_rng(3)
    seen = np.array([4.0, 3.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]) * rng.standard_normal((150, 8))  # as pixels and spectra
    f = np.sin(0.7 * seen[:, 0]) + np.cos(0.8 * seen[:, 1]) + 0.2 * rng.standard_normal(150)
    levels = np.digitize(f, [0.0, 0.9])  # the lowest of which has the most cases

    def reach(Z, y=f > 0, likelihood=bgp.Probit()):
        return default_model(Z, y, likelihood).kernel.params["gaussian_lengthscale"]

    expected = 1.5 * np.sqrt(8.0) * np.sqrt(np.mean(seen.var(axis=0)))
    np.testing.assert_allclose(reach(seen), expected)
    for factor in (1e3, 1e-100, 1e200):
        np.testing.assert_allclose(reach(factor * seen), factor * expected)
    np.testing.assert_allclose(reach(seen, levels, bgp.MultinomialProbit()), expected)
    own = 1.5 * np.sqrt(8.0) * seen.std(axis=0)
    np.testing.assert_allclose(reach(seen, rng.permutation(f) > 0), own)  # nothing speaks for it
    np.testing.assert_allclose(reach(seen, None), own)
    np.testing.assert_allclose(reach(seen[:, :5]), 1.5 * np.sqrt(5.0) * seen[:, :5].std(axis=0))  # few columns
    other = seen * np.where(np.arange(8) == 3, 1e4, 1.0)  # one in another unit
    np.testing.assert_allclose(reach(other), 1.5 * np.sqrt(8.0) * other.std(axis=0))


@pytest.mark.parametrize(("y", "likelihood"), MODELS)
def test_a_weight_of_two_is_the_case_twice(y, likelihood):
    twice = np.where(np.arange(N) % 3, 1, 2)
    weighted = default_model(X, y, likelihood, weights=twice)
    copied = default_model(np.repeat(X, twice, axis=0), np.repeat(y, twice), likelihood)
    assert type(weighted.kernel) is type(copied.kernel)
    for name, value in weighted.kernel.params.items():
        np.testing.assert_allclose(value, copied.kernel.params[name], rtol=1e-3)  # a power has two digits


def test_text_tells_groups_and_equal_numbers_say_nothing():
    frame = pd.DataFrame({"dose": X[:, 0], "site": np.where(LATENT > 0, "b", "a"), "same": 3.0})
    kernel, priors = default_model(frame, LABELS)
    assert [type(term) for term in kernel.terms] == [Gaussian, Categorical, Bias]
    assert kernel.terms[0].params["lengthscale"][1] == pytest.approx(1.5 * np.sqrt(3.0))
    idata = bgp.fit(frame, LABELS, **PLAIN)
    new = bgp.predict(idata, frame.iloc[:4].assign(site=["a", "b", "elsewhere", "a"]), draws=False)
    assert np.all(np.isfinite(new["predictions"]["p"]))
    only_text = bgp.fit(frame[["site"]], LABELS, **PLAIN)
    assert "categorical_variance" in only_text["fit"]
    assert set(priors) == set(kernel.params)


def test_a_term_can_be_added():
    kernel, priors = default_model(X, LABELS)
    more = kernel + Matern32(1.0, columns=[0])
    assert set(priors) < set(more.params)
    idata = bgp.fit(X, LABELS, more, hyper=Evidence(starts=1), priors=priors, **PLAIN)
    assert more.replace(gaussian_variance=3.0).params["gaussian_variance"] == 3.0
    assert "matern32_lengthscale" in idata["fit"]


def test_what_is_said_of_a_parameter_replaces_its_prior():
    with pytest.warns(bgp.BoundWarning):
        idata = bgp.fit(X, LABELS, bounds={"gaussian_lengthscale": (1e-3, 1e-2)}, fixed=["bias_variance"], **PLAIN)
    assert np.all(idata["fit"]["gaussian_lengthscale"] <= 1e-2 * (1.0 + 1e-9))
    assert idata["fit"]["bias_variance"] == 1.0
    with pytest.raises(ValueError, match="bias_variance"):
        bgp.fit(X, LABELS, fixed=["bias_varianc"], **PLAIN)


@pytest.mark.filterwarnings("ignore:the search")  # from further starts an average says that there are lower maxima
@pytest.mark.parametrize("hyper", ["loo", "integrate"])
def test_every_way_to_choose_takes_it(hyper):
    idata = bgp.fit(X[:, :2], LABELS, hyper=hyper, draws=20, chains=1, random_seed=1, progress=False)
    assert np.all(np.isfinite(idata["fit"]["loo_i"]))


def test_several_classes_and_levels_have_one_too():
    classes = np.array(["a", "b", "c"])[np.digitize(LATENT, [-1.0, 1.0])]
    levels = np.digitize(LATENT, [-1.0, 1.0])
    for y, likelihood in ((classes, bgp.MultinomialProbit()), (levels, bgp.Ordinal([-1.0, 1.0]))):
        idata = bgp.fit(X, y, likelihood=likelihood, **PLAIN)
        assert float(idata["fit"]["loo_i"].mean()) > np.log(1.0 / 3.0)


def test_measurements_say_how_large_the_function_is():
    with pytest.raises(ValueError, match="y is missing"):
        default_model(X, likelihood=GaussianNoise(1.0))
    variance = default_model(X, REAL, GaussianNoise(1.0)).kernel.params["gaussian_variance"]
    assert variance == pytest.approx(np.var(REAL))


@pytest.mark.parametrize("power", [1.0, -2.0])
def test_a_part_in_common_makes_one_joint_density(power):
    prior = LogNormal((0.3, 1.0, 2.0), (0.5, 0.7, 0.2), power, common=1.2)
    at = np.array([0.2, -0.4, 0.1])
    density, slope = prior.log_density(at)
    covariance = np.diag(np.square(prior.sd)) + 1.2**2
    expected = multivariate_normal.logpdf(power * at, prior.mean, covariance) + 3.0 * np.log(abs(power))
    assert density.sum() == pytest.approx(expected)
    for k, step in enumerate(1e-6 * np.eye(3)):
        ahead, behind = (prior.log_density(at + side * step)[0].sum() for side in (1.0, -1.0))
        assert slope[k] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)
    assert LogNormal(0.0, 1.0, common=0.0).log_density(at)[0] == pytest.approx(LogNormal().log_density(at)[0], abs=9.0)
    with pytest.raises(ValueError, match="common must be"):
        LogNormal(common=-1.0)


def test_draws_of_the_prior_share_it():
    prior = LogNormal(0.0, 0.5, common=1.2)
    given = {"priors": {"lengthscale": prior}, "draws": 2000, "random_seed": 3}
    drawn = bgp.prior_predictive(X[:5, :2], Gaussian([1.0, 1.0]), **given)["prior"]["lengthscale"].values.reshape(-1, 2)
    covariance = np.cov(np.log(drawn).T)
    np.testing.assert_allclose(covariance, [[1.69, 1.44], [1.44, 1.69]], rtol=0.12)


def test_a_container_keeps_the_prior_and_the_kernel(tmp_path):
    idata = bgp.fit(X, LABELS, **PLAIN)
    bgp.save(idata, tmp_path / "fit.nc")
    again = bgp.predict(bgp.load(tmp_path / "fit.nc"), X[:5], draws=False)
    np.testing.assert_array_equal(again["predictions"]["p"], bgp.predict(idata, X[:5], draws=False)["predictions"]["p"])
    drawn = bgp.prior_predictive(bgp.load(tmp_path / "fit.nc"), draws=10, random_seed=1)
    assert drawn["prior"]["gaussian_lengthscale"].shape == (1, 10, 3)


def test_a_stream_chooses_it_on_its_first_cases(tmp_path):
    stream = bgp.streams.Stream(first=40, random_seed=1).update(X[:20], LABELS[:20], progress=False)
    stream.save(tmp_path / "stream.npz")
    for each in (stream, bgp.streams.load(tmp_path / "stream.npz")):
        each.update(X[20:40], LABELS[20:40], progress=False)
        chosen = bgp.fit(X[:40], LABELS[:40], **PLAIN)["fit"]["gaussian_lengthscale"].values
        np.testing.assert_allclose(each.kernel.params["gaussian_lengthscale"], chosen, rtol=0.05)
    one = bgp.streams.Stream(likelihood=GaussianNoise(1.0)).update(X[0], REAL[0], progress=False)
    assert np.all(np.isfinite(one.latent(X[:3])[0]))


def test_the_unit_of_measurements_does_not_matter():
    given = GaussianNoise(1.0)
    mean, evidence = p_of(X, REAL, given, X[:5])
    for unit, shift in ((1e-6, 0.0), (1e5, 3e7)):
        other, same = p_of(X, unit * REAL + shift, given, X[:5])
        np.testing.assert_allclose((other - shift) / unit, mean, atol=0.2)
        assert same + N * np.log(unit) == pytest.approx(evidence, abs=5.0)  # a shift is another prior of the constant
    kept = bgp.fit(X, REAL, likelihood=GaussianNoise(0.4), fixed=["noise_variance"], **PLAIN)
    assert bgp.posterior(kept).parts[0].problem.likelihood.noise_variance == 0.4


def test_a_mirror_is_no_other_model():
    one, other = (default_model(sign * X, LABELS).kernel for sign in (1.0, -1.0))
    np.testing.assert_allclose(np.add(one.power, other.power), 2.0, atol=0.02)
    np.testing.assert_allclose(other.gram(-X), one.gram(X), atol=0.05)


@pytest.mark.parametrize("size", [1e2, 1e6])
def test_an_outlier_does_not_hide_its_column(size):
    plain, hit = X[:, :2].copy(), X[:, :2].copy()
    hit[0, 0] = size
    evidences = [float(bgp.fit(each, LATENT > 0, **PLAIN)["fit"]["log_evidence"]) for each in (plain, hit)]
    assert evidences[1] > evidences[0] - 6.0


def test_a_case_of_weight_zero_says_nothing():
    more = np.concatenate([X, 1e10 * RNG.normal(size=(3000, 3))])
    y = np.concatenate([LABELS, RNG.permutation(np.resize(LABELS, 3000))])
    weighted = default_model(more, y, weights=np.repeat([1.0, 0.0], [N, 3000])).kernel
    alone = default_model(X, LABELS).kernel
    assert type(weighted) is type(alone)
    for name, value in alone.params.items():
        np.testing.assert_allclose(weighted.params[name], value, rtol=1e-12)


def test_categories_are_groups_and_dates_are_refused():
    frame = pd.DataFrame({"dose": X[:, 0], "code": pd.Categorical(np.resize([1, 2, 3], N))})
    assert [type(term) for term in default_model(frame, LABELS).kernel.terms] == [Gaussian, Categorical, Bias]
    bgp.predict(bgp.fit(frame, LABELS, **PLAIN), frame.iloc[:3], draws=False)
    with pytest.raises(ValueError, match="dates or durations in column 'when'"):
        bgp.fit(frame.assign(when=pd.Timestamp("2024-01-01")), LABELS)
    days = pd.Series(pd.date_range("2024-01-01", periods=N).astype(str))
    for dates in (days, days + " 12:30:00"):  # as read_csv leaves them
        with pytest.raises(ValueError, match=r"dates as text in column 'when', such as '2024-01-01.*'category'"):
            bgp.fit(frame.assign(when=dates), LABELS)
    for groups in (days.astype("category"), days + "-ward"):
        kinds = [type(term) for term in default_model(frame.assign(when=groups), LABELS).kernel.terms]
        assert kinds == [Gaussian, Categorical, Categorical, Bias]


@pytest.mark.parametrize("bounds", [3.0, "ab", (1, 2, 3), (np.nan, 1.0)])
def test_what_are_no_bounds_is_said(bounds):
    with pytest.raises(ValueError, match=r"bounds\['gaussian_lengthscale'\] must be"):
        bgp.fit(X, LABELS, bounds={"gaussian_lengthscale": bounds})


@pytest.mark.parametrize(("y", "likelihood"), MODELS)
def test_targets_of_other_cases_are_said(y, likelihood):
    for wrong in (y[:-1], np.column_stack([y, y])):
        with pytest.raises(ValueError, match=rf"y must have shape \({N},\)"):
            bgp.fit(X, wrong, likelihood=likelihood)


def test_targets_beyond_numbers_are_refused_in_words():
    for factor, said in ((1e154, "at most 1e"), (1e-170, "Measure in another unit")):
        with pytest.raises(ValueError, match=said):
            default_model(X, factor * LATENT, GaussianNoise(0.1))


def test_a_prior_of_the_wrong_length_is_named():
    with pytest.raises(ValueError, match=r"priors\['lengthscale'\] has numbers for 2 entries"):
        bgp.fit(X, LABELS, Gaussian(np.ones(3)), hyper="evidence", priors={"lengthscale": LogNormal((0.0, 1.0), 0.5)})


def test_warped_columns_have_names_in_a_sum_and_ends_far_out():
    frame = pd.DataFrame({"dose": X[:, 2], "age": X[:, 0]})
    kernel = Warped(Gaussian(1.0, columns="dose"), "dose", 0.0) + Matern32(1.0, columns="age")
    idata = bgp.fit(frame, LABELS, kernel, **PLAIN)
    for size in (1e103, 1e200, 1e308):
        new = pd.DataFrame({"dose": [size, -size], "age": [0.0, 1.0]})
        assert np.all(np.isfinite(bgp.predict(idata, new, random_seed=1)["predictions"]["f"]))
    far = np.array([[1e100], [-1e200], [1e308]])
    for power in (-3.0, 0.0, 2.0, 5.0):
        slope = Warped(Gaussian(1.0), 0, power).inputs_vjp(X[:4, :1], far, np.ones((4, 3)))
        assert np.all(np.isfinite(slope))
    with pytest.raises(ValueError, match="power must be"):
        Warped(Gaussian(1.0), 0, 5.1)


def test_offsets_of_measurements_are_subtracted():
    y = 100.0 * np.sin(X[:, 0])
    one = bgp.hyper.default_model(X, y, bgp.likelihoods.Gaussian(1.0))
    other = bgp.hyper.default_model(X, y + 1000.0, bgp.likelihoods.Gaussian(1.0), offset=1000.0)
    for name, value in one.kernel.params.items():
        np.testing.assert_allclose(other.kernel.params[name], value, rtol=1e-9)


@pytest.mark.parametrize("slip", [1e4, 1e6, -9999.0])
def test_a_target_far_from_all_others_is_named_and_moves_no_prior(slip):
    y = np.sin(X[:, 0])
    plain = bgp.hyper.default_model(X, y, bgp.likelihoods.Gaussian(1.0)).kernel.params["bias_variance"]
    y[3] = slip
    with pytest.warns(UserWarning, match=r"y is .* in row 3, .*StudentT"):
        found = bgp.hyper.default_model(X, y, bgp.likelihoods.Gaussian(1.0))
    assert found.kernel.params["bias_variance"] == pytest.approx(plain, rel=1.0)
    bgp.hyper.default_model(X, y, bgp.StudentT(1.0))


def test_targets_that_are_constant_are_said_to_be():
    with pytest.warns(UserWarning, match=r"y is constant \(3\)"):
        bgp.hyper.default_model(X, np.full(len(X), 3.0), bgp.likelihoods.Gaussian(1.0))


@pytest.mark.parametrize(("level", "spread"), [(1.7e18, 1e3), (1e9, 1e-6)])
def test_columns_that_differ_by_little_more_than_rounding_have_a_model(level, spread):
    model = bgp.hyper.default_model(level + spread * X, X[:, 0] > 0)
    assert all(np.all(np.isfinite(value)) for value in model.kernel.params.values())


NO_NOISE = bgp.ConvergenceError, bgp.NotPositiveDefiniteError
"""In one of these, by what rounding takes, a fit may end whose targets have no noise left."""


@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.ConvergenceWarning")
def test_weights_above_one_are_said_to_leave_no_noise():
    y = np.sin(X[:, 0])
    with pytest.warns(bgp.BoundWarning, match="weights above one in the mean"), suppress(*NO_NOISE):
        bgp.fit(X, y, None, bgp.likelihoods.Gaussian(1.0), weights=np.full(len(X), 2.0), draws=1, chains=1)


@pytest.mark.parametrize(
    ("options", "inducing"),
    [
        ({}, 20),
        ({"likelihood": bgp.Logit(), "method": "laplace"}, 20),
        ({"hyper": None, "kernel": Gaussian(1.0) + Bias()}, None),
        ({"inducing": 10}, 10),
        ({"control": bgp.Control(gram="dense")}, None),
        ({"marginals": "tilted"}, None),
        ({"method": "variational"}, None),
    ],
)
def test_many_cases_are_related_through_some_where_nothing_else_was_said(monkeypatch, options, inducing):
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.MOST_DENSE", N - 1)
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.INDUCING", 20)
    idata = bgp.fit(X, LABELS, **PLAIN, **options)
    assert idata["fit"].sizes.get("inducing") == inducing


def test_few_cases_several_classes_and_a_low_rank_have_all_of_them(monkeypatch):
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.INDUCING", 20)
    three = np.digitize(LATENT, [-1.0, 1.0])
    assert "inducing" not in bgp.fit(X, LABELS, **PLAIN)["fit"].sizes
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.MOST_DENSE", N - 1)
    assert "inducing" not in bgp.fit(X, three, likelihood=bgp.Softmax(), **PLAIN)["fit"].sizes
    assert "inducing" not in bgp.fit(X[:, :1], LABELS, **PLAIN)["fit"].sizes


@pytest.mark.parametrize("likelihood", [GaussianNoise(1.0), bgp.StudentT(1.0)], ids=["gaussian", "student"])
def test_a_level_moves_the_answer_until_rounding_would_hide_it(likelihood):
    y, spread = REAL - REAL.mean(), float(REAL.std())
    answers = [p_of(X, y + level, likelihood, X[:5])[0] - level for level in (0.0, 1000.0 * spread)]
    np.testing.assert_allclose(*answers, atol=0.1 * spread)
    for level in (4e3 * spread, -1e6 * spread):
        with pytest.raises(ValueError, match=r"y is .* on average, with a spread of .*Subtract its mean"):
            bgp.fit(X, y + level, likelihood=likelihood, **PLAIN)
    model = bgp.GPRegressor(likelihood=likelihood, normalize_y=True, random_state=1).fit(X, y + 1e6)
    np.testing.assert_allclose(model.predict(X[:5]) - 1e6, answers[0], atol=0.2 * spread)


@pytest.mark.parametrize("entry", [1j, [0, 1], (0, 1), {"a": 1}], ids=lambda each: type(each).__name__)
def test_columns_of_what_is_neither_number_nor_text_are_refused(entry):
    table = pd.DataFrame({"a": X[:, 0], "b": [entry] * N})
    with pytest.raises(ValueError, match=rf"numbers or text in column 'b', got .*a {type(entry).__name__}"):
        bgp.fit(table, LABELS, **PLAIN)


def test_decimals_are_numbers():
    table = pd.DataFrame({"a": X[:, 0], "b": [Decimal(str(value)) for value in X[:, 1]]})
    answers = [p_of(each, LABELS, bgp.Probit(), each[:5])[0] for each in (table, X[:, :2])]
    np.testing.assert_allclose(*answers, rtol=1e-9)
