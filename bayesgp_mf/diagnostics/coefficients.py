"""The linear part of a fit, as a regression has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayesgp_mf.container.groups import Container
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.kernels import Bias, Linear, Sum


def coefficients(idata: Container, **given: Any) -> pd.DataFrame:
    r"""Return the coefficients of the linear part of a fit: of the terms `Linear` and `Bias` of its kernel.

    The linear part is a function of its own, :math:`\sum_l w_l x_l + w_0`, and w is its value at unit inputs. The other
    terms are the rest of the latent function; what both could explain is shared as their prior variances say.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    **given
        ``kernel``, ``likelihood`` and ``method``, as for `predict`, if the container does not hold them.

    Returns
    -------
    pandas.DataFrame
        Posterior ``mean`` and ``sd`` of each coefficient, in units of f for a unit of the input, and of ``intercept``.

    Raises
    ------
    ValueError
        If the kernel has no `Linear` term.
    UndefinedQuantityError
        If a case has several latent values.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [4.0, 1.0, 2.0, 3.0]})
    >>> kernel = bgp.kernels.Linear() + bgp.kernels.Bias(9.0)
    >>> idata = bgp.fit(X, [1.0, 3.0, 5.1, 7.0], kernel, bgp.likelihoods.Gaussian(0.01), method="exact", random_seed=1)
    >>> bgp.diagnostics.coefficients(idata).round(2)
               mean    sd
    dose       2.00  0.05
    age       -0.01  0.05
    intercept  1.04  0.15
    """
    fit = fitted(idata, **given)
    if fit.likelihood.has_classes:
        raise UndefinedQuantityError("each class has a latent function of its own. Look at partial_dependence.")
    d, each, rows = len(fit.names), [], list[int]()
    at = np.eye(d + 1)[:, :d]  # inputs at which a linear function has its coefficients; in the last row a constant
    for part in fit.process.parts:
        one: Any = part
        rows, moments = [], []
        for term in one.kernel.terms if isinstance(one.kernel, Sum) else [one.kernel]:
            if isinstance(term, Linear | Bias):
                reads: Any = getattr(term, "columns", None)  # by their places, as in every fit
                columns = [d] if isinstance(term, Bias) else list(range(d) if reads is None else reads)
                moments.append(np.array(replace(one, kernel=term, mean=None).latent_at(at[columns])))
                rows += columns
        if min(rows, default=d) == d:
            raise ValueError(f"the kernel has no Linear term: {one.kernel!r}. Look at partial_dependence.")
        each.append(np.concatenate(moments, axis=1))
    means, variances = np.array(each).transpose(1, 0, 2)
    mean = fit.process.weights @ means
    sd = np.sqrt(fit.process.weights @ (variances + (means - mean) ** 2))
    return pd.DataFrame({"mean": mean, "sd": sd}, index=[[*fit.names, "intercept"][row] for row in rows])
