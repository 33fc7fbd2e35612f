"""The joint model in its own variables, what is made of its draws, and the verdicts. Nothing is sampled here."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor import config

import bayesgp_mf as bgp
from tests.reports.page_parser import check_self_contained
from validation.benchmarks import hyperposterior as benchmark
from validation.hyperposterior import __main__ as command
from validation.hyperposterior import importance, record_joint, recorded_joint
from validation.hyperposterior.approximate import Sampled
from validation.hyperposterior.averaged import Averaged
from validation.hyperposterior.comparison import JointComparison
from validation.hyperposterior.importance import Weighted
from validation.hyperposterior.joint import REST, SHIFTED, Sites, joint_model, probabilities, sites_at
from validation.hyperposterior.recorded_joint import RecordedJoint
from validation.hyperposterior.setting import LIKELIHOOD, kernel_at, load, log_parameters_of, parameter_names
from validation.reporting.checks import passed
from validation.sampling.chain import Chain, NutsSettings
from validation.sampling.recording import all_chains, write_chain
from validation.sampling.statistics import apart, statistics
from validation.tables.selection import Split

RNG = np.random.default_rng(7)
X = RNG.standard_normal((9, 2))
T = np.where(X[:, 0] + 0.5 * RNG.standard_normal(9) > 0, 1.0, -1.0)
POINT = np.array([-0.5, 0.3, 1.1])
OTHER = np.array([0.4, -1.0, 0.2])
Z = RNG.standard_normal(9)


def root_at(point):
    return np.linalg.cholesky(kernel_at(point).gram(X) + SHIFTED * np.eye(T.size))


def log_density(model, **values):
    with config.change_flags(mode="FAST_COMPILE"):
        return float(model.compile_logp()(values))


def white_and_volume(sites, point, z):
    """Return w, and log |dw/dz|, by dense algebra."""
    root = root_at(point)
    precision = np.eye(T.size) + root.T @ np.diag(sites.precision) @ root
    factor = np.linalg.cholesky(precision)
    white = np.linalg.solve(precision, root.T @ sites.shift) + np.linalg.solve(factor.T, z)
    return white, -0.5 * np.linalg.slogdet(precision)[1]


def usual_model():
    """The model of the package: ``pm.gp``, its own whitening; the jitter is the noise that is taken from the probit."""
    with pm.Model() as model:
        log_parameters = pm.Normal("log_parameters", -3.0, 3.0, shape=3)
        cov_func = pt.exp(log_parameters[-1]) * pm.gp.cov.ExpQuad(2, ls=pt.exp(-0.5 * log_parameters[:-1]))
        bgp.pymc.latent_model(X, T, cov_func, REST, jitter=SHIFTED)
    return model


@pytest.fixture(scope="module")
def sites():
    return sites_at(X, T, OTHER)


@pytest.mark.parametrize("point", [POINT, OTHER])
def test_without_sites_it_is_the_models_of_the_package(point):
    ours = log_density(joint_model(X, T, None), log_parameters=point, z=Z)
    usual = log_density(usual_model(), log_parameters=point, f_rotated_=Z)
    assert ours == pytest.approx(usual, abs=1e-9)


@pytest.mark.parametrize("point", [POINT, OTHER])
def test_sites_change_the_variables_and_not_the_posterior(sites, point):
    """p(theta, z) = p(theta, w) |dw/dz|, whatever the sites; and the volume matters."""
    white, volume = white_and_volume(sites, point, Z)
    with_sites = log_density(joint_model(X, T, sites), log_parameters=point, z=Z)
    without = log_density(joint_model(X, T, None), log_parameters=point, z=white)
    assert with_sites == pytest.approx(without + volume, abs=1e-9)
    assert abs(volume) > 0.1


def test_gradient_is_that_of_the_density(sites):
    model = joint_model(X, T, sites)
    with config.change_flags(mode="FAST_COMPILE"):
        value, gradient = model.compile_logp(), model.compile_dlogp()
    found = gradient({"log_parameters": POINT, "z": Z})
    step = 1e-5
    for k, direction in enumerate(np.eye(POINT.size)):
        ends = [value({"log_parameters": POINT + sign * step * direction, "z": Z}) for sign in (1.0, -1.0)]
        assert found[k] == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-6, abs=1e-6)


def test_under_its_own_sites_z_is_nearly_white(sites):
    """The log density at fixed theta is that of white noise up to a constant, nearly; in the prior's z it is not."""

    def spread(model, inputs):
        with config.change_flags(mode="FAST_COMPILE"):
            value = model.compile_logp()
        return np.std([value({"log_parameters": OTHER, "z": z}) + 0.5 * z @ z for z in inputs])

    inputs = np.random.default_rng(1).standard_normal((50, T.size))
    assert spread(joint_model(X, T, sites), inputs) < 0.25 * spread(joint_model(X, T, None), inputs)


def test_sites_have_the_mean_of_tap(sites):
    gram = kernel_at(OTHER).gram(X) + SHIFTED * np.eye(T.size)
    solution = bgp.solve(gram, T, REST)
    mean = np.linalg.solve(np.linalg.inv(gram) + np.diag(sites.precision), sites.shift)
    np.testing.assert_allclose(mean, gram @ solution.alpha, atol=1e-7)
    assert np.all(sites.precision > 0)


def test_the_shift_of_noise_leaves_the_model():
    """Evidence is that of K and all the noise; not so if the noise were added without being taken away."""
    gram = kernel_at(POINT).gram(X[:4])
    whole, shifted, added = (
        bgp.solve(matrix, T[:4], likelihood, method="exact").evidence.value
        for matrix, likelihood in (
            (gram, LIKELIHOOD),
            (gram + SHIFTED * np.eye(4), REST),
            (gram + SHIFTED * np.eye(4), LIKELIHOOD),
        )
    )
    assert shifted == pytest.approx(whole, abs=1e-8)
    assert abs(added - whole) > 1e-5


def test_probabilities_are_those_of_the_conditional_gaussian():
    new, h = np.array([[0.2, -0.4], [3.0, 1.0]]), root_at(POINT) @ Z
    kernel = kernel_at(POINT)
    everything = kernel.gram(np.vstack([X, new]))
    everything[:9, :9] += SHIFTED * np.eye(9)
    for j in range(2):
        rows = [*range(9), 9 + j]
        precision = np.linalg.inv(everything[np.ix_(rows, rows)])
        variance = 1.0 / precision[-1, -1]
        mean = -variance * precision[-1, :-1] @ h
        expected = LIKELIHOOD.predict_proba(np.array(mean), np.array(variance))
        assert probabilities(X, new, POINT, h)[j] == pytest.approx(float(expected), abs=1e-9)
    np.testing.assert_allclose(probabilities(X, new, POINT, np.zeros(9)), 0.5)


def test_log_parameters_and_kernels_are_inverse():
    kernel = kernel_at(POINT)
    params = kernel.params
    np.testing.assert_allclose(log_parameters_of(params["lengthscale"], params["variance"]), POINT)
    squared = np.exp(POINT[0]) * 0.7**2 + np.exp(POINT[1]) * 0.2**2
    expected = np.exp(POINT[2]) * np.exp(-0.5 * squared)  # 1996, eq. 8
    assert kernel.gram(np.array([[0.7, 0.0], [0.0, 0.2]]))[0, 1] == pytest.approx(expected)


def test_distances_are_in_posterior_standard_deviations():
    draws = np.random.default_rng(2).normal(3.0, 2.0, (4, 500, 2))
    reference = statistics(draws)
    same = apart(reference, reference)
    np.testing.assert_array_equal([same.mean, same.sd], np.zeros((2, 2)))
    shift = np.array([1.0, 0.0])
    moved = apart(statistics(draws + shift), reference)
    np.testing.assert_allclose(moved.mean, [1.0 / reference.sd[0], 0.0], atol=1e-12)
    np.testing.assert_allclose(moved.sd, 0.0, atol=1e-12)
    wider = apart(statistics(3.0 + 1.5 * (draws - 3.0)), reference)
    np.testing.assert_allclose(wider.sd, 0.5, rtol=1e-6)
    # units do not matter, and independent draws have the error that they must have
    np.testing.assert_allclose(apart(statistics(7.0 * (draws + shift)), statistics(7.0 * draws)).mean, moved.mean)
    np.testing.assert_allclose(same.mean_error, np.sqrt(2.0 / 2000.0), rtol=0.1)


@pytest.mark.parametrize(("method", "tolerance"), [("tap", 0.003), ("laplace", 0.012)])
def test_weights_are_evidence_over_that_of_the_method(method, tolerance):
    """Within five standard errors; the evidences are off by 0.016 and 0.11 nats at the first point."""
    split = Split(X[:5], T[:5], X[5:], T[5:])
    points = np.array([POINT, OTHER])
    found = importance.weighted(split, method, points, 100_000, np.random.default_rng(0))
    for point, log_weight in zip(points, found.log_weights, strict=True):
        gram = kernel_at(point).gram(split.X)
        exact, own = (bgp.solve(gram, split.t, LIKELIHOOD, method=m).evidence.value for m in ("exact", method))
        assert log_weight == pytest.approx(exact - own, abs=tolerance)


def test_weighted_averages():
    draws = np.array([[0.0], [1.0], [5.0]])
    equal = Weighted(draws, np.full(3, -700.0))
    assert (equal.ess, equal.moved[0]) == (pytest.approx(3.0), pytest.approx(0.0))
    uneven = Weighted(draws, np.log([1.0, 3.0, 0.0 + 1e-300]) + 50.0)
    assert uneven.mean[0] == pytest.approx(0.75)
    assert uneven.sd[0] == pytest.approx(np.sqrt(0.75 * 0.25))
    assert uneven.ess == pytest.approx(1.0 / (0.25**2 + 0.75**2))
    assert uneven.moved[0] == pytest.approx((0.75 - 2.0) / uneven.sd[0])


def chains(seed=0):
    """Two chains as `record_joint.sample_chain` returns them, of numbers that are not from the posterior."""
    rng = np.random.default_rng(seed)
    n = load().t.size
    return [
        xr.Dataset(
            {
                "log_parameters": (("draw", "log_parameters_dim"), rng.normal(-2.0, 0.3, (40, 8))),
                "h": (("draw", "h_dim"), rng.standard_normal((40, n))),
                "n_steps": ("draw", np.full(40, 7)),
                "diverging": ("draw", np.arange(40) == chain),
            },
            attrs={"settings": '{"draws": 40}', "seconds": 2.0, "seconds_with_compilation": 3.0},
        )
        for chain in range(2)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "record.nc"
    summary = record_joint.summarise(load(), chains(), thin=3)
    summary.to_netcdf(path, engine="h5netcdf")
    return summary, path


def test_a_record_is_read_as_it_was_written(written):
    _, path = written
    found = recorded_joint.read(path)
    draws = np.array([chain["log_parameters"].values for chain in chains()])
    np.testing.assert_allclose(found.parameters.mean, draws.mean(axis=(0, 1)))
    np.testing.assert_allclose(found.log_parameters, draws[:, ::3], rtol=1e-6)  # kept in single precision
    split, first = load(), chains()[1]
    last = probabilities(split.X, split.X_test, first["log_parameters"].values[-1], first["h"].values[-1])
    assert found.probabilities.mean.shape == last.shape
    assert np.all(np.abs(found.probabilities.mean - last) < 8.0 * found.probabilities.sd)
    assert (found.seconds, found.divergences, found.names) == (4.0, 2, parameter_names())
    assert found.ess_per_second == found.parameters.ess_bulk.min() / 4.0


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("log_parameters", lambda values: values + 3.0, "they are of different runs"),
        ("p_mean", lambda values: values * np.nan, "p_mean .* must be finite"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(written, tmp_path, name, spoil, message):
    summary, _ = written
    summary.assign({name: (summary[name].dims, spoil(summary[name].values))}).to_netcdf(
        tmp_path / "spoilt.nc", engine="h5netcdf"
    )
    with pytest.raises(ValueError, match=message):
        recorded_joint.read(tmp_path / "spoilt.nc")


def test_chains_of_other_settings_are_not_mixed_in(tmp_path):
    for chain, data in enumerate(chains()):
        write_chain(tmp_path / f"chain_{chain}.nc", data)
    with pytest.raises(ValueError, match="remove it, or give those"):
        record_joint.main(["--chains", "2", "--chain-files", str(tmp_path), "--output", str(tmp_path / "out.nc")])


def test_a_chain_that_is_not_whole_is_drawn_again(tmp_path, capsys):
    settings, drawn = NutsSettings("pymc", draws=40, chains=2), []
    kept = [chain.assign_attrs(settings=json.dumps(asdict(settings))) for chain in chains()]

    def sample(number):
        drawn.append(number)
        return kept[number]

    for _ in range(2):
        found = all_chains(tmp_path, settings, sample)
        assert drawn == [0, 1]
    path = tmp_path / "chain_1.nc"
    good, digit = path.read_bytes(), kept[1].copy(deep=True)
    digit["h"].values[3, 5] *= 1.0 + 1e-12
    digit.assign_attrs(checksum=found[1].attrs["checksum"]).to_netcdf(tmp_path / "digit.nc", engine="h5netcdf")
    kept[1].to_netcdf(tmp_path / "none.nc", engine="h5netcdf")
    spoilt = [b"", good[: len(good) // 2], b"not a file of numbers", (tmp_path / "digit.nc").read_bytes()]
    for content in (*spoilt, (tmp_path / "none.nc").read_bytes()):
        drawn.clear()
        path.write_bytes(content)
        again = all_chains(tmp_path, settings, sample)
        assert drawn == [1]
        assert "is drawn again" in capsys.readouterr().out
        np.testing.assert_array_equal(again[1]["h"].values, kept[1]["h"].values)
        assert path.read_bytes() == good


def test_the_record_is_good_enough_to_judge_by():
    found = recorded_joint.read()
    assert found.names == parameter_names()
    assert found.parameters.r_hat.max() < 1.01
    assert found.parameters.ess_bulk.min() > 2000
    assert np.max(found.parameters.mean_error / found.parameters.sd) < 0.03
    assert found.probabilities.mean.shape == load().t_test.shape
    assert np.max(found.probabilities.mean_error) < 0.003
    assert found.divergences == 0


@cache
def made_up():
    """Log parameters ``(4, 600, 8)``, and statistics of them and of 332 probabilities."""
    rng = np.random.default_rng(5)
    draws = rng.normal(-3.0, 2.0, (4, 600, 8))
    p = rng.uniform(0.2, 0.7, (1, 1, 332)) + rng.normal(0.0, 0.01, (2, 30, 332))
    return draws, statistics(draws), statistics(p)


def study(shift=0.0, p_shift=0.0, averaged_shift=0.0, averaged_p_shift=0.0, pareto_k=0.2):
    """A study of made-up draws; those of TAP are moved by ``shift`` posterior standard deviations."""
    draws, parameters, p = made_up()
    settings = {"sampler": "nutpie", "draws": 600, "tune": 100, "chains": 4, "seed": 1}
    reference = RecordedJoint(parameter_names(), draws, parameters, p, settings, 100.0, 0, {"pymc": "0"})
    by = 2.0 * shift * (np.arange(8) == 3)
    moved = parameters._replace(mean=parameters.mean + by)
    tap = Sampled("tap", draws + by, moved, p._replace(mean=p.mean + p_shift), 50.0, 10000, 0)
    weights = Weighted(draws.reshape(-1, 8)[:50], 0.1 * np.random.default_rng(6).standard_normal(50))
    sampled = {"tap": tap, "laplace": replace(tap, method="laplace")}
    nodes = (draws + 2.0 * averaged_shift * (np.arange(8) == 5)).reshape(-1, 8)
    averaged = Averaged(nodes, np.full(len(nodes), 1.0 / len(nodes)), p.mean + averaged_p_shift, pareto_k, 5.0, 900)
    still = replace(averaged, log_parameters=draws.reshape(-1, 8), probabilities=p.mean, pareto_k=0.2)
    return JointComparison(reference, sampled, dict.fromkeys(sampled, weights), averaged, still, bgp.pymc.Nuts())


def failed(made):
    return [check.name for check in made.checks if not check.passed]


def test_verdicts():
    assert failed(study()) == []
    assert passed(study().checks)
    # the error of a difference of means of 2400 draws each is 0.03
    assert failed(study(shift=0.16)) == []
    [name] = failed(study(shift=0.2))
    assert name.startswith("means of log parameters")
    assert [name.split(":")[1] for name in failed(study(p_shift=0.021))] == [" largest difference", " mean difference"]
    assert not passed(study(shift=0.2).checks)
    [name] = failed(study(averaged_shift=0.2))
    assert name.startswith("TAP by the surrogate: means and sds")
    assert failed(study(averaged_p_shift=-0.021)) == [
        "TAP by the surrogate: probabilities of test cases, largest difference"
    ]
    assert failed(study(pareto_k=0.71)) == ["TAP by the surrogate: Pareto k-hat"]


def test_the_page_has_the_verdict_and_every_parameter(tmp_path):
    made = study(shift=0.2)
    paths = command.write(made, tmp_path)
    page = paths[0].read_text(encoding="utf-8")
    check_self_contained(page)
    assert all(path.stat().st_size > 0 for path in paths)
    assert all(page.count(name) >= 4 for name in parameter_names())
    assert "0.15 and the Monte-Carlo error were allowed" in page
    assert page.count('class="FAIL"') == 3  # in the summary, and in the tables of TAP and of Laplace
    assert "1 of 19 checks failed" in page


def test_sites_are_constants_of_the_model():
    """Other sites give another z for the same h, and the same density of h."""
    plain = Sites(np.full(T.size, 0.7), np.zeros(T.size))
    white, volume = white_and_volume(plain, POINT, Z)
    with_sites = log_density(joint_model(X, T, plain), log_parameters=POINT, z=Z)
    without = log_density(joint_model(X, T, None), log_parameters=POINT, z=white)
    assert with_sites == pytest.approx(without + volume, abs=1e-9)


def test_the_benchmark_is_of_time_by_effective_draw(monkeypatch):
    draws = np.random.default_rng(8).standard_normal((1, 400, 8))
    draws[..., 2] = np.cumsum(draws[..., 2]) / 20.0  # the slowest one counts
    posterior = xr.Dataset({"log_parameters": (("chain", "draw", "p"), draws)})
    stats = xr.Dataset({"n_steps": ("draw", np.full(400, 7)), "diverging": ("draw", np.zeros(400, dtype=bool))})
    monkeypatch.setattr(benchmark, "run_chain", lambda *given: Chain(posterior, stats, 8.0, 30.0))
    row = benchmark.joint_row("joint", None, lambda note: None)
    ess = statistics(draws).ess_bulk
    assert ess[2] == ess.min() < 100
    assert row.median == pytest.approx(8.0 / ess.min())
    assert "2800 gradients after tuning, 0 divergences" in row.note


def test_errors_of_weighted_nodes_are_those_of_equal_ones_repeated():
    """A node of weight two is two nodes; errors are those of as many as the weights are worth."""
    nodes = np.random.default_rng(9).standard_normal((300, 8)) * np.arange(1.0, 9.0)
    equal = Averaged(nodes, np.full(300, 1 / 300), np.empty(0), 0.0, 10.0, 300)
    np.testing.assert_allclose(equal.mean, nodes.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(equal.sd, nodes.std(axis=0))
    np.testing.assert_allclose(equal.mean_error, nodes.std(axis=0) / np.sqrt(300))
    np.testing.assert_allclose(equal.sd_error, equal.sd / np.sqrt(600), rtol=0.2)  # of normal numbers
    np.testing.assert_allclose(equal.ess, 300)
    assert equal.ess_per_second == pytest.approx(30.0)
    double = np.where(np.arange(300) < 100, 2.0, 1.0) / 400
    unequal = Averaged(nodes, double, np.empty(0), 0.0, 10.0, 300)
    repeated = np.concatenate([nodes[:100], nodes])
    np.testing.assert_allclose(unequal.mean, repeated.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(unequal.sd, repeated.std(axis=0))
    assert 1 / np.sum(double**2) == pytest.approx(unequal.ess.mean(), rel=0.15)


def test_the_benchmark_divides_by_the_worst_average(monkeypatch):
    nodes = np.random.default_rng(9).standard_normal((300, 8))
    weights = np.exp(0.5 * nodes[:, 3] ** 2)  # which makes the averages of one parameter worse than others
    made = Averaged(nodes, weights / weights.sum(), np.empty(0), 0.3, 6.0, 400)
    monkeypatch.setattr(benchmark, "average", lambda *given: made)
    row = benchmark.surrogate_row(None, "tap", lambda note: None)
    assert made.ess[3] == made.ess.min() < 0.7 * np.median(made.ess)
    assert row.median == pytest.approx(6.0 / made.ess[3])
    assert "400 solutions, 15.0 ms each, k-hat 0.30" in row.note
