"""What an editor and a type checker see of the package."""

from __future__ import annotations

import ast
import importlib
import re
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from mypy import api

import bayesgp_mf as bgp
from bayesgp_mf import likelihoods
from bayesgp_mf.diagnostics.orthant import MOVES, MoveName
from bayesgp_mf.hyper import HYPER, SEARCHES, HyperName, strategy_names
from bayesgp_mf.methods import METHODS, MethodName

HERE = Path(__file__).parent
SKIPPED = "scipy pandas threadpoolctl joblib cloudpickle matplotlib pymc pytensor pyarrow dask distributed sklearn zarr"
# without errors but in the scripts (those of the package are found by `make lint`), mypy need not read the bodies of
# functions; and the less it follows, the faster it is
CONFIG = f"""[mypy]
strict = true
ignore_errors = true
[mypy-tests.*]
ignore_errors = false
[mypy-{",".join(f"{name}.*" for name in SKIPPED.split())}]
ignore_missing_imports = true
follow_imports = skip
follow_imports_for_stubs = true
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory, pytestconfig):
    """What mypy says of the two scripts, by file and line."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIG)
    kept = getattr(pytestconfig, "cache", None)  # without pytest's plugin there is none; cold, mypy takes some seconds
    cache = folder / "cache" if kept is None else kept.mkdir("mypy")
    options = ["--config-file", str(folder / "mypy.ini"), "--cache-dir", str(cache), "--no-error-summary"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # away from the tree, where py.typed would not be asked for
        out, crash, _ = api.run([*options, str(HERE / "accepted.py"), str(HERE / "refused.py")])
    assert not crash
    found = re.findall(r"(\w+)\.py:(\d+): error: (.*)", out)
    assert len(found) == out.count("error:")
    return {(name, int(line)): message for name, line, message in found}


def test_what_is_right_is_taken_and_has_its_type(errors):
    assert {line: message for (name, line), message in errors.items() if name != "refused"} == {}


def test_each_slip_is_found_on_its_line(errors):
    lines = (HERE / "refused.py").read_text().splitlines()
    expected = {number: line.split("# E: ")[1] for number, line in enumerate(lines, 1) if "# E: " in line}
    found = {line: message for (name, line), message in errors.items() if name == "refused"}
    assert found.keys() == expected.keys()
    for line, message in found.items():
        assert expected[line] in message


def test_the_names_that_editors_complete_are_those_there_are():
    assert set(get_args(MethodName)) == set(METHODS)
    assert sorted(get_args(HyperName)) == strategy_names()
    assert {name for name, strategy in HYPER.items() if not strategy.averages} == set(SEARCHES)
    assert set(get_args(MoveName)) == set(MOVES)
    known = {getattr(likelihoods, name) for name in likelihoods.__all__}
    assert all(issubclass(each, likelihoods.Likelihood) for each in known if isinstance(each, type))


def test_a_type_checker_sees_the_names_that_are_loaded_when_they_are_used():
    stub = ast.parse(Path(bgp.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module for node in imports for alias in node.names}
    assert sorted(seen) == bgp.__all__
    for name, module in seen.items():
        home = importlib.import_module(module)
        assert getattr(home, name) is getattr(bgp, name)
    assert (resources.files("bayesgp_mf") / "py.typed").is_file()
