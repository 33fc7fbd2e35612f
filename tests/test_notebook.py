"""What a notebook shows: well-formed, escaped, short, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import inspect
import re
from html import escape
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.notebook import LONGEST, as_html, in_words
from tests.plots.fits import NOISE, X1, F, made, streamed

MANY = 500
LIKELIHOODS = {
    "Probit": lambda: bgp.Probit(flip=0.125),
    "Logit": bgp.Logit,
    "Softmax": bgp.Softmax,
    "Poisson": bgp.Poisson,
    "NegativeBinomial": lambda: bgp.NegativeBinomial(2.5),
    "Binomial": lambda: bgp.likelihoods.Binomial(np.arange(1, MANY)),
    "StudentT": lambda: bgp.StudentT(0.5, 3.0),
    "Ordinal": lambda: bgp.Ordinal([-1.0, 1.0]),
    "Gaussian": lambda: bgp.likelihoods.Gaussian(np.linspace(0.1, 1.0, MANY)),
    "Quadrature": lambda: bgp.likelihoods.Quadrature(_log_density),
    "MultinomialProbit": lambda: bgp.likelihoods.MultinomialProbit(),
    "Gamma": lambda: bgp.likelihoods.Gamma(2.5),
    "Beta": lambda: bgp.likelihoods.Beta(6.0),
    "ZeroInflated": lambda: bgp.likelihoods.ZeroInflated(bgp.Poisson(), 0.25),
    "Hurdle": lambda: bgp.likelihoods.Hurdle(bgp.Poisson(), 0.25),
    "Truncated": lambda: bgp.likelihoods.Truncated(bgp.Poisson()),
    "Weibull": lambda: bgp.likelihoods.Weibull(1.5),
    "Exponential": bgp.likelihoods.Exponential,
    "LogNormal": lambda: bgp.likelihoods.LogNormal(0.5),
    "LogLogistic": lambda: bgp.likelihoods.LogLogistic(2.0),
    "Censored": lambda: bgp.likelihoods.Censored(bgp.likelihoods.Weibull(1.5), np.resize([np.nan, np.inf], MANY)),
}
SHOWN = {
    **LIKELIHOODS,
    "pima": bgp.datasets.load_pima,
    "sonar": bgp.datasets.load_sonar,
    "frames": lambda: bgp.datasets.load_pima(as_frame=True),
    "kernel": lambda: bgp.kernels.Gaussian(np.ones(60)) + 2.0 * bgp.kernels.Periodic() * bgp.kernels.Bias(),
    "smooth": lambda: bgp.kernels.Gaussian(np.ones(3)),
    "rough": bgp.kernels.Matern12,
    "groups": lambda: bgp.kernels.Categorical(columns=["<ward>"]),
    "solution": lambda: bgp.posterior(made("binary")).solution,
    "svm": lambda: bgp.solve(np.eye(3), [1, 1, -1], bgp.Step(), method="svm"),
    "posterior": lambda: bgp.posterior(made("weighted")),
    "classes": lambda: bgp.posterior(made("classes")),
    "mixture": lambda: bgp.posterior(made("draws")),
    "stream": streamed,
    **{
        f"{name} of {kind}": lambda name=name, kind=kind: getattr(bgp.diagnostics, name)(made(kind))
        for name, kind in (
            ("hyperparameters", "binary"),
            ("hyperparameters", "nodes"),
            ("relevance", "weighted"),
            ("relevance", "draws"),
            ("quality", "binary"),
            ("influence", "binary"),
            ("misfit", "binary"),
            ("predicted", "regression"),
        )
    },
    "sensitivity": lambda: bgp.diagnostics.sensitivity(made("binary"), progress=False),
}
TABLES = {name for name in SHOWN if " of " in name or name == "sensitivity"} - {"quality of binary"}


def _log_density(t, f):
    return -0.5 * (t - f) ** 2 - 0.5 * np.log(2.0 * np.pi)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_a_small_table_that_is_its_own(name):
    thing = SHOWN[name]()
    html = thing._repr_html_()
    tree = ElementTree.fromstring(html)  # well-formed
    drawn = {each for figure in tree.iter("svg") for each in figure.iter()}
    assert {each.tag for each in drawn} <= {"svg", "polyline", "text"}
    assert {each.tag for each in tree.iter() if each not in drawn} <= {
        "div", "strong", "table", "tr", "th", "td", *(("thead", "tbody", "p") if name in TABLES else ()),
    }  # fmt: skip
    kept = {"style", "scope", *(("class",) if name in TABLES else ())}
    assert {key for each in tree.iter() if each not in drawn for key in each.attrib} <= kept
    assert "url(" not in html
    assert len(html) < (8000 if name in TABLES else 4000)
    assert len(repr(thing)) < 1600
    assert "0x" not in html


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_at_the_console_has_the_numbers_of_its_frame_and_no_nan(name):
    thing = SHOWN[name]()
    table, text = thing.to_frame(), repr(thing)
    assert str(thing) == text
    assert not re.search(r"\b(nan|NaN|array|inf)\b", text)
    assert set(map(str, table.columns)) <= set(text.split()) | {
        each for each in map(str, table.columns) if each in text
    }
    first = next(value for value in table.iloc[0] if isinstance(value, float) and np.isfinite(value))
    assert f"{first:.4g}" in text
    assert f"{first:.4g}" in thing._repr_html_()


def test_what_has_no_prior_has_a_dash():
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0)}
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": priors, "draws": 5, "random_seed": 1, "progress": False}
    found = bgp.diagnostics.hyperparameters(bgp.fit(X1, F + NOISE > 0, bgp.kernels.Gaussian(), **options))
    lines = {line.split()[0]: line for line in repr(found).splitlines()[2:]}
    assert "\N{EN DASH}" not in lines["lengthscale"]
    assert lines["variance"].count("\N{EN DASH}") == 5
    assert found.to_frame().loc["variance"].isna().sum() == 5


def test_relevance_has_a_range_where_there_are_several_settings_alone():
    assert list(bgp.diagnostics.relevance(made("weighted")).to_frame()) == ["effect", "unused"]
    found = bgp.diagnostics.relevance(made("inducing"))
    table = found.to_frame()
    assert list(table["effect"]) == sorted(found.effect, reverse=True)
    assert table.loc["idle", "unused"]


def test_quality_is_its_table_and_sentence():
    found = bgp.diagnostics.quality(made("binary"))
    assert repr(found) == str(found)
    assert found.sentence in repr(found)
    assert found.to_frame().loc["log evidence", "value"] == f"{found.log_evidence:.4f}"


def test_every_likelihood_is_shown():
    public = {
        name
        for name in bgp.likelihoods.__all__
        if inspect.isclass(getattr(bgp.likelihoods, name)) and name != "Likelihood"
    }
    assert public - {"Step"} == set(LIKELIHOODS)


def test_names_of_users_are_escaped():
    X = pd.DataFrame({"<b>dose</b>": [0.0, 1.0, 2.0], 'age & "sex"': [1.0, 0.0, 1.0]})
    idata = bgp.fit(X, [0, 1, 1], bgp.kernels.Gaussian([1.0, 2.0]), draws=5, random_seed=1)
    html = bgp.posterior(idata)._repr_html_()
    assert "<b>" not in html
    said = "".join(ElementTree.fromstring(html).itertext())
    assert '<b>dose</b> 1, age & "sex" 2' in said


def test_title_names_and_values_are_escaped():
    tree = ElementTree.fromstring(as_html("<i>t</i>", [("<i>n</i>", "<i>v</i>")]))
    assert "".join(tree.itertext()) == "<i>t</i><i>n</i><i>v</i>"
    assert "i" not in {each.tag for each in tree.iter()}


def test_the_numbers_that_matter_are_there():
    posterior = bgp.posterior(made("weighted"))
    for text in (posterior._repr_html_(), repr(posterior.solution), posterior.solution._repr_html_()):
        assert escape(str(posterior.solution.evidence)) in text
    assert f"{posterior.solution.info.n_iterations} steps" in repr(posterior.solution)
    assert "24 cases" in repr(posterior.solution)
    assert f"{streamed().log_score.mean:.4f}" in streamed()._repr_html_()
    assert "none: a single function" in repr(SHOWN["svm"]())


def test_long_text_is_cut_and_short_text_is_not():
    short, long = ("".join(ElementTree.fromstring(as_html("", [("", "a" * k)])).itertext()) for k in (LONGEST, 999))
    assert short == "a" * LONGEST
    assert len(long) == LONGEST
    assert as_html("title", []).count("<") == 4


def test_numbers_in_words():
    assert in_words(np.array([1.0, 2.0])) == "1, 2"
    assert in_words([1.0], ["only"]) == "1"
    assert in_words(np.arange(60.0)) == "60 values, 0 to 59"


@pytest.mark.parametrize("kernel", [bgp.kernels.Gaussian([2.0, 5.0], 3.0), bgp.kernels.Matern32(0.5)])
def test_the_curve_of_a_kernel_is_its_correlation(kernel):
    *_, line = ElementTree.fromstring(kernel._repr_html_()).iter("polyline")
    across, upwards = np.array([point.split(",") for point in line.attrib["points"].split()], dtype=float).T
    lengthscale = np.ravel(kernel.params["lengthscale"])
    at = 3.0 * (across - across[0]) / np.ptp(across)
    X = np.zeros((at.size, lengthscale.size))
    X[:, 0] = at * lengthscale[0]
    correlation = kernel.cross(X[:1], X)[0] / kernel.params["variance"]
    np.testing.assert_allclose((50.0 - upwards) / 48.0, correlation, atol=2e-3)


def test_a_sum_has_no_one_curve():
    assert "<svg" not in (bgp.kernels.Gaussian() + bgp.kernels.Bias())._repr_html_()
