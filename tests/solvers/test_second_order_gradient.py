"""The gradient of the correction of TAP's evidence: central differences, and the searches that go by it."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, Integrate, LogNormal, Objective, Surrogate, Target
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.second_order import correction_gradient, second_order

RNG = np.random.default_rng(0)
X = RNG.standard_normal((25, 2))
T = np.where(X[:, 0] + RNG.standard_normal(25) > 0, 1.0, -1.0)
TIGHT = bgp.Control(tolerance=1e-12)
FAR = bgp.kernels.Gaussian(2.5, 4.0)


def gram(lengthscale):
    return bgp.kernels.Gaussian(lengthscale, 4.0).gram(X) + 1e-3 * np.eye(25)


def solved(matrix, likelihood):
    return bgp.Problem(matrix, T, likelihood), bgp.solve(matrix, T, likelihood, control=TIGHT)


@pytest.mark.parametrize(
    "likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(0.1, flip=0.05), bgp.Step()], ids=lambda each: repr(each)
)
def test_central_differences_in_the_gram_matrix(likelihood):
    found = correction_gradient(*solved(gram(1.0), likelihood))
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    step = 1e-4
    for direction in (gram(1.01) - gram(1.0), np.cov(RNG.standard_normal((25, 40))) * 0.01):
        ends = [second_order(*solved(gram(1.0) + sign * step * direction, likelihood)).correction for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert np.sum(found * direction) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_a_gaussian_likelihood_has_no_gradient():
    found = correction_gradient(*solved(gram(1.0), bgp.likelihoods.Gaussian(0.3)))
    assert not found.any()


def target(**options):
    return Target(X, T, bgp.Probit(), FAR, METHODS["tap"], **options)


def test_the_objective_of_a_search_is_the_corrected_evidence_with_its_gradient():
    objective = Objective(target(control=TIGHT), Evidence(corrected=True).score)
    at, step = np.array([0.3, 0.8]), 1e-4
    value, gradient = objective(at)
    kernel = target().model_at(at).kernel
    problem, solution = solved(kernel.gram(X), bgp.Probit())
    assert value == pytest.approx(solution.evidence.value + second_order(problem, solution).correction, abs=1e-9)
    for k in range(2):
        move = step * np.eye(2)[k]
        slope = (objective.value(at + move) - objective.value(at - move)) / (2 * step)
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-8)
    plain = Objective(target(control=TIGHT), Evidence().score)(at)[1]
    assert np.max(np.abs(plain - gradient)) > 1e-4  # a control: the correction has a slope


def fitted(strategy, **options):
    return bgp.fit(X, T, FAR, hyper=strategy, random_seed=1, progress=False, draws=20, chains=2, **options)["fit"]


def test_the_search_ends_higher_in_what_it_goes_by():
    plain, corrected = fitted(Evidence(starts=1)), fitted(Evidence(starts=1, corrected=True))
    values = [float(fit["log_evidence"] + fit["log_evidence_correction"]) for fit in (plain, corrected)]
    assert values[1] >= values[0]
    assert float(plain["log_evidence"]) >= float(corrected["log_evidence"])
    assert float(plain["lengthscale"]) != float(corrected["lengthscale"])
    assert corrected.attrs["hyper_score"] == "corrected log evidence"
    assert "hyper_score" not in plain.attrs


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
@pytest.mark.parametrize("kind", [Integrate, Surrogate])
def test_averages_weigh_by_it(kind):
    more = {"nodes": 40} if kind is Surrogate else {"starts": 1}
    priors = {"lengthscale": LogNormal(0.5, 0.5), "variance": LogNormal(1.0, 0.5)}
    weights = [
        fitted(kind(corrected=corrected, **more), priors=priors)["hyper_node_weight"].values
        for corrected in (False, True)
    ]
    assert weights[0].shape != weights[1].shape or np.max(np.abs(weights[0] - weights[1])) > 1e-4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "laplace"}, "method='tap'"),
        ({"inducing": 10}, "dense Gram matrix"),
    ],
)
def test_what_has_no_correction_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        fitted(Evidence(corrected=True), **options)


def test_corrected_is_true_or_false():
    for kind in (Evidence, Integrate, Surrogate):
        with pytest.raises(ValueError, match="corrected must be True or False, got 'yes'"):
            kind(corrected="yes")
