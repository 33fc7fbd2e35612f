"""Any likelihood will do: robust regression and counts, with a likelihood given as a function.

The online algorithm asks a likelihood only for its average over a Gaussian, a one-dimensional integral, and for the
derivatives of that (thesis, eq. 53), and so applies to "a wide class of likelihoods" (thesis, discussion of chapter 2).
So do the mean-field equations. No figure of the papers shows it. Here it is done for targets with outliers under
Student's t, which is not log-concave, and for counts whose log rate is the latent function.

Each data set is solved by one online sweep, by sweeps until nothing changes, and by TAP. TAP is held against importance
sampling, and, for two or three cases, against the sum over a dense grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.errors import Status
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Gaussian, Likelihood
from bayesgp_mf.methods import METHODS, Solver
from bayesgp_mf.online import Online
from validation.reporting.drawing import FIRST, SECOND, axes_or_new, legend_above, plot_band
from validation.tables.few_cases import (
    PAIR_DISTANCES,
    Pair,
    pair_entries,
    pair_remark,
    plot_pairs,
    solve_pair,
    three_counts,
)
from validation.tables.making import main
from validation.tables.paper_table import Entry, PaperTable
from validation.tables.quadrature_models import (
    CASES,
    FREEDOM,
    GRID,
    ONE_SWEEP,
    SOLVERS,
    SWEEPS,
    TAP,
    Data,
    Fit,
    counts,
    missing,
    poisson,
    student,
    with_outliers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "likelihoods_by_quadrature"
DATA_SETS = 10
FEW, MANY = 0.15, 0.45
"""Shares of outliers."""
NOISE_SCALE = 0.1
SMOOTH = bgp.kernels.Gaussian(lengthscale=0.8)
LOG_RATE = bgp.kernels.Gaussian(lengthscale=1.0) + bgp.kernels.Bias(1.0)
GAUSSIAN_NOISE = np.geomspace(0.005, 2.0, 40)
"""Noise variances among which that of highest evidence is taken."""

Fits: TypeAlias = dict[str, list[Fit | Status]]


def make(advance: Callable[[str], None]) -> PaperTable:
    """Solve outliers, counts and pairs with every solver, and check."""
    few, many = ([with_outliers(seed, share) for seed in range(DATA_SETS)] for share in (FEW, MANY))
    robust = _solve(few, SMOOTH, student(NOISE_SCALE), SOLVERS, advance)
    overrun = _solve(many, SMOOTH, student(NOISE_SCALE), {TAP: SOLVERS[TAP], ONE_SWEEP: SOLVERS[ONE_SWEEP]}, advance)
    best = [_best_gaussian(data) for data in few]
    clean = [data.fit(SMOOTH, Gaussian(NOISE_SCALE**2), METHODS["exact"]) for data in few]
    advance("Gaussian likelihoods")
    rates = [counts(seed) for seed in range(DATA_SETS)]
    poisson_fits = _solve(rates, LOG_RATE, poisson(), SOLVERS, advance)
    pairs = [solve_pair(float(distance)) for distance in PAIR_DISTANCES]
    advance("pairs")
    by_order = {word: _less_tap(_ordered(few, sign), robust[TAP]) for word, sign in (("first", -1), ("last", 1))}
    advance("outliers first and last")
    entries = [
        *_all_quality(f"{FEW:.0%} outliers, Student", robust),
        *_quality(f"{FEW:.0%} outliers, Gaussian of highest evidence", best),
        *_quality(f"{FEW:.0%} outliers, Gaussian with the noise of the others", clean),
        *_evidence(f"{FEW:.0%} outliers, Student", robust),
        *_order_entries(by_order),
        *_all_quality(f"{MANY:.0%} outliers, Student", overrun),
        *_all_quality("Counts", poisson_fits),
        *_evidence("Counts", poisson_fits),
        *three_counts(),
        *pair_entries(pairs),
    ]
    return PaperTable(
        name=NAME,
        title="Any likelihood will do: outliers and counts (after Csato's thesis, chapter 2)",
        source="thesis, chapter 2",
        entries=tuple(entries),
        remarks=_remarks(robust, overrun, poisson_fits, by_order, pairs),
        figures=_figures(robust, best, poisson_fits, pairs),
    )


def _solve(
    data: list[Data], kernel: Kernel, likelihood: Likelihood, solvers: dict[str, Solver], advance: Callable[[str], None]
) -> Fits:
    fits: Fits = {}
    for name, solver in solvers.items():
        fits[name] = []
        for one in data:
            fits[name].append(one.fit(kernel, likelihood, solver))
            advance(name)
    return fits


def _best_gaussian(data: Data) -> Fit:
    """Return the Gaussian fit of highest evidence; it is in closed form."""
    fits = [data.fit(SMOOTH, Gaussian(float(variance)), METHODS["exact"]) for variance in GAUSSIAN_NOISE]
    return max(_reached(fits), key=lambda fit: fit.log_evidence)


def _reached(fits: Sequence[Fit | Status]) -> list[Fit]:
    return [fit for fit in fits if isinstance(fit, Fit)]


def _quality(name: str, fits: Sequence[Fit | Status]) -> list[Entry]:
    reached = _reached(fits)
    error = float(np.mean([fit.error for fit in reached]))
    coverage = float(np.mean([fit.coverage for fit in reached]))
    return [
        Entry(f"{name}: error of the mean", None, error, f"largest {_largest_error(fits):.4f}"),
        Entry(f"{name}: truth within two standard deviations", None, coverage),
    ]


def _largest_error(fits: Sequence[Fit | Status]) -> float:
    return max(fit.error for fit in _reached(fits))


def _all_quality(name: str, fits: Fits) -> list[Entry]:
    entries = []
    for solver, own in fits.items():
        entries.append(missing(f"{name}, {solver}", own))
        if solver != SWEEPS:  # where they reach a solution it is TAP's, as the lines on the evidence show
            entries += _quality(f"{name}, {solver}", own)
    return entries


def _evidence(name: str, fits: Fits) -> list[Entry]:
    tap = _reached(fits[TAP])
    sampled = [fit.importance() for fit in tap]
    off = [fit.log_evidence - value for fit, (value, _) in zip(tap, sampled, strict=True)]
    one, several = (_less_tap(fits[other], fits[TAP]) for other in (ONE_SWEEP, SWEEPS))
    return [
        Entry(f"{name}: log evidence of TAP less that by sampling, lowest", None, min(off)),
        Entry(f"{name}: log evidence of TAP less that by sampling, highest", None, max(off)),
        Entry(f"{name}: largest standard error of the sampling", None, max(error for _, error in sampled)),
        Entry(f"{name}: log evidence of one sweep less TAP's, lowest", None, min(one)),
        Entry(f"{name}: log evidence of one sweep less TAP's, highest", None, max(one)),
        Entry(f"{name}: log evidence of sweeps until solved less TAP's, largest size", None, np.abs(several).max()),
    ]


def _less_tap(fits: Sequence[Fit | Status], tap: Sequence[Fit | Status]) -> list[float]:
    """Log evidences less those of TAP, where both reached a solution."""
    both = zip(fits, tap, strict=True)
    return [fit.log_evidence - one.log_evidence for fit, one in both if isinstance(fit, Fit) and isinstance(one, Fit)]


def _ordered(data: list[Data], sign: int) -> list[Fit | Status]:
    """One sweep that takes in the outliers first (-1) or last (+1)."""
    orders = [np.argsort(sign * one.outlying.astype(int), kind="stable").tolist() for one in data]
    return [one.fit(SMOOTH, student(NOISE_SCALE), Online(order=order)) for one, order in zip(data, orders, strict=True)]


def _order_entries(by_order: Mapping[str, list[float]]) -> list[Entry]:
    entries = []
    for word, off in by_order.items():
        quantity = f"The same, outliers taken in {word}: log evidence of one sweep less TAP's"
        entries += [Entry(f"{quantity}, lowest", None, min(off)), Entry(f"{quantity}, highest", None, max(off))]
    return entries


def _remarks(
    robust: Fits, overrun: Fits, rates: Fits, by_order: Mapping[str, list[float]], pairs: list[Pair]
) -> tuple[str, ...]:
    reached = {solver: len(_reached(fits)) for solver, fits in robust.items()}
    return (
        f"{DATA_SETS} data sets of {CASES} cases, inputs uniform in [-4, 4] and in random order. Outliers: "
        f"sin(pi x)/(pi x), Gaussian noise of standard deviation {NOISE_SCALE:g}, and a share of the targets moved by "
        f"1 to 4; Student's t with {FREEDOM:g} degrees of freedom and scale {NOISE_SCALE:g}; a Gaussian kernel. "
        "Counts: Poisson with log rate 1 + 1.2 sin(x); a Gaussian kernel and a bias. Kernels are fixed, not tuned. "
        "Errors are root mean squares over [-4, 4]; they and the shares are means over the data sets whose solution "
        "was reached.",
        f"With {FEW:.0%} of outliers TAP under Student's t reaches a solution for {reached[TAP]} of the {DATA_SETS} "
        "data sets. The running evidence of one sweep is up to "
        f"{-min(_less_tap(robust[ONE_SWEEP], robust[TAP])):.0f} nats below that of TAP: an outlier that comes before "
        f"its neighbours is believed. With the outliers last it is off by {np.abs(by_order['last']).max():.1f} nats at "
        f"most, with the outliers first by {np.abs(by_order['first']).min():.0f} at least. Sweeps until solved reach a "
        f"solution, TAP's, for {reached[SWEEPS]} data sets: they start from what each target says on its own, while "
        "TAP comes from noisier models.",
        f"With {MANY:.0%} of outliers TAP reaches a solution for {len(_reached(overrun[TAP]))} data sets only, and "
        "says so. A solution that it does reach may follow the outliers: the largest error is "
        f"{_largest_error(overrun[TAP]):.2f}, with {FEW:.0%} of outliers {_largest_error(robust[TAP]):.2f}.",
        pair_remark(pairs),
        "Counts are the easy case: the likelihood is log-concave, and the sweeps reach TAP's solution for "
        f"{len(_reached(rates[SWEEPS]))} of {DATA_SETS} data sets.",
    )


def _figures(robust: Fits, best: list[Fit], rates: Fits, pairs: list[Pair]) -> tuple[tuple[str, Axes, str], ...]:
    return (
        (
            f"{NAME}_student",
            _plot_outliers(_reached(robust[TAP])[0], _reached(robust[ONE_SWEEP])[0]),
            "Student's t on the first data set: TAP with two standard deviations, and one online sweep.",
        ),
        (
            f"{NAME}_gaussian",
            _plot_outliers(best[0]),
            "The same targets under the Gaussian likelihood of highest evidence, with two standard deviations.",
        ),
        (
            f"{NAME}_counts",
            _plot_counts(_reached(rates[TAP])[0], _reached(rates[ONE_SWEEP])[0]),
            "Counts, first data set: TAP with two standard deviations of the log rate, and one online sweep.",
        ),
        (
            f"{NAME}_pairs",
            plot_pairs(pairs),
            "Pairs: standard deviation of the first latent value against the distance of the two targets. Where a mark "
            "is missing, no solution was reached.",
        ),
    )


def _plot_outliers(fit: Fit, one_sweep: Fit | None = None) -> Axes:
    ax = axes_or_new(None)
    ax.plot(GRID, fit.truth, color="black", linewidth=1.2, label="truth", zorder=2)
    plot_band(ax, GRID, fit.mean, 2.0 * fit.sd, FIRST, "mean ± 2 sd")
    if one_sweep is not None:
        ax.plot(GRID, one_sweep.mean, "--", color=SECOND, linewidth=1.4, label="one sweep", zorder=3)
    ax.plot(fit.posterior.X[:, 0], fit.posterior.problem.t, "o", color="black", markersize=2.5, label="targets")
    ax.set(xlabel="x", ylabel="f(x)", xlim=(-4.0, 4.0), ylim=(-4.5, 4.5))
    legend_above(ax)
    return ax


def _plot_counts(tap: Fit, one_sweep: Fit) -> Axes:
    ax = axes_or_new(None)
    ax.plot(GRID, np.exp(tap.truth), color="black", linewidth=1.2, label="true rate", zorder=2)
    low, middle, high = (np.exp(tap.mean + step * tap.sd) for step in (-2.0, 0.0, 2.0))
    ax.fill_between(GRID, low, high, color=FIRST, alpha=0.18, linewidth=0, zorder=1)
    ax.plot(GRID, middle, color=FIRST, linewidth=1.6, label="TAP ± 2 sd", zorder=3)
    ax.plot(GRID, np.exp(one_sweep.mean), "--", color=SECOND, linewidth=1.4, label="one sweep", zorder=3)
    ax.plot(tap.posterior.X[:, 0], tap.posterior.problem.t, "o", color="black", markersize=2.5, label="counts")
    ax.set(xlabel="x", ylabel="Rate", xlim=(-4.0, 4.0), ylim=(-0.5, None))
    legend_above(ax)
    return ax


if __name__ == "__main__":
    raise SystemExit(main(make))
