"""A few cases of several classes with flips, or without noise: predictions are those of plain draws of the model."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Gaussian

NAMES = np.array(list("abcd"))
CASES = {
    "two modes": (
        [0.18, -0.01],
        "ac",
        Gaussian(1.04, 7.8),
        {"classes": tuple("abcd"), "noise_variance": 0.0, "flip": 0.1},
    ),
    "noise and flips": ([1.12, 0.81], "ab", Gaussian(1.29, 15.5), {"classes": tuple("abc"), "flip": 0.1}),
    "neither": ([-1.0, 0.2, 1.0], "abc", Gaussian(1.0, 2.0), {"classes": tuple("abc"), "noise_variance": 0.0}),
    "two classes": (
        [-1.0, -0.9, 1.0],
        "aba",
        Gaussian(1.0, 4.0),
        {"classes": tuple("ab"), "noise_variance": 0.0, "flip": 0.1},
    ),
}
NEW = np.array([0.1, 2.0])


def by_draws(X, codes, kernel, noise_variance=1.0, flip=0.0, classes=()):
    """Return the log evidence and the probabilities of new cases, from draws of all functions with their noise."""
    n, n_classes = len(codes), len(classes)
    gram = kernel.gram(np.concatenate([X, NEW])[:, None]) + noise_variance * np.eye(n + len(NEW))
    root = np.linalg.cholesky(gram + 1e-10 * np.eye(len(gram)))
    rng, weight, total = np.random.default_rng(2), 0.0, np.zeros((len(NEW), n_classes))
    wrong = flip / (n_classes - 1)
    for _ in range(40):
        largest = np.argmax(np.einsum("ij,sjc->sic", root, rng.standard_normal((30_000, len(gram), n_classes))), axis=2)
        each = np.where(largest[:, :n] == codes, 1.0 - flip, wrong).prod(axis=1)
        weight += each.mean() / 40
        labels = np.where(largest[:, n:, None] == np.arange(n_classes), 1.0 - flip, wrong)
        total += np.tensordot(each, labels, axes=1) / each.size / 40
    return np.log(weight), total / weight


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_predictions_are_those_of_plain_draws(case):
    X, y, kernel, options = case
    y = list(y)
    idata = bgp.fit(np.array(X)[:, None], y, kernel, bgp.MultinomialProbit(**options), draws=5, random_seed=1)
    idata = bgp.predict(idata, NEW[:, None], draws=False)
    log_evidence, true = by_draws(np.array(X), np.searchsorted(NAMES, y), kernel, **options)
    p = idata["predictions"]["p"].values
    p = np.stack([1.0 - p, p], axis=1) if p.ndim == 1 else p
    np.testing.assert_allclose(p, true, atol=0.01)  # the standard error of the draws is 0.003
    quality = bgp.diagnostics.quality(idata)
    assert quality.log_evidence + quality.correction == pytest.approx(log_evidence, abs=0.02)
    assert quality.remaining < 0.05
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_two_modes_are_not_called_good_for_their_evidence():
    """The Gaussian of the first case is a third of a nat off, and that is what is stated."""
    X, y, kernel, options = CASES["two modes"]
    idata = bgp.fit(np.array(X)[:, None], list(y), kernel, bgp.MultinomialProbit(**options), draws=5, random_seed=1)
    assert bgp.diagnostics.quality(idata).correction == pytest.approx(-0.33, abs=0.03)


def test_many_cases_do_not_say_how_good_they_are():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(9, 1)), NAMES[rng.integers(0, 3, 9)]
    idata = bgp.fit(X, y, Gaussian(1.0, 2.0), bgp.MultinomialProbit(flip=0.1), draws=5, random_seed=1)
    assert bgp.diagnostics.quality(idata).verdict == "unknown"
