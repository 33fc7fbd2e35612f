"""Leave-one-out results as ArviZ knows them, so that ``az.compare`` takes them beside its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.layout import LOO_OMITTED
from bayesgp_mf.container.parts import check_has_cases
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.undefined import undefined
from bayesgp_mf.inputs import check_flags
from bayesgp_mf.processes.mixture import with_corrections

if TYPE_CHECKING:
    import xarray as xr

    from bayesgp_mf.container.groups import Container, LooEstimate
    from bayesgp_mf.inference.solver import Solver
    from bayesgp_mf.likelihoods import AnyLikelihood


def loo(
    idata: Container,
    *,
    kernel: Any = None,
    likelihood: AnyLikelihood | None = None,
    method: Solver | None = None,
    corrected: bool = False,
) -> LooEstimate:
    """Return the analytic leave-one-out estimate of a fit as ArviZ's ``ELPDData``.

    It needs no draws and no importance weights: the cavity of each case is its leave-one-out posterior
    (2000, eq. 32 and appendix D), and the log predictive density of its label is in closed form.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.
    corrected : bool
        Correct TAP's densities for most of what its approximation leaves out, as `predict` does: each is then the
        ratio of the evidences with and without the label. For two classes and one setting of the hyperparameters.

    Returns
    -------
    ELPDData
        With the pointwise values; ``az.compare({"a": bgp.loo(a), "b": az.loo(b)})`` works. The effective number
        of parameters is the sum over cases of log p(t_i | all data) - log p(t_i | the others).

    Raises
    ------
    ValueError
        If the container was not made by this package, or one of those is missing, not wanted, or another one; or if
        ``corrected``, and the fit is not by TAP, of two classes (or Gaussian targets), at one setting of the
        hyperparameters, with a dense Gram matrix.
    UndefinedQuantityError
        If the method has no predictive density (a support-vector machine), or there is no posterior without some case
        (Laplace's approximation beside outliers).

    Warns
    -----
    ConvergenceWarning
        If some of the densities could not be corrected.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> round(float(bgp.loo(idata)["se"]), 2)
    0.79
    """
    check_flags(corrected=corrected)
    check_has_cases(fit_group(idata), "leave-one-out prediction")
    posterior = from_container(idata, kernel, likelihood, method)
    solution = posterior.parts[0].solution
    if not solution.has_variance:
        raise undefined(solution.method, "predictive density, whose leave-one-out estimate this is")
    pointwise = pointwise_loo(get_group(idata, "fit"))
    if corrected:
        pointwise = pointwise.copy(data=with_corrections(posterior).corrected_loo)
    values, n = pointwise.values, pointwise.size
    se = float(np.sqrt(n * np.var(values)))
    common = {"se": se, "n_samples": 1, "n_data_points": n, "warning": False, "scale": "log"}
    elpd, p = float(values.sum()), float(np.sum(posterior.log_density_at_training - values))
    made: Any  # which of the two a type checker cannot tell
    if arviz_major() < 1:
        import arviz

        # a pandas Series whose first entry must be the estimate
        entries = {"elpd_loo": elpd, "se": se, "p_loo": p, **common, "loo_i": pointwise}
        made = arviz.ELPDData(data=list(entries.values()), index=list(entries))
    else:
        import arviz_stats

        fields = {"elpd": elpd, "p": p, **common, "good_k": None, "elpd_i": pointwise, "pareto_k": None}
        if hasattr(arviz_stats, "ELPDDataLOO"):  # arviz-stats >= 1.3
            made = arviz_stats.ELPDDataLOO(**fields)
        else:  # before 1.3 the class is common to all kinds and compare() reads pareto_k
            fields |= {"good_k": 0.7, "pareto_k": pointwise.copy(data=np.full(n, np.nan))}
            made = arviz_stats.ELPDData(kind="loo", **fields)
    estimate: LooEstimate = made
    return estimate


def pointwise_loo(fit: xr.Dataset) -> xr.DataArray:
    """Return the leave-one-out log density of each case, or raise an UndefinedQuantityError that says why none is."""
    if LOO_OMITTED in fit.attrs:
        raise UndefinedQuantityError(str(fit.attrs[LOO_OMITTED]))
    return fit["loo_i"]
