"""Duels: the table, who is best, ties, the home side, features, and what is refused."""

from __future__ import annotations

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.duels import Duels
from bayesgp_mf.kernels import Categorical, Gaussian

NAMES = np.array(["Ann", "Bob", "Cy", "Dee", "Eve", "Flo"])
WORTH = np.array([2.0, 1.2, 0.4, -0.4, -1.2, -2.0])
QUIET = {"random_seed": 1, "progress": False}


def _played(n: int, rng: np.random.Generator, home: float = 0.0, band: float = 0.0) -> tuple[np.ndarray, ...]:
    a = rng.integers(0, 6, n)
    b = (a + rng.integers(1, 6, n)) % 6
    above = WORTH[a] - WORTH[b] + home + rng.standard_normal(n)
    won = above > 0
    return np.where(won, a, b), np.where(won, b, a), np.abs(above) < band, a


def test_the_order_of_strengths_comes_back_and_ranks_add_up():
    winner, loser, _, _ = _played(300, np.random.default_rng(0))
    duels = Duels(NAMES[winner], NAMES[loser])
    assert 0.4 < np.mean(duels.y) < 0.6  # both outcomes occur, though all rows name the winner first
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), hyper="evidence", **QUIET)
    table = duels.utility(idata, random_seed=1)
    assert list(table.index) == list(NAMES)
    assert abs(table["mean"].sum()) < 1e-10
    np.testing.assert_allclose(table["mean"], WORTH, atol=0.5)
    inside = (table["5%"] < WORTH) & (table["95%"] > WORTH)
    assert inside.sum() >= 4
    ranks = duels.ranks(idata, random_seed=1)
    np.testing.assert_allclose(ranks.sum(axis=0), 1.0)
    np.testing.assert_allclose(ranks.sum(axis=1), 1.0)
    np.testing.assert_allclose(ranks[1], table["best"].loc[ranks.index])


def test_probabilities_of_duels_are_those_of_the_two_utilities():
    winner, loser, _, _ = _played(60, np.random.default_rng(1))
    duels = Duels(NAMES[winner], NAMES[loser])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(0.5), **QUIET)
    p = bgp.predict(idata, duels.cases(["Ann", "Flo"], ["Flo", "Ann"]), draws=False)["predictions"]["p"].values
    assert p[0] > 0.9
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)
    utilities = (
        bgp.posterior(idata)
        .parts[0]
        .draw_new(
            pd.DataFrame({"item": ["Ann", "Flo"], "item of second": ["Flo", "Ann"], "kind": "item"}),
            100_000,
            np.random.default_rng(2),
        )
    )
    won = utilities[:, 0] - utilities[:, 1] + np.sqrt(0.5) * np.random.default_rng(3).standard_normal(100_000) > 0
    np.testing.assert_allclose(np.mean(won), p[0], atol=4 * np.sqrt(p[0] * p[1] / 100_000))


def test_nothing_is_known_of_items_that_never_played():
    duels = Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), **QUIET)
    p = bgp.predict(idata, duels.cases(["New", "Ann"], ["Other", "New"]), draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(p[0], 0.5, rtol=1e-12)
    assert p[1] > 0.6


def test_an_average_over_hyperparameters_is_drawn_from_all_of_its_parts():
    winner, loser, _, _ = _played(80, np.random.default_rng(4))
    duels = Duels(NAMES[winner], NAMES[loser])
    priors = dict.fromkeys(duels.kernel().params, bgp.hyper.LogNormal(0.0, 1.0))
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), hyper="integrate", priors=priors, **QUIET)
    assert len(bgp.posterior(idata).parts) > 1
    assert duels.utility(idata, draws=2000, random_seed=1).index[0] in ("Ann", "Bob")


def test_ties_are_levels_between_loss_and_win():
    winner, loser, tie, _ = _played(300, np.random.default_rng(5), band=0.5)
    duels = Duels(NAMES[winner], NAMES[loser], tie=tie)
    assert list(duels.y.categories) == ["loss", "tie", "win"]
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Ordinal([-0.5, 0.5]), **QUIET)
    assert list(duels.utility(idata, random_seed=1).index) == list(NAMES)
    p = bgp.predict(idata, duels.cases(["Cy", "Ann"], ["Dee", "Flo"]), draws=False)["predictions"]["p"]
    assert p.sel({p.dims[-1]: "tie"}).values[0] > p.sel({p.dims[-1]: "tie"}).values[1]


def test_the_home_side_has_an_advantage_of_its_own():
    winner, loser, _, home = _played(400, np.random.default_rng(6), home=0.8)
    duels = Duels(NAMES[winner], NAMES[loser], home=NAMES[home])
    assert set(duels.X["home"]) == {-1.0, 1.0}
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), hyper="evidence", **QUIET)
    p = [
        float(bgp.predict(idata, duels.cases(["Cy"], ["Dee"], home=[who]), draws=False)["predictions"]["p"].values[0])
        for who in ("Cy", None, "Dee")
    ]
    np.testing.assert_allclose(
        -np.diff(norm.ppf(p)), 0.8, atol=0.3
    )  # nearly the advantage, over the root of 1 + variance
    assert list(duels.utility(idata, random_seed=1).index) == list(NAMES)


def test_features_tell_of_items_that_never_met_others():
    rng = np.random.default_rng(7)
    sugar = np.linspace(0.0, 1.0, 12)
    wines = pd.DataFrame({"sugar": sugar}, index=[f"wine {k}" for k in range(12)])
    worth = -8.0 * (sugar - 0.5) ** 2
    a = rng.integers(0, 10, 200)
    b = (a + rng.integers(1, 10, 200)) % 10  # the last two are never tasted
    won = worth[a] - worth[b] + 0.3 * rng.standard_normal(200) > 0
    names = wines.index.to_numpy()
    duels = Duels(np.where(won, names[a], names[b]), np.where(won, names[b], names[a]), items=wines)
    taste = Gaussian(0.4, 4.0, columns="sugar") + Categorical(0.1, columns="item")
    idata = bgp.fit(duels.X, duels.y, duels.kernel(taste), bgp.Probit(0.1), **QUIET)
    table = duels.utility(idata, random_seed=1)
    assert table.index[0] in ("wine 5", "wine 6")
    assert table.loc["wine 11", "mean"] < table.loc["wine 8", "mean"]
    assert table.loc["wine 11", "sd"] > table.loc["wine 5", "sd"]


def test_numbers_are_names_on_the_home_side_too():
    duels = Duels([1, 2, 3, 1], [2, 3, 1, 2], home=np.array([1, 3, None, 2], dtype=object))
    same = Duels(["1", "2", "3", "1"], ["2", "3", "1", "2"], home=["1", "3", None, "2"])
    pd.testing.assert_frame_equal(duels.X, same.X)
    assert duels.X["home"].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_utilities_of_one_judge_are_told_by_a_column_that_both_sides_have_in_common():
    rng = np.random.default_rng(8)
    a = rng.integers(0, 6, 400)
    b = (a + rng.integers(1, 6, 400)) % 6
    judge = rng.permutation(np.repeat([1, -1], 200))  # the second has the opposite taste
    won = judge * (WORTH[a] - WORTH[b]) + rng.standard_normal(400) > 0
    duels = Duels(NAMES[np.where(won, a, b)], NAMES[np.where(won, b, a)])
    tastes = Categorical(1.0, columns="item") * Categorical(1.0, columns="judge")
    X = duels.X.assign(judge=np.where(judge > 0, "Uma", "Val"))
    idata = bgp.fit(X, duels.y, duels.kernel(tastes), bgp.Probit(), **QUIET)
    assert list(duels.utility(idata, common={"judge": "Uma"}, random_seed=1).index) == list(NAMES)
    assert list(duels.utility(idata, common={"judge": "Val"}, random_seed=1).index) == list(NAMES[::-1])
    assert duels.ranks(idata, common={"judge": "Val"}, random_seed=1).loc["Flo", 1] > 0.9
    with pytest.raises(ValueError, match=r"It has no \['judge'\]"):
        duels.utility(idata)


def test_utilities_of_a_fit_with_another_kernel_are_refused():
    duels = Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    idata = bgp.fit(duels.X, duels.y, Categorical(1.0, columns="item"), bgp.Probit(), **QUIET)
    own = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), **QUIET)
    assert len(duels.utility(own, random_seed=1)) == 3
    for wrong in (idata, bgp.combine({"own": own, "wrong": idata}, weights="evidence", random_seed=1)):
        with pytest.raises(ValueError, match=r"fit with the kernel of the duels: fit\(duels.X"):
            duels.utility(wrong)


def test_the_width_of_ties_is_tuned_so_that_both_sides_stay_alike():
    winner, loser, tie, _ = _played(300, np.random.default_rng(9), band=0.15)
    duels = Duels(NAMES[winner], NAMES[loser], tie=tie)
    tuned = {"hyper": "evidence", "bounds": {"noise_variance": (0.01, 1000.0)}}
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Ordinal([-0.5, 0.5]), **tuned, **QUIET)
    p = bgp.predict(idata, duels.cases(["Cy", "Dee"], ["Dee", "Cy"]), draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(p[0], p[1, ::-1], atol=1e-6)
    np.testing.assert_allclose(0.5 / np.sqrt(float(idata["fit"]["noise_variance"])), 0.15, atol=0.06)


def test_rankings_are_duels_of_neighbours():
    duels = Duels.from_rankings([["Ann", "Bob", "Cy"], ["Ann", "Cy"]])
    other = Duels(["Ann", "Bob", "Ann"], ["Bob", "Cy", "Cy"])
    pd.testing.assert_frame_equal(duels.X, other.X)
    np.testing.assert_array_equal(duels.y, other.y)


def test_scores_are_wins_losses_and_ties():
    duels = Duels.from_scores(["Ann", "Bob", "Cy"], ["Bob", "Cy", "Ann"], [1, 0.5, 0], home=["Ann", "Bob", "Cy"])
    other = Duels(["Ann", "Bob", "Ann"], ["Bob", "Cy", "Cy"], tie=[False, True, False], home=["Ann", "Bob", "Cy"])
    pd.testing.assert_frame_equal(duels.X, other.X)
    assert list(duels.y) == list(other.y)
    assert Duels.from_scores(["Ann", "Bob"], ["Bob", "Ann"], [1, 0]).y.dtype == bool
    for score in ([1, 2, 0], [1, 0], ["1-0", "0-1", "1-0"], [1, np.nan, 0]):
        with pytest.raises(ValueError, match=r"score must be 1, 0\.5 or 0 for each of 3 duels"):
            Duels.from_scores(["Ann", "Bob", "Cy"], ["Bob", "Cy", "Ann"], score)


def test_numbers_are_names_on_all_sides_and_missing_values_of_any_kind_are_no_home():
    played = ([1, 2, 1], [2, 3, 3])
    text = Duels(["1", "2", "1"], ["2", "3", "3"], home=["1", None, "3"])
    for home in ([1, None, 3], pd.array([1, pd.NA, 3]), np.array([1, np.nan, 3], dtype=object)):
        pd.testing.assert_frame_equal(Duels(*played, home=home).X, text.X)
    nobody = Duels(["None", "b"], ["b", "None"], home=[None, None])
    assert (nobody.X["home"] == 0.0).all()


def test_utilities_are_not_those_of_a_kernel_that_knows_duels_alone():
    duels = Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    alone = bgp.kernels.Difference(Categorical(columns="item"), "item", "item of second")
    fits = {
        "all": bgp.fit(duels.X, duels.y, duels.kernel(), **QUIET),
        "duels": bgp.fit(duels.X, duels.y, alone, **QUIET),
    }
    for idata in (fits["duels"], bgp.combine(fits, weights=[0.5, 0.5])):
        with pytest.raises(ValueError, match="with the kernel of the duels"):
            duels.utility(idata)


def test_rankings_may_be_read_once():
    rankings = (iter(names) for names in (["Ann", "Bob", "Cy"], ["Cy", "Ann"]))
    pd.testing.assert_frame_equal(Duels.from_rankings(rankings).X, Duels(["Ann", "Bob", "Cy"], ["Bob", "Cy", "Ann"]).X)
    with pytest.raises(ValueError, match="got 'Ann'"):
        Duels.from_rankings(["Ann", "Bob"])  # names, not rankings of them


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Duels(["Ann"], ["Bob"]), "two or more duels, got 1"),
        (lambda: Duels(["Ann", "Bob"], ["Bob"]), r"loser must have one entry for each of 2 winners"),
        (
            lambda: Duels(["Ann", None], ["Bob", "Ann"]),
            "winner must name an item in every duel, and lacks it in duel 1.*say in tie",
        ),
        (lambda: Duels(["Ann", "Bob"], ["Bob", "Bob"]), "an item cannot meet itself, and 'Bob' does in duel 1"),
        (lambda: Duels([["Ann"]], [["Bob"]]), "winner must be a name for each duel"),
        (lambda: Duels(["Ann", "Bob"], ["Bob", "Cy"], tie=[0, 1]), "tie must be True or False"),
        (
            lambda: Duels(["Ann", "Bob"], ["Bob", "Cy"], home=["Ann", "Dee"]),
            "in duel 1 it is 'Dee', and they are 'Cy' and 'Bob'",
        ),
        (lambda: Duels(["Ann", "Bob"], ["Bob", "Cy"], home=["Ann"]), "home must have one entry for each of 2 duels"),
        (lambda: Duels(["a", "b"], ["b", "c"]).cases(["a"], ["b"], home=["a"]), "home was not given"),
        (lambda: Duels(["a", "b"], ["b", "c"]).cases(["a"], ["b", "c"]), "as many items, got 1 and 2"),
        (
            lambda: Duels(["a", "b"], ["b", "c"], items=pd.DataFrame({"x": [1.0]}, index=["a"])),
            r"and \['c'\] have none. Names are its index",
        ),
        (lambda: Duels.from_rankings({"first": ["Ann", "Bob", "Cy"]}), "got 'first'. Of a dict pass"),
        (lambda: Duels.from_rankings(pd.DataFrame({"x": ["Ann", "Bob", "Cy"]})), "got 'x'"),
        (lambda: Duels(["a", "b"], ["b", "a"], items=pd.DataFrame({"home": [1, 2]}, index=["a", "b"])), "Rename it"),
        (lambda: Duels(["a", "b"], ["b", "a"], items=pd.DataFrame({"x": [1, 2]}, index=["a", "a"])), "may be once"),
        *[
            (lambda items=items: Duels([1, 2], [2, 1], items=items), "each text may be once")
            for items in (
                pd.DataFrame({"x": [1, 2, 3]}, index=[1, "1", 2]),
                pd.DataFrame([[1, 2], [3, 4]], index=[1, 2], columns=[1, "1"]),
                pd.DataFrame({"x": [1, 2]}, index=pd.MultiIndex.from_product([[1, 2], [0]])),
                {"x": [1, 2]},
            )
        ],
    ],
)
def test_bad_duels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_who_wins_all_of_many_duels_without_noise_is_no_good_fit():
    # exact: 0.933, by an integral over the two utilities; what the correction leaves is more than the correction
    rivals = [f"rival {k:02d}" for k in range(11)] * 5
    duels = Duels(["best"] * 55, rivals)
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(0.01), **QUIET)
    assert bgp.diagnostics.quality(idata).verdict != "good"
    with pytest.warns(UserWarning, match="may be off by about 0.05"):
        predictions = bgp.predict(idata, duels.cases(["best"], ["new"]), draws=False)["predictions"]
    assert 0.02 < abs(predictions["p"].values[0] - 0.933) < predictions.attrs["probability_error"]
    assert bgp.diagnostics.quality(idata).verdict == "off"


def _same_record(one: Duels, other: Duels) -> None:
    for ours, theirs in zip(one.record(), other.record(), strict=True):
        pd.testing.assert_frame_equal(ours, theirs)


def test_duels_come_back_from_a_saved_fit(tmp_path):
    rng = np.random.default_rng(10)
    winner, loser, tie, home = _played(80, rng, home=0.3, band=0.3)
    wines = pd.DataFrame({"sugar": WORTH, "land": ["it", "fr", "it", "fr", "it", "fr"]}, index=NAMES)
    given = {"tie": tie, "home": np.where(rng.random(80) < 0.5, NAMES[home], None), "items": wines}
    duels = Duels(NAMES[winner], NAMES[loser], **given)
    land = Categorical(0.5, columns="land")
    kernel = duels.kernel(Gaussian(1.0, columns="sugar") + land + Categorical(0.1, columns="item"))
    idata = bgp.fit(duels.X.assign(week=np.arange(80.0)), duels.y, kernel, bgp.Ordinal([-0.3, 0.3]), **QUIET)
    idata.to_netcdf(str(tmp_path / "fit.nc"))
    loaded = az.from_netcdf(str(tmp_path / "fit.nc"))
    again = Duels.from_fit(loaded)
    pd.testing.assert_frame_equal(again.items, duels.items, check_dtype=False)
    _same_record(again, duels)
    assert again.common == {"week": 39.5}
    asked = (again, {}), (duels, {"common": {"week": 0}})
    mean = [each.utility(idata, random_seed=1, **options)["mean"] for each, options in asked]
    pd.testing.assert_series_equal(*mean)
    loaded.close()


def test_probabilities_and_records_are_those_of_single_duels():
    winner, loser, tie, home = _played(120, np.random.default_rng(11), band=0.4)
    duels = Duels(NAMES[winner], NAMES[loser], tie=tie, home=NAMES[home])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Ordinal([-0.4, 0.4]), **QUIET)
    table = duels.probabilities(idata, ["Flo", "Ann", "Cy"])
    p = bgp.predict(idata, duels.cases(["Ann"], ["Flo"]), draws=False)["predictions"]["p"].values
    np.testing.assert_allclose([table.loc["Ann", "Flo"], table.loc["Flo", "Ann"]], p[0, [2, 0]])
    assert np.isnan(table.loc["Cy", "Cy"])
    won, met = duels.record()
    assert met.to_numpy().sum() == 2 * 120
    assert won.to_numpy().sum() == 120 - tie.sum()
    assert won.loc["Ann", "Bob"] == np.sum((winner == 0) & (loser == 1) & ~tie)
    assert met.loc["Ann", "Bob"] == np.sum(winner + loser == 1)


def test_margins_have_no_probabilities_and_other_fits_no_duels():
    duels = Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    margin = np.where(duels.y, 2.0, -2.0)
    idata = bgp.fit(duels.X, margin, duels.kernel(), bgp.likelihoods.Gaussian(0.5), **QUIET)
    _same_record(Duels.from_fit(idata), duels)
    with pytest.raises(ValueError, match="won or lost"):
        duels.probabilities(idata)
    with pytest.raises(ValueError, match="read from a fit of them"):
        Duels.from_fit(bgp.fit([[0.0], [1.0]], [False, True], Gaussian(), **QUIET))


def _choices(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Choices of one of four by the multinomial probit model, the chosen one first."""
    offered = [rng.permutation(6)[:4] for _ in range(n)]
    best = [int(np.argmax(WORTH[each] + np.sqrt(0.5) * rng.standard_normal(4))) for each in offered]
    return [np.concatenate([each[k : k + 1], np.delete(each, k)]) for each, k in zip(offered, best, strict=True)]


def test_choices_are_the_multinomial_probit_model_and_duels_with_noise_of_their_own_are_not():
    rng = np.random.default_rng(12)
    given = _choices(40, rng)
    choices = Duels.from_choices(NAMES[each] for each in given)
    idata = bgp.fit(choices.X, choices.y, choices.kernel(), bgp.Step(), **QUIET)
    mean = choices.utility(idata, random_seed=1)["mean"][NAMES]
    chosen = choices.chosen(idata, NAMES, draws=20_000, random_seed=1).to_numpy()
    own_noise = Duels(np.repeat(NAMES[[each[0] for each in given]], 3), NAMES[np.concatenate([g[1:] for g in given])])
    apart = bgp.fit(own_noise.X, own_noise.y, own_noise.kernel(), bgp.Probit(), **QUIET)

    # exactly: draws near the posterior, weighted by prior and likelihood, whose integral has one dimension
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    utilities = rng.multivariate_normal(mean, 0.5 * np.eye(6), 20_000)
    log_weight = 0.5 * np.sum((utilities - mean.to_numpy()) ** 2, axis=1) / 0.5 - 0.5 * np.sum(utilities**2, axis=1)

    def log_chosen(best, others):
        ahead = (utilities[:, [best]] - utilities[:, others]) / np.sqrt(0.5)
        p = np.exp(norm.logcdf(ahead[..., None] + nodes).sum(axis=1)) @ weights / weights.sum()
        return np.log(p)

    for best, *others in given:
        log_weight += log_chosen(best, others)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 500
    exact = [weight @ np.exp(log_chosen(k, np.delete(np.arange(6), k))) for k in range(6)]
    np.testing.assert_allclose(chosen, exact, atol=0.03)
    above = weight @ (utilities - utilities.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(mean, above, atol=0.06)
    assert np.max(np.abs(own_noise.utility(apart, random_seed=1)["mean"][NAMES] - above)) > 0.15


def test_rankings_may_have_one_noise_and_come_back_from_a_fit():
    rng = np.random.default_rng(13)
    rankings = [NAMES[np.argsort(-WORTH - np.sqrt(0.5) * rng.standard_normal(6))] for _ in range(30)]
    duels = Duels.from_rankings(rankings, same_noise=True)
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Step(), **QUIET)
    assert list(duels.utility(idata, random_seed=1).index) == list(NAMES)
    again = Duels.from_fit(idata)
    assert again.has_choices
    assert again.common == {}
    pd.testing.assert_series_equal(again.chosen(idata, random_seed=1), duels.chosen(idata, random_seed=1))
    p = bgp.predict(idata, duels.cases(["Ann", "Flo"], ["Flo", "Ann"]), draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(p.sum(), 1.0)


def test_chosen_among_what_is_refused():
    duels = Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), **QUIET)
    with pytest.raises(ValueError, match="chosen is of duels from_choices"):
        duels.chosen(idata)
    with pytest.raises(ValueError, match="each choice must be a sequence of names, got 'Ann'"):
        Duels.from_choices(["Ann", "Bob"])
    with pytest.raises(ValueError, match="each choice must be a sequence of names, got 0"):
        Duels.from_choices(pd.DataFrame([["Ann", "Bob"]]))
    with pytest.raises(ValueError, match="each ranking must have an item once, and ranking 1 has 'Ann' twice"):
        Duels.from_rankings([["Ann", "Bob"], ["Ann", "Bob", "Ann"]], same_noise=True)


@pytest.mark.parametrize("items", ["AB", [], ["A", "A"]])
def test_items_that_are_no_different_names_are_refused(items):
    duels = Duels.from_choices([["A", "B", "C"], ["C", "A"]])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Step(), **QUIET)
    for ask in (duels.chosen, duels.probabilities):
        with pytest.raises(ValueError, match="items must be a sequence of different names"):
            ask(idata, items)


def test_items_of_equal_features_share_their_chances():
    """Their utilities are equal, but for rounding: which one is the best is up to neither that nor their order."""
    items = pd.DataFrame({"x": [0.0, 0.0, 1.0]}, index=["a", "b", "c"])
    duels = Duels.from_choices([["a", "b", "c"], ["c", "a"], ["b", "c"]], items=items)
    idata = bgp.fit(duels.X, duels.y, duels.kernel(Gaussian(1.0, columns="x")), bgp.Step(), **QUIET)
    table, ranks = duels.utility(idata, random_seed=1), duels.ranks(idata, random_seed=1)
    assert table["best"]["a"] == pytest.approx(table["best"]["b"], abs=0.05)  # 4000 draws: three standard errors
    assert table["rank"]["a"] == pytest.approx(table["rank"]["b"], abs=0.06)
    np.testing.assert_allclose(ranks[1][table.index], table["best"])
