"""What a user does with a stream: batches, rows, frames, labels, slips, files, budgets, tuning."""

from __future__ import annotations

import contextlib
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.streams import Stream, load

RNG = np.random.default_rng(11)
X = pd.DataFrame(RNG.normal(size=(400, 2)), columns=["age", "dose"])
Y = pd.Series(np.where(X["age"] + 0.5 * RNG.normal(size=400) > 0, "ill", "fine"))
KERNEL = kernels.Matern32([1.0, 2.0], 2.0)


def stream(**options):
    return Stream(KERNEL, **{"budget": 30, "batch": 50, "random_seed": 1, **options})


@pytest.fixture
def learned():
    return stream().update(X, Y)


def same(one, other):
    """Whether two streams are in the same state, and go on in the same way."""
    assert repr(one) == repr(other)
    np.testing.assert_array_equal(one.basis, other.basis)
    for a, b in zip(one.latent(X), other.latent(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.log_score.total == other.log_score.total
    np.testing.assert_array_equal(one.log_score.batches, other.log_score.batches)


def test_batches_rows_and_one_long_update_are_the_same():
    long, parts = stream().update(X, Y), stream()
    for start in range(0, 400, 50):
        parts.update(X[start : start + 50], Y[start : start + 50])
    same(long, parts)
    rows, batches = stream(batch=1, classes=("fine", "ill")), stream(batch=1, classes=("fine", "ill"))
    for k in range(12):
        rows.update(X.iloc[k], Y[k])
    same(rows, batches.update(X[:12], Y[:12]))


def test_it_learns_and_says_how_well_it_did(learned):
    assert learned.n_seen == 400
    assert learned.basis.shape == (30, 2)
    score = learned.log_score
    np.testing.assert_array_equal(score.cases, [50] * 8)
    assert score.total == pytest.approx(score.batches.sum())
    assert score.mean == pytest.approx(score.total / 400)
    assert score.batches[0] < score.batches[-1] - 5.0
    p = learned.predict_proba(pd.DataFrame({"age": [-3.0, 3.0], "dose": [0.0, 0.0]}))
    assert p[0] < 0.25
    assert p[1] > 0.7


def test_the_prequential_score_is_that_of_the_predictions_before_the_update(learned):
    more = RNG.normal(size=(20, 2))
    p = learned.predict_proba(more)
    labels = np.where(RNG.random(20) < 0.5, "ill", "fine")
    learned.update(pd.DataFrame(more, columns=X.columns), labels)
    assert learned.log_score.batches[-1] == pytest.approx(np.sum(np.log(np.where(labels == "ill", p, 1.0 - p))))


def test_the_representation_has_three_lines(learned):
    first, second, third = repr(learned).splitlines()
    assert first.startswith("Stream(Matern32(")
    assert "400 cases in 8 batches, log score -0." in second
    assert third.startswith("  30 basis inputs, at most 30, ")
    assert third.endswith("% of the prior variance unexplained; p is of 'ill'")
    assert "  1 case in 1 batch, log score" in repr(stream(classes=("fine", "ill")).update([0.3, 0.1], "ill"))
    assert "log score" not in repr(stream())
    assert "tuned after 200" in repr(stream(hyper="evidence", first=200))


def test_a_budget_may_change_between_updates(learned):
    before = learned.latent(X)[0]
    learned.budget = 10
    assert learned.basis.shape == (10, 2)
    assert np.sqrt(np.mean((learned.latent(X)[0] - before) ** 2)) < 0.3 * np.std(before)
    learned.budget = 40
    assert len(learned.update(RNG.normal(size=(50, 2)), Y[:50]).basis) == 40
    for bad in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="budget must be a positive integer"):
            learned.budget = bad
    assert learned.budget == 40


def test_classes_are_those_of_the_first_update_or_as_they_were_named(learned):
    with pytest.raises(ValueError, match=r"none of the classes of this stream \['fine', 'ill'\]: \['dead'\]"):
        learned.update(X[:2], ["ill", "dead"])
    assert learned.n_seen == 400
    with pytest.raises(ValueError, match=r"single class, 'ill'.*Stream\(kernel, classes="):
        stream().update(X[:3], ["ill"] * 3)
    turned = stream(classes=("ill", "fine")).update(X, Y)
    np.testing.assert_allclose(turned.predict_proba(X), 1.0 - learned.predict_proba(X), atol=1e-12)
    assert stream(classes=("fine", "ill")).update(X[:2], ["ill", "ill"]).n_seen == 2
    for bad in ("yes", ("a",), ("a", "a"), 3):
        with pytest.raises(ValueError, match="classes must be two different labels"):
            stream(classes=bad)
    with pytest.raises(ValueError, match="has real targets"):
        Stream(KERNEL, bgp.likelihoods.Gaussian(0.1), classes=("a", "b"))


def test_a_vector_is_one_case_and_not_one_input():
    dose = np.linspace(-1.0, 1.0, 5)
    stream = Stream(kernels.Gaussian(), bgp.Probit(), classes=(0, 1))
    with pytest.raises(ValueError, match=r"the one input of 5 cases, pass X\[:, None\]"):
        stream.update(dose, [0, 0, 1, 1, 1])
    stream.update(dose[:, None], [0, 0, 1, 1, 1])
    assert stream.latent([0.3])[0].shape == (1,)
    with pytest.raises(
        ValueError, match=r"one case with its 1 inputs, got shape \(5,\)\. If that is the one input of all"
    ):
        stream.predict_proba(dose)


def test_columns_are_those_of_the_first_update(learned):
    for wrong in (X[["dose", "age"]], X.rename(columns={"age": "Age"})):
        with pytest.raises(ValueError, match="columns"):
            learned.update(wrong, Y)
        with pytest.raises(ValueError, match="columns"):
            learned.latent(wrong)
    with pytest.raises(ValueError, match="2 columns, as at the first update, got 3"):
        learned.update(np.ones((2, 3)), Y[:2])
    with pytest.raises(ValueError, match=r"or be one case with its 2 inputs, got shape \(3,\)\.$"):
        learned.latent(np.ones(3))
    with pytest.raises(ValueError, match=r"match X|each of the 2 rows"):
        learned.update(X[:2], Y[:3])
    with pytest.raises(ValueError, match="finite"):
        learned.update(X[:2] * np.nan, Y[:2])
    assert learned.n_seen == 400


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"likelihood": bgp.Step()}, "it is a step"),
        ({"likelihood": "probits"}, "likelihood must be one of"),
        ({"budget": -1}, "budget must be a positive integer"),
        ({"batch": 0}, "batch must be a positive integer"),
        ({"forget": 0.0}, "forget must be a half-life"),
        ({"forget": True}, "forget must be a half-life"),
        ({"hyper": "hmc"}, "which choose one kernel"),
        ({"hyper": bgp.hyper.Evidence(starts=2)}, "goes to retune"),
        ({"hyper": "evidence", "first": 100, "reservoir": 50}, "reservoir=50"),
        ({"control": None}, "control"),
        ({"random_seed": "x"}, "random_seed"),
    ],
)
def test_a_slip_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        Stream(KERNEL, **given)


def test_nothing_learned_is_said():
    for ask in (lambda s: s.latent(X), lambda s: s.predict_proba(X), lambda s: s.retune()):
        with pytest.raises(ValueError, match="nothing was learned yet"):
            ask(stream())
    assert np.isnan(stream().log_score.mean)
    stream().to_container(draws=2, chains=1)


def test_what_was_learned_before_an_error_stays(monkeypatch):
    one, other = stream(), stream().update(X[:100], Y[:100])
    calls = iter(range(3))
    solve = type(bgp.methods.get_method("tap")).solve

    def fails(*args, **kwargs):
        if next(calls, None) is None:
            raise bgp.ConvergenceError("no", bgp.Status.STALLED)
        return solve(*args, **kwargs)

    monkeypatch.setattr(type(bgp.methods.get_method("tap")), "solve", fails)
    with pytest.raises(bgp.ConvergenceError) as caught:
        one.update(X, Y)
    monkeypatch.undo()
    assert one.n_seen in (100, 150)
    assert f"{one.n_seen} cases in all" in caught.value.__notes__[0]
    same(one, other if one.n_seen == 100 else other.update(X[100:150], Y[100:150]))


def test_a_saved_stream_goes_on_as_if_nothing_had_been(learned, tmp_path):
    path = tmp_path / "stream.npz"
    learned.save(path)
    again = load(path)
    same(again, learned)
    more = RNG.normal(size=(120, 2))
    labels = np.where(more[:, 0] > 0, "ill", "fine")
    same(again.update(more, labels), learned.update(more, labels))
    assert list(tmp_path.iterdir()) == [path]


def test_checkpoints_are_whole_streams(tmp_path, monkeypatch):
    path, saved = tmp_path / "stream.npz", []
    save = Stream.save
    monkeypatch.setattr(Stream, "save", lambda self, to: (save(self, to), saved.append(load(to).n_seen)))
    stream().update(X, Y, checkpoint=path, every=3)
    assert saved == [150, 300, 400]
    with pytest.raises(ValueError, match="every must be a positive integer"):
        stream().update(X, Y, checkpoint=path, every=0)
    for wrong, message in ((-1, "checkpoint must be the name of a file.*got -1"), ("a\0", "checkpoint .* has a NUL")):
        with pytest.raises(ValueError, match=message):
            stream().update(X, Y, checkpoint=wrong)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    same(load("~/stream.npz"), load(path))
    for call in (load, stream().save):
        with pytest.raises(ValueError, match=r"path must be the name of a file.*got None"):
            call(None)


def test_a_file_that_is_damaged_or_something_else_is_refused(learned, tmp_path):
    path = tmp_path / "stream.npz"
    learned.save(path)
    whole = path.read_bytes()
    for k in np.random.default_rng(1).integers(0, len(whole), 30):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 4]) + whole[k + 1 :])
        with contextlib.suppress(bgp.DamagedFileError):
            same(load(path), learned)  # a byte that no one reads
    for content in (b"", whole[:1000], b"hello"):
        path.write_bytes(content)
        with pytest.raises(bgp.DamagedFileError, match=r"no file of Stream.save, or damaged"):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


class Own(kernels.Gaussian):
    """One that is not of the package."""


OWN_LIKELIHOOD = bgp.likelihoods.Quadrature(lambda t, f: -np.logaddexp(0.0, -t * f))


@pytest.mark.parametrize(
    ("what", "given", "other"),
    [("kernel", Own(0.7, 3.0), kernels.Gaussian(1.0) + kernels.Bias()), ("likelihood", OWN_LIKELIHOOD, bgp.Logit())],
)
def test_a_file_holds_no_program_and_load_asks_for_it(what, given, other, tmp_path):
    """The parameters of a kernel are those of the file."""
    path, made = tmp_path / "stream.npz", {"kernel": KERNEL, "likelihood": bgp.Probit(), what: given}
    one = Stream(**made, budget=30, random_seed=1).update(X[:100], Y[:100], checkpoint=path)
    with pytest.raises(ValueError, match=rf"{what}=\.\.\."):
        load(path)
    with pytest.raises(ValueError, match=rf"{what} "):
        load(path, **{what: other})
    again = load(path, **{what: Own(9.0) if what == "kernel" else given})
    assert again.kernel == one.kernel
    same(again.update(X[100:200], Y[100:200]), one.update(X[100:200], Y[100:200]))
    stream().save(path)
    with pytest.raises(ValueError, match=f"holds its {what}.* Leave {what} out"):
        load(path, **{what: given})


def test_a_file_that_would_grow_is_refused_before_it_does(learned, tmp_path):
    """A compressed array, and one whose header states more than there is: neither is made."""
    learned.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as file:
        arrays = {name: file[name] for name in file.files}
    packed, wide = tmp_path / "packed.npz", tmp_path / "wide.npz"
    np.savez_compressed(packed, **arrays | {"X": np.zeros((10**6, 2))})
    with zipfile.ZipFile(tmp_path / "s.npz") as old, zipfile.ZipFile(wide, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "X.npy":
                shape = repr(arrays["X"].shape).encode()
                content = content.replace(shape, b"(10000000000000, 2)").replace(b" " * 11 + b"\n", b"\n", 1)
            new.writestr(info, content)
    for path, message in ((packed, "is compressed"), (wide, r"X.npy would have \d{15} bytes")):
        tracemalloc.start()
        with pytest.raises(bgp.DamagedFileError, match=message):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


def test_the_first_cases_are_tuned_on_and_learned_from_again():
    found = stream(hyper="evidence", first=200, reservoir=250).update(X, Y)
    assert found.kernel != KERNEL
    first = bgp.posterior(
        bgp.fit(X[:200], Y[:200], KERNEL, hyper="evidence", inducing=30, draws=1, chains=1, random_seed=1)
    )
    ratio = np.log(found.kernel.params["lengthscale"] / first.kernel.params["lengthscale"])
    assert abs(ratio[0]) < 1.0  # of the input that matters; other inducing cases were drawn
    fresh = Stream(found.kernel, budget=30, batch=50, random_seed=1).update(X, Y)
    assert np.mean(np.abs(found.predict_proba(X) - fresh.predict_proba(X))) < 0.02
    waits = stream(hyper="evidence", first=1000).update(X, Y)
    assert waits.kernel == KERNEL


def test_retuning_takes_the_options_of_a_fit(learned):
    learned.retune(
        bgp.hyper.Evidence(starts=1), fixed={"variance"}, priors={"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    )
    assert learned.kernel.params["variance"] == KERNEL.params["variance"]
    assert not np.array_equal(learned.kernel.params["lengthscale"], KERNEL.params["lengthscale"])
    with pytest.raises(ValueError, match="averages over kernels"):
        learned.retune("surrogate")


def test_the_reservoir_is_a_fair_part_of_all_cases():
    """Each of 300 cases is among the 30 that are kept with probability 1/10, whenever it came."""
    from bayesgp_mf.streams.learning import StreamState, rows_of, sampled

    kept = np.zeros(300)
    for seed in range(600):
        state, rng = (
            StreamState(KERNEL, None, 0, 0, True, np.empty((0, 1)), np.empty((0, 4))),
            np.random.default_rng(seed),
        )
        for start in range(0, 300, 25):
            cases = np.arange(start, start + 25.0)
            inputs, rows = sampled(state, cases[:, None], rows_of(cases), 30, None, rng)
            np.testing.assert_array_equal(inputs[:, 0], rows[:, 0])
            state, t = StreamState(KERNEL, None, start + 25, 0, True, inputs, rows), rows[:, 0]
        assert len(set(t)) == 30
        kept[t.astype(int)] += 1
    thirds = kept.reshape(3, 100).sum(axis=1) / 600  # 10 expected, with standard deviation 0.1
    np.testing.assert_allclose(thirds, 10.0, atol=0.45)


def test_a_container_has_the_function_at_the_basis_inputs(learned):
    idata = learned.to_container(draws=2000, chains=2, random_seed=1)
    with pytest.raises(ValueError, match=r"container of a stream.*stream\.predict_proba"):
        bgp.predict(idata, [[0.0]])
    f = get_group(idata, "posterior")["f"]
    assert f.sizes == {"chain": 2, "draw": 2000, "basis": 30}
    mean, variance = learned.latent(learned.basis)
    np.testing.assert_allclose(f.mean(("chain", "draw")), mean, atol=6.0 * np.sqrt(variance.max() / 4000))
    np.testing.assert_allclose(f.var(("chain", "draw")), variance, rtol=0.2)
    inputs, fit = get_group(idata, "constant_data")["X"], get_group(idata, "fit")
    np.testing.assert_array_equal(inputs, learned.basis)
    assert list(inputs["feature"].values) == ["age", "dose"]
    assert fit.attrs["n_seen"] == 400
    np.testing.assert_array_equal(fit["log_score"], learned.log_score.batches)
    np.testing.assert_array_equal(fit["lengthscale"], [1.0, 2.0])


@pytest.mark.filterwarnings("ignore:To this kernel the inputs")
@pytest.mark.parametrize("case", ["duplicates", "constant", "huge", "tiny", "one input"])
def test_degenerate_inputs_are_learned_from_or_refused(case):
    inputs = RNG.normal(size=(200, 2))
    inputs = {
        "duplicates": np.round(inputs),
        "constant": inputs * [1.0, 0.0],
        "huge": inputs * 1e12,
        "tiny": inputs * 1e-12,
        "one input": np.ones((200, 2)),
    }[case]
    labels = np.where(RNG.random(200) < 0.7, 1, 0)
    found = stream().update(inputs, labels)
    mean, variance = found.latent(inputs)
    assert np.all(np.isfinite(mean))
    assert np.all(variance >= 0.0)
    assert np.all((found.predict_proba(inputs) > 0.0) & (found.predict_proba(inputs) < 1.0))


def test_with_a_half_life_the_reservoir_keeps_the_young():
    from bayesgp_mf.streams.learning import StreamState, rows_of, sampled

    ages = []
    for seed in range(100):
        state, rng = (
            StreamState(KERNEL, None, 0, 0, True, np.empty((0, 1)), np.empty((0, 4))),
            np.random.default_rng(seed),
        )
        for start in range(0, 2000, 25):
            cases = np.arange(start, start + 25.0)
            inputs, rows = sampled(state, cases[:, None], rows_of(cases), 30, 200.0, rng)
            state, t = StreamState(KERNEL, None, start + 25, 0, True, inputs, rows), rows[:, 0]
        ages.extend(2000.0 - t)
    assert np.median(ages) == pytest.approx(200.0, rel=0.1)


def test_a_rare_class_waits_until_there_is_something_to_tune_on():
    waits = stream(hyper="evidence", first=100, reservoir=150, classes=("fine", "ill"))
    many = RNG.normal(size=(400, 2))
    waits.update(many[:300], ["fine"] * 300)
    assert waits.kernel == KERNEL
    assert "tuned after" in repr(waits)
    waits.update(many[300:], np.where(many[300:, 0] > 0, "ill", "fine"))
    assert waits.kernel != KERNEL
    assert waits.n_seen == 400


def test_inputs_that_the_new_kernel_determines_go():
    x = np.random.default_rng(1).uniform(-3.0, 3.0, (1000, 1))
    t = np.random.default_rng(2).random(1000) < 1.0 / (1.0 + np.exp(-x[:, 0]))
    rough = Stream(kernels.Gaussian(0.05, 1.0), random_seed=0).update(x, t)
    smooth = rough.retune(bgp.hyper.Evidence(starts=1))
    assert len(smooth.basis) < 100
    p = smooth.predict_proba(np.array([[-2.0], [0.0], [2.0]]))
    assert p[0] < 0.3 < p[1] < 0.7 < p[2]


def test_what_it_gives_away_is_no_part_of_it(learned):
    before = learned.predict_proba(X)
    learned.basis[:] = 0.0
    np.testing.assert_array_equal(learned.predict_proba(X), before)
    with pytest.raises(AttributeError):
        learned.likelihood = bgp.Logit()
    for bad in (-300, 0, "a"):
        with pytest.raises(ValueError, match="forget must be a half-life"):
            learned.forget = bad
    learned.forget = 1000
    assert learned.update(X[:50], Y[:50]).n_seen == 450


def test_one_case_is_predicted_as_it_is_learned(learned):
    row = X.iloc[5]
    assert learned.predict_proba(row) == learned.predict_proba(X.iloc[5:6])
    assert learned.predict_proba(row.to_numpy()) == learned.predict_proba(X.iloc[5:6])
    assert learned.update(row, Y[5]).update(row, [Y[5]]).n_seen == 402


def test_classes_and_what_is_left_are_told(learned):
    assert learned.classes == ("fine", "ill")
    assert 0.0 < learned.independent < 0.3
    assert get_group(learned.to_container(draws=2, chains=1), "fit").attrs["class_names"] == '["fine", "ill"]'
    with pytest.raises(ValueError, match=r"For more, use likelihood=bgp\.MultinomialProbit"):
        stream().update(X[:3], ["a", "b", "c"])
    with pytest.raises(bgp.UndefinedQuantityError, match=r"use latent\(X_new\)"):
        Stream(KERNEL, bgp.likelihoods.Gaussian(0.1)).update(X, X["age"]).predict_proba(X)


def test_where_a_checkpoint_cannot_go_is_said_before_anything_is_learned(tmp_path):
    given = stream()
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "none" / "s.npz", FileNotFoundError)):
        with pytest.raises(error):
            given.update(X, Y, checkpoint=path)
    assert given.n_seen == 0


def test_after_ctrl_c_it_says_how_to_go_on(monkeypatch):
    given, calls = stream(), iter(range(2))
    solve = type(bgp.methods.get_method("tap")).solve

    def interrupted(*args, **kwargs):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return solve(*args, **kwargs)

    monkeypatch.setattr(type(bgp.methods.get_method("tap")), "solve", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        given.update(X, Y)
    monkeypatch.undo()
    done = given.n_seen
    assert f"from the first {done} of the 400 rows" in caught.value.__notes__[0]
    same(given.update(X[done:], Y[done:]), stream().update(X, Y))
