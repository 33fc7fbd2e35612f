"""Small problems of all kinds, of which the exact probabilities can be had: cases in two dimensions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Logit
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.types import Array

SEED = 14
NUGGET = 1e-6
"""Part of the prior variance that is added to the diagonal without probit noise: the truth needs a factor."""


class Setting(NamedTuple):
    """A small problem: cases in two dimensions, a Gaussian kernel, and what the labels are seen through."""

    kind: str
    n: int
    lengthscale: float
    variance: float
    noise: float = 0.0
    flip: float = 0.0

    @property
    def likelihood(self) -> Likelihood:
        """Of the labels."""
        return Logit() if self.kind == "logit" else bgp.Probit(self.noise, self.flip)


FIXED = (
    Setting("probit", 8, 1.0, 4.0, 0.1),
    Setting("probit", 12, 2.0, 25.0, 1.0),
    Setting("probit", 20, 2.0, 100.0, 1.0),
    Setting("probit", 20, 1.0, 4.0, 0.1),
    Setting("step", 20, 1.0, 1.0),
    Setting("step", 30, 2.0, 1.0),
    Setting("probit", 30, 1.0, 10.0, 0.5),
)
"""Those on which the correction was first tried."""
NEW = 12
"""New cases of a small problem."""


def random_setting(kind: str, number: int) -> Setting:
    """Return a small problem at random; with flips of few cases, whose truth is a sum over what was flipped."""
    rng = np.random.default_rng([SEED, number])
    n = int(rng.integers(8, 13 if kind == "flip" else 31))
    lengthscale, variance = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((0.5, 3.0), (1.0, 100.0)))
    noise = float(np.exp(rng.uniform(*np.log((0.05, 2.0))))) if kind in ("probit", "flip") else 0.0
    return Setting(kind, n, lengthscale, variance, noise, 0.05 if kind == "flip" else 0.0)


def problem_of(setting: Setting, seed: int) -> tuple[Posterior, Array]:
    """Return TAP's posterior of labels that are drawn from the model, and inputs ``(12, 2)`` of new cases."""
    rng = np.random.default_rng([SEED, 1, seed])
    X, X_new = rng.standard_normal((setting.n, 2)), rng.standard_normal((NEW, 2))
    kernel: Kernel = bgp.kernels.Gaussian(setting.lengthscale, setting.variance)
    if setting.noise == 0.0:
        kernel = kernel + bgp.kernels.White(NUGGET * setting.variance)
    f = np.linalg.cholesky(kernel.gram(X) + 1e-9 * setting.variance * np.eye(setting.n)) @ rng.standard_normal(
        setting.n
    )
    y = setting.likelihood.sample(f, rng)
    return solved(kernel, X, np.where(y > 0, 1.0, -1.0), setting.likelihood), X_new


def solved(kernel: Kernel, X: Array, t: Array, likelihood: Likelihood) -> Posterior:
    """Return TAP's posterior."""
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    return Posterior(kernel, X, problem, bgp.solve(problem.gram, t, likelihood))
