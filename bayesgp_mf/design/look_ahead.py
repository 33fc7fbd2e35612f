"""Looking ahead: what each outcome of each candidate would do to the posterior at other inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import Container
from bayesgp_mf.design.beliefs import Belief, Outcomes, beliefs_of, outcomes_of
from bayesgp_mf.processes.process import Process
from bayesgp_mf.types import Array


class LookAhead(NamedTuple):
    """What is to be expected of a label, for K outcomes of m candidates.

    Attributes
    ----------
    outcome : (K, m) array
        The targets: labels -1 and +1, levels, counts; or values of a measurement at equal steps.
    probability : (K, m) array
        How probable each is, before it is known.
    mean, variance : (K, m, r) array
        Of the latent values at r reference inputs, once it is known.
    """

    outcome: Array
    probability: Array
    mean: Array
    variance: Array


def look_ahead(
    idata: Container | Process,
    candidates: Any,
    at: Any = None,
    *,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> LookAhead:
    r"""Return the posterior at some inputs after each label that each candidate may get, without a fit for each.

    The sites of the cases stay, and that of the new one matches its label (2000, eqs. 33 and 34):

    .. math:: m' = m + \Sigma_{\cdot x}\, d_1(y), \qquad
        \Sigma' = \Sigma + \Sigma_{\cdot x}\, d_2(y)\, \Sigma_{x \cdot}

    with the derivatives of :math:`\log \int p(y|f) N(f | m_x, \Sigma_{xx}) df` in :math:`m_x`. With Gaussian noise it
    is what a fit with that case says. Otherwise the sites of the other cases would answer a little.

    Parameters
    ----------
    idata : InferenceData, DataTree or Process
        What `fit` returned. Over an average the settings are weighed anew by each label.
    candidates : (m, d) array_like
        Inputs that may be asked for, as those of `predict`.
    at : (r, d) array_like, optional
        Where the posterior is to be known; by default at the candidates.
    offset, trials : (m,) array_like, optional
        Of the candidates, as for `predict`.

    Returns
    -------
    LookAhead
        Outcomes, their probabilities, and means and variances after each.

    Raises
    ------
    ValueError
        If inputs do not fit those of the fit, or are more than 5000.
    UndefinedQuantityError
        If the fit has several classes, or measurements without Gaussian noise.

    Notes
    -----
    O(n^2) for each input, and O(K m r).

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> bgp.design.look_ahead(idata, [[0.0]], [[0.0], [1.0]]).mean[:, 0].round(2)
    array([[-0.18,  1.45],
           [ 0.18,  1.59]])
    """
    at = candidates if at is None else at
    beliefs, m = beliefs_of(idata, candidates, at, joint=True, offset=offset, trials=trials)
    outcomes = outcomes_of(beliefs, m)
    p = np.array([each.weight * outcomes.probabilities(each) for each in beliefs])
    total = p.sum(axis=0)
    share = (p / total)[..., None]
    means, variances = zip(*(after(each, outcomes) for each in beliefs), strict=True)
    mean = np.sum(share * np.array(means), axis=0)
    variance = np.sum(share * (np.array(variances) + (np.array(means) - mean) ** 2), axis=0)
    return LookAhead(outcomes.t, total, mean, variance)


def after(belief: Belief, outcomes: Outcomes) -> tuple[Array, Array]:
    """Return means and variances ``(K, m, r)`` at the reference inputs after each outcome of each candidate."""
    assert belief.covariance is not None
    m, shape = outcomes.step.size, outcomes.t.shape
    mean, variance = (np.broadcast_to(each, shape) for each in belief.of_candidates(m))
    _, d1, d2 = belief.likelihood.log_partition(outcomes.t, mean, variance)
    s = belief.covariance[:m, m:]
    later = belief.variance[m:] + d2[..., None] * s**2
    return belief.mean[m:] + d1[..., None] * s, np.maximum(later, 0.0)  # rounding, of a value that is known now
