"""Simulation-based calibration of a model at given inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bayesgp_mf as bgp

X = np.random.default_rng(1).normal(size=(20, 2))
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)
NOISE = bgp.likelihoods.Gaussian(0.5)


def same(one, other):
    return all(np.array_equal(one.ranks[name], other.ranks[name]) for name in one.ranks)


def test_an_exact_posterior_passes_and_one_of_a_wrong_prior_fails():
    exact = bgp.calibrate(X, KERNEL, NOISE, method="exact", replicas=100, draws=19, random_seed=1)
    assert exact.passed
    assert exact.verdict.startswith("passed")
    np.testing.assert_allclose(exact.to_frame()["mean"], 0.5, atol=4 * np.sqrt(1 / 12 / 100))
    wrong = bgp.calibrate(X, KERNEL, NOISE, method="exact", replicas=100, draws=19, random_seed=1,
                          true_kernel=bgp.kernels.Gaussian(0.1, 20.0))  # fmt: skip
    assert not wrong.passed
    assert "too sure" in wrong.verdict
    assert wrong.to_frame().loc["f", "spread"] > 1.3


def test_laplace_fails_where_its_mode_is_no_mean():
    small = bgp.calibrate(
        X, KERNEL, bgp.Probit(noise_variance=0.01), method="laplace", replicas=60, draws=19, random_seed=1
    )
    assert not small.passed


def test_outliers_pass_by_the_shapes_of_single_values_only():
    """Of a target far from the others the latent value may be here or there, which no Gaussian says."""
    outliers = X, bgp.kernels.Matern32(1.0, 2.0), bgp.likelihoods.StudentT(0.3, 3.0)
    options = {"replicas": 60, "draws": 19, "random_seed": 1}
    gaussian, tilted = (bgp.calibrate(*outliers, marginals=shape, **options) for shape in ("gaussian", "tilted"))
    assert tilted.passed
    ranks = [found.to_frame().loc["log_likelihood", "mean"] for found in (gaussian, tilted)]  # of the same data sets
    assert ranks[0] - ranks[1] > 0.08


def test_ranks_do_not_depend_on_who_computes_them_or_when(tmp_path):
    whole = bgp.calibrate(X, KERNEL, replicas=12, draws=19, random_seed=1)
    path = tmp_path / "ranks.jsonl"
    bgp.calibrate(X, KERNEL, replicas=5, draws=19, random_seed=1, path=path)
    with path.open("a") as file:  # a process that was killed while it wrote
        file.write('[5, {"f"')
    assert same(whole, bgp.calibrate(X, KERNEL, replicas=12, draws=19, path=path))
    assert len(path.read_text().splitlines()) == 13
    assert same(whole, bgp.calibrate(X, KERNEL, replicas=12, draws=19, random_seed=1, path=path))
    assert same(whole, bgp.calibrate(X, KERNEL, replicas=12, draws=19, random_seed=1, processes=2))


def test_a_file_of_another_call_is_refused(tmp_path):
    path = tmp_path / "ranks.jsonl"
    bgp.calibrate(X, KERNEL, replicas=2, draws=9, random_seed=1, path=path)
    others = {"draws": {"draws": 19}, "method": {"method": "naive"}, "random_seed": {"random_seed": 2}}
    others["marginals"] = {"marginals": "tilted"}
    for what, other in others.items():
        with pytest.raises(ValueError, match=f"path .* has replicas of another .*{what}"):
            bgp.calibrate(X, KERNEL, replicas=2, path=path, **{"draws": 9, **other})
    with pytest.raises(ValueError, match="inputs"):
        bgp.calibrate(2.0 * X, KERNEL, replicas=2, draws=9, path=path)
    header, *lines = path.read_text().split("\n")
    path.write_text(
        "\n".join([json.dumps(json.loads(header) | {"call": {**json.loads(header)["call"], "new": 1}}), *lines])
    )
    with pytest.raises(ValueError, match=r"differs in new\. Give another name"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path)
    path.write_text("no file of ours")
    with pytest.raises(ValueError, match=r"no file of bgp\.calibrate, or damaged"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path)


def test_more_draws_than_fit_into_memory_are_refused():
    with pytest.raises(MemoryError, match=r"Ask for fewer: calibrate\(\.\.\., draws=\.\.\.\)"):
        bgp.calibrate(X, KERNEL, draws=10**12, progress=False)


def test_ctrl_c_keeps_what_is_done():
    seen = []

    def stops(f, y):
        seen.append(len(f))
        if len(seen) > 8:
            raise KeyboardInterrupt
        return f[:, 0]

    with pytest.warns(UserWarning, match="Ctrl-C: 4 of 12 replicas are done"):
        found = bgp.calibrate(X, KERNEL, replicas=12, draws=9, quantities={"first": stops}, random_seed=1)
    assert found.replicas == 4
    assert "first" in found.ranks


def test_point_estimates_are_told_that_they_cannot_pass_and_averages_are_ranked():
    priors = bgp.priors.suggest(X, KERNEL)
    point = bgp.calibrate(X, KERNEL, priors=priors, hyper="evidence", replicas=3, draws=9, random_seed=1)
    assert "cannot pass" in point.verdict
    assert "lengthscale" not in point.ranks
    nodes = bgp.calibrate(X, KERNEL, priors=priors, hyper="integrate", replicas=3, draws=9, random_seed=1)
    assert "nodes" in nodes.verdict
    few = bgp.hyper.Surrogate(nodes=100)
    drawn = bgp.calibrate(X, KERNEL, priors=priors, hyper=few, replicas=2, draws=9, random_seed=1)
    assert {"lengthscale", "variance", "f", "mean_f", "log_likelihood"} == set(drawn.ranks)


@pytest.mark.parametrize(
    "likelihood", [bgp.Step(), bgp.Softmax(classes=("a", "b", "c")), bgp.Binomial(np.arange(1, 21))]
)
def test_other_targets_are_calibrated_too(likelihood):
    found = bgp.calibrate(X, KERNEL, likelihood, replicas=5, draws=9, offset=None, random_seed=1)
    assert found.replicas == 5
    assert ("log_likelihood" in found.ranks) == (likelihood != bgp.Step())
    group = found.idata["prior_sbc"]
    assert float(group["f"].min()) > 0 and float(group["f"].max()) < 1  # noqa: PT018


def test_what_does_not_go_together_is_refused_before_any_work():
    priors = bgp.priors.suggest(X, KERNEL)
    for message, given in {
        "replicas must be a positive": {"replicas": 0},
        "hyper=None keeps lengthscale": {"priors": priors},
        "priors has none of lengthscale": {"priors": {"variance": priors["variance"]}, "hyper": "integrate"},
        "quantities\\['a'\\] must be a function": {"quantities": {"a": 3}},
        "quantities\\[1\\] must be a function of f and y, by a name": {"quantities": {1: lambda f, y: f[:, 0]}},
        "quantities\\['mean_f'\\] has a name that is taken": {"quantities": {"mean_f": lambda f, y: f[:, 0]}},
        "quantities\\['draw'\\] has a name that is taken": {"quantities": {"draw": lambda f, y: f[:, 0]}},
        "priors must map names": {"priors": 3},
        "bounds must map names": {"bounds": 3},
        "fixed names 'zz', which this model does not have": {"fixed": ["zz"]},
        "must return a finite number for each": {"quantities": {"a": lambda f, y: 1.0}},
        "quantities\\['a'\\] must return real numbers": {"quantities": {"a": lambda f, y: 1j * f[:, 0]}},
        "path must be the name of a file": {"path": 3},
    }.items():
        with pytest.raises(ValueError, match=message):
            bgp.calibrate(X, KERNEL, **{"replicas": 3, "draws": 9, **given})
    with pytest.raises(MemoryError, match="1000000000000 replicas need about"):
        bgp.calibrate(X, KERNEL, replicas=10**12)


@pytest.mark.parametrize(
    "line",
    [
        "[0, 3]",
        "[0, {}]",
        '["a", {}]',
        '[-1, {"f": 3}]',
        '[true, {"f": 3}]',
        '[0, {"f": "x"}]',
        '[0, {"f": 10}]',
        '[0.0, {"f": 1}]',
        '[0, {"f": 1.5}]',
        "3",
    ],
)
def test_a_line_that_cannot_be_of_a_replica_is_damage(tmp_path, line):
    path = tmp_path / "ranks.jsonl"
    bgp.calibrate(X, KERNEL, replicas=1, draws=9, random_seed=1, path=path)
    header = path.read_text().splitlines()[0]
    path.write_text(f"{header}\n{line}\n")
    with pytest.raises(ValueError, match=r"no file of bgp\.calibrate, or damaged"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path)
    path.write_text(header)  # and one that was cut off before its first line
    with pytest.raises(ValueError, match=r"no file of bgp\.calibrate, or damaged"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path)
    path.write_text("")
    with pytest.raises(ValueError, match=r"path .* cannot be written"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path / "ranks.jsonl")
    with pytest.raises(ValueError, match=r"path .*\{\}.* cannot be written: OSError, .*too long"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=tmp_path / ("{}" + 300 * "a"))


def test_a_file_that_can_no_longer_be_written_is_named(tmp_path):
    """As on a full disk; what is done stays there."""
    folder = tmp_path / "folder"

    def moved_away(f, t):
        if folder.exists():
            folder.rename(tmp_path / "elsewhere")
        return f[:, 0]

    options = {"quantities": {"first": moved_away}, "replicas": 2, "draws": 9, "random_seed": 1}
    with pytest.raises(OSError, match=r"path .*ranks\.jsonl' cannot be written: FileNotFoundError.*Mend that"):
        bgp.calibrate(X, KERNEL, path=folder / "ranks.jsonl", **options)


def test_another_covariance_must_be_one_of_the_model():
    one = bgp.kernels.Gaussian(1.0)
    with pytest.raises(ValueError, match="PerClass"):
        bgp.calibrate(X, KERNEL, true_kernel=bgp.kernels.PerClass(one, one), replicas=2)
    with pytest.raises(ValueError, match="column"):
        bgp.calibrate(X, KERNEL, true_kernel=bgp.kernels.Gaussian(1.0, columns=[7]), replicas=2)
    with pytest.raises(ValueError, match="lengthscale"):
        bgp.calibrate(X, KERNEL, true_kernel=bgp.kernels.Gaussian([1.0] * 9), replicas=2)


def test_quantities_cannot_change_what_others_see():
    def erased(f, y):
        f *= 0.0
        y *= 0.0
        return f[:, 0]

    options = {"replicas": 6, "draws": 19, "random_seed": 1}
    plain, other = (bgp.calibrate(X, KERNEL, quantities=each, **options) for each in (None, {"erased": erased}))
    assert same(plain, other)


def test_the_log_likelihood_is_ranked_where_no_slope_is_left():
    few = np.random.default_rng(0).normal(size=(3, 2))
    found = bgp.calibrate(few, bgp.kernels.Gaussian(1.0, 1e6), replicas=30, draws=9, random_seed=1)
    assert set(found.ranks) == {"f", "mean_f", "log_likelihood"}


def test_a_replica_that_cannot_be_drawn_or_tabulated_is_counted_as_failed():
    """Of so wide a prior some counts have more digits than numbers, and some labels no tilted distribution."""
    few = np.random.default_rng(0).normal(size=(12, 2))
    counts = bgp.calibrate(few, bgp.kernels.Gaussian(1.0, 400.0), bgp.Poisson(), replicas=6, draws=19, random_seed=1)
    assert 0 < counts.failed < 6
    assert "undecided" in counts.verdict
    wide = bgp.calibrate(few, bgp.kernels.Gaussian(1.0, 1e8), replicas=6, draws=9, random_seed=1, marginals="tilted")
    assert 0 < wide.failed < 6


def test_what_no_replica_can_have_is_said_as_fit_says_it():
    """It is a mistake in the call, and no data set without a solution."""
    priors = bgp.priors.suggest(X, KERNEL)
    for message, given in {
        "grid names 'zz'": {"priors": priors, "hyper": bgp.hyper.Scan({"zz": [1.0]})},
        "method 'svm' has no posterior variance": {"method": "svm"},
    }.items():
        with pytest.raises(ValueError, match=message):
            bgp.calibrate(X, KERNEL, replicas=2, draws=9, **given)


def test_a_replica_in_a_file_without_some_of_its_ranks_is_damage(tmp_path):
    path = tmp_path / "ranks.jsonl"
    bgp.calibrate(X, KERNEL, replicas=1, draws=9, random_seed=1, path=path)
    path.write_text(path.read_text().splitlines()[0] + '\n[0, {"f": 3}]\n')
    with pytest.raises(ValueError, match="replicas without some of their ranks"):
        bgp.calibrate(X, KERNEL, replicas=2, draws=9, path=path)


def test_few_data_sets_decide_nothing_and_the_first_error_is_told():
    few = bgp.calibrate(X, KERNEL, bgp.Probit(), replicas=4, random_seed=1, progress=False)
    assert not few.passed
    assert few.verdict.startswith("undecided: 4 data sets are too few")
    with pytest.raises(bgp.ConvergenceError, match=r"none of 2 .*The first: tilted marginals need .*White"):
        bgp.calibrate(
            np.linspace(0.0, 1.0, 60)[:, None], KERNEL, bgp.Probit(), marginals="tilted", replicas=2, progress=False
        )
