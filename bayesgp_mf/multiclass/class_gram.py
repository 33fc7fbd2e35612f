r"""The prior covariance of all classes behind the verbs that a method asks for, in whatever form it is.

The correction R of sites that are any matrices is one of C - 1 rows for each case. Seen along the C - 1 directions that
each site measures, :math:`W_i = F_i \Omega_i F_i^T` (`site_form.MatrixForm`), the latent values are :math:`(C - 1) n`
Gaussian ones, measured one by one with the precisions omega, and R is that of `matrices.sites`:

.. math:: R = F\, (F^T K F + \Omega^{-1})^{-1} F^T .

It costs :math:`(C - 1)^3 n^3`, where sites of star form (`multiclass.correction`) cost :math:`C n^3`.

What the sites leave of a single case, and so its leave-one-out prediction by linear response, is the same in every
form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, ClassLeaveOneOut, Solution
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.multiclass.correction import (
    ClassCorrection,
    DenseClassCorrection,
    SoftmaxCorrection,
    of_class,
    prior_variance,
    times_gram,
)
from bayesgp_mf.multiclass.draws import ClassSampler, DenseClassSampler, LowRankClassSampler, RootClassSampler
from bayesgp_mf.multiclass.low_rank import RootClassCorrection
from bayesgp_mf.multiclass.site_form import MatrixForm, SiteForm
from bayesgp_mf.types import Array


class MatrixSiteCorrection(DenseClassCorrection):
    """R for sites W_i that are symmetric matrices; see the module. There is no E, and J has the signs of omega.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        That of all classes, or of each.
    site : MatrixForm
        W.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: Array, site: MatrixForm) -> None:
        super().__init__(gram, site)
        self._directions = site.directions

    @cached_property
    def _sites(self) -> SiteCorrection:
        """R of what is measured, with the direction as the slower axis."""
        omega, direction = self._directions
        n, n_classes, size = direction.shape
        gram = np.zeros((size * n, size * n))
        for a in range(size):
            for b in range(size):
                part = gram[a * n : (a + 1) * n, b * n : (b + 1) * n]
                for c in range(n_classes):
                    part += direction[:, c, a, None] * of_class(self._gram, c) * direction[:, c, b]
        return SiteCorrection(gram, omega.T.ravel())

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return self._sites.log_det

    @property
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""
        # each entry of K + Omega is known to eps of its diagonal, and d log det is the trace of R with it
        omega, direction = self._directions
        prior = np.einsum("ica,ci->ia", direction**2, np.diagonal(np.atleast_3d(self._gram.T).T, axis1=1, axis2=2))
        inverse = np.abs(self._sites.diagonal().reshape(omega.T.shape).T)
        own = np.divide(1.0, np.abs(omega), out=np.zeros_like(omega), where=omega != 0)
        return float(np.finfo(np.float64).eps * np.sum((own + prior) * inverse))

    def _measured(self, values: Array) -> Array:
        """Return F' v ``((C - 1) n,)`` for ``v (n, C)``."""
        return np.asarray(np.einsum("ica,ic->ai", self._directions[1], values).ravel())

    def _in_classes(self, seen: Array) -> Array:
        """Return F x ``(n, C)``."""
        direction = self._directions[1]
        return np.asarray(np.einsum("ica,ai->ic", direction, seen.reshape(direction.shape[2], -1)))

    def weights(self, shift: Array) -> Array:
        """Return the weights alpha = b - W K alpha ``(n, C)`` under sites with shifts ``b (n, C)``."""
        common = np.broadcast_to(np.mean(shift, axis=1, keepdims=True), shift.shape)  # which no site sees
        weighted = self.site.times(times_gram(common, self._gram))
        return np.asarray(common + self._in_classes(self._sites.weights(self._measured(shift - weighted))))

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        flat = vectors.reshape(-1, *vectors.shape[-2:])
        every = [self._in_classes(self._sites.multiply(self._measured(each))) for each in flat]
        return np.array(every).reshape(vectors.shape)

    @property
    def _signs(self) -> Array:
        return self._sites.signs

    def _own(self, c: int, k: Array) -> None:
        """Return None."""

    def _half(self, c: int, k: Array, own: Array | None) -> Array:
        """Return H_c k_c ``(r, m)``."""
        return np.concatenate(self._signed_halves(c, k))

    def _signed_halves(self, c: int, k: Array) -> tuple[Array, Array]:
        """Return its rows of positive sign, and those of negative sign."""
        seen = self._directions[1][:, c, :].T[:, :, None] * k
        return self._sites.halves(seen.reshape(-1, k.shape[1]))

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        more, less = self._signed_halves(c, np.eye(self._gram.shape[-1]))
        return np.asarray(more.T @ more - less.T @ less)  # squares, at half the time of products


FORMS = frozenset({"dense", "low_rank", "inducing"})
"""Those of a Gram matrix that there are verbs of here."""


class ClassGram(Protocol):
    """The Gram matrix of all classes, or that of each."""

    @property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``, for each class."""

    def correction(self, site: Any) -> Any:
        """Return the correction of sites: a `ClassCorrection`."""

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)`` of new cases, from their features (`Matrix.features`)."""

    def sampler(self, alpha: Array, correction: Any) -> ClassSampler:
        """Return what draws latent values from the posterior with weights ``alpha (n, C)``."""


@dataclass(frozen=True, eq=False)
class DenseClassGram:
    """All entries of the Gram matrix, ``(n, n)`` or ``(C, n, n)``."""

    entries: Array
    n_classes: int

    @cached_property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""
        return prior_variance(self.entries, self.n_classes)

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``."""
        return times_gram(values, self.entries)

    def correction(self, site: Any) -> SoftmaxCorrection | MatrixSiteCorrection:
        """Return the correction of sites."""
        return SoftmaxCorrection(self.entries, site) if site.is_noise else MatrixSiteCorrection(self.entries, site)

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return times_gram(alpha, features)

    def sampler(self, alpha: Array, correction: Any) -> ClassSampler:
        """Return what draws latent values."""
        made = DenseClassSampler if correction.site.is_noise else RootClassSampler
        return made(self.entries, alpha, correction)


@dataclass(frozen=True, eq=False)
class RootClassGram:
    """A root, and variances of the cases' own, that all classes share."""

    matrix: Any
    n_classes: int

    @cached_property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""
        return np.repeat(self.matrix.diagonal()[:, None], self.n_classes, axis=1)

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``."""
        first = np.moveaxis(values, -2, 0)
        product = np.asarray(self.matrix @ first.reshape(first.shape[0], -1))
        return np.moveaxis(product.reshape(first.shape), 0, -2)

    def correction(self, site: SiteForm) -> RootClassCorrection:
        """Return the correction of sites."""
        return RootClassCorrection(self.matrix, site)

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return np.asarray(features.T @ self._in_features(alpha))

    def _in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(M, C)``."""
        return np.asarray(self.matrix.in_features(alpha.T)).T

    def sampler(self, alpha: Array, correction: RootClassCorrection) -> LowRankClassSampler:
        """Return what draws latent values."""
        return LowRankClassSampler(self.matrix, alpha, self._in_features(alpha), correction)


def class_gram(problem: Problem) -> ClassGram:
    """Return the Gram matrix of all classes of a problem.

    One that has their verbs itself says so by ``of_classes``: where the classes are dependent beforehand, as the past
    of a stream has made them.
    """
    known: ClassGram | None = problem.matrix.of_classes
    if known is not None:
        return known
    if problem.matrix.is_root:
        return RootClassGram(problem.matrix, problem.n_classes)
    return DenseClassGram(problem.dense_gram, problem.n_classes)


LARGEST_ROUNDING = 1e-6
"""In nats; a log determinant that rounding moves by more may be off by far more."""


def class_correction(solution: Solution) -> ClassCorrection:
    """Return the correction of a solution of several classes, or raise a ValueError if it is another one's."""
    if not isinstance(solution.correction, ClassCorrection):
        raise ValueError(f"this needs a solution of several classes, got one of method {solution.method!r} with two.")
    return solution.correction


def require_known_determinant(solution: Solution) -> None:
    """Raise a NotPositiveDefiniteError if rounding decides the log determinant of what is called solved."""
    rounding = class_correction(solution).rounding
    if solution.info.status is Status.CONVERGED and not rounding <= LARGEST_ROUNDING:
        raise NotPositiveDefiniteError(
            f"{solution.method}: rounding decides. The log determinant of the evidence is known to some {rounding:.1g} "
            "nats only: the classes' common offset is lost among Gram matrices that are huge beside what the labels "
            "say. Use a kernel of less variance."
        )


def class_linear_response(problem: Problem, solution: Solution) -> ClassLeaveOneOut:
    r"""Return the leave-one-out predictions of a solution of several classes by linear response.

    Without case i, whose site is W_i, the latent values of its classes have the covariance and mean

    .. math:: V_i = (\Sigma_i^{-1} - W_i)^{-1}, \qquad m_i = f_i - V_i \alpha_i,

    with Sigma_i their posterior covariance: the form of 2000, eq. 51, with C rows. It is computed as

    .. math:: V_i = \Sigma_i + \Sigma_i F (I - F^T \Sigma_i F)^{-1} F^T \Sigma_i, \qquad W_i = F F^T ,

    which holds where Sigma_i or W_i is singular, too, as W_i always is. Under a softmax a case never says so much that
    the bracket is lost to rounding: where the prior is wide its label is fitted so well that W_i is small.
    """
    own = own_sites(class_correction(solution))
    smallest = np.linalg.eigvalsh(own.remaining)[:, 0]
    if not np.all(smallest > 0):
        worst = int(np.argmin(smallest))
        prior = class_gram(problem).prior[worst]
        raise NotPositiveDefiniteError(
            f"method {solution.method!r}: rounding leaves no leave-one-out covariance of case {worst}, whose prior "
            f"variance is {prior.max():.3g}. Use a kernel with less variance."
        )
    return class_predictions(problem, *class_cavity(problem, own, solution.alpha))


class OwnSites(NamedTuple):
    """Sigma ``(n, C, C)`` of each case, Sigma F and J - F' Sigma F, where its site is W = F J F' with signs J."""

    sigma: Array
    through: Array
    remaining: Array


def own_sites(correction: ClassCorrection) -> OwnSites:
    """Return what is needed to take each case's own site out of the posterior, and to know how much that changes."""
    sigma, factor = correction.covariances(), correction.site.root
    through = sigma @ factor
    signs = correction.site.signs[:, :, None] * np.eye(factor.shape[2])
    return OwnSites(sigma, through, signs - np.swapaxes(factor, 1, 2) @ through)


def class_cavity(problem: Problem, own: OwnSites, alpha: Array) -> Cavity:
    """Return means ``(n, C)`` and covariances ``(n, C, C)`` without each case's own site."""
    covariance = without_own_site(*own)
    return Cavity(cavity_mean(problem, covariance, alpha), covariance)


def cavity_mean(problem: Problem, covariance: Array, alpha: Array) -> Array:
    """Return K alpha - V alpha ``(n, C)``."""
    return np.asarray(class_gram(problem).times(alpha) - np.einsum("icd,id->ic", covariance, alpha))


def without_own_site(sigma: Array, through: Array, remaining: Array) -> Array:
    """Return (Sigma^-1 - F J F')^-1 ``(n, C, C)``, without a difference, given Sigma F and J - F' Sigma F.

    Raises
    ------
    NotPositiveDefiniteError
        If a site says all that is known of its case, but for rounding.
    """
    try:
        solved = np.linalg.solve(remaining, np.swapaxes(through, 1, 2))
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError("a site says all that is known of its case, but for rounding") from error
    covariance = sigma + through @ solved
    return np.asarray(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))


def class_predictions(problem: Problem, mean: Array, covariance: Array) -> ClassLeaveOneOut:
    """Return what Gaussians of the latent values, ``(n, C)`` and ``(n, C, C)``, say of the cases' own targets."""
    log_density, probability = class_likelihood_of(problem).predictions(problem.t, mean, covariance)
    return ClassLeaveOneOut(mean, np.array(np.diagonal(covariance, axis1=1, axis2=2)), log_density, probability)


def class_likelihood_of(problem: Problem) -> ClassLikelihood:
    """Return the likelihood of a problem, or raise a ValueError if it is not one of several classes."""
    if not isinstance(problem.likelihood, ClassLikelihood):
        raise ValueError(
            f"several classes need a likelihood such as Softmax() or MultinomialProbit(), got "
            f"{type(problem.likelihood).__name__}."
        )
    return problem.likelihood
