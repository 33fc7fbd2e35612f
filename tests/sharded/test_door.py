"""`sharded.fit` takes a table in parts, and its container predicts as that of the whole table does."""

from __future__ import annotations

import pathlib

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels, sharded

RNG = np.random.default_rng(4)
N = 700
X, X_NEW = RNG.normal(size=(N, 3)), RNG.normal(size=(25, 3))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS, REAL = np.where(F + 0.5 * RNG.normal(size=N) > 0, "late", "early"), F + 0.3 * RNG.normal(size=N)
NAMES = ["a", "b", "c"]
KERNEL = kernels.Matern32([1.0, 2.0, 4.0], 2.0) + kernels.Bias()
OPTIONS = {"inducing": X[:40], "control": bgp.Control(tolerance=1e-10), "random_seed": 1, "draws": 50, "chains": 2}


def table(y=LABELS):
    return sharded.from_arrays([(X[:200], y[:200]), (X[200:], y[200:])])


def same(in_parts, whole, tolerance=1e-8):
    for name in ("log_evidence", "independent"):
        assert float(in_parts["fit"][name]) == pytest.approx(float(whole["fit"][name]), abs=tolerance)
    ours, theirs = (bgp.predict(each, X_NEW, random_seed=1)["predictions"] for each in (in_parts, whole))
    assert set(ours.data_vars) == set(theirs.data_vars)
    for name in {"latent_mean", "latent_sd", "p"} & set(theirs.data_vars):
        np.testing.assert_allclose(ours[name], theirs[name], atol=tolerance)
    assert ours["f"].shape == theirs["f"].shape


@pytest.fixture(scope="module")
def in_parts():
    return sharded.fit(table(), None, KERNEL, **OPTIONS)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit(), bgp.likelihoods.Gaussian(0.1)], ids=repr)
def test_a_table_has_the_container_of_the_whole(likelihood):
    y = REAL if likelihood.targets == "real" else LABELS
    whole = bgp.fit(X, y, KERNEL, likelihood, **OPTIONS)
    found = sharded.fit(table(y), None, KERNEL, likelihood, **OPTIONS)
    same(found, whole)
    assert found["fit"].attrs["n_cases"] == N
    for name in ("status", "evidence_kind", "class_names", "kernel", "likelihood", "method"):
        assert found["fit"].attrs[name] == whole["fit"].attrs[name]
    assert float(found["fit"]["mean_error"]) < 1e-5
    assert float(found["fit"]["rounding"]) < 1e-5
    direct = sharded.fit_stream(
        table(y), None, KERNEL, likelihood, inducing=OPTIONS["inducing"], control=OPTIONS["control"], random_seed=1
    )
    for name, value in direct.gradient.items():
        np.testing.assert_allclose(found["fit"][f"hyper_gradient_{name}"], value, atol=1e-9)


def test_draws_at_the_inducing_inputs_are_those_of_the_posterior():
    many = sharded.fit(table(), None, KERNEL, **{**OPTIONS, "draws": 4000})
    f = many["posterior"]["f"].values.reshape(8000, -1)
    mean, variance = bgp.posterior(many).latent(many["constant_data"]["X"].values)
    np.testing.assert_allclose(f.mean(axis=0), mean, atol=5.0 * np.sqrt(variance.max() / 8000))
    np.testing.assert_allclose(f.var(axis=0), variance, rtol=0.1)


def test_a_saved_container_predicts_in_a_new_process(in_parts, new_process, tmp_path):
    in_parts.to_netcdf(tmp_path / "fit.nc")
    np.save(tmp_path / "X.npy", X_NEW)
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import numpy as np, arviz as az, bayesgp_mf as bgp; "
        "idata = az.from_netcdf(sys.argv[1] + '/fit.nc'); X = np.load(sys.argv[1] + '/X.npy'); "
        "np.save(sys.argv[1] + '/p.npy', bgp.predict(idata, X, random_seed=3)['predictions']['p'].values)"
    )
    run = new_process.run(code, tmp_path)
    assert run.returncode == 0, run.stderr
    p = bgp.predict(in_parts, X_NEW, random_seed=3)["predictions"]["p"].values
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), p)


def test_what_is_of_each_case_is_refused_in_words(in_parts):
    posterior = bgp.posterior(in_parts)
    asked = (
        lambda: bgp.loo(in_parts),
        lambda: posterior.loo,
        lambda: posterior.at_training,
        lambda: posterior.draw(3, np.random.default_rng(1)),
        lambda: bgp.plots.plot_loo(in_parts),
        lambda: bgp.diagnostics.inducing(in_parts),
        lambda: bgp.diagnostics.importance(in_parts),
        lambda: bgp.compare(in_parts, in_parts),
    )
    for ask in asked:
        with pytest.raises(bgp.UndefinedQuantityError, match="table in parts"):
            ask()


def test_a_container_that_was_edited_is_refused(in_parts, tmp_path):
    in_parts.to_netcdf(tmp_path / "fit.nc")
    for name in ("inducing_weight", "inducing_factor", "inducing_input", "log_evidence"):
        idata = az.from_netcdf(tmp_path / "fit.nc")
        idata["fit"][name].values[...] *= 1.01
        with pytest.raises(ValueError, match=f"{name} in the group fit was changed"):
            bgp.posterior(idata)


def test_names_of_columns_are_kept_and_held():
    frame = pd.DataFrame(X, columns=NAMES)
    pairs = [(frame[:300], LABELS[:300]), (frame[300:], LABELS[300:])]
    found = sharded.fit(sharded.from_arrays(pairs), None, KERNEL, **OPTIONS)
    assert found["constant_data"]["feature"].values.tolist() == NAMES
    with pytest.raises(ValueError, match=r"X_new\['a', 'b', 'c'\]|has columns"):
        bgp.predict(found, pd.DataFrame(X_NEW, columns=["b", "a", "c"]))


def test_a_kernel_of_your_own_is_asked_for_again():
    class Mine(kernels.Gaussian):
        """A kernel that is not built in."""

    found = sharded.fit(table(), None, Mine(1.0), **OPTIONS)
    with pytest.raises(ValueError, match="kernel="):
        bgp.posterior(found)
    known, expected = (
        bgp.posterior(found, kernel=Mine(1.0)),
        sharded.fit(table(), None, kernels.Gaussian(1.0), **OPTIONS),
    )
    np.testing.assert_allclose(known.latent_mean(X_NEW), bgp.posterior(expected).latent_mean(X_NEW), atol=1e-12)


def test_inducing_cases_with_options_and_a_search():
    kernel = kernels.Matern32([1.0, 1.0, 1.0], 1.0) + kernels.Bias()
    found = sharded.fit(
        table(), None, kernel, **{**OPTIONS, "inducing": bgp.Inducing(30, choose="kmeans")}, hyper="evidence"
    )
    assert found["fit"].sizes["inducing"] == 30
    assert bgp.posterior(found).kernel != kernel
    assert not np.isin(found["constant_data"]["X"].values[:, 0], X[:, 0]).all()  # centres are no cases


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"inducing": None}, "inducing must be a positive integer"),
        ({"inducing": bgp.Inducing(20, move=True)}, "move"),
        ({"draws": 0}, "draws"),
        ({"y": "soon"}, "y must be None"),
        ({"kernel": None}, "kernel must be one of"),
        ({"client": object(), "processes": 2}, "Give one of them"),
        ({"likelihood": bgp.Softmax()}, "several classes"),
    ],
)
def test_a_slip_at_the_door_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        sharded.fit(**{"X": table(), "y": None, "kernel": KERNEL, **OPTIONS, **given})


def test_what_a_table_in_parts_does_not_have_is_named():
    asked = ("method", "marginals", "priors", "bounds", "fixed", "offset", "weights", "starts", "evidence_of")
    for name in asked:
        with pytest.raises(TypeError, match=rf"fit\(\) has no argument '{name}'\. .{{20}}"):
            sharded.fit(table(), None, KERNEL, **OPTIONS, **{name: None})


def test_inducing_inputs_with_names_are_in_the_order_of_the_table():
    frame = pd.DataFrame(X, columns=NAMES)
    parts = sharded.from_arrays([(frame[:200], LABELS[:200]), (frame[200:], LABELS[200:])])
    same(
        sharded.fit(parts, None, KERNEL, **{**OPTIONS, "inducing": frame[:40]}),
        bgp.fit(frame, LABELS, KERNEL, **OPTIONS),
    )
    for given in (frame[["c", "b", "a"]][:40], bgp.Inducing(inputs=frame[["c", "b", "a"]][:40])):
        with pytest.raises(ValueError, match=r"inducing has columns \['c', 'b', 'a'\]"):
            sharded.fit(parts, None, KERNEL, **{**OPTIONS, "inducing": given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"X": "flights"}, r"from_parquet\('flights'"),
        ({"X": pathlib.Path("flights")}, r"from_parquet\('flights'"),
        ({"X": pd.DataFrame({"a": [0.0, 1.0], "late": [0, 1]}), "y": "late"}, r"X\['late'\]"),
    ],
)
def test_a_path_or_a_name_where_the_data_should_be_here(given, says):
    with pytest.raises(ValueError, match=says):
        bgp.fit(**{"X": X, "y": LABELS, "kernel": KERNEL, **given})


def test_a_dask_frame_is_predicted_by_whatever_a_fit_returns(in_parts):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X_NEW, index=pd.Index(np.arange(25)[::-1], name="flight"))
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    direct = sharded.fit_stream(
        table(), None, KERNEL, inducing=OPTIONS["inducing"], control=OPTIONS["control"], random_seed=1, progress=False
    )
    beliefs = {name: bgp.hyper.LogNormal(0.5, 0.5) for name in ("lengthscale", "variance")}
    averaged = bgp.fit(
        X[:60], LABELS[:60], kernels.Gaussian(), hyper="integrate", priors=beliefs, draws=10, random_seed=1
    )
    for given, idata in (
        (direct, in_parts),
        (direct.stream, in_parts),
        (in_parts, in_parts),
        (bgp.posterior(in_parts), in_parts),
        (averaged, averaged),
    ):
        found = sharded.predict(given, lazy).compute()
        expected = bgp.predict(idata, X_NEW, draws=False)["predictions"]
        assert found.index.equals(frame.index)
        assert list(found) == ["latent_mean", "latent_sd", "p"]
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-8)
    real = sharded.fit(table(REAL), None, KERNEL, bgp.likelihoods.Gaussian(0.1), **OPTIONS)
    assert list(sharded.predict(real, lazy).compute()) == ["latent_mean", "latent_sd"]
    assert bgp.diagnostics.quality(real).verdict == "good"  # under Gaussian noise there is nothing to leave out
    assert bgp.diagnostics.quality(in_parts).verdict == "unknown"
    classes = bgp.fit(X[:60], np.arange(60) % 3, kernels.Gaussian(), bgp.Softmax(), draws=10, random_seed=1)
    for wrong in (classes, KERNEL):
        with pytest.raises(ValueError, match="stream must be a Stream"):
            sharded.predict(wrong, lazy)
    with pytest.raises(ValueError, match=r"frame must be a Dask frame, got DataFrame.*bgp\.predict"):
        sharded.predict(in_parts, frame)


def test_each_door_names_the_other():
    for name, value in (("client", object()), ("processes", 2), ("refine", 1)):
        with pytest.raises(TypeError, match=f"no argument '{name}'. It goes with a table in parts: sharded.fit"):
            bgp.fit(X, LABELS, KERNEL, **{**OPTIONS, name: value})
    with pytest.raises(TypeError, match="procesess"):
        sharded.fit(table(), None, KERNEL, **OPTIONS, procesess=2)
    with pytest.raises(ValueError, match=r"fit it by bgp\.sharded\.fit\(X, y, kernel"):
        bgp.fit(table(), None, KERNEL, **OPTIONS)
    with pytest.raises(ValueError, match=r"are fitted by bgp\.fit\(X, y, kernel, likelihood\)"):
        sharded.fit(X, LABELS, KERNEL, **OPTIONS)


def test_dask_collections_here_and_on_the_cluster_that_there_is(in_parts, tmp_path):
    da = pytest.importorskip("dask.array")
    import dask.dataframe as dd
    from distributed import Client

    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(late=LABELS), npartitions=3)
    arrays = da.from_array(X, chunks=(300, 3)), da.from_array(LABELS, chunks=300)
    same(sharded.fit(frame, "late", KERNEL, bgp.Probit(), **OPTIONS), in_parts)
    with Client(processes=False, dashboard_address=":0", n_workers=1, threads_per_worker=1) as client:
        before = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
        same(sharded.fit(*arrays, KERNEL, bgp.Probit(), **OPTIONS), in_parts)
        after = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter)
        assert after > before  # it was there that the work was done
        real = sharded.fit(arrays[0], da.from_array(REAL, chunks=300), KERNEL, bgp.likelihoods.Gaussian(0.1), **OPTIONS)
        same(real, bgp.fit(X, REAL, KERNEL, bgp.likelihoods.Gaussian(0.1), **OPTIONS))
    with pytest.raises(ValueError, match="name of a column"):
        sharded.fit(frame[NAMES], frame["late"], KERNEL, **OPTIONS)
    with pytest.raises(ValueError, match="y is a Dask collection"):
        bgp.fit(X, arrays[1], KERNEL, **OPTIONS)
    for given in (frame, "late"), arrays:
        with pytest.raises(ValueError, match=r"fit it by bgp\.sharded\.fit\(X, y, kernel"):
            bgp.fit(*given, KERNEL, **OPTIONS)


def test_ordered_levels_of_a_table_in_parts_are_predicted_by_name():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=60), [-0.7, 0.7])
    table = bgp.sharded.from_arrays([(X[:30], y[:30]), (X[30:], y[30:])])
    idata = bgp.sharded.fit(table, None, bgp.kernels.Gaussian(1.5), bgp.Ordinal((-0.7, 0.7)), inducing=X[:20], draws=5)
    here = bgp.fit(X, y, bgp.kernels.Gaussian(1.5), bgp.Ordinal((-0.7, 0.7)), inducing=X[:20], draws=5)
    parts, whole = (bgp.predict(each, X[:3] + 0.1, draws=False)["predictions"]["p"] for each in (idata, here))
    assert list(parts["class"].values) == list(whole["class"].values) == ["0", "1", "2"]
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-6)


def test_what_became_of_close_inducing_inputs_is_stated_as_by_fit():
    line, x = np.linspace(-1.0, 1.0, 5)[:, None], RNG.permutation(np.linspace(-2.0, 2.0, 40))[:, None]
    t, points = np.sin(3.0 * x[:, 0]), np.concatenate([line, line + 1e-7, line - 1e-7])
    model, options = (kernels.Gaussian(1.0, 2.0), bgp.likelihoods.Gaussian(1e-3)), {"draws": 10, "random_seed": 1}
    parts = sharded.from_arrays([(x[:20], t[:20]), (x[20:], t[20:])])
    with pytest.warns(bgp.ConvergenceWarning, match=r"nearly repeat each other.*off by .* nats"):
        whole = bgp.fit(x, t, *model, inducing=points, **options)
    with pytest.warns(bgp.ConvergenceWarning, match=r"nearly repeat each other.*off by .* nats"):
        found = sharded.fit(parts, None, *model, inducing=points, **options)
    stated = [float(each["fit"]["inducing_error"]) for each in (whole, found)]
    assert stated[1] == pytest.approx(stated[0], rel=1e-6)
