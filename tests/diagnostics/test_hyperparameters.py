"""Hyperparameters by name, with their priors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import hyperparameters
from bayesgp_mf.diagnostics.hyperparameters import LEVELS
from bayesgp_mf.hyper import Target
from bayesgp_mf.methods import METHODS
from bayesgp_mf.tuning import record_of_priors
from tests.plots.fits import X2, Z, made

SCORES = ndtri(LEVELS)[:, None]


def target(**options):
    X = np.linspace(-1.0, 1.0, 8)[:, None] * [1.0, 2.0]
    kernel = bgp.kernels.Gaussian([0.5, 3.0], 2.0)
    return Target(X, np.sign(X[:, 0]), bgp.Probit(), kernel, METHODS["tap"], **options)


def test_quantiles_of_a_log_normal_prior_are_its_own():
    for sd in (0.05, 1.0, 3.0):
        prior = bgp.hyper.LogNormal(2.0, sd, power=-2.0)
        record = record_of_priors(target(priors={"variance": prior}), averaged=False)
        dims, found = record["hyper_prior_quantile"]
        assert dims == ("prior_level", "hyper")
        np.testing.assert_allclose(found[:, 2], -1.0 + 0.5 * sd * SCORES[:, 0], atol=2e-3 * sd)
        assert np.all(np.isnan(found[:, :2]))


def test_the_default_prior_is_around_the_start():
    found = hyperparameters(made("draws"))
    assert found.names == ("lengthscale", "variance")
    np.testing.assert_allclose(np.log(found.prior[:, 0]), 1.5 * SCORES[:, 0], atol=5e-3)  # it starts at 1
    assert np.all(np.isnan(found.prior[:, 1]))  # fixed
    np.testing.assert_array_equal(found.tuned, [True, False])


def test_a_range_is_a_prior_where_it_is_averaged_over():
    given = target(bounds={"variance": (0.5, 8.0)})
    found = record_of_priors(given, averaged=True)["hyper_prior_quantile"][1]
    np.testing.assert_allclose(found[:, 2], np.log(0.5) + np.array(LEVELS) * np.log(16.0))
    assert record_of_priors(given, averaged=False) == {}


def test_bounds_cut_a_prior_off():
    given = target(bounds={"variance": (1.0, 4.0)}, priors={"variance": bgp.hyper.LogNormal(0.0, 100.0)})
    found = record_of_priors(given, averaged=False)["hyper_prior_quantile"][1]
    np.testing.assert_allclose(found[:, 2], np.array(LEVELS) * np.log(4.0), atol=1e-3)  # flat between them


def test_draws_have_their_quantiles():
    found = hyperparameters(made("draws"))
    drawn = made("draws")["posterior"]["lengthscale"].values.ravel()
    assert found.kind == "draws"
    np.testing.assert_allclose(found.quantiles[:, 0], np.quantile(drawn, LEVELS))


def test_nodes_have_the_quantiles_of_a_log_normal_density_with_their_moments():
    found, fit = hyperparameters(made("nodes")), made("nodes")["fit"]
    assert found.kind == "nodes"
    logs, weights = np.log(fit["lengthscale"].values), fit["node_weight"].values
    mean, square = weights @ logs, weights @ logs**2
    np.testing.assert_allclose(found.quantiles[:, [0]], np.exp(mean + np.sqrt(square - mean**2) * SCORES))


@pytest.mark.filterwarnings("ignore:at a bound")  # whether an idle input gets there is decided by rounding
def test_entries_have_the_names_of_their_inputs():
    idata = bgp.fit(X2, Z > 0, bgp.kernels.Gaussian([1.0, 1.0, 9.0]), hyper="evidence", fixed=["variance"], draws=5)
    found = hyperparameters(idata)
    assert found.names == ("lengthscale[age]", "lengthscale[weight]", "lengthscale[idle]", "variance")
    np.testing.assert_array_equal(found.tuned, [True, True, True, False])
    np.testing.assert_array_equal(found.values[0, :3], idata["fit"]["lengthscale"].values)
    assert found.kind == "chosen"
    assert np.all(np.isnan(found.prior))


@pytest.mark.filterwarnings("ignore:at a bound")
@pytest.mark.parametrize(("limits", "side"), [((0.1, 0.2), 1), ((1.4, 2.0), -1), ((0.01, 100.0), 0)])
def test_a_bound_that_a_search_ended_at_is_kept(limits, side, tmp_path):
    X = np.linspace(-3.0, 3.0, 40)[:, None]
    options = {"bounds": {"lengthscale": limits}, "fixed": ["variance"], "draws": 5, "progress": False}
    kernel = bgp.kernels.Gaussian(float(np.sqrt(limits[0] * limits[1])), 4.0)
    idata = bgp.fit(X, np.sin(2.0 * X[:, 0]) > 0, kernel, hyper="evidence", **options)
    np.testing.assert_array_equal(hyperparameters(idata).bound, [side, 0])
    bgp.report(idata, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    for text, there in (("at its upper bound", side > 0), ("at its lower bound", side < 0)):
        assert (text in page) == there


def test_what_is_no_fit_is_refused():
    with pytest.raises(ValueError, match="expected an ArviZ container"):
        hyperparameters([1.0])


def test_a_console_shows_a_short_table():
    found = hyperparameters(made("draws"))
    table = found.to_frame()
    np.testing.assert_array_equal(table.loc["lengthscale", ["5%", "25%", "50%", "75%", "95%"]], found.quantiles[:, 0])
    np.testing.assert_array_equal(table["prior 95%"], found.prior[4])
    head, *rows = repr(found).splitlines()
    assert head == f"Hyperparameters by {len(found.values)} draws:"
    assert [row.split()[0] for row in rows[1:]] == ["lengthscale", "variance"]
    given = hyperparameters(made("classes"))
    assert repr(given).startswith("Hyperparameters as they were given:")
    assert list(given.to_frame().columns) == ["value", "tuned", "bound"]
