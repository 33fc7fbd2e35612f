"""Hyperparameters by one descent on the evidence, from one start for all: the search alone, and the user's door."""

from __future__ import annotations

import warnings

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import Evidence, Target
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.types import Array

START = np.e
"""Length scale at which our searches and scikit-learn's start, with variance 1; GPBoost chooses its own."""


def start(X: Array) -> Kernel:
    """Return the kernel that a search begins with, a length scale for each input."""
    return bgp.kernels.Gaussian(np.full(X.shape[1], START))


def search(X: Array, t: Array, method: str, likelihood: Likelihood) -> tuple[Posterior, int]:
    """Find the hyperparameters of highest evidence; return the solution there and how many were solved for."""
    target = Target(X, t, likelihood, start(X), get_method(method))
    with warnings.catch_warnings():  # inputs that hardly matter run to the end of the search
        warnings.simplefilter("ignore", bgp.BoundWarning)
        found = Evidence(starts=1).choose(target, np.random.default_rng(1), lambda note: None)
    (best,) = found.models
    problem = target.problem_at(best)
    steps = int(np.sum(found.record["hyper_n_evaluations"][1]))
    return Posterior(best.kernel, X, problem, target.solver.solve(problem)), steps


def fit(X: Array, y: Array, method: str, likelihood: Likelihood) -> tuple[Posterior, int]:
    """Do the same by the user's door, container and all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bgp.BoundWarning)
        idata = bgp.fit(
            X, y, start(X), likelihood, method=method, hyper=Evidence(starts=1), random_seed=1, progress=False
        )
    posterior = bgp.posterior(idata)
    assert isinstance(posterior, Posterior)  # of one kernel
    return posterior, int(np.sum(get_group(idata, "fit")["hyper_n_evaluations"]))
