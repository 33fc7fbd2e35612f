"""A posterior that is kept up to date: any number of cases, one batch after the other, in bounded memory."""

from __future__ import annotations

import functools
import math
import threading
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.fitting import fit, posterior
from bayesgp_mf.hyper import Strategy
from bayesgp_mf.hyper.model import public_names
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inputs import (
    as_inputs,
    as_kernel,
    as_names,
    as_new_inputs,
    as_offset,
    as_weights,
    check_flags,
    check_no_missing,
    check_positive_integers,
    check_same_cases,
    encode_labels,
    encode_targets,
    feature_names,
    warn_of_scale,
)
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case as with_cases
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.streams import batch as batches
from bayesgp_mf.streams.arguments import (
    as_budget,
    as_classes,
    as_half_life,
    as_list,
    as_new_rows,
    as_rows,
    as_table,
    check_hyper,
    check_streamed,
    in_range,
    plain,
)
from bayesgp_mf.streams.container import to_container
from bayesgp_mf.streams.factor import Factor, nothing
from bayesgp_mf.streams.files import check_writable, read, write
from bayesgp_mf.streams.state import State, check_state, plain_cases, sampled
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container
    from bayesgp_mf.hyper.priors import Prior

P = ParamSpec("P")
R = TypeVar("R")
_OPTIONS = ("budget", "classes", "hyper", "first", "reservoir", "forget", "batch")
SEARCHES = ("evidence", "loo", "scan")
"""Strategies that choose one kernel, by name."""
FEWEST = 10
"""Cases of each class without which there is nothing to tune on."""
WAITING = 4
"""Cases that are held for it before, at most, times their usual number: then the past is carried over instead."""
PARTS = 8
"""With a half-life, a batch has at most this part of it: all its cases are forgotten alike."""
ARRIVE = 4
"""Once the budget is full, a batch brings in a quarter of it at most: what is best kept is found out after that."""


class LogScore(NamedTuple):
    """How well a stream predicted each batch before it saw its labels (A. P. Dawid's prequential score).

    Attributes
    ----------
    total : float
        Log density of all targets, each given the batches before its own, in nats.
    mean : float
        The same a case; NaN before the first.
    batches, cases : (b,) array
        The log density of each batch, and how many cases it had.
    """

    total: float
    mean: float
    batches: Array
    cases: NDArray[np.int64]


def _alone(method: Callable[Concatenate[Stream, P], R]) -> Callable[Concatenate[Stream, P], R]:
    """Let one thread at a time change a stream: of two that begin at one state, one would be lost."""

    @functools.wraps(method)
    def alone(self: Stream, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class Stream:
    r"""A Gaussian process that learns from batches of cases and keeps what they say at few inputs.

    Each batch is solved by TAP with what the past says as prior; what it adds is kept at no more than ``budget`` basis
    inputs, those whose loss would change the posterior least. Time is the same for each batch, and memory does not grow
    with the cases.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        Prior covariance.
    likelihood : Likelihood
        Of two classes or real targets, with latent noise: `Probit` (default), `Logit`, ``likelihoods.Gaussian``.
    budget : int or None
        Largest number of basis inputs M. Time goes as M^2 a case, memory as M^2. None keeps all inputs.
    classes : (label, label), optional
        The two classes, the positive one last; the default takes them from the first update, which must have both.
    hyper : {None, "evidence", "loo", "scan"}
        How the parameters of the kernel are chosen, on the first cases. None keeps them as given. `retune` chooses anew
        later, also with a strategy that has options.
    first : int
        With ``hyper``, how many cases are collected for that, and more until there are 10 of each class. Until then
        they are learned from under ``kernel``, and afterwards once more under the kernel that was chosen.
    reservoir : int
        How many cases are kept for `retune`, a random part of all that were seen.
    forget : float, optional
        Half-life in cases: what a case said counts half as much when so many others have come after it. For data that
        drift; the default forgets nothing. The reservoir forgets too.
    batch : int
        Cases that are solved for at once; a longer update is taken in parts. With ``forget``, parts have at most an
        eighth of it.
    control : Control
        Tolerance of TAP.
    random_seed : int, numpy.random.Generator or None
        Which inputs come in, and which cases are kept for `retune`.

    Attributes
    ----------
    n_seen : int
        Cases learned from.
    log_score : LogScore
        How well each batch was predicted before its labels were seen.
    classes : tuple or None
        The two classes, the positive one last, once they are known.
    basis : (M, d) array
        The basis inputs, a copy.
    independent : float
        Mean part of the prior variances of the last batch that the basis inputs do not explain.

    Raises
    ------
    ValueError
        If an argument is malformed, or the likelihood has several classes or is a step without flips.

    Notes
    -----
    The equations are those of THEORY, section 11 (Csato & Opper, 2002; Bui, Nguyen & Turner, 2017). Without a budget,
    and with batches of one, it is `online.update`; with all cases in one batch, `fit` with ``inducing``.

    Several threads may update one stream: they take turns, in no order that is promised. Predictions go on meanwhile,
    from the state after the last whole batch.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> kernel = bgp.kernels.Gaussian(1.0, 4.0)
    >>> toy = bgp.datasets.make_toy(kernel, n=300, random_seed=1)
    >>> stream = bgp.streams.Stream(kernel, budget=20, random_seed=1)
    >>> stream.update(toy.X[:150], toy.y[:150]).update(toy.X[150:], toy.y[150:]).n_seen
    300
    """

    def __init__(
        self,
        kernel: Any,
        likelihood: Likelihood = Probit(),
        budget: int | None = 200,
        *,
        classes: Sequence[Any] | None = None,
        hyper: str | None = None,
        first: int = 2000,
        reservoir: int = 2000,
        forget: float | None = None,
        batch: int = 500,
        control: Control = Control(),
        random_seed: Any = None,
    ) -> None:
        check_likelihood(likelihood)
        check_streamed(likelihood)
        check_positive_integers(first=first, reservoir=reservoir, batch=batch)
        check_control(control)
        if hyper is not None:
            if hyper not in SEARCHES:
                raise ValueError(
                    f"hyper must be None or one of {list(SEARCHES)}, which choose one kernel, got {hyper!r}. A "
                    "strategy with options goes to retune, after the first updates."
                )
            if first > reservoir:
                raise ValueError(
                    f"first={first} cases are tuned on, and reservoir={reservoir} are kept: it is too small."
                )
        self._likelihood, self._classes = likelihood, as_classes(classes, likelihood)
        self._budget, self._forget = as_budget(budget), as_half_life(forget)
        self._hyper, self._first, self._reservoir, self._batch = hyper, int(first), int(reservoir), int(batch)
        self._control = control
        self._entropy = int(as_generator(random_seed).integers(2**63))
        self._features: list[str] | None = None
        self._lock = threading.RLock()
        self._scores, self._cases = array("d"), array("q")
        start = as_kernel(kernel)
        self._state = State(start, nothing(0), 0, 0, self._hyper is None, np.empty((0, 0)), np.empty(0))

    @classmethod
    def at(
        cls,
        factor: Factor,
        kernel: Kernel,
        likelihood: Likelihood,
        *,
        n_seen: int,
        classes: Sequence[Any] | None,
        features: list[str] | None,
        X: Array,
        t: Array,
        random_seed: Any = None,
    ) -> Stream:
        """Return a stream that has learned what a factor says, from ``n_seen`` cases; some ``(X, t)`` are kept."""
        stream = cls(kernel, likelihood, budget=factor.size, classes=classes, random_seed=random_seed)
        stream._features = features
        kept = slice(0, stream._reservoir)
        stream._state = replace(stream._state, factor=factor, n_seen=n_seen, X=X[kept], t=t[kept])
        return stream

    @property
    def kernel(self) -> Kernel:
        """Prior covariance, as it is now."""
        return self._state.kernel

    @property
    def features(self) -> list[str] | None:
        """Names of the inputs, if they have names."""
        return self._features

    @property
    def n_seen(self) -> int:
        """Cases learned from."""
        return self._state.n_seen

    @property
    def likelihood(self) -> Likelihood:
        """p(t | f)."""
        return self._likelihood

    @property
    def classes(self) -> tuple[Any, Any] | None:
        """The two classes, the positive one last, once they are known; None for real targets."""
        return self._classes

    @property
    def basis(self) -> Array:
        """The basis inputs ``(M, d)``, a copy."""
        return self._state.factor.points.copy()

    @property
    def factor(self) -> Factor:
        """What the past says at the basis inputs; nothing is ever changed in it."""
        return self._state.factor

    @property
    def independent(self) -> float:
        """Mean part of the prior variances of the last batch that the basis inputs do not explain; NaN before it."""
        return self._state.independent

    @property
    def forget(self) -> float | None:
        """Half-life in cases; it may be set between updates."""
        return self._forget

    @forget.setter
    def forget(self, value: float | None) -> None:
        self._forget = as_half_life(value)

    @property
    def budget(self) -> int | None:
        """Largest number of basis inputs; it may be set between updates."""
        return self._budget

    @budget.setter
    @_alone
    def budget(self, value: int | None) -> None:
        budget = as_budget(value)
        if budget is not None:
            self._state = replace(self._state, factor=self._state.factor.within(budget))
        self._budget = budget

    @property
    def log_score(self) -> LogScore:
        """How well each batch was predicted before its labels were seen."""
        n_batches = self._state.n_batches
        scores = np.array(self._scores[:n_batches], dtype=np.float64)
        cases = np.array(self._cases[:n_batches], dtype=np.int64)
        total = float(scores.sum())
        return LogScore(total, total / float(cases.sum()) if cases.size else math.nan, scores, cases)

    @_alone
    def update(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 1,
        progress: bool = True,
    ) -> Stream:
        """Learn from more cases, and return the stream.

        Parameters
        ----------
        X : (m, d) or (d,) array_like
            Inputs, or those of one case; of a data frame the columns must be the same at each update.
        y : (m,) array_like or label
            Labels or targets, or that of the case.
        offset, weights : (m,) array_like or number, optional
            Of the cases of this update, as `fit` has them; 0 and 1 where they are left out.
        checkpoint : path, optional
            Where to save the stream (`save`) on the way and at the end: a killed process goes on from `load`, after
            the first `n_seen` cases.
        every : int
            After how many batches.
        progress : bool
            Show a progress bar for what takes longer than a second.

        Returns
        -------
        Stream
            Itself.

        Raises
        ------
        ValueError
            If inputs or labels are malformed, do not fit those before, or a label is none of the classes.
        ConvergenceError, NotPositiveDefiniteError
            If a batch has no solution. The stream then has learned from all batches before it, and a note of the error
            says how many cases these are. After Ctrl-C the same is true.
        """
        check_positive_integers(every=every)
        check_flags(progress=progress)
        X, y = as_table(X, y)
        check_same_cases(X, y)
        table = X
        features = feature_names("X", X)
        if None not in (self._features, features) and features != self._features:
            raise ValueError(
                f"X has columns {features}, and the first update had {self._features}. Pass X[{self._features}]."
            )
        X = in_range("X", as_inputs("X", X))
        columns = self._state.X.shape[1]
        if self.n_seen and X.shape[1] != columns:
            raise ValueError(f"X must have {columns} columns, as at the first update, got {X.shape[1]}.")
        by_case = plain_cases(X.shape[0])
        given = as_offset(as_list(offset), table, len(X)), as_weights(as_list(weights), table, len(X))
        for column, values in enumerate(given):
            if values is not None:
                by_case[:, column] = values
        self._likelihood_of(by_case)  # which raises if the likelihood has no such things
        t, classes = self._targets(y, X.shape[0])
        told = self._features, self._classes, self._state
        if not self.n_seen:
            self._state = replace(self._state, kernel=self.kernel.with_column_names(features))
        if given[0] is not None:
            self._state = replace(self._state, has_offset=True)
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None:
            check_writable(path, self.kernel, self._likelihood)
        if not self.n_seen:
            warn_of_scale(X, [self.kernel])
        self._features, self._classes = features if self._features is None else self._features, classes
        size, before = self._part, self.n_seen
        total = -(-X.shape[0] // size)
        try:
            with progress_bar("learning", total, enabled=progress) as advance:
                for k, some in enumerate(blocks(X.shape[0], size)):
                    self._learn(X[some], t[some], by_case[some])
                    advance(f"{self.n_seen} cases, log score of the last {self._scores[-1] / self._cases[-1]:.4f}")
                    if path is not None and ((k + 1) % every == 0 or k + 1 == total):
                        self.save(path)
        except BaseException as error:  # Ctrl-C too
            done = self.n_seen - before
            if not self.n_seen:
                self._features, self._classes, self._state = told
            error.add_note(
                f"The stream has learned from the first {done} of the {X.shape[0]} rows of this update, {self.n_seen} "
                f"cases in all, and goes on from there: update(X[{done}:], y[{done}:])."
            )
            raise
        return self

    def _likelihood_of(self, by_case: Array) -> Likelihood:
        """Return the likelihood of cases with these offsets and weights ``(m, 2)``."""
        offset, weights = np.ascontiguousarray(by_case.T)
        given = {"offset": offset} if offset.any() else {}
        return with_cases(self._likelihood, **given, **({} if np.all(weights == 1.0) else {"weights": weights}))

    def latent(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return the posterior mean and variance ``(m,)`` of the latent function at new cases ``(m, d)``, or at one.

        Raises
        ------
        ValueError
            If ``X_new`` is malformed, has other columns than the cases before, or nothing was learned yet.
        """
        if not self.n_seen:
            raise ValueError("nothing was learned yet: call update(X, y) first.")
        state = self._state
        rows = as_new_rows(X_new, state.X.shape[1])
        X = in_range("X_new", as_new_inputs(rows, state.X, self._features, state.kernel))
        mean, variance = np.empty(X.shape[0]), np.empty(X.shape[0])
        with one_thread_if_small(state.factor.size):
            for block in blocks(X.shape[0]):
                _, mean[block], variance[block], _ = batches.predictive(state.factor, state.kernel, X[block])
        return mean, variance

    def predict_proba(self, X_new: ArrayLike, *, offset: ArrayLike | None = None) -> Array:
        """Return the probability ``(m,)`` of the second class at new cases ``(m, d)``.

        They have an ``offset`` each, if updates had.

        Raises
        ------
        ValueError
            As `latent` does; or if ``offset`` is missing or not wanted.
        UndefinedQuantityError
            If the targets are real.
        """
        if self._likelihood.targets == "real":
            raise UndefinedQuantityError("real targets have no class; use latent(X_new).")
        mean, variance = self.latent(X_new)
        given = as_offset(as_list(offset), as_rows(X_new), mean.size, "X_new")
        if given is None and self._state.has_offset:
            raise ValueError(
                "offset is missing: cases of this stream had offsets. Give one for each row of X_new, "
                "predict_proba(X_new, offset=...); zeros for an exposure of 1."
            )
        if given is not None and not self._state.has_offset:
            raise ValueError("offset of new cases goes with a stream whose cases had offsets. Leave it out.")
        return self._likelihood.predict_proba(mean if given is None else mean + given, variance)

    @_alone
    def retune(
        self,
        hyper: str | Strategy = "evidence",
        *,
        priors: Mapping[str, Prior] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        fixed: Collection[str] = (),
        starts: int | None = None,
        progress: bool = True,
    ) -> Stream:
        """Choose the parameters of the kernel anew, on the cases of the reservoir, and return the stream.

        What the past says of the function at the basis inputs is carried over to the new kernel: its factor stays, and
        the prior under it changes. The sites of cases that are gone were matched under the old kernel.

        Parameters
        ----------
        hyper, priors, bounds, fixed, starts
            As `fit` has them; the search starts at the present kernel. The likelihood, under which everything was
            learned, is kept.
        progress : bool
            Show a progress bar for what takes longer than a second.

        Raises
        ------
        ValueError
            If an argument is malformed, or nothing was learned yet.
        NotPositiveDefiniteError
            If under the new kernel all variances at the basis inputs are zero; the stream stays as it was.
        """
        if not self.n_seen:
            raise ValueError("nothing was learned yet: call update(X, y) first.")
        check_hyper(hyper)
        state = self._state
        kernel = self._tuned(state, hyper, priors=priors, bounds=bounds, fixed=fixed, starts=starts, progress=progress)
        factor = self._again(state, kernel) if state.t.size == state.n_seen else state.factor.under(kernel)
        self._state = replace(state, kernel=kernel, factor=factor, is_tuned=True)
        return self

    def to_container(self, draws: int = 1000, chains: int = 4, random_seed: Any = None) -> Container:
        """Return the posterior at the basis inputs as an ArviZ container.

        It has the groups ``posterior`` (f at the basis inputs), ``constant_data`` (these, X) and ``fit`` (parameters of
        the kernel, ``log_score`` and ``n_cases`` of each batch, ``n_seen``).
        """
        check_positive_integers(draws=draws, chains=chains)
        state, score = self._state, self.log_score
        return to_container(
            state.factor,
            state.kernel,
            self._likelihood,
            features=self._features,
            classes=self._classes,
            scores={"log_score": score.batches, "n_cases": score.cases},
            n_seen=self.n_seen,
            sizes=(int(chains), int(draws)),
            rng=as_generator(random_seed),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the stream to a file, which is there as a whole or not at all.

        Raises
        ------
        ValueError
            If the kernel or the likelihood is not one of this package, and so cannot be written.
        """
        state, n_batches = self._state, self._state.n_batches
        factor = state.factor
        arrays = {
            "points": factor.points,
            "root": factor.root,
            "precision": factor.precision,
            "shift": factor.shift,
            "X": state.X,
            "t": state.t,
            "log_score": np.array(self._scores[:n_batches], dtype=np.float64),
            "n_cases": np.array(self._cases[:n_batches], dtype=np.int64),
            **({"by_case": state.by_case} if len(state.by_case) else {}),
        }
        settings = {
            "budget": self._budget,
            "classes": None if self._classes is None else [plain(label) for label in self._classes],
            "features": self._features,
            "hyper": self._hyper,
            "first": self._first,
            "reservoir": self._reservoir,
            "forget": self._forget,
            "batch": self._batch,
            "entropy": self._entropy,
            "n_seen": state.n_seen,
            "is_tuned": state.is_tuned,
            "independent": state.independent,
            **({"has_offset": True} if state.has_offset else {}),
        }
        write(Path(path), arrays, settings, state.kernel, self._likelihood, self._control)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Stream:
        """Return the stream that was saved in a file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no stream, or damaged.
        """
        saved = read(Path(path))
        settings, arrays = saved.settings, saved.arrays
        try:
            given = {name: settings[name] for name in _OPTIONS}
            stream = cls(saved.kernel, saved.likelihood, control=saved.control, **given)
            factor = Factor(
                arrays["points"],
                np.asfortranarray(arrays["root"]),
                np.asfortranarray(arrays["precision"]),
                arrays["shift"],
            )
            stream._entropy, stream._features = settings["entropy"], settings["features"]
            stream._scores, stream._cases = array("d", arrays["log_score"]), array("q", arrays["n_cases"])
            n_seen, n_batches, is_tuned = settings["n_seen"], len(arrays["n_cases"]), settings["is_tuned"]
            state = State(
                saved.kernel, factor, n_seen, n_batches, is_tuned, arrays["X"], arrays["t"], settings["independent"]
            )
            state = replace(
                state,
                by_case=arrays.get("by_case", state.by_case),
                has_offset=bool(settings.get("has_offset", False)),
            )
            check_state(state, settings, arrays, saved.likelihood)
        except (KeyError, TypeError, ValueError, ArithmeticError, NotPositiveDefiniteError) as error:
            raise ValueError(f"{path} holds no stream that could have been saved: {error}") from error
        stream._state = state
        return stream

    def __copy__(self) -> Stream:
        other = object.__new__(Stream)
        vars(other).update(vars(self))
        other._scores, other._cases = array("d", self._scores), array("q", self._cases)
        other._lock = threading.RLock()
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        state, score = self._state, self.log_score
        limit = "no limit" if self._budget is None else f"at most {self._budget:,}"
        said = ""
        if score.cases.size:
            said = f", log score {score.mean:.4f} a case (last batch {score.batches[-1] / score.cases[-1]:.4f})"
        waits = "" if state.is_tuned else f"; tuned after {self._first:,}"
        left = "" if math.isnan(state.independent) else f", which leave {100.0 * state.independent:.0f} % of the prior"
        positive = "" if self._classes is None else f"; p is of {self._classes[1]!r}"
        return (
            f"Stream({state.kernel!r}, {self._likelihood!r})\n"
            f"  {self.n_seen:,} cases in {state.n_batches:,} batches{said}{waits}\n"
            f"  {state.factor.size:,} basis inputs, {limit}{left}{positive}"
        )

    def _targets(self, y: Any, m: int) -> tuple[Array, tuple[Any, Any] | None]:
        """Return targets ``(m,)``, and the classes, which the first update may name."""
        if self._likelihood.targets == "real":
            return encode_targets(y, m, self._likelihood)[0], None
        if self._classes is not None:
            if len(np.asarray(y, dtype=object)) != m:
                raise ValueError(f"y must have one label for each of the {m} rows of X, got {len(np.asarray(y))}.")
            check_no_missing(y)
            what, advice = "the classes of this stream", "Correct the labels, or drop those cases."
            return 2.0 * encode_labels(y, self._classes, what, advice) - 1.0, self._classes
        labels = np.asarray(y, dtype=object)
        distinct = {str(label) for label in labels} if labels.ndim == 1 else set()
        if len(distinct) == 1:
            raise ValueError(
                f"y of the first update has a single class, {distinct.pop()!r}, so that the other is not known. Name "
                "both when you make the stream, the positive one last: Stream(kernel, classes=('no', 'yes'))."
            )
        if len(distinct) > 2:
            raise ValueError(
                f"y must have two classes, got {sorted(distinct)[:5]}{', ...' * (len(distinct) > 5)}. For more, make a "
                "stream for each class against the rest; for real targets use likelihoods.Gaussian(...)."
            )
        t, names = encode_targets(y, m, self._likelihood)
        by_name = {str(label): label for label in labels}
        first, second = (by_name.get(name, name) for name in names)
        return t, (first, second)

    def _learn(self, X: Array, t: Array, by_case: Array) -> None:
        """Learn from one batch, and tune when enough cases have come."""
        state = self._state
        if not state.n_seen:
            state = replace(state, factor=nothing(X.shape[1]), X=np.empty((0, X.shape[1])))
        rng = np.random.default_rng([self._entropy, state.n_batches])  # the same after a crash
        with one_thread_if_small(max(state.factor.size, t.size)):
            factor, done = self._absorbed(state.factor, state.kernel, X, t, by_case, rng)
        held = self._reservoir if state.is_tuned else max(self._reservoir, WAITING * self._first)
        kept_X, rows = sampled(state, X, np.column_stack([t, by_case]), held, self._forget, rng)
        kept = np.ascontiguousarray(rows[:, 0]), rows[:, 1:]
        are_plain = np.array_equal(kept[1], plain_cases(len(rows)))
        after = replace(
            state,
            factor=factor,
            n_seen=state.n_seen + t.size,
            n_batches=state.n_batches + 1,
            X=kept_X,
            t=kept[0],
            by_case=kept[1][:0] if are_plain else kept[1],
            independent=done.independent,
        )
        if not after.is_tuned and after.n_seen >= self._first and self._hyper is not None and self._may_tune(after.t):
            kernel = self._tuned(after, self._hyper)
            is_whole = after.t.size == after.n_seen
            factor = self._again(after, kernel) if is_whole else after.factor.under(kernel)
            fewer = np.sort(rng.permutation(after.t.size)[: self._reservoir])
            after = replace(after, kernel=kernel, factor=factor, is_tuned=True, X=after.X[fewer], t=after.t[fewer])
            after = replace(after, by_case=kept[1][:0] if are_plain else kept[1][fewer])
        del self._scores[state.n_batches :], self._cases[state.n_batches :]
        self._scores.append(float(done.log_score.sum()))
        self._cases.append(t.size)
        self._state = after

    def _may_tune(self, t: Array) -> bool:
        """Tell whether there are enough cases of each class."""
        return self._likelihood.targets == "real" or int(min(np.sum(t > 0), np.sum(t < 0))) >= FEWEST

    def _again(self, state: State, kernel: Kernel) -> Factor:
        """Return what all cases say under another kernel, while all of them are still held."""
        factor, rng = nothing(state.X.shape[1]), np.random.default_rng([self._entropy, state.n_batches, 2])
        with one_thread_if_small(max(state.factor.size, self._batch)):
            for some in blocks(state.t.size, self._part):
                factor, _ = self._absorbed(factor, kernel, state.X[some], state.t[some], state.rows[some, 1:], rng)
        return factor

    @property
    def _part(self) -> int:
        """Cases that are solved for at once."""
        return self._batch if self._forget is None else max(1, min(self._batch, int(self._forget / PARTS)))

    def _absorbed(
        self, factor: Factor, kernel: Kernel, X: Array, t: Array, by_case: Array, rng: np.random.Generator
    ) -> tuple[Factor, batches.Absorbed]:
        """Return the factor after a batch, within the budget, and what came of the batch."""
        if self._forget is not None:
            factor = factor.forgetting(0.5 ** (t.size / self._forget))
        room = t.size if self._budget is None else max(self._budget - factor.size, -(-self._budget // ARRIVE))
        new = X if room >= t.size else X[np.sort(rng.choice(t.size, room, replace=False))]
        whole = self._budget is None
        done = batches.absorb(factor, kernel, X, t, self._likelihood_of(by_case), new, self._control, whole=whole)
        return done.factor if self._budget is None else done.factor.within(self._budget), done

    def _tuned(self, state: State, hyper: str | Strategy, **options: Any) -> Kernel:
        """Return the kernel that a strategy chooses on the reservoir; what was learned is under this likelihood."""
        inducing = None if self._budget is None or self._budget >= state.t.size else self._budget
        rng = np.random.default_rng([self._entropy, state.n_batches, 1])
        fixed = as_names("fixed", options.pop("fixed", ())) | set(public_names(state.kernel, self._likelihood))
        given: dict[str, Any] = {
            "inducing": inducing,
            "draws": 1,
            "chains": 1,
            "random_seed": rng,
            "fixed": fixed,
            **options,
        }
        if len(state.by_case):
            given |= {"offset": state.by_case[:, 0], "weights": state.by_case[:, 1]}
        found = fit(state.X, state.t, state.kernel, self._likelihood, hyper=hyper, **given)
        process: Any = posterior(found)
        return as_kernel(process.kernel)
