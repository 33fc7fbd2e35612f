"""Pima: test errors and leave-one-out of TAP, naive mean field and the SVM (2000, table 2; rows of 1996, table 1).

As in the paper: the widths w_l are those of Williams and Barber, by Laplace's approximation; then kernel noise and
threshold are scanned for the least leave-one-out estimate. Beside it other ways to find the hyperparameters, each
method's own evidence among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Gaussian, Kernel
from validation.reporting.drawing import BAND, FIRST, SECOND, axes_or_new, legend_above
from validation.tables import crabs_and_pima as common
from validation.tables.crabs_and_pima import Hyperparameters, Scanned
from validation.tables.making import main
from validation.tables.paper_table import Entry, PaperTable
from validation.tables.selection import NAMES, RULE, Published, Split, describe_scan, exact_loo_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "pima_2000_table_2"
NOISES = np.geomspace(0.01, 1.0, 49)
"""Up to the kernel's own variance v_0 = 1."""
THRESHOLDS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
WIDE_NOISES = np.geomspace(0.01, 10.0, 73)
"""As dense, and ten times as far."""
LAPLACE = 69
PUBLISHED = {"tap": Published(63, 51, 50), "naive": Published(64, 49, 49), "svm": Published(66, 50, 50)}
"""Errors of 332 and of 200. Leave-one-out is printed as rates: estimates 0.255, 0.245, 0.250, exact 0.250 for TAP."""


def make(advance: Callable[[str], None]) -> PaperTable:
    """Regenerate the table."""
    pima = bgp.datasets.load_pima()
    split = Split.of(pima)
    by_map, by_ml = common.laplace_map(split), common.laplace_ml(split)
    widths = by_map.params["lengthscale"]
    entries, wide, spreads = [], {}, []
    for method in NAMES:
        scanned = common.scan(split, widths, method, NOISES, THRESHOLDS, advance)
        entries += _main_entries(split, method, scanned)
        spreads.append(_spread(method, scanned, split.t.size))
    for name, kernel in (("MAP", by_map), ("ML-II", by_ml)):
        _, errors = common.fit(split, kernel, bgp.Logit(), "laplace")
        entries.append(Entry(f"Laplace, {name}: test errors", LAPLACE, errors))
    for method in NAMES:
        wide[method] = common.scan(split, widths, method, WIDE_NOISES, advance=advance)
        entries += _variant(method, "threshold 0, noise up to 10", wide[method])
    for method in NAMES:
        scanned = common.scan(split, by_ml.params["lengthscale"], method, NOISES, advance=advance)
        entries += _variant(method, "threshold 0, widths of Laplace ML-II", scanned)
    entries += _evidence_entries(split, advance)
    return PaperTable(
        NAME,
        "Pima: test and leave-one-out errors (Opper & Winther 2000, table 2; Barber & Williams 1996, table 1)",
        "2000, table 2",
        tuple(entries),
        _remarks(pima.feature_names, by_map, by_ml, spreads, wide),
        tuple(
            (f"{NAME}_noise_{method}", _draw(method, scanned, split), f"{NAMES[method]}: {_CAPTION}")
            for method, scanned in wide.items()
        ),
    )


def _main_entries(split: Split, method: str, scanned: Scanned) -> list[Entry]:
    name, published, best = NAMES[method], PUBLISHED[method], scanned.choice.best
    lowest, highest = scanned.choice.tests
    same = [c for c in scanned.counts if (c.test, c.loo) == published[:2]]
    near = [c for c in scanned.counts if abs(c.test - published.test) <= 2 and abs(c.loo - published.loo) <= 1]
    exact = exact_loo_errors(split, scanned.chosen.kernel, method)
    return [
        Entry(f"{name}: test errors", published.test, best.test, _setting(scanned.chosen)),
        Entry(f"{name}: leave-one-out estimate, errors", published.loo, best.loo),
        Entry(f"{name}: exact leave-one-out, errors", published.exact, exact),
        Entry(f"{name}: least test errors where the estimate is least", None, lowest),
        Entry(f"{name}: most test errors where the estimate is least", None, highest),
        Entry(f"{name}: settings of the scan with the published test errors and estimate", None, len(same)),
        Entry(f"{name}: settings within two test errors and one leave-one-out error of it", None, len(near)),
    ]


def _setting(at: Hyperparameters) -> str:
    return f"v_2 = {at.noise:.3g}, v_1 = {at.threshold:g}"


def _variant(method: str, words: str, scanned: Scanned) -> list[Entry]:
    best, (lowest, highest) = scanned.choice.best, scanned.choice.tests
    note = _setting(scanned.chosen)
    if lowest < highest:
        note += f"; {lowest} to {highest} where the estimate is least"
    return [
        Entry(f"{NAMES[method]}, {words}: test errors", PUBLISHED[method].test, best.test, note),
        Entry(f"{NAMES[method]}, {words}: leave-one-out estimate, errors", PUBLISHED[method].loo, best.loo),
    ]


def _evidence_entries(split: Split, advance: Callable[[str], None]) -> Iterator[Entry]:
    start = common.uniform_start(split)
    shared = Gaussian(start.params["lengthscale"][0])
    for method in ("tap", "naive"):
        ways = {
            "": common.by_evidence(split, start, method),
            ", with threshold": common.by_evidence(split, start, method, threshold=True),
            ", one width for all inputs": common.by_evidence(split, shared, method),
        }
        advance(f"evidence, {NAMES[method]}")
        for words, found in ways.items():
            yield _hybrid(split, method, f"its own evidence{words}", found)
        yield _hybrid(split, "svm", f"evidence of {NAMES[method]}", ways[""])


def _hybrid(split: Split, method: str, words: str, at: Hyperparameters) -> Entry:
    _, errors = common.fit_at(split, at, method)
    return Entry(f"{NAMES[method]}, {words}: test errors", PUBLISHED[method].test, errors)


def _spread(method: str, scanned: Scanned, n: int) -> str:
    least = scanned.choice.best.loo
    standard_error = np.sqrt(least * (1.0 - least / n))
    tests = [c.test for c in scanned.counts if c.loo <= least + standard_error]
    return (
        f"{NAMES[method]}: the least estimate is {least}, its standard error {standard_error:.1f}; {len(tests)} of "
        f"{len(scanned.counts)} settings are within one of these, with {min(tests)} to {max(tests)} test errors, "
        f"{np.mean(tests):.1f} on average."
    )


def _remarks(
    features: Sequence[str], by_map: Kernel, by_ml: Kernel, spreads: Sequence[str], wide: Mapping[str, Scanned]
) -> tuple[str, ...]:
    widths = [
        f"{name}: {common.describe_scales(found['lengthscale'], features)}, v_0 = {found['variance']:.3g}."
        for name, found in (("MAP", by_map.params), ("ML-II", by_ml.params))
    ]
    thresholds = ", ".join(f"{threshold:g}" for threshold in THRESHOLDS)
    least = ", ".join(f"{scanned.choice.best.loo} ({NAMES[method]})" for method, scanned in wide.items())
    published_least = ", ".join(f"{published.loo:g}" for published in PUBLISHED.values())
    published_tests = [published.test for published in PUBLISHED.values()]
    return (
        "200 training and 332 test cases, inputs standardised over the training set, Gaussian kernel with v_0 = 1, "
        "step likelihood. The paper takes the widths w_l from Williams and Barber, who found them by Laplace's "
        "approximation with a logistic likelihood, and scans the rest, noise v_2 and threshold v_1, for the least "
        "leave-one-out estimate. Their paper of 1996 puts a normal prior on each log hyperparameter, mean -3 and "
        "standard deviation 3 (MAP); the 2000 paper says maximum likelihood II. The first lines use MAP; "
        f"ML-II stands below. {' '.join(widths)}",
        f"Scan: {describe_scan('v_2', NOISES)}, and v_1 in {thresholds}: neither above the kernel's own variance. "
        f"{RULE} With noise up to {WIDE_NOISES[-1]:g} the least estimates are {least}, against {published_least} in "
        "the paper: with these widths it can hardly have scanned so far.",
        f"The estimate hardly chooses here. {' '.join(spreads)} The published test errors differ by "
        f"{max(published_tests) - min(published_tests):g} between the three. So a few errors more or less say little; "
        "whether the scan has a setting with the published numbers is counted above.",
        "The lines on evidence tune all w_l and v_2 together by the method's own evidence, as the 1999 paper does. The "
        "SVM has none; it is given those of the other two, as section 9 of the 2000 paper proposes. The row on hybrid "
        "Monte Carlo (68 errors) and those on other people's methods are not made here.",
    )


_CAPTION = (
    "shares of test errors (full) and of errors by the leave-one-out estimate (dashed) against the kernel noise, "
    "threshold 0, widths by Laplace's approximation (MAP). Thin level lines: the published shares. Grey: more "
    "noise than the kernel's own variance, where the scan of the table does not go."
)


def _draw(method: str, scanned: Scanned, split: Split) -> Axes:
    ax = axes_or_new(None)
    published, noise = PUBLISHED[method], [c.value for c in scanned.counts]
    for numbers, level, n, line, color, label in (
        ([c.test for c in scanned.counts], published.test, split.t_test.size, "-", FIRST, "test"),
        ([c.loo for c in scanned.counts], published.loo, split.t.size, "--", SECOND, "leave-one-out"),
    ):
        ax.plot(noise, np.array(numbers) / n, line, color=color, linewidth=1.4, label=label)
        ax.axhline(level / n, linestyle=line, color=color, linewidth=0.6)
    ax.axvspan(NOISES[-1], noise[-1], color=BAND, zorder=0)
    ax.set(xscale="log", xlim=(noise[0], noise[-1]), xlabel="Noise $v_2$", ylabel="Share of errors")
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
