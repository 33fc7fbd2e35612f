"""scikit-learn's own checks of estimators, all of them."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_dict_unchanged, check_estimator

import bayesgp_mf as bgp

NOT_RUN = {"check_array_api_input"}  # scikit-learn runs it only where SCIPY_ARRAY_API is set, before SciPy is imported
POWERS = (
    "Two labels of one input are two sites of TAP, of which each sees the other; a label of weight 2 is one site, of a "
    "squared likelihood. The two agree exactly for Laplace's method and for Gaussian noise, and closely otherwise."
)
TAP = dict.fromkeys((f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")), POWERS)


@pytest.mark.filterwarnings("ignore:weights above one in the mean")  # which a check gives to a regressor
@pytest.mark.parametrize(
    ("estimator", "excused"),
    [
        (bgp.sklearn.GPClassifier(), TAP),
        (bgp.sklearn.GPRegressor(), {}),
        (bgp.sklearn.GPClassifier(bgp.kernels.Gaussian(1.0) + 10.0, method="laplace", hyper=None), {}),
    ],
    ids=["classifier", "regressor", "classifier at a kernel, Laplace"],
)
def test_every_check_of_scikit_learn_passes(estimator, excused):
    found = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=excused)
    assert len(found) > 45
    wrong = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert wrong == {}
    assert {each["check_name"] for each in found if each["status"] == "skipped"} <= NOT_RUN
    assert {each["check_name"] for each in found if each["status"] == "xfail"} == set(excused)


class Counts(bgp.sklearn.GPClassifier):
    """A control: it keeps what it is asked."""

    def predict_proba(self, X):
        self.calls_ = vars(self).get("calls_", 0) + 1
        return super().predict_proba(X)


def test_a_check_finds_an_estimator_that_is_wrong():
    with pytest.raises(AssertionError, match="changes __dict__"):
        check_dict_unchanged("Counts", Counts(hyper=None))
