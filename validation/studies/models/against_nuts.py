"""Means and standard deviations of TAP and Laplace beside NUTS, and whether the quality says when TAP is off.

Counts with exposure, counts that vary more, proportions, and measurements with outliers: the sets of `problems`, whose
sample by NUTS is recorded. At fixed hyperparameters the posterior of the latent values is what is approximated.
Where two measurements at one place contradict each other, and the noise may have outliers, the posterior has two modes,
and no Gaussian is near it: TAP must be found to be off, and must say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.likelihoods import StudentT
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.sampling.statistics import apart
from validation.studies.models.problems import CENSORED, COUNTS, LIKELIHOODS, NAMES, Model
from validation.studies.models.recorded import digest_of, path_of, read
from validation.studies.study import Findings, Study, Task

METHODS = ("tap", "laplace")
NEAR, ERRORS = 0.03, 3.0
"""Means are within the first in posterior standard deviations, and the second in Monte-Carlo standard errors more."""
SD_NEAR = 0.05
"""As a share of the standard deviation."""
SD_OF_CENSORED = 0.12
"""The same where nine in ten measurements are below a limit: the posterior is skewed there."""
R_HAT, EFFECTIVE = 1.01, 10_000
"""Largest r-hat and fewest effective draws of a record that is good enough to compare with."""
FAR = 0.3
"""Beyond such an error of a mean or a standard deviation TAP is off, in standard deviations."""
CONTRADICTIONS = ((0.1, 2.0, 2.0), (0.2, 4.0, 1.5), (0.05, 1.0, 1.0), (0.3, 4.0, 4.0))
"""Scale, degrees of freedom, and size of two targets of opposite sign at almost the same input."""
HALF_WIDTH, POINTS = 7.0, 701
"""Of the grid on which two latent values are integrated, in standard deviations of the prior, each way."""


def compare(likelihood: str, name: str, digest: str) -> dict[str, Any]:
    """Return how far the latent values of a set are from NUTS by each method.

    Raises
    ------
    ValueError
        If the record is not the one of this ``digest``.
    """
    path = path_of(likelihood, name)
    if digest_of(path) != digest:
        raise ValueError(f"{path} has changed since this study began: begin it again.")
    model, reference, sampling = read(path)
    found = {method: apart(moments_of(model, method), reference) for method in METHODS}
    return {
        "n": int(model.y.size),
        "r_hat": sampling["r_hat"],
        "effective": min(sampling["ess_bulk"], sampling["ess_tail"]),
        "divergences": sampling["divergences"],
        **{method: {key: value.tolist() for key, value in a._asdict().items()} for method, a in found.items()},
    }


class _Known:
    """Moments without a Monte-Carlo error."""

    def __init__(self, mean: Array, sd: Array) -> None:
        self.mean, self.sd = mean, sd
        self.mean_error = self.sd_error = np.zeros(mean.size)


def moments_of(model: Model, method: str) -> _Known:
    """Return means and standard deviations of the latent values without their offset, as `bayesgp_mf.fit` has them."""
    idata = bgp.fit(
        model.X,
        model.y,
        model.kernel,
        model.likelihood,
        offset=model.offset,
        method=method,
        draws=1,
        chains=1,
        random_seed=1,
        progress=False,
    )
    found = get_group(idata, "fit")
    return _Known(found["latent_mean"].values, found["latent_sd"].values)


def contradiction(scale: float, df: float, size: float) -> dict[str, Any]:
    """Return the errors of TAP on two targets that contradict each other, integrated, and the word of its quality.

    ``near`` has the same of two targets that agree: a control, which must not be called off.
    """
    found = {}
    for name, y in {"far": np.array([-size, 0.9 * size]), "near": np.array([0.1, 0.05])}.items():
        X, kernel, likelihood = np.array([[0.0], [0.3]]), bgp.kernels.Gaussian(1.0, 4.0), StudentT(scale, df)
        idata = bgp.fit(X, y, kernel, likelihood, draws=100, random_seed=1, progress=False)
        mean, variance = bgp.posterior(idata).latent(X)
        truth = integrated(kernel.gram(X), y, likelihood)
        off = apart(_Known(mean, np.sqrt(variance)), truth)
        found[name] = {
            "mean": float(np.abs(off.mean).max()),
            "sd": float(np.abs(off.sd).max()),
            "verdict": bgp.diagnostics.quality(idata).verdict,
        }
    return found


def integrated(gram: Array, y: Array, likelihood: StudentT) -> _Known:
    """Return the exact moments of two latent values by the trapezoidal rule in white variables."""
    z = np.linspace(-HALF_WIDTH, HALF_WIDTH, POINTS)
    white = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    f = white @ np.linalg.cholesky(gram).T
    log_weight = likelihood.log_prob(y, f).value.sum(axis=1) - 0.5 * np.sum(white**2, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ f
    return _Known(mean, np.sqrt(weight @ (f - mean) ** 2))


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold both methods against NUTS, and the word of the quality against the errors of contradictions."""
    sets = {(kind, name): results[f"{kind}, {name}"] for kind in LIKELIHOODS for name in NAMES[kind]}
    two = {size: results[_named(size)] for size in CONTRADICTIONS}
    return Findings(
        (*checks_of(sets), *checks_of_quality(list(two.values()))),
        (
            "Latent values at the training inputs, hyperparameters fixed. Of each likelihood three sets are simulated "
            "(30, 40 and 60 cases) and one is real: coal-mining disasters with the years observed as exposure; of the "
            "Pima women pregnancies by age, diabetics among all women of an age, skin folds by body mass index, one of "
            "which is a gross outlier, and levels of pregnancies by age. One in ten of the simulated measurements is "
            "far off. Of Weibull times and of measurements below a limit (tobit) a fifth, half and nine in ten are "
            "censored; the real ones are veterans with lung cancer, and women with breast cancer. The reference "
            "is NUTS on PyMC's likelihoods, four chains of 10,000 draws, recorded by "
            "validation.studies.models.record. Laplace is Gaussian about the mode, which is no mean where the "
            "likelihood is skewed: its errors show that the comparison would find such a one.",
            Table(
                "Largest and rms error of a posterior mean, and largest relative error of a standard deviation, in "
                "posterior standard deviations; last, the largest Monte-Carlo standard error of a mean.",
                (
                    "Likelihood",
                    "Set",
                    "n",
                    "TAP, mean",
                    "rms",
                    "sd",
                    "Laplace, mean",
                    "rms",
                    "sd",
                    "NUTS, error",
                ),
                [_row(*key, found) for key, found in sets.items()],
            ),
            "Two measurements at almost the same input that contradict each other leave two modes under Student's t. "
            "TAP's Gaussian cannot have both; what counts is that diagnostics.quality says so. The exact moments are "
            "integrated.",
            Table(
                "TAP on two targets that contradict each other, and what its quality says; last, of two that agree.",
                (
                    "Scale",
                    "Degrees of freedom",
                    "Targets",
                    "Mean, error in sd",
                    "Sd, relative error",
                    "Quality",
                    "Agree",
                ),
                [_two_row(size, found) for size, found in two.items()],
            ),
        ),
    )


def checks_of(sets: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[Check, ...]:
    """Return the checks of all sets against NUTS."""
    counts = [found for (kind, _), found in sets.items() if kind in COUNTS]
    censored = [found for (kind, _), found in sets.items() if kind in CENSORED]
    others = {key: found for key, found in sets.items() if key[0] not in CENSORED}
    outliers = [found for (kind, _), found in others.items() if kind not in COUNTS]
    return (
        at_most("NUTS: largest r-hat", max(found["r_hat"] for found in sets.values()), R_HAT),
        at_least("NUTS: fewest effective draws", min(found["effective"] for found in sets.values()), EFFECTIVE),
        at_most("NUTS: divergences", sum(found["divergences"] for found in sets.values()), 0.0),
        at_most("Counts and levels: TAP's means off NUTS beyond its error, sd", beyond(counts, "tap", "mean"), NEAR),
        at_most("Counts and levels: TAP's sds off NUTS beyond its error, share", beyond(counts, "tap", "sd"), SD_NEAR),
        at_most("Outliers: TAP's means off NUTS beyond its error, sd", beyond(outliers, "tap", "mean"), NEAR),
        at_most("Outliers: TAP's sds off NUTS beyond its error, share", beyond(outliers, "tap", "sd"), SD_NEAR),
        at_most("Censored: TAP's means off NUTS beyond its error, sd", beyond(censored, "tap", "mean"), NEAR),
        at_most("Censored: TAP's sds off NUTS beyond its error, share", beyond(censored, "tap", "sd"), SD_OF_CENSORED),
        at_least("Control: Laplace's means off NUTS in each set, sd", _least(others, "laplace"), NEAR),
        at_least("Control: Laplace's means off NUTS, censored, sd", beyond(censored, "laplace", "mean"), FAR),
    )


def checks_of_quality(two: list[Mapping[str, Any]]) -> tuple[Check, ...]:
    """Return the checks of contradictions: that they are hard, that all are called off, and those that agree good."""
    least = min(max(found["far"]["mean"], found["far"]["sd"]) for found in two)
    said = np.mean([found["far"]["verdict"] == "off" for found in two])
    wrongly = np.mean([found["near"]["verdict"] == "off" for found in two])
    return (
        at_least("Contradictions: least of TAP's largest errors, sd", least, FAR),
        at_least("Contradictions: share that the quality calls off", float(said), 1.0),
        at_most("Control: share that it calls off where targets agree", float(wrongly), 0.0),
    )


def beyond(found: list[Mapping[str, Any]], method: str, what: str) -> float:
    """Return the largest error of ``what``, "mean" or "sd", of all cases, less the Monte-Carlo errors allowed."""
    return max(
        float(np.max(np.abs(each[method][what]) - ERRORS * np.array(each[method][f"{what}_error"]))) for each in found
    )


def _least(sets: Mapping[Any, Mapping[str, Any]], method: str) -> float:
    return min(beyond([found], method, "mean") for found in sets.values())


def _row(kind: str, name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    cells = []
    for method in METHODS:
        mean, sd = (np.abs(found[method][what]) for what in ("mean", "sd"))
        cells += [f"{mean.max():.4f}", f"{np.sqrt(np.mean(mean**2)):.4f}", f"{sd.max():.4f}"]
    return kind, name, f"{found['n']}", *cells, f"{max(found['tap']['mean_error']):.4f}"


def _two_row(size: tuple[float, float, float], found: Mapping[str, Any]) -> tuple[str, ...]:
    scale, df, y = size
    far = found["far"]
    numbers = (f"{scale:g}", f"{df:g}", f"-{y:g}, {0.9 * y:g}", f"{far['mean']:.3f}", f"{far['sd']:.3f}")
    return *numbers, far["verdict"], found["near"]["verdict"]


def _named(size: tuple[float, float, float]) -> str:
    return "contradiction, scale {:g}, df {:g}, size {:g}".format(*size)


STUDY = Study(
    "models",
    "Counts, proportions and outliers beside NUTS",
    [
        *(
            Task(
                f"{kind}, {name}",
                compare,
                {"likelihood": kind, "name": name, "digest": digest_of(path_of(kind, name))},
            )
            for kind in LIKELIHOODS
            for name in NAMES[kind]
        ),
        *(
            Task(_named(size), contradiction, dict(zip(("scale", "df", "size"), size, strict=True)))
            for size in CONTRADICTIONS
        ),
    ],
    conclude,
)
