"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name in the same folder to write to, and rename that file to ``path`` when all of it is on the disk.

    If anything goes wrong it is removed, and what was at ``path`` stays. Only a killed process leaves one behind, under
    a name that begins with a dot and ends in the number of the process, some letters and "part".
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part"  # which no one takes for a page or a container
    part = path.with_name(name)
    try:
        yield part
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:  # Ctrl-C too
        part.unlink(missing_ok=True)
        error.add_note(f"{path} was not written; what was there before is still there.")
        raise
