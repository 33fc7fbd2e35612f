"""Markov chains in an orthant, against exact draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import orthant as moves
from bayesgp_mf.diagnostics import sample_orthant, sample_orthant_chains
from tests.diagnostics.cases import toy


def effective(chains):
    """Effective number of draws of each variable, from the spread of the means of batches."""
    draws = chains.shape[1]
    batches = chains.reshape(chains.shape[0] * 20, draws // 20, -1).mean(axis=1)
    return chains.reshape(-1, chains.shape[-1]).var(axis=0) / (batches.var(axis=0, ddof=1) / len(batches))


def largest_shift(chains, exact):
    """Largest difference of a mean, of f and of f^2, in its standard error."""
    found = []
    for function in (lambda f: f, np.square):
        a, b = function(chains), function(exact)
        error = np.sqrt(a.var(axis=(0, 1)) / effective(a) + b.var(axis=0) / len(b))
        found.append(np.max(np.abs(a.mean(axis=(0, 1)) - b.mean(axis=0)) / error))
    return max(found)


@pytest.mark.parametrize("move", ["reflect", "slice"])
@pytest.mark.parametrize("n", [1, 5])
def test_few_variables(move, n):
    gram, t = toy(n, noise=0.1)
    chains = sample_orthant_chains(gram, t, draws=8000, move=move, random_seed=0)
    exact = sample_orthant(gram, t, draws=20_000, random_seed=1)
    assert chains.shape == (4, 8000, n)
    assert np.all(chains * t > 0)
    assert largest_shift(chains, exact) < 4.5
    every = 8 if move == "reflect" else 80  # nearly independent
    thinned = chains[:, ::every].reshape(-1, n)
    assert min(kstest(thinned[:, k], exact[:, k]).pvalue for k in range(n)) > 1e-3


@pytest.mark.parametrize("noise", [0.001, 1.0])
def test_twenty_variables_and_how_far_the_moves_go(noise):
    gram, t = toy(20, noise=noise)
    chains = sample_orthant_chains(gram, t, draws=2000, random_seed=0)
    exact = sample_orthant(gram, t, draws=20_000, random_seed=1)
    assert largest_shift(chains, exact) < 4.5
    correlation = np.corrcoef(chains[0, :, 0], exact[:2000, 0])[0, 1]
    assert abs(correlation) < 0.15
    covariance, expected = np.cov(chains.reshape(-1, 20).T), np.cov(exact.T)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.max(np.abs(covariance - expected) / scale) < 5 * np.sqrt(2 / 4000)
    sliced = sample_orthant_chains(gram, t, draws=2000, move="slice", random_seed=0)
    assert np.min(effective(chains)) > 2000
    assert np.max(effective(sliced)) < 1000


@pytest.mark.parametrize("wrong", ["stops before the boundary", "reflected in the wrong metric", "half the arc"])
def test_moves_that_are_wrong_are_found_out(wrong, monkeypatch):
    """Each of them keeps within the orthant, and is refused by the comparison that the right ones pass."""
    gram, t = toy(5, noise=0.1)

    def move(y, w, covariance, rng):
        if wrong == "stops before the boundary":
            turn = min(0.9 * (np.min(np.arctan2(w, y)) + 0.5 * np.pi), 0.5 * np.pi)
            return y * np.cos(turn) + w * np.sin(turn)
        if wrong == "half the arc":
            high = np.min(np.arctan2(w, y)) + 0.5 * np.pi
            theta = high * rng.random()
            return y * np.cos(theta) + w * np.sin(theta)
        return moves.reflect_move(y, w, np.diag(np.diag(covariance)), rng)

    monkeypatch.setitem(moves.MOVES, "reflect", move)
    chains = sample_orthant_chains(gram, t, draws=8000, random_seed=0)
    assert np.all(chains * t > 0)
    assert largest_shift(chains, sample_orthant(gram, t, draws=20_000, random_seed=1)) > 8


def test_a_reflected_path_is_reversible_and_keeps_its_energy():
    gram, t = toy(6, noise=0.1)
    covariance = t[:, None] * gram * t
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(covariance)
    for _ in range(20):
        y = sample_orthant(gram, t, draws=1, random_seed=rng)[0] * t
        w = factor @ rng.standard_normal(6)
        there, velocity = _path(y, w, covariance)
        np.testing.assert_allclose(there, moves.reflect_move(y, w, covariance, rng), atol=1e-12)
        back, back_velocity = _path(there, -velocity, covariance)
        np.testing.assert_allclose(back, y, atol=1e-8)
        np.testing.assert_allclose(back_velocity, -w, atol=1e-8)
        energy = [np.sum(np.linalg.solve(factor, v) ** 2) for v in (y, w, there, velocity)]
        np.testing.assert_allclose(energy[0] + energy[1], energy[2] + energy[3], rtol=1e-10)


def _path(y, w, covariance, turn=0.5 * np.pi):
    """The path in small pieces: an independent, slower way to the end, which also has the velocity there."""
    left = turn
    while True:
        angles = [np.arctan2(w[i], y[i]) + 0.5 * np.pi if y[i] > 0 else np.pi for i in range(y.size)]
        i = int(np.argmin(angles))
        if angles[i] >= left:
            return y * np.cos(left) + w * np.sin(left), w * np.cos(left) - y * np.sin(left)
        y, w = y * np.cos(angles[i]) + w * np.sin(angles[i]), w * np.cos(angles[i]) - y * np.sin(angles[i])
        normal = np.linalg.cholesky(covariance)[i]  # of the boundary, where the variables are white
        white = np.linalg.solve(np.linalg.cholesky(covariance), w)
        w = np.linalg.cholesky(covariance) @ (white - 2 * (normal @ white) / (normal @ normal) * normal)
        y[i] = 0.0
        left -= angles[i]


def test_random_seeds_and_errors():
    gram, t = toy(4)
    first, second, third = (sample_orthant_chains(gram, t, draws=5, random_seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    with pytest.raises(ValueError, match="move must be 'reflect' or 'slice', got 'gibbs'"):
        sample_orthant_chains(gram, t, move="gibbs")
    with pytest.raises(ValueError, match="chains must be a positive integer"):
        sample_orthant_chains(gram, t, chains=0)
    with pytest.raises(ValueError, match="tune must be an integer of at least 0"):
        sample_orthant_chains(gram, t, tune=-1)
    with pytest.raises(bgp.NotPositiveDefiniteError, match="singular"):
        sample_orthant_chains(np.ones((2, 2)), [1, 1])


def test_reflections_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(moves, "MOST_REFLECTIONS", 0)
    with pytest.raises(bgp.ConvergenceError, match="was reflected 0 times without reaching its end"):
        moves.reflect_move(np.ones(2), np.ones(2), np.eye(2), np.random.default_rng(0))
