"""The study of evidences on a grid, made small."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.reports.page import Figures, Table
from validation.studies import evidence_map
from validation.studies.evidence_map import STUDY, cases, column, kernel_at, map_of

DATA = tuple(evidence_map.SIZES)
TOP = (3, 2)
"""Cell of the exact maximum in the made-up results."""


def made_up(off):
    """Return results of a bowl upside down, where each method is off by ``off[method](row, column)``."""
    results = {}
    for task in STUDY.tasks:
        i = evidence_map.LOG_LENGTHSCALES.index(task.arguments["log_lengthscale"])
        exact = [-40.0 - (i - TOP[0]) ** 2 - (j - TOP[1]) ** 2 for j in range(7)]
        methods = {name: [exact[j] + off[name](i, j) for j in range(7)] for name in evidence_map.NAMES}
        results[task.name] = {"exact": exact, "error": [1e-3] * 7, **methods}
    return results


def right():
    """Return differences that pass all checks."""
    return {
        "tap": lambda i, j: -0.01,
        "laplace": lambda i, j: -1.0 - 2.0 * j,
        "variational": lambda i, j: -0.5,
        "naive": lambda i, j: -30.0 + 4.0 * i,
    }


def failed(results):
    maps = {data: map_of(results, data) for data in DATA}
    return {check.name for check in evidence_map.checks_of(maps) if not check.passed}


def test_a_column_holds_the_evidences_of_its_cells():
    found = column("sonar", 12, 1.0, [0.5, 1.5], log2_points=10)
    X, t = cases("sonar", 12)
    assert set(t) == {-1.0, 1.0}
    assert found == column("sonar", 12, 1.0, [0.5, 1.5], log2_points=10)
    gram = kernel_at(1.0, 1.5).gram(X)
    assert gram[0, 0] == pytest.approx(np.exp(3.0))  # an amplitude is a standard deviation
    truth = log_orthant_probability(gram + np.eye(12), t)
    assert found["exact"][1] == pytest.approx(truth.value, abs=4 * (truth.standard_error + found["error"][1]))
    assert 0 < found["error"][1] < 1e-2
    for method in ("tap", "laplace", "naive"):
        assert found[method][1] == bgp.solve(gram, t, bgp.Probit(), method=method).evidence.value
    in_likelihood = bgp.solve(gram, t, bgp.Probit(), method="variational").evidence.value
    assert in_likelihood < found["variational"][1] < found["exact"][1]  # two bounds, of which the tighter is meant


def test_toy_cases_are_of_the_promised_size():
    X, t = cases("toy", evidence_map.SIZES["toy"])
    assert X.shape == (80, evidence_map.TOY_INPUTS)
    assert abs(t.mean()) < 0.7  # neither class is rare


def test_maps_are_in_order():
    found = map_of(made_up(right()), "sonar")
    assert found.peak() == TOP
    assert found.peak("tap") == TOP
    assert found.peak("laplace") == (3, 1)  # where -(j - 2)^2 - 2 j is highest
    assert found.lost("laplace") == pytest.approx(1.0)
    assert found.peak("naive") == (5, 2)  # where -(i - 3)^2 + 4 i is highest
    assert found.lost("naive") == pytest.approx(4.0)
    assert found.largest("naive") == pytest.approx(30.0)
    assert found.excess("variational") == pytest.approx(-0.5 - 4e-3)
    assert found.missing == []


@pytest.mark.parametrize(
    ("method", "off", "names"),
    [
        ("tap", lambda i, j: -0.4 if (i, j) == (6, 6) else 0.0, ["{}: TAP, largest difference"]),
        ("tap", lambda i, j: 0.2 * (i - 3) / 3, []),
        ("variational", lambda i, j: 0.01 if (i, j) == (0, 6) else -1, ["{}: variational less exact, less 4 errors"]),
        ("laplace", lambda i, j: -0.2, ["Control: Laplace, largest difference"]),
    ],
)
def test_one_wrong_number_fails_its_check(method, off, names):
    assert failed(made_up(right() | {method: off})) == {name.format(data) for name in names for data in DATA}


def test_a_maximum_in_the_wrong_place_fails():
    results = made_up(right() | {"tap": lambda i, j: 1.2 * (i - 3)})  # a slope that moves it by one cell
    assert f"{DATA[0]}: exact log evidence lost at TAP's maximum" in failed(results)
    assert map_of(results, "sonar").lost("tap") == pytest.approx(1.0)


def test_a_cell_without_a_truth_is_named_and_left_out():
    results = made_up(right() | {"tap": lambda i, j: -9.0 if (i, j) == (6, 6) else -0.01})
    name = STUDY.tasks[6].name
    results[name]["error"][6] = 0.5
    assert failed(results) == {"toy: TAP, largest difference"}  # where the truth is known
    assert map_of(results, "sonar").missing == [(5.0, 4.5)]
    for found in results.values():
        found["error"] = [0.5, *found["error"][1:]]
    assert "toy: cells without an exact evidence" in failed(results)
    for found in results.values():
        found["error"] = [0.5] * 7
    with pytest.raises(ArithmeticError, match="no cell of the grid"):
        map_of(results, "sonar")


def test_what_the_report_says():
    results = made_up(right())
    results[STUDY.tasks[6].name]["error"][6] = 0.5
    findings = STUDY.conclude(results)
    assert len(findings.checks) == 4 * len(DATA) + 1
    assert all(check.passed for check in findings.checks)
    said = " ".join(block for block in findings.blocks if isinstance(block, str))
    assert "sonar at (5.00, 4.50)." in said
    (table,) = (block for block in findings.blocks if isinstance(block, Table))
    assert table.rows[4] == ("sonar, naive", "-30.000", "-6.000", "-18.000", "4.25, 1.50", "4.000")
    (figures,) = (block for block in findings.blocks if isinstance(block, Figures))
    for axes, caption in figures.figures:
        panels = axes.figure.axes[1:5]
        assert len({panel.collections[0].get_clim() for panel in panels}) == 1  # colours mean the same in all
        assert {"-1.0", "-13"} <= {text.get_text() for text in panels[1].texts}  # Laplace
        assert "nats" in caption
    assert len(figures.figures[0][0].texts) == 49 - 1
