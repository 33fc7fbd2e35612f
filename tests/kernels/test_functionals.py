"""Cases that see differences and slopes: equal to fits on A K A', and to what differences of the function say."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.kernels import (
    Bias,
    Categorical,
    Difference,
    Gaussian,
    Kernel,
    Kinds,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Mean,
    Power,
    RationalQuadratic,
    Slope,
    Warped,
    White,
    from_dict,
)
from tests.kernels.differences import check_gradient

RNG = np.random.default_rng(0)
ITEMS = RNG.standard_normal((8, 2))
PAIRS = np.array([(a, b) for a in range(8) for b in range(8) if (a + 2 * b) % 3 == 0 and a != b])
A = np.zeros((len(PAIRS), 8))
A[np.arange(len(PAIRS)), PAIRS[:, 0]], A[np.arange(len(PAIRS)), PAIRS[:, 1]] = 1.0, -1.0
K = Gaussian([0.8, 1.4], 2.0)
SIDES = np.hstack([ITEMS[PAIRS[:, 0]], ITEMS[PAIRS[:, 1]]])
DUELS = Difference(Gaussian([0.8, 1.4], 2.0, columns=[0, 1]), [0, 1], [2, 3])
WORTH = np.sin(2.0 * ITEMS[:, 0]) + ITEMS[:, 1] ** 2
WON = WORTH[PAIRS[:, 0]] > WORTH[PAIRS[:, 1]] + 0.7 * RNG.standard_normal(len(PAIRS))
LINE = np.linspace(-1.5, 1.5, 7)
QUIET = {"random_seed": 1, "progress": False}
SMOOTH: dict[str, Kernel] = {
    "gaussian": Gaussian([0.7, 1.3], 2.0),
    "matern32": Matern32(1.2, 0.7),
    "matern52": Matern52([0.7, 1.3]),
    "rational quadratic": RationalQuadratic([0.7, 1.3], 1.5, 0.6),
    "linear": Linear([0.4, 0.8]),
    "one column": Gaussian([0.9], columns=1),
    "sum": Gaussian(1.0) + Linear(0.3) + Bias(2.0),
    "product": Gaussian(1.0) * Linear(0.3) * Matern52(2.0),
    "warped": Warped(Gaussian([0.7, 1.3]) + Linear(0.2), [1], power=0.4, centre=0.2, scale=0.7),
    "groups": Categorical(0.7, columns=0) * Gaussian([0.8], columns=1),
}


def test_a_fit_to_duels_is_that_of_the_matrix_of_differences():
    gram = A @ K.gram(ITEMS) @ A.T
    np.testing.assert_allclose(DUELS.gram(SIDES), gram, atol=1e-14)
    fitted = bgp.posterior(bgp.fit(SIDES, WON, DUELS, bgp.Probit(0.1), **QUIET))
    solved = bgp.solve(gram, np.where(WON, 1.0, -1.0), bgp.Probit(0.1))
    assert abs(fitted.log_evidence - solved.evidence.value) < 1e-10 * abs(fitted.log_evidence)
    np.testing.assert_allclose(fitted.parts[0].solution.alpha, solved.alpha, rtol=1e-10, atol=1e-10)


def test_two_that_are_alike_differ_by_nothing():
    alike = np.vstack([SIDES, SIDES[:2]])
    alike[-2:, 2:] = alike[-2:, :2]
    assert not DUELS.gram(alike)[-2:].any()
    assert not DUELS.cross(alike, SIDES)[-2:].any()
    won = np.append(WON, [True, False])
    idata, without = (bgp.fit(X, y, DUELS, bgp.Probit(0.1), **QUIET) for X, y in ((alike, won), (SIDES, WON)))
    evidence = [bgp.posterior(each).log_evidence for each in (idata, without)]
    assert evidence[0] == pytest.approx(evidence[1] - 2.0 * np.log(2.0), abs=1e-9)
    p = bgp.predict(idata, alike[-1:], draws=False, corrected=True)["predictions"]["p"].values
    assert p[0] == pytest.approx(0.5, abs=1e-12)


def test_both_orders_of_a_duel_say_the_same():
    swapped = SIDES[:, [2, 3, 0, 1]]
    idata = bgp.fit(SIDES, WON, DUELS, bgp.Probit(), hyper="evidence", **QUIET)
    other = bgp.fit(swapped, ~WON, DUELS, bgp.Probit(), hyper="evidence", **QUIET)
    new = RNG.standard_normal((5, 4))
    p, q = (bgp.predict(each, new, draws=False)["predictions"]["p"].values for each in (idata, other))
    np.testing.assert_allclose(p, q, rtol=1e-6)
    mirrored = bgp.predict(idata, new[:, [2, 3, 0, 1]], draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(p, 1.0 - mirrored, rtol=1e-12)


IN_COLUMN_1 = [(None, 1), (1, None), (1, 1)]
EACH = [(name, pair) for name in SMOOTH for pair in IN_COLUMN_1]
EACH += [(name, pair) for name in SMOOTH if name != "groups" for pair in [(0, None), (0, 1), (1, 0), (0, 0)]]


@pytest.mark.parametrize(("name", "columns"), EACH)
def test_slopes_are_limits_of_differences(name, columns):
    kernel, (first, second) = SMOOTH[name], columns
    a, b = RNG.standard_normal((4, 2)), RNG.standard_normal((3, 2))
    step = 1e-4

    def moved(points: np.ndarray, column: int | None) -> list[tuple[float, np.ndarray]]:
        move = step * np.eye(2)[column or 0]
        return [(1.0, points)] if column is None else [(0.5 / step, points + move), (-0.5 / step, points - move)]

    numeric = sum(u * v * kernel.cross(x, z) for u, x in moved(a, first) for v, z in moved(b, second))
    np.testing.assert_allclose(kernel.slopes(a, b, first, second), numeric, atol=1e-6)
    bar = RNG.standard_normal((4, 3))
    vjp = kernel.slopes_vjp(a, b, first, second, bar)
    check_gradient(kernel, vjp, lambda k: float(np.sum(bar * k.slopes(a, b, first, second))))


def test_the_slope_of_a_fit_is_that_of_its_mean():
    k = Matern52(1.0, 3.0, columns="x")
    kernel = Kinds(k, Slope(k, "x"), column="kind", kinds=["label", "slope"])
    cases = pd.DataFrame({"x": LINE, "kind": "label"})
    idata = bgp.fit(cases, 0.2 * np.sin(9.0 * LINE) < LINE, kernel, bgp.Probit(), **QUIET)
    at, step = np.array([-0.8, 0.1, 0.9]), 1e-4

    def mean(x: np.ndarray, kind: str) -> np.ndarray:
        new = pd.DataFrame({"x": x, "kind": kind})
        return bgp.predict(idata, new, draws=False)["predictions"]["latent_mean"].values

    numeric = (mean(at + step, "label") - mean(at - step, "label")) / (2.0 * step)
    np.testing.assert_allclose(mean(at, "slope"), numeric, rtol=1e-6)


def _kinds(noise: list[float] | None = None) -> Kinds:
    k = Gaussian([0.9, 1.2], 2.0, columns=[0, 1]) + Bias(0.5)
    return Kinds(k, Slope(k, 0), Difference(k, [0, 1], [2, 3]), column=4, noise=noise)


MIXED = np.hstack([RNG.standard_normal((9, 4)), np.array([[0, 1, 2, 2, 0, 1, 0, 1, 2]], dtype=float).T])


def test_cases_of_several_kinds_stand_in_one_matrix():
    kernel, noise = _kinds([1.0, 0.01, 4.0]), np.array([1.0, 0.01, 4.0])
    gram = kernel.gram(MIXED)
    np.testing.assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram)[0] > 0.0
    np.testing.assert_allclose(np.diag(gram), kernel.diag(MIXED), rtol=1e-13)
    np.testing.assert_allclose(kernel.cross(MIXED[:4], MIXED[4:]), gram[:4, 4:], rtol=1e-12, atol=1e-14)
    scale = np.sqrt(noise[MIXED[:, 4].astype(int)])
    np.testing.assert_allclose(_kinds().gram(MIXED), gram * np.outer(scale, scale), rtol=1e-12, atol=1e-14)
    bar = RNG.standard_normal((9, 9))
    check_gradient(kernel, kernel.gram_vjp(MIXED, bar + bar.T), lambda k: float(np.sum(k.gram(MIXED) * (bar + bar.T))))
    check_gradient(
        kernel,
        kernel.cross_vjp(MIXED, MIXED[:3], bar[:, :3]),
        lambda k: float(np.sum(k.cross(MIXED, MIXED[:3]) * bar[:, :3])),
    )


def test_kinds_of_one_kind_is_that_kernel_and_its_noise_that_of_the_likelihood():
    k = Gaussian(1.0, 2.0, columns=0)
    X = np.column_stack([LINE, np.zeros(7)])
    labels = np.sin(4.0 * LINE) > 0
    plain = bgp.posterior(bgp.fit(X, labels, k, bgp.Probit(0.3), **QUIET))
    kind = bgp.posterior(bgp.fit(X, labels, Kinds(k, column=1, noise=[0.3]), bgp.Probit(1.0), **QUIET))
    assert abs(plain.log_evidence - kind.log_evidence) < 1e-10


def test_kinds_keeps_its_form_however_it_is_made():
    kernel = _kinds([1.0, 0.01, 4.0])
    assert from_dict(kernel.to_dict()) == kernel
    assert kernel != _kinds()
    changed = kernel.set_params(kernel__gaussian__variance=5.0)
    assert changed == kernel.replace(gaussian_variance=5.0)
    assert float(changed.params["gaussian_variance"]) == 5.0
    assert changed.kernels[1].kernel == changed.kernels[2].kernel == changed.kernels[0]
    np.testing.assert_allclose((3.0 * kernel).gram(MIXED), 3.0 * kernel.gram(MIXED), rtol=1e-14)
    assert eval(repr(kernel), {**vars(bgp.kernels)}) == kernel
    for kinds in (np.array([3, 1, 2]), np.array(["c", "a", "b"])):
        named = Kinds(*kernel.kernels, column=4, kinds=kinds)
        assert from_dict(json.loads(json.dumps(named.to_dict()))) == named


def test_names_on_both_sides_are_one_group_also_those_not_seen():
    frame = pd.DataFrame({"a": ["Cy", "Ann", "Dee"], "b": ["Ann", "Bob", "Ann"]})
    kernel = Difference(Categorical(1.0, columns="a"), "a", "b")
    idata = bgp.fit(frame, [False, True, False], kernel, bgp.Probit(), **QUIET)
    codes = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    same = bgp.fit(codes, [False, True, False], Difference(Categorical(1.0, columns=0), 0, 1), bgp.Probit(), **QUIET)
    assert bgp.posterior(idata).log_evidence == bgp.posterior(same).log_evidence
    new = pd.DataFrame({"a": ["Eve", "Eve", "Bob"], "b": ["Eve", "Flo", "Bob"]})
    predicted = bgp.predict(idata, new, draws=False)["predictions"]
    np.testing.assert_allclose(predicted["latent_sd"].values, [0.0, np.sqrt(2.0), 0.0], atol=1e-12)
    with pytest.raises(ValueError, match=r"text in all of the columns \['a', 'b'\] or in none"):
        bgp.fit(frame.assign(b=[0, 1, 0]), [0, 1, 0], kernel, bgp.Probit(), **QUIET)


def test_points_in_a_data_frame_are_read_by_name():
    grid = pd.DataFrame({"lat": [50.0, 51.0], "lon": [7.0, 9.0]})
    kernel = Gaussian([1.0, 5.0], columns=["lon", "lat"])
    named, listed = (
        Mean(kernel, {"s": points}, columns=["lon", "lat"], column="set")
        for points in (grid, grid[["lon", "lat"]].to_numpy())
    )
    assert named.to_dict() == listed.to_dict()


def test_sets_that_are_equal_are_one_inducing_case():
    """They are not moved apart as inputs are: between two sets there is none."""
    points = RNG.uniform(0.0, 5.0, (5, 1))
    f = Matern52(1.0, 2.0, columns="x")
    kernel = Kinds(
        f,
        Mean(f, {"a": points, "b": points[::-1], "c": [[2.0]]}, columns="x", column="set"),
        column="kind",
        kinds=["point", "set"],
    )
    cases = pd.DataFrame(
        {"x": [0.0, 1.0, 3.0, 0.0, 0.0, 0.0], "set": list("aaaabc"), "kind": ["point"] * 3 + ["set"] * 3}
    )
    some = bgp.posterior(bgp.fit(cases, [0, 1, 0, 1, 1, 0], kernel, bgp.Probit(), inducing=6, **QUIET))
    every = bgp.posterior(bgp.fit(cases, [0, 1, 0, 1, 1, 0], kernel, bgp.Probit(), **QUIET))
    assert some.log_evidence == pytest.approx(every.log_evidence, abs=1e-6)


def test_duels_of_few_players_have_a_matrix_of_low_rank():
    players = RNG.integers(0, 12, (1500, 2)).astype(float)
    players = players[players[:, 0] != players[:, 1]]
    kernel = Difference(Categorical(1.5, columns=0), 0, 1)
    won = RNG.random(len(players)) < 1.0 / (1.0 + np.exp(players[:, 1] - players[:, 0]))
    fast = bgp.posterior(bgp.fit(players, won, kernel, bgp.Probit(), **QUIET))
    dense = bgp.posterior(bgp.fit(players, won, kernel, bgp.Probit(), control=bgp.Control(gram="dense"), **QUIET))
    assert fast.parts[0].problem.matrix.root.shape[1] <= 11
    assert abs(fast.log_evidence - dense.log_evidence) < 1e-8 * abs(dense.log_evidence)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Difference(Gaussian(), [0, 1], [2]), "as many columns, none of them in both"),
        (lambda: Difference(Gaussian(), 0, 0), "as many columns, none of them in both"),
        (lambda: Difference(Gaussian(columns=1), 0, 1).gram(SIDES), r"takes none of the columns \[0\] of first"),
        (lambda: Difference(Gaussian(), None, 0), "first must name columns of inputs"),
        (lambda: Difference(Gaussian(), 0, 5).gram(SIDES), "is of column 5, but X has 4 columns"),
        (lambda: Slope(Matern12(), 0), r"no slope is known of functions with the kernel Matern12"),
        (lambda: Slope(Gaussian() + White(0.1), 0), "no slope is known"),
        (lambda: Slope(Power(Gaussian(), 2), 0), "no slope is known"),
        (lambda: Slope(Warped(Matern12(), 0, 0.5), 0), "no slope is known"),
        (lambda: Mean(Gaussian(), {}, columns=0, column=1), "points must be a dict of sets by name"),
        (lambda: Mean(Gaussian(), 3.0, columns=0, column=1), "points must be a dict of sets by name"),
        (lambda: Mean(Gaussian(), {"a": [[0.0, 1.0]]}, columns=0, column=1), "points of 'a' must be finite numbers, 1"),
        (lambda: Mean(Gaussian(), {"a": [np.nan]}, columns=0, column=1), "points of 'a' must be finite"),
        (lambda: Mean(Gaussian(), {"a": [0.0]}, columns=0, column=1, weights={"b": [1.0]}), "weights must have one"),
        (lambda: Mean(Gaussian(), {"a": [0.0]}, columns=0, column=1, weights={"a": [1.0, 2.0]}), "weights must have"),
        (lambda: Mean(Gaussian(), {"a": [0.0]}, columns=[0, 1], column=1), "no point has a place there"),
        (lambda: Mean(Gaussian(), {7: [0.0]}, columns=0, column=1).gram(SIDES), "must say the set of each case"),
        (lambda: Mean(Gaussian(columns=2), {7: [0.0]}, columns=0, column=1).gram(7.0 + 0.0 * SIDES), "does not take"),
        (lambda: Slope(Gaussian(), [0, 1]), "column must be one column"),
        (lambda: Slope(Gaussian(1.0, columns=1), 0).gram(SIDES), "does not take column 0 so"),
        (lambda: Slope(Categorical(columns=0) + Gaussian(1.0), 0).gram(SIDES), "does not take column 0 so"),
        (lambda: Kinds(column=0), "a kernel for each kind of cases"),
        (lambda: Kinds(Kinds(Gaussian(), column=0), column=0), "none of these itself"),
        (lambda: Kinds(Gaussian(), Slope(Gaussian(), 1), column=1), "a slope needs another one"),
        (lambda: Kinds(Gaussian(), Slope(Gaussian(2.0), 0), column=1), "all kinds must be of one function"),
        (lambda: Kinds(Gaussian(), column=1, kinds=["a", "b"]), "kinds must have one entry for each of 1 kernels"),
        (lambda: Kinds(Gaussian(), Slope(Gaussian(), 0), column=1, kinds=["a", 1]), "different texts, or different"),
        (lambda: Kinds(Gaussian(), Slope(Gaussian(), 0), column=1, noise=[1.0, 0.0]), "noise must be finite and > 0"),
        (
            lambda: Kinds(Gaussian(), Slope(Gaussian(), 0), column=1, noise=0.5),
            "noise must have one entry for",
        ),
        (
            lambda: Kinds(Gaussian(), Slope(Gaussian(), 0), column=1, kinds="ab"),
            "kinds must have one entry for",
        ),
        (lambda: Kinds(Gaussian(), column=1, kinds=[[0]]), "different texts, or different numbers"),
        (lambda: Kinds(Gaussian(), column=1, kinds=[None]), "different texts, or different numbers"),
        (lambda: Kinds(Gaussian(), column=1, kinds=[np.nan]), "different texts, or different numbers"),
        (lambda: _kinds().gram(np.full((2, 5), 3.0)), r"one of \[0, 1, 2\], but row 0 has 3.0"),
        (lambda: Kinds(Gaussian(), column=1, kinds=["a"]).gram(SIDES), r"one of \['a'\], but row 0 has"),
    ],
)
def test_bad_functionals_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_kernel_of_one_function_is_refused():
    several = bgp.kernels.PerClass(Gaussian(), Gaussian())
    for make in (lambda k: Difference(k, 0, 1), lambda k: Slope(k, 0), lambda k: Kinds(k, column=0)):
        for kernel in (several, Gaussian, "gaussian"):
            with pytest.raises(TypeError, match="kernel"):
                make(kernel)


def test_inducing_cases_of_slopes_stay_and_each_kind_has_one():
    k = Gaussian(1.0, 2.0, columns="x")
    kernel = Kinds(k, Slope(k, "x"), column="kind", kinds=["label", "rise"], noise=[1.0, 0.01])
    x = np.linspace(-3.0, 3.0, 60)
    frame = pd.DataFrame({"x": np.r_[x, -1.0, 1.0], "kind": ["label"] * 60 + ["rise"] * 2})
    labels = np.r_[x + 0.5 * np.sin(7.0 * x) > 0, True, True]
    chosen = bgp.fit(frame, labels, kernel, bgp.Probit(), inducing=20, **QUIET)
    full = bgp.fit(frame, labels, kernel, bgp.Probit(), **QUIET)
    p, q = (bgp.predict(each, frame[:60], draws=False)["predictions"]["p"].values for each in (chosen, full))
    assert np.abs(p - q).max() < 0.005
    assert set(chosen["fit"]["inducing_input"].values[:, 1]) == {0.0, 1.0}
    with pytest.raises(ValueError, match="no inputs_vjp"):
        bgp.fit(frame, labels, kernel, bgp.Probit(), hyper="evidence", inducing=bgp.Inducing(12, move=True), **QUIET)


def test_figures_and_averages_are_of_cases_of_the_first_kind():
    k = Gaussian(3.0, 4.0, columns="dose")
    kernel = Kinds(k, Slope(k, "dose"), column="kind", kinds=["label", "rise"], noise=[1.0, 1e-3])
    dose = np.linspace(0.0, 10.0, 25)
    labels = pd.DataFrame({"dose": dose, "kind": "label"})
    rises = pd.DataFrame({"dose": np.linspace(0.0, 10.0, 40), "kind": "rise"})
    y = np.concatenate(
        [np.random.default_rng(5).random(25) < 1.0 / (1.0 + np.exp(4.0 - dose)), np.ones(40, dtype=bool)]
    )
    idata = bgp.fit(pd.concat([labels, rises], ignore_index=True), y, kernel, bgp.Probit(), **QUIET)
    (curve,) = bgp.diagnostics.partial_dependence(idata, ["dose"], points=3)
    at = pd.DataFrame({"dose": [0.0, 5.0, 10.0], "kind": "label"})
    np.testing.assert_allclose(curve.mean, bgp.predict(idata, at, draws=False)["predictions"]["p"].values, rtol=1e-10)
    ax = bgp.plots.plot_latent(idata, feature="dose")
    assert max(map(abs, ax.get_ylim())) < 6.0  # slopes are over the root of their noise, up to 30
    assert sum(line.get_xdata().size for line in ax.lines if "case of" in str(line.get_label())) == 25
    assert bgp.plots.plot_latent(idata, feature="dose", scale="target") is not None


def test_parameters_have_the_names_of_the_kernel_below_in_a_sum_too():
    k = Gaussian(1.0, 2.0, columns=0) + Bias(0.3)
    for functional in (Difference(k, 0, 1), Slope(k, 0), Kinds(k, Slope(k, 0), column=1)):
        assert list(functional.params) == ["gaussian_lengthscale", "gaussian_variance", "bias_variance"]
        total = functional + Linear(0.1, columns=2)
        assert list(total.params) == [*functional.params, "linear_weight"]
        assert float(total.replace(bias_variance=4.0).terms[0].params["bias_variance"]) == 4.0
    assert list((Difference(Gaussian(), 0, 1) + Slope(Gaussian(), 0)).params)[:2] == [
        "gaussian1_lengthscale",
        "gaussian1_variance",
    ]


def test_differences_of_a_nearly_straight_function_are_those_of_a_line():
    straight = Difference(Linear(1.0, columns=0), 0, 1)
    won = PAIRS[:, 0] % 3 > 0
    p = [
        bgp.predict(bgp.fit(SIDES[:, [0, 2]], won, k, bgp.Probit(), **QUIET), SIDES[:, [0, 2]], draws=False)
        for k in (straight, Difference(Gaussian(1e5, 1e10, columns=0), 0, 1))  # a Gram matrix with rounding below zero
    ]
    np.testing.assert_allclose(*(each["predictions"]["p"].values for each in p), rtol=1e-4)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern32(), Matern52(), RationalQuadratic()])
def test_slopes_very_far_apart_are_independent(kernel):
    far = np.array([[1e200], [-1e200], [0.0]])
    gram = Slope(kernel, 0).gram(far)
    np.testing.assert_array_equal(gram, np.diag(np.diag(gram)))


AREAS = {"north": [[0.0], [0.4], [1.0]], "south": [[-1.0]], "all": [[-1.0], [0.0], [1.0]]}


def test_sets_of_many_points_are_worked_on_in_parts():
    rng = np.random.default_rng(2)
    sets = {name: rng.uniform(-1.0, 1.0, (size, 1)) for name, size in ((0, 1500), (1, 3), (2, 700), (3, 900))}
    kernel = Mean(Gaussian([0.7, 1.1], 2.0, columns=[0, 1]), sets, columns=0, column=2)
    X = np.column_stack([np.zeros(6), rng.uniform(-1.0, 1.0, 6), [3, 0, 1, 2, 3, 1]])  # two see each of two sets
    each = [np.column_stack([sets[int(x[2])], np.full(len(sets[int(x[2])]), x[1])]) for x in X]
    weight = np.zeros((6, sum(map(len, each))))
    for row, start, points in zip(weight, np.cumsum([0, *map(len, each)]), each, strict=False):
        row[start : start + len(points)] = 1.0 / len(points)
    points, bar = np.vstack(each), rng.standard_normal((6, 6))
    bar += bar.T
    expected = weight @ kernel.kernel.gram(points) @ weight.T
    for found in (kernel.gram(X), kernel.cross(X, X)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), expected.diagonal(), rtol=1e-12)
    below = kernel.kernel.gram_vjp(points, weight.T @ bar @ weight)
    for found in (kernel.gram_vjp(X, bar), kernel.cross_vjp(X, X, bar)):
        assert all(found[name] == pytest.approx(below[name], rel=1e-9) for name in below)
    of_points = kernel.kernel.inputs_vjp(points, points, weight.T @ bar @ weight)[:, 1]
    np.testing.assert_allclose(kernel.inputs_vjp(X, X, bar)[:, 1], (weight > 0) @ of_points, rtol=1e-9)


def test_means_are_those_of_their_points():
    k = Matern52(0.8, 2.0, columns="x") + Categorical(0.5, columns="year")
    kernel = Mean(
        k, AREAS, columns="x", column="area", weights={"north": [0.5, 0.3, 0.2], "south": [2.0], "all": [1] * 3}
    )
    cases = pd.DataFrame({"x": 0.0, "area": ["all", "north", "south", "north"], "year": [1.0, 1.0, 2.0, 2.0]})
    points = np.array([(x, year) for year in (1.0, 2.0) for x in (-1.0, 0.0, 0.4, 1.0)])
    A = np.zeros((4, 8))
    A[0, [0, 1, 3]] = 1.0
    A[1, [1, 2, 3]] = A[3, [5, 6, 7]] = 0.5, 0.3, 0.2
    A[2, 4] = 2.0
    gram = A @ (Matern52(0.8, 2.0, columns=0) + Categorical(0.5, columns=1)).gram(points) @ A.T
    y = [1, 0, 1, 1]
    fitted = bgp.posterior(bgp.fit(cases, y, kernel, bgp.Probit(0.3), **QUIET))
    np.testing.assert_allclose(fitted.kernel.gram(fitted.parts[0].X), gram, atol=1e-12)
    solved = bgp.solve(gram, 2.0 * np.array(y) - 1.0, bgp.Probit(0.3))
    assert abs(fitted.log_evidence - solved.evidence.value) < 1e-10


def test_means_and_values_are_told_apart_by_kind_saved_and_predicted(tmp_path):
    k = Gaussian(0.7, 2.0, columns="x")
    kernel = Kinds(k, Mean(k, AREAS, columns="x", column="area"), column="kind", kinds=["at", "over"], noise=[1.0, 0.2])
    cases = pd.DataFrame({"x": [0.3, -0.8, 0.9, 0.0, 0.0], "area": "north", "kind": ["at"] * 3 + ["over"] * 2})
    cases.loc[4, "area"] = "south"
    idata = bgp.fit(
        cases, [0.2, -0.7, 1.1, 1.0, -2.0], kernel, bgp.likelihoods.Gaussian(0.1), hyper="evidence", **QUIET
    )
    idata.to_netcdf(str(tmp_path / "fit.nc"))
    p = bgp.predict(idata, cases, draws=False)["predictions"]["latent_mean"].values
    over = bgp.predict(idata, cases.assign(x=9.0)[3:], draws=False)["predictions"]["latent_mean"].values
    np.testing.assert_allclose(over, p[3:], rtol=1e-12)  # what stands in the place of points is not read
    at = pd.DataFrame({"x": [0.0, 0.4, 1.0], "area": "north", "kind": "at"})
    values = bgp.predict(idata, at, draws=False)["predictions"]["latent_mean"].values
    np.testing.assert_allclose(p[3], values.mean() / np.sqrt(0.2), rtol=1e-9)
    again = from_dict(json.loads(json.dumps(bgp.posterior(idata).kernel.to_dict())))
    assert again == bgp.posterior(idata).kernel
    with pytest.raises(ValueError, match="must say the set of each case, one of"):
        bgp.predict(idata, cases.assign(area="west", kind="over"), draws=False)
