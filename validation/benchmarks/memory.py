"""Peak memory of one solution at fixed hyperparameters, ours beside other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peak import Peak, measure
from validation.benchmarks.peers import GPBOOST, GPY, SKLEARN, absences
from validation.benchmarks.problems import from_prior
from validation.benchmarks.scaling import KERNEL, LENGTHSCALE, VARIANCE, D
from validation.reporting.checks import at_most

SIZES = (1000, 2000, 4000)
CASES = {
    "tap, K given": (None, 4000),
    "tap, from inputs": (None, 4000),
    "fit and predict": (None, 2000),
    "scikit-learn, Laplace": (SKLEARN, 2000),
    "GPy, EP": (GPY, 1000),
    "GPBoost, Laplace": (GPBOOST, 2000),
}
"""By name in `peak.CASES`: the package it needs, and the largest size it is run at."""
GIVEN = "tap, K given"
REMARK = (
    "Largest resident memory of a fresh process, less that of the interpreter after all imports and after the same "
    "work on 20 cases, in units of an n x n matrix of doubles. K is counted: 1 is K alone. The data are those of the "
    "times at fixed hyperparameters. fit draws one latent function."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Measure each size in new processes, then hold it against what was asked."""
    data = from_prior(KERNEL, max(SIZES), 1, D)
    found: dict[tuple[str, int], Peak] = {}
    for n in SIZES:
        for name, (peer, largest) in CASES.items():
            if n <= largest and (peer is None or peer.installed):
                found[name, n] = measure(name, data.first(n), LENGTHSCALE, VARIANCE)
                advance(f"{name}, n = {n}")
    yield table(found)
    asked = found.get((GIVEN, 4000))
    value = None if asked is None else asked.matrices(4000)
    yield Goals(
        "What was asked of memory",
        [at_most("Peak memory of TAP at n = 4000, K in it", value, 3.5, "n^2 doubles")],
    )


def table(found: dict[tuple[str, int], Peak]) -> Listing:
    """Return one row for each case, with one column for each size."""
    sizes = sorted({n for _, n in found})
    rows = tuple(
        (name, *(f"{found[name, n].matrices(n):.2f}" if (name, n) in found else "-" for n in sizes))
        for name in CASES
        if any((name, n) in found for n in sizes)
    )
    numbers = [
        {
            "name": name,
            "n": n,
            "bytes": peak.bytes,
            "matrices": peak.matrices(n),
            "log_evidence": peak.values["log_evidence"],
        }
        for (name, n), peak in found.items()
    ]
    header = ("Peak memory, n^2 doubles", *(f"n = {n}" for n in sizes))
    return Listing(
        "Peak memory, fixed hyperparameters", header, rows, numbers, (REMARK, *absences(SKLEARN, GPY, GPBOOST))
    )
