"""The study of leave-one-out, made small."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.methods import get_method
from bayesgp_mf.reports.page import Figures, Table
from validation.studies import leave_one_out
from validation.studies.leave_one_out import (
    KERNELS,
    LOAD,
    NAMES,
    STUDY,
    TRUTH,
    cases,
    integrated,
    problem_of,
    refits,
    sampled,
)

CASES = 10


def _line(first, last):
    return np.linspace(-first, -last, CASES).tolist()


def made_up():
    """Return results that pass all checks: PSIS is wrong where k is large, and only there."""
    refit = -np.linspace(0.1, 1.0, CASES)
    results = {}
    for data in LOAD:
        for method in NAMES:
            counts = {"errors": 3, "refit_errors": 2}
            densities = {"free": (refit + 0.01).tolist(), "refit": refit.tolist(), "seen": (0.5 * refit).tolist()}
            results[f"{data}, {NAMES[method]}"] = counts | ({} if method == "svm" else densities)
        psis, k = refit + 0.02, np.full(CASES, 0.2)
        if data in TRUTH:
            results[f"{data}, exact"] = {"truth": refit.tolist()}
            psis[:4], k[:4] = psis[:4] + 2.0, 1.1
        results[f"{data}, NUTS"] = {"psis": psis.tolist(), "pareto_k": k.tolist(), "r_hat": 1.0, "ess": 2000.0}
    return results


def failed(results):
    return {check.name for check in STUDY.conclude(results).checks if not check.passed}


def test_every_task_has_its_place():
    assert {task.name for task in STUDY.tasks} == set(made_up())


def test_right_numbers_pass():
    findings = STUDY.conclude(made_up())
    assert all(check.passed for check in findings.checks)
    said = " ".join(block for block in findings.blocks if isinstance(block, str))
    assert "sonar 4 of 10, crabs 4 of 10, Pima 0 of 10" in said
    assert "Of the 8 such cases where the exact value is known, TAP is nearer to it than PSIS in 8." in said
    table = [block for block in findings.blocks if isinstance(block, Table)][1]
    assert table.rows[0] == ("sonar", "4 of 10", "-5.40", "2.70", "-5.50", "0.010", "0.020", "2.020")
    assert table.rows[2][4] == "not computed"
    (figures,) = (block for block in findings.blocks if isinstance(block, Figures))
    assert len(figures.figures) == 2


@pytest.mark.parametrize(
    ("task", "key", "value", "names"),
    [
        ("Pima, naive", "free", _line(0.2, 1.1), {"Pima, naive: estimate less refits, elpd"}),
        ("Pima, naive", "free", _line(1.0, 0.1), {"Pima, naive: estimate less refits, one case"}),
        ("crabs, online", "errors", 4, {"crabs, online: errors less those of refits"}),
        ("crabs, SVM", "errors", 0, {"crabs, SVM: errors less those of refits"}),
        ("Pima, NUTS", "r_hat", 1.1, {"Pima: NUTS, largest r-hat"}),
        ("Pima, NUTS", "ess", 10.0, {"Pima: NUTS, least effective number of draws"}),
        ("Pima, NUTS", "pareto_k", [0.2] * 9 + [0.8], {"Pima: cases with k > 0.7"}),
        ("Pima, NUTS", "psis", [-0.6] * CASES, {"Pima: TAP less PSIS, elpd", "Pima: TAP less PSIS, one case"}),
        ("sonar, NUTS", "psis", [-0.1] * CASES, set()),  # where the truth is known, that is asked
        ("sonar, exact", "truth", [-0.53] * CASES, {"sonar: TAP less exact, one case"}),
    ],
)
def test_one_wrong_number_fails_its_check(task, key, value, names):
    results = made_up()
    results[task][key] = value
    assert failed(results) == names


def test_a_control_that_is_not_caught_fails():
    results = made_up()
    results["Pima, TAP"]["seen"] = results["Pima, TAP"]["refit"]
    assert failed(results) == {"Control: cases left in, TAP, elpd"}


@pytest.mark.parametrize("method", NAMES)
def test_refits_of_a_few_cases(method):
    found = refits("Pima", method, n=16)
    problem = problem_of("Pima", method, n=16)
    assert set(problem.t) == {-1.0, 1.0}
    assert abs(found["errors"] - found["refit_errors"]) <= 1
    if method == "svm":
        assert set(found) == {"errors", "refit_errors"}
        return
    off = np.subtract(found["free"], found["refit"])
    assert 0 < np.abs(off).max() < 0.1  # an estimate and not the refit itself
    assert np.sum(found["seen"]) > np.sum(found["refit"]) + 0.5
    # by hand, without the last case
    fewer = problem.without(15)
    solution = get_method(method).solve(fewer)
    cross = np.delete(problem.gram[:, 15], 15)
    variance = problem.gram[15, 15] - solution.correction.quadratic_diagonal(cross[:, None])
    density = problem.likelihood.log_partition(problem.t[15:], np.array([cross @ solution.alpha]), variance).value
    assert found["refit"][15] == pytest.approx(density[0], abs=1e-6)


def test_the_truth_is_what_refits_of_the_exact_method_say():
    truth = integrated("Pima", n=6)["truth"]
    problem = problem_of("Pima", "exact", n=6)
    solver = get_method("exact")
    whole = solver.solve(problem).evidence.value
    ratios = [whole - solver.solve(problem.without(i)).evidence.value for i in range(6)]
    np.testing.assert_allclose(truth, ratios, atol=2e-3)


def test_importance_sampling_agrees_with_the_truth(monkeypatch):
    """With exact draws in place of those by NUTS, which `test_sampling_latent` holds against the truth."""

    def exact_draws(gram, t, likelihood, *, draws, chains, random_seed, **options):
        split = cases("Pima", 6)
        np.testing.assert_array_equal(gram, KERNELS["Pima"].gram(split.X))
        assert options == {"tune": 300, "cores": 1, "sampler": "pymc"}
        settings = {"draws": draws, "chains": chains, "random_seed": random_seed}
        return bgp.fit(split.X, t, KERNELS["Pima"], likelihood, method="exact", **settings)

    monkeypatch.setattr(leave_one_out.latent, "sample_latent", exact_draws)
    found = sampled("Pima", 1, n=6, draws=500, tune=300)
    assert max(found["pareto_k"]) < leave_one_out.UNRELIABLE
    assert found["r_hat"] < 1.02
    assert 1000 < found["ess"] < 3000  # of 2000
    np.testing.assert_allclose(found["psis"], integrated("Pima", n=6)["truth"], atol=0.05)
