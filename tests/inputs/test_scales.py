"""A warning where the scale of the inputs makes a fit useless, and none where it does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.inputs.scales import warn_of_scale
from bayesgp_mf.kernels import (
    Bias,
    Gaussian,
    Kinds,
    Linear,
    Matern32,
    NeuralNetwork,
    PerClass,
    Polynomial,
    Slope,
    White,
)
from tests.inputs.cases import SOFTMAX, X, quick

RAW = bgp.datasets.load_pima(standardise=False).X
SCALED = bgp.datasets.load_pima().X
TIMES = np.arange(600.0)[:, None]
GROUPS = np.repeat(1e6 * np.arange(5.0), 4)[:, None]


def said(X, *kernels) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_scale(np.asarray(X, dtype=float), kernels)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("X", "kernel", "unrelated"),
    [
        (RAW, Gaussian(0.1), 200),
        (RAW, Gaussian(1.0), 177),  # of the others a few are close to each other
        (1e6 * SCALED, Gaussian() + White(), 200),
        (1e6 * SCALED, Gaussian() * Linear(), 200),
        (1e3 * SCALED, Matern32(), 200),
        (1e6 * SCALED, PerClass(Gaussian(), Gaussian(2.0)), 200),
        (1e6 * np.eye(8), Linear() + Bias(), 8),
        (TIMES, Gaussian(0.1), 600),
        ([[0.0], [100.0], [200.0]], Gaussian(), 3),
    ],
)
def test_inputs_far_apart_are_told_of(X, kernel, unrelated):
    (message,) = said(X, kernel)
    assert f"so far apart that {unrelated} of {len(X)} cases have no prior correlation above 1e-08" in message
    assert "Scale the inputs, such as by (X - X.mean(axis=0)) / X.std(axis=0)" in message


@pytest.mark.parametrize("power", [13, 20, 60, 149])
@pytest.mark.parametrize("kernel", [Gaussian(), Matern32() + White()])
def test_the_warning_does_not_end_where_scales_are_absurd(power, kernel):
    (far,), (close,) = said(10.0**power * SCALED, kernel), said(10.0**-power * SCALED, kernel)
    assert "so far apart that 200 of 200 cases" in far
    assert "so close that all 200 cases have one latent value" in close


@pytest.mark.parametrize(
    ("X", "kernel"),
    [
        (1e-8 * SCALED, Gaussian()),
        (1e-8 * SCALED, Gaussian(variance=1e4) + White()),
        (1e-12 * SCALED, Matern32()),
        (1e-9 * SCALED, Polynomial()),
        (1e-8 * SCALED, PerClass(Gaussian(), Gaussian(2.0))),
    ],
)
def test_inputs_too_close_are_told_of(X, kernel):
    (message,) = said(X, kernel)
    assert "so close that all 200 cases have one latent value" in message
    assert "Scale the inputs" in message


@pytest.mark.parametrize(
    ("X", "kernel"),
    [
        (SCALED, Gaussian(3.0)),
        (SCALED, Gaussian(0.3)),
        (RAW, Gaussian(3.0)),  # much too short, but most cases have some other not too far
        (RAW, Gaussian(100.0)),
        (1e-4 * SCALED, Gaussian()),  # nearly linear, as with a large variance it may be meant
        (SCALED, White()),
        (SCALED, Gaussian() * White()),
        (SCALED, Bias()),
        (1e6 * SCALED, Gaussian() + Bias()),
        (1e6 * SCALED, PerClass(Gaussian(), Gaussian(1e6))),
        (np.eye(8), Linear()),  # at right angles at any scale
        (1e6 * np.eye(8), Linear()),
        (TIMES[1:], Linear()),  # and on one line
        (1e9 * TIMES[1:], Linear() + Bias()),
        (1e9 * SCALED, NeuralNetwork()),
        (TIMES, Gaussian(0.3)),  # related to neighbours alone
        (TIMES, Gaussian(100.0)),
        (GROUPS, Gaussian()),  # each group has a value of its own
        (np.zeros((5, 2)), Gaussian()),
        ([[0.0], [100.0]], Gaussian()),
        ([[0.0]], Gaussian()),
    ],
)
def test_sensible_fits_are_not(X, kernel):
    assert said(X, kernel) == []


def test_a_search_that_left_such_a_scale_is_forgiven():
    assert said(RAW, Gaussian(0.1), Gaussian(100.0)) == []
    assert said(RAW, Gaussian(100.0), Gaussian(0.1)) == []  # the data, not the units, asked for it
    assert len(said(RAW, Gaussian(0.1), Gaussian(0.2))) == 1


@pytest.mark.parametrize(
    "options", [{}, SOFTMAX, {"hyper": bgp.hyper.Evidence(starts=1)}], ids=["fixed", "several classes", "searched"]
)
def test_fit_warns_at_the_line_that_called_it(options):
    with pytest.warns(UserWarning, match=r"so far apart that 12 of 12 cases") as caught:
        quick(X=1e4 * X, **options)
    said_at = {warning.filename for warning in caught if "far apart" in str(warning.message)}
    assert said_at == {quick.__code__.co_filename}


def test_a_search_that_finds_the_scale_says_nothing():
    x = np.linspace(0.0, 600.0, 30)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        idata = bgp.fit(
            x,
            x[:, 0] > 250.0,
            Gaussian(3.0),
            bgp.Probit(),
            hyper="loo",
            priors={"lengthscale": bgp.hyper.LogNormal(5.0, 1.0), "variance": bgp.hyper.LogNormal(0.0, 1.0)},
            draws=2,
            chains=1,
            random_seed=1,
        )
    assert float(idata["fit"]["lengthscale"]) > 20.0


def test_fit_warns_of_inputs_too_close():
    with pytest.warns(UserWarning, match="so close that all 12 cases"):
        quick(X=1e-9 * X)


def test_codes_of_kinds_have_no_scale():
    k = Gaussian(columns=0)
    kinds = Kinds(k, Slope(k, 0), column=1)
    inputs = np.column_stack([TIMES[:40], np.arange(40) % 2])
    for kernel in (kinds, kinds + kinds, kinds * Linear(columns=0)):
        (message,) = said(inputs * [1e6, 1.0], kernel)
        assert "so far apart that 40 of 40 cases" in message
        assert not said(inputs, kernel)
