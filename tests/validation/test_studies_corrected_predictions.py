"""The study of corrected probabilities, made small, and the truth it is held against."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.likelihoods import Logit
from bayesgp_mf.reports.page import Figures, Table
from validation.studies.__main__ import STUDIES
from validation.studies.corrected.predictions import LEFT_OUT, SETTINGS, STUDY, TABLES, largest, left_out, small, table
from validation.studies.corrected.small_problems import FIXED, Setting, problem_of, random_setting, solved
from validation.studies.corrected.truth import true_leave_one_out, true_probabilities


def errors(before=0.02, after=0.002, m=12, **more):
    found = {"truth": np.linspace(0.1, 0.9, m).tolist(), "error": [1e-4] * m, "sd": [0.3] * m, "corrected": 1.0}
    return found | {"before": [before] * m, "after": [after] * m, "sum_error": 0.01} | more


def made_up(flips=(0.02, 0.03), **every):
    """Return results in which all errors fall from one size to another; with flips they grow."""
    results = {}
    for task in STUDY.tasks:
        kind = task.arguments["setting"][0] if task.function is small else ""
        found = errors(*flips) if kind == "flip" else errors(**every)
        results[task.name] = {"test": found, "training": found} if task.function is table else found
    return results


def failed(results):
    return {check.name for check in STUDY.conclude(results).checks if not check.passed}


class TestTruth:
    """By tilting it is a ratio of two orthants, by weights an integral that is known; left out, a new case."""

    def test_probit_is_the_ratio_of_two_orthants(self):
        posterior, X_new = problem_of(Setting("probit", 9, 1.0, 4.0, 0.1), seed=3)
        truth = true_probabilities(posterior, X_new, 12, 4)
        for j in range(3):
            X = np.vstack([posterior.X, X_new[j]])
            gram = posterior.kernel.gram(X) + 0.1 * np.eye(10)
            t = posterior.problem.t
            right, wrong = (log_orthant_probability(gram, np.append(t, label)).value for label in (1.0, -1.0))
            assert truth.p[j] == pytest.approx(expit(right - wrong), abs=5 * truth.error[j] + 1e-4)
        assert np.all(truth.error < 1e-3)
        assert np.all((truth.sd > 0) & (truth.sd**2 <= truth.p * (1.0 - truth.p) + 1e-9))

    def test_logit_of_one_case_is_an_integral(self):
        kernel = bgp.kernels.Gaussian(1.0, 9.0)
        posterior = solved(kernel, np.zeros((1, 1)), np.ones(1), Logit())
        X_new = np.array([[0.0], [0.8], [50.0]])
        truth = true_probabilities(posterior, X_new, 12, 8)
        f, weight = np.polynomial.hermite_e.hermegauss(200)
        f, e, weight = 3.0 * f[:, None], f, weight[:, None] * weight / (2.0 * np.pi)
        c = np.exp(-0.5 * X_new[:, 0] ** 2)
        exact = [2.0 * np.sum(weight * expit(f) * expit(each * f + 3.0 * np.sqrt(1.0 - each**2) * e)) for each in c]
        np.testing.assert_allclose(truth.p, exact, atol=1e-3)
        assert np.all(np.abs(truth.p - exact) < 6 * truth.error + 1e-6)

    def test_left_out_is_a_new_case_for_the_others(self):
        posterior, _ = problem_of(Setting("probit", 6, 1.0, 4.0, 0.1), seed=5)
        p, error = true_leave_one_out(posterior, 12, 4)
        others = solved(posterior.kernel, posterior.X[1:], posterior.problem.t[1:], posterior.problem.likelihood)
        truth = true_probabilities(others, posterior.X[:1], 12, 4)
        expected = truth.p[0] if posterior.problem.t[0] > 0 else 1.0 - truth.p[0]
        assert p[0] == pytest.approx(expected, abs=5 * np.hypot(error[0], truth.error[0]) + 1e-5)


@pytest.mark.parametrize("setting", [FIXED[0], Setting("step", 8, 1.0, 4.0), Setting("logit", 8, 0.8, 60.0)])
def test_a_small_problem_gets_nearer_and_is_the_same_each_time(setting):
    found = small(list(setting), 7, 10, 4)
    assert found == small(list(setting), 7, 10, 4)
    assert largest(found["after"]) < largest(found["before"]) / 2
    assert found["corrected"] == 1.0


def test_a_table_and_its_left_out_cases_get_nearer():
    parts = table("crabs, 4, 100", n=25, log2_points=11, repeats=4)
    assert [len(parts[part]["truth"]) for part in ("test", "training")] == [120, 25]
    for found in parts.values():
        assert largest(found["after"]) < largest(found["before"]) / 2
    for name in ("noise 0.1", "crabs"):
        found = left_out(name, n=8, log2_points=12, repeats=2)
        assert len(found["truth"]) == 8
        assert largest(found["after"]) < largest(found["before"]) / 2


def test_random_settings_are_those_of_their_numbers():
    assert STUDY in STUDIES
    assert len(SETTINGS) == len(FIXED) + 26
    assert random_setting("step", 4) == random_setting("step", 4) != random_setting("step", 5)
    for name, setting in SETTINGS.items():
        assert 8 <= setting.n <= (12 if setting.kind == "flip" else 30), name
        assert (setting.noise > 0) == (setting.kind in ("probit", "flip"))
        assert (setting.flip > 0) == (setting.kind == "flip")


def test_a_correction_that_helps_passes_whatever_it_does_with_flips():
    findings = STUDY.conclude(made_up())
    assert all(check.passed for check in findings.checks)
    tables = [block for block in findings.blocks if isinstance(block, Table)]
    assert [len(each.rows) for each in tables] == [len(SETTINGS), len(LEFT_OUT) + 3, 2 * len(TABLES)]
    assert all(len(row) == len(each.header) for each in tables for row in each.rows)
    assert "the largest error grew in 6 of 6" in findings.blocks[0]
    (figures,) = (block for block in findings.blocks if isinstance(block, Figures))
    assert len(figures.figures) == 2


@pytest.mark.parametrize(
    ("every", "names"),
    [
        ({"after": 0.006}, {"fall", "rms error corrected"}),
        ({"after": 0.021}, {"fall", "growth", "rms error corrected", "Control"}),
        ({"error": [0.01] * 12}, {"standard error"}),
        ({"before": 0.002, "after": 0.0002}, {"the same of TAP"}),
        ({"corrected": 0.9}, {"Cases of all that are corrected"}),
        ({"after": -0.04}, {"fall", "growth", "rms error corrected"}),
    ],
    ids=["little", "worse", "uncertain", "nothing to correct", "not all", "the other side"],
)
def test_each_check_can_fail(every, names):
    found = failed(made_up(**every))
    assert all(any(name in check for check in found) for name in names), found
    assert all(any(name in check for name in names) for check in found), found
