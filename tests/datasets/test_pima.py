"""Pima: training and test set are Ripley's two files."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.datasets import load_pima

INPUTS = ("npreg", "glu", "bp", "skin", "bmi", "ped", "age")


def values(columns):
    return np.array([[float(cell) for cell in columns[name]] for name in INPUTS]).T


def test_rows_are_those_of_the_reference_files(reference):
    training, test = reference("pima_tr.csv"), reference("pima_te.csv")
    pima = load_pima(standardise=False)
    np.testing.assert_array_equal(pima.X, values(training))
    np.testing.assert_array_equal(pima.X_test, values(test))
    np.testing.assert_array_equal(pima.y, training["type"])
    np.testing.assert_array_equal(pima.y_test, test["type"])


def test_inputs_carry_their_units():
    pima = load_pima()
    assert dict(zip(pima.feature_names, pima.units, strict=True)) == {
        "npreg": "count",
        "glu": "mg/dl",
        "bp": "mm Hg",
        "skin": "mm",
        "bmi": "kg/m^2",
        "ped": "dimensionless",
        "age": "years",
    }


def test_no_missing_value_written_as_zero():
    # The 768 rows in other circulation code a missing glucose, pressure, skin fold or mass index as 0.
    pima = load_pima(standardise=False)
    assert np.vstack([pima.X, pima.X_test])[:, 1:5].min() > 0.0


def test_linear_discriminant_makes_67_errors():
    # Published by Ripley (1996) for these two files.
    pima = load_pima()
    means = [pima.X[pima.y == name].mean(axis=0) for name in pima.class_names]
    centred = np.concatenate([pima.X[pima.y == name] - m for name, m in zip(pima.class_names, means, strict=True)])
    covariance = centred.T @ centred / (len(centred) - 2)
    weights = np.linalg.solve(covariance, means[1] - means[0])
    prior_odds = np.mean(pima.y == "Yes") / np.mean(pima.y == "No")
    score = (pima.X_test - (means[0] + means[1]) / 2) @ weights + np.log(prior_odds)
    assert int(np.sum((score > 0) != (pima.y_test == "Yes"))) == 67
