"""The studies, made small: what they compute, write and conclude."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.solvers.exact import Exact
from validation.checks import Check
from validation.studies import exact_posterior


@pytest.fixture(scope="module")
def study():
    said = []
    made = exact_posterior.make(said.append, n=12, exact=Exact(log2_points=12))
    assert said[0] == "toy, probit"
    assert len(said) == 9
    return made


def test_every_number_is_held_against_its_tolerance(study):
    assert len(study.checks) == 3 * 2 * 4
    assert {check.tolerance for check in study.checks} == {0.02, 0.01, 0.3, 1e-3}
    for check in study.checks:
        assert check.verdict == ("PASS" if check.value <= check.tolerance else "FAIL")
    errors = [check for check in study.checks if "error of the exact" in check.name]
    assert all(check.passed and check.value > 0 for check in errors)
    missed = [check.name for check in study.checks if not check.passed]
    assert all(name in " ".join(study.remarks) for name in missed)
    assert set(study.numbers) == {f"{data}, {name}" for data in ("toy", "sonar", "Pima") for name in ("probit", "step")}


def test_differences_are_those_of_the_posteriors():
    setting = next(exact_posterior.settings(bgp.Probit(), 12))
    found = exact_posterior.differences(setting, bgp.Probit(), "tap", Exact())
    gram = setting.kernel.gram(setting.split.X)
    tap, exact = (bgp.solve(gram, setting.split.t, bgp.Probit(), method=method) for method in ("tap", "exact"))
    np.testing.assert_allclose(found.mean, gram @ (tap.alpha - exact.alpha) / np.sqrt(4.01), atol=1e-3)
    np.testing.assert_allclose(found.evidence, tap.evidence.value - exact.evidence.value, rtol=1e-9)
    assert 0 < found.mean_error < 1e-3
    assert 0 < found.probability_error < 1e-3
    with_itself = exact_posterior.differences(setting, bgp.Probit(), "exact", Exact())
    assert np.abs(with_itself.probability).max() < 2e-3
    assert np.abs(with_itself.sd_ratio - 1).max() < 2e-3
    assert with_itself.evidence == 0
    laplace = exact_posterior.checks_of("", exact_posterior.differences(setting, bgp.Probit(), "laplace", Exact()))
    assert not laplace[0].passed


def test_it_is_printed_and_written(study, tmp_path):
    shown = "\n".join(study.lines())
    assert study.title in shown
    assert all(check.name in shown for check in study.checks)
    numbers, image = study.write(tmp_path / "new")
    record = json.loads(numbers.read_text(encoding="utf-8"))
    assert record["passed"] == all(check.passed for check in study.checks)
    assert record["checks"][0]["verdict"] in ("PASS", "FAIL")
    assert image.read_bytes().startswith(b"\x89PNG")
    failed = dataclasses.replace(study, checks=(Check("a", 2.0, "at most", 1.0, ""),))
    assert failed.to_dict()["passed"] is False
    assert "FAIL" in "\n".join(failed.lines())


def test_the_command_writes_where_it_is_told(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(exact_posterior, "make", lambda advance: study)
    assert exact_posterior.main(["--output", str(tmp_path)]) == 0
    assert (tmp_path / "exact_posterior.json").is_file()
    assert "exact_posterior.png" in capsys.readouterr().out
