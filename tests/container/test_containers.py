"""Containers: what ArviZ does with them, and that a file is enough to predict again."""

from __future__ import annotations

import json

import arviz as az
import numpy as np
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.solvers.second_order import second_order

GROUPS = {
    "posterior",
    "posterior_predictive",
    "log_likelihood",
    "log_prior",
    "sample_stats",
    "observed_data",
    "constant_data",
    "fit",
    "predictions",
    "predictions_constant_data",
}


def test_groups_and_layout(pima_fit):
    assert set(group_names(pima_fit)) == GROUPS
    assert type(pima_fit).__name__ == ("InferenceData" if arviz_major() < 1 else "DataTree")
    assert dict(pima_fit["posterior"]["f"].sizes) == {"chain": 4, "draw": 1000, "obs_id": 200}
    assert pima_fit["log_likelihood"]["y"].dims == ("chain", "draw", "obs_id")
    assert set(pima_fit["sample_stats"].data_vars) == {"log_p", "log_q", "converged", "n_iterations"}
    assert bool(pima_fit["sample_stats"]["converged"].all())
    assert pima_fit["constant_data"]["X"].dims == ("obs_id", "feature")
    fit = get_group(pima_fit, "fit")
    assert {"alpha", "site_variance", "latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "loo_i"} <= set(fit)
    assert {"gaussian_lengthscale", "gaussian_variance", "bias_variance"} <= set(fit)
    assert fit.attrs["evidence_kind"] == "ep"
    assert fit.attrs["status"] == "CONVERGED"
    assert json.loads(fit.attrs["kernel"])["kernel"] == "Sum"


def test_no_number_is_missing_anywhere(pima_fit):
    for name in GROUPS:
        for variable in get_group(pima_fit, name).data_vars.values():
            assert not np.isnan(variable.values).any(), (name, variable.name)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # PSIS on its own limits: k > 0.7
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # ArviZ 0.2x under pandas 3
def test_arviz_summary_loo_and_compare(pima_fit):
    summary = az.summary(pima_fit, var_names=["f"])
    assert len(summary) == 200
    psis = az.loo(pima_fit, pointwise=True)
    ours = bgp.loo(pima_fit)
    elpd = float(ours["elpd_loo"] if arviz_major() < 1 else ours.elpd)
    elpd_psis = float(psis["elpd_loo"] if arviz_major() < 1 else psis.elpd)
    np.testing.assert_allclose(elpd, elpd_psis, atol=0.5)
    assert "Computed from" in repr(ours)
    comparison = az.compare({"analytic": ours, "psis": psis})
    assert set(comparison.index) == {"analytic", "psis"}
    assert np.isfinite(comparison[["se", "dse"]].to_numpy()).all()
    assert len(az.compare({"analytic": ours, "from draws": pima_fit})) == 2


def test_leave_one_out_counts_parameters_and_errors(pima_fit):
    ours = bgp.loo(pima_fit)
    p = float(ours["p_loo"] if arviz_major() < 1 else ours.p)
    np.testing.assert_allclose(p, 13.81, atol=0.05)  # PSIS over 4000 draws: 13.6
    pointwise = ours["loo_i"] if arviz_major() < 1 else ours.elpd_i
    change = np.abs(pointwise.values - pima_fit["fit"]["loo_i"].values)
    assert pointwise.attrs["corrected"] == np.sum(change > 1e-8) == 64
    assert change.max() < 0.03
    np.testing.assert_allclose(float(ours["se"]), np.sqrt(200 * np.var(pointwise.values)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_arviz_plots(pima_fit):
    import matplotlib.pyplot as plt

    few = {"coords": {"obs_id": [0, 1, 2]}, "var_names": ["f"]}
    for plot in (az.plot_trace, az.plot_forest, az.plot_autocorr):
        assert plot(pima_fit, **few) is not None
    if arviz_major() < 1:
        assert az.plot_posterior(pima_fit, **few) is not None
        assert az.plot_separation(pima_fit, y="y") is not None
    else:
        assert az.plot_dist(pima_fit, **few) is not None
        assert az.plot_ppc_pava(pima_fit) is not None
    plt.close("all")


LOADER = """
import sys
import pickle
def refuse(*args, **kwargs):
    raise AssertionError("something was unpickled")
pickle.load = pickle.loads = refuse
import warnings
warnings.simplefilter("ignore")
import arviz as az
import numpy as np
import bayesgp_mf as bgp
idata = az.from_netcdf(sys.argv[1])
pima = bgp.datasets.load_pima()
idata = bgp.predict(idata, pima.X_test, random_seed=2)
np.savez(sys.argv[2], p=idata["predictions"]["p"].values, f=idata["predictions"]["f"].values,
         loo=float(bgp.loo(idata)["se"]), evidence=bgp.posterior(idata).log_evidence)
"""


def test_a_file_predicts_the_same_numbers_in_a_new_process(pima_fit, new_process, tmp_path):
    file, out = tmp_path / "pima.nc", tmp_path / "out.npz"
    pima_fit.to_netcdf(str(file))
    run = new_process.run(LOADER, file, out)
    assert run.returncode == 0, run.stderr
    with np.load(out) as again:
        np.testing.assert_array_equal(again["p"], pima_fit["predictions"]["p"].values)
        np.testing.assert_array_equal(again["f"], pima_fit["predictions"]["f"].values)
        assert float(again["evidence"]) == float(pima_fit["fit"]["log_evidence"])
        assert float(again["loo"]) == float(bgp.loo(pima_fit)["se"])


def test_kernels_and_likelihoods_survive_the_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((10, 2))
    kernel = bgp.kernels.Matern32([0.1, 1 / 3]) * bgp.kernels.Bias(0.7) + bgp.kernels.Polynomial(3, 0.1)
    idata = bgp.fit(X, X[:, 0] > 0, kernel, bgp.Probit(0.3, 0.05), draws=5, random_seed=0)
    idata.to_netcdf(str(tmp_path / "a.nc"))
    process = bgp.posterior(az.from_netcdf(str(tmp_path / "a.nc")))
    assert process.kernel == kernel
    assert process.problem.likelihood == bgp.Probit(0.3, 0.05)
    np.testing.assert_array_equal(process.solution.alpha, idata["fit"]["alpha"].values)


def test_a_file_keeps_the_correction_of_the_evidence(tmp_path):
    X, file = np.linspace(-2, 2, 15)[:, None], tmp_path / "a.nc"
    idata = bgp.fit(X, X[:, 0] > 0.3, bgp.kernels.Gaussian(variance=9.0), bgp.Probit(), draws=4, random_seed=1)
    idata.to_netcdf(str(file))
    loaded = az.from_netcdf(str(file))
    saved, known = bgp.posterior(loaded).solution.evidence, bgp.posterior(idata).solution.evidence
    assert saved == known
    assert saved.correction > 1e-3
    assert saved.remaining > 1e-5
    assert saved.corrected == saved.value + saved.correction
    fit = get_group(loaded, "fit")
    assert float(fit["log_evidence"]) == saved.value  # that of TAP, as ever
    shift = bgp.posterior(loaded).solution.info.probability_shift
    assert shift == float(fit["probability_shift"]) > 1e-3
    assert shift == pytest.approx(bgp.posterior(idata).probability_shift, rel=1e-9)


@pytest.mark.parametrize("shift", [-0.1, 1.5, np.nan])
def test_a_change_of_probabilities_that_is_none_is_refused(shift):
    X = np.linspace(-2, 2, 15)[:, None]
    idata = bgp.fit(X, X[:, 0] > 0.3, bgp.kernels.Gaussian(variance=9.0), bgp.Probit(), draws=4, random_seed=1)
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    changed = groups["fit"].assign(probability_shift=shift)
    del changed.attrs["checksums"]
    with pytest.raises(ValueError, match=r"damaged.*probability_shift must be between 0 and 1"):
        bgp.posterior(make_container(groups | {"fit": changed}))


@pytest.mark.parametrize("options", [{}, {"inducing": 6}, {"control": bgp.Control(gram="low_rank")}], ids=str)
def test_what_is_read_has_the_cavities_that_tap_ended_with(options):
    X = np.linspace(-2, 2, 60)[:, None]
    idata = bgp.fit(X, X[:, 0] > 0.3, bgp.kernels.Gaussian(variance=9.0), bgp.Probit(), draws=4, **options)
    process = bgp.posterior(idata)
    problem, solution = process.problem, process.solution
    again = second_order(problem, solution)
    assert again.correction == pytest.approx(solution.evidence.correction, rel=1e-9)
    # of pairs that are as large as each other rounding says which are taken
    assert again.remaining == pytest.approx(solution.evidence.remaining, abs=1e-3)
    log_z = problem.likelihood.log_partition(problem.t, *solution.cavity).value
    np.testing.assert_allclose(log_z, get_group(idata, "fit")["loo_i"].values, rtol=1e-9)


@pytest.mark.parametrize("hyper", [None, "integrate"])
def test_a_parameter_may_be_called_weight(hyper):
    X = np.random.default_rng(0).standard_normal((12, 2))
    options = {} if hyper is None else {"hyper": hyper, "priors": {"weight": bgp.hyper.LogNormal(0.0, 1.0)}}
    idata = bgp.fit(X, X[:, 0] > 0.2, bgp.kernels.Linear(0.5), draws=5, random_seed=0, progress=False, **options)
    process = bgp.posterior(idata)
    weights = [float(part.kernel.params["weight"]) for part in process.parts]
    np.testing.assert_array_equal(np.atleast_1d(idata["fit"]["weight"].values), weights)
    assert len(weights) == (1 if hyper is None else 7)
    assert bgp.predict(idata, X[:2], draws=False)["predictions"]["p"].shape == (2,)


def damage(idata, change):
    copy = make_container({name: get_group(idata, name).copy(deep=True) for name in group_names(idata)})
    groups = {name: get_group(copy, name) for name in group_names(copy)}
    changed = change(groups)
    return make_container(changed if isinstance(changed, dict) else groups)


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g["fit"]["alpha"].values.__setitem__(0, np.nan),
        lambda g: g["fit"]["alpha"].values.__imul__(3.0),
        lambda g: g["fit"]["site_variance"].values.__setitem__(0, np.nan),
        lambda g: g["constant_data"]["X"].values.__setitem__(slice(None), g["constant_data"]["X"].values[::-1].copy()),
        lambda g: g["observed_data"]["y"].values.__setitem__(0, 7),
        lambda g: {k: v for k, v in g.items() if k != "constant_data"},
        lambda g: g["fit"].attrs.update(kernel="not JSON"),
        lambda g: g["fit"].attrs.update(method="no such method"),
        lambda g: g["fit"].attrs.update(status="SOMEHOW"),
        lambda g: g["fit"].attrs.pop("likelihood"),
    ],
    ids=["nan", "alpha", "site", "rows", "label", "group", "kernel", "method", "status", "likelihood"],
)
def test_damaged_containers_are_refused(pima_fit, change):
    with pytest.raises(ValueError, match=r"this container is damaged or was edited: .* fit again"):
        bgp.predict(damage(pima_fit, change), np.zeros((1, 7)))


def test_what_is_not_ours_is_refused(pima_fit, tmp_path):
    other = make_container({"posterior": xr.Dataset({"mu": (("chain", "draw"), np.zeros((1, 5)))})})
    for verb in (bgp.posterior, bgp.loo, lambda idata: bgp.predict(idata, np.zeros((1, 7)))):
        with pytest.raises(ValueError, match=r"not made by bayesgp_mf \(its groups: \['posterior'\]\)"):
            verb(other)
        with pytest.raises(ValueError, match=r"draws of PyMC bgp\.loo needs what .* call sample_latent first"):
            verb(other)
        with pytest.raises(ValueError, match="expected an ArviZ container, got dict"):
            verb({})
    future = make_container(
        {name: get_group(pima_fit, name).copy() for name in ("fit", "constant_data", "observed_data")}
    )
    future["fit"].attrs["bayesgp_mf_format"] = 99
    with pytest.raises(ValueError, match="format 99, but this version of bayesgp_mf reads format 1"):
        bgp.posterior(future)
