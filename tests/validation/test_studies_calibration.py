"""The calibration study: bands that hold for as many uniform sets as they say, ranks of known posteriors, verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.diagnostics.uniformity import UniformRanks
from validation.studies import calibration
from validation.studies.__main__ import STUDIES

COUNT, DRAWS = 400, 49
UNIFORM = UniformRanks(COUNT, DRAWS)


def uniform_sets(seed, sets):
    return np.random.default_rng(seed).integers(0, DRAWS + 1, size=(sets, COUNT))


def test_chances_are_those_of_uniform_ranks():
    chances = np.array([UNIFORM.p_value(ranks) for ranks in uniform_sets(1, 2000)])
    for level in (0.01, 0.1, 0.5):
        share = np.mean(chances <= level)
        assert abs(share - level) < 4.0 * np.sqrt(level * (1.0 - level) / 2000) + 0.02 * level


@pytest.mark.parametrize("level", [0.9, 0.99])
def test_band_holds_whole_curves_as_often_as_it_says(level):
    low, high = UNIFORM.band(level)
    inside = []
    for ranks in uniform_sets(2, 2000):
        excess = UNIFORM.excess(ranks)
        held = bool(np.all((excess >= low - 1e-12) & (excess <= high + 1e-12)))
        inside.append(held)
        if not held:
            assert UNIFORM.p_value(ranks) < 1.3 * (1.0 - level)
    assert abs(np.mean(inside) - level) < 4.0 * np.sqrt(level * (1.0 - level) / 2000) + 0.2 * (1.0 - level)


def test_excess_is_the_distribution_function():
    ranks = np.repeat([0, 10, 49], [100, 200, 100])
    found = UNIFORM.excess(ranks) + UNIFORM.levels
    assert found.shape == (DRAWS,)
    np.testing.assert_allclose(found[[0, 9, 10, 48]], [0.25, 0.25, 0.75, 0.75])


@pytest.mark.parametrize(
    "ranks", [np.zeros(3, dtype=int), np.full(COUNT, DRAWS + 1), np.full(COUNT, -1), np.ones(COUNT)]
)
def test_what_are_no_ranks_is_refused(ranks):
    with pytest.raises(ValueError, match="expected 400 whole ranks from 0 to 49"):
        UNIFORM.p_value(ranks)


@pytest.mark.parametrize(
    ("width", "shift", "uniform"), [(1.0, 0.0, True), (0.7, 0.0, False), (1.4, 0.0, False), (1.0, 0.4, False)]
)
def test_ranks_of_a_known_posterior(width, shift, uniform):
    """Prior N(0, 1), one measurement with unit noise: the posterior is N(y/2, 1/2), too narrow, too wide or shifted."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(COUNT)
    y = truth + rng.standard_normal(COUNT)
    draws = y / 2 + shift + width * np.sqrt(0.5) * rng.standard_normal((DRAWS, COUNT))
    chance = UNIFORM.p_value(np.count_nonzero(draws < truth, axis=0))
    assert chance > 0.05 if uniform else chance < 0.01


@pytest.mark.parametrize("likelihood", sorted(calibration.LIKELIHOODS))
def test_a_block_is_what_its_seed_makes(likelihood):
    found = calibration.ranks(likelihood, 3, 2)
    assert found == calibration.ranks(likelihood, 3, 2)
    assert found != calibration.ranks(likelihood, 4, 2)
    assert ("Laplace" in found) is (likelihood == "probit")
    assert {"TAP", "TAP, tilted", "naive", "variational", "online", "control"} <= set(found)
    for by_quantity in found.values():
        assert {name: len(values) for name, values in by_quantity.items()} == {"f": 2, "mean_f": 2}
        assert all(0 <= rank <= calibration.DRAWS for values in by_quantity.values() for rank in values)


def test_a_scale_pulls_draws_towards_their_mean(monkeypatch):
    """With hardly any scale all draws are on one side of the truth; the control's is below one, all others' is one."""
    nearly_none = calibration.WAYS["control"]._replace(scale=1e-9)
    monkeypatch.setattr(calibration, "WAYS", {"TAP": calibration.WAYS["TAP"], "control": nearly_none})
    found = calibration.ranks("probit", 0, 5)
    for quantity in calibration.QUANTITIES:
        assert set(found["control"][quantity]) <= {0, calibration.DRAWS}
        assert not set(found["TAP"][quantity]) <= {0, calibration.DRAWS}
    monkeypatch.undo()
    assert {name for name, way in calibration.WAYS.items() if way.scale != 1.0} == {"control"}
    assert calibration.WAYS["control"].scale == 0.7


def made_up(tap, control):
    """Results in which ranks of TAP and of the control are u^power, u uniform."""
    rng = np.random.default_rng(0)
    results = {}
    for task in calibration.STUDY.tasks:
        names = calibration.ways_for(task.arguments["likelihood"])
        powers = {name: {"TAP": tap, "control": control}.get(name, 1.0) for name in names}
        results[task.name] = {
            name: {q: np.floor(100 * rng.random(50) ** power).astype(int).tolist() for q in calibration.QUANTITIES}
            for name, power in powers.items()
        }
    return results


@pytest.mark.parametrize(("tap", "control", "passed"), [(1.0, 2.0, [1, 1, 1, 1]), (2.0, 1.0, [0, 0, 0, 0])])
def test_verdicts(tap, control, passed):
    findings = calibration.STUDY.conclude(made_up(tap, control))
    assert [check.passed for check in findings.checks] == [bool(p) for p in passed]
    said = " ".join(block for block in findings.blocks if isinstance(block, str))
    assert ("TAP (f at a random case), TAP (mean of f)" in said) is (tap > 1.0)


def test_study_is_registered_and_complete():
    assert calibration.STUDY in STUDIES
    replications = [task.arguments["replications"] for task in calibration.STUDY.tasks]
    assert sum(replications) == 2 * calibration.REPLICATIONS
    assert len({(t.arguments["likelihood"], t.arguments["seed"]) for t in calibration.STUDY.tasks}) == len(replications)


def test_layout_of_the_ranks():
    idata = calibration.to_container({"f": [1, 2, 3], "mean_f": [4, 5, 6]})
    assert group_names(idata) == ["prior_sbc"]
    group = get_group(idata, "prior_sbc")
    assert dict(group.sizes) == {"chain": 1, "draw": 3}
    np.testing.assert_array_equal(group["mean_f"].values, [[4, 5, 6]])
