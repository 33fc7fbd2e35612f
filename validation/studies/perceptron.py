r"""Learning curves of the Bayes-optimal perceptron: three mean-field theories against the exact replica curve.

Inputs x ~ N(0, I/d), a linear kernel x'x' and labels from a teacher vector without noise. As d grows with a = n/d
fixed, the error of the best classifier tends to arccos(sqrt q)/pi, where

.. math::
    q = \frac{g}{1 + g}, \qquad
    g = \frac{a}{1 - q} \int Dz\, 2\, \Phi(s z) \left[\frac{\phi(s z)}{\Phi(s z)}\right]^2, \qquad
    s = \sqrt{q / (1 - q)},

and TAP becomes exact there. A linear student with weights w = sum_i alpha_i x_i errs with probability
arccos(w'w*/(|w| |w*|))/pi, so that no test cases are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.special import log_ndtr

import bayesgp_mf as bgp
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.reports.page import Block, Figures, Table
from validation.reporting.checks import at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD, axes_or_new, legend_above
from validation.studies.study import Findings, Study, Task

RATIOS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
"""n/d."""
DIMENSIONS = (50, 100, 200, 400)
SEEDS = {50: 24, 100: 16, 200: 12, 400: 12}
"""Data sets, by dimension; the error scatters less where there are more dimensions."""
MANY, FEW_SEEDS = 1500, 4
"""Of so many examples and more there are fewer data sets: their errors scatter by 0.002, a fifth of the tolerance."""
METHODS = ("tap", "naive", "variational")
LARGEST = 400
TOLERANCE = 0.01


def replica_error(ratio: float) -> float:
    """Return the error of the Bayes-optimal perceptron with ``ratio * d`` examples as d tends to infinity."""
    z = np.linspace(-12.0, 12.0, 4001)  # smooth and vanishing at both ends: the trapezoidal rule is all but exact

    def excess(q: float) -> float:
        s = np.sqrt(q / (1.0 - q))
        # Dz 2 Phi [phi/Phi]^2 with the constants of three Gaussian densities taken out
        integrand = np.exp(-(0.5 + s**2) * z**2 - log_ndtr(s * z))
        g = ratio / (1.0 - q) * 2.0 * (2.0 * np.pi) ** -1.5 * float(trapezoid(integrand, z))
        return float(q - g / (1.0 + g))

    q = brentq(excess, 1e-9, 1.0 - 1e-9, xtol=1e-13)
    return float(np.arccos(np.sqrt(q)) / np.pi)


def errors(d: int, ratio: float, seed: int) -> dict[str, float | None]:
    """Return the error of each method on one data set; None where a method refuses it."""
    rng = np.random.default_rng([d, round(10 * ratio), seed])
    n = round(ratio * d)
    X, teacher = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal(d)
    t = np.sign(X @ teacher)
    gram = X @ X.T
    found: dict[str, float | None] = {}
    for method in METHODS:
        try:
            student = X.T @ bgp.solve(gram, t, bgp.Step(), method=method).alpha
        except NotPositiveDefiniteError:
            found[method] = None
            continue
        overlap = student @ teacher / np.linalg.norm(student) / np.linalg.norm(teacher)
        found[method] = float(np.arccos(overlap) / np.pi)
    return found


def _name(d: int, ratio: float, seed: int) -> str:
    return f"d = {d}, n/d = {ratio:g}, seed {seed}"


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the mean errors at the largest dimension against the curve."""
    curve = np.array([replica_error(ratio) for ratio in RATIOS])
    mean = {(method, d): _over_seeds(results, method, d)[0] for method in METHODS for d in DIMENSIONS}
    scatter = {(method, d): _over_seeds(results, method, d)[1] for method in METHODS for d in DIMENSIONS}
    checks = tuple(
        at_most(f"TAP, n/d = {ratio:g}: distance from the replica curve", off, TOLERANCE)
        for ratio, off in zip(RATIOS, np.abs(mean["tap", LARGEST] - curve), strict=True)
    )
    rows = [
        (f"{ratio:g}", f"{exact:.4f}", *(_cell(mean[m, LARGEST][k], scatter[m, LARGEST][k]) for m in METHODS))
        for k, (ratio, exact) in enumerate(zip(RATIOS, curve, strict=True))
    ]
    seeds = ", ".join(f"{SEEDS[d]} at d = {d}" for d in DIMENSIONS) + f"; {FEW_SEEDS} of {MANY} examples and more"
    naive = float(np.max(np.abs(mean["naive", LARGEST] - curve)))
    blocks: tuple[Block, ...] = (
        "A perceptron learns from n = a d examples of another one: inputs with independent normal components, labels "
        "without noise, which the Gaussian process with a linear kernel and the step likelihood models exactly. As d "
        "grows, the best possible error is known from statistical mechanics (the replica method), and TAP becomes "
        "exact. For n > d the Gram matrix is singular: TAP and naive mean field take it as it is, the variational "
        f"method refuses it. Means over data sets: {seeds}.",
        f"Naive mean field, which knows nothing of the reaction of the other cases, is off by up to {naive:.3f}.",
        Table(
            f"Error of the classifier at d = {LARGEST}, with the standard error over data sets.",
            ("n/d", "Replica, exact for large d", *(_NOUNS[m] for m in METHODS)),
            rows,
        ),
        Figures([_curves(mean), _distances(curve, mean, scatter)]),
    )
    return Findings(checks, blocks)


_NOUNS = {"tap": "TAP", "naive": "naive", "variational": "variational"}
_COLORS = {"tap": FIRST, "naive": SECOND, "variational": THIRD}


def _over_seeds(results: Mapping[str, Any], method: str, d: int) -> tuple[Any, Any]:
    """Return means and their standard errors ``(ratios,)`` over the data sets; NaN where a method refuses."""
    found = [[results[_name(d, a, seed)][method] for seed in _seeds(d, a)] for a in RATIOS]
    each = [np.array([np.nan if e is None else e for e in of_ratio]) for of_ratio in found]
    return (
        np.array([of_ratio.mean() for of_ratio in each]),
        np.array([of_ratio.std(ddof=1) / np.sqrt(of_ratio.size) for of_ratio in each]),
    )


def _seeds(d: int, ratio: float) -> range:
    return range(FEW_SEEDS if ratio * d >= MANY else SEEDS[d])


def _cell(mean: float, scatter: float) -> str:
    return "refused" if np.isnan(mean) else f"{mean:.4f} ± {scatter:.4f}"


def _curves(mean: Mapping[tuple[str, int], Any]) -> tuple[Any, str]:
    ax = axes_or_new(None)
    fine = np.linspace(RATIOS[0], RATIOS[-1], 40)
    ax.plot(fine, [replica_error(ratio) for ratio in fine], color=QUIET, label="replica, exact", zorder=1)
    for method in METHODS:
        ax.plot(RATIOS, mean[method, LARGEST], "o", color=_COLORS[method], label=_NOUNS[method], markersize=5)
    ax.set(xlabel="examples per dimension, n/d", ylabel="error of the classifier", ylim=(0, None))
    legend_above(ax)
    return ax, f"Errors at d = {LARGEST} beside the exact curve."


def _distances(curve: Any, mean: Mapping[tuple[str, int], Any], scatter: Mapping[tuple[str, int], Any]) -> Any:
    ax = axes_or_new(None)
    for k, d in enumerate(DIMENSIONS):
        for method in ("tap", "naive"):
            ax.errorbar(
                np.array(RATIOS) * 1.02 ** (k - 1.5),
                mean[method, d] - curve,
                scatter[method, d],
                fmt="o-",
                color=_COLORS[method],
                alpha=0.25 + 0.25 * k,
                linewidth=0.8,
                markersize=3,
                label=f"{_NOUNS[method]}, d = {d}" if d in (DIMENSIONS[0], LARGEST) else None,
            )
    ax.axhline(0.0, color=QUIET, linewidth=0.8)
    ax.set(xlabel="examples per dimension, n/d", ylabel="error less that of the replica curve")
    legend_above(ax)
    return ax, (
        f"How far the errors are from the curve, for d = {', '.join(map(str, DIMENSIONS))} (the darker, the larger), "
        "with standard errors over data sets."
    )


STUDY = Study(
    "perceptron",
    "Learning curves of the Bayes-optimal perceptron",
    [
        Task(_name(d, a, seed), errors, {"d": d, "ratio": a, "seed": seed}, cost=(a * d) ** 3)
        for d in DIMENSIONS
        for a in RATIOS
        for seed in _seeds(d, a)
    ],
    conclude,
)
