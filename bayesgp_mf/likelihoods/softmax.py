"""The softmax likelihood: one of several classes, with one latent value for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import softmax_integral, softmax_tilted
from bayesgp_mf.likelihoods.base import ClassLikelihood, check_largest
from bayesgp_mf.likelihoods.star import StarSites
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array, Derivs

_BLOCK = 2**18  # cases drawn together, so that memory stays bounded
_NEXT_TO_NOTHING = 1e-30  # in place of a weight of zero: no digit of anything changes, and no division by it fails


@dataclass(frozen=True, slots=True)
class Softmax(ClassLikelihood):
    r"""Softmax likelihood of C classes.

    .. math:: p(t = c|f) = \pi_c = e^{f_c} / \sum_d e^{f_d}

    from Barber & Williams [1]_ (section 3; [2]_, eq. 3.33). Each class has its own latent function; adding a constant
    to all of them changes nothing. With two classes it is `Logit` of f_1 - f_0, whose prior variance is the sum of the
    two: a kernel here equals twice that kernel under `Logit`.

    Latent values have the class along their last axis: ``(n, C)``.

    Parameters
    ----------
    classes : sequence, optional
        All classes, in order. Labels need not contain each of them; a class without an example is predicted from its
        prior. By default the classes are those that occur, sorted, or the categories of a pandas Categorical.

    Raises
    ------
    ValueError
        If the classes are fewer than two, or not distinct, one is missing (None, NaN), or they have no order (a set).

    Notes
    -----
    Averages over a Gaussian are integrated numerically (`likelihoods.softmax_integral`), to an estimated error of at
    most 1e-4 in a probability and 3e-4 nats in a log density; otherwise an error is raised. With two classes they are
    those of `Logit`, exact to 1e-11.

    References
    ----------
    .. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
       Monte Carlo. NIPS 9.
    .. [2] Rasmussen, C. E., & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press.
       Section 3.5. http://gaussianprocess.org/gpml/

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Softmax
    >>> mean, covariance = np.array([[1.0, 0.0, 0.0]]), 4.0 * np.eye(3)[None]
    >>> Softmax().predict_proba(mean, covariance).round(3)
    array([[0.458, 0.271, 0.271]])
    """

    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True
    site_shape: ClassVar[Literal["star"]] = "star"

    def weighted(self, weights: Array) -> WeightedSoftmax:
        """Return the likelihood of cases that count more than once, or less."""
        return WeightedSoftmax(self.classes, weights)

    def log_density(self, t: Array, f: Array) -> Array:
        """Return log p(t|f) ``(..., n)`` in nats, for codes ``t (n,)`` and latent values ``f (..., n, C)``."""
        codes = np.broadcast_to(t, f.shape[:-1]).astype(np.intp)
        return np.asarray(np.take_along_axis(log_softmax(f, axis=-1), codes[..., None], axis=-1)[..., 0])

    def log_prob(self, t: Array, f: Array) -> Derivs:
        r"""Return log p(t|f) ``(..., n)`` in nats, and its derivatives in f, ``(..., n, C)`` and ``(..., n, C, C)``.

        They are :math:`e_t - \pi` and :math:`-W = \pi \pi^T - \mathrm{diag}(\pi)` (GPML, eq. 3.38).
        """
        pi = softmax(f, axis=-1)
        own = np.arange(f.shape[-1]) == np.asarray(t)[..., None]
        curvature = pi[..., :, None] * pi[..., None, :] - pi[..., :, None] * np.eye(f.shape[-1])
        return Derivs(self.log_density(t, f), own - pi, curvature)

    def log_partition(self, t: Array, mean: Array, covariance: Array) -> Derivs:
        """Return the log of E p(t|f), f ~ N(mean, covariance), and its derivatives in mean, with a class axis each.

        ``mean (m, C)``, ``covariance (m, C, C)``; `softmax_integral.log_class_density` says more.
        """
        return softmax_integral.log_class_density(t, mean, covariance)

    def star_points(self, n_classes: int) -> int:
        """Return the nodes for each variable of an integral but the last; ValueError for too many classes."""
        softmax_tilted.check_number_of_classes(n_classes)
        return softmax_tilted.points_for(n_classes)

    def star_sites(self, t: Array, mean: Array, covariance: Array, points: int | None = None) -> StarSites:
        """Return the sites of cases at Gaussians ``(n, C)`` and ``(n, C, C)`` (`likelihoods.star`)."""
        return softmax_tilted.star_sites(t, mean, covariance, points)

    def star_predictions(
        self, t: Array, mean: Array, covariance: Array, points: int | None = None
    ) -> tuple[Array, Array]:
        """Return the log densities ``(n,)`` of targets and the probabilities ``(n, C)`` there, by the sites' nodes."""
        basis = softmax_integral.contrast_basis(mean.shape[1])
        own = softmax_tilted.log_partition(t, mean @ basis, basis.T @ covariance @ basis, points)
        return own, softmax_tilted.tilted_probabilities(mean, covariance, points)

    def predict_proba(self, mean: Array, covariance: Array) -> Array:
        """Return E p(t=c|f) ``(m, C)`` for f ~ N(mean, covariance), ``mean (m, C)``, ``covariance (m, C, C)``."""
        return softmax_integral.class_probabilities(mean, covariance)

    def predictions(self, t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return the value of `log_partition` ``(m,)``, without derivatives, and `predict_proba` ``(m, C)``."""
        return softmax_integral.class_predictions(t, mean, covariance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a class, 0 to C - 1, for each vector of latent values ``f (..., C)``."""
        flat = f.reshape(-1, f.shape[-1])
        levels, codes = rng.random(flat.shape[0]), np.empty(flat.shape[0])
        for rows in blocks(flat.shape[0], _BLOCK):
            below = np.cumsum(softmax(flat[rows], axis=-1), axis=-1)[:, :-1]
            codes[rows] = np.sum(levels[rows, None] > below, axis=-1)
        return codes.reshape(f.shape[:-1])

    def log_prob_graph(self, functions: Any, t: Any, f: Any) -> Any:
        """Return log p(t|f) ``(n,)`` in terms of PyTensor, for codes and latent values ``(n, C)``."""
        return functions.of_class(f, t) - functions.log_sum_exp(f)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSoftmax(Softmax):
    r"""The softmax likelihood of cases that count for more than one, or for less: :math:`p(t_i|f_i)^{w_i}`.

    Its curvature is :math:`w_i (\mathrm{diag}(\pi_i) - \pi_i \pi_i^T)`, of the same form, so that Laplace's
    approximation is that of the case as often. Averages of powers over a Gaussian are not known: leave-one-out is w
    times the log probability of one label.

    Parameters
    ----------
    classes : sequence, optional
        As for `Softmax`.
    weights : (n,) array
        Finite, >= 0, one for each case, in the order of the targets.

    Raises
    ------
    ValueError
        If a weight is above 1e12.
    """

    weights: Array = field(default_factory=lambda: np.ones(0))

    def __post_init__(self) -> None:
        Softmax.__post_init__(self)
        check_largest(self.weights)

    @property
    def case_weights(self) -> Array:
        """The weights; next to nothing in place of zero."""
        return np.maximum(self.weights, _NEXT_TO_NOTHING)

    @property
    def of_one_case(self) -> Softmax:
        """The likelihood without weights."""
        return Softmax(self.classes)

    @property
    def stored_by_case(self) -> dict[str, Array]:
        """What a container holds of each case."""
        return {"weights": self.weights}

    def of_cases(self, which: NDArray[np.intp]) -> WeightedSoftmax:
        """Return the likelihood of some cases with their weights."""
        return WeightedSoftmax(self.classes, self.weights[which])

    def of_new_cases(self) -> Softmax:
        """Return the likelihood of cases that are not those of the fit: each of them counts once."""
        return self.of_one_case

    def log_density(self, t: Array, f: Array) -> Array:
        """Return w log p(t|f) ``(..., n)``."""
        return self.weights * Softmax.log_density(self, t, f)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t|f), and its derivatives in f."""
        value, d1, d2 = self.of_one_case.log_prob(t, f)
        return Derivs(self.weights * value, self.weights[:, None] * d1, self.weights[:, None, None] * d2)

    def log_partition(self, t: Array, mean: Array, covariance: Array) -> Derivs:
        """Raise: averages of powers are not known."""
        raise self._unknown()

    def star_points(self, n_classes: int) -> int:
        """Raise: TAP asks for averages of powers."""
        raise self._unknown()

    def predictions(self, t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return w times the log density of one label ``(m,)``, and `predict_proba` ``(m, C)``."""
        log_density, probability = softmax_integral.class_predictions(t, mean, covariance)
        return self.weights * log_density, probability

    def to_dict(self) -> dict[str, Any]:
        """Raise: the weights are those of certain cases, and say nothing about others."""
        raise UndefinedQuantityError("weights are those of certain cases: fit(X, y, kernel, likelihood, weights=...).")

    def _unknown(self) -> UndefinedQuantityError:
        return UndefinedQuantityError(
            "weights of several classes go with Softmax() and method='laplace'; averages over powers of a softmax, as "
            "TAP asks for, are not known. Use those, or leave the weights out."
        )
