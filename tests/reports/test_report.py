"""A page about every kind of fit: self-contained, small, with its verdict first, and what it cannot show said."""

from __future__ import annotations

import os
import re
import shutil
import sys
from functools import cache
from html import unescape
from importlib import import_module

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.diagnostics.loo import worst_cases
from bayesgp_mf.reports.computation import formulas, symbols
from bayesgp_mf.reports.page import Formula
from bayesgp_mf.reports.pdf import BROWSERS
from tests.plots.fits import EXPOSURE, MAKERS, ONE, SMALL, TRIALS, X1, X2, F, Z, made, streamed
from tests.reports.page_parser import check_self_contained

LETTERS = np.array(list("abcdef"))[np.argsort(np.argsort(Z)) // 4]
KINDS = {
    **{kind: lambda kind=kind: made(kind) for kind in MAKERS},
    "six classes, probit": lambda: bgp.fit(X2[["age", "weight"]], LETTERS, ONE, bgp.MultinomialProbit(), **SMALL),
    "sixty inputs": lambda: bgp.fit(
        np.random.default_rng(1).standard_normal((24, 60)), Z > 0, bgp.kernels.Gaussian(8.0, 4.0), **SMALL
    ),
    "constant": lambda: bgp.fit(X2, Z > 0, bgp.kernels.Bias(1.0), **SMALL),
    "one case": lambda: bgp.fit([[0.0, 1.0]], [1.5], ONE, bgp.likelihoods.Gaussian(0.1), **SMALL),
    "stream": lambda: streamed().to_container(draws=5, chains=1, random_seed=1),
}

WITHOUT_CASES = {
    "regression": "at the hyperparameters that were given.",
    "binary": "These were chosen with the case among them",
    "nodes": "by an average of settings whose weights leave the case out, too.",
}


@cache
def fitted(kind):
    """Return a fit of each of these kinds, which is made once."""
    return KINDS[kind]()


def page_of(idata, folder, **options):
    html = bgp.report(idata, folder / "fit.html", **options).read_text(encoding="utf-8")
    return html, check_self_contained(html)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return a function that returns the page of a kind without options, which is made once."""
    return cache(lambda kind: page_of(fitted(kind), tmp_path_factory.mktemp("pages")))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fit_has_a_page(kind, plain):
    idata = fitted(kind)
    html, page = plain(kind)
    assert len(html) < 3e6
    assert page.tags.count("img") >= 1
    alts = re.findall(r'<img alt="([^"]*)"', html)
    assert len(alts) == page.tags.count("img")
    assert all(alts)
    lead = unescape(re.search(r'<p class="lead">(.*?)</p>', html)[1])
    assert lead.startswith("unknown" if kind == "stream" else bgp.diagnostics.quality(idata).sentence)
    assert page.text.index(lead) < page.text.index("Table 1")


def test_a_page_leaves_the_figure_that_its_user_draws(tmp_path):
    figure = plt.figure()
    page_of(made("binary"), tmp_path)
    assert plt.get_fignums() == [figure.number]
    assert plt.gcf() is figure


def test_a_page_has_the_title_that_it_is_given(tmp_path):
    for idata, usual in ((made("binary"), "Report of a fit"), (fitted("stream"), "Report of a stream")):
        assert f"<h1>{usual}</h1>" in page_of(idata, tmp_path)[0]
        html, _ = page_of(idata, tmp_path, title="Dose & response")
        assert "<h1>Dose &amp; response</h1>" in html
        assert "<title>Dose &amp; response</title>" in html


BROWSER = """#!{python}
import pathlib, sys
(into,) = [each.partition("=")[2] for each in sys.argv if each.startswith("--print-to-pdf=")]
page = pathlib.Path(sys.argv[-1].removeprefix("file://")).read_text(encoding="utf-8")
if "fails" in page:
    sys.exit("no paper")
pathlib.Path(into).write_text("%PDF of " + page[:15])
"""


@pytest.mark.skipif(os.name != "posix", reason="a program of our own by the name of a browser")
def test_a_page_is_printed_by_a_browser_or_refused(tmp_path, monkeypatch):
    """By one that writes what it was given, and then says why it does not."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"none of chromium.*ends in \.html, and print that"):
        bgp.report(made("binary"), tmp_path / "fit.pdf")
    program = tmp_path / "google-chrome"
    program.write_text(BROWSER.format(python=sys.executable))
    program.chmod(0o755)
    path = bgp.report(made("binary"), tmp_path / "fit.pdf")
    assert path.read_text() == "%PDF of <!DOCTYPE html>"
    with pytest.raises(OSError, match="did not print the report: no paper"):
        bgp.report(made("binary"), tmp_path / "fit.pdf", title="it fails")
    assert path.read_text() == "%PDF of <!DOCTYPE html>"  # the old one is still there
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fit.pdf", "google-chrome"]


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser")
def test_a_browser_prints_it(tmp_path):
    path = bgp.report(made("binary"), tmp_path / "fit.pdf")
    assert path.read_bytes()[:5] == b"%PDF-"
    assert len(re.findall(rb"/Type\s*/Page\b", path.read_bytes())) < 7


def test_names_in_letters_that_no_font_has_warn_of_nothing(tmp_path):
    """Figures have boxes for them, the page itself has them; warnings are errors here."""
    X = X1.set_axis(["\u5264\u91cf"], axis=1)
    _, page = page_of(bgp.fit(X, np.where(F > 0, "\u5f35", "\u738b"), ONE, **SMALL), tmp_path)
    assert "\u5264\u91cf" in page.text


def test_hyperparameters_of_left_out_cases_are_what_they_are(plain):
    """Chosen with them, given, or averaged by weights without them."""
    for kind, words in WITHOUT_CASES.items():
        _, page = plain(kind)
        assert words in page.text
        assert sum(other in page.text for other in WITHOUT_CASES.values()) == 1


def test_what_cannot_be_shown_is_said(plain):
    _, page = plain("one case")
    assert re.search(r"Not shown: [^.]*this fit has one", page.text)


def test_what_can_be_shown_is_shown(plain):
    for kind in ("binary", "regression", "counts", "groups", "nodes"):
        _, page = plain(kind)
        assert "Not shown" not in page.text


def test_the_worst_cases_are_listed_with_their_inputs(plain):
    _, page = plain("weighted")
    found = worst_cases(made("weighted"), 3)
    loo = made("weighted")["fit"]["loo_i"].values
    np.testing.assert_array_equal(found.log_density, np.sort(loo)[:3])
    for label, density in zip(found.labels, found.log_density, strict=True):
        assert f"{label}{bool(Z[int(label)] > 0)}{density:.3f}" in page.text
    assert set(found.features) == set(X2.columns)


def test_the_worst_cases_of_several_classes_have_their_classes():
    idata = fitted("six classes, probit")
    found = worst_cases(idata, 4)
    assert list(found.targets) == [LETTERS[int(label)] for label in found.labels]
    np.testing.assert_array_equal(found.log_density, np.sort(idata["fit"]["loo_i"].values)[:4])


def test_several_classes_have_their_confusion_and_search(tmp_path):
    options = {**SMALL, "hyper": bgp.hyper.Evidence(starts=1), "fixed": ["variance"]}
    y = np.array(["a", "b", "c"])[np.argsort(np.argsort(Z)) // 8]
    idata = bgp.predict(bgp.fit(X2[["age"]], y, ONE, bgp.MultinomialProbit(), **options), X2[["age"]], draws=False)
    _, page = page_of(idata, tmp_path, y_test=y)
    assert "Not shown" not in page.text
    assert page.text.count("Which classes are taken for which.") == 2  # of the cases left out, and of new ones
    assert "The search for hyperparameters." in page.text
    found = bgp.diagnostics.class_scores(y, idata["predictions"]["p"], idata["predictions"]["class"])
    assert f"Mean log score{found.log_score:.4f}" in page.text
    for name in "abc":
        assert page.text.count(f"{name}: what was observed against what was predicted.") == 2


COLUMNS = bgp.kernels.Gaussian([1.0, 2.0], columns=["weight", "age"]) + bgp.kernels.Matern32(1.0, columns=["idle"])


def test_kernels_of_some_columns_have_their_names(tmp_path):
    idata = bgp.fit(X2, Z > 0, COLUMNS, **SMALL)
    _, page = page_of(idata, tmp_path)
    assert "columns=['weight', 'age'])" in page.text
    assert "columns=['idle'])" in page.text
    assert bgp.diagnostics.hyperparameters(idata).names[:2] == (
        "gaussian_lengthscale[weight]",
        "gaussian_lengthscale[age]",
    )


WITH_FORMULAS = [
    bgp.Probit(), bgp.Logit(), bgp.Poisson(), bgp.NegativeBinomial(2.0), bgp.likelihoods.Binomial(3), bgp.Softmax(),
    bgp.StudentT(1.0, 3.0), bgp.Ordinal([0.0, 1.0]), bgp.MultinomialProbit(), bgp.kernels.Gaussian(),
    bgp.kernels.Matern12(), bgp.kernels.Matern32(), bgp.kernels.Matern52(), bgp.kernels.RationalQuadratic(),
    bgp.kernels.Periodic(), bgp.kernels.Linear(), bgp.kernels.Polynomial(2), bgp.kernels.NeuralNetwork(),
]  # fmt: skip
PLAIN = set("tfpPNxde")
"""Letters that need no word: target, latent value, probabilities, inputs, classes by number, the base."""
IN_THE_FORMULA = {"NeuralNetwork": {"s"}, "MultinomialProbit": {"c"}, "Softmax": {"c"}, "Ordinal": {"k"}}
"""Letters that a formula itself explains."""


@pytest.mark.parametrize("thing", WITH_FORMULAS, ids=lambda thing: type(thing).__name__)
def test_every_letter_of_a_formula_is_explained(thing):
    latex, *_ = (re.sub(r"\\text{[^}]*}", "", each.latex) for each in formulas(thing) if isinstance(each, Formula))
    letters = set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", latex)) - PLAIN
    known = {clause[0] for clause in symbols(thing, latex)} | set("v" * ("v_0" in latex))
    assert letters - IN_THE_FORMULA.get(type(thing).__name__, set()) <= known


def test_a_letter_means_what_its_parameter_does():
    assert symbols(bgp.NegativeBinomial(2.0), "r^r / (r + 1)") == ["r is the dispersion"]
    assert symbols(bgp.kernels.Matern12(), r"\\exp(-r)") == ["r is the distance of two cases in length scales"]
    assert symbols(bgp.kernels.Bias(), r"\\sqrt{r}") == []


def test_unused_inputs_are_named(plain):
    _, page = plain("weighted")
    assert re.search(r"1 of 3 inputs do nothing[^:]*: idle\.", page.text)


def test_nothing_is_said_of_numbers_that_are_not_there(tmp_path):
    X = X2.assign(crp=np.linspace(10.0, 90.0, 24), weight=0.0)
    X.loc[3, "crp"] = np.nan
    idata = bgp.fit(X[["age", "crp", "idle"]], Z > 0, bgp.kernels.Gaussian(2.0, columns="age"), **SMALL)
    _, page = page_of(idata, tmp_path)
    assert f"crpnot in the model{4 * chr(8211)}" in page.text
    assert "idlenot" not in page.text  # it has numbers, whoever reads them
    assert worst_cases(idata, 1).features == ("age", "idle")
    assert worst_cases(idata, 1, inputs=1).features == ("age",)
    assert [ax.get_xlabel() for ax in bgp.plots.plot_partial_dependence(idata, points=3)] == ["age", "idle"]
    _, page = page_of(bgp.fit(X[["age", "crp"]], Z > 0, bgp.kernels.Gaussian(2.0, columns="age"), **SMALL), tmp_path)
    assert "What is predicted along each input, averaged" in page.text  # and no surface over zeros
    _, page = page_of(bgp.fit(X[["crp", "weight"]], Z > 0, bgp.kernels.Bias(), **SMALL), tmp_path)  # it reads none
    assert "no input does anything" in page.text  # and no advice on arguments
    assert "features must" not in page.text


@pytest.mark.parametrize("columns", [["age"], ["age", "weight"], ["age", "weight", "idle"]])
def test_where_targets_have_no_mean_the_latent_function_is_drawn(columns, tmp_path):
    idata = bgp.fit(X2[columns], Z, ONE, bgp.StudentT(1.0, df=1.0), **SMALL)
    _, page = page_of(idata, tmp_path)
    assert "Not shown" not in page.text
    assert "scale='latent'" not in page.text
    assert re.search(r"The latent function(, as a target has no finite mean, (along|over)|, with bands)", page.text)


def test_gaps_between_levels_are_in_the_glossary(tmp_path):
    prior, search = bgp.hyper.LogNormal(0.0, 1.0), bgp.hyper.Evidence(starts=1)
    options = {**SMALL, "hyper": search, "priors": {"gap1": prior, "gap2": prior}}
    idata = bgp.fit(X2, np.digitize(Z, [-1.0, 0.0, 1.0]), ONE, bgp.Ordinal([-1.0, 0.0, 1.0]), **options)
    _, page = page_of(idata, tmp_path)
    assert page.text.count("gap1, gap2 and so on are the distances") == 1


def test_names_of_users_are_escaped(tmp_path):
    nasty = '<u onclick="x">&\'dose'
    X = pd.DataFrame({nasty: X1.iloc[:, 0], "<script>": np.arange(24.0)})
    y = np.where(F > 0, "<i>ill", "well & fine")
    html, page = page_of(bgp.fit(X, y, ONE, **SMALL), tmp_path)
    assert nasty in page.text
    assert "<i>ill" in page.text
    assert not {"u", "i", "script"} & set(page.tags)
    assert "<script" not in html


def test_new_cases_are_predicted_and_scored(tmp_path):
    fit = bgp.fit(X2, Z > 0, ONE, **SMALL)
    before = list(group_names(fit))
    _, page = page_of(fit, tmp_path, X_test=X2, y_test=Z > 0)
    assert list(group_names(fit)) == before
    p = get_group(bgp.predict(bgp.fit(X2, Z > 0, ONE, **SMALL), X2, draws=False), "predictions")["p"].values
    score = np.mean(np.log(np.where(Z > 0, p, 1.0 - p)))
    assert f"Mean log score{score:.4f}" in page.text
    assert f"{len(X2)} of them with the inputs of cases of the fit" in page.text
    elsewhere = page_of(fit, tmp_path, X_test=X2 + 0.1)[1].text
    assert "with y_test they would be scored" in elsewhere
    assert f"{len(X2)} cases that the fit has not seen." in elsewhere


def test_new_numbers_are_scored_by_their_density(tmp_path):
    fit = made("regression")
    _, page = page_of(fit, tmp_path, X_test=X1, y_test=F)
    each = bgp.diagnostics.log_predictive_density(fit, X1, F)
    assert f"Mean log predictive density{np.mean(each):.4f}nats a case" in page.text


def test_a_reference_is_held_against_the_fit(tmp_path):
    laplace = bgp.fit(X2, Z > 0, ONE, method="laplace", **SMALL)
    tap = bgp.fit(X2, Z > 0, ONE, **SMALL)
    _, page = page_of(tap, tmp_path, reference=laplace)
    assert str(bgp.diagnostics.agreement(tap, laplace)) in page.text
    _, itself = page_of(tap, tmp_path, reference=tap)
    assert "Means00" in itself.text


def test_the_label_of_a_new_case_is_one_of_the_classes(tmp_path):
    idata = bgp.fit(X1, F > 0, ONE, **SMALL)
    with pytest.raises(ValueError, match=r"none of the classes of the fit \['False', 'True'\]: \['ill'\]"):
        bgp.report(idata, tmp_path / "fit.html", X_test=X1, y_test=["ill"] * 24)


@pytest.mark.parametrize(
    ("kind", "facts"), [("counts", {"offset": np.log(EXPOSURE)}), ("proportions", {"trials": TRIALS})]
)
def test_new_cases_have_offsets_and_trials_of_their_own(kind, facts, tmp_path):
    idata = made(kind)
    y = get_group(idata, "observed_data")["y"].values
    _, page = page_of(idata, tmp_path, X_test=X1, y_test=y, **facts)
    each = bgp.diagnostics.log_predictive_density(idata, X1, y, **facts)
    assert f"Mean log predictive density{np.mean(each):.4f}" in page.text


STYLE = {
    "text.usetex": True, "font.size": 60.0, "svg.fonttype": "none", "savefig.bbox": "tight", "axes.facecolor": "black",
    "text.color": "white", "figure.autolayout": True, "savefig.transparent": True,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["regression", "stream"])
def test_a_page_is_the_same_in_any_style_of_its_user(kind, plain, tmp_path):
    usual = plain(kind)[0]
    with mpl.rc_context(STYLE):
        before = dict(mpl.rcParams)
        assert page_of(fitted(kind), tmp_path)[0] == usual
        assert dict(mpl.rcParams) == before


def test_a_page_takes_over_the_fonts_of_its_user(plain, tmp_path):
    usual = plain("regression")[0]
    with mpl.rc_context({"font.family": "DejaVu Serif"}):
        assert page_of(made("regression"), tmp_path)[0] != usual


def test_each_case_is_left_out_once(tmp_path, monkeypatch):
    made_of, predicted_module = [], import_module("bayesgp_mf.diagnostics.predicted")
    once = vars(predicted_module)["_left_out"]
    monkeypatch.setattr(predicted_module, "_left_out", lambda *given: made_of.append(given) or once(*given))
    page_of(made("draws"), tmp_path)
    page_of(made("classes"), tmp_path)
    assert len(made_of) == 2


def test_inputs_of_any_size_have_a_page(tmp_path):
    fit = bgp.fit(1e300 * X2, Z > 0, bgp.kernels.Gaussian(1e300, 4.0), **SMALL)
    _, page = page_of(fit, tmp_path)
    assert f"{1e300 * np.std(X2['age']):.4g}" in page.text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: bgp.report([0.1], path), "expected an ArviZ container, got list"),
        (lambda path: bgp.report(bgp.GPClassifier(), path), r"got GPClassifier.*idata_ of an estimator"),
        (lambda path: bgp.report(made("weighted"), path, y_test=[1]), "there are none. Pass X_test"),
        (lambda path: bgp.report(made("weighted"), path, X_test=[[1.0]]), "X_new"),
        (lambda path: bgp.report(made("weighted"), path, trials=3), "offset and trials .* Pass X_test as well"),
        (lambda path: bgp.report(made("weighted"), path, X_test=X2, trials=3), "trials .* Leave them out"),
        (lambda path: bgp.report(made("weighted"), path, X_test=X2, y_test=[True]), "y_test|y_new"),
        (lambda path: bgp.report(made("weighted"), path, reference=made("binary")), "^reference, the second, does not"),
        (lambda path: bgp.report(made("weighted"), path.with_suffix(".docx")), r"path must end in \.html or \.pdf"),
        (lambda _: bgp.report(made("weighted"), None), "path must be the name of a file.*got None"),
        (lambda path: bgp.report(made("weighted"), f"{path}\0"), "has a NUL character|must end in"),
        (lambda path: bgp.report(made("weighted"), path.parent), r"is a folder\. Pass '.*fit\.html'"),
        (
            lambda path: bgp.report(
                made("weighted"), path, X_test=X2, y_test=pd.Series(Z > 0, index=range(23, -1, -1))
            ),
            "X_test and y_test have the same index in another order",
        ),
        (lambda path: bgp.report(fitted("stream"), path, X_test=X1), "stream.update"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "fit.html")
    assert not list(tmp_path.iterdir())


def test_the_same_fit_has_the_same_page(plain, tmp_path):
    assert page_of(made("groups"), tmp_path)[0] == plain("groups")[0]


def test_sections_are_in_the_order_of_an_analysis(tmp_path):
    """Data and model, what was said before the data, computation, checks, predictions, other models."""
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0)}
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": priors, "fixed": ["variance"], **SMALL}
    idata = bgp.prior_predictive(bgp.fit(X1, Z > 0, bgp.kernels.Gaussian(1.0), **options), draws=50, random_seed=1)
    rough = bgp.fit(X1, Z > 0, bgp.kernels.Matern12(1.0), **SMALL)
    html, page = page_of(idata, tmp_path, X_test=X1, y_test=Z > 0, reference=rough, others={"rough": rough})
    order = [
        "The data",
        "The model",
        "Before the data",
        "How good the approximation is",
        "How it was computed",
        "Against the reference",
        "Hyperparameters",
        "Predicting each case from the others",
        "Worst cases",
        "What the inputs do",
        "New cases",
        "Other models",
    ]
    at = [html.index(f">{title}</h2>") for title in order]
    assert at == sorted(at)
    assert "Prior, 5 to 95 %" in html[at[6] : at[7]]
    assert "rough" in html[at[11] :]
    assert bgp.compare({"this fit": idata, "rough": rough}).sentence in page.text


@pytest.mark.parametrize("others", [{}, [0.1], "rough", {"this fit": None}])
def test_other_models_have_names(others, tmp_path):
    with pytest.raises(ValueError, match="others must be fits by name"):
        bgp.report(made("weighted"), tmp_path / "fit.html", others=others)


def test_what_the_priors_said_stands_beside_the_data(tmp_path):
    for targets, likelihood, row in ((Z > 0, bgp.Probit(), "Share of"), (np.arange(len(Z)), bgp.Poisson(), "Largest")):
        idata = bgp.fit(X1, targets, bgp.kernels.Gaussian(1.0), likelihood, **SMALL)
        assert "Before the data" not in page_of(idata, tmp_path)[0]
        html, _ = page_of(bgp.prior_predictive(idata, draws=200, random_seed=1), tmp_path)
        assert row in html


def test_new_counts_of_a_group_that_was_not_seen_are_scored(tmp_path):
    rng, k = np.random.default_rng(1), bgp.kernels
    table = pd.DataFrame({"x": rng.normal(size=30), "g": rng.choice(["a", "b"], 30)})
    kernel = k.Gaussian(columns="x") + k.Categorical(0.5, columns="g")
    new, counts = pd.DataFrame({"x": [0.0, 1.0], "g": ["a", "new"]}), [1, 2]
    idata = bgp.predict(bgp.fit(table, rng.poisson(1, 30), kernel, bgp.Poisson(), draws=20), new)
    expected = bgp.diagnostics.log_predictive_density(idata, new, counts)
    np.testing.assert_allclose(bgp.diagnostics.predicted(idata, counts).log_density, expected)
    bgp.report(idata, tmp_path / "page.html", y_test=counts)
    assert f"{expected.mean():.4f}" in (tmp_path / "page.html").read_text()
