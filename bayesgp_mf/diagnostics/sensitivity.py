r"""What prior and likelihood do to a posterior: power-scaling [1]_, by fits with a power of one of them.

A power of the likelihood is a weight of every case. The prior is that of the hyperparameters where these are averaged
over, and else that of the function, whose power :math:`\alpha` is a Gaussian process with the covariance
:math:`K / \alpha`. Each setting of the hyperparameters is solved anew, and weighed anew by its evidence, or by its
prior density to the power :math:`\alpha - 1`. ArviZ's ``psense`` weighs the draws that there are.

References
----------
.. [1] Kallioinen, N., Paananen, T., Bürkner, P.-C., & Vehtari, A. (2024). Detecting and diagnosing prior and likelihood
   sensitivity with power-scaling. Statistics and Computing 34, 57.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, softmax

from bayesgp_mf.arguments import check_flags, check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.read import check_priors, fit_group, from_container, has_random_kernels
from bayesgp_mf.container.stored import priors_of
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.diagnostics.curves import settings_by_weight, some_settings
from bayesgp_mf.diagnostics.hyperparameters import for_readers
from bayesgp_mf.errors import ConvergenceError
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.assembly import assemble_as
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.processes.process import Part, Process
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array

SENSITIVE = 0.05
"""ArviZ's threshold."""
POINTS, BANDWIDTH, MIDDLE = 100, 0.2, ndtr((-1.0, 1.0))
"""Places, and quantiles, where distribution functions are computed; by which share of their width they are smooth."""
FEWEST_DRAWS = 50
MOST = 400
"""Settings of the hyperparameters that are solved anew."""

Quantity: TypeAlias = Callable[[Array, Array], ArrayLike]
"""From draws of latent values ``(k, n)``, or ``(k, n, C)``, and targets ``(n,)`` to a value ``(k,)`` of each draw."""


def value_of(name: str, quantity: Quantity, f: Array, t: Array) -> Array:
    """Return the value ``(k,)`` of a user's quantity at each draw of f, or raise a ValueError that names it."""
    values = np.asarray(quantity(f.copy(), t.copy()))  # whatever it does with them
    if values.dtype.kind not in "biuf":
        raise ValueError(f"quantities[{name!r}] must return real numbers, got dtype {values.dtype}.")
    values = values.astype(np.float64)
    if values.shape != f.shape[:1] or not np.all(np.isfinite(values)):
        raise ValueError(
            f"quantities[{name!r}] must return a finite number for each of {f.shape[0]} draws of f, shape "
            f"{f.shape[:1]}, got shape {values.shape}{'' if values.shape != f.shape[:1] else ' with some not finite'}."
        )
    return values


def as_quantities(given: Mapping[str, Quantity] | None, taken: Collection[str] = ()) -> dict[str, Quantity]:
    """Return quantities by name, or raise a ValueError if one is no function, or its name is taken."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"quantities must be a mapping of names to functions of f and y, got {given!r}.")
    named = dict(given or {})
    for name, quantity in named.items():
        if not (callable(quantity) and isinstance(name, str)):
            raise ValueError(f"quantities[{name!r}] must be a function of f and y, by a name, got {quantity!r}.")
        if name in taken:
            raise ValueError(f"quantities[{name!r}] has a name that is taken. Give it another one.")
    return named


@shown_as_table(lambda _: "How far the posterior moves for each doubling of a power (cumulative Jensen-Shannon):")
@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How much a posterior moves with the powers of its prior and of its likelihood; ``print`` shows the table.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each quantity: ``prior`` and ``likelihood``, the distance between posteriors for each doubling of the
        power (cumulative Jensen-Shannon, as ``az.psense`` has it), and ``diagnosis`` in ArviZ's words.
    moments : pandas.DataFrame
        ``mean`` and ``sd`` of each quantity by ``component`` and ``alpha``; at 1 those of the fit.
    """

    table: pd.DataFrame
    moments: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Return the ``table``."""
        return self.table


def sensitivity(
    idata: Container,
    quantities: Mapping[str, Quantity] | None = None,
    *,
    X_new: ArrayLike | None = None,
    alphas: tuple[float, float] = (0.99, 1.01),
    draws: int = 1000,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    priors: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Sensitivity:
    """Return how much the posterior moves if the prior, or the likelihood, counts a little less or more.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    quantities : mapping of str to callable, optional
        What to look at: functions of draws of latent values ``(k, n)``, of several classes ``(k, n, C)``, and of
        targets ``(n,)`` as the likelihood has them (labels -1/+1), that return a number for each draw. Always there are
        the mean of f over the cases, and hyperparameters of which an average has draws (not those of `Integrate`).
    X_new : (m, d) array_like, optional
        New cases, whose latent values are looked at too.
    alphas : (float, float)
        A power below one, and one above.
    draws : int
        Draws of each posterior. All of them use the same random numbers.
    kernel, likelihood, method, priors : optional
        Those of the fit that the container does not hold.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    Sensitivity
        With ``table`` and ``moments``.

    Raises
    ------
    ValueError
        If ``alphas`` are not one below and one above 1, a quantity is not a function that returns a finite number for
        each draw, or ``idata`` is not a fit of this package.
    UndefinedQuantityError
        If the likelihood has no powers: a step without flips, a multinomial probit, or any under the exact method.
    ConvergenceError
        If a posterior at another power has no solution.

    Notes
    -----
    With hyperparameters that are kept or chosen the prior is that of the function, given them. With an average it is
    that of the hyperparameters, as in ``az.psense``; its settings, nodes or draws, stay where they are.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(1.0, 4.0), draws=50, random_seed=1)
    >>> found = bgp.diagnostics.sensitivity(idata, {"slope": lambda f, t: f[:, -1] - f[:, 0]})
    >>> found.table.loc["slope", "diagnosis"]
    'potential prior-data conflict'
    """
    fit = fit_group(idata)
    check_has_cases(fit, "sensitivity")
    check_integers(1, draws=draws)
    check_flags(progress=progress)
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws must be at least {FEWEST_DRAWS}, by which distances can be seen, got {draws}.")
    low, high = _checked(alphas)
    process = some_settings(from_container(idata, kernel, likelihood, method), MOST)
    check_priors(priors, process.parts[0])
    X = None if X_new is None else process.new_inputs(X_new)
    log_priors = _log_priors(process, **priors_of(fit, priors, process.parts[0].kernel)) if process.averaged else None
    names = for_readers(idata, log_priors.names) if log_priors is not None and has_random_kernels(fit) else ()
    named = as_quantities(quantities, ("", "mean_f", *names))  # each is the name of a row
    node = settings_by_weight(process.weights, draws)

    def looked_at(moved: Process) -> dict[str, Array]:
        f, new = _drawn(moved, node, X)
        found = {"mean_f": f.reshape(draws, -1).mean(axis=1)}
        found |= {name: value_of(name, each, f, process.problem.t) for name, each in named.items()}
        if log_priors is not None:
            found |= {name: log_priors.values[node, k] for k, name in enumerate(names)}
        return found | {f"f_new[{','.join(map(str, at))}]": new[(slice(None), *at)] for at in np.ndindex(new.shape[1:])}

    with (
        one_thread_if_small(process.problem.n),
        progress_bar("posteriors at other powers", total=4, enabled=progress) as advance,
    ):
        base = looked_at(process)
        rows, moments = dict[str, dict[str, float]](), list[dict[str, Any]]()
        same = np.full(draws, 1.0 / draws)
        for component in ("prior", "likelihood"):
            distances = dict.fromkeys(base, 0.0)
            for alpha in (low, 1.0, high):
                here, weights = base, same
                if alpha != 1.0:
                    moved = process
                    if component == "likelihood" or log_priors is None:
                        try:
                            parts = [_powered(part, alpha, of_prior=component == "prior") for part in process.parts]
                        except (ConvergenceError, ValueError) as error:  # which speaks of weights, if not of solutions
                            error.args = (f"the power {alpha} of a {component}: {error}",)
                            raise
                        moved = Process(tuple(parts), process.weights)
                    change = moved.log_evidences - process.log_evidences
                    if component == "prior":
                        change = np.zeros(1) if log_priors is None else (alpha - 1.0) * log_priors.total
                    here, weights = looked_at(moved), softmax(change[node])
                    advance(f"{component} to the power {alpha:g}")
                for name, values in base.items():
                    mean = float(weights @ here[name])
                    unit = float(np.abs(here[name] - mean).max()) or 1.0  # squares of others may be beyond all numbers
                    sd = unit * float(np.sqrt(weights @ ((here[name] - mean) / unit) ** 2))
                    moments.append({"quantity": name, "component": component, "alpha": alpha, "mean": mean, "sd": sd})
                    if alpha != 1.0:  # the slope of ArviZ's psense
                        far = distance(values, here[name], same, weights) / abs(np.log2(alpha))
                        distances[name] += 0.5 * far
            for name in base:
                rows.setdefault(name, {})[component] = distances[name]
    table = pd.DataFrame.from_dict(rows, orient="index")
    table["diagnosis"] = [_diagnosis(row["prior"], row["likelihood"]) for _, row in table.iterrows()]
    return Sensitivity(table, pd.DataFrame(moments).set_index(["quantity", "component", "alpha"]).sort_index())


def distance(x: Array, y: Array, weights_of_x: Array, weights_of_y: Array) -> float:
    """Return the cumulative Jensen-Shannon distance of two samples, the larger of those from either end.

    Both distribution functions are smoothed alike, so that a difference much smaller than the gaps between draws shows.
    """
    unit = float(max(np.ptp(x), np.ptp(y))) or 1.0
    x, y = x / unit, y / unit
    spread = max(float(np.std(x)), float(np.std(y)))
    if spread == 0.0:
        return 0.0 if np.mean(x) == np.mean(y) else 1.0
    both, shares = np.concatenate([x, y]), np.linspace(0.0, 1.0, POINTS)
    even = both.min() + shares * (both.max() - both.min())
    grid = np.sort(np.concatenate([even, np.quantile(both, shares)]))  # also where tails are long
    low, high = np.quantile(x, MIDDLE)
    width = BANDWIDTH * (min(spread, (high - low) / 2.0) or spread)
    p, q = (ndtr((grid[:, None] - each) / width) @ w for each, w in ((x, weights_of_x), (y, weights_of_y)))
    return max(_jensen_shannon(p, q, grid), _jensen_shannon(1.0 - p, 1.0 - q, grid))


def _jensen_shannon(p: Array, q: Array, grid: Array) -> float:
    """Return the distance of two distribution functions on a grid, by the trapezium rule."""
    middle = 0.5 * (p + q)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = [np.where(each > 0, each * np.log2(each / middle), 0.0) for each in (p, q)]
    return float(np.sqrt(max(0.0, np.trapezoid(sum(divergence), grid)) / np.trapezoid(p + q, grid)))


class _LogPriors(NamedTuple):
    """Of k settings: ``values (k, p)`` of hyperparameters, by name, and the log ``total (k,)`` of prior densities."""

    names: tuple[str, ...]
    values: Array
    total: Array


def _log_priors(process: Process, **chosen: Any) -> _LogPriors:
    first = process.parts[0]
    target = Target(first.X, first.problem.t, first.problem.likelihood, first.kernel, first.method, **chosen)
    models = [Model(part.kernel, part.problem.likelihood, target.model.named) for part in process.parts]
    total = [float(sum(np.sum(each) for each in target.log_priors(model).values())) for model in models]
    values = np.exp([target.free_logarithms(model) for model in models])
    return _LogPriors(target.names, values, np.array(total))


def _powered(part: Part, alpha: float, *, of_prior: bool) -> Part:
    """Return the posterior with a power of the prior of the function, or of the likelihood."""
    problem, solver, control = part.problem, part.method, Control(throw=True, progress=False)
    kernel, likelihood = part.kernel, problem.likelihood
    if of_prior:
        kernel = (1.0 / alpha) * kernel
    else:
        weights = likelihood.stored_by_case.get("weights", np.ones(problem.n))
        likelihood = by_case(likelihood, weights=alpha * weights)
    form: Any = problem.matrix.form
    in_form = control if form == "inducing" else replace(control, gram=form)
    changed = assemble_as(problem, kernel, part.X, problem.t, likelihood, solver=solver, control=in_form)
    if of_prior and problem.matrix.is_whole and not likelihood.has_classes:
        # draws go by this root, and rounding may give another one of a matrix that is nearly singular
        vars(changed.matrix)["root"] = problem.matrix.root / np.sqrt(alpha)
    return make_process(
        kernel, part.X, changed, solver.solve(changed, control, part.solution), solver, part.feature_names
    )


def _drawn(process: Process, node: NDArray[np.intp], X: Array | None) -> tuple[Array, Array]:
    """Return draws of latent values at the cases and at new ones, by the same random numbers for all powers."""
    f, new = list[Array](), list[Array]()
    for k, part in enumerate(process.parts):
        count = int(np.count_nonzero(node == k))
        if count:
            f.append(part.draw(count, np.random.default_rng([0, k])).f)
            rows = np.empty((0, 0)) if X is None else X  # one by one, so that no draw hangs on another case
            each = [part.draw_at(rows[i : i + 1], count, np.random.default_rng([1, k, i])) for i in range(len(rows))]
            new.append(np.concatenate(each, axis=1) if each else np.empty((count, 0)))
    return np.concatenate(f), np.concatenate(new)


def _checked(alphas: Any) -> tuple[float, float]:
    values = np.asarray(alphas)
    if values.dtype.kind not in "if" or values.shape != (2,) or not (0.0 < values[0] < 1.0 < values[1] < np.inf):
        raise ValueError(
            f"alphas must be a power between 0 and 1 and one above 1, such as (0.99, 1.01), got {alphas!r}."
        )
    return float(values[0]), float(values[1])


def _diagnosis(prior: float, likelihood: float) -> str:
    if prior < SENSITIVE:
        return "✓"
    strong, conflict = "potential strong prior / weak likelihood", "potential prior-data conflict"
    return conflict if likelihood >= SENSITIVE else strong
