"""Point estimates with priors, bounds and fixed names; the registry; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import (
    HYPER,
    Evidence,
    EvidenceScore,
    HybridMonteCarlo,
    HyperResult,
    Integrate,
    LogNormal,
    Objective,
    Strategy,
    Target,
    get_strategy,
)
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.methods import METHODS
from tests.hyper.known import (
    MEAN,
    PRECISION,
    Quadratic,
    ignore,
    known_target,
    pima_test_errors,
    published_pima,
)

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian([0.7, 1.5], 4.0), n=40, random_seed=1)
LABELS = 2.0 * TOY.y - 1.0


def choose(strategy, target):
    return strategy.choose(target, np.random.default_rng(0), ignore)


def test_the_most_probable_of_a_gaussian_target_is_between_evidence_and_prior():
    target = known_target(priors={"bias_variance": LogNormal(1.0, 0.5)})
    result = choose(Evidence(starts=2), target)
    pull = np.diag([4.0, 0.0])
    expected = np.linalg.solve(PRECISION + pull, PRECISION @ MEAN + np.array([4.0, 0.0]))
    at = target.free_logarithms(result.kernels[0])
    np.testing.assert_allclose(at, expected, atol=1e-5)
    log_prior = target.log_prior(at)[0]
    log_evidence = -0.5 * (at - MEAN) @ PRECISION @ (at - MEAN)
    np.testing.assert_allclose(result.stats["lp"], log_evidence + log_prior)
    np.testing.assert_allclose(result.record["hyper_log_evidence"][1], log_evidence, atol=1e-4)
    np.testing.assert_allclose(result.record["hyper_log_prior"][1], log_prior, atol=1e-4)
    assert result.record["hyper_start"][0] == ("start", "hyper")
    assert result.record["hyper_start"][1].shape == (2, 2)


def test_pima_as_published():
    assert abs(pima_test_errors(choose(Evidence(starts=1), published_pima())) - 69) <= 3  # 1996, table 1: GP (MAP)


def test_bounds_hold_and_are_told():
    with pytest.warns(bgp.BoundWarning, match=r"bias_variance = 1 \(upper\)"):
        result = choose(Evidence(starts=2), known_target(bounds={"bias_variance": (0.5, 1.0)}, solver=Shifted()))
    assert result.kernels[0].params["bias_variance"] <= 1.0


class Shifted(Quadratic):
    """A solver that wants more bias."""

    def log_variances(self, problem):
        return super().log_variances(problem) - np.array([3.0, 0.0])


def test_fixed_names_stay_and_the_rest_is_at_its_maximum():
    kernel = bgp.kernels.Gaussian([1.0, 1.0], 1.7)
    target = Target(TOY.X, LABELS, bgp.Probit(), kernel, METHODS["tap"], fixed={"lengthscale"})
    result = choose(Evidence(), target)
    np.testing.assert_array_equal(result.kernels[0].params["lengthscale"], [1.0, 1.0])
    _, gradient = Objective(target, EvidenceScore())(target.free_logarithms(result.kernels[0]))
    assert gradient.shape == (1,)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-3)


def test_progress_is_told():
    notes = []
    Evidence(starts=1).choose(known_target(), np.random.default_rng(0), notes.append)
    assert notes
    assert notes[-1].startswith("log evidence ")


def test_the_registry_names_them_all():
    assert sorted(HYPER) == ["evidence", "hmc", "integrate", "loo", "scan", "surrogate"]
    for name, strategy in HYPER.items():
        assert isinstance(strategy, Strategy)
        assert get_strategy(name) is strategy
        assert strategy.name == name
    own = HybridMonteCarlo(iterations=5)
    assert get_strategy(own) is own


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        (
            "cv",
            r"one of \['evidence', 'hmc', 'integrate', 'loo', 'nuts', 'scan', 'surrogate'\], or a strategy .* got 'cv'",
        ),
        (3, "got 3"),
        (Evidence, r"got the class Evidence: write it with \(\)"),
    ],
)
def test_unknown_strategies_are_told_what_there_is(hyper, message):
    with pytest.raises(ValueError, match=message):
        get_strategy(hyper)


@pytest.mark.parametrize("strategy", [Evidence(), HybridMonteCarlo(), Integrate()], ids=lambda s: s.name)
def test_a_machine_without_evidence_is_refused(strategy):
    target = Target(TOY.X, LABELS, bgp.Probit(), bgp.kernels.Gaussian(1.0), METHODS["svm"])
    with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no evidence"):
        choose(strategy, target)


@pytest.mark.parametrize("starts", [0, -1, 1.5, True, "3"])
@pytest.mark.parametrize("strategy", [Evidence, type(HYPER["loo"]), Integrate])
def test_starts_are_checked(strategy, starts):
    with pytest.raises(ValueError, match="starts must be a positive integer"):
        strategy(starts=starts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.array([0.5, 0.4])}, "weights must be 2 numbers >= 0 that sum to one"),
        ({"weights": np.ones(1)}, "weights must be 2 numbers"),
        ({"chains": 3, "sampled": True}, "2 models cannot be arranged in 3 chains"),
        ({"chains": 2}, "give sampled=True and such weights, or no chains"),
        ({"chains": 1, "sampled": True, "weights": np.array([0.4, 0.6])}, "of random draws with equal weights"),
        ({"stats": {"lp": np.zeros(3)}}, r"stats\['lp'\] must have shape \(2,\), got \(3,\)"),
        ({"node_evidence": np.zeros(3)}, r"node_evidence must be None or have shape \(2,\), got \(3,\)"),
    ],
)
def test_a_result_that_does_not_fit_together_is_refused(options, message):
    models = tuple(Model.of(bgp.kernels.Bias(variance), bgp.Probit()) for variance in (1.0, 2.0))
    with pytest.raises(ValueError, match=message):
        HyperResult(models, **{"weights": np.full(2, 0.5), **options})


def test_a_search_that_ends_where_the_kernel_says_nothing_is_told_so():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X.sum(axis=1) > 0.0
    far_off, options = bgp.kernels.Gaussian(100.0, 1e-4), {"hyper": bgp.hyper.Evidence(starts=1), "draws": 5}
    with pytest.warns(bgp.ConvergenceWarning, match=r"says nothing of the targets.*start at length scales near"):
        idata = bgp.fit(X, y, far_off, **options, random_seed=1, progress=False)
    np.testing.assert_allclose(idata["fit"]["log_evidence"], 40.0 * np.log(0.5), atol=1e-2)


@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.BoundWarning")
@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.ConvergenceWarning")
@pytest.mark.parametrize(("scale", "seed"), [(0.03, 3), (0.1, 13)])  # of the second it comes to another one at first
def test_a_search_among_several_solutions_ends_at_the_one_that_a_fit_there_finds(scale, seed):
    kernel, heavy = bgp.kernels.Gaussian(1.0, 4.0), bgp.likelihoods.StudentT(scale, 1.0)
    toy = bgp.datasets.make_toy(kernel, heavy, n=12, d=1, random_seed=seed)
    options = {"draws": 2, "random_seed": 1, "progress": False}
    tuned = bgp.fit(toy.X, toy.y, kernel, heavy, hyper=Evidence(starts=1), fixed=["variance"], **options)
    chosen = bgp.posterior(tuned).parts[0]
    again = bgp.fit(toy.X, toy.y, chosen.kernel, chosen.problem.likelihood, **options)
    found, there = (get_group(each, "fit") for each in (tuned, again))
    assert float(found["log_evidence"]) == pytest.approx(float(there["log_evidence"]), abs=1e-6)
    assert float(found["hyper_log_evidence"].max()) == pytest.approx(float(there["log_evidence"]), abs=1e-3)
