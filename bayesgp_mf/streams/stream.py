"""A posterior that is kept up to date: any number of cases, one batch after the other, in bounded memory."""

from __future__ import annotations

import functools
import json
import math
import threading
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import as_generator, check_flags, check_integers
from bayesgp_mf.container.groups import Container, make_container
from bayesgp_mf.container.layout import SAMPLE_DIMS, common_attrs
from bayesgp_mf.errors import DamagedFileError, NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.files import as_path
from bayesgp_mf.hyper import SEARCHES, SearchName, Strategy, default_model
from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inputs.groups import as_inputs_of, as_new_inputs
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.inputs.options import as_kernel, as_likelihood
from bayesgp_mf.inputs.scales import warn_of_offset, warn_of_scale
from bayesgp_mf.inputs.tables import as_offset, as_weights, check_all_same_cases, feature_names
from bayesgp_mf.kernels import Gaussian, Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.names import naming_absent
from bayesgp_mf.notebook import as_html
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.streams import arguments
from bayesgp_mf.streams.factor import Factor, nothing
from bayesgp_mf.streams.files import OPTIONS, check_writable, read, state_of, write
from bayesgp_mf.streams.learning import Learner, LogScore, StreamState, rows_of, values_of
from bayesgp_mf.streams.values import Cases, predictive
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.hyper.priors import Prior

MOST_SHOWN = 5
"""Classes that the representation names."""
P = ParamSpec("P")
R = TypeVar("R")


def _alone(method: Callable[Concatenate[Stream, P], R]) -> Callable[Concatenate[Stream, P], R]:
    """Let one thread at a time change a stream: of two that begin at one state, one would be lost."""

    @functools.wraps(method)
    def alone(self: Stream, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class Stream:
    r"""A Gaussian process that learns from batches of cases and keeps what they say at few inputs.

    TAP solves each batch, with the posterior so far as its prior. The result is kept as a Gaussian at no more than
    ``budget`` inputs, the basis inputs; those that matter least are dropped. Every batch takes the same time, and
    memory does not grow with the number of cases.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. By default that of `hyper.default_model`, first of the first update alone, whose parameters
        are chosen.
    likelihood : Likelihood
        Of two classes (`Probit`, the default, or `Logit`), of real targets or counts (``likelihoods.Gaussian``,
        `Poisson`), or of several classes (`MultinomialProbit`, `Softmax`).
    budget : int or None
        Largest number of basis inputs M. Time goes as M^2 a case, memory as M^2; for C classes M counts C - 1 times.
        None keeps all inputs.
    classes : sequence of labels, optional
        All classes that will ever come. Of two, the last one is the one whose probability is predicted. By default they
        are those that the likelihood names, and otherwise those of the first update, which must then have them all.
    hyper : {None, "evidence", "loo", "scan"}
        How the parameters of the kernel are chosen, on the first cases. None keeps them as given, or is "evidence" if
        no kernel is given. `retune` chooses anew
        later, also with a strategy that has options.
    first : int
        With ``hyper``, how many cases are collected before the kernel is chosen, and more until each of two classes has
        10. Until then the stream learns under ``kernel``; then it learns from these cases again, under the kernel that
        was chosen.
    reservoir : int
        How many cases are kept for `retune`, a random part of all that were seen.
    forget : float, optional
        Half-life in cases: what a case said counts half as much when so many others have come after it. For data that
        drift; the default forgets nothing. The reservoir forgets too.
    batch : int
        Cases that are solved for at once; a longer update is taken in parts. With ``forget``, a part has at most an
        eighth of the half-life.
    control : Control
        Tolerance of TAP.
    random_seed : int, numpy.random.Generator or None
        Decides which inputs enter the basis, and which cases are kept for `retune`.

    Attributes
    ----------
    n_seen : int
        Cases learned from.
    log_score : LogScore
        How well each batch was predicted before its labels were seen.
    classes : tuple or None
        The classes, of two the positive one last, once they are known.
    basis : (M, d) array
        The basis inputs, a copy.
    independent : float
        Mean part of the prior variances of the last batch that the basis inputs do not explain.

    Raises
    ------
    ValueError
        If an argument is malformed, the likelihood is a step without flips, the kernel is `PerClass`, ``hyper`` cannot
        choose such a kernel, or the budget is too large for so many classes.

    Notes
    -----
    The equations are those of Csato & Opper (2002) and Bui, Nguyen & Turner (2017). Without a budget, and with batches
    of one case, it is `online.update`; with all cases in one batch, `fit` with ``inducing``.

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

    Several classes:

    >>> X, y = [[-1.0], [0.0], [1.0]], ["low", "middle", "high"]
    >>> likelihood = bgp.MultinomialProbit(("low", "middle", "high"))
    >>> stream = bgp.streams.Stream(kernel, likelihood).update(X, y)
    >>> stream.predict_proba([[-1.5], [1.5]]).round(2)
    array([[0.65, 0.2 , 0.16],
           [0.16, 0.2 , 0.65]])
    """

    def __init__(
        self,
        kernel: Any = None,
        likelihood: str | Likelihood = Probit(),
        budget: int | None = 200,
        *,
        classes: Sequence[Any] | None = None,
        hyper: SearchName | None = None,
        first: int = 2000,
        reservoir: int = 2000,
        forget: float | None = None,
        batch: int = 500,
        control: Control = Control(),
        random_seed: Any = None,
    ) -> None:
        likelihood = as_likelihood(likelihood)
        by_default = kernel is None
        start = Gaussian() if by_default else as_kernel(kernel)  # of the default the columns say more
        hyper = "evidence" if by_default and hyper is None else hyper
        check_integers(1, first=first, reservoir=reservoir, batch=batch)
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
        self._classes = arguments.as_classes(classes, likelihood)
        if self._classes is not None:
            likelihood = likelihood.with_classes(self._classes)
        arguments.check_streamed(start, likelihood)
        if hyper is not None:
            arguments.check_choice(hyper, start, likelihood)
        self._learner = Learner(
            likelihood,
            arguments.as_budget(budget, self._classes),
            hyper,
            int(first),
            int(reservoir),
            arguments.as_half_life(forget),
            int(batch),
            control,
            int(as_generator(random_seed).integers(2**63)),
            by_default,
        )
        self._features: list[str] | None = None
        self._lock = threading.RLock()
        self._scores, self._cases = array("d"), array("q")
        self._state = StreamState(start, nothing(0), 0, 0, hyper is None, np.empty((0, 0)), np.empty((0, 4)))

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
        kept = slice(0, stream._learner.reservoir)
        stream._state = replace(stream._state, factor=factor, n_seen=n_seen, X=X[kept], rows=rows_of(t[kept]))
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
        return self._learner.likelihood

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes, of two the positive one last, once they are known; None for real targets."""
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
        return self._learner.forget

    @forget.setter
    @_alone
    def forget(self, value: float | None) -> None:
        self._learner = replace(self._learner, forget=arguments.as_half_life(value))

    @property
    def budget(self) -> int | None:
        """Largest number of basis inputs; it may be set between updates."""
        return self._learner.budget

    @budget.setter
    @_alone
    def budget(self, value: int | None) -> None:
        budget = arguments.as_budget(value, self._classes)
        if budget is not None:
            self._state = replace(self._state, factor=self._state.factor.within(budget))
        self._learner = replace(self._learner, budget=budget)

    @property
    def log_score(self) -> LogScore:
        """How well each batch was predicted before its labels were seen."""
        return self._score_at(self._state)

    def _score_at(self, state: StreamState) -> LogScore:
        """Return the score of the batches that a state has learned from; another thread may have gone on."""
        return LogScore.of(self._scores[: state.n_batches], self._cases[: state.n_batches])

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
            Labels or targets, or that of the case; of `likelihoods.Censored` as `bayesgp_mf.fit` takes them.
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
        check_integers(1, every=every)
        check_flags(progress=progress)
        path = None if checkpoint is None else as_path("checkpoint", checkpoint)
        if path is not None:
            check_writable(path)
        X, y = arguments.as_table(X, y)
        check_all_same_cases(X=X, y=y, offset=offset, weights=weights)
        known: Any
        y, known = with_limits(y, self.likelihood, whole=False)
        other = known.other_limit if known.takes_limits else None
        table = X
        features = feature_names("X", X)
        if None not in (self._features, features) and features != self._features:
            raise ValueError(
                f"X has columns {features}, and the first update had {self._features}. Pass X[{self._features}]."
            )
        by_default = self._learner.by_default and not self.n_seen
        facts = {"offset": arguments.as_list(offset), "weights": arguments.as_list(weights)}
        targets = y if self.likelihood.is_real else None  # a first batch may have labels of one class
        kernel = default_model(X, targets, known, **facts).kernel if by_default else self.kernel
        kernel = kernel.with_column_names(features)
        X, kernel = as_inputs_of(kernel, X, further=bool(self.n_seen))
        X = arguments.in_range("X", X)
        columns = self._state.X.shape[1]
        if self.n_seen and X.shape[1] != columns:
            raise ValueError(f"X must have {columns} columns, as at the first update, got {X.shape[1]}.")
        counted = as_weights(arguments.as_list(weights), table, len(X))
        given = self._offset_of(offset, table, len(X), "X"), counted
        self._learner.likelihood_of(rows_of(np.zeros(len(X)), *given))  # which raises if it has no such things
        warn_of_offset(given[0], self.likelihood)
        t, classes = arguments.as_targets(y, X.shape[0], self.likelihood, self._classes)
        rows = rows_of(t, *given, other)
        former = self._features, self._classes, self._state, self._learner
        if not self.n_seen:
            arguments.as_budget(self.budget, classes)  # which raises if it is too large for these
            if classes is not None:
                self._learner = replace(self._learner, likelihood=self.likelihood.with_classes(classes))
        self._state = replace(self._state, kernel=kernel)  # which knows the texts of all cases so far
        if given[0] is not None:
            self._state = replace(self._state, has_offset=True)
        if not self.n_seen:
            warn_of_scale(X, [self.kernel])
        self._features, self._classes = features if self._features is None else self._features, classes
        size, before = self._learner.part, self.n_seen
        total = -(-X.shape[0] // size)
        try:
            with progress_bar("learning", total, enabled=progress) as advance:
                for k, some in enumerate(blocks(X.shape[0], size)):
                    self._take(*self._learner.learned(self._state, X[some], rows[some], progress=progress))
                    advance(f"{self.n_seen} cases, log score of the last {self._scores[-1] / self._cases[-1]:.4f}")
                    if path is not None and ((k + 1) % every == 0 or k + 1 == total):
                        self.save(path)
        except BaseException as error:  # Ctrl-C too
            done = self.n_seen - before
            if not self.n_seen:
                self._features, self._classes, self._state, self._learner = former
            error.add_note(
                f"The stream has learned from the first {done} of the {X.shape[0]} rows of this update, {self.n_seen} "
                f"cases in all, and goes on from there: update(X[{done}:], y[{done}:])."
            )
            raise
        return self

    def _take(self, after: StreamState, log_score: float) -> None:
        """Be in the state after a batch, which was predicted with this score."""
        before = self._state
        del self._scores[before.n_batches :], self._cases[before.n_batches :]
        self._scores.append(log_score)
        self._cases.append(after.n_seen - before.n_seen)
        self._state = after

    def latent(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return the posterior mean and variance ``(m,)`` of the latent function at new cases ``(m, d)``, or at one.

        With several classes they are those of the function of each, ``(m, C)``.

        Raises
        ------
        ValueError
            If ``X_new`` is malformed, has other columns than the cases before, or nothing was learned yet.
        """
        return self._query(X_new, values_of(self.likelihood).marginals)

    def _query(self, X_new: ArrayLike, ask: Callable[[Cases], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return what is asked of new cases, a pair of arrays."""
        if not self.n_seen:
            raise ValueError("nothing was learned yet: call update(X, y) first.")
        state = self._state
        rows = arguments.as_new_rows(X_new, state.X.shape[1])
        X = arguments.in_range("X_new", as_new_inputs(rows, state.X, self._features, state.kernel))
        with one_thread_if_small(state.factor.shift.size):
            each = [ask(predictive(state.factor, state.kernel, X[block])) for block in blocks(X.shape[0])]
        first, second = zip(*each, strict=True)
        return np.concatenate(first), np.concatenate(second)

    def predict_proba(self, X_new: ArrayLike, *, offset: ArrayLike | None = None) -> Array:
        """Return the probability ``(m,)`` of the second class at new cases ``(m, d)``.

        With several classes it is that of each, ``(m, C)``, in the order of ``classes``; scikit-learn's form,
        ``(m, 2)`` for two classes, is that of a `GPClassifier` that learns by ``partial_fit``. Cases have an
        ``offset`` each, if updates had.

        Raises
        ------
        ValueError
            As `latent` does; or if ``offset`` is missing or not wanted.
        UndefinedQuantityError
            If the targets are real.
        """
        if self.likelihood.is_real:
            name = self.likelihood.display_name
            raise UndefinedQuantityError(f"a stream has probabilities of labels, not of {name}; use latent(X_new).")
        mean, variance = self._query(X_new, values_of(self.likelihood).gaussian)
        given = self._offset_of(offset, arguments.as_rows(X_new), len(mean), "X_new")
        if given is not None and not self._state.has_offset:
            raise ValueError("offset of new cases goes with a stream whose cases had offsets. Leave it out.")
        return self.likelihood.predict_proba(mean if given is None else mean + given, variance)

    def _offset_of(self, offset: Any, table: Any, n: int, rows: str) -> Array | None:
        """Return offsets ``(n,)`` of further cases; a ValueError if those before had some, and these have none."""
        given = as_offset(arguments.as_list(offset), table, n, rows)
        if given is None and self._state.has_offset:
            raise ValueError(
                "offset is missing: cases of this stream had offsets before. Give offset=..., a number for each row of "
                f"{rows}, such as np.log(exposure); zeros for an exposure of 1."
            )
        return given

    @_alone
    @naming_absent()
    def retune(
        self,
        hyper: SearchName | Strategy = "evidence",
        *,
        priors: Mapping[str, Prior] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        fixed: Collection[str] = (),
        progress: bool = True,
    ) -> Stream:
        """Choose the parameters of the kernel anew, on the cases of the reservoir, and return the stream.

        What the past says of the function at the basis inputs is carried over to the new kernel: its factor stays, and
        the prior under it changes. The sites of cases that are gone were matched under the old kernel.

        Parameters
        ----------
        hyper, priors, bounds, fixed
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
        arguments.check_hyper(hyper)
        self._state = self._learner.retuned(
            self._state, hyper, priors=priors, bounds=bounds, fixed=fixed, progress=progress
        )
        return self

    def to_container(self, draws: int = 1000, chains: int = 4, random_seed: Any = None) -> Container:
        """Return the posterior at the basis inputs as an ArviZ container.

        It has the groups ``posterior`` (f at the basis inputs), ``constant_data`` (these, X) and ``fit`` (parameters of
        the kernel, ``log_score`` and ``n_cases`` of each batch, ``n_seen``).
        """
        check_integers(1, draws=draws, chains=chains)
        state, score, classes = self._state, self.log_score, self._classes
        factor, attrs = state.factor, common_attrs()
        f = values_of(self.likelihood).draw(factor, (int(chains), int(draws)), as_generator(random_seed))
        names = self._features if self._features is not None else list(range(factor.points.shape[1]))
        cases = {"basis": np.arange(factor.size)}
        along = {SAMPLE_DIMS[0]: np.arange(int(chains)), SAMPLE_DIMS[1]: np.arange(int(draws)), **cases}
        of_each = {} if f.ndim == 3 or classes is None else {"class": [str(label) for label in classes]}
        posterior = xr.Dataset({"f": ((*SAMPLE_DIMS, "basis", *of_each), f)}, coords={**along, **of_each})
        inputs = xr.Dataset({"X": (("basis", "feature"), factor.points)}, coords={**cases, "feature": names})
        fit = xr.Dataset({"log_score": ("batch", score.batches), "n_cases": ("batch", score.cases)})
        for name, value in state.kernel.params.items():
            fit[name] = (("feature",) if np.ndim(value) else (), value)
        model = {"kernel": repr(state.kernel), "likelihood": repr(self.likelihood), "method": "stream"}
        fit = fit.assign_attrs(n_seen=self.n_seen, **model)
        if classes is not None:
            fit = fit.assign_attrs(class_names=json.dumps([str(label) for label in classes]))
        groups = {"posterior": posterior, "constant_data": inputs, "fit": fit}
        return make_container({name: group.assign_attrs(attrs) for name, group in groups.items()})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the stream to a file, which is there as a whole or not at all.

        A kernel or likelihood that is not of this package is a program, which no file holds: `load` needs it again.

        Raises
        ------
        ValueError
            If ``path`` names no file.
        """
        state = self._state
        write(as_path("path", path), state, self._learner, self._score_at(state), self._features, self._classes)

    @classmethod
    def load(cls, path: str | PathLike[str], *, kernel: Any = None, likelihood: Likelihood | None = None) -> Stream:
        """Return the stream that was saved in a file.

        Parameters
        ----------
        path : path
            The file.
        kernel, likelihood : optional
            Those of the stream, if and only if they are not of this package, or the likelihood is a ``Quadrature``. The
            parameters of the kernel are those of the file.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        DamagedFileError
            If it is no stream, or damaged.
        ValueError
            If ``kernel`` or ``likelihood`` is missing, not needed, or another than in the stream.
        MemoryError
            If it holds more than the memory of this machine.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import bayesgp_mf as bgp
        >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
        >>> stream = bgp.streams.Stream(bgp.kernels.Gaussian(1.0, 4.0), budget=20, random_seed=1).update(toy.X, toy.y)
        >>> with TemporaryDirectory() as folder:
        ...     stream.save(Path(folder) / "stream.npz")
        ...     resumed = bgp.streams.load(Path(folder) / "stream.npz")
        >>> resumed.n_seen, bool((resumed.predict_proba(toy.X) == stream.predict_proba(toy.X)).all())
        (40, True)
        """
        path = as_path("path", path)
        saved = read(path, kernel, likelihood)
        settings, arrays = saved.settings, saved.arrays
        try:
            given = {name: settings[name] for name in ("classes", *OPTIONS)}
            stream = cls(saved.kernel, saved.likelihood, control=saved.control, **given)
            more = {"entropy": settings["entropy"], "by_default": bool(settings.get("by_default", False))}
            stream._learner = replace(stream._learner, **more)
            stream._features = settings["features"]
            stream._scores, stream._cases = array("d", arrays["log_score"]), array("q", arrays["n_cases"])
            stream._state = state_of(saved)
        except (KeyError, TypeError, ValueError, ArithmeticError, NotPositiveDefiniteError) as error:
            raise DamagedFileError(f"{path} holds no stream that could have been saved: {error}") from error
        return stream

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "_scores": self._scores[:], "_cases": self._cases[:]}  # a copy goes its own way
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    def _repr_html_(self) -> str:
        model, *rest = repr(self).splitlines()
        return as_html("Stream", [("model", model), ("learned", rest[0].strip()), ("basis", rest[1].strip())])

    def __repr__(self) -> str:
        state, score = self._state, self.log_score
        limit = "no limit" if self.budget is None else f"at most {self.budget:,}"
        text = ""
        if score.cases.size:
            text = f", log score {score.mean:.4f} a case (last batch {score.batches[-1] / score.cases[-1]:.4f})"
        waits = "" if state.is_tuned else f"; tuned after {self._learner.first:,}"
        share = 100.0 * state.independent
        left = "" if math.isnan(share) else f", {share:.0f} % of the prior variance unexplained"
        positive = "" if self._classes is None else f"; p is of {_shown(self._classes)}"
        return (
            f"Stream({state.kernel!r}, {self.likelihood!r})\n"
            f"  {_of(self.n_seen, 'case', 'cases')} in {_of(state.n_batches, 'batch', 'batches')}{text}{waits}\n"
            f"  {_of(state.factor.size, 'basis input', 'basis inputs')}, {limit}{left}{positive}"
        )


def _of(number: int, one: str, many: str) -> str:
    """Return a number with the word for what it counts."""
    return f"{number:,} {one if number == 1 else many}"


def _shown(classes: tuple[Any, ...]) -> str:
    """Return the class of two, or the classes of several, whose probabilities there are."""
    if len(classes) == 2:
        return repr(classes[1])
    return ", ".join(repr(label) for label in classes[:MOST_SHOWN]) + ", ..." * (len(classes) > MOST_SHOWN)
