"""Draws of latent values and of targets, for training cases and new ones: arrays, a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.container.layout import MANY
from bayesgp_mf.inputs.tables import LARGEST_WHOLE
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.processes.process import LARGEST_JOINT, Marginals, NotJointlyError, Part, Process
from bayesgp_mf.types import Array

DRAWN_AT_ONCE = 2**22
"""Values of training or new cases that are drawn at once, with all that is computed on the way: 32 MiB each."""


def draw_training(
    posterior: Process,
    node: NDArray[np.intp],
    rng: np.random.Generator,
    marginals: Marginals,
    node_evidence: Array | None = None,
) -> dict[str, NDArray[Any]]:
    """Draw latent values and targets at the training cases, with log densities as in `Draws`, ``(chains, draws, ...)``.

    Each draw is from the part of the posterior that ``node (chains, draws)`` says; ``node_evidence`` are the log
    evidences by which the parts were weighed, where those are not their own. There are no ``log_likelihood`` and no
    ``log_prior``, the density of f before there were targets, where the likelihood is piecewise constant in f.
    """
    problem = posterior.problem
    check_draws(node.size, int(np.prod(problem.latent_shape)), "training", "Fit again with fewer draws.")
    width = np.float64 if node.size * problem.n < MANY else np.float32
    f = np.empty((node.size, *problem.latent_shape), dtype=width)
    log_likelihood = np.empty((node.size, problem.n), dtype=width)
    log_p, log_q, log_prior = (np.empty(node.size) for _ in range(3))
    smooth = False
    size = max(1, DRAWN_AT_ONCE // problem.n)
    for k, part in enumerate(posterior.parts):
        (here,) = np.nonzero(node.ravel() == k)
        for drawn in part.draw_in_blocks(here.size, size, rng, marginals) if here.size else ():
            these, here = here[: len(drawn.f)], here[len(drawn.f) :]
            f[these], (log_likelihood[these], slope, _), log_p[these], log_q[these] = drawn
            smooth |= bool(np.any(slope))
            with np.errstate(invalid="ignore"):  # of a step, where both may be infinite, and neither is kept
                log_prior[these] = log_p[these] - drawn.log_likelihood.value.sum(axis=1)
            if posterior.averaged:  # the weights of the settings have an evidence in them
                log_q[these] += part.log_evidence if node_evidence is None else node_evidence[k]
    if not smooth:  # a step, or all draws are so far out that no slope is left
        smooth = bool(np.any(problem.likelihood.log_prob(problem.t, np.ones(problem.latent_shape)).d1))
    f = f.reshape(*node.shape, *problem.latent_shape)
    found: dict[str, NDArray[Any]] = {
        "f": f,
        "y": targets_of_nodes(posterior, f, node, rng, lambda part: part.problem.likelihood.unshifted),
    }
    if smooth:  # a step takes two values, of which nothing can be learnt about leaving cases out
        found["log_likelihood"] = log_likelihood.reshape(*node.shape, problem.n)
        found["log_prior"] = log_prior.reshape(node.shape)
    return found | {"log_p": log_p.reshape(node.shape), "log_q": log_q.reshape(node.shape)}


def draw_new(
    posterior: Process, X_new: Array, node: NDArray[np.intp], rng: np.random.Generator
) -> tuple[dict[str, NDArray[Any]], int]:
    """Draw latent values and targets ``(chains, draws, m)``, each at the hyperparameters of its draw at training.

    Also return how many cases in a row are drawn jointly: all m, or, where that cannot be, those of each of as few
    blocks as may be.
    """
    m = X_new.shape[0]
    try:
        f, jointly = draw_latent(posterior, X_new, node, rng), m
    except NotJointlyError:
        jointly = -(-m // -(-m // LARGEST_JOINT))
        f = np.empty((*node.shape, m, *posterior.problem.latent_shape[1:]))
        for block in blocks(m, jointly):
            f[:, :, block] = draw_latent(posterior, X_new[block], node, rng)
    return {"f": f, "y": targets_of_nodes(posterior, f, node, rng, lambda part: part.new_likelihood)}, jointly


def draw_latent(posterior: Process, X_new: Array, node: NDArray[np.intp], rng: np.random.Generator) -> Array:
    """Draw latent values ``(chains, draws, m)`` jointly."""
    if len(posterior.parts) == 1:
        f = posterior.parts[0].draw_at(X_new, node.size, rng)
        return f.reshape(*node.shape, *f.shape[1:])
    f = np.empty((*node.shape, X_new.shape[0], *posterior.problem.latent_shape[1:]))
    for k, part in enumerate(posterior.parts):
        here = node == k
        if here.any():
            f[here] = part.draw_at(X_new, int(np.count_nonzero(here)), rng)
    return f


def targets_of_nodes(
    posterior: Process, f: Array, node: NDArray[np.intp], rng: np.random.Generator, of: Callable[[Part], Likelihood]
) -> NDArray[Any]:
    """Draw targets ``(chains, draws, m)``, each under the likelihood of its setting: ``of`` says which of a part."""
    each = [part.problem.likelihood for part in posterior.parts]
    if all(likelihood is each[0] for likelihood in each):
        return draw_targets(of(posterior.parts[0]), f, rng)
    y: NDArray[Any] = np.empty(0)
    for k, part in enumerate(posterior.parts):
        here = node == k
        if here.any():
            drawn = draw_targets(of(part), f[here][None], rng)[0]
            y = np.empty(f.shape[:3], dtype=drawn.dtype) if not y.size else _wide_enough(y, drawn)
            y[here] = drawn
    return y


def draw_targets(likelihood: Likelihood, f: Array, rng: np.random.Generator) -> NDArray[Any]:
    """Draw targets ``(chains, draws, m)`` given latent values, some draws at a time."""
    rows = f.reshape(-1, *f.shape[2:])
    result = np.empty(rows.shape[:2], dtype=as_stored(likelihood, np.empty(0)).dtype)
    for block in blocks(rows.shape[0], max(1, DRAWN_AT_ONCE // rows[0].size)):
        drawn = as_stored(likelihood, likelihood.sample(rows[block], rng))
        result = _wide_enough(result, drawn)
        result[block] = drawn
    return result.reshape(f.shape[:3])


def as_stored(likelihood: Likelihood, targets: NDArray[Any]) -> NDArray[Any]:
    """Return targets as a container has them: labels as small integers, counts as large ones, as ArviZ asks of them.

    Counts that double precision does not know to the last one stay in it.
    """
    if not likelihood.is_real:
        return np.asarray(targets, dtype=np.int16)
    counts = likelihood.whole_targets and bool(np.all(np.abs(targets) < LARGEST_WHOLE))
    return np.asarray(targets, dtype=np.int64 if counts else np.float64)


def _wide_enough(result: NDArray[Any], drawn: NDArray[Any]) -> NDArray[Any]:
    """Return an array in a type that holds what is drawn, too."""
    return result.astype(np.promote_types(result.dtype, drawn.dtype), copy=False)
