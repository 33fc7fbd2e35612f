"""Results on disk, by content: what was computed once, from the same code and arguments, is not computed again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import bayesgp_mf
import validation
from validation.reporting.versions import versions_of
from validation.studies.study import Task

PACKAGES = ("numpy", "scipy", "pymc", "arviz")
"""Whose versions a result may depend on, beside that of Python."""


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that results depend on."""
    return versions_of(PACKAGES)


def code_digest() -> str:
    """Return a hash of all that results depend on but their arguments: the sources here, and the versions."""
    digest = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    for package in (bayesgp_mf, validation):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


class Store:
    """A folder with one file for each result.

    Parameters
    ----------
    folder : Path
        Is made where it is missing.
    code : str
        The hash that `code_digest` returns.
    """

    def __init__(self, folder: Path, code: str) -> None:
        self._folder, self._code = folder, code
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, task: Task) -> Path:
        return self._folder / f"{task.digest(self._code)}.json"

    def holds(self, task: Task) -> bool:
        """Whether the task was done before."""
        return self._path(task).is_file()

    def load(self, task: Task) -> Any:
        """Return the result of a task that was done."""
        return json.loads(self._path(task).read_text(encoding="utf-8"))

    def run(self, task: Task) -> None:
        """Do a task and keep its result; whoever stops this in the middle leaves no half of a file."""
        text = json.dumps(task.function(**task.arguments), allow_nan=False)
        path = self._path(task)
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
