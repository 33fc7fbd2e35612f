"""What is known when hyperparameters are chosen: data, method, where to start, and what is allowed.

What is chosen is a model: kernel and likelihood as one thing with parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import as_mapping
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.hyper.forecast import Forecast
from bayesgp_mf.hyper.priors import DEFAULT_SD, LogNormal, Prior, as_prior
from bayesgp_mf.inference.assembly import assemble, assemble_inducing
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import GramGradient, Solver
from bayesgp_mf.inputs.options import as_names
from bayesgp_mf.kernels import Kernel, log_gradient, log_vector, log_vector_names, with_log_vector
from bayesgp_mf.kernels.values import Parametrised
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.types import Array

PREFIX = "likelihood_"
"""Stands before the name of a parameter of the likelihood where the kernel has one of the same name."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A kernel and a likelihood, with the parameters of both under their names.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance.
    likelihood : Likelihood
        p(t | f).
    named : mapping of str to str
        Parameters of the likelihood that belong to the hyperparameters: by the name that they have here, that which
        the likelihood gives them. The others are part of it.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.hyper import Model
    >>> model = Model.of(bgp.kernels.Gaussian(2.0), bgp.likelihoods.Gaussian(0.1))
    >>> list(model.params)
    ['lengthscale', 'variance', 'noise_variance']
    >>> model.replace(noise_variance=0.5).likelihood
    Gaussian(noise_variance=0.5)
    """

    kernel: Kernel
    likelihood: Likelihood
    named: Mapping[str, str]

    @classmethod
    def of(cls, kernel: Kernel, likelihood: Likelihood, also: Collection[str] = ()) -> Model:
        """Return a model with those parameters of the likelihood that are tuned by default, and ``also`` some others.

        One that is zero is switched off, and is none of them unless it is named.
        """
        rules, values = likelihood.tunables, likelihood.parameters
        names = public_names(kernel, likelihood)
        named = {
            name: own for name, own in names.items() if name in also or (rules[own].by_default and values[own] != 0)
        }
        return cls(kernel, likelihood, named)

    @property
    def params(self) -> Mapping[str, Array]:
        """The parameters of the kernel, then those of the likelihood, by name."""
        if not self.named:
            return self.kernel.params
        values = self.likelihood.parameters
        return {**self.kernel.params, **{name: np.asarray(values[own]) for name, own in self.named.items()}}

    def replace(self, **values: Any) -> Model:
        """Return the model with some parameters replaced; ValueError if kernel or likelihood refuses a value."""
        now = self.likelihood.parameters
        ours = {own: float(values.pop(name)) for name, own in self.named.items() if name in values}
        ours = {own: value for own, value in ours.items() if value != now[own]}  # the same numbers, the same object
        return replace(
            self,
            kernel=self.kernel.replace(**values) if values else self.kernel,
            likelihood=self.likelihood.with_parameters(**ours) if ours else self.likelihood,
        )

    def limit(self, name: str) -> float:
        """Return what a parameter must stay below."""
        return self.likelihood.tunables[self.named[name]].below if name in self.named else np.inf


def public_names(kernel: Kernel, likelihood: Likelihood) -> dict[str, str]:
    """Return all parameters of a likelihood by the name that they have beside a kernel."""
    taken = kernel.params
    return {PREFIX + own if own in taken else own: own for own in likelihood.parameters}


def all_names(kernel: Kernel, likelihood: Likelihood) -> list[str]:
    """Return the names of all parameters of a model, tuned or not."""
    return [*kernel.params, *public_names(kernel, likelihood)]


LOG_RANGE = float(np.log(1e4))
"""A parameter without bounds and without a prior may move this far from where it started, to either side."""
JUST_BELOW = 1e-6
"""A parameter that must stay below a number goes so near to it, relatively ..."""
DEEP = 2.0 * LOG_RANGE
"""... and, since walls come in pairs, this far down from it where it has a prior and no bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What is known when hyperparameters are chosen.

    Parameters
    ----------
    X : (n, d) array
        Training inputs.
    t : (n,) array
        Targets.
    likelihood : Likelihood
        p(t | f). Those of its parameters that are tuned start where they are; which those are `Model.of` says, by what
        the likelihood says of them and what is named in ``priors`` and ``bounds``.
    kernel : Kernel
        Where to start. Parameters that are exactly zero stay so.
    solver : Solver
        The method whose evidence or leave-one-out predictions decide.
    control : Control
        Of the solver.
    priors : mapping of str to Prior
        By the name of the parameter in ``model.params``; of a vector parameter, of each entry. A distribution of
        PyMC, such as ``pm.Gamma.dist(2, 1)``, is made a prior.
    bounds : mapping of str to (float, float)
        Lowest and highest value, in the parameter's own units. A parameter without bounds moves freely if it has a
        prior, and otherwise by a factor of 10^4 to either side of its start; where the hyperparameters are
        integrated over, that range, uniform in the logarithm, is its prior.
    fixed : collection of str
        Names of parameters that stay as they are.
    inducing : (M, d) array, optional
        Inducing inputs, where the Gram matrix is to be on such.
    settings : int
        Solutions on inducing inputs that are kept at the same time.
    origin : Model, optional
        Around whose parameters a parameter without bounds moves, if not around those of this one: where a search
        began that this one goes on with.
    forecast : Forecast, optional
        Of how long the choice takes, which counts the points that are asked for.

    Attributes
    ----------
    model : Model
        Kernel and likelihood at the start, with the parameters of both by name.
    names : tuple of str
        Of the free entries, such as ``lengthscale[2]``.
    start, lower, upper : (p,) array
        Their logarithms at the start and at the bounds, which may be infinite.

    Raises
    ------
    ValueError
        If a name is unknown or not free, if bounds are not 0 < low < high or do not hold the start, if a prior is
        none, or if nothing is free.
    """

    X: Array
    t: Array
    likelihood: Likelihood
    kernel: Kernel
    solver: Solver
    control: Control = field(default_factory=Control)
    priors: Mapping[str, Prior] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    fixed: Collection[str] = frozenset()
    inducing: Array | None = None
    settings: int = 1
    origin: Model | None = None
    forecast: Forecast | None = field(default=None, repr=False)
    model: Model = field(init=False)
    names: tuple[str, ...] = field(init=False)
    start: Array = field(init=False)
    lower: Array = field(init=False)
    upper: Array = field(init=False)
    _owners: NDArray[np.str_] = field(init=False, repr=False)  # the parameter of each entry of the model's log vector
    _free: NDArray[np.bool_] = field(init=False, repr=False)  # which of those entries are free
    _most: Array = field(init=False, repr=False)  # below what the likelihood takes the free ones, in the logarithm
    # of the last Gram matrix of low rank, if there was one: the next is a kernel nearby
    _pivots: list[NDArray[np.intp]] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        given = {name: as_mapping(name, getattr(self, name)) for name in ("priors", "bounds")}
        model = Model.of(self.kernel, self.likelihood, {*given["priors"], *given["bounds"]})
        known = all_names(self.kernel, self.likelihood)
        fixed = as_names("fixed", self.fixed)
        check_known("fixed", sorted(fixed), known)
        counts = {name: int(np.count_nonzero(value)) for name, value in model.params.items()}
        owners = np.repeat(np.array(list(counts), dtype=np.str_), list(counts.values()))
        free = ~np.isin(owners, list(fixed))
        for argument, mapping in given.items():
            _check_names(argument, mapping, known, fixed, set(owners[free].tolist()))
        if not free.any():
            raise ValueError(
                "the model has no parameter to tune: all are fixed or zero. Give the kernel, and hyper=None."
            )
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "priors", {name: as_prior(prior) for name, prior in self.priors.items()})
        for name, prior in self.priors.items():
            if isinstance(prior, type) or not isinstance(prior, Prior):
                raise ValueError(f"priors[{name!r}] must be a prior such as LogNormal(-3.0, 3.0), got {prior!r}.")
            sizes = {len(v) for v in (getattr(prior, k, None) for k in ("mean", "sd", "rate")) if isinstance(v, tuple)}
            if sizes - {1, int(np.count_nonzero(owners == name))}:
                raise ValueError(
                    f"priors[{name!r}] has numbers for {max(sizes)} entries, and {name} has "
                    f"{np.count_nonzero(owners == name)} that are not zero. Give one for each, or one for all."
                )
        lower, upper = self._limits(owners)
        names = tuple(np.array(log_vector_names(model))[free].tolist())
        values = {"start": log_vector(model)[free], "lower": lower[free], "upper": upper[free]}
        values["_most"] = np.log([model.limit(owner) for owner in owners[free]])
        for attribute, value in {**values, "fixed": fixed, "names": names, "_owners": owners, "_free": free}.items():
            object.__setattr__(self, attribute, value)

    def _limits(self, owners: NDArray[np.str_]) -> tuple[Array, Array]:
        vector = log_vector(self.model)
        middle = vector if self.origin is None else log_vector(self.origin)
        lower, upper = middle - LOG_RANGE, middle + LOG_RANGE
        has_prior = np.isin(owners, list(self.priors))
        lower[has_prior], upper[has_prior] = -np.inf, np.inf
        for name, pair in self.bounds.items():
            low, high = bounds_pair(name, pair, self.model.limit(name))
            inside = np.exp(vector[owners == name])
            if np.any(inside < low * (1 - 1e-12)) or np.any(inside > high * (1 + 1e-12)):
                raise ValueError(
                    f"bounds[{name!r}] = ({low:g}, {high:g}) does not hold where {name} starts, "
                    f"{self.model.params[name].tolist()}. Widen the bounds, or start inside."
                )
            lower[owners == name], upper[owners == name] = np.log(low), np.log(high)
        for name in self.model.named:
            limit, own = self.model.limit(name) * (1.0 - JUST_BELOW), owners == name
            if np.isfinite(limit):
                upper[own] = np.minimum(upper[own], np.log(limit))
                lower[own] = np.maximum(lower[own], np.log(limit) - DEEP) if name in self.priors else lower[own]
        return lower, upper

    @property
    def n_classes(self) -> int:
        """Number of classes with a latent value each; 1 where a case has a single latent value."""
        return self.likelihood.n_classes or 1

    @property
    def owners(self) -> NDArray[np.str_]:
        """The name of the parameter that each free entry belongs to, ``(p,)``."""
        return self._owners[self._free]

    @property
    def spans(self) -> tuple[Array, Array]:
        """Logarithms ``(p,)`` of a short and a long value of each free length scale; NaN of what is none."""
        spans = self.kernel.spans(self.X)
        which = np.isin(self.owners, list(spans))
        short, long = (self.model.replace(**{name: span[end] for name, span in spans.items()}) for end in (0, 1))
        return np.where(which, self.free_logarithms(short), np.nan), np.where(which, self.free_logarithms(long), np.nan)

    @property
    def free_of_likelihood(self) -> dict[str, str]:
        """Free parameters of the likelihood: the name of each in the likelihood, by that in the model."""
        return {name: own for name, own in self.model.named.items() if name in self.names}

    def model_at(self, log_free: ArrayLike) -> Model:
        """Return the model whose free entries have the logarithms ``log_free (p,)``; the others are untouched."""
        vector = log_vector(self.model)
        vector[self._free] = log_free
        moved = with_log_vector(self.model, vector)
        kept = {name: value for name, value in self.model.params.items() if name in self.fixed}
        # the logarithm and back is not the identity in the last digit
        return moved.replace(**kept) if kept else moved

    def going_on_from(self, model: Model) -> Target:
        """Return the same with another start, within what was allowed around this one."""
        start = self.model.replace(**model.params)
        return replace(self, kernel=start.kernel, likelihood=start.likelihood, origin=self.origin or self.model)

    def free_logarithms(self, model: Parametrised) -> Array:
        """Return the logarithms ``(p,)`` of the free entries of a model of the same form."""
        return log_vector(model)[self._free]

    def allows(self, log_free: Array) -> bool:
        """Tell whether the likelihood takes parameters of these logarithms ``(p,)``, be they likely or not."""
        return bool(np.all(log_free < self._most))

    def with_default_priors(self) -> tuple[Target, NDArray[np.bool_]]:
        """Return the target with a prior for each parameter that has neither prior nor bounds, and which those are."""
        by_default = ~np.isin(self.owners, [*self.priors, *self.bounds])
        added: dict[str, Prior] = {
            name: LogNormal(tuple(self.start[self.owners == name].tolist()), DEFAULT_SD)
            for name in np.unique(self.owners[by_default]).tolist()
        }
        return replace(self, priors={**self.priors, **added}), by_default

    def check_bounds(self, values: Mapping[str, Array]) -> None:
        """Raise a ValueError if values of parameters, by name, are outside their bounds."""
        for name in values.keys() & self.bounds.keys():
            low, high = self.bounds[name]
            if np.any(values[name] < low) or np.any(values[name] > high):
                raise ValueError(
                    f"{name} = {values[name].tolist()} is outside bounds[{name!r}] = ({low:g}, {high:g}). Leave it out "
                    "of the grid, or widen the bounds."
                )

    def check_memory(self, settings: int) -> None:
        """Raise a MemoryError if solutions at several hyperparameters would not fit into this machine together."""
        if self.inducing is not None:  # its root is kept only where it fits
            return
        try:
            check_memory(self.t.size, settings, classes=self.n_classes)
        except MemoryError:
            # unless the Gram matrix is of low rank: at the start, and so at kernels nearby
            self.problem_at(self.model).matrix.check_memory(settings, self.n_classes)

    def apart(self) -> Target:
        """Return the same target, which remembers the last Gram matrix so far, and on its own from here."""
        twin = copy(self)
        object.__setattr__(twin, "_pivots", [*self._pivots])
        object.__setattr__(twin, "forecast", None)  # several points at a time tell nothing of how long one takes
        return twin

    def of_cases(self, rows: NDArray[np.intp] | slice) -> Target:
        """Return the same of some of the cases."""
        likelihood = self.likelihood.of_cases(np.arange(self.t.size)[rows])
        return replace(self, X=self.X[rows], t=self.t[rows], likelihood=likelihood)

    def problem_at(self, model: Model, solver: Solver | None = None) -> Problem:
        """Return the inference problem under a model, for the target's own solver or for another one.

        Raises
        ------
        NotPositiveDefiniteError
            If the kernel overflows at these inputs, or its Gram matrix is no covariance.
        InconsistentDataError
            If the targets have probability zero.
        MemoryError
            If the dense Gram matrix is needed, and would not fit into this machine's memory.
        """
        first, kernel = self._pivots[0] if self._pivots else None, model.kernel
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.all(np.isfinite(kernel.diag(self.X))):  # then so is all of the Gram matrix
                raise NotPositiveDefiniteError(f"the kernel overflows at these inputs: {kernel!r}")
            solver = solver or self.solver
            given = self.X, self.t, model.likelihood
            if self.inducing is not None:
                problem = assemble_inducing(kernel, *given, inducing=self.inducing, settings=self.settings)
            else:
                problem = assemble(kernel, *given, solver=solver, control=self.control, first=first)
        if problem.matrix.pivots is not None:
            self._pivots[:] = [problem.matrix.pivots]
        return problem

    def pull_back(
        self, model: Model, matrix: Matrix, gram_bar: GramGradient, of_likelihood: Mapping[str, float] | None = None
    ) -> Array:
        """Return the gradient ``(p,)`` in the free logarithms.

        It is made of that in the Gram matrix, and of those in free parameters of the likelihood, by their names there;
        of one that is not told the gradient is NaN.
        """
        gradient: dict[str, Any] = dict(matrix.pull_back(gram_bar, model.kernel, self.X))
        known = of_likelihood or {}
        gradient |= {name: known.get(own, np.nan) for name, own in model.named.items()}
        return log_gradient(model, gradient)[self._free]

    def log_prior(self, log_free: Array) -> tuple[float, Array]:
        """Return the log prior density with respect to the free logarithms ``(p,)``, and its gradient ``(p,)``.

        Where a parameter is excluded the value is -inf.

        Raises
        ------
        ValueError
            If a prior has no density there: NaN, or infinite.
        """
        value, gradient = 0.0, np.zeros(log_free.shape)
        for name in self.priors:
            own = self.owners == name
            density, gradient[own] = self._log_density(name, log_free[own])
            value += float(np.sum(density))
        return value, gradient

    def _log_density(self, name: str, at: Array) -> tuple[Array, Array]:
        """Return the log prior densities of the entries of a parameter at logarithms ``(k,)``, with the slopes."""
        with np.errstate(over="ignore", invalid="ignore"):  # far out; what comes of it is checked
            density, slope = self.priors[name].log_density(at)
        bad = np.isnan(density) | np.isposinf(density)
        what, wrong = ("log density", bad) if np.any(bad) else ("slope", np.isnan(slope) & ~np.isneginf(density))
        if np.any(wrong):  # a slope may be NaN where the parameter is excluded
            k = int(np.argmax(np.broadcast_to(wrong, at.shape)))
            found = float(np.broadcast_to(density if what == "log density" else slope, at.shape)[k])
            raise ValueError(
                f"priors[{name!r}] must have a finite log density with its slope, or -inf where it excludes a value, "
                f"but at {name} = {np.exp(at[k]):.6g} the {what} is {found}. Mend its log_density, or use LogNormal."
            )
        return density, slope

    def log_priors(self, model: Model) -> dict[str, Array]:
        """Return the log prior densities of the free parameters of a model, by name, in the shapes of the parameters.

        They are densities of the parameters themselves, as in a model of PyMC, and not of their logarithms. Between
        bounds that have no prior the logarithm is uniform. An entry that stays as it is has none, and 0 stands for it.
        """
        log_free, found = self.free_logarithms(model), dict[str, Array]()
        for name in dict.fromkeys(self.owners.tolist()):
            start, own = np.asarray(self.model.params[name]), self.owners == name
            uniform = -np.log(self.upper[own] - self.lower[own])
            density = self._log_density(name, log_free[own])[0] if name in self.priors else uniform
            found[name] = np.zeros(start.shape)
            found[name][start != 0] = density - log_free[own]
        return found


def with_own_priors(kernel: Kernel, priors: Mapping[str, Prior] | None, fixed: Collection[str]) -> Mapping[str, Prior]:
    """Add the priors that a kernel's parameters bring themselves, where none is given and they are not fixed."""
    given = as_mapping("priors", priors)
    own = {name: prior for name, prior in kernel.priors.items() if name not in fixed}
    return {**own, **given}


def check_known(argument: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise a ValueError if an argument names a parameter that a model does not have."""
    for name in names:
        if name not in known:
            raise ValueError(f"{argument} names {name!r}, which this model does not have; it has {list(known)}.")


def _check_names(
    argument: str, given: Mapping[str, object], known: Collection[str], fixed: frozenset[str], free: set[str]
) -> None:
    check_known(argument, given, known)
    for name in given:
        if name in fixed:
            raise ValueError(
                f"{argument} names {name!r}, which stays as it is, since fixed has it too. Leave it out of one of both."
            )
        if name not in free:
            raise ValueError(
                f"{argument} names {name!r}, which stays as it is, since it is zero. Leave it out, or start it above "
                f"zero; free are {sorted(free)}."
            )


def bounds_pair(name: str, pair: object, limit: float = np.inf) -> tuple[float, float]:
    """Return the bounds of a parameter, which must stay below a limit, or raise a ValueError that names it."""
    try:
        low, high = (float(value) for value in pair)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"bounds[{name!r}] must be two numbers, (low, high), got {pair!r}.") from None
    if not (0 < low < high < np.inf):
        raise ValueError(
            f"bounds[{name!r}] must be 0 < low < high, both finite, since the search is over logarithms, got "
            f"({low:g}, {high:g})."
        )
    if high > limit:
        raise ValueError(f"bounds[{name!r}] = ({low:g}, {high:g}) go beyond {limit:g}, below which {name} must stay.")
    return low, high
