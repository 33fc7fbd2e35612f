"""Likelihoods given as functions, data for them, and fits with their checks; for `likelihoods_by_quadrature`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.errors import Status
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Quadrature
from bayesgp_mf.methods import METHODS, Solver
from bayesgp_mf.online import Online
from bayesgp_mf.types import Array
from validation.tables.paper_table import Entry

FREEDOM = 4.0
CASES = 40
GRID = np.linspace(-4.0, 4.0, 161)
DRAWS = 4000
TAP, ONE_SWEEP, SWEEPS = "TAP", "one sweep", "sweeps until solved"
SOLVERS: dict[str, Solver] = {TAP: METHODS["tap"], ONE_SWEEP: Online(), SWEEPS: Online(sweeps=None)}


def student(scale: float) -> Quadrature:
    """Return Student's t likelihood of t about f, with 4 degrees of freedom."""
    constant = gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi) - np.log(scale)

    def log_density(t: Array, f: Array) -> Array:
        return np.asarray(constant - 0.5 * (FREEDOM + 1) * np.log1p(((t - f) / scale) ** 2 / FREEDOM))

    return Quadrature(log_density, targets="real")


def poisson() -> Quadrature:
    """Return the likelihood of a count with log rate f."""
    return Quadrature(lambda t, f: t * f - np.exp(f) - gammaln(t + 1), targets="real")


class Fit(NamedTuple):
    """One solution.

    Attributes
    ----------
    posterior : Posterior
        The process.
    mean, sd : (m,) array
        Of the latent function on `GRID`.
    truth : (m,) array
        The latent function that the targets came from.
    """

    posterior: bgp.Posterior
    mean: Array
    sd: Array
    truth: Array

    @property
    def log_evidence(self) -> float:
        """In nats."""
        return self.posterior.log_evidence

    @property
    def error(self) -> float:
        """Root mean square difference of the mean from the truth."""
        return float(np.sqrt(np.mean((self.mean - self.truth) ** 2)))

    @property
    def coverage(self) -> float:
        """Share of the grid on which the truth is within two standard deviations of the mean."""
        return float(np.mean(np.abs(self.mean - self.truth) <= 2.0 * self.sd))

    def importance(self) -> tuple[float, float]:
        """Return the log evidence by importance sampling with draws of this posterior, and its standard error."""
        draws = self.posterior.draw(DRAWS, np.random.default_rng(0))
        log_weight = draws.log_p - draws.log_q
        log_mean = logsumexp(log_weight) - np.log(DRAWS)
        return float(log_mean), float(np.std(np.exp(log_weight - log_mean), ddof=1) / np.sqrt(DRAWS))


class Data(NamedTuple):
    """Inputs ``(n, 1)`` in random order, targets ``(n,)``, their latent function, and which are outliers ``(n,)``."""

    X: Array
    y: Array
    truth: Callable[[Array], Array]
    outlying: NDArray[np.bool_]

    def fit(self, kernel: Kernel, likelihood: Likelihood, solver: Solver) -> Fit | Status:
        """Solve; a status if the solver says that it reached no solution."""
        problem = bgp.Problem(kernel.gram(self.X), self.y, likelihood)
        solution = attempt(solver, problem)
        if isinstance(solution, Status):
            return solution
        posterior = bgp.Posterior(kernel, self.X, problem, solution)
        mean, variance = posterior.latent(GRID[:, None])
        return Fit(posterior, mean, np.sqrt(variance), self.truth(GRID))


def attempt(solver: Solver, problem: bgp.Problem, start: bgp.Solution | None = None) -> bgp.Solution | Status:
    """Solve; a status if the solver says that it reached no solution."""
    try:
        return solver.solve(problem, start=start)
    except bgp.ConvergenceError as error:
        return error.status


def with_outliers(seed: int, share: float) -> Data:
    """Return values of the sinc function, 0.1 of Gaussian noise, and a share of targets moved by 1 to 4."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4.0, 4.0, CASES)
    y = np.sinc(x) + 0.1 * rng.standard_normal(CASES)
    moved = rng.choice(CASES, round(share * CASES), replace=False)
    y[moved] += rng.choice([-1.0, 1.0], moved.size) * rng.uniform(1.0, 4.0, moved.size)
    return Data(x[:, None], y, np.sinc, np.isin(np.arange(CASES), moved))


def counts(seed: int) -> Data:
    """Return counts of log rate 1 + 1.2 sin(x)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4.0, 4.0, CASES)
    y = rng.poisson(np.exp(_log_rate(x))).astype(np.float64)
    return Data(x[:, None], y, _log_rate, np.zeros(CASES, dtype=np.bool_))


def _log_rate(x: Array) -> Array:
    return 1.0 + 1.2 * np.sin(x)


def missing(name: str, results: Sequence[object]) -> Entry:
    """Return a line that counts the statuses among the results, each a solution that was not reached."""
    statuses = Counter(result.name for result in results if isinstance(result, Status))
    note = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return Entry(f"{name}: solutions not reached, of {len(results)}", None, statuses.total(), note)
