"""Plans: exact where the posterior is known, and what the theory of the average case says."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import Status
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from validation.studies.perceptron import replica_error

RNG = np.random.default_rng(2)
X = RNG.uniform(-2.0, 2.0, (30, 1))
F = np.sin(3.0 * X[:, 0])
Y = F + 0.3 * RNG.normal(size=30) > 0
KERNEL = bgp.kernels.Gaussian(0.7, 4.0)
OPTIONS = {"replicas": 8, "test": 50, "random_seed": 1, "progress": False}


@pytest.fixture(scope="module")
def fitted():
    return bgp.fit(X, Y, KERNEL, draws=10, random_seed=1)


def test_errors_of_a_perceptron_are_those_of_the_replica_theory():
    """On average over teachers and inputs, as the number of inputs grows (2000, section 9)."""
    d, rng = 40, np.random.default_rng(0)
    first, pool = rng.standard_normal((d, d)), rng.standard_normal((2000, d))
    labels = first @ rng.standard_normal(d) > 0
    idata = bgp.fit(first, labels, bgp.kernels.Linear(), bgp.Step(), draws=10, random_seed=1)
    found = bgp.plan(idata, [0, 40, 160], X=pool, replicas=30, test=300, random_seed=1, progress=False)
    for k, cases in enumerate((0, 40, 160)):
        assert found.values[:, k, 1].mean() == pytest.approx(replica_error((d + cases) / d), abs=0.03)


def test_widths_under_gaussian_noise_do_not_depend_on_the_targets():
    noise, pool = 0.25, np.linspace(-2.0, 2.0, 400)[:, None]
    idata = bgp.fit(X, X[:, 0], KERNEL, Gaussian(noise), draws=10, random_seed=1)
    found = bgp.plan(idata, 400, X=pool, **{**OPTIONS, "test": 400})
    # all of the pool is observed once more, on average; the test cases are of the same pool
    K = KERNEL.gram(np.concatenate([X, pool]))
    variance = np.diag(K - K @ np.linalg.solve(K + noise * np.eye(len(K)), K))[len(X) :]
    expected = 2.0 * 1.6448536 * np.mean(np.sqrt(variance))
    assert found.table.loc[(400, "width"), "mean"] == pytest.approx(expected, rel=0.05)


def test_bands_know_how_far_leave_one_out_is_off_in_other_targets(fitted, monkeypatch):
    """The band of no further cases is that of the choice of test cases, and of leave-one-out."""
    rng, pool = np.random.default_rng(0), np.linspace(-2.0, 2.0, 400)[:, None]
    part, off = bgp.posterior(fitted).parts[0], []
    for _ in range(150):  # what it is off by in labels drawn from the fit, without the noise of test cases
        f = part.draw_at(np.concatenate([X, pool]), 1, rng)[0]
        p = bgp.Probit().predict_proba(f, np.zeros_like(f))
        other = bgp.posterior(bgp.fit(X, rng.random(30) < p[:30], KERNEL, draws=2, chains=1))
        new = other.predict_proba(pool)
        score = p[30:] * np.log(new) + (1.0 - p[30:]) * np.log1p(-new)
        off.append(other.loo.log_density.mean() - score.mean())
    options = {**OPTIONS, "X": pool, "replicas": 150, "test": 400}
    found = bgp.plan(fitted, 0, **options)
    band = found.table.loc[(0, "log_score")]
    own = found.values[:, 0, 0]
    each = fitted["fit"]["loo_i"].values
    ratio = each.mean() / own.mean()
    expected = 1.2816 * np.hypot(np.std(off), ratio * own.std())
    assert np.std(off) > 1.1 * each.std() / np.sqrt(30)  # a standard error takes its terms for independent
    assert 0.5 * (band["upper"] - band["lower"]) == pytest.approx(expected, rel=0.2)
    monkeypatch.setattr("bayesgp_mf.workflow.plan.LARGEST_JOINT", 100)
    monkeypatch.setattr("bayesgp_mf.processes.single.LARGEST_JOINT", 100)
    many = bgp.plan(fitted, 0, **options).table.loc[(0, "log_score")]
    assert many["upper"] - many["lower"] < band["upper"] - band["lower"]


def test_no_further_cases_are_the_fit_as_it_is(fitted):
    pool = np.linspace(-2.0, 2.0, 50)[:, None]
    found = bgp.plan(fitted, 0, X=pool, **OPTIONS)
    sd = bgp.predict(fitted, pool, draws=False)["predictions"]["latent_sd"].values
    np.testing.assert_allclose(found.values[:, 0, 2], 2.0 * 1.6448536 * sd.mean(), rtol=1e-5)


def test_without_further_cases_scores_are_those_of_leave_one_out(fitted):
    table = bgp.plan(fitted, [0, 100], **{**OPTIONS, "replicas": 200}).table
    each = fitted["fit"]["loo_i"].values
    error = each.std() / np.sqrt(30)
    assert table.loc[(0, "log_score"), "mean"] == pytest.approx(each.mean(), abs=5.0 * error / np.sqrt(200) + 0.01)
    assert table.loc[(100, "log_score"), "mean"] > table.loc[(0, "log_score"), "mean"]


def test_more_cases_are_better_on_average(fitted):
    table = bgp.plan(fitted, [0, 50, 200], **{**OPTIONS, "replicas": 20}).table
    means = table["mean"].unstack()
    assert means["log_score"].is_monotonic_increasing
    assert means["width"].is_monotonic_decreasing
    assert np.all(table["lower"] <= table["upper"])


def test_an_offset_that_all_cases_share_is_that_of_further_ones():
    """Under Gaussian noise it is the same as targets that are so much higher; counts are drawn where it puts them."""
    plain = bgp.fit(X, X[:, 0], KERNEL, Gaussian(0.25), draws=10, random_seed=1)
    moved = bgp.fit(X, X[:, 0] + 3.0, KERNEL, Gaussian(0.25), draws=10, random_seed=1, offset=np.full(30, 3.0))
    one, other = (bgp.plan(idata, [0, 20], **OPTIONS).values for idata in (plain, moved))
    np.testing.assert_allclose(other, one, rtol=1e-6)
    counts = RNG.poisson(100.0, 30)
    many = bgp.fit(X, counts, bgp.kernels.Gaussian(0.7, 0.01), bgp.Poisson(), offset=np.full(30, np.log(100.0)))
    error = bgp.plan(many, 20, **OPTIONS).values[:, 0, 1]
    assert np.all((error > 5.0) & (error < 13.0))  # on average some 0.8 standard deviations, which are 10


def test_other_kinds_of_targets_and_averages_have_plans():
    counts, options = RNG.poisson(np.exp(X[:, 0])), {"draws": 10, "random_seed": 1}
    averaged = bgp.hyper.Integrate(starts=1, points=3)
    for idata in (
        bgp.fit(X, counts, KERNEL, bgp.Poisson(), **options),
        bgp.fit(X, np.minimum(counts, 2), KERNEL, bgp.Ordinal([0.5, 1.5], 1.0), **options),
        bgp.fit(X, Y, KERNEL, bgp.Logit(), hyper=averaged, **options),
    ):
        found = bgp.plan(idata, [0, 20], **{**OPTIONS, "replicas": 3})
        assert np.all(np.isfinite(found.values))


def test_hyperparameters_may_be_chosen_anew(fitted):
    kept = bgp.plan(fitted, 20, **{**OPTIONS, "replicas": 3})
    tuned = bgp.plan(fitted, 20, hyper=bgp.hyper.Evidence(starts=1), **{**OPTIONS, "replicas": 3})
    assert not np.allclose(kept.values, tuned.values)


def test_whoever_computes_it(fitted):
    one, two = (bgp.plan(fitted, [10], **{**OPTIONS, "replicas": 4, "processes": k}) for k in (1, 2))
    # arrays that were sent to a process may be aligned otherwise in memory, and their sums rounded otherwise
    np.testing.assert_allclose(one.values, two.values, rtol=1e-12)


@pytest.mark.parametrize("values", [10, 11])
def test_a_column_of_few_values_keeps_to_them(values):
    """On both sides of the number of values up to which it does."""
    inputs = np.column_stack([RNG.normal(size=44), np.resize(np.arange(values), 44)])
    idata = bgp.fit(inputs, inputs[:, 0] > 0, bgp.kernels.Gaussian(1.0), draws=10, random_seed=1)
    seen = []

    class Watched(bgp.kernels.Gaussian):
        """A kernel that remembers the inputs it is asked for."""

        def gram(self, X):
            seen.append(X)
            return super().gram(X)

    own = bgp.fit(inputs, inputs[:, 0] > 0, Watched(1.0), draws=10, random_seed=1)
    bgp.plan(own, 20, kernel=Watched(1.0), **{**OPTIONS, "replicas": 2})
    whole = all(np.all(X[:, 1] == np.round(X[:, 1])) for X in seen)
    assert whole == (values == 10)
    assert np.all(np.isfinite(bgp.plan(idata, 20, **{**OPTIONS, "replicas": 2}).values))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sizes": [-1]}, "sizes must be"),
        ({"sizes": 2.5}, "sizes must be"),
        ({"sizes": "many"}, "sizes must be"),
        ({"level": 80}, "level must be"),
        ({"replicas": 0}, "replicas"),
        ({"X": np.zeros((5, 3))}, "X, the inputs of further cases"),
    ],
)
def test_wrong_arguments_are_named(fitted, given, message):
    with pytest.raises(ValueError, match=message):
        bgp.plan(fitted, **{"sizes": 5, **OPTIONS, **given})


def test_more_cases_than_the_machine_holds_are_refused(fitted):
    with pytest.raises(MemoryError, match="further cases need about"):
        bgp.plan(fitted, **{"sizes": 10**12, **OPTIONS})


@pytest.mark.parametrize(
    "facts",
    [
        {"weights": np.ones(30)},
        {"likelihood": Gaussian(np.linspace(0.1, 1.0, 30))},
        {"likelihood": bgp.Binomial(5), "offset": np.ones(30)},
    ],
)
def test_cases_with_facts_of_their_own_have_none(facts):
    idata = bgp.fit(X, Y.astype(int), KERNEL, draws=10, random_seed=1, **facts)
    with pytest.raises(bgp.UndefinedQuantityError, match="a plan is for cases"):
        bgp.plan(idata, 5)


def test_cases_with_exposures_are_planned_for_with_theirs():
    counts = np.random.default_rng(2).poisson(np.exp(0.3 * X[:, 0]) * 100.0)
    kernel = bgp.kernels.Gaussian(0.7, 0.1)
    few, many = (
        bgp.fit(X, counts if size > 0 else counts // 100, kernel, bgp.Poisson(), draws=10, random_seed=1, offset=offset)
        for size, offset in ((0, np.linspace(0.0, 0.1, 30)), (1, np.log(100.0) + np.linspace(0.0, 0.1, 30)))
    )
    widths = [bgp.plan(fit, 20, **OPTIONS).table["mean"][20, "width"] for fit in (few, many)]
    assert widths[1] < 0.5 * widths[0]  # what many counts say of a rate, further cases say, too
    as_many = bgp.plan(few, 20, X=X, offset=np.full(30, np.log(100.0)), **OPTIONS).table["mean"][20, "width"]
    assert as_many < 0.7 * widths[0]
    with pytest.raises(ValueError, match="offsets of their own"):
        bgp.plan(few, 20, X=X, **OPTIONS)
    with pytest.raises(ValueError, match="there is no X"):
        bgp.plan(few, 20, offset=np.zeros(30), **OPTIONS)
    with pytest.raises(ValueError, match=r"offset.*30"):
        bgp.plan(few, 20, X=X, offset=np.zeros(3), **OPTIONS)


def test_targets_without_a_mean_have_no_error():
    idata = bgp.fit(X, X[:, 0], KERNEL, bgp.StudentT(0.3, 1.0), draws=10, random_seed=1)
    mean = bgp.plan(idata, 5, **OPTIONS).table["mean"][5]
    assert np.isnan(mean["error"])
    assert np.all(np.isfinite(mean[["log_score", "width"]]))


class OfFewCases:
    """TAP that has no solution for more cases than there were."""

    name, gram_gradient, leave_one_out = "of few cases", METHODS["tap"].gram_gradient, METHODS["tap"].leave_one_out
    traits = METHODS["tap"].traits

    def solve(self, problem, control=bgp.Control(), start=None):
        if problem.n > len(X):
            raise bgp.ConvergenceError("there are too many.", Status.NO_VALID_STEP)
        return METHODS["tap"].solve(problem, control, start)


def test_why_no_data_set_has_a_solution_is_said():
    few = OfFewCases()
    idata = bgp.fit(X, Y, KERNEL, method=few, draws=2, chains=1, random_seed=1)
    message = r"none of the data sets had a solution\. The first: there are too many"
    with pytest.warns(UserWarning, match="8 of 8 data sets"), pytest.raises(bgp.ConvergenceError, match=message):
        bgp.plan(idata, [5], method=few, **OPTIONS)


def test_bands_end_where_log_probabilities_and_shares_do():
    """Of classes that are far apart leave-one-out has hardly a loss, and may be off by more than that."""
    apart = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(1.0, 25.0), draws=10, random_seed=1)
    table = bgp.plan(apart, [0, 30, 100], **{**OPTIONS, "replicas": 40}).table
    scores, errors = (table.xs(name, level="quantity") for name in ("log_score", "error"))
    assert np.all(scores["upper"] <= 0.0)
    assert np.all(errors["lower"] >= 0.0)
    assert np.all(errors["upper"] <= 1.0)


def test_what_more_cases_bring_is_not_certain(fitted):
    """The band of many further cases is wider than the model has it, and on average as high."""
    found = bgp.plan(fitted, [0, 200], **{**OPTIONS, "replicas": 300, "test": 20})
    own = found.values[:, :, 0]
    gain = np.log(own[:, 1].mean() / own[:, 0].mean())
    table = found.table.xs("log_score", level="quantity")
    wide = np.log(table["lower"] / table["upper"]).to_numpy()
    of_model = np.log(np.divide(*np.quantile(own, [0.1, 0.9], axis=0)))
    beyond = wide**2 - of_model**2  # of no further cases, leave-one-out
    assert beyond[1] - beyond[0] > (3.0 * gain) ** 2
    assert table.loc[200, "mean"] / table.loc[0, "mean"] == pytest.approx(np.exp(gain), rel=0.1)


def test_cases_unlike_those_of_the_fit_have_scores_of_their_own(fitted):
    """Far from the data nothing is known: a label is a coin. What leave-one-out says is a factor of that."""
    found = bgp.plan(fitted, 0, **{**OPTIONS, "X": np.full((50, 1), 100.0)})
    own = found.values[:, 0].mean(axis=0)
    assert own[0] == pytest.approx(np.log(0.5), abs=0.01)
    loo, expected = bgp.posterior(fitted).loo, []
    for sign in (-1.0, 1.0):
        p = bgp.Probit().predict_proba(sign * loo.mean, loo.variance)
        expected.append(p * np.log(p))
    ratio = fitted["fit"]["loo_i"].values.mean() / np.sum(expected, axis=0).mean()
    assert found.table.loc[(0, "log_score"), "mean"] == pytest.approx(ratio * own[0], rel=0.02)


def test_no_errors_at_all_are_numbers():
    apart = bgp.fit([[-3.0], [-2.9], [2.9], [3.0]], [0, 0, 1, 1], bgp.kernels.Gaussian(3.0, 100.0), bgp.Step())
    table = bgp.plan(apart, [0, 30], **{**OPTIONS, "test": 5, "replicas": 2}).table
    assert np.all(np.isfinite(table))
