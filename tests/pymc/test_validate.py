"""Fits against samples of their own models: what agrees and what does not, what is sampled, refused, and resumed."""

from __future__ import annotations

from dataclasses import replace

import arviz
import numpy as np
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.hyper import LogNormal

X = np.linspace(-2.0, 2.0, 10)[:, None]
KERNEL = bgp.kernels.Matern32(1.0, 2.0)
NEW = [[-1.1], [0.3], [5.0]]
RNG = np.random.default_rng(5)
F = np.sin(2.0 * X[:, 0])
LABELS = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
PRIORS = {"lengthscale": LogNormal(0.0, 0.5), "variance": LogNormal(0.5, 0.5)}
OFTEN = {"draws": 1000, "tune": 300, "chains": 2, "random_seed": 1, "progress": False}
SHORT = {"draws": 40, "tune": 40, "chains": 2, "random_seed": 1, "progress": False}


def gaussian(**options):
    noise = bgp.likelihoods.Gaussian(1.0)
    return bgp.fit(X, F, KERNEL, noise, draws=4000, random_seed=1, progress=False, **options)


@pytest.fixture(scope="module")
def exact():
    """Validation of a fit that is exact, whose every number is known."""
    return bgp.validate(gaussian(), X_new=NEW, **OFTEN)


def test_an_exact_posterior_agrees(exact):
    assert exact.trusted
    assert exact.agreement.verdict == "agree", exact
    assert exact.verdict.startswith("They agree")
    for compared in (exact.agreement.mean, exact.agreement.sd, exact.agreement.leave_one_out):
        assert np.all(np.abs(compared.difference) < 4.5 * compared.error)
        assert np.all(compared.error > 0)
    assert 1 <= exact.agreement.left_out.size < 10


def test_the_evidence_of_a_gaussian_is_found(exact):
    difference, error = exact.agreement.log_evidence.difference[0], exact.agreement.log_evidence.error[0]
    assert abs(difference) < 1e-6  # the sites are those of the posterior, of which nothing is left to chance
    assert error < 1e-6


def test_means_that_are_shifted_differ(exact):
    idata = gaussian()
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    groups["fit"] = groups["fit"].assign(latent_mean=groups["fit"]["latent_mean"] + 0.3)
    found = bgp.diagnostics.agreement(make_container(groups), exact.reference)
    assert found.verdict == "differ"
    assert "mean" in str(found)


def test_a_laplace_approximation_of_little_noise_is_found_out():
    idata = bgp.fit(X, LABELS, bgp.kernels.Matern32(1.0, 16.0), bgp.Probit(0.1), method="laplace", random_seed=1)
    found = bgp.validate(idata, X_new=NEW, **OFTEN)
    assert found.trusted
    assert found.agreement.verdict == "differ"
    assert np.max(np.abs(found.agreement.probability.difference)) > 0.02


def test_few_draws_are_no_reference():
    found = bgp.validate(gaussian(), **SHORT)
    assert not found.trusted
    assert found.verdict.startswith("undecided: the reference is not to be trusted, ")
    assert f"{found.effective:.0f} effective of 80 draws are fewer than 400" in found.verdict
    assert "Take more draws or tune" in found.verdict
    assert "chains" not in found.verdict  # there are two
    assert repr(found) == found.verdict


def test_each_limit_that_failed_is_named_with_what_to_do(exact):
    above = replace(exact, r_hat=1.0123).verdict
    assert "r-hat 1.012 is above 1.01. Take more draws or tune. Hyper" in above
    diverged = replace(exact, diverging=0.01).verdict
    assert "trusted, 1 % of trajectories diverged, more than 0.1 %. Take a target_accept nearer to 1. Hyper" in diverged
    alone = bgp.validate(gaussian(), **SHORT | {"chains": 1}).verdict
    assert "one chain has no r-hat, and " in alone
    assert "Take two or more chains, and more draws or tune." in alone


def test_latent_values_of_new_cases_are_compared_where_there_are_no_probabilities(exact):
    """Under Gaussian noise nothing is approximated; a fit whose values are moved, or whose spread is, differs."""
    found = exact.agreement
    assert found.probability is None
    assert found.verdict == "agree"
    reference = exact.reference["predictions"]["f"]
    assert reference.dims == ("chain", "draw", "obs_id")
    np.testing.assert_array_less(np.abs(found.new_mean.difference), 5.0 * found.new_mean.error)
    fitted = bgp.predict(gaussian(), NEW, draws=False)
    for name, change in (("latent_mean", 0.5 * fitted["predictions"]["latent_sd"].values), ("latent_sd", 0.3)):
        moved = bgp.predict(gaussian(), NEW, draws=False)
        moved["predictions"][name] = fitted["predictions"][name] + change
        told = bgp.diagnostics.agreement(moved, exact.reference)
        assert told.verdict == "differ"
        assert "of new cases" in str(told)


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "chains.jsonl"
    bgp.validate(gaussian(), path=path, **SHORT)
    whole = path.read_text()
    assert repr(bgp.validate(gaussian(), path=path, **SHORT)) == repr(bgp.validate(gaussian(), **SHORT))
    header, first, *_ = whole.splitlines()
    for line in (
        "[0, null]",
        "[0.5, " + first[4:],
        '[0, [[["a"]], [false], [1]]]',
        first.replace("[0, [[[", "[0, [[[1.0, "),
    ):
        path.write_text(f"{header}\n{line}\n")
        with pytest.raises(ValueError, match=r"no file of bgp\.validate, or damaged"):
            bgp.validate(gaussian(), path=path, **SHORT)


@pytest.mark.parametrize(("inputs", "length"), [(X, 4.0), (0.5 * X, 2.5)])
def test_a_step_on_a_singular_matrix_is_refused_before_it_is_sampled(inputs, length):
    """Also where a Cholesky factor is found whose last columns are rounding; what is advised instead is sampled."""
    smooth = bgp.kernels.Gaussian(length)
    with pytest.raises(bgp.NotPositiveDefiniteError, match=r"singular to rounding.*Add kernels.White\(\)"):
        bgp.validate(bgp.fit(inputs, LABELS, smooth, bgp.Step(), draws=10, random_seed=1), **SHORT)
    for model in ((smooth + bgp.kernels.White(), bgp.Step()), (smooth, bgp.Probit(noise_variance=1.0, flip=0.05))):
        assert "undecided" in bgp.validate(bgp.fit(inputs, LABELS, *model, draws=10, random_seed=1), **SHORT).verdict


def test_a_report_says_that_a_reference_is_not_to_be_trusted(tmp_path):
    few = bgp.validate(gaussian(), **SHORT)
    page = bgp.report(gaussian(), tmp_path / "fit.html", reference=few.reference).read_text()
    assert "undecided: the reference is not to be trusted" in page


def test_counts_with_offsets_have_latent_values_at_new_cases():
    idata = bgp.fit(X, COUNTS, KERNEL, bgp.Poisson(), offset=F, method="laplace", random_seed=1)
    found = bgp.validate(idata, X_new=NEW, offset=np.full(len(NEW), 2.0), **OFTEN).agreement
    assert np.all(np.abs(found.new_mean.difference) < 0.3 * found.new_sd.second)
    np.testing.assert_allclose(found.new_sd.first, found.new_sd.second, rtol=0.15)


CLASSES = np.array([0, 0, 1, 2, 0, 1, 2, 2, 1, 0])
COUNTS = np.array([0, 1, 0, 2, 1, 4, 3, 1, 0, 1])
GROUPS = np.column_stack([X[:, 0], np.arange(10) % 3])
MODELS = {
    "logit": (X, LABELS, KERNEL, bgp.Logit(), {}),
    "flips": (X, LABELS, KERNEL, bgp.Probit(flip=0.05), {}),
    "step": (X, LABELS, KERNEL, bgp.Step(), {}),
    "offset": (X, COUNTS, KERNEL, bgp.Poisson(), {"offset": F}),
    "weights": (X, COUNTS, KERNEL, bgp.NegativeBinomial(2.0), {"weights": 1.0 + X[:, 0] ** 2}),
    "trials": (X, COUNTS, KERNEL, bgp.Binomial(np.full(10, 5)), {}),
    "levels": (X, np.minimum(COUNTS, 2), KERNEL, bgp.Ordinal([0.0, 1.0]), {}),
    "outliers": (X, F, KERNEL, bgp.StudentT(0.3, 4.0), {}),
    "groups": (GROUPS, LABELS, bgp.kernels.Matern32(1.0, columns=[0]) + bgp.kernels.Categorical(1), bgp.Probit(), {}),
    "classes": (X, CLASSES, KERNEL, bgp.MultinomialProbit(), {}),
    "own kernels": (X, CLASSES, bgp.kernels.PerClass(*[KERNEL] * 3), bgp.Softmax(), {"method": "laplace"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_sampled(name):
    inputs, y, kernel, likelihood, options = MODELS[name]
    idata = bgp.fit(inputs, y, kernel, likelihood, draws=1000, random_seed=1, **options)
    found = bgp.validate(idata, **(SHORT | {"draws": 200, "tune": 150}))
    mean, sd = found.agreement.mean, found.agreement.sd
    bias = 1.0 if options.get("method") == "laplace" else 0.15  # of the approximation, in posterior sds
    assert np.all(np.abs(mean.difference) < bias * sd.second + 4.5 * mean.error)
    assert found.agreement.log_evidence is not None
    assert (found.agreement.leave_one_out is None) == (name == "step")


def test_hyperparameters_of_an_average_are_sampled_with_its_priors():
    idata = bgp.fit(X, LABELS, KERNEL, hyper="integrate", priors=PRIORS, random_seed=1, progress=False)
    idata = bgp.predict(idata, NEW, draws=False)
    found = bgp.validate(idata, **(SHORT | {"draws": 250, "tune": 150}))
    posterior = get_group(found.reference, "posterior")
    assert {"lengthscale", "variance", "f"} <= set(posterior.data_vars)
    assert found.agreement.log_evidence is None
    probability = found.agreement.probability
    assert np.all(np.abs(probability.difference) < 0.02 + 4.5 * probability.error)
    # far from all cases the variance alone matters, whose posterior mean is that of the nodes
    logs = np.log(posterior["variance"].values)
    fit = get_group(idata, "fit")
    weights, nodes = fit["node_weight"].values, np.log(fit["variance"].values)
    assert abs(logs.mean() - weights @ nodes) < 0.2
    assert logs.std() > 0.2
    assert "sampled too" in found.note


def test_a_point_estimate_is_looked_at_where_it_is():
    idata = bgp.fit(X, LABELS, KERNEL, hyper="evidence", priors=PRIORS, random_seed=1, progress=False)
    found = bgp.validate(idata, **SHORT)
    assert set(get_group(found.reference, "posterior").data_vars) == {"f"}
    assert "those of the fit" in found.note


def test_the_same_call_goes_on_where_it_ended(tmp_path):
    idata, path = gaussian(), tmp_path / "chains"
    whole = bgp.validate(idata, **SHORT)
    bgp.validate(idata, path=path, **(SHORT | {"chains": 1}))
    first = path.read_text()
    path.write_text(first + "[1, [[0.1")  # as of a process that was killed
    resumed = bgp.validate(idata, path=path, **SHORT)
    assert path.read_text().startswith(first)
    again = bgp.validate(idata, path=path, **(SHORT | {"random_seed": None}))
    for other in (resumed, again):
        for group, name in (("posterior", "f"), ("sample_stats", "n_steps"), ("posterior_predictive", "y")):
            a, b = (get_group(each.reference, group)[name].values for each in (whole, other))
            assert a.tobytes() == b.tobytes()
    message = rf"has chains of another call, which differs in draws. Give draws={SHORT['draws']} \(and more chains, if"
    with pytest.raises(ValueError, match=message):
        bgp.validate(idata, path=path, **(SHORT | {"draws": 41}))
    with pytest.raises(ValueError, match="has chains of another random_seed"):
        bgp.validate(idata, path=path, **(SHORT | {"random_seed": 2}))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: bgp.fit(X, LABELS, KERNEL, bgp.Step(flip=0.05), draws=10),
            r"Probit.*has steps and no slope.*Give it noise itself: Probit\(noise_variance=1\.0\), with or",
        ),
        (
            lambda: bgp.fit(X, CLASSES, KERNEL, bgp.MultinomialProbit(noise_variance=0.0), draws=10),
            "has steps and no slope",
        ),
        (
            lambda: bgp.fit(X, LABELS, KERNEL, bgp.Step(), hyper="integrate", priors=PRIORS, draws=10, progress=False),
            "hyperparameters under a step are not sampled",
        ),
        (lambda: {}, "expected an ArviZ container"),
    ],
)
def test_what_cannot_be_sampled_is_refused_before(make, words):
    with pytest.raises(ValueError, match=words):
        bgp.validate(make(), **SHORT)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="draws must be"):
        bgp.validate(gaussian(), draws=0)
    with pytest.raises(ValueError, match="draws must be at least 4 in a chain, got 3"):
        bgp.validate(gaussian(), draws=3)
    through_zero = bgp.fit([[0.0], [1.0], [2.0]], [0, 1, 1], bgp.kernels.Linear(), draws=20, random_seed=1)
    with pytest.raises(ValueError, match=r"f of idata must have .* no case whose draws are all the same"):
        bgp.validate(through_zero, **SHORT)
    with pytest.raises(ValueError, match="priors names 'nonsense', which this model does not have; it has"):
        bgp.validate(gaussian(), priors={"nonsense": bgp.hyper.LogNormal(0.0, 1.0)}, **SHORT)


def test_one_chain_has_no_r_hat_and_arviz_is_not_asked_which_would_log_of_it(monkeypatch):
    monkeypatch.setattr(arviz, "rhat", None)
    found = bgp.validate(gaussian(), **SHORT | {"chains": 1})
    assert np.isnan(found.r_hat)
    assert "one chain has no r-hat" in found.verdict


def test_a_reference_is_saved_and_loaded(tmp_path):
    made = bgp.validate(bgp.predict(gaussian(), NEW, draws=False), **SHORT).reference
    loaded = bgp.load(bgp.save(made, tmp_path / "reference.nc"))
    assert sorted(group_names(loaded)) == sorted(group_names(made))
    for name in group_names(made):
        xr.testing.assert_identical(get_group(loaded, name), get_group(made, name))
    with pytest.raises(ValueError, match="not made by bayesgp_mf"):
        bgp.predict(loaded, NEW)


def test_the_report_shows_the_reference(exact, tmp_path):
    page = bgp.report(bgp.predict(gaussian(), NEW, draws=False), tmp_path / "page.html", reference=exact.reference)
    assert "Against the reference" in page.read_text()
