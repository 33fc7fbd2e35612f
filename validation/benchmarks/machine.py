"""What the times belong to: the machine, by its cores and its BLAS, and the versions."""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import threadpool_info

from validation.reporting.versions import version_of

PACKAGES = ("bayesgp_mf", "numpy", "scipy")
"""That are always there."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The environment of processes that are started to be measured."""

Found = TypeVar("Found")


def in_own_process(work: Callable[..., Found], *arguments: Any) -> Found:
    """Return what some work returns in a process of its own, whose largest memory is that of the work."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def describe(distributions: Iterable[str]) -> dict[str, Any]:
    """Return the machine, Python, and the versions of the packages here and of ``distributions``, None if absent."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "blas": blas(),
        "blas_threads": 1,
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in (*PACKAGES, *distributions)},
    }


def blas() -> list[str]:
    """Return the BLAS libraries that are loaded, with version and the instructions they were chosen for."""
    import scipy.linalg  # noqa: F401  (NumPy and SciPy each bring their own)

    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return sorted({f"{i['internal_api']} {i['version']} ({i.get('architecture', 'unknown')})" for i in found})


def sentences(machine: dict[str, Any]) -> list[str]:
    """Return the same as lines of text."""
    versions = machine["versions"].items()
    there = ", ".join(f"{name} {number}" for name, number in versions if number is not None)
    absent = ", ".join(name for name, number in versions if number is None)
    blas_names = ", ".join(machine["blas"])
    lines = [
        f"{machine['cores']} cores ({machine['architecture']}), of which one is used; BLAS {blas_names}.",
        f"Python {machine['python']}, {there}.",
    ]
    return [*lines, f"Absent, and left out: {absent}."] if absent else lines
