"""Adaptive thresholds of psychometric functions with lapses, beside random choice and beside a grid of parameters.

An observer detects a stimulus of some intensity, the more likely the stronger it is; how strong it must be depends on a
second input. In one dimension a grid over threshold and slope, as in Quest+ (Watson, 2017), is the other way: it knows
the form of the function, and chooses what is expected to leave its posterior the least entropy.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import entr, ndtr, ndtri

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import at_most
from validation.studies.study import Findings, Study, Task

OBSERVERS, EACH = 200, 10
TRIALS = (30, 60, 100)
LAPSE, LEVEL = 0.03, 0.75
GRID = np.linspace(0.0, 1.0, 101)
PLACES = np.linspace(0.1, 0.9, 9)
"""Of the second input, where thresholds are compared."""
PRIORS = {
    "linear_weight": bgp.hyper.LogNormal(np.log(100.0), 0.7),
    "gaussian_lengthscale": bgp.hyper.LogNormal(np.log(0.5), 0.7),
    "gaussian_variance": bgp.hyper.LogNormal(0.0, 1.0),
    "bias_variance": bgp.hyper.LogNormal(np.log(25.0), 0.7),
}
LIKELIHOOD = bgp.Probit(flip=LAPSE)
WAYS = ("two inputs, asked", "two inputs, random", "one input, asked", "one input, random", "one input, grid")


class Observer:
    """Someone who detects a stimulus with probability lapse + (1 - 2 lapse) Phi((x - middle(z)) / width).

    Parameters
    ----------
    seed : int
        Of the observer, and of the answers.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 37])
        self._low, self._bend = rng.uniform(0.25, 0.55), rng.uniform(0.0, 0.8)
        self._centre, self._width = rng.uniform(0.3, 0.7), np.exp(rng.uniform(np.log(0.05), np.log(0.15)))
        self._rng = rng

    def middle(self, z: Array) -> Array:
        """Return where detection is as likely as not, lapses apart."""
        return np.asarray(self._low + self._bend * (z - self._centre) ** 2)

    def threshold(self, z: Array) -> Array:
        """Return the intensity that is detected with the probability that is looked for."""
        return np.asarray(self.middle(z) + self._width * ndtri((LEVEL - LAPSE) / (1.0 - 2.0 * LAPSE)))

    def answers(self, x: float, z: float) -> bool:
        """Return whether a stimulus was detected."""
        p = LAPSE + (1.0 - 2.0 * LAPSE) * ndtr((x - self.middle(np.asarray(z))) / self._width)
        return bool(self._rng.random() < p)


def kernel(two: bool) -> bgp.kernels.Kernel:
    """Return a slope in the intensity, and a smooth function: of the second input, or of the intensity itself."""
    smooth = bgp.kernels.Gaussian(0.5, 1.0, columns="z" if two else "x")
    return bgp.kernels.Linear(100.0, columns="x") + smooth + bgp.kernels.Bias(25.0)


def by_model(seed: int, *, two: bool, asked: bool) -> list[float]:
    """Return the mean absolute error of thresholds after each number of trials, asked for or at random."""
    observer, rng = Observer(seed), np.random.default_rng([seed, 38])
    x = np.linspace(0.0, 1.0, 21)
    table = pd.DataFrame({"x": np.tile(x, 11), "z": np.repeat(np.linspace(0.0, 1.0, 11), 21)})
    table = table if two else pd.DataFrame({"x": GRID})
    experiment = bgp.design.Experiment(
        kernel(two), LIKELIHOOD, candidates=table, about="level", level=LEVEL, hyper="evidence",
        priors=PRIORS, fixed={"flip"}, random_seed=seed,
    )  # fmt: skip
    errors = []
    for trial in range(1, TRIALS[-1] + 1):
        question = experiment.ask() if asked else table.iloc[rng.integers(len(table))]
        experiment.tell(question, observer.answers(question["x"], question["z"] if two else 0.5))
        if trial in TRIALS:
            places = PLACES if two else np.array([0.5])
            errors.append(float(np.mean([abs(found(experiment, z, two) - observer.threshold(z)) for z in places])))
    return errors


def found(experiment: bgp.design.Experiment, z: float, two: bool) -> float:
    """Return where the posterior mean reaches the level for the first time; an end of the range where it does not."""
    inputs = np.column_stack([GRID, np.full(GRID.size, z)]) if two else GRID[:, None]
    mean = experiment.posterior.latent_mean(inputs) - ndtri((LEVEL - LAPSE) / (1.0 - 2.0 * LAPSE))
    above = np.flatnonzero(mean >= 0)
    if not above.size or above[0] == 0:
        return float(GRID[-1] if not above.size else GRID[0])
    k = above[0]
    return float(GRID[k] - (GRID[1] - GRID[0]) * mean[k] / (mean[k] - mean[k - 1]))


def by_grid(seed: int) -> list[float]:
    """Return the same of a grid over middle and width, uniform and log-uniform, whose posterior entropy is least."""
    observer = Observer(seed)
    middle, width = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 1, 51), np.geomspace(0.02, 0.5, 21)))
    p = LAPSE + (1.0 - 2.0 * LAPSE) * ndtr((GRID[:, None] - middle) / width)  # (intensities, parameters)
    weight, errors = np.full(middle.size, 1.0 / middle.size), []
    threshold = middle + width * ndtri((LEVEL - LAPSE) / (1.0 - 2.0 * LAPSE))
    for trial in range(1, TRIALS[-1] + 1):
        yes = p @ weight  # the entropy that is expected is least where the information is largest
        k = int(np.argmax(entr(yes) + entr(1.0 - yes) - (entr(p) + entr(1.0 - p)) @ weight))
        weight = weight * (p[k] if observer.answers(GRID[k], 0.5) else 1.0 - p[k])
        weight /= weight.sum()
        if trial in TRIALS:
            errors.append(float(abs(weight @ threshold - observer.threshold(np.asarray(0.5)))))
    return errors


def errors_of(first: int, count: int) -> dict[str, list[list[float]]]:
    """Return the errors of some observers by each way, ``(count, len(TRIALS))``."""
    seeds = range(first, first + count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bgp.ConvergenceWarning)  # hyperparameters that stay as they are
        asked = {
            f"{'two inputs' if two else 'one input'}, {'asked' if asked else 'random'}": [
                by_model(seed, two=two, asked=asked) for seed in seeds
            ]
            for two in (True, False)
            for asked in (True, False)
        }
    return {**asked, "one input, grid": [by_grid(seed) for seed in seeds]}


TASKS = [
    Task(f"observers from {first}", errors_of, {"first": first, "count": EACH}, cost=1e8)
    for first in range(0, OBSERVERS, EACH)
]


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the questions that are asked against random ones, and against the grid."""
    errors = {way: np.concatenate([np.array(results[task.name][way]) for task in TASKS]) for way in WAYS}
    median = {way: np.median(each, axis=0) for way, each in errors.items()}
    inputs = ("two inputs", "one input")
    checks = [
        at_most(
            f"{each}, {n} trials: median error, asked less random", float(median[f"{each}, asked"][k] - of_random), 0.0
        )
        for each in inputs
        for k, (n, of_random) in enumerate(zip(TRIALS, median[f"{each}, random"], strict=True))
    ]
    beside = float(median["one input, asked"][-1] / median["one input, grid"][-1])
    checks.append(at_most("one input, 100 trials: median error, asked over grid", beside, 1.5))
    rows = [[way, *(f"{value:.4f}" for value in median[way])] for way in WAYS]
    about = (
        f"{len(errors[WAYS[0]])} observers with lapses of {LAPSE:.0%}; thresholds at a probability of {LEVEL:g}, as "
        f"parts of the range of intensities, on average over {PLACES.size} values of a second input, or at one. "
        f"The model is {kernel(two=True)!r}, tuned as the experiment goes on; the grid knows the form of the function."
    )
    columns = ("", *(f"{n} trials" for n in TRIALS))
    return Findings(tuple(checks), (about, Table("Median absolute error of the threshold.", columns, rows)))


STUDY = Study("thresholds", "Thresholds of observers with lapses, asked for and at random", TASKS, conclude)
