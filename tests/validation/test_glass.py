from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.special import softmax

import bayesgp_mf as bgp
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.multiclass.star_tap import StarTap
from validation.glass.compare import compare
from validation.glass.setting import KERNEL, RECORD, load
from validation.sampling.recorded_classes import read
from validation.tables.confusion import confusion, plot_confusion
from validation.tables.glass_1996_table_2 import load_fold, most_probable, priors, probabilities, start, target_at


@pytest.fixture(scope="module")
def recorded():
    return read(RECORD)


def test_setting_is_all_cases_with_one_fold_last():
    setting = load()
    assert setting.X.shape == (214, 9)
    assert setting.observed == 186
    everything = bgp.datasets.load_forensic_glass()
    np.testing.assert_array_equal(np.sort(setting.X, axis=0), np.sort(everything.X, axis=0))
    assert np.bincount(setting.codes).tolist() == [13, 29, 9, 17, 70, 76]
    assert setting.gram[0, 0] == KERNEL.params["variance"]


def test_record_is_a_converged_run(recorded):
    assert recorded.probabilities.mean.shape == (214, 6)
    assert recorded.observed == load().observed
    assert recorded.latent.r_hat.max() < 1.01
    assert recorded.latent.ess_bulk.min() > 400
    # ten standard errors of the largest are less than what is asked for
    assert recorded.probabilities.mean_error.max() < 0.003
    assert recorded.divergences == 0


def test_record_is_of_this_setting(recorded):
    # observed cases are mostly of the class that the sample gives them
    setting = load()
    likely = recorded.probabilities.mean.argmax(axis=1)
    assert np.mean(likely[: setting.observed] == setting.codes[: setting.observed]) > 0.8
    # probabilities are averages of the softmax of values with these means, and nearer to equal than it
    sharp = softmax(recorded.latent.mean, axis=1)
    assert np.mean(recorded.probabilities.mean.max(axis=1) <= sharp.max(axis=1)) > 0.9


def test_a_record_that_cannot_be_is_refused(tmp_path):
    broken = xr.load_dataset(RECORD, engine="h5netcdf")
    broken["p_mean"][3, 2] += 0.1
    broken.to_netcdf(tmp_path / "broken.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="case 3"):
        read(tmp_path / "broken.nc")


def test_tap_is_near_the_sample_and_laplace_is_not(recorded):
    setting = load()
    tap = compare(setting, recorded, StarTap(points=3), Control(tolerance=1e-3), points=4)
    assert tap.observed.max() < 0.03
    assert tap.predicted.max() < 0.04  # 0.028 with more nodes
    assert tap.gaussian.max() > 0.05
    laplace = compare(setting, recorded, multiclass_laplace, points=3)
    assert laplace.observed.max() > 0.3
    assert laplace.predicted.max() > 0.3


def test_a_fold_has_a_kernel_for_each_class_or_one():
    fold = load_fold(1)
    assert fold.class_names == ("Con", "Head", "Tabl", "Veh", "WinF", "WinNF")
    assert (fold.codes.size, fold.codes_test.size) == (198, 16)
    assert target_at(fold, start(fold)).start.size == 60
    target = target_at(fold, start(fold, shared=True))
    assert target.start.size == 10  # nine widths and v_0
    assert priors(target.kernel)["lengthscale"].power == -2.0
    best = most_probable(target)

    def score(kernel):
        own = {name: np.log(value) for name, value in kernel.params.items()}
        prior = sum(float(np.sum(p.log_density(own[name])[0])) for name, p in target.priors.items())
        return target.solver.solve(target.problem_at(target.model.replace(**kernel.params))).evidence.value + prior

    assert score(best) > score(target.kernel) + 20.0
    errors = np.sum(probabilities(fold, best).argmax(axis=1) != fold.codes_test)
    assert errors <= 5  # three, of 16


def test_confusion_counts_and_its_figure():
    true, predicted = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    counts = confusion(true, predicted, 3)
    np.testing.assert_array_equal(counts, [[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    ax = plot_confusion({"a": counts, "b": counts.T}, ("x", "y", "z"))
    assert ax.get_title() == "a: 2 of 5 wrong"
    assert sorted(text.get_text() for text in ax.texts) == ["1"] * 5
    assert len(ax.figure.axes) == 2
