"""What strategies say of themselves, those that are built in and one that is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import (
    HYPER,
    Evidence,
    EvidenceScore,
    HybridMonteCarlo,
    HyperResult,
    Integrate,
    LeaveOneOut,
    LogNormal,
    Objective,
    Scan,
    Strategy,
    Surrogate,
    Target,
    get_strategy,
)
from bayesgp_mf.methods import METHODS
from tests.hyper.known import ignore

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(0.8, 4.0), n=25, random_seed=4)
PRIORS = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}
OF_ALL = {"hyper", "chain", "node"}
"""Dimensions of a record that are the container's."""
QUICK = [Evidence(1), LeaveOneOut(1), Scan(), HybridMonteCarlo(4, 2), Integrate(1, 3), Surrogate(30, 20)]
ENOUGH = 10**12
"""Draws that no machine holds."""


def quick(**options):
    options = {"draws": 20, "chains": 2, "random_seed": 1, "progress": False} | options
    return bgp.fit(TOY.X, TOY.y, bgp.kernels.Gaussian(1.0, 2.0), bgp.Probit(), **options)


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
@pytest.mark.parametrize("strategy", QUICK, ids=lambda strategy: strategy.name)
def test_what_is_built_in_says_what_it_does(strategy):
    kernel = bgp.kernels.Gaussian(1.0, 2.0)
    target = Target(TOY.X, 2.0 * TOY.y - 1.0, bgp.Probit(), kernel, METHODS["tap"], priors=PRIORS)
    result = strategy.choose(target, np.random.default_rng(0), ignore)
    assert strategy.averages == (len(result.kernels) > 1)
    assert {name for dims, _ in result.record.values() for name in dims} - OF_ALL == set(strategy.records)


def test_none_that_is_built_in_is_left_untested():
    assert {strategy.name for strategy in QUICK} == set(HYPER)


def test_a_search_says_the_evidence_at_its_end():
    kernel = bgp.kernels.Gaussian(1.0, 2.0)
    target = Target(TOY.X, 2.0 * TOY.y - 1.0, bgp.Probit(), kernel, METHODS["tap"], priors=PRIORS)
    result = Evidence(2).choose(target, np.random.default_rng(0), ignore)
    solution = target.solver.solve(target.problem_at(result.models[0]))
    assert result.log_evidence == pytest.approx(solution.evidence.value, abs=1e-4)
    assert LeaveOneOut(1).choose(target, np.random.default_rng(0), ignore).log_evidence is None


@pytest.mark.parametrize("name", list(HYPER))
def test_starts_go_with_what_takes_them(name):
    strategy = get_strategy(name)
    expected = type(strategy)(starts=5) if name in ("evidence", "loo") else strategy
    assert strategy.with_starts(5) == expected


@pytest.mark.parametrize(("former", "place"), [("starts", "starts=..."), ("evidence_of", "method=...")])
def test_former_arguments_have_become_options_of_a_strategy(former, place):
    stream = bgp.streams.Stream(bgp.kernels.Gaussian())
    for function in (quick, stream.retune, bgp.sklearn.GPClassifier, bgp.sklearn.GPRegressor):
        with pytest.raises(TypeError, match=rf"no argument '{former}'. .* hyper=hyper.Evidence\({place}\)"):
            function(**{former: 3})


class Halved(Strategy):
    """A user's strategy with what the base class asks for and nothing else: half the length scale."""

    name = "halved"

    def choose(self, target, rng, advance):
        return HyperResult((target.model.replace(lengthscale=0.5 * target.kernel.params["lengthscale"]),), np.ones(1))


class Around(Halved):
    """A user's average: draws of the length scale around the kernel's own, with dimensions of its own."""

    name = "around"
    averages = True
    records = ("lot",)

    def choose(self, target, rng, advance):
        scales = np.exp(rng.normal(0.0, 0.3, 12))
        models = tuple(target.model.replace(lengthscale=scale) for scale in scales)
        record = {"hyper_scale": (("lot",), scales)}
        return HyperResult(models, np.full(12, 1 / 12), chains=3, sampled=True, record=record)


def saved_and_loaded(idata, path):
    idata.to_netcdf(str(path))
    return az.from_netcdf(str(path))


def test_a_strategy_of_ones_own_is_like_one_that_is_built_in(tmp_path):
    idata = quick(hyper=Halved())
    assert idata["fit"].attrs["hyper"] == "halved"
    assert float(idata["fit"]["lengthscale"]) == 0.5
    there = bgp.predict(idata, TOY.X_test, random_seed=2)["predictions"]
    again = saved_and_loaded(idata, tmp_path / "a.nc")
    here = bgp.predict(again, TOY.X_test, random_seed=2)["predictions"]
    for name in there.data_vars:
        np.testing.assert_array_equal(here[name].values, there[name].values)
    assert float(bgp.loo(again)["se"]) == float(bgp.loo(idata)["se"])


def test_an_average_of_ones_own_brings_its_draws(tmp_path):
    idata = quick(hyper=Around(), draws=7)
    assert idata["posterior"]["f"].sizes["chain"] == 3
    assert idata["posterior"]["f"].sizes["draw"] == 4
    again = saved_and_loaded(idata, tmp_path / "a.nc")
    np.testing.assert_array_equal(again["fit"]["hyper_scale"].values, idata["posterior"]["lengthscale"].values.ravel())
    p = bgp.predict(again, TOY.X_test, draws=False)["predictions"]["p"].values
    np.testing.assert_array_equal(p, bgp.predict(idata, TOY.X_test, draws=False)["predictions"]["p"].values)
    assert np.isfinite(float(bgp.loo(again)["se"]))


@pytest.mark.parametrize("hyper", ["evidence", "loo", "scan", Halved(), None])
def test_too_many_draws_are_refused_before_any_work(hyper, monkeypatch):
    monkeypatch.setitem(METHODS, "tap", object())  # which solves nothing
    with pytest.raises(MemoryError, match=r"draws of 25 training cases need about .* Ask for fewer"):
        quick(hyper=hyper, draws=ENOUGH)


def test_what_a_strategy_records_is_no_name_of_a_parameter():
    @dataclass(frozen=True, repr=False, eq=False)
    class Lots(bgp.kernels.Bias):
        parameter_names: ClassVar[tuple[str, ...]] = ("variance", "lot")
        lot: np.ndarray = field(default_factory=lambda: np.array(1.0))

    with pytest.raises(ValueError, match="called 'lot', which is taken in the container"):
        bgp.fit(TOY.X, TOY.y, Lots(), hyper=Around())
    bgp.fit(TOY.X, TOY.y, Lots(), draws=5)  # and where nothing records it, it is free


def test_a_search_of_ones_own_is_held_against_the_solution():
    class Sure(Halved):
        off = 0.0

        def choose(self, target, rng, advance):
            log_evidence = Objective(target, EvidenceScore()).value(target.start) + self.off
            return HyperResult((target.model,), np.ones(1), log_evidence=log_evidence)

    quick(hyper=Sure())
    wrong = Sure()
    wrong.off = 0.1
    with pytest.warns(bgp.ConvergenceWarning, match="the equations have several solutions there"):
        quick(hyper=wrong)
    wrong.method = "naive"
    quick(hyper=wrong)  # there is another one to be had by another method
