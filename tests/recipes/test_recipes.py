"""The recipes of the developer guide run as they are written."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = sorted((DOCS / "recipes").glob("*.py"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_a_recipe_runs(recipe):
    runpy.run_path(str(recipe), run_name="__main__")


def test_the_guide_is_built_from_them():
    guide = (DOCS / "developer.md").read_text(encoding="utf-8")
    assert RECIPES
    assert [recipe.name for recipe in RECIPES if f"{{literalinclude}} recipes/{recipe.name}\n" not in guide] == []
