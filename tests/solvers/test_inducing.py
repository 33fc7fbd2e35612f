"""Every method on inducing cases is the same method on the dense matrix Q + diag(d)."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.hyper import EvidenceScore, LooScore, Objective, Target
from bayesgp_mf.inference.assembly import assemble_inducing
from bayesgp_mf.kernels import Bias, Matern32, White
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.processes.single import Posterior

RNG = np.random.default_rng(4)
N = 60
X = RNG.uniform(-2.0, 2.0, (N, 2))
Z = np.concatenate([X[:4], RNG.uniform(-2.0, 2.0, (6, 2))])
X_NEW = RNG.uniform(-3.0, 3.0, (15, 2))
FIELD = X[:, 0] + X[:, 1] ** 2 - 1.0
LABELS = np.where(FIELD + 0.5 * RNG.standard_normal(N) > 0, 1.0, -1.0)
LABELS[np.argmax(FIELD)] = -1.0  # which flips explain: a negative site
REAL = FIELD + 0.3 * RNG.standard_normal(N)
KERNELS = {"smooth": Matern32([0.8, 1.3], 2.0) + Bias(0.5)}
KERNELS["with noise"] = KERNELS["smooth"] + White(0.3)
TIGHT = bgp.Control(tolerance=1e-11)
SOLVED = [
    ("tap", bgp.Probit(), LABELS),
    ("tap", bgp.Logit(), LABELS),
    ("tap", bgp.Probit(0.5, 0.1), LABELS),
    ("naive", bgp.Probit(), LABELS),
    ("naive", bgp.Logit(), LABELS),
    ("laplace", bgp.Probit(), LABELS),
    ("laplace", bgp.Logit(), LABELS),
    ("laplace", bgp.Probit(0.5, 0.1), LABELS),
    *((method, Gaussian(0.3), REAL) for method in ("tap", "naive", "laplace", "exact")),
]
everything = pytest.mark.parametrize(("method", "likelihood", "t"), SOLVED, ids=lambda value: str(value)[:20])
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def explained(kernel, points, others):
    """Return K_nm K_mm^-1 K_mo, by other code."""
    return kernel.cross(X, points) @ np.linalg.solve(kernel.cross(points, points), kernel.cross(points, others))


def dense_of(kernel, points):
    """Return Q + diag(d) ``(n, n)``, and the covariances ``(n, m)`` with new cases."""
    gram = explained(kernel, points, X)
    gram = (gram + gram.T) / 2
    np.fill_diagonal(gram, kernel.diag(X))
    return gram, explained(kernel, points, X_NEW)


def solved(problem, method):
    solution = METHODS[method].solve(problem, TIGHT)
    assert solution.info.status is bgp.Status.CONVERGED
    return solution


@every_kernel
@everything
def test_is_that_of_the_dense_matrix_that_it_stands_for(method, likelihood, t, kernel):
    problem = assemble_inducing(kernel, X, t, likelihood, inducing=Z)
    gram, cross = dense_of(kernel, Z)
    dense_problem = bgp.Problem(gram, t, likelihood)
    ours, dense = solved(problem, method), solved(dense_problem, method)
    np.testing.assert_allclose(ours.alpha, dense.alpha, atol=1e-8)
    assert ours.evidence.value == pytest.approx(dense.evidence.value, abs=1e-8)
    assert ours.evidence.kind == dense.evidence.kind
    for one, other in zip(loo(problem, ours), loo(dense_problem, dense), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    # predictions: by what it says of new cases, which is what the inducing cases say of them
    process = Posterior(kernel, X, problem, ours, METHODS[method])
    mean, variance = process.latent(X_NEW)
    np.testing.assert_allclose(mean, dense.alpha @ cross, atol=1e-8)
    np.testing.assert_allclose(variance, kernel.diag(X_NEW) - dense.correction.quadratic_diagonal(cross), atol=1e-8)
    mean, variance = process.at_training
    np.testing.assert_allclose(mean, gram @ dense.alpha, atol=1e-8)
    np.testing.assert_allclose(variance, kernel.diag(X) - dense.correction.quadratic_diagonal(gram), atol=1e-8)


def loo(problem, solution):
    others = METHODS[solution.method].leave_one_out(problem, solution)
    return others.mean, others.variance, others.log_density


@every_kernel
@everything
def test_on_all_cases_is_the_method_without(method, likelihood, t, kernel):
    problem = assemble_inducing(kernel, X, t, likelihood, inducing=X)
    assert problem.matrix.rank == N
    dense_problem = bgp.Problem(kernel.gram(X), t, likelihood)
    ours, dense = solved(problem, method), solved(dense_problem, method)
    np.testing.assert_allclose(ours.alpha, dense.alpha, atol=1e-8)
    assert ours.evidence.value == pytest.approx(dense.evidence.value, abs=1e-8)
    for one, other in zip(loo(problem, ours), loo(dense_problem, dense), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    process, other = (
        Posterior(kernel, X, *given, METHODS[method]) for given in ((problem, ours), (dense_problem, dense))
    )
    asked = "latent" if likelihood.targets == "real" else "predictive"
    for one, two in zip(getattr(process, asked)(X_NEW), getattr(other, asked)(X_NEW), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-8)


def test_white_noise_is_noise_of_each_case():
    """Added to the kernel it is the noise of a Probit: of each case, old or new, and no inducing case knows it."""
    kernel, white = KERNELS["smooth"], White(0.7)
    inside = solved(assemble_inducing(kernel + white, X, LABELS, bgp.Probit(0.3), inducing=Z), "tap")
    outside = solved(assemble_inducing(kernel, X, LABELS, bgp.Probit(1.0), inducing=Z), "tap")
    np.testing.assert_allclose(inside.alpha, outside.alpha, atol=1e-8)
    assert inside.evidence.value == pytest.approx(outside.evidence.value, abs=1e-8)
    np.testing.assert_allclose(inside.cavity.variance, outside.cavity.variance + 0.7, atol=1e-8)


@everything
def test_gradients_pass_central_differences(method, likelihood, t):
    kernel, step = KERNELS["with noise"], 1e-4
    # a search knows sites to 1e-6 and the gradient of the evidence no better; those of leave one out are differences
    for score, allowed in ((EvidenceScore(), 1e-6), (LooScore(), 1e-5)):
        control = bgp.Control(tolerance=1e-10, max_iterations=5000)
        target = Target(X, t, likelihood, kernel, METHODS[method], control, inducing=Z)
        evaluate, at = Objective(target, score), target.start
        gradient = evaluate(at)[1]
        numeric = [(evaluate.value(at + e) - evaluate.value(at - e)) / (2 * step) for e in step * np.eye(at.size)]
        tolerances = {"rtol": allowed, "atol": allowed * np.max(np.abs(numeric))}
        np.testing.assert_allclose(gradient, numeric, **tolerances)
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(1.001 * gradient, numeric, **tolerances)


@everything
def test_the_evidence_falls_and_rises_with_the_inducing_inputs_as_its_gradient_says(method, likelihood, t):
    kernel, solver = KERNELS["with noise"], METHODS[method]

    def value(points):
        problem = assemble_inducing(kernel, X, t, likelihood, inducing=points)
        return solved(problem, method).evidence.value

    problem = assemble_inducing(kernel, X, t, likelihood, inducing=Z)
    bar = solver.gram_gradient(problem, solved(problem, method))
    gradient = problem.matrix.pull_back_inputs(bar, kernel, X)
    for direction in RNG.standard_normal((3, *Z.shape)):
        numeric = (value(Z + 1e-4 * direction) - value(Z - 1e-4 * direction)) / 2e-4
        slope = float(np.sum(gradient * direction))
        assert slope == pytest.approx(numeric, rel=1e-5, abs=1e-6)
        assert abs(1.001 * slope - numeric) > 1e-4 * abs(numeric)


@pytest.mark.parametrize("method", ["tap", "naive", "laplace", "exact"])
def test_leaving_one_out_by_refits_is_exact_for_regression(method):
    problem = assemble_inducing(KERNELS["with noise"], X[:25], REAL[:25], Gaussian(0.3), inducing=Z)
    estimate, exact = METHODS[method].leave_one_out(problem, solved(problem, method)), exact_loo(problem, method)
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(getattr(estimate, name), getattr(exact, name), atol=1e-8)


def test_leaving_one_out_by_refits_is_as_close_to_the_cavities_as_with_the_dense_matrix():
    kernel, off = KERNELS["smooth"], []
    problem = assemble_inducing(kernel, X[:25], LABELS[:25], bgp.Probit(0.5), inducing=Z)
    for each in (problem, bgp.Problem(kernel.gram(X[:25]), LABELS[:25], bgp.Probit(0.5))):
        estimate = METHODS["tap"].leave_one_out(each, solved(each, "tap"))
        off.append(np.max(np.abs(estimate.log_density - exact_loo(each).log_density)))
    assert 1e-6 < off[0] < 1.5 * off[1]


def test_inducing_cases_that_the_others_determine_add_nothing():
    kernel = KERNELS["smooth"]
    twice = np.concatenate([Z, Z[::-1]])
    one, other = (assemble_inducing(kernel, X, LABELS, bgp.Probit(), inducing=points) for points in (Z, twice))
    assert other.matrix.rank == len(Z)
    assert solved(one, "tap").evidence.value == pytest.approx(solved(other, "tap").evidence.value, abs=1e-10)


def test_what_says_of_itself_which_matrix_it_worked_with():
    problem = assemble_inducing(KERNELS["with noise"], X, LABELS, bgp.Probit(), inducing=Z)
    kernel = KERNELS["with noise"]
    own = np.mean(1.0 - np.diag(explained(kernel, Z, X)) / kernel.diag(X))
    for method in ("tap", "naive", "laplace"):
        info = solved(problem, method).info
        assert info.rank == len(Z)
        assert info.independent == pytest.approx(own, abs=1e-12)
    with pytest.raises(bgp.ConvergenceError, match=f"on {len(Z)} inducing cases"):
        METHODS["tap"].solve(problem, bgp.Control(max_iterations=1))


@pytest.mark.parametrize("method", ["tap", "naive"])
def test_a_root_that_does_not_fit_into_memory_gives_the_same(method, set_memory, monkeypatch):
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 16)
    kept = assemble_inducing(KERNELS["smooth"], X, LABELS, bgp.Probit(), inducing=Z)
    set_memory(8.0 * N * len(Z))  # of which a fit takes several
    computed = assemble_inducing(KERNELS["smooth"], X, LABELS, bgp.Probit(), inducing=Z)
    assert isinstance(kept.matrix.root, np.ndarray)
    assert not isinstance(computed.matrix.root, np.ndarray)
    one, other = solved(kept, method), solved(computed, method)
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-10, atol=1e-10)
    assert one.evidence.value == pytest.approx(other.evidence.value, abs=1e-10)
    for ours, theirs in zip(loo(kept, one), loo(computed, other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
