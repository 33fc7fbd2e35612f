"""Functions that are known to rise or fall: their slopes, evidence, predictions, files, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, ndtr

import bayesgp_mf as bgp
from bayesgp_mf import kernels, likelihoods, monotone
from bayesgp_mf.errors import ConvergenceWarning, UndefinedQuantityError
from bayesgp_mf.hyper import Evidence, LogNormal
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.kernels.given_slopes import WithSlopes, as_values
from bayesgp_mf.likelihoods.with_slopes import DataAndSlopes
from bayesgp_mf.methods import get_method
from bayesgp_mf.solvers.given_slopes import GivenSigns

PLAIN = {"random_seed": 1, "progress": False, "draws": 20}
TAP = get_method("tap", bgp.Probit())


def wavy(n=40, seed=0):
    """Return inputs on a line and labels of a function that rises, of which a free fit does not."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    return x[:, None], rng.random(n) < ndtr(1.5 * np.tanh(x - 5.0))


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"dose": rng.uniform(0.0, 10.0, n), "age": rng.normal(size=n), "site": rng.choice(["north", "south"], n)},
        index=[f"case {i}" for i in range(n)],
    )
    return X, 0.4 * (X["dose"] - 5.0) - X["age"], rng


SMOOTH = kernels.Gaussian(2.0, 4.0)
GRID = np.linspace(0.5, 9.5, 60)[:, None]


@pytest.fixture(scope="module")
def held():
    X, y = wavy()
    return bgp.fit(X, y, SMOOTH, monotone={0: +1}, **PLAIN)


def joint_problem(kernel, X, t, likelihood, places):
    both = np.vstack([as_values(X), places])
    rises = np.arange(len(both)) >= len(X)
    return Problem(WithSlopes(kernel).gram(both), np.append(t, np.ones(len(places))), DataAndSlopes(likelihood, rises))


def places_of(idata):
    fit = idata["fit"]
    return np.column_stack([fit["slope_input"].values, fit["slope_column"].values])


def test_what_rises_does_so_and_the_container_has_the_data_alone(held):
    X, y = wavy()
    free = bgp.posterior(bgp.fit(X, y, SMOOTH, **PLAIN)).latent_mean(GRID)
    assert np.any(np.diff(free) < 0)  # else there would be nothing to see
    assert np.all(np.diff(bgp.posterior(held).latent_mean(GRID)) > 0)
    assert held["posterior"]["f"].shape == (4, 20, 40)
    assert held["constant_data"]["X"].shape == (40, 1)
    assert held["observed_data"].sizes == {"obs_id": 40}
    assert held["fit"]["loo_i"].shape == (40,)
    assert '"signs": {"0": 1}' in held["fit"].attrs["monotone"]


def test_places_that_break_it_are_few(held):
    slopes = np.column_stack([np.linspace(0.0, 10.0, 300), np.ones(300)])
    inside = (slopes[:, 0] > wavy()[0].min()) & (slopes[:, 0] < wavy()[0].max())
    mean, variance = bgp.posterior(held).joint.latent_at(slopes[inside])
    assert np.mean(ndtr(-mean / np.sqrt(variance)) > monotone.WRONG) <= monotone.SHARE


@pytest.mark.parametrize(
    "likelihood", [bgp.Probit(), bgp.Poisson(), likelihoods.Gaussian(0.25), bgp.Ordinal([-0.5, 0.5])]
)
def test_a_fit_is_that_of_data_and_slopes_together(likelihood):
    X, f, rng = table()
    x, t = X[["dose"]].to_numpy(), likelihood.sample(f.to_numpy(), rng)
    y = t > 0 if likelihood.is_binary else pd.Categorical(t.astype(int), ordered=True) if likelihood.n_levels else t
    idata = bgp.fit(x, y, kernels.Gaussian(3.0, 2.0), likelihood, monotone={0: 1}, **PLAIN)
    post, places = bgp.posterior(idata), places_of(idata)
    problem = joint_problem(kernels.Gaussian(3.0, 2.0), x, t, likelihood, places)
    both = bgp.Posterior(
        WithSlopes(kernels.Gaussian(3.0, 2.0)), np.vstack([as_values(x), places]), problem, TAP.solve(problem)
    )
    for mine, theirs in zip(post.latent(GRID), both.latent_at(as_values(GRID)), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    np.testing.assert_allclose(post.loo.log_density, both.loo.log_density[:40], atol=1e-6)
    np.testing.assert_allclose(post.loo.mean, both.loo.mean[:40], atol=1e-5)
    np.testing.assert_allclose(idata["fit"]["latent_mean"], both.mean_at_training[:40], atol=1e-6)
    alone = bgp.solve(problem.gram[40:, 40:], np.ones(len(places)), bgp.Probit(1.0)).evidence.value
    assert float(idata["fit"]["log_evidence_of_slopes"]) == pytest.approx(alone, abs=1e-8)
    assert float(idata["fit"]["log_evidence"]) == pytest.approx(both.log_evidence - alone, abs=1e-8)


def exact_probabilities(post, draws=400_000):
    """Return probabilities at the grid, by draws that are weighed by the data and the steep probits themselves."""
    joint, rng = post.joint, np.random.default_rng(0)
    n = joint.problem.n
    gram = joint.kernel.gram(np.vstack([joint.X, as_values(GRID)]))
    correction = joint.solution.correction
    values, vectors = np.linalg.eigh(gram - gram[:n].T @ correction.dense() @ gram[:n])
    root, mean = vectors * np.sqrt(np.maximum(values, 0.0)), joint.solution.alpha @ gram[:n]
    W = correction.sites.site_precision
    b = joint.solution.alpha + W * joint.mean_at_training
    log_weights, p = np.empty(draws), np.empty((draws, len(GRID)))
    for rows in np.split(np.arange(draws), 10):
        f = mean + rng.standard_normal((rows.size, mean.size)) @ root.T
        cases = f[:, :n]
        log_weights[rows] = np.sum(log_ndtr(joint.problem.t * cases) - b * cases + 0.5 * W * cases**2, axis=1)
        p[rows] = ndtr(f[:, n:])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1.0 / np.sum(weights**2) > 8000
    return weights @ p


def test_probabilities_are_right(held):
    exact = exact_probabilities(bgp.posterior(held))
    plain = bgp.predict(held, GRID, draws=False)["predictions"]["p"].values.copy()
    corrected = bgp.predict(held, GRID, draws=False, corrected=True)["predictions"]["p"].values
    assert np.max(np.abs(plain - exact)) < 0.01
    assert np.max(np.abs(corrected - exact)) < 0.003
    assert np.max(np.abs(corrected - exact)) < 0.7 * np.max(np.abs(plain - exact))


def test_evidence_is_the_average_likelihood_of_draws_that_rise():
    X, y = wavy(15)
    long = kernels.Gaussian(3.0, 4.0)
    fit = bgp.fit(X, y, long, monotone={0: +1}, **PLAIN)["fit"]
    places = np.column_stack([fit["slope_input"].values, fit["slope_column"].values])
    gram = WithSlopes(long).gram(np.vstack([as_values(X), places]))
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(1).standard_normal((400_000, len(gram))) @ root.T
    rises = np.exp(log_ndtr(draws[:, 15:]).sum(axis=1))
    weight = rises * np.exp(log_ndtr(np.where(y, 1.0, -1.0) * draws[:, :15]).sum(axis=1))
    exact, error = np.log(np.sum(weight) / np.sum(rises)), np.sqrt(np.sum(weight**2)) / np.sum(weight)
    assert error < 0.03
    corrected = float(fit["log_evidence"] + fit["log_evidence_correction"])
    assert abs(corrected - exact) < 3.0 * error + float(fit["log_evidence_remaining"])


def test_importance_agrees_with_the_evidence(held):
    """Draws are weighed by data under the prior that sites of slopes leave, so that these are taken as they are."""
    found = bgp.diagnostics.importance(bgp.fit(*wavy(), SMOOTH, monotone={0: 1}, random_seed=1, progress=False))
    assert found.log_evidence == pytest.approx(float(held["fit"]["log_evidence"]), abs=0.5)


@pytest.mark.parametrize("kernel", [SMOOTH, kernels.Gaussian(1.5) * kernels.Linear() + kernels.Bias()])
def test_gradient_of_the_kernel_and_of_the_evidence(kernel):
    X, y = wavy(12)
    places = np.array([[2.0, 1.0], [5.0, -1.0], [7.0, 1.0]])
    both = np.vstack([as_values(X), places])
    half = np.random.default_rng(0).normal(size=(15, 15))
    bar = half + half.T  # as the gradient of an evidence is
    solver, t = GivenSigns(TAP), np.where(y, 1.0, -1.0)

    def evidence(kernel):
        problem = joint_problem(kernel, X, t, bgp.Probit(), places)
        return problem, solver.solve(problem)

    problem, solution = evidence(kernel)
    slopes = WithSlopes(kernel).gram_vjp(both, solver.gram_gradient(problem, solution))
    of_gram = WithSlopes(kernel).gram_vjp(both, bar)
    for name, value in kernel.params.items():
        step = 1e-5 * value
        up, down = (kernel.replace(**{name: value + sign * step}) for sign in (1.0, -1.0))
        difference = np.sum(bar * (WithSlopes(up).gram(both) - WithSlopes(down).gram(both))) / (2.0 * step)
        assert of_gram[name] == pytest.approx(difference, rel=1e-6, abs=1e-6)
        difference = (evidence(up)[1].evidence.value - evidence(down)[1].evidence.value) / (2.0 * step)
        assert slopes[name] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_other_units_make_no_difference():
    X, y = wavy()
    one = bgp.fit(X, y, SMOOTH, monotone={0: +1}, **PLAIN)
    other = bgp.fit(1000.0 * X, y, kernels.Gaussian(2000.0, 4.0), monotone={0: +1}, **PLAIN)
    mirrored = bgp.fit(-X, y, SMOOTH, monotone={0: -1}, **PLAIN)
    assert float(other["fit"]["log_evidence"]) == pytest.approx(float(one["fit"]["log_evidence"]), abs=1e-6)
    for idata, scale in ((other, 1000.0), (mirrored, -1.0)):
        p = bgp.posterior(idata).predict_proba(scale * GRID)
        np.testing.assert_allclose(p, bgp.posterior(one).predict_proba(GRID), atol=1e-6 if scale > 0 else 0.03)


def test_hyperparameters_are_those_of_the_largest_evidence_given_the_signs():
    X, y = wavy()
    tuned = bgp.fit(X, y, SMOOTH, monotone={0: +1}, hyper="evidence", fixed=["variance"], **PLAIN)
    best, places = float(tuned["fit"]["lengthscale"]), places_of(tuned)
    value = float(tuned["fit"]["log_evidence"])
    for factor in (0.9, 1.1):
        problem = joint_problem(kernels.Gaussian(factor * best, 4.0), X, np.where(y, 1.0, -1.0), bgp.Probit(), places)
        assert GivenSigns(TAP).solve(problem).evidence.value < value


def test_several_columns_by_name_with_groups_offsets_and_weights_are_saved(tmp_path):
    X, f, rng = table()
    y, offset = rng.poisson(np.exp(0.5 * f)), np.linspace(0.0, 0.2, 40)
    facts = {"offset": offset, "weights": np.linspace(0.5, 1.5, 40)}
    idata = bgp.fit(X, y, likelihood=bgp.Poisson(), monotone={"dose": +1, "age": -1}, **facts, **PLAIN)
    assert set(idata["fit"]["slope_column"].values) == {1.0, -2.0}
    assert list(idata["posterior"]["obs_id"].values[:2]) == ["case 0", "case 1"]
    bgp.save(idata, tmp_path / "fit.nc")
    again = bgp.load(tmp_path / "fit.nc")
    for corrected in (False, True):
        given = {"offset": offset[:5], "draws": False, "corrected": corrected}
        kept, read = (bgp.predict(each, X[:5], **given)["predictions"] for each in (idata, again))
        np.testing.assert_allclose(kept["y_mean"], read["y_mean"], rtol=1e-6)


def test_drawn_targets_have_the_mean_that_is_predicted():
    """The mean that slopes say by themselves is in the latent values once."""
    X, f, rng = table()
    x = X[["dose"]].to_numpy()
    idata = bgp.fit(
        x,
        f + 0.5 * rng.normal(size=40),
        kernels.Gaussian(3.0, 4.0),
        likelihoods.Gaussian(0.25),
        monotone={0: +1},
        random_seed=1,
        progress=False,
    )
    drawn = idata["posterior_predictive"]["y"].values.reshape(-1, 40)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - idata["fit"]["latent_mean"].values) < 5.0 * error)
    left_out = bgp.diagnostics.loo_predictive(idata, random_seed=1)["posterior_predictive"]["y"].values.reshape(-1, 40)
    error = left_out.std(axis=0) / np.sqrt(len(left_out))
    assert np.all(np.abs(left_out.mean(axis=0) - idata["fit"]["cavity_mean"].values) < 5.0 * error)


@pytest.mark.filterwarnings("ignore:evidence times prior")
def test_averages_over_hyperparameters_and_models(tmp_path):
    X, y = wavy()
    priors = {name: LogNormal(0.7, 0.4) for name in ("lengthscale", "variance")}
    idata = bgp.fit(X, y, SMOOTH, hyper="integrate", priors=priors, monotone={0: +1}, **PLAIN)
    assert idata["fit"]["slope_shift"].dims == ("node", "place")
    assert np.all(np.diff(bgp.posterior(idata).latent_mean(GRID)) > -1e-3)
    free = bgp.fit(X, y, SMOOTH, **PLAIN)
    other = bgp.fit(X, y, kernels.Matern52(3.0), monotone={0: +1}, **PLAIN)
    found = bgp.combine({"rises": idata, "rises, rough": other, "free": free}, random_seed=1)
    bgp.save(found, tmp_path / "average.nc")
    again = bgp.posterior(bgp.load(tmp_path / "average.nc"))
    np.testing.assert_allclose(again.predict_proba(GRID), bgp.posterior(found).predict_proba(GRID), atol=1e-12)


def test_data_that_fall_are_told_by_the_evidence_and_by_a_warning(monkeypatch):
    X, y = wavy()
    rises, falls = (bgp.fit(X, y, SMOOTH, monotone={0: sign}, **PLAIN) for sign in (+1, -1))
    assert float(rises["fit"]["log_evidence"]) > float(falls["fit"]["log_evidence"]) + 5.0
    monkeypatch.setattr(monotone, "FIRST", 1)
    monkeypatch.setattr(monotone, "MOST", 2)
    with pytest.warns(ConvergenceWarning, match="held to their signs at"):
        bgp.fit(X, y, SMOOTH, monotone={0: -1}, **PLAIN)


def square(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    f = 2.0 * np.tanh(4.0 * (X[:, 0] - 0.5)) + np.sin(4.0 * X[:, 1])
    return X, f + 0.7 * rng.standard_normal(n) > 0


def test_what_breaks_it_between_the_places_looked_at_first_is_seen():
    """With a length scale of a fiftieth of the range these are too far apart to tell of what is between them."""
    X, y = square()
    with pytest.warns(ConvergenceWarning, match=r"monotone: of 4\d\d places in the data's range"):
        bgp.fit(X, y, kernels.Gaussian([0.02, 0.4], 2.0), monotone={0: +1}, **PLAIN)


def test_where_a_slope_is_zero_for_sure_it_is_not_looked_at():
    X, y = square()
    X[:5, 1] = 0.0  # so that x0 x1 is zero whatever x0 is
    product = kernels.Linear(1.0, columns=0) * kernels.Linear(1.0, columns=1)
    idata = bgp.fit(X, y, product + kernels.Gaussian(0.5, columns=1), monotone={0: +1}, **PLAIN)
    assert np.all(idata["fit"]["slope_input"].values[:, 1] != 0.0)
    p = bgp.posterior(idata).predict_proba(np.column_stack([np.linspace(0.0, 1.0, 5), np.full(5, 0.5)]))
    assert np.all(np.diff(p) > 0)


def test_a_search_that_is_done_again_warns_once():
    X, y = square()
    with pytest.warns(bgp.BoundWarning) as said:
        bgp.fit(X, y, kernels.Gaussian([0.4, 0.4], 2.0), monotone={0: +1}, hyper="evidence", **PLAIN)
    assert len(said) == 1


def test_a_changed_container_is_found_out(held):
    changed = held.copy()
    changed["fit"] = changed["fit"].assign(slope_shift=changed["fit"]["slope_shift"] * 1.1)
    with pytest.raises(bgp.errors.DamagedFileError, match="slope_shift"):
        bgp.posterior(changed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"monotone": {}}, r"monotone must say \+1 or -1"),
        ({"monotone": "dose"}, r"monotone must say \+1 or -1"),
        ({"monotone": {"dose": 2}}, r"monotone must say \+1 or -1"),
        ({"monotone": {"dose": True}}, r"monotone must say \+1 or -1"),
        ({"monotone": {"weight": 1}}, "monotone must be of columns"),
        ({"monotone": {"dose": 1, 0: 1}}, "monotone must be of columns"),
        ({"monotone": {"site": 1}}, "monotone must be of columns of numbers"),
        ({"kernel": kernels.Matern12(2.0, columns="dose")}, "monotone needs a kernel whose functions have slopes"),
        ({"kernel": kernels.Gaussian(2.0, columns="dose") + kernels.White()}, "monotone needs a kernel"),
        ({"method": "laplace"}, "monotone needs method='tap'"),
        ({"method": "naive"}, "monotone needs method='tap'"),
        ({"hyper": Evidence(method="laplace")}, "monotone needs method='tap'"),
        ({"hyper": "loo"}, "monotone with hyper='loo'"),
        ({"hyper": Evidence(corrected=True)}, "monotone goes by TAP's evidence as it is"),
        ({"inducing": 5}, "monotone needs the Gram matrix of all cases"),
        ({"likelihood": bgp.Step()}, r"this likelihood is Probit\(noise_variance=0"),
        ({"likelihood": bgp.MultinomialProbit()}, "monotone is of one latent value"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    X, f, _ = table()
    with pytest.raises(ValueError, match=message):
        bgp.fit(X, f > 0, **{"monotone": {"dose": +1}, **given}, **PLAIN)


def test_a_column_of_one_value_is_refused():
    X, f, _ = table()
    with pytest.raises(ValueError, match="column 'dose', which has one value in all cases"):
        bgp.fit(X.assign(dose=1.0), f > 0, monotone={"dose": +1}, **PLAIN)


@pytest.mark.parametrize("ask", [bgp.validate, bgp.prior_predictive, lambda idata: bgp.plan(idata, [10])])
def test_what_would_need_the_slopes_beside_other_data_is_refused(held, ask):
    with pytest.raises(UndefinedQuantityError, match="fit again with monotone"):
        ask(held)


def test_a_search_ends_no_lower_than_the_data_alone_would_have_it():
    """It begins where a fit without slopes ended: from entries that are alike it ends 1.6 nats lower on this table."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 3))
    rng.normal(size=(1000, 3))
    y = 1.2 * np.tanh(2.0 * X[:, 0]) - X[:, 1] + np.sin(2.0 * X[:, 2]) + rng.normal(size=100) > 0
    free, held = (bgp.fit(X, y, monotone=signs, **PLAIN) for signs in (None, {0: +1, 1: -1}))
    assert float(held["fit"]["log_evidence"]) > float(free["fit"]["log_evidence"]) + 2.0
