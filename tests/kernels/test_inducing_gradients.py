"""What an approximation on inducing inputs asks of a kernel: the gradient of its diagonal, and in the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from bayesgp_mf.kernels import (
    Bias,
    Gaussian,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    PerClass,
    Periodic,
    RationalQuadratic,
    White,
)
from bayesgp_mf.kernels.base import Leaf
from bayesgp_mf.kernels.stationary import Stationary
from tests.kernels.cases import ARD, CASES, SMOOTH
from tests.kernels.differences import check_gradient, check_moves

X = np.random.default_rng(0).standard_normal((9, 3))
BAR = np.random.default_rng(1).standard_normal((9, 4))
SYMMETRIC = np.cov(np.random.default_rng(2).standard_normal((9, 30)))
PRODUCTS = {
    "three factors": Gaussian(ARD) * Linear(0.5) * Matern52(2.0),
    "sums multiplied": (Gaussian(ARD) + Bias(0.3)) * (Linear(0.4) + NeuralNetwork(0.6)),
    "noise multiplied": (Gaussian(ARD) + White(0.3)) * RationalQuadratic(1.5),
}
everywhere = pytest.mark.parametrize("kernel", [*CASES.values(), *PRODUCTS.values()], ids=[*CASES, *PRODUCTS])
smooth = pytest.mark.parametrize("kernel", [*SMOOTH.values(), *PRODUCTS.values()], ids=[*SMOOTH, *PRODUCTS])


@dataclass(frozen=True, repr=False, eq=False)
class Decaying(Leaf):
    """A kernel of a user, with what every kernel must have: v exp(-|x|^2 / s) exp(-|x'|^2 / s)."""

    variance: float = 2.0
    scale: float = 3.0
    parameter_names: ClassVar[tuple[str, ...]] = ("variance", "scale")

    @property
    def params(self):
        return {name: np.asarray(value) for name, value in super().params.items()}

    def _factors(self, X):
        return np.exp(-np.sum(X**2, axis=1) / float(self.scale))

    def gram(self, X):
        return self.cross(X, X)

    def cross(self, A, B):
        return float(self.variance) * np.multiply.outer(self._factors(A), self._factors(B))

    def diag(self, X):
        return float(self.variance) * self._factors(X) ** 2

    def gram_vjp(self, X, gram_bar):
        squares = np.sum(X**2, axis=1)
        weighted = self.gram(X) * gram_bar
        by_scale = np.sum(weighted * np.add.outer(squares, squares)) / float(self.scale) ** 2
        return {"variance": np.sum(weighted) / np.asarray(self.variance), "scale": np.asarray(by_scale)}


@everywhere
def test_diag_vjp_passes_central_differences(kernel):
    bar = BAR[:, 0]
    check_gradient(kernel, kernel.diag_vjp(X, bar), lambda k: float(k.diag(X) @ bar))


@everywhere
def test_diag_vjp_is_gram_vjp_of_a_diagonal(kernel):
    rows = np.random.default_rng(3).standard_normal((70, 3))  # more than the default has in a block
    bar = np.random.default_rng(4).standard_normal(70)
    whole, default = kernel.gram_vjp(rows, np.diag(bar)), Kernel.diag_vjp(kernel, rows, bar)
    for name, value in kernel.diag_vjp(rows, bar).items():
        scale = np.max(np.abs(whole[name]))
        np.testing.assert_allclose(value, whole[name], rtol=1e-10, atol=1e-10 * scale)
        np.testing.assert_allclose(value, default[name], rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("kernel", [Decaying(), Decaying() + White(0.2), Gaussian(ARD) * Decaying()])
def test_a_kernel_without_diag_vjp_has_one(kernel):
    bar = BAR[:, 0]
    check_gradient(kernel, kernel.diag_vjp(X, bar), lambda k: float(k.diag(X) @ bar))


def test_diag_vjp_of_several_classes_is_that_of_each():
    kernel = PerClass(Gaussian(ARD), NeuralNetwork(0.7) * White(0.3))
    bar = BAR.T[:2]
    check_gradient(kernel, kernel.diag_vjp(X, bar), lambda k: float(np.sum(k.diag(X) * bar)))


@smooth
def test_inputs_vjp_passes_central_differences(kernel):
    others = X[:4] + 0.3
    vjp = kernel.inputs_vjp(X, others, BAR)
    assert vjp.shape == others.shape
    check_moves(others, vjp, lambda B: float(np.sum(kernel.cross(X, B) * BAR)))


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(ARD), Matern32(ARD), Matern52(ARD), RationalQuadratic(1.5), Periodic(1.0, 2.0, ARD), *PRODUCTS.values()],
)
def test_twice_inputs_vjp_is_the_derivative_of_gram(kernel):
    # the case with itself is in it: at distance zero in a stationary kernel, its own variance in others
    vjp = 2.0 * kernel.inputs_vjp(X, X, SYMMETRIC)
    check_moves(X, vjp, lambda moved: float(np.sum(kernel.gram(moved) * SYMMETRIC)))


@pytest.mark.parametrize("kind", [Gaussian, Matern12, Matern32, Matern52, RationalQuadratic, Periodic])
def test_equal_inputs_leave_no_rounding_in_the_derivative(kind):
    assert not kind(1e-3).inputs_vjp(1e3 * X, 1e3 * X, 1e9 * np.eye(9)).any()


def test_a_slope_that_is_not_finite_at_equal_inputs_counts_as_zero():
    class Exponential(Stationary):
        def profile(self, squared):
            return np.exp(-np.sqrt(squared))

        def slope(self, squared):
            with np.errstate(divide="ignore"):
                return -0.5 * np.exp(-np.sqrt(squared)) / np.sqrt(squared)

    kernel, others = Exponential(ARD), X[:4] + 0.3
    check_moves(others, kernel.inputs_vjp(X, others, BAR), lambda B: float(np.sum(kernel.cross(X, B) * BAR)))
    away = 1.0 - np.eye(9)
    np.testing.assert_allclose(kernel.inputs_vjp(X, X, BAR @ BAR.T), kernel.inputs_vjp(X, X, away * (BAR @ BAR.T)))


def test_the_derivative_in_inputs_does_not_depend_on_where_they_are():
    kernel = Matern32([0.5, 1.0, 2.0])  # powers of two, so that nothing is rounded before the derivative is worked out
    rows, far = np.round(X * 2**10) / 2**10, 2.0**30
    near = kernel.inputs_vjp(rows, rows[:4] + 0.25, BAR)
    np.testing.assert_allclose(kernel.inputs_vjp(rows + far, rows[:4] + 0.25 + far, BAR), near, rtol=1e-10)


@pytest.mark.parametrize("kernel", [Matern12(ARD), Matern52(ARD), RationalQuadratic(ARD, 2.0, 0.7)])
def test_many_pairs_are_worked_out_as_few_are(kernel):
    rng = np.random.default_rng(5)
    rows, bar, others = rng.standard_normal((2_000, 3)), rng.standard_normal((2_000, 90)), rng.standard_normal((90, 3))
    parts = np.array_split(np.arange(2_000), 20)
    np.testing.assert_array_equal(
        kernel.cross(rows, others), np.vstack([kernel.cross(rows[part], others) for part in parts])
    )
    moves = sum(kernel.inputs_vjp(rows[part], others, bar[part]) for part in parts)
    np.testing.assert_allclose(kernel.inputs_vjp(rows, others, bar), moves, atol=1e-10)
    gradients = [kernel.cross_vjp(rows[part], others, bar[part]) for part in parts]
    for name, value in kernel.cross_vjp(rows, others, bar).items():
        np.testing.assert_allclose(value, sum(gradient[name] for gradient in gradients), atol=1e-10)


@pytest.mark.parametrize("wrong", [lambda vjp: -vjp, lambda vjp: 1.001 * vjp, lambda vjp: vjp + 0.001, np.zeros_like])
def test_a_wrong_derivative_is_noticed(wrong):
    kernel, bar, others = Gaussian(ARD) * Linear(0.5), BAR[:, 0], X[:4] + 0.3
    with pytest.raises(AssertionError):
        check_moves(others, wrong(kernel.inputs_vjp(X, others, BAR)), lambda B: float(np.sum(kernel.cross(X, B) * BAR)))
    broken = {name: wrong(value) for name, value in kernel.diag_vjp(X, bar).items()}
    with pytest.raises(AssertionError):
        check_gradient(kernel, broken, lambda k: float(k.diag(X) @ bar))


def test_a_kernel_without_inputs_vjp_says_what_to_do():
    for kernel in (Decaying(), Decaying() * Bias(), Gaussian() + Decaying()):
        with pytest.raises(NotImplementedError, match=r"Decaying has no inputs_vjp; .* use Inducing\(move=False\)"):
            kernel.inputs_vjp(X, X, SYMMETRIC)


class Heteroscedastic(Gaussian):
    """A user's Gaussian kernel times s(x) s(x'), s = 1 + x_1^2, which derives from the stationary one."""

    @staticmethod
    def _scale(X):
        return 1.0 + X[:, 0] ** 2

    def gram(self, X):
        return super().gram(X) * np.multiply.outer(self._scale(X), self._scale(X))

    def cross(self, A, B):
        return super().cross(A, B) * np.multiply.outer(self._scale(A), self._scale(B))

    def diag(self, X):
        return super().diag(X) * self._scale(X) ** 2

    def gram_vjp(self, X, gram_bar):
        return super().gram_vjp(X, gram_bar * np.multiply.outer(self._scale(X), self._scale(X)))


class TestWhatADerivedClassInherits:
    @pytest.mark.parametrize("name", ["diag", "gram_vjp"])
    def test_no_diag_vjp_that_is_older_than_what_it_is_made_from(self, name):
        newer = type("Newer", (Gaussian,), {name: lambda self, *args: getattr(Gaussian, name)(self, *args)})
        assert newer.diag_vjp is Kernel.diag_vjp
        own = type("Own", (newer,), {"diag_vjp": lambda self, X, bar: Gaussian.diag_vjp(self, X, bar)})
        assert type("Renamed", (own,), {}).diag_vjp is own.diag_vjp
        assert type("Renamed", (Gaussian,), {}).diag_vjp is Gaussian.diag_vjp

    @pytest.mark.parametrize("name", ["gram", "cross"])
    def test_no_inputs_vjp_that_is_older_than_what_it_is_made_from(self, name):
        newer = type("Newer", (Linear,), {name: lambda self, *args: getattr(Linear, name)(self, *args)})
        with pytest.raises(NotImplementedError, match="Newer has no inputs_vjp"):
            (newer() + Bias()).inputs_vjp(X, X, SYMMETRIC)
        own = type("Own", (newer,), {"inputs_vjp": lambda self, A, B, bar: Linear.inputs_vjp(self, A, B, bar)})
        np.testing.assert_array_equal(own().inputs_vjp(X, X, SYMMETRIC), Linear().inputs_vjp(X, X, SYMMETRIC))

    def test_a_gradient_of_its_own_diagonal(self):
        kernel, bar = Heteroscedastic(ARD), BAR[:, 0]
        check_gradient(kernel, kernel.diag_vjp(X, bar), lambda k: float(k.diag(X) @ bar))
        noisy = kernel + White(0.1)
        check_gradient(noisy, noisy.diag_vjp(X, bar), lambda k: float(k.diag(X) @ bar))
        with pytest.raises(AssertionError):  # what it would have inherited
            check_gradient(kernel, Gaussian.diag_vjp(kernel, X, bar), lambda k: float(k.diag(X) @ bar))

    @pytest.mark.parametrize("parent", [Gaussian, Matern32, Matern52, RationalQuadratic])
    def test_a_slope_and_a_profile_of_its_own(self, parent):
        class Squared(parent):
            def profile(self, squared):
                return super().profile(squared) ** 2

            def slope(self, squared):
                return 2.0 * super().profile(squared) * super().slope(squared)

        plain = parent(ARD)  # its square is such a kernel too
        gradient, twice = Squared(ARD).cross_vjp(X, X[:4], BAR), (plain * plain).cross_vjp(X, X[:4], BAR)
        np.testing.assert_allclose(
            gradient["lengthscale"], sum(v for n, v in twice.items() if "lengthscale" in n), rtol=1e-12
        )
