"""Learning curves, likelihoods given as functions with their data, and brute force for a few cases."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

import bayesgp_mf as bgp
from bayesgp_mf.datasets import load_crabs
from bayesgp_mf.errors import Status
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from validation.tables import few_cases, quadrature_models
from validation.tables.dense_grid import Moments, integrate
from validation.tables.few_cases import FROM_TAP, Pair
from validation.tables.learning_curves import TEST, TRAIN, Cases, random_order, study
from validation.tables.quadrature_models import GRID, ONE_SWEEP, SWEEPS, TAP, Fit
from validation.tables.thesis_figure_2_1 import Sample

N = 10


@pytest.fixture(scope="module")
def few_crabs():
    crabs = load_crabs()
    return dataclasses.replace(
        crabs, X=crabs.X[::8], y=crabs.y[::8], X_test=crabs.X_test[::20], y_test=crabs.y_test[::20]
    )


@pytest.fixture(scope="module")
def cases(few_crabs):
    return Cases.of(few_crabs, 2)


def never(problem, control=None, start=None):
    raise bgp.ConvergenceError("no", Status.STALLED)


class Never:
    """A solver that reaches no solution."""

    solve = staticmethod(never)


def test_cases_are_those_of_the_data_set_under_the_polynomial_kernel(few_crabs, cases):
    X = np.concatenate([few_crabs.X, few_crabs.X_test])
    assert cases.n == N
    np.testing.assert_allclose(cases.problem.gram, (1.0 + X @ X.T / 6) ** 2)
    np.testing.assert_array_equal(cases.problem.t > 0, np.concatenate([few_crabs.y, few_crabs.y_test]) == "M")


def test_error_rates_are_those_of_training_and_test_cases(cases):
    means = np.stack([cases.problem.t, -cases.problem.t])
    means[0, [1, 3, N + 2]] *= -1.0
    rates = cases.errors(means)
    np.testing.assert_allclose(rates[TRAIN], [2 / N, 1.0])
    np.testing.assert_allclose(rates[TEST], [1 / (cases.problem.n - N), 1.0])


def test_after_each_example_of_a_sweep_the_means_are_those_of_a_fit_to_the_examples_seen(cases):
    order = random_order(N, 4)
    path = cases.learn(order, "as_new", sweeps=1)
    gram, t = cases.problem.gram, cases.problem.t
    for k in range(1, N + 1):
        seen = list(order[:k])
        alpha = bgp.solve(gram[np.ix_(seen, seen)], t[seen], bgp.Step(), method="online").alpha
        np.testing.assert_allclose(path[k - 1], gram[:, seen] @ alpha, atol=1e-9)
    np.testing.assert_array_equal(path, cases.learn(order, "replace", sweeps=1))
    other = cases.learn(order[::-1], "as_new", sweeps=1)
    assert np.abs(other[-1] - path[-1]).max() > 1e-3


def test_sweeps_that_replace_former_factors_end_at_tap_and_others_do_not(cases):
    order, tap = random_order(N, 4), cases.solve()
    replaced, as_new = (cases.learn(order, reuse, sweeps=12)[-1] for reuse in ("replace", "as_new"))
    assert cases.distance(replaced, tap) < 1e-6
    assert cases.distance(as_new, tap) > 0.1


def test_labels_of_test_cases_are_not_looked_at(cases):
    t = cases.problem.t.copy()
    t[N:] *= -1.0
    turned = Cases(dataclasses.replace(cases.problem, t=t), N)
    order = random_order(N, 4)
    np.testing.assert_array_equal(turned.learn(order, "as_new"), cases.learn(order, "as_new"))
    np.testing.assert_array_equal(turned.solve(), cases.solve())


def test_distances_are_in_standard_deviations_of_the_prior(cases):
    reference = np.zeros(cases.problem.n)
    means = np.stack([reference, reference])
    means[1, 2] = 3.0 * np.sqrt(cases.problem.gram[2, 2])
    np.testing.assert_allclose(cases.distance(means, reference), [0.0, 3.0])


def test_a_study_keeps_every_run(cases):
    orders = [random_order(N, seed) for seed in range(3)]
    assert sorted(orders[0]) == list(range(N))
    assert len(set(orders)) == 3
    notes = []
    done = study(((cases, order) for order in orders), notes.append, "crabs")
    assert len(notes) == 3
    for run, order in enumerate(orders):
        means = cases.learn(order, "replace")
        np.testing.assert_array_equal(done.after(2, replaced=True)[:, run], cases.errors(means[2 * N - 1]))
        np.testing.assert_array_equal(done.after(1)[:, run], cases.errors(means[N - 1]))
        np.testing.assert_array_equal(done.tap[run], cases.errors(cases.solve()))
        assert done.distance[run, 2] == cases.distance(means[-1], cases.solve())
    assert np.all(np.diff(done.distance) < 0)


def test_likelihoods_given_as_functions_are_the_textbook_ones():
    t, f = np.array([0.3, -2.0, 1.5]), np.array([0.1, 1.0, 1.4])
    log_t = quadrature_models.student(0.2).log_prob(t, f).value
    np.testing.assert_allclose(log_t, stats.t.logpdf(t, 4, f, 0.2))
    count = np.array([0.0, 3.0, 9.0])
    log_poisson = quadrature_models.poisson().log_prob(count, f).value
    np.testing.assert_allclose(log_poisson, stats.poisson.logpmf(count, np.exp(f)))


def test_outliers_are_as_many_as_wanted_and_far_off():
    data = quadrature_models.with_outliers(7, 0.15)
    off = np.abs(data.y - np.sinc(data.X[:, 0]))
    assert data.X.shape == (40, 1)
    assert np.count_nonzero(data.outlying) == 6
    assert np.all(off[data.outlying] > 0.5)
    assert np.all(off[~data.outlying] < 0.5)
    np.testing.assert_array_equal(data.y, quadrature_models.with_outliers(7, 0.15).y)
    assert np.any(data.y != quadrature_models.with_outliers(8, 0.15).y)


def test_counts_follow_their_rate():
    data = quadrature_models.counts(0)
    assert np.all(data.y == np.round(data.y))
    assert np.all(data.y >= 0)
    rate = np.exp(data.truth(data.X[:, 0]))
    assert abs(np.sum(data.y) - np.sum(rate)) < 4.0 * np.sqrt(np.sum(rate))
    assert np.corrcoef(data.y, rate)[0, 1] > 0.5


def test_error_and_coverage_are_over_the_grid():
    truth = np.zeros(GRID.size)
    mean = np.where(np.arange(GRID.size) < 40, 3.0, 0.5)
    fit = Fit(None, mean, np.full(GRID.size, 1.0), truth)
    assert fit.error == pytest.approx(np.sqrt((40 * 9.0 + 121 * 0.25) / 161))
    assert fit.coverage == pytest.approx(121 / 161)


def test_importance_sampling_gives_the_evidence_where_it_is_known():
    data = quadrature_models.with_outliers(1, 0.0)
    fit = data.fit(bgp.kernels.Gaussian(0.8), Gaussian(0.01), METHODS["exact"])
    value, error = fit.importance()
    assert value == pytest.approx(fit.log_evidence, abs=1e-6)
    assert error < 1e-6
    np.testing.assert_allclose(fit.truth, np.sinc(GRID))


def test_a_fit_that_is_not_reached_is_its_status_and_is_counted():
    data = quadrature_models.with_outliers(1, 0.0)
    assert data.fit(bgp.kernels.Gaussian(0.8), Gaussian(0.01), Never()) is Status.STALLED
    entry = quadrature_models.missing("x", [1.0, Status.STALLED, 2.0, Status.NO_VALID_STEP, Status.STALLED])
    assert entry.quantity == "x: solutions not reached, of 5"
    assert entry.ours == 3
    assert entry.note == "2 STALLED, 1 NO_VALID_STEP"


def test_the_dense_grid_gives_gaussian_regression():
    gram, noise, t = np.array([[2.0, 0.8], [0.8, 1.0]]), 0.3, np.array([1.0, -0.4])
    total = gram + noise * np.eye(2)
    found = integrate(gram, t, lambda one, f: stats.norm.logpdf(one, f, np.sqrt(noise)), half_width=9.0, points=301)
    assert found.log_evidence == pytest.approx(stats.multivariate_normal.logpdf(t, np.zeros(2), total), abs=1e-10)
    np.testing.assert_allclose(found.mean, gram @ np.linalg.solve(total, t), atol=1e-10)
    covariance = gram - gram @ np.linalg.solve(total, gram)
    np.testing.assert_allclose(found.sd, np.sqrt(np.diag(covariance)), atol=1e-10)


@pytest.mark.parametrize(("half_width", "points"), [(1.0, 301), (60.0, 41)])
def test_a_grid_that_does_not_hold_the_posterior_is_refused(half_width, points):
    with pytest.raises(ValueError, match="does not hold the posterior"):
        integrate(np.eye(1), np.array([1.0]), lambda t, f: stats.norm.logpdf(t, f, 1.0), half_width, points)


def test_pairs_agree_where_the_targets_do_and_tap_fails_where_they_contradict():
    near, far = few_cases.solve_pair(0.5), few_cases.solve_pair(5.0)
    assert all(isinstance(near.found[name], Moments) for name in (TAP, ONE_SWEEP, SWEEPS, FROM_TAP))
    np.testing.assert_allclose(near.found[TAP].sd, near.exact.sd, rtol=0.01)
    np.testing.assert_allclose(near.found[TAP].mean, near.exact.mean, atol=1e-3)
    assert near.found[TAP].log_evidence == pytest.approx(near.exact.log_evidence, abs=1e-3)
    assert not near.negative
    np.testing.assert_allclose(near.exact.mean, -near.exact.mean[::-1], atol=1e-10)  # by symmetry
    assert far.found[TAP].log_evidence > far.exact.log_evidence + 1.0
    assert far.negative
    assert isinstance(far.found[SWEEPS], Status)
    assert far.found[FROM_TAP].log_evidence == pytest.approx(far.found[TAP].log_evidence, abs=1e-6)


def test_a_pair_that_tap_does_not_solve_is_its_status(monkeypatch):
    monkeypatch.setitem(few_cases.SOLVERS, TAP, Never())
    pair = few_cases.solve_pair(1.0)
    assert pair.found[TAP] is Status.STALLED
    assert pair.found[FROM_TAP] is Status.STALLED
    assert not pair.negative


def test_words_and_lines_on_pairs_follow_from_the_pairs():
    def moments(log_evidence, sd):
        return Moments(log_evidence, np.zeros(2), np.array([sd, sd]))

    found = {TAP: moments(-1.0, 0.5), ONE_SWEEP: moments(-1.2, 0.4), SWEEPS: moments(-1.0, 0.5)}
    good = Pair(2.0, moments(-1.0, 0.5), {**found, FROM_TAP: moments(-1.0, 0.5)}, negative=False)
    lost = {TAP: moments(-1.0, 3.0), ONE_SWEEP: moments(-4.0, 0.6), SWEEPS: Status.NO_VALID_STEP}
    bad = Pair(4.0, moments(-3.25, 1.0), {**lost, FROM_TAP: moments(-1.5, 2.0)}, negative=True)
    words = few_cases.pair_remark([good, bad])
    for part in (
        "at a distance of 4 its evidence is 2.25 nats too high",
        "negative site precision, at distances from 4 to 4",
        "Sweeps reach no solution at distances from 4 to 4",
        "at 1 of 2 distances",
        "0.60 at most",
    ):
        assert part in words
    lines = {entry.quantity: entry for entry in few_cases.pair_entries([good, bad])}
    assert lines[f"Pairs, {SWEEPS}: solutions not reached, of 2"].ours == 1
    assert lines["Pairs, TAP: solutions with a negative site precision, of 2"].ours == 1
    assert lines["Pair 4 apart, TAP: log evidence less the exact"].ours == 2.25
    assert lines["Pair 4 apart, one sweep: standard deviation of the first"].ours == 0.6
    assert f"Pair 4 apart, {SWEEPS}: log evidence less the exact" not in lines


def test_three_counts_are_held_against_brute_force(monkeypatch):
    # a coarser grid than that of the table
    monkeypatch.setattr(few_cases, "integrate", lambda *given, half_width, points: integrate(*given, half_width, 121))
    lines = {entry.quantity: entry.ours for entry in few_cases.three_counts()}
    assert abs(lines["Three counts, TAP: log evidence less the exact"]) < 1e-3
    assert lines["Three counts, TAP: largest error of a mean, in standard deviations"] < 1e-3
    assert lines["Three counts, one sweep: largest error of a mean, in standard deviations"] > 0.01


def test_a_stream_ends_before_the_example_that_rounding_has_spoilt(monkeypatch):
    kernel, x = bgp.kernels.Gaussian(), np.linspace(-2.0, 2.0, 8)
    sample = Sample(x[:, None], np.sinc(x), x[:, None] + 0.1)
    whole, taken = sample.stream(kernel)
    assert taken == 8
    np.testing.assert_allclose(whole.mean, sample.exact(kernel).mean, atol=1e-12)
    update = bgp.online.update

    def spoilt(state, *given):
        if state.n_seen == 5:
            raise bgp.NotPositiveDefiniteError("variance -0.1")
        return update(state, *given)

    monkeypatch.setattr(bgp.online, "update", spoilt)
    part, taken = sample.stream(kernel)
    exact = Sample(sample.X[:5], sample.y[:5], sample.grid).exact(kernel)
    assert taken == 5
    np.testing.assert_allclose(part.mean, exact.mean, atol=1e-12)
    np.testing.assert_allclose(part.variance, exact.variance, atol=1e-12)
    assert part.log_evidence == pytest.approx(exact.log_evidence, abs=1e-12)
