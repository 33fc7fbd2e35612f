"""Large, smooth problems: two inputs, a known function, the low-rank path beside GPBoost's approximations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peak import Peak, measure
from validation.benchmarks.peers import GPBOOST, absences, gpboost_tuned
from validation.benchmarks.problems import Data, Fitted, smooth
from validation.benchmarks.timing import Benchmark, Case, Row, in_turn
from validation.reporting.checks import Check, at_least, at_most

TUNED, N_TEST = 10_000, 2000
REPEATS = 3
SIZES = (4000, 10_000, 20_000, 50_000, 100_000)
"""At fixed hyperparameters; at the first one the dense evidence is computed too."""
LENGTHSCALE, VARIANCE = np.full(2, 1.5), 4.0
"""Near those of highest evidence."""
OURS, FITC, VECCHIA = "tap, probit: fit", "GPBoost, FITC, 200 points", "GPBoost, Vecchia, 20 neighbours"
TUNED_REMARK = (
    "Two inputs, uniform in a square; labels of a known smooth function through a probit. One length scale and a "
    "variance. fit starts from length scale 1 and variance 1, draws one latent function, and chooses by itself to work "
    "with a Gram matrix of low rank; GPBoost starts from where it chooses and has Laplace's approximation. The log "
    "score is the mean log probability of {n_test} held-out labels; that of the true function is {true:.4f}."
)
FIXED_REMARK = (
    "Fixed hyperparameters (length scales 1.5, variance 4), the same function. Each row is a fresh process: time of "
    "fit with one draw, peak memory above the interpreter's of fit and prediction. The dense evidence is that of the "
    "full Gram matrix; the log score of the true function is {true:.4f}."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time tuning beside GPBoost, then fits at fixed hyperparameters as n grows."""
    data = smooth(TUNED, N_TEST)
    table, scores = tuned(data, REPEATS, advance)
    yield table
    fixed, off = at_fixed(SIZES, N_TEST, advance)
    yield listing(fixed, off, N_TEST)
    rows = {n: Row("tap, low rank", (peak.values["fit_seconds"],)) for n, peak in fixed.items()}
    tables = {n: Benchmark(f"n = {n}", (row,)) for n, row in rows.items()}
    yield Growth("How times grow with n, smooth problems at fixed hyperparameters", tables)
    yield Goals("What was asked of large problems", goals(table, scores, fixed, off))


def tuned(data: Data, repeats: int, advance: Callable[[str], None]) -> tuple[Benchmark, dict[str, float]]:
    """Return times of tuning, and by how many standard errors our log score is above that of others, by their name."""
    probabilities: dict[str, Array] = {}

    def numbers(name: str, fitted: Fitted) -> dict[str, float | None]:
        probabilities[name] = fitted.predict(data.X_test)
        return fitted.numbers(probabilities[name], data)

    cases = {OURS: Case(partial(fit, data), measure=partial(numbers, OURS))}
    if GPBOOST.installed:
        fitc = partial(gpboost_tuned, data, "gaussian", gp_approx="fitc", num_ind_points=min(200, data.t.size))
        vecchia = partial(gpboost_tuned, data, "gaussian", gp_approx="vecchia", num_neighbors=20)
        cases[FITC] = Case(fitc, measure=partial(numbers, FITC), repeats=1)
        cases[VECCHIA] = Case(vecchia, measure=partial(numbers, VECCHIA), repeats=1)
    rows = in_turn(cases, repeats, advance)
    assert data.true is not None
    remark = TUNED_REMARK.format(n_test=data.y_test.size, true=data.score(data.true))
    title = f"Hyperparameters by maximum evidence, a smooth function of two inputs, n = {data.t.size}"
    above = {}
    for name in probabilities.keys() - {OURS}:
        mean, error = data.score_difference(probabilities[OURS], probabilities[name])
        above[name] = mean / error
    return Benchmark(title, rows, (remark, *absences(GPBOOST))), above


def fit(data: Data) -> Fitted:
    """Fit by the user's door, with a single draw."""
    kernel = bgp.kernels.Gaussian(1.0)
    idata = bgp.fit(data.X, data.y, kernel, hyper=Evidence(starts=1), draws=1, chains=1, random_seed=1, progress=False)
    group = idata["fit"]
    steps = int(np.sum(group["hyper_n_evaluations"]))
    return Fitted(float(group["log_evidence"]), lambda X: bgp.posterior(idata).predict_proba(X), steps)


def at_fixed(sizes: tuple[int, ...], n_test: int, advance: Callable[[str], None]) -> tuple[dict[int, Peak], float]:
    """Return what each size takes in a process of its own, and by how much the first evidence is off the dense one."""
    fixed = {}
    for n in sizes:
        fixed[n] = measure("fit and predict", smooth(n, n_test), LENGTHSCALE, VARIANCE)
        advance(f"fixed hyperparameters, n = {n}")
    data = smooth(sizes[0], n_test)
    gram = bgp.kernels.Gaussian(LENGTHSCALE, VARIANCE).gram(data.X)
    dense = get_method("tap").solve(bgp.Problem(gram, data.t, bgp.Probit()))
    advance("dense evidence")
    return fixed, abs(fixed[sizes[0]].values["log_evidence"] - dense.evidence.value)


def listing(fixed: dict[int, Peak], off: float, n_test: int) -> Listing:
    """Return the table of fits at fixed hyperparameters."""
    first = min(fixed)
    rows = tuple(
        (
            f"{n}",
            f"{peak.values['fit_seconds']:.3g}",
            f"{peak.bytes / 2**20:.0f}",
            f"{peak.values['n_iterations']:.0f}",
            f"{peak.values['log_evidence']:.4f}",
            f"{off:.1e}" if n == first else "-",
            f"{peak.values['score']:.4f}",
        )
        for n, peak in fixed.items()
    )
    numbers = [
        {"n": n, "bytes": peak.bytes, "off_dense": off if n == first else None, **peak.values}
        for n, peak in fixed.items()
    ]
    header = ("Cases", "Fit, s", "Peak, MiB", "Steps", "Log evidence", "Off dense", "Log score")
    data = smooth(first, n_test)
    assert data.true is not None
    remark = FIXED_REMARK.format(true=data.score(data.true))
    return Listing("Large, smooth problems at fixed hyperparameters", header, rows, numbers, (remark,))


def goals(table: Benchmark, above: dict[str, float], fixed: dict[int, Peak], off: float) -> list[Check]:
    """Return what was asked, with times and scores of this run."""
    ours, asked = table.row(OURS), []
    assert ours is not None
    for name in (FITC, VECCHIA):
        row = table.row(name)
        ratio = None if row is None else ours.median / row.median
        asked += [
            at_most(f"n = {TUNED}, tuned: time over that of {name}", ratio, 1 / 3, "times"),
            at_least(f"n = {TUNED}, tuned: log score above {name}", above.get(name), -2.0, "standard errors"),
        ]
    twenty = fixed.get(20_000)
    seconds = None if twenty is None else twenty.values["fit_seconds"]
    memory = None if twenty is None else twenty.bytes / 2**30
    return [
        *asked,
        at_most("n = 20000, fixed: time", seconds, 30.0, "s"),
        at_most("n = 20000, fixed: peak memory", memory, 4.0, "GiB"),
        at_most(f"n = {min(fixed)}: evidence off that of the dense Gram matrix", off, 1e-4, "nats"),
    ]
