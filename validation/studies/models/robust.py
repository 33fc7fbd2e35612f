"""Regression with outliers: whether Student's t predicts held-out targets better than a Gaussian does.

A smooth function, measured with a little noise; one target in ten, or three in ten, is anywhere instead. Kernel and
noise are tuned by the evidence, for Student's t at several degrees of freedom, of which the highest evidence is taken.
The score is the mean log
predictive density of held-out targets, with as many outliers among them, and of those that are none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.likelihoods import Gaussian, Likelihood, StudentT
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.studies.study import Findings, Study, Task

SHARES = (0.1, 0.3)
CLEAN = 0.0
"""A control: without outliers the Gaussian is the right model, and must not lose."""
SEEDS = 8
TRAINING, HELD_OUT = 60, 400
NOISE, REACH = 0.2, 5.0
"""Standard deviation of good measurements, and how far from zero the others may be."""
FUNCTION = bgp.kernels.Gaussian(0.8, 1.0)
START = bgp.kernels.Gaussian(1.0, 1.0)
BOUNDS = {"lengthscale": (0.2, 10.0)}
"""Of both: a Gaussian otherwise takes outliers for a function as rough as noise, and predicts worse still."""
STUDENTS = tuple(StudentT(0.2, df) for df in (1.0, 2.0, 4.0, 30.0))
"""Among which the evidence chooses, after their scales. The last is almost a Gaussian: without it, good data would have
to have tails."""
LIKELIHOODS: Mapping[str, Sequence[Likelihood]] = {"gaussian": (Gaussian(0.04),), "student": STUDENTS}
WON = 0.9
"""Student's t wins in such a share of the data sets."""
LOST = 0.05
"""In nats: what Student's t may lose on average where there are no outliers."""


class _Data(NamedTuple):
    X: Array
    y: Array
    X_new: Array
    y_new: Array
    good: Array


def drawn(share: float, seed: int) -> _Data:
    """Return training and held-out cases; ``good`` tells which of the held-out ones are no outliers."""
    rng = np.random.default_rng([23, seed])
    n = TRAINING + HELD_OUT
    X = rng.uniform(-3.0, 3.0, (n, 1))
    values, vectors = np.linalg.eigh(FUNCTION.gram(X))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric: the signs of vectors do not matter
    y = root @ rng.standard_normal(n) + NOISE * rng.standard_normal(n)
    # so many of each part, not so many on average
    parts = rng.permutation(TRAINING), TRAINING + rng.permutation(HELD_OUT)
    far = np.concatenate([part[: round(share * part.size)] for part in parts])
    y[far] = rng.uniform(-REACH, REACH, far.size)
    good = np.isin(np.arange(TRAINING, n), far, invert=True)
    return _Data(X[:TRAINING], y[:TRAINING], X[TRAINING:], y[TRAINING:], good)


def scores(share: float, seed: int) -> dict[str, dict[str, Any]]:
    """Return by likelihood what the evidence chose, and the mean log density of held-out targets in nats."""
    data = drawn(share, seed)
    found = {}
    for name, likelihoods in LIKELIHOODS.items():
        fits = list(_fits(data, likelihoods))
        evidence, idata = max(fits, key=lambda pair: pair[0])
        posterior = bgp.posterior(idata)
        mean, variance = posterior.latent(data.X_new)
        density = posterior.problem.likelihood.log_partition(data.y_new, mean, variance).value
        found[name] = {
            "likelihood": posterior.problem.likelihood.to_dict(),
            "kernel": posterior.kernel.to_dict(),
            "log_evidence": evidence,
            "unsolved": len(likelihoods) - len(fits),
            "all": float(density.mean()),
            "good": float(density[data.good].mean()),
            "quality": bgp.diagnostics.quality(idata).verdict,
        }
    return found


def _fits(data: _Data, likelihoods: Sequence[Likelihood]) -> Iterator[tuple[float, Any]]:
    """Yield log evidence and container of each likelihood at its best kernel; of those without a solution nothing."""
    for likelihood in likelihoods:
        try:
            with warnings.catch_warnings():
                # where that matters the score says so
                for kind in (bgp.BoundWarning, bgp.ConvergenceWarning):
                    warnings.simplefilter("ignore", kind)
                idata = bgp.fit(
                    data.X,
                    data.y,
                    START,
                    likelihood,
                    hyper=bgp.hyper.Evidence(starts=1),
                    bounds=BOUNDS,
                    draws=100,
                    chains=1,
                    random_seed=1,
                    progress=False,
                )
        except bgp.ConvergenceError:  # a likelihood that is not log-concave promises none
            continue
        yield float(get_group(idata, "fit")["log_evidence"]), idata


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the scores of Student's t against the Gaussian's."""
    shares = (CLEAN, *SHARES)
    gains = {share: _gains(results, share, "all") for share in shares}
    return Findings(
        checks_of(gains),
        (
            f"{TRAINING} training and {HELD_OUT} held-out cases of a function drawn from a Gaussian kernel, measured "
            f"with a standard deviation of {NOISE:g}; outliers are uniform between -{REACH:g} and {REACH:g}. Kernel "
            f"and noise variance, or scale, are tuned by the evidence of TAP, which chooses among {len(STUDENTS)} "
            f"numbers of degrees of freedom as well. {SEEDS} data sets each. Densities of new targets are "
            "likelihood.log_partition at posterior.latent.",
            Table(
                "Mean log predictive density of a held-out target, in nats; how much higher Student's t is, with the "
                "standard error over data sets, and in how many it wins; the same of held-out targets that are none.",
                (
                    "Outliers",
                    "Gaussian",
                    "Student's t",
                    "Gain",
                    "Wins",
                    "Gaussian, good ones",
                    "Student's t",
                    "Gain",
                    "Likelihoods without a solution",
                ),
                [_row(results, share) for share in shares],
            ),
        ),
    )


def checks_of(gains: Mapping[float, Array]) -> tuple[Check, ...]:
    """Return the checks, given by how much Student's t is better in each data set of a share of outliers."""
    return (
        *(
            at_least(f"{share:.0%} outliers: share of data sets in which Student's t wins", _won(gains[share]), WON)
            for share in SHARES
        ),
        *(
            at_least(f"{share:.0%} outliers: gain less two standard errors, nats", _surely(gains[share]), 0.0)
            for share in SHARES
        ),
        at_most("Control: what Student's t loses without outliers, nats", -float(gains[CLEAN].mean()), LOST),
        at_most("Control: what it gains there, nats", float(gains[CLEAN].mean()), LOST),
    )


def _won(gains: Array) -> float:
    return float(np.mean(gains > 0))


def _error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


def _surely(gains: Array) -> float:
    return float(gains.mean()) - 2.0 * _error(gains)


def _of(results: Mapping[str, Any], share: float, name: str, which: str) -> Array:
    return np.array([results[_named(share, seed)][name][which] for seed in range(SEEDS)])


def _gains(results: Mapping[str, Any], share: float, which: str) -> Array:
    return _of(results, share, "student", which) - _of(results, share, "gaussian", which)


def _row(results: Mapping[str, Any], share: float) -> tuple[str, ...]:
    cells = []
    for which in ("all", "good"):
        gain = _gains(results, share, which)
        cells += [f"{_of(results, share, name, which).mean():.3f}" for name in LIKELIHOODS]
        cells.append(f"{gain.mean():+.3f} ± {_error(gain):.3f}")
        if which == "all":
            cells.append(f"{np.sum(gain > 0)} of {SEEDS}")
    return f"{share:.0%}", *cells, f"{_of(results, share, 'student', 'unsolved').sum():.0f}"


def _named(share: float, seed: int) -> str:
    return f"{share:.0%} outliers, seed {seed}"


STUDY = Study(
    "robust",
    "Regression with outliers",
    [
        Task(_named(share, seed), scores, {"share": share, "seed": seed})
        for share in (CLEAN, *SHARES)
        for seed in range(SEEDS)
    ],
    conclude,
)
