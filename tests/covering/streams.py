"""`streams.Stream` as a table: its options, which of them do not go together, and what must hold of a cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf import hyper
from bayesgp_mf.streams import Stream
from tests.covering.arrays import Cell, Refusal, Table
from tests.covering.laws import error_of, quiet, refused_in_words, refused_unsolved, unsaved
from tests.covering.options import (
    BINARY,
    CLASSES,
    FIT,
    GROUPS,
    LIKELIHOODS,
    NEW,
    OTHER,
    SEVERAL_CLASSES,
    Data,
    column,
    draw,
    framed,
    inputs,
    kernel_of,
    likelihood_of,
)
from tests.covering.refusals import MADE, SLOW_POWERS

OF_CASES = {"gaussian, noise of each", "binomial, trials of each"}
"""Likelihoods that know one batch alone."""
LIMITED = {"gaussian, censored", "weibull, censored"}
"""Likelihoods whose limits come with the targets."""
GAUSSIAN = {"gaussian"}
FEWER = 24
"""Cases, of which a last update has 8."""
TUNED = {
    "retune evidence": hyper.Evidence(starts=1),
    "retune loo": hyper.LeaveOneOut(starts=1),
    "retune scan": hyper.Scan(),
    "retune integrate": hyper.Integrate(starts=1, points=3),
}

UNSOLVED = (
    Refusal(
        ("likelihood",),
        lambda c: c["likelihood"] == "student",
        r"allow noise by a larger scale of the likelihood or kernels.White\(",
    ),
)
"""Where the equations may have no solution, which is said: outliers contradict the others."""

OPTIONS: dict[str, tuple[str, ...]] = {
    "likelihood": tuple(LIKELIHOODS),
    "kernel": FIT["kernel"],
    "groups": ("codes", "text"),
    "classes": ("found", "named"),
    "budget": ("none", "6"),
    "batch": ("all", "9"),
    "forget": ("none", "half-life"),
    "hyper": ("none", "first evidence", "first scan", *TUNED),
    "offset": ("none", "numbers"),
    "weights": ("none", "counts", "fractions"),
    "frame": ("numpy", "pandas", "polars", "xarray"),
    "updates": ("one", "two"),
    "saved": ("no", "yes"),
}

REFUSALS = (
    Refusal(("likelihood",), lambda c: c["likelihood"] == "step", "a stream needs some noise in the likelihood"),
    Refusal(("likelihood",), lambda c: c["likelihood"] in OF_CASES, "a number for each of certain cases. Give one"),
    Refusal(
        ("kernel", "groups"),
        lambda c: (c["kernel"], c["groups"]) == ("areas", "codes"),
        "must name areas of the graph, such as 'north'",
    ),
    Refusal(("kernel",), lambda c: c["kernel"] == "of each class", "a stream needs one kernel for all classes"),
    Refusal(
        ("likelihood", "classes"),
        lambda c: c["classes"] == "named" and c["likelihood"] not in BINARY | SEVERAL_CLASSES,
        "classes names two classes, and .* has real targets",
    ),
    Refusal(
        ("likelihood", "offset"),
        lambda c: c["likelihood"] in SEVERAL_CLASSES and c["offset"] != "none",
        "an offset goes with one latent value for each case",
    ),
    Refusal(
        ("likelihood", "weights"),
        lambda c: c["likelihood"] in SEVERAL_CLASSES and c["weights"] != "none",
        "weights of several classes go with|has one latent value for each case, and",
    ),
    Refusal(("hyper",), lambda c: c["hyper"] == "retune integrate", "averages over kernels, and a stream has one"),
    Refusal(
        ("hyper", "likelihood"),
        lambda c: c["hyper"].endswith("scan") and c["likelihood"] not in BINARY | SEVERAL_CLASSES,
        "hyper='scan' counts wrong labels",
    ),
    Refusal(
        ("hyper", "kernel"),
        lambda c: c["hyper"].endswith("scan") and c["kernel"] == "linear",
        "this kernel has no length scale to scan",
    ),
)


def given(cell: Mapping[str, str], data: Data) -> dict[str, Any]:
    """Return what `Stream.update` takes of all cases, in the frame of the cell."""
    kind = cell["frame"]
    facts = {"offset": data.offset, "weights": data.weights}
    y = data.y if cell["likelihood"] in LIMITED else column(kind, data.y)
    return {"X": table(cell, data.X), "y": y, **{name: column(kind, each) for name, each in facts.items()}}


def streamed(cell: Mapping[str, str], n: int = FEWER) -> Any:
    """Return the likelihood of a cell, which has no limits of certain cases."""
    likelihood = likelihood_of(cell, n)
    return replace(likelihood, other_limit=None) if cell["likelihood"] in LIMITED else likelihood


def with_limits(data: Data) -> Data:
    """Return the same data with limits ``(n, 2)`` in place of targets, of the cases that have them in a fit."""
    other = np.resize(OTHER, len(data.y))
    lower = np.where(np.isneginf(other), -np.inf, data.y)
    upper = np.where(np.isnan(other) | np.isneginf(other), data.y, other)
    return replace(data, y=np.column_stack([np.minimum(lower, upper), np.maximum(lower, upper)]))


def table(cell: Mapping[str, str], X: pd.DataFrame) -> Any:
    """Return inputs in the frame of a cell, with groups as text or as codes."""
    if "site" in X and cell["groups"] == "codes":
        X = X.assign(site=X["site"].map(GROUPS.index).astype(float))
    return framed(cell["frame"], X)


def stream_of(cell: Mapping[str, str], n: int, **options: Any) -> Stream:
    """Return the stream of a cell that has learned nothing yet."""
    chosen = cell["hyper"].partition("first ")[2]
    classes = {True: (0, 1), False: CLASSES if cell["likelihood"] in SEVERAL_CLASSES else (0.0, 1.0)}
    return Stream(
        kernel_of(cell),
        streamed(cell, n),
        None if cell["budget"] == "none" else int(cell["budget"]),
        **{
            "classes": classes[cell["likelihood"] in BINARY] if cell["classes"] == "named" else None,
            "hyper": chosen or None,
            "first": n if chosen else 2000,
            "batch": n if cell["batch"] == "all" else int(cell["batch"]),
            "forget": None if cell["forget"] == "none" else 60.0,
            "random_seed": 1,
            **options,
        },
    )


def learned(cell: Mapping[str, str], data: Data, **options: Any) -> Stream:
    """Return the stream of a cell that has learned from all its cases, and was tuned as the cell says."""
    n = len(data.y)
    stream = stream_of(cell, n, **options)
    some = [np.arange(n)] if cell["updates"] == "one" else [np.arange(n - 8), np.arange(n - 8, n)]
    for rows in some:
        stream.update(**given(cell, data.of(rows)), progress=False)
    return tuned(cell, stream)


def tuned(cell: Mapping[str, str], stream: Stream) -> Stream:
    """Return the stream with another kernel if the cell says so."""
    if cell["hyper"] not in TUNED:
        return stream
    names = list(stream.kernel.params)
    chosen = [name for name in names if "lengthscale" in name][:1] or names[:1]
    return stream.retune(
        TUNED[cell["hyper"]],
        fixed=[name for name in names if name not in chosen],
        priors={chosen[0]: hyper.LogNormal(0.0, 0.5)},
        progress=False,
    )


def answers(cell: Mapping[str, str], stream: Stream, X: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return all that a stream says of new cases, by name."""
    new = table(cell, X)
    mean, variance = stream.latent(new)
    offset = column(cell["frame"], np.linspace(-0.2, 0.2, len(X))) if cell["offset"] != "none" else None
    if stream.likelihood.is_real:
        message = error_of(lambda: stream.predict_proba(new, offset=offset))
        assert re.search("a stream has probabilities of labels", message), message
        return {"mean": mean, "variance": variance}
    return {"mean": mean, "variance": variance, "p": stream.predict_proba(new, offset=offset)}


def check(cell: Cell, seed: int, folder: Path) -> str:
    """Let a stream learn a cell, and hold it against its laws; return what became of it."""
    rng = np.random.default_rng(seed)
    data = draw({**cell, "method": "tap"}, rng, FEWER)
    data = with_limits(data) if cell["likelihood"] in LIMITED else data
    X_new = inputs(cell["kernel"], rng, NEW)
    expected = [each for each in REFUSALS if each.refuses(cell)]
    with quiet():
        if expected:
            refuse = refused_in_words if cell["hyper"] in TUNED else refused_unsolved  # retune: what has been learned
            refuse(lambda: learned(cell, data), expected)
            return "refused"
        try:
            stream = learned(cell, data)
        except bgp.ConvergenceError as error:
            if any(each.refuses(cell) and re.search(each.words, str(error)) for each in UNSOLVED):
                return "works"
            raise
        found = answers(cell, stream, X_new)
        says_what_may_be(cell, stream, found)
        for law in LAWS:
            law(cell, data, stream, X_new, found, folder)
    return "works"


def says_what_may_be(cell: Cell, stream: Stream, found: dict[str, np.ndarray]) -> None:
    """Assert that all numbers are finite, probabilities are such, and the container can be made."""
    for name, values in found.items():
        assert np.all(np.isfinite(values)), f"{name}: {values}"
    assert np.all(found["variance"] >= 0)
    if "p" in found:
        assert np.all((found["p"] >= 0) & (found["p"] <= 1))
        if cell["likelihood"] in SEVERAL_CLASSES:
            np.testing.assert_allclose(found["p"].sum(axis=1), 1.0, atol=1e-6)
    assert np.isfinite(stream.log_score.total)
    drawn = stream.to_container(draws=2, chains=1, random_seed=1)["posterior"]["f"].values
    assert np.all(np.isfinite(drawn))


def what_is_saved_is_loaded(
    cell: Cell, data: Data, stream: Stream, X_new: pd.DataFrame, found: dict[str, np.ndarray], folder: Path
) -> None:
    """A stream predicts the same once it was a file, and goes on as it would have."""
    if cell["saved"] == "no":
        return
    stream.save(folder / "stream.npz")
    loaded = bgp.streams.load(folder / "stream.npz", **unsaved(cell))
    for name, values in answers(cell, loaded, X_new).items():
        np.testing.assert_array_equal(values, found[name], err_msg=name)
    more = given(cell, data.of(np.arange(5)))
    goes_on = answers(cell, stream.update(**more, progress=False), X_new)
    for name, values in answers(cell, loaded.update(**more, progress=False), X_new).items():
        np.testing.assert_array_equal(values, goes_on[name], err_msg=name)


def one_batch_is_a_fit(
    cell: Cell, data: Data, stream: Stream, X_new: pd.DataFrame, found: dict[str, np.ndarray], folder: Path
) -> None:
    """All cases in one batch are a fit at the kernel of the stream, and Gaussian ones in any batches.

    Of a cell with offsets or weights whose stream is no fit, one is that learns all of them at once.
    """
    at_once = cell["batch"] == "all" and (cell["updates"] == "one" or cell["hyper"] in TUNED)
    whole = cell["budget"] == cell["forget"] == "none"
    if not whole or not (at_once or cell["likelihood"] in GAUSSIAN):
        if (data.offset is None and data.weights is None) or not stream.likelihood.log_concave:
            return  # outliers may settle in some batches, and not at once
        cell = {**cell, "budget": "none", "forget": "none", "batch": "all", "updates": "one", "hyper": "none"}
        stream = learned(cell, data)
        found = answers(cell, stream, X_new)
    kernel = stream.kernel
    of_fit = {name: values for name, values in given(cell, data).items() if values is not None}
    if (
        cell["likelihood"] in SEVERAL_CLASSES
    ):  # where sites on inducing cases have another form than on the dense matrix
        of_fit["inducing"] = of_fit["X"]
    known = streamed(cell)
    idata = bgp.fit(kernel=kernel, likelihood=known, draws=1, chains=1, progress=False, **of_fit)
    facts = {"offset": column(cell["frame"], np.linspace(-0.2, 0.2, NEW))} if cell["offset"] != "none" else {}
    bgp.predict(idata, table(cell, X_new), draws=False, **facts, **unsaved(cell))
    expected = idata["predictions"]
    np.testing.assert_allclose(found["mean"], expected["latent_mean"].values, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(found["variance"]), expected["latent_sd"].values, atol=1e-4)
    if "p" in found:
        np.testing.assert_allclose(found["p"], expected["p"].values, atol=1e-4)


def zeros_and_ones_say_nothing(
    cell: Cell, data: Data, stream: Stream, X_new: pd.DataFrame, found: dict[str, np.ndarray], folder: Path
) -> None:
    """Offsets of 0 and weights of 1 are none."""
    if (cell["offset"], cell["weights"]) != ("none", "none") or cell["likelihood"] in SEVERAL_CLASSES:
        return
    n = len(data.y)
    other = learned(cell, Data(data.X, data.y, np.zeros(n), np.ones(n)))
    for one, two in zip(other.latent(table(cell, X_new)), (found["mean"], found["variance"]), strict=True):
        np.testing.assert_array_equal(one, two)


def offsets_of_gaussian_targets_are_subtracted(
    cell: Cell, data: Data, stream: Stream, X_new: pd.DataFrame, found: dict[str, np.ndarray], folder: Path
) -> None:
    """Real targets with offsets are targets less these, whatever is forgotten, dropped or tuned."""
    if cell["likelihood"] not in GAUSSIAN or data.offset is None or cell["saved"] == "yes":  # which went on
        return
    other = learned({**cell, "offset": "none"}, Data(data.X, data.y - data.offset, None, data.weights))
    for one, two in zip(other.latent(table(cell, X_new)), (found["mean"], found["variance"]), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


LAWS = (
    one_batch_is_a_fit,
    zeros_and_ones_say_nothing,
    offsets_of_gaussian_targets_are_subtracted,
    what_is_saved_is_loaded,
)
SLOW = (
    Refusal(("hyper", "likelihood"), lambda c: c["hyper"] != "none" and c["likelihood"] in {"student", *MADE}, ""),
    SLOW_POWERS,
)
"""What takes seconds: `make validate` has it, `make test` does not."""
TABLE = Table(OPTIONS, REFUSALS, check, SLOW)
