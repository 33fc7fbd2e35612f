"""Probabilities of new cases under a multinomial probit, with the sites of the nearest observed cases matched anew."""

from __future__ import annotations

import arviz
import numpy as np
import pytest
from scipy.stats import qmc

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import probit_tilted
from bayesgp_mf.multiclass.class_gram import MatrixSiteCorrection
from bayesgp_mf.multiclass.correction import SoftmaxCorrection
from bayesgp_mf.multiclass.joint import JointCases
from bayesgp_mf.multiclass.site_form import MatrixForm, StarForm
from bayesgp_mf.multiclass.star_tap import star_tap
from bayesgp_mf.processes.several_classes import MulticlassPosterior
from tests.multiclass.block_correction import quadratic
from validation.multinomial.density import probabilities

X = np.array([[0.0], [0.7], [2.5], [3.0]])
CODES = np.array([0, 0, 1, 2])


def process(variance=40.0, X=X, codes=CODES, n_classes=3, per_class=False, noise_variance=1.0):
    each = [bgp.kernels.Gaussian(1.0 + 0.1 * c, (1.0 + 0.2 * c) * variance) for c in range(n_classes)]
    kernel = bgp.kernels.PerClass(*each) if per_class else each[0]
    likelihood = bgp.MultinomialProbit(range(n_classes), noise_variance=noise_variance)
    problem = bgp.Problem(kernel.gram(X), codes.astype(float), likelihood)
    return MulticlassPosterior(kernel, X, problem, star_tap.solve(problem), star_tap)


def gaussian(posterior, new):
    return posterior.problem.likelihood.predict_proba(*posterior.latent_covariance(new))


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("per_class", [False, True])
def test_at_an_observed_input_it_is_the_tilted_distribution(n_classes, per_class):
    posterior = process(n_classes=n_classes, per_class=per_class)
    white = qmc.MultivariateNormalQMC(np.zeros(n_classes), seed=1).random(2**13)
    exact = []
    for code, mean, covariance in zip(CODES, *posterior.solution.cavity, strict=True):
        p = probabilities(mean + white @ np.linalg.cholesky(covariance).T)
        exact.append(p[:, code] @ p / p[:, code].sum())
    # its own error, that of expectation propagation for two labels of the same latent values
    np.testing.assert_allclose(posterior.predict_proba(X), exact, atol=0.015)
    assert np.abs(gaussian(posterior, X) - exact).max() > 0.04


def test_probabilities_do_not_depend_on_the_other_new_cases():
    posterior, new = process(), np.linspace(-1.0, 4.0, 23)[:, None]
    alone = np.concatenate([posterior.predict_proba(x[None]) for x in new])
    np.testing.assert_allclose(posterior.predict_proba(new), alone, rtol=1e-11)


def test_it_is_nearer_to_the_exact_posterior():
    posterior = process()
    new = np.array([[0.05], [0.35], [1.6], [2.45], [2.75], [3.1]])
    every = np.concatenate([X, new])
    root = np.linalg.cholesky(posterior.kernel.gram(every) + 1e-9 * np.eye(10))
    z = qmc.MultivariateNormalQMC(np.zeros(30), seed=2).random(2**16).reshape(-1, 10, 3)
    p = probabilities(np.einsum("ij,kjc->kic", root, z).reshape(-1, 3)).reshape(-1, 10, 3)
    weight = np.prod(p[:, range(4), CODES], axis=1)
    exact = np.einsum("k,kic->ic", weight / weight.sum(), p[:, 4:])
    found, plain = posterior.predict_proba(new), gaussian(posterior, new)
    np.testing.assert_allclose(found, exact, atol=0.012)
    assert np.abs(found - exact).max() < 0.3 * np.abs(plain - exact).max()
    assert np.sqrt(np.mean((found - exact) ** 2)) < 0.3 * np.sqrt(np.mean((plain - exact) ** 2))


@pytest.mark.parametrize("counts", [(2, 0, 0), (9, 1, 0), (5, 3, 1)])
def test_labels_that_share_an_input_are_one_integral(counts):
    variance, codes = 100.0, np.repeat(range(3), counts)
    basis = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]).T / np.sqrt([2.0, 6.0])  # along what separates the first two
    reach = np.linspace(-1.0, 1.0, 301) * np.arcsinh(7.0 * np.sqrt(variance))
    node, weight = np.sinh(reach), np.cosh(reach) * np.exp(-0.5 * np.sinh(reach) ** 2 / variance)
    at = np.stack(np.meshgrid(node, node, indexing="ij"), axis=-1).reshape(-1, 2)
    p = probabilities(at @ basis.T)
    weights = np.outer(weight, weight).ravel() * np.prod(p ** np.array(counts), axis=1)
    exact = weights @ p / weights.sum()
    posterior = process(variance, X=np.zeros((codes.size, 1)), codes=codes)
    (found,), (plain,) = posterior.predict_proba([[0.0]]), gaussian(posterior, [[0.0]])
    np.testing.assert_allclose(found, exact, atol=0.005)
    assert np.abs(found - exact).max() < 0.2 * np.abs(plain - exact).max() or np.abs(plain - exact).max() < 1e-3


def test_with_all_cases_it_is_the_ratio_of_evidences():
    posterior = process()  # four cases, all of them near
    new = np.array([[1.5], [2.6]])
    found = posterior.predict_proba(new)
    for row, at in zip(found, new, strict=True):
        value = [process(X=np.vstack([X, at]), codes=np.append(CODES, c)).log_evidence for c in range(3)]
        ratio = np.exp(np.array(value) - posterior.log_evidence)
        np.testing.assert_allclose(row, ratio / ratio.sum(), atol=2e-5)


def test_far_away_nothing_is_changed():
    posterior = process(n_classes=5)
    np.testing.assert_allclose(posterior.predict_proba([[1e3]]), 0.2, atol=1e-9)


def test_names_of_classes_and_order_of_cases_mean_nothing():
    posterior, new = process(), np.array([[0.3], [2.7], [5.0]])
    order, turn = np.array([2, 0, 3, 1]), np.array([1, 2, 0])
    other = process(X=X[order], codes=turn[CODES[order]])
    np.testing.assert_allclose(other.predict_proba(new)[:, turn], posterior.predict_proba(new), atol=1e-5)


def test_a_wide_prior_is_sure_of_an_observed_case():
    # as the prior widens, so does the share of latent values that a label leaves open
    p = [process(variance).predict_proba(X).min(axis=0) for variance in (1e2, 1e4, 1e6)]
    shares = [1.0 - process(v).predict_proba(X[:1])[0, 0] for v in (1e2, 1e4, 1e6)]
    assert np.all(np.diff(shares) < 0)
    assert shares[-1] == pytest.approx(0.1 * shares[-2], rel=0.1)  # in proportion to the noise's sd over the prior's
    assert np.all(np.array(p) > 0)
    assert 1.0 - gaussian(process(1e6), X[:1])[0, 0] > 50.0 * shares[-1]  # which the Gaussian is not


def test_a_case_of_which_all_is_known_is_certain():
    kernel, codes = bgp.kernels.Linear(30.0), CODES.astype(float)
    problem = bgp.Problem(kernel.gram(X + 1.0), codes, bgp.MultinomialProbit(range(4)))
    posterior = MulticlassPosterior(kernel, X + 1.0, problem, star_tap.solve(problem), star_tap)
    np.testing.assert_allclose(posterior.predict_proba([[0.0]]), 0.25, atol=1e-9)
    np.testing.assert_allclose(posterior.predict_proba([[1e-7]]), 0.25, atol=1e-5)


def test_two_classes_are_a_probit():
    posterior = process(codes=np.array([0, 1, 1, 0]), n_classes=2)
    np.testing.assert_array_equal(posterior.predict_proba(X), gaussian(posterior, X))


def test_predict_goes_this_way_also_from_a_file(tmp_path):
    rng = np.random.default_rng(4)
    inputs = rng.standard_normal((24, 2))
    y = np.array(["ash", "birch", "cedar", "dogwood"])[np.argmax(inputs @ rng.standard_normal((2, 4)), axis=1)]
    kernel = bgp.kernels.Gaussian(1.0, 40.0)
    idata = bgp.fit(inputs, y, kernel, bgp.MultinomialProbit(), draws=2, chains=1, random_seed=1)
    new = np.concatenate([inputs[:3], rng.standard_normal((4, 2))])
    found = bgp.predict(idata, new, random_seed=1)["predictions"]["p"].values
    assert np.abs(found - gaussian(bgp.posterior(idata), new)).max() > 0.02
    idata.to_netcdf(str(tmp_path / "tap.nc"))
    again = bgp.posterior(arviz.from_netcdf(str(tmp_path / "tap.nc")))
    np.testing.assert_allclose(again.predict_proba(new), found, atol=1e-5)
    codes = again.problem.t.astype(int)
    own = again.predict_proba(inputs)[range(24), codes]
    np.testing.assert_allclose(np.exp(again.log_density_at_training), own, atol=1e-9)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("form", ["star", "matrix"])
def test_a_correction_tells_of_pairs_what_it_tells_of_all(shared, form):
    rng = np.random.default_rng(3)
    gram = bgp.kernels.Gaussian(1.0, 3.0).gram(X)
    cross = bgp.kernels.Gaussian(1.0, 3.0).cross(X, [[0.2], [2.6], [9.0]])
    if not shared:
        scale = np.array([1.0, 1.5, 2.0])[:, None, None]
        gram, cross = scale * gram, scale * cross
    weight = rng.uniform(0.1, 2.0, (4, 3))
    weight[2, 1] = 0.0
    if form == "star":
        correction = SoftmaxCorrection(gram, StarForm(weight))
    else:
        root = rng.standard_normal((4, 3, 3))
        root -= root.mean(axis=1, keepdims=True)
        correction = MatrixSiteCorrection(gram, MatrixForm(root @ np.swapaxes(root, 1, 2)))
    every = np.concatenate([gram, cross], axis=-1)
    whole = np.transpose(quadratic(correction, every), (1, 3, 0, 2))  # case, case, class, class
    which = np.array([[0, 3], [2, 1], [3, 2]])
    between = correction.blocks_between(which, cross)
    among = correction.blocks_among(which)
    for j, (a, b) in enumerate(which):
        np.testing.assert_allclose(between[j], whole[[a, b], 4 + j], atol=1e-12)
        np.testing.assert_allclose(among[j], whole[np.ix_([a, b], [a, b])], atol=1e-12)


def test_what_does_not_settle_is_said(monkeypatch):
    monkeypatch.setattr("bayesgp_mf.multiclass.joint.SWEEPS", 1)
    with pytest.raises(bgp.ConvergenceError, match="Predict with less variance"):
        process().predict_proba(X)


def test_rounding_that_decides_is_said():
    posterior = process()
    broken = JointCases(posterior.problem, posterior.solution)
    turned = posterior.problem.dense_gram[:, :1] * 1e9  # no covariance of a case with others
    with pytest.raises(bgp.NotPositiveDefiniteError, match="rounding decides"):
        broken.probabilities(turned, np.full((1, 3), 40.0))


def test_logarithms_of_integrals_do_not_move():
    # what EP lacks of each probability is put right beside what the nearest cases change
    posterior = process(n_classes=6)
    mean, covariance = posterior.latent_covariance([[1e2]])
    exact = np.exp(probit_tilted.log_probabilities(mean, covariance, 1.0))
    np.testing.assert_allclose(posterior.predict_proba([[1e2]]), exact, atol=1e-12)
