"""A likelihood from outside, with the members of the protocol alone or some more, does what a built-in one does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import likelihoods
from bayesgp_mf.hyper import LogNormal, LooScore, Objective, Target
from bayesgp_mf.likelihoods import Gaussian, Likelihood, Quadrature, is_built_in
from bayesgp_mf.likelihoods.base import LatentNoise
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS
from bayesgp_mf.processes.single import Posterior

REQUIRED = ("targets", "forbids", "log_concave", "log_prob", "log_partition", "sample")
TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian([0.7, 1.5], 4.0), n=14, random_seed=1)
KERNEL = bgp.kernels.Gaussian(1.2, 3.0) + bgp.kernels.White(0.1)
TARGETS = {"binary": 2.0 * TOY.y - 1.0, "real": np.random.default_rng(1).standard_normal(14)}
CASES = {
    "probit": bgp.Probit(),
    "probit with flips": bgp.Probit(0.5, 0.1),
    "step": bgp.Step(),
    "step with flips": bgp.Step(0.1),
    "logit": bgp.Logit(),
    "gaussian": Gaussian(0.3),
}
NEED_NOISE, NEEDS_SLOPE = ("exact", "svm"), "laplace"  # methods that ask for more than the protocol has
every_case = pytest.mark.parametrize("name", CASES)


def stating(likelihood, **more):
    """Return a likelihood of a user's own: the members that the base class requires, and some more that are named."""
    required = {member: getattr(likelihood, member) for member in REQUIRED}
    return type("Bare", (Likelihood,), required | more)()


def bare(likelihood):
    """Return a likelihood that has the members that the base class requires, and no other."""
    return stating(likelihood)


def problem_of(likelihood):
    return bgp.Problem(KERNEL.gram(TOY.X), TARGETS[likelihood.targets], likelihood)


def two_cases(likelihood):
    return bgp.Problem(np.eye(2), [1, -1], likelihood)


def test_the_base_class_requires_six_members():
    members = {member: getattr(bgp.Probit(), member) for member in REQUIRED}
    for member in REQUIRED:
        others = {name: value for name, value in members.items() if name != member}
        with pytest.raises(TypeError, match=rf"abstract class Bare.*\b{member}\b"):
            type("Bare", (Likelihood,), others)()


def test_what_does_not_derive_from_the_base_class_is_no_likelihood():
    members = {member: getattr(bgp.Probit(), member) for member in REQUIRED}
    for wrong in (type("Bare", (), members)(), "probit"):
        with pytest.raises(ValueError, match=rf"got {type(wrong).__name__}\. Derive your own from bayesgp_mf\.likeli"):
            two_cases(wrong)


@every_case
@pytest.mark.parametrize("method", [name for name in METHODS if name not in NEED_NOISE])
def test_solution_predictions_and_leave_one_out_are_those_of_the_built_in_one(method, name):
    ours, theirs = problem_of(bare(CASES[name])), problem_of(CASES[name])
    solver = METHODS[method]
    if method == NEEDS_SLOPE and name.startswith("step"):
        ours = problem_of(stating(CASES[name], is_flat=True))
        with pytest.raises(bgp.UndefinedQuantityError, match="needs a likelihood with a second derivative"):
            solver.solve(ours)
        return
    found, expected = (Posterior(KERNEL, TOY.X, p, solver.solve(p)) for p in (ours, theirs))
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    np.testing.assert_allclose(found.solution.alpha, expected.solution.alpha, atol=1e-7)
    for ours_loo, theirs_loo in zip(vars_of(found.loo), vars_of(expected.loo), strict=True):
        np.testing.assert_allclose(ours_loo, theirs_loo, atol=1e-6)
    new = TOY.X[:4] + 0.3
    if CASES[name].targets == "binary":
        np.testing.assert_allclose(found.predict_proba(new), expected.predict_proba(new), atol=1e-7)
    gradients = [solver.gram_gradient(p.problem, p.solution) for p in (found, expected)]
    np.testing.assert_allclose(*gradients, atol=1e-6)
    drawn = [p.draw(5, np.random.default_rng(1)) for p in (found, expected)]
    np.testing.assert_allclose(drawn[0].f, drawn[1].f, atol=1e-6)


def vars_of(loo):
    return loo.mean, loo.variance, loo.log_density


@pytest.mark.parametrize("name", ["probit", "logit", "step with flips"])
def test_the_gradient_of_leave_one_out_is_that_of_the_built_in_one(name):
    scores = [
        Objective(Target(TOY.X, TARGETS["binary"], likelihood, KERNEL, METHODS["tap"], fixed=kept), LooScore())
        for likelihood, kept in ((bare(CASES[name]), ()), (CASES[name], CASES[name].parameters))
    ]
    (value, gradient), expected = scores[0](scores[0].target.start), scores[1](scores[1].target.start)
    assert value == pytest.approx(expected[0], abs=1e-7)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("step")])
def test_tilted_draws_are_those_of_the_built_in_one(name):
    posteriors = [
        Posterior(KERNEL, TOY.X, p, METHODS["tap"].solve(p)) for p in map(problem_of, (bare(CASES[name]), CASES[name]))
    ]
    found, expected = (p.draw(5, np.random.default_rng(1), "tilted").f for p in posteriors)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_jump_may_state_its_own_tilted_values():
    step = bgp.Step(0.1)
    ours, theirs = stating(step, tilted_values=step.tilted_values), step
    posteriors = [Posterior(KERNEL, TOY.X, p, METHODS["tap"].solve(p)) for p in map(problem_of, (ours, theirs))]
    found, expected = (p.draw(5, np.random.default_rng(1), "tilted") for p in posteriors)
    np.testing.assert_allclose(found.f, expected.f, atol=1e-6)
    np.testing.assert_allclose(found.log_q, expected.log_q, atol=1e-5)


@pytest.mark.parametrize("name", ["probit", "gaussian"])
def test_who_states_latent_noise_is_integrated_exactly(name):
    with pytest.raises(bgp.UndefinedQuantityError, match=r"handles Gaussian and Probit likelihoods .*got Bare"):
        METHODS["exact"].solve(problem_of(bare(CASES[name])))
    ours = problem_of(stating(CASES[name], latent_noise=CASES[name].latent_noise))
    found, expected = (METHODS["exact"].solve(p) for p in (ours, problem_of(CASES[name])))
    assert found.evidence.value == expected.evidence.value
    np.testing.assert_array_equal(found.alpha, expected.alpha)


def test_who_states_latent_noise_of_a_sign_has_a_machine():
    machine = METHODS["svm"]
    for likelihood in (bare(bgp.Probit()), stating(Gaussian(1.0), latent_noise=LatentNoise(1.0))):
        with pytest.raises(bgp.UndefinedQuantityError, match="is the limit of a step likelihood, got Bare"):
            machine.solve(problem_of(likelihood))
    with pytest.raises(bgp.UndefinedQuantityError, match="cannot allow label flips"):
        machine.solve(problem_of(stating(bgp.Probit(), latent_noise=LatentNoise(1.0, flip=0.1))))
    ours = problem_of(stating(bgp.Probit(), latent_noise=LatentNoise(1.0)))
    np.testing.assert_array_equal(machine.solve(ours).alpha, machine.solve(problem_of(bgp.Probit())).alpha)


def test_a_shift_states_what_the_likelihood_does():
    offset, t, mean, variance = np.array([0.5, -2.0]), np.array([1.0, -1.0]), np.array([0.1, 0.3]), np.array([1.0, 2.0])
    probit, moved = by_case(bgp.Probit(0.5, 0.1), prior_mean=offset), mean + offset
    assert probit.parameters == {"noise_variance": 0.5, "flip": 0.1}
    assert probit.with_parameters(**{"flip": 0.2}).unshifted == bgp.Probit(0.5, 0.2)
    for name in ("noise_variance", "flip"):
        np.testing.assert_array_equal(
            probit.parameter_derivative(name, t, mean, variance),
            bgp.Probit(0.5, 0.1).parameter_derivative(name, t, moved, variance),
        )
    assert by_case(bgp.Step(0.1), prior_mean=offset).is_flat
    assert not probit.is_flat
    # the sign of what is seen is not that of the deviation
    assert probit.latent_noise is None
    plain = by_case(bare(bgp.Probit()), prior_mean=offset)
    assert plain.higher_derivatives(t, mean, variance, plain.log_partition(t, mean, variance)) is None
    assert plain.tilted_values(t, mean, variance, np.zeros((1, 2))) is None
    assert plain.parameters == {}


WITH_PARAMETERS = {
    bgp.Probit(0.5, 0.1): [1.0, -1.0, 1.0],
    bgp.Step(0.1): [1.0, -1.0, 1.0],
    Gaussian(0.3): [1.0, -1.0, 0.3],
    bgp.StudentT(0.4, 3.0): [1.0, -5.0, 0.3],
    bgp.StudentT(0.4, 300.0): [1.0, -5.0, 0.3],
    bgp.NegativeBinomial(2.3): [4.0, 0.0, 30.0],
}


@pytest.mark.parametrize("variance", [0.0, 1e-3, 0.7, 30.0])
@pytest.mark.parametrize("likelihood", WITH_PARAMETERS, ids=str)
def test_parameters_are_those_of_the_constructor_and_have_derivatives(likelihood, variance):
    t, mean = np.array(WITH_PARAMETERS[likelihood]), np.array([0.4, 1.1, -2.0])
    at, wrong = (t, mean, np.full(3, variance)), []
    assert likelihood.with_parameters(**likelihood.parameters) == likelihood
    assert likelihood.tunables.keys() == likelihood.parameters.keys()
    for name, value in likelihood.parameters.items():
        step = 1e-4 * value
        if not value:  # a step has no noise, nor a derivative in it
            continue
        above, below = (likelihood.with_parameters(**{name: value + h}).log_partition(*at) for h in (step, -step))
        found = likelihood.parameter_derivative(name, *at)
        for derivative, ahead, behind in zip(found, above, below, strict=True):  # of the value, d1 and d2
            numeric = (ahead - behind) / (2.0 * step)
            np.testing.assert_allclose(derivative, numeric, rtol=1e-6, atol=1e-7 * max(1e-3, np.abs(derivative).max()))
            wrong.append(np.max(np.abs(1.001 * derivative - numeric)))
    assert max(wrong) > 1e-5


def test_what_is_said_of_a_likelihood_without_to_dict():
    assert bare(bgp.Probit()).to_dict() == {"likelihood": "Bare"}
    assert bgp.Logit().to_dict() == {"likelihood": "Logit"}


def test_what_is_built_in():
    assert all(is_built_in(case) for case in [*CASES.values(), bgp.Softmax(), bgp.Softmax(("a", "b"))])
    derived = type("Probit", (bgp.Probit,), {})()
    for likelihood in (bare(bgp.Probit()), Quadrature(lambda t, f: -np.logaddexp(0.0, -t * f)), derived):
        assert not is_built_in(likelihood)
    assert likelihoods.from_dict(bgp.Probit(2.0).to_dict()) == bgp.Probit(2.0)


def test_several_classes_are_solved_under_a_likelihood_that_says_how():
    several, codes = bgp.MultinomialProbit(("a", "b", "c")), np.array([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"needs a likelihood with star_sites, such as Softmax .*, got Bare"):
        bgp.solve(np.eye(3), codes, bare(several))
    with pytest.raises(ValueError, match=r"'laplace' for several classes needs Softmax\(\), got MultinomialProbit"):
        bgp.solve(np.eye(3), codes, several, method="laplace")
    names = ("n_classes", "with_classes", "log_density", "predictions", "site_shape", "star_points", "star_sites")
    names += ("star_predictions", "predict_proba")
    more = {name: getattr(several, name) for name in names}
    found, expected = (bgp.solve(np.eye(3), codes, it) for it in (stating(several, **more), several))
    np.testing.assert_array_equal(found.alpha, expected.alpha)


@dataclass(frozen=True)
class Measured(Likelihood):
    """Gaussian noise of a variance that is a parameter, and not among those that are tunable."""

    variance: float = 0.3
    targets, forbids, log_concave = "real", False, True

    @property
    def parameters(self):
        return {"variance": self.variance}

    def log_prob(self, t, f):
        return Gaussian(self.variance).log_prob(t, f)

    def log_partition(self, t, mean, variance):
        return Gaussian(self.variance).log_partition(t, mean, variance)

    def parameter_derivative(self, name, t, mean, variance):
        assert name == "variance"
        return Gaussian(self.variance).parameter_derivative("noise_variance", t, mean, variance)

    def sample(self, f, rng):
        return Gaussian(self.variance).sample(f, rng)


def test_a_parameter_that_is_not_tunable_is_tuned_only_where_it_has_a_prior():
    X, y, prior = TOY.X, TARGETS["real"], LogNormal(0.0, 1.0)
    options = {"fixed": ["gaussian_lengthscale", "gaussian_variance", "white_variance"], "draws": 5, "chains": 1}
    own = bgp.fit(X, y, KERNEL, Measured(), hyper="evidence", priors={"variance": prior}, random_seed=1, **options)
    theirs = bgp.fit(
        X, y, KERNEL, Gaussian(0.3), hyper="evidence", priors={"noise_variance": prior}, random_seed=1, **options
    )
    assert float(own["fit"]["variance"]) == pytest.approx(float(theirs["fit"]["noise_variance"]), rel=1e-6)
    assert float(own["fit"]["variance"]) != 0.3


@pytest.mark.parametrize("name", ["offset", "weights"])
def test_facts_of_cases_go_with_a_bare_likelihood(name):
    facts = {name: np.linspace(0.5, 2.0, 14)}
    fits = [
        bgp.fit(TOY.X, np.sign(TOY.X[:, 0]), KERNEL, likelihood, draws=5, chains=1, random_seed=1, **facts)["fit"]
        for likelihood in (bgp.Logit(), bare(bgp.Logit()))
    ]
    for value in ("log_evidence", "log_evidence_correction", "alpha"):
        np.testing.assert_allclose(fits[1][value], fits[0][value], rtol=1e-6)
