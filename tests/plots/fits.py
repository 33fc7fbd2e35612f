"""Small fits of each kind, which figures are drawn of."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

import bayesgp_mf as bgp

RNG = np.random.default_rng(3)
X1 = pd.DataFrame({"dose (mg)": np.sort(RNG.uniform(-3.0, 3.0, 24))})
F = 2.0 * np.sin(1.5 * X1.iloc[:, 0].to_numpy())
NOISE = RNG.standard_normal(24)
EXPOSURE = RNG.uniform(1.0, 5.0, 24)
TRIALS = RNG.integers(1, 9, 24)
X2 = pd.DataFrame({"age": RNG.standard_normal(24), "weight": RNG.standard_normal(24), "idle": np.arange(24.0)})
Z = X2["age"].to_numpy() - X2["weight"].to_numpy() + 0.2 * NOISE
WARDS = pd.DataFrame({"week": np.arange(24.0) % 8, "ward": np.repeat(["north", "south", "west"], 8)})
SMALL = {"draws": 20, "chains": 2, "random_seed": 1, "progress": False}
ONE = bgp.kernels.Gaussian(1.0, 4.0)
TWO = bgp.kernels.Gaussian([1.0, 1.0, 500.0], 4.0)

MAKERS = {
    "binary": lambda: bgp.fit(X1, np.where(F + NOISE > 0, "ill", "well"), ONE, hyper="evidence", **SMALL),
    "regression": lambda: bgp.fit(X1, F + 0.4 * NOISE, ONE, bgp.likelihoods.Gaussian(0.16), **SMALL),
    "student": lambda: bgp.fit(X1, F + 0.4 * NOISE, ONE, bgp.StudentT(0.4, 3.0), **SMALL),
    "counts": lambda: bgp.fit(
        X1,
        np.round(EXPOSURE * np.exp(0.5 * F)),
        ONE,
        bgp.Poisson(),
        offset=np.log(EXPOSURE),
        **SMALL,
    ),
    "proportions": lambda: bgp.fit(
        X1, np.round(TRIALS / (1.0 + np.exp(-F))), ONE, bgp.likelihoods.Binomial(TRIALS), **SMALL
    ),
    "levels": lambda: bgp.fit(X1, np.digitize(F + 0.5 * NOISE, [-1.0, 1.0]), ONE, bgp.Ordinal([-1.0, 1.0]), **SMALL),
    "classes": lambda: bgp.fit(X2, np.array(["a", "b", "c"])[np.digitize(Z, [-0.7, 0.7])], TWO, bgp.Softmax(), **SMALL),
    "weighted": lambda: bgp.fit(X2, Z > 0, TWO, weights=0.5 + TRIALS / 8, **SMALL),
    "inducing": lambda: bgp.fit(X2, Z > 0, TWO, inducing=8, **SMALL),
    "nodes": lambda: bgp.fit(
        X2[["age"]],
        Z > 0,
        ONE,
        hyper="integrate",
        priors={"lengthscale": bgp.hyper.LogNormal(0.0, 0.5), "variance": bgp.hyper.LogNormal(1.0, 0.5)},
        **SMALL,
    ),
    "draws": lambda: bgp.fit(
        X2[["age"]], Z > 0, ONE, hyper=bgp.hyper.Surrogate(nodes=60, training=20), fixed=["variance"], **SMALL
    ),
    "groups": lambda: bgp.fit(
        WARDS,
        np.round(np.exp(0.5 + 0.3 * NOISE)),
        bgp.kernels.Gaussian(4.0, columns=["week"]) + bgp.kernels.Categorical(columns=["ward"]),
        bgp.NegativeBinomial(2.0),
        **SMALL,
    ),
}


@cache
def made(kind):
    """Return a fit, which is made once."""
    return MAKERS[kind]()


@cache
def streamed():
    """Return a stream that learned from four batches."""
    stream = bgp.streams.Stream(ONE, bgp.Probit(), budget=20, classes=(False, True), random_seed=1)
    for start in range(0, 24, 6):
        x = X1.to_numpy()[start : start + 6]
        stream = stream.update(x, x[:, 0] + 0.1 > 0)
    return stream
