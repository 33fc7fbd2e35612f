from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence
from bayesgp_mf.one_vs_rest import fit_one_vs_rest

KERNEL = bgp.kernels.Gaussian(1.0, 3.0)
PRIORS = {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0), "variance": bgp.hyper.LogNormal(1.0, 1.0)}


def three_classes(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.array(["p", "q", "r"])[(X @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])).argmax(axis=1)]


def test_each_class_is_a_binary_fit():
    X, y = three_classes()
    result = fit_one_vs_rest(X, y, KERNEL, bgp.Probit())
    assert result.class_names == ("p", "q", "r")
    for c, name in enumerate(result.class_names):
        t = np.where(y == name, 1.0, -1.0)
        solution = bgp.solve(KERNEL.gram(X), t, bgp.Probit())
        np.testing.assert_array_equal(result.posteriors[c].solution.alpha, solution.alpha)


def test_probabilities_sum_to_one_and_were_not_made_for_it():
    X, y = three_classes()
    result = fit_one_vs_rest(X, y, KERNEL)
    new = np.random.default_rng(1).standard_normal((7, 2))
    probability, binary = result.predict_proba(new), result.binary_proba(new)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert np.abs(binary.sum(axis=1) - 1.0).max() > 0.01
    np.testing.assert_allclose(probability * binary.sum(axis=1, keepdims=True), binary)
    assert result.predict(X[:5]) == [result.class_names[c] for c in result.predict_proba(X[:5]).argmax(axis=1)]
    assert np.mean(np.array(result.predict(X)) == y) > 0.8


def test_leaving_out_uses_the_cavities_of_each():
    X, y = three_classes()
    result = fit_one_vs_rest(X, y, KERNEL)
    loo = result.loo_proba
    np.testing.assert_allclose(loo.sum(axis=1), 1.0)
    i = 4
    others = np.arange(30) != i
    refit = fit_one_vs_rest(X[others], y[others], KERNEL)
    np.testing.assert_allclose(loo[i], refit.predict_proba(X[i : i + 1])[0], atol=0.02)
    assert np.abs(loo[i] - result.predict_proba(X[i : i + 1])[0]).max() > 0.02


def test_two_classes_agree_with_the_binary_fit():
    X, y = three_classes()
    kept = y != "r"
    result = fit_one_vs_rest(X[kept], y[kept], KERNEL)
    t = np.where(y[kept] == "q", 1.0, -1.0)
    problem = bgp.Problem(KERNEL.gram(X[kept]), t, bgp.Logit())
    binary = bgp.Posterior(KERNEL, X[kept], problem, bgp.solve(problem.gram, t, bgp.Logit()))
    np.testing.assert_allclose(result.predict_proba(X)[:, 1], binary.predict_proba(X), atol=1e-7)


def test_each_class_finds_its_own_kernel():
    X, y = three_classes()
    result = fit_one_vs_rest(X, y, KERNEL, hyper=Evidence(1), priors=PRIORS, random_seed=0)
    fixed = fit_one_vs_rest(X, y, KERNEL)

    def score(posterior):
        own = posterior.kernel.params
        return posterior.log_evidence + sum(float(PRIORS[name].log_density(np.log(own[name]))[0]) for name in own)

    for tuned, given in zip(result.posteriors, fixed.posteriors, strict=True):
        assert score(tuned) > score(given)
    assert len({float(p.kernel.params["variance"]) for p in result.posteriors}) == 3


def test_there_is_no_joint_evidence():
    X, y = three_classes()
    with pytest.raises(bgp.UndefinedQuantityError, match="no joint evidence"):
        _ = fit_one_vs_rest(X, y, KERNEL).log_evidence


def test_what_it_refuses():
    X, y = three_classes()
    with pytest.raises(ValueError, match="likelihood of two classes"):
        fit_one_vs_rest(X, y, KERNEL, bgp.Softmax())
    with pytest.raises(ValueError, match="'svm' does not have"):
        fit_one_vs_rest(X, y, KERNEL, method="svm")
    with pytest.raises(ValueError, match=r"none of \['s'\]"):
        fit_one_vs_rest(X, y, KERNEL, classes=("p", "q", "r", "s"))
    with pytest.raises(ValueError, match="PerClass"):
        fit_one_vs_rest(X, y, bgp.kernels.PerClass(KERNEL, KERNEL, KERNEL))
    with pytest.raises(ValueError, match="priors are for"):
        fit_one_vs_rest(X, y, KERNEL, priors=PRIORS)
    with pytest.raises(ValueError, match="one kernel for each"):
        fit_one_vs_rest(X, y, KERNEL, hyper="integrate", priors=PRIORS)


@pytest.mark.parametrize("hyper", ["hmc", "nuts", "integrate", "surrogate", bgp.hyper.Integrate()])
def test_averages_are_refused_before_any_search(hyper):
    class Untouched(bgp.kernels.Gaussian):
        """A kernel that must not be used."""

        def gram(self, X):
            raise AssertionError("a search has begun")

    with pytest.raises(AssertionError, match="a search has begun"):
        fit_one_vs_rest(*three_classes(), Untouched(), hyper="evidence")
    with pytest.raises(ValueError, match=r"averages over many\. Use 'evidence'"):
        fit_one_vs_rest(*three_classes(), Untouched(), hyper=hyper)


@pytest.mark.parametrize("hyper", [3, "evidenc", Evidence])
def test_what_is_no_strategy_is_refused(hyper):
    with pytest.raises(ValueError, match="hyper must be None, one of"):
        fit_one_vs_rest(*three_classes(), KERNEL, hyper=hyper)
