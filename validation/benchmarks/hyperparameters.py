"""What tuning costs on Pima (n = 200, seven inputs): the evidence with its gradient, and a whole search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.datasets import Dataset
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method
from bayesgp_mf.solution import Control
from bayesgp_mf.types import Array
from validation.benchmarks.timing import Benchmark, Case, in_turn
from validation.tables.selection import Split

METHODS = ("tap", "naive", "laplace", "variational")
LENGTHSCALE, VARIANCE = np.full(7, 3.0), 4.0
"""Where the evidence is asked for."""
MOVE = 0.05
"""In every logarithm: as far as the last step of a search, or one leapfrog step."""
START = np.full(7, np.e)
"""Where searches start, with variance 1."""
CALLS, SEARCHES = 15, 3
"""Repeats."""
MISSING = "scikit-learn is not installed: its row is left out (pip install scikit-learn)."


def benchmarks(advance: Callable[[str], None]) -> Iterator[Benchmark]:
    """Time single calls, and searches."""
    pima = bgp.datasets.load_pima()
    yield _calls(Split.of(pima), advance)
    yield _searches(pima, advance)


def _calls(split: Split, advance: Callable[[str], None]) -> Benchmark:
    cases: dict[str, Case] = {}
    for method in METHODS:
        cases |= evidence_cases(split, method)
    return Benchmark(
        "Pima: log evidence and its gradient in 8 hyperparameters, one call",
        in_turn(cases, CALLS, advance),
        (
            "Probit likelihood. Gram matrix, solution, evidence, gradient. Cold: from the prior. Warm: from the "
            f"solution at a point {MOVE:g} away in each logarithm, as in a search.",
        ),
    )


def evidence_cases(split: Split, method: str) -> dict[str, Case]:
    """Return a call from the prior, and one from the solution at a point nearby."""
    kernel = bgp.kernels.Gaussian(LENGTHSCALE, VARIANCE)
    objective = Objective(
        Target(split.X, split.t, bgp.Probit(), kernel, get_method(method), Control()), EvidenceScore(KNOWN)
    )
    here: Array = objective.target.start

    def nearby() -> None:
        objective.forget()
        objective(here - MOVE)

    def call() -> tuple[float, Array]:
        answer = objective(here)
        if answer is None:
            raise RuntimeError(f"there is no solution to time: {objective.last_failure}")
        return answer

    def describe(answer: tuple[float, Array]) -> str:
        return f"log evidence {answer[0]:.3f}"

    return {
        f"{method}, cold": Case(call, objective.forget, describe),
        f"{method}, warm": Case(call, nearby, describe),
    }


def _searches(pima: Dataset, advance: Callable[[str], None]) -> Benchmark:
    cases = {
        "tap, probit": _fit(pima, "tap", bgp.Probit()),
        "laplace, logit": _fit(pima, "laplace", bgp.Logit()),
    }
    remarks: tuple[str, ...] = (
        "One length scale for each input and a variance, from the same start, one descent by L-BFGS-B with exact "
        "gradients. The time of fit has the container in it, with 4000 draws.",
    )
    if find_spec("sklearn") is None:
        remarks += (MISSING,)
    else:
        cases["scikit-learn's GaussianProcessClassifier"] = _peer(pima)
        remarks += ("scikit-learn's classifier has the model and the approximation of laplace, logit.",)
    title = "Pima: hyperparameters by maximum evidence, a whole fit"
    return Benchmark(title, in_turn(cases, SEARCHES, advance), remarks)


def _fit(pima: Dataset, method: str, likelihood: Likelihood) -> Case:
    kernel = bgp.kernels.Gaussian(START)

    def run() -> Any:
        with warnings.catch_warnings():  # inputs that hardly matter run to the end of the search
            warnings.simplefilter("ignore", bgp.BoundWarning)
            search = bgp.hyper.Evidence(starts=1)
            return bgp.fit(
                pima.X, pima.y, kernel, likelihood, method=method, hyper=search, random_seed=1, progress=False
            )

    def describe(idata: Any) -> str:
        evaluations = int(np.sum(idata["fit"]["hyper_n_evaluations"]))
        return f"log evidence {float(idata['fit']['log_evidence']):.3f}, {evaluations} evaluations"

    return Case(run, describe=describe)


def _peer(pima: Dataset) -> Case:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    def run() -> Any:
        with warnings.catch_warnings():  # on the same inputs
            warnings.simplefilter("ignore", ConvergenceWarning)
            return GaussianProcessClassifier(ConstantKernel(1.0) * RBF(START)).fit(pima.X, pima.y)

    return Case(run, describe=lambda model: f"log evidence {model.log_marginal_likelihood_value_:.3f}")
