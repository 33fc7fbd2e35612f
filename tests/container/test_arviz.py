"""What ArviZ says of a fit's predictions and priors, on a fit of each kind, in the generation that has the function."""

from __future__ import annotations

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import hyper
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import get_group, group_names

N = 15
RNG = np.random.default_rng(1)
X = RNG.uniform(-2.0, 2.0, (N, 2))
F, OUTLIER = np.sin(2.0 * X[:, 0]), 1.5 * (np.arange(N) == 3)
LABELS, COUNTS = F + 0.3 * RNG.normal(size=N) > 0, RNG.poisson(np.exp(F))
FEW = {"draws": 40, "chains": 2, "random_seed": 1, "progress": False}
KERNEL = bgp.kernels.Gaussian([1.0, 2.0], 4.0)
ON_LENGTHSCALE = hyper.LogNormal(0.0, 1.0)
OF_PYMC = {"lengthscale": pm.InverseGamma.dist(3.0, 3.0)}
CLASSIFIED = ("single", "average", "nodes", "exact", "classes")
KINDS = (*CLASSIFIED, "counts", "regression")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),  # so few draws bear little
    pytest.mark.filterwarnings("ignore:The inplace keyword"),  # ArviZ 0.2x under pandas 3
    pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping"),  # ArviZ 0.2x under Matplotlib 3.11
]
needs_arviz_1 = pytest.mark.skipif(arviz_major() < 1, reason="a function of ArviZ 1")


@pytest.fixture
def figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fits():
    nodes = {"hyper": "integrate", "priors": {"lengthscale": ON_LENGTHSCALE}, "fixed": ("variance",)}
    average = {"hyper": hyper.Surrogate(nodes=200), "priors": {"lengthscale": ON_LENGTHSCALE}}
    chains = {
        "hyper": hyper.HybridMonteCarlo(iterations=60, leapfrog_steps=2, chains=2, step_size=0.1),
        "priors": {"noise_variance": hyper.LogNormal(-3.0, 1.0), **OF_PYMC},
        "bounds": {"variance": (0.5, 50.0)},
    }
    return {
        "single": bgp.fit(X, LABELS, KERNEL, **FEW),
        "average": bgp.fit(X, LABELS, KERNEL, **FEW, **average),
        "nodes": bgp.fit(X, LABELS, KERNEL, **FEW, **nodes),
        "exact": bgp.fit(X[:8], LABELS[:8], KERNEL, method="exact", **FEW),
        "classes": bgp.fit(X, np.digitize(F, [-0.4, 0.4]), KERNEL, bgp.Softmax(), **FEW),
        "counts": bgp.fit(X, COUNTS, KERNEL, bgp.likelihoods.Poisson(), **FEW),
        "regression": bgp.fit(X, F + OUTLIER, KERNEL, bgp.likelihoods.Gaussian(0.05), **FEW, **chains),
    }


def test_hyperparameters_that_are_drawn_have_their_log_prior(fits):
    """Of the parameters themselves: with that of their logarithms and the evidence it makes up ``lp``."""
    idata = fits["average"]
    posterior, prior = get_group(idata, "posterior"), get_group(idata, "log_prior")
    assert set(prior) == {"lengthscale", "variance"}
    assert prior["lengthscale"].dims == posterior["lengthscale"].dims == ("chain", "draw", "feature")
    lengthscale = posterior["lengthscale"].values
    expected = ON_LENGTHSCALE.log_density(np.log(lengthscale))[0] - np.log(lengthscale)
    np.testing.assert_allclose(prior["lengthscale"], expected)
    densities = prior + np.log(posterior[list(prior)])
    in_logarithms = densities["variance"] + densities["lengthscale"].sum("feature")
    evidence = idata["fit"]["log_evidence"].values[idata["sample_stats"]["node"].values]
    np.testing.assert_allclose(evidence + in_logarithms, idata["sample_stats"]["lp"], atol=2e-3)


def test_the_log_prior_is_that_of_pymc_and_bounds_are_one_in_the_logarithm(fits):
    prior, posterior = (get_group(fits["regression"], name) for name in ("log_prior", "posterior"))
    (dist,) = OF_PYMC.values()
    lengthscale = posterior["lengthscale"].values
    expected = pm.logp(dist, lengthscale.ravel()).eval(mode="FAST_COMPILE").reshape(lengthscale.shape)
    np.testing.assert_allclose(prior["lengthscale"], expected)
    np.testing.assert_allclose(np.exp(-prior["variance"]), posterior["variance"] * np.log(50.0 / 0.5))
    at = np.log(posterior["noise_variance"].values)  # a parameter of the likelihood
    np.testing.assert_allclose(prior["noise_variance"], hyper.LogNormal(-3.0, 1.0).log_density(at)[0] - at)


def test_where_hyperparameters_are_fixed_the_log_prior_is_that_of_latent_values(fits):
    """White ones, of which ``log_p`` is the density: what is not likelihood in it."""
    idata = fits["single"]
    f, prior = idata["posterior"]["f"].values, idata["log_prior"]["f"]
    white = np.linalg.solve(np.linalg.cholesky(KERNEL.gram(X)), f.reshape(-1, N).T)
    expected = -0.5 * np.sum(white**2, axis=0).reshape(2, 40)
    off = prior.values - expected
    np.testing.assert_allclose(off, off[0, 0], rtol=1e-6)
    assert np.ptp(expected) > 1.0
    step = bgp.fit(X, LABELS, KERNEL, bgp.Step(0.1), **FEW)  # no log_likelihood either
    assert not {"log_prior", "log_likelihood"} & set(group_names(step))


@needs_arviz_1
@pytest.mark.parametrize("kind", KINDS)
def test_psense(fits, kind):
    table = az.psense_summary(fits[kind], round_to=6)
    numbers = table[["prior", "likelihood"]].to_numpy()
    assert np.isfinite(numbers).all()
    assert numbers.min() > 0.0
    drawn = {"average": {"lengthscale[0]", "lengthscale[1]", "variance"}}.get(kind, set())
    assert drawn <= set(table.index)


def test_loo_pit(fits):
    for kind in KINDS:
        pit = az.loo_pit(fits[kind], y="y") if arviz_major() < 1 else az.loo_pit(fits[kind])["y"].values
        assert pit.shape == fits[kind]["observed_data"]["y"].shape, kind
        assert np.all((pit >= 0.0) & (pit <= 1.0)), kind


@needs_arviz_1
def test_plot_loo_pava(fits, figures):
    for kind in CLASSIFIED:
        assert az.plot_loo_pava(fits[kind], data_type="categorical" if kind == "classes" else "binary") is not None


@needs_arviz_1
@pytest.mark.parametrize("kind", KINDS)
def test_leave_one_out_with_the_approximation_corrected(fits, kind):
    """The two densities of ``sample_stats`` are what ArviZ asks for; of exact draws there is nothing to correct."""
    stats = get_group(fits[kind], "sample_stats")
    found = az.loo_approximate_posterior(fits[kind], log_p=stats["log_p"], log_q=stats["log_q"])
    assert np.isfinite(found.elpd)
    plain = az.loo(fits[kind], reff=1.0).elpd
    if kind == "exact":
        assert found.elpd == pytest.approx(plain)
    elif kind == "counts":  # half of the likelihood is no approximation of a posterior
        half = stats["log_p"] - 0.5 * get_group(fits[kind], "log_likelihood")["y"].sum("obs_id")
        other = az.loo_approximate_posterior(fits[kind], log_p=half, log_q=stats["log_q"])
        assert abs(found.elpd - plain) < abs(other.elpd - plain)


def shares(idata):
    """Return how often each target is drawn, ``(n, k)``, and the probability of the one that came."""
    y = get_group(idata, "posterior_predictive")["y"].values.reshape(-1, idata["observed_data"]["y"].size)
    found = np.stack([(y == level).mean(axis=0) for level in range(int(y.max()) + 1)], axis=1)
    return found, found[np.arange(len(found)), np.minimum(idata["observed_data"]["y"].values, y.max()).astype(int)]


def test_targets_are_drawn_from_what_the_other_cases_predict(fits):
    """As often as the leave-one-out densities say, in all kinds of fit."""
    for kind in (*CLASSIFIED, "counts"):
        without = bgp.diagnostics.loo_predictive(fits[kind], draws=1000, random_seed=1)
        _, own = shares(without)
        expected = np.exp(fits[kind]["fit"]["loo_i"].values)
        error = np.sqrt(expected * (1.0 - expected) / 4000)
        np.testing.assert_array_less(np.abs(own - expected), 4.5 * error + 1e-3, err_msg=kind)


def test_real_targets_are_drawn_at_hyperparameters_that_have_not_seen_the_case(fits):
    """An outlier speaks for much noise: without it there is less."""
    process = bgp.posterior(fits["regression"])
    y = get_group(bgp.diagnostics.loo_predictive(fits["regression"], random_seed=1), "posterior_predictive")["y"]
    means, variances = (np.array([getattr(part.loo, name) for part in process.parts]) for name in ("mean", "variance"))
    noise = np.array([[part.problem.likelihood.noise_variance] for part in process.parts])

    def moments(weights):
        mean = np.sum(weights * means, axis=0)
        return mean, np.sum(weights * (variances + noise + (means - mean) ** 2), axis=0)

    (mean, variance), (_, otherwise) = moments(process.loo_weights), moments(process.weights[:, None])
    draws = y.values.reshape(4000, N)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 4.5 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.2)
    assert otherwise[3] > 1.5 * variance[3]  # the control


def test_draws_without_a_case_go_through_the_predictive_checks_of_arviz(fits, figures):
    for kind in KINDS:
        without = bgp.diagnostics.loo_predictive(fits[kind], draws=50, random_seed=1)
        if arviz_major() < 1:
            assert az.plot_bpv(without, kind="u_value") is not None
        elif kind in CLASSIFIED:
            shape = "categorical" if kind == "classes" else "binary"
            assert az.plot_ppc_pava(without, data_type=shape) is not None
        else:
            assert az.plot_ppc_pit(without) is not None


def test_draws_without_a_case_have_its_name():
    table = pd.DataFrame(X[:6], columns=["a", "b"], index=list("uvwxyz"))
    idata = bgp.fit(table, pd.Series(LABELS[:6], index=table.index), KERNEL, **FEW)
    for group in (
        get_group(bgp.diagnostics.loo_predictive(idata, draws=5), "posterior_predictive"),
        idata["observed_data"],
    ):
        assert group["y"]["obs_id"].values.tolist() == list("uvwxyz")


def test_draws_without_a_case_need_cases():
    with pytest.raises(ValueError, match="draws must be"):
        bgp.diagnostics.loo_predictive(bgp.fit(X, LABELS, KERNEL, **FEW), draws=0)
    stream = bgp.streams.Stream(KERNEL, bgp.Probit(), budget=5)
    stream.update(X, LABELS)
    idata = stream.to_container(draws=20, random_seed=1)
    with pytest.raises(ValueError, match=r"the container of a stream, which has draws at its basis .*stream\.latent"):
        bgp.diagnostics.loo_predictive(idata)
    assert len(az.summary(idata, var_names=["f"])) == 5


def test_compare_and_plot_khat(fits, figures):
    """Fits of the same labels, whatever the method and the hyperparameters; Pareto's k is one of draws."""
    same = {kind: bgp.loo(fits[kind]) for kind in ("single", "average", "nodes")}
    assert set(az.compare(same).index) == set(same)
    for kind in KINDS:
        from_draws = az.loo(fits[kind], pointwise=True)
        assert az.plot_khat(from_draws) is not None
        table = az.compare({"cavities": bgp.loo(fits[kind]), "draws": from_draws})
        assert np.isfinite(table[["se", "dse"]].to_numpy()).all()
