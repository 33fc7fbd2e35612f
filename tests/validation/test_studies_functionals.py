"""The study of differences and slopes, made small, and the draws it is held against."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.diagnostics import log_orthant_probability
from validation.studies.functional_problems import KINDS, TABLES, Duels, random_set
from validation.studies.functional_records import digest_of, recorded, sampled
from validation.studies.functionals import CORRECTED, STUDY, against_draws, judged


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_is_the_same_each_time_and_has_both_labels(kind):
    given, again = random_set(kind, 3), random_set(kind, 3)
    assert digest_of(given) == digest_of(again) != digest_of(random_set(kind, 4))
    assert set(given.t) == {-1.0, 1.0}
    assert given.X.shape[1] == given.X_new.shape[1]


def test_cycles_contradict_themselves():
    given = random_set("cycles", 0)
    beaten = {
        (tuple(row[:2]), tuple(row[2:4])) if t > 0 else (tuple(row[2:4]), tuple(row[:2]))
        for row, t in zip(given.X, given.t, strict=True)
    }
    assert {a for a, _ in beaten} == {b for _, b in beaten}


def test_a_set_is_judged():
    found = judged("duplicates", 1, log2_points=10, repeats=2)
    assert found["corrected"] < found["off"] < found["stated"]
    assert found["verdict"] in ("good", "fair", "off")


@pytest.mark.parametrize("name", TABLES)
def test_recorded_draws_are_of_the_problems(name):
    assert 0.0 < max(recorded(name).error) < 0.01


def test_draws_are_those_of_exact_integrals():
    given = Duels(4, 8, 0.1, 1).problem()
    found = sampled(given, draws=1000, tune=20, chains=2, seed=1)
    whole = given.kernel.gram(np.vstack([given.X, given.X_new[:1]])) + np.eye(9)
    signs = np.append(given.t, 1.0)
    exact = np.exp(
        log_orthant_probability(whole, signs).value - log_orthant_probability(whole[:-1, :-1], given.t).value
    )
    assert abs(found.p[0] - exact) < 4.0 * found.error[0] + 1e-3


def test_a_table_of_theory_is_held_against_its_draws():
    found = against_draws("duels 25, 60, 0.01, 1")
    assert found["laplace"] > 0.1 > found["tap"] > found["corrected"] < CORRECTED + 3.0 * found["error"]


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, ()),
        ({"off": 0.03}, ("good", "stated")),
        ({"verdict": "off"}, ("called off", "Sets that are called good")),
        ({"stated": 0.004}, ("stated",)),
        ({"stated": 0.05}, ("Control",)),
        ({"uncertain": 0.01}, ("known",)),
    ],
    ids=str,
)
def test_a_fit_that_is_wrong_about_itself_fails(changed, failing):
    sets = {f"{kind}, {k}" for kind, count in KINDS.items() for k in range(count)}
    row = {"n": 20, "off": 0.005, "corrected": 0.001, "uncertain": 1e-4, "stated": 0.01, "verdict": "good"}
    tables = {key: {"error": 0.004, "laplace": 0.1, "tap": 0.02, "corrected": 0.005} for key in TABLES}
    odd = [name for name in sorted(sets) if not name.endswith(", 0")]  # some stay as they were
    results = {**dict.fromkeys(sets, row), **dict.fromkeys(odd, row | changed), **tables}
    failed = {check.name for check in STUDY.conclude(results).checks if not check.passed}
    assert all(any(part in name for name in failed) for part in failing), failed
    assert bool(failed) == bool(failing), failed
