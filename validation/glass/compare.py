"""Approximations of the softmax process at fixed hyperparameters, held against the recorded sample."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods.softmax_tilted import tilted_probabilities
from bayesgp_mf.methods import Solver
from bayesgp_mf.multiclass.nearest import NearestCases
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.types import Array
from validation.glass.setting import KERNEL, Setting
from validation.sampling.recorded_classes import RecordedClasses


class Compared(NamedTuple):
    """One approximation beside the sample.

    Attributes
    ----------
    observed, predicted : array
        Largest difference of a probability, over the classes, of each case that was observed ``(186,)``, and of each
        that was not ``(28,)``.
    gaussian : array
        The same as ``predicted`` where the softmax is averaged over the Gaussian posterior.
    log_evidence : float
        In nats.
    seconds : float
        Processor time, with the predictions.
    """

    observed: Array
    predicted: Array
    gaussian: Array
    log_evidence: float
    seconds: float


def compare(
    setting: Setting, recorded: RecordedClasses, solver: Solver, control: Control = Control(), points: int | None = None
) -> Compared:
    """Solve by a method of several classes, and hold the probabilities of all classes of all cases against the sample.

    TAP's for the observed cases are those of cavity times likelihood, whose average of the softmax is known from the
    weights: the gradient of log Z is the average of e_t - pi. Those of new cases are by way of the nearest observed one
    (`multiclass.nearest`). All others average the softmax over a Gaussian, with so
    many ``points`` (`likelihoods.softmax_tilted`).
    """
    started = time.process_time()
    likelihood = bgp.Softmax(setting.class_names)
    X, codes = setting.X[: setting.observed], setting.codes[: setting.observed]
    problem = Problem(KERNEL.gram(X), codes.astype(np.float64), likelihood)
    solution = solver.solve(problem, control)
    posterior = make_process(KERNEL, X, problem, solution)
    X_new = setting.X[setting.observed :]
    predicted = plain = tilted_probabilities(*posterior.latent_covariance(X_new), points)
    if solver.name == "tap":
        observed = np.eye(problem.n_classes)[codes] - solution.alpha
        prior = np.full((X_new.shape[0], problem.n_classes), KERNEL.params["variance"])
        predicted = NearestCases(problem, solution).probabilities(KERNEL.cross(X, X_new), prior, points)
    else:
        observed = tilted_probabilities(*posterior.latent_covariance(X), points)
    seconds = time.process_time() - started
    exact, n = recorded.probabilities.mean, setting.observed
    off = (_largest(observed - exact[:n]), _largest(predicted - exact[n:]), _largest(plain - exact[n:]))
    return Compared(*off, solution.evidence.value, seconds)


def _largest(difference: Array) -> Array:
    return np.asarray(np.abs(difference).max(axis=1))
