"""Rough fields: labels at places in a square; what low rank, inducing cases and dense matrices take and lose."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr, xlogy

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Gaussian, Kernel, Matern32
from bayesgp_mf.types import Array
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.problems import SEED

VARIANCE = 2.0
EXTENTS = (5, 20, 50)
"""Sides of the square, in length scales."""
NEW, WAVES, AT_ONCE = 2000, 4000, 250
LARGEST_DENSE, LARGEST_RANK, LARGEST_WORK = 1000, 10_000, 1e11
"""Cases of a dense matrix, and of one of low rank where the extent is beyond the first; n M^2 of inducing cases."""
INDUCING = (500, 1000, 2000)
HEADER = ("Kernel", "Length scale", "n", "Way", "Rank", "Fit, s", "Left to noise", "Evidence a case", "Lost a case")
REMARK = (
    "Labels at places uniform in a square of side one, a probit of a field of variance 2, at its hyperparameters. Fit: "
    "seconds of the processor. Lost: nats a case by which the log score of 2000 new places is below that of the true "
    "probabilities, expected over their labels; what the labels do not tell is part of it, and is the same in each row "
    "of a length scale and n."
)


def field(kernel: Kernel, X: Array, rng: np.random.Generator) -> Array:
    """Return a function ``(n,)`` of nearly the covariance of a kernel, as a sum of waves of its spectral density."""
    frequencies = rng.standard_normal((WAVES, 2)) / float(kernel.params["lengthscale"])
    if isinstance(kernel, Matern32):  # a Student's t of 3 degrees of freedom
        frequencies /= np.sqrt(rng.chisquare(3.0, (WAVES, 1)) / 3.0)
    phases = rng.uniform(0.0, 2.0 * np.pi, WAVES)
    some = (slice(start, start + AT_ONCE) for start in range(0, WAVES, AT_ONCE))
    total = sum(np.cos(X @ frequencies[each].T + phases[each]).sum(axis=1) for each in some)
    return np.asarray(np.sqrt(2.0 * float(kernel.params["variance"]) / WAVES) * total)


def lost(p: Array, true: Array) -> float:
    """Return the mean expected log score that is lost, in nats."""
    terms = xlogy(true, true / p) + xlogy(1.0 - true, (1.0 - true) / (1.0 - p))
    return float(np.mean(terms))


def ways(kernel: Kernel, extent: int, n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is tried: a name, and options of a fit."""
    if n <= LARGEST_DENSE:
        yield "dense", {"control": bgp.Control(gram="dense")}
    if isinstance(kernel, Gaussian):
        if n <= LARGEST_RANK or extent == EXTENTS[0]:
            yield "low rank", {"control": bgp.Control(gram="low_rank")}
    else:
        for number in INDUCING:
            if number < n and n * number**2 <= LARGEST_WORK:
                yield "inducing", {"inducing": number}


def measured(kernel: Kernel, n: int, X: Array, y: Array, new: tuple[Array, Array], options: dict[str, Any]) -> Any:
    """Return what a fit takes, and what it loses, or None if there is no such root."""
    start = time.process_time()
    try:
        idata = bgp.fit(X, y, kernel, draws=1, chains=1, random_seed=SEED, progress=False, **options)
    except bgp.LowRankError:
        return None
    seconds, fit = time.process_time() - start, idata["fit"]
    p = bgp.predict(idata, new[0], draws=False)["predictions"]["p"].values
    return {
        "rank": bgp.posterior(idata).parts[0].solution.info.rank or n,
        "seconds": seconds,
        "independent": float(fit["independent"]) if "independent" in fit else 0.0,
        "evidence": float(fit["log_evidence"]) / n,
        "lost": lost(p, new[1]),
    }


def benchmarks(
    advance: Callable[[str], None], sizes: Sequence[int] = (1000, 10_000, 100_000), extents: Sequence[int] = EXTENTS
) -> Iterator[Result]:
    """Measure each kernel, length scale, size and way."""
    bgp.fit([[0.0], [1.0]], [0, 1], Gaussian(), draws=1, chains=1)  # so that what is imported late is no part of a time
    rows, found = [], []
    for kind in (Gaussian, Matern32):
        for extent in extents:
            kernel = kind(1.0 / extent, VARIANCE)
            for n in sizes:
                rng = np.random.default_rng(SEED)
                places = rng.uniform(size=(n + NEW, 2))
                p = ndtr(field(kernel, places, rng))
                y = rng.uniform(size=p.size) < p
                for name, options in ways(kernel, extent, n):
                    advance(f"{kind.__name__}, 1/{extent}, {n} places, {name}")
                    one = measured(kernel, n, places[:n], y[:n], (places[n:], p[n:]), options)
                    head = (kind.__name__, f"1/{extent}", f"{n}", name)
                    found.append({"kernel": kind.__name__, "extent": extent, "n": n, "way": name, **(one or {})})
                    rows.append((*head, *(_words(one) if one else ("none", *"----"))))
    yield Listing("Rough fields", HEADER, tuple(rows), found, (REMARK,))


def _words(one: dict[str, Any]) -> tuple[str, ...]:
    numbers = (f"{one['rank']}", f"{one['seconds']:.1f}", f"{one['independent']:.1%}")
    return (*numbers, f"{one['evidence']:.4f}", f"{one['lost']:.4f}")
