"""Derivatives by central differences, which those of the package have to agree with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayesgp_mf.kernels import Kernel, log_gradient, log_vector, with_log_vector


def central_differences(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the derivative of a function of an array of numbers in each of them, in the shape of the array."""
    moves = step * np.eye(at.size).reshape(-1, *at.shape)
    return np.array([(function(at + move) - function(at - move)) / (2 * step) for move in moves]).reshape(at.shape)


def check_gradient(kernel: Kernel, vjp: dict[str, np.ndarray], contracted: Callable[[Kernel], float]) -> None:
    """Compare a gradient in the parameters with differences of the number that it is the gradient of."""
    assert [(k, v.shape) for k, v in vjp.items()] == [(k, v.shape) for k, v in kernel.params.items()]
    numeric = central_differences(lambda v: contracted(with_log_vector(kernel, v)), log_vector(kernel))
    np.testing.assert_allclose(log_gradient(kernel, vjp), numeric, rtol=1e-6, atol=1e-7 * np.max(np.abs(numeric)))


def check_moves(inputs: np.ndarray, vjp: np.ndarray, contracted: Callable[[np.ndarray], float]) -> None:
    """Compare a gradient in inputs with differences of the number that it is the gradient of."""
    numeric = central_differences(contracted, inputs)
    np.testing.assert_allclose(vjp, numeric, rtol=1e-6, atol=1e-7 * np.max(np.abs(numeric)))
