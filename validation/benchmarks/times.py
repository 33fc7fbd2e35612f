"""Times to an event: a Weibull and a censored Gaussian likelihood on two tables, tuned, with peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, LogNormal
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.machine import in_own_process
from validation.benchmarks.peak import resident
from validation.studies.models.problems import breast_cancer, veterans

TABLES = {"veterans, Weibull": veterans, "breast cancer, Gaussian of log times": breast_cancer}
HEADER = ("", "Cases", "Censored", "Fit, s", "Tuned, s", "Predict, s", "Leave-one-out, s", "Corrected, s", "Peak, MiB")
TIMES = ("fit", "tuned", "predict", "loo", "corrected")
STARTS = 3
REMARK = (
    "Seconds of the processor: a fit with 100 draws at the hyperparameters of the study of models; one that is tuned "
    f"by the evidence from {STARTS} starts, under log-normal priors about them; predictions at all cases; "
    "leave-one-out, and the same corrected. Peak: largest resident memory beyond that before."
)


def measured(name: str, starts: int = STARTS) -> dict[str, Any]:
    """Return seconds of the processor, and the largest memory."""
    model = TABLES[name]()
    parameters = {**model.kernel.params, **model.likelihood.parameters}
    priors = {key: LogNormal(np.log(value), 1.0) for key, value in parameters.items()}
    given = {"offset": model.offset, "draws": 100, "random_seed": 1, "progress": False}
    before, _ = resident()
    clock = [time.process_time()]
    bgp.fit(model.X, model.y, model.kernel, model.likelihood, **given)
    clock.append(time.process_time())
    hyper = Evidence(starts=starts)
    idata = bgp.fit(model.X, model.y, model.kernel, model.likelihood, hyper=hyper, priors=priors, **given)
    clock.append(time.process_time())
    bgp.predict(idata, model.X, offset=model.offset, draws=False)
    clock.append(time.process_time())
    bgp.loo(idata)
    clock.append(time.process_time())
    bgp.loo(idata, corrected=True)
    clock.append(time.process_time())
    return {
        "name": name,
        "cases": len(model.y),
        "censored": float(np.mean(~np.isnan(model.likelihood.other_limit))),
        **dict(zip(TIMES, np.diff(clock).tolist(), strict=True)),
        "bytes": resident()[1] - before,
    }


def benchmarks(advance: Callable[[str], None], starts: int = STARTS) -> Iterator[Result]:
    """Measure each in a process of its own."""
    found = []
    for name in TABLES:
        advance(name)
        found.append(in_own_process(measured, name, starts))
    rows = [
        (
            one["name"],
            f"{one['cases']}",
            f"{one['censored']:.0%}",
            *(f"{one[key]:.2f}" for key in TIMES),
            f"{one['bytes'] / 2**20:.0f}",
        )
        for one in found
    ]
    yield Listing("Times to an event", HEADER, tuple(rows), found, (REMARK,))
