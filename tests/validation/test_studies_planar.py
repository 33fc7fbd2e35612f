"""The study of planar posteriors, made small, and what its checks refuse."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from validation.studies.__main__ import STUDIES
from validation.studies.planar import KINDS, STUDY, THINGS, cone, integrate, measured, random_problem

GOOD = {"n": 5, "verdict": "good", "before": {"new": 0.001, "loo": 0.5}} | {
    thing: {"stated": 0.02, "true": 0.01} for thing in THINGS
}


def made_up(**wrong):
    """Return results in which all errors are within what is stated, but for those of some things in some problems."""
    return {task.name: GOOD | (wrong if k % 10 == 0 else {}) for k, task in enumerate(STUDY.tasks)}


def failed(results):
    return {check.name for check in STUDY.conclude(results).checks if not check.passed}


def test_a_plane_is_integrated():
    """Under a Gaussian likelihood all is known."""
    x, y, scales = np.array([-1.0, 0.5, 2.0]), np.array([0.3, -1.0, 4.0]), np.array([3.0, 0.7])

    def log_likelihood(points):
        return -0.5 * np.sum((points[:, :1] + points[:, 1:] * x - y) ** 2 + np.log(2.0 * np.pi), axis=1)

    plane = integrate(log_likelihood, scales)
    design = np.stack([np.ones(3), x], axis=1) * scales
    covariance = design @ design.T + np.eye(3)
    exact = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2.0 * np.pi * covariance)[1])
    assert plane.log_evidence == pytest.approx(exact, abs=1e-9)
    mean = scales * (design.T @ np.linalg.solve(covariance, y))
    np.testing.assert_allclose(plane.weights @ plane.points, mean, atol=1e-9)


@pytest.mark.parametrize("labels", [(-1.0, -1.0, 1.0), (-1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.0, -1.0, -1.0)])
def test_labels_without_noise_leave_a_cone(labels):
    """It is what a probit's plane comes to as the noise goes away."""
    x, t, scales = np.array([-2.0, 0.1, 0.5]), np.array(labels), np.array([3.0, 0.7])
    probit = bgp.Probit(1e-3)

    def log_likelihood(points):
        f = points[:, :1] + points[:, 1:] * x
        return probit.log_prob(np.broadcast_to(t, f.shape), f).value.sum(axis=1)

    exact = cone(x, t, scales)
    points = exact.points[:, :1] + exact.points[:, 1:] * x
    assert np.all(points * t > 0)
    assert exact.log_evidence == pytest.approx(integrate(log_likelihood, scales, 401).log_evidence, abs=0.02)


def test_a_problem_under_a_step_is_stated_where_another_label_cannot_be():
    found = measured("step", 1)
    assert found["new"]["stated"] is not None
    assert 0.05 < found["new"]["true"] < found["new"]["stated"]


@pytest.mark.parametrize("kind", ["probit", "poisson"])
def test_a_problem_is_measured_and_the_same_each_time(kind):
    number = next(k for k in range(40) if len(np.unique(random_problem(kind, k).y)) == len(random_problem(kind, k).y))
    found = measured(kind, number)
    assert found == measured(kind, number)
    for thing in THINGS:
        assert found[thing]["true"] <= max(1.1 * found[thing]["stated"], 0.01)


def test_checks_pass_where_errors_are_as_stated_and_fail_where_they_are_not():
    assert STUDY in STUDIES
    assert not failed(made_up())
    for thing in THINGS:
        far = failed(made_up(**{thing: {"stated": 0.02, "true": 0.1}}))
        assert len(far) == 2  # too many are off, and one by too much
    assert failed({name: row | {"before": {"new": 0.02, "loo": 0.01}} for name, row in made_up().items()})


def test_a_fit_without_a_solution_fails_where_something_is_promised():
    refused = {"n": 3, "refused": "the residual stalled"}
    assert measured("student t", 26)["n"] == 3  # one of these, or a solution
    assert not failed(made_up() | {"student t, 26": refused})
    assert len(failed(made_up() | {"probit, 99": refused})) == 1


def test_tables_have_a_row_for_each_kind_and_thing():
    (table,) = STUDY.conclude(made_up()).blocks[1:]
    assert len(table.rows) == len(KINDS) * len(THINGS)
    assert all(len(row) == len(table.header) for row in table.rows)
