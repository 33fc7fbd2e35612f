"""One kernel of each kind, and of each form that has lines of its own."""

from __future__ import annotations

from bayesgp_mf.kernels import (
    Bias,
    Categorical,
    Gaussian,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Warped,
    White,
)

ARD = [0.7, 1.3, 2.0]
CASES: dict[str, Kernel] = {
    "gaussian": Gaussian(0.8, 2.0),
    "gaussian ard": Gaussian(ARD, 0.5),
    "gaussian of two columns": Gaussian([0.7, 1.3], 0.5, columns=[2, 0]),
    "matern12": Matern12(1.2, 2.0),
    "matern12 ard": Matern12(ARD),
    "matern32": Matern32(1.2, 2.0),
    "matern32 ard": Matern32(ARD),
    "matern52 ard": Matern52(ARD, 3.0),
    "rational quadratic": RationalQuadratic(ARD, 1.5, 0.6),
    "periodic": Periodic(0.8, 2.0, 6.0),
    "periodic ard": Periodic(ARD, 0.5, [5.0, 6.0, 8.0]),
    "periodic of one column": Periodic([0.8], 2.0, 6.0, columns=1),
    "linear": Linear(0.4),
    "linear ard": Linear(ARD),
    "linear of two columns": Linear([0.4, 0.8], columns=[1, 2]),
    "polynomial": Polynomial(3, [0.3, 0.2, 0.1], 0.5, 2.0),
    "polynomial without offset": Polynomial(2, 0.3, 0.0),
    "polynomial of two columns": Polynomial(3, [0.4, 0.8], columns=[1, 2]),
    "network": NeuralNetwork(ARD, 0.5, 2.0),
    "network without bias": NeuralNetwork(0.7),
    "sign network": NeuralNetwork(ARD, 0.3, 2.0, "sign"),
    "sign network without bias": NeuralNetwork(0.7, activation="sign"),
    "network of two columns": NeuralNetwork([0.4, 0.8], 0.3, columns=[1, 2]),
    "sign network of two columns": NeuralNetwork([0.4, 0.8], 0.3, 2.0, "sign", columns=[1, 2]),
    "categorical": Categorical(2.0, columns=0),
    "bias": Bias(2.0),
    "white": White(0.3),
    "sum": Gaussian(ARD) + Bias(0.5) + White(0.1),
    "product": Gaussian(ARD) * Linear(0.5),
    "nested": (Gaussian(1.0) + Linear(0.3)) * Gaussian(3.0) + Polynomial(2, 0.1),
    "power": (Gaussian(ARD) + Linear(0.5)) ** 3,
    "power in a sum": 2.0 * Matern52(1.5) ** 2 + 0.5,
    "warped": Warped(Gaussian(ARD, 0.5) + Bias(0.2), [2, 0], [0.3, 1.6], [0.1, -0.2], [0.5, 2.0]),
    "warped to logarithms": Warped(Matern52(1.5), 1, 0.0),
    "warped to logarithms of the other side": Warped(Linear(0.4), [0, 1, 2], [2.0, 1.0, -1.0]),
    "group by function": Categorical(columns=0) * Gaussian([0.8], columns=2) + Categorical(0.5, columns=[0, 1]),
}
SMOOTH = {name: kernel for name, kernel in CASES.items() if "Categorical" not in repr(kernel)}
"""Those that know their derivative in the inputs."""
