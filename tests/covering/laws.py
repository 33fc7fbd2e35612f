"""What must hold of each cell: it is refused in words before work is done, or agrees with what it must be equal to."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import arviz
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS, MULTICLASS, get_method
from tests.covering import refusals
from tests.covering.arrays import Cell, Refusal, Table
from tests.covering.options import (
    AVERAGES,
    FIT,
    NEW,
    ON_INDUCING,
    SEVERAL_CLASSES,
    Data,
    arguments,
    column,
    draw,
    framed,
    inputs,
    likelihood_of,
)

INTERNAL = re.compile(r"\b_\w+|\bOfCases|\bShifted|\bWeighted|\bPowered|\bdtype\('|NoneType|object has no attribute")
"""What no message says: names of what a user has not made."""
PADDED = {"inducing_input", "inducing_weight", "inducing_factor"}


class Counting:
    """A method that counts its solutions, to see that nothing was solved before a refusal."""

    def __init__(self, solver: Any) -> None:
        self.solver, self.solved = solver, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solver, name)

    def solve(self, *args: Any, **options: Any) -> Any:
        self.solved += 1
        return self.solver.solve(*args, **options)


@contextmanager
def quiet() -> Iterator[None]:
    """Let warnings of the package's own kinds pass; any other one, such as of rounding, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (UserWarning, bgp.BoundWarning, bgp.ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        yield


def check(cell: Cell, seed: int, folder: Path) -> str:
    """Fit a cell, and hold it against its laws; return what became of it."""
    rng = np.random.default_rng(seed)
    data = draw(cell, rng)
    expected = [each for each in refusals.FIT if each.refuses(cell)]
    with quiet():
        if expected:
            refused(lambda **more: bgp.fit(**{**arguments(cell, data), **more}), cell, expected)
            return "refused"
        try:
            idata = bgp.fit(**arguments(cell, data))
        except bgp.ConvergenceError as error:
            if any(each.refuses(cell) and re.search(each.words, str(error)) for each in refusals.UNSOLVED):
                return "works"
            raise
        check_finite(idata, cell)
        for law in LAWS:
            law(cell, data, idata, rng, folder)
    return "works"


def refused(call: Callable[..., Any], cell: Cell, expected: list[Refusal]) -> None:
    """Assert that a call is refused in words that one of several refusals expects, before anything is solved."""
    message = refused_in_words(call, expected)
    try:
        solver = Counting(get_method(cell["method"], likelihood_of(cell)))
    except ValueError:
        return
    again = error_of(lambda: call(method=solver))
    assert again == message
    if all(not each.found_by_solving for each in expected):
        assert solver.solved == 0, f"{solver.solved} solutions before: {message}"


def refused_in_words(call: Callable[[], Any], expected: list[Refusal]) -> str:
    """Assert that a call is refused in words that one of several refusals expects, and return them."""
    message = error_of(call)
    assert any(re.search(each.words, message) for each in expected), (
        f"expected {[e.words for e in expected]}: {message}"
    )
    return message


def refused_unsolved(call: Callable[[], Any], expected: list[Refusal]) -> str:
    """Assert the same, and that no method was asked for a solution before; return the words."""
    with pytest.MonkeyPatch.context() as patch:
        solved: list[str] = []

        def counted(solver: Any, *args: Any, **options: Any) -> Any:
            solved.append(solver.name)
            return of_kind[type(solver)](solver, *args, **options)

        of_kind = {type(solver): type(solver).solve for solver in (*METHODS.values(), *MULTICLASS.values())}
        for kind in of_kind:
            patch.setattr(kind, "solve", counted)
        message = refused_in_words(call, expected)
    assert not solved, f"{solved} were asked for solutions before: {message}"
    return message


def error_of(call: Callable[[], Any]) -> str:
    """Return the message by which a call is refused, which names nothing that only we know."""
    try:
        call()
    except (ValueError, bgp.ConvergenceError, bgp.UndefinedQuantityError) as error:
        message = str(error)
    else:  # not by pytest, whose failures are none of `Exception`: the study of these cells lists them
        raise AssertionError("it was not refused")
    assert not INTERNAL.search(message), message
    return message


def check_finite(idata: Any, cell: Mapping[str, str]) -> None:
    """Assert that all numbers of a container are finite, but for what the documentation of containers says."""
    for group in groups_of(idata):
        for name, values in idata[group].data_vars.items():
            if values.dtype.kind != "f":
                continue
            right = np.isfinite(values.values)
            if name in {"hyper_prior_quantile", *PADDED}:
                right |= np.isnan(values.values)  # a parameter without a prior, a node with fewer inducing cases
            silent = cell["likelihood"].startswith(("step", "hurdle")) or cell["weights"] == "counts"
            if name == "site_variance" and silent:  # far from the step, a zero of a hurdle, a case of weight zero
                right |= np.isposinf(values.values)
            if name == "hyper_pareto_k":
                right |= np.isinf(values.values)  # no shape can be fitted to so few weights
            if name == "log_p" and cell["likelihood"] == "step":
                right |= np.isneginf(values.values)  # values that a step forbids
            assert np.all(right), f"{name} of the group {group}: {values.values}"


def groups_of(idata: Any) -> list[str]:
    """Return the names of the groups of a container of either kind."""
    names = idata.groups() if callable(idata.groups) else [name.strip("/") for name in idata.groups]
    return [name for name in names if name]


def new_cases(cell: Mapping[str, str], rng: np.random.Generator) -> dict[str, Any]:
    """Return what `predict` needs of new cases."""
    X = inputs(cell["kernel"], rng, NEW)
    facts: dict[str, Any] = {}
    if cell["offset"] != "none":
        facts["offset"] = column(cell["frame"], np.linspace(-0.2, 0.2, NEW))
    if cell["likelihood"] == "binomial, trials of each":
        facts["trials"] = column(cell["frame"], np.arange(NEW) + 1.0)
    return {"X_new": framed(cell["frame"], X), "random_seed": 2, **facts, **unsaved(cell)}


def unsaved(cell: Mapping[str, str]) -> dict[str, Any]:
    """Return the likelihood of a cell if it is made of functions, which no container holds."""
    return {"likelihood": likelihood_of(cell)} if cell["likelihood"].startswith("quadrature") else {}


def predicted(cell: Cell, idata: Any, new: dict[str, Any], **options: Any) -> dict[str, np.ndarray]:
    """Return predictions that need no draws, by name."""
    bgp.predict(idata, **new, draws=False, **options)
    group = idata["predictions"]
    assert all(name in group for name in ("latent_mean", "latent_sd"))
    return {name: group[name].values for name in group.data_vars}


def predictions_and_loo_are_proper(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """Predictions and leave-one-out are finite, probabilities are such, and a correction is there or refused."""
    new = new_cases(cell, rng)
    expected = [each for each in refusals.PREDICT if each.refuses(cell)]
    corrected = cell["corrected"] == "yes"
    if corrected and expected:
        for call in (
            lambda: bgp.predict(idata, **new, corrected=True),
            lambda: bgp.loo(idata, corrected=True, **unsaved(cell)),
        ):
            refused_in_words(call, expected)
        corrected = False
    bgp.predict(idata, **new, corrected=corrected)
    check_finite(idata, cell)
    if "p" in idata["predictions"]:
        p = idata["predictions"]["p"].values
        assert np.all((p >= 0) & (p <= 1))
        if cell["likelihood"] in SEVERAL_CLASSES:
            np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-6)
    if "loo_omitted" in idata["fit"].attrs:
        return
    estimate = bgp.loo(idata, corrected=corrected, **unsaved(cell))
    assert np.isfinite(float(estimate["se"]))


def pointwise(estimate: Any) -> Any:
    """Return the log densities ``(n,)`` of an estimate of either ArviZ."""
    return (estimate.loo_i if hasattr(estimate, "loo_i") else estimate.elpd_i).values


def what_is_saved_is_loaded(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """A container predicts the same once it was a file."""
    if cell["saved"] == "no":
        return
    path = str(Path(mkdtemp(dir=folder)) / "fit.nc")  # ArviZ 1 keeps those open that it has read
    new = new_cases(cell, np.random.default_rng(3))
    before = predicted(cell, idata, new)
    idata.to_netcdf(path)
    loaded = arviz.from_netcdf(path)
    for name, values in predicted(cell, loaded, new).items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)
    assert str(bgp.posterior(loaded, **unsaved(cell)).problem.likelihood) == str(
        bgp.posterior(idata, **unsaved(cell)).problem.likelihood
    )


def what_was_chosen_is_that_fit(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """A fit whose hyperparameters were chosen is the fit at those; one part of an average too."""
    if cell["hyper"] == "none" or cell["matrix"] in ON_INDUCING:
        return
    part = bgp.posterior(idata, **unsaved(cell)).parts[0]
    known = {**cell, "hyper": "none", "marginals": "gaussian", "draws": "1 of 1"}
    chosen = part.problem.likelihood.of_one_case
    again = bgp.fit(**{**arguments(known, data, part.kernel, chosen), "X": part.X, "inducing": None})
    solution = bgp.posterior(again, **unsaved(cell)).solution
    np.testing.assert_allclose(solution.evidence.value, part.solution.evidence.value, atol=1e-4, rtol=1e-6)
    if cell["hyper"] in AVERAGES:
        np.testing.assert_allclose(np.sum(bgp.posterior(idata, **unsaved(cell)).weights), 1.0, rtol=1e-9)


def same(cell: Cell, one: Any, other: Any, of_one: Any = slice(None)) -> None:
    """Assert that two fits are the same to the solvers' tolerance."""
    a, b = (bgp.posterior(idata, **unsaved(cell)).solution for idata in (one, other))
    rough = 5.0 * (a.evidence.standard_error or 0.0)
    np.testing.assert_allclose(a.evidence.value, b.evidence.value, atol=1e-5 + rough, rtol=1e-6)
    means = (idata["fit"]["latent_mean"].values for idata in (one, other))
    first, second = (np.asarray(each) for each in means)
    # no error of the means of random points is stated: in standard deviations it is some times that of log Z
    np.testing.assert_allclose(first[of_one], second, atol=1e-4 + 4.0 * rough)


def fixed_cells_obey_exchange(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """The order of the cases does not matter."""
    n = len(data.y)
    if cell["hyper"] != "none" or cell["matrix"] == "inducing" or cell["method"] == "online":
        return
    order = rng.permutation(n)
    likelihood = likelihood_of(cell, n).of_cases(order)
    given = arguments(cell, data.of(order), likelihood=likelihood)
    if cell["matrix"] == "inducing inputs":
        given["inducing"] = arguments(cell, data)["inducing"]
    same(cell, idata, bgp.fit(**given), order)


def a_weight_of_two_is_a_case_twice(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """Whole weights are repeated cases."""
    if cell["hyper"] != "none" or cell["weights"] != "counts" or cell["matrix"] not in {"auto", "dense"}:
        return
    exact = cell["method"] == "laplace" or (cell["method"] == "tap" and cell["likelihood"].startswith("gaussian"))
    if not exact or cell["kernel"] == "a length scale of each":
        return  # cavities leave out one case of two, but not half of a weight; and each case has noise of its own
    repeated = np.repeat(np.arange(len(data.y)), data.weights.astype(int))
    likelihood = likelihood_of(cell, len(data.y)).of_cases(repeated)
    given = arguments({**cell, "weights": "none"}, data.of(repeated), likelihood=likelihood)
    twice = bgp.fit(**{**given, "weights": None})
    one, other = (bgp.posterior(each, **unsaved(cell)).solution.evidence.value for each in (idata, twice))
    np.testing.assert_allclose(other, one, atol=1e-5)
    new = new_cases(cell, np.random.default_rng(4))
    expected = predicted(cell, twice, new)
    for name, values in predicted(cell, idata, new).items():
        np.testing.assert_allclose(values, expected[name], atol=1e-4, err_msg=name)


def an_offset_is_a_prior_mean(cell: Cell, data: Data, idata: Any, rng: Any, folder: Path) -> None:
    """Offsets of the targets say of the data what a prior mean of the function says."""
    if cell["hyper"] != "none" or data.offset is None or cell["matrix"] not in {"auto", "dense"}:
        return
    part = bgp.posterior(idata, **unsaved(cell)).parts[0]
    likelihood = by_case(likelihood_of(cell, len(data.y)), weights=data.weights, prior_mean=data.offset)
    other = bgp.solve(part.kernel.gram(part.X), part.problem.t, likelihood, method=cell["method"])
    np.testing.assert_allclose(other.evidence.value, part.solution.evidence.value, atol=1e-5)
    np.testing.assert_allclose(other.alpha, part.solution.alpha, atol=1e-4)


LAWS = (
    predictions_and_loo_are_proper,
    what_is_saved_is_loaded,
    what_was_chosen_is_that_fit,
    fixed_cells_obey_exchange,
    a_weight_of_two_is_a_case_twice,
    an_offset_is_a_prior_mean,
)

TABLE = Table(FIT, refusals.FIT, check, refusals.SLOW)
