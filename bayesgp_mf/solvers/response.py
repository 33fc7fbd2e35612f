"""Leave-one-out by linear response: the same formula for every method that ends in site variances."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.matrices.dense import SiteCorrection, shrinkage
from bayesgp_mf.matrices.low_rank import LowRankCorrection, LowRankGram, Sites
from bayesgp_mf.types import Array


def linear_response(problem: Problem, solution: Solution) -> LeaveOneOut:
    r"""Return the leave-one-out predictions of a solution by linear response (2000, appendix D).

    Without case i the field is (2000, eq. 51)

    .. math:: f_i - \left(\frac{1}{[(K+\Omega)^{-1}]_{ii}} - \omega_i\right) \alpha_i

    and the bracket is its variance. For TAP both are its own cavity (2000, eq. 32).

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solution : Solution
        Of a method whose correction has sites.

    Returns
    -------
    LeaveOneOut
        Means, variances ``(n,)`` and log predictive densities ``(n,)`` in nats.

    Raises
    ------
    UndefinedQuantityError
        If the likelihood is not log-concave and without some case there is no Gaussian posterior.
    """
    correction = site_form(solution)
    variance = correction.cavity_variance()
    (without,) = np.nonzero(variance < 0)
    if without.size:
        raise UndefinedQuantityError(
            f"method {solution.method!r} has no leave-one-out prediction for {without.size} cases (the first is "
            f"{int(without[0])}): without that case the other factors are those of no Gaussian, as it happens where "
            "labels look flipped. Use method='tap', or a likelihood without flips (Probit, Logit)."
        )
    if isinstance(problem.gram, LowRankGram):
        mean = problem.gram @ solution.alpha - variance * solution.alpha
    else:
        shrunk = shrinkage(problem.gram, variance, correction.diagonal(), correction.rows)
        mean = field_of_others(problem.gram, solution.alpha, shrunk)
    log_density = problem.likelihood.log_partition(problem.t, mean, variance).value
    return LeaveOneOut(mean, variance, log_density)


def field_of_others(gram: Array, alpha: Array, shrinkage: Array) -> Array:
    """Return f_i - lambda_i alpha_i ``(n,)``, in a form that keeps the sign of what the others say.

    ``shrinkage`` is K_ii - lambda_i. However little the others say, there is no difference of large numbers.
    """
    others = gram.copy()
    np.fill_diagonal(others, 0.0)
    return np.asarray(others @ alpha + shrinkage * alpha)


def site_form(solution: Solution) -> Sites:
    """Return the correction of a solution as sites, or raise a ValueError if it has none."""
    if not isinstance(solution.correction, SiteCorrection | LowRankCorrection):
        raise ValueError(f"this needs a solution with sites, but this one was made by method {solution.method!r}.")
    return solution.correction
