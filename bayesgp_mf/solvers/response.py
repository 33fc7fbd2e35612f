"""Leave-one-out by linear response: the same formula for every method that ends in site variances."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.matrices.corrections import Sites


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
            f"{int(without[0])}): without that case the other factors are those of no Gaussian, as it happens where a "
            "label looks flipped or a target is an outlier. Use method='tap', or a likelihood that is log-concave."
        )
    mean = problem.in_form(correction.form).field_of_others(solution.alpha, variance, correction)
    log_density = problem.likelihood.log_partition(problem.t, mean, variance).value
    return LeaveOneOut(mean, variance, log_density)


def site_form(solution: Solution) -> Sites:
    """Return the correction of a solution as sites, or raise a ValueError if it has none."""
    sites = solution.correction.sites
    if sites is None:
        raise ValueError(f"this needs a solution with sites, but this one was made by method {solution.method!r}.")
    return sites
