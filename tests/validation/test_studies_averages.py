"""The study of averages: what a task returns, and verdicts on errors that are right, too small and too large."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import HybridMonteCarlo
from bayesgp_mf.reports.page import Table
from validation.studies import averages
from validation.studies.__main__ import STUDIES


def made_up(off=1.0, of=None, rule=0.0):
    """Return results whose errors are right, but for a factor of those of one strategy."""
    rng, results = np.random.default_rng(0), {}
    for task in averages.STUDY.tasks:
        hyper = task.arguments["hyper"]
        names = {name: 1 for name in averages.PARAMETERS}
        if hyper != "integrate":
            names |= {"f": 20, "shuffled": 1}
        error = {name: np.full(size, 0.5) for name, size in names.items()}
        scatter = rule if hyper == "integrate" else 0.5 * (off if hyper == of else 1.0)
        mean = {name: 2.0 + scatter * rng.standard_normal(size) for name, size in names.items()}
        if "shuffled" in names:
            error["shuffled"] = error["shuffled"] / 3.0
        found = {"mean": mean, "error": error}
        results[task.name] = {what: {k: v.tolist() for k, v in of_all.items()} for what, of_all in found.items()}
    return results


def failed(results):
    return {check.name for check in averages.conclude(results).checks if not check.passed}


def test_errors_that_are_right_pass():
    assert averages.STUDY in STUDIES
    findings = averages.conclude(made_up())
    assert all(check.passed for check in findings.checks)
    (table,) = (block for block in findings.blocks if isinstance(block, Table))
    assert len(table.rows) == 10


@pytest.mark.parametrize(("hyper", "off"), [("surrogate", 2.5), ("hmc", 0.5)])
def test_errors_that_are_wrong_fail(hyper, off):
    wrong = failed(made_up(off, hyper))
    assert {name.split(",")[0] for name in wrong} == {hyper}
    assert any("latent values" in name for name in wrong)


def test_a_rule_that_scatters_and_a_control_that_is_not_found_out_fail():
    assert failed(made_up(rule=0.1)) == {
        f"integrate, {name}: scatter of the rule's means" for name in averages.PARAMETERS
    }
    results = made_up()
    for found in results.values():
        if "shuffled" in found["error"]:
            found["error"]["shuffled"] = [0.5]
    assert failed(results) == {"surrogate, control: length scale, draws in another order: scatter / error"}


def test_a_task_returns_what_arviz_says(monkeypatch):
    short = HybridMonteCarlo(iterations=30, leapfrog_steps=2, chains=2)
    monkeypatch.setitem(averages.SETTINGS, "hmc", averages.Setting(short, "laplace", 50))
    found = averages.average("hmc", 3)
    pima = bgp.datasets.load_pima()
    options = {"hyper": short, "method": "laplace", "priors": averages.PRIORS, "random_seed": 3, "progress": False}
    idata = bgp.fit(pima.X[:50], pima.y[:50], averages.KERNEL, **options)
    assert found["mean"]["variance"] == [float(idata["posterior"]["variance"].mean())]
    assert found["mean"]["shuffled"] == pytest.approx(found["mean"]["lengthscale"], rel=1e-12)
    assert found["error"]["shuffled"][0] < 0.7 * found["error"]["lengthscale"][0]  # short steps hang together
    assert len(found["mean"]["f"]) == len(found["error"]["f"]) == 50


def test_a_rule_has_a_mean_over_its_nodes_and_their_spread():
    found = averages.average("integrate", 1)
    assert set(found["mean"]) == set(averages.PARAMETERS)
    assert 0.1 < found["error"]["lengthscale"][0] / found["mean"]["lengthscale"][0] < 2.0
