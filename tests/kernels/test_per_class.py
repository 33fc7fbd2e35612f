"""A kernel for each class: the laws that `Kernel` promises, with the class as a leading axis."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf import kernels
from bayesgp_mf.kernels import Bias, Gaussian, Matern32, PerClass, log_vector, log_vector_names, with_log_vector

KERNEL = PerClass(Gaussian([1.0, 2.0], 3.0), Gaussian(0.7) + Bias(0.5), Matern32(1.5))
X = np.random.default_rng(0).standard_normal((5, 2))


def test_each_class_has_its_own():
    for c, own in enumerate(KERNEL.kernels):
        np.testing.assert_array_equal(KERNEL.gram(X)[c], own.gram(X))
        np.testing.assert_array_equal(KERNEL.cross(X, X[:2])[c], own.cross(X, X[:2]))
        np.testing.assert_array_equal(KERNEL.diag(X)[c], own.diag(X))


def test_names():
    assert log_vector_names(KERNEL)[:3] == ["class0_lengthscale[0]", "class0_lengthscale[1]", "class0_variance"]
    assert list(KERNEL.params)[2:5] == [
        "class1_gaussian_lengthscale",
        "class1_gaussian_variance",
        "class1_bias_variance",
    ]


def test_round_trips():
    assert kernels.from_dict(KERNEL.to_dict()) == KERNEL
    assert hash(with_log_vector(KERNEL, log_vector(KERNEL))) is not None
    changed = KERNEL.replace(class2_lengthscale=9.0)
    assert changed.kernels[2] == Matern32(9.0)
    assert changed.kernels[:2] == KERNEL.kernels[:2]
    assert repr(PerClass(Bias(1.0), Bias(2.0))) == "PerClass(Bias(variance=1.0), Bias(variance=2.0))"
    with pytest.raises(ValueError, match=r"unknown parameter 'lengthscale'.*class0_lengthscale"):
        KERNEL.replace(lengthscale=1.0)


def test_pull_back():
    bar = np.random.default_rng(1).standard_normal((3, 5, 5))
    bar = bar + np.swapaxes(bar, 1, 2)
    gradient, vector, step = KERNEL.gram_vjp(X, bar), log_vector(KERNEL), 1e-6
    found = kernels.log_gradient(KERNEL, gradient)
    for i in range(vector.size):
        move = step * (np.arange(vector.size) == i)
        ahead, behind = (np.sum(bar * with_log_vector(KERNEL, vector + s * move).gram(X)) for s in (1.0, -1.0))
        np.testing.assert_allclose((ahead - behind) / (2 * step), found[i], rtol=1e-6, atol=1e-7)


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match="two or more classes, got 1"):
        PerClass(Bias())
    with pytest.raises(TypeError, match="one for each class, got 3"):
        PerClass(Bias(), 3)
    with pytest.raises(TypeError, match="one for each class, got PerClass"):
        PerClass(Bias(), KERNEL)
    for combine in (lambda: KERNEL + Bias(), lambda: Bias() * KERNEL):
        with pytest.raises(TypeError, match=r"Add or multiply inside: PerClass\(a \+ b"):
            combine()
