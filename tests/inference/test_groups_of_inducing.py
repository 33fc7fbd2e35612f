"""Inducing cases of kernels that tell groups: each group has one, or a warning says which have none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Linear, White

RNG = np.random.default_rng(1)
SIZES = np.array([1, 1, 1, 2, 2, 3, 80, 110])
CLINIC = np.repeat(np.arange(8.0), SIZES)
WARD = np.where(np.arange(200) == 150, 1.0, 0.0)
X = np.column_stack([CLINIC, WARD, RNG.standard_normal(200)])
Y = np.array([2.0, -2.0, 1.5, -1.0, 2.0, 1.0, 0.0, 0.5])[CLINIC.astype(int)] + X[:, 2] + 0.5 * RNG.standard_normal(200)
LABELS = Y > 0.3
CLINICS, DOSE = Categorical(2.0, columns=0), Linear(columns=2)
KERNELS = {
    "sum": (CLINICS + DOSE, [[0]]),
    "two ways": (CLINICS + Categorical(columns=1) + DOSE, [[0], [1]]),
    "slopes": (Categorical(columns=0) * DOSE + Bias(), [[0]]),
    "crossed": (Categorical(columns=0) * Categorical(columns=1) + DOSE, [[0, 1]]),
    "of both": (Categorical(columns=[1, 0]) + Gaussian(columns=2), [[0, 1]]),
    "squared": ((Categorical(columns=1) + Categorical(columns=0) + DOSE) ** 2, [[0, 1]]),
}
OPTIONS = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}


def fit(kernel=CLINICS + DOSE, inducing=12, y=LABELS, **options):
    return bgp.fit(X, y, kernel, inducing=inducing, **{**OPTIONS, **options})


def groups(points, columns):
    return {tuple(row) for row in points[:, columns]}


@pytest.mark.parametrize("choose", ["random", "greedy"])
@pytest.mark.parametrize(("kernel", "ways"), KERNELS.values(), ids=KERNELS)
def test_each_group_has_one(kernel, ways, choose):
    for seed in range(5):
        points = bgp.Inducing(12, choose).chosen(X, Y, kernel, np.random.default_rng(seed))
        assert np.unique(points, axis=0).shape == points.shape
        for columns in ways:
            assert groups(points, columns) == groups(X, columns)
        # and the first of them too: those that a first solution takes
        assert all(len(groups(points[:9], columns)) == len(groups(X, columns)) for columns in ways)


def test_without_groups_small_ones_are_left_out():
    points = bgp.Inducing(12).chosen(X, Y, DOSE, np.random.default_rng(0))
    assert groups(points, [0]) != groups(X, [0])


@pytest.mark.parametrize("choose", ["random", "greedy"])
def test_where_the_groups_and_two_more_say_all_the_fit_is_the_dense_one(choose):
    """Eight offsets and a slope: as many cases determine all others, if no group is without one."""
    new = np.column_stack([np.arange(9.0), np.zeros(9), np.linspace(-1.0, 1.0, 9)])
    p = [
        bgp.predict(idata, new, draws=False)["predictions"]["p"].values
        for idata in (fit(inducing=bgp.Inducing(12, choose)), bgp.fit(X, LABELS, CLINICS + DOSE, **OPTIONS))
    ]
    np.testing.assert_allclose(*p, atol=1e-6)


def test_groups_without_one_are_named():
    frame = pd.DataFrame({"clinic": [f"clinic {k:.0f}" for k in CLINIC], "dose": X[:, 2]})
    kernel = Categorical(columns="clinic") + Linear(columns="dose")
    said = r"4 of the 8 groups that column 'clinic' tells have no inducing case, with \d+ of 200 cases: 'clinic "
    with pytest.warns(UserWarning, match=f"{said}.*Take more inducing cases than there are groups"):
        idata = bgp.fit(frame, LABELS, kernel, inducing=4, **OPTIONS)
    assert len(groups(idata["fit"]["inducing_input"].values, [0])) == 4
    with pytest.warns(
        UserWarning, match=r"6 of the 8 groups that column 0 tells .*with 10 of 200 cases: '5'; '3'; .*, \.\."
    ):
        fit(inducing=X[CLINIC > 5])
    with pytest.warns(
        UserWarning, match=r"1 of the 9 groups that columns 0, 1 tell .* with 1 of 200 cases: '7, 1'\. What"
    ):
        fit(KERNELS["crossed"][0], X[WARD == 0])


class TestDoubled:
    def test_groups_that_were_left_out_are_among_the_further_cases(self):
        with pytest.warns(UserWarning, match="6 of the 8 groups"):
            idata = fit(inducing=X[CLINIC > 5][::10])
        check = bgp.diagnostics.inducing(idata, random_seed=1)
        assert (check.number, check.doubled) == (3, 6)
        assert not check.enough
        assert check.independent > check.independent_doubled > 0

    def test_it_is_said_where_the_others_are_determined_and_only_there(self):
        for kernel in (CLINICS + DOSE, CLINICS + DOSE + White(0.1)):
            whole = fit(kernel)
            assert bgp.posterior(whole).problem.matrix.rank == 9
            with pytest.raises(
                ValueError, match="further cases add nothing: the 9 inducing cases determine all others"
            ):
                bgp.diagnostics.inducing(whole)
            with pytest.warns(UserWarning, match="1 of the 8 groups"):
                lacking = fit(kernel, X[CLINIC != 2])
            check = bgp.diagnostics.inducing(lacking, random_seed=1)
            assert (check.number, check.doubled) == (8, 9)
