"""The progress bar: absent from short work, present in long work, gone when told to be."""

from __future__ import annotations

import threading
import warnings

import numpy as np
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


RNG = np.random.default_rng(1)
X = RNG.standard_normal((24, 2))
Y = X[:, 0] > np.median(X[:, 0])  # as many of both, of which a stream wants ten
KERNEL = bgp.kernels.Gaussian()
FEW = {"draws": 8, "chains": 1, "random_seed": 1}
BRIEF = {"replicas": 1, "random_seed": 1}
PRIORS = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}


def fitted(**options):
    return bgp.fit(X, Y, KERNEL, progress=False, **FEW, **options)


def streamed():
    return bgp.Stream(KERNEL, first=20, random_seed=1).update(X, Y, progress=False)


LONG = {
    "fit": lambda progress: bgp.fit(X, Y, KERNEL, hyper="evidence", progress=progress, **FEW),
    "stream": lambda progress: bgp.Stream(KERNEL, hyper="evidence", first=20, random_seed=1).update(
        X, Y, progress=progress
    ),
    "retune": lambda progress: streamed().retune(progress=progress),
    "prior_predictive": lambda progress: bgp.prior_predictive(X, KERNEL, priors=PRIORS, draws=4, progress=progress),
    "calibrate": lambda progress: bgp.calibrate(X, KERNEL, progress=progress, **BRIEF),
    "explore": lambda progress: bgp.explore(X, Y, {"a": KERNEL}, progress=progress, **FEW),
    "validate": lambda progress: bgp.validate(fitted(), tune=4, progress=progress, **FEW),
    "plan": lambda progress: bgp.plan(fitted(), [4], test=4, progress=progress, **BRIEF),
    "exact_loo": lambda progress: bgp.diagnostics.exact_loo(bgp.posterior(fitted()).problem, progress=progress),
    "sensitivity": lambda progress: bgp.diagnostics.sensitivity(fitted(), progress=progress),
}


@pytest.mark.parametrize("name", LONG)
def test_long_work_shows_a_bar_and_none_when_told_so(monkeypatch, capsys, name):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    force_terminal(monkeypatch)
    for wanted in (False, True):
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of so few draws and cases
            LONG[name](wanted)
        assert ("\x1b[" in capsys.readouterr().err) is wanted
