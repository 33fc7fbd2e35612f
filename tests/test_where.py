"""The page that says where things are: every name on it exists."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "where.md"
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", PAGE.read_text(encoding="utf-8"))))


def find(name: str) -> object:
    """Return what a dotted name below the package stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(["bayesgp_mf", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[length:], module)
    raise ModuleNotFoundError(name)


def test_the_page_names_many_places():
    assert len(NAMES) > 40


def test_every_name_on_the_page_exists():
    for name in NAMES:
        find(name)


def test_a_name_that_is_gone_is_found_out():
    with pytest.raises(AttributeError):
        find("solvers.rules.Gone")
