"""Experiments: a model that asks for the answer that would tell most, is told it, and is on the disk at any time."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from bayesgp_mf.arguments import as_mapping, check_integers, check_one_of
from bayesgp_mf.container import stored
from bayesgp_mf.design.beliefs import Belief, beliefs_of, naming, noise_of_measurements, unknown_outcomes
from bayesgp_mf.design.information import About, Question, greedy
from bayesgp_mf.errors import (
    ConvergenceError,
    ConvergenceWarning,
    NotPositiveDefiniteError,
    UndefinedQuantityError,
    warn,
)
from bayesgp_mf.files import as_path, whole
from bayesgp_mf.hyper import SEARCHES, SearchName, Target, default_model, get_strategy
from bayesgp_mf.hyper.priors import Prior, describe, from_description
from bayesgp_mf.hyper.target import with_own_priors
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import as_inputs_of, as_new_inputs
from bayesgp_mf.inputs.labels import encode_labels, encode_targets
from bayesgp_mf.inputs.options import as_kernel, as_likelihood, as_names, check_model
from bayesgp_mf.inputs.tables import as_inputs, feature_names
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import get_method
from bayesgp_mf.priors import suggest
from bayesgp_mf.processes.process import Part
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.tuning import tune
from bayesgp_mf.types import Array

FORMAT = 1
"""Changes when a file of today could not be read."""
FIRST = 10
"""Answers before hyperparameters are chosen."""
GROWTH = 1.2
"""They are chosen again when there are so many times as many answers."""
IN_BOX = 500
"""Points of a box that are looked at for each question."""
TIE = 1e-9
"""In nats: candidates that tell no less than this below the best are as good, and chance decides."""


class Experiment:
    """A model that asks for answers one after the other, each where it is expected to tell most.

    It starts with priors alone. Every answer is solved for at the hyperparameters as they are. With ``hyper`` they are
    chosen when there are 10 answers, and again whenever there are a fifth more than the last time, from where they are.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. Of labels by default that of `hyper.default_model` for the candidates, whose parameters are
        chosen.
    likelihood : Likelihood
        `Probit` (default), with ``flip`` for lapses; any of one latent value a case, measurements with Gaussian noise.
    candidates : (m, d) array_like, optional
        What may be asked for: a data frame, with columns of text too, or an array, whose columns are called x0, x1, ...
    box : mapping of str to (float, float), optional
        In place of candidates the lowest and highest value of each input. 500 points in it are looked at each time.
    classes : sequence of labels, optional
        The answers, of two the positive one last, by default False and True; or the levels in order.
    about, level, at, draws
        What is to be learned, as `information` has it.
    hyper : {None, "evidence", "loo", "scan"}
        How hyperparameters are chosen. None keeps those of ``kernel`` and ``likelihood``.
    priors : mapping of str to Prior, optional
        Of the hyperparameters. Of two classes by default those of `priors.suggest`, with which few answers do no harm.
    fixed : collection of str
        Names of parameters that keep their values.
    path : path, optional
        Where the experiment is saved after each answer; `load` goes on from there. There must be no such file yet.
    random_seed : int or None
        Of all that is random: who loads an experiment is asked the same.

    Attributes
    ----------
    X : DataFrame
        What was asked and answered, a row for each answer.
    y : array
        The answers.
    kernel, likelihood : Kernel, Likelihood
        With the hyperparameters as they are now.

    Raises
    ------
    ValueError
        If an argument is malformed, or there is a file at ``path``.
    UndefinedQuantityError
        If the likelihood has several classes, information about its outcomes is not known, or is about "models".

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> kernel = bgp.kernels.Gaussian(1.0, 4.0)
    >>> experiment = bgp.design.Experiment(kernel, candidates=[[-1.0], [0.0], [3.0]], random_seed=1)
    >>> experiment.tell([0.0], True).tell([-1.0], False).ask()
    x0    3.0
    Name: 2, dtype: float64
    """

    def __init__(
        self,
        kernel: Any = None,
        likelihood: Likelihood = Probit(),
        *,
        candidates: Any = None,
        box: Mapping[str, tuple[float, float]] | None = None,
        classes: Sequence[Any] | None = None,
        about: About = "labels",
        level: float | None = None,
        at: Any = None,
        draws: int = 2000,
        hyper: SearchName | None = None,
        priors: Mapping[str, Prior] | None = None,
        fixed: Collection[str] = (),
        path: str | PathLike[str] | None = None,
        random_seed: int | None = None,
    ) -> None:
        kernel = None if kernel is None else as_kernel(kernel)
        likelihood = as_likelihood(likelihood)
        if likelihood.has_classes:
            raise UndefinedQuantityError("an experiment is of one latent value a case, and this has several classes.")
        if (candidates is None) == (box is None):
            raise ValueError(
                "give candidates, a table of what may be asked for, or box={'x': (low, high)}: one of them."
            )
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if random_seed is None else random_seed
        check_integers(0, random_seed=seed)
        self._seed = int(seed)
        self._box = None if box is None else _as_box(box)
        self._table = _as_table("candidates", candidates) if self._box is None else _within(self._box, self._rng(0))
        self._at = None if at is None else _as_table("at", at)
        self._goal = {"about": about, "level": level, "draws": draws}
        Question.of(**self._goal, random_seed=0, likelihood=likelihood).references(self._table, self._at)
        if about == "models":
            raise UndefinedQuantityError(
                "about='models' asks which of several models holds, and an experiment has one."
            )
        if not likelihood.is_discrete and noise_of_measurements(likelihood) is None:
            raise unknown_outcomes(likelihood)
        if hyper is not None:
            check_one_of("hyper", hyper, *SEARCHES)
        given = dict(as_mapping("priors", priors))
        if kernel is None:
            if not likelihood.is_binary and likelihood.n_levels is None:
                raise ValueError(
                    f"kernel is missing: the default for {likelihood.display_name} is made from answers, of which "
                    "there are none yet. Give one of bgp.kernels."
                )
            kernel, of_default = default_model(self._table, None, likelihood)
            hyper, given = hyper or "evidence", {**of_default, **given}
        kernel = kernel.with_column_names(list(self._table.columns))
        self._inputs, self.kernel = as_inputs_of(kernel, self._table)
        check_model(self.kernel, self._inputs, likelihood)
        if hyper is not None and likelihood.is_binary and priors is None and not given:
            suggested = suggest(self._table, kernel, likelihood)
            given = {name: prior for name, prior in suggested.items() if name not in as_names("fixed", fixed)}
        self.likelihood, self._solver = likelihood, get_method("tap", likelihood)
        self._hyper, self._priors, self._fixed = hyper, given, sorted(as_names("fixed", fixed))
        self._classes = _as_classes(classes, likelihood)
        self.X, self._t = self._table.iloc[:0], np.empty(0)
        self._tuned_at = 0
        self._solved: Part | None = None
        if hyper is not None:
            self._target(self._inputs[:1], np.ones(1))  # which raises if a name is unknown
        self._path, self._written = None if path is None else as_path("path", path), ""
        if self._path is not None:
            if self._path.exists():
                raise ValueError(
                    f"path is {self._path}, and there is a file. Go on with bgp.design.load, or remove it."
                )
            self._save(self.X, self._t)

    @property
    def y(self) -> Any:
        """The answers ``(n,)``: labels, levels, counts or measurements."""
        return self._answers(self._t)

    def __repr__(self) -> str:
        what = f"{len(self._table)} candidates" if self._box is None else f"a box of {', '.join(self._box)}"
        return f"Experiment, {self._t.size} answers, {what}\n  {self.kernel!r}, {self.likelihood!r}"

    @overload
    def ask(self) -> pd.Series: ...
    @overload
    def ask(self, count: int) -> pd.DataFrame: ...

    def ask(self, count: int | None = None) -> Any:
        """Return what to ask for next: a row of the candidates, or with ``count`` so many rows to ask for together.

        It is the same until an answer is told. Of candidates that tell the same one is taken at random.

        Raises
        ------
        ConvergenceError, NotPositiveDefiniteError
            If the model has no solution for the answers. They are kept.
        """
        check_integers(1, count=1 if count is None else count)
        rng = self._rng(self._t.size)
        table = self._table if self._box is None else _within(self._box, rng)
        question = Question.of(**self._goal, random_seed=rng, likelihood=self.likelihood)
        at = question.references(table, self._at)

        def best(score: Array) -> int:
            return int(rng.choice(np.flatnonzero(score >= score.max() - TIE)))

        with one_thread_if_small(max(self._t.size, len(table))):
            beliefs = self._beliefs(table, at, joint=question.is_joint or (count or 1) > 1)
            rows = greedy(question, beliefs, len(table), count or 1, best)
        return table.iloc[rows] if count is not None else table.iloc[rows[0]]

    def tell(self, x: Any, y: Any) -> Experiment:
        """Take an answer, or several, save it, and return the experiment.

        Parameters
        ----------
        x : Series, mapping, array_like or DataFrame
            What was asked: as `ask` returned it, a mapping with the names of the columns, or an array. It need not have
            been asked for, nor be among the candidates; but groups that text tells must be among theirs.
        y : label or number, or (k,) array_like
            The answer, or that of each row.

        Raises
        ------
        ValueError
            If ``x`` has other columns, or ``y`` is no answer or not one for each row; or if another process has saved
            answers of its own. Then nothing is changed.
        OSError
            If it cannot be saved; then nothing is changed either.
        """
        rows = self._as_rows(x)
        t = self._as_targets(y, len(rows))
        X, t = pd.concat([self.X, rows]) if len(self.X) else rows, np.concatenate([self._t, t])
        if self._path is not None:
            self._save(X, t)
        self.X, self._t, self._solved = X, t, None
        return self

    @property
    def posterior(self) -> Part:
        """The posterior process of the answers so far: `Process` says what it can be asked.

        Raises
        ------
        UndefinedQuantityError
            If there is no answer yet.
        """
        if not self._t.size:
            raise UndefinedQuantityError("this experiment has no answer yet, and so no posterior. Tell it one.")
        if self._solved is None:
            X = self._read("X", self.X)
            tuned = self._tuned(X) if self._is_due else None
            if tuned is None:
                problem = assemble(self.kernel, X, self._t, self.likelihood, solver=self._solver, control=Control())
                solution = self._solver.solve(problem, Control())
            else:
                problem, solution = tuned.problem, tuned.solution
            names = list(self._table.columns)
            self._solved = make_process(self.kernel, X, problem, solution, self._solver, names)
        return self._solved

    @classmethod
    def load(cls, path: str | PathLike[str], *, kernel: Any = None, likelihood: Likelihood | None = None) -> Experiment:
        """Return the experiment that was saved in a file, to go on with, and to be saved there.

        Parameters
        ----------
        path : path
            The file.
        kernel, likelihood : optional
            Those of the experiment, if and only if they are not of this package.

        Raises
        ------
        DamagedFileError
            If it is no such file, or was changed.
        ValueError
            If ``kernel`` or ``likelihood`` is missing, not needed, or another one.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import bayesgp_mf as bgp
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "experiment.json"
        ...     experiment = bgp.design.Experiment(bgp.kernels.Gaussian(), box={"x": (0, 1)}, path=path, random_seed=1)
        ...     question = experiment.tell(experiment.ask(), True).ask()
        ...     bool((bgp.design.load(path).ask() == question).all())
        True
        """
        path = as_path("path", path)
        with stored.refused_as(f"{path} is no file of an Experiment, or damaged: {{}}."):
            text = path.read_text(encoding="utf-8")
            checksum, _, body = text.partition("\n")
            if checksum != _checksum(body):
                raise ValueError("its checksum does not match what is in it")
            saved = json.loads(body)
            if saved["format"] != FORMAT:
                raise ValueError(f"it has format {saved['format']!r}, and this version reads {FORMAT}")
            names, values = [column[0] for column in saved["X"]["columns"]], saved["values"]
            tables = {name: _frame(saved[name]) for name in ("candidates", "at", "X")}
        made = stored.stated_kernel(saved["kernel"], lambda name: values[name], kernel, names)
        likelihood = stored.stated_likelihood(saved["likelihood"], likelihood)
        with stored.refused_as(f"{path} is no file of an Experiment, or damaged: {{}}."):
            priors = {name: from_description(each) for name, each in saved["priors"].items()}
            given: Any = {"candidates": tables["candidates"], "at": tables["at"], "priors": priors}
            experiment = cls(made, likelihood, **given, **saved["options"])
            if saved["t"]:
                experiment.tell(tables["X"], experiment._answers(np.array(saved["t"])))
            experiment._tuned_at, experiment._path, experiment._written = int(saved["tuned_at"]), path, checksum
        return experiment

    def _save(self, X: pd.DataFrame, t: Array) -> None:
        """Write the experiment with these answers, as a whole or not at all."""
        assert self._path is not None
        options = {"box": self._box, "classes": self._classes, "hyper": self._hyper, "random_seed": self._seed}
        kept = {
            "format": FORMAT,
            "kernel": stored.describe_kernel(self.kernel),
            "values": {name: value.tolist() for name, value in self.kernel.params.items()},
            "likelihood": stored.describe_likelihood(self.likelihood),
            "priors": {name: describe(prior) for name, prior in self._priors.items()},
            "options": {**options, **self._goal, "fixed": self._fixed},
            "candidates": None if self._box is not None else _described(self._table),
            "at": None if self._at is None else _described(self._at),
            "X": _described(X),
            "t": t.tolist(),
            "tuned_at": self._tuned_at,
        }
        body = json.dumps(kept, default=lambda value: value.item() if isinstance(value, np.generic) else str(value))
        if self._path.exists() and _first_line(self._path) != self._written:
            raise ValueError(
                f"{self._path} holds answers that this experiment was not told, as from another process, and they "
                "would be lost. Go on with bgp.design.load."
            )
        with whole(self._path) as part:
            part.write_text(f"{_checksum(body)}\n{body}", encoding="utf-8")
        self._written = _checksum(body)

    def _rng(self, answers: int) -> np.random.Generator:
        """Return the source of randomness of the question after so many answers."""
        return np.random.default_rng([self._seed, answers])

    def _read(self, name: str, table: pd.DataFrame) -> Array:
        """Return a table as inputs ``(m, d)``."""
        with naming(name):
            return as_new_inputs(table, self._inputs, list(self._table.columns), self.kernel)

    def _beliefs(self, table: pd.DataFrame, at: Any, *, joint: bool) -> list[Belief]:
        """Return what is believed of candidates, then of reference inputs: before any answer, what the prior says."""
        if self._t.size:
            return beliefs_of(self.posterior, table, at, joint=joint)[0]
        X = np.concatenate([self._read("candidates", each) for each in (table, at) if each is not None])
        covariance = self.kernel.gram(X) if joint else None
        return [Belief(self.likelihood.of_new_cases(), np.zeros(len(X)), self.kernel.diag(X), covariance)]

    @property
    def _is_due(self) -> bool:
        """Whether hyperparameters are to be chosen now."""
        known = np.unique(self._t).size > 1 or not self.likelihood.is_binary
        return self._hyper is not None and known and self._t.size >= max(FIRST, GROWTH * self._tuned_at)

    def _target(self, X: Array, t: Array) -> Target:
        priors = with_own_priors(self.kernel, self._priors, self._fixed)
        return Target(X, t, self.likelihood, self.kernel, self._solver, Control(), priors, {}, self._fixed)

    def _tuned(self, X: Array) -> Part | None:
        """Choose hyperparameters, from where they are; where that fails they stay, with a warning."""
        self._tuned_at = self._t.size
        strategy, rng = get_strategy(self._hyper or "evidence").with_starts(1), self._rng(self._t.size)
        how: dict[str, Any] = {"control": Control(), "draws": 1, "chains": 1, "rng": rng, "progress": False}
        try:
            part = tune(self._target(X, self._t), strategy, self._solver, **how).posterior.parts[0]
        except (ConvergenceError, NotPositiveDefiniteError) as error:
            warn(
                f"hyperparameters stay as they are: no others were found after {len(X)} answers, {error}",
                ConvergenceWarning,
            )
            return None
        self.kernel, self.likelihood = part.kernel, part.problem.likelihood
        return part

    def _answers(self, t: Array) -> Any:
        """Return targets as the answers that they stand for."""
        if self._classes is None:
            return t.copy()
        codes = (t + 1.0) / 2.0 if self.likelihood.is_binary else t
        return np.array(self._classes)[codes.astype(np.intp)]

    def _as_rows(self, x: Any) -> pd.DataFrame:
        """Return what was asked as rows of a table, or raise a ValueError."""
        columns = list(self._table.columns)
        if isinstance(x, pd.Series):
            table = x.to_frame().T
        elif isinstance(x, Mapping):
            table = pd.DataFrame([dict(x)])
        else:
            table = as_pandas("x", x)
        if not isinstance(table, pd.DataFrame):
            values = np.atleast_2d(np.asarray(table, dtype=object))
            if values.ndim != 2 or values.shape[1] != len(columns):
                raise ValueError(
                    f"x must be one row with values of {columns}, or several rows, got shape {np.shape(x)}."
                )
            table = pd.DataFrame(values, columns=columns)
        if set(table.columns) != set(columns):
            raise ValueError(f"x must have the columns {columns}, got {list(table.columns)}. Correct the names.")
        rows = table[columns].infer_objects()
        self._read("x", rows)
        text = [c for c in columns if is_numeric_dtype(self._table[c]) and not is_numeric_dtype(rows[c])]
        rows = rows.astype(dict.fromkeys(text, np.float64))  # numbers that are given as text
        for j, known in self.kernel.levels_of_columns().items():
            if unseen := sorted(set(rows.iloc[:, j].astype(str)) - set(known)):
                raise ValueError(
                    f"x has {unseen[:5]} in column {columns[j]!r}, which no candidate has. Name it as there, or make "
                    "an experiment whose candidates have it."
                )
        return rows

    def _as_targets(self, y: Any, k: int) -> Array:
        """Return answers as targets ``(k,)``, or raise a ValueError."""
        given = as_pandas("y", y)
        labels = [given] if np.ndim(given) == 0 else given
        if np.ndim(labels) != 1 or len(labels) != k:
            raise ValueError(f"y must be one answer for each of the {k} rows of x, got shape {np.shape(given)}.")
        if self._classes is None:
            return encode_targets(labels, k, self.likelihood)[0]
        advice = "Name all when you make the experiment: Experiment(classes=('no', 'yes'))."
        codes = encode_labels(labels, self._classes, "the answers", advice)
        return 2.0 * codes - 1.0 if self.likelihood.is_binary else codes


def _as_table(name: str, given: Any) -> pd.DataFrame:
    """Return a table with text as names of columns, x0, x1, ... where it has none."""
    table = as_pandas(name, given)
    columns = feature_names(name, table)
    if columns is None:
        values = as_inputs(name, table, copy=True)
        return pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])])
    return table.set_axis(columns, axis=1)


def _as_box(given: Any) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value of each input by name, or raise a ValueError."""
    expected = "box must map names of inputs to their lowest and highest value, as {'x': (0.0, 1.0)}"
    try:
        box = {str(name): (float(low), float(high)) for name, (low, high) in given.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {given!r:.80}.") from error
    for name, (low, high) in box.items():
        if not (low < high and math.isfinite(high - low)):
            raise ValueError(f"{expected}, got {(low, high)} for {name!r}.")
    if not box:
        raise ValueError(f"{expected}, got none.")
    return box


def _within(box: Mapping[str, tuple[float, float]], rng: np.random.Generator) -> pd.DataFrame:
    """Return points of a box, each input of which is in every one of as many equal parts once (a Latin hypercube)."""
    parts = np.argsort(rng.random((IN_BOX, len(box))), axis=0)
    share = (parts + rng.random(parts.shape)) / IN_BOX
    low, high = np.array(list(box.values())).T
    return pd.DataFrame(low + share * (high - low), columns=list(box))


def _as_classes(classes: Any, likelihood: Likelihood) -> tuple[Any, ...] | None:
    """Return the answers that there are, of two the positive one last; None where they are numbers."""
    if classes is None:
        return (False, True) if likelihood.is_binary else None
    count = 2 if likelihood.is_binary else likelihood.n_levels
    if count is None:
        raise ValueError(
            f"classes are names of answers, and those of {likelihood.display_name} are numbers. Leave it out."
        )
    names = [] if isinstance(classes, str) else list(classes)
    if len(names) != count or len({str(name) for name in names}) < count:
        raise ValueError(
            f"classes must be {count} different answers, the highest or positive one last, got {classes!r}."
        )
    return tuple(names)


def _described(table: pd.DataFrame) -> dict[str, Any]:
    """Return a table as JSON holds it."""
    columns = []
    for name, column in table.items():
        kind: Any = getattr(column.dtype, "categories", None)
        kind = str(column.dtype) if kind is None else [kind.tolist(), bool(column.dtype.ordered)]
        columns.append([name, kind, column.tolist()])
    return {"columns": columns, "index": table.index.tolist()}


def _frame(stated: dict[str, Any] | None) -> pd.DataFrame | None:
    """Return the table of which `_described` said so."""
    if stated is None:
        return None
    index, columns = pd.Index(stated["index"]), {}
    for name, kind, values in stated["columns"]:
        dtype = kind if isinstance(kind, str) else pd.CategoricalDtype(kind[0], kind[1])
        columns[name] = pd.Series(values, dtype=dtype, index=index)
    return pd.DataFrame(columns)


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\n")


def _checksum(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
