"""One solution at fixed hyperparameters beside one Cholesky factorisation, and beside other packages, as n grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import lapack

import bayesgp_mf as bgp
from bayesgp_mf.hyper.scores import KNOWN, KNOWN_IN_SEARCH
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Result
from validation.benchmarks.peers import (
    GPBOOST,
    GPY,
    PEERS,
    SKLEARN,
    absences,
    gpboost_at,
    gpy_ep,
    sklearn_laplace,
)
from validation.benchmarks.problems import Data, Fitted, from_prior
from validation.benchmarks.timing import EVIDENCE, Benchmark, Case, in_turn
from validation.reporting.checks import Check, at_least, at_most

REPEATS = {200: 15, 500: 9, 1000: 5, 2000: 3, 4000: 1}
"""By number of cases."""
LARGEST = {GPY.name: 1000, "the papers' scheme": 1000}
"""Cases up to which something is run at all."""
SAME = min(REPEATS)
"""Cases at which the evidences of other packages are held against ours of the same kind."""
N_TEST = 1000
D = 5
LENGTHSCALE, VARIANCE = np.full(D, 2.0), 4.0
KERNEL = bgp.kernels.Gaussian(LENGTHSCALE, VARIANCE)
CONTROL = Control(tolerance=1e-6, gram="dense")
IN_SEARCH = replace(CONTROL, evidence_tolerance=KNOWN_IN_SEARCH)
PAPER = Control(tolerance=1e-6, scheme="paper", max_iterations=100_000)

CHOLESKY, TAP, FROM_INPUTS, SCHEME = "dpotrf", "tap, K given", "tap, from inputs", "the papers' scheme"
SEARCH = "tap, as in a search"
LAPLACE, EP, BOOST = "scikit-learn, Laplace", "GPy, EP", "GPBoost, Laplace"
REMARK = (
    "For all sizes: five inputs from N(0, I), a Gaussian kernel with length scales 2 and variance 4, labels of one "
    "function drawn from it, through a probit with noise variance 1; smaller problems are the first cases of larger "
    "ones. All have this kernel and keep it. Tolerance 1e-6 for TAP and for the papers' scheme (by the site "
    "parameters) and for GPy (by its own measure). Where it is not said that K is given, the Gram matrix is in the "
    "time, as fit makes it, and for GPy the gradient too; where it is given, so is the check that it is a covariance. "
    f"A search over hyperparameters ends a solution when the log evidence is known to {KNOWN_IN_SEARCH:g} nats; how "
    "far off it is, and GPy's, stands below. The log score is the mean log probability of 1000 held-out labels. "
    "Evidences are of three kinds: that of expectation propagation (tap, the scheme, GPy), Laplace's with a probit "
    "(GPBoost) and Laplace's with a logistic function (scikit-learn)."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time each size, then say how times grow and what was asked of them."""
    data = from_prior(KERNEL, max(REPEATS), N_TEST, D)
    made: dict[int, Benchmark] = {}
    for n, repeats in REPEATS.items():
        remarks = (REMARK, *absences(*PEERS)) if n == max(REPEATS) else ()  # it is about all sizes
        rows = in_turn(cases(data.first(n)), repeats, advance)
        made[n] = Benchmark(f"Fixed hyperparameters, n = {n}", rows, remarks, unit="x dpotrf")
        yield made[n]
    yield Growth("How times grow with n, fixed hyperparameters", made)
    yield Goals(
        "What was asked of times at fixed hyperparameters", [*goals(made), *same_models(data.first(SAME), made)]
    )


def cases(data: Data) -> dict[str, Case]:
    """Return what is timed on some data, the factorisation first."""
    n, gram = data.t.size, KERNEL.gram(data.X)
    shifted = np.asfortranarray(gram + np.eye(n))
    made = {CHOLESKY: Case(partial(lapack.dpotrf, shifted, lower=1, clean=0))}

    def add(name: str, run: Callable[[], Fitted], single: int) -> None:
        """Add a case that is run only once from ``single`` cases on."""
        measure = partial(_numbers, data)
        made[name] = Case(run, measure=measure, repeats=1 if n >= single else None)

    never = max(REPEATS) + 1
    given = partial(bgp.Problem, gram, data.t, bgp.Probit())
    from_inputs = partial(assemble, KERNEL, data.X, data.t, bgp.Probit(), solver=get_method("tap"), control=CONTROL)
    add(TAP, partial(tap, data, given), never)
    add(FROM_INPUTS, partial(tap, data, from_inputs), never)
    add(SEARCH, partial(tap, data, from_inputs, IN_SEARCH), never)
    if n <= LARGEST[SCHEME]:
        add(SCHEME, partial(tap, data, given, PAPER), 500)
    where = data, LENGTHSCALE, VARIANCE
    if SKLEARN.installed:
        add(LAPLACE, partial(sklearn_laplace, *where), 2000)
    if GPY.installed and n <= LARGEST[GPY.name]:
        add(EP, partial(gpy_ep, *where), 500)
    if GPBOOST.installed:
        add(BOOST, partial(gpboost_at, *where), 2000)
    return made


def tap(data: Data, make: Callable[[], bgp.Problem], control: Control = CONTROL) -> Fitted:
    """Solve the TAP equations of the problem that is made."""
    problem = make()
    solution = get_method("tap").solve(problem, control)

    def predict(X: Array) -> Array:
        return bgp.Posterior(KERNEL, data.X, problem, solution).predict_proba(X)

    return Fitted(solution.evidence.value, predict, solution.info.n_iterations)


def _numbers(data: Data, fitted: Fitted) -> dict[str, float | None]:
    return fitted.numbers(fitted.predict(data.X_test), data)


def goals(made: dict[int, Benchmark]) -> list[Check]:
    """Return what was asked, with ratios of medians in this run."""

    def over(n: int, name: str, first: str) -> float | None:
        table = made.get(n)
        if table is None:
            return None
        row, other = table.row(name), table.row(first)
        return None if row is None or other is None else row.median / other.median

    def off(n: int, name: str) -> float | None:
        first, second = (evidence(n, key) for key in (name, TAP))
        return None if first is None or second is None else abs(first - second)

    def evidence(n: int, name: str) -> float | None:
        row = made[n].row(name) if n in made else None
        return None if row is None else row.numbers.get(EVIDENCE)

    return [
        at_most("TAP at n = 2000, K given", over(2000, TAP, CHOLESKY), 20.0, "x dpotrf"),
        at_most("TAP at n = 1000, K given", over(1000, TAP, CHOLESKY), 30.0, "x dpotrf"),
        *(
            at_least(
                f"scikit-learn's Laplace over TAP, from inputs, n = {n}", over(n, LAPLACE, FROM_INPUTS), 1.0, "times"
            )
            for n in made
            if n >= 500
        ),
        at_least("GPy's EP over TAP, as in a search, n = 1000", over(1000, EP, SEARCH), 100.0, "times"),
        at_least("GPy's EP over TAP, from inputs, n = 1000", over(1000, EP, FROM_INPUTS), 100.0, "times"),
        *(
            at_most(f"{name}: log evidence off that of tolerance 1e-6, n = 1000", off(1000, name), KNOWN, "nats")
            for name in (SEARCH, EP)
        ),
    ]


def same_models(data: Data, made: dict[int, Benchmark]) -> list[Check]:
    """Return how far evidences are from ours of the same kind: the times are of one model and one approximation."""
    table = made[data.t.size]
    kinds: dict[str, tuple[str, Likelihood]] = {
        LAPLACE: ("laplace", bgp.Logit()),
        EP: ("tap", bgp.Probit()),
        BOOST: ("laplace", bgp.Probit()),
    }
    found = []
    for name, (method, likelihood) in kinds.items():
        row = table.row(name)
        off = None
        if row is not None and (value := row.numbers[EVIDENCE]) is not None:
            ours = bgp.solve(KERNEL.gram(data.X), data.t, likelihood, method=method).evidence.value
            off = abs(value - ours)
        label = f"{name}: log evidence off ours of that kind, n = {data.t.size}"
        found.append(at_most(label, off, 1e-3, "nats"))
    return found
