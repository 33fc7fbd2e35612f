"""Solutions for two and three cases, held against brute force; for `likelihoods_by_quadrature`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

import bayesgp_mf as bgp
from bayesgp_mf.errors import Status
from bayesgp_mf.types import Array
from validation.reporting.drawing import FIRST, SECOND, THIRD, axes_or_new, legend_above
from validation.tables.dense_grid import Moments, integrate
from validation.tables.paper_table import Entry
from validation.tables.quadrature_models import (
    FREEDOM,
    ONE_SWEEP,
    SOLVERS,
    SWEEPS,
    TAP,
    attempt,
    missing,
    poisson,
    student,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FROM_TAP = "sweeps from TAP's solution"
PAIR_GRAM = np.array([[4.0, 3.6], [3.6, 4.0]])
PAIR_SCALE = 0.2
PAIR_DISTANCES = np.arange(0.0, 8.1, 0.5)
SHOWN_DISTANCES = (2.0, 4.0, 6.0)


def three_counts() -> list[Entry]:
    """Return the errors for the counts 0, 3 and 9, whose log rates are correlated."""
    gram, t = bgp.kernels.Gaussian(1.0).gram(np.array([[-1.0], [0.0], [1.0]])), np.array([0.0, 3.0, 9.0])
    exact = integrate(gram, t, lambda count, f: stats.poisson.logpmf(count, np.exp(f)), half_width=8.0, points=201)
    problem = bgp.Problem(gram, t, poisson())
    entries = []
    for name in (TAP, ONE_SWEEP):
        found = _moments(problem, SOLVERS[name].solve(problem))
        off = np.abs(found.mean - exact.mean) / exact.sd
        entries += [
            Entry(f"Three counts, {name}: log evidence less the exact", None, found.log_evidence - exact.log_evidence),
            Entry(f"Three counts, {name}: largest error of a mean, in standard deviations", None, off.max()),
        ]
    return entries


class Pair(NamedTuple):
    """Two targets at nearly the same place, some way apart.

    Attributes
    ----------
    distance : float
        Of the targets.
    exact : Moments
        By brute force.
    found : dict
        For each solver its moments, or why it has none.
    negative : bool
        Whether TAP has a site of negative precision: a case that looks like an outlier.
    """

    distance: float
    exact: Moments
    found: dict[str, Moments | Status]
    negative: bool


def solve_pair(distance: float) -> Pair:
    """Solve two targets that far apart by each solver, and by brute force."""
    t = np.array([0.5, -0.5]) * distance
    exact = integrate(PAIR_GRAM, t, _student_by_scipy, half_width=14.0, points=1401)
    problem = bgp.Problem(PAIR_GRAM, t, student(PAIR_SCALE))
    solved = {name: attempt(solver, problem) for name, solver in SOLVERS.items()}
    tap = solved[TAP]
    solved[FROM_TAP] = tap if isinstance(tap, Status) else attempt(SOLVERS[SWEEPS], problem, tap)
    found = {name: one if isinstance(one, Status) else _moments(problem, one) for name, one in solved.items()}
    negative = not isinstance(tap, Status) and bool(np.any(tap.sites.site_precision < 0))
    return Pair(distance, exact, found, negative)


def _student_by_scipy(t: float, f: Array) -> Array:
    return np.asarray(stats.t.logpdf(t, FREEDOM, f, PAIR_SCALE))


def _moments(problem: bgp.Problem, solution: bgp.Solution) -> Moments:
    variance = np.diag(problem.gram) - solution.correction.quadratic_diagonal(problem.gram)
    return Moments(solution.evidence.value, problem.gram @ solution.alpha, np.sqrt(variance))


def pair_entries(pairs: list[Pair]) -> list[Entry]:
    """Count the solutions not reached, and show some distances."""
    entries = [missing(f"Pairs, {name}", [pair.found[name] for pair in pairs]) for name in (*SOLVERS, FROM_TAP)]
    negative = sum(pair.negative for pair in pairs)
    entries.append(Entry(f"Pairs, TAP: solutions with a negative site precision, of {len(pairs)}", None, negative))
    for pair in pairs:
        if pair.distance not in SHOWN_DISTANCES:
            continue
        where = f"Pair {pair.distance:g} apart"
        entries.append(Entry(f"{where}: exact standard deviation of the first", None, pair.exact.sd[0]))
        for name in SOLVERS:
            found = pair.found[name]
            if isinstance(found, Moments):
                off = found.log_evidence - pair.exact.log_evidence
                entries.append(Entry(f"{where}, {name}: standard deviation of the first", None, found.sd[0]))
                entries.append(Entry(f"{where}, {name}: log evidence less the exact", None, off))
    return entries


def pair_remark(pairs: list[Pair]) -> str:
    """Say what happens to the pairs."""
    lost = [pair.distance for pair in pairs if isinstance(pair.found[SWEEPS], Status)]
    negative = [pair.distance for pair in pairs if pair.negative]
    worst = max(pairs, key=lambda pair: _gap(pair, TAP))
    stay = sum(abs(_gap(pair, FROM_TAP) - _gap(pair, TAP)) < 1e-6 for pair in pairs)
    one_sweep = [found.sd[0] for pair in pairs if isinstance(found := pair.found[ONE_SWEEP], Moments)]
    return (
        "Pairs: two latent values with standard deviation 2 and correlation 0.9 under the prior, seen with Student's t "
        f"of scale {PAIR_SCALE:g}; exact by a sum over a dense grid. Targets far apart contradict each other, and the "
        "posterior has two modes. A solution of TAP's equations, with status CONVERGED, can then be a bad one: at a "
        f"distance of {worst.distance:g} its evidence is {_gap(worst, TAP):.2f} nats too high. The sign of it is a "
        f"negative site precision, {_span(negative)}. Sweeps reach no solution {_span(lost)}; started at TAP's they "
        f"stay there at {stay} of {len(pairs)} distances, so it solves their equations too. One sweep is sure of "
        f"itself at every distance: its standard deviation is {max(one_sweep):.2f} at most."
    )


def _span(distances: list[float]) -> str:
    return f"at distances from {min(distances):g} to {max(distances):g}" if distances else "at no distance"


def _gap(pair: Pair, name: str) -> float:
    """Log evidence less the exact, or -inf if there is none."""
    found = pair.found[name]
    return found.log_evidence - pair.exact.log_evidence if isinstance(found, Moments) else -np.inf


def plot_pairs(pairs: list[Pair]) -> Axes:
    """Draw the standard deviation of the first latent value against the distance."""
    ax = axes_or_new(None)
    ax.plot(PAIR_DISTANCES, [pair.exact.sd[0] for pair in pairs], color="black", linewidth=1.4, label="exact")
    for name, color, style in ((TAP, FIRST, "o-"), (ONE_SWEEP, SECOND, "s-"), (SWEEPS, THIRD, "x")):
        reached = [(pair.distance, found.sd[0]) for pair in pairs if isinstance(found := pair.found[name], Moments)]
        ax.plot(*np.transpose(reached), style, color=color, linewidth=1.2, markersize=4, label=name)
    ax.axhline(float(np.sqrt(PAIR_GRAM[0, 0])), color="black", linestyle=":", linewidth=1, label="prior")
    ax.set(xlabel="Distance of the two targets", ylabel="Standard deviation of f")
    legend_above(ax)
    return ax
