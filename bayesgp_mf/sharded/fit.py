"""A fit on a table in parts: one pass to know it, a search on a sample, rounds on all of it."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Number, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import as_generator, check_flags, check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.layout import check_parameter_names
from bayesgp_mf.container.stored import describe_likelihood
from bayesgp_mf.container.write import parts_container, posterior_in_parts
from bayesgp_mf.errors import NO_SOLUTION, ConvergenceWarning, Status, warn
from bayesgp_mf.fitting import fit as fit_here
from bayesgp_mf.fitting import warn_of_inducing
from bayesgp_mf.hyper import SearchName, Strategy
from bayesgp_mf.hyper.optimise import uphill
from bayesgp_mf.inference.assembly import assemble_inducing, check_inducing, inducing_error
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.problem import status_in_words
from bayesgp_mf.inference.solution import Control, Evidence, Info, check_control
from bayesgp_mf.inputs.inducing import as_inducing, warn_of_groups
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.inputs.options import as_kernel, as_likelihood
from bayesgp_mf.inputs.scales import warn_of_scale
from bayesgp_mf.kernels import Kernel, log_gradient, log_vector, with_log_vector
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.factors import cholesky
from bayesgp_mf.matrices.inducing_points import inducing_points
from bayesgp_mf.names import ARGUMENTS, naming_absent
from bayesgp_mf.parallel import Backend
from bayesgp_mf.parallel import backend as place
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.sharded.shard import ShardModel, real_targets
from bayesgp_mf.sharded.solve import LOSSES, ShardedSolution, evidence_gradient, shards_lost, solve
from bayesgp_mf.sharded.sources import Rows, Table, from_dask
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.streams import Stream
from bayesgp_mf.streams.arguments import check_any_cases, check_hyper
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.learning import posterior_given
from bayesgp_mf.types import Array

START = 5_000
"""Of these, cases on which the client solves beforehand; 20,000 take four times as long, and save a round at most."""
ROUGH = 1e-3
"""Tolerance of the solution on the random part, from which the rounds begin."""
FEW = 2000
"""Of these, at which the scale of the inputs is looked at."""
SAMPLE = 20_000
"""Cases, at random, on which hyperparameters are searched for and from which inducing cases are drawn."""


@dataclass(frozen=True)
class ShardedFit:
    """A fit on a table in parts.

    Attributes
    ----------
    stream : Stream
        The posterior, as a stream that has learned from all cases. It can predict, be saved, and learn from more.
    log_evidence : float
        In nats.
    gradient : dict of str to array
        Its derivatives in the parameters of the kernel, at fixed inducing inputs.
    n : int
        Cases.
    info : Info
        How the iteration went, and how well the numbers are known.
    """

    stream: Stream
    log_evidence: float
    gradient: dict[str, Array]
    n: int
    info: Info

    def to_container(self, draws: int = 1000, chains: int = 4, random_seed: Any = None) -> Container:
        """Return the fit as an ArviZ container, from which `bgp.predict` and `bgp.posterior` go on.

        It is what `sharded.fit` returns.

        Raises
        ------
        ValueError
            If draws or chains are not positive, or the likelihood cannot be saved.
        """
        check_integers(1, draws=draws, chains=chains)
        stream = self.stream
        factor = stream.factor
        f = factor.draw((int(chains), int(draws)), as_generator(random_seed))[..., 0]
        labels = range(stream.likelihood.n_levels or 0) if stream.classes is None else stream.classes
        class_names = tuple(str(label) for label in labels)
        on_inducing = factor.points, factor.mean, factor.inverse_factor
        # of Gaussian noise nothing is approximated
        known = {} if stream.likelihood.known_sites(np.zeros(1), 0.0) is None else {"correction": 0.0, "remaining": 0.0}
        evidence = Evidence(self.log_evidence, tap.rule.kind, tap.rule.bound, **known)
        posterior = posterior_in_parts(
            stream.kernel, stream.likelihood, on_inducing, evidence, self.info, stream.features
        )
        return parts_container(posterior, self.n, f, self.gradient, class_names)


HERE = "A part of the table that is here has it, bgp.fit(X, y, ...)"
ABSENT = {
    **ARGUMENTS,
    "method": "A table in parts is fitted by TAP",
    "marginals": "A table in parts has no draws at its cases",
    **dict.fromkeys(("priors", "bounds", "fixed"), f"{HERE}, to choose hyperparameters beforehand"),
    **dict.fromkeys(("offset", "weights"), f"{HERE}; or a stream, whose every batch may have it"),
}
"""Arguments of `bgp.fit` that a table in parts does not have, and what to do."""


class _Asked(NamedTuple):
    seed: int
    size: int
    labels: bool


class _Known:
    """What one pass over some cases tells: how many inputs, which labels, and a random part; two of them add up."""

    def __init__(
        self, labels: set[Any], orders: dict[Any, str], keys: Array, X: Array, y: NDArray[Any], size: int
    ) -> None:
        self.labels, self.orders, self.size = labels, orders, size
        first = np.argsort(keys, kind="stable")[:size]  # those of the smallest keys, whoever adds
        self.keys, self.X, self.y = keys[first], X[first], y[first]

    def __add__(self, other: _Known) -> _Known:
        mine, theirs = self.X.shape[1], other.X.shape[1]
        if mine != theirs:
            raise ValueError(f"parts differ in their number of inputs: {mine} and {theirs}.")
        keys, X = np.concatenate([self.keys, other.keys]), np.concatenate([self.X, other.X])
        y = np.concatenate([self.y, other.y])
        return _Known(self.labels | other.labels, self.orders | other.orders, keys, X, y, self.size)


def _labels_of(rows: Rows) -> tuple[NDArray[Any], set[Any]]:
    """Return the labels of a part, each and all there are, or raise a ValueError that names the row of what is none."""
    y = rows.y if rows.y.dtype.kind in "fiub" else rows.y.astype(object)
    try:
        labels = set(pd.unique(y).tolist())
        wrong = [label for label in labels if not _is_label(label)]
    except TypeError:  # of one that is not hashable
        wrong = [True]
    if wrong:
        row = next(k for k, label in enumerate(y) if not _is_label(label))
        raise ValueError(
            f"{rows.name}: row {row} has the label {y[row]}. Labels are text or finite numbers: drop such rows, or "
            "correct them."
        )
    return y, labels


def _is_label(label: Any) -> bool:
    if isinstance(label, Number) and not isinstance(label, np.timedelta64):
        return isinstance(label, Decimal) or (isinstance(label, Real) and math.isfinite(label))
    return isinstance(label, Hashable)


def look(rows: Rows, query: _Asked) -> dict[str, Any]:
    """Return what is to be known of some cases beforehand."""
    rng = np.random.default_rng([query.seed, zlib.crc32(rows.label.encode())])
    y, labels = _labels_of(rows) if query.labels else (real_targets(rows), set[Any]())
    orders = {rows.order: rows.name} if rows.order is not None and y.size else {}
    return {"n": y.size, "known": _Known(labels, orders, rng.random(y.size), rows.X, y, query.size)}


@naming_absent(ABSENT)
def fit(
    X: Any,
    y: Any,
    kernel: Any,
    likelihood: str | Likelihood = Probit(),
    *,
    positive: Any = None,
    hyper: SearchName | Strategy | None = None,
    refine: int = 0,
    draws: int = 1000,
    chains: int = 4,
    random_seed: Any = None,
    control: Control = Control(),
    progress: bool = True,
    inducing: int | ArrayLike | Inducing = 500,
    client: Any = None,
    processes: int = 1,
) -> Container:
    """Fit TAP on inducing cases to a table in parts, on this machine or on a Dask cluster, and return a container.

    Workers read the parts where they are; only numbers of the inducing cases travel.

    Parameters
    ----------
    X : Table, dask.dataframe.DataFrame or (n, d) dask.array.Array
        From `from_parquet` or `from_arrays`; or a Dask frame, all of whose other columns are inputs; or a Dask array.
    y : None, str or (n,) dask.array.Array
        None of a `Table`, which has its labels; of a Dask frame the name of their column; of a Dask array another one,
        in blocks of the same rows.
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        Prior covariance; with ``hyper``, where the search starts.
    likelihood : Likelihood
        Of two classes or real targets, with latent noise.
    positive : label, optional
        The label that is class 1; by default the later one.
    hyper : None, str or Strategy
        How the parameters of the kernel are chosen, on a random part of 20,000 cases (`bgp.fit` with ``inducing``).
    refine : int
        Number of steps uphill after that, on the log evidence of all cases with its gradient. Each takes some ten
        passes.
    draws, chains : int
        Draws of f at the inducing inputs for each chain.
    random_seed : int, numpy.random.Generator or None
        Which cases are drawn, and source of the draws of f.
    control : Control
        Tolerance and largest number of rounds.
    progress : bool
        Show a progress bar if it takes longer than a second.
    inducing : int, (M, d) array_like or Inducing
        Number of inducing cases, drawn at random from all; or inputs; or options, which apply to the random part.
    client : distributed.Client, optional
        A Dask cluster whose workers hold the parts, by default the current one. If a worker is lost, others do its
        work.
    processes : int
        In place of a client, the number of processes of this machine.

    Returns
    -------
    InferenceData or DataTree
        As of `bgp.fit`, from which `bgp.predict`, `sharded.predict` and `bgp.posterior` go on, with the groups
        ``posterior`` (draws of f at the inducing inputs), ``constant_data`` (these, X) and ``fit`` (what predictions
        need, ``log_evidence`` and its gradient ``hyper_gradient_<parameter>``, parameters of the kernel, quality of the
        numbers; method, kernel, likelihood, status and ``n_cases`` as attributes). It has nothing about single cases.

    Raises
    ------
    ValueError
        If an argument is invalid, or a part cannot be read: the message names the file and the row.
    ConvergenceError
        If the equations were not solved.
    RuntimeError
        If processes or workers end again and again or stay paused, as for want of memory, or the client is closed.

    See Also
    --------
    fit_stream : The same as a stream, which can learn from more cases.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0, "late", "on time")
    >>> table = bgp.sharded.from_arrays([(X[:200], y[:200]), (X[200:], y[200:])])
    >>> idata = bgp.sharded.fit(table, None, bgp.kernels.Gaussian(2.0), inducing=20, positive="late", random_seed=1)
    >>> idata["fit"].attrs["n_cases"]
    600
    >>> idata = bgp.predict(idata, [[1.0, 0.0], [-1.0, 0.0]], draws=False)
    >>> idata["predictions"]["p"].values.round(2)
    array([0.96, 0.05])
    """
    likelihood = as_likelihood(likelihood)
    describe_likelihood(likelihood)  # which raises if a container can say nothing of it
    check_parameter_names(as_kernel(kernel, tuned=hyper is not None).params)
    check_integers(1, draws=draws, chains=chains)
    rng = as_generator(random_seed)
    if client is None and processes == 1:
        client = _default_client()
    options: dict[str, Any] = {"positive": positive, "hyper": hyper, "refine": refine, "inducing": inducing}
    options |= {"control": control, "progress": progress, "client": client, "processes": processes}
    found = fit_stream(X, y, kernel, likelihood, random_seed=rng, **options)
    return found.to_container(draws, chains, rng)


@naming_absent(ABSENT)
def fit_stream(
    X: Any,
    y: Any,
    kernel: Any,
    likelihood: Any = Probit(),
    *,
    positive: Any = None,
    hyper: SearchName | Strategy | None = None,
    refine: int = 0,
    random_seed: Any = None,
    control: Control = Control(),
    progress: bool = True,
    inducing: int | ArrayLike | Inducing = 500,
    client: Any = None,
    processes: int = 1,
) -> ShardedFit:
    """Fit a table in parts as `fit` does, and return the posterior as a stream, which can learn from more cases.

    Parameters
    ----------
    X, y, kernel, likelihood, positive, hyper, refine, random_seed, control, progress, inducing, client, processes
        As for `fit`; without ``client`` it works on this machine.

    Returns
    -------
    ShardedFit
        With the posterior as a `streams.Stream`.

    Raises
    ------
    ValueError, ConvergenceError, RuntimeError
        As `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0, "late", "on time")
    >>> table = bgp.sharded.from_arrays([(X[:200], y[:200]), (X[200:], y[200:])])
    >>> kernel = bgp.kernels.Gaussian(2.0)
    >>> found = bgp.sharded.fit_stream(table, None, kernel, inducing=20, positive="late", random_seed=1)
    >>> found.stream.n_seen, found.stream.classes
    (600, ('on time', 'late'))
    >>> found.stream.predict_proba([[1.0, 0.0], [-1.0, 0.0]]).round(2)
    array([0.96, 0.05])
    """
    table = _table(X, y)
    likelihood = as_likelihood(likelihood)
    if likelihood.has_classes:
        raise ValueError(
            f"a table in parts has two classes or real targets, and {type(likelihood).__name__} several classes. Use "
            "fit(X, y, ..., inducing=...) with arrays that fit into memory."
        )
    check_any_cases("a table in parts", likelihood)
    check_inducing(likelihood, tap)
    check_control(control)
    control.check_scheme("tap on shards")
    check_flags(progress=progress)
    check_integers(1, processes=processes)
    check_integers(0, refine=refine)
    if hyper is not None:
        check_hyper(hyper)
    if client is not None and processes != 1:
        raise ValueError("client and processes are two places to work at. Give one of them.")
    rng = as_generator(random_seed)
    kernel = as_kernel(kernel, tuned=hyper is not None).with_column_names(table.columns)
    with closing(place(int(processes) if len(table.parts) > 1 else 1, client, table.parts)) as backend:
        seed = int(rng.integers(2**62))
        seen = backend.map_reduce(look, _Asked(seed, SAMPLE, likelihood.is_binary))
        known: _Known = seen["known"]
        if not seen["n"]:
            raise ValueError("the table has no rows.")
        classes, t = _targets(known, likelihood, positive)
        start = _points(inducing, known, t, kernel, table.columns, rng)
        if hyper is not None:
            chosen = inducing if isinstance(inducing, Inducing) else Inducing(len(start))  # on the random part
            options: dict[str, Any] = {
                "inducing": replace(chosen, number=min(len(start), t.size), inputs=None),
                "draws": 1,
                "chains": 1,
            }
            found = fit_here(known.X, t, kernel, likelihood, hyper=hyper, random_seed=rng, progress=progress, **options)
            tuned = posterior_given(found, kernel=kernel, likelihood=likelihood)
            kernel, likelihood = tuned.kernel, tuned.problem.likelihood
        points = inducing_points(kernel, start).used
        warn_of_scale(known.X[:FEW], [kernel])
        warn_of_groups(kernel, known.X, points, table.columns)
        model = ShardModel(0, kernel, likelihood, points, classes)
        with progress_bar("solving on shards", enabled=progress) as advance:
            after = -1
            known_posterior = _posterior_of(known, t, model, control, progress)
            if refine:
                model, after = _uphill(backend, model, control, int(refine), advance, known_posterior)
                known_posterior = None
            solution, gradient = _solved(backend, model, control, advance, after, known_posterior)
    info = replace(solution.info, inducing_error=_inducing_error(known, t, model, start, control, int(seen["n"])))
    warn_of_inducing(info.inducing_error or 0.0)
    if info.status is not Status.CONVERGED:
        warn(
            f"tap on shards: {status_in_words(info.status, likelihood, tap.name)} What is returned is no "
            f"solution: residual {info.residual:.2g} after {info.n_iterations} rounds, tolerance "
            f"{control.tolerance:.2g}.",
            ConvergenceWarning,
        )
    factor = Factor(
        points,
        cholesky(np.asfortranarray(model.kernel.cross(points, points), dtype=np.float64)),
        solution.precision,
        solution.shift,
    )
    features = None if table.columns is None else list(table.columns)
    stream = Stream.at(
        factor, model.kernel, likelihood, n_seen=int(seen["n"]), classes=classes, features=features, X=known.X, t=t
    )
    return ShardedFit(stream, solution.log_evidence, gradient, int(seen["n"]), info)


def _table(X: Any, y: Any) -> Table:
    """Return a table in parts, or raise a ValueError."""
    if not isinstance(X, Table):
        if not hasattr(X, "to_delayed"):
            raise ValueError(
                "X must be a Dask frame or array, or come from sharded.from_parquet or from_arrays, got "
                f"{type(X).__name__}. Inputs that are here are fitted by bgp.fit(X, y, kernel, likelihood)."
            )
        if hasattr(X, "columns") and not isinstance(y, str):
            raise ValueError(
                f"y must be the name of a column of the Dask frame X, got {type(y).__name__}. Put the labels into the "
                "frame, X.assign(label=y), and give 'label'."
            )
        X = from_dask(X, y)
    elif y is not None and not (isinstance(y, str) and y == X.target):
        raise ValueError(f"the table has its labels, {X.target or 'one of each row'!r}: y must be None, got {y!r}.")
    if not X.parts:
        raise ValueError("the table has no parts.")
    table: Table = X
    return table


def _default_client() -> Any:
    """Return the Dask client that is there, or None; who has made one has imported Dask."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:  # there is none
        return None


def _targets(known: _Known, likelihood: Likelihood, positive: Any) -> tuple[tuple[Any, Any] | None, Array]:
    """Return the classes of all cases, and the targets of the random part."""
    if likelihood.is_real:
        return None, encode_targets(known.y.astype(np.float64), known.y.size, likelihood, positive)[0]
    try:
        labels = sorted(known.labels)
    except TypeError:  # such as text and numbers
        labels = sorted(known.labels, key=str)
    # a part with cases of one class alone may have that one category: only orders of all classes say which is the later
    orders: dict[tuple[Any, ...], str] = {}
    for each, name in sorted(known.orders.items(), key=lambda item: item[1]):
        order = tuple(filter(known.labels.__contains__, each))
        if len(order) == len(labels):
            orders.setdefault(order, name)
    if len(orders) > 1 and positive is None:
        (one, first), (other, second) = list(orders.items())[:2]
        raise ValueError(
            f"parts have their categories in different orders: {first} {list(one)}, {second} {list(other)}. Say which "
            f"class is the positive one, such as positive={labels[-1]!r}, or write all parts with the same categories."
        )
    every: Any = np.array([*labels, *known.y.tolist()], dtype=object)
    if len(orders) == 1:
        every = pd.Categorical(every, categories=[*next(iter(orders))])
    t, names = encode_targets(every, len(every), likelihood, positive)
    by_name = {str(label): label for label in labels}
    return (by_name[names[0]], by_name[names[1]]), t[len(labels) :]


def _points(
    inducing: Any, known: _Known, t: Array, kernel: Kernel, columns: Sequence[str] | None, rng: np.random.Generator
) -> Array:
    """Return the inducing inputs: those that were given, or of random cases, the classes in proportion."""
    if isinstance(inducing, Inducing) or np.ndim(inducing) == 2:
        chosen = as_inducing(inducing, known.X, columns, kernel)
        assert chosen is not None
        if chosen.move:
            raise ValueError("Inducing: move is not there for a table in parts. Leave it out.")
        return chosen.chosen(known.X, t, kernel, rng)
    check_integers(1, inducing=inducing)
    if inducing > t.size:
        raise ValueError(f"inducing={inducing} cases are to be drawn from {t.size}. Give fewer.")
    return Inducing(int(inducing)).chosen(known.X, t, kernel, rng)


def _posterior_of(
    known: _Known, t: Array, model: ShardModel, control: Control, progress: bool
) -> tuple[Array, Array] | None:
    """Return factor and mean of the posterior of the random part, from which the rounds begin, or None.

    None where sites are known beforehand, and where that part has no solution of its own.
    """
    if model.likelihood.known_sites(t, 0.0) is not None:
        return None
    rough = replace(control, tolerance=max(ROUGH, control.tolerance), throw=True, progress=progress)
    try:
        first = max(START, 4 * len(model.points))
        X, t = known.X[:first], t[:first]
        order = np.lexsort((t, *X.T))  # the same sum, whatever the parts are called in which these cases are
        problem = assemble_inducing(model.kernel, X[order], t[order], model.likelihood, inducing=model.points)
        solution = tap.solve(problem, rough)
    except NO_SOLUTION:
        return None
    matrix: Any = problem.matrix
    if matrix.rank != len(model.points):
        return None
    found = np.asarray(matrix.posterior_factor(solution.correction).T), np.asarray(matrix.in_features(solution.alpha))
    return found


def _inducing_error(known: _Known, t: Array, model: ShardModel, start: Array, control: Control, n: int) -> float | None:
    """Return what `fit` states of inducing inputs that nearly repeat each other, of the random part, for n cases."""
    if len(model.points) == len(start) and np.array_equal(model.points, start):
        return None
    first = max(START, 4 * len(model.points))
    X, t = known.X[:first], t[:first]
    problem = assemble_inducing(model.kernel, X, t, model.likelihood, inducing=start)
    solution = tap.solve(problem, replace(control, throw=False, progress=False))
    error = inducing_error(model.kernel, X, problem, solution, tap)
    return None if error is None else error * n / len(t)


def _solved(
    backend: Backend,
    model: ShardModel,
    control: Control,
    advance: Callable[[str], None],
    after: int,
    known: tuple[Array, Array] | None = None,
) -> tuple[ShardedSolution, dict[str, Array]]:
    """Return a solution and its gradient; both anew, if a part is lost between them."""
    for _ in range(LOSSES):
        solution = solve(backend, model, control, advance, after, known)
        known = None
        gradient = evidence_gradient(backend, solution)
        if gradient is not None:
            return solution, gradient
        after = solution.posterior.number
    raise shards_lost()


def _uphill(
    backend: Backend,
    model: ShardModel,
    control: Control,
    steps: int,
    advance: Callable[[str], None],
    known: tuple[Array, Array] | None,
) -> tuple[ShardModel, int]:
    """Return the model after some steps with the gradient on all cases, and the number of the last message."""
    models, after = 0, -1
    start, rough = log_vector(model.kernel), replace(control, tolerance=1e-6, throw=True)
    free = np.full(start.size, np.inf)

    def log_evidence(x: Array) -> tuple[float, Array] | None:
        nonlocal models, after
        models += 1
        tried = model._replace(number=models, kernel=with_log_vector(model.kernel, x))
        try:
            solution, found = _solved(backend, tried, rough, advance, after, known if models == 1 else None)
        except NO_SOLUTION:
            if after < 0:  # not even the first
                raise
            return None
        after = solution.posterior.number
        return solution.log_evidence, log_gradient(tried.kernel, found)

    # of the steps that were asked for none is left out for gaining little
    end = uphill(log_evidence, start, (-free, free), gain=-np.inf, first_step=np.inf, most=steps).end
    return model._replace(number=models + 1, kernel=with_log_vector(model.kernel, end)), after
