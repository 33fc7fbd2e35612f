r"""Exact truths of binary Gaussian-process models: probabilities of orthants, and Gaussian vectors cut to them.

Under a step likelihood the evidence is the probability that a Gaussian vector has the signs of the labels, and the
posterior that vector, cut there. With a probit of noise variance v the same holds for K + v I and the latent values
with their noise, and a prediction is a ratio of two probabilities, of n + 1 labels over n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem, as_float_array
from bayesgp_mf.inputs import as_pandas, check_positive_integers, check_same_cases
from bayesgp_mf.likelihoods import Step
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.solvers.orthant import Orthant, tilted
from bayesgp_mf.types import Array

LARGEST_STANDARD_ERROR = 0.1
"""In nats; above this the weights are so uneven that their spread says little of their mean."""


class LogProbability(NamedTuple):
    """A log probability with its Monte-Carlo standard error, both in nats."""

    value: float
    standard_error: float


def log_orthant_probability(gram: ArrayLike, t: ArrayLike, *, random_seed: int = 0) -> LogProbability:
    r"""Return the log probability that t_i f_i > 0 for all i, where f ~ N(0, gram).

    By minimax tilting [1]_ and randomised quasi-Monte Carlo: up to some hundred variables in seconds.

    Parameters
    ----------
    gram : (n, n) array_like
        Covariance, positive definite. For the evidence of a probit GP with noise variance v, ``K + v * np.eye(n)``.
    t : (n,) array_like
        Signs -1/+1.
    random_seed : int
        Of the points; fixed, so that the same question has the same answer.

    Returns
    -------
    LogProbability
        ``value`` and ``standard_error``, from the spread over independently scrambled sets of points.

    Raises
    ------
    ValueError
        If an argument is invalid.
    NotPositiveDefiniteError
        If the matrix is singular.
    InconsistentDataError
        If two variables are one and the same up to sign, and the signs contradict that.
    ConvergenceError
        If the standard error exceeds 0.1 nats.

    See Also
    --------
    sample_orthant : Draws of such a vector.

    References
    ----------
    .. [1] Botev, Z. I. (2017). The normal law under linear restrictions: simulation and estimation via minimax tilting.
       Journal of the Royal Statistical Society B 79, 125-148. https://doi.org/10.1111/rssb.12162

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.diagnostics import log_orthant_probability
    >>> gram = 0.5 * np.eye(100) + 0.5  # 100 signs with correlation 1/2 are all equal with probability 2/101
    >>> value, standard_error = log_orthant_probability(gram, np.ones(100))
    >>> bool(abs(value - np.log(1 / 101)) < 4 * standard_error < 4e-3)
    True
    """
    orthant = as_orthant(gram, t)
    with one_thread_if_small(orthant.t.size):
        estimate = Exact(random_seed=random_seed).integrate(orthant)
    if estimate.standard_error > LARGEST_STANDARD_ERROR:
        raise ConvergenceError(
            f"the log probability of these {orthant.t.size} signs has a standard error of "
            f"{estimate.standard_error:.2g} nats, above {LARGEST_STANDARD_ERROR:g}, and is not to be trusted. Add "
            "noise to the diagonal of the covariance.",
            Status.MAX_ITERATIONS,
        )
    return LogProbability(estimate.log_probability, estimate.standard_error)


def sample_orthant(
    gram: ArrayLike, t: ArrayLike, *, draws: int, random_seed: int | np.random.Generator | None = None
) -> Array:
    r"""Return independent draws of f ~ N(0, gram) given that t_i f_i > 0 for all i: exact, by acceptance and rejection.

    Parameters
    ----------
    gram, t
        As for `log_orthant_probability`.
    draws : int
        How many.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.

    Returns
    -------
    (draws, n) array
        In units of the square root of ``gram``.

    Raises
    ------
    ValueError, NotPositiveDefiniteError, InconsistentDataError
        As for `log_orthant_probability`.
    ConvergenceError
        If fewer than one proposal in 100 000 is accepted.

    See Also
    --------
    sample_orthant_chains : Markov chains with the same distribution, for any number of variables.

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import sample_orthant
    >>> f = sample_orthant([[1.0, 0.9], [0.9, 1.0]], [1, -1], draws=2000, random_seed=0)
    >>> bool((f[:, 0] > 0).all() and (f[:, 1] < 0).all()), f.shape
    (True, (2000, 2))
    """
    check_positive_integers(draws=draws)
    orthant = as_orthant(gram, t)
    with one_thread_if_small(orthant.t.size):
        return orthant.values(orthant.draw(int(draws), as_generator(random_seed)))


def as_orthant(gram: ArrayLike, t: ArrayLike) -> Orthant:
    """Check a covariance and signs, and choose order and tilt for them."""
    gram, t = as_pandas("gram", gram), as_pandas("t", t)
    check_same_cases(gram, t, "gram", "t")
    problem = Problem(as_float_array("gram", gram), as_float_array("t", t), Step())
    with one_thread_if_small(problem.n):
        try:
            return tilted(problem.dense_gram, problem.t)
        except NotPositiveDefiniteError as cause:
            raise NotPositiveDefiniteError(
                "gram must be positive definite, but it is singular, so that some variables are combinations of "
                "others. Add the noise of your model to its diagonal, such as gram + noise_variance * np.eye(n)."
            ) from cause
