"""Kernels on the sphere: distances against the formulas, limits, rotations, and what is refused."""

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.kernels import (
    Bias,
    Categorical,
    Difference,
    Gaussian,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    OnSphere,
    RationalQuadratic,
    Slope,
    White,
)

RNG = np.random.default_rng(3)
PLACES = np.column_stack([RNG.uniform(-180.0, 180.0, 60), np.degrees(np.arcsin(RNG.uniform(-1.0, 1.0, 60)))])
METRICS = ("chordal", "haversine")
metrics = pytest.mark.parametrize("metric", METRICS)


def on(metric, lengthscale=4000.0, **options):
    return OnSphere(Matern12(lengthscale), [0, 1], metric, **options)


def distances(kernel, A, B):
    return -np.log(kernel.cross(A, B)) * float(kernel.params["lengthscale"])


def haversine(A, B):
    (l1, p1), (l2, p2) = np.radians(A).T[..., :, None], np.radians(B).T[..., None, :]
    h = np.sin((p1 - p2) / 2) ** 2 + np.cos(p1) * np.cos(p2) * np.sin((l1 - l2) / 2) ** 2
    return 2.0 * np.arcsin(np.sqrt(h))


def test_distances_are_those_of_the_formulas():
    angle = haversine(PLACES, PLACES[:7])
    np.testing.assert_allclose(distances(on("haversine"), PLACES, PLACES[:7]), 6371.0 * angle, atol=1e-8)
    chord = distances(on("chordal", 0.7, radius=2.0), PLACES, PLACES[:7])
    np.testing.assert_allclose(chord, 4.0 * np.sin(angle / 2), atol=1e-13)


@metrics
def test_nearby_places_are_as_on_a_plane_in_kilometres(metric):
    near = np.array([24.0, 60.0]) + 0.01 * RNG.normal(size=(12, 2))
    plane = np.radians(near - near[0]) * 6371.0 * np.array([np.cos(np.radians(60.0)), 1.0])
    flat = Matern12(1.5).gram(plane)
    np.testing.assert_allclose(on(metric, 1.5).gram(near), flat, atol=2e-3)
    wrong = np.radians(near - near[0]) * 6371.0
    assert np.abs(Matern12(1.5).gram(wrong) - flat).max() > 0.05


@metrics
def test_longitudes_wrap_poles_are_one_place_and_antipodes_are_farthest(metric):
    same = np.array([[180.0, 10.0], [-180.0, 10.0], [540.0 - 360.0, 10.0], [360.0, -4.0], [0.0, -4.0]])
    found = distances(on(metric), same, same)
    assert found[:3, :3] == pytest.approx(0.0, abs=1e-8)
    assert found[3, 4] == pytest.approx(0.0, abs=1e-8)
    poles = np.array([[0.0, 90.0], [123.0, 90.0], [-77.0, -90.0]])
    half = {"chordal": 2.0, "haversine": np.pi}[metric] * 6371.0
    np.testing.assert_allclose(distances(on(metric), poles, poles)[0], [0.0, 0.0, half], atol=1e-8)
    opposite = np.column_stack([PLACES[:, 0] - 180.0 * np.sign(PLACES[:, 0]), -PLACES[:, 1]])
    np.testing.assert_allclose(np.diag(distances(on(metric), PLACES, opposite)), half, atol=1e-8)
    across = np.array([[179.95, 0.0], [-179.95, 0.0]])
    assert distances(on(metric), across, across)[0, 1] == pytest.approx(np.radians(0.1) * 6371.0, rel=1e-5)


SAME = np.array([[180.0, 10.0], [-180.0, 10.0], [0.0, -4.0], [360.0, -4.0], [-360.0, -4.0], [7.0, 90.0], [70.0, 90.0]])


@metrics
def test_one_place_by_several_numbers_is_one_to_the_last_digit(metric):
    """So that derivatives, starts of searches, priors and inducing cases do not take rounding for distances."""
    kernel, first = on(metric), [0, 0, 2, 2, 2, 5, 5]
    np.testing.assert_array_equal(kernel.warp(SAME), kernel.warp(SAME[first]))
    for i, j in enumerate(first):
        assert not kernel.inputs_vjp(SAME[[j]], SAME[[i]], np.ones((1, 1))).any()
    often = np.vstack([SAME[np.resize(range(7), 100)], PLACES])
    by_one_number = np.vstack([SAME[np.resize(first, 100)], PLACES])
    for each, other in zip(kernel.spans(often)["lengthscale"], kernel.spans(by_one_number)["lengthscale"], strict=True):
        assert each == other


@metrics
def test_repeats_across_the_date_line_do_not_take_the_digits_of_inducing_cases(metric):
    stations = np.vstack([np.column_stack([np.full(20, 180.0), PLACES[:20, 1]]), PLACES[20:40]])
    X = np.vstack([stations, stations, stations * np.where(stations == 180.0, -1.0, 1.0)])
    options = {"likelihood": bgp.Poisson(), "inducing": 110, "draws": 2, "random_seed": 1}
    idata = bgp.fit(X, RNG.poisson(2.0, 120), on(metric, 2000.0), **options)
    assert idata["fit"].sizes["inducing"] == 40
    assert float(idata["fit"]["independent"]) < 1e-9


@pytest.mark.parametrize("shape", [Gaussian, Matern32])
def test_a_pole_by_several_longitudes_among_inducing_inputs_takes_nothing(shape):
    """As in a grid of the globe; there is no warning."""
    X = np.stack(np.meshgrid(np.arange(0.0, 360.0, 30.0), np.arange(-90.0, 91.0, 15.0)), axis=-1).reshape(-1, 2)
    kernel = OnSphere(shape(3000.0), [0, 1])
    rng = np.random.default_rng(1)
    y, inducing = rng.poisson(2.0, len(X)), rng.permutation(X)[:60]
    pole = np.abs(inducing[:, 1]) == 90.0
    once = np.vstack([inducing[~pole], [[0.0, -90.0], [0.0, 90.0]]])
    found, wanted = (
        float(bgp.fit(X, y, kernel, bgp.Poisson(), inducing=each, draws=2, random_seed=1)["fit"]["log_evidence"])
        for each in (inducing, once)
    )
    assert len(once) < len(inducing)
    assert found == pytest.approx(wanted, abs=1e-9)


@metrics
@pytest.mark.parametrize("radius", [1e-200, 1e200])
def test_covariances_do_not_depend_on_the_unit_of_length(metric, radius):
    found = on(metric, 0.7 * radius, radius=radius).gram(PLACES)
    np.testing.assert_allclose(found, on(metric, 0.7, radius=1.0).gram(PLACES), rtol=1e-12)


@metrics
def test_covariances_do_not_change_when_the_sphere_turns(metric):
    kernel, (turn, _) = on(metric), np.linalg.qr(RNG.normal(size=(3, 3)))
    x, y, z = (OnSphere(Bias(), [0, 1], radius=1.0).warp(PLACES) @ turn.T).T
    turned = np.degrees(np.column_stack([np.arctan2(y, x), np.arcsin(z)]))
    np.testing.assert_allclose(kernel.gram(turned), kernel.gram(PLACES), atol=1e-12)


def smallest(gram):
    return np.linalg.eigvalsh(gram)[0]


@pytest.mark.parametrize("lengthscale", [300.0, 3000.0, 30_000.0])
def test_what_is_taken_is_positive_definite_and_what_is_refused_is_not(lengthscale):
    around = np.column_stack([np.linspace(-180.0, 180.0, 40, endpoint=False), np.zeros(40)])
    grid = np.vstack([PLACES, around, around[:, ::-1] / 2.01])
    for kernel in (on("haversine", lengthscale), *(OnSphere(k(lengthscale), [0, 1]) for k in (Matern32, Gaussian))):
        assert smallest(kernel.gram(grid)) > -1e-12 * len(grid)
    along = distances(on("haversine"), around, around)
    for kernel in (Matern32(lengthscale), Matern52(lengthscale), Gaussian(lengthscale), RationalQuadratic(lengthscale)):
        if lengthscale > 10_000.0:  # with shorter ones what is below zero is small
            assert smallest(kernel.cross(along.reshape(-1, 1), np.zeros((1, 1))).reshape(along.shape)) < -1e-7
        with pytest.raises(ValueError, match="take metric='chordal'"):
            OnSphere(kernel, metric="haversine")


class Other(Matern12):
    def profile(self, squared):
        return np.exp(-squared)


class OtherBoth(Matern12):
    def _both(self, squared):
        return np.exp(-squared), -np.exp(-squared)


def test_a_kernel_that_no_theorem_is_of_is_refused_along_great_circles():
    OnSphere(2.0 * Matern12(5.0) * Matern12(2.0) + Bias(), metric="haversine")
    mixed = Matern12() + Matern32()
    for kernel in (Other(), OtherBoth(), White(), Linear(), mixed, Matern12() ** 2):
        with pytest.raises(ValueError, match="metric='chordal'"):
            OnSphere(kernel, metric="haversine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": None}, "columns must be longitude and latitude"),
        ({"columns": ["lon", "lat", "height"]}, "columns must be longitude and latitude"),
        ({"columns": ["Latitude", "Longitude"]}, "longitude and latitude, in this order"),
        ({"kernel": Slope(Gaussian(), "latitude")}, "of places alone"),
        ({"kernel": Bias() + Difference(Gaussian(), 0, 1)}, "of places alone"),
        ({"metric": "euclidean"}, "metric must be"),
        ({"radius": 0.0}, "radius must be finite and > 0"),
        ({"kernel": Matern32([1.0, 2.0, 3.0])}, "one length scale"),
        ({"kernel": Matern32(2.0) + Matern32(2.0, columns="year")}, "no columns of its own"),
        ({"kernel": Categorical()}, "of places alone"),
    ],
)
def test_what_is_no_kernel_of_places_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        OnSphere(**{"kernel": Matern32(500.0), **options})


def table(n=60):
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"year": rng.uniform(0.0, 5.0, n), "lat": rng.uniform(40.0, 55.0, n)})
    return X.assign(lon=rng.uniform(170.0, 190.0, n), kind=rng.permutation(np.resize(["a", "b"], n)))


def model(metric="chordal"):
    places = OnSphere(Matern12(300.0), ["lon", "lat"], metric)
    return places * Matern32(2.0, columns="year") + Categorical(0.5, columns="kind")


@pytest.mark.parametrize("column", ["lon", "lat"])
@pytest.mark.parametrize("options", [{}, {"inducing": 20}, {"control": bgp.Control(gram="dense")}])
def test_degrees_beyond_the_globe_are_refused_at_fit_and_predict(column, options):
    X, y = table(), RNG.poisson(2.0, 60)
    wrong = X.assign(**{column: X[column].where(X.index != 4, -400.0 if column == "lon" else 95.0)})
    words = "longitude must be between -360 and 360 .* row 4" if column == "lon" else "latitude must be .* row 4"
    with pytest.raises(ValueError, match=words):
        bgp.fit(wrong, y, model(), bgp.Poisson(), draws=2, **options)
    idata = bgp.fit(X, y, model(), bgp.Poisson(), draws=2, random_seed=1, **options)
    with pytest.raises(ValueError, match=words):
        bgp.predict(idata, wrong)


def test_a_smooth_field_on_the_globe_has_low_rank():
    X = np.column_stack([RNG.uniform(0.0, 30.0, 1000), RNG.uniform(40.0, 60.0, 1000)])
    idata = bgp.fit(X, X[:, 1] > 50.0, OnSphere(Gaussian(1500.0), [0, 1]), draws=2, random_seed=1)
    assert 10 < bgp.posterior(idata).solution.info.rank < 200


@metrics
def test_a_frame_goes_through_fit_files_predictions_and_tuning(metric, tmp_path):
    X = table()
    y = np.random.default_rng(5).poisson(
        np.exp(1.0 + np.sin(X["lon"] / 2.0) + (X["kind"] == "a") + np.cos(X["year"]) * np.cos(X["lat"]))
    )
    search = bgp.hyper.Evidence(starts=1)
    idata = bgp.fit(X, y, model(metric), bgp.Poisson(), hyper=search, draws=20, random_seed=1, progress=False)
    there = X.assign(lon=X["lon"] - 360.0)
    before = bgp.predict(idata, there, draws=False)["predictions"]["latent_mean"].values
    assert before == pytest.approx(bgp.predict(idata, X, draws=False)["predictions"]["latent_mean"].values, abs=1e-7)
    idata.to_netcdf(tmp_path / "fit.nc")
    loaded = az.from_netcdf(tmp_path / "fit.nc")
    assert bgp.posterior(loaded).kernel == bgp.posterior(idata).kernel
    prior = bgp.priors.suggest(X, model(metric), bgp.Poisson(), between=(0.5, 4.0))
    assert 100.0 < np.exp(prior["matern12_lengthscale"].mean) < 1500.0  # in kilometres, of an extent of 2000
    moved = bgp.fit(
        X.drop(columns="kind"),
        y,
        OnSphere(Matern12(300.0), ["lon", "lat"], metric),
        bgp.Poisson(),
        hyper=search,
        inducing=bgp.Inducing(5, move=True),
        draws=2,
        random_seed=1,
        progress=False,
    )
    assert moved["fit"]["inducing_input"].shape == (5, 3)


def test_a_surface_of_places_ends_at_the_poles():
    places = pd.DataFrame({"longitude": [-179.0, 0.0, 60.0, 179.0], "latitude": [-89.0, 0.0, 20.0, 89.0]})
    idata = bgp.fit(places, [0, 1, 1, 0], OnSphere(Matern32(3000.0)), draws=5, random_seed=1)
    ax = bgp.plots.plot_surface(idata, points=10)
    assert ax.get_ylim() == (-90.0, 90.0)
    assert ax.get_xlim()[1] > 179.0
