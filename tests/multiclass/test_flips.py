"""Labels of several classes that may be flipped: as with two, against sums over all flips, gradients, draws."""

from __future__ import annotations

from itertools import product

import arviz
import numpy as np
import pytest
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.inference.solver import gradient_at_cavities
from bayesgp_mf.methods import get_method
from bayesgp_mf.multiclass.star_tap import star_tap
from tests.multiclass.cases import NAMES, softmax_problem
from validation.multinomial.exact import log_evidence

TIGHT = bgp.Control(tolerance=1e-10)
FEW = {"draws": 50, "chains": 2, "random_seed": 0, "progress": False}


def flips(n_classes, noise_variance=1.0, flip=0.1):
    return bgp.MultinomialProbit(NAMES[:n_classes], noise_variance, flip)


def three_sectors(n, wrong=()):
    """Return inputs, and labels by the nearest of three directions, of which some are replaced by the next one."""
    X, angle = np.random.default_rng(0).standard_normal((n, 2)), 2.0 * np.pi * np.arange(3) / 3
    codes = np.argmax(X @ [np.cos(angle), np.sin(angle)], axis=1)
    codes[list(wrong)] = (codes[list(wrong)] + 1) % 3
    return X, np.array(["a", "b", "c"])[codes]


@pytest.mark.parametrize("noise_variance", [0.0, 1.0])
def test_two_classes_are_the_binary_flips(noise_variance):
    X = np.random.default_rng(0).standard_normal((40, 2))
    t = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1.0, -1.0)
    t[[3, 7, 9]] *= -1.0
    gram = bgp.kernels.Gaussian(1.0, 3.0).gram(X)
    binary = bgp.Problem(2.0 * gram, t, bgp.Probit(2.0 * noise_variance, flip=0.1))
    several = bgp.Problem(gram, 0.5 * (t + 1.0), flips(2, noise_variance))
    tap = get_method("tap", binary.likelihood)
    theirs, ours = tap.solve(binary, TIGHT), star_tap.solve(several, TIGHT)
    assert ours.evidence.value == pytest.approx(theirs.evidence.value, abs=1e-9)
    np.testing.assert_allclose(ours.alpha[:, 1], theirs.alpha, atol=1e-8)
    known, expected = (
        solver.leave_one_out(p, s) for solver, p, s in ((star_tap, several, ours), (tap, binary, theirs))
    )
    np.testing.assert_allclose(known.log_density, expected.log_density, atol=1e-8)
    np.testing.assert_allclose(
        star_tap.gram_gradient(several, ours), 2.0 * tap.gram_gradient(binary, theirs), atol=1e-8
    )
    slope, binary_slope = (gradient_at_cavities(p, s, "flip") for p, s in ((several, ours), (binary, theirs)))
    assert slope == pytest.approx(binary_slope, abs=1e-7)


@pytest.mark.parametrize("n_classes", [3, 4, 6])
@pytest.mark.parametrize(("noise_variance", "per_class"), [(0.0, False), (1.0, False), (1.0, True)])
def test_gradients_are_those_of_the_evidence(noise_variance, per_class, n_classes):
    problem = softmax_problem(12, n_classes, per_class=per_class)

    def solved(gram, flip=0.1):
        asked = bgp.Problem(gram, problem.t, flips(n_classes, noise_variance, flip))
        return asked, star_tap.solve(asked, TIGHT)

    gram = problem.gram + 0.05 * np.eye(12)
    asked, solution = solved(gram)
    factor = np.random.default_rng(4).standard_normal(gram.shape)
    direction, step = factor @ np.swapaxes(factor, -1, -2) / 12.0, 1e-5
    values = [solved(gram + s * direction)[1].evidence.value for s in (step, -step)]
    difference = (values[0] - values[1]) / (2.0 * step)
    found = np.sum(star_tap.gram_gradient(asked, solution) * direction)
    assert found == pytest.approx(difference, rel=1e-6, abs=1e-6)
    own_only = 0.5 * np.sum(direction * np.sum(np.einsum("ic,jc->cij", *2 * [solution.alpha]), axis=0))
    assert own_only != pytest.approx(difference, rel=1e-3)  # without the correction it would be seen
    values = [solved(gram, 0.1 + s)[1].evidence.value for s in (step, -step)]
    difference = (values[0] - values[1]) / (2.0 * step)
    assert gradient_at_cavities(asked, solution, "flip") == pytest.approx(difference, rel=1e-6)
    assert gradient_at_cavities(asked, solution, "flip") != pytest.approx(1.01 * difference, rel=1e-3)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_permuting_the_classes_permutes_the_answer(n_classes):
    problem = softmax_problem(14, n_classes, per_class=True)
    order = np.roll(np.arange(n_classes), 1)
    one = star_tap.solve(bgp.Problem(problem.gram, problem.t, flips(n_classes)), TIGHT)
    codes = np.argsort(order)[problem.t.astype(int)] * 1.0
    other = star_tap.solve(bgp.Problem(problem.gram[order], codes, flips(n_classes)), TIGHT)
    assert other.evidence.value == pytest.approx(one.evidence.value, abs=1e-9)
    np.testing.assert_allclose(other.alpha, one.alpha[:, order], atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_few_flips_are_nearly_none(n_classes):
    problem = softmax_problem(20, n_classes)
    none = star_tap.solve(bgp.Problem(problem.gram, problem.t, flips(n_classes, flip=0.0)), TIGHT)
    few = star_tap.solve(bgp.Problem(problem.gram, problem.t, flips(n_classes, flip=1e-9)), TIGHT)
    assert few.evidence.value == pytest.approx(none.evidence.value, abs=1e-6)
    np.testing.assert_allclose(few.alpha, none.alpha, atol=1e-6)


@pytest.mark.parametrize("noise_variance", [0.0, 1.0])
def test_one_case_is_exact(noise_variance):
    """Its evidence is the probability of the label: that of its own class, and of a flip from another one."""
    gram = np.array([0.5, 2.0, 8.0])[:, None, None]
    plain = [np.exp(bgp.solve(gram, [float(c)], flips(3, noise_variance, 0.0)).evidence.value) for c in range(3)]
    assert np.sum(plain) == pytest.approx(1.0, abs=1e-12)
    for c in range(3):
        expected = 0.9 * plain[c] + 0.05 * (1.0 - plain[c])
        found = bgp.solve(gram, [float(c)], flips(3, noise_variance)).evidence.value
        assert found == pytest.approx(np.log(expected), abs=1e-11)


def test_three_cases_are_near_the_sum_over_all_flips():
    """Each label comes of some class or other: a sum over all these of evidences without flips, which are orthants."""
    X, codes = np.random.default_rng(1).standard_normal((3, 2)), np.array([0, 1, 1])
    gram = bgp.kernels.Gaussian(1.2, 5.0).gram(X)
    terms = []
    for meant in product(range(3), repeat=3):
        chance = np.where(np.array(meant) == codes, np.log(0.8), np.log(0.1))
        terms.append(np.sum(chance) + log_evidence(np.stack([gram] * 3), np.array(meant)).value)
    exact = float(logsumexp(terms))
    found = bgp.solve(gram, codes.astype(float), flips(3, flip=0.2)).evidence.value
    assert found == pytest.approx(exact, abs=0.02)
    assert abs(bgp.solve(gram, codes.astype(float), flips(3, flip=0.0)).evidence.value - exact) > 0.05


@pytest.mark.parametrize("noise_variance", [0.0, 0.5])
def test_wrong_labels_look_wrong(noise_variance):
    """Theirs are the sites that make a case less certain, and the others say another class of them."""
    wrong = [20, 44]  # far from where the classes meet
    X, y = three_sectors(60, wrong)
    kernel = bgp.kernels.Gaussian(2.0, 20.0)
    likelihood = bgp.MultinomialProbit(noise_variance=noise_variance, flip=0.05)
    posterior = bgp.posterior(bgp.fit(X, y, kernel, likelihood, **FEW))
    lowest = np.linalg.eigvalsh(posterior.solution.correction.site.precision)[:, 0]
    assert set(wrong) <= set(np.flatnonzero(lowest < -1e-6))
    meant = three_sectors(60)[1][wrong]
    assert np.all(np.array(["a", "b", "c"])[np.argmax(posterior.loo.probability[wrong], axis=1)] == meant)
    proba = posterior.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert proba.min() >= 0.025  # as rare as a label can be
    assert proba.max() <= 0.95


def test_a_search_finds_how_many_there_are():
    rng = np.random.default_rng(5)
    wrong = np.flatnonzero(rng.random(90) < 0.15)
    X, y = three_sectors(90, wrong)
    kernel = bgp.kernels.Gaussian(2.0, 20.0)
    fixed = {"fixed": ["lengthscale", "variance"]}
    idata = bgp.fit(X, y, kernel, bgp.MultinomialProbit(flip=0.03), hyper="evidence", **fixed, **FEW)
    flip = bgp.posterior(idata).problem.likelihood.flip
    assert flip == pytest.approx(wrong.size / 90, abs=0.05)
    assert float(idata["fit"]["flip"]) == flip


def test_draws_files_and_predictions(tmp_path):
    X, y = three_sectors(20, [3])
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.5, 5.0), bgp.MultinomialProbit(flip=0.1), **FEW)
    ours, new = bgp.posterior(idata), X[:3] + 0.3
    for f, (mean, covariance) in (
        (ours.draw(20_000, np.random.default_rng(0)).f, ours.latent_covariance(X)),
        (ours.draw_new(new, 20_000, np.random.default_rng(0)), ours.latent_covariance(new)),
    ):
        error = 5.0 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).max() / 20_000)
        np.testing.assert_allclose(f.mean(axis=0), mean, atol=error)
        found = np.array([np.cov(f[:, i].T) for i in range(f.shape[1])])
        np.testing.assert_allclose(found, covariance, atol=8.0 * covariance.max() / np.sqrt(20_000))
    idata.to_netcdf(tmp_path / "fit.nc")
    again = bgp.posterior(arviz.from_netcdf(tmp_path / "fit.nc"))
    assert again.problem.likelihood == flips(3)
    np.testing.assert_allclose(again.predict_proba(new), ours.predict_proba(new), atol=1e-12)
    np.testing.assert_allclose(again.loo.log_density, idata["fit"]["loo_i"].values, atol=1e-8)
