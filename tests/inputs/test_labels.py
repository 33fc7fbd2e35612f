"""Labels: which class is the positive one, and what is no label."""

from __future__ import annotations

import datetime
import enum

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesgp_mf as bgp
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.likelihoods import Gaussian
from tests.inputs.cases import SOFTMAX, X, Y, class_names, quick


class Bare:
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def present() -> np.ndarray:
    """Return the probability of presence at the training cases when it is the later of the two in the alphabet."""
    return bgp.predict(quick(), X, draws=False)["predictions"]["p"].values


def categorical(categories, labels=Y):
    return pd.Categorical(labels, categories=categories)


@pytest.mark.parametrize(
    "y",
    [
        categorical(["present", "absent"]),
        pd.Series(categorical(["present", "absent"])),
        categorical(["unknown", "present", "lost", "absent"]),
        pd.Categorical(Y, categories=["present", "absent"], ordered=True),
    ],
    ids=["categorical", "series", "with unused categories", "ordered"],
)
@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit()], ids=repr)
def test_the_later_category_is_positive(y, likelihood):
    idata = bgp.predict(quick(y=y, likelihood=likelihood), X, draws=False)
    assert class_names(idata) == ["present", "absent"]
    np.testing.assert_array_equal(idata["observed_data"]["y"], (Y == "absent").astype(int))
    plain = bgp.predict(quick(likelihood=likelihood), X, draws=False)  # the alphabet says otherwise
    assert class_names(plain) == ["absent", "present"]
    np.testing.assert_allclose(idata["predictions"]["p"], 1.0 - plain["predictions"]["p"], atol=1e-9)


def test_two_categories_have_one_order_under_softmax_and_probit():
    y = categorical(["present", "absent"])
    assert class_names(quick(y=y, **SOFTMAX)) == class_names(quick(y=y)) == ["present", "absent"]


def test_unused_categories_are_classes_of_softmax_only():
    y = categorical(["absent", "present", "unknown"])
    assert class_names(quick(y=y, **SOFTMAX)) == ["absent", "present", "unknown"]
    assert class_names(quick(y=y)) == ["absent", "present"]
    with pytest.raises(ValueError, match=r"exactly two classes for Probit, got only \['present'\]"):
        quick(y=categorical(["absent", "present"], ["present"] * 12))
    with pytest.raises(
        ValueError, match=r"exactly two classes for Probit, got 3: \['b', 'c', 'a'\]\. .* bgp\.Ordinal\(cuts\)"
    ):
        quick(y=categorical(["b", "c", "a", "d"], list("abc") * 4))


@pytest.mark.parametrize(
    ("y", "positive", "names"),
    [
        (Y, "absent", ["present", "absent"]),
        (Y, "present", ["absent", "present"]),
        (categorical(["present", "absent"]), "present", ["absent", "present"]),
        (categorical(["present", "unknown", "absent"]), "present", ["absent", "present"]),
        (Y == "present", False, ["True", "False"]),
        (Y == "present", np.bool_(False), ["True", "False"]),
        ((Y == "present").astype(int), 0, ["1", "0"]),
        ((Y == "present").astype(int), "0", ["1", "0"]),
        ((Y == "present").astype(float), 0, ["1.0", "0.0"]),
        ([10 if label == "present" else 2 for label in Y], 2, ["10", "2"]),
        ([1 if label == "present" else "none" for label in Y], 1, ["none", "1"]),
        (pd.Series(Y).astype("string"), "absent", ["present", "absent"]),
    ],
)
def test_positive_chooses_the_class(y, positive, names):
    idata = bgp.predict(quick(y=y, positive=positive), X, draws=False)
    assert class_names(idata) == names
    is_present = names[1] in ("present", "True", "1")
    np.testing.assert_allclose(idata["predictions"]["p"], present() if is_present else 1.0 - present(), atol=1e-9)
    assert idata["observed_data"]["y"].values.tolist() == ((Y == "present") == is_present).astype(int).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive": "lost"}, r"positive must be one of the two labels \['absent', 'present'\], got 'lost'"),
        ({"positive": ["present"]}, r"positive must be one of the two labels .* got \['present'\]"),
        ({"positive": np.nan}, "positive must be one of the two labels .* got nan"),
        ({"positive": 1}, "positive must be one of the two labels .* got 1"),
        (
            {"positive": "unknown", "y": categorical(["absent", "present", "unknown"])},
            r"positive must be one of the two labels \['absent', 'present'\], got 'unknown'",
        ),
        (
            {"positive": "present", **SOFTMAX},
            "positive says which of two classes .* Softmax has a probability",
        ),
        (
            {"positive": 1.0, "y": X[:, 0], "likelihood": Gaussian(0.1)},
            "positive says which of two classes .* Gaussian has real targets. Leave it out",
        ),
    ],
)
def test_a_positive_class_that_is_none_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options)


def two(first, second):
    return [first if label == "absent" else second for label in Y]


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Softmax()], ids=repr)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(two(0, 1)) * 1j, "y must hold labels .* got a complex number"),
        (two(1j, "a"), "y must hold labels .* got a complex number, 1j"),
        (two(0.0, np.inf), "y must hold labels such as text or finite numbers, got inf"),
        (np.array(two(-np.inf, "a"), dtype=object), "y must hold labels such as text or finite numbers, got -inf"),
        (two(Bare(), Bare()), "y must hold labels such as text or numbers, got <.*Bare object at .*an address"),
        (two(int, str), "y must hold labels such as text or numbers, got <class 'int'>"),
        (two(len, "a"), "y must hold labels such as text or numbers, got <built-in function len>"),
        (two({"a": 1}, "b"), "y must hold labels such as text or numbers, got {'a': 1} .*unhashable"),
        (two(1, "1"), "y has two labels of one name, ('1' and 1|1 and '1'),"),
        (np.array(two(True, "True"), dtype=object), "y has two labels of one name"),
        (categorical([1, "1"], two(1, "1")), "y has two labels of one name, 1 and '1'"),
        ([[1, 2], [3]] * 6, "y must hold one label for each of the 12 rows of X, got sequences of different lengths"),
        (sparse.csr_matrix([[0, 1] * 6]), r"y is sparse.* Pass y\.toarray\(\)\.ravel\(\)"),
        (pd.DataFrame({"state": Y}), r"got \(12, 1\)\. Pass its column, y\['state'\]\."),
        (pd.DataFrame({0: Y}), r"got \(12, 1\)\. Pass its column, y\[0\]\."),
        (pd.DataFrame({"a": Y, "b": Y}), r"got \(12, 2\)\. Pass one of its columns, such as y\['a'\]"),
        ([[label] for label in Y], r"got \(12, 1\)\. Pass numpy\.ravel\(y\)"),
        (Y[None], r"got \(1, 12\)\. Pass y\.ravel\(\)"),
        (dict(enumerate(Y)), "y must be a sequence of 12 labels, one for each row of X, got dict"),
        (set(Y), "y must be a sequence of 12 labels.* got set"),
        ((label for label in Y), "y must be a sequence of 12 labels.* got generator"),
        ("present", "y must be a sequence of 12 labels.* got str"),
        (None, "y must be a sequence of 12 labels.* got NoneType"),
        (two(pd.NA, "a"), "y must hold a label for every case, but . of 12 are missing"),
        (pd.array(two(True, pd.NA), dtype="boolean"), "y must hold a label for every case"),
        (categorical(["present", "absent"], [None, *Y[1:]]), "y must hold a label for every case, but 1 of 12"),
    ],
)
def test_what_is_no_label_is_refused(y, message, likelihood):
    with pytest.raises(ValueError, match=message):
        encode_targets(y, 12, likelihood)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (pd.array(two(1.0, pd.NA), dtype="Float64"), "y must be finite, but . of its 12 entries"),
        (np.array(two(1.0, pd.NA), dtype=object), "y must be finite, but . of its 12 entries"),
        (np.ma.masked_array(X[:, 0], mask=X[:, 0] > 0), "y has masked entries"),
        (two("a", "b"), "y must hold numbers.*'[ab]'"),
        (np.array(two(0, 1)) * 1j, "y must hold real numbers, got dtype complex128"),
        (two(10**400, 1), "y must hold numbers.*too large"),
        (pd.DataFrame({"height": X[:, 0]}), r"got \(12, 1\)\. Pass its column, y\['height'\]\."),
    ],
)
def test_what_is_no_real_target_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        encode_targets(y, 12, Gaussian(1.0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "b"),
        (b"a", b"b"),
        (2, 10),
        (-(10**400), 10**400),
        (0.5, 1.5),
        (False, True),
        ((1, 2), (1, 3)),
        (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
        (np.datetime64("2020-01-01"), np.datetime64("2021-01-01")),
        (pd.Interval(0, 1), pd.Interval(1, 2)),
        (Colour.BLUE, Colour.RED),
        (1, "none"),
        ("<5", ">5"),
    ],
    ids=str,
)
@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Softmax()], ids=repr)
def test_labels_of_any_sensible_kind_are_taken(first, second, likelihood):
    given = np.empty(12, dtype=object)
    given[:] = two(first, second)
    t, names = encode_targets(given, 12, likelihood)
    low = 0.0 if likelihood.targets == "classes" else -1.0
    np.testing.assert_array_equal(t, np.where(Y == "absent", low, 1.0))
    assert names == (str(first), str(second))


def test_a_list_of_text_and_numbers_is_that_and_not_all_text():
    t, names = encode_targets([1, "a", 2.5, "a"], 4, bgp.Softmax())
    assert names == ("1", "2.5", "a")
    np.testing.assert_array_equal(t, [0.0, 2.0, 1.0, 2.0])


def test_names_of_cases_in_place_of_classes_are_noticed():
    """A column of names given as labels would take minutes, and teach nothing."""
    X = np.linspace(-1.0, 1.0, 24)[:, None]
    with pytest.warns(UserWarning, match=r"y has 13 classes among 24 cases.*If y names the cases"):
        quick(X, [f"case {min(i, 12)}" for i in range(24)], likelihood=bgp.MultinomialProbit())
    # and no warning, which is an error here
    quick(X, [f"kind {i // 2}" for i in range(24)], likelihood=bgp.MultinomialProbit())
