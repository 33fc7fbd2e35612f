"""The methods by name: one face, the protocol `Solver`, and one registry, `METHODS`.

The registry dispatches, and it writes the error message and the table in the documentation.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from numpy.typing import ArrayLike

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.inference.problem import Problem, as_matrix, as_targets
from bayesgp_mf.inference.solution import Control, Solution, check_control, check_start
from bayesgp_mf.inference.solver import Solver, Traits, traits_of
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import check_same_cases
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.multiclass.star_tap import star_tap
from bayesgp_mf.online.solver import online
from bayesgp_mf.solvers.exact import exact
from bayesgp_mf.solvers.laplace import laplace
from bayesgp_mf.solvers.meanfield import naive, tap, variational
from bayesgp_mf.solvers.svm import svm

MethodName: TypeAlias = Literal["tap", "naive", "variational", "laplace", "online", "svm", "exact"]
"""The keys of `METHODS`, for editors and type checkers."""

METHODS: dict[str, Solver] = {solver.name: solver for solver in (tap, naive, variational, laplace, online, svm, exact)}


MULTICLASS: dict[str, Solver] = {solver.name: solver for solver in (star_tap, multiclass_laplace)}
"""The methods that take several classes, with a latent value for each (`likelihoods.Softmax`)."""


_MEMBERS = ("name", "solve", "gram_gradient", "leave_one_out")


def get_method(method: str | Solver, likelihood: Likelihood | None = None) -> Solver:
    """Return a solver by name, or as it is: for ``likelihood``, if that is given, whose targets it must take.

    Raises
    ------
    ValueError
        If there is no such method, or it takes no such likelihood; the message lists those there are.
    """
    several = likelihood is not None and likelihood.has_classes
    named = {**METHODS, **MULTICLASS} if several else {**MULTICLASS, **METHODS}
    if isinstance(method, str) and method in named:
        solver = named[method]
    elif isinstance(method, type):
        raise ValueError(f"method must be an instance, got the class {method.__name__}: write it with ().")
    elif isinstance(method, str) or not any(hasattr(method, member) for member in _MEMBERS[1:]):
        raise ValueError(f"method must be one of {sorted(named)}, or an object that solves, got {method!r}.")
    else:
        solver = method
        missing = [name for name in _MEMBERS if not hasattr(solver, name)]
        if missing:
            raise ValueError(f"method must have the members {', '.join(_MEMBERS)}; {solver!r} has no {missing[0]}.")
        if not isinstance(traits_of(solver), Traits):
            raise ValueError(f"traits of a method must be an inference.solver.Traits, got {traits_of(solver)!r}.")
    if likelihood is not None and likelihood.targets not in traits_of(solver).targets:
        _refuse_targets(solver, likelihood)
    return solver


def _takes(solver: Solver, likelihood: Likelihood) -> bool:
    try:
        (traits_of(solver).check or (lambda _: None))(likelihood)
    except ValueError:
        return False
    return True


def _refuse_targets(solver: Solver, likelihood: Likelihood) -> None:
    name = likelihood.display_name
    if likelihood.has_classes:
        raise ValueError(
            f"method {solver.name!r} has one latent value for each case, and {name} one for each class. "
            f"Use {' or '.join(repr(n) for n, each in sorted(MULTICLASS.items()) if _takes(each, likelihood))}."
        )
    raise ValueError(f"method {solver.name!r} does not take the {likelihood.targets} targets of {name}.")


def check_cavities(solver: Solver) -> None:
    """Raise a ValueError if a method has no cavities, which a mean-field theory of its equations has."""
    if not traits_of(solver).cavities:
        having = [other.name for other in METHODS.values() if traits_of(other).cavities]
        raise ValueError(
            f"marginals='tilted' needs the cavities of a mean-field method, one of {having}, and method "
            f"{solver.name!r} has none. Use one of those, or marginals='gaussian'."
        )


def check_marginals(marginals: str, solver: Solver | None) -> None:
    """Raise a ValueError if there are no such marginals, or a method, if one is given, has no cavities to tilt."""
    check_one_of("marginals", marginals, "gaussian", "tilted")
    if marginals == "tilted" and solver is not None:
        check_cavities(solver)


def solve(
    gram: ArrayLike | Matrix,
    t: ArrayLike,
    likelihood: Likelihood,
    *,
    method: MethodName | Solver = "tap",
    control: Control = Control(),
    start: Solution | None = None,
) -> Solution:
    """Approximate the posterior of f ~ N(0, gram) given targets t: arrays in, arrays out.

    Parameters
    ----------
    gram : (n, n) array_like or Matrix
        Gram matrix, symmetric and positive semi-definite, in squared latent units; it is kept in the form it has. For
        several classes also ``(C, n, n)``, one for each.
    t : (n,) array_like
        Labels -1/+1 (real targets for the Gaussian likelihood, codes 0 to C - 1 for `Softmax`).
    likelihood : Likelihood
        p(t | f) of one case.
    method : str or Solver
        Name of a method, a key of `METHODS`; or a solver with options.
    control : Control
        Tolerance, largest number of steps, whether to raise.
    start : Solution, optional
        A solution of a similar problem with as many cases, to start from.

    Returns
    -------
    Solution
        alpha, correction, evidence, cavity, info.

    Raises
    ------
    ValueError
        If an argument is invalid; `Problem` lists the checks.
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
    gram, t = as_pandas("gram", gram), as_pandas("t", t)
    check_same_cases(gram, t, "gram", "t")
    problem = Problem(as_matrix(gram), as_targets(t, likelihood), likelihood)
    with one_thread_if_small(problem.n):
        return get_method(method, likelihood).solve(problem, control, start)
