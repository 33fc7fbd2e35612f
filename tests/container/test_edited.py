"""Containers that were edited: every field of every group is refused by name, or changes nothing that is predicted."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import arviz as az
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names, make_container

RECORDED = Path(__file__).parent / "recorded"
GUARDED = ("fit", "observed_data", "constant_data")
DRAWS = {"chain", "draw"}
RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.standard_normal((12, 2)), columns=["a", "b"])
X_NEW = X[:3] + 0.1
Y = np.where(X["a"] > 0.2, "yes", "no")
KERNEL = bgp.kernels.Gaussian([1.0, 2.0], 2.0) + bgp.kernels.Bias(0.5)
LONG = RNG.uniform(-2.0, 2.0, (60, 1))
SMOOTH = bgp.kernels.Gaussian(4.0, 4.0)
FITS = {
    "tap": lambda: fit(KERNEL),
    "real": lambda: bgp.fit(X, X["a"] ** 2, KERNEL, bgp.likelihoods.Gaussian(0.1), method="laplace", **FEW),
    "low rank": lambda: bgp.fit(LONG, LONG[:, 0] > 0, SMOOTH, **FEW, control=bgp.Control(gram="low_rank")),
    "inducing": lambda: fit(KERNEL, inducing=5),
    "averaged on inducing cases": lambda: averaged(inducing=5),
    "exact": lambda: bgp.fit(X[:4], Y[:4], KERNEL, bgp.Probit(), method="exact", **FEW),
    "classes": lambda: bgp.fit(X, np.arange(12) % 3, KERNEL, bgp.Softmax(), method="laplace", **FEW),
    "averaged": lambda: averaged(),
}
FEW = {"draws": 4, "chains": 2, "random_seed": 1, "progress": False}


def fit(kernel, likelihood=bgp.Probit(), **options):
    return bgp.fit(X, Y, kernel, likelihood, **FEW, **options)


def averaged(**options):
    prior = {"gaussian_variance": bgp.hyper.LogNormal(0.5, 0.5)}
    fixed = ("gaussian_lengthscale", "bias_variance")
    return fit(KERNEL, bgp.Logit(), method="laplace", hyper="integrate", priors=prior, fixed=fixed, **options)


@pytest.fixture(scope="module", params=FITS)
def groups(request):
    idata = FITS[request.param]()
    return {name: get_group(idata, name) for name in group_names(idata)}


def with_group(groups, name, dataset):
    return make_container({**groups, name: dataset})


def digit(values):
    """The same but for the last digit of its first number."""
    changed, first = values.copy(), (0,) * values.ndim
    match values.dtype.kind:
        case "b":
            changed[first] = not values[first]
        case "i":
            changed[first] = values[first] + 1
        case _:
            changed[first] = np.nextafter(values[first], np.inf if values[first] < 1e300 else 0.0)
    return changed


def changed_values(name, variable):
    """The variable with a digit, its kind and its length changed."""
    yield variable.copy(data=digit(variable.values))
    yield variable.copy(data=variable.values.astype(str))
    if variable.ndim:
        cut = variable.values[..., :-1]
        yield xr.DataArray(cut, dims=[f"{name}_{k}" for k in range(cut.ndim)])
        yield xr.DataArray(np.array(0.5))
    else:
        yield xr.DataArray([float(variable.values)], dims=[f"{name}_0"])


def is_guarded(group, variable):
    return group in GUARDED and not DRAWS & set(variable.dims)


def test_every_number_of_the_fit_is_refused_by_name(groups):
    edited = 0
    for group in GUARDED:
        for name, variable in groups[group].data_vars.items():
            if not is_guarded(group, variable):
                continue
            bare = groups[group].drop_vars(name)
            for other in (*changed_values(name, variable), None):
                changed = bare if other is None else bare.assign({name: other.variable})
                with pytest.raises(ValueError, match=rf"(damaged|not made by).*\b({name}|{group} is missing)\b"):
                    bgp.posterior(with_group(groups, group, changed))
                edited += 1
    assert edited > 40
    if groups["fit"].attrs["evidence_kind"] == "ep" and "node_weight" not in groups["fit"]:
        assert {"log_evidence_correction", "log_evidence_remaining"} <= set(groups["fit"])


def test_every_attribute_of_the_fit_is_refused_by_name(groups):
    attrs = groups["fit"].attrs
    for name, value in attrs.items():
        if name.startswith("inference_library"):
            continue
        texts = ["", "[" * 3000, str(value)[:-1], str(value).replace("1", "2").replace("a", "e") + "x"]
        for text in texts:
            changed = groups["fit"].copy().assign_attrs({name: text})
            with pytest.raises(ValueError, match=name.removeprefix("bayesgp_mf_")):
                bgp.posterior(with_group(groups, "fit", changed))
        if name not in ("checksums", "bayesgp_mf_format"):
            changed = groups["fit"].copy()
            changed.attrs = {k: v for k, v in attrs.items() if k != name}
            with pytest.raises(ValueError, match=name):
                bgp.posterior(with_group(groups, "fit", changed))
    renamed = groups["constant_data"].assign_coords(
        feature=[f"{name} " for name in groups["constant_data"]["feature"].values]
    )
    with pytest.raises(ValueError, match="feature"):
        bgp.posterior(with_group(groups, "constant_data", renamed))


def test_what_is_added_under_a_name_that_means_something_is_refused(groups):
    """Nothing that a fit may have, and this one has not, may be put in: neither a number nor a reason to have none."""
    scalars = ("probability_shift", "log_evidence_correction", "mean_error", "rounding", "independent", "node_weight")
    lacking = [name for name in scalars if name not in groups["fit"]]
    assert lacking
    for name in lacking:
        changed = with_group(groups, "fit", groups["fit"].assign({name: 0.0}))
        with pytest.raises(ValueError, match=name):
            bgp.posterior(changed)
    for name in ("loo_omitted", "hyperparameters_omitted"):
        if name not in groups["fit"].attrs:
            changed = groups["fit"].copy().assign_attrs({name: "12"})
            with pytest.raises(ValueError, match=name):
                bgp.posterior(with_group(groups, "fit", changed))
    weighed = groups["constant_data"].assign(weights=("obs_id", np.ones(groups["constant_data"].sizes["obs_id"])))
    with pytest.raises(ValueError, match="weights"):
        bgp.posterior(with_group(groups, "constant_data", weighed))
    own = groups["fit"].assign(my_note=0.5)
    bgp.posterior(with_group(groups, "fit", own.assign_attrs(my_reason="because")))


def test_a_group_that_is_missing_is_refused_by_name(groups):
    for name in GUARDED:
        with pytest.raises(ValueError, match=name):
            bgp.posterior(make_container({k: v for k, v in groups.items() if k != name}))


def said(idata):
    """All that a container predicts, to the last digit."""
    idata, process = bgp.predict(idata, X_NEW, random_seed=5), bgp.posterior(idata)
    numbers = [variable.values for variable in get_group(idata, "predictions").data_vars.values()]
    numbers += [process.mean_at_training, np.array([part.solution.alpha for part in process.parts])]
    numbers += [np.array([part.log_evidence for part in process.parts]), bgp.loo(idata)["se"]]
    return [np.asarray(values).tobytes() for values in numbers]


@pytest.mark.parametrize("groups", ["tap", "inducing", "averaged"], indirect=True)
def test_the_rest_changes_nothing(groups):
    expected = said(make_container(groups))
    for group, dataset in groups.items():
        for name, variable in dataset.variables.items():
            is_read = name in dataset.data_vars and is_guarded(group, variable)
            if is_read or name in ("feature", "node") or (name in groups["fit"] and group == "posterior"):
                continue
            values = digit(variable.values) if variable.dtype.kind in "bif" else variable.values[::-1]
            changed = dataset.assign_coords if name in dataset.coords else dataset.assign
            edited = changed({name: (variable.dims, values, variable.attrs)})
            assert said(with_group(groups, group, edited)) == expected, (group, name)
        noted = dataset.copy().assign_attrs(note="seen", inference_library_version="9.9")
        assert said(with_group(groups, group, noted)) == expected, group


def test_draws_may_be_thinned_but_belong_to_their_settings():
    groups = FITS["averaged"]()
    groups = {name: get_group(groups, name) for name in group_names(groups)}
    thin = make_container({k: v.isel(draw=slice(2)) if "draw" in v.dims else v for k, v in groups.items()})
    assert bgp.predict(thin, X_NEW, random_seed=1)["predictions"]["f"].shape == (2, 2, 3)
    stats = groups["sample_stats"]
    most = groups["fit"].sizes["node"]
    for node in (digit(stats["node"].values), stats["node"].values + most, stats["node"].values - most):
        edited = with_group(groups, "sample_stats", stats.assign(node=stats["node"].copy(data=node)))
        with pytest.raises(ValueError, match=r"damaged or was edited: .*node in the group sample_stats"):
            bgp.predict(edited, X_NEW)


def test_parameters_beside_draws_are_those_of_their_settings():
    idata = fit(
        KERNEL,
        bgp.Logit(),
        method="laplace",
        hyper=bgp.hyper.Surrogate(nodes=30),
        priors={"gaussian_variance": bgp.hyper.LogNormal(0.5, 0.5)},
        fixed=("gaussian_lengthscale", "bias_variance"),
    )
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    draws = groups["posterior"]
    values = draws["gaussian_variance"].copy(data=digit(draws["gaussian_variance"].values))
    with pytest.raises(ValueError, match="gaussian_variance in the group posterior"):
        bgp.predict(with_group(groups, "posterior", draws.assign(gaussian_variance=values)), X_NEW)


def test_a_digit_in_a_file_is_found(tmp_path):
    whole, edited = tmp_path / "fit.nc", tmp_path / "edited.nc"
    FITS["tap"]().to_netcdf(str(whole))
    edited.write_bytes(whole.read_bytes())
    bgp.posterior(az.from_netcdf(str(whole)))
    with h5py.File(edited, "r+") as file:
        file["fit/log_evidence"][...] = np.round(file["fit/log_evidence"][()], 9)
    with pytest.raises(ValueError, match="log_evidence in the group fit was changed"):
        bgp.posterior(az.from_netcdf(str(edited)))


# containers of before there were checksums: shapes, finite numbers, parameters and the mean must agree


def old(name):
    idata = az.from_netcdf(str(RECORDED / f"{name}.nc"))
    return {group: get_group(idata, group).load() for group in GUARDED}


NUMBERS = {
    "latent_mean": 1.0 + 1e-4,
    "alpha": 1.0 + 1e-3,
    "latent_sd": np.inf,
    "log_evidence": np.nan,
    "site_variance": np.nan,
    "probability_shift": np.nan,
}
TEXTS = {
    "kernel": ("4.0", "4.1"),
    "likelihood": ("Probit", "Probably"),
    "method": ("tap", "none"),
    "status": ("CONVERGED", "SOMEHOW"),
    "class_names": ('"no", "yes"', '"no", "no"'),
}


@pytest.mark.parametrize("name", ["dense", "low_rank"])
def test_an_old_container_is_checked_against_itself(name):
    groups = old(name)
    for field, factor in NUMBERS.items():
        if field not in groups["fit"]:
            groups["fit"][field] = 0.5
        values = groups["fit"][field].values.copy()
        values[(5,) * values.ndim] *= factor
        changed = groups["fit"].assign({field: groups["fit"][field].copy(data=values)})
        with pytest.raises(ValueError, match=rf"damaged.*\b{field}\b"):
            bgp.posterior(with_group(groups, "fit", changed))
    for field, (now, then) in TEXTS.items():
        text = groups["fit"].attrs[field].replace(now, then)
        changed = groups["fit"].copy().assign_attrs({field: text})
        with pytest.raises(ValueError, match=rf"damaged.*\b{field}\b"):
            bgp.posterior(with_group(groups, "fit", changed))
    for group, field, value in (("observed_data", "y", 2), ("constant_data", "X", 0.5)):
        values = groups[group][field].values.copy()
        values[5:6] = value
        changed = groups[group].assign({field: groups[group][field].copy(data=values)})
        with pytest.raises(ValueError, match=rf"damaged.*\b{field}\b"):
            bgp.posterior(with_group(groups, group, changed))


@pytest.mark.parametrize("field", ["latent_mean", "node_weight", "gaussian_lengthscale"])
def test_an_old_average_is_checked_against_itself(field):
    groups = old("averaged")
    bgp.posterior(make_container(groups))
    values = groups["fit"][field].values.copy()
    values[(3,) if values.ndim == 1 else (0, 1)] *= 1.1
    changed = groups["fit"].assign({field: groups["fit"][field].copy(data=values)})
    with pytest.raises(ValueError, match=rf"damaged.*\b{field}\b"):
        bgp.posterior(with_group(groups, "fit", changed))


def test_an_old_fit_without_a_posterior_is_refused_in_words():
    groups = old("dense")
    machine = groups["fit"].copy().assign_attrs(method="svm", evidence_kind="none")
    for read in (bgp.posterior, bgp.loo, lambda idata: bgp.predict(idata, X_NEW)):
        with pytest.raises(ValueError, match=r"method 'svm', a limit .*bgp\.solve\(kernel\.gram\(X\), t"):
            read(with_group(groups, "fit", machine))


def test_an_old_fit_of_one_class_against_the_rest_is_refused_in_words():
    groups = old("dense")
    several = groups["fit"].copy().assign_attrs(classifiers='[{"status": "CONVERGED"}]')
    for read in (bgp.posterior, bgp.loo, bgp.diagnostics.quality, lambda idata: bgp.predict(idata, X_NEW)):
        with pytest.raises(ValueError, match=r"had OneVsRest wrote it.*OneVsRestClassifier.*install the version"):
            read(with_group(groups, "fit", several))


# what a file asks for


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_a_small_file_of_very_many_cases_is_refused_before_the_work(kind, tmp_path, set_memory):
    n, groups = 60_000, old(kind)
    if kind == "low_rank":  # of full rank
        groups["fit"]["pivot"] = ("rank", np.arange(n))
    large = {}
    for group, dataset in groups.items():
        cases = np.arange(n) % dataset.sizes["obs_id"]
        large[group] = dataset.isel(obs_id=cases).assign_coords(obs_id=np.arange(n))
    file = tmp_path / "large.nc"
    encoding = {name: {"zlib": True} for name in ("alpha", "X", "y", "obs_id")}
    for group, dataset in large.items():
        kept = {name: how for name, how in encoding.items() if name in dataset.variables}
        dataset.to_netcdf(file, mode="a" if file.exists() else "w", group=group, engine="h5netcdf", encoding=kept)
    set_memory(16 * 2.0**30)
    tracemalloc.start()
    with pytest.raises(MemoryError, match=r"60000 training cases need about [0-9.]+ GiB"):
        bgp.posterior(az.from_netcdf(str(file)))
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def nested(depth):
    description = bgp.kernels.Bias().to_dict()
    for k in range(depth):
        description = {"kernel": ("Sum", "Product")[k % 2], "terms": [description]}
    return description


def test_sums_within_sums_are_refused_in_words():
    with pytest.raises(ValueError, match="more than 100 deep"):
        bgp.kernels.from_dict(nested(900))
    deep = '{"kernel": "Sum", "terms": [' * 900 + json.dumps(bgp.kernels.Bias().to_dict()) + "]}" * 900
    groups = old("dense")
    changed = groups["fit"].copy().assign_attrs(kernel=deep)
    with pytest.raises(ValueError, match=r"damaged or was edited: .*kernel"):
        bgp.posterior(with_group(groups, "fit", changed))


def test_the_deepest_kernel_survives_and_a_deeper_one_is_not_made():
    kernel = bgp.kernels.from_dict(nested(100))
    assert bgp.kernels.from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
    assert kernel.gram(np.zeros((2, 1))).shape == (2, 2)
    of_classes = bgp.kernels.PerClass(kernel, kernel)
    assert bgp.kernels.from_dict(of_classes.to_dict()) == of_classes
    with pytest.raises(ValueError, match="at most 100 deep"):
        kernel * bgp.kernels.Bias() + bgp.kernels.Bias()
