"""Forensic glass: six classes, and the ten published folds."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.datasets import load_forensic_glass
from bayesgp_mf.datasets.tables import read_columns

INPUTS = ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
FOLD_SIZES = [16, 24, 15, 24, 16, 25, 20, 28, 19, 27]


def test_rows_and_folds_are_those_of_the_reference(reference):
    columns = reference("fgl.csv")
    glass = load_forensic_glass(standardise=False)
    np.testing.assert_array_equal(glass.X, np.array([[float(cell) for cell in columns[name]] for name in INPUTS]).T)
    np.testing.assert_array_equal(glass.y, columns["type"])
    np.testing.assert_array_equal(glass.fold, [int(cell) for cell in columns["fold"]])


def test_inputs_stand_in_the_order_of_their_names():
    glass, columns = load_forensic_glass(standardise=False), read_columns("forensic_glass.csv")
    assert glass.feature_names == INPUTS
    for j, name in enumerate(INPUTS):
        assert glass.X[:, j].tolist() == [float(cell) for cell in columns[name]]
    assert glass.units[0] == "1000 (refractive index - 1.518)"
    assert set(glass.units[1:]) == {"% by weight of oxide"}


def test_without_fold_the_test_set_is_empty():
    glass = load_forensic_glass()
    assert glass.X.shape == (214, 9)
    assert glass.X_test.shape == (0, 9)
    assert glass.y_test.shape == (0,)


def test_fold_sizes():
    assert np.bincount(load_forensic_glass().fold).tolist() == [0, *FOLD_SIZES]


@pytest.mark.parametrize("fold", range(1, 11))
def test_a_fold_is_the_test_set_and_the_rest_trains(fold):
    everything = load_forensic_glass(standardise=False)
    glass = load_forensic_glass(fold=fold, standardise=False)
    held_out = everything.fold == fold
    np.testing.assert_array_equal(glass.X_test, everything.X[held_out])
    np.testing.assert_array_equal(glass.y_test, everything.y[held_out])
    np.testing.assert_array_equal(glass.X, everything.X[~held_out])
    np.testing.assert_array_equal(glass.y, everything.y[~held_out])
    np.testing.assert_array_equal(glass.fold, everything.fold[~held_out])
    assert len(glass.y_test) == FOLD_SIZES[fold - 1]
    assert fold not in glass.fold


def test_nearest_neighbour_on_raw_inputs_errs_on_51_of_214():
    # Known baseline of these folds: 23.8 percent.
    errors = 0
    for fold in range(1, 11):
        glass = load_forensic_glass(fold=fold, standardise=False)
        distance = ((glass.X_test[:, None, :] - glass.X[None, :, :]) ** 2).sum(axis=2)
        errors += int(np.sum(glass.y[distance.argmin(axis=1)] != glass.y_test))
    assert errors == 51


@pytest.mark.parametrize("fold", [0, 11, -1, 2.0, "3", True])
def test_fold_must_be_none_or_one_to_ten(fold):
    expected = rf"fold must be None or an integer from 1 to 10, got {fold!r}\. Pass the fold to test on"
    with pytest.raises(ValueError, match=expected):
        load_forensic_glass(fold=fold)


def test_numpy_integer_fold():
    np.testing.assert_array_equal(load_forensic_glass(fold=np.int64(3)).y_test, load_forensic_glass(fold=3).y_test)
