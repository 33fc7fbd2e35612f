"""Tables of several classes on which classifiers are compared: what packages ship, divided by a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import bayesgp_mf as bgp
from bayesgp_mf.types import Array

SEED = 1
FOLDS = 5
"""Of the wines; forensic glass has its own ten."""
DIGITS = 500
"""Digits to learn from; the other 1297 are held out."""
OVERLAPPING, HELD_OUT = 300, 1000
"""Cases of the tables that are made, to learn from and held out."""
DRAWN = bgp.kernels.Gaussian(1.0, 4.0)
"""Of the functions of `drawn`."""
HALF_WIDTH, FEATURES = 3.0, 200
"""Of their inputs, uniform in a square, and how many random features make a function."""


class Split(NamedTuple):
    """Cases to learn from, and cases to be scored on.

    Attributes
    ----------
    X, codes : (n, d) and (n,) array
        Inputs, each column with mean 0 and standard deviation 1 (or constant 0) unless the table says otherwise, and
        classes 0 to C - 1, all present.
    X_test, codes_test : (m, d) and (m,) array
        The same, held out, on the scale of ``X``.
    """

    X: Array
    codes: NDArray[np.int64]
    X_test: Array
    codes_test: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.codes.max()) + 1

    @property
    def start(self) -> bgp.kernels.Gaussian:
        """Kernel from which searches begin: the median distance of two cases as length scale."""
        return bgp.kernels.Gaussian(float(np.median(pdist(self.X))), 4.0)


def wine() -> Iterator[Split]:
    """Yield scikit-learn's wines in five parts, 178 cases of 3 classes, 13 inputs."""
    from sklearn.datasets import load_wine

    data = load_wine()
    part = np.random.default_rng(SEED).permutation(data.target.size) % FOLDS
    for held_out in range(FOLDS):
        yield divided(data.data, data.target, part == held_out)


def glass() -> Iterator[Split]:
    """Yield forensic glass in its ten parts, 214 cases of 6 classes, 9 inputs."""
    data = bgp.datasets.load_forensic_glass(standardise=False)
    codes = np.unique(data.y, return_inverse=True)[1]
    assert data.fold is not None
    for held_out in range(1, 11):
        yield divided(data.X, codes, data.fold == held_out)


def overlapping() -> Iterator[Split]:
    """Yield a made table in the manner of Vehicle: 300 cases of 3 classes to learn from, 18 inputs, 1000 held out."""
    from sklearn.datasets import make_classification

    n = OVERLAPPING + HELD_OUT
    X, codes = make_classification(n, 18, n_informative=6, n_redundant=6, n_classes=3, random_state=SEED)
    yield divided(X, codes, np.arange(codes.size) >= OVERLAPPING)


def digits() -> Iterator[Split]:
    """Yield scikit-learn's digits, 500 of 10 classes to learn from, 64 inputs, 1297 held out; ink between 0 and 1."""
    from sklearn.datasets import load_digits

    data = load_digits()
    held_out = np.random.default_rng(SEED).permutation(data.target.size) >= DIGITS
    # to give a pixel that is hardly ever inked the weight of all others would add noise
    X = data.data / 16.0
    yield Split(X[~held_out], data.target[~held_out], X[held_out], data.target[held_out])


TABLES: dict[str, Callable[[], Iterator[Split]]] = {
    "wine": wine,
    "forensic glass": glass,
    "overlapping": overlapping,
    "digits": digits,
}


def divided(X: Array, codes: NDArray[np.int64], held_out: NDArray[np.bool_]) -> Split:
    """Return a table divided in two, on the scale of the cases to learn from.

    Raises
    ------
    ValueError
        If one of the classes is not among the cases to learn from.
    """
    learnt = X[~held_out]
    if missing := set(codes.tolist()) - set(codes[~held_out].tolist()):
        raise ValueError(f"a classifier must see a case of each class, and none is left of {sorted(missing)}.")
    mean, sd = learnt.mean(axis=0), learnt.std(axis=0)
    scaled = (X - mean) / np.where(sd > 0, sd, 1.0)
    return Split(scaled[~held_out], codes[~held_out], scaled[held_out], codes[held_out])


def drawn(n: int, n_classes: int) -> Split:
    """Return cases of two inputs, each of the class whose function, of a Gaussian process, is the largest with noise.

    n to learn from, and `HELD_OUT` others.
    """
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (n + HELD_OUT, 2))
    # the kernel `DRAWN`, by random Fourier features
    frequency, phase = rng.standard_normal((2, FEATURES)), rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    features = np.sqrt(2.0 * DRAWN.params["variance"] / FEATURES) * np.cos(X @ frequency + phase)
    f = features @ rng.standard_normal((FEATURES, n_classes))
    codes = np.argmax(f + rng.standard_normal(f.shape), axis=1)
    return Split(X[:n], codes[:n], X[n:], codes[n:])
