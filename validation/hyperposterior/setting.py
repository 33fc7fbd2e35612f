r"""What all samplers of this study draw from: data, kernel, likelihood, priors, and the names of the parameters.

The kernel is :math:`v_0 \exp(-\tfrac12 \sum_l w_l (x_l - x'_l)^2)` with log w_l and log v_0 normal with mean -3 and
standard deviation 3 (1996, eq. 8 and section 3), the inputs standardised, the likelihood a probit with noise variance
one: :math:`p(t|f) = \Phi(t f)`. The 1996 paper has a logistic likelihood; that of the mean-field papers is this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Gaussian, Kernel
from bayesgp_mf.types import Array
from validation.tables.selection import Split

LIKELIHOOD = bgp.Probit(noise_variance=1.0)


def load() -> Split:
    """Return Pima: 200 training and 332 test cases, seven inputs."""
    return Split.of(bgp.datasets.load_pima())


def parameter_names() -> list[str]:
    """Return the names of the log parameters, in the order of `kernel_at`: seven weights, then the variance."""
    return [*(f"log w {feature}" for feature in bgp.datasets.load_pima().feature_names), "log v0"]


def kernel_at(log_parameters: Array) -> Gaussian:
    """Return the kernel at log w_1, ..., log w_d, log v_0, ``(d + 1,)``."""
    return Gaussian(np.exp(-0.5 * log_parameters[:-1]), float(np.exp(log_parameters[-1])))


def log_parameters_of(lengthscale: Array, variance: Array) -> Array:
    """Return log w_1, ..., log w_d, log v_0 ``(..., d + 1)``, given length scales ``(..., d)`` and variances."""
    return np.concatenate([-2.0 * np.log(lengthscale), np.log(variance)[..., None]], axis=-1)


def log_parameters_at(kernels: Sequence[Kernel]) -> Array:
    """Return log w_1, ..., log w_d, log v_0 of each of k kernels, ``(k, d + 1)``."""
    params = [kernel.params for kernel in kernels]
    return log_parameters_of(*(np.array([each[name] for each in params]) for name in ("lengthscale", "variance")))
