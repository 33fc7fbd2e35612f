"""Many areas: counts on a grid under a Leroux model whose variance and mixing are tuned, time and peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, kron

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Areal, Bias
from bayesgp_mf.matrices.sparse import SparseFactor
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.machine import in_own_process
from validation.benchmarks.peak import resident
from validation.benchmarks.problems import SEED

VARIANCE, ODDS = 0.4, 9.0
"""Of the truth."""
SIDES = (32, 100)
KERNELS = {"leroux": lambda graph: Areal(graph), "leroux + Bias": lambda graph: Areal(graph) + Bias(10.0)}
HEADER = ("", "Areas", "Priors, s", "Fit, s", "Predict, s", "Leave-one-out, s", "Peak, MiB", "Variance", "Mixing")


def grid(side: int) -> csr_array:
    """Return the neighbours of a square of areas."""
    line = diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1], shape=(side, side))
    return csr_array(kron(line, eye_array(side)) + kron(eye_array(side), line))


def measured(side: int, name: str) -> dict[str, Any]:
    """Return seconds of the processor, the largest memory, and what was found."""
    rng = np.random.default_rng(SEED)
    truth = Areal(grid(side), "leroux", VARIANCE, ODDS)
    f = SparseFactor(truth.precision).root_solve(rng.standard_normal((side**2, 1)))[:, 0]
    exposure = rng.uniform(0.5, 3.5, side**2)
    y, X = rng.poisson(exposure * np.exp(f)), np.arange(float(side**2))[:, None]
    kernel, given = KERNELS[name](grid(side)), {"offset": np.log(exposure)}
    before, _ = resident()
    clock = [time.process_time()]
    priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(0.3, 3.0), form="penalised complexity", **given)
    clock.append(time.process_time())
    priors = {key: prior for key, prior in priors.items() if not key.startswith("bias")}
    fixed = [key for key in kernel.params if key.startswith("bias")]
    options = {"priors": priors, "fixed": fixed, "hyper": "evidence", "draws": 100, "random_seed": 1}
    idata = bgp.fit(X, y, kernel, bgp.Poisson(), progress=False, **options, **given)
    clock.append(time.process_time())
    bgp.predict(idata, X, draws=False, **given)
    clock.append(time.process_time())
    bgp.loo(idata)
    clock.append(time.process_time())
    tuned = {key.split("_")[-1]: float(idata["fit"][key]) for key in kernel.params}
    return {
        "name": name,
        "areas": side**2,
        **dict(zip(("priors", "fit", "predict", "loo"), np.diff(clock).tolist(), strict=True)),
        "bytes": resident()[1] - before,
        "variance": float(idata["fit"][next(key for key in kernel.params if key.endswith("variance"))]),
        "mixing": tuned["odds"] / (1.0 + tuned["odds"]),
    }


def benchmarks(advance: Callable[[str], None], sides: Sequence[int] = SIDES) -> Iterator[Result]:
    """Measure each in a process of its own."""
    found = []
    for side in sides:
        for name in KERNELS:
            advance(f"{name}, {side**2} areas")
            found.append(in_own_process(measured, side, name))
    rows = [
        (
            one["name"],
            f"{one['areas']}",
            *(f"{one[key]:.1f}" for key in ("priors", "fit", "predict", "loo")),
            f"{one['bytes'] / 2**20:.0f}",
            f"{one['variance']:.2f}",
            f"{one['mixing']:.2f}",
        )
        for one in found
    ]
    remark = (
        f"Counts of mean 2 and their exposures; truth: variance {VARIANCE:g}, odds of the mixing {ODDS:g}. Seconds of "
        "the processor: for penalised-complexity priors, a fit by the evidence from three starts with 100 draws, "
        "predictions at all areas, leave-one-out. Peak: largest resident memory beyond that before."
    )
    yield Listing("Many areas", HEADER, tuple(rows), found, (remark,))
