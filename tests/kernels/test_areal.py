"""Areas: covariances against the precisions of the papers, graphs from what users have, fits, files and new areas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.sparse import coo_array, csr_array

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Distance, Exponential
from bayesgp_mf.kernels import Areal, Bias, Categorical, Difference, Gaussian, from_dict
from tests.kernels.differences import check_gradient

ROW = {"a": ["b"], "b": ["a", "c", "e"], "c": ["b", "d"], "d": ["c"], "e": ["b"], "x": ["y"], "y": ["x"], "isle": []}
NAMES = list(ROW)
W = np.array([[float(other in ROW[name]) for other in NAMES] for name in NAMES])
D = W.sum(axis=0)
PARTS = [[0, 1, 2, 3, 4], [5, 6]]
MODELS = ("leroux", "car", "bym2")
QUIET = {"random_seed": 1, "progress": False}
rng = np.random.default_rng(0)
CODES = rng.integers(0, len(NAMES), (12, 1)).astype(float)
AREAS = pd.DataFrame({"area": [NAMES[int(code)] for code in CODES[:, 0]]})
COUNTS = rng.poisson(2.0, 12)


def numbered(model="leroux", variance=1.3, odds=2.5, **options):
    return Areal(csr_array(W), model, variance, odds, **options)


def scaled():
    """The intrinsic precision, scaled by the pseudo-inverse of each component."""
    intrinsic = np.diag(D) - W
    for part in PARTS:
        block = np.ix_(part, part)
        intrinsic[block] *= np.exp(np.mean(np.log(np.diag(np.linalg.pinv(intrinsic[block])))))
    intrinsic[7, 7] = 1.0
    return intrinsic


def by_the_papers(model, variance, odds):
    rho, intrinsic = odds / (1.0 + odds), scaled()
    if model == "leroux":
        return variance * np.linalg.inv((1.0 - rho) * np.eye(8) + rho * intrinsic)
    if model == "bym2":
        return variance * ((1.0 - rho) * np.eye(8) + rho * np.linalg.pinv(intrinsic, rcond=1e-10))
    own = np.diag(np.diag(intrinsic))
    return variance * np.linalg.inv(own + rho * (intrinsic - own))


@pytest.mark.parametrize("model", MODELS)
class TestCovariances:
    def test_they_are_those_of_the_papers(self, model):
        everywhere = np.arange(8.0)[:, None]
        kernel = numbered(model)
        np.testing.assert_allclose(kernel.gram(everywhere), by_the_papers(model, 1.3, 2.5), rtol=1e-10, atol=1e-13)
        gram = kernel.gram(CODES)
        np.testing.assert_array_equal(gram, gram.T)
        np.testing.assert_allclose(np.diag(gram), kernel.diag(CODES), rtol=1e-12)
        np.testing.assert_allclose(kernel.cross(CODES[:4], CODES), gram[:4], rtol=1e-12)
        assert kernel.diag(np.array([[7.0]])) == pytest.approx(1.3)  # an island has the variance

    def test_gradients_pass_central_differences(self, model):
        kernel, raw = numbered(model), rng.standard_normal((12, 12))
        bar, few = raw + raw.T, CODES[:4]
        check_gradient(kernel, kernel.gram_vjp(CODES, bar), lambda k: float(np.sum(k.gram(CODES) * bar)))
        check_gradient(
            kernel, kernel.cross_vjp(few, CODES, raw[:4]), lambda k: float(np.sum(k.cross(few, CODES) * raw[:4]))
        )
        check_gradient(kernel, kernel.diag_vjp(CODES, raw[0]), lambda k: float(k.diag(CODES) @ raw[0]))

    def test_distances_are_those_of_gaussians(self, model):
        none = by_the_papers(model, 1.0, 1e-12)
        for log_odds, distance in np.transpose(numbered(model).distances()["odds"])[::9]:
            relative = np.linalg.solve(none, by_the_papers(model, 1.0, np.exp(log_odds)))
            square = np.trace(relative) - 8.0 - np.linalg.slogdet(relative)[1]
            assert distance == pytest.approx(np.sqrt(square), rel=1e-4)

    def test_a_fit_by_name_is_one_of_numbers_and_survives_its_file(self, model, tmp_path):
        named = Areal(ROW, model, 1.3, 2.5, columns="area") + Bias(2.0)
        idata = bgp.fit(AREAS, COUNTS, named, bgp.Poisson(), **QUIET)
        same = bgp.fit(CODES, COUNTS, numbered(model) + Bias(2.0), bgp.Poisson(), **QUIET)
        new = pd.DataFrame({"area": NAMES})
        p = bgp.predict(idata, new, draws=False)["predictions"]
        q = bgp.predict(same, np.arange(8.0)[:, None], draws=False)["predictions"]
        assert set(CODES[:, 0].astype(int)) != set(range(8))  # an area without a case is predicted too
        for name in ("latent_mean", "latent_sd"):
            np.testing.assert_allclose(p[name].values, q[name].values, rtol=1e-9)
        idata.to_netcdf(tmp_path / "fit.nc")
        import arviz as az

        again = bgp.predict(az.from_netcdf(tmp_path / "fit.nc"), new, draws=False)["predictions"]
        np.testing.assert_array_equal(again["latent_mean"].values, p["latent_mean"].values)

    def test_the_penalised_complexity_prior(self, model):
        kernel = numbered(model)
        (prior,) = [
            p
            for name, p in bgp.priors.suggest(
                CODES, kernel, bgp.Poisson(), between=(1.0, 9.0), form="penalised complexity"
            ).items()
            if name == "odds"
        ]
        mass = [
            quad(lambda x: np.exp(prior.log_density(np.array([x]))[0][0]), -40.0, top, limit=400)[0]
            for top in (0.0, 60.0)
        ]
        assert mass == pytest.approx([2.0 / 3.0, 1.0], abs=2e-4)
        at = np.linspace(-12.0, 12.0, 9)
        up, down = (prior.log_density(at + h)[0] for h in (1e-6, -1e-6))
        np.testing.assert_allclose(prior.log_density(at)[1], (up - down) / 2e-6, rtol=1e-5, atol=1e-6)
        quantiles = prior.quantiles(np.array([[0.1], [2.0 / 3.0]]), np.array([-np.inf]), np.array([np.inf]))
        assert quantiles[1, 0] == pytest.approx(0.0, abs=2e-3)


def test_a_kernel_that_knows_its_texts_takes_codes_of_them():
    named = Areal(ROW, columns="area")
    idata = bgp.fit(AREAS, COUNTS, named, bgp.Poisson(), **QUIET)
    again = bgp.fit(bgp.posterior(idata).X, COUNTS, bgp.posterior(idata).kernel, bgp.Poisson(), **QUIET)
    assert float(again["fit"]["log_evidence"]) == float(idata["fit"]["log_evidence"])


def test_the_variance_is_that_of_the_intrinsic_part():
    kernel = numbered("bym2", 1.0, 1e9)
    for part in PARTS:
        own = kernel.diag(np.array(part, dtype=float)[:, None])
        assert np.exp(np.mean(np.log(own))) == pytest.approx(1.0, rel=1e-6)
        gram = kernel.gram(np.array(part, dtype=float)[:, None])
        assert np.abs(gram.sum(axis=0)).max() < 1e-6  # sums to zero in the component


def test_sums_products_and_differences_of_areas():
    table = AREAS.assign(week=np.arange(12.0), other=NAMES[0])
    space_time = Areal(ROW, columns="area") * Gaussian(3.0, columns="week") + Categorical(0.5, columns="area")
    priors = bgp.priors.suggest(table, space_time, bgp.Poisson(), between=(1.0, 9.0))
    idata = bgp.fit(table, COUNTS, space_time, bgp.Poisson(), hyper="evidence", priors=priors, **QUIET)
    assert "areal_odds" in priors
    new = pd.DataFrame({"area": ["isle", "e", "d"], "week": [1.0, 2.0, 20.0], "other": "a"})
    assert np.isfinite(bgp.predict(idata, new, draws=False)["predictions"]["latent_sd"].values).all()
    duel = Difference(Areal(ROW, columns="area"), "area", "other")
    assert np.isfinite(float(bgp.fit(table, COUNTS > 2, duel, bgp.Probit(), **QUIET)["fit"]["log_evidence"]))


@pytest.mark.parametrize("order", [0, 1])
def test_new_areas_are_themselves_beside_groups_of_the_same_column(order):
    """Whichever kernel comes first: the texts that the graph knows keep their codes, others are new groups."""
    terms = [Areal(ROW, variance=2.0, odds=20.0, columns="area"), Categorical(0.3, columns="area")]
    cases, new = pd.DataFrame({"area": ["a", "c", "y"]}), pd.DataFrame({"area": ["x", "d"]})
    idata = bgp.fit(cases, [9, 0, 5], terms[order] + terms[1 - order], bgp.Poisson(), **QUIET)
    whole = Areal(ROW, variance=2.0, odds=20.0).graph
    X, other = (np.array([[whole.position[name]] for name in table["area"]], dtype=float) for table in (cases, new))
    same = bgp.fit(X, [9, 0, 5], numbered("leroux", 2.0, 20.0) + Categorical(0.3), bgp.Poisson(), **QUIET)
    p, q = (bgp.predict(*each, draws=False)["predictions"] for each in ((idata, new), (same, other)))
    np.testing.assert_allclose(p["latent_mean"].values, q["latent_mean"].values, rtol=1e-9)
    np.testing.assert_allclose(p["latent_sd"].values, q["latent_sd"].values, rtol=1e-9)


class Weights:
    """What of the weights of libpysal is asked for."""

    sparse, id_order = csr_array(W * rng.uniform(0.1, 1.0, W.shape)), NAMES


class Network:
    """What of a graph of networkx is asked for."""

    def adjacency(self):
        return iter([(name, {other: {} for other in beside}) for name, beside in ROW.items()])


class Frame:
    """What of a data frame of geopandas is asked for."""

    index, geometry = pd.Index(NAMES), "shapes"

    class sindex:  # noqa: N801
        @staticmethod
        def query(geometry, predicate):
            assert (geometry, predicate) == ("shapes", "touches")
            return np.array(np.nonzero(W))


@pytest.mark.parametrize("given", [ROW, (NAMES, csr_array(W)), (NAMES, W), Weights(), Network(), Frame()])
def test_graphs_from_what_users_have(given):
    kernel = Areal(given, columns=0)
    assert kernel == Areal(ROW, columns=0) == from_dict(kernel.to_dict())
    assert "graph of 8 areas and 5 pairs of neighbours" in repr(kernel)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": ["b"], "b": []}, "'b' is a neighbour of 'a', but not the other way round"),
        ({"a": ["a"]}, "'a' is its own neighbour"),
        ({"a": ["c"], "b": []}, "'a' has the neighbour 'c', which is no area"),
        ({"a": ["b", "b"], "b": ["a"]}, "'a' has a neighbour twice"),
        ({"a": "b", "b": "a"}, "the neighbours of 'a' must be a list"),
        ([("a", "b"), ("b", "c")], r"Pairs are networkx.Graph\(pairs\)"),
        ({"a": ["b"], "b": ["a"], 1: [], "1": []}, "two areas are called '1'"),
        ({}, "graph must have areas"),
        (3.0, "graph must be a dict of the neighbours"),
        ((["a"], W), r"must be \(1, 1\) for 1 areas, got \(8, 8\)"),
        (-W, "must hold finite numbers >= 0"),
        (coo_array(([1.0], ([0], [1])), shape=(2, 2)), "1 is a neighbour of 0, but not"),
    ],
)
def test_graphs_that_are_none_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Areal(given)


def test_what_else_is_refused():
    kernel = Areal(ROW, columns="area")
    with pytest.raises(ValueError, match=r"must name areas of the graph, such as 'a', 'b', .* row 1 has 'nowhere'"):
        bgp.fit(pd.DataFrame({"area": ["a", "nowhere"]}), [1, 2], kernel, bgp.Poisson(), **QUIET)
    idata = bgp.fit(AREAS, COUNTS, kernel, bgp.Poisson(), **QUIET)
    with pytest.raises(ValueError, match=r"row 0 has 1.0. Make both text, or both numbers"):
        bgp.fit(pd.DataFrame({"area": [1]}), [1], Areal({"001": []}), bgp.Poisson())
    with pytest.raises(ValueError, match="row 0 has 'a text that the fit did not see'"):
        bgp.predict(idata, pd.DataFrame({"area": ["nowhere"]}))
    with pytest.raises(ValueError, match="X has 2 columns; say which one names areas"):
        numbered().gram(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="columns must be the one that names areas"):
        Areal(ROW, columns=[0, 1])
    with pytest.raises(ValueError, match="model must be 'leroux', 'car' or 'bym2', got 'besag'"):
        Areal(ROW, "besag")
    with pytest.raises(ValueError, match="odds must be finite and > 0"):
        Areal(ROW, odds=0.0)


def test_a_distance_that_does_not_rise_is_none():
    with pytest.raises(ValueError, match="must be as many numbers that rise"):
        Distance((0.0, 1.0), (2.0, 1.0))
    at = np.linspace(-3.0, 3.0, 13)
    prior = Distance(tuple(at), tuple(np.exp(at)), 1.5)
    levels = np.array([[0.2], [0.7]])
    bounds = np.array([-3.0]), np.array([3.0])
    np.testing.assert_allclose(prior.quantiles(levels, *bounds), Exponential(1.5).quantiles(levels, *bounds), atol=1e-3)
