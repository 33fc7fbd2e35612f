"""The mean-field methods and the exact oracle against independent solutions of small cases."""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.methods import METHODS
from tests.conftest import REFERENCE, toy_cases, toy_gram

CASES = toy_cases()
SHARED = Path(__file__).resolve().parents[3] / "shared" / "reference" / "toy_cases.json"
KNOWN = [case for case in CASES if "log_evidence_exact" in case]  # the reference has none with label noise
each_known_case = pytest.mark.parametrize("case", KNOWN, ids=[case["name"] for case in KNOWN])
each_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


@pytest.mark.skipif(not SHARED.is_file(), reason="there is no ../shared/reference beside the repository")
def test_bundled_reference_is_the_shared_one():
    assert filecmp.cmp(REFERENCE, SHARED, shallow=False)


@each_case
@pytest.mark.parametrize("noise_in", ["likelihood", "prior"])
def test_tap_equals_the_reference_in_both_forms_of_noise(case, noise_in):
    gram, t, v = toy_gram(case), case["t"], case["noise_variance"]
    if noise_in == "likelihood":
        solution, in_cavity = bgp.solve(gram, t, bgp.Probit(v, case["flip"])), v
    else:
        solution, in_cavity = bgp.solve(gram + v * np.eye(t.size), t, bgp.Step(case["flip"])), 0.0
    expected = case["tap"]
    np.testing.assert_allclose(solution.evidence.value, expected["log_evidence"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.alpha, expected["alpha"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.cavity.mean, expected["cavity_mean"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.cavity.variance + in_cavity, expected["cavity_variance"], atol=1e-7, rtol=0)


@each_case
@pytest.mark.parametrize("noise_in", ["likelihood", "prior"])
def test_naive_equals_the_reference_in_both_forms_of_noise(case, noise_in):
    gram, t, v = toy_gram(case), case["t"], case["noise_variance"]
    if noise_in == "likelihood":
        solution = bgp.solve(gram, t, bgp.Probit(v, case["flip"]), method="naive")
    else:
        solution = bgp.solve(gram + v * np.eye(t.size), t, bgp.Step(case["flip"]), method="naive")
    np.testing.assert_allclose(solution.evidence.value, case["naive"]["log_evidence"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.alpha, case["naive"]["alpha"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.cavity.mean, case["naive"]["cavity_mean"], atol=1e-7, rtol=0)


@each_case
def test_variational_equals_the_reference_with_noise_in_the_prior(case):
    gram, t, expected = toy_gram(case), case["t"], case["variational"]
    gram = gram + case["noise_variance"] * np.eye(t.size)
    solution = bgp.solve(gram, t, bgp.Step(case["flip"]), method="variational")
    np.testing.assert_allclose(solution.evidence.value, expected["log_evidence"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.alpha, expected["alpha"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.cavity.mean, expected["cavity_mean"], atol=1e-7, rtol=0)
    np.testing.assert_allclose(solution.cavity.variance, expected["cavity_variance"], atol=1e-7, rtol=0)
    assert solution.evidence.bound == "lower"
    if "log_evidence_exact" in case:
        assert solution.evidence.value <= case["log_evidence_exact"] + case["log_evidence_exact_spread"]


@each_case
@pytest.mark.parametrize("method", ["tap", "naive", "variational"])
def test_leave_one_out_equals_the_reference(case, method):
    t = case["t"]
    problem = bgp.Problem(toy_gram(case) + case["noise_variance"] * np.eye(t.size), t, bgp.Step(case["flip"]))
    solver = METHODS[method]
    loo = solver.leave_one_out(problem, solver.solve(problem))
    np.testing.assert_allclose(loo.mean, case[method]["loo_mean"], atol=1e-7, rtol=0)


@each_known_case
def test_exact_evidence_equals_the_reference(case):
    solution = bgp.solve(toy_gram(case), case["t"], bgp.Probit(case["noise_variance"], case["flip"]), method="exact")
    error = np.hypot(solution.evidence.standard_error, case["log_evidence_exact_spread"])
    assert abs(solution.evidence.value - case["log_evidence_exact"]) <= 4 * error + 1e-12


@each_known_case
def test_error_of_the_tap_evidence_is_what_theory_says(case):
    """Exact for one case; else above the naive and variational values, below the truth, and closer to it.

    The variational value is a lower bound; that TAP lies between it and the truth is what the reference
    finds in every case, with an error of at most 0.07 nats.
    """
    solution = bgp.solve(toy_gram(case), case["t"], bgp.Probit(case["noise_variance"], case["flip"]))
    error = solution.evidence.value - case["log_evidence_exact"]
    if case["t"].size == 1:
        assert abs(error) < 1e-14
    else:
        assert -0.07 < error < 0
        assert abs(error) < abs(case["variational"]["log_evidence"] - case["log_evidence_exact"])
        assert abs(error) < abs(case["naive"]["log_evidence"] - case["log_evidence_exact"])
