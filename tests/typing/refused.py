"""Slips that a type checker must find, each on its line; never run, `test_types.py` has mypy read it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import bayesgp_mf as bgp


def of_doors(X: NDArray[np.float64], y: list[str], kernel: bgp.kernels.Kernel) -> None:
    bgp.fit(X, y, kernel, hyper="evidnce")  # E: Argument "hyper"
    bgp.fit(X, y, kernel, method="ep")  # E: Argument "method"
    bgp.fit(X, y, kernel, hyper=bgp.hyper.Evidence(method="nave"))  # E: Argument "method"
    bgp.fit(X, y, kernel, marginals="exact")  # E: Argument "marginals"
    bgp.fit(X, y, kernel, random_state=1)  # E: Unexpected keyword argument "random_state"
    bgp.fit(X)  # E: Missing positional argument "y"
    bgp.fit(X, y, kernel, bgp.Probit)  # E: Argument 4
    bgp.fit(X, y, kernel, priors={"lengthscale": 1.0})  # E: Dict entry 0
    bgp.fitt(X, y, kernel)  # E: has no attribute "fitt"
    bgp.predict(X, X)  # E: Argument 1 to "predict"
    bgp.loo(bgp.solve([[1.0]], [1], bgp.Probit()))  # E: Argument 1 to "loo"
    bgp.solve([[1.0]], [1], bgp.Probit(), method="vb")  # E: Argument "method" to "solve"
    print(bgp.solve([[1.0]], [1], bgp.Probit()).log_evidence)  # E: has no attribute "log_evidence"
    bgp.solve([[1.0]], [1], bgp.Probit(), control=bgp.Control(gram="lowrank"))  # E: Argument "gram"
    bgp.fit(X, y, kernel, inducing=bgp.Inducing(500, choose="k-means"))  # E: Argument "choose"


def of_rooms(X: NDArray[np.float64], y: list[str], kernel: bgp.kernels.Kernel) -> None:
    bgp.sklearn.GPClassifier(kernel, hyper="evidnce")  # E: Argument "hyper"
    bgp.sklearn.GPRegressor(kernel, method="ep")  # E: Argument "method"
    bgp.streams.Stream(kernel, hyper="hmc")  # E: Argument "hyper"
    bgp.streams.Stream(kernel).retune("integrate")  # E: Argument 1 to "retune"
    bgp.pymc.Marginal(kernel, method="ep")  # E: Argument "method"
    bgp.pymc.Nuts(nuts_sampler="numpyro")  # E: Argument "nuts_sampler"
    bgp.diagnostics.sample_orthant_chains(np.eye(2), [1, 1], move="jump")  # E: Argument "move"
