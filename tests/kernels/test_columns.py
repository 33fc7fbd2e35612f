"""Kernels of some of the inputs: by position, and by name from `fit` to a loaded file."""

from __future__ import annotations

import inspect
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.kernels import (
    Categorical,
    Gaussian,
    Linear,
    Matern12,
    Matern52,
    NeuralNetwork,
    PerClass,
    Periodic,
    Polynomial,
    RationalQuadratic,
    from_dict,
)

X = np.random.default_rng(0).standard_normal((24, 3))
FRAME = pd.DataFrame(X, columns=["age", "bmi", "dose"])
Y = X[:, 0] + X[:, 2] + 0.3 * np.random.default_rng(1).standard_normal(24) > 0
KINDS = [Gaussian, Matern12, Matern52, RationalQuadratic, Periodic, Linear, Polynomial, NeuralNetwork, Categorical]
BAR = np.random.default_rng(1).standard_normal((24, 24))


def made(kind, columns):
    """Return a kernel with numbers of its own for each of two columns."""
    first = kind.parameter_names[0]
    return kind(**({first: [0.7, 1.3]} if first != "variance" else {first: 0.7}), columns=columns)


def test_every_kernel_that_looks_at_inputs_can_look_at_some():
    takes = {c for n in kernels.__all__ if inspect.isclass(c := getattr(kernels, n)) and hasattr(c, "columns")}
    assert takes == {*KINDS, kernels.Matern32, kernels.Areal}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_kernel_of_those_columns_alone(kind):
    kernel, plain, part = made(kind, [2, 0]), made(kind, None), np.take(X, [2, 0], axis=1)
    some = part[:5]
    np.testing.assert_array_equal(kernel.gram(X), plain.gram(part))
    np.testing.assert_array_equal(kernel.cross(X, X[:5]), plain.cross(part, some))
    np.testing.assert_array_equal(kernel.diag(X), plain.diag(part))
    pairs = [
        (kernel.gram_vjp(X, BAR + BAR.T), plain.gram_vjp(part, BAR + BAR.T)),
        (kernel.cross_vjp(X, X[:5], BAR[:, :5]), plain.cross_vjp(part, some, BAR[:, :5])),
        (kernel.diag_vjp(X, BAR[0]), plain.diag_vjp(part, BAR[0])),
    ]
    for ours, theirs in pairs:
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            np.testing.assert_array_equal(value, theirs[name])
    if kind is not Categorical:
        moves = kernel.inputs_vjp(X, X[:5], BAR[:, :5])
        np.testing.assert_array_equal(moves[:, [2, 0]], plain.inputs_vjp(part, some, BAR[:, :5]))
        assert not moves[:, 1].any()
    assert from_dict(kernel.to_dict()) == kernel != made(kind, [0, 2])
    assert kernel.replace(**kernel.params) == kernel
    assert "columns" not in plain.to_dict()


def test_one_column_needs_no_brackets():
    assert Gaussian(columns=1) == Gaussian(columns=[1]) == Gaussian(columns=np.array([1]))
    assert Gaussian(columns="age") == Gaussian(columns=("age",))
    assert repr(Gaussian(columns=["age", 2])) == "Gaussian(lengthscale=1.0, variance=1.0, columns=['age', 2])"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(columns=[]), "columns must be names or positions .* got none. Leave columns out for all"),
        (lambda: Gaussian(columns=-1), r"columns must be names or positions .* got -1\. Positions are counted from 0"),
        (lambda: Gaussian(columns=[1.5]), r"columns must be names or positions .* got 1\.5"),
        (lambda: Gaussian(columns=[True, False]), "columns must be names or positions .* got True"),
        (lambda: Gaussian(columns=2.0), r"columns must be names or positions of columns, .* got 2\.0"),
        (lambda: Gaussian(columns=["age", "age"]), r"columns has one twice: \['age', 'age'\]"),
        (lambda: Gaussian([1.0, 2.0, 3.0], columns=[0, 1]), r"lengthscale has 3 entries, but columns has 2: \[0, 1\]"),
        (lambda: Linear([1.0, 2.0], columns="age"), r"weight has 2 entries, but columns has 1: \['age'\]"),
        (lambda: Gaussian(columns=3).gram(X), "the kernel is of column 3, but X has 3 columns, which are counted fr"),
        (lambda: Linear(columns=[0, 5]).inputs_vjp(X, X, BAR), "the kernel is of column 5, but X has 3 columns"),
        (lambda: Gaussian(columns="age").gram(X), "names the column 'age', but the columns of X have no names"),
        (lambda: Gaussian(columns=["age", 0]).with_column_names(["age"]), "one column of X both by name and by posit"),
    ],
)
def test_bad_columns_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


NAMED = Gaussian([0.7, 1.3], columns=["dose", "age"]) + 2.0 * Linear(columns="bmi") ** 2
PLACED = Gaussian([0.7, 1.3], columns=[2, 0]) + 2.0 * Linear(columns=1) ** 2


def fitted(X, kernel, **options):
    return bgp.fit(X, Y, kernel, draws=5, random_seed=1, progress=False, **options)


@pytest.mark.parametrize("hyper", [None, bgp.hyper.Evidence(starts=1)])
def test_names_are_found_by_fit_and_saved(hyper, tmp_path):
    named, placed = fitted(FRAME, NAMED, hyper=hyper), fitted(X, PLACED, hyper=hyper)
    assert float(named["fit"]["log_evidence"]) == float(placed["fit"]["log_evidence"])
    file = str(tmp_path / "fit.nc")
    named.to_netcdf(file)
    loaded = az.from_netcdf(file)
    assert bgp.posterior(loaded).kernel == bgp.posterior(named).kernel
    if hyper is None:
        assert bgp.posterior(loaded).kernel == PLACED
    new = FRAME.iloc[:4] + 0.2
    p = bgp.predict(loaded, new, draws=False)["predictions"]["p"].values
    np.testing.assert_array_equal(p, bgp.predict(placed, new.to_numpy(), draws=False)["predictions"]["p"].values)
    with pytest.raises(ValueError, match="X_new has columns"):
        bgp.predict(loaded, new[["bmi", "age", "dose"]])


class Mine(Gaussian):
    """A kernel that a container cannot hold."""


def test_names_of_a_kernel_that_is_passed_again_are_found_again():
    kernel = Mine(0.8, columns="dose")
    idata = fitted(FRAME, kernel)
    p = bgp.predict(idata, FRAME, kernel=kernel, draws=False)["predictions"]["p"].values
    expected = bgp.predict(fitted(X, Gaussian(0.8, columns=2)), X, draws=False)["predictions"]["p"].values
    np.testing.assert_array_equal(p, expected)


def test_names_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match=r"names the column 'weight', which X does not have; X has \['age', 'bmi'"):
        fitted(FRAME, Gaussian() + Gaussian(columns=["age", "weight"]))
    with pytest.raises(ValueError, match="names the column 'age', but the columns of X have no names"):
        fitted(X, Gaussian(columns="age"))


def test_names_are_found_for_several_classes():
    y = np.arange(24) % 3
    named = PerClass(Gaussian(columns="age"), Gaussian(columns="dose"), Gaussian())
    placed = PerClass(Gaussian(columns=0), Gaussian(columns=2), Gaussian())
    options = {"likelihood": bgp.Softmax(), "draws": 5, "random_seed": 1}
    evidence = [float(bgp.fit(X, y, k, **options)["fit"]["log_evidence"]) for X, k in ((FRAME, named), (FRAME, placed))]
    assert evidence[0] == evidence[1]


def test_a_stream_finds_names_at_its_first_update(tmp_path):
    def stream(kernel):
        return bgp.streams.Stream(kernel, bgp.Probit(), random_seed=1)

    named, placed = stream(Gaussian(columns="dose")), stream(Gaussian(columns=2))
    with pytest.raises(ValueError, match="which X does not have"):
        named.update(FRAME[["age", "bmi"]], Y)
    named.update(FRAME, Y, progress=False)
    placed.update(X, Y, progress=False)
    np.testing.assert_array_equal(named.predict_proba(X), placed.predict_proba(X))


def test_the_inputs_that_a_kernel_does_not_look_at_do_not_matter():
    other = FRAME.assign(bmi=1e6)
    kernel = Gaussian(columns=["age", "dose"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there, here = fitted(other, kernel), fitted(FRAME, kernel)
    assert float(there["fit"]["log_evidence"]) == float(here["fit"]["log_evidence"])
