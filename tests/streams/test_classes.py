"""Streams of several classes: what they must agree with, and what a user does with them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.star import star_precision
from bayesgp_mf.streams import Stream, load
from bayesgp_mf.streams.files import CHECKSUM, HEADER, _checksum

RNG = np.random.default_rng(4)
X, X_NEW = RNG.normal(size=(150, 2)), RNG.normal(size=(25, 2))
SCORES = np.column_stack([2.0 * X[:, 0], 2.0 * X[:, 1], -X.sum(axis=1), np.full(150, 0.5)]) + RNG.normal(size=(150, 4))
CODES = np.argmax(SCORES, axis=1)
LABELS = np.array(["north", "east", "south", "west"])[CODES]
NAMES = ("east", "north", "south", "west")
KERNEL = kernels.Matern32([1.0, 1.5], 3.0)
TIGHT = bgp.Control(tolerance=1e-10)


def stream(likelihood=None, **options):
    given = {"budget": 25, "batch": 30, "random_seed": 1, **options}
    return Stream(KERNEL, bgp.MultinomialProbit() if likelihood is None else likelihood, **given)


@pytest.fixture(scope="module")
def learned():
    return stream().update(X, LABELS)


def close(one, other, order=None, atol=1e-8):
    """Hold the answers of two streams to each other, the classes of the second one in an order."""
    order = np.arange(len(one.classes)) if order is None else order
    np.testing.assert_array_equal(one.basis, other.basis)
    np.testing.assert_allclose(one.predict_proba(X_NEW), other.predict_proba(X_NEW)[:, order], atol=atol)
    for ours, theirs in zip(one.latent(X_NEW), other.latent(X_NEW), strict=True):
        np.testing.assert_allclose(ours, theirs[:, order], atol=10.0 * atol)
    np.testing.assert_allclose(one.log_score.batches, other.log_score.batches, atol=100.0 * atol)


@pytest.mark.parametrize(
    ("given", "kernel", "flip"),
    [
        ({"budget": None}, KERNEL, 0.0),
        ({"budget": None}, KERNEL + kernels.White(0.3), 0.1),
        ({}, KERNEL, 0.1),
        ({}, KERNEL + kernels.White(0.3), 0.0),
        ({"forget": 60.0}, KERNEL, 0.1),
        ({"forget": 60.0}, KERNEL + kernels.White(0.3), 0.0),
    ],
)
def test_two_classes_are_a_binary_stream(kernel, given, flip):
    y, options = np.where(CODES > 1, "b", "a"), {"batch": 30, "budget": 20, "random_seed": 1, "control": TIGHT, **given}
    binary = Stream(kernel, bgp.Probit(flip=flip), **options).update(X, y)
    several = Stream(kernel, bgp.MultinomialProbit(flip=flip), **options).update(X, y)
    np.testing.assert_array_equal(several.basis, binary.basis)
    np.testing.assert_allclose(several.predict_proba(X_NEW)[:, 1], binary.predict_proba(X_NEW), atol=1e-8)
    np.testing.assert_allclose(several.log_score.batches, binary.log_score.batches, atol=1e-8)
    assert several.independent == pytest.approx(binary.independent, abs=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [
        (bgp.MultinomialProbit(), 3),
        (bgp.MultinomialProbit(flip=0.05), 3),
        (bgp.MultinomialProbit(noise_variance=0.3), 4),
        (bgp.Softmax(), 3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + kernels.White(0.3)], ids=["smooth", "noisy"])
def test_all_cases_in_one_batch_are_a_fit(likelihood, n_classes, kernel):
    some = np.flatnonzero(np.isin(CODES, range(n_classes)))[:50]
    one = Stream(kernel, likelihood, budget=70, batch=70, random_seed=1, control=TIGHT).update(X[some], LABELS[some])
    fit = bgp.fit(X[some], LABELS[some], kernel, likelihood, method="tap", inducing=X[some], draws=1, control=TIGHT)
    process = bgp.posterior(fit)
    np.testing.assert_allclose(one.predict_proba(X_NEW), process.predict_proba(X_NEW), atol=1e-7)
    for ours, theirs in zip(one.latent(X_NEW), process.latent(X_NEW), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_every_case_kept_in_one_batch_is_the_dense_fit():
    one = stream(budget=None, batch=60, control=TIGHT).update(X[:60], LABELS[:60])
    process = bgp.posterior(bgp.fit(X[:60], LABELS[:60], KERNEL, bgp.MultinomialProbit(), draws=1, control=TIGHT))
    at = process.latent_covariance(X_NEW)
    np.testing.assert_allclose(one.latent(X_NEW)[0], at[0], atol=1e-6)
    np.testing.assert_allclose(one.predict_proba(X_NEW), process.new_likelihood.predict_proba(*at), atol=1e-7)
    # which the fit goes beyond, by the nearest cases
    np.testing.assert_allclose(one.predict_proba(X_NEW), process.predict_proba(X_NEW), atol=0.02)


def test_a_second_batch_has_the_posterior_of_the_first_as_its_prior():
    """Expectation propagation of the second batch, written out with a matrix of C rows a case."""
    likelihood, some, later = bgp.MultinomialProbit(NAMES), slice(0, 30), slice(30, 42)
    one = stream(likelihood, budget=None, batch=60, control=TIGHT).update(X[some], LABELS[some])
    m, C = 12, 4
    inputs = np.concatenate([X[later], X_NEW])
    mean, covariance = one.latent(inputs)[0].ravel(), joint_covariance(one, inputs)
    t = np.array([NAMES.index(label) for label in LABELS[later]], dtype=float)
    told, shift = np.zeros((m, C, C)), np.zeros((m, C))
    rows = np.arange(m * C)
    K, mu = covariance[np.ix_(rows, rows)], mean[rows]
    for _ in range(60):
        W = block_diagonal(told)
        posterior = K - K @ np.linalg.solve(np.eye(m * C) + W @ K, W @ K)
        centre = posterior @ shift.ravel() + mu - posterior @ (W @ mu)
        for i in range(m):
            own = slice(C * i, C * i + C)
            V = np.linalg.inv(np.linalg.inv(posterior[own, own]) - told[i])
            cavity = V @ (np.linalg.solve(posterior[own, own], centre[own]) - shift[i])
            found = likelihood.star_sites(t[i : i + 1], cavity[None], V[None])
            told[i] = star_precision(found.weight)[0]
            shift[i] = told[i] @ (cavity + V @ found.gradient[0]) + found.gradient[0]
    W, cross = block_diagonal(told), covariance[:, rows]
    gain = np.linalg.solve(np.eye(m * C) + W @ K, np.eye(m * C))
    expected = mean + cross @ (gain @ (shift.ravel() - W @ mu))
    after = covariance - cross @ gain @ W @ cross.T
    one.update(X[later], LABELS[later])
    new_mean, new_variance = one.latent(X_NEW)
    np.testing.assert_allclose(new_mean.ravel(), expected[m * C :], atol=1e-7)
    np.testing.assert_allclose(new_variance.ravel(), after.diagonal()[m * C :], atol=1e-7)


def joint_covariance(one, inputs):
    """Posterior covariance of all classes at some inputs, from the state of the stream by its definition."""
    features, C = one.factor.features(one.kernel, inputs), len(one.classes)
    basis = np.linalg.svd(np.eye(C) - 1.0 / C)[0][:, : C - 1]
    known = contrast_basis(C)
    turned = known.T @ basis  # between two orthonormal bases of the contrasts
    at = np.kron(features.T, turned.T)
    left = np.kron(one.kernel.gram(inputs) - features.T @ features, np.eye(C - 1))
    contrasts = at @ np.linalg.inv(one.factor.precision) @ at.T + left
    whole = np.kron(np.eye(len(inputs)), basis)
    return whole @ contrasts @ whole.T + np.kron(one.kernel.gram(inputs), np.full((C, C), 1.0 / C))


def block_diagonal(each):
    m, C, _ = each.shape
    result = np.zeros((m, C, m, C))
    result[np.arange(m), :, np.arange(m)] = each
    return result.reshape(m * C, m * C)


@pytest.mark.parametrize("likelihood", [bgp.MultinomialProbit, bgp.Softmax])
def test_permuting_the_classes_permutes_the_answer(likelihood):
    some, order = CODES < 3, [2, 0, 1]
    names = NAMES[:3]
    one = stream(likelihood(names), control=TIGHT).update(X[some], LABELS[some])
    other = stream(likelihood(tuple(names[c] for c in order)), control=TIGHT).update(X[some], LABELS[some])
    close(one, other, np.argsort(order), atol=1e-7)


def test_the_order_of_the_batches_matters_little():
    toy = np.random.default_rng(2)
    inputs = toy.normal(size=(1500, 2))
    f = np.column_stack([2.0 * inputs[:, 0], 2.0 * inputs[:, 1], 1.0 - inputs.sum(axis=1) ** 2])
    codes, test = np.argmax(f + toy.normal(size=f.shape), axis=1), slice(1000, 1500)

    def score(p):
        return float(np.mean(np.log(p[np.arange(500), codes[test]])))

    fit = bgp.fit(inputs[:1000], codes[:1000], KERNEL, bgp.MultinomialProbit(), inducing=80, draws=1, random_seed=1)
    at_once, found = score(bgp.posterior(fit).predict_proba(inputs[test])), []
    for seed in range(3):
        one = stream(budget=80, batch=100, random_seed=seed)
        order = np.random.default_rng(seed).permutation(1000)
        found.append(score(one.update(inputs[order], codes[order]).predict_proba(inputs[test])))
    # at once with other inducing cases: -0.6298 to -0.6317
    assert min(found) > at_once - 0.01
    assert np.ptp(found) < 0.01


def test_a_stream_that_forgets_follows_a_rule_that_turns():
    toy = np.random.default_rng(6)
    inputs = toy.normal(size=(1200, 2))
    codes = np.argmax(np.column_stack([inputs[:, 0], inputs[:, 1], np.zeros(1200)]), axis=1)
    codes[600:] = (codes[600:] + 1) % 3
    kept = {"budget": 20, "batch": 50, "classes": (0, 1, 2)}
    faithful, forgets = stream(**kept).update(inputs, codes), stream(forget=150.0, **kept).update(inputs, codes)
    late = [s.log_score.batches[s.log_score.cases.cumsum() > 900].sum() / 300 for s in (faithful, forgets)]
    assert late[1] > late[0] + 0.1


def test_the_prequential_score_is_that_of_the_predictions_before_the_update():
    one = stream().update(X[:60], LABELS[:60])
    p = one.predict_proba(X[60:90])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    at = p[np.arange(30), [one.classes.index(label) for label in LABELS[60:90]]]
    assert one.update(X[60:90], LABELS[60:90]).log_score.batches[-1] == pytest.approx(np.log(at).sum(), abs=1e-10)


def test_it_learns(learned):
    assert learned.classes == NAMES
    assert learned.basis.shape == (25, 2)
    score = learned.log_score
    assert score.batches[0] == pytest.approx(-30 * np.log(4.0))
    assert score.batches[-1] > score.batches[0] + 6.0
    assert repr(learned).endswith("p is of 'east', 'north', 'south', 'west'")
    assert np.argmax(learned.predict_proba([3.0, 0.0])) == NAMES.index("north")


@pytest.mark.parametrize(
    "classes", [("north", "east", "south", "west"), (3, 1, 2, 7), (True, False, 2.5, "x"), (0.5, 1.5, 2.5, 3.5)]
)
def test_labels_of_any_kind_named_or_not(classes, tmp_path):
    y = pd.Series([classes[c] for c in CODES], dtype=object)
    one = stream(classes=classes).update(X, y)
    assert one.classes == classes
    close(one, stream(bgp.MultinomialProbit(classes)).update(X, y))
    one.save(tmp_path / "s.npz")
    again = load(tmp_path / "s.npz")
    assert again.classes == classes
    close(again.update(X[:30], y[:30]), one.update(X[:30], y[:30]), atol=0.0)


def test_categories_name_the_classes_and_one_case_is_a_batch():
    y = pd.Categorical(LABELS[:40], categories=["west", "north", "south", "east", "up"])
    one = stream().update(X[:40], y)
    assert one.classes == ("west", "north", "south", "east", "up")
    assert one.predict_proba(X_NEW[0]).shape == (1, 5)
    assert one.update(X[41], "up").n_seen == 41


def test_a_class_that_comes_later_is_named_beforehand(learned):
    with pytest.raises(ValueError, match=r"\['up'\].*named beforehand: MultinomialProbit\(classes=\[\.\.\.\]\)"):
        stream().update(X, LABELS).update(X[:2], ["up", "east"])
    named = stream(bgp.MultinomialProbit((*NAMES, "up"))).update(X, LABELS)
    before = named.predict_proba(X_NEW)[:, 4]
    assert np.all((before > 0.0) & (before < 0.2))
    named.update(X_NEW[:10], ["up"] * 10)
    assert np.all(named.predict_proba(X_NEW[:10])[:, 4] > before[:10])
    with pytest.raises(ValueError, match=r"two or more classes.*name them: classes="):
        stream().update(X[:3], ["up"] * 3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"likelihood": bgp.Softmax(range(11))}, "beyond 10 classes"),
        ({"likelihood": bgp.MultinomialProbit(("a", "b")), "classes": ("a", "c")}, "Name them once"),
        ({"classes": ("a", "a", "b")}, "names that differ"),
        (
            {"likelihood": bgp.MultinomialProbit(noise_variance=0.0)},
            r"is a step\. Use MultinomialProbit\(noise_variance",
        ),
        ({"likelihood": bgp.MultinomialProbit(range(10)), "budget": 600}, "a budget of at most 555"),
    ],
)
def test_a_slip_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        stream(**given)


def test_a_kernel_for_each_class_is_refused():
    with pytest.raises(ValueError, match="one kernel for all classes"):
        Stream(kernels.PerClass(KERNEL, KERNEL), bgp.MultinomialProbit())


def test_too_many_basis_inputs_are_refused_when_the_classes_are_known_and_nothing_is_lost():
    wide = stream(budget=2000)
    with pytest.raises(ValueError, match=r"4 classes keeps 3 numbers for each basis input.*at most 1666"):
        wide.update(X, LABELS)
    assert wide.n_seen == 0
    assert wide.classes is None
    wide.budget = 20
    assert wide.update(X, LABELS).n_seen == 150
    with pytest.raises(ValueError, match="at most 1666"):
        wide.budget = 2000


def test_offsets_and_weights_are_refused(learned):
    for given in ({"offset": np.zeros(2)}, {"weights": [1.0, 2.0]}):
        with pytest.raises(bgp.errors.UndefinedQuantityError):
            learned.update(X[:2], LABELS[:2], **{name: np.ones(2) * 2 for name in given})
    assert learned.n_seen == 150


def test_a_saved_stream_goes_on_as_if_nothing_had_been(tmp_path):
    one = stream().update(X[:90], LABELS[:90])
    one.save(tmp_path / "s.npz")
    again = load(tmp_path / "s.npz")
    close(again.update(X[90:], LABELS[90:]), one.update(X[90:], LABELS[90:]), atol=0.0)
    assert repr(again).splitlines()[1:] == repr(one).splitlines()[1:]
    stream().save(tmp_path / "empty.npz")
    close(load(tmp_path / "empty.npz").update(X, LABELS), stream().update(X, LABELS), atol=0.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("t", lambda a: a + 1.0),
        ("t", lambda a: a + 0.5),
        ("shift", lambda a: a[:-1]),
        ("precision", lambda a: a[:-3, :-3]),
        ("precision", lambda a: 0.1 * np.eye(len(a))),
    ],
)
def test_what_could_not_have_been_saved_is_refused(name, value, tmp_path, learned):
    path = tmp_path / "s.npz"
    learned.save(path)
    with np.load(path) as file:
        header, arrays = str(file[HEADER]), {n: file[n] for n in file.files if n not in (HEADER, CHECKSUM)}
    arrays[name] = value(arrays[name])
    np.savez(path, **{HEADER: np.array(header), CHECKSUM: np.array(_checksum(header, arrays))}, **arrays)
    with pytest.raises(ValueError, match=f"{name} is"):
        load(path)


def test_a_container_has_the_functions_of_the_classes_at_the_basis_inputs(learned):
    idata = learned.to_container(draws=4000, chains=2, random_seed=1)
    f, fit = get_group(idata, "posterior")["f"], get_group(idata, "fit")
    assert f.dims == ("chain", "draw", "basis", "class")
    assert f["class"].values.tolist() == list(NAMES) == json.loads(fit.attrs["class_names"])
    mean, variance = learned.latent(learned.basis)
    np.testing.assert_allclose(f.mean(("chain", "draw")), mean, atol=6.0 * np.sqrt(variance.max() / 8000))
    np.testing.assert_allclose(f.var(("chain", "draw")), variance, rtol=0.12)


def test_a_figure_and_a_page(learned, tmp_path):
    for each in (learned, learned.to_container(draws=5, chains=1)):
        labels = [line.get_label() for line in bgp.plots.plot_stream(each).get_lines()]
        assert "chance, log(1/4)" in labels
    bgp.report(learned.to_container(draws=5, chains=1), tmp_path / "page.html")
    assert "MultinomialProbit" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_first_cases_are_tuned_on_and_learned_from_again():
    start = {"priors": {"lengthscale": bgp.hyper.LogNormal(), "variance": bgp.hyper.LogNormal()}}
    found = stream(hyper="evidence", first=90, reservoir=120).update(X, LABELS)
    assert found.kernel != KERNEL
    fresh = Stream(found.kernel, bgp.MultinomialProbit(), budget=25, batch=30, random_seed=1).update(X, LABELS)
    assert np.mean(np.abs(found.predict_proba(X_NEW) - fresh.predict_proba(X_NEW))) < 0.03
    again = stream().update(X, LABELS).retune(bgp.hyper.Evidence(starts=1), **start)
    assert again.kernel != KERNEL
    rare = stream(hyper="evidence", first=60, classes=NAMES).update(X, ["east"] * 145 + ["west"] * 5)
    assert rare.kernel == KERNEL
    assert "tuned after 60" in repr(rare)


def test_what_was_learned_is_carried_over_to_another_kernel(learned):
    """Under the same kernel it is the same; under one with twice the variance the past says what it said."""
    same = learned.factor.under(KERNEL)
    np.testing.assert_allclose(same.mean, learned.factor.mean, atol=1e-8)
    wider = learned.factor.under(kernels.Matern32([1.0, 1.5], 6.0))
    for before, after in ((learned.factor, wider),):
        told = [np.kron(np.linalg.inv(f.root), np.eye(3)) for f in (before, after)]
        past = [
            inverse.T @ (f.precision - np.eye(75)) @ inverse for inverse, f in zip(told, (before, after), strict=True)
        ]
        np.testing.assert_allclose(past[1], past[0], rtol=1e-6, atol=1e-6 * np.abs(past[0]).max())


def test_sites_that_are_negative_beforehand_are_no_start():
    """Together they leave no posterior where many cases say of the same what few flipped labels do not."""
    toy = np.random.default_rng(5010)
    inputs = toy.normal(size=(180, 2))
    codes = toy.integers(0, 3, 180)
    wide = kernels.Gaussian(6.0, 2.5e4)
    one = Stream(wide, bgp.MultinomialProbit(range(3), 0.15, 0.2), budget=20, batch=7, forget=50.0, random_seed=1)
    p = one.update(inputs, codes).predict_proba(inputs)
    assert np.all((p > 0.0) & (p < 1.0))
