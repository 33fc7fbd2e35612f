"""Columns of text in a stream: groups that come later, a league through time, files, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.duels import Duels
from bayesgp_mf.kernels import Categorical, Matern32

WORTH = np.array([1.0, -1.0, 0.5, -0.5, 1.5, -1.5])
QUIET = {"random_seed": 1, "progress": False}
NAMES = np.array(["Zoe", "Ann", "Mia", "Bob", "Eve", "Flo"])


def _league(rounds=4):
    """A round a week; the first two players come in the last weeks alone, and names are not in order."""
    rng = np.random.default_rng(1)
    weeks = []
    for week in range(rounds):
        here = NAMES[2:] if week < rounds - 2 else NAMES
        a = rng.integers(0, len(here), 20)
        b = (a + rng.integers(1, len(here), 20)) % len(here)
        duels = Duels(here[a], here[b])
        worth = [duels.X[side].map(dict(zip(NAMES, WORTH, strict=True))) for side in ("item", "item of second")]
        won = worth[0] - worth[1] + rng.standard_normal(20) > 0
        weeks.append((duels.X.assign(week=float(week)), won.to_numpy()))
    items = Categorical(1.0, columns="item")
    return duels.kernel(items + items * Matern32(3.0, 0.5, columns="week")), weeks


def _together(weeks):
    return pd.concat([X for X, _ in weeks], ignore_index=True), np.concatenate([y for _, y in weeks])


def test_groups_that_come_later_are_learned_as_in_a_fit():
    kernel, weeks = _league()
    X, y = _together(weeks)
    stream = bgp.streams.Stream(kernel, bgp.Probit(), budget=None, classes=(False, True))
    for each in weeks:
        stream.update(*each, progress=False)
    at_once = bgp.streams.Stream(kernel, bgp.Probit(), budget=None, classes=(False, True)).update(X, y, progress=False)
    whole = bgp.predict(bgp.fit(X, y, kernel, bgp.Probit(), **QUIET), X, draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(at_once.predict_proba(X), whole, atol=1e-5)
    np.testing.assert_allclose(stream.predict_proba(X), whole, atol=0.02)  # batches are solved once
    levels = stream.kernel.levels_of_columns()
    assert levels[0] == levels[1] == ("Bob", "Eve", "Flo", "Mia", "Ann", "Zoe")
    exchanged = X.rename(columns={"item": "item of second", "item of second": "item"})[X.columns]
    np.testing.assert_allclose(stream.predict_proba(exchanged), 1.0 - stream.predict_proba(X), atol=1e-10)


def test_a_group_that_is_not_known_is_as_before_data_and_files_keep_the_names(tmp_path):
    kernel, weeks = _league()
    stream = bgp.streams.Stream(kernel, bgp.Probit(), classes=(False, True))
    stream.update(*weeks[0], progress=False)
    duels = Duels(["x", "x"], ["y", "z"])
    both_new = duels.cases(["Ann"], ["Zoe"]).assign(week=0.0)
    np.testing.assert_allclose(stream.predict_proba(both_new), 0.5)
    stream.save(tmp_path / "league.npz")
    resumed = bgp.streams.load(tmp_path / "league.npz")
    for each in weeks[1:]:
        stream.update(*each, progress=False)
        resumed.update(*each, progress=False)
    X, _ = _together(weeks)
    np.testing.assert_array_equal(resumed.predict_proba(X), stream.predict_proba(X))
    assert stream.predict_proba(both_new)[0] != 0.5


def test_a_kernel_that_is_chosen_later_knows_the_names():
    _, weeks = _league()
    kernel = Duels(["a", "a"], ["b", "c"]).kernel()
    stream = bgp.streams.Stream(kernel, bgp.Probit(), classes=(False, True), hyper="evidence", first=40, reservoir=80)
    for each in weeks:
        stream.update(*each, progress=False)
    assert stream.kernel.levels_of_columns()[0] == ("Bob", "Eve", "Flo", "Mia", "Ann", "Zoe")
    stream.retune(progress=False)
    X, y = _together(weeks)
    assert np.mean((stream.predict_proba(X) > 0.5) == y) > 0.7


def test_text_and_numbers_are_not_mixed():
    kernel = Categorical(1.0, columns="ward")
    text, number = (pd.DataFrame({"ward": ward}) for ward in (["north", "south"], [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"X has numbers in column 'ward', which told groups such as 'north'"):
        bgp.streams.Stream(kernel).update(text, [0, 1]).update(number, [0, 1])
    with pytest.raises(ValueError, match=r"X has text in column 'ward', where cases before had numbers"):
        bgp.streams.Stream(kernel).update(number, [0, 1]).update(text, [0, 1])
