"""The bundled files are, byte for byte, what validation/export_datasets.R wrote."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest

from bayesgp_mf.datasets.tables import input_matrix, read_columns

FOLDER = files("bayesgp_mf.datasets").joinpath("data")
SHA256 = {
    "crabs.csv": "c112a5e147591d8e04f32dbf3f3e2be2eb74860119c6f6b5e33191ef84ee16aa",
    "forensic_glass.csv": "759463ac719742e1f9a68ff263a62f5f039ef01559611768d241215f4e7bd813",
    "pima_test.csv": "d6cbe2b193b21dd0fb20085af95d884a093b68d018239231a8b4fb09c29603d7",
    "pima_train.csv": "7c05f59a25c5cca684cbaf8a0e399385b8172f0a0d9000727cb9e6b2cf81a787",
    "sonar.csv": "43d80953e264cb581ec29cee47207389f9eca50c94343fe8201530a7e8424e73",
}
REFERENCE_FILES = {
    "crabs.csv": "crabs.csv",
    "forensic_glass.csv": "fgl.csv",
    "pima_test.csv": "pima_te.csv",
    "pima_train.csv": "pima_tr.csv",
    "sonar.csv": "sonar.csv",
}
WORDS = {"sp", "sex", "type", "label"}  # columns that are not numbers


@pytest.mark.parametrize("file", sorted(SHA256))
def test_bytes(file):
    assert hashlib.sha256(FOLDER.joinpath(file).read_bytes()).hexdigest() == SHA256[file]


def test_no_file_without_a_sum():
    assert {entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".csv")} == set(SHA256)


def test_the_licence_of_each_file_is_stated():
    rows = FOLDER.joinpath("LICENCES.md").read_text(encoding="utf-8").splitlines()
    stated = {row.split("|")[1].strip(" `"): row.split("|")[3].strip() for row in rows if row.startswith("| `")}
    assert set(stated) == set(SHA256)
    assert all(stated.values())


@pytest.mark.parametrize("file", sorted(SHA256))
def test_values_equal_reference(file, reference):
    bundled, expected = read_columns(file), reference(REFERENCE_FILES[file])
    assert set(expected) - set(bundled) <= {"split", "split_first20", "pattern"}
    for name, cells in bundled.items():
        if name in WORDS:
            assert cells == expected[name]
        else:
            assert [float(cell) for cell in cells] == [float(cell) for cell in expected[name]]


def test_input_matrix_takes_the_columns_asked_for_in_that_order():
    columns = {"a": ["1", "2"], "word": ["x", "y"], "b": ["3.5", "-4e-1"]}
    assert input_matrix(columns, ("b", "a")).tolist() == [[3.5, 1.0], [-0.4, 2.0]]
