"""Where the descents of a search begin: at the model that was given, and at length scales that the data speak of.

Evidence has several maxima: one at length scales so short that each case stands alone, one at long ones, and others
between. Which of them a descent finds is decided by the side of the ridge on which it begins. So the further starts
share the range between short and long distances among them, from each part of it the best of some candidates, of which
one evaluation each, without a gradient, on a part of the cases, says how good they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.types import Array

START_SPREAD = 1.0
"""Standard deviation of the log parameters around those that were given, but of length scales."""
CANDIDATES = 3
"""For each start."""
ROUGHLY = 0.1
"""In nats: how well the score of a candidate is known."""
SCREENED = 100
"""Cases by which a candidate is judged, at most."""


def further_starts(objective: Objective, number: int, rng: np.random.Generator) -> list[Array]:
    """Return so many points ``(p,)`` within the bounds from which to search, besides that of the target."""
    if number == 0:
        return []
    target = objective.target
    candidates = spanning(target, CANDIDATES * number, rng)
    if target.t.size > SCREENED:
        target = target.of_cases(np.sort(rng.choice(target.t.size, SCREENED, replace=False)))
    target = replace(
        target, forecast=None, control=replace(target.control, tolerance=ROUGHLY, evidence_tolerance=ROUGHLY)
    )
    values = Objective(target, objective.score, from_prior=True).at_nodes(candidates, lambda _: None)
    parts = np.split(np.arange(len(candidates)), number)
    return [candidates[part[np.argmax(values[part])]] for part in parts]


def spanning(target: Target, number: int, rng: np.random.Generator) -> Array:
    """Return points ``(number, p)`` within the bounds, whose length scales go from short to long ones."""
    points = target.start + START_SPREAD * rng.standard_normal((number, target.start.size))
    levels = (np.arange(number) + 0.5)[:, None] / number
    short, long = target.spans
    has = np.isfinite(short)
    points[:, has] = short[has] + levels * (long - short)[has]
    return np.clip(points, target.lower, target.upper)
