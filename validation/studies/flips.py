"""The probability of flipped labels as a tuned parameter: found where some were flipped, and not where none were.

Functions are drawn from the prior that is fitted, with a little noise. The same labels are fitted as they are, which is
the control, and with a tenth of them, chosen at random, flipped.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Block, Table
from validation.reporting.checks import at_most
from validation.studies.study import Findings, Study, Task

N, DRAWS = 400, 20
SHARE = 0.1
NOISE_VARIANCE, START = 0.1, 0.05
KERNEL = bgp.kernels.Gaussian(1.0, 4.0)
TOLERANCE = 0.04
"""Of each draw, about the share that was flipped and about none."""


def found_flips(n: int, seed: int) -> dict[str, float]:
    """Return the flip probability that is found with a share of the labels flipped, and with none."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    f = np.linalg.cholesky(KERNEL.gram(X) + 1e-8 * np.eye(n)) @ rng.standard_normal(n)
    clean = np.sign(f + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n))
    flipped = clean.copy()
    flipped[rng.permutation(n)[: round(SHARE * n)]] *= -1.0
    return {"flipped": _tuned(X, flipped), "clean": _tuned(X, clean)}


def _tuned(X: Any, t: Any) -> float:
    likelihood = bgp.Probit(NOISE_VARIANCE, flip=START)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bgp.BoundWarning)  # where no label is flipped there is no least probability
        warnings.simplefilter("ignore", bgp.ConvergenceWarning)  # points of the search without a solution
        idata = bgp.fit(
            X,
            t > 0,
            KERNEL,
            likelihood,
            hyper=bgp.hyper.Evidence(starts=1),
            fixed={"variance"},  # with the noise it is one parameter
            draws=1,
            chains=1,
            random_seed=1,
            progress=False,
        )
    return float(idata["fit"]["flip"])


TASKS = [Task(f"draw {seed}", found_flips, {"n": N, "seed": seed}) for seed in range(DRAWS)]


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold each draw against the share of labels that were flipped."""
    flipped, clean = (np.array([results[task.name][which] for task in TASKS]) for which in ("flipped", "clean"))
    checks = (
        at_most(
            f"largest distance of the flip probability from {SHARE} where {SHARE:.0%} are flipped",
            float(np.max(np.abs(flipped - SHARE))),
            TOLERANCE,
        ),
        at_most("largest flip probability where none is flipped", float(np.max(clean)), TOLERANCE),
    )
    rows = [[str(k), f"{a:.4f}", f"{b:.4f}"] for k, (a, b) in enumerate(zip(flipped, clean, strict=True))]
    blocks: tuple[Block, ...] = (
        f"{DRAWS} functions of two inputs at {N} cases, drawn from the prior; TAP, the length scale and the flip "
        f"probability tuned from {START}. Found on average: {np.mean(flipped):.4f} where {SHARE:.0%} of labels were "
        f"flipped, and {np.mean(clean):.4f} where none were.",
        Table("The flip probability of each draw.", ("draw", "flip, a tenth flipped", "flip, none flipped"), rows),
    )
    return Findings(checks, blocks)


STUDY = Study("flips", "Flipped labels, found by the evidence", TASKS, conclude)
