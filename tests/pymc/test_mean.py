"""A prior mean with random coefficients: its gradient, exact regression, predictions, refusals."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, set_group
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS
from bayesgp_mf.pymc import LogEvidence, Marginal, latent_model, sample_latent
from tests.pymc.conftest import INTERPRETED, drawn

BETA = np.array([0.8, -0.5])
POINT = {"ls": 0.8, "beta": BETA}
METHODS_WITH_MEAN = ("tap", "naive", "variational", "laplace")
LIKELIHOODS = {"probit": bgp.Probit(0.5), "flips": bgp.Probit(0.5, 0.05), "logit": bgp.Logit()}


def build(data, likelihood=bgp.Probit(), y=None, **options):
    with pm.Model(coords={"case": range(20)}) as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        gp = Marginal(
            4.0 * pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")),
            likelihood,
            **{"mean_func": lambda X: X @ beta, **options},
        )
        gp.marginal_likelihood("y", data.X, data.y if y is None else y, dims="case")
    return model, gp


@pytest.fixture(scope="module")
def gram(data):
    return bgp.kernels.Gaussian(0.8, 3.0).gram(data.X) + 0.2 * np.eye(20)


@pytest.mark.parametrize(
    ("method", "name"),
    # the mode of a likelihood that is not log-concave may be no maximum
    [(method, name) for method in METHODS_WITH_MEAN for name in LIKELIHOODS if (method, name) != ("laplace", "flips")],
)
def test_gradient_in_the_mean(gram, data, method, name):
    likelihood = LIKELIHOODS[name]
    rng = np.random.default_rng(3)
    mean, direction = data.X @ BETA, rng.standard_normal(20)
    control = bgp.Control(tolerance=1e-11)

    def solve(step):
        problem = bgp.Problem(gram, data.t, by_case(likelihood, prior_mean=mean + step * direction))
        return problem, METHODS[method].solve(problem, control)

    gradient = traits_of(METHODS[method]).mean_gradient(*solve(0.0))
    difference = (solve(1e-4)[1].evidence.value - solve(-1e-4)[1].evidence.value) / 2e-4
    assert direction @ gradient == pytest.approx(difference, rel=1e-6)
    # the control: the weights alone are Laplace's gradient at a fixed mode, and at another mean they are others
    without = solve(0.0)[1].alpha if method == "laplace" else solve(-0.3)[1].alpha
    assert direction @ without != pytest.approx(difference, rel=1e-3)


@pytest.mark.parametrize("method", METHODS_WITH_MEAN)
def test_a_mean_of_zero_changes_nothing_and_a_shift_of_both_targets_and_mean_neither(gram, data, method):
    problem = bgp.Problem(gram, data.t, bgp.Probit(0.5))
    plain = METHODS[method].solve(problem)
    shifted = METHODS[method].solve(bgp.Problem(gram, data.t, by_case(bgp.Probit(0.5), prior_mean=np.zeros(20))))
    np.testing.assert_allclose(shifted.alpha, plain.alpha, rtol=1e-9)
    assert shifted.evidence.value == pytest.approx(plain.evidence.value, rel=1e-12)
    y, mean = np.sin(data.X[:, 0]), data.X @ BETA
    one = METHODS[method].solve(bgp.Problem(gram, y + mean, by_case(Gaussian(0.3), prior_mean=mean)))
    other = METHODS[method].solve(bgp.Problem(gram, y, Gaussian(0.3)))
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-8)


@pytest.mark.parametrize("method", ["tap", "laplace"])  # the evidence of the others is not exact for regression either
def test_regression_is_that_of_pymc(data, method):
    y, values = np.sin(data.X[:, 0]), []
    point = {"ls_log__": -0.2, "beta": BETA, "intercept": 0.3}
    for ours in (True, False):
        with pm.Model() as model:
            cov_func = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls"))
            mean = pm.gp.mean.Linear(pm.Normal("beta", shape=2), pm.Normal("intercept"))
            if ours:
                Marginal(cov_func, Gaussian(0.3), method, mean_func=mean).marginal_likelihood("y", data.X, y)
            else:
                gp = pm.gp.Marginal(mean_func=mean, cov_func=cov_func)
                gp.marginal_likelihood("y", X=data.X, y=y, sigma=np.sqrt(0.3), jitter=0.0)
        function = model.logp_dlogp_function(ravel_inputs=True, mode="FAST_COMPILE")
        function.set_extra_values({})
        at = np.concatenate([np.ravel(point[variable.name]) for variable in model.value_vars])
        values.append(function(at))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-10)
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-6)


def test_the_model_has_the_gradient_in_its_coefficients(data):
    noise_model, gp = build(data, method="tap", noise_variance=0.6)
    assert set(gp.hyperparameters) == {"ls", "beta"}
    function = noise_model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
    function.set_extra_values({})
    at = np.array([0.4, -0.3, 0.1])
    _, gradient = function(at)
    for i in range(3):
        step = 1e-4 * np.eye(3)[i]
        difference = (function(at + step)[0] - function(at - step)[0]) / 2e-4
        assert gradient[i] == pytest.approx(difference, rel=1e-6)


def test_label_flips_and_noise_are_differentiated_around_the_mean(gram, data):
    op = LogEvidence(bgp.Probit(), parameters=["noise_variance", "flip"], with_mean=True)
    K, t, mean = pt.dmatrix("K"), pt.dvector("t"), pt.dvector("mean")
    parameters = [pt.dscalar("noise"), pt.dscalar("flip")]
    value = op(K, t, mean, *parameters)[0]
    run = pytensor.function([K, t, mean, *parameters], [value, *pytensor.grad(value, parameters)], mode=INTERPRETED)
    at, offset = np.array([0.7, 0.04]), data.X @ BETA
    _, *slopes = run(gram, data.t, offset, *at)
    for i, slope in enumerate(slopes):
        step = 1e-4 * at * np.eye(2)[i]
        ahead, behind = (run(gram, data.t, offset, *(at + sign * step))[0] for sign in (1.0, -1.0))
        assert float(slope) == pytest.approx((ahead - behind) / (2.0 * step[i]), rel=1e-6)


@pytest.mark.parametrize("method", METHODS_WITH_MEAN)
def test_predictions_have_the_mean_of_the_new_inputs(data, method):
    # a broad Gaussian prior on the coefficients, given their values, is a mean: exact for regression
    y = np.sin(data.X[:, 0])
    X_new = data.X[:4] + 0.3
    _, gp = build(data, Gaussian(0.3), y, method=method)
    process = gp.posterior(POINT)
    kernel = bgp.kernels.Gaussian(0.8, 4.0)
    weights = np.linalg.solve(kernel.gram(data.X) + 0.3 * np.eye(20), y - data.X @ BETA)
    expected = X_new @ BETA + kernel.cross(X_new, data.X) @ weights
    np.testing.assert_allclose(process.latent(X_new)[0], expected, rtol=1e-8)
    np.testing.assert_allclose(process.latent_mean(X_new), expected, rtol=1e-8)
    np.testing.assert_allclose(gp.predict(X_new, POINT)[0], expected, rtol=1e-8)
    np.testing.assert_allclose(gp.predict(X_new, POINT, diag=True)[0], expected, rtol=1e-8)
    residual = y - np.linalg.solve(np.linalg.inv(kernel.gram(data.X) + 0.3 * np.eye(20)) * np.eye(20), weights)
    np.testing.assert_allclose(process.loo.mean, residual, rtol=1e-7)  # y_i - alpha_i / [C^-1]_ii
    assert np.abs(expected - kernel.cross(X_new, data.X) @ weights).max() > 0.1


def test_draws_and_probabilities_are_those_of_the_latent_values(data):
    _, gp = build(data)
    process = gp.posterior(POINT)
    X_new, rng = data.X[:3] + 0.2, np.random.default_rng(1)
    mean, variance = process.latent(X_new)
    np.testing.assert_allclose(process.predict_proba(X_new), bgp.Probit().predict_proba(mean, variance), rtol=1e-12)
    new = process.draw_new(X_new, 4000, rng)
    np.testing.assert_allclose(new.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 4000))
    mean, variance = process.at_training
    draws = process.draw(4000, rng)
    np.testing.assert_allclose(draws.f.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 4000))
    # E_q[p(y, f) / q(f)] = p(y), the evidence, within what TAP is off
    assert np.log(np.mean(np.exp(draws.log_p - draws.log_q))) == pytest.approx(process.log_evidence, abs=0.1)
    assert np.all(process.log_density_at_training > process.loo.log_density)


def test_what_is_drawn_for_each_draw_of_the_coefficients(data):
    model, gp = build(data)
    idata = drawn(data, np.full((2, 100), 0.8))
    beta = {"beta": (("chain", "draw", "input"), np.broadcast_to(BETA, (2, 100, 2)))}
    set_group(idata, "posterior", get_group(idata, "posterior").assign(beta))
    X_new = data.X[:3] + 0.2
    sample_latent(idata, gp, X_new, random_seed=1, progress=False)
    mean, variance = gp.posterior(POINT).at_training
    f = idata["posterior"]["f"].values.reshape(200, 20)
    np.testing.assert_allclose(f.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 200))
    np.testing.assert_allclose(
        idata["predictions"]["p"].values[0, 0], gp.posterior(POINT).predict_proba(X_new), rtol=1e-8
    )
    with model:
        f_new = gp.conditional("f_new", X_new, jitter=0.0)
    found, _ = pytensor.function(
        [model["ls"], model["beta"]], f_new.owner.op.dist_params(f_new.owner), mode="FAST_COMPILE"
    )(*POINT.values())
    np.testing.assert_allclose(found, gp.predict(X_new, POINT)[0], rtol=1e-9)


def test_labels_from_the_prior_follow_the_mean(data):
    with pm.Model():
        gp = Marginal(pm.gp.cov.ExpQuad(2, ls=1.0), mean_func=pm.gp.mean.Constant(2.0))
        y = gp.marginal_likelihood("y", data.X, data.y)
    share = pm.draw(y, 400, random_seed=1, mode=INTERPRETED).mean()
    expected = bgp.Probit().predict_proba(np.array(2.0), np.array(1.0))
    assert share == pytest.approx(float(expected), abs=0.06)  # one function each: 20 labels count for a few


def test_the_exact_model_has_the_same_mean(data):
    with pm.Model():
        latent_model(data.X, data.y, pm.gp.cov.ExpQuad(2, ls=1.0), mean_func=lambda X: X @ BETA)
        f = pm.modelcontext(None)["f"]
    draws = pm.draw(f, 2000, random_seed=1, mode=INTERPRETED)
    np.testing.assert_allclose(draws.mean(axis=0), data.X @ BETA, atol=5 / np.sqrt(2000))


@pytest.mark.parametrize("method", ["online", "exact"])
def test_methods_without_it_say_so(data, method):
    with pytest.raises(bgp.UndefinedQuantityError, match=rf"method '{method}' takes no mean_func.*laplace, naive, tap"):
        build(data, method=method)


def test_mistakes_are_named(data):
    for likelihood, method in ((bgp.Step(), "tap"), (bgp.Step(0.1), "laplace")):
        with pytest.raises(bgp.UndefinedQuantityError, match="noise"):
            build(data, likelihood, method=method)
    build(data, bgp.Step(0.1))
    with pytest.raises(ValueError, match=r"must be one of pm\.gp.mean, or a function of the inputs.* got ndarray"):
        build(data, mean_func=data.X @ BETA)
    with pytest.raises(ValueError, match=r"must return a vector.* got 2 dimensions"):
        build(data, mean_func=lambda X: X)
    _, gp = build(data)
    with pytest.raises(ValueError, match="point has no value of 'beta'"):
        gp.posterior({"ls": 1.0})
    with pytest.raises(bgp.UndefinedQuantityError, match="mean_func"):
        gp.posterior(POINT).problem.likelihood.to_dict()
    overflow = LogEvidence(bgp.Probit(), with_mean=True)(np.eye(2), [1.0, 1.0], [np.inf, 0.0])
    assert [float(np.sum(output.eval(mode=INTERPRETED))) for output in overflow] == [-np.inf, 0.0, 0.0, 0.0]
