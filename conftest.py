"""What every test and every example starts with, no screen and no figures of the one before, and which are slow."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

SLOW = Path(__file__).parent / "tests" / "slow.txt"
"""Names of tests that took longer than `SECONDS` when they were last measured, by ``make slow``."""
SECONDS = 0.5


@pytest.fixture(autouse=True)
def _no_figures_left() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.hookimpl(tryfirst=True)  # before those are left out that `-m` does not ask for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow."""
    slow = set(SLOW.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker("slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ``make slow``."""
    parser.addoption("--note-slow", action="store_true", help=f"write {SLOW.name} anew, by what the tests take")


def pytest_configure(config: pytest.Config) -> None:
    """Measure what tests take, where that is asked for."""
    if config.getoption("--note-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


class Durations:
    """What the tests of a run take, those of its processes too; in the end it writes which are slow."""

    def __init__(self) -> None:
        self.seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a part of a test took."""
        self.seconds.update({report.nodeid: report.duration})

    def pytest_sessionfinish(self) -> None:
        """Write the file; what was not run stays as it was."""
        others = set(SLOW.read_text(encoding="utf-8").splitlines()) - set(self.seconds)
        slow = sorted(others | {name for name, seconds in self.seconds.items() if seconds > SECONDS})
        SLOW.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")
