"""Power-scaling by refits: exact where the posterior is Gaussian, ArviZ's numbers where its weights can be trusted."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import sensitivity
from bayesgp_mf.hyper import LogNormal

N = 12
KERNEL = bgp.kernels.Gaussian(1.5, 2.0)
NOISE = 0.5
EACH = {f"f[{k}]": lambda f, t, k=k: f[:, k] for k in range(N)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, 1.5 * X[:, 0] + rng.normal(size=N)


@pytest.fixture(scope="module")
def fitted(data):
    return bgp.fit(*data, KERNEL, bgp.likelihoods.Gaussian(NOISE), draws=1000, random_seed=1)


def exact(X, y, of_prior, of_likelihood):
    """Return means and standard deviations under Gaussian noise, with powers of prior and likelihood."""
    K = KERNEL.gram(X) / of_prior
    share = np.linalg.solve(K + NOISE / of_likelihood * np.eye(N), K).T
    return share @ y, np.sqrt(np.diag(K - share @ K))


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_moments_at_a_power_are_those_of_the_exact_posterior(data, fitted, alpha):
    found = sensitivity(fitted, EACH, alphas=(0.5, 2.0), draws=4000).moments
    for component, powers in (("prior", (alpha, 1.0)), ("likelihood", (1.0, alpha))):
        mean, sd = exact(*data, *powers)
        for k in range(N):
            here = found.loc[f"f[{k}]", component, alpha]
            assert abs(here["mean"] - mean[k]) < 5.0 * sd[k] / np.sqrt(4000)
            assert here["sd"] == pytest.approx(sd[k], rel=0.06)


def test_it_says_what_psense_says_where_weights_can_be_trusted(data):
    fitted = bgp.fit(*data, KERNEL, bgp.likelihoods.Gaussian(NOISE), draws=10_000, random_seed=1)
    ours = sensitivity(fitted, EACH, draws=10_000).table  # by many draws: the weights of either are random
    for component in ("prior", "likelihood"):
        if hasattr(az, "psens"):
            theirs = az.psens(fitted, component=component, var_names=["f"]).values
        else:
            theirs = az.psense(fitted, var_names=["f"], group=component)["f"].values
        np.testing.assert_allclose([ours.loc[name, component] for name in EACH], theirs, atol=0.02)


def test_a_power_of_the_likelihood_is_a_weight_of_each_case(data):
    X = data[0]
    y = X[:, 0] > 0
    one = bgp.fit(X, y, KERNEL, draws=10, random_seed=1)
    twice = bgp.fit(X, y, KERNEL, draws=10, random_seed=1, weights=np.full(N, 2.0))
    scaled = sensitivity(one, EACH, alphas=(0.5, 2.0)).moments.xs(("likelihood", 2.0), level=("component", "alpha"))
    itself = sensitivity(twice, EACH).moments.xs(("likelihood", 1.0), level=("component", "alpha"))
    np.testing.assert_allclose(scaled, itself, atol=1e-5)


def test_inducing_cases_at_all_inputs_say_the_same(data, fitted):
    on_all = bgp.fit(*data, KERNEL, bgp.likelihoods.Gaussian(NOISE), draws=10, random_seed=1, inducing=data[0])
    ours, dense = (sensitivity(each, draws=4000).table[["prior", "likelihood"]] for each in (on_all, fitted))
    np.testing.assert_allclose(ours, dense, atol=0.02)


def test_priors_of_hyperparameters_are_scaled_where_these_are_averaged(data):
    X = data[0]
    kernel, options = bgp.kernels.Gaussian(1.5, 2.0), {"draws": 50, "random_seed": 1, "hyper": "integrate"}
    tight, wide = (
        bgp.fit(X, X[:, 0] > 0, kernel, priors={"variance": LogNormal(0.0, sd)}, fixed=["lengthscale"], **options)
        for sd in (0.2, 2.0)
    )
    moments = sensitivity(tight, alphas=(0.25, 4.0)).moments
    assert "f_new[0]" in sensitivity(wide, X_new=X[:1]).table.index
    assert moments.loc["mean_f", "prior", 4.0]["sd"] == pytest.approx(
        moments.loc["mean_f", "prior", 1.0]["sd"], rel=0.2
    )
    drawn = bgp.fit(
        X,
        X[:, 0] > 0,
        kernel,
        priors={"variance": LogNormal(0.0, 1.0)},
        fixed=["lengthscale"],
        **{**options, "hyper": bgp.hyper.Surrogate(nodes=100, training=10)},
    )
    of_variance = sensitivity(drawn, alphas=(0.5, 2.0)).moments.loc["variance", "prior"]
    assert of_variance.loc[0.5, "sd"] > of_variance.loc[1.0, "sd"] > of_variance.loc[2.0, "sd"]  # a narrower prior


@pytest.mark.parametrize("alphas", [(1.0, 1.01), (0.9,), (0.9, 0.99), (0.0, 2.0), "ab"])
def test_powers_are_one_below_and_one_above_one(fitted, alphas):
    with pytest.raises(ValueError, match="alphas must be"):
        sensitivity(fitted, alphas=alphas)


def test_a_prior_of_no_parameter_is_named(fitted):
    with pytest.raises(ValueError, match="priors names 'nonsense', which this model does not have; it has"):
        sensitivity(fitted, priors={"nonsense": LogNormal(0.0, 1.0)})


def test_what_is_no_quantity_is_named(fitted):
    with pytest.raises(ValueError, match=r"quantities\['mine'\] must return"):
        sensitivity(fitted, {"mine": lambda f, t: f})
    with pytest.raises(ValueError, match=r"quantities\['mine'\] must be a function"):
        sensitivity(fitted, {"mine": 3.0})
    with pytest.raises(ValueError, match="quantities must be a mapping"):
        sensitivity(fitted, [EACH["f[0]"]])
    with pytest.raises(ValueError, match=r"quantities\['mean_f'\] has a name that is taken"):
        sensitivity(fitted, {"mean_f": EACH["f[0]"]})


def test_a_step_has_no_powers(data):
    idata = bgp.fit(data[0], data[0][:, 0] > 0, KERNEL, bgp.Step(), draws=10, random_seed=1)
    with pytest.raises(bgp.UndefinedQuantityError, match="step"):
        sensitivity(idata)
    exact = bgp.fit(data[0], data[0][:, 0] > 0, KERNEL, method="exact", draws=10, random_seed=1)
    with pytest.raises(bgp.UndefinedQuantityError, match=r"the power 0\.99 of a likelihood: method 'exact'"):
        sensitivity(exact)


def test_a_power_without_a_solution_is_named(data):
    X, y = data[0], data[0][:, 0] > 0
    idata = bgp.fit(X, y, KERNEL, weights=np.full(N, 1e6), draws=10, random_seed=1)
    with pytest.raises(ValueError, match=r"the power 2\.0 of a likelihood: weights must be at most 1e\+06"):
        sensitivity(idata, alphas=(0.5, 2.0))


def test_a_prior_that_hardly_counts_is_solved_from_far_out(data):
    """There the second derivative is zero, and its rounding above it."""
    rng = np.random.default_rng(0)
    X, model = rng.normal(size=(N, 2)), (bgp.Binomial(5), "variational")
    y = rng.binomial(5, 1.0 / (1.0 + np.exp(-np.sin(1.5 * X[:, 0]) - X[:, 1])))
    fits = [bgp.fit(X, y, k * KERNEL, model[0], method=model[1], draws=10, random_seed=1) for k in (1.0, 1e3)]
    found = sensitivity(fits[0], alphas=(1e-3, 1.01)).moments.loc["mean_f", "prior", 1e-3]
    truth = bgp.posterior(fits[1]).latent_mean(X).mean()
    assert abs(found["mean"] - truth) < 4.0 * found["sd"] / np.sqrt(1000)


def test_few_draws_say_nothing(fitted):
    with pytest.raises(ValueError, match="draws must be at least 50"):
        sensitivity(fitted, draws=49)
    assert np.all(np.isfinite(sensitivity(fitted, draws=50).table["prior"]))


def test_distances_do_not_know_the_unit_of_a_quantity(fitted):
    """Also where its squares are beyond all numbers, or below them."""
    units = {f"{unit:g}": lambda f, t, unit=unit: f[:, 0] * unit for unit in (1.0, 1e-300, 1e200)}
    found = sensitivity(fitted, units, draws=200)
    for unit in ("1e-300", "1e+200"):
        for component in ("prior", "likelihood"):
            assert found.table.loc[unit, component] == pytest.approx(found.table.loc["1", component], rel=1e-9)
        ratio = found.moments.loc[unit, "sd"] / found.moments.loc["1", "sd"]
        np.testing.assert_allclose(ratio, float(unit), rtol=1e-9)


def test_a_matrix_that_is_nearly_singular_moves_no_further_than_its_neighbours():
    X = np.linspace(-2.0, 2.0, 60)[:, None]  # symmetric, so that rounding decides which case comes first
    y = np.sin(2.0 * X[:, 0]) > 0
    found = [
        sensitivity(bgp.fit(X, y, bgp.kernels.Gaussian(length, 2.0), draws=10, random_seed=1), X_new=[[-1.0], [1.0]])
        for length in (0.48, 0.49, 0.5, 0.51)
    ]
    for name in ("mean_f", "f_new[0]", "f_new[1]"):
        prior = [each.table.loc[name, "prior"] for each in found]
        assert max(prior) < 1.5 * min(prior)
