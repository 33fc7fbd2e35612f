"""The benchmark of rough fields, made small; its fields have the covariance that they are fitted with."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.kernels import Gaussian, Matern32
from validation.benchmarks import rough


def test_few_places_have_a_table(monkeypatch):
    monkeypatch.setattr(rough, "NEW", 20)
    monkeypatch.setattr(rough, "INDUCING", (10, 500))
    (table,) = rough.benchmarks(lambda _: None, sizes=(200,), extents=(2, 50))
    assert [row[3] for row in table.rows] == ["dense", "low rank"] * 2 + ["dense", "inducing"] * 2
    assert [one.get("rank", 0) > 0 for one in table.numbers] == [True, True, True, False, True, True, True, True]
    dense, of_ten = table.numbers[-2:]
    assert dense["independent"] == 0.0
    assert of_ten["independent"] > 0.5
    assert rough.lost(np.array([0.3, 0.6]), np.array([0.3, 0.6])) == 0.0


@pytest.mark.parametrize("kind", [Gaussian, Matern32])
def test_fields_have_their_covariance(kind):
    kernel, rng = kind(0.7, 2.0), np.random.default_rng(2)
    X = np.array([[0.0, 0.0], [0.5, 0.2], [-1.0, 0.4]])
    draws = np.array([rough.field(kernel, X, rng) for _ in range(400)])
    np.testing.assert_allclose(np.cov(draws.T), kernel.gram(X), atol=0.4)
    np.testing.assert_allclose(np.corrcoef(draws.T), kernel.gram(X) / 2.0, atol=0.12)
