"""The small pieces of a solution, by pytest-benchmark in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.machine import ONE_THREAD

TESTS = Path(__file__).with_name("test_pieces.py")
TITLE = "Small pieces, 500 cases"
REMARK = "pytest-benchmark: median of as many rounds as fit into half a second, in milliseconds of the processor."
MISSING = "pytest-benchmark is not installed: nothing was timed (pip install pytest-benchmark)."
HEADER = ("Piece", "Median, ms", "Least", "Rounds")


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time all pieces."""
    if find_spec("pytest_benchmark") is None:
        yield Listing(TITLE, HEADER, (), (), (MISSING,))
        return
    yield listing(run())
    advance("pieces")


def run() -> dict[str, Any]:
    """Return what pytest-benchmark writes.

    Raises
    ------
    RuntimeError
        If a piece fails its check; the message has the end of pytest's output.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pieces.json"
        # the plugin is off for the tests of the package
        options = [
            "-p",
            "benchmark",
            "-p",
            "no:cacheprovider",
            "-q",
            f"--benchmark-json={path}",
            "--benchmark-max-time=0.5",
            "--benchmark-timer=time.process_time",
        ]
        command = [sys.executable, "-m", "pytest", *options, str(TESTS)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=TESTS.parents[2], env=os.environ | ONE_THREAD
        )
        if done.returncode != 0:
            raise RuntimeError(f"the pieces failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return written


def listing(written: dict[str, Any]) -> Listing:
    """Return the table of what pytest-benchmark wrote."""
    stats = [(entry["name"].removeprefix("test_"), entry["stats"]) for entry in written["benchmarks"]]
    rows = tuple((name, f"{1e3 * s['median']:.3g}", f"{1e3 * s['min']:.3g}", f"{s['rounds']}") for name, s in stats)
    numbers = [{"name": name, **{key: s[key] for key in ("median", "min", "max", "rounds")}} for name, s in stats]
    return Listing(TITLE, HEADER, rows, numbers, (REMARK,))
