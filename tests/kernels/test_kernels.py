"""Every kernel: algebra, gradients, round trips, and the published formulas."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.kernels import (
    Bias,
    Gaussian,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Polynomial,
    Power,
    Product,
    RationalQuadratic,
    Sum,
    White,
    from_dict,
    log_vector,
    log_vector_names,
    with_log_vector,
)
from tests.kernels.cases import ARD, CASES
from tests.kernels.differences import check_gradient

X = np.random.default_rng(0).standard_normal((9, 3))
everywhere = pytest.mark.parametrize("kernel", CASES.values(), ids=CASES)


def test_no_kernel_is_left_untested():
    names = [getattr(kernels, name) for name in kernels.__all__]
    public = {
        c
        for c in names
        if inspect.isclass(c) and c not in (Kernel, kernels.Areal, kernels.PerClass, kernels.Kinds, kernels.Mean)
    }  # they have their own
    assert public == {type(case) for case in CASES.values()}


@everywhere
def test_gram_is_symmetric_positive_and_has_its_diagonal(kernel):
    gram = kernel.gram(X)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(np.diag(gram), kernel.diag(X), rtol=1e-13)
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * np.trace(gram)


@everywhere
def test_cross_is_gram_away_from_the_diagonal(kernel):
    np.testing.assert_allclose(kernel.cross(X[:4], X[4:]), kernel.gram(X)[:4, 4:], rtol=1e-12, atol=1e-14)


@everywhere
def test_gram_vjp_passes_central_differences(kernel):
    raw = np.random.default_rng(1).standard_normal((9, 9))
    gram_bar = raw + raw.T
    check_gradient(kernel, kernel.gram_vjp(X, gram_bar), lambda k: float(np.sum(k.gram(X) * gram_bar)))


@everywhere
def test_cross_vjp_passes_central_differences(kernel):
    others = X[:4] + 0.3
    cross_bar = np.random.default_rng(1).standard_normal((9, 4))
    vjp = kernel.cross_vjp(X, others, cross_bar)
    check_gradient(kernel, vjp, lambda k: float(np.sum(k.cross(X, others) * cross_bar)))


@pytest.mark.parametrize("lengthscale", [1e-3, 1e-1, 1e1, 1e3])
@pytest.mark.parametrize("kind", [Gaussian, Matern12, Matern32, Matern52, RationalQuadratic])
def test_gradients_hold_over_six_decades_of_length_scale(kind, lengthscale):
    points = X.copy()
    points[1] = points[0] + 0.5 * lengthscale  # so that something is correlated at every scale
    gram_bar = np.ones((9, 9))
    step = 1e-5

    def contracted(shift: float) -> float:
        # off-diagonal sum: the diagonal does not depend on the length scale and would only add rounding
        gram = kind(lengthscale * np.exp(shift)).gram(points)
        return 2.0 * float(np.sum((gram - 1.0)[np.triu_indices(9, 1)]))

    got = kind(lengthscale).gram_vjp(points, gram_bar)["lengthscale"] * lengthscale
    numeric = (contracted(step) - contracted(-step)) / (2 * step)
    assert numeric > 0
    np.testing.assert_allclose(got, numeric, rtol=1e-5)


@pytest.mark.parametrize("kind", [Gaussian, Matern12, Matern32, Matern52, RationalQuadratic])
def test_the_diagonal_leaves_no_rounding_in_the_gradient_of_the_length_scale(kind):
    # the variance of a case does not depend on the length scale, however large its weight
    assert kind(1e-3).gram_vjp(1e3 * X, 1e9 * np.eye(9))["lengthscale"] == 0.0


@everywhere
def test_log_vector_and_dictionary_round_trips(kernel):
    assert from_dict(kernel.to_dict()) == kernel
    again = with_log_vector(kernel, log_vector(kernel))
    for name, value in kernel.params.items():
        np.testing.assert_allclose(again.params[name], value, rtol=1e-15)
    assert len(log_vector_names(kernel)) == log_vector(kernel).size
    assert again.to_dict().keys() == kernel.to_dict().keys()


@everywhere
def test_replace_changes_what_it_names_and_nothing_else(kernel):
    name = next(iter(kernel.params))
    doubled = kernel.replace(**{name: 2.0 * kernel.params[name]})
    np.testing.assert_array_equal(doubled.params[name], 2.0 * kernel.params[name])
    assert all(np.array_equal(doubled.params[k], v) for k, v in kernel.params.items() if k != name)
    assert doubled != kernel
    assert type(doubled) is type(kernel)
    with pytest.raises(ValueError, match="unknown parameter 'wavelength'; this kernel has"):
        kernel.replace(wavelength=1.0)


def test_parameters_are_named_after_their_kernel():
    assert log_vector_names(Gaussian([1.0, 2.0]) + Bias()) == [
        "gaussian_lengthscale[0]",
        "gaussian_lengthscale[1]",
        "gaussian_variance",
        "bias_variance",
    ]
    twice = Gaussian(1.0) + Linear() * Gaussian(2.0)
    assert list(twice.params) == [
        "gaussian1_lengthscale",
        "gaussian1_variance",
        "linear_weight",
        "gaussian2_lengthscale",
        "gaussian2_variance",
    ]
    assert float(twice.replace(gaussian2_lengthscale=5.0).terms[1].terms[1].lengthscale) == 5.0


def test_sums_and_products_are_sums_and_products():
    a, b = Gaussian(1.0), Linear(0.3)
    np.testing.assert_allclose((a + b).gram(X), a.gram(X) + b.gram(X))
    np.testing.assert_allclose((a * b).cross(X, X[:2]), a.cross(X, X[:2]) * b.cross(X, X[:2]))
    assert isinstance(a + b, Sum)
    assert isinstance(a * b, Product)
    assert len((a + b + Bias()).terms) == 3


def test_zero_parameters_are_switched_off():
    kernel = NeuralNetwork(0.7, bias=0.0)
    assert log_vector_names(kernel) == ["weight", "variance"]
    assert float(with_log_vector(kernel, [0.0, 0.0]).bias) == 0.0


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        # 2000, appendix B, with w = 1/lengthscale^2; the squares are written out to be independent of the code
        (Gaussian(ARD, 2.0), lambda x, z: 2.0 * np.exp(-0.5 * sum((x - z) ** 2 / np.square(ARD)))),
        (RationalQuadratic(1 / np.sqrt(2 * np.array(ARD)), 2.0, 1.0), lambda x, z: 2.0 / (1 + sum(ARD * (x - z) ** 2))),
        (Linear(ARD), lambda x, z: sum(ARD * x * z)),
        (
            NeuralNetwork(ARD, 0.0, 2.0),
            lambda x, z: (
                2.0
                * (2 / np.pi)
                * np.arcsin(sum(ARD * x * z) / np.sqrt((1 + sum(ARD * x * x)) * (1 + sum(ARD * z * z))))
            ),
        ),
        (
            NeuralNetwork(ARD, 0.0, 2.0, "sign"),
            lambda x, z: 2.0 * (2 / np.pi) * np.arcsin(sum(ARD * x * z) / np.sqrt(sum(ARD * x * x) * sum(ARD * z * z))),
        ),
        (Polynomial(3, 1 / 3), lambda x, z: (1 + x @ z / 3) ** 3),
    ],
    ids=["gaussian", "cauchy", "perceptron", "network", "sign network", "polynomial"],
)
def test_formulas_of_the_papers(kernel, formula):
    expected = [[formula(x, z) for z in X[:4]] for x in X[4:7]]
    np.testing.assert_allclose(kernel.cross(X[4:7], X[:4]), expected, rtol=1e-12)


@pytest.mark.parametrize("activation", ["erf", "sign"])
def test_arcsine_kernel_is_the_covariance_of_an_infinite_network(activation):
    from scipy.special import ndtr

    points = X[:2]
    kernel = NeuralNetwork(ARD, 0.4, activation=activation)
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((400_000, 3)) * np.sqrt(ARD)
    u = weights @ points.T + np.sqrt(0.4) * rng.standard_normal((400_000, 1))
    hidden = 2 * ndtr(u) - 1 if activation == "erf" else np.sign(u)
    products = hidden[:, 0] * hidden[:, 1]
    error = products.std() / np.sqrt(products.size)
    assert abs(products.mean() - kernel.gram(points)[0, 1]) < 5 * error


def test_equal_inputs_are_equal_to_the_last_bit():
    twice = np.vstack([X, X])
    for kernel in (Gaussian(1e-3), Matern52(1e-3), RationalQuadratic(1e-3)):
        gram = kernel.gram(twice * 1e3)
        np.testing.assert_array_equal(gram[:9, 9:].diagonal(), np.diag(gram)[:9])


def test_white_noise_is_new_for_every_new_case():
    assert not White(1.0).cross(X, X).any()
    np.testing.assert_array_equal(White(0.3).gram(X), 0.3 * np.eye(9))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(-1.0), r"lengthscale must be finite and > 0, got -1\.0"),
        (lambda: Gaussian([1.0, np.nan]), "lengthscale must be finite and > 0"),
        (lambda: Gaussian(1.0, -2.0), r"variance must be finite and > 0, got -2\.0"),
        (lambda: Gaussian([[1.0]]), r"lengthscale must be a number or a sequence .* got an array of shape \(1, 1\)"),
        (lambda: Gaussian(1.0, [1.0, 2.0]), r"variance must be one number, got an array of shape \(2,\)"),
        (lambda: Gaussian("wide"), "lengthscale must be a number"),
        (lambda: Gaussian([]), "lengthscale must be a number or a sequence"),
        (lambda: Gaussian([1.0, 2.0]).gram(X), "lengthscale has 2 entries, but X has 3 columns"),
        (lambda: Linear([1.0, 2.0]).diag(X), "weight has 2 entries, but X has 3 columns"),
        (lambda: Polynomial(degree=1.5), r"degree must be a positive integer, got 1\.5"),
        (lambda: Polynomial(degree=0), "degree must be a positive integer, got 0"),
        (lambda: NeuralNetwork(activation="relu"), "activation must be 'erf' or 'sign', got 'relu'"),
        (lambda: NeuralNetwork(activation="sign").gram(np.zeros((2, 3))), "undefined at the origin"),
        (lambda: NeuralNetwork(bias=-0.1), "bias must be finite and >= 0"),
        (lambda: RationalQuadratic(shape=0.0), "shape must be finite and > 0"),
        (lambda: from_dict({"kernel": "Cosine"}), "unknown kernel 'Cosine'; expected one of"),
        (lambda: from_dict(None), "description must be a dict, as to_dict of a kernel returns it, got None"),
        (lambda: from_dict("Gaussian"), "description must be a dict, .* got 'Gaussian'"),
        (lambda: from_dict({1: 2.0}), "description must be a dict, .* got {1: 2.0}"),
        (lambda: from_dict({"kernel": ["Gaussian"]}), r"unknown kernel \['Gaussian'\]; expected one of"),
        (lambda: from_dict({"kernel": "Gaussian", "width": 1.0}), "no description of a Gaussian kernel: .*'width'"),
        (lambda: from_dict({"kernel": "Sum"}), "no description of a Sum kernel: it has no 'terms'"),
        (lambda: from_dict({"kernel": "Sum", "terms": 3}), "no description of a Sum kernel: 'int' object is not iter"),
        (lambda: from_dict({"kernel": "Product", "terms": [3]}), "description must be a dict, .* got 3"),
        (lambda: with_log_vector(Bias(), [0.0, 1.0]), r"log vector of this kernel has shape \(1,\), got \(2,\)"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_kernel_does_not_combine_with_other_things():
    for other in ("1.0", None, True, [1.0], np.ones(2)):
        with pytest.raises(TypeError):
            Gaussian() + other
        with pytest.raises(TypeError):
            other * Gaussian()
    with pytest.raises(TypeError, match="takes kernels, got float"):
        Sum(Gaussian(), 1.0)


def test_kernels_cannot_be_changed():
    kernel = Gaussian([1.0, 2.0])
    with pytest.raises(AttributeError):
        kernel.lengthscale = 3.0
    with pytest.raises(ValueError, match="read-only"):
        kernel.lengthscale[0] = 3.0


@pytest.mark.parametrize(
    "combine",
    [
        lambda: Gaussian() + Bias,
        lambda: Bias + Gaussian(),
        lambda: Gaussian() * Bias,
        lambda: Bias * Gaussian(),
        lambda: Sum(Gaussian(), Bias),
        lambda: Power(Bias, 2),
    ],
)
def test_a_class_in_place_of_a_kernel_is_said_to_be_one(combine):
    with pytest.raises(TypeError, match=r"got the class Bias: write it with \(\), such as Bias\(\)\."):
        combine()


@pytest.mark.parametrize("kernel", [kernels.Matern12(), kernels.Matern32(), kernels.Matern52(), kernels.Gaussian()])
@pytest.mark.filterwarnings("error")
def test_cases_that_are_very_far_apart_have_no_correlation(kernel):
    assert kernel.cross(np.array([[0.0]]), np.array([[1e160]]))[0, 0] == 0.0
    idata = bgp.fit([[0.0], [1.0]], [0, 1], kernel, draws=1, chains=1, random_seed=0)
    found = bgp.predict(idata, [[1e160]], random_seed=0)["predictions"]
    assert float(found["latent_mean"][0]) == 0.0
    assert float(found["latent_sd"][0]) == pytest.approx(1.0)


def test_new_cases_at_which_a_kernel_overflows_are_refused():
    idata = bgp.fit([[0.0], [1.0]], [0, 1], kernels.Linear() + kernels.Bias(), draws=1, chains=1, random_seed=0)
    with pytest.raises(ValueError, match="X_new has inputs in row 1 so far out"):
        bgp.predict(idata, [[0.0], [1e160]])
