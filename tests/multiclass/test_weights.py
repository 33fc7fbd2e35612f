"""Weights of cases of several classes: powers of a softmax, by Laplace's method."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import get_method

RNG = np.random.default_rng(0)
X, NEW = RNG.standard_normal((20, 2)), RNG.standard_normal((5, 2))
LABELS = np.array(list("abc"))[np.r_[0, 1, 2, np.argmax(X[3:] @ RNG.standard_normal((2, 3)), axis=1)]]
COUNTED = np.where(np.arange(20) % 3 == 0, 2, 1)
ROWS = np.repeat(np.arange(20), COUNTED)
KERNELS = {
    "dense": bgp.kernels.Gaussian(1.0, 4.0),
    "low rank": bgp.kernels.Linear(2.0) + bgp.kernels.Bias(1.0),
    "per class": bgp.kernels.PerClass(*[bgp.kernels.Gaussian(s, 4.0) for s in (0.5, 1.0, 2.0)]),
}
EXACT = bgp.Control(tolerance=1e-11)


def fitted(X, y, kernel=KERNELS["dense"], **options):
    given = {"method": "laplace", "draws": 20, "chains": 1, "random_seed": 1, "control": EXACT, **options}
    return bgp.fit(X, y, kernel, bgp.Softmax(("a", "b", "c")), **given)


def numbers(idata):
    """The log evidence, and what is predicted of new cases."""
    new = bgp.predict(idata, NEW, draws=False)["predictions"]
    names = ("p", "latent_mean", "latent_sd")
    return np.concatenate([np.ravel(idata["fit"]["log_evidence"]), *(new[name].values.ravel() for name in names)])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_weight_two_is_the_case_twice(kernel):
    once, twice = fitted(X, LABELS, kernel, weights=COUNTED), fitted(X[ROWS], LABELS[ROWS], kernel)
    np.testing.assert_allclose(numbers(once), numbers(twice), atol=1e-9)
    assert np.abs(numbers(fitted(X, LABELS, kernel)) - numbers(once)).max() > 0.1  # a control: without weights


def test_a_search_finds_the_same_hyperparameters():
    options = {"hyper": bgp.hyper.Evidence(starts=1)}
    once, twice = fitted(X, LABELS, weights=COUNTED, **options), fitted(X[ROWS], LABELS[ROWS], **options)
    np.testing.assert_allclose(once["fit"]["lengthscale"], twice["fit"]["lengthscale"], rtol=1e-6)
    assert abs(float(fitted(X, LABELS, **options)["fit"]["lengthscale"] / once["fit"]["lengthscale"]) - 1.0) > 1e-3


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_weight_zero_is_to_leave_the_case_out_and_weight_one_changes_nothing(kernel):
    weights = np.sign(np.arange(20) % 4)
    some = weights > 0
    zero, without = fitted(X, LABELS, kernel, weights=weights), fitted(X[some], LABELS[some], kernel)
    np.testing.assert_allclose(numbers(zero), numbers(without), atol=1e-9)
    np.testing.assert_array_equal(zero["fit"]["loo_i"].values[~some], 0.0)
    np.testing.assert_array_equal(zero["log_likelihood"]["y"].values[..., ~some], 0.0)
    plain = fitted(X, LABELS, kernel)
    np.testing.assert_array_equal(numbers(fitted(X, LABELS, kernel, weights=np.ones(20))), numbers(plain))
    assert np.abs(numbers(plain) - numbers(without)).max() > 0.1


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_two_classes_are_the_binary_method(scale):
    """K for each of two latent functions is 2 K for their difference."""
    gram, t = KERNELS["dense"].gram(X), (LABELS == "a").astype(float)
    weights = scale * COUNTED
    joint = bgp.Problem(gram, t, by_case(bgp.Softmax(("b", "a")), weights=weights))
    binary = bgp.Problem(2.0 * gram, 2.0 * t - 1.0, by_case(bgp.Logit(), weights=weights))
    ours, theirs = (get_method("laplace", each.likelihood) for each in (joint, binary))
    one, other = ours.solve(joint, EXACT), theirs.solve(binary, EXACT)
    np.testing.assert_allclose(one.evidence.value, other.evidence.value, atol=1e-9)
    np.testing.assert_allclose(one.alpha[:, 1], other.alpha, atol=1e-9)
    np.testing.assert_allclose(ours.gram_gradient(joint, one), 2.0 * theirs.gram_gradient(binary, other), atol=1e-8)


def test_the_gradient_is_that_of_the_evidence():
    weights = np.array([0.0, 0.5, 1.0, 2.0, 7.0] * 4)
    gram, t = KERNELS["dense"].gram(X) + 0.01 * np.eye(20), np.unique(LABELS, return_inverse=True)[1].astype(float)
    root = RNG.standard_normal((20, 20))
    change, h = 0.05 * root @ root.T, 1e-4

    def slopes(likelihood):
        method = get_method("laplace", likelihood)
        values = [method.solve(bgp.Problem(gram + s * change, t, likelihood), EXACT) for s in (-h, 0.0, h)]
        gradient = np.sum(method.gram_gradient(bgp.Problem(gram, t, likelihood), values[1]) * change)
        return (values[2].evidence.value - values[0].evidence.value) / (2.0 * h), gradient

    weighed = by_case(bgp.Softmax(("a", "b", "c")), weights=weights)
    expected, found = slopes(weighed)
    assert found == pytest.approx(expected, rel=1e-6)
    assert abs(slopes(weighed.of_one_case)[1] - expected) > 0.01  # a control


def test_pointwise_quantities_count_as_often():
    idata = fitted(X, LABELS, weights=3.0 * np.ones(20))
    process = bgp.posterior(idata)
    own = process.loo.probability[np.arange(20), process.problem.t.astype(int)]
    np.testing.assert_allclose(idata["fit"]["loo_i"], 3.0 * np.log(own), rtol=1e-6)
    drawn = process.draw(50, np.random.default_rng(1))
    of_one = bgp.Softmax(("a", "b", "c")).log_prob(process.problem.t, drawn.f)
    own = np.arange(20), process.problem.t.astype(int)
    np.testing.assert_allclose(drawn.log_likelihood.value, 3.0 * of_one.value, rtol=1e-12)
    np.testing.assert_allclose(drawn.log_likelihood.d1, 3.0 * of_one.d1[:, *own], rtol=1e-9)
    log_prob = process.problem.likelihood.log_prob(process.problem.t, drawn.f)
    np.testing.assert_allclose(log_prob.d2, 3.0 * of_one.d2)
    assert process.new_likelihood == bgp.Softmax(("a", "b", "c"))


def test_a_file_has_them(tmp_path):
    idata = fitted(X, LABELS, weights=COUNTED)
    idata.to_netcdf(str(tmp_path / "fit.nc"))
    again = az.from_netcdf(str(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again["constant_data"]["weights"], COUNTED)
    np.testing.assert_allclose(numbers(again), numbers(idata), rtol=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [(bgp.Softmax(), "tap"), (bgp.MultinomialProbit(), "tap"), (bgp.Softmax(("a", "b", "c")), "tap")],
)
def test_elsewhere_they_are_refused_in_words_that_name_the_way(likelihood, method):
    message = r"weights of several classes go with Softmax\(\) and method='laplace'"
    with pytest.raises(bgp.UndefinedQuantityError, match=message):
        bgp.fit(X, LABELS, KERNELS["dense"], likelihood, method=method, weights=COUNTED)
    stream = bgp.streams.Stream(KERNELS["dense"], likelihood, classes=("a", "b", "c"))
    with pytest.raises(bgp.UndefinedQuantityError, match=message):
        stream.update(X, LABELS, weights=COUNTED)
    assert stream.n_seen == 0
    with pytest.raises(ValueError, match="weights must be at most"):
        fitted(X, LABELS, weights=np.full(20, 1e13))
