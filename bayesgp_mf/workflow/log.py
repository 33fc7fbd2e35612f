"""What is done of a long call, in a file, so that the same call goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bayesgp_mf.container.stored import refused_as
from bayesgp_mf.errors import warn
from bayesgp_mf.parallel import backend
from bayesgp_mf.progress import progress_bar


@dataclass(eq=False)
class Log:
    """A file with a line for the call of a verb and one for each of its parts, by number or name, that is done."""

    path: Path
    stated: dict[str, Any]
    verb: str
    parts: str
    entropy: int | None = None
    done: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path, stated: dict[str, Any], verb: str, parts: str) -> Log:
        """Read what is there; a last line that is not whole, as of a process that was killed, is dropped."""
        made = cls(path, json.loads(json.dumps(stated)), verb, parts)
        if not path.exists() or not path.stat().st_size:
            return made
        with refused_as(f"path {str(path)!r} is no file of bgp.{verb}, or damaged: {{}}. Give another name."):
            first, *lines = path.read_text(encoding="utf-8").split("\n")
            header = json.loads(first)
            made.entropy, there = int(header["entropy"]), dict(header["call"])
            for line in lines[:-1]:
                part, found = json.loads(line)
                made.done[part] = found
        if there != made.stated:
            other = [name for name in made.stated if there.get(name) != made.stated[name]]
            raise ValueError(
                f"path {str(path)!r} has {parts} of another call, which differs in {', '.join(other)}. Give another "
                "name, or remove the file."
            )
        if lines[-1]:
            whole_lines = "\n".join([first, *lines[:-1], ""])
            path.write_text(whole_lines, encoding="utf-8")
        return made

    def begin(self, entropy: int, *, known: bool) -> int:
        """Return the source of randomness: that of the file, if it has one; else write what is to come."""
        if self.entropy is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.entropy = entropy
            self._write({"entropy": entropy, "call": self.stated})
        elif known and entropy != self.entropy:
            raise ValueError(
                f"path {str(self.path)!r} has {self.parts} of another random_seed. Give that one or none, or another "
                "name."
            )
        return self.entropy

    def add(self, part: int | str, found: Any) -> None:
        """Write what came of a part."""
        self._write([part, found])

    def _write(self, line: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def done_of(
    function: Callable[[Any, int], Any],
    task: Any,
    count: int,
    log: Log | None,
    *,
    parts: str,
    title: str,
    processes: int = 1,
    client: Any = None,
    progress: bool = True,
) -> list[Any]:
    """Return ``function(task, k)`` of the first parts ``k < count`` of a call, those that a file has not.

    Each is written when it is done. After Ctrl-C those that are there are returned, with a warning, if there are any.
    """
    done: dict[int, Any] = {} if log is None else log.done
    missing = [k for k in range(count) if k not in done]
    try:
        with (
            progress_bar(title, total=len(missing), enabled=progress) as advance,
            closing(backend(processes, client).map(function, missing, task, ordered=True)) as found,
        ):
            for k, part in zip(missing, found, strict=True):
                done[k] = part
                if log is not None:
                    log.add(k, part)
                advance(f"{len(done)} of {count}")
    except KeyboardInterrupt:
        if not any(done.values()):
            raise
        warn(f"Ctrl-C: {len(done)} of {count} {parts} are done, and what follows is of these.")
    return [done[k] for k in sorted(done) if k < count]
