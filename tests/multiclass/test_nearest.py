from __future__ import annotations

import arviz
import numpy as np
import pytest
from scipy.special import log_softmax, ndtri, softmax
from scipy.stats import qmc

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.softmax_tilted import tilted_probabilities
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.multiclass.nearest import NearestCases
from bayesgp_mf.multiclass.star_tap import star_tap

X = np.array([[0.0], [0.7], [2.5], [3.0]])
CODES = np.array([0, 0, 1, 2])
KERNEL = bgp.kernels.Gaussian(1.0, 40.0)


def solved(per_class=False):
    gram = KERNEL.gram(X)
    if per_class:
        gram = np.stack([(1.0 + 0.2 * c) * gram for c in range(3)])
    problem = bgp.Problem(gram, CODES.astype(float), bgp.Softmax(("a", "b", "c")))
    return problem, star_tap.solve(problem)


def at(problem, solution, new):
    """Probabilities by the nearest case, and by the Gaussian posterior."""
    new = np.asarray(new)[:, None]
    cross, prior = KERNEL.cross(X, new), np.full((new.shape[0], 3), 40.0)
    if problem.gram.ndim == 3:
        scale = 1.0 + 0.2 * np.arange(3)
        cross, prior = scale[:, None, None] * cross, scale * prior
    mean = np.stack([(cross if cross.ndim == 2 else cross[c]).T @ solution.alpha[:, c] for c in range(3)], axis=1)
    covariance = prior[:, :, None] * np.eye(3) - solution.correction.blocks(cross)
    plain = tilted_probabilities(mean, covariance)
    return NearestCases(problem, solution).probabilities(cross, prior), plain


@pytest.mark.parametrize("per_class", [False, True])
def test_at_an_observed_input_it_is_the_tilted_distribution(per_class):
    problem, solution = solved(per_class)
    near, plain = at(problem, solution, X[:, 0])
    exact = np.eye(3)[CODES] - solution.alpha  # the average of e_t - pi is the gradient of log Z
    np.testing.assert_allclose(near, exact, atol=4e-3)
    assert np.abs(plain - exact).max() > 0.03


def test_far_away_it_is_the_gaussian():
    near, plain = at(*solved(), [40.0, -25.0])
    np.testing.assert_allclose(near, plain, atol=2e-3)  # the error of the average
    np.testing.assert_allclose(plain, 1.0 / 3.0, atol=1e-9)


def test_it_is_nearer_to_exact_sampling():
    problem, solution = solved()
    new = np.array([0.05, 0.35, 2.45, 2.75, 3.1])
    every = np.concatenate([X, new[:, None]])
    root = np.linalg.cholesky(KERNEL.gram(every) + 1e-9 * np.eye(9))
    # the observed cases by Sobol's points of the prior, the new ones along with them
    z = ndtri(qmc.Sobol(27, scramble=True, seed=2).random_base2(17)).reshape(-1, 9, 3)
    f = np.einsum("ij,kjc->kic", root, z)
    weight = np.exp(log_softmax(f[:, :4], axis=-1)[:, np.arange(4), CODES].sum(axis=1))
    exact = np.einsum("k,kic->ic", weight / weight.sum(), softmax(f[:, 4:], axis=-1))
    near, plain = at(problem, solution, new)
    assert np.abs(near - exact).max() < 0.5 * np.abs(plain - exact).max()
    np.testing.assert_allclose(near, exact, atol=0.03)
    np.testing.assert_allclose(near.sum(axis=1), 1.0)


def test_it_needs_tap():
    problem, _ = solved()
    with pytest.raises(ValueError, match="cavities of method 'tap'"):
        at(problem, multiclass_laplace.solve(problem), [0.0])


def test_predict_goes_this_way_also_from_a_file(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((24, 2))
    y = np.array(["ash", "birch", "cedar"])[np.argmax(X @ rng.standard_normal((2, 3)), axis=1)]
    kernel = bgp.kernels.Gaussian(1.0, 40.0)
    idata = bgp.fit(X, y, kernel, bgp.Softmax(), method="tap", draws=2, chains=1, random_seed=1)
    X_new = np.concatenate([X[:3], rng.standard_normal((4, 2))])
    posterior = bgp.posterior(idata)
    codes = posterior.problem.t.astype(int)
    cross, prior = kernel.cross(X, X_new), np.full((7, 3), 40.0)
    solution = bgp.solve(kernel.gram(X), codes, bgp.Softmax())
    expected = NearestCases(posterior.problem, solution).probabilities(cross, prior)
    found = bgp.predict(idata, X_new, random_seed=1)["predictions"]["p"].values
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # of an observed case the answer is known without an integral, and the Gaussian's is another
    np.testing.assert_allclose(found[:3], np.eye(3)[codes[:3]] - solution.alpha[:3], atol=5e-3)
    gaussian = bgp.Softmax().predict_proba(*posterior.latent_covariance(X_new))
    assert np.max(np.abs(gaussian[:3] - found[:3])) > 0.02
    np.testing.assert_allclose(np.exp(posterior.log_density_at_training), 1.0 - solution.alpha[np.arange(24), codes])
    idata.to_netcdf(str(tmp_path / "tap.nc"))
    again = bgp.posterior(arviz.from_netcdf(str(tmp_path / "tap.nc")))
    np.testing.assert_allclose(again.predict_proba(X_new), found, atol=1e-6)
    np.testing.assert_allclose(again.loo.log_density, posterior.loo.log_density, atol=1e-6)


def test_where_nothing_is_told_nothing_is_changed():
    kernel = bgp.kernels.Gaussian(1.0, 95.0)
    problem = bgp.Problem(kernel.gram(X), CODES.astype(float), bgp.Softmax(("a", "b", "c")))
    far = NearestCases(problem, star_tap.solve(problem)).probabilities(kernel.cross(X, [[1e6]]), np.full((1, 3), 95.0))
    np.testing.assert_allclose(far, 1.0 / 3.0, atol=1e-10)


def test_a_new_case_without_variance_is_certain():
    linear = bgp.kernels.Linear(1.0)
    problem = bgp.Problem(linear.gram(X + 1.0), CODES.astype(float), bgp.Softmax(("a", "b", "c")))
    solution, new = star_tap.solve(problem), np.array([[0.0], [1.5], [1e-3]])
    cross, prior = linear.cross(X + 1.0, new), np.repeat(linear.diag(new)[:, None], 3, axis=1)
    found = NearestCases(problem, solution).probabilities(cross, prior)
    np.testing.assert_allclose(found[0], 1.0 / 3.0, atol=1e-12)
    np.testing.assert_allclose(found[2], 1.0 / 3.0, atol=1e-3)  # and it is the limit
    np.testing.assert_allclose(found[1:], NearestCases(problem, solution).probabilities(cross[:, 1:], prior[1:]))
    assert np.abs(found[1] - 1.0 / 3.0).max() > 0.03
