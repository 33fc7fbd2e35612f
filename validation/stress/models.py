"""Random problems of counts, outliers and levels, with offsets, weights and noise of each case, and their densities."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log1p, sqrt
from typing import Any

import numpy as np
from flint import arb
from numpy.random import Generator

from bayesgp_mf.likelihoods import Binomial, Gaussian, NegativeBinomial, Ordinal, Poisson, StudentT
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.types import Array
from validation.stress.densities import Answer, Density, density
from validation.stress.digits import Numbers, numbers
from validation.stress.integrals import Likely, averaged, log_choose, powers_of_logistic, student
from validation.stress.problems import Drawn, random_gram

METHODS = {"tap": 0.5, "laplace": 0.2, "naive": 0.12, "variational": 0.06, "online": 0.12}
SIZES = ((1, 1, 0.2), (2, 5, 0.45), (6, 12, 0.35))
LARGEST_LATENT = 8.0
"""Up to which latent values of counts are drawn: at exp(8) there are some thousand of them."""
LARGEST_VARIANCE = 1e30
"""Of a latent value. From some 1e40 on the average of a count over it is found slowly, or not at all."""
OFTEN = 0.35
"""How often there are offsets, and weights."""


@dataclass(frozen=True, slots=True)
class DrawnModel(Drawn):
    """A problem whose likelihood may have an offset and a weight of each case, beside the likelihood without them.

    Attributes
    ----------
    plain : Likelihood
        Without offsets and weights.
    offset, weights : (n,) array
        Zeros and ones where there are none.
    """

    plain: Any = None
    offset: Any = None
    weights: Any = None

    def __str__(self) -> str:
        which = f"draw_model({self.seed}, {self.number})"
        lightest, heaviest = self.weights.min(), self.weights.max()
        also = f"offsets up to {np.abs(self.offset).max():.3g}, weights {lightest:.3g} to {heaviest:.3g}"
        return f"{which}: {self.method}, n = {self.t.size}, {self.plain}, {also}, gram by {self.made}"

    def by_case(self) -> tuple[Numbers, Density]:
        """Return numbers of the cases, and a density that takes the number of a case for its target."""
        each = [_one(self, i) for i in range(self.t.size)]

        def answer(case: arb, mean: arb, variance: arb) -> Answer:
            return each[int(float(case))](case, mean, variance)

        return numbers(np.arange(self.t.size)), answer


def draw_model(seed: int, number: int) -> DrawnModel:
    """Return problem ``number`` of a seed; always the same one."""
    rng = np.random.default_rng((seed, number, 19))
    low, high, _ = SIZES[rng.choice(len(SIZES), p=[share for *_, share in SIZES])]
    n = int(rng.integers(low, high + 1))
    method = str(rng.choice(list(METHODS), p=list(METHODS.values())))
    gram, _, made = random_gram(rng, n)
    gram = gram * min(1.0, LARGEST_VARIANCE / np.max(np.diagonal(gram)))
    offset = rng.normal(0.0, 10.0 ** rng.uniform(-1, 0.7), n) if rng.random() < OFTEN else np.zeros(n)
    weights = 10.0 ** rng.uniform(-1.5, 1.5, n) if rng.random() < OFTEN else np.ones(n)
    if rng.random() < 0.3 and np.any(weights != 1.0):
        weights[rng.random(n) < 0.3] = 0.0
        weights[0] = 1.0
    likelihood = _likelihood(rng, n)
    f = _latent(rng, gram)
    t = likelihood.sample(np.clip(f + offset, -30.0, LARGEST_LATENT), rng)
    if isinstance(likelihood, StudentT | Gaussian):
        t = likelihood.sample(np.clip(f, -1e4, 1e4) + offset, rng)
    if isinstance(likelihood, StudentT):  # of few degrees of freedom a draw may be anywhere
        t = np.clip(t, -1e6, 1e6)
    given = by_case(likelihood, offset if np.any(offset) else None, weights if np.any(weights != 1.0) else None)
    return DrawnModel(seed, number, gram, t, given, method, made, None, likelihood, offset, weights)


def _likelihood(rng: Generator, n: int) -> Any:
    kind = rng.choice(["poisson", "negative binomial", "binomial", "student", "ordinal", "gaussian"])
    if kind == "poisson":
        return Poisson()
    if kind == "negative binomial":
        return NegativeBinomial(10.0 ** rng.uniform(-2, 5))
    if kind == "binomial":
        return Binomial(np.floor(10.0 ** rng.uniform(0, 3, n)) if rng.random() < 0.6 else int(rng.integers(1, 30)))
    if kind == "student":
        return StudentT(10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-0.3, 3))
    if kind == "ordinal":
        cuts = np.sort(rng.normal(0.0, 10.0 ** rng.uniform(-1, 1), int(rng.integers(1, 6))))
        return Ordinal(cuts, 10.0 ** rng.uniform(-3, 2))
    return Gaussian(10.0 ** rng.uniform(-6, 2, n))


def _latent(rng: Generator, gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(values.size)))


def _one(drawn: DrawnModel, i: int) -> Density:
    """Return the density of a case, whatever its target is called."""
    t, offset, weight = float(drawn.t[i]), arb(float(drawn.offset[i])), float(drawn.weights[i])
    known: Any = drawn.plain.of_cases(np.array([i]))
    if weight == 0.0:
        return lambda case, mean, variance: Answer(arb(0), arb(0), arb(0), arb(0), arb(0))
    if weight == 1.0 and isinstance(known, Gaussian):
        own = density(Gaussian(float(np.ravel(known.noise_variance)[0])))
        return lambda case, mean, variance: own(arb(t), mean + offset, variance)
    if weight == 1.0 and isinstance(known, Ordinal):
        return lambda case, mean, variance: _level(known, int(t), mean + offset, variance)
    likely = _weighted(_likely(known, t), weight)
    return lambda case, mean, variance: averaged(likely, (mean + offset).mid(), variance)


def _weighted(likely: Likely, weight: float) -> Likely:
    w = arb(weight)
    return Likely(
        lambda f: [w * value for value in likely.curve(f)],
        lambda f: weight * likely.value(f),
        lambda f: likely.bend(f) / max(1.0, sqrt(weight)),
        likely.peak,
    )


def _likely(known: Any, t: float) -> Likely:
    target = arb(t)
    if isinstance(known, Poisson):
        constant = (target + 1).lgamma()

        def counts(f: arb) -> list[arb]:
            rate = f.exp()
            return [target * f - rate - constant, target - rate, -rate, -rate, -rate]

        def rates(f: float) -> float:
            return t * f - exp(min(f, 500.0)) * (1.0 + max(f - 500.0, 0.0))  # concave beyond what floats hold, too

        def steep(f: float) -> float:
            return 1.2 * exp(-0.5 * min(f, 700.0)) if f > 0 else max(1.0, 0.4 * -f)

        return Likely(counts, rates, steep)
    if isinstance(known, NegativeBinomial | Binomial):
        if isinstance(known, Binomial):
            n = int(np.ravel(known.trials)[0])
            up, down, shift, constant = target, arb(n) - target, arb(0), log_choose(n, int(t))
        else:
            r = arb(known.dispersion)
            up, down, shift = target, r, r.log()
            constant = (target + r).lgamma() - r.lgamma() - (target + 1).lgamma()
        a, b, c = float(up), float(down), float(shift)

        def odds(f: arb) -> list[arb]:
            value, *rest = powers_of_logistic(up, down, (f - shift).mid())
            return [value + constant, *rest]

        def flat_odds(f: float) -> float:
            x = f - c
            small = log1p(exp(-abs(x)))
            return -a * (small + max(-x, 0.0)) - b * (small + max(x, 0.0))

        def bend(f: float) -> float:
            p = 1.0 / (1.0 + exp(min(abs(f - c), 700.0)))
            return min(max(1.5, 0.4 * abs(f - c)), 1.2 / sqrt((a + b) * p * (1.0 - p) + 1e-300))

        return Likely(odds, flat_odds, bend)
    if isinstance(known, StudentT):
        scale, df = arb(known.scale), arb(known.df)
        pole, width = known.scale * sqrt(known.df), known.scale

        def heavy(f: float) -> float:
            return -0.5 * (known.df + 1.0) * log1p(((t - f) / pole) ** 2)

        def narrow(f: float) -> float:
            return max(min(0.7 * pole, width), 0.4 * abs(t - f) / max(1.0, sqrt(known.df / 4.0)))

        return Likely(lambda f: student(scale, df, target - f), heavy, narrow, t)
    if isinstance(known, Gaussian):
        noise = float(np.ravel(known.noise_variance)[0])
        v = arb(noise)

        def gaussian(f: arb) -> list[arb]:
            rest = target - f
            return [-((2 * arb.pi() * v).log() + rest**2 / v) / 2, rest / v, -1 / v, arb(0), arb(0)]

        return Likely(gaussian, lambda f: -0.5 * (t - f) ** 2 / noise, lambda f: 1.2 * sqrt(noise))  # of a weight
    assert isinstance(known, Ordinal)
    sd = sqrt(known.noise_variance)
    below, above = _cuts(known, int(t))

    def level(f: arb) -> list[arb]:
        return [value.mid() for value in _level(known, int(t), f, arb(0))]

    def rough(f: float) -> float:
        worst = max(0.0, (f - above) / sd, (below - f) / sd)
        return -0.5 * worst**2 - log1p(worst)

    return Likely(level, rough, lambda f: max(0.8 * sd, 0.3 * min(f - below, above - f)))


def _cuts(known: Ordinal, level: int) -> tuple[float, float]:
    bounds = [-inf, *np.asarray(known.cuts, dtype=float).tolist(), inf]
    return bounds[level], bounds[level + 1]


def _level(known: Ordinal, level: int, mean: arb, variance: arb) -> Answer:
    """Return the log probability between two cuts and its derivatives in the mean: sums of Hermite polynomials."""
    below, above = _cuts(known, level)
    whole = variance + arb(known.noise_variance)
    scale = whole.sqrt()
    upper = None if above == inf else ((arb(above) - mean) / scale).mid()
    lower = None if below == -inf else ((arb(below) - mean) / scale).mid()
    root = arb(2).sqrt()
    # the tail in which both are small, so that the difference keeps its digits
    if lower is not None and lower > 0:
        mass = (lower / root).mid().erfc() / 2 - (arb(0) if upper is None else (upper / root).mid().erfc() / 2)
    else:
        first = arb(1) if upper is None else (-upper / root).mid().erfc() / 2
        mass = first - (arb(0) if lower is None else (-lower / root).mid().erfc() / 2)
    raw = []
    for k in range(4):
        total = arb(0)
        for z, sign in ((upper, -1), (lower, 1)):
            if z is not None:
                hermite = [arb(1), z, z**2 - 1, z**3 - 3 * z][k]
                total += sign * hermite * (-z * z / 2).exp()
        raw.append((total / (2 * arb.pi()).sqrt() / scale ** (k + 1) / mass).mid())
    m1, m2, m3, m4 = raw
    return Answer(
        *(
            value.mid()
            for value in (
                mass.log(),
                m1,
                m2 - m1**2,
                m3 - 3 * m1 * m2 + 2 * m1**3,
                m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4,
            )
        )
    )
