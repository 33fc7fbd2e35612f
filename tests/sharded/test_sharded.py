"""A table in parts has the answer of the whole table, whoever computes which part, and says which part is wrong."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import signal
import threading

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels, sharded
from bayesgp_mf.kernels import log_gradient, log_vector, with_log_vector
from bayesgp_mf.parallel import Serial, tree_sum
from bayesgp_mf.sharded.shard import ShardModel
from bayesgp_mf.sharded.solve import solve

RNG = np.random.default_rng(2)
N = 900
X, X_NEW = RNG.normal(size=(N, 3)), RNG.normal(size=(30, 3))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS, REAL = np.where(F + 0.5 * RNG.normal(size=N) > 0, "yes", "no"), F + 0.3 * RNG.normal(size=N)
KERNEL = kernels.Matern32([1.0, 2.0, 4.0], 2.0) + kernels.Bias() + kernels.White(0.1)
Z = X[:40]
CUTS = (0, 50, 50, 300, 310, 600, 899, N)  # seven parts, one of them empty
TIGHT = bgp.Control(tolerance=1e-10)


def parts(y=LABELS, cuts=CUTS):
    return sharded.from_arrays([(X[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)])


def fitted(table, likelihood=bgp.Probit(), kernel=KERNEL, **options):
    return sharded.fit_stream(
        table, None, kernel, likelihood, **{"inducing": Z, "control": TIGHT, "random_seed": 1, **options}
    )


def same(one, other, tolerance=1e-9):
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=tolerance)
    assert one.n == other.n
    for a, b in zip(one.stream.latent(X_NEW), other.stream.latent(X_NEW), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)
    for name, value in one.gradient.items():
        np.testing.assert_allclose(value, other.gradient[name], rtol=tolerance, atol=tolerance)


@pytest.fixture
def files(tmp_path):
    for k, (a, b) in enumerate(itertools.pairwise(CUTS)):
        frame = pd.DataFrame(X[a:b], columns=["a", "b", "c"]).assign(late=LABELS[a:b])
        frame.to_parquet(tmp_path / f"part{k}.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(flip=0.05), bgp.likelihoods.Gaussian(0.1)], ids=repr
)
def test_parts_have_the_answer_of_the_whole(likelihood):
    y = REAL if likelihood.targets == "real" else LABELS
    whole = bgp.fit(X, y, KERNEL, likelihood, inducing=Z, control=TIGHT, draws=1, chains=1)
    found = fitted(parts(y), likelihood)
    assert found.log_evidence == pytest.approx(float(whole["fit"]["log_evidence"]), abs=1e-8)
    for a, b in zip(found.stream.latent(X_NEW), bgp.posterior(whole).latent(X_NEW), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    same(found, fitted(parts(y, (0, N)), likelihood))


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.likelihoods.Gaussian(0.1)], ids=repr)
def test_the_gradient_passes_central_differences(likelihood):
    y = REAL if likelihood.targets == "real" else LABELS
    at, step = log_vector(KERNEL), 1e-4
    gradient = log_gradient(KERNEL, fitted(parts(y), likelihood).gradient)

    def value(x):
        return fitted(parts(y), likelihood, with_log_vector(KERNEL, x)).log_evidence

    numeric = [(value(at + e) - value(at - e)) / (2.0 * step) for e in step * np.eye(at.size)]
    np.testing.assert_allclose(gradient, numeric, rtol=2e-6, atol=2e-6 * np.max(np.abs(numeric)))
    assert not np.allclose(1.001 * gradient, numeric, rtol=2e-6, atol=2e-6 * np.max(np.abs(numeric)))


def test_processes_have_the_same_bytes():
    one, two = fitted(parts()), fitted(parts(), processes=2)
    assert one.log_evidence == two.log_evidence
    np.testing.assert_array_equal(one.stream.latent(X_NEW)[0], two.stream.latent(X_NEW)[0])


def test_files_are_parts(files):
    found = fitted(sharded.from_parquet(f"{files}/*.parquet", target="late"))
    same(found, fitted(parts()))
    assert found.stream.features == ["a", "b", "c"]
    p = found.stream.predict_proba(pd.DataFrame(X_NEW, columns=["a", "b", "c"]))
    np.testing.assert_array_equal(p, fitted(parts()).stream.predict_proba(X_NEW))
    fewer = fitted(
        sharded.from_parquet(f"{files}/*.parquet", target="late", columns=["b", "a"]),
        inducing=X[:30, 1::-1],
        kernel=kernels.Gaussian(1.0),
    )
    assert fewer.stream.features == ["b", "a"]


def test_what_is_wrong_with_a_file_is_said_with_its_name(files):
    def refused(match):
        table = sharded.from_parquet(f"{files}/*.parquet", target="late")
        change()
        with pytest.raises(ValueError, match=match):
            fitted(table)

    frame = pd.read_parquet(files / "part3.parquet")
    damaged = frame.copy()
    damaged.loc[7, "b"] = np.nan
    for content, match in (
        (damaged, r"part3.parquet: row 7 has nan in column 'b'"),
        (frame.rename(columns={"c": "d"}), r"part3.parquet has no columns \['c'\]; it has \['a', 'b', 'd', 'late'\]"),
        (frame.assign(late=[None, *frame["late"][1:]]), r"part3.parquet: row 0 has no label"),
        (frame.assign(late="perhaps"), "two"),
        (frame.assign(a="x"), "part3.parquet"),
    ):
        change = lambda content=content: content.to_parquet(files / "part3.parquet")  # noqa: E731
        refused(match)
        frame.to_parquet(files / "part3.parquet")
    change = (files / "part3.parquet").unlink
    refused("part3.parquet cannot be read")
    with pytest.raises(ValueError, match="no file matches"):
        sharded.from_parquet(f"{files}/*.csv", target="late")
    with pytest.raises(ValueError, match=r"has no columns \['soon'\]"):
        sharded.from_parquet(f"{files}/*.parquet", target="soon")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"table": X}, "come from sharded.from_parquet"),
        ({"likelihood": bgp.Softmax()}, "several classes"),
        ({"likelihood": bgp.Step()}, "step without"),
        ({"inducing": 2000}, "are to be drawn from 900"),
        ({"inducing": 0}, "inducing must be a positive integer"),
        ({"inducing": X[:5, :2]}, "inducing has 2 columns, but X has 3"),
        ({"processes": 0}, "processes must be a positive integer"),
        ({"control": None}, "control"),
        (
            {"table": sharded.from_arrays([(X[:5], LABELS[:5]), (X[:5, :2], LABELS[:5])])},
            "differ in their number of inputs",
        ),
        ({"table": sharded.from_arrays([(X[:5, 0], LABELS[:5])])}, r"the one input of all cases, pass X\[:, None\]"),
        ({"table": sharded.from_arrays([(X[:0], LABELS[:0])])}, "no rows"),
        ({"table": sharded.from_arrays([(X[:5], ["a"] * 5)])}, "two"),
    ],
)
def test_a_slip_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        fitted(**{"table": parts(), **given})


@pytest.mark.filterwarnings("ignore::bayesgp_mf.BoundWarning")
def test_hyperparameters_come_from_a_sample_and_are_refined_on_all():
    kernel = kernels.Matern32([1.0, 1.0, 1.0], 1.0)
    sample = fitted(parts(), kernel=kernel, inducing=40, hyper="evidence")
    refined = fitted(parts(), kernel=kernel, inducing=40, hyper="evidence", refine=3)
    assert refined.log_evidence >= sample.log_evidence
    assert sample.stream.kernel != kernel


def test_it_goes_on_as_a_stream(tmp_path):
    found = fitted(parts()).stream
    found.save(tmp_path / "fit.npz")
    again = bgp.streams.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(again.predict_proba(X_NEW), found.predict_proba(X_NEW))
    assert again.update(X_NEW, ["yes"] * 30).n_seen == N + 30


def test_too_few_rounds_are_said():
    with pytest.raises(bgp.ConvergenceError, match="after 2 rounds on shards"):
        fitted(parts(), control=bgp.Control(max_iterations=2))


def test_a_sum_is_the_same_tree_whoever_adds():
    answers = [{"x": np.array([1e16, 1.0, float(k)])} for k in range(7)]
    first = ((answers[0]["x"] + answers[1]["x"]) + (answers[2]["x"] + answers[3]["x"])) + (
        (answers[4]["x"] + answers[5]["x"]) + answers[6]["x"]
    )
    np.testing.assert_array_equal(tree_sum(answers)["x"], first)


def test_a_part_that_is_lost_starts_from_nothing_and_the_answer_is_the_same(monkeypatch):
    """What a lost worker does, without a worker: the states of two parts vanish in the middle, twice."""
    from bayesgp_mf.parallel import worker

    calls = iter(range(10**6))
    ask = Serial.map_reduce

    def loses(self, function, message):
        if next(calls) in (5, 8):
            for number in (2, 4):
                worker._STATES.pop((self._job, number))  # noqa: SLF001
        return ask(self, function, message)

    whole = fitted(parts())
    monkeypatch.setattr(Serial, "map_reduce", loses)
    found = fitted(parts())
    assert next(calls) > 9
    same(found, whole, 1e-8)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_has_the_same_answer_and_makes_up_for_a_lost_worker(client, files):
    import dask.dataframe as dd

    expected = fitted(parts())
    same(fitted(sharded.from_parquet(f"{files}/*.parquet", target="late"), client=client), expected)
    frame = dd.read_parquet(f"{files}/*.parquet")
    found = fitted(sharded.from_dask(frame, "late"), client=client)
    same(found, expected)

    lazy = sharded.predict(found.stream, frame)
    lazy.to_parquet(files / "out")
    there = pd.read_parquet(files / "out")
    np.testing.assert_allclose(
        there["p"], found.stream.predict_proba(pd.DataFrame(X, columns=["a", "b", "c"])), atol=1e-12
    )
    with pytest.raises(ValueError, match="lacks columns"):
        sharded.predict(found.stream, frame[["a", "b"]])

    pids = [worker.pid for worker in client.cluster.workers.values()]
    timer = threading.Timer(0.3, os.kill, (pids[0], signal.SIGKILL))
    timer.start()
    same(fitted(sharded.from_dask(frame, "late"), client=client, control=bgp.Control(tolerance=1e-12)), expected, 1e-8)
    timer.join()


def test_a_part_that_is_lost_before_the_gradient_is_noticed(monkeypatch):
    from bayesgp_mf.parallel import worker
    from bayesgp_mf.sharded.shard import gradient

    ask, lost = Serial.map_reduce, []

    def loses(self, function, message):
        if function is gradient and not lost:
            lost.append(worker._STATES.pop((self._job, 2)))  # noqa: SLF001
        return ask(self, function, message)

    whole = fitted(parts())
    monkeypatch.setattr(Serial, "map_reduce", loses)
    same(fitted(parts()), whole, 1e-8)
    assert lost


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_what_rounding_decides_is_refused_as_by_a_fit(scale):
    noise = bgp.likelihoods.Gaussian(1e-10 if scale == 1.0 else 1e-2)
    whole = {"inducing": X[:20], "draws": 1, "chains": 1}
    with pytest.raises((bgp.NotPositiveDefiniteError, bgp.ConvergenceError)):
        bgp.fit(X, scale * REAL, kernels.Linear(1.0), noise, **whole)
    with pytest.raises((bgp.NotPositiveDefiniteError, bgp.ConvergenceError)):
        fitted(parts(scale * REAL), noise, kernels.Linear(1.0), inducing=X[:20])


def test_categories_and_columns_mean_what_they_mean_in_a_fit():
    frame, turned = (
        pd.DataFrame(X, columns=["a", "b", "c"]),
        pd.Series(pd.Categorical(LABELS, categories=["yes", "no"])),
    )
    pairs = [(frame[a:b], turned[a:b]) for a, b in itertools.pairwise((0, 400, N))]
    found = fitted(sharded.from_arrays(pairs))
    assert found.stream.classes == ("yes", "no")
    assert found.stream.features == ["a", "b", "c"]
    np.testing.assert_allclose(
        found.stream.predict_proba(frame), 1.0 - fitted(parts()).stream.predict_proba(X), atol=1e-9
    )
    with pytest.raises(ValueError, match="part 1 has columns"):
        sharded.from_arrays([pairs[0], (pairs[1][0][["b", "a", "c"]], pairs[1][1])])
    with pytest.raises(ValueError, match="order"):
        sharded.from_arrays([(frame[:400], turned[:400].sample(frac=1.0, random_state=1))])
    with pytest.raises(ValueError, match="in different orders: part 0"):
        fitted(sharded.from_arrays([pairs[0], (pairs[1][0], pairs[1][1].cat.reorder_categories(["no", "yes"]))]))


def test_categories_of_a_part_may_be_those_of_its_own_cases():
    early = LABELS == "no"
    order = np.concatenate([np.flatnonzero(early)[:50], np.flatnonzero(~early), np.flatnonzero(early)[50:]])
    labels = pd.Series(LABELS[order])

    def classes(*categories, **options):
        bounds = (0, 50, 250, N)
        pairs = [
            (X[order][a:b], labels[a:b] if names is None else pd.Categorical(labels[a:b], categories=names))
            for (a, b), names in zip(itertools.pairwise(bounds), categories, strict=True)
        ]
        return fitted(sharded.from_arrays(pairs), **options).stream.classes

    both = ["yes", "no"]
    assert classes(["no"], both, both) == ("yes", "no")
    assert classes(["no", "never"], ["yes", "never", "no"], both) == ("yes", "no")
    assert classes(["no"], ["yes", "no"], None) == ("yes", "no")
    assert classes(["no"], None, None) == ("no", "yes")
    assert classes(both, both[::-1], None, positive="no") == ("yes", "no")
    with pytest.raises(ValueError, match=r"different orders.*positive='yes'"):
        classes(both, both[::-1], None)


def test_files_with_an_index_and_columns_that_make_no_sense(files):
    for path in sorted(files.glob("*.parquet")):
        pd.read_parquet(path).sample(frac=1.0, random_state=1).to_parquet(path)
    pattern = f"{files}/*.parquet"
    same(fitted(sharded.from_parquet(pattern, target="late")), fitted(parts()), 1e-8)
    for columns, says in (
        (["a", "late"], "different inputs"),
        (["a", "a"], "different inputs"),
        ("ab", "a list of names"),
    ):
        with pytest.raises(ValueError, match=says):
            sharded.from_parquet(pattern, target="late", columns=columns)
    (files / "part0.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"part0.parquet cannot be read"):
        sharded.from_parquet(pattern, target="late")


@pytest.mark.parametrize(("target", "says"), [(np.inf, "row 5 has the target inf"), ("1.5", "must be real numbers")])
def test_targets_that_are_none_are_named(target, says):
    wrong = REAL[300:600].astype(object if isinstance(target, str) else float)
    wrong[5] = target
    table = sharded.from_arrays([(X[:300], REAL[:300]), (X[300:600], wrong)])
    with pytest.raises(ValueError, match=f"part 1.*{says}"):
        fitted(table, bgp.likelihoods.Gaussian(0.1))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hyper": "hmc"}, "averages over kernels"),
        ({"refine": -1}, "refine"),
        ({"refine": True}, "refine"),
        ({"control": bgp.Control(scheme="paper")}, "scheme"),
    ],
)
def test_options_are_refused_before_the_work(given, says):
    with pytest.raises(ValueError, match=says):
        fitted(parts(), **given)


def test_rounds_begin_from_the_posterior_of_a_random_part():
    def rounds(known):
        model = ShardModel(0, KERNEL, bgp.Probit(), Z, ("no", "yes"))
        return solve(Serial(parts().parts), model, TIGHT, lambda said: None, known=known)

    part = fitted(sharded.from_arrays([(X[:300], LABELS[:300])])).stream.factor
    without, begun = rounds(None), rounds((part.inverse_factor, part.mean))
    assert begun.info.n_iterations < without.info.n_iterations
    assert begun.log_evidence == pytest.approx(without.log_evidence, abs=1e-9)
    useless = rounds((part.inverse_factor, 1e200 * part.mean))  # no site can be matched to this
    assert useless.log_evidence == pytest.approx(without.log_evidence, abs=1e-9)


@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-8])
def test_a_gaussian_likelihood_takes_one_round_however_small_its_noise(noise):
    """The equations are linear, and what a target leaves of its own case's variance is rounding."""
    kernel, likelihood = kernels.Gaussian(1.5, 2.0), bgp.likelihoods.Gaussian(noise)
    y = F - F.mean()
    found = fitted(parts(y), likelihood, kernel)
    assert found.info.n_iterations == 1
    whole = bgp.fit(X, y, kernel, likelihood, inducing=Z, control=TIGHT, draws=1, chains=1)
    assert found.log_evidence == pytest.approx(float(whole["fit"]["log_evidence"]), rel=1e-8)
    mean, variance = bgp.posterior(whole).latent(X_NEW)
    np.testing.assert_allclose(found.stream.latent(X_NEW)[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.stream.latent(X_NEW)[1], variance, rtol=1e-6, atol=1e-8)
    same(found, fitted(parts(y, (0, N)), likelihood, kernel), 1e-8 * abs(found.log_evidence))


def test_a_gaussian_likelihood_has_the_density_of_the_targets():
    """By the dense covariance of the targets, which no code of this package makes."""
    from scipy.stats import multivariate_normal

    kernel = kernels.Matern32([1.0, 2.0, 4.0], 2.0)
    cross, gram = kernel.cross(X, Z), kernel.cross(Z, Z)
    covariance = cross @ np.linalg.solve(gram, cross.T)
    np.fill_diagonal(covariance, kernel.diag(X) + 0.1)
    expected = multivariate_normal(np.zeros(N), covariance).logpdf(REAL)
    assert fitted(parts(REAL), bgp.likelihoods.Gaussian(0.1), kernel).log_evidence == pytest.approx(expected, abs=1e-7)


def test_what_is_not_solved_comes_back_where_that_was_asked_for():
    given = {"control": bgp.Control(max_iterations=2, tolerance=1e-10, throw=False)}
    with pytest.warns(bgp.ConvergenceWarning, match="after 2 rounds"):
        found = fitted(parts(), **given)
    assert found.info.status is bgp.Status.MAX_ITERATIONS
    assert found.info.residual > 1e-10
    assert found.info.mean_error > 1e-3  # and it says so
    nearly = fitted(parts(), control=bgp.Control(tolerance=1e-3)).log_evidence
    assert nearly == pytest.approx(fitted(parts()).log_evidence, abs=1e-3)
    with pytest.warns(bgp.ConvergenceWarning):
        idata = sharded.fit(parts(), None, KERNEL, inducing=Z, random_seed=1, draws=5, chains=1, **given)
    assert idata["fit"].attrs["status"] == "MAX_ITERATIONS"
    assert bgp.posterior(idata).solution.info.status is bgp.Status.MAX_ITERATIONS


def test_progress_says_how_fast_it_goes():
    said, model = [], ShardModel(0, KERNEL, bgp.Probit(), Z, ("no", "yes"))
    found = solve(Serial(parts().parts), model, TIGHT, said.append)
    assert len(said) == found.info.n_iterations
    for k, note in enumerate(said):
        assert re.fullmatch(rf"round {k + 1}, largest change \d.* \(tolerance 1e-10\), [\d,]+ cases a second", note)


def write_by_folders(folder, names, y=LABELS):
    """Write files into folders that say a column each, as Hive, Spark and Dask do."""
    for k, (a, b) in enumerate(itertools.pairwise(CUTS)):
        if a == b:
            continue
        here = folder / names[k % len(names)]
        here.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(X[a:b], columns=["a", "b", "c"]).assign(late=y[a:b]).to_parquet(here / f"part{k}.parquet")


@pytest.mark.parametrize("pattern", ["", "*/*.parquet", "**/*.parquet", "year=*/part*.parquet"])
def test_folders_that_say_a_column_are_columns(tmp_path, pattern):
    base = tmp_path / "run=7"  # above what was asked for, and so no column
    base.mkdir()
    write_by_folders(base, ["year=2013", "year=2014.5"])
    table = sharded.from_parquet(os.path.join(base, pattern), target="late")
    assert table.columns == ("a", "b", "c", "year")
    rows = [part() for part in table.parts]
    assert {value for each in rows for value in each.X[:, 3]} == {2013.0, 2014.5}
    kernel = kernels.Matern32([1.0, 2.0, 4.0, 3000.0], 2.0)
    points = np.column_stack([Z, np.where(np.arange(40) % 2, 2013.0, 2014.5)])
    cut = sharded.from_arrays([(each.X, each.y) for each in rows])
    found, expected = (fitted(each, kernel=kernel, inducing=points) for each in (table, cut))
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-9)
    np.testing.assert_allclose(found.stream.latent(points)[0], expected.stream.latent(points)[0], atol=1e-9)
    fewer = sharded.from_parquet(os.path.join(base, pattern), target="late", columns=["b", "a"])
    assert fewer.parts[0]().X.shape[1] == 2


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False")])
def test_folders_may_say_truth_values(tmp_path, words):
    write_by_folders(tmp_path, [f"weekend={word}" for word in words])
    table = sharded.from_parquet(tmp_path, target="late")
    assert {(part.path.split("=")[1].startswith(words[0]), *set(part().X[:, 3])) for part in table.parts} == {
        (True, 1.0),
        (False, 0.0),
    }
    labels = sharded.from_parquet(tmp_path, target="weekend", columns=["a", "b", "c"])
    assert fitted(labels).stream.classes == (False, True)


def test_files_of_one_name_draw_other_rows_and_the_same_wherever_they_lie(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("bayesgp_mf.sharded.fit"), "SAMPLE", 60)
    for base in (tmp_path / "here", tmp_path / "there" / "year=2013"):
        for month in range(6):
            folder = base / f"month={month}"
            folder.mkdir(parents=True)
            place = np.arange(100.0)
            frame = pd.DataFrame({"place": place, "x": X[:100, 0], "late": LABELS[:100]})
            frame.to_parquet(folder / "0.parquet")

    def drawn(base):
        table = sharded.from_parquet(base, target="late", columns=["place", "x"])
        return fitted(table, kernel=kernels.Matern32([5.0, 1.0]), inducing=60).stream.factor.points[:, 0]

    # 60 of 600 rows; of one sample of places in all months there would be 10 places
    assert len(set(drawn(tmp_path / "here"))) > 30
    np.testing.assert_array_equal(drawn(tmp_path / "here"), drawn(tmp_path / "there" / "year=2013"))


def test_paths_that_are_none_and_those_below_home(files, monkeypatch):
    with pytest.raises(ValueError, match="pattern must be a path with wildcards, or a folder, got list"):
        sharded.from_parquet([str(files)], target="late")
    monkeypatch.setenv("HOME", str(files.parent))
    there = sharded.from_parquet(f"~/{files.name}", target="late")
    assert [part.path for part in there.parts] == [
        part.path for part in sharded.from_parquet(files, target="late").parts
    ]


def test_what_to_do_about_dask_arrays_that_do_not_go_together():
    da = pytest.importorskip("dask.array")
    inputs, labels = da.from_array(X, chunks=(200, 3)), da.from_array(LABELS, chunks=100)
    with pytest.raises(ValueError, match=r"y\.rechunk\(\(X\.chunks\[0\],\)\)"):
        sharded.from_dask(inputs, labels)
    assert len(sharded.from_dask(inputs, labels.rechunk((inputs.chunks[0],))).parts) == inputs.numblocks[0]
    with pytest.raises(ValueError, match="rows of X, and 500 of y"):
        sharded.from_dask(inputs, labels[:500])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        sharded.from_dask(inputs[inputs[:, 0] > 0.0], labels)
    with pytest.raises(ValueError, match=r"got Array of shape .* and ndarray of shape"):
        sharded.from_dask(inputs, LABELS)
    whole = da.from_array(LABELS, chunks=inputs.chunks[0])
    assert len(sharded.from_dask(inputs, whole).parts) == inputs.numblocks[0]


def test_folders_that_say_no_number_or_nothing_are_said(tmp_path):
    write_by_folders(tmp_path / "words", ["carrier=AA", "carrier=B%206"])
    with pytest.raises(ValueError, match="carrier"):
        fitted(sharded.from_parquet(f"{tmp_path}/words", target="late"))
    table = sharded.from_parquet(f"{tmp_path}/words", target="carrier", columns=["a", "b", "c"])
    assert {each for part in table.parts for each in part().y} == {"AA", "B 6"}  # as the target it may be text
    write_by_folders(tmp_path / "mixed", ["year=2013", "month=1"])
    with pytest.raises(ValueError, match=r"year.*month|month.*year"):
        sharded.from_parquet(f"{tmp_path}/mixed", target="late")
    write_by_folders(tmp_path / "none", ["year=2013", "year=__HIVE_DEFAULT_PARTITION__"])
    with pytest.raises(ValueError, match="'year'"):
        fitted(sharded.from_parquet(f"{tmp_path}/none", target="late"))
    with pytest.raises(ValueError, match="no file matches"):
        sharded.from_parquet(str(tmp_path / "words" / "carrier=AA" / "nothing"), target="late")


def test_a_folder_that_is_called_like_a_file_counts_once(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(late=LABELS)
    table = tmp_path / "with [brackets]" / "flights.parquet"  # as Spark writes a table
    table.mkdir(parents=True)
    for k, (a, b) in enumerate(itertools.pairwise((0, 300, N))):
        frame[a:b].to_parquet(table / f"part-{k}.parquet")
    here = fitted(parts(cuts=(0, 300, N)))
    same(fitted(sharded.from_parquet(str(table), target="late")), here)
    same(fitted(sharded.from_parquet(table.parent, target="late")), here)
    with pytest.raises(ValueError, match=r"flights.parquet is a folder.*Give the folder above"):
        sharded.from_parquet(str(tmp_path / "*" / "*.parquet"), target="late")


def test_a_file_that_is_gone_is_said(files):
    table = sharded.from_parquet(str(files), target="late")
    (files / "part3.parquet").unlink()
    with pytest.raises(ValueError, match=r"part3.parquet cannot be read: there is no such file"):
        fitted(table)


def test_inducing_inputs_are_taken_by_the_names_of_their_columns():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table = sharded.from_arrays([(frame[a:b], LABELS[a:b]) for a, b in itertools.pairwise(CUTS)])
    same(fitted(table, inducing=frame[:40]), fitted(parts()))
    with pytest.raises(
        ValueError, match=r"inducing has columns \['c', 'b', 'a'\].*such as inducing\[\['a', 'b', 'c'\]\]"
    ):
        fitted(table, inducing=frame[["c", "b", "a"]][:40])


def _with(row, label):
    y = LABELS.astype(object)
    y[row] = label
    return y


@pytest.mark.parametrize(
    ("y", "label"),
    [(_with(301, ["yes"]), "['yes']"), (_with(301, 1j), "1j"), (np.where(np.arange(N) == 301, np.inf, 1.0), "inf")],
    ids=["list", "complex", "infinite"],
)
def test_what_is_no_label_is_said_with_its_part_and_row(y, label):
    with pytest.raises(ValueError, match=rf"part 3: row 1 has the label {re.escape(label)}"):
        fitted(parts(y))


def test_labels_of_any_bytes_and_dates_are_labels():
    codes, here = (LABELS == "yes").astype(int), fitted(parts())
    same(fitted(parts(codes.astype(">i4"))), here)
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")[codes]
    found = fitted(parts(dates))
    same(found, here)
    assert [str(label) for label in found.stream.classes] == ["2020-01-01 00:00:00", "2021-01-01 00:00:00"]


def test_an_input_whose_square_overflows_is_said_with_its_part_and_row():
    far = X.copy()
    far[301, 1] = 1e200
    table = sharded.from_arrays([(far[a:b], LABELS[a:b]) for a, b in itertools.pairwise(CUTS)])
    with pytest.raises(ValueError, match=r"X of part 3 has inputs beyond 1e\+150 in row 1"):
        fitted(table)


def test_more_slips_are_named():
    with pytest.raises(ValueError, match=r"positive says which of two classes"):
        fitted(parts(REAL), bgp.likelihoods.Gaussian(0.1), positive=1)
    with pytest.raises(ValueError, match=r"the table has no parts"):
        fitted(sharded.Table(()))
    with pytest.raises(ValueError, match=r"parts must be a list of pairs.*got int"):
        sharded.from_arrays(3)
    with pytest.raises(ValueError, match=r"pattern must be a path.*got None"):
        sharded.from_parquet(None, target="late")
    holed = pd.DataFrame(X, columns=["a", "b", "c"])
    holed.loc[7, "b"] = np.nan
    with pytest.raises(ValueError, match=r"part 0: row 7 has nan in column 'b'"):
        fitted(sharded.from_arrays([(holed, LABELS)]))


class Unsent(bgp.Probit):
    """Probit that cannot be pickled."""

    def __reduce__(self):
        raise RuntimeError("not me")


@pytest.fixture
def lone():
    """A client of a cluster with one worker that does one task at a time."""
    distributed = pytest.importorskip("distributed")
    options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "memory_limit": 0,
        "dashboard_address": ":0",  # with None it is 8787, which another test or page may have
    }
    with distributed.Client(**options) as found:
        yield found


def test_a_fit_in_a_task_leaves_its_place_to_its_parts(lone):
    from distributed import get_client

    asked = [lone.submit(lambda: fitted(parts(), client=get_client()).log_evidence, pure=False) for _ in range(2)]
    here = fitted(parts()).log_evidence
    assert [each.result(timeout=60) for each in asked] == [here, here]
    assert lone.submit(lambda: 3, pure=False).result(timeout=60) == 3  # all have come back


def test_a_partition_that_cannot_be_computed_is_named(lone):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(late=LABELS)

    def no(part):
        raise ZeroDivisionError("not this one")

    table = sharded.from_dask(dd.from_pandas(frame, npartitions=3).map_partitions(no, meta=frame[:0]), "late")
    for client in (lone, None):  # all partitions fail: Dask decides which one is the first to be told
        with pytest.raises(
            ValueError, match=r"partition [012] of the Dask collection.*ZeroDivisionError: not this one"
        ):
            fitted(table, client=client)
    with pytest.raises(ValueError, match=r"cannot be sent to another process.*RuntimeError: not me"):
        fitted(parts(), Unsent(), client=lone)


def test_a_client_that_is_closed_is_refused_also_in_the_middle(lone):
    class Closing(bgp.Probit):
        def log_partition(self, *args):
            threading.Thread(target=lone.close, daemon=True).start()
            threading.Event().wait(0.3)
            return super().log_partition(*args)

    with pytest.raises(RuntimeError, match=r"closed before the work was done. Connect anew"):
        fitted(parts(), Closing(), client=lone)
    with pytest.raises(ValueError, match=r"client is closed. Connect anew"):
        fitted(parts(), client=lone)


def test_workers_that_dask_has_paused_are_not_waited_for_for_ever(lone, monkeypatch):
    from distributed.core import Status

    from bayesgp_mf.parallel import cluster

    monkeypatch.setattr(cluster, "PAUSED_SECONDS", 1.0)
    lone.run(lambda dask_worker: setattr(dask_worker, "status", Status.paused))
    with pytest.raises(RuntimeError, match=r"Dask has paused.*memory is nearly full.*fewer inducing cases"):
        fitted(parts(), client=lone)


def test_a_cluster_without_workers_is_waited_for_aloud(monkeypatch):
    distributed = pytest.importorskip("distributed")

    from bayesgp_mf.parallel import cluster

    monkeypatch.setattr(cluster, "NO_WORKER_SECONDS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0") as some,
        distributed.Client(some) as client,
    ):
        later = threading.Timer(2.0, some.scale, (1,))
        later.start()
        with pytest.warns(UserWarning, match="the Dask cluster has no workers"):
            found = fitted(parts(), client=client)
        later.join()
    same(found, fitted(parts()), 0.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient_beyond_all_numbers_is_refused():
    table = sharded.from_arrays([(1e-160 * X, LABELS)])
    with pytest.raises(bgp.UndefinedQuantityError, match=r"derivative of the log evidence in .*lengthscale"):
        sharded.fit(table, None, bgp.kernels.Matern32(1e-160, 1.0), inducing=1e-160 * Z[:3])
