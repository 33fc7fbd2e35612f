"""Another process, for what must hold in a new one: importing takes seconds, so one process has done it for all.

Run as a script it reads programs, one line of JSON each, and runs each in a fork of its own: nothing that one of them
does is seen by the next, nor anything of the tests' own process by any.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, NamedTuple


class Done(NamedTuple):
    """What a program left: its exit status, what it printed, and what it printed as errors."""

    returncode: int
    stdout: str
    stderr: str


class Elsewhere:
    """A process that runs programs as ``python -c`` does, which ends with the block."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, code: str, *arguments: object) -> Done:
        """Run a program, with arguments as ``sys.argv[1:]``, and return what it left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([code, *map(str, arguments)]) + "\n")
        self._process.stdin.flush()
        return Done(*json.loads(self._process.stdout.readline()))


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Yield a process that has imported ArviZ and the package."""
    command = [sys.executable, "-m", "tests.elsewhere"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Elsewhere(process)
        finally:
            process.kill()


def _run(code: str, arguments: list[str], out: IO[str], err: IO[str]) -> int:
    """Run a program here, and return its exit status."""
    sys.argv = ["-c", *arguments]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
        except BaseException:  # as the interpreter does
            traceback.print_exc()
            return 1
    return 0


def _serve() -> None:
    import arviz  # noqa: F401

    import bayesgp_mf as bgp

    _ = bgp.fit, bgp.predict, bgp.loo  # which are imported when they are asked for
    for line in sys.stdin:
        code, *arguments = json.loads(line)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                status = _run(code, arguments, out, err)
                out.flush()
                err.flush()
                os._exit(status)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for file in (out, err):
                file.seek(0)
            print(json.dumps([status, out.read(), err.read()]), flush=True)


if __name__ == "__main__":
    _serve()
