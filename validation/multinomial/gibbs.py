r"""A Gibbs sampler of the multinomial probit: latent values and utilities in turn, both by exact draws.

A label is the class of the largest utility :math:`y_d = f_d + e_d`, e_d standard normal. Given the utilities the latent
values of each class are those of regression with noise one; given the latent values, and each other, the utilities are
normal, cut off where the label would be another one (Albert & Chib 1993; Girolami & Rogers 2006). It mixes far more
slowly than NUTS, and shares no code with it: many chains at once make up for the first.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr, ndtri_exp

from bayesgp_mf.types import Array
from validation.multinomial.density import probabilities
from validation.multinomial.settings import Setting


def sampled(setting: Setting, chains: int, tune: int, draws: int, seed: int, thin: int = 10) -> tuple[Array, Array]:
    """Return mean probabilities ``(n, C)`` of all cases, and their standard errors.

    The chains are independent, so that the errors follow from the means of each: none is estimated from
    autocorrelations.

    Parameters
    ----------
    setting : Setting
        Cases and kernel.
    chains, tune, draws : int
        Chains that are run side by side; sweeps of each that are left out, and that count.
    seed : int
        Of all.
    thin : int
        Probabilities are integrated after so many sweeps.
    """
    rng = np.random.default_rng(seed)
    n, n_classes, codes = setting.observed, len(setting.class_names), setting.codes[: setting.observed]
    gram = setting.gram
    factor = cho_factor(gram[:n, :n] + np.eye(n))
    weights = cho_solve(factor, gram[:n]).T  # mean of all latent values given utilities
    values, vectors = np.linalg.eigh(gram - weights @ gram[:n])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    own = np.arange(n_classes) == codes[:, None]
    utilities = np.where(own, 1.0, -1.0) + np.zeros((chains, n, n_classes))
    total = np.zeros((chains, gram.shape[0], n_classes))
    for sweep in range(tune + draws):
        f = weights @ utilities + root @ rng.standard_normal(total.shape)
        seen = f[:, :n]
        highest = np.where(own, -np.inf, utilities).max(axis=-1, keepdims=True)
        winner = seen + _above(highest - seen, rng)
        limit = np.where(own, winner, -np.inf).max(axis=-1, keepdims=True)
        loser = seen - _above(seen - limit, rng)
        utilities = np.where(own, winner, loser)
        if sweep >= tune and (sweep - tune) % thin == 0:
            total += probabilities(f)
    each = total / len(range(0, draws, thin))
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(chains)


def _above(limit: Array, rng: np.random.Generator) -> Array:
    """Draw standard normal variables that are above ``limit``, however far out it is."""
    return np.asarray(-ndtri_exp(log_ndtr(-limit) - rng.exponential(size=limit.shape)))
