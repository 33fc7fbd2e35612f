"""The progress bar: absent from short work, present in long work, gone when told to be."""

from __future__ import annotations

import threading

import pytest

import bayesgp_mf as bgp
from bayesgp_mf import progress


def force_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(
    ("patience", "enabled", "shown"), [(-1.0, True, True), (-1.0, False, False), (3600.0, True, False)]
)
def test_it_shows_only_what_is_long_and_wanted(monkeypatch, capsys, patience, enabled, shown):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience)
    force_terminal(monkeypatch)
    with progress.progress_bar("counting", 3, enabled=enabled) as advance:
        for word in "abc":
            advance(word)
    assert ("counting" in capsys.readouterr().err) is shown


def test_it_ends_with_the_work_it_shows(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)

    def interrupted_work() -> None:
        with progress.progress_bar("interrupted") as advance:
            advance("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    drawing = [thread for thread in threading.enumerate() if "refresh" in type(thread).__name__.lower()]
    for thread in drawing:
        thread.join(timeout=10.0)  # it ends within one refresh of being told to
    assert not any(thread.is_alive() for thread in drawing)


def test_a_solver_shows_its_steps_when_asked(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    force_terminal(monkeypatch)
    gram = [[2.0, 1.0], [1.0, 2.0]]
    bgp.solve(gram, [1, -1], bgp.Probit())
    assert capsys.readouterr().err == ""
    bgp.solve(gram, [1, -1], bgp.Probit(), control=bgp.Control(progress=True))
    assert "largest change" in capsys.readouterr().err
