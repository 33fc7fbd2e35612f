"""How well new targets were predicted that are numbers: their log predictive densities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.read import from_container
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs import as_offset, as_pandas, as_trials, check_all_same_cases, encode_targets
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.processes.process import with_new_cases
from bayesgp_mf.types import Array


def log_predictive_density(
    idata: Container,
    X_new: ArrayLike,
    y_new: ArrayLike,
    *,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Array:
    r"""Return the log predictive density of new targets that are numbers: measurements, counts, ordered levels.

    .. math:: \log \sum_k w_k \int p(y_j|f)\, N(f | m_{jk}, v_{jk})\, df

    with the posterior at each setting of the hyperparameters. Its mean over held-out cases is a proper score. For
    counts and levels it is the log of a probability. For labels use `mean_log_score` and `class_scores`, with their
    ``p``.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    X_new : (m, d) array_like
        New inputs, in the order and scale of the training inputs.
    y_new : (m,) array_like
        Their targets.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.
    offset, trials : optional
        Of the new cases, as for `predict`.

    Returns
    -------
    (m,) array
        In nats, each target by itself.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or ``X_new``, ``y_new``, ``offset`` or ``trials`` do not fit it.
    UndefinedQuantityError
        If the targets of the fit are labels.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> week, accidents = np.arange(8.0)[:, None], [1, 0, 2, 3, 5, 9, 12, 8]
    >>> idata = bgp.fit(week[:6], accidents[:6], bgp.kernels.Gaussian(3.0, 2.0), bgp.Poisson(), draws=50, random_seed=1)
    >>> bgp.diagnostics.log_predictive_density(idata, week[6:], accidents[6:]).round(1)
    array([-3.1, -2.9])
    """
    process = from_container(idata, kernel, likelihood, method)
    own = process.problem.likelihood.of_one_case
    if not own.is_real:
        raise UndefinedQuantityError(
            f"{type(own).__name__} has labels, which have no density. Use diagnostics.mean_log_score(labels, p), of "
            "several classes class_scores, with the p of predict."
        )
    table = as_pandas("X_new", X_new)
    check_all_same_cases(X_new=table, y_new=y_new, offset=offset, trials=trials)
    X = process.new_inputs(table)
    given = {"offset": as_offset(offset, table, len(X), "X_new"), "trials": as_trials(trials, table, len(X))}
    process = with_new_cases(process, {name: values for name, values in given.items() if values is not None})
    t, _ = encode_targets(y_new, len(X), process.parts[0].new_likelihood)
    each = np.array([part.new_likelihood.log_partition(t, *part.latent_at(X)).value for part in process.parts])
    return np.asarray(logsumexp(each, b=process.weights[:, None], axis=0))
