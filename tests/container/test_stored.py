"""Kernels, likelihoods and methods from outside the package: fit, save, load, and be asked for by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import HyperResult, Model
from bayesgp_mf.kernels.combinations import Composite
from bayesgp_mf.kernels.stationary import Stationary
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online
from bayesgp_mf.solvers.exact import Exact

X = np.random.default_rng(0).standard_normal((12, 2))
Y = np.where(X[:, 0] > 0.2, "yes", "no")
X_NEW = X[:3] + 0.1
GAUSSIAN = bgp.kernels.Gaussian(1.0, 2.0)


class Cauchy(Stationary):
    """Cauchy kernel v_0 / (1 + r^2)."""

    def profile(self, squared):
        return 1.0 / (1.0 + squared)

    def slope(self, squared):
        return -1.0 / (1.0 + squared) ** 2


class Power(Composite):
    """The square of a kernel, in this package's words but none of its classes."""

    symbol = "^"

    def gram(self, X):
        return self.terms[0].gram(X) ** 2

    def cross(self, A, B):
        return self.terms[0].cross(A, B) ** 2

    def diag(self, X):
        return self.terms[0].diag(X) ** 2

    def gram_vjp(self, X, gram_bar):
        return self._named([self.terms[0].gram_vjp(X, 2.0 * gram_bar * self.terms[0].gram(X))])


@dataclass(frozen=True)
class Doubtful(bgp.likelihoods.Likelihood):
    """A probit some of whose labels are flipped."""

    flip: float = 0.05
    targets = "binary"
    forbids = False
    log_concave = False

    @property
    def _probit(self):
        return bgp.Probit(0.5, self.flip)

    def log_prob(self, t, f):
        return self._probit.log_prob(t, f)

    def log_partition(self, t, mean, variance):
        return self._probit.log_partition(t, mean, variance)

    def predict_proba(self, mean, variance):
        return self._probit.predict_proba(mean, variance)

    def sample(self, f, rng):
        return self._probit.sample(f, rng)

    def to_dict(self) -> dict[str, Any]:
        return {"flip": self.flip}


class Other(Doubtful):
    """Another likelihood, whose parameters are the same."""


class Mine:
    """TAP under another name, with an option; without a repr of its own."""

    name = "mine"

    def solve(self, problem, control=bgp.Control(), start=None):
        return replace(METHODS["tap"].solve(problem, control, start), method=self.name)

    def gram_gradient(self, problem, solution):
        return METHODS["tap"].gram_gradient(problem, solution)

    def leave_one_out(self, problem, solution):
        return METHODS["tap"].leave_one_out(problem, solution)


@dataclass(frozen=True)
class Configured(Mine):
    """The same, with an option that JSON knows and one that it does not."""

    steps: int = 3
    rule: Callable[[float], float] = abs


class Unnamed(Mine):
    """The same, whose solutions say that TAP made them."""

    def solve(self, problem, control=bgp.Control(), start=None):
        return METHODS["tap"].solve(problem, control, start)


def fit(kernel=GAUSSIAN, likelihood=bgp.Probit(0.5, 0.05), **options):
    return bgp.fit(X, Y, kernel, likelihood, **{"draws": 20, "chains": 2, "random_seed": 0, **options})


def loaded(idata, tmp_path):
    idata.to_netcdf(str(tmp_path / "fit.nc"))
    return az.from_netcdf(str(tmp_path / "fit.nc"))


VERBS = (bgp.posterior, bgp.loo, lambda idata, **given: bgp.predict(idata, X_NEW, random_seed=1, **given))

FOREIGN = [
    ({"kernel": Cauchy(1.5)}, {"kernel": Cauchy()}, r"not the kernel itself, Cauchy\(lengthscale=1.5"),
    (
        {"kernel": Cauchy(1.5) * bgp.kernels.Bias(2.0) + GAUSSIAN},
        {"kernel": Cauchy() * bgp.kernels.Bias() + bgp.kernels.Gaussian()},
        r"not the kernel itself, \(Cauchy",
    ),
    ({"kernel": Power(GAUSSIAN)}, {"kernel": Power(bgp.kernels.Gaussian())}, "not the kernel itself, Gaussian"),
    ({"likelihood": Doubtful(0.05)}, {"likelihood": Doubtful()}, r"not hold its likelihood, Doubtful\(flip=0.05\)"),
    ({"method": Mine()}, {"method": Mine()}, "not hold its method, Mine, which is a program"),
    ({"method": Configured(steps=5)}, {"method": Configured(steps=5)}, r"not hold its method, Configured\(steps=5"),
    ({"method": Unnamed()}, {"method": Unnamed()}, "not hold its method, Unnamed"),
    (
        {"kernel": Cauchy(1.5), "likelihood": Doubtful(), "method": Mine()},
        {"kernel": Cauchy(), "likelihood": Doubtful(), "method": Mine()},
        "not the kernel itself, Cauchy",
    ),
]


@pytest.mark.parametrize(("made_of", "again", "message"), FOREIGN, ids=range(len(FOREIGN)))
@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "from a file"])
def test_what_is_not_held_is_asked_for_and_then_all_goes_on(made_of, again, message, in_memory, tmp_path):
    first = fit(**made_of)
    idata = first if in_memory else loaded(first, tmp_path)
    for verb in VERBS:
        with pytest.raises(ValueError, match=message):
            verb(idata)
        verb(idata, **again)
    process = bgp.posterior(idata, **again)
    assert process.log_evidence == float(first["fit"]["log_evidence"])
    np.testing.assert_allclose(process.loo.log_density, first["fit"]["loo_i"], rtol=1e-6)
    np.testing.assert_allclose(process.predict_proba(X_NEW), idata["predictions"]["p"])
    for name, value in made_of.get("kernel", GAUSSIAN).params.items():  # those of the container
        np.testing.assert_array_equal(process.kernel.params[name], value)


def test_the_numbers_are_those_of_the_same_things_built_in():
    ours = bgp.predict(fit(), X_NEW, random_seed=1)
    own = {"likelihood": Doubtful(0.05), "method": Mine()}
    theirs = bgp.predict(fit(**own), X_NEW, random_seed=1, **own)
    for group, name in (("fit", "alpha"), ("fit", "loo_i"), ("posterior", "f"), ("predictions", "p")):
        np.testing.assert_allclose(theirs[group][name], ours[group][name], rtol=1e-7, atol=1e-7)
    assert get_group(theirs, "fit").attrs["method"] == "mine"
    assert float(bgp.loo(theirs, **own)["se"]) == pytest.approx(float(bgp.loo(ours)["se"]), rel=1e-7)


@pytest.mark.parametrize("hyper", ["evidence", "integrate"])
def test_they_are_tuned_and_averaged_over(hyper, tmp_path):
    own = {"likelihood": Doubtful(), "method": Mine()}
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    options = {"hyper": hyper, "priors": priors, "fixed": {"variance"}, "progress": False}
    idata = loaded(fit(Cauchy(1.5), **own, **options), tmp_path)
    process = bgp.posterior(idata, kernel=Cauchy(), **own)
    scales = [part.kernel.params["lengthscale"] for part in process.parts]
    np.testing.assert_array_equal(np.squeeze(scales), idata["fit"]["lengthscale"].values)
    assert all(part.solver is own["method"] for part in process.parts)


@pytest.mark.parametrize(
    ("made_of", "given", "message"),
    [
        ({}, {"likelihood": bgp.Probit(0.5, 0.05)}, r"holds its likelihood, Probit.* Leave likelihood out"),
        ({}, {"method": METHODS["tap"]}, r"holds its method, .*tap.* Leave method out"),
        ({}, {"method": "tap"}, "Leave method out"),
        ({"likelihood": Doubtful()}, {"likelihood": Doubtful(0.1)}, r"fitted, Doub.*'flip': 0.05.*flip=0.1"),
        ({"likelihood": Doubtful()}, {"likelihood": Other()}, "likelihood is not the one that was fitted"),
        ({"likelihood": Doubtful()}, {"likelihood": bgp.Probit()}, "likelihood is not the one that was fitted"),
        (
            {"likelihood": Doubtful()},
            {"likelihood": Doubtful},
            r"got the class Doubtful: write it with \(\)",
        ),
        ({"method": Mine()}, {"method": "tap"}, "method is not the one that was fitted, Mine"),
        ({"method": Mine()}, {"method": Unnamed()}, "method is not the one that was fitted, Mine"),
        ({"method": Mine()}, {"method": "mine"}, "method must be one of"),
        ({"method": Configured(5)}, {"method": Configured(6)}, "method is not the one that was fitted"),
        ({"kernel": Cauchy(1.5)}, {"kernel": GAUSSIAN}, "kernel is not the one that was fitted"),
        ({"kernel": Cauchy(1.5)}, {"kernel": bgp.kernels.Bias()}, r"kernel has the parameters \['variance'\]|unknown"),
    ],
    ids=range(13),
)
def test_what_is_not_wanted_or_another_one_is_refused(made_of, given, message):
    idata = fit(**made_of)
    for verb in VERBS:
        with pytest.raises(ValueError, match=message):
            verb(idata, **given)


@pytest.mark.parametrize(
    "solver",
    [Exact(log2_points=8, random_seed=7), Online(sweeps=3, reuse="as_new"), Online(order=range(12)[::-1]), Exact()],
    ids=repr,
)
def test_the_options_of_a_configured_method_are_held(solver, tmp_path):
    idata = fit(method=solver)
    process = bgp.posterior(loaded(idata, tmp_path))
    assert process.solver == solver
    np.testing.assert_array_equal(process.predict_proba(X_NEW), bgp.predict(idata, X_NEW)["predictions"]["p"])
    assert bool(json.loads(get_group(idata, "fit").attrs["solver"])["options"]) is (solver != METHODS[solver.name])


def test_a_configured_method_is_used_as_it_was_configured():
    plain, other = fit(method="exact"), fit(method=Exact(log2_points=8, random_seed=7))
    assert float(plain["fit"]["log_evidence"]) != float(other["fit"]["log_evidence"])


def test_a_likelihood_that_json_does_not_know_is_refused_before_any_work(monkeypatch):
    class Odd(Doubtful):
        def to_dict(self):
            return {"flip": self}

    monkeypatch.setattr(Mine, "solve", None)
    with pytest.raises(ValueError, match="to_dict of the likelihood must return numbers, strings and lists"):
        fit(likelihood=Odd(), method=Mine())


def test_a_name_is_taken_where_something_is_recorded_under_it():
    class Shift(bgp.kernels.Bias):
        """A bias whose parameter has another name."""

        params = property(lambda self: {"start": self.variance})

        def cross(self, A, B):
            return np.full((len(A), len(B)), float(self.variance))

    with pytest.raises(ValueError, match="called 'start', which is taken in the container"):
        fit(Shift(2.0), hyper="evidence")
    assert float(fit(Shift(2.0))["fit"]["start"]) == 2.0


@pytest.mark.filterwarnings("ignore:at a bound of the search")
def test_an_average_that_ends_with_a_single_node_is_read_back():
    """The record of how it went has a dimension of nodes, and the one posterior has none."""
    X, y = np.linspace(-2.0, 2.0, 12)[:, None], np.arange(12) % 3 == 0
    hyper = bgp.hyper.Integrate(starts=1, points=3)
    options = {"bounds": {"lengthscale": (0.5, 2.0)}, "fixed": ["variance"], "draws": 5, "random_seed": 0}
    for seed in range(20):
        labels = y if seed == 0 else np.random.default_rng(seed).random(12) > 0.5
        idata = bgp.fit(X, labels, bgp.kernels.Gaussian(1.0, 1.0), hyper=hyper, **options)
        if "node_weight" not in get_group(idata, "fit"):
            break
    fit = get_group(idata, "fit")
    assert "node" in fit.dims
    assert "node_weight" not in fit
    np.testing.assert_allclose(bgp.posterior(idata).mean_at_training, fit["latent_mean"].values, atol=1e-9)


def test_new_cases_are_drawn_where_no_draw_is_of_some_node():
    """One draw is of one node; exact draws of none are not asked of the others."""
    X, y = np.linspace(-2.0, 2.0, 4)[:, None], np.array([0, 0, 1, 1])
    kernel, hyper = bgp.kernels.Matern32(1.0), bgp.hyper.Integrate(starts=1, points=3)
    options = {"fixed": ["variance"], "priors": {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}, "random_seed": 0}
    idata = bgp.fit(X, y, kernel, bgp.Probit(), method="exact", hyper=hyper, draws=1, chains=1, **options)
    assert get_group(idata, "fit").sizes["node"] > 1
    bgp.predict(idata, X + 0.5, random_seed=1)
    assert np.all(np.isfinite(get_group(idata, "predictions")["f"].values))


def test_a_likelihood_with_the_required_members_alone_is_fitted_and_asked_for(tmp_path):
    class Seven(bgp.likelihoods.Likelihood):
        """Probit, without a word on how it is saved."""

        targets, forbids, log_concave = "binary", False, True
        log_prob, log_partition = bgp.Probit().log_prob, bgp.Probit().log_partition
        predict_proba, sample = bgp.Probit().predict_proba, bgp.Probit().sample

    ours, probit = (bgp.fit(X, Y, GAUSSIAN, each, draws=20, random_seed=1) for each in (Seven(), bgp.Probit()))
    with pytest.raises(ValueError, match="does not hold its likelihood"):
        bgp.predict(ours, X_NEW)
    path = str(tmp_path / "seven.nc")
    ours.to_netcdf(path)
    p = bgp.predict(az.from_netcdf(path), X_NEW, likelihood=Seven(), random_seed=2)["predictions"]["p"].values
    np.testing.assert_allclose(p, bgp.predict(probit, X_NEW, random_seed=2)["predictions"]["p"].values, atol=1e-7)


@dataclass(frozen=True, eq=False)
class Noted(bgp.kernels.Polynomial):
    """A polynomial kernel with a field that it lists nowhere."""

    note: int = 2


def test_a_kernel_is_replaced_with_all_its_fields():
    assert Noted(3, 0.5, note=7).replace(variance=2.0).note == 7


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"record": {"latent_mean": (("obs_id",), np.zeros(12))}}, "must begin with 'hyper_', as 'hyper_latent_mean'"),
        ({"stats": {"log_p": np.zeros(1)}}, "stats must not be called 'log_p'"),
    ],
)
def test_a_strategy_does_not_overwrite_what_a_fit_says(more, message):
    with pytest.raises(ValueError, match=message):
        HyperResult((Model.of(GAUSSIAN, bgp.Probit()),), np.ones(1), **more)
