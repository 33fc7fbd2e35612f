"""Whether what is stated of each thing that is used holds: evidence, probabilities, predictions, leave-one-out.

Small problems with an intercept and a slope, whose posterior is a plane's, so that every truth is an integral over it.
Priors are wide, cases few, and new inputs reach twice as far as the data: there the posterior of a latent value is
skewed by all cases together, which no single case shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Binomial, Likelihood, Logit, NegativeBinomial, Ordinal, Poisson, StudentT
from bayesgp_mf.likelihoods.below import quantiles
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.sampling.arviz_calls import elpd
from validation.studies.study import Findings, Study, Task

SEED = 34
EACH = 43
"""Problems of each kind."""
KINDS = ("probit", "logit", "step", "poisson", "negative binomial", "binomial", "ordinal", "student t")
LABELS = ("probit", "logit", "step")
PROMISED = KINDS[:-1]
"""Those whose corrections are measured; the posterior under Student's t may have several modes."""
THINGS = ("evidence", "data", "new", "loo")
NAMES = {"evidence": "log evidence", "data": "probabilities at the data", "new": "predictions", "loo": "leave-one-out"}
SMALLEST = {"evidence": 0.005, "data": 0.002, "new": 0.002, "loo": 0.01}
"""Errors below these are none, in nats and as probabilities, whatever is stated."""
WITHIN, FARTHEST = 0.95, 3.0
"""Share of the errors within what is stated, and how many times that the largest may be."""
NEW = 9
"""New inputs of a problem, over twice the range of its data."""
LEVELS = np.array([0.02, 0.1, 0.5, 0.9, 0.98])
"""At quantiles of these a predicted distribution is held against the true one."""
COARSE, FINE, REACH = 61, 121, 9.0
"""Points a side of the grids on the way, and of the last; how far they reach, in standard deviations."""
SHARP = {"ordinal": 241, "probit": 161}
"""Points of the last grid where the density may be steep."""
DIRECTIONS = 20_000
"""Of a cone, over which is averaged."""
LEAST = 1e-9
"""Points of less weight, by the largest, are left out of averages over targets."""
TEMPERATURES = 4.0 ** -np.arange(8.0, -1.0, -1.0)
DROP = 25.0
"""Nats by which the density at the edge of a grid is below its highest, at least."""


class Problem(NamedTuple):
    """Cases of a plane's posterior."""

    X: Array
    y: Array
    kernel: Kernel
    scales: Array
    likelihood: Likelihood
    facts: dict[str, Array]


def random_problem(kind: str, number: int) -> Problem:
    """Return a problem at random, of labels one with both."""
    rng = np.random.default_rng([SEED, KINDS.index(kind), number])
    while True:
        problem = _drawn(kind, rng)
        if kind not in LABELS or len(np.unique(problem.y)) == 2:
            return problem


def _drawn(kind: str, rng: np.random.Generator) -> Problem:
    n = round(float(np.exp(rng.uniform(np.log(2.0), np.log(30.5)))))
    x = rng.standard_normal(n)
    variances = np.exp(rng.uniform(np.log(0.05), np.log(100.0), size=2))
    kernel = bgp.kernels.Bias(float(variances[0])) + bgp.kernels.Linear(float(variances[1]))
    facts: dict[str, Array] = {}
    if rng.random() < 0.3 and kind != "step":  # which forbids values
        facts["offset"] = rng.standard_normal(n)
    if rng.random() < 0.25 and kind != "step":
        facts["weights"] = np.exp(rng.uniform(np.log(0.1), np.log(3.0), size=n))
    scales = np.sqrt(variances)
    drawn = np.minimum(scales, 2.0) * rng.standard_normal(2)  # counts of a wide prior would be astronomic
    likelihood = _likelihood(kind, rng)
    f = drawn[0] + drawn[1] * x + facts.get("offset", 0.0)
    y = likelihood.sample(np.clip(f, -12.0, 6.0), rng)
    return Problem(x[:, None], np.asarray(y, dtype=np.float64), kernel, scales, likelihood, facts)


def _likelihood(kind: str, rng: np.random.Generator) -> Likelihood:
    noise = float(np.exp(rng.uniform(np.log(0.01), np.log(3.0))))
    if kind == "ordinal":
        return Ordinal(tuple(np.sort(rng.normal(scale=2.0, size=int(rng.integers(2, 6))))), noise)
    made: dict[str, Callable[[], Likelihood]] = {
        "probit": lambda: bgp.Probit(noise),
        "logit": Logit,
        "step": bgp.Step,
        "poisson": Poisson,
        "negative binomial": lambda: NegativeBinomial(float(np.exp(rng.uniform(0.0, 7.0)))),
        "binomial": lambda: Binomial(float(rng.integers(1, 9))),
        "student t": lambda: StudentT(df=float(rng.uniform(2.5, 8.0)), scale=noise),
    }
    return made[kind]()


@dataclass(frozen=True)
class Plane:
    """A posterior of intercept and slope, by a grid: the log of its integral, its points and their weights."""

    log_evidence: float
    points: Array
    weights: Array


def integrate(log_likelihood: Callable[[Array], Array], scales: Array, side: int = FINE) -> Plane:
    """Return the posterior of intercept and slope ``(k, 2)``, of which the log likelihood ``(k,)`` is given.

    The grid follows the posterior from the prior on, as the likelihood's power grows to one.
    """
    centre, root = np.zeros(2), np.eye(2)  # of points over the prior's standard deviations
    for power in TEMPERATURES:
        centre, root = _moments(*_grid(log_likelihood, scales, centre, root, power, COARSE)[:2])
    points, log_density, log_area = _grid(log_likelihood, scales, centre, root, 1.0, side)
    total = float(logsumexp(log_density))
    return Plane(total + log_area, points * scales, np.exp(log_density - total))


def cone(x: Array, t: Array, scales: Array) -> Plane:
    """Return the posterior of intercept and slope under labels without noise ``(n,)`` at inputs ``(n,)``.

    Over the prior's standard deviations it is uniform in direction, and each label leaves half of all directions. A
    grid can miss what all of them leave.
    """
    normal = np.arctan2(t * scales[1] * x, t * scales[0])
    off = np.pi - (np.pi - (normal - normal[0])) % (2.0 * np.pi)  # in (-pi, pi]
    first, last = normal[0] + off.max() - 0.5 * np.pi, normal[0] + off.min() + 0.5 * np.pi
    angle = first + (last - first) * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * scales
    return Plane(float(np.log((last - first) / (2.0 * np.pi))), points, np.full(DIRECTIONS, 1.0 / DIRECTIONS))


def _grid(
    log_likelihood: Callable[[Array], Array], scales: Array, centre: Array, root: Array, power: float, side: int
) -> tuple[Array, Array, float]:
    reach = REACH
    while True:
        axis = np.linspace(-reach, reach, side)
        z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        points = centre + z @ root.T
        log_density = power * log_likelihood(points * scales) - 0.5 * np.sum(points**2, axis=1) - np.log(2.0 * np.pi)
        edge = np.max(np.abs(z), axis=1) == reach
        if log_density[edge].max() < log_density.max() - DROP:
            break
        reach *= 1.4
    return points, log_density, 2.0 * float(np.log(axis[1] - axis[0])) + float(np.linalg.slogdet(root)[1])


def _moments(points: Array, log_density: Array) -> tuple[Array, Array]:
    weights = np.exp(log_density - logsumexp(log_density))
    centre = weights @ points
    off = points - centre
    return centre, np.linalg.cholesky((off * weights[:, None]).T @ off + 1e-14 * np.eye(2))


def measured(kind: str, number: int) -> dict[str, Any]:
    """Return for each thing what is stated of its error, the true error, and what the rule before would have said."""
    problem = random_problem(kind, number)
    options: dict[str, Any] = {"draws": 1, "chains": 1, "random_seed": 0, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            idata = bgp.fit(problem.X, problem.y, problem.kernel, problem.likelihood, **problem.facts, **options)
        except bgp.ConvergenceError as error:  # which says so, and nothing is stated
            return {"n": len(problem.X), "refused": str(error)}
        posterior = bgp.posterior(idata).parts[0]
        low, high = float(problem.X.min()), float(problem.X.max())
        centre, half = 0.5 * (low + high), high - low
        X_new = np.linspace(centre - half, centre + half, NEW)[:, None]
        new_facts = {"offset": np.zeros(NEW)} if "offset" in problem.facts else {}
        bgp.predict(idata, X_new, draws=False, **new_facts)
        pointwise = elpd(bgp.loo(idata)).pointwise
        said = bgp.diagnostics.quality(idata)
    of_cases, t = posterior.problem.likelihood, posterior.problem.t

    def log_likelihood(which: Array) -> Callable[[Array], Array]:
        some, targets = of_cases.of_cases(which), t[which]

        def of(points: Array) -> Array:
            f = points[:, :1] + points[:, 1:] * problem.X[which, 0]
            return np.asarray(some.log_prob(np.broadcast_to(targets, f.shape), f).value.sum(axis=1))

        return of

    def truth(which: Array) -> Plane:
        if kind == "step":
            return cone(problem.X[which, 0], t[which], problem.scales)
        return integrate(log_likelihood(which), problem.scales, SHARP.get(kind, FINE))

    everything = np.arange(len(t))
    plane = truth(everything)
    loo = [plane.log_evidence - truth(np.delete(everything, i)).log_evidence for i in everything]
    found = {
        "evidence": (said.left_out, abs(said.log_evidence - plane.log_evidence)),
        "data": (said.probability_error, _largest(posterior, problem.X, plane, problem.facts.get("offset", 0.0))),
        "new": (said.new_probability_error, _largest(posterior, X_new, plane)),
        "loo": (said.loo_error, abs(float(pointwise.sum()) - float(np.sum(loo)))),
    }
    before = {"new": said.probability_error, "loo": abs(float(idata["fit"]["loo_i"].sum()) - float(np.sum(loo)))}
    rows = {name: {"stated": stated, "true": float(true)} for name, (stated, true) in found.items()}
    return {"n": len(t), "verdict": said.verdict, "before": before, **rows}


def _largest(posterior: Any, X: Array, plane: Plane, offset: Array | float = 0.0) -> float:
    """Return the largest true error of a probability at inputs: of a label, or of a target of at most a number."""
    f = plane.points[:, :1] + plane.points[:, 1:] * X[:, 0] + offset
    likelihood = posterior.problem.likelihood.of_one_case
    mean, variance = posterior.latent_at(X)
    mean = mean + offset
    if likelihood.is_binary:
        p = likelihood.predict_proba(f, np.zeros_like(f))
        return float(np.max(np.abs(plane.weights @ p - likelihood.predict_proba(mean, variance))))

    def below(t: Array) -> Array:
        return np.asarray(likelihood.predictive_below(t, mean, variance))

    at = quantiles(below, LEVELS, mean, np.sqrt(variance) + 1.0, whole=likelihood.is_discrete)
    some = plane.weights > LEAST * plane.weights.max()
    f, weights = f[some], plane.weights[some] / plane.weights[some].sum()
    true = [weights @ likelihood.predictive_below(np.broadcast_to(row, f.shape), f, np.zeros_like(f)) for row in at]
    return float(np.max(np.abs(np.array(true) - below(at))))


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold what is stated of each thing against what is true."""
    promised = [row for kind in PROMISED for row in _of_kind(results, kind)]
    refused = [name.rsplit(",", 1)[0] for name, row in results.items() if "refused" in row]
    none = at_most("Fits without a solution, of those that are promised", sum(kind in PROMISED for kind in refused), 0)
    return Findings(
        (none, *_checks(promised)),
        (
            f"{EACH} problems of each of {', '.join(KINDS)}: an intercept and a slope with prior variances from 0.05 "
            "to 100, 2 to 30 cases, a third with offsets, a quarter with weights. Probabilities are those of labels, "
            "or of targets of at most a number; new inputs reach over twice the range of the data. Errors below "
            f"{SMALLEST['evidence']:g} nats of the evidence, {SMALLEST['loo']:g} of leave-one-out and "
            f"{SMALLEST['new']:g} of a probability are none. Of Student's t, whose posterior may have several modes, "
            f"nothing is promised; fits that ended in a ConvergenceError, which says so: {len(refused)}.",
            Table(
                "Errors against what is stated of them. Before: a new case by what was measured at the data, and "
                "leave-one-out by TAP.",
                ("", "", "Problems", "Not stated", "Within what is stated", "True over stated, largest", "Before"),
                [(kind, NAMES[thing], *_row(_of_kind(results, kind), thing)) for kind in KINDS for thing in THINGS],
            ),
        ),
    )


def _of_kind(rows: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [row for name, row in rows.items() if name.rsplit(",", 1)[0] == kind and "refused" not in row]


def _ratios(rows: Sequence[Mapping[str, Any]], thing: str) -> Array:
    known = [row[thing] for row in rows if row[thing]["stated"] is not None]
    return np.array([each["true"] / max(each["stated"], SMALLEST[thing]) for each in known])


def _before(rows: Sequence[Mapping[str, Any]], thing: str) -> Array:
    """Return true errors over what they would have been said to be: of leave-one-out nothing was said."""
    known = [row for row in rows if row[thing]["stated"] is not None]
    if thing == "loo":
        return np.array([row["before"]["loo"] / max(row["loo"]["stated"], SMALLEST["loo"]) for row in known])
    return np.array([row["new"]["true"] / max(row["before"]["new"], SMALLEST["new"]) for row in known])


def _checks(rows: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    for thing in THINGS:
        ratios = _ratios(rows, thing)
        yield at_least(f"Share of errors within what is stated, {NAMES[thing]}", np.mean(ratios <= 1.0), WITHIN)
        yield at_most(f"True over stated, largest, {NAMES[thing]}", ratios.max(), FARTHEST)
    for thing in ("new", "loo"):
        yield at_least(f"Control: largest by the rule before, {NAMES[thing]}", _before(rows, thing).max(), FARTHEST)


def _row(rows: Sequence[Mapping[str, Any]], thing: str) -> tuple[str, ...]:
    ratios = _ratios(rows, thing)
    if not ratios.size:
        return (f"{len(rows)}", f"{len(rows)}", "", "", "")
    before = f"{_before(rows, thing).max():.2g}" if thing in ("new", "loo") else ""
    missing = f"{len(rows) - ratios.size}"
    return (f"{len(rows)}", missing, f"{np.mean(ratios <= 1.0):.0%}", f"{ratios.max():.2g}", before)


STUDY = Study(
    "planar",
    "Whether what is stated of evidence, probabilities, predictions and leave-one-out holds",
    [Task(f"{kind}, {k}", measured, {"kind": kind, "number": k}) for kind in KINDS for k in range(EACH)],
    conclude,
)
