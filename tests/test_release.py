"""Files that say the same thing twice say the same: version, requirements, links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import bayesgp_mf as bgp

ROOT = Path(__file__).resolve().parents[1]
NAMES_ON_CONDA = {"matplotlib": "matplotlib-base"}


def read(path: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("conda/recipe.yaml", r'^  version: "(\S+)"$'),
        ("CHANGELOG.md", r"^## \[(\S+)\]"),
    ],
)
def test_the_version_is_that_of_the_package(path, pattern):
    assert re.search(pattern, read(path), flags=re.MULTILINE).group(1) == bgp.__version__


def test_the_date_of_the_release_is_one():
    (changelog,) = re.findall(rf"## \[{re.escape(bgp.__version__)}\] - (\S+)", read("CHANGELOG.md"))
    assert f"date-released: {changelog}\n" in read("CITATION.cff")


def test_the_recipe_asks_for_what_the_package_asks_for():
    project = tomllib.loads(read("pyproject.toml"))["project"]
    listed = re.findall(
        r"^    - ([a-z0-9-]+) (>=[\d.]+)$", read("conda/recipe.yaml").split("  run:\n")[1], re.MULTILINE
    )
    wanted = dict(re.fullmatch(r"([\w-]+)(?:\[.*\])?(>=[\d.]+)", each).groups() for each in project["dependencies"])
    for extra in ("nutpie", "dask", "sklearn", "frames"):
        wanted |= dict(
            re.fullmatch(r"([\w-]+)(?:\[.*\])?(>=[\d.]+)", each).groups()
            for each in project["optional-dependencies"][extra]
        )
    assert dict(listed) == {NAMES_ON_CONDA.get(name, name): bound for name, bound in wanted.items()}


def test_the_recipe_builds_with_what_the_package_builds_with():
    recipe, pyproject = read("conda/recipe.yaml"), tomllib.loads(read("pyproject.toml"))
    host = recipe.split("  host:\n")[1].split("  run:\n")[0]
    built_with = [f"{name}{bound}" for name, bound in re.findall(r"^    - (\w+) (>=[\d.]+)$", host, re.MULTILINE)]
    assert built_with == pyproject["build-system"]["requires"]
    (python,) = re.findall(r'python_min: "(.+)"', recipe)
    assert pyproject["project"]["requires-python"] == f">={python}"


def test_a_list_of_licence_files_is_known_to_what_builds():
    # PEP 639 was final when hatchling 1.27 came; 1.25 wanted a table there, and 1.26 was withdrawn
    pyproject = tomllib.loads(read("pyproject.toml"))
    (bound,) = re.findall(r"hatchling>=(\d+)\.(\d+)", pyproject["build-system"]["requires"][0])
    assert isinstance(pyproject["project"]["license-files"], list)
    assert tuple(map(int, bound)) >= (1, 27)
    assert all((ROOT / path).is_file() for path in pyproject["project"]["license-files"])


def test_links_of_the_readme_are_absolute():
    # an index shows the page without the repository around it
    targets = re.findall(r"\]\(([^)\s]+)", read("README.md"))
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_links_of_the_readme_lead_to_files():
    here = "https://github.com/bayesgp-mf/bayesgp_mf/blob/main/"
    raw = "https://raw.githubusercontent.com/bayesgp-mf/bayesgp_mf/main/"
    named = re.findall(rf"\]\((?:{here}|{raw})([^)#\s]+)", read("README.md"))
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_what_is_called_slow_is_there():
    for name in read("tests/slow.txt").splitlines():
        path, *_, test = name.split("::")
        text, word = read(path), test.partition("[")[0].rpartition(".")[2]
        assert path.endswith(".md") or re.search(rf"\b(def|class) {word}\b", text), name
