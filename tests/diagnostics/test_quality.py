"""The verdict on a fit: right where the truth is known, silent where nothing is, and the same in the file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, set_group
from bayesgp_mf.diagnostics import log_orthant_probability, quality
from bayesgp_mf.methods import METHODS

FEW = {"draws": 50, "chains": 2, "random_seed": 1, "progress": False}
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)
RNG = np.random.default_rng(4)
X = RNG.standard_normal((20, 2))
Y = X[:, 0] + 0.3 * RNG.standard_normal(20) > 0


@pytest.fixture(scope="module")
def pima():
    data = bgp.datasets.load_pima()
    return (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), data.y


def test_it_is_content_where_tap_is_and_says_so_where_it_is_off(pima):
    good = quality(bgp.fit(*pima, bgp.kernels.Gaussian(6.4, 3.9), bgp.Probit(), **FEW))
    assert good.verdict == "good"
    assert "marginals" not in good.sentence
    assert good.left_out < 0.01
    assert f"off by about {abs(good.correction):.2g} nats, and with its correction by about" in good.sentence
    hard = quality(bgp.fit(*pima, bgp.kernels.Gaussian(1.5, 100.0), bgp.Probit(), **FEW))
    assert hard.verdict == "off"
    toy = bgp.datasets.make_toy(KERNEL, bgp.Step(), n=30, random_seed=1)
    step = quality(bgp.fit(toy.X, toy.y, KERNEL, bgp.Step(), **FEW))
    assert step.verdict == "off"
    for way in ("tilted", "importance", "exact", "bgp.pymc"):
        assert way in hard.sentence
        assert way in step.sentence


def test_the_numbers_are_those_of_the_fit_and_the_sentence_stands_in_it():
    idata = bgp.fit(X, Y, KERNEL, bgp.Probit(), **FEW)
    found, fit = quality(idata), get_group(idata, "fit")
    for ours, theirs in (
        ("log_evidence", "log_evidence"),
        ("correction", "log_evidence_correction"),
        ("remaining", "log_evidence_remaining"),
        ("residual", "residual"),
        ("mean_error", "mean_error"),
        ("rounding", "rounding"),
        ("probability_shift", "probability_shift"),
    ):
        assert getattr(found, ours) == float(fit[theirs])
    assert fit.attrs["quality"] == found.sentence
    assert found.pareto_k == bgp.diagnostics.importance(idata).pareto_k
    shown = str(found)
    assert shown.endswith(found.sentence)
    assert f"{found.log_evidence:.4f}" in shown
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == found.verdict


@pytest.mark.parametrize(
    ("options", "verdict", "word"),
    [
        ({"method": "laplace"}, "unknown", "Laplace"),
        ({"method": "naive"}, "unknown", "naive mean field"),
        ({"method": "variational"}, "unknown", "lower bound"),
        ({"method": "exact"}, "exact", "standard error"),
        ({"hyper": "integrate", "method": "laplace"}, "unknown", "average"),
        ({"inducing": 8}, "good", "inducing cases"),
    ],
    ids=str,
)
def test_other_methods_say_what_is_known_and_what_not(options, verdict, word):
    kernel = KERNEL + bgp.kernels.White(0.3) if options.get("method") == "variational" else KERNEL
    cases = slice(0, 6) if options.get("method") == "exact" else slice(None)
    found = quality(bgp.fit(X[cases], Y[cases], kernel, bgp.Probit(), **FEW, **options))
    assert found.verdict == verdict
    assert word in found.sentence
    assert (found.left_out is None) == (verdict != "good")


def test_several_classes_are_not_sent_to_the_method_that_they_are_by():
    many = quality(bgp.fit(X, np.arange(len(X)) % 3, KERNEL, bgp.Softmax((0, 1, 2)), method="tap", **FEW))
    assert many.verdict == "unknown"
    assert "fit with method='tap'" not in many.sentence
    assert "fit with method='tap'" in quality(bgp.fit(X, Y, KERNEL, bgp.Probit(), method="naive", **FEW)).sentence


def test_every_evidence_prints():
    machine = bgp.solve(np.eye(2), [1, -1], bgp.Step(), method="svm")
    assert str(machine.evidence) == "no log evidence: method 'svm' has none"
    few = slice(0, 6)
    exact = bgp.posterior(bgp.fit(X[few], Y[few], KERNEL, bgp.Probit(), method="exact", **FEW)).solution.evidence
    value, error = str(exact).removeprefix("log evidence ").split(" ± ")
    assert len(value.split(".")[1]) == len(error.split(".")[1])  # as many decimals as are known
    assert float(error) > 0.0


def test_few_effective_draws_of_hyperparameters_are_said():
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    small = bgp.hyper.HybridMonteCarlo(iterations=60, leapfrog_steps=2, step_size=0.01, chains=2)
    options = {"fixed": {"variance"}, "priors": priors, "random_seed": 1, "progress": False}
    found = quality(bgp.fit(X, Y, KERNEL, hyper=small, **options))
    assert found.effective_draws < 40
    assert f"at most {found.effective_draws:.0f} draws are effective" in found.sentence
    large = replace(small, step_size=0.3, leapfrog_steps=4, iterations=200)
    found = quality(bgp.fit(X, Y, KERNEL, hyper=large, **options))
    assert found.effective_draws > 100
    assert "effective" not in found.sentence
    stuck = quality(bgp.fit(X, Y, KERNEL, hyper=replace(small, step_size=1e-300), **options))
    assert stuck.effective_draws == 1.0
    for value in (np.nan, np.inf, "many"):
        idata = bgp.fit(X, Y, KERNEL, hyper=large, **options)
        posterior = get_group(idata, "posterior")
        changed = posterior["lengthscale"].astype(object if isinstance(value, str) else float).copy()
        changed[0, 1] = value
        set_group(idata, "posterior", posterior.assign(lengthscale=changed))
        with pytest.raises(ValueError, match=r"draws of 'lengthscale' in the group posterior must be finite numbers"):
            quality(idata)
        set_group(idata, "posterior", posterior.isel(chain=0, drop=True))
        assert quality(idata).effective_draws is None
    few = quality(bgp.fit(X, Y, KERNEL, hyper=replace(large, iterations=3, dropped=0.0), **options))
    assert few.effective_draws == 6.0
    assert quality(bgp.fit(X, Y, KERNEL, **FEW)).effective_draws is None
    assert quality(bgp.fit(X, Y, KERNEL, hyper="integrate", priors=priors, **FEW)).effective_draws is None


def test_gaussian_noise_has_nothing_left_out():
    gaussian = quality(bgp.fit(X, X[:, 0], KERNEL, bgp.likelihoods.Gaussian(0.1), **FEW))
    assert gaussian.verdict == "good"
    assert gaussian.probability_error == 0.0
    assert "nothing left out" in gaussian.sentence


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
def test_what_was_not_solved_is_called_so():
    idata = bgp.fit(X, Y, KERNEL, bgp.Probit(), control=bgp.Control(max_iterations=1, throw=False), **FEW)
    assert quality(idata).verdict == "unsolved"
    assert get_group(idata, "fit").attrs["quality"].startswith("unsolved")


def test_draws_that_contradict_every_label_have_no_tail_to_weigh():
    labels = np.random.default_rng(0).random(20) < 0.5
    found = quality(bgp.fit(X, labels, KERNEL, bgp.Step(), **FEW))
    assert found.pareto_k == np.inf


def test_a_table_in_parts_says_that_its_correction_was_not_computed():
    table = bgp.sharded.from_arrays([(X[:10], Y[:10]), (X[10:], Y[10:])])
    idata = bgp.sharded.fit(table, None, KERNEL, bgp.Probit(), inducing=6, draws=4, random_seed=1)
    found = quality(idata)
    assert (found.verdict, found.n) == ("unknown", 20)
    assert "of a table in parts" in found.sentence
    assert "method='tap'" not in found.sentence  # which it was fitted by
    assert idata["fit"].attrs["quality"] == found.sentence


def test_what_is_not_ours_is_refused():
    with pytest.raises(ValueError, match="expected an ArviZ container"):
        quality(3)


@pytest.mark.parametrize(("noise", "seed"), [(1.0, 0), (0.0, 2)])
def test_errors_of_probabilities_are_within_their_scale(noise, seed):
    """P(t*|t) is a ratio of two exact evidences; a tenth of the scale would be too little somewhere."""
    rng = np.random.default_rng(seed)
    inputs, kernel, n = rng.standard_normal((18, 2)), bgp.kernels.Gaussian(0.8, 6.0), 12
    gram = kernel.gram(inputs) + 1e-6 * np.eye(18)
    t = np.sign(np.linalg.cholesky(gram + noise * np.eye(18)) @ rng.standard_normal(18))[:n]
    idata = bgp.fit(inputs[:n], t, kernel, bgp.Probit(noise) if noise else bgp.Step(), **FEW)
    said = bgp.predict(idata, inputs[n:], draws=False)["predictions"]["p"].values
    exact = []
    for i in range(n, 18):
        which = [*range(n), i]
        both = gram[np.ix_(which, which)] + noise * np.eye(n + 1)
        log_p = [log_orthant_probability(both, np.append(t, label)).value for label in (-1.0, 1.0)]
        exact.append(1.0 / (1.0 + np.exp(log_p[0] - log_p[1])))
    off, scale = np.abs(said - exact).max(), quality(idata).probability_error
    assert 0.02 * scale < off < scale


def test_it_does_not_cry_where_probabilities_are_right():
    """What the evidence leaves out says more than there is; the truth is integrated, there and at new inputs."""
    rng = np.random.default_rng(3)
    inputs, kernel = rng.standard_normal((12, 1)), bgp.kernels.Gaussian(2.0, 4.0)
    f = np.linalg.cholesky(kernel.gram(inputs) + 1e-8 * np.eye(12)) @ rng.standard_normal(12)
    t = np.where(f + np.sqrt(0.3) * rng.standard_normal(12) > 0, 1, -1)
    at = np.vstack([inputs, rng.standard_normal((6, 1))])
    said, exact = (bgp.fit(inputs, t, kernel, bgp.Probit(0.3), method=method, **FEW) for method in ("tap", "exact"))
    p, truth = (bgp.predict(idata, at, draws=False)["predictions"]["p"].values for idata in (said, exact))
    found = quality(said)
    assert found.verdict == "good"
    assert 0.5 * found.probability_error < np.abs(p - truth).max() < found.probability_error
    assert "measured" in found.sentence
    estimated = replace(found, probability_shift=None)
    assert estimated.verdict == "off"
    assert "estimated" in estimated.sentence


def test_it_cries_where_single_cases_decide_though_the_evidence_is_right():
    far = 3.5 * np.arange(3)[:, None]
    found = quality(bgp.fit(far, [0, 1, 0], KERNEL, bgp.Step(), **FEW))
    assert found.left_out < 1e-3
    assert found.verdict == "off"
    assert 0.093 < found.probability_error < 0.13  # one label alone has 0.907 there, and is certain
    assert "corrected=True" in found.sentence
    assert replace(found, probability_shift=None).verdict == "good"


class Counted:
    """A method of one's own, whose evidence is of a kind of its own, or called that of TAP without its cavities."""

    name, gram_gradient = "counted", METHODS["tap"].gram_gradient

    def __init__(self, kind):
        self.kind = kind

    def solve(self, problem, control=bgp.Control(), start=None):
        found = METHODS["tap"].solve(problem, control)
        return replace(found, method=self.name, evidence=replace(found.evidence, kind=self.kind), cavity=None)

    def leave_one_out(self, problem, solution):
        return METHODS["tap"].leave_one_out(problem, METHODS["tap"].solve(problem))


@pytest.mark.parametrize("kind", ["counted", "ep"])
def test_a_method_of_ones_own_is_not_judged(kind):
    idata = bgp.fit(X, Y, KERNEL, method=Counted(kind), **FEW)
    assert quality(idata).verdict == "unknown"
    assert "log_evidence_correction" not in get_group(idata, "fit")


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Step()], ids=["probit", "step"])
def test_labels_that_know_nothing_of_each_other_have_an_exact_evidence_and_wrong_probabilities(likelihood):
    """The posterior of each is its own tilted distribution, whose Gaussian is off where the label was seen."""
    X, kernel = np.array([[0.0], [1e9]]), bgp.kernels.Gaussian(1.0, 100.0)
    idata = bgp.fit(X, [1, 0], kernel, likelihood, draws=50, random_seed=1)
    found, p = quality(idata), bgp.posterior(idata).predict_proba(X[:1])[0]
    correlation = 100.0 / (100.0 + likelihood.noise_variance)
    exact = 0.5 + np.arcsin(correlation) / np.pi  # of two labels at one input, given one of them
    assert found.left_out == 0.0
    assert exact - p > 0.05
    assert exact - p < found.probability_error < 2.0 * (exact - p)
    assert found.verdict == "off"
    assert "probabilities at the data may be off" in found.sentence


@pytest.mark.parametrize("each", [False, True], ids=["one noise", "noise of each"])
def test_under_gaussian_noise_laplace_is_exact_and_compared_as_such(each):
    X = np.linspace(-2, 2, 9)[:, None]
    noise = bgp.likelihoods.Gaussian(np.linspace(0.1, 0.5, 9) if each else 0.2)
    fits = {
        method: bgp.fit(X, np.sin(X[:, 0]), bgp.kernels.Gaussian(), noise, method=method, draws=2, random_seed=1)
        for method in ("laplace", "exact")
    }
    found, exact = quality(fits["laplace"]), quality(fits["exact"])
    assert (found.verdict, found.kind) == (exact.verdict, exact.kind) == ("exact", "exact")
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-10)
    table = bgp.compare(fits).table
    np.testing.assert_allclose(table["log_bayes_factor"], 0.0, atol=1e-10)
    outliers = bgp.fit(X, np.sin(X[:, 0]), bgp.kernels.Gaussian(), bgp.StudentT(0.4), method="laplace", random_seed=1)
    assert quality(outliers).verdict == "unknown"


@pytest.mark.parametrize("variance", [0.05, 1.0, 9.0, 100.0])
@pytest.mark.parametrize(
    "likelihood",
    [bgp.Poisson(), bgp.NegativeBinomial(1.0), bgp.Binomial(10), bgp.Ordinal([-0.5, 0.5], 0.1)],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_a_count_that_decides_alone_is_judged_by_what_its_gaussian_gets_wrong(likelihood, variance):
    idata = bgp.fit([[0.0]], [0], bgp.kernels.Gaussian(1.0, variance), likelihood, **FEW)
    found = quality(idata)
    # the probability of another one like it, by quadrature over the one latent value, and by TAP's Gaussian
    f = np.linspace(-12.0, 12.0, 4001) * np.sqrt(variance)
    p = np.exp(likelihood.log_prob(np.zeros(f.size), f).value)
    weight = np.exp(-0.5 * f**2 / variance) * p
    fit = get_group(idata, "fit")
    mean, sd = float(fit["latent_mean"][0]), float(fit["latent_sd"][0])
    error = abs(
        np.sum(weight * p) / np.sum(weight)
        - np.exp(likelihood.log_partition(np.zeros(1), np.array([mean]), np.array([sd**2])).value[0])
    )
    assert error < found.probability_error
    if error > 0.02:
        assert found.verdict != "good"
    if variance < 0.1:  # the control: hardly anything differs there
        assert found.verdict == "good"
        assert found.probability_error < 0.003


def test_a_good_approximation_to_a_model_that_misfits_says_so():
    rng = np.random.default_rng(8)
    inputs = np.linspace(-3.0, 3.0, 60)[:, None]
    y = np.sin(inputs[:, 0]) + rng.standard_normal(60)
    told = bgp.likelihoods.Gaussian(0.05)  # a twentieth of the variance that there is
    found = quality(bgp.fit(inputs, y, KERNEL, told, **FEW))
    assert found.verdict == "good"
    assert found.misfit.startswith("The model misfits")
    assert str(found).endswith(found.misfit)
    right = quality(bgp.fit(inputs, y, KERNEL, bgp.likelihoods.Gaussian(1.0), **FEW))
    assert right.misfit == ""
    assert str(right).endswith(right.sentence)
