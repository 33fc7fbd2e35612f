"""What online learning knows after some examples: its beginning, its content, and its end as a `Solution`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayesgp_mf.errors import Status
from bayesgp_mf.inference.solution import Evidence, Info, Solution
from bayesgp_mf.matrices.corrections import DenseCorrection
from bayesgp_mf.types import Array


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
