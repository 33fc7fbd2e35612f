"""Hyperparameters by maximum evidence, a length scale for each input, ours beside other packages: Pima and n = 1000."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, Target
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Result
from validation.benchmarks.peers import GPBOOST, SKLEARN, absences, gpboost_tuned, sklearn_laplace
from validation.benchmarks.problems import Data, Fitted, from_prior, pima
from validation.benchmarks.timing import Benchmark, Case, in_turn
from validation.reporting.checks import Check, at_least, at_most

KERNEL = bgp.kernels.Gaussian(np.array([1.0, 1.5, 2.0, 3.0, 5.0]), 4.0)
"""From which the larger problem is drawn."""
N, N_TEST, D = 1000, 1000, 5
REPEATS = {"Pima": 5, "n = 1000": 1}
START = np.e
"""Length scale at which our searches and scikit-learn's start, with variance 1; GPBoost chooses its own."""
FIT, SEARCH, LAPLACE = "tap, probit: fit", "tap, probit: search", "laplace, logit: search"
SK, BOOST = "scikit-learn, Laplace, logit", "GPBoost, Laplace, probit"
REMARK = (
    "One descent by L-BFGS-B with exact gradients, from length scales e and variance 1 (GPBoost: from where it starts "
    "by itself). A search ends with the kernel and its solution, as the other packages do; fit goes on to its "
    "container, with 4000 draws of all latent values and of labels, their densities, and leave-one-out. Steps are "
    "solutions with their gradients. The log score is the mean log probability of the held-out labels. Evidences are "
    "of several kinds, which are not to be compared."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time both problems, then hold them against what was asked."""
    made: dict[str, Tuned] = {}
    for name, repeats in REPEATS.items():
        data = pima() if name == "Pima" else from_prior(KERNEL, N, N_TEST, D)
        made[name] = tuned(name, data, repeats, advance)
        yield made[name].table
    yield Goals("What was asked of tuning", goals(made))


class Tuned(NamedTuple):
    """Data, times, and the probabilities of the held-out cases by the name of the case."""

    data: Data
    table: Benchmark
    probabilities: dict[str, Array]

    def above(self, peer: str) -> float | None:
        """Return by how many standard errors our log score is above that of a peer; None where it is absent."""
        if peer not in self.probabilities:
            return None
        mean, error = self.data.score_difference(self.probabilities[SEARCH], self.probabilities[peer])
        return mean / error

    def over(self, peer: str) -> float | None:
        """Return how many times as long as our search a peer takes; None where it is absent."""
        row, ours = self.table.row(peer), self.table.row(SEARCH)
        return None if row is None or ours is None else row.median / ours.median


def tuned(name: str, data: Data, repeats: int, advance: Callable[[str], None]) -> Tuned:
    """Time all on one problem."""
    probabilities: dict[str, Array] = {}

    def numbers(case: str, fitted: Fitted) -> dict[str, float | None]:
        probabilities[case] = fitted.predict(data.X_test)
        return fitted.numbers(probabilities[case], data)

    made = {case: Case(run, measure=partial(numbers, case)) for case, run in cases(data).items()}
    rows = in_turn(made, repeats, advance)
    title = f"Hyperparameters by maximum evidence, {name}, {data.X.shape[1]} inputs"
    last = (REMARK, *absences(SKLEARN, GPBOOST)) if name == list(REPEATS)[-1] else ()  # it is about both
    remarks = (*_differences(data, probabilities), *last)
    return Tuned(data, Benchmark(title, rows, remarks), probabilities)


def cases(data: Data) -> dict[str, Callable[[], Fitted]]:
    """Return what is timed on some data, our search first."""
    start = np.full(data.X.shape[1], START)
    made: dict[str, Callable[[], Fitted]] = {
        SEARCH: partial(search, data, "tap", bgp.Probit()),
        FIT: partial(fit, data),
        LAPLACE: partial(search, data, "laplace", bgp.Logit()),
    }
    if SKLEARN.installed:
        made[SK] = partial(sklearn_laplace, data, start, 1.0, tune=True)
    if GPBOOST.installed:
        made[BOOST] = partial(gpboost_tuned, data)
    return made


def search(data: Data, method: str, likelihood: Likelihood) -> Fitted:
    """Find the hyperparameters of highest evidence, and the solution there."""
    kernel = bgp.kernels.Gaussian(np.full(data.X.shape[1], START))
    target = Target(data.X, data.t, likelihood, kernel, get_method(method))
    with warnings.catch_warnings():  # inputs that hardly matter run to the end of the search
        warnings.simplefilter("ignore", bgp.BoundWarning)
        found = Evidence(starts=1).choose(target, np.random.default_rng(1), lambda note: None)
    (best,) = found.models
    problem = target.problem_at(best)
    posterior = bgp.Posterior(best.kernel, data.X, problem, target.solver.solve(problem))
    return Fitted(posterior.log_evidence, posterior.predict_proba, int(np.sum(found.record["hyper_n_evaluations"][1])))


def fit(data: Data) -> Fitted:
    """Do the same by the user's door, container and all."""
    kernel = bgp.kernels.Gaussian(np.full(data.X.shape[1], START))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bgp.BoundWarning)
        idata = bgp.fit(data.X, data.y, kernel, hyper=Evidence(starts=1), random_seed=1, progress=False)
    group = idata["fit"]
    steps = int(np.sum(group["hyper_n_evaluations"]))
    return Fitted(float(group["log_evidence"]), lambda X: bgp.posterior(idata).predict_proba(X), steps)


def _differences(data: Data, probabilities: dict[str, Array]) -> tuple[str, ...]:
    """Say by how much our log score is above that of each peer."""
    parts = []
    for name in (SK, BOOST):
        if name in probabilities:
            mean, error = data.score_difference(probabilities[SEARCH], probabilities[name])
            parts.append(f"{mean:+.4f} ({error:.4f}) above {name}")
    if not parts:
        return ()
    return (
        f"Log score of tap, with the standard error of the difference over the held-out cases: {'; '.join(parts)}.",
    )


def goals(made: dict[str, Tuned]) -> list[Check]:
    """Return what was asked, with times and scores of this run."""
    asked = []
    if "Pima" in made:
        for name in (SEARCH, FIT):
            row = made["Pima"].table.row(name)
            assert row is not None  # ours is always there
            asked.append(at_most(f"Pima, {name}", row.median, 0.25, "s"))
    if "n = 1000" in made:
        for peer in (SK, BOOST):
            larger = made["n = 1000"]
            asked += [
                at_least(f"n = 1000: {peer} over tap's search, time", larger.over(peer), 1.0, "times"),
                at_least(f"n = 1000: log score of tap above {peer}", larger.above(peer), -2.0, "standard errors"),
            ]
    return asked
