"""Experiments: questions, answers, files; what goes wrong loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.design import Experiment, information, load
from bayesgp_mf.errors import DamagedFileError, UndefinedQuantityError

KERNEL = bgp.kernels.Gaussian(1.0, 4.0) + bgp.kernels.Bias()
GRID = pd.DataFrame({"x": np.linspace(-2.0, 2.0, 21), "z": np.tile([0.0, 1.0, 2.0], 7)})


def run(experiment, answers=12, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(answers):
        question = experiment.ask()
        experiment.tell(question, bool(question["x"] + 0.3 * rng.standard_normal() > 0.2))
    return experiment


def test_it_starts_with_the_prior_and_asks_what_tells_most():
    experiment = Experiment(bgp.kernels.Linear(columns="x"), candidates=GRID, random_seed=1)
    assert experiment.ask()["x"] in (-2.0, 2.0)  # where the prior variance is largest
    with pytest.raises(UndefinedQuantityError, match="no answer yet"):
        _ = experiment.posterior
    run(experiment, 3)
    found = information(experiment.posterior, GRID)
    assert found[experiment.ask().name] == pytest.approx(found.max())
    assert experiment.ask().equals(experiment.ask())
    assert len(experiment.ask(4)) == 4
    assert (len(experiment.X), experiment.y.tolist()) == (3, experiment.y.astype(bool).tolist())


def test_without_anything_known_chance_decides():
    asked = {Experiment(bgp.kernels.Gaussian(), candidates=GRID, random_seed=seed).ask().name for seed in range(8)}
    assert len(asked) > 2


def test_the_posterior_is_that_of_a_fit():
    experiment = run(Experiment(KERNEL, bgp.Probit(flip=0.03), candidates=GRID, random_seed=1))
    idata = bgp.fit(experiment.X, experiment.y, experiment.kernel, experiment.likelihood, draws=2, chains=1)
    again = bgp.posterior(idata).latent(GRID)
    assert np.allclose(experiment.posterior.latent(GRID), again, rtol=1e-6, atol=1e-8)


def test_hyperparameters_are_chosen_at_ten_answers_and_after_a_fifth_more():
    experiment, changed = Experiment(KERNEL, candidates=GRID, hyper="evidence", random_seed=1), []
    for n in range(1, 20):
        before = experiment.kernel
        _ = run(experiment, 1, seed=n).posterior
        if experiment.kernel != before:
            changed.append(n)
    assert changed == [10, 12, 15, 18]
    kept = run(Experiment(KERNEL, candidates=GRID, random_seed=1))
    assert kept.posterior.kernel == kept.kernel == KERNEL


@pytest.mark.parametrize("about", [{}, {"about": "maximum"}, {"about": "level", "level": 0.75}], ids=str)
def test_another_process_goes_on_where_it_was(tmp_path, about):
    path = tmp_path / "experiment.json"
    table = GRID.assign(who=pd.Categorical(["Ann", "Bob", "Cy"] * 7, ["Cy", "Bob", "Ann"]))
    table.index = [f"stimulus {k}" for k in range(21)]
    kernel = bgp.kernels.Gaussian([1.0, 2.0], columns=["x", "z"]) + bgp.kernels.Categorical(columns="who")
    experiment = run(Experiment(kernel, candidates=table, hyper="evidence", path=path, random_seed=3, **about), 11)
    code = "import sys, bayesgp_mf as bgp; e = bgp.design.load(sys.argv[1]); print(e.ask().name, e.y.sum(), len(e.X))"
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"{experiment.ask().name} {experiment.y.sum()} 11"
    other = tmp_path / "other.json"
    other.write_bytes(path.read_bytes())
    resumed = load(other)
    assert resumed.X.equals(experiment.X)
    assert run(resumed, 3).ask().equals(run(experiment, 3).ask())
    assert len(load(path).X) == len(load(other).X) == 14  # each went on writing there
    with pytest.raises(ValueError, match=r"there is a file\. Go on with bgp\.design\.load"):
        Experiment(kernel, candidates=table, path=path)


def test_what_is_wrong_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "experiment.json"
    table = GRID.assign(who=["Ann", "Bob", "Cy"] * 7)
    kernel = KERNEL * bgp.kernels.Categorical(columns="who")
    experiment = run(Experiment(bgp.kernels.Gaussian(columns="x") * bgp.kernels.Categorical(columns="who"),
                                candidates=table, classes=("no", "yes"), path=path, random_seed=1), 0)  # fmt: skip
    del kernel
    question = experiment.ask()
    experiment.tell(question, "yes").tell(dict(question), "no").tell(
        [[0.5, 1.0, "Ann"], [0.1, 1.0, "Bob"]], ["no", "yes"]
    )
    before = path.read_text()
    for x, y, message in (
        (question, "maybe", r"y has labels that are none of the answers \['no', 'yes'\]: \['maybe'\]"),
        (question, None, "none of the answers"),
        (question, ["no", "yes"], "y must be one answer for each of the 1 rows of x"),
        (question.rename({"x": "X"}), "yes", r"x must have the columns \['x', 'z', 'who'\], got \['X'"),
        ([0.5, 1.0], "yes", r"x must be one row with values of \['x', 'z', 'who'\], .* got shape \(2,\)"),
        ([0.5, 1.0, "Zed"], "yes", r"x has \['Zed'\] in column 'who', which no candidate has"),
        ([np.nan, 1.0, "Ann"], "yes", "x must be finite"),
        (["far", 1.0, "Ann"], "yes", "x must hold numbers, but column 'x' has entries such as 'far'"),
    ):
        with pytest.raises(ValueError, match=message):
            experiment.tell(x, y)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        experiment.tell(question, "yes")
    assert path.read_text() == before
    assert experiment.y.tolist() == ["yes", "no", "no", "yes"]


def test_answers_of_another_process_are_not_overwritten(tmp_path):
    path = tmp_path / "experiment.json"
    one = run(Experiment(KERNEL, candidates=GRID, path=path, random_seed=1), 2)
    other = load(path)
    run(one, 1)
    with pytest.raises(ValueError, match="holds answers that this experiment was not told"):
        run(other, 1)
    assert (len(load(path).y), len(other.y)) == (3, 2)
    path.unlink()  # which is no answer lost
    run(other, 1)
    assert len(load(path).y) == 3


def test_numbers_that_are_typed_are_numbers():
    experiment = Experiment(KERNEL, candidates=GRID, random_seed=1)
    experiment.tell({"x": "0.5", "z": 1}, True).tell({"x": 0.25, "z": "2"}, False)
    assert experiment.X.dtypes.tolist() == [np.float64, np.float64]
    assert experiment.X["x"].tolist() == [0.5, 0.25]


def test_what_can_not_be_asked_is_refused_at_once():
    for options in ({"about": "models"}, {"likelihood": bgp.StudentT(4.0, 1.0)}):
        with pytest.raises(UndefinedQuantityError, match=r"models|StudentT"):
            Experiment(KERNEL, candidates=GRID, **options)
    with pytest.raises(ValueError, match=r"kernel is missing: the default for Poisson"):
        Experiment(likelihood=bgp.Poisson(), candidates=GRID)


def test_files_that_are_none_are_said_to_be(tmp_path):
    path = tmp_path / "experiment.json"
    run(Experiment(KERNEL, candidates=GRID, path=path, random_seed=1), 2)
    text = path.read_text()
    for wrong in ("", "{}", text[:-3], text.replace('"format": 1', '"format": 2'), text.replace("0.0", "0.5", 1)):
        path.write_text(wrong)
        with pytest.raises(DamagedFileError, match="is no file of an Experiment, or damaged"):
            load(path)
    assert "\n" in text
    assert json.loads(text.split("\n", 1)[1])["options"]["about"] == "labels"


def test_a_box_and_levels_and_numbers():
    experiment = Experiment(box={"x": (0, 1), "z": (-3, 3)}, random_seed=1)  # the default kernel
    X = experiment.ask(50)
    assert X["x"].between(0, 1).all()
    assert X["z"].between(-3, 3).all()
    named = Experiment(
        KERNEL, bgp.Ordinal([-1.0, 1.0]), box={"x": (0, 1)}, classes=("low", "middle", "high"), random_seed=1
    )
    assert named.tell([0.5], "middle").tell({"x": 0.1}, "high").y.tolist() == ["middle", "high"]
    measured = Experiment(KERNEL, bgp.likelihoods.Gaussian(0.1), box={"x": (0, 1)}, about="maximum", random_seed=1)
    assert measured.tell(measured.ask(), 0.3).tell(measured.ask(), -1.2).y.tolist() == [0.3, -1.2]
    counted = Experiment(bgp.kernels.Gaussian(0.3, 0.3), bgp.Poisson(), candidates=[[0.0], [1.0]], random_seed=1)
    with pytest.raises(ValueError, match="y must"):
        counted.tell([0.0], 1.5)
    assert counted.tell([0.0], 3).ask()["x0"] == 1.0


def test_the_next_pair_of_duels():
    duels = bgp.duels.Duels(["Ann", "Bob", "Cy"], ["Bob", "Cy", "Dan"])
    cases = duels.cases(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Dan"])
    experiment = Experiment(duels.kernel(), candidates=cases, random_seed=1)
    for _ in range(4):
        question = experiment.ask()
        experiment.tell(question, question["item"] < question["item of second"])
    assert experiment.posterior.predict_proba(cases).min() > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give candidates, a table of what may be asked for, or box"),
        ({"candidates": GRID, "box": {"x": (0, 1)}}, "one of them"),
        ({"box": {"x": (1, 0)}}, r"box must map names .* got \(1\.0, 0\.0\) for 'x'"),
        ({"box": [(0, 1)]}, "box must map names of inputs to their lowest and highest value"),
        ({"box": {}}, "got none"),
        ({"candidates": GRID, "classes": "no"}, "classes must be 2 different answers"),
        ({"candidates": GRID, "classes": ("a", "a")}, "classes must be 2 different answers"),
        ({"candidates": GRID, "likelihood": bgp.Poisson(), "classes": (0, 1)}, "those of Poisson are numbers"),
        ({"candidates": GRID, "about": "levels"}, "about must be 'labels'"),
        ({"candidates": GRID, "about": "level"}, "level is what about='level' asks for"),
        ({"candidates": GRID, "hyper": "nuts"}, "hyper must be 'evidence', 'loo' or 'scan', got 'nuts'"),
        ({"candidates": GRID, "hyper": "evidence", "priors": {"width": bgp.hyper.LogNormal(0, 1)}}, "width"),
        ({"candidates": GRID, "random_seed": "one"}, "random_seed must be an integer"),
        ({"candidates": GRID.replace(1.0, np.nan)}, "X must be finite"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Experiment(KERNEL, **options)


def test_several_classes_are_refused():
    with pytest.raises(UndefinedQuantityError, match="one latent value a case"):
        Experiment(KERNEL, bgp.Softmax(classes=("a", "b", "c")), candidates=GRID)
    with pytest.raises(UndefinedQuantityError, match="StudentT"):
        Experiment(KERNEL, bgp.StudentT(4.0, 1.0), candidates=GRID)
