"""Relative risks of areas beside NUTS of the same model in PyMC, with few cases an area too, and Laplace's distance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Exponential, LogNormal
from bayesgp_mf.kernels import Areal, Bias, Linear
from bayesgp_mf.reports.page import Table
from validation.reporting.checks import at_least, at_most
from validation.sampling.recorded import FOLDER
from validation.studies.areas_records import LEVEL, ODDS_SD, RATE, TABLES, recorded, table
from validation.studies.study import Findings, Study, Task

RISKS, PARAMETERS, SPREAD = 0.05, 0.1, 0.08
"""Largest errors, in standard deviations, of means of log relative risks and of hyperparameters beside three
standard errors of the draws; of a standard deviation, as a share, which is largest where 97 cases leave the variance
open: the nodes of its average are few."""
R_HAT = 1.01
INLA, INLA_FILE = "scotland, beside R-INLA", "areas_inla.json"
OF_INLA = 0.1
"""In standard deviations, how far means of log relative risks may be from R-INLA's, which are approximations too."""
PARAMETER_NAMES = ("areal_variance", "areal_odds")


def compare(name: str) -> dict[str, Any]:
    """Return how far TAP and Laplace's method, averaged over hyperparameters, are from the draws of a table.

    Returns
    -------
    dict
        By method ``risk`` and ``sd``, the largest errors of means, in standard deviations, and of standard deviations,
        as a share; ``scale`` and ``mixing``, of the means of hyperparameters. Of the draws ``r_hat``, ``divergences``.
    """
    draws = recorded(name)
    found: dict[str, Any] = {method: _errors(name, method, draws) for method in ("tap", "laplace")}
    return {**found, "r_hat": draws.r_hat, "divergences": draws.divergences}


def _errors(name: str, method: str, draws: Any) -> dict[str, float]:
    given = table(name)
    X = np.array(list(given.neighbours), dtype=object)[:, None]
    kernel = Areal(given.neighbours, "bym2", 0.2, 1.0, columns=0) + Bias(LEVEL)
    idata = bgp.fit(
        X,
        given.cases,
        kernel,
        bgp.Poisson(),
        offset=np.log(given.expected),
        method=method,
        hyper=bgp.hyper.Integrate(starts=1),
        priors={PARAMETER_NAMES[0]: Exponential(RATE, 0.5), PARAMETER_NAMES[1]: LogNormal(0.0, ODDS_SD)},
        fixed=["bias_variance"],
        draws=1,
        random_seed=0,
        progress=False,
    )
    f = bgp.predict(idata, X, offset=np.zeros(len(X)), draws=False)["predictions"]
    mean, sd, error = (np.array(each) for each in (draws.mean, draws.sd, draws.error))
    off = np.maximum(np.abs(f["latent_mean"].values - mean) - 3.0 * error, 0.0) / sd
    weight = idata["fit"]["node_weight"].values
    variance, odds = (idata["fit"][each].values for each in PARAMETER_NAMES)
    moved = [
        float(max(abs(weight @ each / weight.sum() - known[0]) - 3.0 * known[2], 0.0)) / known[1]
        for each, known in zip((np.sqrt(variance), odds / (1.0 + odds)), draws.of_parameters, strict=True)
    ]
    return {
        "risk": float(off.max()),
        "sd": float(np.max(np.abs(f["latent_sd"].values / sd - 1.0))),
        "scale": moved[0],
        "mixing": moved[1],
    }


def compare_inla() -> dict[str, Any]:
    """Return how far both methods are from what R-INLA said of lip cancer in Scotland, under its BYM2 and its priors.

    Returns
    -------
    dict
        By method ``risk`` and ``slope``, the distances of means of log relative risks, and of the effect of work
        outdoors, in standard deviations; ``precision`` and ``mixing``, our means of these and R-INLA's.
    """
    with (FOLDER / INLA_FILE).open(encoding="utf-8") as file:
        given = json.load(file)
    count = len(given["cases"])
    x, names = np.array(given["outdoors"]), [str(k) for k in range(count)]
    pairs = np.array(given["edges"])
    neighbours = {name: [names[k] for k in pairs[:, ::-1][pairs == own]] for own, name in enumerate(names)}
    kernel = Areal(neighbours, "bym2", 0.2, 5.0, columns=0) + Bias(1000.0) + Linear(1000.0, columns=1)
    table = np.array([*zip(names, x, strict=True)], dtype=object)
    data = {"likelihood": bgp.Poisson(), "offset": np.log(given["expected"])}
    suggested = bgp.priors.suggest(table, kernel, between=(0.3, 3.0), form="penalised complexity", **data)
    odds = suggested[PARAMETER_NAMES[1]]  # P(mixing < 1/2) = 2/3
    priors = {PARAMETER_NAMES[0]: Exponential(-np.log(0.01), 0.5), PARAMETER_NAMES[1]: odds}  # P(sd > 1) = 0.01
    options = {"hyper": bgp.hyper.Integrate(starts=1), "priors": priors, "fixed": ["bias_variance", "linear_weight"]}
    known = given["intercept"][0] + given["slope"][0] * x + np.array(given["effect"])
    found: dict[str, Any] = {}
    for method in ("tap", "laplace"):
        idata = bgp.fit(
            table, given["cases"], kernel, method=method, draws=1, random_seed=0, progress=False, **data, **options
        )
        more = np.array([*table, (names[0], 0.0), (names[0], 1.0)], dtype=object)
        f = bgp.predict(idata, more, offset=np.zeros(count + 2), draws=False)["predictions"]
        mean, sd, weight = f["latent_mean"].values, f["latent_sd"].values, idata["fit"]["node_weight"].values
        variance, ratio = (idata["fit"][each].values for each in PARAMETER_NAMES)
        found[method] = {
            "risk": float(np.max(np.abs(mean[:count] - known) / sd[:count])),
            "slope": float(abs(mean[-1] - mean[-2] - given["slope"][0])) / given["slope"][1],
            "precision": [float(weight @ (1.0 / variance)), given["precision"]],
            "mixing": [float(weight @ (ratio / (1.0 + ratio))), given["mixing"]],
        }
    return found


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold both methods against the draws."""
    rows, inla = [results[name] for name in TABLES], results[INLA]
    most = {key: max(row["tap"][key] for row in rows) for key in ("risk", "sd", "scale", "mixing")}
    return Findings(
        (
            at_most("Largest r-hat of the draws", max(row["r_hat"] for row in rows), R_HAT),
            at_most("TAP: largest error of a log relative risk, in standard deviations", most["risk"], RISKS),
            at_most("TAP: largest error of a standard deviation, as a share", most["sd"], SPREAD),
            at_most("TAP: standard deviation of areas, in its own", most["scale"], PARAMETERS),
            at_most("TAP: mixing, in standard deviations", most["mixing"], PARAMETERS),
            at_most("TAP: largest distance of a log relative risk from R-INLA's", inla["tap"]["risk"], OF_INLA),
            at_least("Control: Laplace's largest error of a risk", max(r["laplace"]["risk"] for r in rows), RISKS),
        ),
        (
            "Deaths by area under BYM2 in North Carolina (100 counties, two of them islands) and Auckland (167), and "
            "the same counts thinned until few are above 3; hyperparameters averaged over.",
            Table(
                "Largest errors beside three standard errors of the draws.",
                ("", "Method", "Log risks, sd", "Their sd, share", "Areas' sd, sd", "Mixing, sd"),
                [
                    (name, method, *(f"{row[method][key]:.3f}" for key in most))
                    for name, row in zip(TABLES, rows, strict=True)
                    for method in ("tap", "laplace")
                ],
            ),
            "Lip cancer in 56 districts of Scotland, with work outdoors as a covariate, beside what R-INLA says of the "
            "same model (its Gaussian strategy with a variational correction of means).",
            Table(
                "Distances from R-INLA's means, in standard deviations, and means beside its own.",
                ("Method", "Log risks", "Slope", "Precision", "Mixing"),
                [
                    (
                        method,
                        *(f"{row[key]:.3f}" for key in ("risk", "slope")),
                        *("{:.2f}, {:.2f}".format(*row[key]) for key in ("precision", "mixing")),
                    )
                    for method, row in inla.items()
                ],
            ),
        ),
    )


STUDY = Study(
    "areas",
    "Areas with neighbours, beside NUTS",
    [Task(INLA, compare_inla, {}, cost=5.0), *(Task(name, compare, {"name": name}, cost=20.0) for name in TABLES)],
    conclude,
)
