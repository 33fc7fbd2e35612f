"""The study of streams: its data turn, its tasks are plain, and its checks fail where streams are worse."""

from __future__ import annotations

import numpy as np
import pytest

from validation.studies import streams
from validation.studies.streams import HALF_LIVES, ORDERS, STUDY, data, drifting, ordered


def results(*, worst=-0.330, forgetting=0.05, cost=0.01):
    found = {"all at once": {"score": -0.331}}
    found |= {f"order {order}": {"score": worst if order == ORDERS[0] else -0.330} for order in ORDERS}
    for task in STUDY.tasks:
        if task.function is drifting:
            forgets, turns = task.arguments["half_life"] is not None, task.arguments["turns"]
            score = -0.4 + (forgetting if turns else -cost) * forgets
            found[task.name] = {"scores": [score] * (streams.N // streams.BATCH)}
    return found


def failed(**given):
    return [check.name for check in STUDY.conclude(results(**given)).checks if not check.passed]


def test_what_is_as_claimed_passes_and_what_is_not_fails():
    assert failed() == []
    assert failed(worst=-0.340) == [
        "Batches in four orders: range of the held-out log score",
        "All at once, better than the worst order by",
    ]
    assert failed(forgetting=0.001) == ["The rule turns: forgetting is better by"]
    assert failed(cost=-0.01) == ["Control, no turn: forgetting costs"]


def test_the_rule_turns_by_a_right_angle():
    X, t = data(4000, 1, turned_from=2000)
    plain_X, plain_t = data(4000, 1)
    np.testing.assert_array_equal(X, plain_X)
    np.testing.assert_array_equal(t[:2000], plain_t[:2000])
    turned = np.column_stack([-X[2000:, 1], X[2000:, 0]])
    assert np.corrcoef(turned[:, 0], t[2000:])[0, 1] > 0.4
    assert abs(np.corrcoef(X[2000:, 0], t[2000:])[0, 1]) < np.corrcoef(X[:2000, 0], t[:2000])[0, 1]


@pytest.mark.parametrize("order", [None, 1])
def test_a_task_of_orders_learns(order):
    assert ordered(order, n=1000)["score"] > np.log(0.5) + 0.2


def test_a_task_of_drift_has_a_score_for_each_batch():
    assert len(drifting(HALF_LIVES[1], True, n=1000)["scores"]) == 1000 // streams.BATCH
