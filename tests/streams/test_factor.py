"""What the past says, kept at few inputs: laws that hold to rounding, and divergences by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import inv, slogdet

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.streams.classes import ClassValues
from bayesgp_mf.streams.factor import nothing
from bayesgp_mf.streams.values import Values

RNG = np.random.default_rng(3)
X = RNG.normal(size=(24, 2))
T = np.where(X[:, 0] + 0.5 * RNG.normal(size=24) > 0, 1.0, -1.0)
KERNEL = kernels.Matern32([0.7, 2.0], 3.0) + kernels.Bias()


CODES = np.argmax(np.column_stack([X, X.sum(axis=1) ** 2 - 1.0, np.zeros(24)]), axis=1) * 1.0
VALUES = {1: (Values(bgp.Probit()), T), 3: (ClassValues(bgp.MultinomialProbit(tuple("abcd"))), CODES)}


@pytest.fixture(params=VALUES, ids="{} functions".format)
def factor(request):
    values, t = VALUES[request.param]
    return values.absorb(nothing(2, request.param), KERNEL, X, t, X, bgp.Control()).factor


def moments_of_values(factor):
    """Mean and covariance of f at the basis inputs."""
    root = np.kron(factor.root, np.eye(factor.outputs))
    return root @ factor.mean, root @ inv(factor.precision) @ root.T


def rows_of(factor, inputs):
    """Which values are those at some basis inputs."""
    return (factor.outputs * np.asarray(inputs)[:, None] + np.arange(factor.outputs)).ravel()


def divergence_without(factor, r):
    """KL from the posterior of all values to that with the marginal of the others, and the prior of r given them."""
    K = np.kron(factor.root @ factor.root.T, np.eye(factor.outputs))
    mean, S = moments_of_values(factor)
    keep, gone = rows_of(factor, np.delete(np.arange(factor.size), r)), rows_of(factor, [r])
    by_others = K[np.ix_(gone, keep)] @ inv(K[np.ix_(keep, keep)])
    rest = K[np.ix_(gone, gone)] - by_others @ K[np.ix_(keep, gone)]
    order, inner = [*keep, *gone], S[np.ix_(keep, keep)]
    hat = np.block([[inner, inner @ by_others.T], [by_others @ inner, by_others @ inner @ by_others.T + rest]])
    off = mean[order] - np.append(mean[keep], by_others @ mean[keep])
    precise = inv(hat)
    trace = np.trace(precise @ S[np.ix_(order, order)])
    return 0.5 * (trace + off @ precise @ off - len(mean) + slogdet(hat)[1] - slogdet(S)[1])


def test_the_input_that_goes_is_the_one_that_costs_least(factor):
    costs = [divergence_without(factor, r) for r in range(factor.size)]
    gone = int(np.argmin(costs))
    assert sorted(costs)[1] - min(costs) > 1e-6  # it is told from the next one
    np.testing.assert_array_equal(factor.within(factor.size - 1).points, np.delete(X, gone, axis=0))


def test_several_go_one_after_the_other(factor):
    at_once, one_by_one = factor.within(15), factor
    for size in range(factor.size - 1, 14, -1):
        one_by_one = one_by_one.within(size)
    np.testing.assert_array_equal(at_once.points, one_by_one.points)
    for found, expected in zip(moments_of_values(at_once), moments_of_values(one_by_one), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_those_that_stay_keep_their_marginal_posterior(factor):
    fewer = factor.within(10)
    here = rows_of(factor, [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in fewer.points])
    mean, covariance = moments_of_values(factor)
    np.testing.assert_allclose(moments_of_values(fewer)[0], mean[here], atol=1e-11)
    np.testing.assert_allclose(moments_of_values(fewer)[1], covariance[np.ix_(here, here)], atol=1e-11)
    np.testing.assert_allclose(fewer.root @ fewer.root.T, KERNEL.cross(fewer.points, fewer.points), atol=1e-11)
    assert np.linalg.eigvalsh(fewer.precision)[0] >= 1.0 - 1e-12


def test_new_inputs_change_nothing(factor):
    new = RNG.normal(size=(6, 2))
    more = factor.with_points(KERNEL, new)
    assert more.size == factor.size + 6
    elsewhere = RNG.normal(size=(30, 2))
    rows = factor.shift.size
    np.testing.assert_allclose(moments_of_values(more)[1][:rows, :rows], moments_of_values(factor)[1], atol=1e-11)
    found, expected = (each.moments(each.features(KERNEL, elsewhere))[0] for each in (more, factor))
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_moments_and_draws_are_those_of_the_definition(factor):
    features, q = factor.features(KERNEL, elsewhere := RNG.normal(size=(5, 2))), factor.outputs
    mean, covariance = factor.moments(features)
    at = np.kron(features.T, np.eye(q))
    whole = at @ inv(factor.precision) @ at.T
    np.testing.assert_allclose(mean.ravel(), at @ factor.mean, atol=1e-11)
    for i in range(5):
        np.testing.assert_allclose(covariance[i], whole[q * i : q * i + q, q * i : q * i + q], atol=1e-11)
    gram = KERNEL.gram(elsewhere)
    drawn = factor.draw_at(features, gram, 20000, np.random.default_rng(1)).reshape(20000, -1)
    expected = whole + np.kron(gram - features.T @ features, np.eye(q))
    sd = np.sqrt(np.diag(expected))
    assert np.abs((drawn.mean(axis=0) - mean.ravel()) / sd).max() < 4.5 / np.sqrt(20000)
    np.testing.assert_allclose(np.cov(drawn.T) / np.outer(sd, sd), expected / np.outer(sd, sd), atol=0.045)
    at_basis = factor.draw((2, 10000), np.random.default_rng(2)).reshape(20000, -1)
    expected_mean, expected = moments_of_values(factor)
    sd = np.sqrt(np.diag(expected))
    assert np.abs((at_basis.mean(axis=0) - expected_mean) / sd).max() < 4.8 / np.sqrt(20000)
    np.testing.assert_allclose(np.cov(at_basis.T) / np.outer(sd, sd), expected / np.outer(sd, sd), atol=0.045)


def test_inputs_that_are_determined_do_not_come_in(factor):
    one = RNG.normal(size=(1, 2))
    assert factor.with_points(KERNEL, X[:5]).size == factor.size
    assert factor.with_points(KERNEL, np.repeat(one, 4, axis=0)).size == factor.size + 1
    assert factor.with_points(KERNEL, np.concatenate([one, one + 1e-14, X[:2]])).size == factor.size + 1


def test_a_kernel_that_is_no_covariance_is_refused(factor):
    class Wrong(kernels.Gaussian):
        def cross(self, A, B):
            return super().cross(A, B) * np.nan

    with pytest.raises(bgp.NotPositiveDefiniteError, match="not finite"):
        factor.with_points(Wrong(1.0), RNG.normal(size=(2, 2)))


def test_forgetting_all_leaves_the_prior(factor):
    blank = factor.forgetting(0.0)
    np.testing.assert_array_equal(blank.precision, np.eye(factor.shift.size))
    assert not blank.mean.any()
