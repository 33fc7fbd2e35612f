"""The multinomial probit without noise: the largest latent value is the label."""

from __future__ import annotations

import arviz
import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import InconsistentDataError
from bayesgp_mf.multiclass.class_gram import MatrixSiteCorrection
from bayesgp_mf.multiclass.site_form import MatrixForm
from bayesgp_mf.multiclass.star_tap import star_tap
from bayesgp_mf.processes.several_classes import MulticlassPosterior
from tests.multiclass.cases import NAMES, softmax_problem

TIGHT = bgp.Control(tolerance=1e-10)
FEW = {"draws": 50, "chains": 2, "random_seed": 0, "progress": False}


def noise_free(n_classes, noise_variance=0.0):
    return bgp.MultinomialProbit(NAMES[:n_classes], noise_variance=noise_variance)


def separable(n, n_classes, seed=0):
    """Return inputs, and the codes of the largest of as many linear functions, of which each is so somewhere."""
    X = np.random.default_rng(seed).standard_normal((n, 2))
    angle = 2.0 * np.pi * np.arange(n_classes) / n_classes
    return X, np.argmax(X @ [np.cos(angle), np.sin(angle)], axis=1).astype(float)


def test_two_classes_are_a_step():
    X, codes = separable(40, 2)
    y, kernel = np.where(codes > 0, "yes", "no"), bgp.kernels.Gaussian(1.0, 3.0)
    several = bgp.fit(X, y, kernel, bgp.MultinomialProbit(noise_variance=0), control=TIGHT, **FEW)
    binary = bgp.fit(X, y, kernel, bgp.Step(), control=TIGHT, **FEW)
    ours, theirs = bgp.posterior(several), bgp.posterior(binary)
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-9)
    new = np.random.default_rng(1).standard_normal((9, 2)) * 2.0
    np.testing.assert_allclose(ours.predict_proba(new)[:, 1], theirs.predict_proba(new), atol=1e-8)
    np.testing.assert_allclose(ours.loo.log_density, theirs.loo.log_density, atol=1e-8)
    gradient, binary_gradient = (p.method.gram_gradient(p.problem, p.solution) for p in (ours, theirs))
    np.testing.assert_allclose(gradient, binary_gradient, atol=1e-8)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_it_is_the_limit_of_little_noise(n_classes):
    X, t = separable(30, n_classes)
    gram = bgp.kernels.Gaussian(1.0, 3.0).gram(X)
    limit = bgp.solve(gram, t, noise_free(n_classes), control=TIGHT)
    off = []
    for noise in (1e-3, 1e-4):
        near = bgp.solve(gram, t, noise_free(n_classes, noise), control=TIGHT)
        off.append(near.evidence.value - limit.evidence.value)
        np.testing.assert_allclose(near.cavity.mean, limit.cavity.mean, atol=30.0 * noise)
    assert abs(off[0]) < 0.05
    assert off[1] == pytest.approx(0.1 * off[0], rel=0.1)  # the evidence is smooth in the noise


@pytest.mark.parametrize("n_classes", [3, 5])
def test_permuting_the_classes_permutes_the_answer(n_classes):
    problem = softmax_problem(14, n_classes, per_class=True)
    order = np.roll(np.arange(n_classes), 1)
    one = star_tap.solve(bgp.Problem(problem.gram, problem.t, noise_free(n_classes)), TIGHT)
    codes = np.argsort(order)[problem.t.astype(int)] * 1.0
    other = star_tap.solve(bgp.Problem(problem.gram[order], codes, noise_free(n_classes)), TIGHT)
    assert other.evidence.value == pytest.approx(one.evidence.value, abs=1e-9)
    np.testing.assert_allclose(other.alpha, one.alpha[:, order], atol=1e-8)


@pytest.mark.parametrize("variances", [(0.5, 2.0, 8.0), (1e4, 1e-3, 1.0)])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_one_case_of_three_classes_is_one_integral(variances, label):
    own, *others = np.sqrt(np.roll(variances, -label))
    mpmath.mp.dps = 25

    def integrand(u):
        return mpmath.npdf(u) * mpmath.ncdf(u * own / others[0]) * mpmath.ncdf(u * own / others[1])

    exact = float(mpmath.log(mpmath.quad(integrand, [-12, -1, -0.1, -1e-3, 0, 1e-3, 0.1, 1, 12])))
    gram = np.array(variances)[:, None, None]
    assert bgp.solve(gram, [float(label)], noise_free(3)).evidence.value == pytest.approx(exact, abs=1e-10)


def test_units_are_no_matter():
    X, t = separable(20, 4)
    gram = bgp.kernels.Gaussian(1.0, 1.0).gram(X)
    one, other = (bgp.solve(s * gram, t, noise_free(4), control=TIGHT) for s in (1.0, 1e4))
    assert other.evidence.value == pytest.approx(one.evidence.value, abs=1e-7)
    np.testing.assert_allclose(other.cavity.mean, 100.0 * one.cavity.mean, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_is_that_of_the_evidence(per_class, n_classes):
    problem, likelihood = softmax_problem(12, n_classes, per_class=per_class), noise_free(n_classes)
    problem = bgp.Problem(problem.gram + 0.05 * np.eye(12), problem.t, likelihood)
    solution = star_tap.solve(problem, TIGHT)
    gradient = star_tap.gram_gradient(problem, solution)
    factor = np.random.default_rng(4).standard_normal(problem.gram.shape)
    direction, step = factor @ np.swapaxes(factor, -1, -2) / 12.0, 1e-5
    values = [
        star_tap.solve(bgp.Problem(problem.gram + s * direction, problem.t, likelihood), TIGHT).evidence.value
        for s in (step, -step)
    ]
    difference = (values[0] - values[1]) / (2.0 * step)
    assert np.sum(gradient * direction) == pytest.approx(difference, rel=1e-6)
    own_only = 0.5 * np.sum(direction * np.sum(np.einsum("ic,jc->cij", *2 * [solution.alpha]), axis=0))
    assert own_only != pytest.approx(difference, rel=1e-3)  # without the correction it would be seen


@pytest.mark.parametrize("per_class", [False, True])
def test_the_correction_is_that_of_its_definition(per_class):
    """Of sites of any sign, against (K + W^-1)^-1 = W (I + K W)^-1 written out."""
    n, n_classes, rng = 5, 3, np.random.default_rng(2)
    gram = softmax_problem(n, n_classes, variance=1.0, per_class=per_class).gram
    entries = rng.uniform(-0.1, 1.0, (n, n_classes, n_classes))
    entries[:2] *= np.array([0.0, -0.1])[:, None, None]  # one says nothing, one makes less certain
    precision = -(entries + np.swapaxes(entries, 1, 2))
    every = np.arange(n_classes)
    precision[:, every, every] -= np.sum(precision, axis=2)
    assert np.linalg.eigvalsh(precision).min() < -0.01
    prior = np.zeros((n_classes, n, n_classes, n))
    sites = np.zeros((n_classes, n, n_classes, n))
    for c in every:
        prior[c, :, c] = gram[c] if per_class else gram
        sites[:, np.arange(n), c, np.arange(n)] = precision[:, :, c].T
    prior, sites = (each.reshape(n * n_classes, -1) for each in (prior, sites))
    both = np.eye(n * n_classes) + prior @ sites
    expected = sites @ np.linalg.inv(both)
    correction = MatrixSiteCorrection(gram, MatrixForm(precision))
    np.testing.assert_allclose(correction.dense().reshape(expected.shape), expected, atol=1e-10)
    assert correction.log_det == pytest.approx(np.linalg.slogdet(both)[1], abs=1e-10)
    values = rng.standard_normal((2, n, n_classes))
    stacked = np.swapaxes(values, 1, 2).reshape(2, -1)
    product = np.swapaxes(correction.multiply(values), 1, 2).reshape(2, -1)
    np.testing.assert_allclose(product, stacked @ expected, atol=1e-10)
    weights = np.linalg.solve(both.T, stacked[0])  # alpha = b - W K alpha
    np.testing.assert_allclose(correction.weights(values[0]).T.ravel(), weights, atol=1e-10)
    whole = (prior @ expected @ prior).reshape(n_classes, n, n_classes, n)
    cases = np.arange(n)
    np.testing.assert_allclose(correction.blocks(gram), whole[:, cases, :, cases], atol=1e-10)
    np.testing.assert_allclose(correction.class_block(1), expected[n : 2 * n, n : 2 * n], atol=1e-10)


def test_draws_have_the_moments_of_the_posterior_and_files_keep_it(tmp_path):
    X, codes = separable(12, 3)
    y, kernel = np.array(["a", "b", "c"])[codes.astype(int)], bgp.kernels.Gaussian(1.0, 3.0)
    idata = bgp.fit(X, y, kernel, bgp.MultinomialProbit(noise_variance=0), **FEW)
    ours, new = bgp.posterior(idata), X[:3] + 0.3
    for f, (mean, covariance) in (
        (ours.draw(20_000, np.random.default_rng(0)).f, ours.latent_covariance(X)),
        (ours.draw_new(new, 20_000, np.random.default_rng(0)), ours.latent_covariance(new)),
    ):
        error = 5.0 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).max() / 20_000)
        np.testing.assert_allclose(f.mean(axis=0), mean, atol=error)
        found = np.array([np.cov(f[:, i].T) for i in range(f.shape[1])])
        np.testing.assert_allclose(found, covariance, atol=8.0 * covariance.max() / np.sqrt(20_000))
    assert "log_likelihood" not in idata  # as of a step of two classes: it takes two values only
    assert "two values only" in idata["fit"].attrs["log_likelihood_omitted"]
    idata.to_netcdf(tmp_path / "fit.nc")
    again = bgp.posterior(arviz.from_netcdf(tmp_path / "fit.nc"))
    np.testing.assert_allclose(again.predict_proba(new), ours.predict_proba(new), atol=1e-12)
    assert again.problem.likelihood == noise_free(3)


def test_what_cannot_be_is_refused_in_words():
    X, codes = separable(8, 3)
    likelihood, kernel = bgp.MultinomialProbit(noise_variance=0), bgp.kernels.Gaussian(1.0, 3.0)
    twice, other = np.concatenate([X, X[:1]]), np.append(codes, (codes[0] + 1) % 3)
    with pytest.raises(InconsistentDataError, match=r"cases 0 and 8 have the same input .*MultinomialProbit\(noise"):
        bgp.fit(twice, other, kernel, likelihood, draws=1)
    names = np.array(["low", "mid", "high"])[other.astype(int)]
    told = f"classes '{names[0]}' and '{names[-1]}', which"
    with pytest.raises(InconsistentDataError, match=told):  # as their user calls them
        bgp.fit(twice, names, kernel, likelihood, draws=1)
    with pytest.raises(InconsistentDataError, match="same input"):
        bgp.fit(twice, other, bgp.kernels.PerClass(*[kernel] * 3), likelihood, draws=1)
    with pytest.raises(InconsistentDataError, match=r"no function of this prior .*MultinomialProbit\(noise"):
        bgp.fit(X, np.arange(8) % 3, bgp.kernels.Linear(1.0), likelihood, draws=1)
    with pytest.raises(ValueError, match=r"inducing needs .*MultinomialProbit\(noise_variance=1.0\)"):
        bgp.fit(X, codes, kernel, likelihood, inducing=4)
    fitted = bgp.fit(X, codes, bgp.kernels.Linear(1.0) + bgp.kernels.Bias(), likelihood, draws=1)
    assert np.isfinite(bgp.posterior(fitted).log_evidence)  # separable ones have an answer


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("noise_variance", [0.0, 1e-8])
def test_an_observed_input_has_the_class_of_its_label(n_classes, noise_variance):
    X, codes = np.random.default_rng(0).standard_normal((16, 2)), np.arange(16.0) % n_classes
    kernel = bgp.kernels.Gaussian(0.5, 1.0)
    problem = bgp.Problem(kernel.gram(X), codes, noise_free(n_classes, noise_variance))
    posterior = MulticlassPosterior(kernel, X, problem, bgp.solve(problem.dense_gram, codes, problem.likelihood))
    own = range(16), codes.astype(int)
    # another class needs two functions to change places within the distance, or noise, and is as likely as that is far
    for distance in (0.0, 1e-10, 1e-8, 1e-6, 1e-4):
        assert np.all(posterior.predict_proba(X + distance)[own] > 1.0 - 5e-4 - 20.0 * distance)
    assert np.all(posterior.log_density_at_training > -5e-4)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_where_all_functions_are_zero_no_class_is_preferred(n_classes):
    X, t = separable(12, n_classes)
    kernel, likelihood = bgp.kernels.Linear(1.0), bgp.MultinomialProbit(noise_variance=0)
    posterior = bgp.posterior(bgp.fit(X, t.astype(int), kernel, likelihood, **FEW))
    proba = posterior.predict_proba(np.array([[0.0, 0.0], X[0]]))
    np.testing.assert_allclose(proba[0], 1.0 / n_classes, atol=1e-12)
    assert np.argmax(proba[1]) == t[0]
