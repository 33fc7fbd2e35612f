"""The Gaussian likelihood: regression, and the case in which every method must be exact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from bayesgp_mf.likelihoods import base
from bayesgp_mf.likelihoods.base import as_each, of_each
from bayesgp_mf.likelihoods.pieces import Between
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True)
class Gaussian(base.Likelihood):
    r"""Gaussian likelihood N(t | f, noise_variance) for real targets.

    Parameters
    ----------
    noise_variance : float or (n,) array_like
        Variance > 0 of the measurement noise, in squared units of the target: one for all cases, or one for each.

    Raises
    ------
    ValueError
        If ``noise_variance`` holds anything but finite numbers > 0; later, if there are not as many cases as numbers.

    Notes
    -----
    With variances for each case, those of new cases are not known: their targets are predicted with the mean of the
    variances. `predict` has the latent values too, to which you can add known noise. In a PyMC model only one number
    for all cases may be random.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Gaussian
    >>> Gaussian(0.5).log_partition(np.array([1.0]), np.array([0.0]), np.array([0.5])).d1
    array([1.])
    >>> Gaussian([0.1, 2.0]).predictive_moments(np.zeros(2), np.ones(2))[1]
    array([1.1, 3. ])
    """

    noise_variance: float | tuple[float, ...] | ArrayLike = 1.0
    unbounded_if_weighted: ClassVar[tuple[str, ...]] = ("noise_variance",)
    allows_noise: ClassVar[str] = "a larger noise_variance of the likelihood"
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True
    tunable: ClassVar[dict[str, base.Tunable]] = {"noise_variance": base.NOISE}

    def __repr__(self) -> str:
        return f"Gaussian(noise_variance={base.each_in_words(self.noise_variance)})"

    def __post_init__(self) -> None:
        noise_variance = as_each(
            "noise_variance",
            self.noise_variance,
            least=0,
            whole=False,
            expected="a finite number > 0 (a variance, not a standard deviation)",
            advice="A case without noise is one of a small variance.",
        )
        object.__setattr__(self, "noise_variance", noise_variance)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if there are not as many targets as noise variances of cases."""
        self._noise(t)

    def of_cases(self, which: NDArray[np.intp]) -> Gaussian:
        """Return the likelihood of some cases."""
        return self if isinstance(self.noise_variance, float) else Gaussian(np.asarray(self.noise_variance)[which])

    def of_new_cases(self) -> Gaussian:
        """Return the likelihood of cases that are not those of the fit: with the mean of the variances."""
        return Gaussian(float(np.mean(self._known)))

    @property
    def latent_noise(self) -> base.LatentNoise:
        """The target is the latent value with this noise."""
        return base.LatentNoise(self._known)

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance, if it is one number."""
        return {"noise_variance": self.noise_variance} if isinstance(self.noise_variance, float) else {}

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in the noise variance, which adds to that of the Gaussian."""
        derivs = self.log_partition(t, mean, variance)
        nothing = np.zeros_like(derivs.d2)
        return base.of_added_variance(derivs, nothing, nothing)

    def powers(self, weights: Array) -> base.Powers:
        """Return powers as a Gaussian with the noise variances over the weights, and the logs of the constants."""
        noise = self._noise(weights)
        constant = np.log(2.0 * np.pi * noise)
        form = Gaussian(noise / weights)
        slopes = partial(_slopes, form, noise, weights)
        return base.Powers(form, 0.5 * (constant - np.log(weights) - weights * constant), slopes)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log N(t | f, noise_variance), and its derivatives in f."""
        return self.log_partition(t, f, np.zeros_like(f))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log N(t | mean, variance + noise_variance), and its derivatives in mean."""
        base.check_gaussian_variance(variance)
        residual = t - mean
        total_variance = variance + self._noise(residual)
        value = -0.5 * (np.log(2.0 * np.pi * total_variance) + residual**2 / total_variance)
        d1 = residual / total_variance
        return Derivs(value, d1, -1.0 / total_variance + np.zeros_like(d1))

    def form(self, t: Array) -> base.Likelihood:
        """Return itself: the likelihood of targets that are seen."""
        return self

    def between(self, lower: Array, upper: Array) -> Between:
        """Return the likelihood of targets that lie between limits, and are known where these are one number."""
        return Between(lower, upper, self._noise(lower))

    def known_sites(self, t: Array, noise: float) -> tuple[Array, Array]:
        """Return 1/v and t/v, with v the noise variance and ``noise``: the measurement that a target is."""
        precision = 1.0 / (self._noise(t) + noise)
        return precision, t * precision

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return zeros ``(order - 2, n)``: the product of two Gaussians is one."""
        return np.zeros((order - 2, np.size(mean)))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a target when f ~ N(mean, variance)."""
        return mean, variance + self._noise(mean)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a target is at most t when f ~ N(mean, variance)."""
        return np.asarray(ndtr((t - mean) / np.sqrt(variance + self._noise(mean))))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value."""
        return np.asarray(f + np.sqrt(self._noise(f)) * rng.standard_normal(f.shape))

    def log_prob_graph(self, functions: Any, t: Any, f: Any, noise_variance: Any = None) -> Any:
        """Return log N(t | f, noise_variance), written with the functions of ``functions``."""
        variance = self._known if noise_variance is None else noise_variance
        return -0.5 * (functions.log(2.0 * np.pi * variance) + (t - f) ** 2 / variance)

    def log_tails_graph(self, functions: Any, t: Any, f: Any, noise_variance: Any = None) -> tuple[Any, Any]:
        """Return the logs of the probabilities that a target is above t and below it, as graphs."""
        z = (t - f) / functions.sqrt(self._known if noise_variance is None else noise_variance)
        return functions.log_ndtr(-z), functions.log_ndtr(z)

    @property
    def _known(self) -> Any:
        """The noise variance of all cases, or those of each as an array."""
        return self.noise_variance if isinstance(self.noise_variance, float) else np.asarray(self.noise_variance)

    def _noise(self, f: Array) -> Array:
        """Return the noise variances of cases along the last axis of an array, in its shape."""
        return of_each("Gaussian", "noise variances", self.noise_variance, f)


def _slopes(form: Gaussian, noise: Array, weights: Array, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
    """Return the derivative of powers in ``noise (k,)``, that of all cases: by that of the form and the constant."""
    value, d1, d2 = form.parameter_derivative(name, t, mean, variance)
    constant = 0.5 * (1.0 - weights) / noise
    return Derivs(value / weights + constant, d1 / weights, d2 / weights)
