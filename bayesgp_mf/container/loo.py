"""Leave-one-out results as ArviZ knows them, so that ``az.compare`` takes them beside its own."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from bayesgp_mf.arguments import check_flags
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import Container, LooEstimate, get_group, group_names
from bayesgp_mf.container.layout import LOO_OMITTED, SAMPLE_DIMS
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.stored import kernel_of, likelihood_of, names_of
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.hyper.pareto import FEWEST_WEIGHTS, largest_k, smooth
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

LEAVE_ONE_OUT = "leave_one_out"
"""Group of a container of PyMC, not of one of `fit`: at each draw of the hyperparameters, log p(t_i | the others) and
log p(t_i | all), with the latent values integrated out."""


def loo(
    idata: Container,
    *,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    corrected: bool = False,
) -> LooEstimate:
    """Return the leave-one-out estimate of a fit, as ArviZ's ``ELPDData``, without refitting or sampling.

    The cavity of a case, its posterior given all other cases, is part of the solution (2000, eq. 32 and appendix D).
    The log predictive density of its target under the cavity needs no draws and no importance weights. TAP's cavity is
    Gaussian, which shows at targets that surprise. So the densities that a correction may move most are corrected: each
    is then the ratio of the corrected evidences with and without the case (`solvers.ratio`).

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file; or draws of the hyperparameters of a `pymc.Marginal`, to
        which `pymc.sample_latent` added the densities.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.
    corrected : bool
        Correct the densities of all cases, not only of the 48 that it may move most and of 16 others. For fits by TAP
        of one latent value a case.

    Returns
    -------
    ELPDData
        With pointwise values, for ``az.compare({"a": bgp.loo(a), "b": az.loo(b)})``. The effective number of parameters
        is the sum over cases of log p(t_i | all data) - log p(t_i | the others). At one setting of the hyperparameters
        the attributes of its pointwise values say how many are ``corrected``, and the size of what their sum may be off
        by, ``sum_error`` in nats: a tenth of what the corrections changed, what the corrected evidence leaves, and what
        those of the cases that were tried say of the ones that were not. With draws of hyperparameters it also
        has Pareto's k of their importance weights without each case, for ``az.plot_khat``.

    Raises
    ------
    ValueError
        If the container was not made by this package, or ``kernel``, ``likelihood`` or ``method`` is missing, not
        needed, or another than in the fit; or if ``corrected``, and the fit is not by TAP, of two classes (or Gaussian
        targets), at one setting of the hyperparameters, with a dense Gram matrix.
    UndefinedQuantityError
        If there is no posterior without some case (Laplace's approximation beside outliers).

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
    0.8
    """
    check_flags(corrected=corrected)
    if is_of_draws(idata):
        given = {"kernel": kernel, "likelihood": likelihood, "method": method, "corrected": corrected or None}
        if named := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"{named[0]} is for what fit returned, and these are draws of PyMC: leave it out.")
        return _of_draws(get_group(idata, LEAVE_ONE_OUT))
    pointwise = log_densities(idata)
    posterior = from_container(idata, kernel, likelihood, method)
    if corrected:
        pointwise = pointwise.copy(data=posterior.corrected_loo)
    elif (of_worst := posterior.loo_of_worst) is not None:
        pointwise = pointwise.copy(data=of_worst.log_density)
        pointwise.attrs |= {"corrected": int(np.sum(of_worst.corrected)), "sum_error": of_worst.error}
    return _elpd(pointwise, posterior.log_density_at_training)


def is_of_draws(idata: Container) -> bool:
    """Tell whether a container is one of PyMC whose draws of hyperparameters have their leave-one-out densities."""
    return hasattr(idata, "groups") and {LEAVE_ONE_OUT, "fit"} & set(group_names(idata)) == {LEAVE_ONE_OUT}


def observed_targets(idata: Container) -> xr.DataArray:
    """Return the targets that a container is of."""
    name = get_group(idata, LEAVE_ONE_OUT).attrs["observed"] if is_of_draws(idata) else "y"
    return get_group(idata, "observed_data")[name]


def weights_of_cases(idata: Container) -> Array:
    """Return the weights ``(n,)`` of the cases that a container is of, 1 where none were given."""
    given = get_group(idata, LEAVE_ONE_OUT if is_of_draws(idata) else "constant_data")
    return given["weights"].values if "weights" in given else np.ones(observed_targets(idata).size)


def has_probabilities(
    idata: Container, kernel: Any = None, likelihood: Likelihood | None = None, method: Solver | None = None
) -> bool | None:
    """Tell whether targets have probabilities, as labels and counts, or densities; None if draws do not say it."""
    if is_of_draws(idata):
        stated = get_group(idata, LEAVE_ONE_OUT).attrs.get("probabilities")
        return None if stated is None else bool(stated)
    fit = fit_group(idata)
    names = names_of(get_group(idata, "constant_data")["feature"].values)
    return likelihood_of(fit, likelihood, kernel_of(fit, kernel, names)).is_discrete


def _of_draws(densities: xr.Dataset) -> LooEstimate:
    """Return the estimate from densities ``(chain, draw, n)`` at equally probable draws of the hyperparameters.

    As in `Process.loo`, a draw weighs one over the density of the case, without the case.
    """
    without, at_training = (
        densities[name].transpose(*SAMPLE_DIMS, ...) for name in ("log_density", "log_density_at_training")
    )
    each, values = (array.values.reshape(-1, array.shape[-1]) for array in (without, at_training))
    size = np.log(len(each))
    pointwise = without.isel(dict.fromkeys(SAMPLE_DIMS, 0), drop=True).rename("loo_i")
    k_hat = np.array([smooth(-of_case)[1] for of_case in each.T])
    return _elpd(
        pointwise.copy(data=size - logsumexp(-each, axis=0)),
        logsumexp(values, axis=0) - size,
        n_samples=len(each),
        k_hat=pointwise.copy(data=k_hat).rename("pareto_k"),
    )


def _elpd(
    pointwise: xr.DataArray, at_training: Array, *, n_samples: int = 1, k_hat: xr.DataArray | None = None
) -> LooEstimate:
    """Return what the installed ArviZ makes of leave-one-out densities ``(n,)`` and those when all targets are known.

    ``k_hat`` are the shapes of the tails of importance weights, if there are any.
    """
    values, n = pointwise.values, pointwise.size
    se = float(np.sqrt(n * np.var(values)))
    good = largest_k(max(n_samples, FEWEST_WEIGHTS))
    warning = k_hat is not None and bool(np.any(k_hat > good))
    common = {"se": se, "n_samples": n_samples, "n_data_points": n, "warning": warning, "scale": "log"}
    elpd, p = float(values.sum()), float(np.sum(at_training - values))
    made: Any  # which of the two a type checker cannot tell
    if arviz_major() < 1:
        import arviz

        # a pandas Series whose first entry must be the estimate
        entries = {"elpd_loo": elpd, "se": se, "p_loo": p, **common, "loo_i": pointwise}
        entries |= {} if k_hat is None else {"pareto_k": k_hat, "good_k": good}
        made = arviz.ELPDData(data=list(entries.values()), index=list(entries))
    else:
        import arviz_stats

        fields = {"elpd": elpd, "p": p, **common, "good_k": None, "elpd_i": pointwise, "pareto_k": k_hat}
        fields |= {} if k_hat is None else {"good_k": good}
        if hasattr(arviz_stats, "ELPDDataLOO"):  # arviz-stats >= 1.3
            made = arviz_stats.ELPDDataLOO(**fields)
        else:  # before 1.3 the class is common to all kinds and compare() reads pareto_k
            if k_hat is None:
                fields |= {"good_k": 0.7, "pareto_k": pointwise.copy(data=np.full(n, np.nan))}
            made = arviz_stats.ELPDData(kind="loo", **fields)
    estimate: LooEstimate = made
    return estimate


def pointwise_of(estimate: LooEstimate) -> Array:
    """Return the log predictive density ``(n,)`` of each case, by the name that the installed ArviZ has for it."""
    either: Any = estimate
    return np.asarray(either[_pointwise()].values)


def relative_to(estimate: LooEstimate, densities: Array) -> LooEstimate:
    """Return an estimate whose log predictive densities are those of it less others ``(n,)``."""
    made: Any = copy(estimate)
    made[_pointwise()] = made[_pointwise()] - densities
    relative: LooEstimate = made
    return relative


def _pointwise() -> str:
    return "loo_i" if arviz_major() < 1 else "elpd_i"


def log_densities(idata: Container) -> xr.DataArray:
    """Return the leave-one-out log density of each case, or raise an UndefinedQuantityError that says why none is."""
    fit = fit_group(idata)
    check_has_cases(fit, "leave-one-out prediction")
    if LOO_OMITTED in fit.attrs:
        raise UndefinedQuantityError(str(fit.attrs[LOO_OMITTED]))
    return fit["loo_i"]
