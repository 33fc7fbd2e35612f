"""What may not become a problem, and what the messages say."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp

GRAM = np.array([[1.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize(
    ("gram", "t", "message"),
    [
        (np.ones((2, 3)), [1, -1], r"gram must be a square matrix \(n, n\), got shape \(2, 3\)"),
        (np.ones(2), [1, -1], r"got shape \(2,\)"),
        (np.empty((0, 0)), [], "gram is empty"),
        ([[1.0, np.nan], [np.nan, 1.0]], [1, -1], r"gram must be finite, but 2 of its 4 entries .* index \(0, 1\)"),
        ([[1.0, 0.5], [0.4, 1.0]], [1, -1], r"gram must be symmetric, but .* differ by up to 0\.1"),
        ([[1.0, 2.0], [2.0, 1.0]], [1, -1], "positive semi-definite, but its smallest eigenvalue is -1"),
        ([[-1.0]], [1], "the diagonal of gram holds prior variances, but entry 0 is -1"),
        (np.diag([1e10, -0.5]), [1, -1], "entry 1 is -0.5, below zero"),
        (GRAM, [1], r"t must have shape \(2,\) to match gram \(2, 2\), got \(1,\)"),
        (GRAM, [1, 0], r"labels -1 and \+1 for Probit, got values such as \[0\.0, 1\.0\]"),
        (GRAM, [1, np.inf], "t must be finite"),
        (GRAM, ["a", "b"], r"t must hold numbers.*takes any labels and encodes them"),
    ],
)
def test_malformed_problems_are_refused(gram, t, message):
    with pytest.raises(ValueError, match=message):
        bgp.solve(gram, t, bgp.Probit())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_contradicting_labels_are_an_error_under_a_step_only(sign):
    gram = np.array([[1.0, sign, 0.2], [sign, 1.0, 0.2 * sign], [0.2, 0.2 * sign, 1.0]])
    t = [1, -sign, 1]
    with pytest.raises(bgp.InconsistentDataError, match=r"cases 0 and 1 have the same input .* Allow noise"):
        bgp.solve(gram, t, bgp.Step())
    for likelihood in (bgp.Step(0.1), bgp.Probit(0.1)):
        assert np.isfinite(bgp.solve(gram, t, likelihood).evidence.value)
    assert np.isfinite(bgp.solve(gram + 0.1 * np.eye(3), t, bgp.Step()).evidence.value)


def test_labels_that_no_function_satisfies_are_explained():
    # exclusive or, with a linear kernel and a bias
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    gram = (bgp.kernels.Linear() + bgp.kernels.Bias()).gram(X)
    with pytest.raises(bgp.InconsistentDataError, match="not separable under the kernel"):
        bgp.solve(gram, [-1, 1, 1, -1], bgp.Step())


def test_a_value_that_is_certainly_zero_has_no_sign():
    with pytest.raises(ValueError, match="case 1 has prior variance zero"):
        bgp.solve(np.diag([1.0, 0.0]), [1, -1], bgp.Step())
    assert bgp.solve(np.diag([1.0, 0.0]), [1, -1], bgp.Probit()).alpha.shape == (2,)


def test_non_convergence_raises_unless_told_otherwise():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(), n=30, random_seed=0)
    gram, t = bgp.kernels.Gaussian(1.0, 10.0).gram(toy.X), 2 * toy.y - 1
    with pytest.raises(bgp.ConvergenceError, match=r"tap: .* \(residual .* after 2 steps, tolerance 1e-08\)") as error:
        bgp.solve(gram, t, bgp.Probit(), control=bgp.Control(max_iterations=2))
    assert error.value.status is bgp.Status.MAX_ITERATIONS
    partial = bgp.solve(gram, t, bgp.Probit(), control=bgp.Control(max_iterations=2, throw=False))
    assert partial.info.status is bgp.Status.MAX_ITERATIONS
    assert partial.info.residual > 1e-8
    assert np.isfinite(partial.evidence.value)


def test_a_start_must_have_as_many_cases():
    start = bgp.solve(np.eye(3), [1, 1, -1], bgp.Probit())
    with pytest.raises(ValueError, match="start has 3 cases, but the problem has 2"):
        bgp.solve(GRAM, [1, -1], bgp.Probit(), start=start)
    oracle = bgp.solve(GRAM, [1, -1], bgp.Probit(), method="exact")
    with pytest.raises(ValueError, match="made by method 'exact'"):
        bgp.solve(GRAM, [1, -1], bgp.Probit(), start=oracle)


@pytest.mark.parametrize(
    "arguments", [{"tolerance": 0.0}, {"tolerance": np.nan}, {"max_iterations": 0}, {"max_iterations": 1.5}]
)
def test_control_is_checked(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} must be"):
        bgp.Control(**arguments)
