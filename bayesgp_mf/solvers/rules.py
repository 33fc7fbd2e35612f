r"""The rules of the mean-field theories: the one line in which each differs, and what follows from it.

References
----------
.. [1] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field algorithms.
   Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
.. [2] Csato, L., Fokoue, E., Opper, M., Schottky, B., & Winther, O. (2000). Efficient approaches to Gaussian
   process classification. NIPS 12 ("1999" in this package, after the year of the conference).
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import EvidenceKind, Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.matrices.matrix import Matrix, Sites
from bayesgp_mf.solvers.accuracy import LARGEST_ROUNDING, log_evidence
from bayesgp_mf.solvers.loo_gradient import PullBack
from bayesgp_mf.types import Array

OF_GRADIENT = 80.0
"""By how much rounding moves the derivative of a variational evidence in the logarithm of a parameter, at most, in
units of eps tr(diag(K) K^-1): measured in 300 bits, with the rounding of K itself."""
LARGEST_GRADIENT_ERROR = 1e-3
"""In nats; a derivative that rounding may move by more than this is no answer."""


class Rule(abc.ABC):
    """The one line in which a mean-field theory differs from the others, and its consequences.

    Parameters
    ----------
    gram : Matrix
        Gram matrix; what a theory needs of it alone is computed here, once for all steps.
    """

    kind: ClassVar[EvidenceKind]
    """What its evidence is."""
    bound: ClassVar[Literal["lower"] | None] = None
    """Whether its evidence is a guaranteed bound."""
    matrices: ClassVar[frozenset[str]] = frozenset({"dense", "low_rank", "inducing"})
    """Forms of Gram matrices that it works with."""

    def __init__(self, gram: Matrix) -> None:
        self.gram = gram

    @property
    def pull_back(self) -> PullBack | None:
        """How cavity variances that follow from the Gram matrix alone pull back to it; None if they react."""
        return None

    @property
    def fixed_variance(self) -> Array | None:
        """The cavity variances ``(n,)`` if they follow from the Gram matrix alone; None if they react to the sites."""
        return None

    def cavity_variance(self, correction: Sites) -> Array:
        """Return the cavity variances ``(n,)`` that belong to the current sites: by default those that do not react."""
        assert self.fixed_variance is not None
        return self.fixed_variance

    @abc.abstractmethod
    def site_term(self, correction: Sites, cavity_variance: Array) -> float:
        """Return B, in nats, of the log evidence (see `MeanField.finish`)."""

    def extended_evidence(self, problem: Problem, alpha: Array, precision: Array, variance: Array) -> float | None:
        """Return the log evidence with more digits than a float's sum has; None where it has no need, or no way."""
        return None

    @abc.abstractmethod
    def gram_gradient(self, solution: Solution) -> GramGradient:
        """Return d log evidence / dK, ``(n, n)`` and symmetric, or its product with the root of K."""


class Tap(Rule):
    """TAP, or expectation propagation: the variance of each case among the others, reacting to them."""

    kind = "ep"
    matrices = Rule.matrices | {"precision"}

    def cavity_variance(self, correction: Sites) -> Array:
        """Return 1/[(K + Omega)^-1]_ii - omega_i (2000, eq. 28; 1998, eq. 12)."""
        return correction.cavity_variance()

    def site_term(self, correction: Sites, cavity_variance: Array) -> float:
        """Return log det(K + Omega)/2 - sum log(lambda + omega)/2."""
        # both multiplied through by W = 1/omega, so that a site that says nothing (W = 0) costs nothing
        own = np.log1p(correction.site_precision * cavity_variance)
        return 0.5 * correction.log_det - 0.5 * float(np.sum(own))

    def extended_evidence(self, problem: Problem, alpha: Array, precision: Array, variance: Array) -> float | None:
        """Return it by a factor in extended precision: its log determinant is large where K is nearly singular."""
        return log_evidence(problem, alpha, precision, variance)

    def gram_gradient(self, solution: Solution) -> GramGradient:
        """Return (alpha alpha' - (K + Omega)^-1)/2: the evidence is stationary in the sites."""
        return solution.sites.gradient(0.5 * solution.alpha, solution.alpha)


class Naive(Rule):
    """Naive mean field: no reaction of the others, the prior variance as cavity variance (2000, eq. 35).

    Its evidence (1999) is no bound. The cavity of its equations is not its leave-one-out posterior, which
    linear response gives (2000, appendix D).
    """

    kind = "naive"

    @property
    def fixed_variance(self) -> Array:
        """K_ii."""
        return self.gram.diagonal().copy()

    def site_term(self, correction: Sites, cavity_variance: Array) -> float:
        """Return 0, the limit of TAP's term for omega to infinity."""
        return 0.0

    def gram_gradient(self, solution: Solution) -> GramGradient:
        """Return (alpha alpha' + diag d2)/2."""
        return self.gram.gradient(solution.alpha, 0.5 * _curvature(solution))

    @property
    def pull_back(self) -> PullBack:
        """What is said of K_ii, as a diagonal matrix."""
        return np.diag


class Variational(Rule):
    """Variational product distribution, or ensemble learning (1999): the best factorised Gaussian-times-likelihood.

    Its evidence is a lower bound on the true one. It factorises the latent values themselves, so it needs an
    invertible Gram matrix, and noise in the prior is not the same model as noise in the likelihood.

    A matrix that is singular but for rounding may have a Cholesky factor, made of rounding. Each entry of K is off by
    up to eps sqrt(K_ii K_jj), which moves log det K by up to eps times the sum of K_ii/lambda_i; the sum of
    log lambda_i moves by as much. The inverse is less well known than the determinant, so that gradients are refused
    earlier.
    """

    kind = "lower_bound"
    bound = "lower"
    matrices = frozenset({"dense"})

    def __init__(self, gram: Matrix) -> None:
        super().__init__(gram)
        try:
            factor = cholesky(gram.dense())
        except NotPositiveDefiniteError as error:
            raise _singular() from error
        self._half_inverse = triangular_inverse(factor)
        self._log_det = 2.0 * float(np.sum(np.log(np.diag(factor))))
        self._variance = 1.0 / np.einsum("ij,ij->j", self._half_inverse, self._half_inverse)
        self._rounding = float(np.finfo(np.float64).eps * np.sum(gram.diagonal() / self._variance))
        if self._rounding > LARGEST_ROUNDING:
            raise _singular(f" up to rounding, which alone moves its log evidence by up to {self._rounding:.1g} nats")

    @property
    def fixed_variance(self) -> Array:
        """1/[K^-1]_ii, the prior variance of each value given all others."""
        return np.asarray(self._variance)

    def site_term(self, correction: Sites, cavity_variance: Array) -> float:
        """Return log det(K)/2 - sum log(lambda)/2, TAP's term for omega to zero."""
        return 0.5 * self._log_det - 0.5 * float(np.sum(np.log(cavity_variance)))

    def gram_gradient(self, solution: Solution) -> Array:
        """Return alpha alpha'/2 - K^-1/2 + K^-1 diag(w lambda^2) K^-1 with w = (d2 + 1/lambda)/2."""
        inverse = self._inverse()
        weight = 0.5 * (_curvature(solution) + 1.0 / self._variance) * self._variance**2
        return np.asarray(0.5 * np.outer(solution.alpha, solution.alpha) - 0.5 * inverse + (inverse * weight) @ inverse)

    @property
    def pull_back(self) -> PullBack:
        """What is said of 1/[K^-1]_ii, as K^-1 diag(bar lambda^2) K^-1."""

        def of(bar: Array) -> Array:
            inverse = self._inverse()
            return np.asarray((inverse * (bar * self._variance**2)) @ inverse)

        return of

    def _inverse(self) -> Array:
        """Return K^-1 for a gradient, or raise an error where rounding decides that."""
        error = OF_GRADIENT * self._rounding
        if error > LARGEST_GRADIENT_ERROR:
            what = "the derivative of its log evidence in the logarithm of a parameter"
            raise _singular(f" up to rounding, which alone moves {what} by up to {error:.1g} nats")
        return np.asarray(self._half_inverse.T @ self._half_inverse)


def _singular(how: str = "") -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"method 'variational' needs an invertible Gram matrix, and this one is singular{how} (a linear kernel with "
        "more cases than inputs, repeated inputs or a very smooth kernel). Add kernels.White(...), which is "
        "the papers' noise in the prior, or use method 'tap' or 'naive'."
    )


def _curvature(solution: Solution) -> Array:
    """Return d2 = -1/(omega + lambda) at the cavities of a solution, ``(n,)``."""
    precision = solution.sites.site_precision
    if solution.cavity is None:
        raise ValueError(f"a solution of method {solution.method!r} has no cavities.")
    return np.asarray(-precision / (1.0 + precision * solution.cavity.variance))
