"""What the past says, kept at few inputs: laws that hold to rounding, and divergences by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.linalg import inv, slogdet

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.streams.batch import absorb
from bayesgp_mf.streams.factor import nothing
from bayesgp_mf.streams.values import OneValue

RNG = np.random.default_rng(3)
X = RNG.normal(size=(24, 2))
T = np.where(X[:, 0] + 0.5 * RNG.normal(size=24) > 0, 1.0, -1.0)
KERNEL = kernels.Matern32([0.7, 2.0], 3.0) + kernels.Bias()


@pytest.fixture
def factor():
    return absorb(nothing(2), KERNEL, X, T, OneValue(bgp.Probit()), X, bgp.Control()).factor


def moments_of_values(factor):
    """Mean and covariance of f at the basis inputs."""
    covariance = factor.root @ inv(factor.precision) @ factor.root.T
    return factor.root @ factor.mean, covariance


def divergence_without(factor, r):
    """KL from the posterior of all values to that with the marginal of the others, and the prior of r given them."""
    K = factor.root @ factor.root.T
    mean, S = moments_of_values(factor)
    keep = np.delete(np.arange(factor.size), r)
    by_others = K[r, keep] @ inv(K[np.ix_(keep, keep)])
    rest = K[r, r] - by_others @ K[keep, r]
    order, inner = [*keep, r], S[np.ix_(keep, keep)]
    hat = np.block([[inner, (inner @ by_others)[:, None]], [by_others @ inner, by_others @ inner @ by_others + rest]])
    off = mean[order] - np.append(mean[keep], by_others @ mean[keep])
    precise = inv(hat)
    trace = np.trace(precise @ S[np.ix_(order, order)])
    return 0.5 * (trace + off @ precise @ off - factor.size + slogdet(hat)[1] - slogdet(S)[1])


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
    here = [int(np.flatnonzero((point == X).all(axis=1))[0]) for point in fewer.points]
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
    for found, expected in zip(
        (more.features(KERNEL, elsewhere).T @ more.mean, moments_of_values(more)[1][:24, :24]),
        (factor.features(KERNEL, elsewhere).T @ factor.mean, moments_of_values(factor)[1]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-11)


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
    np.testing.assert_array_equal(blank.precision, np.eye(factor.size))
    assert not blank.mean.any()
