"""The methods by name: one face, the protocol `Solver`, and one registry, `METHODS`.

The registry dispatches, and it writes the error message and the table in the documentation.
"""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from bayesgp_mf.inference.problem import Problem, as_float_array
from bayesgp_mf.inference.solution import Control, LeaveOneOut, Solution, check_control, check_start
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.low_rank import GramGradient, LowRankGram
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.multiclass.star_tap import star_tap
from bayesgp_mf.online.solver import online
from bayesgp_mf.solvers.exact import exact
from bayesgp_mf.solvers.laplace import laplace
from bayesgp_mf.solvers.meanfield import MeanField, naive, tap, variational
from bayesgp_mf.solvers.svm import svm


class Solver(Protocol):
    """The face of every method."""

    @property
    def name(self) -> str:
        """What users call it by."""

    def solve(self, problem: Problem, control: Control = ..., start: Solution | None = None) -> Solution:
        """Solve a problem, from the prior or from an earlier solution."""

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return the derivative of the log evidence with respect to the Gram matrix, ``(n, n)`` or by its root."""

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return what the other cases predict for each case."""


METHODS: dict[str, Solver] = {solver.name: solver for solver in (tap, naive, variational, laplace, online, svm, exact)}


MULTICLASS: dict[str, Solver] = {solver.name: solver for solver in (star_tap, multiclass_laplace)}
"""The methods that take several classes, with a latent value for each (`likelihoods.Softmax`)."""


def get_method(name: str, likelihood: Likelihood | None = None) -> Solver:
    """Return a solver by name: for ``likelihood``, whose targets may be several classes, if that is given.

    Raises
    ------
    ValueError
        If there is no such method, or it takes no such likelihood; the message lists those there are.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"method must be one of {sorted(METHODS)}, got {name!r}.")
    if likelihood is None or likelihood.targets != "classes":
        return METHODS[name]
    if name not in MULTICLASS:
        raise ValueError(
            f"method {name!r} has one latent value for each case, and {type(likelihood).__name__} one for each class. "
            f"Use one of {sorted(MULTICLASS)}."
        )
    return MULTICLASS[name]


def check_cavities(name: str) -> None:
    """Raise a ValueError if a method has no cavities, which a mean-field theory of its equations has."""
    having = [solver.name for solver in METHODS.values() if isinstance(solver, MeanField)]
    if name not in having:
        raise ValueError(
            f"marginals='tilted' needs the cavities of a mean-field method, one of {having}, and method {name!r} has "
            "none. Use one of those, or marginals='gaussian'."
        )


def check_marginals(marginals: str, method: str | None) -> None:
    """Raise a ValueError if there are no such marginals, or a method, if one is named, has no cavities to tilt."""
    if marginals not in ("gaussian", "tilted"):
        raise ValueError(f"marginals must be 'gaussian' or 'tilted', got {marginals!r}.")
    if marginals == "tilted" and method is not None:
        check_cavities(method)


def solve(
    gram: ArrayLike | LowRankGram,
    t: ArrayLike,
    likelihood: Likelihood,
    *,
    method: str = "tap",
    control: Control = Control(),
    start: Solution | None = None,
) -> Solution:
    """Infer the posterior of f ~ N(0, gram) given targets t: arrays in, arrays out.

    Parameters
    ----------
    gram : (n, n) array_like or LowRankGram
        Gram matrix, symmetric and positive semi-definite, in squared latent units; it is kept in the form it has. For
        several classes also ``(C, n, n)``, one for each.
    t : (n,) array_like
        Labels -1/+1 (real targets for the Gaussian likelihood, codes 0 to C - 1 for `Softmax`).
    likelihood : Likelihood
        p(t | f) of one case.
    method : str
        Name of a method: a key of `METHODS`.
    control : Control
        Tolerance, largest number of steps, whether to raise.
    start : Solution, optional
        A solution of a problem nearby with as many cases, to start from.

    Returns
    -------
    Solution
        alpha, correction, evidence, cavity, info.

    Raises
    ------
    ValueError
        If an argument is malformed; `Problem` lists the checks.
    ConvergenceError
        If the equations were not solved and ``control.throw``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> solution = bgp.solve([[2.0, 1.0], [1.0, 2.0]], [1, -1], bgp.Step())
    >>> solution.alpha.round(4)
    array([ 0.8468, -0.8468])
    >>> solution.info.status.name
    'CONVERGED'
    """
    check_control(control)
    check_start(start)
    if not isinstance(gram, LowRankGram):
        gram = as_float_array("gram", gram)
    problem = Problem(gram, as_float_array("t", t), likelihood)
    with one_thread_if_small(problem.n):
        return get_method(method, likelihood).solve(problem, control, start)
