"""What a target leaves of a variance: the digits that a difference of derivatives does not have."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Hurdle,
    NegativeBinomial,
    Poisson,
    Quadrature,
    StudentT,
    ZeroInflated,
)
from bayesgp_mf.likelihoods.by_case import by_case
from tests.integrals import over_gaussian

T, MEAN, VARIANCE = np.array([0.0, 3.0, 1.0]), np.array([-0.5, 0.2, 2.0]), np.array([0.3, 1.0, 4.0])
KNOWN = {
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(2.0),
    "binomial": Binomial(5),
    "student": StudentT(0.4, 4.0),
    "student with heavy tails": StudentT(0.1, 0.8),
    "zero-inflated": ZeroInflated(Poisson(), 0.3),
    "hurdle": Hurdle(NegativeBinomial(0.5), 0.3),
    "gamma": Gamma(2.0),
    "beta": Beta(4.0),
    "function": Quadrature(lambda t, f: -((t - f) ** 2) - 0.1 * f**4, targets="real"),
    "shifted": by_case(StudentT(0.4, 4.0), prior_mean=np.array([1.0, -1.0, 0.3])),
    "weighted": by_case(Poisson(), weights=np.array([0.5, 0.0, 3.0])),
    "weighted, of several modes": by_case(StudentT(0.4, 1.0), weights=np.array([0.5, 1.0, 0.3])),
}


@pytest.mark.parametrize("likelihood", KNOWN.values(), ids=KNOWN)
def test_it_is_what_the_second_derivative_says(likelihood):
    t = np.clip(T, 0.1, 0.9) if isinstance(likelihood, Gamma | Beta) else T
    share = likelihood.tilted_share(t, MEAN, VARIANCE)
    np.testing.assert_allclose(share, 1.0 + VARIANCE * likelihood.log_partition(t, MEAN, VARIANCE).d2, rtol=1e-7)


def test_there_may_be_none():
    assert bgp.Probit().tilted_share(np.ones(1), np.zeros(1), np.ones(1)) is None
    assert by_case(bgp.Probit(), weights=np.ones(1)).tilted_share(np.ones(1), np.zeros(1), np.ones(1)) is None


@pytest.mark.parametrize(
    ("scale", "df", "mean"),
    [(1e-8, 4.0, 0.3), (1e-8, 30.0, 0.3), (1e-6, 1.0, 0.3), (1e-9, 2.0, 0.3), (1e-3, 0.7, 0.3), (1e-20, 1.9, 1e-12)],
)
def test_a_narrow_student_has_all_digits(scale, df, mean):
    t, variance = 0.0, 1.0  # at zero even such places are numbers of their own
    half = (arb(df) + 1) / 2
    around = [t + sign * scale * 10.0**k for k in range(22) for sign in (-1, 1)]

    def moment(k):
        def tilted(f, analytic):
            density = (-half * (1 + ((t - f) / scale) ** 2 / df).log(analytic=analytic)).exp()
            return (f - t) ** k * density / arb(scale)

        return over_gaussian(tilted, mean, variance, [t, *around])

    mass, first, second = (moment(k) for k in range(3))
    exact = float((second / mass - (first / mass) ** 2) / variance)
    at = np.array([t]), np.array([mean]), np.array([variance])
    assert abs(StudentT(scale, df).tilted_share(*at)[0] / exact - 1.0) < 1e-9
    if scale < 1e-7:  # which the difference does not know
        assert abs((1.0 + StudentT(scale, df).log_partition(*at).d2[0]) / exact - 1.0) > 1e-2


def test_a_large_count_has_its_digits():
    share = Poisson().tilted_share(np.array([1e6]), np.array([10.0]), np.array([4.0]))
    np.testing.assert_allclose(share, 1.0 / (1.0 + 4e6), rtol=1e-5)  # Laplace's, near enough
