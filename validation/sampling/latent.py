r"""The reference: the same latent Gaussian process, sampled by PyMC at fixed hyperparameters.

The prior f ~ N(0, K) is written as f = A z with A A' = K and z ~ N(0, I), where A (n, r) comes from the
pivoted Cholesky factorisation `psd_root`: K may be singular and is never inverted.

Predictions. At a new case, f* and z are jointly Gaussian with cov(f, f*) = A cov(z, f*), so that
c = cov(z, f*) solves A c = k*, with k* = k(X, x*). A has full column rank r, hence c is unique and least
squares finds it. Nothing remains: k* lies in the range of K, since k(x*, x*) - k*' K^+ k* is a variance; and
the part of f that the factorisation left out, with variances below n eps max(K_ii), has a covariance with f* of
at most sqrt(n eps) prior variances, about 1e-7 of them. Since z is white,

.. math:: f^* | z \sim N\!\left(c^T z,\; k(x^*, x^*) - c^T c\right).

Given f the same holds, since f determines z. The probability of class 1 is therefore averaged over draws after
f* has been integrated out (Rao-Blackwell): mean over draws of Phi(c'z / sqrt(k** - c'c + v)).
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesgp_mf.container.groups import get_group, group_names, set_group
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.diagnostics.importance import mean_and_error
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Probit
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.types import Array
from validation.sampling.chain import default_sampler, fast_sampling

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

TIME_ATTRIBUTES = {"created_at", "sampling_time"}
TIME_VARIABLES = {"perf_counter_diff", "perf_counter_start", "process_time_diff"}
"""Where PyMC and ArviZ write times of day and of work."""
ROUNDING = 1e-8
"""A conditional variance may fall below zero by this part of the prior variance."""


def latent_model(root: Array, t: Array, likelihood: Probit) -> pm.Model:
    """Return the PyMC model of labels under a probit GP with whitened latent values.

    Parameters
    ----------
    root : (n, r) array
        A, with A A' the Gram matrix.
    t : (n,) array
        Labels -1/+1.
    likelihood : Probit
        With positive noise variance and without label flips.

    Returns
    -------
    pymc.Model
        z ``(r,)``, f = A z ``(n,)``, and y ``(n,)`` observed as 0/1, with log p(y|f) = log Phi(t f / sqrt(v)).
    """
    if likelihood.flip != 0.0 or likelihood.noise_variance == 0.0:
        raise ValueError(f"the reference samples a Probit without flips and with noise_variance > 0, got {likelihood}.")
    scale = np.sqrt(likelihood.noise_variance)

    def log_prob(value: Any, f: Any) -> Any:
        # PyMC's normal log-cdf goes through erfcx in the lower tail: good far out, unlike log(Phi). Its sqrt(2) is
        # of single precision, which makes a relative error of 1e-8 in its argument.
        return pm.logcdf(pm.Normal.dist(), (2.0 * value - 1.0) * f / scale)

    n, rank = root.shape
    with pm.Model(coords={"obs_id": np.arange(n), "component": np.arange(rank)}) as model:
        z = pm.Normal("z", dims="component")
        f = pm.Deterministic("f", root @ z, dims="obs_id")
        pm.CustomDist("y", f, logp=log_prob, observed=(t > 0).astype(np.float64), dims="obs_id")
    return model


def sample_latent(
    gram: Array,
    t: Array,
    likelihood: Probit,
    *,
    draws: int = 2500,
    tune: int = 1000,
    chains: int = 4,
    cores: int = 2,
    random_seed: int = 1,
    sampler: str | None = None,
) -> Container:
    """Draw from the exact posterior of the latent values by NUTS.

    Parameters
    ----------
    gram : (n, n) array
        Gram matrix, positive semi-definite.
    t : (n,) array
        Labels -1/+1.
    likelihood : Probit
        With positive noise variance and without label flips.
    draws, tune, chains, cores : int
        Kept draws and tuning steps of each chain, chains, and how many run at once.
    random_seed : int
        Seed of the sampler.
    sampler : {"nutpie", "pymc"}, optional
        Which NUTS; `default_sampler` by default.

    Returns
    -------
    InferenceData or DataTree
        What ``pm.sample`` returned (z, f), with the group ``log_likelihood`` (y).
    """
    model = latent_model(psd_root(gram), t, likelihood)
    progress = sys.stderr.isatty()
    with model, fast_sampling():
        # about speed, and one matrix-vector product of this size does not suffer
        warnings.filterwarnings("ignore", message=r"np\.dot\(\) is faster on contiguous arrays")
        samples = pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=random_seed,
            nuts_sampler=sampler or default_sampler(),
            progressbar=progress,
        )
        return pm.compute_log_likelihood(samples, progressbar=progress)


def without_times(samples: Container) -> Container:
    """Remove when and how fast draws were made from a container, and return it: the rest is the same for a seed."""
    for name in group_names(samples):
        group = samples[name]
        for attribute in TIME_ATTRIBUTES & set(group.attrs):
            del group.attrs[attribute]
        for variable in TIME_VARIABLES & set(group.data_vars):
            del group[variable]
    return samples


def conditional(root: Array, cross: Array, prior_variance: Array) -> tuple[Array, Array]:
    """Return the weights and the variance of new latent values given the whitened ones.

    Parameters
    ----------
    root : (n, r) array
        A, of full column rank, with A A' the Gram matrix of the training cases.
    cross : (n, m) array
        Prior covariance of training and new cases.
    prior_variance : (m,) array
        Prior variance of the new cases.

    Returns
    -------
    weights : (r, m) array
        C with A C = cross: the mean given z is C' z.
    variance : (m,) array
        ``prior_variance`` less the squared length of each column of C.
    """
    weights, _, rank, _ = np.linalg.lstsq(root, cross, rcond=None)
    if rank < root.shape[1]:
        raise ArithmeticError(f"A has {root.shape[1]} columns but numerical rank {rank}; its weights are not unique.")
    variance = prior_variance - np.sum(weights**2, axis=0)
    if np.any(variance < -ROUNDING * prior_variance):
        raise ArithmeticError(f"a conditional variance came out as {variance.min():.3g}, below zero beyond rounding.")
    return np.asarray(weights), np.asarray(np.maximum(variance, 0.0))


def add_predictions(samples: Container, kernel: Kernel, X: Array, X_new: Array, likelihood: Probit) -> Container:
    """Add the group ``predictions`` to samples: for each new case the probability of class 1.

    Parameters
    ----------
    samples : InferenceData or DataTree
        What `sample_latent` returned for the Gram matrix of ``X``; changed in place.
    kernel : Kernel
        That gave the Gram matrix.
    X, X_new : (n, d) and (m, d) array
        Training inputs and new inputs.
    likelihood : Probit
        The one that was sampled.

    Returns
    -------
    InferenceData or DataTree
        ``samples`` with p, its Monte-Carlo standard error ``p_mcse`` and its effective number of draws
        ``p_ess``, each ``(m,)``.
    """
    weights, variance = conditional(psd_root(kernel.gram(X)), kernel.cross(X, X_new), kernel.diag(X_new))
    mean = get_group(samples, "posterior")["z"].values @ weights  # (chain, draw, m)
    p = xr.DataArray(likelihood.predict_proba(mean, variance), dims=(*SAMPLE_DIMS, "obs_id"))
    average, error, effective = mean_and_error(p)
    dataset = xr.Dataset({"p": ("obs_id", average), "p_mcse": ("obs_id", error), "p_ess": ("obs_id", effective)})
    set_group(samples, "predictions", dataset.assign_coords(obs_id=np.arange(X_new.shape[0])))
    return samples
