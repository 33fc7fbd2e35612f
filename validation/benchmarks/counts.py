"""Counts, tuned by maximum evidence with a length scale for each input, n = 1000: TAP and Laplace beside GPBoost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Poisson
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.types import Array
from validation.benchmarks.ard import N_TEST, D, N
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Result
from validation.benchmarks.peers import GPBOOST, absences, gpboost_counts
from validation.benchmarks.problems import SEED
from validation.benchmarks.searching import fit, search
from validation.benchmarks.timing import EVIDENCE, SCORE, STEPS, Benchmark, Case, in_turn
from validation.reporting.checks import Check, at_least, at_most

KERNEL = bgp.kernels.Gaussian(np.array([1.0, 1.5, 2.0, 3.0, 5.0]), 1.0)
"""From which the log rates are drawn."""
REPEATS = 3
TAP, LAPLACE, FIT, LAPLACE_FIT = "tap: search", "laplace: search", "tap: fit", "laplace: fit"
BOOST = "GPBoost, Laplace"
SAME = 1e-3
"""In nats, by which Laplace's evidence of GPBoost may be off ours at its own hyperparameters."""
REMARK = (
    "Poisson counts with a log link, log rates from a Gaussian kernel on five inputs from N(0, I). One descent by "
    "L-BFGS-B with exact gradients, from length scales e and variance 1 (GPBoost: from where it starts by itself). A "
    "search ends with the kernel and its solution, as GPBoost does; fit goes on to its container, with 4000 draws and "
    "leave-one-out. The log score is the mean log density of held-out counts, integrated over the latent mean and "
    "variance that each predicts. The evidences of Laplace are of one kind."
)


class Counts(NamedTuple):
    """Inputs and counts, to fit and held out."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


class Tuned(NamedTuple):
    """A kernel of highest log evidence, that evidence, latent means and variances at new inputs, and steps."""

    kernel: Kernel
    log_evidence: float
    latent: Callable[[Array], tuple[Array, Array]]
    steps: int | None = None


def drawn(n: int, n_test: int) -> Counts:
    """Return counts of one function drawn from the prior; more cases to fit leave the held-out inputs as they are."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n_test + n, D))
    values, vectors = np.linalg.eigh(KERNEL.gram(X))
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * (vectors.T @ rng.standard_normal(n_test + n)))
    y = rng.poisson(np.exp(f)).astype(np.float64)
    return Counts(X[n_test:], y[n_test:], X[:n_test], y[:n_test])


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time all, then hold them against what was asked."""
    data = drawn(N, N_TEST)
    table, found = tuned(data, REPEATS, advance)
    yield table
    yield Goals("What was asked of counts", goals(data, table, found))


def tuned(data: Counts, repeats: int, advance: Callable[[str], None]) -> tuple[Benchmark, dict[str, Tuned]]:
    """Time all on some data; return what each found, too."""
    found: dict[str, Tuned] = {}

    def numbers(case: str, made: Tuned) -> dict[str, float | None]:
        found[case] = made
        return {STEPS: made.steps, EVIDENCE: made.log_evidence, SCORE: score(data, made)}

    made = {name: Case(run, measure=partial(numbers, name)) for name, run in cases(data).items()}
    rows = in_turn(made, repeats, advance)
    title = f"Counts, hyperparameters by maximum evidence, n = {data.y.size}, {data.X.shape[1]} inputs"
    return Benchmark(title, rows, (REMARK, *absences(GPBOOST))), found


def cases(data: Counts) -> dict[str, Callable[[], Tuned]]:
    """Return what is timed, TAP's search first."""
    made: dict[str, Callable[[], Tuned]] = {
        TAP: partial(ours, data, search, "tap"),
        LAPLACE: partial(ours, data, search, "laplace"),
        FIT: partial(ours, data, fit, "tap"),
        LAPLACE_FIT: partial(ours, data, fit, "laplace"),
    }
    if GPBOOST.installed:
        made[BOOST] = partial(boosted, data)
    return made


def ours(data: Counts, how: Callable[..., tuple[Posterior, int]], method: str) -> Tuned:
    """Return what our search or fit finds."""
    posterior, steps = how(data.X, data.y, method, Poisson())
    return Tuned(posterior.kernel, posterior.log_evidence, posterior.latent, steps)


def boosted(data: Counts) -> Tuned:
    """Have GPBoost do it."""
    kernel, log_evidence, latent = gpboost_counts(data.X, data.y)
    return Tuned(kernel, log_evidence, latent)


def score(data: Counts, made: Tuned) -> float:
    """Return the mean log density of the held-out counts, in nats."""
    return float(np.mean(Poisson().log_partition(data.y_test, *made.latent(data.X_test)).value))


def goals(data: Counts, table: Benchmark, found: dict[str, Tuned]) -> list[Check]:
    """Return what was asked: less time than GPBoost, of the same model, with a score that is no worse."""
    peer, theirs = table.row(BOOST), found.get(BOOST)

    def over(name: str) -> float | None:
        row = table.row(name)
        return None if peer is None or row is None else peer.median / row.median

    off = above = None
    if theirs is not None:
        gram = theirs.kernel.gram(data.X)
        same = bgp.solve(gram, data.y, Poisson(), method="laplace").evidence.value
        off, above = abs(same - theirs.log_evidence), score(data, found[TAP]) - score(data, theirs)
    return [
        *(
            at_least(f"{BOOST} over {name}, time", over(name), 1.0, "times")
            for name in (TAP, LAPLACE, FIT, LAPLACE_FIT)
        ),
        at_most(f"{BOOST}: log evidence off ours of that kind, at its kernel", off, SAME, "nats"),
        at_least(f"log score of tap above {BOOST}", above, -0.01, "nats"),
    ]
