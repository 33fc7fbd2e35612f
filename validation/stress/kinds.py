"""Problems of further kinds: planes, groups, flipped labels, inducing inputs that nearly repeat each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.random import Generator

import bayesgp_mf as bgp
from bayesgp_mf import Problem, Solution, kernels
from bayesgp_mf.inference.assembly import assemble_inducing, inducing_error
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Gaussian, Likelihood
from bayesgp_mf.matrices.inducing import LEAST_OWN
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.stress.digits import Numbers, bits, numbers
from validation.stress.problems import (
    MOST_EXACT,
    SIZES,
    Drawn,
    draw,
    random_codes,
    random_gram,
    random_labels,
    random_problem,
    random_targets,
)

SHARES = {"decades": 0.6, "planar": 0.1, "groups": 0.1, "flips": 0.1, "inducing": 0.1}
"""How often a problem is of each kind; those over decades are `problems.draw`'s."""
TWICE = 2.0
"""Inputs of a plane, the last third, reach so many times as far as the others."""
BITS_OF_ROOT = 2048
"""In which covariances of inducing inputs are factored: of seven at 1e-12 the least is some 1e-144."""


def draw_kind(seed: int, number: int, most: int = SIZES[-1][1]) -> Drawn:
    """Return problem ``number`` of a seed, of a kind by `SHARES`, with at most ``most`` cases; always the same one."""
    rng = np.random.default_rng((seed, number, 34))
    kind = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    if kind == "decades":
        return draw(seed, number, most)
    made = {"planar": _planar, "groups": _groups, "flips": _flips, "inducing": _inducing}[kind](rng, seed, number, most)
    return replace(made, made=f"{kind}, draw_kind({seed}, {number}): {made.made}")


def _few(rng: Generator, low: int, high: int, most: int) -> int:
    return min(most, round(float(np.exp(rng.uniform(np.log(low), np.log(high + 0.5))))))


def _wide(rng: Generator) -> float:
    return float(10.0 ** rng.uniform(-1.3, 4.0))


# -- an intercept and a slope


def _planar(rng: Generator, seed: int, number: int, most: int) -> Drawn:
    return random_problem(rng, seed, number, _few(rng, 2, 30, most), _plane)


def _plane(rng: Generator, n: int, X: Array | None = None) -> tuple[Array, Array, str]:
    kernel = kernels.Bias(_wide(rng)) + kernels.Linear(_wide(rng))
    if X is None:
        X = rng.standard_normal((n, 1))
        X[n - n // 3 :] *= TWICE
    return kernel.gram(X), X, repr(kernel)


# -- groups


def _groups(rng: Generator, seed: int, number: int, most: int) -> Drawn:
    return random_problem(rng, seed, number, _few(rng, 2, 40, most), _grouped)


def _grouped(rng: Generator, n: int, X: Array | None = None) -> tuple[Array, Array, str]:
    """Return a Gram matrix of random intercepts, slopes and functions of groups, in which rows repeat exactly."""
    if X is None:
        first, second = rng.integers(0, max(1, n // 2) + 1, n), rng.integers(0, 3, n)
        x = np.round(rng.standard_normal(n), int(rng.choice([0, 1, 8])))
        X = np.column_stack([x, first, second])
        if rng.random() < 0.5:
            X = X[rng.integers(0, n, n)]
    first, both = kernels.Categorical(_wide(rng), columns=[1]), kernels.Categorical(_wide(rng), columns=[1, 2])
    smooth = kernels.Gaussian(10.0 ** rng.uniform(-1, 1), _wide(rng), columns=[0])
    slope = kernels.Linear(_wide(rng), columns=[0])
    made: list[Kernel] = [
        first,
        first + both,
        first * smooth,
        first + both * slope,
        smooth + first,
        slope * first + kernels.Bias(_wide(rng)),
        first * both + smooth * both,
    ]
    kernel = made[rng.integers(len(made))]
    return kernel.gram(X), X, repr(kernel)


# -- labels that may be flipped


def _flips(rng: Generator, seed: int, number: int, most: int) -> Drawn:
    """Return labels that contradict each other as often as not, of two classes or of several."""
    noise, flip = float(10.0 ** rng.uniform(-8, 2)), float(rng.uniform(0.0, 0.49)) if rng.random() < 0.5 else 0.1
    flip = float(10.0 ** rng.uniform(-6, -1)) if rng.random() < 0.3 else flip
    noise = 0.0 if rng.random() < 0.3 else noise
    made_by = [random_gram, _grouped, _plane][rng.integers(3)]
    if rng.random() < 0.6:
        methods = ["tap", "naive", "variational", "online", "sweeps", "exact", *(["laplace"] if noise else [])]
        method = str(rng.choice(methods))
        n = _few(rng, 1, MOST_EXACT if method == "exact" else 30, most)
        gram, X, made = made_by(rng, n)
        likelihood: Likelihood = bgp.Probit(noise, flip) if noise else bgp.Step(flip)
        return Drawn(seed, number, gram, random_labels(rng, gram, X), likelihood, method, made)
    n_classes, n = int(rng.choice([2, 3, 4], p=[0.5, 0.3, 0.2])), _few(rng, 1, 10, most)
    gram, X, made = made_by(rng, n)
    several = bgp.MultinomialProbit(tuple("abcd"[:n_classes]), noise, flip)
    return Drawn(seed, number, gram, random_codes(rng, n_classes, X), several, "tap", made)


# -- inducing inputs that nearly repeat each other


@dataclass(frozen=True, slots=True)
class DrawnInducing(Drawn):
    """A problem on inducing inputs, which is worked with as it was assembled; its truth has them all, as given.

    Attributes
    ----------
    kernel : Kernel
        A Gaussian one, of one length scale.
    X, points : (n, d) and (M, d) array
        Inputs of the cases, and inducing inputs.
    problem : Problem
        As `fit` assembles it.
    """

    kernel: Any = None
    X: Any = None
    points: Any = None
    problem: Any = None

    @property
    def handed(self) -> Any:
        """The Gram matrix on inducing inputs."""
        return self.problem.matrix

    def prior(self) -> arb_mat:
        """Return Q + diag(k - q) of the inducing inputs as given, in many bits."""
        distinct = np.unique(self.points, axis=0)
        with bits(BITS_OF_ROOT):
            cross = _covariances(self.kernel, distinct, self.X)
            root = _covariances(self.kernel, distinct, distinct).solve(cross).mid()
            gram = (cross.transpose() * root).mid()
            variance = arb(float(self.kernel.params["variance"]))
            for i in range(len(self.X)):
                gram[i, i] = variance
        return gram

    def means(self, alpha: Array) -> Numbers:
        """Return the posterior means by the matrix that was worked with: as given or moved, it is not in floats."""
        return numbers(self.problem.matrix @ alpha)

    def rounding(self, of_gram: float) -> float:
        """Return that of covariances of inducing inputs, which are divided by the least part that others leave."""
        return of_gram / LEAST_OWN

    def stated(self, solution: Solution) -> float:
        """Return what is stated of inducing inputs that were moved or left out."""
        return (
            inducing_error(self.kernel, self.X, self.problem, solution, get_method(self.method, self.likelihood)) or 0.0
        )


def _covariances(kernel: Kernel, rows: Array, columns: Array) -> arb_mat:
    variance, scale = arb(float(kernel.params["variance"])), arb(float(kernel.params["lengthscale"]))
    exact = [numbers(row) for row in columns]
    entries = []
    for row in rows:
        z = numbers(row)
        for x in exact:
            square = sum(((a - b) ** 2 for a, b in zip(z, x, strict=True)), arb(0))
            entries.append((variance * (-square / (2 * scale**2)).exp()).mid())
    return arb_mat(len(rows), len(columns), entries)


def _inducing(rng: Generator, seed: int, number: int, most: int) -> Drawn:
    n, d, length = _few(rng, 3, 25, most), int(rng.integers(1, 3)), float(10.0 ** rng.uniform(-0.5, 1.0))
    kernel = kernels.Gaussian(length, float(10.0 ** rng.uniform(-1, 2)))
    X = length * rng.uniform(-2.0, 2.0, (n, d))
    places = length * rng.uniform(-2.0, 2.0, (int(rng.integers(1, 5)), d))
    groups = [places]
    for place in places:  # from a tenth of the length scale apart to 1e-12 of it, up to three more at one place
        apart = length * 10.0 ** rng.uniform(-12.0, -1.0)
        groups.append(place + apart * rng.standard_normal((int(rng.integers(0, 4)), d)))
    points = rng.permutation(np.vstack(groups))
    if rng.random() < 0.6:
        noise = float(10.0 ** rng.uniform(-4, 2))
        likelihood: Likelihood = [bgp.Probit(noise), bgp.Logit(), bgp.Probit(noise, 0.1)][rng.integers(3)]
        t, method = random_labels(rng, kernel.gram(X), X), str(rng.choice(["tap", "naive", "laplace"]))
    else:
        noise = float(10.0 ** rng.uniform(-6, 1))
        likelihood, method = Gaussian(noise), str(rng.choice(["tap", "naive", "laplace"]))
        t = random_targets(rng, kernel.gram(X), X, noise)
    problem: Problem = assemble_inducing(kernel, X, t, likelihood, inducing=points)
    made = f"{len(points)} inducing inputs of {kernel!r}"
    gram = problem.matrix.dense()
    return DrawnInducing(seed, number, gram, t, likelihood, method, made, None, kernel, X, points, problem)
