"""Where a stream was wrong, or died: nearly dependent inputs, dominant terms, negative sites, far rows, odd files."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.likelihoods import Censored, Gaussian
from bayesgp_mf.streams import Stream, load
from bayesgp_mf.streams.files import CHECKSUM, HEADER, _checksum


def exact(kernel, X, y, noise, X_new):
    cross = kernel.cross(X, X_new)
    solved = np.linalg.solve(kernel.gram(X) + noise * np.eye(len(y)), np.column_stack([y, cross]))
    return cross.T @ solved[:, 0], kernel.diag(X_new) - np.einsum("ij,ij->j", cross, solved[:, 1:])


def alive(stream, X):
    mean, variance = stream.latent(X)
    assert np.all(np.isfinite(mean))
    assert np.all((variance >= 0.0) & np.isfinite(variance))
    return stream


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("batch", [1, 5, 20])
@pytest.mark.parametrize(
    "kernel", [kernels.Gaussian(1.0, 1.0), kernels.Gaussian(0.5, 1.0), kernels.RationalQuadratic()], ids=repr
)
def test_smooth_kernels_go_on_for_ever(kernel, batch, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=400)
    stream = alive(
        Stream(kernel, Gaussian(0.1), batch=batch, random_seed=seed).update(X, y), np.linspace(-4.0, 4.0, 50)[:, None]
    )
    mean, variance = exact(kernel, X, y, 0.1, X[:50])
    found = stream.latent(X[:50])
    np.testing.assert_allclose(found[0], mean, atol=1e-3 * np.sqrt(variance.max()))
    np.testing.assert_allclose(found[1], variance, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::bayesgp_mf.BoundWarning")
@pytest.mark.parametrize("seed", range(4))
def test_retuning_leaves_a_posterior_or_the_stream_as_it_was(seed):
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.normal(size=(200, 2))
    y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    y = np.where(rng.random(200) < 0.2, 1 - y, y)
    likelihood = bgp.Probit(0.01, flip=0.2)
    stream = Stream(kernels.Matern32(3.0), likelihood, budget=60, batch=40, reservoir=150, random_seed=1).update(X, y)
    before = stream.latent(X)[0]
    try:
        stream.retune(bgp.hyper.Evidence(starts=1))
    except bgp.NotPositiveDefiniteError:
        np.testing.assert_array_equal(stream.latent(X)[0], before)
    alive(stream, X)


@pytest.mark.parametrize("kernel", [kernels.Gaussian(5.0), kernels.Gaussian(20.0), kernels.Matern32(100.0)], ids=repr)
def test_retuning_while_all_cases_are_held_starts_anew(kernel):
    rng = np.random.default_rng(1)
    X = 2.0 * rng.normal(size=(90, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=90)
    stream = (
        Stream(kernel, Gaussian(0.01), budget=None, random_seed=1).update(X, y).retune(bgp.hyper.Evidence(starts=1))
    )
    mean, variance = exact(stream.kernel, X, y, 0.01, X)
    assert np.max(np.abs(stream.latent(X)[0] - mean) / np.sqrt(variance)) < 1e-3


@pytest.mark.parametrize(
    ("kernel", "noise", "shift"),
    [
        (kernels.Matern32(1.0, 1.0) + kernels.Bias(1e6), 0.01, 0.0),
        (kernels.Matern32(1.0, 1.0) + kernels.Bias(1e8), 0.01, 0.0),
        (kernels.Gaussian(1.0, 1.0) + kernels.Bias(1e8), 0.01, 0.0),
        (kernels.Linear(1.0) + kernels.Matern32(1.0, 1.0), 0.01, 1e5),
        (kernels.Gaussian(1.0, 1.0), 1e-10, 0.0),
        (kernels.Gaussian(1.0, 1e8), 0.01, 0.0),
    ],
    ids=repr,
)
def test_what_rounding_decides_is_refused(kernel, noise, shift):
    rng = np.random.default_rng(3)
    X = shift + rng.normal(size=(40, 1))
    y = np.sin(2.0 * (X[:, 0] - shift)) + np.sqrt(noise) * rng.normal(size=40)
    with pytest.raises((bgp.NotPositiveDefiniteError, bgp.ConvergenceError)):
        Stream(kernel, Gaussian(noise), budget=None).update(X, y)


def test_tuning_inside_a_batch_loses_no_case():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(450, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=450)
    given = {"hyper": "evidence", "first": 200, "reservoir": 200, "batch": 450, "budget": None, "random_seed": 1}
    stream = Stream(kernels.Matern32(), Gaussian(0.01), **given).update(X, y)
    mean, variance = exact(stream.kernel, X, y, 0.01, X)
    assert np.max(np.abs(stream.latent(X)[0] - mean) / np.sqrt(variance)) < 1e-4


def test_rows_that_overflow_are_refused_and_nothing_is_lost():
    stream = Stream(kernels.Matern32(), Gaussian(0.1)).update([0.1], 1.0)
    with pytest.raises(ValueError, match="row 0, whose squares overflow"):
        stream.update([1e200], 1.0)
    with pytest.raises(ValueError, match="squares overflow"):
        stream.latent([[1e200]])
    assert alive(stream.update([0.3], 1.0), [[0.3]]).n_seen == 2
    product = Stream(kernels.Linear() * kernels.Linear() * kernels.Gaussian(), classes=(0, 1)).update(
        [[1.0], [2.0]], [1, 0]
    )
    with pytest.raises(ValueError, match="prior variance there overflows"):
        product.latent([[1e78]])


def test_a_first_case_without_prior_variance_is_learned_from(capfd):
    stream = alive(Stream(kernels.Linear(1.0), Gaussian(0.1)).update([0.0, 0.0], 3.0), [[1.0, 1.0]])
    assert alive(stream.update([[1.0, 2.0], [0.0, 1.0]], [1.0, 0.5]), [[1.0, 1.0]]).n_seen == 3
    assert "illegal value" not in "".join(capfd.readouterr())


def test_masked_labels_are_refused_at_every_update():
    X = np.random.default_rng(1).normal(size=(20, 2))
    stream = Stream(kernels.Matern32(), classes=("a", "b")).update(X, ["a", "b"] * 10)
    with pytest.raises(ValueError, match=r"missing|masked"):
        stream.update(X[:10], np.ma.masked_array(["a", "b"] * 5, mask=[1] * 10))
    for classes in ((None, 1), (np.nan, 1.0), (1, "1")):
        with pytest.raises(ValueError, match="classes must be two different labels"):
            Stream(kernels.Matern32(), classes=classes)


@pytest.mark.parametrize("classes", [(0, 1), (False, True), (0.5, 2.0), ("no", "yes")])
def test_a_loaded_stream_takes_the_labels_that_the_saved_one_took(classes, tmp_path):
    X = np.random.default_rng(1).normal(size=(20, 2))
    stream = Stream(kernels.Matern32(), classes=classes, control=bgp.Control(max_iterations=np.int64(100)))
    stream.update(X, np.array(classes)[np.arange(20) % 2]).save(tmp_path / "s.npz")
    again = load(tmp_path / "s.npz")
    assert again.classes == classes
    assert again.update(X, np.array(classes)[np.arange(20) % 2]).n_seen == 40


def test_a_failed_first_update_leaves_nothing_behind():
    X = np.random.default_rng(1).normal(size=(20, 2))
    stream = Stream(kernels.Matern32(), control=bgp.Control(max_iterations=1))
    with pytest.raises(bgp.ConvergenceError):
        stream.update(X, ["a", "b"] * 10)
    assert stream.classes is None
    assert stream.n_seen == 0


def test_a_copy_goes_its_own_way():
    X = np.random.default_rng(1).normal(size=(20, 2))
    stream = Stream(kernels.Matern32(), classes=("a", "b")).update(X, ["a", "b"] * 10)
    for make in (copy.copy, copy.deepcopy):
        other, score = make(stream), stream.log_score.total
        other.update(X, ["b", "a"] * 10)
        assert stream.log_score.total == score
        assert stream.n_seen == 20


EDITS = [
    ("settings", "n_seen", -5),
    ("settings", "n_seen", "a"),
    ("settings", "n_seen", 3),
    ("settings", "budget", 2),
    ("settings", "budget", 0),
    ("settings", "entropy", -1),
    ("settings", "entropy", "q"),
    ("settings", "features", ["a"]),
    ("settings", "is_tuned", "no"),
    ("settings", "forget", -2.0),
    ("settings", "budget", ...),
    ("settings", "entropy", ...),
    ("header", "likelihood", ...),
    ("header", "kernel", ...),
    ("header", "control", ...),
    ("header", "settings", ...),
    ("array", "n_cases", lambda a: -a),
    ("array", "n_cases", lambda a: a[:-1]),
    ("array", "n_cases", lambda a: a * 100),
    ("array", "log_score", lambda a: a * np.nan),
    ("array", "t", lambda a: a * 7.0),
    ("array", "t", lambda a: a[:-1]),
    ("array", "X", lambda a: a[:, :1]),
    ("array", "X", lambda a: a * np.nan),
    ("array", "shift", lambda a: a[:-1]),
    ("array", "points", lambda a: a[:-1]),
    ("array", "root", lambda a: a.T),
    ("array", "root", lambda a: -a),
    ("array", "root", lambda a: a[0]),
    ("array", "root", lambda a: a.astype(complex)),
    ("array", "precision", lambda a: a * np.nan),
    ("array", "precision", lambda a: 0.1 * np.eye(len(a))),
    ("array", "precision", lambda a: -a),
    ("array", "shift", lambda a: a.astype(str)),
    ("array", "other_limit", lambda t: t + np.inf),  # labels have none
]
LIMITS = {"below": lambda t: t - 1.0, "at it": lambda t: t, "too few": lambda t: t[1:]}


def parts_of(path):
    with np.load(path) as file:
        return json.loads(str(file[HEADER])), {
            each: file[each] for each in file.files if each not in (HEADER, CHECKSUM)
        }


def write(path, header, arrays):
    text = json.dumps(header)
    np.savez(path, **{HEADER: np.array(text), CHECKSUM: np.array(_checksum(text, arrays))}, **arrays)


@pytest.mark.parametrize(("where", "name", "value"), EDITS, ids=[f"{name}-{k}" for k, (_, name, _) in enumerate(EDITS)])
def test_what_could_not_have_been_saved_is_refused_though_the_checksum_is_right(where, name, value, tmp_path):
    rng = np.random.default_rng(1)
    path, X = tmp_path / "s.npz", rng.normal(size=(60, 2))
    stream = Stream(kernels.Matern32(), classes=(0, 1), budget=20, batch=20, random_seed=1)
    stream.update(X, rng.integers(0, 2, 60)).save(path)
    header, arrays = parts_of(path)
    if where == "array":
        arrays[name] = value(arrays.get(name, arrays["t"]))
    else:
        edited = header if where == "header" else header["settings"]
        edited[name] = value
        if value is ...:
            del edited[name]
    write(path, header, arrays)
    with pytest.raises(ValueError, match=r"s\.npz"):
        load(path)


@pytest.mark.parametrize("edit", LIMITS)
def test_limits_that_could_not_have_been_saved_are_refused(edit, tmp_path):
    path, X = tmp_path / "s.npz", np.arange(6.0)[:, None]
    y = np.column_stack([X[:, 0], X[:, 0] + np.array([0.0, 1.0, np.inf] * 2)])
    Stream(kernels.Matern32(), Censored(Gaussian(0.1))).update(X, y).save(path)
    header, arrays = parts_of(path)
    write(path, header, arrays)
    assert load(path).n_seen == 6  # a control
    arrays["other_limit"] = LIMITS[edit](arrays["t"])
    write(path, header, arrays)
    with pytest.raises(bgp.DamagedFileError, match="other_limit is not as it would be"):
        load(path)
