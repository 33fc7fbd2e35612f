"""What the tables of errors share: splits, counts of errors, and the choice from a scan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.datasets import load_crabs
from validation.tables import crabs_and_pima, selection, sonar
from validation.tables.crabs_and_pima import Hyperparameters, choose_threshold
from validation.tables.selection import Counts, Published, Split, choose, describe_scan
from validation.tables.sonar_2000_figure_2 import plain_difference

METHODS = tuple(selection.NAMES)


def counts(*loo):
    """One row of a scan over 0, 1, 2, ... with one more test error at each."""
    return [Counts(value=float(i), test=10 + i, loo=errors) for i, errors in enumerate(loo)]


@pytest.fixture(scope="module")
def few():
    """Thirty crabs to train on, of both sexes, and the rest."""
    crabs = load_crabs()
    every = slice(0, None, 3)
    return Split.of(dataclasses.replace(crabs, X=crabs.X[every], y=crabs.y[every]))


@pytest.mark.parametrize(
    ("loo", "chosen"),
    [
        ((3, 2, 2, 4, 2, 2, 2, 3, 2), 5),  # the middle of the longest stretch
        ((2, 2, 4, 2, 2), 0),  # of two equal stretches the first, of two middles the lower
        ((5, 4, 3), 2),  # at the end of the scan
        ((3, 3, 3, 3), 1),  # no choice at all
        ((4, 1, 9, 2, 2, 2), 1),  # a longer stretch of more errors does not count
        ((7,), 0),
    ],
)
def test_the_middle_of_the_longest_stretch_of_least_errors_is_chosen(loo, chosen):
    assert choose(counts(*loo)).best.value == chosen


def test_all_stretches_of_least_errors_are_kept_with_their_test_errors():
    scan = counts(3, 2, 2, 4, 2, 2, 2, 3, 2)
    scan[5] = scan[5]._replace(test=5)
    choice = choose(scan)
    assert [[c.value for c in stretch] for stretch in choice.stretches] == [[1, 2], [4, 5, 6], [8]]
    assert choice.tests == (5, 18)


@pytest.mark.parametrize(
    ("rows", "threshold", "noise", "stretches"),
    [
        ({0.0: (3, 3, 3, 3), 0.1: (5, 2, 5, 5)}, 0.1, 1, 1),  # the least count, not the longest stretch
        ({0.0: (2, 3, 2, 3), 0.1: (3, 2, 2, 2)}, 0.1, 2, 3),  # of the least counts the longest stretch
        ({0.0: (2, 2, 3, 3), 0.1: (3, 3, 2, 2)}, 0.0, 0, 2),  # of two equal ones the first
        ({0.0: (2, 3, 3, 2, 2, 2), 0.1: (3, 2, 2, 3, 3, 3)}, 0.0, 4, 3),  # a short one beside it takes nothing away
    ],
)
def test_a_threshold_is_chosen_by_the_same_rule(rows, threshold, noise, stretches):
    chosen, choice = choose_threshold({key: counts(*loo) for key, loo in rows.items()})
    assert (chosen, choice.best.value) == (threshold, noise)
    assert len(choice.stretches) == stretches


def test_a_scan_is_described_by_its_ends_and_its_step():
    assert describe_scan("v_2", np.geomspace(0.01, 1.0, 3)) == "3 values of v_2 from 0.01 to 1, each 10 times the last"


def test_the_later_class_in_the_alphabet_is_plus_one():
    crabs = load_crabs()
    split = Split.of(crabs)
    np.testing.assert_array_equal(split.t == 1.0, crabs.y == "M")
    np.testing.assert_array_equal(split.t_test == -1.0, crabs.y_test == "F")


# at the first setting the methods differ in leave-one-out, at the second in test errors
@pytest.mark.parametrize(("lengthscale", "noise"), [(8.0, 0.1), (4.0, 0.01)])
@pytest.mark.parametrize("method", METHODS)
def test_errors_are_counted_case_by_case(few, method, lengthscale, noise):
    kernel = Hyperparameters(np.full(6, lengthscale), noise).kernel
    counted = selection.count(few, kernel, method, noise)
    assert counted.value == noise
    gram, cross = kernel.gram(few.X), kernel.cross(few.X_test, few.X)
    mean = cross @ bgp.solve(gram, few.t, bgp.Step(), method=method).alpha
    assert counted.test == sum(1 for t, m in zip(few.t_test, mean, strict=True) if np.sign(m) != t)
    assert 0 < counted.test < few.t_test.size / 2
    turned = dataclasses.replace(few, t_test=-few.t_test)
    assert selection.count(turned, kernel, method, noise).test == few.t_test.size - counted.test

    refitted = 0
    for i in range(few.t.size):
        rest = np.delete(np.arange(few.t.size), i)
        alpha = bgp.solve(gram[np.ix_(rest, rest)], few.t[rest], bgp.Step(), method=method).alpha
        refitted += gram[i, rest] @ alpha * few.t[i] < 0
    assert selection.exact_loo_errors(few, kernel, method) == refitted
    assert abs(counted.loo - refitted) <= 1
    assert refitted > 2


def test_the_likelihood_is_a_step_unless_another_is_given(few):
    kernel = Hyperparameters(np.full(6, 2.0)).kernel
    assert selection.solve(few, kernel, "tap")[0].likelihood == bgp.Step()
    assert selection.solve(few, kernel, "tap", bgp.Probit(0.5))[0].likelihood == bgp.Probit(0.5)


@pytest.mark.parametrize("method", METHODS)
def test_a_plain_difference_is_the_same_field_until_rounding_takes_its_sign(method):
    full = sonar.load()
    split = Split(full.X[:40], full.t[:40], full.X_test, full.t_test)
    problem, solution = selection.solve(split, sonar.gaussian(0.5, 60), method)
    fields = selection.leave_one_out(problem, solution).mean
    np.testing.assert_allclose(plain_difference(problem, solution, np.float64), fields, atol=1e-10)
    np.testing.assert_allclose(plain_difference(problem, solution, np.float32), fields, atol=1e-4)
    assert np.abs(plain_difference(problem, solution, np.float32) - fields).max() > 1e-10

    short, solution = selection.solve(split, sonar.gaussian(0.005, 60), method)
    fields = selection.leave_one_out(short, solution).mean
    assert np.all(fields != 0)
    assert np.count_nonzero(np.sign(plain_difference(short, solution, np.float64)) != np.sign(fields)) > 10


def test_a_scan_is_held_against_a_published_row(few):
    widths = np.array([0.5, 1.0, 2.0, 4.0])
    scan = [selection.count(few, sonar.gaussian(w, 6), "naive", w) for w in widths]
    best = choose(scan).best
    n, n_test = few.t.size, few.t_test.size
    published = Published(round(best.test / n_test, 3), round(best.loo / n + 0.1, 3), 0.5)
    entries, words = sonar.compare(few, sonar.gaussian, widths, "naive", published, "crabs", lambda note: None)
    test, loo, exact, chosen, same = entries
    assert (test.paper, loo.paper, exact.paper, chosen.paper) == (published.test, published.loo, 0.5, None)
    assert test.ours == best.test / n_test
    assert loo.ours == best.loo / n
    assert exact.ours == selection.exact_loo_errors(few, sonar.gaussian(best.value, 6), "naive") / n
    assert chosen.ours == best.value
    assert same.ours == 0
    assert "lower count than the paper's" in loo.note
    assert "nowhere on the scan" in words

    as_published = Published(round(best.test / n_test, 3), round(best.loo / n, 3), 0.5)
    entries, words = sonar.compare(few, sonar.gaussian, widths, "naive", as_published, "crabs", lambda note: None)
    assert "lower" not in entries[1].note
    assert entries[4].ours == sum((c.test, c.loo) == (best.test, best.loo) for c in scan)
    assert f"the least leave-one-out count, {best.loo}, is that of" in words


def test_widths_by_laplace_are_most_probable_under_the_prior_of_the_1996_paper(few):
    kernel = crabs_and_pima.laplace_map(few)

    def log_posterior(changed):
        evidence = bgp.solve(changed.gram(few.X), few.t, bgp.Logit(), method="laplace").evidence.value
        log_hyperparameters = np.append(
            -2.0 * np.log(changed.params["lengthscale"]), np.log(changed.params["variance"])
        )
        return evidence - 0.5 * np.sum(((log_hyperparameters + 3.0) / 3.0) ** 2)

    best = log_posterior(kernel)
    for factor in (0.8, 1.25):
        assert log_posterior(kernel.replace(variance=factor * kernel.params["variance"])) < best
        for i in range(6):
            lengthscale = kernel.params["lengthscale"].copy()
            lengthscale[i] *= factor
            assert log_posterior(kernel.replace(lengthscale=lengthscale)) < best


def test_sonar_sets_are_exchanged_with_and_without_new_scaling():
    before, kept, anew = sonar.load(), sonar.load().exchanged(), sonar.load(exchange=True)
    np.testing.assert_array_equal(kept.X, before.X_test)
    np.testing.assert_array_equal(kept.t_test, before.t)
    np.testing.assert_array_equal(anew.t, kept.t)
    np.testing.assert_allclose(anew.X.std(axis=0), 1.0)
    assert np.max(np.abs(kept.X.std(axis=0) - 1.0)) > 0.1


def test_sonar_kernels_are_those_of_the_papers():
    x, y = np.array([[1.0, 2.0, 0.5]]), np.array([[0.0, 1.0, -1.0]])
    distance = np.sum((x - y) ** 2)
    np.testing.assert_allclose(sonar.gaussian(0.3, 3).cross(x, y), np.exp(-0.5 * distance / (0.3 * 3)))
    s, sx, sy = (0.3 / 3 * np.sum(a * b) for a, b in ((x, y), (x, x), (y, y)))
    expected = 2 / np.pi * np.arcsin(s / np.sqrt((1 + sx) * (1 + sy)))
    np.testing.assert_allclose(sonar.infinite_net(0.3, 3).cross(x, y)[0, 0], expected)
