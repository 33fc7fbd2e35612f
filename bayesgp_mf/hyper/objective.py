"""The log evidence as a function of the kernel's log parameters, with its exact gradient."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, NotPositiveDefiniteError
from bayesgp_mf.kernels import Kernel, log_gradient, with_log_vector
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import Solver
from bayesgp_mf.problem import Problem
from bayesgp_mf.solution import Control, Solution
from bayesgp_mf.types import Array


class EvidenceObjective:
    """log evidence(log parameters), solved anew at each point from the solution at the last one.

    Parameters
    ----------
    X : (n, d) array
        Training inputs.
    t : (n,) array
        Targets.
    likelihood : Likelihood
        p(t | f).
    kernel : Kernel
        Gives the parameters their names and shapes.
    solver : Solver
        Whose evidence it is.
    control : Control
        Of the inner solver.
    """

    def __init__(
        self, X: Array, t: Array, likelihood: Likelihood, kernel: Kernel, solver: Solver, control: Control
    ) -> None:
        self._X, self._t, self._likelihood, self._kernel = X, t, likelihood, kernel
        self._solver, self._control = solver, control
        self._last: Solution | None = None
        self.n_evaluations = 0
        self.n_failures = 0
        self.last_failure: Exception | None = None

    def forget(self) -> None:
        """Start the next solution from the prior instead of from the last one."""
        self._last = None

    def __call__(self, log_parameters: Array) -> tuple[float, Array] | None:
        """Return the log evidence in nats and its gradient ``(p,)``, or None where there is no solution."""
        self.n_evaluations += 1
        kernel = with_log_vector(self._kernel, log_parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            gram = kernel.gram(self._X)
        if not np.all(np.isfinite(gram)):
            self.n_failures += 1
            return None
        try:
            problem = Problem(gram, self._t, self._likelihood)
            solution = self._solver.solve(problem, self._control, self._last)
        except (ConvergenceError, NotPositiveDefiniteError, InconsistentDataError) as reason:
            self.last_failure = reason
            self.n_failures += 1
            self.forget()
            return None
        self._last = solution
        gradient = kernel.gram_vjp(self._X, self._solver.gram_gradient(problem, solution))
        return solution.evidence.value, log_gradient(kernel, gradient)
