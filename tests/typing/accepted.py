"""What a type checker must take, with the types that it must see; never run, `test_types.py` has mypy read it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bayesgp_mf as bgp
from bayesgp_mf.processes.process import Process

if TYPE_CHECKING:
    if sys.version_info >= (3, 12):
        from arviz_stats.utils import ELPDData
        from xarray import DataTree as Container
    else:
        from arviz import ELPDData
        from arviz import InferenceData as Container


def of_doors(X: NDArray[np.float64], frame: pd.DataFrame, y: list[str]) -> None:
    kernel = bgp.kernels.Gaussian(1.0) + 2.0 * bgp.kernels.Linear(columns="age")
    idata = bgp.fit(X, y, kernel, bgp.Probit(), method="tap", hyper="evidence", marginals="tilted", random_seed=1)
    assert_type(idata, Container)
    assert_type(bgp.fit(frame, np.array(y), kernel, bgp.Logit(), hyper=bgp.hyper.Evidence(starts=5)), Container)
    assert_type(bgp.fit(X, y), Container)
    bgp.fit(X, y, kernel, hyper=None, inducing=bgp.Inducing(500, choose="kmeans"))
    table = bgp.sharded.from_parquet("flights-*.parquet", target="late")
    assert_type(bgp.sharded.fit(table, None, kernel, inducing=500, processes=2), Container)
    assert_type(bgp.predict(idata, frame, corrected=True), Container)
    assert_type(bgp.loo(idata), ELPDData)
    assert_type(bgp.posterior(idata), Process)
    assert_type(bgp.solve([[1.0]], [1], bgp.Step(), method="naive").evidence.value, float)
    idata.to_netcdf("fit.nc")


def of_estimators(X: NDArray[np.float64], y: list[str]) -> None:
    model = bgp.sklearn.GPClassifier(bgp.kernels.Gaussian(), method="laplace", hyper=None)
    assert_type(model.fit(X, y), bgp.sklearn.GPClassifier)
    assert_type(model.partial_fit(X, y), bgp.sklearn.GPClassifier)
    assert_type(model.predict(X), NDArray[Any])
    assert_type(model.predict_proba(X), NDArray[np.float64])
    assert_type(model.idata_, Container)
    assert_type(model.loo_, ELPDData)
    assert_type(model.log_evidence_, float)
    assert_type(bgp.sklearn.GPRegressor(likelihood=bgp.StudentT(0.1, 4.0)).fit(X, X[:, 0]), bgp.sklearn.GPRegressor)


def of_rooms(X: NDArray[np.float64], y: list[str], kernel: bgp.kernels.Kernel) -> None:
    stream = bgp.streams.Stream(kernel, hyper="loo")
    assert_type(stream.update(X, y).retune("evidence"), bgp.streams.Stream)
    gp = bgp.pymc.Marginal(kernel, method="variational")
    assert_type(gp, bgp.pymc.Marginal)
    assert_type(bgp.prior_predictive(X, kernel, priors=bgp.priors.suggest(X, kernel)), Container)
    assert_type(bgp.calibrate(X, kernel, replicas=2).passed, bool)
    assert_type(bgp.validate(bgp.fit(X, y, kernel), draws=2).trusted, bool)
    assert_type(bgp.compare({"a": bgp.fit(X, y, kernel), "b": bgp.fit(X, y, kernel)}).sentence, str)
