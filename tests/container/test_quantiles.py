"""Quantiles of new targets, and how likely those were that came, through the door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import log_predictive_density
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import Gaussian, Quadrature
from tests.container.own_functions import draw_poisson, log_poisson

RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(-2.0, 2.0, 25))[:, None]
F = np.sin(2.0 * X[:, 0]) + 0.5
NEW = np.array([[-1.5], [0.3], [4.0]])
OFFSET, TRIALS, NEW_TRIALS = RNG.normal(size=25), RNG.integers(1, 9, 25), np.array([3, 5, 8])
LEVELS = (0.05, 0.9)
OWN = Quadrature(log_poisson, targets="real", sampler=draw_poisson)
NODES, WEIGHTS = 8.0 * np.array(leggauss(160)) + np.array([[8.0], [0.0]])
AVERAGED = {
    "hyper": bgp.hyper.Integrate(starts=1, points=3),
    "priors": {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)},
    "fixed": ["variance"],
}
CASES = {
    "counts": (bgp.Poisson(), {"offset": OFFSET}, {"offset": [0.5, -1.0, 2.0]}),
    "trials": (bgp.Binomial(TRIALS), {"weights": np.ones(25)}, {"trials": NEW_TRIALS}),
    "levels": (bgp.Ordinal([-0.5, 1.0]), {}, {}),
    "averaged": (bgp.Poisson(), AVERAGED, {}),
    "gaussian": (Gaussian(0.2), {}, {}),
    "outliers, averaged": (bgp.StudentT(0.3, 3.0), AVERAGED | {"fixed": ["variance", "scale", "df"]}, {}),
}


def fitted(likelihood, **options):
    y = likelihood.sample(F, np.random.default_rng(7))
    fixed = {"draws": 5, "chains": 1, "random_seed": 1, "progress": False}
    return bgp.fit(X, y, bgp.kernels.Gaussian(0.7), likelihood, **fixed, **options)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    likelihood, options, new = CASES[request.param]
    return fitted(likelihood, **options), new


def quantiles(idata, new, levels=LEVELS):
    return get_group(bgp.predict(idata, NEW, draws=False, quantiles=levels, **new), "predictions")["y_quantile"]


def test_quantiles_are_where_the_density_adds_up_to_their_levels(case):
    idata, new = case
    found = quantiles(idata, new)
    assert found.dims == ("obs_id", "quantile")
    assert found["quantile"].values.tolist() == list(LEVELS)
    whole = bgp.posterior(idata).problem.likelihood.targets == "real" and np.all(found.values == np.floor(found.values))
    for i, (x, row) in enumerate(zip(NEW, found.values, strict=True)):
        of_one = {name: [given[i]] for name, given in new.items()}

        def density(t, x=x, of_one=of_one):
            given = {name: np.repeat(values, t.size) for name, values in of_one.items()}
            return np.exp(log_predictive_density(idata, np.repeat([x], t.size, axis=0), t, **given))

        for level, quantile in zip(LEVELS, row, strict=True):
            if whole:
                each = density(np.arange(quantile + 1.0))
                assert each.sum() >= level - 1e-12
                assert each[:-1].sum() < level
            else:  # on nodes that grow sparser towards the tail
                below = density(quantile - np.sinh(NODES)) @ (WEIGHTS * np.cosh(NODES))
                assert below == pytest.approx(level, abs=1e-7)


def test_a_table_has_a_column_of_each():
    idata = fitted(Gaussian(0.2))
    found = quantiles(idata, {})
    frame = bgp.to_frame(idata)
    assert [name for name in frame if "quantile" in name] == ["y_quantile[0.05]", "y_quantile[0.9]"]
    np.testing.assert_array_equal(frame[["y_quantile[0.05]", "y_quantile[0.9]"]].to_numpy(), found.values)


def test_without_being_asked_for_there_are_none_and_one_level_is_enough(case):
    idata, new = case
    assert quantiles(idata, new, 0.5).sizes["quantile"] == 1
    assert "y_quantile" not in get_group(bgp.predict(idata, NEW, draws=False, **new), "predictions")


def test_the_density_of_an_average_is_the_average_of_densities():
    idata = fitted(bgp.Poisson(), **AVERAGED)
    mixture = bgp.posterior(idata)
    t = np.array([0.0, 2.0, 1.0])
    each = [
        np.log(w) + bgp.Poisson().log_partition(t, *part.latent(NEW)).value
        for w, part in zip(mixture.weights, mixture.parts, strict=True)
    ]
    np.testing.assert_allclose(log_predictive_density(idata, NEW, t), logsumexp(each, axis=0), rtol=1e-12)


def test_levels_may_have_their_names():

    idata = fitted(bgp.Ordinal([-0.5, 1.0]))
    named = pd.Categorical(["low", "high", "middle"], ["low", "middle", "high"], ordered=True)
    np.testing.assert_array_equal(
        log_predictive_density(idata, NEW, named), log_predictive_density(idata, NEW, [0, 2, 1])
    )


@pytest.mark.parametrize("given", [0.0, 1.0, (0.5, 1.5), (), "half", [[0.5]], np.nan])
def test_what_is_no_probability_is_refused(given):
    with pytest.raises(ValueError, match=r"quantiles must be probabilities between 0 and 1, such as \(0\.05, 0\.95\)"):
        quantiles(fitted(Gaussian(0.2)), {}, given)


def test_who_knows_none_says_so():
    labels = bgp.fit(X, F > 0.5, bgp.kernels.Gaussian(), draws=5, progress=False)
    with pytest.raises(
        UndefinedQuantityError, match="quantiles are those of numbers, and Probit has labels, of which p"
    ):
        quantiles(labels, {})
    with pytest.raises(UndefinedQuantityError, match=r"Probit has labels, .* diagnostics\.mean_log_score"):
        log_predictive_density(labels, NEW, [0, 1, 1])
    own = fitted(OWN)
    with pytest.raises(
        UndefinedQuantityError, match=r"Quadrature does not say how likely .*draws, predictions\['y'\]\."
    ):
        quantiles(own, {"likelihood": OWN})
    np.testing.assert_allclose(
        log_predictive_density(own, NEW, [0, 1, 5], likelihood=OWN),
        log_predictive_density(fitted(bgp.Poisson()), NEW, [0, 1, 5]),
        atol=1e-7,
    )


def test_new_targets_that_do_not_fit_are_refused():
    idata = fitted(bgp.Poisson(), offset=OFFSET)
    with pytest.raises(ValueError, match=r"offset|theirs"):
        log_predictive_density(idata, NEW, [1, 2, 3])
    with pytest.raises(ValueError, match="must hold counts, whole numbers >= 0"):
        log_predictive_density(idata, NEW, [1, 2, -3], offset=np.zeros(3))
    with pytest.raises(ValueError, match=r"y must have shape \(3,\)"):
        log_predictive_density(idata, NEW, [1, 2], offset=np.zeros(3))
