r"""The support-vector machine without bias: the limit of TAP mean field in which the posterior is one function.

With the likelihood :math:`\Theta(t f - 1)` and the Gram matrix K/beta, TAP's equations become, as beta grows, the
Kuhn-Tucker conditions of the hard-margin machine (2000, eq. 37), for each case either

.. math:: a_i = 0 \text{ and } t_i f_i \ge 1 \qquad\text{or}\qquad a_i > 0 \text{ and } t_i f_i = 1,
          \qquad f = K (t \odot a).

They hold at the shortest w with :math:`t_i (A w)_i \ge 1`, K = A A'. That is a least-distance problem, which
non-negative least squares solves in a finite number of steps ([2]_, chapter 23, section 4): with G = diag(t) A,

.. math:: u = \arg\min_{u \ge 0} \left\| \begin{pmatrix} G^T \\ 1^T \end{pmatrix} u -
          \begin{pmatrix} 0 \\ 1 \end{pmatrix} \right\|, \qquad a = \frac{u}{1 - \sum_i u_i}.

The distance is zero where no w satisfies the labels.

References
----------
.. [1] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field algorithms.
   Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
.. [2] Lawson, C. L., & Hanson, R. J. (1995). Solving least squares problems. SIAM.
   https://doi.org/10.1137/1.9781611971217
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from bayesgp_mf.errors import NotPositiveDefiniteError, Status, UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Traits
from bayesgp_mf.inference.undefined import LeaveOneOutFields, UndefinedCorrection, UndefinedEvidence, undefined
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.dense import field_of_others, shrinkage
from bayesgp_mf.matrices.factors import cholesky, psd_root
from bayesgp_mf.matrices.matrix import InverseCorrection
from bayesgp_mf.solvers.accuracy import EPS, rounding_decides
from bayesgp_mf.solvers.driver import require_solved
from bayesgp_mf.types import Array

MOST_STEPS = 2**31 - 1
"""The largest number that SciPy takes."""
LARGEST_ROUNDING = 1e-7
"""In units of the margin; a margin that rounding may move by more is no answer. It is the rounding of one sum, and the
weights come from a chain of them, which may lose ten times as much."""


@dataclass(frozen=True, slots=True)
class Svm:
    """The hard-margin support-vector machine without bias.

    The likelihood must be that of the papers, a step (2000, eq. 1), with or without latent noise, which enters as
    noise in the prior (2000, appendix A): the machine of K + v I, which is the one with squared slack of cost 1/v.

    Parameters
    ----------
    name : str
        The name users call it by.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> problem = bgp.Problem([[2.0, 1.0], [1.0, 2.0]], [1, -1], bgp.Step())
    >>> solution = svm.solve(problem)
    >>> solution.alpha.round(12)
    array([ 1., -1.])
    >>> svm.leave_one_out(problem, solution).error_count(problem.t)
    2
    """

    name: str = "svm"

    @property
    def traits(self) -> Traits:
        """Its posterior is a single function."""
        return Traits(variance=False, check=self.noise_of)

    def noise_of(self, likelihood: Likelihood) -> float:
        """Return the variance of the latent noise, or raise an UndefinedQuantityError if there is no margin limit."""
        noise = likelihood.latent_noise
        if noise is None or not likelihood.is_binary:
            raise UndefinedQuantityError(
                f"method {self.name!r} is the limit of a step likelihood, got {likelihood.display_name}. "
                "Use Step() or Probit(noise_variance=...)."
            )
        if noise.flip > 0:
            raise UndefinedQuantityError(
                f"method {self.name!r} cannot allow label flips: a flipped label has no margin. Use noise_variance, "
                "which softens the margin, or method='tap'."
            )
        return float(noise.variance)

    def _noisy_gram(self, problem: Problem) -> Array:
        """Return K + v I, the Gram matrix under which the likelihood is a noise-free step."""
        return problem.dense_gram + self.noise_of(problem.likelihood) * np.eye(problem.n)

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Find the function of smallest norm with t_i f_i >= 1 at all cases.

        Parameters
        ----------
        problem : Problem
            Gram matrix ``(n, n)``, labels ``(n,)``, `Step` or `Probit` likelihood without label flips.
        control : Control
            Tolerance of the Kuhn-Tucker conditions, in units of the margin; largest number of steps for each case;
            whether to raise.
        start : Solution, optional
            Not used: the active set is found from none.

        Returns
        -------
        Solution
            Weights alpha = t a, of which most are zero. Its correction and its evidence raise when they are used.

        Raises
        ------
        ConvergenceError
            If ``control.throw`` and the conditions could not be met to the tolerance.
        InconsistentDataError
            If no function of the prior separates the labels.
        UndefinedQuantityError
            If the likelihood is not a step, or allows label flips.
        NotPositiveDefiniteError
            If rounding in the Gram matrix decides where the margins are.

        Notes
        -----
        O(n^2 s) for s support vectors, O(n^2) memory. ``info.residual`` is the largest violation of a condition.
        """
        control.check_scheme(self.name)
        gram = self._noisy_gram(problem)
        scale = float(np.max(np.diag(gram)))
        weight, status = _shortest(gram / scale, problem.t, control)
        weight = weight / scale
        alpha = problem.t * weight
        margin = problem.t * (gram @ alpha)
        violation = np.where(weight == 0, np.maximum(1.0 - margin, 0.0), np.abs(margin - 1.0))
        violation = np.maximum(violation, -weight * scale)
        residual = float(np.max(violation))
        if status is Status.CONVERGED and residual > control.tolerance:
            status = Status.STALLED
        info = Info(status, 1, residual)
        require_solved(self.name, problem, info, control)
        if status is Status.CONVERGED:
            self._require_known(gram, alpha)
        return Solution(self.name, alpha, UndefinedCorrection(self.name), UndefinedEvidence(self.name), None, info)

    def _require_known(self, gram: Array, alpha: Array) -> None:
        """Raise a NotPositiveDefiniteError if rounding of the Gram matrix, or of the weights, moves a margin.

        Conditions that hold for the rounded matrix say nothing about that: it may have lost the noise altogether.
        """
        sd = np.sqrt(np.diag(gram))
        with np.errstate(over="ignore"):
            rounding = EPS * float(np.max(sd)) * float(sd @ np.abs(alpha))
        if not rounding <= LARGEST_ROUNDING:
            raise rounding_decides(self.name, f"it moves a margin by up to {rounding:.1g} of its size")

    def gram_gradient(self, problem: Problem, solution: Solution) -> Array:
        """Raise an UndefinedQuantityError: there is no evidence to follow."""
        raise undefined(self.name, "evidence")

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        r"""Return the leave-one-out fields, from which an error is counted where t_i m_i < 0.

        Without a support vector the field there is (2000, eq. 38, multiplied by t_i)

        .. math:: m_i = f_i - \alpha_i / [K_{SV}^{-1}]_{ii},

        with K_SV the Gram matrix of the support vectors and t_i f_i = 1. Any other case can go without a change.
        """
        gram = self._noisy_gram(problem)
        (support,) = np.nonzero(solution.alpha)
        block = gram[np.ix_(support, support)]
        inverse = InverseCorrection(cholesky(block)).dense()
        shrunk = np.zeros(problem.n)
        shrunk[support] = shrinkage(block, 1.0 / np.diag(inverse), np.diag(inverse), inverse.__getitem__)
        return LeaveOneOutFields(self.name, field_of_others(gram, solution.alpha, shrunk))


def _shortest(gram: Array, t: Array, control: Control) -> tuple[Array, Status]:
    """Return the weights a >= 0 of the least-distance problem, and how the search went."""
    signed_root = t[:, None] * psd_root(gram)
    stacked = np.vstack([signed_root.T, np.ones(t.size)])
    target = np.zeros(stacked.shape[0])
    target[-1] = 1.0
    try:
        shares, _ = nnls(stacked, target, maxiter=min(control.max_iterations * t.size, MOST_STEPS))
    except RuntimeError:  # how SciPy says that maxiter was reached
        return np.zeros(t.size), Status.MAX_ITERATIONS
    (support,) = np.nonzero(shares)
    weight = np.zeros(t.size)
    try:  # on the margin: they are those of the least-distance problem, u/(1 - sum u), without its cancellation
        inverse = InverseCorrection(cholesky(gram[np.ix_(support, support)]))
    except NotPositiveDefiniteError:  # the support vectors depend on each other only if nothing separates the labels
        return weight, Status.NO_VALID_STEP
    weight[support] = t[support] * inverse.multiply(t[support])
    return weight, Status.CONVERGED


svm = Svm()
"""The support-vector machine, as a registered method."""
