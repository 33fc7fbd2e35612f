"""What a user does to an array after it was given changes nothing that was made of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.sklearn import GPClassifier

RNG = np.random.default_rng(4)
N = 12
NUMBERS = RNG.standard_normal((N, 2))
TARGETS = NUMBERS[:, 0] + 0.1 * RNG.standard_normal(N)
LABELS = TARGETS > 0.0
KERNEL = bgp.kernels.Gaussian(1.0)
QUICK = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}
KINDS = {
    "array": lambda a: a,
    "in columns": np.asfortranarray,
    "view": lambda a: a[:, :],
    "frame": lambda a: pd.DataFrame(a, columns=["a", "b"], copy=False),
    "labels": lambda a: xr.DataArray(a, dims=("case", "input")),
}


def contents(idata):
    """Return all that a container holds, copied."""
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    return {
        (name, variable): np.array(values.values)
        for name, each in groups.items()
        for variable, values in each.variables.items()
    }


def check_the_same(before, after):
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=str(name))


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_fit_and_predict_stay_the_users(kind):
    numbers, new, rows = (
        NUMBERS.copy(order="F" if kind == "in columns" else "C"),
        NUMBERS[:3] + 0.1,
        np.arange(5, 5 + N),
    )
    y, weights, offset, levels = TARGETS.copy(), np.full(N, 2.0), np.linspace(0.0, 0.1, N), np.array([0.1, 0.9])
    X = KINDS[kind](numbers)
    if kind == "frame":
        X.index = pd.Index(rows, copy=False)
    idata = bgp.fit(X, y, KERNEL, Gaussian(0.1), weights=weights, offset=offset, **QUICK)
    new_offset = np.zeros(3)
    idata = bgp.predict(idata, KINDS[kind](new), offset=new_offset, quantiles=levels, random_seed=1)
    process = bgp.posterior(idata)
    before, said = contents(idata), process.latent(NUMBERS + 0.3)
    for given in (numbers, y, weights, offset, new, new_offset, levels, rows):
        given[:] = 7
    check_the_same(before, contents(idata))
    np.testing.assert_array_equal(process.latent(NUMBERS + 0.3), said)
    np.testing.assert_array_equal(bgp.posterior(idata).latent(NUMBERS + 0.3), said)  # no checksum complains


def test_a_column_that_is_set_later_is_none_of_the_fit():
    table = pd.DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]})
    idata = bgp.fit(table, LABELS, KERNEL, **QUICK)
    said = bgp.posterior(idata).latent(NUMBERS)
    table.iloc[:, 1] = 0.0
    np.testing.assert_array_equal(bgp.posterior(idata).latent(NUMBERS), said)


def test_inducing_inputs_stay_the_users():
    points = NUMBERS[:5].copy()
    idata = bgp.fit(NUMBERS, LABELS, KERNEL, inducing=points, **QUICK)
    before = contents(idata)
    points[:] = 7.0
    check_the_same(before, contents(idata))
    bgp.posterior(idata)


def test_estimators_keep_no_array_of_the_user():
    numbers, classes = NUMBERS.copy(), np.arange(N) % 3
    model = GPClassifier(KERNEL, hyper=None, random_state=1).fit(numbers, LABELS)
    several = bgp.posterior(bgp.fit(numbers, classes, KERNEL, bgp.MultinomialProbit(), **QUICK))
    before = [each.predict_proba(NUMBERS) for each in (model, several)]
    numbers -= numbers.mean(axis=0) + 1.0
    for each, said in zip((model, several), before, strict=True):
        np.testing.assert_array_equal(each.predict_proba(NUMBERS), said)
