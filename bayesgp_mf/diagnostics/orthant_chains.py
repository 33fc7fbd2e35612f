"""Gaussian vectors cut to an orthant, of any size: Markov chains."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.orthant import as_orthant
from bayesgp_mf.diagnostics.orthant_moves import MoveName, get_move
from bayesgp_mf.inputs import check_positive_integers
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.types import Array


def sample_orthant_chains(
    gram: ArrayLike,
    t: ArrayLike,
    *,
    draws: int = 1000,
    tune: int = 100,
    chains: int = 4,
    move: MoveName = "reflect",
    random_seed: int | np.random.Generator | None = None,
    progress: bool = False,
) -> Array:
    r"""Draw f ~ N(0, gram) given that t_i f_i > 0 for all i, by Markov chains, however improbable the signs are.

    The states are correlated: look at r-hat and the effective number of draws.

    Parameters
    ----------
    gram, t
        As for `log_orthant_probability`.
    draws, tune : int
        States of each chain: those that are kept, and those before them that are dropped.
    chains : int
        They start apart from each other, each at one of the proposals that `sample_orthant` would accept or reject.
    move : {"reflect", "slice"}
        Exact Hamiltonian Monte Carlo [2]_, or linear elliptical slice sampling [1]_. The first has nearly independent
        states, at O(n) for each of up to about n reflections; the second moves by steps of the order of 1/n.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    (chains, draws, n) array
        In units of the square root of ``gram``; ``{"f": draws}`` is what ArviZ takes.

    Raises
    ------
    ValueError, NotPositiveDefiniteError, InconsistentDataError
        As for `log_orthant_probability`.
    ConvergenceError
        If a path is reflected without end, where the covariance is close to singular.

    See Also
    --------
    sample_orthant : Independent draws, for up to some hundred variables.

    References
    ----------
    .. [1] Gessner, A., Kanjilal, O., & Hennig, P. (2020). Integrals over Gaussians under linear domain constraints.
       AISTATS, PMLR 108, 2764-2774. https://proceedings.mlr.press/v108/gessner20a.html
    .. [2] Pakman, A., & Paninski, L. (2014). Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians.
       Journal of Computational and Graphical Statistics 23, 518-542. https://doi.org/10.1080/10618600.2013.788448

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import sample_orthant_chains
    >>> f = sample_orthant_chains([[1.0, 0.9], [0.9, 1.0]], [1, -1], draws=500, random_seed=0)
    >>> f.shape, bool((f * [1, -1] > 0).all())
    ((4, 500, 2), True)
    """
    check_positive_integers(draws=draws, chains=chains)
    if not isinstance(tune, int | np.integer) or isinstance(tune, bool) or tune < 0:
        raise ValueError(f"tune must be an integer, zero or more, got {tune!r}.")
    step = get_move(move)
    rng = as_generator(random_seed)
    orthant = as_orthant(gram, t)
    n, factor = orthant.t.size, orthant.factor
    covariance = factor @ factor.T
    kept = np.empty((chains, draws, n))
    with one_thread_if_small(n), progress_bar("sampling", total=chains * (tune + draws), enabled=progress) as advance:
        for chain in range(chains):
            start = factor @ orthant.propose(1.0 - rng.random((n, 1)))[0][:, 0]
            y = np.maximum(start, np.finfo(np.float64).tiny)  # rounding may put a proposal onto its boundary
            for k in range(-tune, draws):
                y = step(y, factor @ rng.standard_normal(n), covariance, rng)
                if k >= 0:
                    kept[chain, k] = y
                advance(f"chain {chain + 1}")
    f = np.empty_like(kept)
    f[..., orthant.order] = kept
    return f * orthant.t
