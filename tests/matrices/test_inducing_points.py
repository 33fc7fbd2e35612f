"""Inducing inputs that nearly repeat each other: the model is that of 60 digits, or what is missing is stated."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.inference.assembly import assemble_inducing, inducing_error
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Linear, Matern32, OnSphere
from bayesgp_mf.likelihoods import Gaussian as Noise
from bayesgp_mf.matrices.inducing import independent_points, inducing_gram
from bayesgp_mf.matrices.inducing_points import _repeated, inducing_points
from bayesgp_mf.methods import METHODS

RNG = np.random.default_rng(3)
N = 14
X = RNG.uniform(-2.0, 2.0, (N, 2))
Z = RNG.uniform(-2.0, 2.0, (3, 2))
AWAY = RNG.standard_normal(Z.shape)
KERNEL = Gaussian(1.3, 2.0)
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
TARGETS = {
    "strong noise": (F, Noise(0.1)),
    "little noise": (F, Noise(1e-3)),
    "hardly any noise": (F, Noise(1e-6)),
    "labels": (np.sign(F), bgp.Probit(0.01)),
    "counts": (np.floor(np.exp(F)), bgp.Poisson()),
}


def in_digits(points, inputs=X):
    """Return Q + diag(d) of the Gaussian kernel, in 60 digits, as floats."""
    with mpmath.workdps(60):

        def covariances(rows, columns):
            squares = [
                [mpmath.fsum((mpmath.mpf(a) - b) ** 2 for a, b in zip(x, z, strict=True)) for z in columns]
                for x in rows
            ]
            scale = 2 * mpmath.mpf(KERNEL.params["lengthscale"].item()) ** 2
            return mpmath.matrix([[2 * mpmath.exp(-s / scale) for s in row] for row in squares])

        points, inputs = points.tolist(), inputs.tolist()
        factor, root = mpmath.cholesky(covariances(points, points)), covariances(points, inputs)
        for r in range(len(points)):
            for c in range(len(inputs)):
                root[r, c] = (root[r, c] - mpmath.fsum(factor[r, s] * root[s, c] for s in range(r))) / factor[r, r]
        result = np.array((root.T * root).tolist(), dtype=float)
    np.fill_diagonal(result, 2.0)
    return result


def solved(points, t, likelihood, kernel=KERNEL):
    """Return the log evidence on inducing inputs, and what is stated of it."""
    problem = assemble_inducing(kernel, X, t, likelihood, inducing=points)
    solution = bgp.solve(problem.matrix, t, likelihood, method="tap")
    return solution.evidence.value, inducing_error(kernel, X, problem, solution, METHODS["tap"]) or 0.0


@pytest.mark.parametrize("distance", 10.0 ** -np.arange(1, 13))
def test_the_model_is_that_of_sixty_digits(distance):
    points = np.concatenate([Z, Z + distance * AWAY])
    gram = in_digits(points)
    for t, likelihood in TARGETS.values():
        true = bgp.solve(gram, t, likelihood, method="tap").evidence.value
        found, stated = solved(points, t, likelihood)
        assert found == pytest.approx(true, abs=1e-4)
        assert abs(found - true) < 3.0 * stated + 1e-5
        if distance < 3e-5:  # the control: without what is left out by rounding it is another model
            rough = inducing_gram(KERNEL, X, points[independent_points(KERNEL, points)])
            assert abs(bgp.solve(rough, t, likelihood, method="tap").evidence.value - true) > 0.01


def test_the_evidence_is_continuous_in_the_inputs():
    t, likelihood = TARGETS["little noise"]
    distances = np.geomspace(1e-7, 1e-2, 60)
    values = [solved(np.concatenate([Z, Z + distance * AWAY]), t, likelihood)[0] for distance in distances]
    assert np.max(np.abs(np.diff(values)[distances[1:] < 1e-4])) < 1e-3


def test_what_cannot_be_told_apart_is_stated_at_its_size():
    """Three inputs on a line say how the function bends there, too: of that no digit is left."""
    step = np.array([[1e-7, 2e-7]])
    points = np.concatenate([Z[:1] - step, Z[:1], Z[:1] + 3 * step])
    for t, likelihood in TARGETS.values():
        true = bgp.solve(in_digits(points), t, likelihood, method="tap").evidence.value
        found, stated = solved(points, t, likelihood)
        assert abs(found - true) < 3.0 * stated
        if likelihood.is_real and abs(found - true) > 0.05:
            assert stated < 100.0 * abs(found - true)


def test_repeated_inputs_say_nothing_more():
    found = inducing_points(KERNEL, np.concatenate([Z, Z[::-1], Z + 0.0]))
    assert len(found.used) == len(Z)
    assert not found.changed
    t, likelihood = TARGETS["labels"]
    assert solved(np.concatenate([Z, Z]), t, likelihood)[0] == pytest.approx(solved(Z, t, likelihood)[0], abs=1e-12)


@pytest.mark.parametrize("kernel", [Bias(2.0), Linear(), Gaussian([1.0, 1e20])], ids=repr)
def test_what_no_distance_tells_apart_stays_where_it_is(kernel):
    points = np.concatenate([Z, Z + np.array([0.0, 1e-9])])
    assert set(map(tuple, inducing_points(kernel, points).used)) <= set(map(tuple, points))


def test_groups_that_a_kernel_does_not_tell_are_not_mixed():
    kernel = Gaussian(1.0, columns=[0]) + Categorical(1e-14, columns=[1])
    points = np.array([[0.0, 0.0], [1e-9, 1.0], [1.0, 0.0], [1.0 + 1e-9, 0.0]])
    assert set(inducing_points(kernel, points).used[:, 1]) <= {0.0, 1.0}


@pytest.mark.parametrize("kernel", [KERNEL, Matern32(1.0, 2.0)], ids=repr)
def test_gradient_in_inputs_that_are_moved_apart(kernel):
    points, bar = np.concatenate([Z, Z[:2] + 1e-7 * AWAY[:2]]), RNG.standard_normal((5, 2))
    found = inducing_points(kernel, points)
    assert len(found.moved) == 2
    slope, small = found.pull_back(bar, len(points)), 1e-9
    for i, j in np.ndindex(*points.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = points.copy()
            moved[i, j] += sign * small
            values.append(float(np.sum(bar * inducing_points(kernel, moved).used)))
        assert (values[0] - values[1]) / (2.0 * small) == pytest.approx(slope[i, j], rel=1e-4, abs=1e-5)


def test_a_fit_says_what_it_left_out():
    line = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])[:, None]
    x, t = np.linspace(-2.0, 2.0, 20)[:, None], np.sin(3.0 * np.linspace(-2.0, 2.0, 20))
    points = np.concatenate([line, line + 1e-7, line - 1e-7])
    options = {"draws": 10, "random_seed": 1}
    with pytest.warns(bgp.ConvergenceWarning, match=r"nearly repeat each other.*off by .* nats"):
        idata = bgp.fit(x, t, Gaussian(1.0, 2.0), Noise(1e-3), inducing=points, **options)
    stated = float(idata["fit"]["inducing_error"])
    quality = bgp.diagnostics.quality(idata)
    assert quality.inducing_error == stated > 0.1
    assert "inducing inputs that nearly repeat" in quality.sentence.lower()
    assert "inducing_error" not in bgp.fit(x, t, Gaussian(1.0, 2.0), Noise(1e-3), inducing=line, **options)["fit"]


def test_only_inputs_that_are_one_at_any_distance_of_their_numbers_repeat_another():
    """Those that are too near for double precision do not: they say what the slope is."""
    globe, used = OnSphere(Gaussian(3000.0), [0, 1]), np.array([[20.0, 90.0], [180.0, 5.0], [3.0, 4.0]])
    left_out = np.array([[70.0, 90.0], [-180.0, 5.0], [3.0 + 1e-9, 4.0], [3.0, 4.0 + 1e-9], [30.0, 40.0]])
    assert _repeated(globe, left_out, used).tolist() == [True, True, False, False, False]
    groups = OnSphere(Gaussian(3000.0), [0, 1]) + Categorical(1e-16, columns=2)
    beside = [np.column_stack([each, np.full(len(each), group)]) for group, each in ((1.0, left_out[:2]), (0.0, used))]
    assert not _repeated(groups, *beside).any()
