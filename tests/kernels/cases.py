"""One kernel of each kind, and of each form that has lines of its own."""

from __future__ import annotations

from bayesgp_mf.kernels import (
    Bias,
    Gaussian,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Polynomial,
    RationalQuadratic,
    White,
)

ARD = [0.7, 1.3, 2.0]
CASES: dict[str, Kernel] = {
    "gaussian": Gaussian(0.8, 2.0),
    "gaussian ard": Gaussian(ARD, 0.5),
    "matern32": Matern32(1.2, 2.0),
    "matern32 ard": Matern32(ARD),
    "matern52 ard": Matern52(ARD, 3.0),
    "rational quadratic": RationalQuadratic(ARD, 1.5, 0.6),
    "linear": Linear(0.4),
    "linear ard": Linear(ARD),
    "polynomial": Polynomial(3, [0.3, 0.2, 0.1], 0.5, 2.0),
    "polynomial without offset": Polynomial(2, 0.3, 0.0),
    "network": NeuralNetwork(ARD, 0.5, 2.0),
    "network without bias": NeuralNetwork(0.7),
    "sign network": NeuralNetwork(ARD, 0.3, 2.0, "sign"),
    "sign network without bias": NeuralNetwork(0.7, activation="sign"),
    "bias": Bias(2.0),
    "white": White(0.3),
    "sum": Gaussian(ARD) + Bias(0.5) + White(0.1),
    "product": Gaussian(ARD) * Linear(0.5),
    "nested": (Gaussian(1.0) + Linear(0.3)) * Gaussian(3.0) + Polynomial(2, 0.1),
}
