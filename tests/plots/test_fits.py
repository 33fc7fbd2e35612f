"""Figures of every kind of fit: drawn with labels, or refused in words."""

from __future__ import annotations

import json
from functools import cache, partial

import arviz as az
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf import plots
from bayesgp_mf.plots import surface
from bayesgp_mf.plots._axes import DIVERGING, SEQUENTIAL
from bayesgp_mf.plots.surface import grid_of_classes
from tests.plots.fits import EXPOSURE, MAKERS, NOISE, ONE, RNG, SMALL, TRIALS, WARDS, X1, X2, F, Z, made, streamed

NUMBERS = {"regression", "student", "counts", "proportions", "groups"}
COUNTS = {"counts", "proportions", "groups"}
SURFACES = {"classes", "weighted", "inducing"}
SEARCHED = {"binary", "nodes", "draws"}
EVERY = set(MAKERS)
DRAWN = {
    "plot_latent": (lambda fit, **k: plots.plot_latent(fit, feature=0, points=9, **k), EVERY),
    "plot_latent of targets": (
        lambda fit, **k: plots.plot_latent(fit, feature=0, points=9, scale="target", **k),
        EVERY,
    ),
    "plot_surface": (lambda fit, **k: plots.plot_surface(fit, features=(0, 1), points=5, **k), SURFACES),
    "plot_partial_dependence": (
        lambda fit, **k: plots.plot_partial_dependence(fit, features=[0], points=3, **k)[0],
        EVERY,
    ),
    "plot_relevance": (plots.plot_relevance, EVERY),
    "plot_hyperparameters": (plots.plot_hyperparameters, EVERY),
    "plot_calibration": (plots.plot_calibration, EVERY),
    "plot_roc": (plots.plot_roc, EVERY - NUMBERS),
    "plot_loo": (plots.plot_loo, EVERY),
    "plot_confusion": (plots.plot_confusion, EVERY - NUMBERS),
    "plot_counts": (plots.plot_counts, COUNTS),
    "plot_search": (plots.plot_search, SEARCHED),
}


@pytest.mark.parametrize("kind", sorted(EVERY))
@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_is_drawn_with_labels_or_refused_in_words(name, kind):
    plot, kinds = DRAWN[name]
    before = dict(mpl.rcParams)
    left, right = Figure().subplots(1, 2)
    if kind in kinds:
        ax = plot(made(kind), ax=right)
        assert ax is right
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        ax.figure.canvas.draw()
        assert not left.has_data()
        assert plots.alt_text(ax).startswith((ax.get_ylabel(), " ".join(ax.get_title().split()) or " "))
    else:
        with pytest.raises(ValueError, match=r"[.?]$") as caught:
            plot(made(kind), ax=right)
        assert len(str(caught.value).split()) > 6
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()


REFUSED = {
    "two fits, one array": lambda: plots.plot_agreement(made("binary"), [1.0]),
    "another length": lambda: plots.plot_loo([-0.1, -0.2], [-0.1]),
    "no such input": lambda: plots.plot_loo(made("binary"), feature="none"),
    "no search": lambda: plots.plot_search(made("regression")),
    "no classes": lambda: plots.plot_roc(made("regression")),
    "too many inputs": lambda: plots.plot_surface(made("weighted")),
    "a level": lambda: plots.plot_calibration(made("regression"), level=2.0),
    "bins": lambda: plots.plot_calibration(made("binary"), bins=0),
    "a batch": lambda: plots.plot_stream(bgp.streams.Stream(ONE, bgp.Probit())),
}


@pytest.mark.parametrize("draw", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_no_empty_figure(draw):
    with pytest.raises(ValueError, match=r"[.?]$"):
        draw()
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", ["groups", "draws"])
def test_figures_of_a_loaded_file_are_those_of_the_fit(kind, tmp_path):
    made(kind).to_netcdf(str(tmp_path / "fit.nc"))
    loaded = az.from_netcdf(str(tmp_path / "fit.nc"))
    for name in (
        "plot_latent",
        "plot_partial_dependence",
        "plot_relevance",
        "plot_hyperparameters",
        "plot_calibration",
    ):
        ours, theirs = (DRAWN[name][0](fit) for fit in (made(kind), loaded))
        assert plots.alt_text(ours) == plots.alt_text(theirs)
        for one, other in zip(ours.lines, theirs.lines, strict=True):
            np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
    loaded.close()


def line(ax, label):
    (found,) = [each for each in ax.lines if each.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_latent_is_that_of_the_posterior():
    ax = plots.plot_latent(made("binary"), points=7)
    x, mean = line(ax, "mean")
    np.testing.assert_allclose(mean, bgp.posterior(made("binary")).latent(x[:, None])[0])
    assert ax.get_xlabel() == "dose (mg)"
    ill = F + NOISE > 0
    np.testing.assert_array_equal(line(ax, "case of ill")[0], X1.to_numpy()[ill, 0])
    np.testing.assert_array_equal(line(ax, "case of well")[0], X1.to_numpy()[~ill, 0])


def test_the_narrow_band_is_within_the_wide_one():
    ax = plots.plot_latent(made("binary"), levels=(0.5, 0.9), points=7)
    wide, narrow = (each.get_paths()[0].get_extents() for each in ax.collections)
    assert wide.y0 < narrow.y0 < narrow.y1 < wide.y1
    assert [each.get_label() for each in ax.collections] == ["90 % of f", "50 % of f"]


def test_counts_stand_at_their_rates_and_successes_at_their_shares():
    rates = line(plots.plot_latent(made("counts"), scale="target", points=5), "one case")[1]
    np.testing.assert_allclose(rates * EXPOSURE, np.round(EXPOSURE * np.exp(0.5 * F)))
    shares = line(plots.plot_latent(made("proportions"), scale="target", points=5), "one case")[1]
    np.testing.assert_allclose(shares * TRIALS, np.round(TRIALS / (1.0 + np.exp(-F))))


def test_measurements_stand_at_their_values_on_both_scales():
    for scale in ("latent", "target"):
        ax = plots.plot_latent(made("regression"), scale=scale, points=5)
        np.testing.assert_array_equal(line(ax, "one case")[1], F + 0.4 * NOISE)


def test_groups_are_named():
    ax = plots.plot_latent(made("groups"), feature="ward")
    assert [text.get_text() for text in ax.get_xticklabels()] == sorted(set(WARDS["ward"]))
    assert ax.get_xlabel() == "ward\n(1 other input at the median)"


def test_a_surface_has_the_probabilities_of_predict():
    ax = plots.plot_surface(made("inducing"), features=("age", "weight"), points=4)
    mesh = next(each for each in ax.collections if each.get_array() is not None and each.get_array().size == 16)
    x, y = (np.linspace(*limits, 4) for limits in (ax.get_xlim(), ax.get_ylim()))
    grid = np.column_stack([np.tile(x, 4), np.repeat(y, 4), np.full(16, np.median(X2["idle"]))])
    p = bgp.posterior(made("inducing")).predict_proba(grid)
    np.testing.assert_allclose(np.ravel(mesh.get_array()), p, rtol=1e-9)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age\n(1 other input at the median)", "weight")


def coloured(ax):
    """Return the values of a map, and its colours."""
    mesh = next(each for each in ax.collections if type(each).__name__ == "QuadMesh")
    return np.ravel(mesh.get_array()), mesh


KM = X2[["age", "weight"]].set_axis(["x (km)", "y (km)"], axis=1)
RATE = 3.0 * np.exp(0.5 * X2["age"].to_numpy())


@cache
def mapped(kind):
    """Return a fit over two inputs."""
    if kind == "far from zero":
        return bgp.fit(KM, 50.0 + Z, bgp.kernels.Gaussian(1.0, 2500.0), bgp.likelihoods.Gaussian(0.1), **SMALL)
    if kind == "counts":
        return bgp.fit(KM, np.round(RATE), bgp.kernels.Gaussian([1.0, 2.0]), bgp.Poisson(), **SMALL)
    return bgp.fit(KM.set_axis(["age", "weight"], axis=1), Z > 0, bgp.kernels.Gaussian([1.0, 2.0], 4.0), **SMALL)


@pytest.mark.parametrize("kind", ["labels", "counts"])
@pytest.mark.parametrize("scale", ["latent", "target"])
def test_a_surface_says_how_sure_it_is(kind, scale):
    """As draws of f at the same inputs say."""
    fit = mapped(kind)
    draw = partial(plots.plot_surface, fit, points=2, scale=scale, cases=False)
    ax = draw(what="sd")
    x, y = ax.get_xlim(), ax.get_ylim()
    grid = np.column_stack([np.tile(x, 2), np.repeat(y, 2)])
    mean, variance = bgp.posterior(fit).latent(grid)
    f = mean + np.sqrt(variance) * np.random.default_rng(1).standard_normal((40_000, 4))
    link = {"labels": norm.cdf, "counts": np.exp}[kind] if scale == "target" else lambda f: f
    drawn = link(f)
    np.testing.assert_allclose(coloured(ax)[0], drawn.std(axis=0), rtol=0.06)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(coloured(draw(what="interval"))[0], high - low, rtol=0.04)
    above = np.median(drawn)
    likely = coloured(draw(what="probability", above=above))[0]
    np.testing.assert_allclose(likely, np.mean(drawn > above, axis=0), atol=0.01)


def test_two_hues_are_for_values_about_a_middle():
    two, one = plt.get_cmap(DIVERGING), plt.get_cmap(SEQUENTIAL)
    _, mesh = coloured(plots.plot_surface(mapped("labels"), points=5, scale="latent"))
    assert mesh.get_cmap() == two
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert coloured(plots.plot_surface(mapped("labels"), points=5))[1].get_cmap() == two  # about a half
    for options in ({"scale": "latent"}, {}, {"what": "sd"}):
        values, mesh = coloured(plots.plot_surface(mapped("far from zero"), points=5, **options))
        assert mesh.get_cmap() == one
        assert (mesh.norm.vmin, mesh.norm.vmax) == (values.min(), values.max())


def test_axes_of_one_unit_have_one_scale_and_room_for_the_legend():
    ax = plots.plot_surface(mapped("far from zero"), points=5)
    assert ax.get_aspect() == 1.0
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.y1 <= ax.figure.bbox.y1 + 1
    assert plots.plot_surface(mapped("labels"), points=5).get_aspect() == "auto"  # of two length scales


def test_of_many_cases_some_are_drawn_or_none(monkeypatch):
    monkeypatch.setattr(surface, "MOST_CASES", 7)
    shown = [each for each in plots.plot_surface(mapped("counts"), points=5).lines if each.get_label()[0] != "_"]
    assert [(each.get_label(), each.get_xdata().size) for each in shown] == [("one case (7 of 24)", 7)]
    ax = plots.plot_surface(mapped("counts"), points=5, cases=False)
    assert not ax.lines
    assert ax.get_legend() is None
    ax = plots.plot_surface(made("classes"), features=(0, 1), points=5, cases=False)
    assert {text.get_text() for text in ax.get_legend().get_texts()} <= set("abc")


@pytest.mark.parametrize(
    "options", [{"what": "probability"}, {"above": 1.0}, {"what": "sd", "above": 1.0}, {"what": "var"}, {"cases": 3}]
)
def test_what_a_map_of_numbers_cannot_show_is_refused(options):
    with pytest.raises(ValueError, match=r"what|cases"):
        plots.plot_surface(mapped("counts"), points=3, **options)


def test_other_inputs_are_at_their_medians():
    x, mean = line(plots.plot_latent(made("weighted"), feature="weight", points=4), "mean")
    at = np.tile(np.median(X2, axis=0), (4, 1))
    at[:, 1] = x
    np.testing.assert_allclose(mean, bgp.posterior(made("weighted")).latent(at)[0])


def test_an_idle_input_is_last_and_hollow():
    ax = plots.plot_relevance(made("weighted"))
    assert ax.get_yticklabels()[-1].get_text() == "idle"
    (hollow,) = [bars for bars in ax.containers if "does nothing" in bars.get_label()]
    assert len(hollow) == 1


def test_partial_dependence_is_sorted_by_what_inputs_do():
    axes = plots.plot_partial_dependence(made("weighted"), points=3)
    found = bgp.diagnostics.relevance(made("weighted"))
    assert [ax.get_xlabel() for ax in axes] == [found.features[j] for j in np.argsort(-found.effect)]
    assert axes[0].get_ylim() == axes[2].get_ylim()


def test_hyperparameters_have_their_priors_beside_them():
    ax = plots.plot_hyperparameters(made("nodes"))
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["lengthscale", "variance"]
    medians = dict(zip(names, line(ax, "prior: median")[0], strict=True))
    np.testing.assert_allclose([medians["lengthscale"], medians["variance"]], [1.0, np.e], rtol=1e-4)
    assert "a node, by its weight" in plots.alt_text(ax)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e300])
def test_hyperparameters_of_any_size_are_drawn(scale):
    fit = bgp.fit(scale * X2[["age"]], Z > 0, bgp.kernels.Gaussian(scale, 4.0), **SMALL)
    ax = plots.plot_hyperparameters(fit)
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    assert 0.0 < low < min(scale, 4.0)
    assert max(scale, 4.0) < high < np.inf


def test_several_figures_are_drawn_of_one_computation():
    for kind, names in (("nodes", ("plot_calibration", "plot_roc", "plot_confusion")), ("counts", ("plot_counts",))):
        found = bgp.diagnostics.predicted(made(kind))
        for name in names:
            plot = getattr(plots, name)
            ours, theirs = plot(found), plot(made(kind))
            assert plots.alt_text(ours) == plots.alt_text(theirs)
            for one, other in zip(ours.lines, theirs.lines, strict=True):
                np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
            with pytest.raises(ValueError, match="these are its predictions already"):
                plot(found, y_new=[0, 1])


def test_the_curve_of_a_search_is_its_trace():
    trace = made("binary")["fit"]["hyper_trace"].values
    np.testing.assert_array_equal(line(plots.plot_search(made("binary")), "best search")[1], trace)


def test_nuts_is_drawn_as_its_chains():
    fit = bgp.fit(X2[["age"]], Z > 0, ONE, hyper=bgp.pymc.Nuts(draws=20, tune=20, chains=1), **SMALL)
    ax = plots.plot_search(fit)
    for chain, values in enumerate(fit["sample_stats"]["lp"].values):
        np.testing.assert_array_equal(line(ax, f"chain {chain}")[1], values)
    assert ax.get_ylabel() == "Log evidence + log prior (nats)"


def test_a_map_of_many_classes_has_fewer_points():
    assert [grid_of_classes(40, classes) for classes in (3, 10, 20, 26, 1000)] == [40, 40, 20, 15, 8]
    sizes = [plots.plot_surface(made("classes"), features=(0, 1)).images[0].get_array().shape]
    assert sizes == [(40, 40, 3)]


def test_a_stream_and_its_container_have_one_figure():
    stream = streamed()
    container = stream.to_container(draws=5, chains=1, random_seed=1)
    for label in ("one batch", "mean of 5 batches", "mean of all so far"):
        ours, theirs = (line(plots.plot_stream(each), label) for each in (stream, container))
        np.testing.assert_array_equal(ours, theirs)
    total = line(plots.plot_stream(stream), "mean of all so far")[1]
    np.testing.assert_allclose(total[-1], stream.log_score.mean)
    np.testing.assert_allclose(
        line(plots.plot_stream(stream, window=2), "mean of 2 batches")[1][-1] * 12, sum(stream.log_score.batches[-2:])
    )


def test_the_worst_cases_are_stated_with_their_inputs():
    ax = plots.plot_loo(made("groups"), worst=2)
    worst = np.argsort(made("groups")["fit"]["loo_i"].values)[:2]
    lines = ax.get_title("left").splitlines()
    for said, case in zip(lines, worst, strict=True):
        row = WARDS.iloc[case]
        assert (
            said
            == f"{case}: {made('groups')['observed_data']['y'].values[case]:.3g}; week {row.week:.3g}, ward {row.ward}"
        )
    assert plots.plot_loo(made("groups"), feature="week").get_xlabel() == "week"


def test_new_cases_are_judged_by_their_predictions():
    idata = bgp.predict(bgp.fit(X2, Z > 0, bgp.kernels.Gaussian(1.0, 4.0), draws=5, random_seed=1), X2, random_seed=2)
    right = int(np.sum((idata["predictions"]["p"].values > 0.5) == (Z > 0)))
    assert plots.plot_confusion(idata, y_new=Z > 0).get_title() == f"{right} of 24 right, new cases"
    names = json.loads(idata["fit"].attrs["class_names"])
    assert plots.plot_calibration(idata, y_new=Z > 0).get_xlabel() == f"Predicted probability of {names[1]}"


def test_agreement_takes_two_fits():
    tap, laplace = (
        bgp.fit(X2, Z > 0, bgp.kernels.Gaussian(1.0, 4.0), method=m, random_seed=1) for m in ("tap", "laplace")
    )
    ax = plots.plot_agreement(tap, laplace, names=("TAP", "Laplace"))
    means = [each["fit"]["latent_mean"].values for each in (tap, laplace)]
    np.testing.assert_array_equal(line(ax, "one case"), means)
    assert ax.get_ylabel() == "Laplace: mean (latent units)"


def test_a_fit_to_a_table_in_parts_is_drawn_at_its_inducing_inputs():
    X = RNG.standard_normal((60, 2))
    table = bgp.sharded.from_arrays([(X[:30], X[:30, 0] > 0), (X[30:], X[30:, 0] > 0)])
    fit = bgp.sharded.fit(table, None, ONE, inducing=8, draws=5, random_seed=1)
    ax = plots.plot_surface(fit, points=5)
    np.testing.assert_array_equal(line(ax, "inducing input"), fit["fit"]["inducing_input"].values.T)
    assert not [each for each in plots.plot_latent(fit, feature=0).lines if "case" in each.get_label()]
    for plot in (plots.plot_calibration, plots.plot_roc, plots.plot_confusion, plots.plot_counts, plots.plot_loo):
        with pytest.raises(bgp.UndefinedQuantityError, match="a table in parts"):
            plot(fit)


FIT = "weighted"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.plot_latent(made(FIT)), r"3 inputs \['age', 'weight', 'idle'\]: name one, feature='age'"),
        (lambda: plots.plot_latent(made(FIT), feature="Age"), "feature must be one of the inputs"),
        (lambda: plots.plot_latent(made(FIT), feature=3), "feature must be one of the inputs"),
        (lambda: plots.plot_latent(made(FIT), feature=0, scale="p"), "scale must be 'latent'"),
        (lambda: plots.plot_latent(made(FIT), feature=0, levels=[90]), "levels must be between 0 and 1"),
        (lambda: plots.plot_latent([0.1]), "expected an ArviZ container, got list"),
        (lambda: plots.plot_surface(made(FIT)), "over two inputs, and this fit has 3"),
        (lambda: plots.plot_surface(made(FIT), features=("age", "age")), "two different inputs"),
        (lambda: plots.plot_surface(made("groups")), "ward tells groups apart, and has no axis"),
        (lambda: plots.plot_surface(made("classes"), features=(0, 1), scale="latent"), "a latent function for each"),
        (lambda: plots.plot_partial_dependence(made(FIT), ax=Figure().subplots(1, 2)), "ax must hold 3 axes"),
        (lambda: plots.plot_partial_dependence(made("binary"), ax="ax"), "ax must be 1 matplotlib.axes.Axes"),
        (lambda: plots.plot_relevance(made(FIT), ax=Figure()), "ax must be one matplotlib.axes.Axes.* got Figure"),
        (lambda: plots.plot_loo(made(FIT), ax=Figure().subplots(1, 2)), "such as an entry of what .* got ndarray"),
        (lambda: plots.plot_relevance(made(FIT), most=0), "most must be a positive integer"),
        (lambda: plots.plot_hyperparameters(made(FIT), most=0), "most must be a positive integer"),
        (lambda: plots.plot_calibration([0, 1]), "probabilities are missing"),
        (lambda: plots.plot_calibration(made(FIT), [0.1]), "probabilities go with labels"),
        (lambda: plots.plot_calibration([0, 1], [0.1, 0.2], y_new=[0, 1]), "go with a fit"),
        (
            lambda: plots.plot_calibration(made("classes"), class_name="d"),
            r"class_name must be one of \['a', 'b', 'c'\]",
        ),
        (lambda: plots.plot_roc(made(FIT), y_new=[0, 1]), "there are none. First predict"),
        (lambda: plots.plot_loo(made(FIT), inputs=-1), "inputs must be an integer of at least 0"),
        (lambda: plots.plot_loo([-0.1], feature="age"), "go with a fit"),
        (
            lambda: plots.plot_agreement(made(FIT), [0.1]),
            "both be containers or both be arrays, and values is an array",
        ),
        (lambda: plots.plot_agreement(made(FIT), made("inducing"), quantity="w1"), "quantity must be 'mean'"),
        (lambda: plots.plot_stream(made(FIT)), "stream must be a streams.Stream"),
        (lambda: plots.plot_stream(streamed(), window=0), "window must be a positive integer"),
        (lambda: plots.plot_search(made(FIT)), "no record of a search"),
        (lambda: plots.plot_latent(streamed().to_container(draws=5, chains=1)), "the container of a stream"),
    ],
)
def test_what_cannot_be_drawn_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("draw", [plots.plot_surface, plots.plot_latent, plots.plot_partial_dependence])
def test_an_argument_that_nobody_knows_is_named(draw):
    with pytest.raises(TypeError, match=r"unexpected argument inputs: .* takes kernel, likelihood and method"):
        draw(made(FIT), inputs=[0, 1])
