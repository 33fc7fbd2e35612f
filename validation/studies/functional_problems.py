"""Problems whose cases see differences and slopes: the tables of the theory, and random sets of the hardest kinds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.kernels import Categorical, Difference, Gaussian, Kernel, Kinds, Slope
from bayesgp_mf.types import Array

SEED = 71
NEW = 20
"""New cases of a random set."""


class Problem(NamedTuple):
    """Cases under a probit of noise variance 1, and new ones.

    Attributes
    ----------
    kernel : Kernel
        With the noise of each kind.
    X : (n, d) array
    t : (n,) array
        Labels -1/+1.
    X_new : (m, d) array
    """

    kernel: Kernel
    X: Array
    t: Array
    X_new: Array


class Duels(NamedTuple):
    """Duels of items in two dimensions, won by the higher utility with noise of a variance; and 40 new ones."""

    items: int
    duels: int
    noise: float
    seed: int

    def problem(self) -> Problem:
        """Return it with outcomes drawn from the model."""
        rng = np.random.default_rng([SEED, 1, *self[:2], self.seed])
        features, below = rng.standard_normal((self.items, 2)), Gaussian(1.0, columns=[0, 1])
        a, b = _pairs(rng, self.items, self.duels + 40)
        X = np.hstack([features[a], features[b], np.zeros((a.size, 1))])
        f = _drawn(below, features, rng)
        won = f[a] - f[b] + np.sqrt(self.noise) * rng.standard_normal(a.size) > 0
        t = np.where(won, 1.0, -1.0)[: self.duels]
        kernel = Kinds(Difference(below, [0, 1], [2, 3]), column=4, noise=[self.noise])
        return Problem(kernel, X[: self.duels], t, X[self.duels :])


class Rising(NamedTuple):
    """Labels on a line, and that the function rises at some places, with a noise variance for slopes."""

    labels: int
    places: int
    noise: float
    seed: int

    def problem(self) -> Problem:
        """Return it with labels drawn from a rising function."""
        rng = np.random.default_rng([SEED, 2, *self[:2], self.seed])
        x, below = rng.uniform(-2.0, 2.0, self.labels), Gaussian(1.0, 4.0, columns=0)
        t = np.where(1.5 * x + rng.standard_normal(x.size) > 0, 1.0, -1.0)
        X = np.vstack([_marked(x, 0), _marked(np.linspace(-2.0, 2.0, self.places), 1)])
        kernel = Kinds(below, Slope(below, 0), column=1, noise=[1.0, self.noise])
        return Problem(kernel, X, np.concatenate([t, np.ones(self.places)]), _marked(np.linspace(-2.2, 2.2, 25), 0))


def random_set(kind: str, number: int) -> Problem:
    """Return a set of one of the kinds of `KINDS`."""
    rng = np.random.default_rng([SEED, list(KINDS).index(kind), number])
    while True:
        problem = _rising(kind, rng) if kind in ("slopes", "crowded slopes") else _duels(kind, rng)
        if np.ptp(problem.t) > 0.0:  # of one label alone there is no fit
            return problem


def _duels(kind: str, rng: np.random.Generator) -> Problem:
    items, n = int(rng.integers(4, 16)), int(rng.integers(8, 50))
    features, below = rng.standard_normal((items, 2)), Gaussian(_log_uniform(rng, 0.5, 3.0), columns=[0, 1])
    noise = _log_uniform(rng, {"cycles": 1e-4, "ordered": 1e-3}.get(kind, 1e-2), 1.0)
    f = _drawn(below, features, rng)
    if kind == "duels":
        a, b = _pairs(rng, items, n)
    elif kind == "duplicates":
        which = rng.integers(0, max(2, n // 6), n)
        a, b = (each[which] for each in _pairs(rng, items, max(2, n // 6)))
    elif kind == "cycles":  # each beats the next, and the last the first
        a = np.tile(np.arange(min(items, int(rng.integers(3, 6)))), max(1, n // 4))
        b = (a + 1) % (a.max() + 1)
    else:  # the earlier wins, of all pairs or of those of the first
        a, b = np.triu_indices(items, 1)
        if rng.random() < 0.5:
            a, b = (np.tile(each[a == 0], 1 + 30 // items) for each in (a, b))
    t = np.where(f[a] - f[b] + np.sqrt(noise) * rng.standard_normal(a.size) > 0, 1.0, -1.0)
    if kind in ("cycles", "ordered"):
        t = np.where(rng.random(a.size) < 0.5, 1.0, -1.0)  # who is named first says nothing
        a, b = np.where(t > 0, a, b), np.where(t > 0, b, a)
    first, second = _pairs(rng, items, NEW)
    if kind == "ordered" and rng.random() < 0.5:
        by_name = Difference(Categorical(1.0, columns=0), [0], [1])
        X, X_new = (np.column_stack([*each, np.zeros(each[0].size)]) for each in ((a, b), (first, second)))
        return Problem(Kinds(by_name, column=2, noise=[noise]), X, t, X_new)
    X, X_new = (np.hstack([features[i], features[j], np.zeros((i.size, 1))]) for i, j in ((a, b), (first, second)))
    return Problem(Kinds(Difference(below, [0, 1], [2, 3]), column=4, noise=[noise]), X, t, X_new)


def _rising(kind: str, rng: np.random.Generator) -> Problem:
    crowded = kind == "crowded slopes"
    length = _log_uniform(rng, *((0.1, 1.0) if crowded else (0.2, 6.0)))
    labels, places = int(rng.integers(5, 40)), 60 if crowded else int(rng.integers(5, 30))
    below, noise = Gaussian(1.0, _log_uniform(rng, 1.0, 9.0), columns=0), _log_uniform(rng, 1e-4, 1.0)
    x, sign = length * rng.random(labels), 1.0 if rng.random() < 0.7 else -1.0  # of some the labels fall
    t = np.where(sign * (x / length - 0.5) + 0.3 * rng.logistic(size=labels) > 0, 1.0, -1.0)
    X = np.vstack([_marked(x, 0), _marked(length * (np.arange(places) + 0.5) / places, 1)])
    kernel = Kinds(below, Slope(below, 0), column=1, noise=[1.0, noise])
    X_new = _marked(length * np.linspace(-0.1, 1.1, NEW), 0)
    return Problem(kernel, X, np.concatenate([t, np.ones(places)]), X_new)


def _pairs(rng: np.random.Generator, items: int, count: int) -> tuple[Array, Array]:
    """Return two different items for each duel."""
    first = rng.integers(0, items, count)
    return first, (first + rng.integers(1, items, count)) % items


def _drawn(kernel: Kernel, X: Array, rng: np.random.Generator) -> Array:
    values, vectors = np.linalg.eigh(kernel.gram(X))
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(values.size)))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _marked(x: Array, kind: int) -> Array:
    """Return inputs with the number of their kind."""
    return np.column_stack([x, np.full(x.size, float(kind))])


KINDS = {"duels": 34, "duplicates": 34, "cycles": 33, "ordered": 33, "slopes": 33, "crowded slopes": 33}
"""How many sets of each kind."""
TABLES: dict[str, Duels | Rising] = {
    f"{type(each).__name__.lower()} {each[0]}, {each[1]}, {each.noise:g}, {each.seed}": each
    for each in (
        *(
            Duels(items, duels, noise, seed)
            for items, duels, noises in ((25, 60, (0.1, 0.01)), (100, 300, (0.1,)), (300, 1000, (0.1, 1.0)))
            for noise in noises
            for seed in (1, 2)
        ),
        *(Rising(n, places, noise, 1) for n in (30, 100) for places in (10, 20, 40) for noise in (1e-2, 1e-4)),
    )
}
"""Those of the theory, section 15."""
