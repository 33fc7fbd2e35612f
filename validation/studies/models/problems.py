"""The models that are held against NUTS: of each likelihood three simulated sets and a real one, hyperparameters fixed.

The real ones are coal-mining disasters in Britain (counts by the year, of which two are not known, taken two years at a
time: years observed are the exposure), and of the Pima women of the package the pregnancies of fifty, the diabetics
among all women of an age, skin folds of fifty, one of which is a gross outlier, and of fifty how many pregnancies in
four levels. Of censored times a fifth, half and nine in ten are censored where they are simulated; the real ones are of
137 veterans with lung cancer (Kalbfleisch and Prentice, 1980) and of 200 women with breast cancer (the first of the
German study group's), both as scikit-survival has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.datasets import load_pima
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import (
    Binomial,
    Censored,
    Gaussian,
    Likelihood,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Weibull,
)
from bayesgp_mf.types import Array
from validation.sampling.recorded import FOLDER

SIMULATED = 3
"""Sets of each likelihood."""
SIZES = (30, 40, 60)
"""Cases of them, in turn."""
DISPERSION = 2.0
SCALE, DF, FAR = 0.3, 4.0, 0.1
"""Of Student's t; the share of simulated targets that are moved far away."""
CUTS = (-1.0, 0.0, 1.2)
"""Between ordered levels."""
SHARES = (0.2, 0.5, 0.9)
"""Of simulated times that are censored."""
UNKNOWN = -1
# fmt: off
DISASTERS = (
    4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5, 2, 2, 3, 4, 2, 1, 3,
    UNKNOWN, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0,
    1, 1, 0, 2, 3, 3, 1, UNKNOWN, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
)
# fmt: on
"""Disasters in each year from 1851 on: Jarrett (1979), as PyMC's documentation has them, two years without a number."""


class Model(NamedTuple):
    """Data and a model of them.

    Attributes
    ----------
    X : (n, d) array
        Inputs.
    y : (n,) array
        Targets.
    offset : (n,) array
        What is added to the latent values in the likelihood; of counts the log exposure.
    kernel, likelihood : Kernel, Likelihood
        With their hyperparameters.
    """

    X: Array
    y: Array
    offset: Array
    kernel: Kernel
    likelihood: Likelihood


def poisson(seed: int) -> Model:
    """Return counts with exposures between 0.5 and 4."""
    X, f, rng = _process(seed, 0)
    exposure = rng.uniform(0.5, 4.0, f.size)
    return Model(X, rng.poisson(exposure * np.exp(f)).astype(float), np.log(exposure), _KERNEL, Poisson())


def negative_binomial(seed: int) -> Model:
    """Return counts that vary more, with a mean of e on average."""
    X, f, rng = _process(seed, 1)
    likelihood = NegativeBinomial(DISPERSION)
    return Model(X, likelihood.sample(f + 1.0, rng), np.ones(f.size), _KERNEL, likelihood)


def binomial(seed: int) -> Model:
    """Return successes out of 1 to 12 trials."""
    X, f, rng = _process(seed, 2)
    likelihood = Binomial(rng.integers(1, 13, f.size))
    return Model(X, likelihood.sample(f, rng), np.zeros(f.size), _KERNEL, likelihood)


def student_t(seed: int) -> Model:
    """Return measurements of which one in ten is far away."""
    X, f, rng = _process(seed, 3)
    likelihood = StudentT(SCALE, DF)
    y = likelihood.sample(f, rng)
    far = rng.permutation(f.size)[: round(FAR * f.size)]
    y[far] += rng.choice([-1.0, 1.0], far.size) * rng.uniform(2.0, 6.0, far.size)
    return Model(X, y, np.zeros(f.size), _KERNEL, likelihood)


def ordinal(seed: int) -> Model:
    """Return one of four ordered levels for each case."""
    X, f, rng = _process(seed, 4)
    likelihood = Ordinal(CUTS, 0.5)
    return Model(X, likelihood.sample(f, rng), np.zeros(f.size), _KERNEL, likelihood)


def weibull(seed: int) -> Model:
    """Return times of which some are censored where the observation ends."""
    X, f, rng = _process(seed, 5)
    likelihood = Weibull(1.5)
    t, end = likelihood.sample(f + 1.0, rng), rng.lognormal(0.0, 1.0, f.size)
    end *= np.quantile(t / end, 1.0 - SHARES[seed])
    other = np.where(t > end, np.inf, np.nan)
    return Model(X, np.minimum(t, end), np.ones(f.size), _KERNEL, Censored(likelihood, other))


def tobit(seed: int) -> Model:
    """Return measurements of which those below a limit of detection are censored."""
    X, f, rng = _process(seed, 6)
    likelihood = Gaussian(0.2)
    y = likelihood.sample(f, rng)
    limit = np.quantile(y, SHARES[seed])
    other = np.where(y < limit, -np.inf, np.nan)
    return Model(X, np.maximum(y, limit), np.zeros(f.size), _KERNEL, Censored(likelihood, other))


def veterans() -> Model:
    """Return the days that veterans with lung cancer lived, by their Karnofsky score and age."""
    days, died, karnofsky, age = _survival("veterans")
    X = np.column_stack([(karnofsky - 60.0) / 20.0, (age - 60.0) / 10.0])
    likelihood = Censored(Weibull(1.2), np.where(died == 1, np.nan, np.inf))
    return Model(X, days, np.full(days.size, 4.5), bgp.kernels.Gaussian(1.5, 1.0), likelihood)


def breast_cancer() -> Model:
    """Return the log of years without breast cancer by the log of positive nodes and age."""
    days, recurred, nodes, age = _survival("breast_cancer")
    X = np.column_stack([np.log(nodes), (age - 50.0) / 10.0])
    likelihood = Censored(Gaussian(0.8), np.where(recurred == 1, np.nan, np.inf))
    return Model(X, np.log(days / 365.25), np.ones(days.size), bgp.kernels.Gaussian(1.5, 1.0), likelihood)


def _survival(name: str) -> Array:
    """Return the columns of a table of survival times."""
    return np.loadtxt(FOLDER / "survival" / f"{name}.csv", delimiter=",", skiprows=1, unpack=True)


def disasters() -> Model:
    """Return disasters in two years each, with the years that are known as exposure."""
    count = np.array((*DISASTERS, UNKNOWN), dtype=float).reshape(-1, 2)  # 111 years: the last pair has one
    years = np.sum(count != UNKNOWN, axis=1)
    X = 1851.0 + 2.0 * np.arange(len(count))[:, None]
    return Model(X, np.sum(np.maximum(count, 0.0), axis=1), np.log(years), bgp.kernels.Gaussian(20.0, 1.0), Poisson())


def pregnancies() -> Model:
    """Return the pregnancies of fifty women by the logarithm of their age."""
    npreg, age = _pima("npreg", "age")
    X = np.log(age[:50, None])
    return Model(X, npreg[:50], np.ones(50), bgp.kernels.Gaussian(0.3, 1.0), NegativeBinomial(DISPERSION))


def diabetics() -> Model:
    """Return the diabetics among all women of each age."""
    pima = load_pima(standardise=False)
    (age,) = _pima("age")
    diabetic = np.concatenate([pima.y, pima.y_test]) == "Yes"
    ages, which = np.unique(age, return_inverse=True)
    likelihood = Binomial(np.bincount(which))
    y = np.bincount(which, weights=diabetic)
    return Model(ages[:, None], y, np.full(ages.size, -1.0), bgp.kernels.Gaussian(10.0, 2.0), likelihood)


def skin_folds() -> Model:
    """Return the skin folds of fifty women by their body mass index, among them one of 99 mm; both standardised."""
    skin, bmi = _pima("skin", "bmi")
    which = np.union1d(np.arange(49), np.argmax(skin[:200]))
    skin, bmi = skin[which], bmi[which]
    X, y = (bmi - bmi.mean())[:, None] / bmi.std(), (skin - np.median(skin)) / 10.0
    return Model(X, y, np.zeros(y.size), bgp.kernels.Gaussian(1.5, 1.0), StudentT(0.6, DF))


def parity() -> Model:
    """Return levels of the pregnancies of fifty women by the logarithm of their age: none or one, up to 3, 6, more."""
    npreg, age = _pima("npreg", "age")
    X, y = np.log(age[:50, None]), np.searchsorted([1.5, 3.5, 6.5], npreg[:50]).astype(float)
    return Model(X, y, np.zeros(50), bgp.kernels.Gaussian(0.3, 2.0), Ordinal(CUTS))


def _process(seed: int, kind: int) -> tuple[Array, Array, np.random.Generator]:
    """Return inputs, a function drawn from the prior at them, and the generator that goes on."""
    rng = np.random.default_rng([19, kind, seed])
    n = SIZES[seed % SIMULATED]
    X = np.sort(rng.uniform(-3.0, 3.0, n))[:, None]
    values, vectors = np.linalg.eigh(_KERNEL.gram(X))
    # the symmetric root, since eigenvectors have a sign that may be either
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return X, root @ rng.standard_normal(n), rng


def _pima(*names: str) -> list[Array]:
    """Return columns of all women, those for training first, in their units."""
    pima = load_pima(standardise=False)
    table = np.vstack([pima.X, pima.X_test])
    return [table[:, pima.feature_names.index(name)] for name in names]


_KERNEL = bgp.kernels.Gaussian(0.8, 1.0)
_SIMULATORS: Mapping[str, Callable[[int], Model]] = {
    "Poisson": poisson,
    "NegativeBinomial": negative_binomial,
    "Binomial": binomial,
    "Ordinal": ordinal,
    "StudentT": student_t,
    "Weibull": weibull,
    "Tobit": tobit,
}
_REAL: Mapping[str, tuple[str, Callable[[], Model]]] = {
    "Poisson": ("coal-mining disasters", disasters),
    "NegativeBinomial": ("pregnancies", pregnancies),
    "Binomial": ("diabetics", diabetics),
    "Ordinal": ("levels of pregnancies", parity),
    "StudentT": ("skin folds", skin_folds),
    "Weibull": ("veterans", veterans),
    "Tobit": ("breast cancer", breast_cancer),
}
LIKELIHOODS = tuple(_SIMULATORS)
COUNTS = ("Poisson", "NegativeBinomial", "Binomial", "Ordinal")
"""Those of which nearness is promised."""
CENSORED = ("Weibull", "Tobit")
NAMES: Mapping[str, tuple[str, ...]] = {
    likelihood: (*(f"simulated {seed + 1}" for seed in range(SIMULATED)), _REAL[likelihood][0])
    for likelihood in LIKELIHOODS
}
"""The sets of each likelihood, the real one last."""


def model_of(likelihood: str, name: str) -> Model:
    """Return one of `NAMES`."""
    if name == _REAL[likelihood][0]:
        return _REAL[likelihood][1]()
    return _SIMULATORS[likelihood](NAMES[likelihood].index(name))
