"""What dense matrices of n cases need, asked before any of them is made."""

from __future__ import annotations

import os

PEAK = 9
"""Dense (n, n) matrices alive at the peak of one fit."""
KEPT = 7
"""Those alive for each further setting of the hyperparameters that a fit averages over."""
PER_CLASS = 2
"""Those alive besides for each of several classes: its block of the correction, and its own Gram matrix."""


def check_memory(n: int, settings: int = 1, classes: int = 1) -> None:
    """Raise a MemoryError if the matrices of ``n`` cases would not fit into this machine.

    Parameters
    ----------
    n : int
        Training cases.
    settings : int
        Hyperparameters that are solved for and kept at the same time.
    classes : int
        Classes with a latent value each; 1 where a case has a single one.
    """
    if not hasattr(os, "sysconf"):  # Windows does not tell
        return
    of_classes = PER_CLASS * (classes if classes > 1 else 0)
    needed = (PEAK + of_classes + (KEPT + of_classes) * (settings - 1)) * 8 * n**2
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed <= available:
        return
    what = f"{n} training cases" if settings == 1 else f"{n} training cases at {settings} settings of hyperparameters"
    advice = "Fit a random subset of the cases" + ("." if settings == 1 else ", or draw fewer hyperparameters.")
    raise MemoryError(
        f"{what} need about {needed / 2**30:.0f} GiB for dense matrices, and this machine has "
        f"{available / 2**30:.0f} GiB. {advice}"
    )
