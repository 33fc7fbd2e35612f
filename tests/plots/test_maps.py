"""Maps: what is drawn at each place is what predictions say, and areas are those of the places."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.plots import plot_map

RNG = np.random.default_rng(1)
PLACES = pd.DataFrame({"east": RNG.uniform(0.0, 3.0, 25), "north": RNG.uniform(0.0, 2.0, 25)})
NEW = PLACES[:6] + 0.1
SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
SQUARES = [SQUARE + np.array([k, 0.0]) for k in range(6)]
TARGETS = {
    "labels": (PLACES["east"] > 1.5, bgp.Probit()),
    "counts": (RNG.poisson(2.0, 25), bgp.Poisson()),
    "times": (RNG.exponential(2.0, 25), bgp.likelihoods.Gamma(1.0)),
}


class Polygon:
    """Of shapely: an outline, and those of holes."""

    def __init__(self, corners, *holes):
        self.exterior, *self.interiors = (
            type("Ring", (), {"coords": [tuple(corner) for corner in ring]}) for ring in (corners, *holes)
        )


def fitted(kind, **options):
    y, likelihood = TARGETS[kind]
    idata = bgp.fit(PLACES, y, bgp.kernels.Gaussian(1.0), likelihood, draws=20, random_seed=1, **options)
    return bgp.predict(idata, NEW, draws=False)


def drawn(axes):
    return [np.asarray(ax.collections[0].get_array()) for ax in axes]


@pytest.mark.parametrize("kind", TARGETS)
def test_the_places_have_what_predictions_say(kind):
    idata = fitted(kind)
    said = idata["predictions"]
    mean, _, above = drawn(plot_map(idata, threshold=0.7))
    assert mean == pytest.approx(said["p" if kind == "labels" else "y_mean"].values, rel=1e-4)
    level = norm.ppf(0.7) if kind == "labels" else np.log(0.7)
    chance = norm.sf(level, said["latent_mean"].values, said["latent_sd"].values)
    assert above == pytest.approx(chance, abs=1e-9)
    latent = drawn(plot_map(idata, threshold=0.7, scale="latent"))
    assert latent[0] == pytest.approx(said["latent_mean"].values)
    assert latent[1] == pytest.approx(said["latent_sd"].values)
    assert latent[2] == pytest.approx(norm.sf(0.7, latent[0], latent[1]), abs=1e-9)


def test_an_average_and_a_fit_alone_have_a_map():
    average = fitted("times", hyper="integrate", progress=False)  # of several shapes too, and not of the first alone
    mean, sd, above = drawn(plot_map(average, threshold=2.0))
    assert mean == pytest.approx(average["predictions"]["y_mean"].values, rel=1e-6)
    latent = drawn(plot_map(average, scale="latent"))
    assert latent[0] == pytest.approx(average["predictions"]["latent_mean"].values)
    assert latent[1] == pytest.approx(average["predictions"]["latent_sd"].values)
    parts = bgp.posterior(average)
    each = [part.latent_at(NEW) for part in parts.parts]
    rates = [(np.exp(m + v / 2), np.exp(2 * m + v) * np.expm1(v), norm.sf(np.log(2.0), m, np.sqrt(v))) for m, v in each]
    first, spread, chance = (np.array(some) for some in zip(*rates, strict=True))
    assert sd**2 == pytest.approx(parts.weights @ (spread + (first - mean) ** 2), rel=1e-6)
    assert above == pytest.approx(parts.weights @ chance, abs=1e-9)
    y, likelihood = TARGETS["counts"]
    alone = bgp.fit(PLACES, y, bgp.kernels.Gaussian(1.0), likelihood, draws=20, random_seed=1)
    assert drawn(plot_map(alone))[0].size == 25


def test_areas_are_filled_with_the_numbers_of_their_places():
    idata = fitted("counts")
    points = drawn(plot_map(idata))
    polygons = [Polygon(each) for each in SQUARES]
    frame = type("Frame", (), {"geometry": polygons})
    for shapes in (SQUARES, polygons, frame):
        axes = plot_map(idata, shapes)
        assert all(np.array_equal(*pair) for pair in zip(drawn(axes), points, strict=True))
        assert axes[0].get_aspect() == 1.0
    island = type("Parts", (), {"geoms": [Polygon(SQUARE + 9.0), Polygon(SQUARE - 9.0)]})
    two = drawn(plot_map(idata, [*SQUARES[:5], island]))[0]
    assert np.array_equal(two, [*points[0], points[0][5]])


@pytest.mark.parametrize("way", [1, -1])
def test_an_area_within_another_is_seen(way):
    """Whichever way the outlines go round: the other has a hole there."""
    inner = (SQUARE + 1.0)[::way]
    ax, _ = plot_map(fitted("counts"), [inner, Polygon(3.0 * SQUARE, inner), *(each + 9.0 for each in SQUARES[2:])])
    ax.figure.canvas.draw()
    collection, pixels = ax.collections[0], np.asarray(ax.figure.canvas.buffer_rgba())
    for corner, area in ((1.5, 0), (0.5, 1)):
        x, y = ax.transData.transform((corner, corner)).astype(int)
        wanted = 255.0 * collection.to_rgba(collection.get_array())[area]
        np.testing.assert_allclose(pixels[len(pixels) - 1 - y, x], wanted, atol=2.0)


def test_axes_of_areas_without_coordinates_have_names():
    names = pd.DataFrame({"county": list("abcdef")})
    y = TARGETS["counts"][0][:6]
    idata = bgp.fit(names, y, bgp.kernels.Categorical(columns="county"), bgp.Poisson(), draws=20, random_seed=1)
    ax, _ = plot_map(idata, SQUARES)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_degrees_are_as_long_as_they_are_there():
    frame = PLACES.rename(columns={"east": "longitude", "north": "latitude"}) + np.array([0.0, 60.0])
    idata = bgp.fit(frame, TARGETS["labels"][0], bgp.kernels.Gaussian(1.0), draws=20, random_seed=1)
    assert plot_map(idata)[0].get_aspect() == pytest.approx(1.0 / np.cos(np.radians(61.0)), rel=0.02)


@pytest.mark.parametrize(
    ("names", "away", "is_degrees"),
    [
        (("longevity", "latency"), 60.0, False),
        (("lon", "lat"), 120.0, False),
        (("long", "lat"), 60.0, True),
        (("LON_deg", "Lat (deg)"), 60.0, True),
    ],
)
def test_other_inputs_are_not_taken_for_degrees(names, away, is_degrees):
    frame = PLACES.set_axis(names, axis=1) + np.array([0.0, away])
    idata = bgp.fit(frame, TARGETS["labels"][0], bgp.kernels.Gaussian(1.0), draws=20, random_seed=1)
    assert (plot_map(idata)[0].get_aspect() > 1.5) == is_degrees


@pytest.mark.parametrize(
    ("shapes", "options", "words"),
    [
        (SQUARES[:5], {}, "the area of each place, got 5 for 6 places"),
        ([0.0] * 6, {}, "polygons, or arrays"),
        ([*SQUARES[:5], np.nan * SQUARE], {}, "polygons, or arrays"),
        (None, {"scale": "probability"}, "scale must be"),
        (None, {"ax": []}, "ax must hold 2 axes"),
        (None, {"threshold": np.nan}, "threshold must be a finite number"),
        (None, {"threshold": "high"}, "threshold must be a finite number, got 'high'"),
    ],
)
def test_what_is_no_map_is_refused(shapes, options, words):
    with pytest.raises(ValueError, match=words):
        plot_map(fitted("labels"), shapes, **options)


def test_several_classes_have_no_one_map():
    idata = bgp.fit(
        PLACES, list("abcde") * 5, bgp.kernels.Gaussian(1.0), bgp.MultinomialProbit(), draws=5, random_seed=1
    )
    with pytest.raises(ValueError, match="one for each class"):
        plot_map(idata)
