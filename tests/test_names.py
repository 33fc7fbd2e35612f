"""Names that people type: those of other packages, likelihoods by word, arguments that are called otherwise."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.names import ARGUMENTS, ELSEWHERE

X = np.linspace(-2.0, 2.0, 12)[:, None]
COUNTS, LABELS = np.arange(12) % 4, X[:, 0] > 0
QUICK = {"draws": 10, "random_seed": 1, "progress": False}


@pytest.mark.parametrize(
    ("room", "name", "ours"),
    [
        ("kernels", "ExpQuad", r"kernels\.RBF\(lengthscale"),
        ("kernels", "SquaredExponential", r"kernels\.RBF\(lengthscale"),
        ("kernels", "Matern", r"Matern32\(lengthscale\) with nu=1\.5"),
        ("kernels", "WhiteKernel", r"kernels\.White\(variance\)"),
        ("kernels", "Constant", r"kernels\.Bias\(variance\)"),
        ("kernels", "ConstantKernel", r"kernels\.Bias\(variance\)"),
        ("kernels", "DotProduct", r"kernels\.Linear\(weight\) \+ kernels\.Bias"),
        ("kernels", "ExpSineSquared", r"kernels\.Periodic\(lengthscale, period="),
        ("likelihoods", "Bernoulli", r"Probit\(\) or likelihoods\.Logit"),
        ("likelihoods", "Categorical", r"MultinomialProbit\(\) or likelihoods\.Softmax"),
    ],
)
def test_a_name_of_another_package_is_answered_with_ours(room, name, ours):
    module = importlib.import_module(f"bayesgp_mf.{room}")
    for asked in (module, bgp):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; here it is .*{ours}"):
            getattr(asked, name)
        assert not hasattr(asked, name)
    with pytest.raises(ImportError, match=ours):
        exec(f"from bayesgp_mf.{room} import {name}")


def test_what_the_answers_name_is_there():
    for advice in (*ELSEWHERE.values(), *ARGUMENTS.values()):
        for word in advice.replace("(", " ").replace(",", " ").replace(";", " ").split():
            room, _, name = word.partition(".")
            if room in ("kernels", "likelihoods", "bgp") and name[:1].isupper():
                assert hasattr({"kernels": kernels, "likelihoods": likelihoods, "bgp": bgp}[room], name), word
    assert not set(ELSEWHERE) & set(bgp.__all__)


def test_a_name_that_is_nearly_right_or_in_a_room_is_found():
    with pytest.raises(AttributeError, match=r"no attribute 'Gausian'; it has Gaussian"):
        _ = kernels.Gausian
    with pytest.raises(AttributeError, match=r"no attribute 'Matern32'; it has kernels\.Matern32\.$"):
        _ = bgp.Matern32
    with pytest.raises(AttributeError, match=r"kernels\.Gaussian\(lengthscale\), a .* likelihoods\.Gaussian"):
        _ = bgp.Gaussian


def test_a_formula_is_answered_with_columns():
    with pytest.raises(ValueError, match=r"got 'y ~ age'\. Of a formula pass the columns, as fit\(table"):
        bgp.fit("y ~ age", LABELS)


def test_the_better_names_are_ours():
    assert kernels.RBF is kernels.Gaussian
    assert bgp.GPClassifier is bgp.sklearn.GPClassifier
    assert bgp.GPRegressor is bgp.sklearn.GPRegressor
    assert bgp.Stream is bgp.streams.Stream


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda: kernels.Gaussian(ls=1.0), "lengthscale="),
        (lambda: kernels.RBF(length_scale=1.0), "lengthscale="),
        (lambda: kernels.Matern32(lenghtscale=1.0), "Is it lengthscale"),
        (lambda: kernels.White(noise_level=1.0), "variance="),
        (lambda: kernels.Periodic(periodicity=1.0), "period="),
        (lambda: kernels.Power(kernels.Gaussian(), exponents=2), "Is it exponent"),
        (lambda: likelihoods.NegativeBinomial(alpha=1.0), "dispersion="),
        (lambda: likelihoods.StudentT(nu=4.0), "df="),
        (lambda: bgp.fit(X, COUNTS, likelihood="poisson", exposure=np.ones(12)), r"offset=np\.log\(exposure\)"),
        (lambda: bgp.fit(X, LABELS, sample_weight=np.ones(12)), "weights="),
        (lambda: bgp.fit(X, LABELS, class_weight="balanced"), "GPClassifier"),
        (lambda: bgp.fit(X, LABELS, verbose=True), "progress="),
        (lambda: bgp.predict(None, X, exposure=np.ones(12)), r"of bgp\.fit and bgp\.predict"),
        (lambda: bgp.predict(None, X, seed=1), "random_seed="),
        (lambda: bgp.predict(None, X, quantile=[0.5]), "Is it quantiles"),
        (lambda: bgp.prior_predictive(X, samples=10), "draws="),
        (lambda: likelihoods.Gaussian(sigma=1.0), r"noise_variance=sigma\*\*2"),
        (lambda: bgp.GPRegressor(likelihood="poisson").fit(X, COUNTS, offset=np.zeros(12)), "It is of bgp.fit"),
        (lambda: bgp.GPClassifier().fit(X, LABELS, exposure=np.ones(12)), r"offset=np\.log\(exposure\) of bgp\.fit"),
        (lambda: bgp.GPClassifier(n_jobs=2), "cross_val_score"),
        (lambda: bgp.GPRegressor(n_restarts_optimizer=2), "starts="),
        (lambda: bgp.GPClassifier(optimizer=None), "hyper=None"),
    ],
)
def test_an_argument_of_another_package_is_answered_with_ours(make, ours):
    with pytest.raises(TypeError, match=f"has no argument '.*{ours}"):
        make()


def test_a_class_of_ones_own_takes_what_its_constructor_takes():
    class Wide(kernels.Gaussian):
        def __init__(self, **options):
            super().__init__(options["width"])

    assert Wide(width=2.0).lengthscale == 2.0

    class Nothing(likelihoods.Likelihood):
        targets, forbids, log_concave = "real", False, True
        log_prob = log_partition = sample = None

    assert Nothing().is_real
    for given in ({"args": [1.0]}, {"options": {"scale": 1.0}}):
        with pytest.raises(TypeError, match="argument"):
            Nothing(*given.get("args", ()), **given.get("options", {}))
    assert pickle.loads(pickle.dumps(kernels.Gaussian(2.0))).lengthscale == 2.0


@pytest.mark.parametrize(
    ("word", "likelihood", "y"),
    [
        ("poisson", bgp.Poisson(), COUNTS),
        ("Student-T", bgp.StudentT(), COUNTS - 0.5),
        ("gaussian", likelihoods.Gaussian(), COUNTS - 0.5),
        ("logit", bgp.Logit(), LABELS),
        ("multinomial_probit", bgp.MultinomialProbit(), COUNTS),
    ],
)
def test_a_likelihood_may_be_a_word(word, likelihood, y):
    kernel = kernels.Gaussian()
    found, same = (bgp.fit(X, y, kernel, each, **QUICK) for each in (word, likelihood))
    assert get_group(found, "fit").attrs["likelihood"] == get_group(same, "fit").attrs["likelihood"]
    if likelihood.has_classes or likelihood.is_binary:
        assert bgp.GPClassifier(kernel, word, hyper=None).fit(X, y).predict(X).shape == (12,)
    else:
        assert bgp.GPRegressor(kernel, word, hyper=None).fit(X, y).predict(X).shape == (12,)
        stream, other = (bgp.Stream(kernel, each).update(X, y, progress=False) for each in (word, likelihood))
        np.testing.assert_array_equal(stream.latent(X), other.latent(X))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("negative_binomial", r"needs dispersion: write likelihoods\.NegativeBinomial\(dispersion=\.\.\.\)"),
        ("zero_inflated", r"write likelihoods\.ZeroInflated\(counts=\.\.\., probability=\.\.\.\)"),
        ("binomial", "needs trials"),
        ("ordinal", r"needs cuts: write .*; help\(likelihoods\.Ordinal\) has an example"),
        ("bernoulli", r"likelihoods\.Probit\(\) or likelihoods\.Logit"),
        ("poison", r"must be one of \['beta', .*'poisson'"),
    ],
)
def test_a_word_that_does_not_do_says_what_to_write(word, said):
    with pytest.raises(ValueError, match=said):
        bgp.fit(X, COUNTS, likelihood=word)
