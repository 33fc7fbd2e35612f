"""Errors of probabilities that are averaged over hyperparameters (1996, eq. 9)."""

from __future__ import annotations

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import HybridMonteCarlo
from validation.tables import crabs_and_pima as common
from validation.tables import laplace_1996_table_1 as script
from validation.tables.crabs_and_pima import laplace_start
from validation.tables.selection import Split


def crabs():
    return Split.of(bgp.datasets.load_crabs())


def test_errors_are_those_of_the_average_and_of_each_draw(monkeypatch):
    split, seen = crabs(), []

    class Recorded(HybridMonteCarlo):
        def choose(self, target, rng, advance):
            found = super().choose(target, rng, advance)
            seen.append((target, found))
            return found

    sampler = Recorded(iterations=6, leapfrog_steps=8, step_size=script.SAMPLER.step_size, dropped=0.5)
    monkeypatch.setattr(script, "SAMPLER", sampler)
    told = []
    chain = script.sample(split, 3, told.append)
    [(target, found)] = seen
    np.testing.assert_array_equal(target.start, np.append(np.ones(6), 0.0))  # log w_l = -2, log v_0 = 0
    probability = []
    for kernel in found.kernels:
        solution = bgp.solve(kernel.gram(split.X), split.t, bgp.Logit(), method="laplace")
        cross = kernel.cross(split.X, split.X_test)
        variance = kernel.diag(split.X_test) - solution.correction.quadratic_diagonal(cross)
        probability.append(bgp.Logit().predict_proba(cross.T @ solution.alpha, variance))
    wrong = np.where(split.t_test > 0, np.array(probability) < 0.5, np.array(probability) > 0.5)
    assert len(found.kernels) == 3
    assert chain.single == wrong.sum(axis=1).tolist()
    average = np.mean(probability, axis=0)
    assert chain.errors == np.count_nonzero((average > 0.5) != (split.t_test > 0))
    assert 0 < chain.errors < split.t_test.size / 2
    assert (chain.failed, len(told)) == (0, 6)
    assert chain.rejected == 1.0 - np.mean(found.stats["accepted"])


def test_the_prior_is_that_of_the_paper():
    """Log w_l = -2 log lengthscale and log v_0 are normal with mean -3 and standard deviation 3."""
    start = laplace_start(crabs())
    for name, power in (("lengthscale", -2.0), ("variance", 1.0)):
        prior = common.PRIORS[name]
        at_mean, _ = prior.log_density(np.array(-3.0 / power))
        one_sd, _ = prior.log_density(np.array((-3.0 + 3.0) / power))
        two_sd, _ = prior.log_density(np.array((-3.0 - 6.0) / power))
        np.testing.assert_allclose([at_mean - one_sd, at_mean - two_sd], [0.5, 2.0])
        assert name in start.params
