r"""Exact truths of binary Gaussian-process models: probabilities of orthants, and Gaussian vectors cut to them.

Under a step likelihood the evidence is the probability that a Gaussian vector has the signs of the labels, and the
posterior that vector, cut there. With a probit of noise variance v the same holds for K + v I and the latent values
with their noise, and a prediction is a ratio of two probabilities, of n + 1 labels over n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import as_generator, check_integers, check_one_of
from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem, as_float_array
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import check_same_cases
from bayesgp_mf.likelihoods import Step
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.progress import progress_bar
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
    check_integers(1, draws=draws)
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


Move: TypeAlias = Callable[[Array, Array, Array, np.random.Generator], Array]
"""From a state y ``(n,)``, a draw w ``(n,)`` from the prior and the covariance ``(n, n)`` to the next state."""
MOST_REFLECTIONS = 1000
"""For each variable, in one move; it takes less than one."""


def slice_move(y: Array, w: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Return a state drawn uniformly from the allowed arc of the ellipse through ``y`` and ``w``."""
    angle = np.arctan2(w, y)
    low, high = np.max(angle) - 0.5 * np.pi, np.min(angle) + 0.5 * np.pi
    theta = low + (high - low) * rng.random()
    return _unless_rounded_out(y * np.cos(theta) + w * np.sin(theta), y)


def reflect_move(y: Array, w: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Return the state a quarter turn from ``y`` with the velocity ``w``, reflected at each boundary in between.

    Where there is no end to that, as in the corner of a covariance singular but for rounding, raise a ConvergenceError.
    """
    start, left = y, 0.5 * np.pi
    for _ in range(MOST_REFLECTIONS * y.size):
        # at which each variable becomes zero; one just reflected does so after half a turn
        angles = np.arctan2(w, y) + 0.5 * np.pi
        i = int(np.argmin(angles))
        turn = min(float(angles[i]), left)
        cosine, sine = np.cos(turn), np.sin(turn)
        y, w = y * cosine + w * sine, w * cosine - y * sine
        left -= turn
        if left <= 0.0:
            return _unless_rounded_out(y, start)
        w = w - (2.0 * w[i] / covariance[i, i]) * covariance[:, i]
        y[i] = 0.0
    raise ConvergenceError(
        f"a path in an orthant of {y.size} variables was reflected {MOST_REFLECTIONS * y.size} times without reaching "
        "its end: the covariance is close to singular. Add noise to its diagonal.",
        Status.MAX_ITERATIONS,
    )


def _unless_rounded_out(moved: Array, y: Array) -> Array:
    """Return the new state, or the old one if the new lies on a boundary, where only rounding can put it."""
    return moved if np.all(moved > 0) else y


MoveName: TypeAlias = Literal["reflect", "slice"]
"""The keys of `MOVES`, for editors and type checkers."""

MOVES: dict[str, Move] = {"reflect": reflect_move, "slice": slice_move}


def get_move(name: str) -> Move:
    """Return a move by name, or raise a ValueError."""
    check_one_of("move", name, *MOVES)
    return MOVES[name]


def sample_orthant_chains(
    gram: ArrayLike,
    t: ArrayLike,
    *,
    draws: int = 1000,
    tune: int = 100,
    chains: int = 4,
    move: MoveName = "reflect",
    random_seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Array:
    r"""Draw f ~ N(0, gram) given that t_i f_i > 0 for all i, by Markov chains, however improbable the signs are.

    The states are correlated: look at r-hat and the effective number of draws.

    Parameters
    ----------
    gram, t
        As for `log_orthant_probability`.
    draws, tune : int
        States of each chain: those that are kept, and those before them that are dropped.
    chains : int
        They start apart from each other, each at one of the proposals that `sample_orthant` would accept or reject.
    move : {"reflect", "slice"}
        Exact Hamiltonian Monte Carlo [2]_, or linear elliptical slice sampling [1]_. The first has nearly independent
        states, at O(n) for each of up to about n reflections; the second moves by steps of the order of 1/n.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    (chains, draws, n) array
        In units of the square root of ``gram``; ``{"f": draws}`` is what ArviZ takes.

    Raises
    ------
    ValueError, NotPositiveDefiniteError, InconsistentDataError
        As for `log_orthant_probability`.
    ConvergenceError
        If a path is reflected without end, where the covariance is close to singular.

    See Also
    --------
    sample_orthant : Independent draws, for up to some hundred variables.

    References
    ----------
    .. [1] Gessner, A., Kanjilal, O., & Hennig, P. (2020). Integrals over Gaussians under linear domain constraints.
       AISTATS, PMLR 108, 2764-2774. https://proceedings.mlr.press/v108/gessner20a.html
    .. [2] Pakman, A., & Paninski, L. (2014). Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians.
       Journal of Computational and Graphical Statistics 23, 518-542. https://doi.org/10.1080/10618600.2013.788448

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import sample_orthant_chains
    >>> f = sample_orthant_chains([[1.0, 0.9], [0.9, 1.0]], [1, -1], draws=500, random_seed=0)
    >>> f.shape, bool((f * [1, -1] > 0).all())
    ((4, 500, 2), True)
    """
    check_integers(1, draws=draws, chains=chains)
    check_integers(0, tune=tune)
    step = get_move(move)
    rng = as_generator(random_seed)
    orthant = as_orthant(gram, t)
    n, factor = orthant.t.size, orthant.factor
    covariance = factor @ factor.T
    kept = np.empty((chains, draws, n))
    with one_thread_if_small(n), progress_bar("sampling", total=chains * (tune + draws), enabled=progress) as advance:
        for chain in range(chains):
            start = factor @ orthant.propose(1.0 - rng.random((n, 1)))[0][:, 0]
            y = np.maximum(start, np.finfo(np.float64).tiny)  # rounding may put a proposal onto its boundary
            for k in range(-tune, draws):
                y = step(y, factor @ rng.standard_normal(n), covariance, rng)
                if k >= 0:
                    kept[chain, k] = y
                advance(f"chain {chain + 1}")
    f = np.empty_like(kept)
    f[..., orthant.order] = kept
    return f * orthant.t
