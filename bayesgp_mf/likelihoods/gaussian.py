"""The Gaussian likelihood: regression, and the case in which every method must be exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from bayesgp_mf.likelihoods.base import check_gaussian_variance, check_variance, in_added_variance, refuse_probabilities
from bayesgp_mf.likelihoods.optional import LatentNoise
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True)
class Gaussian:
    r"""Gaussian likelihood N(t | f, noise_variance) for real targets.

    Parameters
    ----------
    noise_variance : float
        Variance > 0 of the measurement noise, in squared units of the target.

    Raises
    ------
    ValueError
        If ``noise_variance`` is not a finite number > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Gaussian
    >>> Gaussian(0.5).log_partition(np.array([1.0]), np.array([0.0]), np.array([0.5])).d1
    array([1.])
    """

    noise_variance: float = 1.0
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        noise_variance = check_variance("noise_variance", self.noise_variance, zero_allowed=False)
        object.__setattr__(self, "noise_variance", noise_variance)

    @property
    def latent_noise(self) -> LatentNoise:
        """The target is the latent value with this noise."""
        return LatentNoise(self.noise_variance)

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance."""
        return {"noise_variance": self.noise_variance}

    def with_parameters(self, **values: float) -> Gaussian:
        """Return the likelihood with another noise variance."""
        return replace(self, **values)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Array:
        """Return the derivative of `log_partition` in the noise variance, which adds to that of the Gaussian."""
        return in_added_variance(self.log_partition(t, mean, variance))

    def power(self, weight: float) -> tuple[Gaussian, float]:
        """Return the power as a Gaussian with the noise variance over the weight, and the log of the constant."""
        noise = 2.0 * np.pi * self.noise_variance
        return Gaussian(self.noise_variance / weight), 0.5 * float(np.log(noise / weight) - weight * np.log(noise))

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log N(t | f, noise_variance), and its derivatives in f."""
        return self.log_partition(t, f, np.zeros_like(f))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log N(t | mean, variance + noise_variance), and its derivatives in mean."""
        check_gaussian_variance(variance)
        total_variance = variance + self.noise_variance
        residual = t - mean
        value = -0.5 * (np.log(2.0 * np.pi * total_variance) + residual**2 / total_variance)
        d1 = residual / total_variance
        return Derivs(value, d1, -1.0 / total_variance + np.zeros_like(d1))

    def known_sites(self, t: Array, noise: float) -> tuple[Array, Array]:
        """Return 1/v and t/v, with v the noise variance and ``noise``: the measurement that a target is."""
        precision = np.full(t.shape, 1.0 / (self.noise_variance + noise))
        return precision, t * precision

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return zeros ``(order - 2, n)``: the product of two Gaussians is one."""
        return np.zeros((order - 2, np.size(mean)))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a target when f ~ N(mean, variance)."""
        return mean, variance + self.noise_variance

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Raise: a real target has no class probability."""
        raise refuse_probabilities("the Gaussian likelihood has real targets")

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value."""
        return np.asarray(f + np.sqrt(self.noise_variance) * rng.standard_normal(f.shape))

    def log_prob_graph(self, functions: Any, t: Any, f: Any, noise_variance: Any = None) -> Any:
        """Return log N(t | f, noise_variance), written with the functions of ``functions``."""
        variance = self.noise_variance if noise_variance is None else noise_variance
        return -0.5 * (functions.log(2.0 * np.pi * variance) + (t - f) ** 2 / variance)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain numbers."""
        return {"likelihood": "Gaussian", "noise_variance": self.noise_variance}
