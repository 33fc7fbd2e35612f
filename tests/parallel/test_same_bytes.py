"""Parallel work has the same bytes in one process, in two, and on a cluster, whose workers may be lost."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.hyper import Integrate, LogNormal, Objective, Surrogate, Target, get_strategy
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.methods import METHODS
from bayesgp_mf.parallel import Serial
from tests.parallel import work
from tests.parallel.dying_solver import DiesOnce
from validation.reporting.checks import Check
from validation.studies.__main__ import main
from validation.studies.study import Findings, Study, Task

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=30, random_seed=4)
KERNEL = bgp.kernels.Gaussian(8.0, 4.0)
PRIORS = {"lengthscale": LogNormal(2.0, 0.2), "variance": LogNormal(1.0, 1.0)}


@pytest.fixture(params=["processes", "dask"])
def elsewhere(request):
    return {"processes": 2} if request.param == "processes" else {"client": request.getfixturevalue("client")}


def problem_of(likelihood=bgp.Probit(), t=2.0 * TOY.y - 1.0):
    return bgp.Problem(KERNEL.gram(TOY.X[: len(t)]), t, likelihood)


# New processes import everything, which takes seconds, and what holds of tasks in general is in test_tasks.py: here
# each kind of work goes to one of the two places


def test_leave_one_out(client):
    problem = problem_of(bgp.Softmax(("a", "b", "c")), np.arange(8) % 3)
    here, there = exact_loo(problem), exact_loo(problem, client=client)
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))


def test_an_error_in_a_refit_arrives(client):
    with pytest.raises(bgp.ConvergenceError, match=r"without case 0: tap: .*largest number") as caught:
        exact_loo(problem_of(), control=bgp.Control(max_iterations=2), client=client)
    assert caught.value.status is bgp.Status.MAX_ITERATIONS


@pytest.mark.filterwarnings("ignore")
def test_a_worker_lost_in_the_middle_changes_nothing(tmp_path):
    dies = DiesOnce(f"{tmp_path}/died", os.getpid())
    there = exact_loo(problem_of(), dies, processes=2)
    assert (tmp_path / "died").exists()
    np.testing.assert_array_equal(there.mean, exact_loo(problem_of()).mean)


def fitted(strategy, **options):
    options = {"priors": PRIORS, "random_seed": 1, "progress": False, "draws": 20, "chains": 2, **options}
    return bgp.fit(TOY.X, TOY.y, KERNEL, bgp.Probit(), hyper=strategy, **options)


def same(one, other):
    for group in ("fit", "posterior", "sample_stats"):
        for name, values in one[group].data_vars.items():
            np.testing.assert_array_equal(values, other[group][name], err_msg=f"{group}: {name}")


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
@pytest.mark.parametrize(
    ("elsewhere", "strategy", "more"),
    [
        ("dask", Integrate(starts=1), {}),
        (
            "dask",
            Integrate(starts=1),
            {"inducing": 8, "fixed": ["variance"], "priors": {"lengthscale": LogNormal(2.0, 0.2)}},
        ),
        ("processes", Surrogate(nodes=40), {"control": bgp.Control(gram="low_rank")}),
    ],
    ids=["integrate", "integrate on inducing", "surrogate at low rank"],
    indirect=["elsewhere"],
)
def test_averages_over_hyperparameters(strategy, more, elsewhere):
    same(fitted(strategy, **more), fitted(replace(strategy, **elsewhere), **more))


def test_a_node_knows_nothing_of_the_others():
    target = Target(TOY.X, 2.0 * TOY.y - 1.0, bgp.Probit(), KERNEL, METHODS["tap"], priors=PRIORS)
    nodes = np.random.default_rng(0).normal(0.5, 0.7, (6, 2))
    values = []
    for order in (np.arange(6), np.arange(6)[::-1], np.array([3])):
        objective = Objective(target, EvidenceScore())
        objective(target.start)
        found = np.full(6, np.nan)
        found[order] = objective.at_nodes(nodes[order], lambda note: None, Serial())
        values.append(found)
    np.testing.assert_array_equal(values[0], values[1])
    assert values[0][3] == values[2][3]


@pytest.mark.parametrize("kind", [Integrate, Surrogate])
def test_where_to_compute_is_no_part_of_what_a_strategy_is(kind, client):
    assert kind(client=client) == kind()
    assert get_strategy(kind(client=client)).client is client
    with pytest.raises(ValueError, match="processes must be a positive integer, got 0"):
        kind(processes=0)
    with pytest.raises(ValueError, match=r"client must be a distributed\.Client"):
        kind(client="tcp://127.0.0.1:8786")


def study_of(seeds, mark=""):
    tasks = [Task(f"seed {seed}", work.moments, {"seed": seed, "mark": mark}) for seed in seeds]
    check = Check("how many", 1.0, "at most", 6.0, "")
    return Study("numbers", "Numbers", tasks, lambda results: Findings((check,), ()))


def studied(folder, study, *arguments):
    code = main(["--output", str(folder), *arguments], [study])
    return code, (folder / "validation.json").read_bytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["processes", "dask"])
def test_studies(where, request, tmp_path, capsys):
    options = ["--processes", "2"]
    if where == "dask":
        options = ["--client", request.getfixturevalue("client").scheduler.address]
    here = studied(tmp_path / "here", study_of(range(6)), "--processes", "1")
    assert here == studied(tmp_path / "there", study_of(range(6)), *options)
    assert here[0] == 0
    capsys.readouterr()
    assert studied(tmp_path / "failed", study_of([-1, 2]), *options)[0] == 1
    assert "no numbers of -1" in capsys.readouterr().err
    code, lost = studied(tmp_path / "lost", study_of(range(6), f"{tmp_path}/died"), *options)
    assert code == 0
    assert (tmp_path / "died").exists()
    assert lost.count(b'"values"') == 6
