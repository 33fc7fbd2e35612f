"""Streams of ten classes: digits one batch after the other, beside all at once and a stream for each class.

Scikit-learn's digits with one fixed kernel. A stream of all classes sees them in several orders under a budget; the
same number of inducing cases could have been chosen for all cases at once, or ten streams each tell one digit from the
rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.multiclass import OneVsRestClassifier

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Table
from bayesgp_mf.streams import Stream
from bayesgp_mf.types import Array
from validation.reporting.checks import at_least, at_most
from validation.studies.study import Findings, Study, Task

KERNEL = bgp.kernels.Gaussian(lengthscale=2.5, variance=20.0)
CLASSES = tuple(range(10))
N, BATCH = 1000, 100
"""Digits to learn from, of 1797, and how many come at once."""
BUDGETS = (100, 200)
ORDERS = (1, 2, 3)
NEAR = 0.02
"""Tolerance of held-out log scores, in nats a case."""


def digits() -> tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return ink between 0 and 1 and labels, of those to learn from and of those held out."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(data.target.size)
    X, y = data.data[order] / 16.0, data.target[order]
    return X[:N], y[:N], X[N:], y[N:]


def together(budget: int, order: int, n: int = N) -> dict[str, float]:
    """Return how a stream of all classes did, with cases in a random order."""
    X, y, X_test, y_test = digits()
    some = np.random.default_rng(order).permutation(N)[:n]
    stream = Stream(KERNEL, bgp.MultinomialProbit(CLASSES), budget=budget, batch=BATCH, random_seed=order)
    stream.update(X[some], y[some], progress=False)
    return {"prequential": stream.log_score.mean, **scored(stream.predict_proba(X_test), y_test)}


def each(budget: int, order: int, n: int = N) -> dict[str, float]:
    """Return how ten streams did, each of which tells one class from the rest."""
    X, y, X_test, y_test = digits()
    some = np.random.default_rng(order).permutation(N)[:n]
    model = OneVsRestClassifier(bgp.sklearn.GPClassifier(KERNEL, hyper=None, budget=budget, random_state=order))
    for start in range(0, n, BATCH):
        part = some[start : start + BATCH]
        model.partial_fit(X[part], y[part], classes=CLASSES)
    return scored(model.predict_proba(X_test), y_test)


def at_once(budget: int, n: int = N) -> dict[str, float]:
    """Return how a fit of all cases did, on as many inducing cases."""
    X, y, X_test, y_test = digits()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idata = bgp.fit(
            X[:n],
            y[:n],
            KERNEL,
            bgp.MultinomialProbit(CLASSES),
            inducing=budget,
            draws=1,
            chains=1,
            random_seed=1,
            progress=False,
        )
    return scored(bgp.posterior(idata).predict_proba(X_test), y_test)


def scored(p: Array, y: NDArray[np.int64]) -> dict[str, float]:
    """Return the mean log probability of labels, in nats, and the share of errors."""
    found = bgp.diagnostics.class_scores(y, p, CLASSES)
    return {"score": found.log_score, "errors": found.errors / found.cases}


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold streams of all classes against all cases at once, and orders against each other."""
    checks, rows = [], []
    for budget in BUDGETS:
        streams = [results[_name(budget, f"order {order}")] for order in ORDERS]
        whole, rest = results[_name(budget, "all at once")], results[_name(budget, "one against the rest")]
        scores = [one["score"] for one in streams]
        checks += [
            at_least(f"{budget} inputs, worst order above all at once", min(scores) - whole["score"], -NEAR, "nats"),
            at_most(f"{budget} inputs, range over orders", max(scores) - min(scores), NEAR, "nats"),
        ]
        for order, one in zip(ORDERS, streams, strict=True):
            rows.append(_row(f"{budget}, stream of all classes, order {order}", one))
        rows += [_row(f"{budget}, one against the rest", rest), _row(f"{budget}, all at once", whole)]
    return Findings(
        tuple(checks),
        (
            f"Scikit-learn's digits: {N} in batches of {BATCH}, the others held out; {KERNEL!r}, which is not tuned.",
            Table(
                "Basis inputs; the mean log probability of held-out labels, in nats; errors; that of each batch before "
                "it was learned from.",
                ("", "Log score", "Errors", "Prequential"),
                rows,
            ),
        ),
    )


def _row(name: str, found: Mapping[str, float]) -> tuple[str, ...]:
    prequential = f"{found['prequential']:.4f}" if "prequential" in found else "-"
    return name, f"{found['score']:.4f}", f"{found['errors']:.3f}", prequential


def _name(budget: int, what: str) -> str:
    return f"{budget} inputs, {what}"


STUDY = Study(
    "class_streams",
    "Streams of ten classes, beside all cases at once and a stream for each class",
    [
        *(
            Task(_name(b, f"order {order}"), together, {"budget": b, "order": order}, cost=1e7 * b**2)
            for b in BUDGETS
            for order in ORDERS
        ),
        *(Task(_name(b, "one against the rest"), each, {"budget": b, "order": ORDERS[0]}, cost=1e8) for b in BUDGETS),
        *(Task(_name(b, "all at once"), at_once, {"budget": b}, cost=1e8) for b in BUDGETS),
    ],
    conclude,
)
