"""Hyperparameters by evidence: exact gradients, real maxima, honest warnings."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.kernels import log_vector
from bayesgp_mf.methods import METHODS

KERNEL = bgp.kernels.Gaussian([1.0, 1.0], 1.5) + bgp.kernels.Bias(0.5)
TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian([0.7, 1.5], 4.0), n=60, random_seed=1)


def objective(kernel=KERNEL, likelihood=bgp.Probit(), control=bgp.Control(tolerance=1e-11)):
    return Objective(Target(TOY.X, 2 * TOY.y - 1, likelihood, kernel, METHODS["tap"], control), EvidenceScore())


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Probit(0.5, 0.1)], ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        bgp.kernels.Matern32(1.0) * bgp.kernels.Bias(2.0),
        bgp.kernels.RationalQuadratic([1.0, 2.0], 1.0, 0.7),
        bgp.kernels.NeuralNetwork([1.0, 0.5], 0.3) + bgp.kernels.White(0.1),
    ],
    ids=repr,
)
def test_gradient_passes_central_differences(kernel, likelihood):
    evaluate = objective(kernel, likelihood)
    at = evaluate.target.start
    _, gradient = evaluate(at)
    step = 1e-4
    numeric = [(evaluate(at + step * e)[0] - evaluate(at - step * e)[0]) / (2 * step) for e in np.eye(at.size)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)
    assert evaluate.n_failures == 0


@pytest.mark.parametrize("method", ["naive", "variational", "laplace", "online"])
def test_gradient_of_every_evidence_passes_central_differences(method):
    kernel = bgp.kernels.Gaussian([1.0, 1.0], 1.5) + bgp.kernels.White(0.1)
    control = bgp.Control(tolerance=1e-10)
    evaluate = Objective(Target(TOY.X, 2 * TOY.y - 1, bgp.Probit(), kernel, METHODS[method], control), EvidenceScore())
    at = evaluate.target.start
    _, gradient = evaluate(at)
    step = 1e-4
    numeric = [(evaluate(at + step * e)[0] - evaluate(at - step * e)[0]) / (2 * step) for e in np.eye(at.size)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(0.01)], ids=repr)
def test_a_search_knows_the_evidence_sooner_than_the_sites(likelihood):
    target = Target(TOY.X, 2 * TOY.y - 1, likelihood, KERNEL, METHODS["tap"], bgp.Control())
    exact, known = Objective(target, EvidenceScore()), Objective(target, EvidenceScore(KNOWN))
    for k in range(5):  # the first from the prior, the others from the one before
        at = target.start + 0.1 * k
        (value, gradient), (rough_value, rough_gradient) = exact(at), known(at)
        assert abs(rough_value - value) < KNOWN
        assert np.max(np.abs(rough_gradient - gradient)) < 0.02 * np.max(np.abs(gradient))


def test_that_takes_fewer_steps():
    gram, t = KERNEL.gram(TOY.X), 2.0 * TOY.y - 1.0
    full = bgp.solve(gram, t, bgp.Probit())
    sooner = bgp.solve(gram, t, bgp.Probit(), control=bgp.Control(evidence_tolerance=1e-5))
    assert sooner.info.n_iterations < full.info.n_iterations
    assert sooner.info.status is full.info.status
    assert full.info.residual < 1e-8 < sooner.info.residual  # and says how far it came
    assert 0.0 < abs(sooner.evidence.value - full.evidence.value) < 1e-5


@pytest.mark.parametrize("lengthscale", [1e-3, 1e-2, 0.1, 1.0, 10.0, 1e2, 1e3])
def test_gradient_holds_over_six_decades_of_length_scale(lengthscale):
    kernel = bgp.kernels.Gaussian([lengthscale, lengthscale], 2.0)
    evaluate = objective(kernel)
    at = evaluate.target.start
    _, gradient = evaluate(at)
    step = 1e-3
    numeric = [(evaluate(at + step * e)[0] - evaluate(at - step * e)[0]) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=2e-6)


def test_search_ends_at_a_maximum_and_tells_how():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idata = bgp.fit(TOY.X, TOY.y, KERNEL.terms[0], hyper="evidence", draws=10, random_seed=0)
    fit = get_group(idata, "fit")
    at_end = objective(bgp.posterior(idata).kernel)
    value, gradient = at_end(log_vector(bgp.posterior(idata).kernel))
    np.testing.assert_allclose(gradient, 0.0, atol=2e-3)
    np.testing.assert_allclose(value, float(fit["log_evidence"]), atol=1e-8)
    assert value >= fit["hyper_log_evidence"].values.max() - 1e-6
    assert fit["hyper_end"].dims == ("start", "hyper")
    assert fit["hyper_start"].shape == (3, 3)
    assert len(np.unique(fit["hyper_start"].values[:, 0])) == 3  # three different places
    trace = fit["hyper_trace"].values
    assert np.all(np.diff(trace) > -1e-9)
    np.testing.assert_allclose(
        np.exp(fit["hyper_end"].values[fit["hyper_log_evidence"].values.argmax(), :2]), fit["lengthscale"]
    )
    # and the answer is that of a fit at these hyperparameters
    fixed = bgp.fit(TOY.X, TOY.y, bgp.posterior(idata).kernel, draws=10, random_seed=0)
    np.testing.assert_array_equal(fixed["fit"]["alpha"], fit["alpha"])


def test_a_parameter_at_its_bound_is_warned_about():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] > 0  # the second input does not matter at all
    with pytest.warns(bgp.BoundWarning, match=r"lengthscale\[1\] = .* \(upper\).* the input hardly matters"):
        bgp.fit(X, y, bgp.kernels.Gaussian([1.0, 1.0]), hyper=bgp.hyper.Evidence(starts=1), draws=10, random_seed=0)


def test_points_without_a_solution_are_stepped_back_from_and_counted(monkeypatch):
    calm = bgp.fit(TOY.X, TOY.y, KERNEL.terms[0], hyper=bgp.hyper.Evidence(starts=1), draws=10, random_seed=0)
    solver, calls = METHODS["tap"], []

    class Moody:
        name = "tap"
        gram_gradient, leave_one_out = solver.gram_gradient, solver.leave_one_out

        def solve(self, problem, control=bgp.Control(), start=None):
            calls.append(1)
            if len(calls) in (3, 4, 5, 6):  # two points, each from the last solution and from the prior
                raise bgp.ConvergenceError("a bad day", bgp.Status.STALLED)
            return solver.solve(problem, control, start)

    monkeypatch.setitem(METHODS, "tap", Moody())
    with pytest.warns(bgp.ConvergenceWarning, match="at 2 of .* points of the search the equations had no solution"):
        idata = bgp.fit(TOY.X, TOY.y, KERNEL.terms[0], hyper=bgp.hyper.Evidence(starts=1), draws=10, random_seed=0)
    assert int(get_group(idata, "fit")["hyper_n_failures"][0]) == 2
    np.testing.assert_allclose(idata["fit"]["log_evidence"], calm["fit"]["log_evidence"], atol=1e-4)


def test_a_search_that_saw_another_solution_is_told(monkeypatch):
    solver = METHODS["tap"]

    class TwoSolutions:
        name = "tap"
        gram_gradient, leave_one_out = solver.gram_gradient, solver.leave_one_out

        def solve(self, problem, control=bgp.Control(), start=None):
            solution = solver.solve(problem, control, start)
            better = replace(solution.evidence, value=solution.evidence.value + 1.0)
            return solution if start is None else replace(solution, evidence=better)

    monkeypatch.setitem(METHODS, "tap", TwoSolutions())
    with pytest.warns(bgp.ConvergenceWarning, match="the equations have several solutions there"):
        bgp.fit(TOY.X, TOY.y, KERNEL.terms[0], hyper=bgp.hyper.Evidence(starts=1), draws=10, random_seed=0)


def test_unsolved_points_are_no_evidence_even_if_the_last_solution_may_be_unsolved():
    control = bgp.Control(max_iterations=1, throw=False)
    with pytest.raises(bgp.ConvergenceError, match=r"no solution at any of 1 starting points.* The last reason: tap: "):
        bgp.fit(TOY.X, TOY.y, KERNEL, hyper=bgp.hyper.Evidence(starts=1), random_seed=0, control=control)


def test_a_search_without_any_solution_is_an_error():
    with pytest.raises(bgp.ConvergenceError, match="no solution at any of 2 starting points"):
        bgp.fit(
            TOY.X,
            TOY.y,
            KERNEL,
            hyper=bgp.hyper.Evidence(starts=2),
            random_seed=0,
            control=bgp.Control(max_iterations=1),
        )


def test_interruption_is_not_swallowed(monkeypatch):
    class Interrupted(type(METHODS["tap"])):
        def solve(self, problem, control=bgp.Control(), start=None):
            raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "tap", Interrupted("tap", METHODS["tap"].rule))
    with pytest.raises(KeyboardInterrupt):
        bgp.fit(TOY.X, TOY.y, KERNEL, hyper="evidence", random_seed=0)


def test_a_search_with_priors_is_compared_at_its_own_end():
    """Of several starts that with the highest evidence need not be the one that won: the prior counts too."""
    priors, several = {"lengthscale": bgp.hyper.LogNormal(1.5, 0.3)}, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3.0, 3.0, (30, 1))
        y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(30) > 0  # of a shorter length scale than the prior's
        with warnings.catch_warnings():
            for kind in (bgp.BoundWarning, bgp.ConvergenceWarning):  # at a bound; starts that disagree
                warnings.simplefilter("ignore", kind)
            kernel = bgp.kernels.Gaussian(1.0, 10.0)
            idata = bgp.fit(X, y, kernel, hyper="evidence", priors=priors, draws=1, random_seed=seed)
        fit = get_group(idata, "fit")
        evidence = fit["hyper_log_evidence"].values
        best = np.argmax(evidence + fit["hyper_log_prior"].values)
        assert float(fit["log_evidence"]) == pytest.approx(evidence[best], abs=1e-3)
        several += bool(evidence.max() > evidence[best] + 1e-3)
    assert several > 0
