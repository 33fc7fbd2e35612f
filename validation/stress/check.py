"""Solving a drawn problem and judging what came: right, refused in words, or one of the things that may not happen."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Literal

import numpy as np
from flint import arb

import bayesgp_mf as bgp
from bayesgp_mf import Control, Problem, Solution, Status
from bayesgp_mf.online import Online
from validation.stress.digits import Numbers, bits, floats
from validation.stress.posterior import NoTruthError
from validation.stress.problems import Drawn
from validation.stress.truth import Truth, latent, margin_violation, orthant_evidence, truth

BITS = 320
MEAN = 1e-4
"""Largest error of a mean, in posterior standard deviations."""
EVIDENCE = 1e-6
"""Largest error of a log evidence, in nats ..."""
ROUNDINGS = 4.0
"""... beyond so many times what rounding in K moves it by: no method can know it better, ..."""
LARGEST_ROUNDING = 1e-3
"""... but where that is more nats than this, it has to refuse ..."""
EPS = 16 * float(np.finfo(np.float64).eps)
"""... and beyond so many units in the last place of the evidence itself."""
CAVITY = 1e-3
"""Largest relative error of a cavity variance, and of a cavity mean in its own standard deviations, or in distances
from the posterior mean where these are larger, beyond the same."""
TIMES_STATED = 3.0
"""Largest error of an evidence by what is stated of it, where something is: the promise of every stated error."""
FAR = 0.1
"""Nats: where more is stated, another model was solved, and the size is that of first order; no truth need be near."""
MARGIN = 1e-6
"""Largest violation of a condition of the support-vector machine, in units of the margin."""
STANDARD_ERRORS = 6.0
"""Largest error of an integral by points, beside that of any other evidence."""
PATIENCE = 20
"""Seconds of work, whatever else the machine does."""
OURS = (
    bgp.ConvergenceError,
    bgp.InconsistentDataError,
    bgp.NotPositiveDefiniteError,
    bgp.UndefinedQuantityError,
    ValueError,
    MemoryError,
)

Outcome = Literal["right", "stated", "far", "finite", "refused", "wrong", "no truth", "not finite", "foreign", "slow"]
ALLOWED: tuple[Outcome, ...] = ("right", "stated", "far", "finite", "refused")
"""What may happen; "stated" is off by no more than thrice what is stated; "far" by more, of an error
that is stated to be so large that only its being large is known; "finite" where nothing more is known."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a problem.

    Attributes
    ----------
    drawn : str
        The problem, in words from which it can be drawn again.
    outcome : str
        One of `Outcome`.
    mean_error, evidence_error : float
        In posterior standard deviations and in nats; NaN where not known.
    seconds : float
        That the solver took.
    why : str
        What the refusal or the failure said.
    """

    drawn: str
    outcome: Outcome
    mean_error: float = math.nan
    evidence_error: float = math.nan
    seconds: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        errors = f"mean off by {self.mean_error:.1e} sd, evidence by {self.evidence_error:.1e} nats"
        return f"{self.outcome}: {self.drawn}; {errors} {self.why}"


Solve = Callable[[Drawn], Solution]


def solve(drawn: Drawn) -> Solution:
    """Solve a problem as a user would."""
    control = Control(throw=False)
    if drawn.method == "sweeps":
        return Online(sweeps=None).solve(Problem(drawn.gram, drawn.t, drawn.likelihood), control)
    return bgp.solve(drawn.handed, drawn.t, drawn.likelihood, method=drawn.method, control=control)


def examine(drawn: Drawn, solve: Solve = solve) -> Verdict:
    """Solve a problem and judge what came."""
    began = time.process_time()
    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of floats that overflow on the way; what they end in is judged
            solution = solve(drawn)
    except TimeoutError:
        return Verdict(str(drawn), "slow", seconds=float(PATIENCE))
    except OURS as error:
        return Verdict(str(drawn), "refused", seconds=time.process_time() - began, why=f"{error}")
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return Verdict(str(drawn), "foreign", seconds=time.process_time() - began, why=why)
    seconds = time.process_time() - began
    if solution.info.status is not Status.CONVERGED:
        return Verdict(str(drawn), "refused", seconds=seconds, why=solution.info.status.value)
    if not _is_finite(solution):
        return Verdict(str(drawn), "not finite", seconds=seconds)
    with bits(BITS):
        outcome, mean_error, evidence_error, why = _judge(drawn, solution)
    return Verdict(str(drawn), outcome, mean_error, evidence_error, seconds, why)


def _judge(drawn: Drawn, solution: Solution) -> tuple[Outcome, float, float, str]:
    if drawn.method == "svm":
        violation = margin_violation(drawn, solution)
        return ("right" if violation <= MARGIN else "wrong"), math.nan, math.nan, f"margins off by {violation:.1e}"
    stated = drawn.stated(solution)
    try:
        known = truth(drawn, solution)
    except NoTruthError as error:
        # another model's solution is no start for one that is stated to be far
        return ("far" if stated > FAR else "no truth"), math.nan, math.nan, f"{error} ({stated:.1e} are stated)"
    if known is None:
        exact = orthant_evidence(drawn) if drawn.method == "exact" else None
        if exact is None:
            return "finite", math.nan, math.nan, ""
        error = abs(solution.evidence.value - exact)
        allowed = EVIDENCE + STANDARD_ERRORS * solution.evidence.standard_error
        return ("right" if error <= allowed else "wrong"), math.nan, error, ""
    mean_error = _in_sd(latent(drawn, solution), known.mean, known.variance)
    evidence_error = float(abs(solution.evidence.value - known.evidence))
    rounding = ROUNDINGS * min(drawn.rounding(known.rounding), LARGEST_ROUNDING)
    allowed = EVIDENCE + rounding + EPS * abs(float(known.evidence))
    cavity_error = _cavity_error(drawn, solution, known)
    # what moves the log determinant by so many nats moves a variance in it by such a part
    of_cavity = max(rounding, ROUNDINGS * min(_rounding_of_cavity(drawn, known), LARGEST_ROUNDING))
    right = mean_error <= MEAN and evidence_error <= allowed and cavity_error <= CAVITY + of_cavity
    why = f"(rounding moves it by {known.rounding:.1e}, {stated:.1e} are stated), cavities by {cavity_error:.1e}"
    if right or not stated:
        return ("right" if right else "wrong"), mean_error, evidence_error, why
    off = evidence_error > allowed + TIMES_STATED * stated
    return (("far" if stated > FAR else "wrong") if off else "stated"), mean_error, evidence_error, why


def _in_sd(found: Sequence[arb | float], true: Numbers, variance: Numbers) -> float:
    """Return the largest difference, in standard deviations."""
    pairs = zip(found, true, variance, strict=True)
    return float(np.max(floats(abs(a - b) / v.sqrt() if v > 0 else abs(a - b) for a, b, v in pairs)))


def _cavity_error(drawn: Drawn, solution: Solution, known: Truth) -> float:
    """Return the largest error of a cavity where it is what the other cases say, as TAP's is."""
    judged = drawn.method in ("tap", "sweeps") and solution.alpha.ndim == 1
    if not judged or solution.cavity is None or known.cavity_mean is None or known.cavity_variance is None:
        return 0.0
    # m = f - lambda alpha: an error of lambda by a part of it moves m by that part of its distance from f
    parts = zip(solution.cavity.mean.tolist(), known.cavity_mean, known.mean, known.cavity_variance, strict=True)
    mean = max(
        float(abs(found - m) / max(v.sqrt(), abs(f - m), key=float)) if v > 0 else 0.0 for found, m, f, v in parts
    )
    pairs = zip(solution.cavity.variance.tolist(), known.cavity_variance, strict=True)
    relative = floats(abs(found / true - 1) if true > 0 else abs(true - found) for found, true in pairs)
    return max(mean, float(relative.max()))


def _rounding_of_cavity(drawn: Drawn, known: Truth) -> float:
    """Return by what part of itself rounding of its prior variance moves a cavity variance, at most."""
    if known.cavity_variance is None or drawn.gram.ndim == 3:
        return 0.0
    pairs = zip(np.diagonal(drawn.gram).tolist(), known.cavity_variance, strict=True)
    return float(np.finfo(np.float64).eps) * max(float(prior / own) if own > 0 else 0.0 for prior, own in pairs)


def _is_finite(solution: Solution) -> bool:
    values = [solution.alpha] + ([np.array(solution.evidence.value)] if solution.has_variance else [])
    values += list(solution.cavity) if solution.cavity is not None else []
    return all(bool(np.isfinite(value).all()) for value in values)


@contextmanager
def _patience() -> Iterator[None]:
    """Raise a TimeoutError in the block when it takes too long, where the system can interrupt."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    if not hasattr(signal, "SIGPROF") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
