"""The studies of counts and outliers: records are of the models, and a wrong number fails its check."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayesgp_mf.likelihoods import Gaussian, StudentT
from bayesgp_mf.matrices.factors import psd_root
from validation.sampling.chain import fast_sampling
from validation.studies.models import against_nuts, recorded, robust
from validation.studies.models.problems import DISASTERS, LIKELIHOODS, NAMES, model_of
from validation.studies.models.record import latent_model
from validation.studies.models.recorded import digest_of, path_of, read

SETS = [(kind, name) for kind in LIKELIHOODS for name in NAMES[kind]]


@pytest.fixture(scope="module")
def results():
    return {task.name: json.loads(json.dumps(task.function(**task.arguments))) for task in against_nuts.STUDY.tasks}


def verdicts(results):
    return {check.name: check.passed for check in against_nuts.conclude(results).checks}


def test_the_records_are_of_the_models_and_no_others():
    for kind, name in SETS:
        model, found = model_of(kind, name), read(path_of(kind, name))
        assert recorded.is_of(model, found.model)
        assert not recorded.is_of(model._replace(y=model.y + 1.0), found.model)
        assert not recorded.is_of(model._replace(offset=model.offset[:-1]), found.model)
        assert 30 <= model.y.size == found.reference.mean.size <= 200
    assert sum(count for count in DISASTERS if count > 0) == 188


def test_a_model_that_was_written_is_read_again(tmp_path):
    model = model_of("Binomial", "diabetics")
    statistics = {name: [0.0] * model.y.size for name in recorded.Reference._fields}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(recorded.written_model(model) | statistics | {"r_hat": 1.0}))
    assert recorded.is_of(model, read(path).model)
    assert read(path).sampling == {"r_hat": 1.0}
    path.write_text(json.dumps(recorded.written_model(model) | statistics | {"sd": [np.nan]}))
    with pytest.raises(ValueError, match="must have finite numbers"):
        read(path)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_what_nuts_samples_is_our_model(kind):
    """Its log density, of PyMC's likelihoods, is ours but for the densities of the white variables."""
    model = model_of(kind, NAMES[kind][-1])
    made = latent_model(model)
    root = psd_root(model.kernel.gram(model.X))
    with fast_sampling():
        log_density = made.compile_logp(mode="FAST_COMPILE")
    z = np.random.default_rng(1).standard_normal(root.shape[1])
    ours = model.likelihood.log_prob(model.y, model.offset + root @ z).value.sum()
    white = -0.5 * z @ z - 0.5 * z.size * np.log(2.0 * np.pi)
    # PyMC writes the square root of two and log(1/2) of its probit in single precision, which is off by 1e-8 a case
    exact = {"rel": 1e-9} if kind not in ("Ordinal", "Tobit") else {"rel": 0.0, "abs": 1e-8 * model.y.size}
    assert float(log_density({"z": z})) == pytest.approx(float(ours + white), **exact)


def test_all_is_as_asked_and_no_record_may_change(results):
    assert all(verdicts(results).values())
    with pytest.raises(ValueError, match="has changed since this study began"):
        against_nuts.compare("Poisson", "simulated 1", digest_of(path_of("Poisson", "simulated 2")))


@pytest.mark.parametrize(
    ("task", "changed", "failing"),
    [
        ("Poisson, simulated 1", {"tap": "laplace"}, "Counts and levels: TAP's means off NUTS beyond its error, sd"),
        ("StudentT, skin folds", {"tap": "laplace"}, "Outliers: TAP's means off NUTS beyond its error, sd"),
        ("Weibull, veterans", {"tap": "laplace"}, "Censored: TAP's means off NUTS beyond its error, sd"),
        ("Binomial, diabetics", {"laplace": "tap"}, "Control: Laplace's means off NUTS in each set, sd"),
        (against_nuts.STUDY.tasks[-1].name, {"far": "near"}, "Contradictions: share that the quality calls off"),
        (against_nuts.STUDY.tasks[-1].name, {"near": "far"}, "Control: share that it calls off where targets agree"),
    ],
)
def test_a_wrong_number_fails_its_check(results, task, changed, failing):
    worse = results[task] | {to: results[task][source] for to, source in changed.items()}
    assert verdicts(results)[failing]
    assert not verdicts(results | {task: worse})[failing]


def test_two_latent_values_are_integrated_as_a_gaussian_likelihood_has_them():
    gram, y = np.array([[4.0, 3.8], [3.8, 4.0]]), np.array([1.0, -0.5])
    found = against_nuts.integrated(gram, y, Gaussian(0.3))
    gain = gram @ np.linalg.inv(gram + 0.3 * np.eye(2))
    np.testing.assert_allclose(found.mean, gain @ y, rtol=1e-9)
    np.testing.assert_allclose(found.sd**2, np.diagonal(gram - gain @ gram), rtol=1e-9)


def test_outliers_are_as_many_as_said_and_students_t_minds_them_less(monkeypatch):
    monkeypatch.setattr(robust, "TRAINING", 30)
    monkeypatch.setattr(robust, "HELD_OUT", 50)
    data = robust.drawn(0.3, 1)
    assert (data.y.size, data.y_new.size, np.sum(~data.good)) == (30, 50, 15)
    np.testing.assert_array_equal(robust.drawn(0.0, 1).y_new[data.good], data.y_new[data.good])
    monkeypatch.setattr(robust, "LIKELIHOODS", {"gaussian": [Gaussian(1.0)], "student": [StudentT(0.2, 2.0)]})
    found = robust.scores(0.3, 1)
    assert found["student"]["all"] > found["gaussian"]["all"] + 0.2
    assert found["student"]["good"] > found["student"]["all"]
    assert found["student"]["likelihood"]["df"] == 2.0
    assert 0.1 < found["student"]["likelihood"]["scale"] < 1.0  # tuned


def test_the_checks_of_outliers_can_fail():
    rng = np.random.default_rng(1)
    better, none = 0.5 + 0.1 * rng.standard_normal(8), 0.01 * rng.standard_normal(8)
    good = {0.0: none, 0.1: better, 0.3: better}
    assert all(check.passed for check in robust.checks_of(good))
    for share, wrong, failing in ((0.1, none, 2), (0.3, -better, 2), (0.0, better, 1), (0.0, -better, 1)):
        assert sum(not check.passed for check in robust.checks_of(good | {share: wrong})) == failing
