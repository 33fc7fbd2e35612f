"""Files that are there as a whole or not at all."""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path


def as_path(argument: str, given: object) -> Path:
    """Return the path of a file, ``~`` as the home folder, or raise a ValueError that names the argument."""
    expected = f"{argument} must be the name of a file, text or a pathlib.Path"
    if not isinstance(given, str | os.PathLike):
        raise ValueError(f"{expected}, got {given!r:.80}.")
    text = os.fsdecode(given)
    if not text or "\0" in text:
        raise ValueError(f"{expected}, and {text!r:.80} {'has a NUL character' if text else 'is empty'}.")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # of a user who is not there
        raise ValueError(f"{expected}, and {text!r:.80} begins with a home folder that is not there.") from error


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a name in the same folder to write to, and rename that file to ``path`` when all of it is on the disk.

    If anything goes wrong it is removed, and what was at ``path`` stays. Only a killed process leaves one behind, under
    a name that begins with a dot and ends in the number of the process, some letters and "part"; who writes to the same
    path next on that machine removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    # which no one takes for a page or a container
    name = f".{path.name}.{os.getpid()}-{_machine()}{secrets.token_hex(4)}.part"
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


def reserve(path: Path, size: int) -> None:
    """Make a file of so many bytes, where the system can say that it has room for them; else an OSError."""
    if hasattr(os, "posix_fallocate"):
        with path.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                    raise OSError(error.errno, f"{error.strerror}: it takes up to {size / 2**20:.1f} MiB") from None


def _machine() -> str:
    """Return some letters for this machine: on a folder that several share, numbers of processes say nothing."""
    return blake2b(platform.node().encode(), digest_size=4).hexdigest()


def _sweep(path: Path) -> None:
    """Remove what killed processes of this machine left of a file with this name."""
    of_one = re.compile(rf"\.{re.escape(path.name)}\.(\d+)-{_machine()}[0-9a-f]{{8}}\.part")
    for name in os.listdir(path.parent):
        found = of_one.fullmatch(name)
        if found and not _lives(int(found[1])):
            path.with_name(name).unlink(missing_ok=True)


def _lives(process: int) -> bool:
    """Tell whether a process of this number is there, as far as that can be asked without ending it."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True
