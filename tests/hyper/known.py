"""Targets whose answer is known: solvers with an evidence that is made up, and the Pima data as published."""

from __future__ import annotations

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.errors import Status
from bayesgp_mf.hyper import LogNormal, Target
from bayesgp_mf.inference.solution import Evidence, Info, Solution
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.methods import METHODS

MEAN = np.array([0.3, -0.7])
PRECISION = np.array([[4.0, 1.5], [1.5, 2.0]])


def ignore(note):
    """Take a progress note."""


def within_monte_carlo_error(draws, expected, batches=50, width=4.5):
    """Tell whether means over a chain are near what is expected, by the spread over batches."""
    parts = np.array([part.mean(axis=0) for part in np.array_split(draws, batches)])
    error = parts.std(axis=0, ddof=1) / np.sqrt(batches)
    return bool(np.all(np.abs(parts.mean(axis=0) - expected) < width * error))


class StartsOfTap:
    """TAP, keeping from which solution it was told to start each time."""

    name = "tap"
    gram_gradient, leave_one_out = METHODS["tap"].gram_gradient, METHODS["tap"].leave_one_out

    def __init__(self):
        self.starts = []

    def solve(self, problem, control=bgp.Control(), start=None):
        self.starts.append(start)
        return METHODS["tap"].solve(problem, control, start)


class Quadratic:
    """A solver whose log evidence is Gaussian in the logs of a Bias and a White variance: N(MEAN, PRECISION^-1).

    Its problem has two cases, far apart, with covariance b and variances 1 + b + w.
    """

    name = "quadratic"

    def log_variances(self, problem):
        """Return the logs of b and w of the kernel whose problem this is."""
        return np.log([problem.gram[0, 1], problem.gram[0, 0] - problem.gram[0, 1] - 1.0])

    def solve(self, problem, control=bgp.Control(), start=None):
        apart = self.log_variances(problem) - MEAN
        value = -0.5 * float(apart @ PRECISION @ apart)
        correction = SiteCorrection(problem.gram, np.zeros(2))
        return Solution(
            self.name, np.zeros(2), correction, Evidence(value, "exact"), None, Info(Status.CONVERGED, 1, 0.0)
        )

    def gram_gradient(self, problem, solution):
        logs = self.log_variances(problem)
        by_bias, by_white = -(PRECISION @ (logs - MEAN)) / np.exp(logs)
        across = by_bias - by_white
        return 0.5 * np.array([[by_white, across], [across, by_white]])

    def leave_one_out(self, problem, solution):
        raise NotImplementedError


FAR = np.array([[0.0, 0.0], [1e9, 1e9]])
KNOWN_KERNEL = bgp.kernels.Gaussian([1.0, 2.0], 1.0) + bgp.kernels.Bias(1.0) + bgp.kernels.White(1.0)


def known_target(*, with_scales: bool = False, solver=None, **options) -> Target:
    """Return a target that is Gaussian in log bias and log white, and in two length scales if they are free."""
    if with_scales:
        options = {"priors": {"gaussian_lengthscale": LogNormal(0.5, 0.8)}, **options}
    fixed = {"gaussian_variance"} | (set() if with_scales else {"gaussian_lengthscale"})
    solver = Quadratic() if solver is None else solver
    return Target(FAR, np.array([-1.0, 1.0]), bgp.Probit(), KNOWN_KERNEL, solver, fixed=fixed, **options)


PIMA = bgp.datasets.load_pima()
PIMA_T, PIMA_T_TEST = (np.where(y == PIMA.class_names[1], 1.0, -1.0) for y in (PIMA.y, PIMA.y_test))
PUBLISHED_STEP = {"lengthscale": 0.05, "variance": 0.1}


def published_pima() -> Target:
    """Return the model, priors and start of Barber & Williams (1996), section 2.3."""
    return Target(
        PIMA.X,
        PIMA_T,
        bgp.Logit(),
        bgp.kernels.Gaussian(np.full(7, np.e), 1.0),
        METHODS["laplace"],
        priors={"lengthscale": LogNormal(-3.0, 3.0, power=-2.0), "variance": LogNormal(-3.0, 3.0)},
    )


def pima_test_errors(result) -> int:
    """Count test errors of the probabilities averaged over the kernels of a result (1996, eq. 9)."""
    target, probability = published_pima(), np.zeros(PIMA_T_TEST.size)
    for model, weight in zip(result.models, result.weights, strict=True):
        problem = target.problem_at(model)
        posterior = bgp.Posterior(model.kernel, target.X, problem, target.solver.solve(problem))
        probability += weight * posterior.predict_proba(PIMA.X_test)
    return int(np.sum((probability > 0.5) != (PIMA_T_TEST > 0)))
