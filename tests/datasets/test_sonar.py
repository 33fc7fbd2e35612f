"""Sonar: the split is the one the original files mark."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.datasets import load_sonar
from bayesgp_mf.datasets.tables import read_columns

# Held a second time, so that no slip of the keyboard in the loader can pass: most mistakes in it would
# leave the class counts as they are.
TRAINING_MASK = "fbefd5deda6b82704615caad6b14cb4b083a9e42ab8d7a15180a"


def nearest_neighbour_errors(dataset):
    distance = ((dataset.X_test[:, None, :] - dataset.X[None, :, :]) ** 2).sum(axis=2)
    return int(np.sum(dataset.y[distance.argmin(axis=1)] != dataset.y_test))


def test_rows_are_those_of_the_reference_split(reference):
    columns = reference("sonar.csv")
    sonar = load_sonar(standardise=False)
    values = np.array([[float(cell) for cell in columns[f"x{band}"]] for band in range(1, 61)]).T
    train = np.array(columns["split"]) == "train"
    labels = np.array(columns["label"])
    np.testing.assert_array_equal(sonar.X, values[train])
    np.testing.assert_array_equal(sonar.X_test, values[~train])
    np.testing.assert_array_equal(sonar.y, labels[train])
    np.testing.assert_array_equal(sonar.y_test, labels[~train])
    assert set(columns["split"]) == {"train", "test"}


def test_every_row_is_on_the_marked_side_with_its_bands_in_order():
    columns = read_columns("sonar.csv")
    values = np.array([[float(cell) for cell in columns[f"x{band}"]] for band in range(1, 61)]).T
    train = np.unpackbits(np.frombuffer(bytes.fromhex(TRAINING_MASK), dtype=np.uint8)).astype(bool)
    sonar = load_sonar(standardise=False)
    np.testing.assert_array_equal(sonar.X, values[train])
    np.testing.assert_array_equal(sonar.X_test, values[~train])
    np.testing.assert_array_equal(sonar.y_test, np.array(columns["label"])[~train])
    assert sonar.feature_names == tuple(f"x{band}" for band in range(1, 61))


def test_nearest_neighbour_on_raw_inputs_makes_nine_errors():
    # Known baseline of this split; random splits of this size give 21 +- 4, and rarely below 11.
    assert nearest_neighbour_errors(load_sonar(standardise=False)) == 9


def test_exchange_swaps_training_and_test_rows():
    straight = load_sonar(standardise=False)
    exchanged = load_sonar(standardise=False, exchange=True)
    np.testing.assert_array_equal(exchanged.X, straight.X_test)
    np.testing.assert_array_equal(exchanged.X_test, straight.X)
    np.testing.assert_array_equal(exchanged.y, straight.y_test)
    np.testing.assert_array_equal(exchanged.y_test, straight.y)


def test_exchange_standardises_over_the_new_training_rows():
    raw = load_sonar(standardise=False)
    np.testing.assert_allclose(load_sonar(exchange=True).feature_mean, raw.X_test.mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_exchange_must_be_a_bool(value):
    with pytest.raises(ValueError, match=rf"exchange must be True or False, got {value!r}"):
        load_sonar(exchange=value)
