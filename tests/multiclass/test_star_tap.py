from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.star import star_weights
from bayesgp_mf.methods import METHODS, get_method
from bayesgp_mf.multiclass.class_gram import without_own_site
from bayesgp_mf.multiclass.correction import SoftmaxCorrection
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.multiclass.star_tap import StarTap, star_tap
from tests.multiclass.cases import NAMES, softmax_problem
from tests.multiclass.reference_tap import multiclass_tap


def test_weights_are_found_from_the_diagonal():
    weight = np.random.default_rng(0).gamma(0.5, size=(500, 6))
    weight[0] = 1.0
    weight[1] = [100.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    diagonal = weight * (1.0 - weight / weight.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(star_weights(diagonal), weight, rtol=1e-9)
    assert np.abs(star_weights(1.01 * diagonal) / weight - 1.0).min() > 1e-3  # the comparison can fail


@pytest.mark.parametrize("n_classes", [2, 3])
def test_up_to_three_classes_the_form_is_no_restriction(n_classes):
    problem = softmax_problem(10, n_classes, per_class=n_classes == 3)
    ours, general = star_tap.solve(problem), multiclass_tap.solve(problem)
    assert ours.evidence.value == pytest.approx(general.evidence.value, abs=1e-9)
    np.testing.assert_allclose(ours.alpha, general.alpha, atol=1e-7)
    np.testing.assert_allclose(ours.correction.site.precision, general.correction.site.precision, atol=1e-7)
    np.testing.assert_allclose(ours.cavity.variance, general.cavity.variance, atol=1e-6)


@pytest.mark.parametrize("n_classes", [4, 6])
def test_with_more_classes_the_restriction_is_hardly_seen(n_classes):
    problem = softmax_problem(14, n_classes, variance=10.0)
    ours, general = (type(s)(points=3).solve(problem) for s in (star_tap, multiclass_tap))
    assert ours.evidence.value == pytest.approx(general.evidence.value, abs=1e-3)
    np.testing.assert_allclose(ours.alpha, general.alpha, atol=5e-4)
    assert abs(multiclass_laplace.solve(problem).evidence.value - general.evidence.value) > 0.05


def test_two_classes_are_binary_tap():
    problem = softmax_problem(12, 2)
    binary = bgp.Problem(2.0 * problem.gram, 2.0 * problem.t - 1.0, bgp.Logit())
    ours, theirs = star_tap.solve(problem), METHODS["tap"].solve(binary)
    assert ours.evidence.value == pytest.approx(theirs.evidence.value, abs=1e-9)
    np.testing.assert_allclose(ours.alpha[:, 1], theirs.alpha, atol=1e-7)


@pytest.mark.parametrize(("n_classes", "tolerance"), [(3, 1e-6), (4, 1e-2)])
@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_is_that_of_the_evidence(per_class, n_classes, tolerance):
    problem = softmax_problem(7, n_classes, per_class=per_class)
    gradient = star_tap.gram_gradient(problem, star_tap.solve(problem))
    factor = np.random.default_rng(4).standard_normal(problem.gram.shape)
    direction, step = factor @ np.swapaxes(factor, -1, -2), 1e-4
    values = [
        star_tap.solve(bgp.Problem(problem.gram + s * direction, problem.t, problem.likelihood)).evidence.value
        for s in (step, -step)
    ]
    assert np.sum(gradient * direction) == pytest.approx((values[0] - values[1]) / (2.0 * step), rel=tolerance)


def test_a_warm_start_leads_to_the_same_place():
    problem = softmax_problem(10, 4)
    cold = star_tap.solve(problem)
    for start in (cold, multiclass_laplace.solve(problem)):
        np.testing.assert_allclose(star_tap.solve(problem, start=start).alpha, cold.alpha, atol=1e-7)
    assert star_tap.solve(problem, start=cold).info.n_iterations < cold.info.n_iterations / 3


def probit_problem(variance):
    problem = softmax_problem(40, 4, variance=variance)
    return bgp.Problem(problem.gram, problem.t, bgp.MultinomialProbit(NAMES[:4]))


def test_it_stops_where_the_evidence_is_known():
    problem, known = probit_problem(20.0), bgp.Control(evidence_tolerance=1e-7)
    whole, enough = star_tap.solve(problem), star_tap.solve(problem, known)
    assert enough.info.n_iterations < whole.info.n_iterations
    assert enough.info.residual > 1e-8
    assert 0.0 < abs(enough.evidence.value - whole.evidence.value) < 1e-7
    of_four = softmax_problem(10, 4)  # whose evidence is not stationary
    assert star_tap.solve(of_four, known).info.residual <= known.tolerance


def test_a_start_under_another_kernel_has_its_sites():
    near, problem = star_tap.solve(probit_problem(10.0)), probit_problem(1000.0)
    from_near, cold = star_tap.solve(problem, start=near), star_tap.solve(problem)
    np.testing.assert_allclose(from_near.alpha, cold.alpha, atol=1e-7)
    without_cavities = star_tap.solve(problem, start=replace(near, cavity=None))  # as it is read from a file
    assert from_near.info.n_iterations < min(cold.info.n_iterations, without_cavities.info.n_iterations)


def test_leaving_out_is_the_cavity():
    problem = softmax_problem(8, 3)
    solution = star_tap.solve(problem)
    loo, general = star_tap.leave_one_out(problem, solution), multiclass_tap.solve(problem)
    np.testing.assert_allclose(loo.log_density, multiclass_tap.leave_one_out(problem, general).log_density, atol=1e-7)
    own = loo.probability[np.arange(8), problem.t.astype(int)]
    np.testing.assert_allclose(np.exp(loo.log_density), own, atol=1e-6)


def test_it_is_the_registered_method_and_goes_through_a_container():
    assert get_method("tap", bgp.Softmax()) is star_tap
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2))
    y = np.array(["p", "q", "r"])[(X @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])).argmax(axis=1)]
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 3.0), bgp.Softmax(), method="tap", draws=20, random_seed=1)
    assert idata["fit"].attrs["evidence_kind"] == "ep"
    again = bgp.posterior(idata)
    assert isinstance(again.solution.correction, SoftmaxCorrection)
    assert again.solution.cavity is None
    np.testing.assert_allclose(again.loo.log_density, idata["fit"]["loo_i"].values, atol=1e-7)


def test_what_it_refuses():
    problem = softmax_problem(5, 3)
    with pytest.raises(ValueError, match="C numbers for each site"):
        star_tap.solve(problem, start=multiclass_tap.solve(problem))
    gram = problem.gram.copy()
    gram[0] = gram[:, 0] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match="case 0 is zero"):
        StarTap().solve(bgp.Problem(gram, problem.t, problem.likelihood))
    with pytest.raises(bgp.ConvergenceError):
        star_tap.solve(problem, bgp.Control(max_iterations=2))


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize(("variance", "lengthscale"), [(10.0, 0.3), (30.0, 0.3), (100.0, 0.3), (100.0, 1.0)])
def test_it_converges_where_kernels_are_ordinary(n_classes, variance, lengthscale):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    codes = (X @ rng.standard_normal((2, n_classes)) + 0.3 * rng.standard_normal((40, n_classes))).argmax(axis=1)
    gram = bgp.kernels.Gaussian(lengthscale, variance).gram(X)
    solution = bgp.solve(gram, codes, bgp.Softmax(tuple(range(n_classes))))
    assert solution.info.n_iterations < 60


@pytest.mark.parametrize(("n_classes", "tolerance"), [(2, 1e-12), (3, 1e-7), (4, 1e-3)])
@pytest.mark.parametrize("variance", [200.0, 400.0, 1e4])
def test_a_single_case_has_the_evidence_of_a_guess(n_classes, tolerance, variance):
    solution = bgp.solve([[variance]], [0], bgp.Softmax(tuple(range(n_classes))))
    assert solution.evidence.value == pytest.approx(-np.log(n_classes), abs=tolerance)


def test_many_classes_are_refused_before_memory_runs_out():
    likelihood = bgp.Softmax(tuple(range(30)))
    with pytest.raises(
        ValueError, match=r"beyond 10 classes under a softmax, and there are 30.*MultinomialProbit.*laplace"
    ):
        bgp.solve(2.0 * np.eye(30), np.arange(30.0), likelihood)
    kernel, X = bgp.kernels.Gaussian(), np.arange(60.0)[:, None]
    for options in ({"hyper": "evidence"}, {"method": "laplace", "hyper": bgp.hyper.Evidence(method="tap")}):
        with pytest.raises(ValueError, match="beyond 10 classes"):
            bgp.fit(X, np.arange(60) % 30, kernel, likelihood, progress=False, **options)


def test_advice_for_several_classes_is_not_that_for_two():
    with pytest.raises(
        bgp.ConvergenceError, match=r"Use method='laplace', a larger Control\(tolerance=...\), or"
    ) as error:
        star_tap.solve(softmax_problem(8, 3), bgp.Control(max_iterations=2))
    assert "Probit" not in str(error.value)
    assert error.value.status.name == "MAX_ITERATIONS"


def test_a_site_that_says_all_is_refused_in_words_and_not_by_lapack():
    """A search at large variances came to such a matrix, and ended in NumPy's LinAlgError."""
    sigma = np.eye(3)[None]
    with pytest.raises(NotPositiveDefiniteError, match="says all that is known"):
        without_own_site(sigma, np.ones((1, 3, 2)), np.zeros((1, 2, 2)))
