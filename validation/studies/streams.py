"""Streams against all cases at once, in several orders, and with forgetting where the rule changes.

Labels follow a rule of two inputs. In the first study of it batches come in several orders, under a budget; the same
inducing cases could have been chosen for all cases at once. In the second the rule turns by a right angle halfway: what
was learned before is then wrong, and a stream that forgets should be the better one, and pay for it where nothing
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.streams import Stream
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD
from validation.studies.study import Findings, Study, Task

KERNEL = bgp.kernels.Matern32(lengthscale=[1.5, 1.5], variance=4.0)
BUDGET, BATCH, N = 100, 250, 20_000
N_TEST = 20_000
ORDERS = (1, 2, 3, 4)
HALF_LIVES = (None, 500.0, 2000.0, 8000.0)
NEAR = 0.003
"""Tolerance of held-out log scores, in nats a case."""
GAIN = 0.01
"""By how much forgetting must pay where the rule turns, in nats a case."""
AVERAGED = 8
"""Batches over which a curve is averaged."""
COLORS = (QUIET, SECOND, FIRST, THIRD)


def data(n: int, seed: int, *, turned_from: int | None = None) -> tuple[Array, Array]:
    """Return inputs ``(n, 2)`` and labels -1/+1 ``(n,)``; from one case on the rule is turned by a right angle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    seen = X.copy()
    if turned_from is not None:
        seen[turned_from:] = np.column_stack([-X[turned_from:, 1], X[turned_from:, 0]])
    value = 2.0 * np.sin(1.5 * seen[:, 0]) + seen[:, 1] + rng.normal(size=n)
    return X, np.where(value > 0, 1.0, -1.0)


def ordered(order: int | None, n: int = N) -> dict[str, float]:
    """Return the ``score`` on held-out cases of a stream with batches in a random order, or of all cases at once."""
    X, t = data(n, 1)
    X_test, t_test = data(N_TEST, 2)
    if order is None:
        idata = bgp.fit(X, t, KERNEL, inducing=BUDGET, draws=1, chains=1, random_seed=1, progress=False)
        p = bgp.posterior(idata).predict_proba(X_test)
    else:
        stream = Stream(KERNEL, budget=BUDGET, batch=BATCH, random_seed=1)
        for k in np.random.default_rng(order).permutation(n // BATCH):
            here = slice(BATCH * k, BATCH * (k + 1))
            stream.update(X[here], t[here], progress=False)
        p = stream.predict_proba(X_test)
    return {"score": float(np.mean(np.log(np.where(t_test > 0, p, 1.0 - p))))}


def drifting(half_life: float | None, turns: bool, n: int = N) -> dict[str, list[float]]:
    """Return the log ``scores`` a case of each batch before it is learned from; the rule turns halfway, or never."""
    X, t = data(n, 3, turned_from=n // 2 if turns else None)
    stream = Stream(KERNEL, budget=BUDGET, batch=BATCH, forget=half_life, random_seed=1)
    scores = []
    for start in range(0, n, BATCH):  # a stream that forgets takes them in smaller parts
        before = stream.log_score.total
        stream.update(X[start : start + BATCH], t[start : start + BATCH], progress=False)
        scores.append((stream.log_score.total - before) / BATCH)
    return {"scores": scores}


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold orders against each other and against all at once, and streams that forget against one that does not."""
    at_once = results[_order_name(None)]["score"]
    scores = [results[_order_name(order)]["score"] for order in ORDERS]
    means = {(h, turns): float(np.mean(_scores(results, h, turns))) for h in HALF_LIVES for turns in (True, False)}
    best = max(h for h in HALF_LIVES if h is not None and means[h, True] == _best(means))
    checks: tuple[Check, ...] = (
        at_most("Batches in four orders: range of the held-out log score", np.ptp(scores), NEAR, "nats a case"),
        at_most("All at once, better than the worst order by", at_once - min(scores), NEAR, "nats a case"),
        at_least("The rule turns: forgetting is better by", means[best, True] - means[None, True], GAIN, "nats a case"),
        at_least("Control, no turn: forgetting costs", means[None, False] - means[min(_finite()), False], 0.0, "nats"),
    )
    return Findings(
        checks,
        (
            f"{N:,} cases in batches of {BATCH}, {BUDGET} basis inputs, two inputs, {KERNEL!r}, which is not tuned. "
            f"Held-out log scores, of {N_TEST:,} cases: all at once {at_once:.4f}, batches in four orders "
            + ", ".join(f"{score:.4f}" for score in scores)
            + ".",
            Table(
                "Mean log score of each batch before it is learned from, in nats a case.",
                ("Half-life, cases", "Rule turns halfway", "Rule stays"),
                [(_said(h), f"{means[h, True]:.4f}", f"{means[h, False]:.4f}") for h in HALF_LIVES],
            ),
            Figures(
                [(drift_figure(results), "Log score of each batch before it is learned from; the rule turns halfway.")]
            ),
        ),
    )


def drift_figure(results: Mapping[str, Any]) -> Any:
    """Draw running means of the log score of batches against the cases seen, a line for each half-life."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    ax = figure.subplots()
    ax.axvline(N / 2, color=QUIET, linewidth=0.8, linestyle=":")
    for half_life, color in zip(HALF_LIVES, COLORS, strict=True):
        scores = _scores(results, half_life, True)
        smooth = np.convolve(scores, np.full(AVERAGED, 1.0 / AVERAGED), mode="valid")
        seen = BATCH * np.arange(AVERAGED, scores.size + 1)
        ax.plot(seen, smooth, color=color, linewidth=1.6, label=_said(half_life))
    ax.set_xlabel("cases seen")
    ax.set_ylabel(f"log score, mean of {AVERAGED} batches (nats a case)")
    ax.legend(title="half-life, cases", frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _scores(results: Mapping[str, Any], half_life: float | None, turns: bool) -> Array:
    return np.array(results[_drift_name(half_life, turns)]["scores"])


def _finite() -> list[float]:
    return [half_life for half_life in HALF_LIVES if half_life is not None]


def _best(means: Mapping[tuple[float | None, bool], float]) -> float:
    return max(means[half_life, True] for half_life in _finite())


def _said(half_life: float | None) -> str:
    return "forgets nothing" if half_life is None else f"{half_life:,.0f}"


def _order_name(order: int | None) -> str:
    return "all at once" if order is None else f"order {order}"


def _drift_name(half_life: float | None, turns: bool) -> str:
    return f"half-life {_said(half_life)}, {'turns' if turns else 'stays'}"


STUDY = Study(
    "streams",
    "Streams against all cases at once, and forgetting",
    [
        *(Task(_order_name(order), ordered, {"order": order}, cost=1e8) for order in (None, *ORDERS)),
        *(
            Task(_drift_name(half_life, turns), drifting, {"half_life": half_life, "turns": turns}, cost=1e8)
            for half_life in HALF_LIVES
            for turns in (True, False)
        ),
    ],
    conclude,
)
