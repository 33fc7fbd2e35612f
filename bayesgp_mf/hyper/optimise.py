"""The highest point of an objective: L-BFGS-B on log parameters from several starts.

These are the model that was given, and length scales that the data speak of. Evidence has several maxima: one at
length scales so short that each case stands alone, one at long ones, and others between. Which of them a descent
finds is decided by the side of the ridge on which it begins. So the further starts share the range between short and
long distances among them, from each part of it the best of some candidates, of which one evaluation each, without a
gradient, on a part of the cases, says how good they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize

from bayesgp_mf.errors import BoundWarning, ConvergenceError, ConvergenceWarning, UndefinedQuantityError, warn
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.priors import LogNormal
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.assembly import SMALLEST
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


ASIDE = 0.6
"""Standard deviations of the part that entries have in common, from its mean to where they begin alike."""
SOME = 200
"""Cases that say where entries are alike, at most."""
ALIKE = 0.02
"""In nats; of entries that are alike an iteration that gains less is the last, since all that follow move each."""
MAX_ITERATIONS = 200
GAIN = 1e-5
"""In nats; an iteration that gains less is the last. Along the length scale of an idle input many would follow."""
GAIN_BELOW = 1e-3
"""Likewise, of a descent that is still below the end of another one. Most go to the same end, and need not be as near
to it once more; where it goes on to a higher one, it does not gain so little before."""
GAIN_ON_INDUCING = 5e-6
"""Likewise, for each case, on inducing cases, which are a random choice that moves the log evidence by more."""
FIRST_STEP = 0.5
"""Largest length of the first step, in log parameters, where there are several classes, the Gram matrix may be of low
rank, or the likelihood is not log-concave, or of times. L-BFGS-B would take one as long as the slope, to the bounds,
where the matrix is dense, outliers have no noise to be in, or times no spread, and a solution takes longer than all
others."""
FLAT = 1e-5
"""In nats; a slope below this in every log parameter is none."""
ENOUGH = "the last iteration gained less than {:.0e} nats"
NO_HIGHER = "the line search found no higher point where the gradient has one"
SAME = 0.1
"""In nats: leave-one-out log densities that differ by less are of the same predictions."""
BEYOND = 0.1
"""How far beyond a bound, in the logarithm, the prior variances are looked at."""
SAME_SOLUTION = 1e-3
"""In nats: log evidences that differ by less, solved from two starts, are of the same solution."""
OFTEN = 0.1
"""Part of the points of a search that may lack a solution without a warning: it steps back, and goes on as well."""
AT_BOUND = 1e-9
"""A search reaches a bound up to rounding: so near to it, in the logarithm, it is there."""


Seen: TypeAlias = tuple[Array, float, Array]
"""A point ``(p,)``, the objective there, and its gradient ``(p,)``."""


@dataclass(frozen=True, slots=True)
class Run:
    """One descent.

    Attributes
    ----------
    start, end : (p,) array
        Log parameters where it began, and the best point that it saw.
    value : float
        Of the objective there, in nats; -inf if no point had a solution.
    trace : (k,) array
        Of the objective after each iteration, in nats.
    n_evaluations : int
        Solutions computed.
    n_failures : int
        Points where the inner solver found no solution; the line search stepped back from them.
    message : str
        How the optimiser ended, in its own words.
    success : bool
        Whether it ended at a maximum or a bound.
    seen : list of (array, float, array)
        The points that had a solution, with the objective and its gradient there.
    apart : float
        Of one that ended more than a nat below the best of several: by how many nats its leave-one-out log density of a
        case differs from that at the best end, at most. 0 of the others.
    """

    start: Array
    end: Array
    value: float
    trace: Array
    n_evaluations: int
    n_failures: int
    message: str
    success: bool
    seen: list[Seen] = field(default_factory=list, repr=False)
    apart: float = 0.0


def usual_solutions(parameters: int, starts: int) -> int:
    """Return how many solutions `maximise` takes as a rule."""
    return starts * (14 + 2 * parameters)


def maximise(
    objective: Objective, *, starts: int, rng: np.random.Generator, advance: Callable[[str], None]
) -> tuple[Run, list[Run]]:
    """Return the descent that ended highest, and all of them, from where the target starts and from `further_starts`.

    If the highest ended at length scales so short that each case stands alone, one more begins where those are not.

    Without any solution there is a ConvergenceError. What is warned of is that a parameter of the result sits at a
    bound, that the best descent did not end at a maximum, that others ended at lower ones with other predictions, that
    the inner solver failed on the way, or that it found nothing at one of the starts, where there is no descent then.
    """
    runs = [descend(objective, alike(objective, advance), advance)]
    for start in further_starts(objective, starts - 1, rng):
        runs.append(descend(objective, start, advance, max(run.value for run in runs)))
    best = max(runs, key=lambda run: run.value)
    if not np.isfinite(best.value):
        raise no_solution(objective, f"any of {starts} starting points")
    target = objective.target
    edge = np.clip(target.spans[0], target.lower, target.upper)
    if starts > 1 and (alone := best.end < edge).any():  # all is flat there, and a summit may stand at the edge of it
        runs.append(descend(objective, np.where(alone, edge, best.end), advance, best.value))
        best = max(runs, key=lambda run: run.value)
    runs = [replace(run, apart=_apart(objective, run, best)) for run in runs]
    _warn(objective, best, runs)
    return best, runs


def alike(objective: Objective, advance: Callable[[str], None]) -> Array:
    """Return where a search begins ``(p,)``: where a prior has a part in common, at the best entries that are alike.

    The entries of a parameter move by one factor then, from a low and a high value of that part, and some cases say how
    far. One number is easily found, and many are from there; from elsewhere they are fitted to noise, or stay there.
    """
    target = objective.target
    shared = {
        name: prior
        for name, prior in target.priors.items()
        if isinstance(prior, LogNormal) and prior.common and np.count_nonzero(target.owners == name) > 1
    }
    goes_on = target.origin is not None and target.inducing is None  # on inducing cases each round has others
    if not shared or goes_on:
        return target.start
    alone = ~np.isin(target.owners, list(shared))
    moves = np.array([*(target.owners == name for name in shared), *np.eye(alone.size)[alone]], dtype=np.float64)
    if target.t.size > SOME:
        some = np.sort(np.random.default_rng(0).permutation(target.t.size)[:SOME])
        objective = Objective(replace(target.of_cases(some), inducing=None, forecast=None), objective.score)
    objective.follow(last=True)
    runs: list[Run] = []
    for side in (-ASIDE, ASIDE):
        begin = target.start.copy()
        for name, prior in shared.items():
            begin[target.owners == name] = (np.asarray(prior.mean) + side * prior.common) / prior.power
        begin = np.clip(begin, target.lower, target.upper)
        runs.append(_along(objective, begin, moves, advance, max((run.value for run in runs), default=-np.inf)))
    objective.follow(last=objective.target.likelihood.log_concave)
    best = max(runs, key=lambda run: run.value)
    return best.end if np.isfinite(best.value) else target.start


def _along(objective: Objective, begin: Array, moves: Array, advance: Callable[[str], None], reached: float) -> Run:
    """Return a rough descent from a point ``(p,)`` along ``moves (q, p)``, of which each log parameter is in one."""
    objective.forget()
    target, among = objective.target, moves > 0

    def function(z: Array) -> tuple[float, Array] | None:
        found = objective(begin + z @ moves)
        return None if found is None else (found[0], moves @ found[1])

    bounds = (
        np.max(np.where(among, target.lower - begin, -np.inf), axis=1),
        np.min(np.where(among, target.upper - begin, np.inf), axis=1),
    )
    run = uphill(
        function,
        np.zeros(len(moves)),
        bounds,
        gain=ALIKE,
        first_step=FIRST_STEP,
        advance=lambda value: advance(f"{objective.score.noun} {value:.3f}"),
        reached=reached,
    )
    return replace(run, end=begin + run.end @ moves)


def lower_points(best: Run, runs: list[Run]) -> list[tuple[float, Array]]:
    """Return values and points ``(p,)`` of all descents below the best end, each twice as far below it as the last."""
    found: list[tuple[float, Array]] = []
    limit = 1.0
    for x, value, _ in sorted((seen for run in runs for seen in run.seen), key=itemgetter(1), reverse=True):
        if best.value - value >= limit:
            found.append((value, x))
            limit = 2.0 * (best.value - value)
    return found


def _apart(objective: Objective, run: Run, best: Run) -> float:
    """Return `Run.apart`; infinity where the method has no leave-one-out predictions."""
    if not 1.0 < best.value - run.value < np.inf:
        return 0.0
    try:
        here, there = (objective.leave_one_out(end) for end in (run.end, best.end))
    except UndefinedQuantityError:
        return np.inf
    return float(np.max(np.abs(here - there)))


def no_solution(objective: Objective, where: str) -> ConvergenceError:
    """Return the error to raise where not even a first point has a solution."""
    return objective.failed(
        f"the inner solver found no solution at {where} of the hyperparameters. "
        "Try a kernel with other length scales, or allow noise in the likelihood."
    )


def descend(objective: Objective, start: Array, advance: Callable[[str], None], reached: float = -np.inf) -> Run:
    """Return one descent, of the negative objective, from a point ``(p,)`` or the nearest one within the bounds.

    What others have ``reached`` is not looked for as closely once more.
    """
    objective.forget()
    target, likelihood = objective.target, objective.target.likelihood
    is_quick = (
        target.t.size < SMALLEST and likelihood.log_concave and not (likelihood.has_classes or likelihood.of_times)
    )
    climb = partial(
        uphill,
        objective,
        np.clip(start, target.lower, target.upper),
        (target.lower, target.upper),
        gain=GAIN if target.inducing is None else GAIN_ON_INDUCING * target.t.size,
        first_step=np.inf if is_quick else FIRST_STEP,
        advance=lambda value: advance(f"{objective.score.noun} {value:.3f}"),
        reached=reached,
    )
    if target.likelihood.log_concave:
        return climb()
    # of several solutions each point follows that of the last, a tenth of the work; a fit at the end takes the one that
    # grows out of the prior, and where this is another, so does each point of a second search
    objective.follow(last=True)
    run = climb()
    objective.follow(last=False)
    if run.value < reached + SAME_SOLUTION:  # another end is as high, and is known to be the one
        return run
    there = objective.value(run.end) if np.isfinite(run.value) else None
    return run if there is not None and abs(there - run.value) < SAME_SOLUTION else climb()


def uphill(
    function: Callable[[Array], tuple[float, Array] | None],
    start: Array,
    bounds: tuple[Array, Array],
    *,
    gain: float,
    first_step: float,
    advance: Callable[[float], None] = lambda _: None,
    most: int = MAX_ITERATIONS,
    reached: float = -np.inf,
) -> Run:
    """Return a search by L-BFGS-B for the highest value of a function, which is None where it is not known.

    Parameters
    ----------
    function : callable
        Value and gradient ``(p,)`` at points ``(p,)``.
    start : (p,) array
        Within the bounds.
    bounds : pair of (p,) arrays
        Lower and upper ones.
    gain : float
        An iteration that gains less is the last.
    first_step : float
        Largest length of the first step.
    advance : callable, optional
        Is called with the value after each iteration.
    most : int
        Iterations.
    reached : float
        Value that is known elsewhere: below it, an iteration that gains less than `GAIN_BELOW` is the last, too.
    """
    trace: list[float] = []
    first = function(start)
    if first is None:
        return Run(start, start, -np.inf, np.empty(0), 1, 1, "no solution at the starting point", False)
    unit = max(1.0, float(np.linalg.norm(first[1])) / first_step)
    known: dict[bytes, tuple[float, Array] | None] = {start.tobytes(): first}  # a line search comes back to points
    last, slope = start, first[1]  # the last point that had a solution, and the slope there
    end, best, lowest = start, first[0], first[0]  # the highest point, and what the objective was there and at least

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal last, slope, end, best, lowest
        key = x.tobytes()
        if key not in known:
            known[key] = function(x)
        answer = known[key]
        if answer is None:
            # a bowl around the last good point, above all that was seen (so never accepted) and steeper than
            # the objective was there (so the line search turns back)
            step = x - last
            distance, rise = float(np.linalg.norm(step)), 10.0 * float(np.linalg.norm(slope))
            outward = step / distance if distance > 0 else np.zeros_like(step)
            return (distance * (distance + rise) - lowest) / unit, 2.0 * (step + rise * outward) / unit
        last, slope, lowest = x.copy(), answer[1], min(lowest, answer[0])
        if answer[0] > best:
            end, best = last, answer[0]
        return -answer[0] / unit, -answer[1] / unit

    def after_iteration(intermediate_result: object) -> None:
        trace.append(-unit * float(intermediate_result.fun))  # type: ignore[attr-defined]
        advance(trace[-1])
        if gained_enough():
            raise StopIteration

    def least() -> float:
        return max(gain, GAIN_BELOW) if trace[-1] < reached else gain

    def gained_enough() -> bool:
        return len(trace) > 1 and trace[-1] - trace[-2] < least()

    found = minimize(
        negative,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(*bounds, strict=True)),
        callback=after_iteration,
        options={"maxiter": most, "ftol": 0.0, "gtol": FLAT / unit},
    )
    stopped = gained_enough()
    return Run(
        start=start,
        end=end,
        value=best,
        trace=np.array(trace),
        n_evaluations=len(known),
        n_failures=sum(answer is None for answer in known.values()),
        message=ENOUGH.format(least()) if stopped else NO_HIGHER if "ABNORMAL" in found.message else str(found.message),
        success=stopped or bool(found.success),
        seen=[(np.frombuffer(x), *answer) for x, answer in known.items() if answer is not None],
    )


def _warn(objective: Objective, best: Run, runs: list[Run]) -> None:
    search, reason = f"the search for the highest {objective.score.noun}", objective.last_failure
    without, messages = "of the search the equations had no solution", list[str]()
    of_bounds = describe_bounds(objective, best.end)
    if of_bounds is not None:
        warn(of_bounds, BoundWarning)
    if not objective.target.priors and objective.says_nothing(best.end):
        messages.append(
            f"{search} ended where the variance of the kernel is so small that it says nothing of the targets. Either "
            "they hang on no input, or the search started too far off: start at length scales near the spread of the "
            "inputs, and a variance near one."
        )
    if not best.success:
        messages.append(f"{search} did not finish: {best.message}. The hyperparameters are the best it found.")
    if best.n_failures > OFTEN * best.n_evaluations:
        which = f"at {best.n_failures} of {best.n_evaluations} points"
        messages.append(f"{which} {without}; the search turned back there. The last reason: {reason}")
    lost = sum(not np.isfinite(run.value) for run in runs)
    if lost:
        which = f"at {lost} of {len(runs)} starts"
        messages.append(f"{which} {without}; it went on from the others. The last reason: {reason}")
    others = [run for run in runs if run.apart > SAME]
    if others:
        ends = "; ".join(_described(objective.target, run) for run in sorted(others, key=lambda run: -run.value))
        messages.append(
            f"{search} from {len(runs)} starts ended at {_described(objective.target, best)}, but from {len(others)} "
            f"of them more than a nat lower, where predictions differ: {ends}. There are several maxima, and perhaps "
            "one that is higher still. Take more starts, such as hyper.Evidence(starts=10), start nearer to what you "
            "expect, or say by priors what is likely."
        )
    for text in messages:
        warn(text, ConvergenceWarning)


def _described(target: Target, run: Run) -> str:
    found = (f"{name} = {np.exp(value):.3g}" for name, value in zip(target.names, run.end, strict=True))
    return f"{run.value:.2f} ({', '.join(found)})"


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
        rule, which = rules[target.free_of_likelihood[name]], target.names.index(name)
        meaning = rule.at_upper if outward[which] > 0 else rule.at_lower
        is_own = target.owners[which] in target.bounds  # which may be anywhere
        text += f" {name} there means that {meaning}." if meaning and not is_own else ""
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
