"""Feasibility: the corrected probability, with its gradient, as optimisers take it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import NonlinearConstraint, minimize

import bayesgp_mf as bgp
from bayesgp_mf.design import feasibility
from bayesgp_mf.errors import UndefinedQuantityError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = X[:, 0] + X[:, 1] + RNG.standard_normal(40) > 0
FEW = {"draws": 2, "chains": 1, "random_seed": 1}
IDATA = bgp.fit(X, Y, bgp.kernels.Gaussian(1.0, 9.0), **FEW)


def test_it_is_the_corrected_probability_with_its_slope():
    g, x = feasibility(IDATA), np.array([[0.3, -0.2], [1.5, 1.0]])
    assert g(x) == pytest.approx(bgp.posterior(IDATA).predict_proba(x, corrected=True), abs=0)
    assert isinstance(g(x[0]), float)
    h = 1e-4
    slope = [[(g(row + h * e) - g(row - h * e)) / (2 * h) for e in np.eye(2)] for row in x]
    assert g.jac(x) == pytest.approx(np.array(slope), abs=1e-6)
    assert g.jac(x[1]) == pytest.approx(g.jac(x)[1], abs=1e-12)


def test_optimisers_take_it():
    g = feasibility(IDATA)
    likely = NonlinearConstraint(g, 0.9, 1.0, jac=g.jac)
    found = minimize(lambda x: x @ x, [1.0, 1.0], jac=lambda x: 2 * x, method="SLSQP", constraints=[likely])
    assert found.success
    assert g(found.x) == pytest.approx(0.9, abs=1e-4)


def test_other_fits_are_refused_in_words():
    with pytest.raises(UndefinedQuantityError, match="no two labels"):
        feasibility(bgp.fit(X, X[:, 0], bgp.kernels.Gaussian(), bgp.likelihoods.Gaussian(0.1), **FEW))
    with pytest.raises(ValueError, match="Fit with method='tap'"):
        feasibility(bgp.fit(X, Y, bgp.kernels.Gaussian(), method="laplace", **FEW))
    with pytest.raises(ValueError, match="x has 3 columns"):
        feasibility(IDATA)([0.0, 0.0, 0.0])


def test_tables_have_the_columns_of_the_fit():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-2.0, 2.0, (40, 2)), columns=["a", "b"])
    worked = X["a"] + 0.5 * rng.standard_normal(40) > 0
    succeeds = feasibility(bgp.fit(X, worked, bgp.kernels.Gaussian(1.0, 4.0), **FEW))
    row = pd.Series({"a": 1.0, "b": -1.0})
    assert succeeds(row) == succeeds(row.to_frame().T)[0] == succeeds([1.0, -1.0])
    assert succeeds.jac(row).tolist() == succeeds.jac([1.0, -1.0]).tolist()
    for ask in (succeeds, succeeds.jac):
        for x in (row[["b", "a"]], X[["b", "a"]]):
            with pytest.raises(ValueError, match=r"x has columns \['b', 'a'\], but the model was fitted to"):
                ask(x)
    X["b"] = np.where(rng.random(40) > 0.5, "Ann", "Bob")
    succeeds = feasibility(bgp.fit(X, worked, **FEW))
    assert succeeds(X) == pytest.approx(succeeds.process.predict_proba(X, corrected=True), abs=0)
