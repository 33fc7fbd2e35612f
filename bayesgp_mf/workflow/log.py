"""What is done of a long call, in a file, so that the same call goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bayesgp_mf.arguments import as_generator
from bayesgp_mf.container.stored import refused_as
from bayesgp_mf.errors import warn
from bayesgp_mf.files import as_path
from bayesgp_mf.fitting import Seed
from bayesgp_mf.matrices.memory import check_bytes
from bayesgp_mf.parallel import backend
from bayesgp_mf.progress import progress_bar

Holds: TypeAlias = Callable[[Any, Any], bool] | None


def writing(path: Path, category: type[Exception] = OSError) -> AbstractContextManager[None]:
    """Turn what goes wrong where a file of a call is written into an error that names it: a full disk, say."""
    return refused_as(f"path {str(path)!r} cannot be written: {{}}. Mend that, or give another name.", category)


@dataclass(eq=False)
class Log:
    """What is done of a call by its parts, each a number or name: a line of a file for each, if there is a path."""

    parts: str
    entropy: int
    path: Path | None = None
    done: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, path: Any, stated: dict[str, Any], verb: str, parts: str, random_seed: Seed, holds: Holds = None
    ) -> Log:
        """Return what is there of a call, with the source of randomness of the file, if it has one.

        Else the file begins with what is to come. A last line that is not whole, as of a process that was killed, is
        dropped. ``holds`` says of a part, and of what is there of it, whether these can be of the call.
        """
        made = cls(parts, int(as_generator(random_seed).integers(2**62)))
        if path is None:
            return made
        made.path = as_path("path", path)
        call = json.loads(json.dumps(stated))
        with writing(made.path, ValueError):
            made.path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not (made.path.exists() and made.path.stat().st_size)
            if is_new:
                made._write(made.path, {"entropy": made.entropy, "call": call})
        if not is_new:
            made._read(made.path, call, verb, holds, known=random_seed is not None)
        return made

    def _read(self, path: Path, call: dict[str, Any], verb: str, holds: Holds, *, known: bool) -> None:
        damaged = f"path {str(path)!r} is no file of bgp.{verb}, or damaged: {{}}. Give another name."
        with refused_as(damaged):
            first, *lines, last = path.read_text(encoding="utf-8").split("\n")
            header = json.loads(first)
            entropy, there = int(header["entropy"]), dict(header["call"])
        if there != call:
            other = [name for name in {**call, **there} if there.get(name, ...) != call.get(name, ...)]
            numbers = [
                f"{name}={there[name]}" for name in other if isinstance(there.get(name), int | float) and name in call
            ]
            same = f"{', '.join(numbers)} (and more {self.parts}, if these are too few), "
            raise ValueError(
                f"path {str(path)!r} has {self.parts} of another call, which differs in {', '.join(other)}. Give "
                f"{same if len(numbers) == len(other) else ''}another name, or remove the file."
            )
        with refused_as(damaged):
            for line in lines:
                part, found = json.loads(line)
                if holds is not None and not holds(part, found):
                    raise ValueError(f"{line[:40]!r} is no line of it")
                self.done[part] = found
        if known and entropy != self.entropy:
            raise ValueError(
                f"path {str(path)!r} has {self.parts} of another random_seed. Give that one or none, or another name."
            )
        self.entropy = entropy
        if last:
            with writing(path):
                path.write_text("\n".join([first, *lines, ""]), encoding="utf-8")

    def add(self, part: int | str, found: Any) -> None:
        """Write what came of a part."""
        if self.path is not None:
            with writing(self.path):
                self._write(self.path, [part, found])

    @staticmethod
    def _write(path: Path, line: Any) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


BYTES = 1000
"""Of a part that is done: some ten numbers, as Python has them."""


def done_of(
    function: Callable[[Any, int], Any],
    task: Any,
    count: int,
    log: Log,
    *,
    title: str,
    processes: int,
    client: Any = None,
    progress: bool,
) -> list[Any]:
    """Return ``function(task, k)`` of the first parts ``k < count`` of a call, those that a file has not.

    Each is written when it is done. After Ctrl-C those that are there are returned, with a warning, if there are any.
    """
    check_bytes(f"{count} {log.parts}", BYTES * count, "Ask for fewer.")
    done = log.done
    missing = [k for k in range(count) if k not in done]
    try:
        with (
            progress_bar(title, total=len(missing), enabled=progress) as advance,
            closing(backend(processes, client).map(function, missing, task, ordered=True)) as found,
        ):
            for k, part in zip(missing, found, strict=True):
                done[k] = part
                log.add(k, part)
                advance(f"{len(done)} of {count}")
    except KeyboardInterrupt:
        if not any(done.values()):
            raise
        warn(f"Ctrl-C: {len(done)} of {count} {log.parts} are done, and what follows is of these.")
    return [done[k] for k in sorted(done) if k < count]
