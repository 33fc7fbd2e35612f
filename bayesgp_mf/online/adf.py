r"""Assumed-density filtering over a stream: Bayes' rule for one example, then back to a Gaussian process.

The posterior after one more example is not Gaussian; its mean and covariance are kept and the rest is forgotten,
which loses least in the sense of KL(posterior || Gaussian process). It is exact for a Gaussian likelihood.

References
----------
.. [1] Csato, L. (2002). Gaussian processes: iterative sparse approximations. PhD thesis, Aston University.
   Chapter 2, eqs. 51 to 57.
.. [2] Csato, L., Fokoue, E., Opper, M., Schottky, B., & Winther, O. (2000). Efficient approaches to Gaussian
   process classification. NIPS 12 ("1999" in this package), the sequential approach.

What online learning knows after some examples: its beginning, its content, and its end as a `Solution`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import as_float_array, check_finite
from bayesgp_mf.inference.solution import Evidence, Info, Solution
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.matrix import DenseCorrection
from bayesgp_mf.types import Array

SCALE = "Bring inputs and targets to a scale near one."


def update(state: OnlineState, kernel: Kernel, x: ArrayLike, t: float, likelihood: Likelihood) -> OnlineState:
    r"""Return the state after one more example; the given one is left as it is.

    .. math::
        m = k^T\alpha, \quad \sigma^2 = k(x,x) + k^T C k, \quad s = C k + e_{n+1}, \qquad
        \alpha \leftarrow \alpha + q s, \quad C \leftarrow C + r s s^T

    with q and r the first two derivatives of :math:`\log Z(m, \sigma^2)` in m (thesis, eqs. 53 and 57).

    Parameters
    ----------
    state : OnlineState
        What the examples so far say; `init` before the first.
    kernel : Kernel
        The prior covariance, the same for all examples of a stream.
    x : (d,) array_like
        Input.
    t : float
        Label -1 or +1, or a real target if ``likelihood.is_real``.
    likelihood : Likelihood
        p(t | f) of this example.

    Returns
    -------
    OnlineState
        With one more basis input.

    Raises
    ------
    ValueError
        If ``x`` is not a finite vector as long as those before it, or ``t`` is not a target of the likelihood.
    NotPositiveDefiniteError
        If the latent value is already known (variance zero, up to rounding) and the likelihood has no noise.

    Notes
    -----
    O(n^2) time and memory. Labels that contradict each other under a noise-free step likelihood are not
    found out: each factor is Gaussian and leaves the next label some probability.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.online import init, update
    >>> state, kernel = init(), bgp.kernels.Gaussian(variance=2.0)
    >>> for x, t in [([0.0], -1.0), ([1.0], 1.0)]:
    ...     state = update(state, kernel, x, t, bgp.Probit())
    >>> state.alpha.round(4)
    array([-0.6219,  0.6263])
    """
    row, target = _check_input(x, state), _check_target(t, likelihood)
    with np.errstate(over="ignore"):
        k = kernel.cross(state.X, row)[:, 0] if state.n_seen else np.empty(0)
        prior_variance = kernel.diag(row)
    check_finite("the kernel at x", np.append(k, prior_variance), SCALE)
    s = np.append(state.C @ k, 1.0)  # C k + e_new (thesis, eq. 57)
    mean = np.array([k @ state.alpha])
    variance = prior_variance + k @ s[:-1]
    unknown = variance[0] > 0 or not (variance[0] < 0 or likelihood.forbids)
    if unknown:
        with np.errstate(over="ignore"):
            value, q, r = likelihood.log_partition(target, mean, variance)
        if not likelihood.forbids:
            check_finite("the log probability of this example", value, SCALE)
    if not (unknown and np.isfinite(value[0])):
        raise NotPositiveDefiniteError(
            f"the latent value of example {state.n_seen} must have a positive variance before its label comes, got "
            f"{variance[0]:.3g} (prior {prior_variance[0]:.3g}). Allow noise by "
            f"{likelihood.ways_to_noise}; where the prior variance is zero, add kernels.Bias()."
        )
    n = state.alpha.size
    alpha, C = np.zeros(n + 1), np.zeros((n + 1, n + 1))
    alpha[:n], C[:n, :n] = state.alpha, state.C
    with np.errstate(over="ignore"):
        alpha, C = alpha + q * s, C + r * np.outer(s, s)
    check_finite("the state after this example", np.append(alpha, C), SCALE)
    return OnlineState(
        X=np.concatenate([state.X, row]) if n else row,
        alpha=alpha,
        C=C,
        log_evidence=state.log_evidence + float(value[0]),
        n_seen=state.n_seen + 1,
    )


def _check_input(x: ArrayLike, state: OnlineState) -> Array:
    """Return one input as a row ``(1, d)`` of its own."""
    vector = as_float_array("x", x)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"x must be one input, a vector (d,) with d >= 1, got shape {vector.shape}. Call update for each row."
        )
    if state.n_seen and vector.size != state.X.shape[1]:
        raise ValueError(
            f"x must have {state.X.shape[1]} entries, as the {state.n_seen} inputs before it, got {vector.size}."
        )
    check_finite("x", vector)
    return vector[None, :].copy()


def _check_target(t: float, likelihood: Likelihood) -> Array:
    target = as_float_array("t", t)
    if target.ndim != 0:
        raise ValueError(f"t must be one number, got shape {target.shape}. Call update for each example.")
    if likelihood.is_binary and abs(float(target)) != 1.0:
        raise ValueError(f"t must be a label -1 or +1 for {likelihood.display_name}, got {float(target):g}.")
    if not np.isfinite(target):
        raise ValueError(f"t must be a finite number, got {float(target):g}.")
    return target[None]


@dataclass(frozen=True, slots=True, eq=False)
class OnlineState:
    """An approximate posterior process after some examples; never changed, only followed by another.

    Mean k(x)' alpha and covariance k(x,x') + k(x)' C k(x') (thesis, eqs. 55 and 56).

    Attributes
    ----------
    X : (n, d) array
        Basis inputs: those of the examples seen; ``(0, 0)`` before the first.
    alpha : (n,) array
        Signed weights, in latent units to the power -1.
    C : (n, n) array
        Minus the correction R of a `Solution`, symmetric, in latent units to the power -2.
    log_evidence : float
        Sum of the log predictive densities of the examples when they came, in nats.
    n_seen : int
        Examples seen.
    """

    X: Array
    alpha: Array
    C: Array
    log_evidence: float
    n_seen: int


def init() -> OnlineState:
    """Return the state before any example: the prior.

    Examples
    --------
    >>> from bayesgp_mf.online import init
    >>> init().n_seen
    0
    """
    return OnlineState(np.empty((0, 0)), np.empty(0), np.empty((0, 0)), 0.0, 0)


def finish(state: OnlineState) -> Solution:
    """Return a state as a solution, with R = -C and the running evidence.

    Parameters
    ----------
    state : OnlineState
        After at least one example.

    Returns
    -------
    Solution
        Method "online", evidence of kind "online" in nats, a dense correction ``(n, n)`` and no cavities: what a
        stream knows about an example is only what came before it.

    Raises
    ------
    ValueError
        If no example was seen.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.online import finish, init, update
    >>> state = update(init(), bgp.kernels.Gaussian(), [0.0], 1.0, bgp.Step())
    >>> finish(state).evidence.value  # log(1/2)
    -0.6931471805599453
    """
    if state.n_seen == 0:
        raise ValueError("finish needs a state after at least one example, got one that has seen none. Call update.")
    info = Info(Status.CONVERGED, 1, 0.0)
    return Solution(
        "online", state.alpha, DenseCorrection(-state.C), Evidence(state.log_evidence, "online"), None, info
    )
