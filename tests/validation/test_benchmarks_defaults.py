"""The section on the default model, on a few cases; no time is asserted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bayesgp_mf.kernels import Gaussian, Warped
from validation.benchmarks import defaults, two_classes
from validation.benchmarks.defaults import DEFAULT, GPC, SETTINGS, Compared, Scored, compare, divided, goals
from validation.benchmarks.two_classes import OF_R, OF_SKLEARN, Table, tables


def small(n=60):
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"dose": rng.lognormal(size=n), "site": rng.choice(["north", "south"], n), "one": 1.0})
    return Table("small", False, X, (np.log(X["dose"]) + 0.5 * rng.standard_normal(n) > 0).to_numpy().astype(np.int64))


def made(name, apart, **scores):
    """Return a table on which rules have these log scores, with some noise that they share."""
    noise = 0.1 * np.random.default_rng(1).standard_normal(50)
    return Compared(name, apart, 10, 2, {rule: Scored(score + noise, 1.0) for rule, score in scores.items()})


def test_two_rules_are_fitted_to_the_same_cases_and_scored_on_the_same_others():
    found = compare(small(), {rule: SETTINGS[rule] for rule in (DEFAULT, "one")}, most=30, splits=2)
    assert (found.n, found.d) == (30, 3)
    assert list(found.scored) == [DEFAULT, "one"]
    for each in found.scored.values():
        assert each.logs.shape == (60,)
        assert np.all(each.logs < 0)
        assert each.score > np.log(0.5)
        assert each.seconds > 0
    above, error = found.above("one")
    assert above == pytest.approx(found.scored[DEFAULT].score - found.scored["one"].score)
    assert error > 0
    assert found.above(DEFAULT) == (0.0, 0.0)


def test_a_division_standardises_what_varies_and_keeps_the_columns():
    parts = divided(small(), np.arange(40), np.arange(40, 60))
    assert list(parts.X) == ["dose", "site", "one"]
    assert parts.numbers == ["dose", "one"]
    assert parts.Z.shape == (40, 3)  # the dose, and two indicators
    np.testing.assert_allclose(parts.Z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(parts.Z.std(axis=0), 1.0)
    assert parts.Z_test.shape == (20, 3)


def test_a_table_of_words_alone_has_no_numbers_to_transform():
    words = small()._replace(X=small().X[["site"]])
    assert SETTINGS["power"](divided(words, np.arange(40), np.arange(40, 60))) is None


@pytest.mark.parametrize("warped", [False, True])
def test_changed_kernels_have_a_prior_of_each_parameter(monkeypatch, warped):
    kernel, priors = defaults.default_model(np.random.default_rng(1).standard_normal((40, 3)))
    assert isinstance(kernel.terms[0], Gaussian)
    given = Warped(kernel, 0, 0.5) if warped else kernel
    seen = []
    monkeypatch.setattr(defaults, "default_model", lambda X, y: (given, priors))
    monkeypatch.setattr(defaults, "_fitted", lambda X, X_test, y, kernel, priors: seen.append((kernel, priors)))
    parts = divided(small(), np.arange(40), np.arange(40, 60))
    SETTINGS["linear"](parts)
    SETTINGS["Matern"](parts)
    (linear, of_linear), (matern, of_matern) = seen
    assert list(linear.params) == list(of_linear)
    assert of_linear["linear_weight"].mean == pytest.approx(-np.log(3))
    assert list(matern.params) == list(of_matern) == ["matern52_lengthscale", "matern52_variance", "bias_variance"]
    assert of_matern["matern52_lengthscale"] is priors["gaussian_lengthscale"]
    assert isinstance(matern, Warped) is warped


def test_goals_are_of_each_group():
    good = made("good", False, **{DEFAULT: -0.3, "one": -0.31, GPC: -0.4})
    near = made("near", True, **{DEFAULT: -0.3, "one": -0.295, GPC: -0.2})
    far = made("far", True, **{DEFAULT: -0.3, "linear": -0.25, GPC: -0.4})
    assert (good.best, near.best, far.best) == (DEFAULT, "one", "linear")
    asked = goals([good, near, far])
    assert [goal.value for goal in asked] == pytest.approx([100.0, 0.0, 100.0, None, 50.0, 0.05, 50.0, None])
    assert [goal.passed for goal in asked] == [True, True, True, None, False, False, False, None]
    (asked,) = (
        goal
        for goal in goals([made("boosted", False, **{DEFAULT: -0.3, GPC: -0.4, "GPBoost": -0.2}), far])
        if "GPBoost" in goal.name and goal.value is not None
    )
    assert asked.value == 0.0


def test_luck_is_what_a_choice_among_equals_gains():
    rng = np.random.default_rng(1)
    settings = dict.fromkeys(SETTINGS)
    equals = Compared("t", False, 10, 2, {rule: Scored(rng.standard_normal(400), 1.0) for rule in settings})
    logs = rng.standard_normal((4000, len(settings), 400)).mean(axis=2)
    lead = float(np.mean(np.max(logs - logs[:, :1], axis=1)))  # of the best of as many, of which none is better
    assert 0.3 * lead < equals.luck < 1.2 * lead
    assert made("t", False, **{DEFAULT: -0.3, "one": -0.31}).luck == pytest.approx(0.0, abs=1e-12)


def test_both_groups_are_listed_and_held_against_the_goals(monkeypatch):
    table = small()
    found = {False: made("a", False, **{DEFAULT: -0.3, "one": -0.31, GPC: -0.4}), True: None}
    found[True] = found[False]._replace(name="b", apart=True)
    monkeypatch.setattr(defaults, "tables", lambda: ([table, table._replace(apart=True)], ("R is away.",)))
    monkeypatch.setattr(defaults, "compare", lambda table, *_, **__: found[table.apart])
    monkeypatch.setattr(defaults, "_peers", lambda: ({GPC: None}, ("A peer is away.",)))
    monkeypatch.setattr(defaults, "SETTINGS", dict.fromkeys((DEFAULT, "one")))
    told = []
    ours, theirs, summary, *_, asked = defaults.benchmarks(told.append)
    assert len(told) == 2
    assert ours.rows == (("a", "10", "2", f"{found[False].scored[DEFAULT].score:.3f}", "-0.010", "0.000", "", "0.000"),)
    assert ours.numbers[0]["rules"]["one"]["default_above"][0] == pytest.approx(0.01)
    assert theirs.rows[0][2:] == ("+0.100", "0.000")
    assert {"R is away.", "A peer is away."} < set(theirs.remarks)
    assert summary.rows[1][2:4] == ("1 of 1", "+0.0100")
    assert [goal.passed for goal in asked.goals] == [True, True, True, None] * 2


def test_without_r_there_are_scikit_learns_tables_and_a_remark(monkeypatch):
    monkeypatch.setattr(two_classes.shutil, "which", lambda name: None)
    found, remarks = tables()
    assert [table.name for table in found] == list(OF_SKLEARN)
    assert [sum(table.apart for table in found), len(found)] == [4, 5]
    for table in found:
        assert len(table.X) == table.y.size >= 100
        assert set(table.y) == {0, 1}
    assert remarks == (f"R with mlbench, kernlab and MASS is not installed: its {len(OF_R)} tables are left out.",)


def test_r_writes_tables_or_says_what_it_lacks(monkeypatch, tmp_path):
    status = [two_classes.ABSENT]

    def run(command, **_):
        script = command[1]
        text = Path(script).read_text(encoding="utf-8")
        assert all(f'"{name}"' in text for name in OF_R)
        for name in OF_R:
            (tmp_path / f"{name}.csv").write_text('"a","w","y"\n1,"None","no"\n2,"x","yes"\n', encoding="utf-8")
        return subprocess.CompletedProcess(command, status[0], "", "no such object")

    class Folder:
        __enter__, __exit__ = lambda self: str(tmp_path), lambda self, *_: None

    monkeypatch.setattr(two_classes, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(two_classes.shutil, "which", lambda name: "Rscript")
    monkeypatch.setattr(two_classes, "TemporaryDirectory", Folder)
    assert len(tables()[0]) == len(OF_SKLEARN)
    status[0] = 0
    found, remarks = tables()
    assert (len(found), remarks) == (len(OF_SKLEARN) + len(OF_R), ())
    assert found[-1].apart
    table = next(table for table in found if table.name == "pima768")
    assert table.X["w"].tolist() == ["None", "x"]
    assert table.y.tolist() == [0, 1]
    status[0] = 1
    with pytest.raises(RuntimeError, match="no such object"):
        tables()
