"""The multinomial probit: several classes, each with noise of its own, of which the largest wins."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import Any, ClassVar, Literal

import numpy as np

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import probit_tilted
from bayesgp_mf.likelihoods.base import FLIP, ClassLikelihood, Tunable, check_flip, check_noise_variance
from bayesgp_mf.likelihoods.class_names import flip_derivative, flipped, log_flipped
from bayesgp_mf.likelihoods.star import InnerSites, MatrixSites, StarSites
from bayesgp_mf.types import Array, Derivs

STEP = 0.8
"""Times 1 / sqrt(C): the rule's error is exp(-2 pi^2 / STEP^2) = 4e-14 of the integral."""
REACH = 8.0
"""On both sides of the mode, from which the logarithm falls at least as fast as -u^2/2."""
NEWTON = 6
"""Steps to the mode, from the left, where they cannot overshoot; that it is met to 0.1 is enough."""


def log_probability(functions: Any, t: Any, f: Any, n_classes: int) -> Any:
    """Return log p(t|f) ``(n,)`` for noise of variance one, codes ``t (n,)`` and latent values ``f (n, C)``.

    ``functions`` are those of `pymc.latent`.
    """
    ahead = functions.of_class(f, t)[:, None] - f  # 0 for the class itself, whose factor is taken out below
    mode = functions.constant(_mode(functions, ahead))
    step = STEP / sqrt(n_classes)
    nodes = mode[:, None] + step * np.arange(-ceil(REACH / step), ceil(REACH / step) + 1)
    factors = functions.log_ndtr(nodes[:, :, None] + ahead[:, None, :]).sum(axis=-1) - functions.log_ndtr(nodes)
    return functions.log_sum_exp(factors - 0.5 * nodes**2) + (log(step) - 0.5 * log(2.0 * pi))


def _mode(functions: Any, ahead: Any) -> Any:
    """Return about where the integrand of each case ``(n,)`` is largest."""
    u = 0.0 * ahead[:, 0]
    for _ in range(NEWTON):
        # the slope falls, and is convex, in u: Newton's steps stay on the left of its zero
        (slope, bend), (own_slope, own_bend) = _hazards(functions, u[:, None] + ahead), _hazards(functions, u)
        u = u + (slope.sum(axis=1) - own_slope - u) / (1.0 + bend.sum(axis=1) - own_bend)
    return u


def _hazards(functions: Any, x: Any) -> tuple[Any, Any]:
    """Return the derivative of log Phi at x, and how fast it falls."""
    hazard = functions.exp(-0.5 * x**2 - 0.5 * log(2.0 * pi) - functions.log_ndtr(x))
    return hazard, hazard * (hazard + x)


@dataclass(frozen=True, slots=True)
class MultinomialProbit(ClassLikelihood):
    r"""Multinomial probit likelihood of C classes.

    .. math:: p(t = c|f) = P(f_c + e_c > f_d + e_d \text{ for all } d \ne c), \qquad e_d \sim N(0, v)

    ([1]_; [2]_, eq. 3). Each class has its own latent function and noise, and the largest sum is the label. Adding a
    constant to all latent values changes nothing. With two classes it is `Probit` of f_1 - f_0, with noise variance 2 v
    and the sum of the two prior variances.

    Latent values have the class along their last axis: ``(n, C)``.

    Parameters
    ----------
    classes : sequence, optional
        All classes, in order. Labels need not contain each of them; a class without an example is predicted from its
        prior. By default the classes are those that occur, sorted, or the categories of a pandas Categorical.
    noise_variance : float
        v >= 0, in squared latent units; with v = 0 the class of the largest latent value is the label. A kernel with
        ``kernels.White(s)`` added and noise v is one without it and noise v + s.
    flip : float
        kappa in [0, 1/2), the probability that a label was recorded as one of the others, each as likely:
        :math:`\kappa/(C - 1) + (1 - C \kappa/(C - 1))\, p_0` with p_0 as above. Of two classes it is that of `Step`.

    Raises
    ------
    ValueError
        If the classes are fewer than two, or not distinct, one is missing (None, NaN), or they have no order (a set);
        if the noise variance is negative or not finite, or ``flip`` is outside [0, 1/2).

    Notes
    -----
    The log partition function, an average over Gaussian latent values, and its derivatives are exact for two and three
    classes (1e-11). For more they come from expectation propagation over the C - 1 comparisons of a label ([2]_), and
    log Z is some hundredths too low. Probabilities (`predict_proba`) use an exact integral, and are accurate to some
    1e-4.

    References
    ----------
    .. [1] Girolami, M., & Rogers, S. (2006). Variational Bayesian multinomial probit regression with Gaussian process
       priors. Neural Computation 18, 1790-1817.
    .. [2] Riihimaki, J., Jylanki, P., & Vehtari, A. (2013). Nested expectation propagation for Gaussian process
       classification with a multinomial probit likelihood. JMLR 14, 75-109.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import MultinomialProbit
    >>> mean, covariance = np.array([[1.0, 0.0, 0.0]]), 4.0 * np.eye(3)[None]
    >>> MultinomialProbit().predict_proba(mean, covariance).round(3)
    array([[0.466, 0.267, 0.267]])
    """

    noise_variance: float = 1.0
    flip: float = 0.0
    allows_noise: ClassVar[str] = "MultinomialProbit(noise_variance=..., flip=...)"
    # beside the variance of the kernel that of the noise is no more than a unit
    tunable: ClassVar[dict[str, Tunable]] = {"flip": FLIP}

    def __post_init__(self) -> None:
        ClassLikelihood.__post_init__(self)  # super() does not know a class that was made anew for its slots
        object.__setattr__(self, "noise_variance", check_noise_variance(self.noise_variance, zero_allowed=True))
        object.__setattr__(self, "flip", check_flip(self.flip))

    @property
    def forbids(self) -> bool:
        """Whether latent values of which another one is the largest have probability zero."""
        return self.noise_variance == 0.0 and self.flip == 0.0

    @property
    def log_concave(self) -> bool:
        """Whether no label can be flipped."""
        return self.flip == 0.0

    @property
    def is_flat(self) -> bool:
        """Whether p(t|f) is constant but for jumps."""
        return self.noise_variance == 0.0

    @property
    def largest_wins(self) -> tuple[float, float]:
        """The variance of the noise, and the probability of a flip."""
        return self.noise_variance, self.flip

    @property
    def site_shape(self) -> Literal["star", "matrix"]:
        """That of a star, which asks for noise and no flips, or any matrix."""
        return "star" if self.noise_variance > 0.0 and self.flip == 0.0 else "matrix"

    def parameter_derivative(self, name: str, t: Array, mean: Array, covariance: Array) -> Derivs:
        """Return the derivative of `log_partition` in the flip probability, and its two derivatives in mean."""
        codes, n_classes = np.asarray(t, dtype=np.float64), mean.shape[1]
        unflipped = probit_tilted.tilted(codes, mean, covariance, self.noise_variance).log_partition
        return flip_derivative(self.log_partition(t, mean, covariance), unflipped, self.flip, n_classes)

    def log_density(self, t: Array, f: Array) -> Array:
        """Return log p(t|f) ``(..., n)`` in nats, for codes ``t (n,)`` and latent values ``f (..., n, C)``."""
        codes, flat = _flat(t, f)
        found = probit_tilted.log_density(codes, flat, self.noise_variance)
        return log_flipped(found, self.flip, f.shape[-1]).reshape(f.shape[:-1])

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) ``(..., n)`` in nats, and its derivatives in f, ``(..., n, C)`` and ``(..., n, C, C)``."""
        codes, flat = _flat(t, f)
        found = flipped(probit_tilted.log_prob(codes, flat, self.noise_variance), self.flip, f.shape[-1])
        return Derivs(
            found.value.reshape(f.shape[:-1]), found.d1.reshape(f.shape), found.d2.reshape(*f.shape, f.shape[-1])
        )

    def log_partition(self, t: Array, mean: Array, covariance: Array) -> Derivs:
        """Return the log of E p(t|f), f ~ N(mean, covariance), and its derivatives in mean, with a class axis each.

        ``mean (m, C)``, ``covariance (m, C, C)``. For more than three classes the second derivative is what makes the
        tilted covariance that of expectation propagation: nearly, not quite, the derivative of the first.
        """
        codes = np.asarray(t, dtype=np.float64)
        found = probit_tilted.tilted(codes, mean, covariance, self.noise_variance)
        turn = probit_tilted.difference_matrices(mean.shape[1])[codes.astype(np.intp)]
        curvature = np.swapaxes(turn, 1, 2) @ found.curvature @ turn
        found_in_classes = Derivs(found.log_partition, probit_tilted.in_classes(codes, found.gradient), curvature)
        return flipped(found_in_classes, self.flip, mean.shape[1])

    def star_sites(
        self, t: Array, mean: Array, covariance: Array, points: int | None = None, start: InnerSites | None = None
    ) -> StarSites:
        """Return the sites of cases at Gaussians ``(n, C)`` and ``(n, C, C)`` (`likelihoods.star`).

        There is a ValueError without noise, or with flips, where they are no stars.
        """
        if self.site_shape != "star":
            raise ValueError(f"sites of {self!r} have no star form: use matrix_sites.")
        return probit_tilted.star_sites(t, mean, covariance, self.noise_variance, start)

    def matrix_sites(self, t: Array, mean: Array, covariance: Array) -> MatrixSites:
        """Return the sites of cases at Gaussians ``(n, C)`` and ``(n, C, C)`` (`likelihoods.star`)."""
        return probit_tilted.matrix_sites(t, mean, covariance, self.noise_variance, self.flip)

    def predict_proba(self, mean: Array, covariance: Array) -> Array:
        """Return E p(t=c|f) ``(m, C)`` for f ~ N(mean, covariance), ``mean (m, C)``, ``covariance (m, C, C)``."""
        return np.exp(self._log_probabilities(mean, covariance))

    def predictions(self, t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return the log of E p(t|f) ``(m,)``, and `predict_proba` ``(m, C)``."""
        every = self._log_probabilities(mean, covariance)
        return np.take_along_axis(every, t.astype(np.intp)[:, None], axis=1)[:, 0], np.exp(every)

    def _log_probabilities(self, mean: Array, covariance: Array) -> Array:
        found = probit_tilted.log_probabilities(mean, covariance, self.noise_variance)
        return log_flipped(found, self.flip, mean.shape[1])

    def opposed_at_most(self, mean: Array, covariance: Array) -> Array:
        """Return what the probability ``(r,)`` that one case has label a, and another one label b, cannot exceed.

        From Gaussians ``(r, 2)`` and ``(r, 2, 2)`` of the differences f_a - f_b at both cases, of labels without flips.
        """
        return probit_tilted.opposed_at_most(mean, covariance, self.noise_variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a class, 0 to C - 1, for each vector of latent values ``f (..., C)``."""
        noisy = f + np.sqrt(self.noise_variance) * rng.standard_normal(f.shape)
        codes, n_classes = np.argmax(noisy, axis=-1), f.shape[-1]
        if self.flip > 0.0:
            away = np.where(rng.random(codes.shape) < self.flip, rng.integers(1, n_classes, codes.shape), 0)
            codes = (codes + away) % n_classes
        return np.asarray(codes, dtype=np.float64)

    def log_prob_graph(self, functions: Any, t: Any, f: Any, **given: Any) -> Any:
        """Return log p(t|f) ``(n,)`` in terms of PyTensor, for codes and latent values ``(n, C)`` of named classes.

        Raises
        ------
        UndefinedQuantityError
            If there is no noise.
        """
        if self.is_flat:
            raise UndefinedQuantityError(
                "without noise the likelihood jumps, and samplers that follow gradients cannot see it. Give it noise: "
                "MultinomialProbit(noise_variance=1.0)."
            )
        assert self.n_classes is not None
        right = log_probability(functions, t, f / np.sqrt(self.noise_variance), self.n_classes)
        if "flip" not in given and self.flip == 0.0:
            return right
        flip, others = {**self.parameters, **given}["flip"], self.n_classes - 1.0
        log_wrong, log_rest = functions.log(flip / others), functions.log1p(-flip * (self.n_classes / others))
        return functions.logaddexp(log_wrong, log_rest + right)


def _flat(t: Array, f: Array) -> tuple[Array, Array]:
    """Return codes ``(m,)`` and latent values ``(m, C)`` with all leading axes in one."""
    return np.broadcast_to(np.asarray(t, dtype=np.float64), f.shape[:-1]).ravel(), f.reshape(-1, f.shape[-1])
