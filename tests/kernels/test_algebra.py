"""Kernels with numbers, powers, and their parameters as scikit-learn asks for them."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.kernels import (
    Bias,
    Categorical,
    Gaussian,
    Kernel,
    Linear,
    Matern52,
    PerClass,
    Periodic,
    Power,
    Product,
    Sum,
    White,
    from_dict,
    leaves,
)
from bayesgp_mf.kernels.combinations import DEEPEST
from tests.kernels.cases import ARD, CASES
from tests.kernels.differences import check_gradient

X = np.random.default_rng(0).standard_normal((9, 3))
everywhere = pytest.mark.parametrize("kernel", CASES.values(), ids=CASES)
BAR = np.random.default_rng(1).standard_normal((9, 9))


@everywhere
def test_a_number_multiplies_all_covariances_and_adds_no_parameter(kernel):
    for made in (2.5 * kernel, kernel * 2.5, np.float64(2.5) * kernel, np.asarray(2.5) * kernel):
        assert list(made.params) == list(kernel.params)
        np.testing.assert_allclose(made.gram(X), 2.5 * kernel.gram(X), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(made.cross(X, X[:2]), 2.5 * kernel.cross(X, X[:2]), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(made.diag(X), 2.5 * kernel.diag(X), rtol=1e-13)


def test_a_number_goes_into_the_variance():
    assert 2 * Gaussian(1.5, 3.0) == Gaussian(1.5, 6.0)
    assert 2 * Linear(ARD) == Linear(2 * np.array(ARD))
    assert 0.5 * (Gaussian(1.0) + White(2.0)) == Gaussian(1.0, 0.5) + White(1.0)
    assert 2.0 * (Gaussian(1.0) * Linear()) == Gaussian(1.0, 2.0) * Linear()
    assert 3.0 * PerClass(Gaussian(), Matern52()) == PerClass(Gaussian(variance=3.0), Matern52(variance=3.0))


class Warped(Gaussian):
    """A kernel of a user whose covariances are not all multiplied by its variance."""

    def gram(self, X):
        return super().gram(X) + np.eye(X.shape[0])


def test_a_kernel_of_a_user_whose_variance_may_be_something_else_becomes_a_product():
    kernel = Warped(1.5)
    np.testing.assert_allclose((2.0 * kernel).gram(X), 2.0 * kernel.gram(X))
    assert 2.0 * kernel == Product(Bias(2.0), kernel)
    assert np.abs(kernel.replace(variance=2.0).gram(X) - 2.0 * kernel.gram(X)).max() > 0.5  # what it would have been

    class WarpedSum(Sum):
        def gram(self, X):
            return super().gram(X) ** 2

    total = WarpedSum(Gaussian(), Bias())
    np.testing.assert_allclose((2.0 * total).gram(X), 2.0 * total.gram(X))


@everywhere
def test_a_number_added_is_a_bias(kernel):
    np.testing.assert_allclose((kernel + 0.7).gram(X), kernel.gram(X) + 0.7)
    np.testing.assert_allclose((0.7 + kernel).cross(X, X[:2]), kernel.cross(X, X[:2]) + 0.7)
    assert isinstance((kernel + 0.7).parts[-1], Bias)


def test_pythons_own_sum_adds_kernels():
    assert sum([Gaussian(), Linear()]) == Gaussian() + Linear()
    assert Gaussian() + 0 == Gaussian()


@pytest.mark.parametrize("number", [-1.0, np.nan, np.inf])
def test_numbers_that_are_no_variances_are_refused(number):
    for make in (lambda: number * Gaussian(), lambda: Gaussian() * number, lambda: Gaussian() + number):
        with pytest.raises(
            ValueError, match=r"a number that is (multiplied with|added to) a kernel must be finite and"
        ):
            make()
    with pytest.raises(ValueError, match="multiplied with a kernel must be finite and > 0, got 0"):
        0 * Gaussian()


@everywhere
@pytest.mark.parametrize("exponent", [1, 3])
def test_a_power_is_a_product_of_equal_kernels(kernel, exponent):
    power, product = kernel**exponent, Product(*[kernel] * exponent)
    np.testing.assert_allclose(power.gram(X), product.gram(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(power.diag(X), product.diag(X), rtol=1e-12)
    assert list(power.params) == list(kernel.params)
    # the terms of the product have each its part of the gradient
    gram_bar = BAR + BAR.T
    parts = list(product.gram_vjp(X, gram_bar).values())
    for k, (name, value) in enumerate(power.gram_vjp(X, gram_bar).items()):
        together = sum(parts[k :: len(kernel.params)])
        np.testing.assert_allclose(
            value, together, rtol=1e-9, atol=1e-9 * np.max(np.abs(together)) + 1e-13, err_msg=name
        )


def test_powers_of_powers_are_one():
    power = Gaussian(1.0) ** 2
    assert power**3 == Gaussian(1.0) ** 6
    assert repr(power) == "Gaussian(lengthscale=1.0, variance=1.0)**2"
    assert repr((Gaussian() + Bias()) ** 2).endswith("Bias(variance=1.0))**2")
    np.testing.assert_allclose(power.gram(X), Gaussian(1.0 / np.sqrt(2.0)).gram(X))
    assert from_dict({**power.to_dict(), "exponent": 4}) == Gaussian(1.0) ** 4
    assert list((power + 1.0).params) == ["power_lengthscale", "power_variance", "bias_variance"]
    assert leaves(2 * power + 1.0)[0] == Gaussian(variance=np.sqrt(2.0))
    assert len({power, Gaussian(1.0) ** 2, Gaussian(1.0) ** 3}) == 2


@pytest.mark.parametrize("exponent", [0, -1, 0.5, 2.0, True, "2", None])
def test_other_powers_are_refused(exponent):
    with pytest.raises(ValueError, match=r"the exponent of a kernel must be a whole number >= 1, got"):
        Gaussian() ** exponent


def test_powers_of_what_is_no_kernel_of_one_process_are_refused():
    for wrong in (PerClass(Gaussian(), Gaussian()), 2.0):
        with pytest.raises(TypeError, match="Power takes a kernel of one process"):
            Power(wrong, 2)
    deep = Gaussian()
    for _ in range(DEEPEST // 2):
        deep = (deep + 1.0) ** 2
    with pytest.raises(ValueError, match="at most 100 deep"):
        deep + 1.0
    assert from_dict(deep.to_dict()) == deep


class TestGetAndSetParams:
    @everywhere
    def test_what_is_got_can_be_set(self, kernel):
        params = kernel.get_params()
        for name, value in params.items():
            assert kernel.set_params(**{name: value}) == kernel
        own = kernel.get_params(deep=False)
        assert set(own) == {name for name in params if "__" not in name}
        assert kernel.set_params() == kernel

    def test_of_a_kernel(self):
        kernel = Periodic(2.0, period=7.0, columns="week")
        assert kernel.get_params() == {"lengthscale": 2.0, "variance": 1.0, "period": 7.0, "columns": ("week",)}
        assert kernel.set_params(lengthscale=3.0, columns=None) == Periodic(3.0, period=7.0)
        assert float(kernel.lengthscale) == 2.0  # kernels are immutable

    def test_of_sums_products_and_powers(self):
        kernel = (Gaussian(1.0) + Linear()) ** 2 * Categorical(columns=0)
        assert list(kernel.get_params(deep=False)) == ["power", "categorical"]
        changed = kernel.set_params(
            power__kernel__gaussian__lengthscale=5.0, categorical__columns=[1], power__exponent=3
        )
        assert changed == (Gaussian(5.0) + Linear()) ** 3 * Categorical(columns=1)
        assert kernel.set_params(power=Gaussian(), power__variance=2.0) == Gaussian(variance=2.0) * Categorical(
            columns=0
        )
        classes = PerClass(Gaussian(), Gaussian()).set_params(class1__lengthscale=2.0)
        assert classes == PerClass(Gaussian(), Gaussian(2.0))

    def test_of_a_kernel_of_a_user(self):
        assert Warped(1.5).set_params(variance=2.0) == Warped(1.5, 2.0)

        class Mine(Kernel):
            params = {"width": np.asarray(1.0)}  # noqa: RUF012
            gram = cross = diag = gram_vjp = to_dict = None

            def replace(self, **params):
                return params

        assert Mine().get_params() == {"width": 1.0}
        assert Mine().set_params(width=2.0) == {"width": 2.0}

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("wavelength", r"unknown parameter 'wavelength'; this kernel has \['gaussian', 'bias', 'gaussian__len"),
            ("lengthscale", r"unknown parameter 'lengthscale'; this kernel has \['gaussian', 'bias', 'gaussian__len"),
            ("linear__weight", r"unknown parameter 'linear__weight'; this kernel has \['gaussian', 'bias'"),
            (
                "gaussian__wavelength",
                r"unknown parameter 'wavelength'; this kernel has \['lengthscale', 'variance', 'col",
            ),
            ("gaussian__variance__low", "unknown parameter 'variance__low'"),
            ("bias__", r"unknown parameter ''; this kernel has \['variance'\]"),
        ],
    )
    def test_unknown_names_are_refused(self, name, message):
        with pytest.raises(ValueError, match=message):
            (Gaussian() + Bias()).set_params(**{name: 1.0})

    def test_bad_values_are_refused(self):
        with pytest.raises(ValueError, match="lengthscale must be finite and > 0"):
            (Gaussian() + Bias()).set_params(gaussian__lengthscale=-1.0)


@pytest.mark.parametrize("name", ["power", "power in a sum", "matern12 ard", "periodic ard", "group by function"])
@pytest.mark.parametrize("factor", [-1.0, 1.0001, 0.0])
def test_a_wrong_gradient_is_noticed(name, factor):
    kernel, gram_bar = CASES[name], BAR + BAR.T
    broken = {n: factor * value for n, value in kernel.gram_vjp(X, gram_bar).items()}
    with pytest.raises(AssertionError):
        check_gradient(kernel, broken, lambda k: float(np.sum(k.gram(X) * gram_bar)))
