"""Searches for hyperparameters end at the highest evidence: default starts against 30 random ones on 40 problems."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.hyper import Evidence, EvidenceScore, Objective, Target
from bayesgp_mf.hyper.optimise import descend, maximise
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import get_method
from bayesgp_mf.reports.page import Block, Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.studies.study import Findings, Study, Task

PROBLEMS = 40
SIZES = (30, 300)
"""Cases, spaced evenly in the logarithm."""
RANDOM = 30
"""Starts of which the highest end is the truth, with all other ends."""
SEED = 34
WITHIN = 0.01
"""In nats: so near to the highest evidence that is known a search has found it."""
SHARE = 0.95
"""Of the searches that must have found it."""
FAR = (0.03, 30.0)
"""Length scale with which a search begins, over the spread of the inputs: what a user has who looked at no scale."""
OLD_SPREAD = 1.0
"""Standard deviation of the logarithms around the kernel from which two of three searches of old began."""
LIKELIHOODS: tuple[tuple[Likelihood, int], ...] = (
    (likelihoods.Probit(), 300),
    (likelihoods.Poisson(), 80),
    (likelihoods.Gaussian(0.1), 300),
    (likelihoods.Logit(), 300),
    (likelihoods.NegativeBinomial(2.0), 50),
    (likelihoods.StudentT(0.3, 4.0), 30),
    (likelihoods.Ordinal((-0.5, 0.5)), 300),
    (likelihoods.Binomial(8), 200),
    (likelihoods.Probit(0.5, 0.05), 200),
    (likelihoods.MultinomialProbit(), 60),
    (likelihoods.Softmax(), 90),
)
"""With the largest number of cases: numerical integrals, and several latent values of a case, take their time."""
LOWEST = -1e9
"""Stands for the end of a descent whose start had no solution."""
KINDS = ("default", "old")
CLASSES = ("0", "1", "2")
FOLDS = 10
FIRST = (0.3, 3.0)
"""Length scales with which the searches on Insurance begin."""
HOLDERS = (
    (197, 264, 246, 1680), (284, 536, 696, 3582), (133, 286, 355, 1640), (24, 71, 99, 452),
    (85, 139, 151, 931), (149, 313, 419, 2443), (66, 175, 221, 1110), (9, 48, 72, 322),
    (35, 73, 89, 648), (53, 155, 240, 1635), (24, 78, 121, 692), (7, 29, 43, 245),
    (20, 33, 40, 316), (31, 81, 122, 724), (18, 39, 68, 344), (3, 16, 25, 114),
)  # fmt: skip
CLAIMS = (
    (38, 35, 20, 156), (63, 84, 89, 400), (19, 52, 74, 233), (4, 18, 19, 77),
    (22, 19, 22, 87), (25, 51, 49, 290), (14, 46, 39, 143), (4, 15, 12, 53),
    (5, 11, 10, 67), (10, 24, 37, 187), (8, 19, 24, 101), (3, 2, 8, 37),
    (2, 5, 4, 36), (7, 10, 22, 102), (5, 7, 16, 63), (0, 6, 8, 33),
)  # fmt: skip
"""Policies of third-party car insurance in 1973, and claims (Baxter, Coutts and Ross 1980; ``Insurance`` in MASS): a
row for each of four districts and, in it, four sizes of the engine, with four ages of the driver."""


def drawn(number: int) -> Target:
    """Return a problem: targets of a function drawn from a kernel, and a search that begins far from that."""
    rng = np.random.default_rng([SEED, number])
    likelihood, most = LIKELIHOODS[number % len(LIKELIHOODS)]
    n = min(int(SIZES[0] * (SIZES[1] / SIZES[0]) ** (number / (PROBLEMS - 1))), most)
    d = int(rng.integers(1, 5))
    X = rng.standard_normal((n, d)) if rng.random() < 0.6 else rng.integers(0, 4, (n, d)).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    shape: Any = (kernels.Gaussian, kernels.Matern32, kernels.Matern52)[rng.integers(3)]
    lengths = np.exp(rng.uniform(np.log(0.2), np.log(4.0)) + 0.5 * rng.standard_normal(d))
    truth = shape(lengths, np.exp(rng.uniform(-1.0, 2.0))) + kernels.Bias(0.3)
    values, vectors = np.linalg.eigh(truth.gram(X))
    classes = (len(CLASSES),) if likelihood.has_classes else ()
    f = (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.standard_normal((n, *classes))
    likelihood = likelihood.with_classes(CLASSES) if classes else likelihood
    counts = isinstance(likelihood, (likelihoods.Poisson, likelihoods.NegativeBinomial))
    offset = rng.uniform(0.0, 4.0, n) if counts else None
    t = likelihood.sample(f if offset is None else f + offset, rng)
    first = np.exp(rng.uniform(*np.log(FAR)))
    kernel = shape(first * np.ones(d) if rng.random() < 0.4 else first) + kernels.Bias()
    return _target(X, t, kernel, by_case(likelihood, offset, None))


def insured(fold: int, first: float) -> Target:
    """Return nine tenths of Insurance, each code as columns of zeros and ones, and a search from a length scale."""
    codes = np.indices((4, 4, 4)).reshape(3, -1)
    X = np.concatenate([code[:, None] == np.arange(4) for code in codes], axis=1).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kept = np.random.default_rng(SEED).permutation(64) % FOLDS != fold
    likelihood = by_case(likelihoods.Poisson(), np.log(np.ravel(HOLDERS)[kept]), None)
    kernel = kernels.Gaussian(first) + kernels.Bias()
    return _target(X[kept], np.ravel(CLAIMS)[kept].astype(float), kernel, likelihood)


def _target(X: Array, t: Array, kernel: Kernel, likelihood: Likelihood) -> Target:
    method = "laplace" if isinstance(likelihood, likelihoods.Softmax) else "tap"
    return Target(X, t, likelihood, kernel, get_method(method, likelihood))


def searched(number: int) -> dict[str, Any]:
    """Return where default starts, those of old, and random ones end on a problem, in nats."""
    target = drawn(number)
    rng = np.random.default_rng([SEED, number, 1])
    short, long = target.spans
    starts = target.start + OLD_SPREAD * rng.standard_normal((RANDOM, target.start.size))
    between = short + (long - short) * rng.random(starts.shape)
    random = _ends(target, np.where(np.isfinite(short), between, starts))
    return {
        "cases": target.t.size,
        "likelihood": target.likelihood.display_name,
        "random": random,
        **_default_and_old(target, rng),
    }


def searched_insurance(fold: int) -> dict[str, Any]:
    """Return where default starts and those of old end on a fold of Insurance, from each of `FIRST`."""
    rng = np.random.default_rng([SEED, fold, 2])
    return {f"{first}": _default_and_old(insured(fold, first), rng) for first in FIRST}


def _default_and_old(target: Target, rng: np.random.Generator) -> dict[str, Any]:
    """Return the highest log evidence from the default starts, and from the kernel and two random points around it."""
    objective = Objective(target, EvidenceScore(KNOWN_IN_SEARCH))
    with warnings.catch_warnings():
        for kind in (bgp.BoundWarning, bgp.ConvergenceWarning):  # of a bound, or of ends that differ
            warnings.simplefilter("ignore", kind)
        best, _ = maximise(objective, starts=Evidence().starts, rng=rng, advance=lambda _: None)
    around = target.start + OLD_SPREAD * rng.standard_normal((2, target.start.size))
    return {"default": best.value, "old": max(_ends(target, np.vstack([target.start, around])))}


def _ends(target: Target, starts: Array) -> list[float]:
    """Return the log evidence at the end of a descent from each point."""
    objective, ends = Objective(target, EvidenceScore(KNOWN_IN_SEARCH)), [-np.inf]
    for start in starts:
        ends.append(descend(objective, start, lambda _: None, max(ends)).value)
    return [end if np.isfinite(end) else LOWEST for end in ends[1:]]


def conclude(results: Mapping[str, Any]) -> Findings:
    """Count the searches that ended at the highest log evidence that is known."""
    of_problems = [results[f"problem {number}"] for number in range(PROBLEMS)]
    highest = [max(found["default"], found["old"], *found["random"]) for found in of_problems]
    missed = {kind: [high - found[kind] for high, found in zip(highest, of_problems, strict=True)] for kind in KINDS}
    folds = [results[f"Insurance, fold {fold}"] for fold in range(FOLDS)]
    insurance: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for fold in folds:
        best = max(found[kind] for found in fold.values() for kind in KINDS)
        for kind in KINDS:
            insurance[kind] += [best - found[kind] for found in fold.values()]
    blocks: tuple[Block, ...] = (
        f"{PROBLEMS} searches for the highest log evidence, under all likelihoods, from a kernel whose length scale "
        f"may be far from the distances in the data; and {FOLDS} folds of Insurance, each from the length scales "
        f"{' and '.join(map(str, FIRST))}. The highest that is known is that of all ends, those of {RANDOM} random "
        "starts among them. The control is where all but the first start lie around the kernel.",
        Table(
            f"Problems of which a search missed more than {WITHIN} nats.",
            (
                "Problem",
                "Likelihood",
                "Cases",
                "Default starts",
                "Starts around the kernel",
                "Random starts that found",
            ),
            [
                (
                    f"{number}",
                    found["likelihood"],
                    f"{found['cases']}",
                    f"{missed['default'][number]:.3f}",
                    f"{missed['old'][number]:.3f}",
                    f"{sum(high - end <= WITHIN for end in found['random'])}",
                )
                for number, (found, high) in enumerate(zip(of_problems, highest, strict=True))
                if max(missed[kind][number] for kind in KINDS) > WITHIN
            ],
        ),
    )
    return Findings(checks_of(missed, insurance), blocks)


def checks_of(problems: Mapping[str, list[float]], insurance: Mapping[str, list[float]]) -> tuple[Check, ...]:
    """Return the checks, by what each kind of starts missed in nats: the default ones find it, those of old do not."""
    return (
        at_least(f"default starts: share within {WITHIN} nats", _share(problems["default"]), SHARE),
        at_most("control, starts around the kernel: share", _share(problems["old"]), SHARE - 1.0 / PROBLEMS),
        at_least(f"Insurance, default starts: share within {WITHIN} nats", _share(insurance["default"]), SHARE),
        at_most("Insurance, control: share", _share(insurance["old"]), SHARE - 1.0 / PROBLEMS),
    )


def _share(missed: list[float]) -> float:
    return float(np.mean(np.array(missed) <= WITHIN))


STUDY = Study(
    "starts",
    "Searches that stop short",
    [
        *(
            Task(f"problem {number}", searched, {"number": number}, 1.0 + number / PROBLEMS)
            for number in range(PROBLEMS)
        ),
        *(Task(f"Insurance, fold {fold}", searched_insurance, {"fold": fold}, 0.1) for fold in range(FOLDS)),
    ],
    conclude,
)
