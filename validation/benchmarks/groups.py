"""A PyMC model with a smooth field and groups: labels with the field integrated out, beside pm.gp.HSGP and `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import Surrogate
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Listing, Result
from validation.reporting.checks import Check, at_least, at_most

N, GROUPS, SEED = 200, 8, 1
DRAWS, NODES = 800, 2000
BASIS, BOUNDARY, CAREFUL = 30, 1.5, 0.99
"""Basis functions of HSGP, how far beyond the inputs they reach, and the acceptance at which none of it diverges."""
LENGTHSCALE, SCALE = "length scale", "scale"
LEVELS, SLOPES = "sd of levels", "sd of slopes"
COMPARED = (LENGTHSCALE, SCALE, LEVELS, SLOPES)
MARGINAL, COVARIANCE, FIT = "Marginal, 22 parameters", "Marginal, groups in the covariance", "fit, surrogate"
HSGP, HSGP_CAREFUL = "HSGP", f"HSGP, target_accept {CAREFUL:g}"
REMARK = (
    f"{N} labels with a probit: a field on a line, whose length scale is LogNormal(0.5, 0.5) and scale HalfNormal(2), "
    f"and for each of {GROUPS} groups a level and a slope, normal about N(0, 1) with standard deviations "
    f"HalfNormal(1). Two chains of {DRAWS} draws after as many to tune, in one process; seconds are of the processor, "
    "with compilation. Effective draws are the fewest, and r-hat the largest, of all that is sampled. Where the groups "
    f"are in the covariance four parameters are. HSGP has {BASIS} basis functions and c = {BOUNDARY:g}. The surrogate "
    f"has {NODES} nodes: it is no chain, and effective draws are those of its weights. Right: posterior means and "
    "standard deviations."
)


class Table(NamedTuple):
    """Places on a line, a covariate and the number of the group, ``(n, 3)``, and labels 0/1 ``(n,)``."""

    X: Array
    y: Array


class Sampled(NamedTuple):
    """What a way took and found: seconds, divergences, the largest r-hat, the fewest effective draws, the posterior."""

    seconds: float
    divergences: int
    r_hat: float
    effective: float
    posterior: xr.Dataset

    @property
    def rate(self) -> float:
        """Effective draws a second."""
        return self.effective / self.seconds


def drawn(n: int = N) -> Table:
    """Return labels from the model."""
    rng = np.random.default_rng(SEED)
    group, slope_of, place = rng.integers(GROUPS, size=n), rng.normal(size=n), np.sort(rng.uniform(0.0, 10.0, n))
    level, slope = rng.normal(0.3, 0.7, GROUPS), rng.normal(0.8, 0.5, GROUPS)
    f = 1.2 * np.sin(place) + level[group] + slope[group] * slope_of
    return Table(np.column_stack([place, slope_of, group]), (f + rng.normal(size=n) > 0).astype(np.int64))


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Sample in each way, and hold ours against HSGP."""
    table, found = drawn(), {}
    for name, way in ways().items():
        found[name] = way(table)
        advance(name)
    yield listing(found)
    yield Goals("What was asked of the model with groups", goals(found))


def ways(draws: int = DRAWS, nodes: int = NODES) -> dict[str, Callable[[Table], Sampled]]:
    """Return what samples the model, by name."""
    return {
        MARGINAL: partial(sampled, in_the_mean, draws),
        COVARIANCE: partial(sampled, in_the_covariance, draws),
        HSGP: partial(sampled, by_basis, draws),
        HSGP_CAREFUL: partial(sampled, by_basis, draws, target_accept=CAREFUL),
        FIT: partial(by_fit, nodes),
    }


def sampled(build: Callable[[Table], Any], draws: int, table: Table, **options: Any) -> Sampled:
    """Return what PyMC's sampler makes of a model."""
    import pymc as pm

    started = time.process_time()
    usual = {"chains": 2, "cores": 1, "random_seed": SEED, "progressbar": False, "compute_convergence_checks": False}
    with build(table):
        idata = pm.sample(draws, tune=draws, **usual, **options)
    seconds = time.process_time() - started
    posterior = get_group(idata, "posterior")
    own = posterior[[name for name in posterior.data_vars if not str(name).startswith("_")]]
    fewest = min(float(each.min()) for each in az.ess(own).data_vars.values())
    diverging = int(get_group(idata, "sample_stats")["diverging"].sum())
    return Sampled(seconds, diverging, largest_r_hat(own), fewest, own)


def largest_r_hat(posterior: xr.Dataset) -> float:
    """Return the largest r-hat of all variables."""
    return max(float(each.max()) for each in az.rhat(posterior).data_vars.values())


def field() -> tuple[Any, Any]:
    """Return the length scale and the scale of the field, as variables of the model in context."""
    import pymc as pm

    return pm.LogNormal(LENGTHSCALE, 0.5, 0.5), pm.HalfNormal(SCALE, 2.0)


def groups() -> Callable[[Any], Any]:
    """Return the sum of levels and slopes as a function of the inputs, of variables of the model in context."""
    import pymc as pm
    import pytensor.tensor as pt

    level, slope = pm.Normal("level", 0.0, 1.0), pm.Normal("slope", 0.0, 1.0)
    of_levels, of_slopes = pm.HalfNormal(LEVELS, 1.0), pm.HalfNormal(SLOPES, 1.0)
    levels, slopes = pm.Normal("levels", shape=GROUPS), pm.Normal("slopes", shape=GROUPS)

    def mean(X: Any) -> Any:
        group = pt.cast(X[:, 2], "int64")
        return level + of_levels * levels[group] + (slope + of_slopes * slopes[group]) * X[:, 1]

    return mean


def in_the_mean(table: Table) -> Any:
    """Return the model with levels and slopes as variables, and the field integrated out."""
    import pymc as pm

    with pm.Model() as model:
        lengthscale, scale = field()
        cov_func = scale**2 * pm.gp.cov.ExpQuad(3, ls=lengthscale, active_dims=[0])
        bgp.pymc.Marginal(cov_func, mean_func=groups()).marginal_likelihood("y", *table)
    return model


def in_the_covariance(table: Table) -> Any:
    """Return the same with levels and slopes integrated out too: Gaussian variables are a part of the covariance."""
    import pymc as pm

    with pm.Model() as model:
        lengthscale, scale = field()
        variances = pm.HalfNormal(LEVELS, 1.0) ** 2, pm.HalfNormal(SLOPES, 1.0) ** 2
        tensors = dict(zip(free(), (lengthscale, scale**2, *variances), strict=True))
        cov_func = bgp.pymc.kernel_to_pymc(kernel(), **tensors)
        bgp.pymc.Marginal(cov_func).marginal_likelihood("y", *table)
    return model


def kernel() -> Any:
    """Return the covariance of field, common level and slope, and those of the groups."""
    k = bgp.kernels
    of_group, along = k.Categorical(1.0, columns=2), k.Linear(1.0, columns=1)
    return k.Gaussian(1.0, 1.0, columns=0) + k.Bias(1.0) + along + of_group + of_group * along


def free() -> tuple[str, ...]:
    """Return the names of its parameters that are random, in the order of `COMPARED`."""
    return "gaussian_lengthscale", "gaussian_variance", "categorical1_variance", "categorical2_variance"


def by_basis(table: Table) -> Any:
    """Return the model with the field on basis functions."""
    import pymc as pm

    with pm.Model() as model:
        lengthscale, scale = field()
        gp = pm.gp.HSGP(m=[BASIS], c=BOUNDARY, cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=lengthscale))
        f = gp.prior("_field", table.X[:, :1]) + groups()(table.X)
        pm.Bernoulli("y", p=pm.math.invprobit(f), observed=table.y)
    return model


def by_fit(nodes: int, table: Table) -> Sampled:
    """Return what `fit` finds with the same priors: the square of a half-normal variable is a Gamma variable."""
    import pymc as pm

    started = time.process_time()
    of_scale, of_groups = pm.Gamma.dist(0.5, 1.0 / 8.0), pm.Gamma.dist(0.5, 0.5)
    priors = dict(zip(free(), (pm.LogNormal.dist(0.5, 0.5), of_scale, of_groups, of_groups), strict=True))
    fixed = [name for name in kernel().params if name not in priors]
    options = {"hyper": Surrogate(nodes=nodes), "priors": priors, "fixed": fixed}
    idata = bgp.fit(*table, kernel(), **options, draws=nodes, chains=2, random_seed=SEED, progress=False)
    seconds, said = time.process_time() - started, idata["fit"]
    values = dict(zip(COMPARED, (idata["posterior"][name] for name in free()), strict=True))
    own = xr.Dataset({name: each if name == LENGTHSCALE else np.sqrt(each) for name, each in values.items()})
    return Sampled(seconds, 0, largest_r_hat(own), float(said["hyper_ess"]), own)


def listing(found: Mapping[str, Sampled]) -> Listing:
    """Return the table."""
    rows, numbers = [], []
    for name, each in found.items():
        about = {what: (float(each.posterior[what].mean()), float(each.posterior[what].std())) for what in COMPARED}
        cells = (f"{mean:.2f} ± {sd:.2f}" for mean, sd in about.values())
        counted = f"{each.divergences}", f"{each.r_hat:.3f}", f"{each.effective:.0f}", f"{each.rate:.1f}"
        rows.append((name, f"{each.seconds:.1f}", *counted, *cells))
        measured = {"seconds": each.seconds, "divergences": each.divergences, "r_hat": each.r_hat}
        numbers.append({"name": name, **measured, "effective": each.effective, "posterior": about})
    header = ("", "s", "Divergences", "r-hat", "Effective", "a second", *COMPARED)
    title = f"A field and {GROUPS} groups in PyMC, n = {N}"
    return Listing(title, header, tuple(rows), numbers, (REMARK,))


def goals(found: Mapping[str, Sampled]) -> list[Check]:
    """Return what was asked: of the model with 22 parameters, and of the same posterior in any of our ways."""
    most = max(found[name].rate for name in (HSGP, HSGP_CAREFUL))
    made = []
    for name in (MARGINAL, COVARIANCE, FIT):
        each = found[name]
        made += [
            at_most(f"{name}: time", each.seconds, 40.0, "s"),
            at_most(f"{name}: divergences", float(each.divergences), 0.0, "draws"),
            at_least(f"{name}: effective draws a second, over HSGP's", each.rate / most, 1.0, "times"),
            at_most(f"{name}: r-hat", each.r_hat, 1.01, ""),
        ]
    return made
