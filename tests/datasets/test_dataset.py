"""Dataset: copies in, read-only out, fields that agree; and the split and rescaling that make one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bayesgp_mf.datasets import Dataset
from bayesgp_mf.datasets.tables import CsvTable, assemble, training_moments


def fields_of_a_dataset(**changes):
    fields = {
        "name": "small",
        "X": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "y": ["a", "b", "b"],
        "X_test": [[6.0, 7.0]],
        "y_test": ["a"],
        "feature_names": ("u", "v"),
        "class_names": ("a", "b"),
        "feature_mean": [0.0, 0.0],
        "feature_scale": [1.0, 1.0],
        "description": "Three rows and one.",
        "units": ("m", "s"),
    }
    return fields | changes


def test_repr_is_one_line_that_says_what_there_is():
    raw = Dataset(**fields_of_a_dataset())
    assert repr(raw) == "Dataset('small': 3 training rows (a 1, b 2), 1 test rows (a 1, b 0), 2 raw inputs)"
    shifted = Dataset(**fields_of_a_dataset(feature_mean=[0.0, 0.5]))
    scaled = Dataset(**fields_of_a_dataset(feature_scale=[2.0, 1.0]))
    assert repr(shifted).endswith("2 standardised inputs)")
    assert repr(scaled).endswith("2 standardised inputs)")
    no_test = Dataset(**fields_of_a_dataset(X_test=np.empty((0, 2)), y_test=[]))
    assert "0 test rows, 2 raw" in repr(no_test)


def test_arrays_are_copies():
    X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    dataset = Dataset(**fields_of_a_dataset(X=X))
    X[0, 0] = 9.0
    assert dataset.X[0, 0] == 0.0


def test_fold_is_kept_as_integers():
    dataset = Dataset(**fields_of_a_dataset(fold=[1, 2, 1]))
    assert dataset.fold.tolist() == [1, 2, 1]
    assert dataset.fold.dtype == np.int64
    assert not dataset.fold.flags.writeable


@pytest.mark.parametrize(
    ("field", "value", "expected", "got"),
    [
        ("y", ["a", "b"], "(3,)", "(2,)"),
        ("X_test", [[1.0, 2.0, 3.0]], "(1, 2)", "(1, 3)"),
        ("X_test", np.empty((0, 2)), "(1, 2)", "(0, 2)"),
        ("feature_names", ("u",), "(2,)", "(1,)"),
        ("feature_mean", [0.0], "(2,)", "(1,)"),
        ("feature_scale", [[1.0, 1.0]], "(2,)", "(1, 2)"),
        ("units", ("m", "s", "kg"), "(2,)", "(3,)"),
        ("fold", [1, 2], "(3,)", "(2,)"),
    ],
)
def test_shapes_must_agree(field, value, expected, got):
    message = f"{field} must have shape {expected} to go with X (3, 2) and y_test of 1 labels, got {got}."
    with pytest.raises(ValueError, match=re.escape(message)):
        Dataset(**fields_of_a_dataset(**{field: value}))


def test_inputs_must_be_a_matrix():
    with pytest.raises(ValueError, match=r"X must be \(n, d\), got shape \(3,\)"):
        Dataset(**fields_of_a_dataset(X=[1.0, 2.0, 3.0]))


def test_labels_of_the_test_rows_must_be_a_vector():
    with pytest.raises(ValueError, match=r"y_test must have shape \(1,\)"):
        Dataset(**fields_of_a_dataset(y_test=[["a"]]))


@pytest.mark.parametrize("class_names", [("b", "a"), ("a", "b", "b")])
def test_class_names_must_be_sorted_and_distinct(class_names):
    with pytest.raises(ValueError, match=r"class_names must be distinct and sorted, got \('"):
        Dataset(**fields_of_a_dataset(class_names=class_names))


@pytest.mark.parametrize("field", ["y", "y_test"])
def test_labels_must_be_classes(field):
    labels = ["c"] * len(fields_of_a_dataset()[field])
    with pytest.raises(ValueError, match=r"one of class_names \('a', 'b'\), got also \['c'\]"):
        Dataset(**fields_of_a_dataset(**{field: labels}))


def assembled(X, *, standardise):
    table = CsvTable("small", "class", ("u", "v"), ("m", "s"), "Two rows and one.")
    columns = {"u": [row[0] for row in X], "v": [row[1] for row in X], "class": ["a", "b", "a"]}
    return assemble(table, columns, np.array([True, False, True]), standardise=standardise)


def test_assemble_rescales_by_the_training_rows_only():
    dataset = assembled([[1.0, 10.0], [9.0, 0.0], [3.0, 30.0]], standardise=True)
    assert dataset.feature_mean.tolist() == [2.0, 20.0]
    assert dataset.feature_scale.tolist() == [1.0, 10.0]
    assert dataset.X.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert dataset.X_test.tolist() == [[7.0, -2.0]]
    assert dataset.y_test.tolist() == ["b"]


def test_a_constant_input_cannot_be_standardised():
    X = [[0.1, 1.0], [0.5, 2.0], [0.1, 3.0]]
    with pytest.raises(ValueError, match=r"every input must vary .* got constant \['u'\]\. Drop"):
        assembled(X, standardise=True)
    rounded = np.full((3, 1), 0.1)
    assert rounded.std() > 0.0  # the mean is one rounding away from 0.1, so the deviation does not tell
    with pytest.raises(ValueError, match=r"got constant \['u'\]"):
        training_moments(rounded, ("u",))


def test_a_constant_input_is_fine_if_raw():
    X = [[0.1, 1.0], [0.5, 2.0], [0.1, 3.0]]
    assert assembled(X, standardise=False).X.tolist() == [[0.1, 1.0], [0.1, 3.0]]
