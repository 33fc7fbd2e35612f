"""Options: what they may be, and that a refusal names the argument."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import log_orthant_probability, sample_orthant, sample_orthant_chains
from bayesgp_mf.hyper import Evidence, HybridMonteCarlo, Scan
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.solvers.exact import Exact
from tests.inputs.cases import KERNEL, X, Y, quick

GRAM, T = KERNEL.gram(X) + np.eye(12), np.where(Y == "present", 1.0, -1.0)
HUGE = 10**30


@pytest.mark.parametrize(
    "seed", ["a", -1, 1.5, np.array([0.5]), {"seed": 1}, pd.Series(["a"]), np.eye(2).view(np.matrix)]
)
@pytest.mark.parametrize(
    "run",
    [
        lambda seed: quick(random_seed=seed),
        lambda seed: bgp.predict(quick(), X, random_seed=seed),
        lambda seed: bgp.predict(quick(), X, draws=False, random_seed=seed),
        lambda seed: bgp.datasets.make_toy(KERNEL, random_seed=seed),
        lambda seed: sample_orthant(GRAM, T, draws=2, random_seed=seed),
        lambda seed: sample_orthant_chains(GRAM, T, random_seed=seed),
    ],
    ids=["fit", "predict", "predict without draws", "toy", "orthant", "chains"],
)
def test_a_seed_that_is_none_is_named(run, seed):
    with pytest.raises(ValueError, match="random_seed must be a non-negative integer, a numpy"):
        run(seed)


@pytest.mark.parametrize("seed", ["a", -1, 1.5, True, np.array([1]), np.random.default_rng(1), None])
def test_a_seed_that_must_be_a_number_is_named(seed):
    for run in (lambda: log_orthant_probability(GRAM, T, random_seed=seed), lambda: Exact(random_seed=seed)):
        with pytest.raises(ValueError, match="random_seed must be an integer of at least 0, got"):
            run()


@pytest.mark.parametrize("option", ["log2_points", "scrambles", "most_scrambles"])
def test_an_option_of_exact_that_is_no_count_is_named(option):
    for value in ("a", 0, 1.5):
        with pytest.raises(ValueError, match=f"{option} must be a positive integer, got {value!r}"):
            Exact(**{option: value})


def test_every_seed_that_numpy_takes_is_taken():
    for seed in (0, np.int64(3), HUGE, np.random.default_rng(1), np.random.SeedSequence(1), None):
        quick(random_seed=seed)


@pytest.mark.parametrize("control", [None, bgp.Control, {"throw": False}, 1e-6], ids=repr)
def test_a_control_that_is_none_is_named(control):
    message = r"control must be a Control, such as Control\(tolerance=1e-6\), got "
    for run in (
        lambda: quick(control=control),
        lambda: quick(control=control, hyper="evidence"),
        lambda: bgp.solve(GRAM, T, bgp.Probit(), control=control),
    ):
        with pytest.raises(ValueError, match=message):
            run()


@pytest.mark.parametrize("method", ["tap", "naive", "laplace", "online", "svm", "exact"])
@pytest.mark.parametrize("start", ["x", 3, T])
def test_a_start_that_is_none_is_named(method, start):
    likelihood = bgp.Step() if method == "svm" else bgp.Probit()
    with pytest.raises(ValueError, match="start must be a Solution, as solve returns it, or None, got"):
        bgp.solve(GRAM, T, likelihood, method=method, start=start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"throw": "no"}, "throw must be True or False, got 'no'"),
        ({"throw": None}, "throw must be True or False, got None"),
        ({"progress": "no"}, "progress must be True or False, got 'no'"),
        ({"max_iterations": True}, "max_iterations must be a positive integer, got True"),
    ],
)
def test_a_control_refuses_what_would_count_as_true(options, message):
    with pytest.raises(ValueError, match=message):
        bgp.Control(**options)
    assert not bgp.Control(throw=np.bool_(False)).throw


@pytest.mark.parametrize("draws", ["no", 0, 5, None])
def test_predict_draws_or_does_not(draws):
    with pytest.raises(ValueError, match=f"draws must be True or False, got {draws!r}"):
        bgp.predict(quick(), X, draws=draws)
    assert "f" not in bgp.predict(quick(), X, draws=np.bool_(False))["predictions"]


@pytest.mark.parametrize("progress", ["no", None, 1])
def test_progress_is_shown_or_is_not(progress):
    with pytest.raises(ValueError, match=f"progress must be True or False, got {progress!r}"):
        quick(progress=progress)


@pytest.mark.parametrize("fixed", [3, None, [3], [["lengthscale"]], "lengthscale", np.float64(1.0)])
@pytest.mark.parametrize("hyper", [None, "evidence"])
def test_names_of_fixed_parameters_are_names(fixed, hyper):
    with pytest.raises(ValueError, match=r"fixed must be a collection of parameter names, got .* write fixed="):
        quick(hyper=hyper, fixed=fixed)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: quick(draws=HUGE), "draws must be at most 1000000000000000"),
        (lambda: quick(draws=np.int64(2**62)), "draws must be at most 1000000000000000"),
        (lambda: quick(chains=HUGE), "chains must be at most 1000000000000000"),
        (lambda: quick(draws=HUGE, hyper="hmc"), "draws must be at most 1000000000000000"),
        (lambda: quick(hyper=bgp.hyper.Evidence(starts=HUGE)), "starts must be at most 1000000000000000"),
        (lambda: Evidence(starts="x"), "starts must be a positive integer, got 'x'"),
        (lambda: Evidence(starts=HUGE), "starts must be at most 1000000000000000"),
        (lambda: HybridMonteCarlo(iterations=HUGE), "iterations must be at most 1000000000000000"),
        (lambda: sample_orthant(GRAM, T, draws=HUGE), "draws must be at most 1000000000000000"),
        (lambda: bgp.hyper.LogNormal(10**400, 1.0), "mean must be a finite number"),
        (lambda: quick(hyper=Scan(grid={"lengthscale": [10**400]})), "grid.'lengthscale'. must be a sequence of num"),
        (lambda: quick(hyper="evidence", bounds={"lengthscale": (0.1, 10**400)}), "bounds.'lengthscale'. must be two"),
        (lambda: bgp.kernels.Gaussian(10**400), "lengthscale must be a number or a sequence of numbers"),
        (lambda: Gaussian(10**400), "noise_variance must be a finite number > 0"),
        (lambda: bgp.Probit(flip=10**400), "flip must be a probability"),
        (lambda: bgp.solve([[10**400]], [1.0], bgp.Probit()), "gram must hold numbers"),
    ],
)
def test_a_huge_number_is_named(run, message):
    with pytest.raises(ValueError, match=message):
        run()


@pytest.mark.parametrize("method", ["tap", "svm"])
def test_any_number_of_iterations_is_allowed(method):
    likelihood = bgp.Step() if method == "svm" else bgp.Probit()
    few, many = (
        bgp.solve(GRAM, T, likelihood, method=method, control=bgp.Control(max_iterations=count))
        for count in (500, HUGE)
    )
    np.testing.assert_array_equal(few.alpha, many.alpha)


def test_draws_beyond_memory_are_refused_whatever_kind_of_integer_counts_them():
    for draws in (10**15, np.int64(10**15)):
        with pytest.raises(MemoryError, match="draws of 12 training cases"):
            quick(draws=draws, chains=draws)


@pytest.mark.parametrize("given", [KERNEL, type(KERNEL)], ids=["kernel", "class"])
def test_a_kernel_in_the_place_of_data_is_named(given):
    """It has columns, as a table has."""
    idata = quick()
    for name, run in (
        ("X", lambda: bgp.fit(given, Y, KERNEL)),
        ("y", lambda: bgp.fit(X, given, KERNEL)),
        ("weights", lambda: bgp.fit(X, Y, KERNEL, weights=given)),
        ("X_new", lambda: bgp.predict(idata, given)),
    ):
        with pytest.raises(ValueError, match=f"{name} must be an array or a table of numbers, got "):
            run()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: bgp.kernels.Gaussian(columns=np.array(3)), r"columns must be names or positions.* got array\(3\)"),
        (lambda: bgp.likelihoods.Censored(bgp.likelihoods.Weibull(), {}), "other_limit must hold numbers"),
        (lambda: bgp.likelihoods.Censored(bgp.likelihoods.Weibull(), 10**400), "other_limit must hold numbers"),
        (lambda: bgp.kernels.Areal({"a": 1}), "the neighbours of 'a' must be a list of areas, got 1"),
        (lambda: bgp.kernels.Areal(np.array(3)), "graph must be a dict of the neighbours"),
        (lambda: bgp.hyper.Distance(1.0, (1.0, 2.0)), "log_values and distances must be as many numbers that rise"),
        (lambda: bgp.fit(X, Y, KERNEL, priors=pd.Series([1, 2])), "priors must map names of parameters"),
        (lambda: bgp.fit(X, Y, KERNEL, marginals=pd.NA), "marginals must be 'gaussian' or 'tilted'"),
        (lambda: bgp.Control(gram=np.array(["dense", "auto"])), "gram must be 'auto', 'dense' or 'low_rank'"),
    ],
)
def test_what_is_no_such_argument_is_told_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()
