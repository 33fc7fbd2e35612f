"""TAP for several classes under the multinomial probit: two classes, symmetry, exact integrals, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.multiclass.star_tap import star_tap
from tests.integrals import over_gaussian
from tests.multiclass.cases import softmax_problem

TIGHT = bgp.Control(tolerance=1e-10)


def probit_problem(n, n_classes, **options):
    problem = softmax_problem(n, n_classes, **options)
    return bgp.Problem(problem.gram, problem.t, bgp.MultinomialProbit(tuple("abcdefghij"[:n_classes])))


def test_two_classes_are_binary_tap():
    X = np.random.default_rng(0).standard_normal((40, 2))
    y, kernel = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "yes", "no"), bgp.kernels.Gaussian(1.0, 3.0)
    several = bgp.fit(X, y, kernel, bgp.MultinomialProbit(), draws=1)
    # f_1 - f_0 has twice the prior variance and twice the noise: the ratio is that of one function and unit noise
    binary = bgp.fit(X, y, kernel, bgp.Probit(), draws=1)
    ours, theirs = bgp.posterior(several), bgp.posterior(binary)
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, abs=1e-9)
    new = np.random.default_rng(1).standard_normal((9, 2)) * 2.0
    np.testing.assert_allclose(ours.predict_proba(new)[:, 1], theirs.predict_proba(new), atol=1e-8)
    np.testing.assert_allclose(ours.loo.log_density, theirs.loo.log_density, atol=1e-8)
    gradient, binary_gradient = (p.method.gram_gradient(p.problem, p.solution) for p in (ours, theirs))
    np.testing.assert_allclose(gradient, binary_gradient, atol=1e-8)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_permuting_the_classes_permutes_the_answer(n_classes):
    problem = probit_problem(14, n_classes, per_class=True)
    order = np.roll(np.arange(n_classes), 1)
    renamed = bgp.Problem(problem.gram[order], np.argsort(order)[problem.t.astype(int)] * 1.0, problem.likelihood)
    one, other = star_tap.solve(problem, TIGHT), star_tap.solve(renamed, TIGHT)
    assert other.evidence.value == pytest.approx(one.evidence.value, abs=1e-9)
    np.testing.assert_allclose(other.alpha, one.alpha[:, order], atol=1e-8)


@pytest.mark.parametrize("variances", [[1.0, 1.0, 1.0], [5.0, 0.2, 30.0], [1e4, 1e-3, 1.0], [0.01, 3e5, 200.0]])
def test_one_case_of_three_classes_is_the_exact_integral(variances):
    gram = np.array(variances)[:, None, None]
    for t in range(3):
        solution = bgp.solve(gram, [t], bgp.MultinomialProbit(("a", "b", "c")))
        others = np.delete(variances, t) + 1.0

        def all_below(f, analytic, others=others):
            return (-f / float(np.sqrt(2 * others[0]))).erfc() * (-f / float(np.sqrt(2 * others[1]))).erfc() / 4

        exact = float(over_gaussian(all_below, 0.0, variances[t] + 1.0).mid())
        assert solution.evidence.value == pytest.approx(np.log(exact), abs=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_is_that_of_the_evidence(per_class, n_classes):
    problem = probit_problem(12, n_classes, per_class=per_class)
    problem = bgp.Problem(problem.gram + 0.01 * np.eye(12), problem.t, problem.likelihood)  # a matrix still below it
    gradient = star_tap.gram_gradient(problem, star_tap.solve(problem, TIGHT))
    factor = np.random.default_rng(4).standard_normal(problem.gram.shape)
    direction, step = factor @ np.swapaxes(factor, -1, -2) / 12.0, 1e-4
    values = [
        star_tap.solve(bgp.Problem(problem.gram + s * direction, problem.t, problem.likelihood), TIGHT).evidence.value
        for s in (step, -step)
    ]
    difference = (values[0] - values[1]) / (2.0 * step)
    assert np.sum(gradient * direction) == pytest.approx(difference, rel=1e-6)
    own_only = 0.5 * np.sum(direction * np.sum(np.einsum("ic,jc->cij", *2 * [solution_alpha(problem)]), axis=0))
    assert own_only != pytest.approx(difference, rel=1e-3)  # without the correction it would be seen


def solution_alpha(problem):
    return star_tap.solve(problem, TIGHT).alpha


def test_noise_is_a_white_part_of_the_kernel():
    """Noise of the classes may stand in the likelihood, or in the kernel: one model, if not one approximation."""
    X = np.random.default_rng(5).standard_normal((10, 2))
    t = np.arange(10.0) % 3
    gram = bgp.kernels.Gaussian(1.0, 2.0).gram(X)
    scaled = bgp.solve(3.0 * gram, t, bgp.MultinomialProbit(("a", "b", "c"), noise_variance=3.0))
    plain = bgp.solve(gram, t, bgp.MultinomialProbit(("a", "b", "c")))
    assert scaled.evidence.value == pytest.approx(plain.evidence.value, abs=1e-8)  # units are no matter
    apart = bgp.solve(gram + 0.5 * np.eye(10), t, bgp.MultinomialProbit(("a", "b", "c"), noise_variance=0.5))
    assert apart.evidence.value == pytest.approx(plain.evidence.value, abs=0.05)


def test_other_labels_near_one_another_under_a_large_variance_settle():
    glass = bgp.datasets.load_forensic_glass()
    _, _, axes = np.linalg.svd(glass.X - glass.X.mean(axis=0), full_matrices=False)
    X, codes = (glass.X @ axes[:2].T)[:150], np.unique(glass.y, return_inverse=True)[1][:150] * 1.0
    smaller, problem = (
        bgp.Problem(bgp.kernels.Gaussian(2.0, variance).gram(X), codes, bgp.MultinomialProbit())
        for variance in (100.0, 400.0)
    )
    from_prior, in_steps = star_tap.solve(problem), star_tap.solve(problem, start=star_tap.solve(smaller))
    assert from_prior.evidence.value == pytest.approx(in_steps.evidence.value, abs=1e-7)


def test_many_classes_and_a_container():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((28, 2)) * 3.0
    y = np.array([chr(97 + i % 14) for i in range(28)])
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 3.0), bgp.MultinomialProbit(), draws=10, random_seed=1)
    again = bgp.posterior(idata)
    proba = again.predict_proba(X[:2])
    assert proba.shape == (2, 14)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert again.problem.likelihood == bgp.MultinomialProbit(tuple(sorted(set(y))))
