r"""Probit and step likelihoods with label noise, exact far into both tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, expit, log_ndtr, ndtr, ndtri_exp

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import base
from bayesgp_mf.likelihoods.moments import from_moments
from bayesgp_mf.types import Array, Derivs

_FRACTION_FROM = 5.0  # for z below minus this, the continued fraction beats the closed form ...
_FRACTION_TERMS = 40  # ... and this many terms leave nothing above rounding (checked against mpmath)

_MOMENTS_FROM = 4.0  # for z below minus this, cumulants are taken from moments about zero ...
_MOMENT_TERMS = 400  # ... by a continued fraction of so many terms, which leaves nothing above rounding
_NO_DENSITY = 40.0  # where the normal density is zero
_ROOT_OF_TWO_PI = math.sqrt(2.0 * math.pi)

_SHARP = 100.0  # variance over that of the noise
_SMALLEST = float(np.finfo(np.float64).tiny)
_ROOT_OF_TWO_OVER_PI, _ROOT_OF_HALF = math.sqrt(2.0 / math.pi), math.sqrt(0.5)


def hazard(z: Array) -> tuple[Array, Array]:
    r"""Return :math:`\rho = \phi(z)/\Phi(z)` and :math:`\rho + z`, both to full relative accuracy.

    For z << 0, rho is close to -z and their sum would cancel; Laplace's continued fraction
    rho - x = 1/(x + 2/(x + 3/(x + ...))) with x = -z gives it directly.
    """
    rho = np.asarray(_ROOT_OF_TWO_OVER_PI / erfcx(-_ROOT_OF_HALF * z))
    total = np.asarray(rho + z)
    tail = z < -_FRACTION_FROM
    if tail.any():
        x = -z[tail]
        fraction = np.zeros_like(x)
        for k in range(_FRACTION_TERMS, 0, -1):
            fraction = k / (x + fraction)
        rho[tail], total[tail] = x + fraction, fraction
    return rho, total


@dataclass(frozen=True, slots=True)
class Probit(base.Likelihood):
    r"""Probit likelihood with Gaussian latent noise and label noise.

    .. math:: p(t|f) = \kappa + (1 - 2\kappa)\, \Phi\!\left(t f / \sqrt{v}\right)

    (2000, eqs. 2, 3 and appendix A for the noise variance v; 1998, section 1 for the flip probability
    kappa). Its average over a Gaussian has the same form with v + variance in place of v.

    Parameters
    ----------
    noise_variance : float
        v >= 0, in squared latent units; v = 0 is the step likelihood.
    flip : float
        kappa in [0, 1/2), the probability that a label is wrong.

    Raises
    ------
    ValueError
        If ``noise_variance`` is negative or not finite, or ``flip`` is outside [0, 1/2).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf import Probit
    >>> Probit().log_partition(np.array([1.0]), np.array([-40.0]), np.array([0.0])).value.round(6)
    array([-804.608442])
    """

    noise_variance: float = 1.0
    flip: float = 0.0
    allows_noise: ClassVar[str] = "Probit(noise_variance=...), Step(flip=...)"
    targets: ClassVar[Literal["binary"]] = "binary"
    # beside the variance of the kernel that of the noise is no more than a unit
    tunable: ClassVar[dict[str, base.Tunable]] = {
        "noise_variance": base.NOISE._replace(by_default=False),
        "flip": base.FLIP,
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_variance", base.check_noise_variance(self.noise_variance, zero_allowed=True))
        object.__setattr__(self, "flip", base.check_flip(self.flip))

    @property
    def forbids(self) -> bool:
        """Whether a latent value of the wrong sign has probability zero."""
        return self.noise_variance == 0.0 and self.flip == 0.0

    @property
    def log_concave(self) -> bool:
        """Whether no label can be flipped."""
        return self.flip == 0.0

    @property
    def is_flat(self) -> bool:
        """Whether it is a step."""
        return self.noise_variance == 0.0

    @property
    def latent_noise(self) -> base.LatentNoise:
        """The label is the sign of the latent value with this noise."""
        return base.LatentNoise(self.noise_variance, self.flip)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the derivative of `log_partition` in a parameter, and its two derivatives in mean.

        v is added to the variance of the Gaussian. For the flip probability :math:`Z = \kappa + (1 - 2\kappa)\Phi(z)`
        gives :math:`\partial_\kappa \log Z = (1 - 2\Phi(z))/Z = q`. With
        :math:`Z' = (1 - 2\kappa) \phi(z) t/s = d_1 Z` and :math:`c = 2 / (1 - 2\kappa)`, by which
        :math:`\partial_\kappa Z' = -c Z'`,

        .. math::
            q' = -(c + q)\, d_1, \qquad q'' = (c + q)\, d_1^2 - (c + q)\, d_2 .
        """
        derivs = self.log_partition(t, mean, variance)
        if name == "noise_variance":
            return base.of_added_variance(derivs, *self.higher_derivatives(t, mean, variance, derivs))
        total_variance = np.asarray(variance + self.noise_variance)
        certain = total_variance == 0
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(certain & (mean == 0), 0.0, t * mean / np.sqrt(total_variance))
        q = np.asarray(np.exp(log_ndtr(-z) - derivs.value) - np.exp(log_ndtr(z) - derivs.value))
        both = 2.0 / (1.0 - 2.0 * self.flip) + q
        return Derivs(q, -both * derivs.d1, both * (derivs.d1**2 - derivs.d2))

    def powers(self, weights: Array) -> base.Powers | None:
        """Return the powers of a step with flips as one with others, where all are the same; None of a probit."""
        weight = float(weights[0])
        if (
            np.any(weights != weight)
            or self.noise_variance > 0.0
            or weight * np.log(self.flip) < np.log(np.finfo(np.float64).tiny)
        ):
            return None
        flipped, right = self.flip**weight, (1.0 - self.flip) ** weight
        return base.Powers(Probit(0.0, float(flipped / (flipped + right))), float(np.log(flipped + right)))

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f), and its derivatives in f; ``t`` and ``f`` broadcast.

        For the step limit v = 0 the value is log(1 - kappa), log(kappa) or, at f = 0, log(1/2), and the
        derivatives are zero, as they are at every f but 0.
        """
        return self.log_partition(t, f, np.zeros(()))  # one variance for all

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean.

        With z = t mean / sqrt(variance + v) (2000, eqs. 12 and 23; 1998, eq. 13):

        .. math::
            \log Z = \log[\kappa + (1 - 2\kappa) \Phi(z)],\quad
            d_1 = \frac{t \rho}{\sqrt{\lambda + v}},\quad
            d_2 = -\frac{\rho (\rho + z)}{\lambda + v},\quad
            \rho = \frac{(1 - 2\kappa)\phi(z)}{Z}.
        """
        base.check_gaussian_variance(variance)
        total_variance = variance + self.noise_variance
        certain = np.asarray(total_variance == 0)
        if certain.any():
            return self._with_certain_values(t, mean, variance, certain)
        scale = np.sqrt(total_variance)
        z = np.asarray(t * mean / scale)
        rho, rho_plus_z = hazard(z)
        if self.flip == 0.0:
            value = log_ndtr(z)
        else:
            log_right = np.log1p(-2.0 * self.flip) + log_ndtr(z)
            log_flip = np.log(self.flip)
            value = np.logaddexp(log_flip, log_right)
            # share of Z that does not come from flipped labels; 1 - share without cancellation
            rho_plus_z = rho_plus_z - expit(log_flip - log_right) * rho
            rho = expit(log_right - log_flip) * rho
        return Derivs(value, t * rho / scale, -rho * rho_plus_z / total_variance)

    def mode_bracket(self, t: Array, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return bounds ``(n,)`` of the modes of p(t|f) N(f | mean, variance), and the mean; None without flips.

        They are on the side of the label, where log p, which ends at log(1 - kappa), makes up for the Gaussian;
        infinite where the edge is so sharp beside the Gaussian that many points are needed to see it.
        """
        if self.flip == 0.0:
            return None
        rise = np.log1p(-self.flip) - self.log_prob(t, mean).value
        reach = np.sqrt(2.0 * variance * np.maximum(rise, 0.0))
        end = mean + t * np.where(variance > _SHARP * self.noise_variance, np.inf, reach)
        return np.minimum(mean, end), np.maximum(mean, end)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array]:
        r"""Return the third and fourth derivative in mean of `log_partition`, given its answer ``derivs``.

        With :math:`\rho' = -\rho R`, :math:`R = \rho + z`, hence :math:`R' = 1 - \rho R`:

        .. math::
            d_3 = t \rho\, (R^2 + \rho R - 1) / s^3,\quad
            d_4 = [\rho\, (2 R R' - \rho R^2 + \rho R') - \rho R\, (R^2 + \rho R - 1)] / s^4,\quad
            s^2 = \lambda + v.
        """
        total_variance = variance + self.noise_variance
        certain = total_variance == 0
        if certain.any():  # there all derivatives are zero
            known = self.higher_derivatives(t, mean, np.where(certain, 1.0, variance), derivs)
            third, fourth = (np.where(certain, 0.0, value) for value in known)
            return third, fourth
        scale = np.sqrt(total_variance)
        z, rho = t * mean / scale, t * derivs.d1 * scale
        cancels = (z < 0) & (rho > 0)  # there the second derivative has the sum
        total = np.where(cancels, -derivs.d2 * total_variance / np.where(cancels, rho, 1.0), rho + z)
        slope, bend = 1.0 - rho * total, total**2 + rho * total - 1.0
        third = t * rho * bend / (total_variance * scale)
        fourth = rho * (2.0 * total * slope - rho * total**2 + rho * slope - total * bend) / total_variance**2
        return third, fourth

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        r"""Return what `cumulants.tilted_cumulants` does, for variances ``(n,)`` above zero.

        With g = f + noise, the label says whether :math:`u = t g / s`, with mean z under the cavity and variance one,
        is positive, and f is what u says of it and a Gaussian: :math:`c_l(f) = (t \lambda / s)^l\, c_l(u)` for l > 2,
        and :math:`c_2(f) = \lambda v / s^2 + (\lambda / s)^2 c_2(u)`.
        """
        total_variance = variance + self.noise_variance
        share = np.sqrt(variance) * np.sqrt(variance / total_variance)  # lambda / s, which may be far from one
        of_u = self._cumulants_of_sign(t * mean / np.sqrt(total_variance), order)
        spread = variance * (self.noise_variance / total_variance) + share**2 * of_u[1]
        relative = t * share / np.sqrt(spread)
        powers = np.arange(3, order + 1)[:, None]
        return np.asarray(relative**powers * of_u[2:])

    def _cumulants_of_sign(self, z: Array, order: int) -> Array:
        r"""Return the cumulants ``(order, n)`` of u ~ N(z, 1) times kappa + (1 - 2 kappa) [u > 0].

        From the derivatives of Z, :math:`Z^{(k)} = (1 - 2\kappa)(-1)^{k-1} He_{k-1}(z)\, \phi(z)`. Where nearly all of
        u's weight lies in the tail beyond zero these would cancel; there its moments about zero do not:
        :math:`M_k = \int_0^\infty u^k \phi(u - z) du` have the ratios :math:`M_k / M_{k-1} = k / (x + M_{k+1}/M_k)`,
        x = -z, a continued fraction.
        """
        log_right = np.log1p(-2.0 * self.flip) + log_ndtr(z)
        with np.errstate(divide="ignore"):
            log_z = np.logaddexp(np.log(self.flip), log_right)
        tail = (z < -_MOMENTS_FROM) & (log_right - log_z > np.log(0.5))
        near = np.clip(np.where(tail, 0.0, z), -_NO_DENSITY, _NO_DENSITY)
        density = np.exp(np.log1p(-2.0 * self.flip) - 0.5 * near**2 - np.where(tail, 0.0, log_z)) / _ROOT_OF_TWO_PI
        hermite = [density, -near * density]  # (-1)^k He_k(z) phi(z) / Z
        for k in range(2, order):
            hermite.append(-near * hermite[k - 1] - (k - 1) * hermite[k - 2])
        cumulants = from_moments(np.array(hermite[:order]))
        cumulants[0] += z
        cumulants[1] += 1.0
        if tail.any():
            x = -z[tail]
            ratios, rest = np.empty((order, x.size)), np.zeros_like(x)
            for k in range(_MOMENT_TERMS, 0, -1):
                rest = k / (x + rest)
                if k <= order:
                    ratios[k - 1] = rest
            flipped = np.exp(np.log(self.flip) - log_z[tail]) if self.flip else np.zeros_like(x)
            whole = [-x, x**2 + 1.0]  # moments of the Gaussian
            for k in range(2, order):
                whole.append(-x * whole[k - 1] + k * whole[k - 2])
            right = np.exp(log_right[tail] - log_z[tail])
            cumulants[:, tail] = from_moments(right * np.cumprod(ratios, axis=0) + flipped * np.array(whole[:order]))
        return cumulants

    def _with_certain_values(self, t: Array, mean: Array, variance: Array, certain: NDArray[np.bool_]) -> Derivs:
        """Answer `log_partition` where a step meets a value without variance: its derivatives are zero there."""
        right = np.heaviside(t * mean, 0.5)
        with np.errstate(divide="ignore"):  # log 0 = -inf is the answer, not an accident
            value = np.log(self.flip + (1.0 - 2.0 * self.flip) * right)
        spread = self.log_partition(t, mean, np.where(certain, 1.0, variance))
        d1, d2 = (np.where(certain, 0.0, slope) for slope in (spread.d1, spread.d2))
        return Derivs(np.where(certain, value, spread.value), d1, d2)

    def tilted_values(self, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array] | None:
        """Return what `processes.tilted.tilted_values` does, for a step; else None."""
        return _step_values(self.flip, t, mean, variance, scores) if self.is_flat else None

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return P(t = +1) when f ~ N(mean, variance) (2000, eq. 12); elementwise."""
        base.check_gaussian_variance(variance)
        total_variance = variance + self.noise_variance
        certain = np.asarray(total_variance == 0)
        right = ndtr(mean / np.sqrt(np.where(certain, 1.0, total_variance)))
        if certain.any():
            right = np.where(certain, np.heaviside(mean, 0.5), right)
        return np.asarray(self.flip + (1.0 - 2.0 * self.flip) * right)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a label -1/+1 for each latent value."""
        return np.where(rng.random(f.shape) < self.predict_proba(f, np.zeros(())), 1.0, -1.0)

    def log_prob_graph(self, functions: Any, t: Any, f: Any, **given: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``.

        Raises
        ------
        UndefinedQuantityError
            If it is a step, whatever its flips.
        """
        if self.is_flat and "noise_variance" not in given:
            raise UndefinedQuantityError(
                "the step likelihood jumps, and samplers that follow gradients cannot see it. Give it noise: "
                "Probit(noise_variance=1.0), or a WhiteNoise in the covariance and as much less in the likelihood."
            )
        values = {**self.parameters, **given}
        right = functions.log_ndtr(t * f / functions.sqrt(values["noise_variance"]))
        if "flip" not in given and self.flip == 0.0:
            return right
        return functions.logaddexp(functions.log(values["flip"]), functions.log1p(-2.0 * values["flip"]) + right)


def Step(flip: float = 0.0) -> Probit:  # noqa: N802  (it stands among the likelihoods, which are classes)
    r"""Return the noise-free likelihood :math:`\kappa + (1 - 2\kappa) \Theta(t f)` (2000 eq. 1; 1998 section 1).

    It is the probit without latent noise. Without flips too, the posterior is the prior restricted to an orthant, and
    labels that no function can satisfy have probability zero.

    Parameters
    ----------
    flip : float
        Probability in [0, 1/2) that a label is wrong.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.Step(flip=0.1)
    Probit(noise_variance=0.0, flip=0.1)
    """
    return Probit(noise_variance=0.0, flip=flip)


def _step_values(flip: float, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array]:
    """Answer `processes.tilted.tilted_values` for a step: two pieces of one Gaussian, the wrong one times ``flip``."""
    scale = np.sqrt(variance)
    centre, level = t * mean / scale, t * scores  # signed: the label holds for values above zero
    log_right = np.log1p(-flip) + log_ndtr(centre)
    with np.errstate(divide="ignore"):  # log 0 = -inf: without flips nothing lies on the wrong side
        log_flip = np.log(flip)
    log_total = np.logaddexp(log_right, log_flip + log_ndtr(-centre))
    # invert each piece from its own tail, in logs: it may be smaller than any number
    above = log_ndtr(-level) <= log_right - log_total
    with np.errstate(invalid="ignore", over="ignore"):  # of the piece that is not taken
        upper = centre - ndtri_exp(np.minimum(log_ndtr(-level) + log_total - np.log1p(-flip), 0.0))
        lower = centre + ndtri_exp(np.minimum(log_ndtr(level) + log_total - log_flip, 0.0)) if flip else upper
    # next to the edge, rounding must not take a value across it
    signed = np.where(above, np.maximum(upper, _SMALLEST), np.minimum(lower, -_SMALLEST))
    log_density = np.where(above, np.log1p(-flip), log_flip) - log_total - 0.5 * (signed - centre) ** 2
    return t * scale * signed, np.log(scale) - 0.5 * scores**2 - log_density
