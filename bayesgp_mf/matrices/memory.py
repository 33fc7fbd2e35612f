"""What the matrices of n cases, and draws of them, need, asked before any of them is made."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

PEAK = 9
"""Dense (n, n) matrices alive at the peak of one fit."""
ROOTS = 4
"""Root-like (n, r) matrices alive at the peak of one fit whose Gram matrix is of low rank r."""
KEPT = 7
"""Those alive for each further setting of the hyperparameters that a fit averages over."""
DRAWN = {"training": 25, "new": 17}
"""Bytes for each draw of each case: latent value and label, of training cases log-likelihood too, and a sign."""
SEARCH_SECONDS, SECONDS_A_CASE = 30.0, 2.5e-4
"""Of a fit on 500 inducing cases, measured on one core: of its search, and of its solution for each case."""
MEMBERSHIP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Where Linux says in which control groups a process is, and what these may have."""
PER_CLASS = 2
"""Matrices alive besides for each of several classes: its block of the correction, and its own Gram matrix."""


def check_memory(n: int, settings: int = 1, rank: int | None = None, classes: int = 1) -> None:
    """Raise a MemoryError if the matrices of ``n`` cases would not fit into this machine.

    Parameters
    ----------
    n : int
        Training cases.
    settings : int
        Hyperparameters that are solved for and kept at the same time.
    rank : int, optional
        Rank of the Gram matrix where a root of low rank stands for it; the default is a dense one.
    classes : int
        Classes with a latent value each; 1 where a case has a single one.
    """
    of_classes = PER_CLASS * (classes if classes > 1 else 0)
    dense = (PEAK + of_classes + (KEPT + of_classes) * (settings - 1)) * n**2
    needed = 8 * (dense if rank is None else (ROOTS + settings - 1) * n * rank)
    what = f"{n} training cases" if settings == 1 else f"{n} training cases at {settings} settings of hyperparameters"
    matrices = " for dense matrices" if rank is None else f" for roots of rank {rank}"
    advice = "Fit a random subset of the cases" + ("." if settings == 1 else ", or draw fewer hyperparameters.")
    if classes == 1:
        minutes = max(1, round((SEARCH_SECONDS + SECONDS_A_CASE * n) / 60))
        advice = (
            f"On inducing cases, fit(..., inducing=500), any kernel takes little memory, and a search for "
            f"hyperparameters about {minutes} minute{'s' * (minutes > 1)}. Or f{advice[1:]}"
        )
    check_bytes(what, needed, advice, matrices)


def keeps_root(n: int, rank: int) -> bool:
    """Return whether a root ``(n, rank)`` is to be kept: where it takes a small part of the memory."""
    return 8.0 * n * rank <= available_bytes() / ROOTS


def check_draws(draws: int, cases: int, kind: Literal["training", "new"], advice: str) -> None:
    """Raise a MemoryError if draws of many cases would not fit into this machine.

    Parameters
    ----------
    draws, cases : int
        How many, of all chains together.
    kind : {"training", "new"}
        Whose values they are.
    advice : str
        What to do about it, a sentence.
    """
    needed = DRAWN[kind] * int(draws) * int(cases)  # NumPy's integers would overflow
    check_bytes(f"{draws} draws of {cases} {kind} cases", needed, advice)


def check_bytes(what: str, needed: float, advice: str, matrices: str = "") -> None:
    """Raise a MemoryError if this machine has not so many bytes, of what in the plural takes them, and for what."""
    available = available_bytes()
    if needed > available:
        raise MemoryError(
            f"{what} need about {needed / 2**30:.1f} GiB{matrices}, and this machine has, or a limit leaves, "
            f"{available / 2**30:.1f} GiB. {advice}"
        )


def largest_rank(n: int) -> int:
    """Return the largest rank of a Gram matrix of ``n`` cases for which the work on its root fits into this machine."""
    return int(min(n, available_bytes() / (ROOTS * 8 * n)))


def available_bytes() -> float:
    """Return the bytes of memory that this process may have: of the machine, or less where a limit says so."""
    return min(_of_machine(), _of_groups(MEMBERSHIP, GROUPS), _of_process())


def _of_machine() -> float:
    if not hasattr(os, "sysconf"):  # Windows does not tell
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _of_process() -> float:
    """Return what ``ulimit -v`` leaves beside what is mapped already."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else max(0.0, float(limit - mapped_bytes()))


def mapped_bytes() -> int:
    """Return the address space of this process, or 0 where a system does not tell."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@cache  # a search asks at each of its points
def _of_groups(membership: Path, groups: Path) -> float:
    """Return the least limit of the control groups of Linux that this process is in, such as those of a container."""
    found = math.inf
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = (groups / "memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
        folder = root / path.lstrip("/")
        for each in (folder, *folder.parents):
            with suppress(OSError, ValueError):  # of a group that is not seen from here, or has "max"
                found = min(found, float(int((each / name).read_text(encoding="ascii"))))
            if each == root:
                break
    return found
