"""What holds for every data set, with every split it offers."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from bayesgp_mf.datasets import load_crabs, load_forensic_glass, load_pima, load_sonar

LOADS = {
    "sonar": (load_sonar, {}),
    "sonar exchanged": (load_sonar, {"exchange": True}),
    "crabs": (load_crabs, {}),
    "crabs draw 7": (load_crabs, {"draw": 7}),
    "pima": (load_pima, {}),
    "glass": (load_forensic_glass, {}),
    "glass fold 3": (load_forensic_glass, {"fold": 3}),
}
# Classes in sorted order. Source: the counts of the published sets and splits.
COUNTS = {
    "sonar": ("M R", [49, 55], [62, 42]),
    "sonar exchanged": ("M R", [62, 42], [49, 55]),
    "crabs": ("F M", [40, 40], [60, 60]),
    "crabs draw 7": ("F M", [40, 40], [60, 60]),
    "pima": ("No Yes", [132, 68], [223, 109]),
    "glass": ("Con Head Tabl Veh WinF WinNF", [13, 29, 9, 17, 70, 76], [0, 0, 0, 0, 0, 0]),
    "glass fold 3": ("Con Head Tabl Veh WinF WinNF", [12, 27, 9, 15, 67, 69], [1, 2, 0, 2, 3, 7]),
}
INPUTS = {"sonar": 60, "crabs": 6, "pima": 7, "forensic_glass": 9}


@pytest.fixture(params=LOADS)
def case(request):
    return request.param


@pytest.fixture
def loaded(case):
    load, arguments = LOADS[case]
    return load(**arguments)


@pytest.fixture
def raw(case):
    load, arguments = LOADS[case]
    return load(**arguments, standardise=False)


def counts(labels, class_names):
    return [int(np.sum(labels == name)) for name in class_names]


def test_class_counts(case, loaded):
    class_names, training, test = COUNTS[case]
    assert loaded.class_names == tuple(class_names.split())
    assert counts(loaded.y, loaded.class_names) == training
    assert counts(loaded.y_test, loaded.class_names) == test
    assert len(loaded.y) + len(loaded.y_test) == sum(training) + sum(test)  # no label outside class_names


def test_shapes_and_types(loaded):
    d = INPUTS[loaded.name]
    assert loaded.X.shape == (len(loaded.y), d)
    assert loaded.X_test.shape == (len(loaded.y_test), d)
    assert loaded.feature_mean.shape == loaded.feature_scale.shape == (d,)
    assert len(loaded.feature_names) == len(loaded.units) == d
    assert loaded.X.dtype == loaded.X_test.dtype == np.float64
    assert loaded.y.dtype.kind == loaded.y_test.dtype.kind == "U"


def test_training_inputs_have_zero_mean_and_unit_variance(loaded):
    np.testing.assert_allclose(loaded.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.mean(loaded.X**2, axis=0), 1.0, rtol=1e-12)  # divisor n, not n - 1


def test_test_rows_are_rescaled_with_the_numbers_of_the_training_rows(loaded, raw):
    for rescaled, original in ((loaded.X, raw.X), (loaded.X_test, raw.X_test)):
        restored = rescaled * loaded.feature_scale + loaded.feature_mean
        np.testing.assert_allclose(restored, original, rtol=1e-13, atol=1e-13)


def test_raw_inputs_say_so(raw):
    assert not raw.feature_mean.any()
    assert (raw.feature_scale == 1.0).all()
    assert "raw inputs" in repr(raw)


def test_loading_twice_gives_the_same(case, loaded):
    load, arguments = LOADS[case]
    again = load(**arguments)
    for field in fields(loaded):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(loaded, field.name))


def test_nobody_can_change_it(loaded):
    arrays = [value for field in fields(loaded) if isinstance(value := getattr(loaded, field.name), np.ndarray)]
    assert len(arrays) >= 6
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array
    with pytest.raises(FrozenInstanceError):
        loaded.X = loaded.X_test


def test_only_glass_has_folds(loaded):
    assert (loaded.fold is not None) == (loaded.name == "forensic_glass")


@pytest.mark.parametrize("load", [load_sonar, load_crabs, load_pima, load_forensic_glass])
@pytest.mark.parametrize("value", ["no", 0, None])
def test_standardise_must_be_a_bool(load, value):
    with pytest.raises(ValueError, match=rf"standardise must be True or False, got {value!r}"):
        load(standardise=value)


@pytest.mark.parametrize("load", [load_sonar, load_crabs, load_pima, load_forensic_glass])
def test_numpy_bool_is_a_bool(load):
    assert "raw inputs" in repr(load(standardise=np.False_))
