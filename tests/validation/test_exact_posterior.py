"""The study of TAP against the exact posterior, made small."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Figures
from validation.studies import exact_posterior
from validation.studies.exact_posterior import checks_of, differences, setting


@pytest.fixture(scope="module")
def results():
    return {task.name: differences(**task.arguments, n=12, log2_points=12) for task in exact_posterior.STUDY.tasks}


def test_every_number_is_held_against_its_tolerance(results):
    findings = exact_posterior.STUDY.conclude(results)
    *checks, control = findings.checks
    assert len(checks) == 3 * 4
    assert {check.tolerance for check in checks} == {0.02, 0.01, 0.3, 1e-3}
    errors = [check for check in checks if "standard error" in check.name]
    assert all(check.passed and check.value > 0 for check in errors)
    assert control.passed
    said = " ".join(block for block in findings.blocks if isinstance(block, str))
    held = [check for name, found in results.items() if "Laplace" not in name for check in checks_of(name, found)]
    assert all((check.name in said) is not check.passed for check in held)
    (figures,) = (block for block in findings.blocks if isinstance(block, Figures))
    (axes, _), *_ = figures.figures
    assert all(ax.get_ylim()[0] < 0 < ax.get_ylim()[1] for ax in axes.figure.axes)


def test_a_control_that_is_not_caught_fails(results):
    right = {"mean": [0.0], "probability": [0.0], "evidence": 0.0}
    blind = {name: found | (right if name.startswith("Laplace") else {}) for name, found in results.items()}
    assert not exact_posterior.STUDY.conclude(blind).checks[-1].passed


def test_differences_are_those_of_the_posteriors():
    given = setting("toy", bgp.Probit(), 12)
    found = differences("toy", "probit", "tap", n=12, log2_points=14)
    gram = given.kernel.gram(given.split.X)
    tap, exact = (bgp.solve(gram, given.split.t, bgp.Probit(), method=method) for method in ("tap", "exact"))
    np.testing.assert_allclose(found["mean"], gram @ (tap.alpha - exact.alpha) / np.sqrt(4.01), atol=1e-3)
    np.testing.assert_allclose(found["evidence"], tap.evidence.value - exact.evidence.value, rtol=1e-9)
    assert 0 < found["mean_error"] < 1e-3
    assert 0 < found["probability_error"] < 1e-3
    with_itself = differences("toy", "probit", "exact", n=12, log2_points=14)
    assert np.abs(with_itself["probability"]).max() < 2e-3
    assert np.abs(np.array(with_itself["sd_ratio"]) - 1).max() < 2e-3
    assert with_itself["evidence"] == 0
    assert not checks_of("", differences("toy", "probit", "laplace", n=12, log2_points=12))[0].passed
