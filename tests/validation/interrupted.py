"""A script for `test_files`: jobs that are killed, or that run out of disk, in processes forked from a small one.

It prints as JSON what lay there after each, as the names of files whose content is not what a job that ends leaves.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import xarray as xr

from validation.reporting.checks import Check
from validation.reporting.drawing import axes_or_new
from validation.reporting.files import write_figure, write_json, write_netcdf, write_text
from validation.studies.__main__ import main
from validation.studies.study import Findings, Study, Task

MISSING = b"are missing"
"""What a page and its numbers say if tasks failed, as where their results could not be kept."""
KILLS = 6
LIMITS = (0, 4_000, 60_000)
"""Bytes of the largest file that may be written: a disk that is full at some point."""


def numbers(seed: int) -> list[float]:
    """Return some numbers, and take a moment."""
    time.sleep(0.003)
    return np.random.default_rng(seed).standard_normal(400).tolist()


STUDY = Study(
    "numbers",
    "Numbers",
    [Task(f"{seed}", numbers, {"seed": seed}) for seed in range(6)],
    lambda results: Findings((Check("how many", float(len(results)), "at most", 6.0, ""),), ()),
)


def studies(folder: Path) -> None:
    """Do as ``make validate`` does."""
    main(["--output", str(folder), "--processes", "1"], [STUDY])


def outputs(folder: Path) -> None:
    """Write a file of each kind, as a report has them."""
    values = np.random.default_rng(0).standard_normal((100, 200))
    ax = axes_or_new(None)
    ax.plot(values[0])
    write_text(folder / "page.html", "word " * 100_000)
    write_json(folder / "numbers.json", values[:20].tolist())
    write_figure(folder / "figure.png", ax)
    write_netcdf(folder / "draws.nc", xr.Dataset({"x": (("draw", "case"), values)}))


def forked(job: Callable[[Path], None], folder: Path, limit: int | None = None) -> int:
    """Start a job in a process of its own, which may write files of so many bytes, and return its number."""
    process = os.fork()
    if process == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            job(folder)
        finally:
            os._exit(0)
    return process


def contents(folder: Path) -> dict[str, bytes]:
    """Return the final outputs in a folder: neither results of tasks, nor what the writer's own names hide."""
    files = (path for path in folder.glob("[!.]*") if path.is_file())
    return {path.name: path.read_bytes() for path in files}


def check(job: Callable[[Path], None], folder: Path) -> dict[str, object]:
    """Interrupt a job again and again, then let it end, and return what was found."""
    with redirect_stdout(sys.stderr):
        job(folder / "first")  # here, so that those that follow have all that is imported
    began = time.perf_counter()
    os.waitpid(forked(job, folder / "whole"), 0)
    seconds, whole = time.perf_counter() - began, contents(folder / "whole")
    rng, wrong, seen = random.Random(1), list[str](), set[int]()

    def look(at: Path) -> None:
        found = contents(at)
        wrong.extend(f"{at.name}/{name}" for name in found if found[name] != whole[name] and MISSING not in found[name])
        seen.add(len(found))

    for k in range(KILLS):
        at = folder / f"killed {k // 3}"  # three times at each
        process = forked(job, at)
        time.sleep(rng.uniform(0.0, seconds))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        look(at)
    for limit in LIMITS:
        at = folder / f"limit {limit}"
        os.waitpid(forked(job, at, limit), 0)
        look(at)
        if any(at.rglob(".*")):
            wrong.append(f"{at.name}: something is left behind")
    again = []
    for at in sorted(folder.iterdir()):
        os.waitpid(forked(job, at), 0)
        again.append(contents(at) == whole)
    return {"names": sorted(whole), "wrong": wrong, "again": again, "seen": sorted(seen)}


if __name__ == "__main__":
    print(json.dumps({job.__name__: check(job, Path(sys.argv[1]) / job.__name__) for job in (studies, outputs)}))
