"""Many models at once: each is the fit of its own, whoever computes it, and a second call goes on."""

from __future__ import annotations

import hashlib
import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.hyper import Evidence
from bayesgp_mf.kernels.base import Leaf
from bayesgp_mf.workflow.explore import _simplest

N = 40
RNG = np.random.default_rng(5)
X = RNG.uniform(-2.0, 2.0, (N, 2))
Y = np.sin(3.0 * X[:, 0]) + 0.3 * RNG.normal(size=N) > 0
BASE = {"smooth": kernels.Gaussian(1.0, columns=[0]), "line": kernels.Linear(columns=[1]) + kernels.Bias()}
LIKELIHOODS = {"probit": bgp.Probit(), "logit": bgp.Logit()}
OPTIONS = {"draws": 20, "random_seed": 1, "hyper": Evidence(starts=1), "progress": False}


class OfUnitVariance(Leaf):
    """A kernel of a user."""

    def gram(self, X):
        return self.cross(X, X)

    def cross(self, A, B):
        return np.exp(-0.5 * np.sum((A[:, None] - B) ** 2, axis=2))

    def diag(self, X):
        return np.ones(len(X))

    def gram_vjp(self, X, gram_bar):
        return {}


@pytest.fixture(scope="module")
def found():
    return bgp.explore(X, Y, BASE, LIKELIHOODS, **OPTIONS)


def test_every_combination_is_the_fit_of_its_own(found):
    assert set(found.fits) == {f"{kernel}, {other}" for kernel in BASE for other in LIKELIHOODS}
    alone = bgp.fit(X, Y, BASE["smooth"], bgp.Logit(), hyper=Evidence(starts=1), draws=20, random_seed=1)
    there = found.fits["smooth, logit"]
    assert float(there["fit"]["log_evidence"]) == pytest.approx(float(alone["fit"]["log_evidence"]), abs=1e-6)
    assert found.table.loc["smooth, logit", "parameters"] == 2
    assert found.found in {"smooth, probit", "smooth, logit"}
    assert list(found.table["elpd"]) == sorted(found.table["elpd"], reverse=True)
    assert "smooth, logit" in str(found)


def test_the_table_has_the_score_and_says_which_model_is_found_by_it(found):
    assert found.by == "evidence"
    assert found.found == found.table["score"].idxmax()
    best = found.fits[found.found]
    group, evidence = best["fit"], found.table.loc[found.found, "log_evidence"]
    told = float((group["latent_sd"] ** 2 / group["site_variance"]).sum())
    assert found.table.loc[found.found, "score"] == pytest.approx(evidence - 0.5 * 2 * np.log1p(told))
    assert f"Found: {found.found}, by the highest score, the log evidence less a penalty" in repr(found)
    by_loo = bgp.explore(X, Y, BASE, score="loo", **OPTIONS)
    np.testing.assert_allclose(by_loo.table["score"], by_loo.table["elpd"])
    assert f"Found: {by_loo.found}, by the highest score, the leave-one-out elpd." in repr(by_loo)


def test_what_is_found_by_the_evidence_need_not_be_the_first_row():
    """A prior much wider than needed costs evidence, and no prediction."""
    x = np.linspace(-2.0, 2.0, 30)[:, None]
    y = x[:, 0] + np.random.default_rng(2).standard_normal(30) > 0
    given = {"wide": kernels.Linear(1e4), "narrow": kernels.Linear(0.1)}
    models = bgp.explore(x, y, given, **OPTIONS | {"hyper": None})
    assert models.table.index[0] == "wide"
    assert models.found == models.table["score"].idxmax() == "narrow"


@pytest.mark.filterwarnings("ignore:the models have different links")
def test_an_average_of_them_is_a_fit(found):
    both = found.combine(random_seed=1)
    best = max(float(idata["fit"]["loo_i"].sum()) for idata in found.fits.values())
    assert float(both["fit"]["loo_i"].sum()) >= best - 1e-2


def test_two_processes_make_what_one_makes():
    one = bgp.explore(X, Y, BASE, **OPTIONS)
    two = bgp.explore(X, Y, BASE, processes=2, **OPTIONS)
    for name, idata in one.fits.items():
        np.testing.assert_array_equal(two.fits[name]["posterior"]["f"], idata["posterior"]["f"])


def test_a_second_call_goes_on(found, tmp_path, monkeypatch):
    one = {"smooth": BASE["smooth"], "line": BASE["line"]}
    first = bgp.explore(X, Y, one, path=tmp_path / "models", **OPTIONS)
    monkeypatch.setattr("bayesgp_mf.workflow.explore.fit", None)  # nothing is fitted again
    again = bgp.explore(X, Y, one, path=tmp_path / "models", **OPTIONS)
    for name, idata in first.fits.items():
        np.testing.assert_array_equal(again.fits[name]["posterior"]["f"], idata["posterior"]["f"])
    assert list(again.table["seconds"]) == list(first.table["seconds"])
    with pytest.raises(ValueError, match="has models of another call, which differs in data"):
        bgp.explore(X + 1.0, Y, one, path=tmp_path / "models", **OPTIONS)


def test_a_fit_of_another_model_in_the_place_of_one_is_found(tmp_path):
    call = partial(bgp.explore, X, Y, BASE, path=tmp_path / "models", **OPTIONS)
    first = call()
    one, other, *_ = sorted((tmp_path / "models").glob("*.nc"))
    one.write_bytes(other.read_bytes())
    with pytest.raises(bgp.DamagedFileError, match=r"is not the fit of .* that was written there"):
        call()
    one.unlink()
    assert call().table["elpd"].to_dict() == first.table["elpd"].to_dict()


def test_growing_adds_what_the_labels_ask_for():
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (120, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.7 * X[:, 1] + 0.1 * np.random.default_rng(1).normal(size=120) > 0
    base = {"smooth": BASE["smooth"], "line": kernels.Linear(columns=[1])}
    found = bgp.explore(X, y, base, grow=True, **OPTIONS)
    assert found.found in {"line + smooth", "line + smooth * smooth"}
    assert len(found.fits) <= 20
    few = bgp.explore(X, y, base, grow=True, most=3, **OPTIONS)
    assert len(few.fits) == 3
    assert few.remaining > 0
    assert f"Cut off, by most or Ctrl-C. Models to come: {few.remaining}." in repr(few)
    assert found.remaining == 0
    assert "Cut off" not in repr(found)
    by_loo = bgp.explore(X, y, base, grow=True, score="loo", most=6, **OPTIONS)
    assert by_loo.found == by_loo.table.index[0]


def test_a_product_has_one_scale():
    one, other = kernels.Gaussian(1.0, columns=[0]), kernels.Periodic(1.0, period=1.0, columns=[0])
    found = bgp.explore(X, Y, {"smooth": one, "wave": other}, grow=True, most=6, **OPTIONS)
    products = [name for name in found.fits if " * " in name and " + " not in name]
    for name in products:
        tuned = found.fits[name]["fit"].coords["hyper"].values
        assert sum("variance" in each for each in tuned) == 1, name


def test_growing_tries_no_family_of_functions_twice():
    base = {"line": kernels.Linear(columns=[0]), "one": kernels.Bias(), "smooth": kernels.Gaussian(1.0)}
    found = bgp.explore(X, Y, base, grow=True, most=12, **OPTIONS)
    tried = [tuple(tuple(term.split(" * ")) for term in name.split(" + ")) for name in found.fits]
    assert (("line",), ("one",)) in tried  # and so products of these would be
    assert all(_simplest(expression, base) == expression for expression in tried)
    again = {
        (("one", "smooth"),): (("smooth",),),
        (("one", "one"), ("one",)): (("one",),),
        (("line",), ("line",)): (("line",),),
        (("line", "line"), ("line", "line")): (("line", "line"),),
        (("smooth",), ("smooth",)): (("smooth",), ("smooth",)),
    }
    assert {expression: _simplest(expression, base) for expression in again} == again
    with_own = {**base, "own": OfUnitVariance()}  # which has no scale but that of a constant
    assert _simplest((("one", "own"),), with_own) == (("one", "own"),)


def test_another_order_of_the_classes_is_another_call(tmp_path):
    y = pd.Categorical(np.where(Y, "yes", "no"), categories=["no", "yes"])
    models = {"smooth": BASE["smooth"]}
    bgp.explore(X, y, models, path=tmp_path, **OPTIONS)
    with pytest.raises(ValueError, match="differs in classes"):
        bgp.explore(X, y.reorder_categories(["yes", "no"]), models, path=tmp_path, **OPTIONS)


def test_a_model_without_a_fit_is_named():
    singular = {"smooth": BASE["smooth"], "again": BASE["smooth"], "constant": kernels.Linear(columns=[1])}
    options = OPTIONS | {"hyper": None, "method": "laplace", "control": bgp.Control(max_iterations=1)}
    message = r"^none of the models has a fit.\nsmooth, again: Convergence[^\n]*\nconstant: Convergence[^\n]*$"
    with pytest.raises(ValueError, match=message):
        bgp.explore(X, Y, singular, **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernels": BASE["smooth"]}, "kernels must be a mapping"),
        ({"kernels": {}}, "kernels must be a mapping"),
        ({"likelihoods": [bgp.Probit()]}, "likelihoods must be a mapping"),
        ({"score": "waic"}, "score must be"),
        ({"likelihoods": LIKELIHOODS, "grow": True}, "one likelihood"),
        ({"grow": True, "fixed": ["variance"]}, "fixed go by names"),
        (
            {"grow": True, "hyper": "integrate"},
            "an average .* has no evidence, by which grow=True goes. Give score='loo'",
        ),
        ({"priors": lambda kernel: {}}, "priors must be a mapping, or a function of kernel and likelihood"),
        ({"priors": {"lengthscale": bgp.hyper.LogNormal()}}, "priors of 'line' names 'lengthscale', which this model"),
        ({"fixed": ["lengthscale"]}, "fixed of 'line' names 'lengthscale', which this model does not have"),
        ({"most": 1}, "more than most=1"),
        ({"most": 0}, "most"),
        ({"likelihoods": LIKELIHOODS | {"gaussian": bgp.likelihoods.Gaussian(1.0)}}, "likelihoods of one kind"),
    ],
)
def test_wrong_arguments_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        bgp.explore(**{"X": X, "y": Y, "kernels": BASE, **OPTIONS, **given})


class OwnKernel(kernels.Gaussian):
    """A kernel that a container does not hold."""


@pytest.mark.parametrize("given", [{"own": OwnKernel(1.0)}, {"own": OwnKernel(1.0), "line": BASE["line"]}])
def test_programs_are_models_as_any(given, tmp_path):
    found = bgp.explore(X, Y, given, path=tmp_path / "models", **OPTIONS)
    same = bgp.explore(
        X, Y, {name: kernels.Gaussian(1.0) if name == "own" else k for name, k in given.items()}, **OPTIONS
    )
    shown = ["log_evidence", "elpd", "weight", "rank"]
    np.testing.assert_allclose(found.table.loc[list(given), shown], same.table.loc[list(given), shown], atol=1e-6)


def test_a_fit_whose_file_is_gone_is_made_anew(tmp_path):
    one = {"smooth": BASE["smooth"]}
    first = bgp.explore(X, Y, one, path=tmp_path / "models", **OPTIONS)
    for file in (tmp_path / "models").glob("*.nc"):
        file.unlink()
    again = bgp.explore(X, Y, one, path=tmp_path / "models", **OPTIONS)
    np.testing.assert_array_equal(again.fits["smooth"]["posterior"]["f"], first.fits["smooth"]["posterior"]["f"])
    named = pd.DataFrame(X, columns=["age", "dose"])
    with pytest.raises(ValueError, match="differs in names of X"):
        bgp.explore(named, Y, one, path=tmp_path / "models", **OPTIONS)
    with pytest.raises(ValueError, match="path must be the name of a folder"):
        bgp.explore(X, Y, one, path=tmp_path / "models" / "fits.jsonl", **OPTIONS)


def test_two_models_of_one_name_are_refused():
    given, likelihoods = {"a, b": BASE["smooth"], "a": BASE["line"]}, {"c": bgp.Probit(), "b, c": bgp.Logit()}
    with pytest.raises(ValueError, match="two models would have the name 'a, b, c'"):
        bgp.explore(X, Y, given, likelihoods, **OPTIONS)


def test_each_kernel_has_priors_of_its_own_parameters(tmp_path):
    def priors(kernel, likelihood):
        return bgp.priors.suggest(X, kernel, likelihood)

    given = OPTIONS | {"hyper": "integrate", "path": tmp_path / "models"}
    models = bgp.explore(X, Y, BASE, priors=priors, **given)
    alone = bgp.fit(
        X, Y, BASE["smooth"], hyper="integrate", priors=priors(BASE["smooth"], bgp.Probit()), draws=20, random_seed=1
    )
    there = float(models.fits["smooth"]["fit"]["loo_i"].sum())
    assert there == pytest.approx(float(alone["fit"]["loo_i"].sum()), abs=1e-6)
    assert set(models.fits) == set(BASE)
    with pytest.raises(ValueError, match="another call, which differs in options"):
        bgp.explore(X, Y, BASE, priors=lambda kernel, likelihood: bgp.priors.suggest(2.0 * X, kernel), **given)
    grown = bgp.explore(X, Y, BASE, priors=priors, grow=True, most=5, **OPTIONS)
    assert len(grown.fits) == 5


def test_parameters_of_each_likelihood_have_priors():
    """Of which Poisson has none."""
    y = RNG.negative_binomial(2.0, 0.3, N)
    counts = {"poisson": bgp.Poisson(), "negative": bgp.NegativeBinomial(2.0)}

    def priors(kernel, likelihood):
        return bgp.priors.suggest(X, kernel, likelihood, between=(1, 10))

    models = bgp.explore(X, y, {"smooth": BASE["smooth"]}, counts, priors=priors, **OPTIONS)
    stated = models.fits["smooth, negative"]["fit"].attrs["priors"]
    assert "dispersion" in stated
    assert "dispersion" not in models.fits["smooth, poisson"]["fit"].attrs["priors"]


def test_a_sum_is_told_from_a_product_where_the_evidence_tells_them_apart():
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.uniform(0.0, 5.0, 200), rng.uniform(-2.0, 2.0, 200)])
    y = 2.0 * np.sin(2.0 * np.pi * x[:, 0]) + 2.0 * np.sin(4.0 * x[:, 1]) + rng.normal(size=200) > 0
    base = {"wave": kernels.Periodic(1.0, period=1.1, columns=[0]), "bend": kernels.Gaussian(0.6, columns=[1])}
    assert bgp.explore(x, y, base, grow=True, most=9, **OPTIONS).found == "bend + wave"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"priors": lambda kernel, likelihood: [1]}, "priors, which is a function, must map names"),
        ({"fixed": 3}, "fixed must be a collection"),
        ({"fixed": "variance"}, "fixed must be a collection"),
        ({"likelihood": bgp.Probit()}, "likelihood is one of those in likelihoods"),
        ({"fixed": lambda kernel: [], "grow": True, "priors": lambda kernel: {}}, "fixed go by names of parameters"),
    ],
)
def test_options_that_are_no_options_of_a_fit_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        bgp.explore(X, Y, {"smooth": BASE["smooth"]}, **{**OPTIONS, **given})


@pytest.mark.parametrize("line", ['["smooth", {}]', '["smooth", 3]', '["smooth", null]', "[3, {}]"])
def test_a_line_that_cannot_be_of_a_model_is_damage(tmp_path, line):
    models = {"smooth": BASE["smooth"]}
    bgp.explore(X, Y, models, path=tmp_path, **OPTIONS)
    file = tmp_path / "fits.jsonl"
    file.write_text(f"{file.read_text().splitlines()[0]}\n{line}\n")
    with pytest.raises(ValueError, match=r"no file of bgp\.explore, or damaged"):
        bgp.explore(X, Y, models, path=tmp_path, **OPTIONS)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    """One whose name is too long, and one in which something stands where a file is to go."""
    models = {"smooth": BASE["smooth"]}
    with pytest.raises(ValueError, match=r"path .* cannot be written: OSError, .*too long"):
        bgp.explore(X, Y, models, path=tmp_path / (300 * "a"), **OPTIONS)
    fit = tmp_path / f"{hashlib.sha1(b'smooth').hexdigest()[:16]}.nc"
    fit.mkdir()
    with pytest.raises(OSError, match=r"path .*\.nc' cannot be written"):
        bgp.explore(X, Y, models, path=tmp_path, **OPTIONS)


def test_a_fit_that_cannot_be_read_is_named(tmp_path):
    models = {"smooth": BASE["smooth"]}
    bgp.explore(X, Y, models, path=tmp_path, **OPTIONS)
    (file,) = tmp_path.glob("*.nc")
    file.unlink()
    file.mkdir()
    with pytest.raises(bgp.DamagedFileError, match=r"\.nc cannot be read: .* Remove it, and its fit is made anew"):
        bgp.explore(X, Y, models, path=tmp_path, **OPTIONS)


def test_a_set_of_names_is_the_same_in_another_process(tmp_path):
    bgp.explore(X, Y, {"smooth": BASE["smooth"]}, path=tmp_path, fixed={"variance", "flip"}, **OPTIONS)
    call = json.loads((tmp_path / "fits.jsonl").read_text().splitlines()[0])["call"]
    assert call["options"]["fixed"] == "['flip', 'variance']"
