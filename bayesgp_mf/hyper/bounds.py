"""What is said of a search that ended at a bound: what it means depends on what happens to the prior beyond it."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.types import Array

BEYOND = 0.1
"""How far beyond a bound, in the logarithm, the prior variances are looked at."""


AT_BOUND = 1e-9
"""A search reaches a bound up to rounding: so near to it, in the logarithm, it is there."""


def outward_of(target: Target, end: Array) -> Array:
    """Return for each log parameter ``(p,)`` 1 if it is at its upper bound, -1 if at its lower one, else 0."""
    return np.where(end >= target.upper - AT_BOUND, 1.0, np.where(end <= target.lower + AT_BOUND, -1.0, 0.0))


def describe_bounds(objective: Objective, end: Array) -> str | None:
    """Return what to say of log parameters ``(p,)`` at bounds of the search, or None where none is at one."""
    target, noun = objective.target, objective.score.noun
    outward = outward_of(target, end)
    if not outward.any():
        return None
    sides = {-1: "lower", 1: "upper"}
    found = {
        name: f"{name} = {np.exp(value):.3g} ({sides[int(side)]})"
        for name, value, side in zip(target.names, end, outward, strict=True)
        if side
    }
    text = (
        f"at a bound of the search: {', '.join(found.values())}. (A bound that was not given is a factor "
        f"of 10^4 from where the search started.) Within the bounds the {noun} does not determine "
        f"{'them' if len(found) > 1 else 'it'}."
    )
    raising = [name for name in found if _raises_variance(target, end, target.names.index(name), outward)]
    of_likelihood = [name for name in found if name in target.free_of_likelihood]
    rules = target.model.likelihood.tunables
    others = len(found) > len(raising) + len(of_likelihood)
    if raising and objective.separates(end):
        owner = target.owners[target.names.index(raising[0])]
        text += (
            " The classes separate: every training case is on the side of its own label, and the larger the prior "
            f"variance, the higher the {noun}, so that no {' nor '.join(raising)} is best. Average over what the "
            "labels leave open, hyper='surrogate' or 'hmc', or say what is likely: "
            f"priors={{{str(owner)!r}: LogNormal(...)}}."
        )
    elif raising:
        text += " A variance at a bound: the search started too far off, or the data do not limit it; give it a prior."
    for name in of_likelihood:
        rule = rules[target.free_of_likelihood[name]]
        meaning = rule.at_upper if outward[target.names.index(name)] > 0 else rule.at_lower
        text += f" {name} there means that {meaning}." if meaning else ""
    if of_likelihood:
        text += f" Keep the value that you gave, fixed={of_likelihood}, or say by a prior what is likely."
    if others:
        text += (
            " A length scale at its upper bound means that the input hardly matters; otherwise start elsewhere, or "
            "simplify the kernel."
        )
    return text


def _raises_variance(target: Target, end: Array, which: int, outward: Array) -> bool:
    """Return whether prior variances grow where one parameter goes on beyond its bound."""
    further = end.copy()
    further[which] += BEYOND * outward[which]
    if not target.allows(further):  # a parameter of the likelihood, which goes no further
        return False
    here, there = (target.model_at(x).kernel.diag(target.X) for x in (end, further))
    return bool(np.all(there >= here) and np.any(there > here * (1.0 + 0.01 * BEYOND)))
