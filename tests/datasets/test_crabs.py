"""Crabs: the split is stratified, numbered, and the same for ever."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.datasets import load_crabs
from bayesgp_mf.datasets.tables import read_columns

# Training rows of some draws, one bit a row, the first row of the file most significant. They follow from
# numpy's generator, which does not promise the same numbers for ever: if this fails after an upgrade of
# numpy, results quoted by draw number have changed their meaning.
TRAINING_ROWS = {
    0: 0x7A302FB22805316D224748F000B2259F9D801385205987198A,
    1: 0x93418BDA5400C9243231A38DC548F34C118B05D43A33047860,
    99: 0x643B522B4E2213A844FC8065C42AAD15059840669921F06AC,
}


def file_rows():
    """Return inputs, sex and colour of the 200 animals in file order; no two have the same inputs."""
    columns = read_columns("crabs.csv")
    cells = [[float(cell) for cell in columns[name]] for name in ("FL", "RW", "CL", "CW", "BD")]
    cells.append([{"B": 0.0, "O": 1.0}[colour] for colour in columns["sp"]])
    return np.array(cells).T, np.array(columns["sex"]), np.array(columns["sp"])


def training_mask(draw):
    training = {tuple(row) for row in load_crabs(draw=draw, standardise=False).X.tolist()}
    return np.array([tuple(row) in training for row in file_rows()[0].tolist()])


def assert_split(crabs, X, sex, train):
    np.testing.assert_array_equal(crabs.X, X[train])
    np.testing.assert_array_equal(crabs.X_test, X[~train])
    np.testing.assert_array_equal(crabs.y, sex[train])
    np.testing.assert_array_equal(crabs.y_test, sex[~train])


@pytest.mark.parametrize("draw", sorted(TRAINING_ROWS))
def test_rows_of_a_draw(draw):
    X, sex, _ = file_rows()
    train = np.array(list(format(TRAINING_ROWS[draw], "0200b"))) == "1"
    assert_split(load_crabs(draw=draw, standardise=False), X, sex, train)


def test_draw_0_is_the_reference_split(reference):
    X, sex, _ = file_rows()
    train = np.array(reference("crabs.csv")["split"]) == "train"
    assert_split(load_crabs(draw=0, standardise=False), X, sex, train)


@pytest.mark.parametrize("draw", range(10))
def test_every_draw_trains_on_twenty_of_each_sex_and_colour(draw):
    _, sex, colour = file_rows()
    train = training_mask(draw)
    groups, sizes = np.unique(np.char.add(sex[train], colour[train]), return_counts=True)
    assert dict(zip(groups.tolist(), sizes.tolist(), strict=True)) == {"FB": 20, "FO": 20, "MB": 20, "MO": 20}


def test_default_is_draw_0_and_draws_differ():
    np.testing.assert_array_equal(load_crabs().X, load_crabs(draw=0).X)
    masks = {tuple(training_mask(draw).tolist()) for draw in range(10)}
    assert len(masks) == 10


def test_numpy_integer_draws_the_same():
    np.testing.assert_array_equal(load_crabs(draw=np.int64(1)).X, load_crabs(draw=1).X)


@pytest.mark.parametrize("draw", [-1, 1.0, "0", None, True, np.random.default_rng(0)])
def test_draw_must_be_an_integer_from_zero(draw):
    with pytest.raises(ValueError, match=r"draw must be an integer >= 0, got .*\. Pass draw=0 for one split"):
        load_crabs(draw=draw)


def test_colour_is_the_last_input_and_has_no_unit():
    crabs = load_crabs(standardise=False)
    assert crabs.feature_names == ("FL", "RW", "CL", "CW", "BD", "colour")
    assert crabs.units == ("mm", "mm", "mm", "mm", "mm", "dimensionless")
