"""Random problems over many decades: kernels, inputs, labels, likelihoods and methods, each from its own seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb_mat
from numpy.random import Generator

import bayesgp_mf as bgp
from bayesgp_mf import Solution, kernels
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Gaussian, Likelihood
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.types import Array
from validation.stress.densities import Density, density
from validation.stress.digits import Numbers, matrix, numbers, times

SIZES = ((1, 1, 0.16), (2, 5, 0.30), (6, 15, 0.37), (16, 40, 0.155), (41, 150, 0.015))
"""Smallest and largest number of cases, and how often."""
MOST_EXACT = 8
"""Cases up to which classification is integrated exactly: its truth is a sum over orthants."""
MOST_OF_CLASSES = {"tap": 10, "laplace": 14}
"""Cases where each has several latent values."""
BY_ROOT = ("tap", "naive", "laplace")
"""Methods that take a Gram matrix by a root of low rank ..."""
SHARE_BY_ROOT = 0.12
"""... and how often they get one."""


MakesGram = Callable[..., tuple[Array, Array, str]]
"""Of a generator, a number of cases and perhaps inputs: a Gram matrix, inputs, and how it was made."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A problem and the method that is to solve it.

    Attributes
    ----------
    seed, number : int
        From which it is drawn again.
    gram : (n, n) or (C, n, n) array
        Exactly what is handed to the solver; the truth is that of these numbers.
    t : (n,) array
        Labels -1/+1, real targets or codes of classes.
    likelihood : Likelihood
        p(t | f).
    method : str
        A name for `bayesgp_mf.solve`, or "sweeps" for online learning until nothing changes.
    made : str
        How the matrix was made.
    root : (n, r) array or None
        Where there is one the solver is handed this root, and ``gram`` is its product up to rounding.
    """

    seed: int
    number: int
    gram: Array
    t: Array
    likelihood: Likelihood
    method: str
    made: str
    root: Array | None = None

    @property
    def handed(self) -> Any:
        """What the solver gets: the Gram matrix, or one that is known by a root."""
        return self.gram if self.root is None else LowRankGram(self.root, np.arange(self.root.shape[1]), 0.0)

    def prior(self) -> arb_mat:
        """Return the Gram matrix of one latent value per case, exactly."""
        if self.root is None:
            return matrix(self.gram)
        root = matrix(self.root)
        return (root * root.transpose()).mid()

    def means(self, alpha: Array) -> Numbers:
        """Return the posterior means that weights ``(n,)`` stand for."""
        return times(self.prior(), numbers(alpha))

    def stated(self, solution: Solution) -> float:
        """Return by how many nats the evidence may be off the truth, as is stated beside it."""
        return 0.0

    def rounding(self, of_gram: float) -> float:
        """Return by how many nats rounding moves the evidence, given what it is for the entries of a Gram matrix."""
        return of_gram

    def by_case(self) -> tuple[Numbers, Density]:
        """Return the targets, and the density of each, in many bits."""
        return numbers(self.t), density(self.likelihood)

    def __str__(self) -> str:
        which = f"draw({self.seed}, {self.number})"
        return f"{which}: {self.method}, n = {self.t.size}, {self.likelihood}, gram by {self.made}"


def draw(seed: int, number: int, most: int = SIZES[-1][1]) -> Drawn:
    """Return problem ``number`` of a seed, with at most ``most`` cases; always the same one."""
    rng = np.random.default_rng((seed, number))
    return random_problem(rng, seed, number, min(_size(rng), most))


def random_problem(rng: Generator, seed: int, number: int, n: int, made_by: MakesGram | None = None) -> Drawn:
    """Return a problem of at most n cases, with Gram matrices by `random_gram` or as is given."""
    made_by = made_by or random_gram
    kind = rng.choice(["binary", "real", "classes"], p=[0.62, 0.27, 0.11])
    if kind == "binary":
        likelihood, method = _binary(rng)
        n = min(n, MOST_EXACT) if method == "exact" else n
        gram, X, made = made_by(rng, n)
        return _by_root(Drawn(seed, number, gram, random_labels(rng, gram, X), likelihood, method, made))
    if kind == "real":
        noise = float(10.0 ** rng.uniform(-12, 2))
        method = str(rng.choice(list(_OF_REAL), p=list(_OF_REAL.values())))
        gram, X, made = made_by(rng, n)
        return _by_root(Drawn(seed, number, gram, random_targets(rng, gram, X, noise), Gaussian(noise), method, made))
    method, n_classes = (
        str(rng.choice(["laplace", "tap"], p=[0.6, 0.4])),
        int(rng.choice([2, 3, 4], p=[0.4, 0.45, 0.15])),
    )
    n = min(n, MOST_OF_CLASSES[method])
    gram, X, made = made_by(rng, n)
    if rng.random() < 0.3:
        others = [made_by(rng, n, X) for _ in range(n_classes - 1)]
        gram, made = np.stack([gram, *(other[0] for other in others)]), " | ".join([made, *(o[2] for o in others)])
    t = random_codes(rng, n_classes, X)
    return Drawn(seed, number, gram, t, bgp.Softmax(tuple("abcd"[:n_classes])), method, made)


def random_codes(rng: Generator, n_classes: int, X: Array) -> Array:
    """Return codes of classes ``(n,)``, by chance or in the order of an input."""
    n = X.shape[0]
    t = np.floor(n_classes * rng.random(n)) if rng.random() < 0.6 else np.argsort(np.argsort(X[:, 0])) * n_classes // n
    return np.asarray(t, dtype=np.float64)


def _by_root(drawn: Drawn) -> Drawn:
    """Return the problem, or now and then the one of the largest part of its matrix, by a root."""
    rng = np.random.default_rng((drawn.seed, drawn.number, 1))
    if rng.random() > SHARE_BY_ROOT or drawn.method not in BY_ROOT or drawn.likelihood.forbids:
        return drawn
    values, vectors = np.linalg.eigh(drawn.gram)
    rank = max(1, int(np.count_nonzero(values > 1e-15 * values[-1])))
    root = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return replace(drawn, gram=root @ root.T, root=root, made=f"a root of rank {rank} of {drawn.made}")


_OF_BINARY = {
    "tap": 0.35,
    "naive": 0.10,
    "variational": 0.10,
    "laplace": 0.17,
    "online": 0.08,
    "sweeps": 0.08,
    "svm": 0.08,
    "exact": 0.04,
}
_OF_REAL = {
    "tap": 0.44,
    "laplace": 0.16,
    "naive": 0.10,
    "variational": 0.08,
    "online": 0.09,
    "sweeps": 0.06,
    "exact": 0.07,
}


def _size(rng: Generator) -> int:
    low, high, _ = SIZES[rng.choice(len(SIZES), p=[share for *_, share in SIZES])]
    return int(rng.integers(low, high + 1))


def _binary(rng: Generator) -> tuple[Likelihood, str]:
    """Return a likelihood of labels and a method that is defined for it."""
    method = str(rng.choice(list(_OF_BINARY), p=list(_OF_BINARY.values())))
    noise, flip = float(10.0 ** rng.uniform(-10, 4)), float(10.0 ** rng.uniform(-6, -0.4))
    which = rng.choice(["probit", "plain", "flips", "step", "step flips", "logit"], p=[0.3, 0.1, 0.12, 0.17, 0.1, 0.21])
    if method == "svm":
        which = rng.choice(["probit", "step"])
    elif (method == "exact" and which == "logit") or (method == "laplace" and "step" in which):
        which = "probit"
    likelihoods: dict[str, Likelihood] = {
        "probit": bgp.Probit(noise),
        "plain": bgp.Probit(),
        "flips": bgp.Probit(noise, flip),
        "step": bgp.Step(),
        "step flips": bgp.Step(flip),
        "logit": bgp.Logit(),
    }
    return likelihoods[str(which)], method


def random_gram(rng: Generator, n: int, X: Array | None = None) -> tuple[Array, Array, str]:
    """Return a Gram matrix ``(n, n)``, inputs that labels can be made from, and how it was made."""
    X = _inputs(rng, n) if X is None else X
    if rng.random() < 0.28:
        name = str(rng.choice(list(_RAW)))
        gram, made = _RAW[name](rng, n), name
    else:
        kernel = _kernel(rng)
        gram, made = kernel.gram(X), repr(kernel)
    return 0.5 * (gram + gram.T), X, made


def _inputs(rng: Generator, n: int) -> Array:
    """Return inputs ``(n, d)``: scattered, on a line or a lattice, in clusters; with what is wrong with real tables."""
    d = int(rng.integers(1, 5))
    layout = rng.choice(["normal", "grid", "lattice", "clusters"], p=[0.5, 0.25, 0.1, 0.15])
    if layout == "grid":
        X = np.linspace(-3.0, 3.0, n)[:, None]
    elif layout == "lattice":
        X = np.floor(rng.uniform(-2, 3, (n, d)))
    elif layout == "clusters":
        centres = rng.standard_normal((max(1, n // 4), d))
        X = centres[rng.integers(0, len(centres), n)] + 10.0 ** rng.uniform(-12, -1) * rng.standard_normal((n, d))
    else:
        X = rng.standard_normal((n, d))
    if rng.random() < 0.2:
        X = X[rng.integers(0, n, n)]  # cases that occur twice
    if rng.random() < 0.15:
        mixed = X @ rng.standard_normal((X.shape[1], 1))
        X = np.hstack([X, mixed + rng.choice([0.0, 1e-10]) * rng.standard_normal((n, 1))])  # collinear columns
    if rng.random() < 0.1:
        X = np.hstack([X, np.full((n, 1), 10.0 ** rng.uniform(-3, 3))])  # a constant column
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.uniform(-3, 3, X.shape[1])
    return X + 1e6 if rng.random() < 0.04 else X


def _variance(rng: Generator) -> float:
    return float(10.0 ** (rng.uniform(-1, 2) if rng.random() < 0.5 else rng.uniform(-8, 12)))


def _kernel(rng: Generator) -> Kernel:
    kernel = _leaf(rng)
    for _ in range(int(rng.choice([0, 1, 2], p=[0.65, 0.25, 0.1]))):
        other = _leaf(rng)
        kernel = kernel + other if rng.random() < 0.6 else kernel * other
    if rng.random() < 0.12:
        kernel = kernel + kernels.Bias(_variance(rng))
    if rng.random() < 0.12:
        kernel = kernel + kernels.White(float(10.0 ** rng.uniform(-10, 2)))
    return kernel


def _leaf(rng: Generator) -> Kernel:
    length, variance, weight = (float(10.0 ** rng.uniform(-2, 3)), _variance(rng), _variance(rng))
    choices: list[tuple[float, Callable[[], Kernel]]] = [
        (0.36, lambda: kernels.Gaussian(length, variance)),
        (0.13, lambda: kernels.Matern32(length, variance)),
        (0.09, lambda: kernels.Matern52(length, variance)),
        (0.08, lambda: kernels.RationalQuadratic(length, variance)),
        (0.17, lambda: kernels.Linear(weight)),
        (0.07, lambda: kernels.Polynomial(int(rng.integers(2, 5)), weight, 1.0, 1.0)),
        (0.10, lambda: kernels.NeuralNetwork(weight, 1.0, variance)),
    ]
    return choices[rng.choice(len(choices), p=[share for share, _ in choices])][1]()


def _decade(rng: Generator, low: float = -16.0, high: float = 16.0) -> float:
    return float(10.0 ** rng.uniform(low, high))


def _diagonal(rng: Generator, n: int) -> Array:
    return np.diag(10.0 ** rng.uniform(-16, 16, n))


def _multiple(rng: Generator, n: int) -> Array:
    return np.eye(n) * _decade(rng)


def _spectrum(rng: Generator, n: int) -> Array:
    turn, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.sort(10.0 ** rng.uniform(rng.uniform(-18, 0), 0.0, n))
    return _decade(rng, -4, 10) * np.asarray((turn * values) @ turn.T)


def _equicorrelated(rng: Generator, n: int) -> Array:
    return _variance(rng) * (np.ones((n, n)) + 10.0 ** rng.uniform(-16, 0) * np.eye(n))


def _low_rank(rng: Generator, n: int) -> Array:
    root = rng.standard_normal((n, int(rng.integers(1, n + 1))))
    return _variance(rng) * (root @ root.T)


def _badly_scaled(rng: Generator, n: int) -> Array:
    root, sd = rng.standard_normal((n, n + 2)), 10.0 ** rng.uniform(-5, 5, n)
    return np.asarray(sd[:, None] * (root @ root.T) * sd)


def _hilbert(rng: Generator, n: int) -> Array:
    each = np.arange(n)
    return _variance(rng) / (1.0 + each[:, None] + each)


_RAW: dict[str, Callable[[Generator, int], Array]] = {
    "diagonal": _diagonal,
    "multiple of one": _multiple,
    "spectrum": _spectrum,
    "equicorrelated": _equicorrelated,
    "low rank": _low_rank,
    "badly scaled": _badly_scaled,
    "Hilbert": _hilbert,
}


def _from_prior(rng: Generator, gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(values.size)))


def random_labels(rng: Generator, gram: Array, X: Array) -> Array:
    """Return labels ``(n,)``: by chance, from the prior, by a threshold, all the same, in turn."""
    how = rng.choice(["chance", "prior", "threshold", "one", "in turn"], p=[0.35, 0.3, 0.17, 0.09, 0.09])
    n = X.shape[0]
    if how == "chance":
        positive = rng.random(n) < 0.5
    elif how == "prior":
        positive = _from_prior(rng, gram) > 0
    elif how == "threshold":
        positive = X[:, 0] > np.median(X[:, 0])
    else:
        positive = np.full(n, rng.random() < 0.5) if how == "one" else np.arange(n) % 2 == 0
    return np.where(positive, 1.0, -1.0)


def random_targets(rng: Generator, gram: Array, X: Array, noise: float) -> Array:
    """Return real targets ``(n,)``."""
    how = rng.choice(["sine", "prior", "chance", "constant", "huge"], p=[0.3, 0.4, 0.25, 0.04, 0.01])
    n = X.shape[0]
    if how == "sine":
        y = 3.0 * np.sin(2.0 * X[:, 0])
    elif how == "prior":
        y = _from_prior(rng, gram) + np.sqrt(noise) * rng.standard_normal(n)
    elif how == "constant":
        y = np.full(n, float(rng.choice([0.0, 1.0, 1e6])))
    else:
        y = rng.standard_normal(n)
    if how == "huge":
        return np.asarray(y * 10.0 ** rng.uniform(100, 300))
    return np.asarray(y * (10.0 ** rng.uniform(-3, 4) if rng.random() < 0.25 else 1.0))
