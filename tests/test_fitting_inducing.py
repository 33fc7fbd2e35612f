"""fit(..., inducing=...): what it takes, every way of choosing hyperparameters, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.linalg.lapack import dpstrf

import bayesgp_mf as bgp
from bayesgp_mf import hyper
from bayesgp_mf.kernels import Bias, Gaussian, Linear, Matern32, White

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2))
FIELD = X[:, 0] + X[:, 1] ** 2 - 0.6
Y = FIELD + 0.5 * RNG.normal(size=N) > 0
FRAME = pd.DataFrame(X, columns=["a", "b"])
X_NEW = RNG.normal(size=(20, 2))
Z = RNG.normal(size=(12, 2))
KERNEL = Matern32([1.0, 1.0]) + Bias()
FEW = {"draws": 10, "chains": 2, "random_seed": 1, "progress": False}
PRIOR = {"priors": {"matern32_variance": hyper.LogNormal(0.0, 0.7)}, "fixed": ["matern32_lengthscale", "bias_variance"]}


def fit(X=X, y=Y, kernel=KERNEL, likelihood=bgp.Probit(), inducing=15, **options):
    return bgp.fit(X, y, kernel, likelihood, inducing=inducing, **{**FEW, **options})


def proba(idata):
    return bgp.predict(idata, X_NEW, draws=False)["predictions"]["p"].values


class TestWhatStandsForAllCases:
    def test_a_number_takes_as_many_of_the_cases(self):
        idata = fit(inducing=15)
        points = idata["fit"]["inducing_input"].values
        assert points.shape == (15, 2)
        assert all((point == X).all(axis=1).any() for point in points)
        assert np.unique(points, axis=0).shape == (15, 2)
        assert bgp.posterior(idata).solution.info.rank == 15
        assert 0 < float(idata["fit"]["independent"]) < 1

    def test_more_of_them_leave_less_for_each_case(self):
        own = [float(fit(inducing=m)["fit"]["independent"]) for m in (5, 20, 60, N)]
        assert own == sorted(own, reverse=True)
        assert own[-1] == pytest.approx(0.0, abs=1e-9)

    def test_all_cases_are_the_dense_fit(self):
        dense = bgp.fit(X, Y, KERNEL, **FEW)
        whole = fit(inducing=N)
        np.testing.assert_allclose(proba(whole), proba(dense), atol=1e-8)
        for name in ("alpha", "loo_i", "latent_mean", "latent_sd", "cavity_sd", "log_evidence"):
            np.testing.assert_allclose(whole["fit"][name], dense["fit"][name], atol=1e-7, err_msg=name)

    @pytest.mark.parametrize("given", [Z, Z.tolist(), pd.DataFrame(Z, columns=["a", "b"]), bgp.Inducing(inputs=Z)])
    def test_inputs_are_taken_as_they_are(self, given):
        idata = fit(FRAME, inducing=given)
        np.testing.assert_array_equal(idata["fit"]["inducing_input"], Z)
        np.testing.assert_array_equal(proba(idata), proba(fit(inducing=Z)))

    @pytest.mark.parametrize("choose", ["random", "kmeans", "greedy"])
    def test_each_way_of_choosing_has_its_own(self, choose):
        found = [fit(inducing=bgp.Inducing(15, choose), random_seed=seed) for seed in (1, 1, 2)]
        first, again, other = (idata["fit"]["inducing_input"].values for idata in found)
        np.testing.assert_array_equal(first, again)
        assert first.shape == (15, 2)
        assert not np.array_equal(first, other)

    def test_greedy_leaves_no_case_far_from_all(self):
        ways = {way: fit(inducing=bgp.Inducing(15, way)) for way in ("random", "kmeans", "greedy")}
        most = {way: np.max(bgp.posterior(idata).problem.matrix.own) for way, idata in ways.items()}
        assert most["greedy"] == min(most.values())
        assert most["greedy"] < 0.6 * most["random"]

    def test_greedy_takes_the_pivots_of_a_cholesky_factor(self):
        kernel = KERNEL + Linear(0.3)  # no two variances are equal
        points = fit(kernel=kernel, inducing=bgp.Inducing(5, "greedy"))["fit"]["inducing_input"].values
        _, pivots, _, _ = dpstrf(kernel.gram(X), lower=1)
        expected = X[pivots[:5] - 1]
        assert {tuple(row) for row in points} == {tuple(row) for row in expected}

    def test_k_means_centres_are_in_the_middle(self):
        blobs = np.concatenate([0.01 * RNG.normal(size=(40, 2)) + centre for centre in ([0, 0], [3, 0], [0, 900])])
        points = fit(blobs, inducing=bgp.Inducing(3, "kmeans"))["fit"]["inducing_input"].values
        means = np.array([blobs[:40].mean(axis=0), blobs[80:].mean(axis=0), blobs[40:80].mean(axis=0)])
        np.testing.assert_allclose(points[np.lexsort(points.T[::-1])], means[np.lexsort(means.T[::-1])], atol=1e-6)

    def test_the_classes_are_drawn_in_proportion(self):
        rare = np.zeros(N, dtype=bool)
        rare[[7, 50, 90, 110]] = True
        for seed in range(5):
            points = fit(y=rare, inducing=30, random_seed=seed)["fit"]["inducing_input"].values
            assert sum((X[rare] == point).all(axis=1).any() for point in points) == 1

    def test_repeated_cases_are_drawn_once(self):
        few = np.round(X)
        distinct = np.unique(few, axis=0).shape[0]
        assert fit(few, inducing=distinct)["fit"].sizes["inducing"] == distinct < 60


def test_the_same_seed_gives_the_same_answer_and_another_others():
    one, again, other = (fit(hyper="evidence", random_seed=seed) for seed in (3, 3, 4))
    for name in one["fit"].data_vars:
        np.testing.assert_array_equal(one["fit"][name], again["fit"][name])
    np.testing.assert_array_equal(one["posterior"]["f"], again["posterior"]["f"])
    assert not np.array_equal(one["fit"]["inducing_input"], other["fit"]["inducing_input"])


HYPER = {
    "evidence": {"hyper": "evidence"},
    "evidence, naive": {"hyper": "evidence", "method": "naive", "fixed": ["bias_variance"]},
    "evidence, laplace": {"hyper": "evidence", "method": "laplace"},
    "loo": {"hyper": "loo", **PRIOR},
    "scan": {"hyper": hyper.Scan({"matern32_variance": [0.3, 1.0, 3.0]})},
    "integrate": {"hyper": "integrate", **PRIOR},
    "surrogate": {"hyper": hyper.Surrogate(nodes=30), **PRIOR},
    "hmc": {"hyper": hyper.HybridMonteCarlo(iterations=9, leapfrog_steps=3), **PRIOR},
}


@pytest.mark.parametrize("options", HYPER.values(), ids=HYPER)
@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.ConvergenceWarning")
def test_every_way_of_choosing_hyperparameters_works_on_all_inducing_cases(options):
    """With all cases for inducing cases it is the same as without, but for where a search stops."""
    inducing = bgp.Inducing(N, inputs=X)
    ours, dense = fit(inducing=inducing, **options), bgp.fit(X, Y, KERNEL, **{**FEW, **options})
    np.testing.assert_allclose(proba(ours), proba(dense), atol=0.02)
    loo, other = (bgp.loo(idata) for idata in (ours, dense))
    assert float(loo["se"]) == pytest.approx(float(other["se"]), rel=0.05)  # that of 30 nodes drawn at random, too


@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.ConvergenceWarning")
class TestSearch:
    def test_goes_in_rounds_of_which_the_record_is_kept(self):
        idata = fit(hyper="evidence", inducing=bgp.Inducing(40, search=10, rounds=2))
        record = idata["fit"]
        assert record["hyper_round_end"].dims == ("round", "hyper")
        assert record.sizes["round"] == record["hyper_round_score"].size == 2
        assert record.sizes["inducing"] == 40
        ends = np.exp(record["hyper_round_end"].values[-1])
        chosen = [record[name].values for name in ("matern32_lengthscale", "matern32_variance", "bias_variance")]
        np.testing.assert_allclose(np.sort(ends), np.sort(np.concatenate([np.atleast_1d(v) for v in chosen])))

    def test_takes_few_cases_and_few_inducing_cases(self, monkeypatch):
        from bayesgp_mf.matrices.inducing import InducingGram

        asked, solve = [], bgp.methods.METHODS["tap"].solve

        class Watched(type(bgp.methods.METHODS["tap"])):
            def solve(self, problem, *args, **kwargs):
                assert isinstance(problem.matrix, InducingGram)
                asked.append((problem.n, problem.matrix.rank))
                return solve(problem, *args, **kwargs)

        monkeypatch.setattr("bayesgp_mf.hyper.rounds.FEWEST", 10)
        tap = bgp.methods.METHODS["tap"]
        watched = Watched(**{name: getattr(tap, name) for name in tap.__dataclass_fields__})
        fit(hyper="evidence", inducing=bgp.Inducing(30, search=8, rows=60), method=watched)
        assert asked[-1] == (N, 30)
        assert list(dict.fromkeys(n for n, _ in asked[:-1])) == [15, 30, 60]
        assert [{rank for n, rank in asked if n == rows} for rows in (15, 30, 60)] == [{4}, {4}, {8}]

    def test_finds_what_the_dense_search_finds(self):
        dense = bgp.fit(X, Y, KERNEL, hyper="evidence", **FEW)
        ours = fit(hyper="evidence", inducing=bgp.Inducing(100, search=100))
        again = bgp.posterior(bgp.fit(X, Y, bgp.posterior(ours).kernel, **FEW))
        assert again.log_evidence > float(dense["fit"]["log_evidence"]) - 1.0
        assert again.log_evidence > bgp.posterior(bgp.fit(X, Y, KERNEL, **FEW)).log_evidence

    def test_keeps_what_is_fixed_and_within_bounds(self):
        options = {"fixed": ["bias_variance"], "bounds": {"matern32_lengthscale": (0.9, 1.1)}}
        with pytest.warns(bgp.errors.BoundWarning, match=r"matern32_lengthscale\[0\] = 1.1 \(upper\)"):
            idata = fit(hyper="evidence", **options)
        assert float(idata["fit"]["bias_variance"]) == 1.0
        assert np.all(np.abs(idata["fit"]["matern32_lengthscale"].values - 1.0) <= 0.1 + 1e-9)

    def test_moves_the_inducing_inputs_uphill(self):
        options = {"number": 6, "rounds": 1}
        fixed = ["matern32_lengthscale", "bias_variance"]
        still, moved = (
            fit(hyper="evidence", inducing=bgp.Inducing(**options, move=moves), fixed=fixed) for moves in (False, True)
        )
        assert float(moved["fit"]["log_evidence"]) > float(still["fit"]["log_evidence"]) + 0.1
        points = moved["fit"]["inducing_input"].values
        assert not any((point == X).all(axis=1).any() for point in points)


REFUSED = {
    "more than there are": ({"inducing": N + 1}, f"asks for {N + 1} inducing cases, and there are {N} cases"),
    "more, as an option": ({"inducing": bgp.Inducing(N + 1)}, f"asks for {N + 1} inducing cases"),
    "none": ({"inducing": 0}, "inducing must be at least 1, got 0"),
    "a negative number": ({"inducing": -3}, "inducing must be at least 1, got -3"),
    "no whole number": ({"inducing": 1.5}, r"inducing must be a number of cases, .* got 1\.5"),
    "True": ({"inducing": True}, "inducing must be a number of cases, .* got True"),
    "a word": ({"inducing": "many"}, "inducing must be a number of cases, .* got 'many'"),
    "the class": ({"inducing": bgp.Inducing}, "inducing must be a number of cases, .* got <class"),
    "NaN": ({"inducing": np.where(Z > 0, np.nan, Z)}, "inducing must be finite"),
    "another number of columns": ({"inducing": Z[:, :1]}, "inducing has 1 columns, but X has 2"),
    "no rows": ({"inducing": Z[:0]}, "inducing is empty"),
    "one dimension": ({"inducing": Z[0]}, "inducing must have two dimensions"),
    "other names": (
        {"X": FRAME, "inducing": pd.DataFrame(Z, columns=["b", "a"])},
        r"inducing has columns \['b', 'a'\], but X has \['a', 'b'\]",
    ),
    "a step": ({"likelihood": bgp.Step()}, "inducing needs a likelihood with latent noise"),
    "a kernel for each class": (
        {"likelihood": bgp.Softmax(), "y": np.arange(N) % 3, "kernel": bgp.kernels.PerClass(*[Linear()] * 3)},
        "inducing needs one kernel for all classes",
    ),
    **{
        name: ({"method": name}, f"method '{name}' does not work on inducing cases")
        for name in ("variational", "online", "exact")
    },
    "a judge": ({"hyper": bgp.hyper.Evidence(method="variational")}, "method 'variational' does not work on inducing"),
    "tilted": ({"marginals": "tilted"}, "marginals='tilted' needs the dense Gram matrix"),
    "low rank": ({"control": bgp.Control(gram="low_rank")}, r"inducing and Control\(gram='low_rank'\)"),
    "dense": ({"control": bgp.Control(gram="dense")}, r"inducing and Control\(gram='dense'\)"),
    "a move without a search": ({"inducing": bgp.Inducing(5, move=True)}, "give hyper='evidence', or move=False"),
    "a move with another": ({"inducing": bgp.Inducing(5, move=True), "hyper": "loo"}, "give hyper='evidence'"),
    "only noise": ({"kernel": White()}, "at the inducing inputs, without noise .* are all zero"),
    "nothing there": ({"kernel": Linear(), "inducing": np.zeros((1, 2))}, "at the inducing inputs, .* are all zero"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_by_name(options, message):
    with pytest.raises((ValueError, bgp.NotPositiveDefiniteError), match=message):
        fit(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"number": value}, "number must be a positive integer") for value in (0, -1, 1.5, True, "a", None)),
        *(({"search": value}, "search must be a positive integer") for value in (0, 1.5, "a")),
        *(({"rows": value}, "rows must be a positive integer") for value in (0, None)),
        *(({"rounds": value}, "rounds must be a positive integer") for value in (0, 2.0)),
        *(({"choose": value}, "choose must be 'random', 'kmeans' or 'greedy'") for value in ("best", None)),
        *(({"move": value}, "move must be True or False") for value in (1, "yes")),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_named(options, message):
    with pytest.raises(ValueError, match=f"Inducing: {message}, got"):
        bgp.Inducing(**{"number": 5, **options})


def test_repeated_inducing_inputs_are_said_and_change_nothing():
    twice = np.concatenate([Z, Z[::-1]])
    with pytest.warns(UserWarning, match="12 of the 24 inducing inputs repeat others; they add nothing"):
        idata = fit(inducing=twice)
    assert idata["fit"].sizes["inducing"] == 12
    np.testing.assert_allclose(proba(idata), proba(fit(inducing=Z)), atol=1e-9)
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0]])
    with pytest.warns(UserWarning, match="1 of the 2 inducing inputs repeat"):
        assert fit(inducing=zeros)["fit"].sizes["inducing"] == 1


def test_one_inducing_case_and_a_constant_kernel_will_do():
    assert np.all(np.isfinite(proba(fit(inducing=1))))
    idata = fit(kernel=Bias(2.0), inducing=7)
    assert idata["fit"].sizes["inducing"] == 1
    np.testing.assert_allclose(proba(idata), proba(bgp.fit(X, Y, Bias(2.0), **FEW)), atol=1e-8)
    far = fit(kernel=Gaussian(1.0), inducing=np.full((1, 2), 1e3))  # which knows nothing of any case
    np.testing.assert_allclose(proba(far), 0.5, atol=1e-9)
    assert float(far["fit"]["independent"]) == pytest.approx(1.0)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_rough_field_asks_for_so_many_inducing_cases_that_little_is_left_to_noise(noise):
    rng = np.random.default_rng(3)
    places = rng.uniform(size=(900, 2))
    labels = np.sin(20.0 * places[:, 0]) + rng.normal(size=900) > 0
    kernel = Matern32(0.25) + White(noise) if noise else Matern32(0.25)
    check = bgp.diagnostics.inducing(fit(places, labels, kernel, inducing=60), random_seed=1)
    assert f"at most some {check.needed} would leave 2%, White apart" in str(check)
    left = float(fit(places, labels, kernel, inducing=check.needed)["fit"]["independent"]) - noise / (1.0 + noise)
    assert 0.002 < left < 0.02
    assert check.doubled <= check.needed < 600
    enough = bgp.diagnostics.inducing(fit(places, labels, Gaussian(1.0), inducing=20), random_seed=1)
    assert enough.needed is None
    some, labels = places[:106], labels[:106]
    all_of_them = bgp.diagnostics.inducing(fit(some, labels, Matern32(0.02), inducing=40), random_seed=1)
    assert all_of_them.needed == 106  # rounded it were 110, and there are no more
