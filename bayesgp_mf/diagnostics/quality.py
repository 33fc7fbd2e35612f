"""How good a fit is, in one table and one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.container.layout import CASES
from bayesgp_mf.container.parts import is_in_parts
from bayesgp_mf.container.quality import Quality, quality_of_fit
from bayesgp_mf.container.read import fit_group, has_random_kernels
from bayesgp_mf.diagnostics.importance import importance
from bayesgp_mf.hyper.pareto import FEWEST_WEIGHTS

MOST_VALUES = 10**7
"""Drawn latent values up to which they are weighed as well, in less than a second."""


def quality(idata: Container) -> Quality:
    r"""Say how far the numbers of a fit can be trusted, and what to do if that is not enough.

    It uses the second-order correction of TAP's log evidence with the size of what that leaves out [1]_, the Pareto
    k-hat of the draws, and how well the equations are solved.

    The error of predictive probabilities is measured at the training inputs where TAP is worst. For labels it is 0.002
    plus 1.25 times what the correction changes there; for counts and levels, 1.25 times the largest change of a
    cumulative probability when the tilted distribution of the latent value takes the place of its Gaussian. With more
    than 4000 cases, label flips or outliers it is estimated instead, as :math:`\min(12 x, 0.6 \sqrt x)` and at least
    0.005, with :math:`x = (|\text{correction}| + \text{remaining}) / n`. Both rules are calibrated against exact
    probabilities. They are no bounds.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.

    Returns
    -------
    Quality
        The numbers, the ``verdict`` in one word, and a ``sentence``; ``print`` shows them. ``good``: the log evidence
        is within 0.1 nats without its correction, and probabilities within 0.02; ``off``: beyond 0.25 nats or 0.05;
        ``fair``: between them. ``exact``; ``unsolved``; and ``unknown`` if the method does not estimate its error.

    Raises
    ------
    ValueError
        If the container was not made by this package.

    Notes
    -----
    The k-hat is left out beyond 10 million drawn values; `importance` has it.

    The verdict is about the solution that was found. Under `StudentT`, which is not log-concave, the posterior may have
    a second mode where two targets contradict each other; then k-hat is above 0.7.

    References
    ----------
    .. [1] Opper, M., Paquet, U., & Winther, O. (2013). Perturbative corrections for approximate inference in Gaussian
       latent variable models. Journal of Machine Learning Research 14, 2857-2898.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), random_seed=1)
    >>> found = bgp.diagnostics.quality(idata)
    >>> found.verdict
    'good'
    >>> step = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(0.5), bgp.Step(), random_seed=1)
    >>> bgp.diagnostics.quality(step).verdict
    'off'
    """
    fit = fit_group(idata)
    if is_in_parts(fit):
        return quality_of_fit(fit, int(fit.attrs[CASES]), in_parts=True)
    found = quality_of_fit(fit, fit.sizes["obs_id"])
    if "sample_stats" not in group_names(idata) or has_random_kernels(fit):
        return found
    stats = get_group(idata, "sample_stats")
    log_weights = (stats["log_p"] - stats["log_q"]).values
    if log_weights.size < FEWEST_WEIGHTS or get_group(idata, "posterior")["f"].size > MOST_VALUES:
        return found
    if not np.any(log_weights > -np.inf):  # each draw contradicts some label
        return replace(found, pareto_k=np.inf)
    return replace(found, pareto_k=importance(idata).pareto_k)
