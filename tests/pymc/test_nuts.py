"""NUTS over hyperparameters: draws from the target that a grid integrates, what is counted, what is refused."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from joblib import cpu_count

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import EvidenceScore, LogNormal, Objective, Strategy, Target, get_strategy
from bayesgp_mf.hyper.priors import DEFAULT_SD
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.methods import METHODS
from bayesgp_mf.pymc import Nuts, nuts
from bayesgp_mf.pymc.kernel import from_pymc
from bayesgp_mf.pymc.nuts import LogTarget, inside
from tests.hyper.known import MEAN, PRECISION, Quadratic, ignore, known_target
from tests.pymc.conftest import INTERPRETED

KERNEL = bgp.kernels.Gaussian(1.0, 4.0)


def target_of(data, *, method="tap", **options) -> Target:
    return Target(data.X, data.t, bgp.Probit(), KERNEL, METHODS[method], **options)


def fit(data, strategy, **options):
    return bgp.fit(data.X, data.y, KERNEL, hyper=strategy, random_seed=1, progress=False, **options)


def moments_on_a_grid(target):
    """Return mean and standard deviation of the one free log parameter under evidence times prior."""
    objective = Objective(target, EvidenceScore(), from_prior=True)
    grid = np.linspace(-2.5, 3.0, 111)
    values = np.array([objective.value(np.array([x])) for x in grid])
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    assert max(weights[0], weights[-1]) < 1e-4
    mean = float(weights @ grid)
    return mean, float(np.sqrt(weights @ (grid - mean) ** 2))


@pytest.mark.parametrize(("seconds", "is_said"), [(0.0, True), (1e6, False)])
def test_long_chains_are_said_to_be_long_before_they_run(data, monkeypatch, seconds, is_said):
    """And once: not again when the draws are looked at."""
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.SAID", {})
    monkeypatch.setattr("bayesgp_mf.hyper.forecast.LONG_SECONDS", seconds)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit(data, Nuts(draws=4, tune=4, chains=2, cores=1))
    said = [str(each.message) for each in found if "will take about" in str(each.message)]
    assert len(said) == is_said
    assert all("some 96 solutions" in each for each in said)


@pytest.fixture(scope="module")
def idata(data):
    strategy = Nuts(draws=360, tune=60, chains=1)
    return fit(
        data, strategy, method="laplace", fixed={"variance"}, priors={"lengthscale": pm.InverseGamma.dist(5.0, 5.0)}
    )


def test_draws_are_from_evidence_times_prior(data, idata):
    draws = np.log(get_group(idata, "posterior")["lengthscale"].values)
    assert draws.shape == (1, 360)
    prior = {"lengthscale": pm.InverseGamma.dist(5.0, 5.0)}
    mean, sd = moments_on_a_grid(target_of(data, method="laplace", fixed={"variance"}, priors=prior))
    batches = draws.reshape(15, 24).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(15)
    assert error < 0.2 * sd
    assert abs(draws.mean() - mean) < 3.5 * error
    assert draws.std() == pytest.approx(sd, rel=0.2)
    # the control: under another prior the mean is another one
    other = moments_on_a_grid(
        target_of(data, method="laplace", fixed={"variance"}, priors={"lengthscale": LogNormal(1.0, 0.5)})
    )
    assert abs(draws.mean() - other[0]) > 3.5 * error


def test_the_container_has_each_draw_with_its_statistics(data, idata):
    stats, found = get_group(idata, "sample_stats"), get_group(idata, "fit")
    assert {"lp", "diverging", "n_steps"} <= set(stats.data_vars)
    assert not stats["diverging"].values.any()
    assert np.all(stats["n_steps"].values >= 1)
    assert get_group(idata, "posterior")["f"].shape == (1, 360, 20)
    assert found.attrs["hyper"] == "nuts"
    assert int(found["hyper_n_failures"]) == 0
    assert int(found["hyper_n_evaluations"]) >= int(stats["n_steps"].sum())
    assert found["hyper_default_prior"].values.tolist() == [False]
    target = target_of(
        data, method="laplace", fixed={"variance"}, priors={"lengthscale": pm.InverseGamma.dist(5.0, 5.0)}
    )
    scale = get_group(idata, "posterior")["lengthscale"].values[0, 7]
    value = Objective(target, EvidenceScore()).value(np.log([scale]))
    assert float(stats["lp"][0, 7]) == pytest.approx(value, abs=1e-6)
    evidence = found["log_evidence"].values[stats["node"].values]
    in_logarithm = get_group(idata, "log_prior")["lengthscale"] + np.log(get_group(idata, "posterior")["lengthscale"])
    np.testing.assert_allclose(evidence + in_logarithm, stats["lp"], atol=1e-6)


def test_two_parameters_one_of_them_in_bounds():
    # the evidence is N(MEAN, PRECISION^-1) in the logarithms; solving it costs nothing
    bounds = {"bias_variance": (0.9, 4.0)}
    target = known_target(bounds=bounds, priors={"white_variance": LogNormal(1.0, 0.5)})
    result = Nuts(draws=90, tune=50, chains=2).choose(target, np.random.default_rng(3), ignore)
    draws = np.array([target.free_logarithms(kernel) for kernel in result.kernels])
    assert (result.sampled, result.chains, len(result.kernels)) == (True, 2, 180)
    assert np.all((draws >= target.lower) & (draws <= target.upper))
    x, y = np.meshgrid(np.linspace(*np.log(bounds["bias_variance"]), 200), np.linspace(-6.0, 6.0, 400), indexing="ij")
    apart = np.stack([x, y], axis=-1) - MEAN
    weights = np.exp(-0.5 * np.einsum("...i,ij,...j", apart, PRECISION, apart) - 0.5 * ((y - 1.0) / 0.5) ** 2)
    expected = np.array([np.sum(weights * x), np.sum(weights * y)]) / weights.sum()
    batches = draws.reshape(20, 9, 2).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(20)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - expected), 4.0 * error)
    assert np.any(np.abs(MEAN - expected) > 4.0 * error)  # the control: without bounds and prior


def test_the_seed_decides():
    first, again, other = (
        Nuts(draws=10, tune=10, chains=1).choose(known_target(), np.random.default_rng(seed), ignore)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.stats["lp"], again.stats["lp"])
    assert np.all(first.stats["lp"] != other.stats["lp"])
    # the priors that were added are told, for the group log_prior
    assert first.priors.keys() == {"bias_variance", "white_variance"} > known_target().priors.keys()


def test_processes_make_the_same_draws_and_say_how_far_they_are(data):
    target, notes = target_of(data, method="laplace", priors={"lengthscale": from_pymc(pm.Gamma.dist(2.0, 1.0))}), []
    alone, apart = (
        Nuts(draws=12, tune=12, chains=2, cores=cores).choose(target, np.random.default_rng(5), advance)
        for cores, advance in ((1, ignore), (2, notes.append))
    )
    np.testing.assert_array_equal(apart.stats["lp"], alone.stats["lp"])
    assert len(np.unique(alone.stats["lp"])) > 12  # the chains are two
    for name in ("hyper_n_evaluations", "hyper_n_failures"):
        assert apart.record[name][1] == alone.record[name][1]
    assert any("by 2 chains" in note for note in notes)


@pytest.mark.parametrize(
    ("draws", "cores", "at_once"),
    [(10, None, 1), (10**5, None, min(2, cpu_count())), (10, 2, 2), (10**5, 1, 1), (10, 5, 2)],
)
def test_short_chains_stay_in_this_process_unless_asked_otherwise(data, draws, cores, at_once, set_memory, monkeypatch):
    def begin(sampling, chains, cores, rng, advance):
        raise RuntimeError(f"{cores} at once")

    monkeypatch.setattr(nuts, "run_chains", begin)
    set_memory(1e12)
    with pytest.raises(RuntimeError, match=f"^{at_once} at once"):
        Nuts(draws=draws, tune=10, chains=2, cores=cores).choose(target_of(data), np.random.default_rng(0), ignore)


@pytest.mark.parametrize("after", [3, 60], ids=["tuning", "drawing"])
def test_an_interruption_is_not_swallowed(after):
    calls = []

    class Interrupted(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            calls.append(1)
            if len(calls) > after:
                raise KeyboardInterrupt
            return super().solve(problem, control, start)

    with pytest.raises(KeyboardInterrupt):
        Nuts(draws=500, tune=5, chains=1).choose(known_target(solver=Interrupted()), np.random.default_rng(0), ignore)


LARGEST_BIAS = 1.0


class Unsolvable(Quadratic):
    """A solver without a solution where the bias is large."""

    def solve(self, problem, control=bgp.Control(), start=None):
        if self.log_variances(problem)[0] > LARGEST_BIAS:
            raise bgp.ConvergenceError("there is none", bgp.Status.NO_VALID_STEP)
        return super().solve(problem, control, start)


def test_a_region_without_solutions_is_counted_and_warned_about():
    target = known_target(solver=Unsolvable())
    with pytest.warns(bgp.ConvergenceWarning, match=r"trajectories diverged; \d+ of \d+ points"):
        result = Nuts(draws=50, tune=50, chains=1).choose(target, np.random.default_rng(0), ignore)
    n_failures = int(result.record["hyper_n_failures"][1])
    assert n_failures >= int(result.stats["diverging"].sum()) > 0
    assert all(kernel.params["bias_variance"] <= np.exp(LARGEST_BIAS) for kernel in result.kernels)
    assert np.all(np.isfinite(result.stats["lp"]))


def test_nutpie_counts_the_same_and_its_threads_draw_the_same():
    target = known_target(solver=Unsolvable())
    results = []
    for cores in (1, 2):
        strategy = Nuts(draws=40, tune=60, chains=2, nuts_sampler="nutpie", cores=cores)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own
            warnings.filterwarnings("error", message="Numba will use object mode")
            warnings.filterwarnings("default", category=bgp.ConvergenceWarning)
            with pytest.warns(bgp.ConvergenceWarning, match=r"trajectories diverged; \d+ of \d+ points"):
                results.append(strategy.choose(target, np.random.default_rng(0), ignore))
    one, two = results
    assert int(one.record["hyper_n_failures"][1]) >= int(one.stats["diverging"].sum()) > 0
    assert int(one.record["hyper_n_failures"][1]) == int(two.record["hyper_n_failures"][1])
    assert all(kernel.params["bias_variance"] <= np.exp(LARGEST_BIAS) for kernel in one.kernels)
    np.testing.assert_array_equal(one.stats["lp"], two.stats["lp"])


def test_a_start_without_a_solution_is_an_error(data):
    target = target_of(data, control=bgp.Control(max_iterations=1))
    with pytest.raises(bgp.ConvergenceError, match="no solution at the starting point"):
        Nuts().choose(target, np.random.default_rng(0), ignore)


def test_the_operation_gives_the_objective_and_its_gradient(data):
    notes = []
    op = LogTarget(target_of(data, priors={"lengthscale": LogNormal(0.0, 1.0)}), notes.append)
    x = pt.dvector("x")
    value = op(x)[0]
    run = pytensor.function([x], [value, pytensor.grad(value, x)], mode=INTERPRETED)
    at = np.array([0.2, 1.1])
    found, gradient = run(at)
    expected = Objective(op.target, EvidenceScore(KNOWN))(at)
    assert found == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])
    difference = [(run(at + step)[0] - run(at - step)[0]) / 2e-4 for step in 1e-4 * np.eye(2)]
    # of an evidence that is known to 1e-5 nats the gradient is known to some thousandths
    np.testing.assert_allclose(gradient, difference, rtol=0.01)
    failed, zero = run(np.array([200.0, 0.0]))
    assert failed == -np.inf
    np.testing.assert_array_equal(zero, 0.0)
    assert op.n_failures == 1  # one solution serves value and gradient
    assert len(notes) == op.n_evaluations
    with pytest.raises(NotImplementedError, match="only once"):
        pytensor.grad(op(x)[1].sum(), x)


def test_copies_count_together(data):
    op = LogTarget(target_of(data), ignore)
    assert pickle.loads(pickle.dumps(op)) is op
    assert copy.deepcopy(op) is op
    assert op != LogTarget(op.target, ignore)


def test_what_has_no_prior_gets_one_around_its_start(data):
    target, by_default = target_of(data, bounds={"variance": (0.1, 10.0)}).with_default_priors()
    np.testing.assert_array_equal(by_default, [True, False])
    density, slope = target.priors["lengthscale"].log_density(np.array([0.0, 1.5]))
    np.testing.assert_allclose(density[0], -np.log(DEFAULT_SD) - 0.5 * np.log(2.0 * np.pi))
    np.testing.assert_allclose(slope, [0.0, -1.5 / DEFAULT_SD**2])
    np.testing.assert_array_equal(target.upper, [np.inf, np.log(10.0)])
    at_the_wall = target_of(data, bounds={"variance": (4.0, 10.0)})
    assert inside(at_the_wall)[1] > at_the_wall.lower[1] == at_the_wall.start[1]


DISTRIBUTIONS = {
    "inverse gamma": (pm.InverseGamma.dist(5.0, 5.0), [0.3, 0.8, 4.0]),
    "half-normal": (pm.HalfNormal.dist(2.0), [0.3, 0.8, 4.0]),
    "truncated": (pm.Truncated.dist(pm.Normal.dist(1.0, 1.0), lower=0.2, upper=3.0), [0.3, 0.8, 2.9]),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_of_pymc_is_a_density_of_the_logarithm(name):
    distribution, values = DISTRIBUTIONS[name]
    prior, logs = from_pymc(distribution), np.log(values)
    density, slope = prior.log_density(logs)
    expected = [pm.logp(distribution, value).eval(mode=INTERPRETED) + np.log(value) for value in values]
    np.testing.assert_allclose(density, expected, rtol=1e-10)
    difference = (prior.log_density(logs + 1e-5)[0] - prior.log_density(logs - 1e-5)[0]) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)
    grid = np.linspace(-15.0, 6.0, 4000)
    assert np.trapezoid(np.exp(prior.log_density(grid)[0]), grid) == pytest.approx(1.0, abs=5e-3)
    copied = pickle.loads(pickle.dumps(prior))
    np.testing.assert_array_equal(copied.log_density(logs)[0], density)


def test_it_is_a_prior_of_every_strategy_and_has_no_density_outside_of_its_support(data):
    prior = pm.Uniform.dist(0.5, 2.0)
    density, slope = from_pymc(prior).log_density(np.log([0.4, 1.0, 3.0]))
    np.testing.assert_allclose(density, [-np.inf, -np.log(1.5), -np.inf])
    np.testing.assert_allclose(slope, [0.0, 1.0, 0.0], atol=1e-12)
    by_pymc, ours = (
        fit(data, bgp.hyper.Evidence(starts=1), draws=5, fixed={"variance"}, priors={"lengthscale": prior})
        for prior in (pm.LogNormal.dist(0.5, 0.4), LogNormal(0.5, 0.4))
    )
    found = [float(get_group(idata, "fit")["lengthscale"]) for idata in (by_pymc, ours)]
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_what_is_no_prior_is_refused(data):
    with pm.Model():
        shape = pm.HalfNormal("shape")
    for prior, message in (
        (pm.Gamma.dist(shape, 1.0), "must be numbers"),
        (pm.Poisson.dist(3.0), "continuous"),
        (pm.Gamma.dist([1.0, 2.0], 1.0), "without a shape"),
        (pm.Gamma.dist(-2.0, 1.0), "out of their range; expected alpha > 0"),
        (pt.dscalar(), "must be a distribution"),
    ):
        with pytest.raises(ValueError, match=message):
            target_of(data, priors={"lengthscale": prior})
    with pytest.raises(ValueError, match="priors names 'period', which this model does not have"):
        fit(data, "nuts", priors={"period": pm.Gamma.dist(2.0, 1.0)})


def test_a_machine_without_evidence_is_refused(data):
    with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' is a limit"):
        fit(data, "nuts", method="svm")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be a positive integer"),
        ({"tune": 0}, "tune must be a positive integer"),
        ({"chains": 1.5}, "chains must be a positive integer"),
        ({"target_accept": 1.0}, "0 < target_accept < 1"),
        ({"nuts_sampler": "numpyro"}, "need JAX"),
        ({"cores": 0}, "cores must be a positive integer"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Nuts(**options)


def test_it_goes_by_its_name():
    assert get_strategy("nuts") == Nuts()
    assert isinstance(Nuts(), Strategy)
    assert Nuts().averages
    with pytest.raises(ValueError, match=r"'loo', 'nuts', 'scan'"):
        get_strategy("NUTS")


def test_numba_need_not_be_there(new_process):
    run = new_process.run("import sys; sys.modules['numba'] = None; import bayesgp_mf.pymc")
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("package", ["nutpie", "numba"])
def test_a_sampler_that_is_not_installed_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"needs {package}: pip install 'nutpie\[pymc\]', or use 'pymc'"):
        Nuts(nuts_sampler="nutpie")


def test_on_inducing_cases_it_samples_the_evidence_there(data):
    """With all cases for inducing cases the draws are those without, since the target is the same."""
    options = {"method": "laplace", "fixed": {"variance"}, "priors": {"lengthscale": LogNormal(0.0, 0.5)}}
    strategy = Nuts(draws=12, tune=12, chains=1)
    dense, ours = fit(data, strategy, **options), fit(data, strategy, inducing=data.X, **options)
    few = fit(data, strategy, inducing=6, **options)
    draws = [get_group(idata, "posterior")["lengthscale"].values for idata in (dense, ours, few)]
    np.testing.assert_allclose(draws[1], draws[0], rtol=1e-4)
    assert not np.allclose(draws[2], draws[0], rtol=1e-2)
    assert get_group(few, "fit").sizes["inducing"] == 6
    assert get_group(few, "fit").sizes["node"] == np.unique(draws[2]).size
