"""The Gaussian process with gradients: its blocks, its mean against a dense computation, and what it learns."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.hyper.surrogate.process import fit_process

COVARIANCE = np.array([[1.0, 0.6, -0.2], [0.6, 2.0, 0.3], [-0.2, 0.3, 0.5]])
PRECISION, CENTRE = np.linalg.inv(COVARIANCE), np.array([2.0, -1.0, 0.5])


def normal(x):
    """Log density of N(CENTRE, COVARIANCE), with a constant of its own, and gradient."""
    slope = -(x - CENTRE) @ PRECISION
    return 7.0 + 0.5 * np.sum((x - CENTRE) * slope, axis=1), slope


def wavy(x):
    """No Gaussian, with slopes that belong to it."""
    total = x.sum(axis=1)
    return np.sin(x).sum(axis=1) + 0.3 * total**2, np.cos(x) + 0.6 * total[:, None]


def seen(function, n, p, seed=0, width=1.5):
    x = 0.4 + width * np.random.default_rng(seed).standard_normal((n, p))
    return x, *function(x)


@pytest.mark.parametrize(("n", "p"), [(1, 1), (9, 2), (20, 4)])
def test_the_gradient_is_that_of_the_value(n, p):
    centre, sd = np.linspace(-0.5, 0.7, p), np.linspace(0.5, 2.0, p)
    surrogate, h = fit_process(*seen(wavy, n, p), centre, sd), 1e-5
    at = 3.0 * np.random.default_rng(1).standard_normal((15, p))
    gradient = surrogate(at)[1]
    difference = np.stack([(surrogate(at + h * e)[0] - surrogate(at - h * e)[0]) / (2 * h) for e in np.eye(p)], axis=1)
    np.testing.assert_allclose(gradient, difference, atol=1e-7)
    assert np.max(np.abs(1.001 * gradient - difference)) > 1e-4  # the control


def kernel(z, other):
    """The covariance function, by its formula."""
    return 1.0 / (1.0 + 0.5 * np.sum((z - other) ** 2))


def derivatives(z, other, h=1e-4, tiny=1e-20):
    """Return the covariance ``(p + 1, p + 1)`` of value and gradient at two points.

    Derivatives in the first are by complex steps, those in the second by complex steps too, or by central differences.
    """
    found = np.empty((z.size + 1, z.size + 1))
    found[0, 0] = kernel(z, other)
    for j, d in enumerate(np.eye(z.size), start=1):
        found[0, j] = kernel(z, other + 1j * tiny * d).imag / tiny
        for i, e in enumerate(np.eye(z.size), start=1):
            found[i, 0] = kernel(z + 1j * tiny * e, other).imag / tiny
            ahead, behind = (kernel(z + 1j * tiny * e, other + step * d).imag / tiny for step in (h, -h))
            found[i, j] = (ahead - behind) / (2.0 * h)
    return found


def covariance(z):
    """Return the covariance ``(n (p + 1), n (p + 1))`` of what is seen at points, by derivatives of the formula."""
    return np.block([[derivatives(a, b) for b in z] for a in z]) + np.eye(z.size + len(z)) / 20.0


def test_covariances_of_derivatives_are_derivatives_of_the_covariance():
    """What each value and each slope contributes solves the equations of the process, whichever of them was seen."""
    z, constant = np.random.default_rng(2).standard_normal((4, 3)), np.tile([1.0, 0.0, 0.0, 0.0], 4)
    full, sd = covariance(z), np.full(3, 0.2)  # so that the coordinates are those of the points
    assert np.abs(full[0, 5:8]).min() > 1e-2  # a sign that is wrong would be seen
    for data in np.eye(16):
        above = data.reshape(4, 4)  # the mean
        surrogate = fit_process(z, above[:, 0] - 3.125 * np.sum(z**2, axis=1), above[:, 1:] - 6.25 * z, np.zeros(3), sd)
        weights = np.column_stack([surrogate.value_weight, surrogate.gradient_weight])
        np.testing.assert_allclose(full @ weights.ravel(), data - surrogate.mean * constant, atol=1e-6)


def test_the_value_is_the_posterior_mean():
    # in units of 5 sd: length scale 1, noise 1/20 on everything, prior mean m - (5 / 2)^2 w'w / 2
    centre, sd = np.array([0.3, -0.2]), np.array([0.8, 1.7])
    x, value, gradient = seen(wavy, 7, 2)
    w = (x - centre) / (5.0 * sd)
    data = np.concatenate([[v, *(5.0 * sd * g)] for v, g in zip(value, gradient, strict=True)])
    parabola = np.concatenate([[-3.125 * a @ a, *(-6.25 * a)] for a in w])
    ones = np.tile([1.0, 0.0, 0.0], 7)
    inverse = np.linalg.inv(covariance(w))
    m = ones @ inverse @ (data - parabola) / (ones @ inverse @ ones)
    surrogate = fit_process(x, value, gradient, centre, sd)
    assert surrogate.mean == pytest.approx(m, abs=1e-6)
    at = centre + 6.0 * np.random.default_rng(3).standard_normal((5, 2))
    for point, found in zip(at, surrogate(at)[0], strict=True):
        a = (point - centre) / (5.0 * sd)
        across = np.concatenate([derivatives(a, b)[0] for b in w])
        expected = m - 3.125 * a @ a + across @ inverse @ (data - parabola - m * ones)
        assert found == pytest.approx(expected, abs=1e-6)
        assert abs(expected - (m - 3.125 * a @ a)) > 1e-3  # what was seen matters


def test_a_normal_density_is_learned_from_thirty_points():
    """Correlated, off the centre that is assumed and of another width; where nine tenths of it is."""
    sd, rng = np.sqrt(np.diag(COVARIANCE)), np.random.default_rng(4)
    factor = np.linalg.cholesky(COVARIANCE)
    x = CENTRE + 1.3 * rng.standard_normal((30, 3)) @ factor.T
    surrogate = fit_process(x, *normal(x), CENTRE + 0.5 * sd * [1.0, -1.0, 0.8], sd * [1.4, 0.8, 1.2])
    draws = rng.standard_normal((500, 3))
    draws = CENTRE + draws[np.sum(draws**2, axis=1) < 6.25] @ factor.T  # of chi^2 with three degrees of freedom
    assert draws.shape[0] > 430
    error = surrogate(draws)[0] - normal(draws)[0]
    assert np.sqrt(np.mean(error**2)) < 0.08
    assert np.std(normal(draws)[0]) > 0.7  # what it has to tell
    few = fit_process(x[:4], *(part[:4] for part in normal(x)), CENTRE, sd)  # the control
    assert np.std(few(draws)[0] - normal(draws)[0]) > 0.15


def test_far_away_it_falls_off_as_a_normal_density_twice_as_wide():
    centre, sd = np.array([0.3, -0.2]), np.array([0.8, 1.7])
    surrogate = fit_process(*seen(wavy, 12, 2), centre, sd)
    far = centre + 1e6 * sd * np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])
    np.testing.assert_allclose(surrogate(far)[0], -0.5 * (1e6 / 2.0) ** 2, rtol=1e-5)
    np.testing.assert_allclose(surrogate(far)[1], -(far - centre) / (2.0 * sd) ** 2, rtol=1e-5, atol=1e-3)


def test_a_constant_only_shifts():
    x, value, gradient = seen(wavy, 12, 3)
    centre, sd, at = np.zeros(3), np.ones(3), np.random.default_rng(5).standard_normal((6, 3))
    plain, shifted = (fit_process(x, value + shift, gradient, centre, sd)(at) for shift in (0.0, -250.0))
    np.testing.assert_allclose(shifted[0], plain[0] - 250.0, atol=1e-9)
    np.testing.assert_allclose(shifted[1], plain[1], atol=1e-10)


def test_units_and_signs_of_coordinates_do_not_matter():
    x, value, gradient = seen(wavy, 12, 3)
    centre, sd, at = np.full(3, 0.2), np.array([0.7, 1.0, 1.9]), np.random.default_rng(5).standard_normal((6, 3))
    shift, factor = np.array([4.0, -3.0, 0.1]), np.array([2.0, 0.01, -30.0])
    plain = fit_process(x, value, gradient, centre, sd)(at)
    moved = fit_process(shift + factor * x, value, gradient / factor, shift + factor * centre, np.abs(factor) * sd)
    there = moved(shift + factor * at)
    np.testing.assert_allclose(there[0], plain[0], atol=1e-9)
    np.testing.assert_allclose(there[1] * factor, plain[1], atol=1e-9)
    alone = fit_process(shift + factor * x, value, gradient / factor, shift + factor * centre, sd)
    assert np.max(np.abs(alone(shift + factor * at)[0] - plain[0])) > 0.1  # the control: the width must come along


def test_directions_do_not_matter_where_the_widths_are_equal():
    x, value, gradient = seen(wavy, 12, 3)
    at, turn = np.random.default_rng(6).standard_normal((6, 3)), np.linalg.qr(COVARIANCE)[0]
    plain = fit_process(x, value, gradient, np.zeros(3), np.full(3, 1.2))(at)
    turned = fit_process(x @ turn, value, gradient @ turn, np.zeros(3), np.full(3, 1.2))(at @ turn)
    np.testing.assert_allclose(turned[0], plain[0], atol=1e-10)
    np.testing.assert_allclose(turned[1], plain[1] @ turn, atol=1e-10)
