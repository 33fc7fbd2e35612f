"""A model that draws data: hyperparameters from their priors, latent values from the process, targets from those.

That is what it says before there are data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import as_generator, as_mapping, check_flags, check_integers
from bayesgp_mf.container.draws import as_stored
from bayesgp_mf.container.groups import Container, make_container, set_group
from bayesgp_mf.container.layout import SAMPLE_DIMS, TABLE, Layout, common_attrs
from bayesgp_mf.container.read import check_priors, fit_group, from_container
from bayesgp_mf.container.stored import describe_likelihood, priors_of
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.fitting import Seed
from bayesgp_mf.hyper import Prior, Target
from bayesgp_mf.hyper.priors import LogNormal, quantiles
from bayesgp_mf.hyper.target import Model, all_names, check_known, with_own_priors
from bayesgp_mf.inference.problem import check_gram
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inputs.frames import as_pandas, kind_of, row_labels
from bayesgp_mf.inputs.groups import as_inputs_of
from bayesgp_mf.inputs.options import as_kernel, as_likelihood, as_names, check_model
from bayesgp_mf.inputs.tables import as_offset, check_all_same_cases, check_here, feature_names
from bayesgp_mf.kernels import Kernel, is_built_in
from bayesgp_mf.kernels.given_slopes import check_without_slopes
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.matrices.memory import check_draws, check_memory
from bayesgp_mf.methods import get_method
from bayesgp_mf.names import naming_absent
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array

LARGEST_LOG = 700.0
"""Of a parameter's logarithm: beyond it there are no numbers."""
LABELS = ("0", "1")
"""The names of two classes before there are labels."""


@dataclass(frozen=True, eq=False)
class Generative:
    """A model at inputs, of which hyperparameters, latent values and targets can be drawn.

    Parameters
    ----------
    X : (n, d) array
        Inputs.
    kernel, likelihood : Kernel, Likelihood
        With their parameters as they are where they have no prior.
    priors, bounds : mapping
        By name of a parameter, as `fit` takes them. A parameter with bounds and no prior is uniform in its logarithm.
    fixed : collection of str
        Names of parameters that keep their values.
    layout : Layout
        Names of inputs, cases and classes.
    table : str
        The kind of table that the inputs came in.

    Raises
    ------
    ValueError
        What `Target` raises.
    """

    X: Array
    kernel: Kernel
    likelihood: Likelihood
    priors: Mapping[str, Prior]
    bounds: Mapping[str, tuple[float, float]]
    fixed: Collection[str]
    layout: Layout
    table: str = "numpy"

    @cached_property
    def random(self) -> Target | None:
        """What is known of the parameters that have priors or bounds; None if there are none."""
        if not self.priors and not self.bounds:
            return None
        named = {*self.priors, *self.bounds}
        kept = {*all_names(self.kernel, self.likelihood)} - named | set(self.fixed)
        solver, nothing = get_method("tap", self.likelihood), np.zeros(len(self.X))
        return Target(self.X, nothing, self.likelihood, self.kernel, solver, Control(), self.priors, self.bounds, kept)

    def models(self, count: int, rng: np.random.Generator) -> list[Model]:
        """Draw kernels and likelihoods from the priors of their parameters; the same one where none is random."""
        target = self.random
        if target is None:
            return [Model.of(self.kernel, self.likelihood)] * count
        levels = rng.random((count, target.start.size))
        log_free = np.empty(levels.shape)
        for name in dict.fromkeys(target.owners.tolist()):
            own, prior = target.owners == name, target.priors.get(name)
            low, high = target.lower[own], target.upper[own]
            if prior is None:
                log_free[:, own] = low + levels[:, own] * (high - low)
                continue
            of_each = levels[:, own]
            if isinstance(prior, LogNormal) and prior.common:
                of_each = prior.levels(of_each, rng.random(count))
            log_free[:, own] = quantiles(prior, of_each, target.start[own], low, high)
        if not np.all(np.abs(log_free) < LARGEST_LOG):
            beyond = target.names[int(np.argmax(np.abs(log_free).max(axis=0)))]
            raise ValueError(
                f"priors of {beyond} draw values beyond exp(+-{LARGEST_LOG:g}), where numbers end. Give a narrower one."
            )
        return [target.model_at(each) for each in log_free]

    def latent(self, kernel: Kernel, count: int, rng: np.random.Generator) -> Array:
        """Draw latent values ``(count, n)``, or ``(count, n, C)``, from the process of a kernel."""
        roots = self._own_roots if kernel is self.kernel else self._roots(kernel)
        n_classes = self.likelihood.n_classes
        each = roots * (n_classes or 1) if len(roots) == 1 else roots
        # as many numbers whatever the rank, which may differ by the processor's rounding
        drawn = [rng.standard_normal((count, len(root)))[:, : root.shape[1]] @ root.T for root in each]
        return drawn[0] if n_classes is None else np.stack(drawn, axis=-1)

    @cached_property
    def _own_roots(self) -> list[Array]:  # of a kernel that is not random, of which many data sets are drawn
        return self._roots(self.kernel)

    def _roots(self, kernel: Kernel) -> list[Array]:
        check_memory(len(self.X))
        with np.errstate(over="ignore", invalid="ignore"):
            grams = kernel.gram(self.X)
        for gram in (each := grams if grams.ndim == 3 else [grams]):
            check_gram(gram, covariance=is_built_in(kernel))
        return [psd_root(np.asfortranarray(gram)) for gram in each]

    def draw(
        self, models: list[Model], rng: np.random.Generator, *, progress: bool = False
    ) -> tuple[Array, NDArray[Any]]:
        """Draw latent values ``(k, n)``, or ``(k, n, C)``, and targets ``(k, n)``, one of each for each model."""
        if all(model is models[0] for model in models):
            f = self.latent(models[0].kernel, len(models), rng)
            return f, np.asarray(models[0].likelihood.sample(f, rng))
        drawn = list[Array]()
        with progress_bar("drawing from the prior", len(models), enabled=progress) as advance:
            for model in models:
                drawn.append(self.latent(model.kernel, 1, rng))
                advance("")
        sampled = [model.likelihood.sample(f, rng) for model, f in zip(models, drawn, strict=True)]
        return np.concatenate(drawn), np.concatenate(sampled)


def generative(
    X: Any,
    kernel: Any,
    likelihood: Likelihood,
    priors: Mapping[str, Prior] | None,
    bounds: Mapping[str, tuple[float, float]] | None,
    fixed: Collection[str],
    offset: ArrayLike | None,
) -> Generative:
    """Return the model that a user describes, of which nothing is drawn yet, or raise a ValueError."""
    check_here(X, None)
    table, likelihood = as_pandas("X", X), as_likelihood(likelihood)
    features, labels = feature_names("X", table), row_labels("X", table)
    check_all_same_cases(X=table, offset=offset)
    kernel = as_kernel(kernel, tuned=True).with_column_names(features)
    inputs, kernel = as_inputs_of(kernel, table)
    if likelihood.has_classes and likelihood.classes is None:
        name = type(likelihood).__name__
        raise UndefinedQuantityError(
            f"{name} does not know its classes before there are labels. Name them: {name}(classes=('a', 'b', 'c'))."
        )
    names = LABELS if likelihood.is_binary else tuple(str(label) for label in likelihood.classes or ())
    describe_likelihood(likelihood)
    check_model(kernel, inputs, likelihood)
    likelihood = by_case(likelihood, as_offset(offset, table, len(inputs)), None)
    layout = Layout(len(inputs), features or np.arange(inputs.shape[1]), names, labels=labels)
    kept, limits = as_names("fixed", fixed), as_mapping("bounds", bounds)
    check_known("fixed", sorted(kept), all_names(kernel, likelihood))
    return Generative(
        inputs, kernel, likelihood, with_own_priors(kernel, priors, kept), limits, kept, layout, kind_of(X)
    )


def as_container(given: Any) -> Container | None:
    """Return what is a container of ArviZ, and None for inputs."""
    is_one = hasattr(given, "groups") and hasattr(given, "to_dict") and not hasattr(given, "dtypes")
    container: Container | None = given if is_one else None
    return container


def generative_of(
    idata: Container,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    priors: Mapping[str, Prior] | None = None,
) -> Generative:
    """Return the model of a fit, with the priors under which its hyperparameters were chosen.

    ``kernel``, ``likelihood`` and ``priors`` are those that the container does not hold; priors replace its own too.
    """
    fit = fit_group(idata)
    check_has_cases(fit, "model at the inputs of the cases")
    part = from_container(idata, kernel, likelihood).parts[0]
    check_without_slopes(part.kernel)
    check_priors(priors, part)
    layout, table, known = Layout.of(idata), fit.attrs.get(TABLE, "numpy"), priors_of(fit, priors, part.kernel)
    return Generative(part.X, part.kernel, part.problem.likelihood, layout=layout, table=table, **known)


FEWER_DRAWS = "Ask for fewer: prior_predictive(..., draws=...)."


@naming_absent()
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
    progress: bool = True,
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
    progress : bool
        Show a progress bar if it takes longer than a second.

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
    check_integers(1, draws=draws)
    check_flags(progress=progress)
    rng, idata = as_generator(random_seed), as_container(X)
    if idata is None:
        model = generative(X, kernel, likelihood or Probit(), priors, bounds, fixed, offset)
    else:
        for name, given in (("bounds", bounds), ("fixed", as_names("fixed", fixed) or None), ("offset", offset)):
            if given is not None:
                raise ValueError(f"{name} is that of the fit, where prior_predictive is asked of one. Leave it out.")
        model = generative_of(idata, kernel, likelihood, priors)
    check_draws(int(draws), len(model.X) * (model.likelihood.n_classes or 1), "training", FEWER_DRAWS)
    with one_thread_if_small(len(model.X)):
        models = model.models(int(draws), rng)
        f, y = model.draw(models, rng, progress=progress)
    layout = replace(model.layout, sizes=(1, int(draws)))
    random = () if model.random is None else dict.fromkeys(model.random.owners.tolist())
    each = {name: np.array([one.params[name] for one in models])[None] for name in random}
    variables = {name: layout.parameter(name, values, SAMPLE_DIMS) for name, values in each.items()}
    groups = {
        "prior": xr.Dataset({**variables, "f": layout.variable("f", f[None], SAMPLE_DIMS)}),
        "prior_predictive": xr.Dataset({"y": layout.targets(as_stored(model.likelihood, y[None]), SAMPLE_DIMS)}),
    }
    groups = {name: group.assign_attrs(common_attrs()) for name, group in groups.items()}
    if idata is not None:
        for name, group in groups.items():
            set_group(idata, name, group)
        return idata
    each_case = {"X": model.X, **model.likelihood.stored_by_case}
    known = {name: layout.variable(name, values) for name, values in each_case.items()}
    return make_container({**groups, "constant_data": xr.Dataset(known, attrs=common_attrs() | {TABLE: model.table})})
