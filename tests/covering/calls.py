"""Calls beside `fit` that cross a threshold on size at 30 cases, by name: what each says, as numbers or text."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf import hyper, kernels, likelihoods, sharded
from bayesgp_mf.container import netcdf
from bayesgp_mf.diagnostics import curves
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.pymc import LogEvidence
from bayesgp_mf.pymc.graph import interpret
from tests.covering import laws, streams
from tests.covering.options import CLASSES, FIT, arguments, draw, inputs

Found = dict[str, Any]
"""Numbers, or text, by name."""
USUAL = {option: values[0] for option, values in FIT.items()}
MANY = 2000
"""Draws, whose means have an error of their standard deviation over 45."""


def data(n: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return inputs ``(n, 2)``, a plane over them, and what made them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 1.5 * X[:, 0] - 0.5 * X[:, 1], rng


def rough() -> Any:
    """Return a kernel."""
    return kernels.Matern32(1.0) + kernels.Bias()


def of_stream(**given: str) -> Found:
    """Return what a stream says of new cases."""
    cell = {**{option: values[0] for option, values in streams.OPTIONS.items()}, **given}
    rng = np.random.default_rng(0)
    cases = draw({**cell, "method": "tap"}, rng, streams.FEWER)
    stream = streams.learned(cell, cases)
    return {**streams.answers(cell, stream, inputs(cell["kernel"], rng, 4)), "kernel": repr(stream.kernel)}


def of_shards() -> Found:
    """Return what a table in parts says of new cases, from a part that begins and a part that does not."""
    X, f, rng = data(40)
    y = rng.poisson(np.exp(0.5 * f))
    parts = sharded.from_arrays([(X[:20], y[:20]), (X[20:], y[20:])])
    fitted = sharded.fit_stream(parts, None, rough(), bgp.Poisson(), inducing=X[:6], random_seed=1, progress=False)
    mean, variance = fitted.stream.latent(data(5, 1)[0])
    return {"mean": mean, "sd": np.sqrt(variance), "evidence": fitted.log_evidence}


def drawn(new: int = 4, **given: str) -> Found:
    """Return what a fit says of new cases; its draws have the means and standard deviations that it states."""
    cell, rng = {**USUAL, **given}, np.random.default_rng(0)
    idata = bgp.fit(**arguments(cell, draw(cell, rng)) | {"draws": MANY, "chains": 1})
    known = laws.new_cases(cell, rng)
    bgp.predict(idata, **known)
    table = idata["predictions"]
    f, mean, sd = (np.asarray(table[name].values) for name in ("f", "latent_mean", "latent_sd"))
    error = sd / np.sqrt(MANY)
    assert np.all(np.abs(f[0].mean(axis=0) - mean) < 5.0 * error)
    assert np.all(np.abs(f[0].std(axis=0) / sd - 1.0) < 5.0 / np.sqrt(2.0 * MANY) + 0.1)
    return {"mean": mean, "sd": sd}


def exactly_drawn() -> Found:
    """Return the moments of exact draws of few labels at the training inputs, which those of the draws agree with."""
    cell = {**USUAL, "method": "exact"}
    idata = bgp.fit(**arguments(cell, draw(cell, np.random.default_rng(0))) | {"draws": MANY, "chains": 1})
    f = np.asarray(idata["posterior"]["f"].values)[0]
    mean, sd = (np.asarray(idata["fit"][name].values) for name in ("latent_mean", "latent_sd"))
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5.0 * sd / np.sqrt(MANY))
    return {"mean": mean, "sd": sd}


def averaged() -> Any:
    """Return a fit to counts that averages over some kernels."""
    X, f, rng = data()
    return bgp.fit(
        X,
        rng.poisson(np.exp(0.5 * f)),
        rough(),
        bgp.Poisson(),
        hyper=hyper.Integrate(starts=1, points=5),
        fixed=["matern32_variance", "bias_variance"],
        draws=2,
        random_seed=1,
        progress=False,
    )


def curve() -> Found:
    """Return a curve of a fit that averages, with the least and the most that one of its kernels says."""
    idata, options = averaged(), {"scale": "latent", "points": 3, "probabilities": (0.5,)}
    (found,) = bgp.diagnostics.partial_dependence(idata, [0], **options)
    fit = fitted(idata)
    X = np.array([np.mean([part.latent_at(np.column_stack([np.full(30, x), fit.X[:, 1]]))[0] for x in found.x], axis=1)
                  for part in fit.process.parts])  # fmt: skip
    return {"mean": found.mean, "low": X.min(axis=0), "high": X.max(axis=0)}


def medians() -> Found:
    """Return the medians of an average along an input, with quantiles on both sides."""
    levels = (0.35, 0.5, 0.65)
    found = curves.curve(fitted(averaged()), 0, scale="latent", probabilities=levels, points=3)
    return dict(zip(("low", "median", "high"), found.quantiles, strict=True))


def counts() -> Found:
    """Return how many cases have each count."""
    return {"expected": bgp.diagnostics.count_table(bgp.diagnostics.predicted(averaged())).expected}


def ticks() -> Found:
    """Return how many cases have each count, as they are drawn, with ticks or without."""
    ax = bgp.plots.plot_counts(averaged())
    return {"drawn": ax.lines[0].get_ydata()}


def rounded(likelihood: Any, variance: float, level: float) -> Found:
    """Return what a fit says whose matrix is so large that rounding is looked at."""
    X, f, rng = data()
    y = rng.poisson(level * np.exp(f)) if level else f
    idata = bgp.fit(X, y, kernels.Gaussian(3.0, variance), likelihood, draws=1, chains=1, random_seed=1)
    return {"mean": idata["fit"]["latent_mean"].values, "evidence": idata["fit"]["log_evidence"].values}


def far_apart() -> Found:
    """Return what a fit says, and what it warns of, where inputs are far apart."""
    X, f, _ = data()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        idata = bgp.fit(1e6 * X, f > 0, kernels.Gaussian(1.0), bgp.Probit(), draws=1, chains=1, random_seed=1)
    return {"mean": idata["fit"]["latent_mean"].values, "warnings": len(found)}


def loaded() -> Found:
    """Return what a file says."""
    X, f, _ = data()
    idata = bgp.fit(X, f, rough(), likelihoods.Gaussian(0.3), draws=1, chains=1, random_seed=1)
    with tempfile.TemporaryDirectory() as folder:
        idata.to_netcdf(str(Path(folder) / "fit.nc"))
        return {"mean": netcdf.read(Path(folder) / "fit.nc")["fit"]["latent_mean"].values}


def in_a_notebook() -> Found:
    """Return a data set as a notebook shows it."""
    return {"text": bgp.datasets.load_pima()._repr_html_().partition("</table>")[0].count("<tr")}


def measurements_as_labels() -> Found:
    """Return what is said of measurements that are taken for classes."""
    X, f, _ = data()
    y = np.clip(np.round(f), -2.0, 2.0) + 0.5
    idata = bgp.fit(X, y, rough(), bgp.Softmax(), method="laplace", draws=1, chains=1, random_seed=1)
    return {"mean": idata["fit"]["latent_mean"].values}


def few_cases() -> Found:
    """Return what few cases of three classes say of new ones, of which a label may be flipped."""
    X, _, _ = data(4)
    likelihood = bgp.MultinomialProbit(noise_variance=0.5, flip=0.05)
    idata = bgp.fit(X, np.resize(CLASSES, 4), rough(), likelihood, draws=1, chains=1, random_seed=1)
    bgp.predict(idata, data(3, 1)[0], draws=False)
    return {name: idata["predictions"][name].values for name in ("latent_mean", "latent_sd", "p")}


def integrated() -> Found:
    """Return probabilities of four classes under a softmax, which are integrals."""
    X, f, _ = data()
    options = {"method": "laplace", "draws": 1, "chains": 1, "random_seed": 1}
    idata = bgp.fit(X, np.digitize(f, [-1.0, 0.0, 1.0]), rough(), bgp.Softmax(), **options)
    bgp.predict(idata, data(3, 1)[0], draws=False)
    return {"p": idata["predictions"]["p"].values}


def four_classes() -> Found:
    """Return what four classes say of new cases."""
    X, f, _ = data()
    y = np.digitize(f, [-1.0, 0.0, 1.0])
    idata = bgp.fit(X, y, rough(), bgp.MultinomialProbit(), draws=1, chains=1, random_seed=1)
    bgp.predict(idata, data(3, 1)[0], draws=False)
    return {name: idata["predictions"][name].values for name in ("latent_mean", "latent_sd", "p")}


def chosen(choose: str) -> Found:
    """Return what a fit says whose inducing cases are chosen in some way."""
    X, f, rng = data()
    options = {"inducing": bgp.Inducing(5, choose=choose), "draws": 1, "chains": 1, "random_seed": 1}
    idata = bgp.fit(X, rng.poisson(np.exp(0.5 * f)), rough(), bgp.Poisson(), **options)
    inducing = bgp.posterior(idata).problem.matrix.rank
    return {"rank": inducing}


def below() -> Found:
    """Return how likely counts are to be at most some, where the rate is uncertain."""
    mean, variance = np.linspace(-2.0, 2.0, 9), np.full(9, 4.0)
    likelihood = bgp.NegativeBinomial(2.0)
    return {"below": likelihood.predictive_below(np.arange(9.0), mean, variance)}


def in_a_model() -> Found:
    """Return the log evidence of counts in a PyMC model, with its derivatives."""
    X, f, rng = data()
    gram, counts, noise = kernels.Gaussian(3.0).gram(X), rng.poisson(np.exp(0.5 * f)), np.linspace(-0.2, 0.2, 30)
    value, of_gram, of_mean, converged = LogEvidence(bgp.Poisson(), with_mean=True)(gram, counts, noise)
    evaluated = interpret([], [value, of_gram, of_mean, converged])()
    return dict(zip(("value", "of gram", "of mean", "converged"), evaluated, strict=True))


CALLS: dict[str, Callable[[], Found]] = {
    "stream": partial(of_stream, likelihood="poisson", budget="6", batch="9", offset="numbers", weights="counts"),
    "stream of classes": partial(of_stream, likelihood="multinomial probit"),
    "stream, first": partial(of_stream, likelihood="probit", hyper="first evidence"),
    "shards": of_shards,
    "draws": partial(drawn, likelihood="poisson"),
    "draws, inducing": partial(drawn, likelihood="poisson", matrix="inducing"),
    "draws of classes": partial(drawn, likelihood="softmax", method="laplace"),
    "exact draws": exactly_drawn,
    "curve": curve,
    "medians": medians,
    "counts of each": counts,
    "ticks": ticks,
    "rounded measurements": partial(rounded, likelihoods.Gaussian(1e-3), 1e6, 0.0),
    "rounded counts": partial(rounded, bgp.Poisson(), 1e4, 1e6),
    "far apart": far_apart,
    "file": loaded,
    "notebook": in_a_notebook,
    "measurements as labels": measurements_as_labels,
    "few cases": few_cases,
    "integrated": integrated,
    "four classes": four_classes,
    "k-means": partial(chosen, "kmeans"),
    "greedy": partial(chosen, "greedy"),
    "below": below,
    "in a model": in_a_model,
}
