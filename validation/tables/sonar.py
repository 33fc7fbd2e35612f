"""What the sonar tables and figures share: the data, the two kernels with one width for all inputs, and the scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.types import Array
from validation.tables.paper_table import Entry
from validation.tables.selection import Counts, Published, Split, choose, count, exact_loo_errors

Family: TypeAlias = Callable[[float, int], Kernel]
"""A kernel from sigma^2 and the number of inputs."""
SCAN = np.geomspace(0.04, 4.0, 401)
"""Widths sigma^2 of the Gaussian kernel. Figure 2 of the 2000 paper goes further down, where the estimate is higher."""


def load(exchange: bool = False) -> Split:
    """Return the split of Gorman and Sejnowski, standardised over what is then the training set."""
    return Split.of(bgp.datasets.load_sonar(exchange=exchange))


def gaussian(sigma2: float, d: int) -> Kernel:
    """Return the Gaussian kernel with w_l = 1/(sigma^2 d) (2000, section 8.1 and appendix B, item 3)."""
    return bgp.kernels.Gaussian(lengthscale=np.sqrt(sigma2 * d))


def infinite_net(sigma2: float, d: int) -> Kernel:
    """Return the arcsine kernel with w_l = sigma^2/d (1998, eq. 1 and section 5; 2000, appendix B, item 2)."""
    return bgp.kernels.NeuralNetwork(weight=sigma2 / d)


def compare(
    split: Split,
    family: Family,
    widths: Array,
    method: str,
    published: Published,
    label: str,
    advance: Callable[[str], None],
) -> tuple[list[Entry], str]:
    """Scan, choose, refit, and return the lines of the table and a paragraph on ties."""
    (n, d), n_test = split.X.shape, split.t_test.size
    scan = []
    for sigma2 in widths:
        scan.append(count(split, family(float(sigma2), d), method, float(sigma2)))
        advance(f"{label}, sigma^2 = {sigma2:.3g}")
    choice = choose(scan)
    best = choice.best
    advance(f"{label}: {n} refits")
    exact_errors = exact_loo_errors(split, family(best.value, d), method)
    finer = "; our scan finds a lower count than the paper's" if round(best.loo / n, 3) < published.loo else ""
    same = [c.value for c in scan if (round(c.test / n_test, 3), round(c.loo / n, 3)) == published[:2]]
    entries = [
        Entry(f"{label}: test error", published.test, best.test / n_test, f"{best.test} of {n_test}"),
        Entry(f"{label}: leave-one-out estimate", published.loo, best.loo / n, f"{best.loo} of {n}{finer}"),
        Entry(f"{label}: exact leave-one-out", published.exact, exact_errors / n, f"{exact_errors} of {n}"),
        Entry(f"{label}: sigma^2", None, best.value),
        Entry(f"{label}: number of sigma^2 scanned with the published test error and estimate", None, len(same)),
    ]
    stretches = " and ".join(_stretch(stretch) for stretch in choice.stretches)
    found = f"from {same[0]:.4f} to {same[-1]:.4f}" if same else "nowhere on the scan"
    return entries, (
        f"{label}: the least leave-one-out count, {best.loo}, is that of {stretches}. "
        f"The published pair of test error and estimate is found {found}."
    )


def _stretch(stretch: Sequence[Counts]) -> str:
    tests = sorted({counts.test for counts in stretch})
    errors = f"{tests[0]}" if len(tests) == 1 else f"{tests[0]} to {tests[-1]}"
    return f"sigma^2 from {stretch[0].value:.4f} to {stretch[-1].value:.4f} ({errors} test errors)"
