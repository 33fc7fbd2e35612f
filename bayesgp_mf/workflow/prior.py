"""What a model says before there are data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import Container, make_container, set_group
from bayesgp_mf.container.layout import SAMPLE_DIMS, TABLE, common_attrs
from bayesgp_mf.fitting import Seed
from bayesgp_mf.hyper import Prior
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.workflow.model import as_container, generative, generative_of

FEWER_DRAWS = "Ask for fewer: prior_predictive(..., draws=...)."


def prior_predictive(
    X: Any,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    *,
    priors: Mapping[str, Prior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Collection[str] = (),
    draws: int = 1000,
    offset: ArrayLike | None = None,
    random_seed: Seed = None,
) -> Container:
    """Draw hyperparameters, latent values and targets from a model, before it has seen any.

    Parameters
    ----------
    X : (n, d) array_like, or InferenceData or DataTree
        Inputs, as `fit` takes them. Or what `fit` returned: then the model is that of the fit, with its priors, and
        the groups are added to it.
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        Prior covariance. Of a fit leave it out, unless the container does not hold it.
    likelihood : Likelihood
        The default is `Probit`. One of several classes must name them, as ``Softmax(classes=("a", "b", "c"))``.
    priors, bounds, fixed
        As in `fit`. A parameter with a prior is drawn from it; one with bounds alone is uniform in its logarithm
        between them; any other keeps its value. Of a fit they are those of the fit, in which `priors` replace some.
    draws : int
        How many, each with hyperparameters of its own.
    offset : (n,) array_like, optional
        As in `fit`.
    random_seed : int, numpy.random.Generator or None
        Source of all randomness.

    Returns
    -------
    InferenceData or DataTree
        With groups ``prior`` (f, and each hyperparameter that is random), ``prior_predictive`` (y) and
        ``constant_data`` (X). There is one chain. Of a fit it is the container itself, changed in place.

    Raises
    ------
    ValueError
        If an argument is invalid.
    UndefinedQuantityError
        If the likelihood cannot draw targets, or has several classes without names.
    MemoryError
        If the draws, or the Gram matrix, would not fit into this machine's memory.

    See Also
    --------
    bayesgp_mf.priors.suggest : Priors from the inputs, and from what a user knows.

    Notes
    -----
    A draw with hyperparameters of its own takes a factorisation of an (n, n) matrix.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> kernel = bgp.kernels.Gaussian(lengthscale=3.0)
    >>> priors = {"variance": bgp.hyper.LogNormal(0.0, 1.0)}
    >>> prior = bgp.prior_predictive(pima.X, kernel, priors=priors, draws=100, random_seed=1)
    >>> share = prior["prior_predictive"]["y"].mean("obs_id")
    >>> share.quantile([0.05, 0.95]).values.round(2)
    array([0.18, 0.83])
    """
    check_positive_integers(draws=draws)
    rng, idata = as_generator(random_seed), as_container(X)
    if idata is None:
        model = generative(X, kernel, likelihood or Probit(), priors, bounds, fixed, offset)
    else:
        for name, given in (("bounds", bounds), ("fixed", tuple(fixed) or None), ("offset", offset)):
            if given is not None:
                raise ValueError(f"{name} is that of the fit, where prior_predictive is asked of one. Leave it out.")
        model = generative_of(idata, kernel, likelihood, priors)
    check_draws(int(draws), len(model.X) * (model.likelihood.n_classes or 1), "training", FEWER_DRAWS)
    with one_thread_if_small(len(model.X)):
        models = model.models(int(draws), rng)
        f, y = model.draw(models, rng)
    layout = replace(model.layout, sizes=(1, int(draws)))
    random = () if model.random is None else dict.fromkeys(model.random.owners.tolist())
    each = {name: np.array([one.params[name] for one in models])[None] for name in random}
    variables = {name: layout.parameter(name, values, SAMPLE_DIMS) for name, values in each.items()}
    groups = {
        "prior": xr.Dataset({**variables, "f": layout.variable("f", f[None], SAMPLE_DIMS)}),
        "prior_predictive": xr.Dataset({"y": layout.targets(y[None], SAMPLE_DIMS)}),
    }
    groups = {name: group.assign_attrs(common_attrs()) for name, group in groups.items()}
    if idata is not None:
        for name, group in groups.items():
            set_group(idata, name, group)
        return idata
    each_case = {"X": model.X, **model.likelihood.stored_by_case}
    known = {name: layout.variable(name, values) for name, values in each_case.items()}
    return make_container({**groups, "constant_data": xr.Dataset(known, attrs=common_attrs() | {TABLE: model.table})})
