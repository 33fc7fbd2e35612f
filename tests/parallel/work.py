"""Tasks for the tests of parallel work, which each new process imports, so that there is little to import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np


def times(common, item):
    """Return the product, and note nothing."""
    return common * item


def sums(common, item):
    """Return sums whose last bits hang on the order, and on the number of BLAS threads."""
    rng = np.random.default_rng(item)
    return common @ rng.normal(size=(common.shape[1], 7))


def noted(folder, item):
    """Note on disk that a task was begun, and take a moment."""
    Path(folder, f"{item}.{os.getpid()}.{time.monotonic_ns()}").touch()
    time.sleep(0.1)
    return item


def begun(folder):
    return sorted(int(path.name.partition(".")[0]) for path in Path(folder).iterdir())


def summed(state, factor):
    """Return the sum of a shard, times a factor."""
    return {"sum": factor * state.sum()}


def refused_at_two(state, _):
    """Return the sum of a shard, but not of the third."""
    if state[0] == 2:
        raise ValueError("shard 2 says no")
    return {"sum": state.sum()}


def slow_first(seconds, item):
    """Return the item, the first one last."""
    time.sleep(seconds if item == 0 else 0.0)
    return item


def after_others(folder, item):
    """Return the item, the first one after three of the others, of which one must have been taken by then.

    It does not wait for ever: a test that hangs ends the process of all others.
    """
    if item:
        Path(folder, f"{item}").touch()
    last = time.monotonic() + 60.0
    while item == 0 and len(list(Path(folder).iterdir())) < 3 and time.monotonic() < last:
        time.sleep(0.02)
    return item


def fails_at_three(_, item):
    if item == 3:
        raise ArithmeticError(f"no answer to {item}")
    return item


class Untravelled(Exception):  # noqa: N818
    """An error that pickle cannot make again."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


def fails_untravelled(_, item):
    raise Untravelled("this", item)


def dies_once(folder, item):
    """End the process in the middle of one task, the first time that it is done."""
    mark = Path(folder, "died")
    if item == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item, os.getpid()


def dies(_, item):
    os.kill(os.getpid(), signal.SIGKILL)


def moments(seed, mark):
    """Return some numbers; end the process once, if there is a name for a file that says that it did."""
    if mark and seed == 3 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if seed < 0:
        raise ArithmeticError(f"no numbers of {seed}")
    draws = np.random.default_rng(seed).normal(size=(40, 40))
    return {"values": np.linalg.eigvalsh(draws @ draws.T).tolist()}
