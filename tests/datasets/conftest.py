"""The reference copy of the data, where there is one beside the repository."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

_REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def reference() -> Callable[[str], dict[str, list[str]]]:
    """Give the reader of a file of ``../shared/data``: its columns, as text."""
    if not _REFERENCE.is_dir():
        pytest.skip("there is no ../shared/data beside the repository")

    def columns(file: str) -> dict[str, list[str]]:
        with open(_REFERENCE / file, newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        return {name: [row[name] for row in rows] for name in rows[0]}

    return columns
