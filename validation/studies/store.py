"""Results on disk, by content: what was computed once, from the same code and arguments, is not computed again."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import bayesgp_mf
import validation
from validation.reporting.files import write_text
from validation.reporting.versions import versions_of
from validation.studies.study import Task

PACKAGES = ("numpy", "scipy", "pymc", "arviz")
"""Whose versions a result may depend on, beside that of Python."""


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that results depend on."""
    return versions_of(PACKAGES)


@cache
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
    """A folder with one file for each result, and in its first line a checksum of task and result.

    A file that is empty, cut, of another task or changed in any digit holds nothing: the task is done again.

    Parameters
    ----------
    folder : Path
        Is made where it is missing.
    code : str
        The hash that `code_digest` returns.
    """

    def __init__(self, folder: Path, code: str) -> None:
        self._folder, self.code = folder, code
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, task: Task) -> Path:
        return self._folder / f"{task.digest(self.code)}.result"

    def _checksum(self, task: Task, text: str) -> str:
        return hashlib.sha256(f"{task.digest(self.code)}\n{text}".encode()).hexdigest()

    def _read(self, task: Task) -> str | None:
        """Return the result of a task as JSON, or None if there is none that is whole."""
        try:
            checksum, _, text = self._path(task).read_text(encoding="utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        return text if checksum == self._checksum(task, text) else None

    def holds(self, task: Task) -> bool:
        """Whether the task was done before, and its result is still what it was."""
        return self._read(task) is not None

    def load(self, task: Task) -> Any:
        """Return the result of a task that was done.

        Raises
        ------
        ValueError
            If it is not there, or no longer what it was.
        """
        text = self._read(task)
        if text is None:
            raise ValueError(f"there is no whole result of the task {task.name!r} in {self._folder}: run it first.")
        return json.loads(text)

    def keep(self, task: Task, text: str) -> None:
        """Keep the result of a task, from `result_of`; whoever stops this in the middle leaves no half of a file."""
        write_text(self._path(task), f"{self._checksum(task, text)}\n{text}")

    def run(self, task: Task) -> None:
        """Do a task and keep its result."""
        self.keep(task, result_of(task))


def result_of(task: Task) -> str:
    """Do a task, and return its result as JSON."""
    return json.dumps(task.function(**task.arguments), allow_nan=False)
