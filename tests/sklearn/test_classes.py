"""Which classes an estimator knows, and in which order, whatever its likelihood names."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier

import bayesgp_mf as bgp
from bayesgp_mf.sklearn import GPClassifier

X = np.array([[-3.0], [-2.9], [0.0], [0.1], [3.0], [3.1]])
Y = np.array(list("aabbcc"))
KERNEL = bgp.kernels.Gaussian(1.0, 9.0)
JOINT = [bgp.MultinomialProbit, bgp.Softmax]


@pytest.mark.parametrize("likelihood", JOINT)
def test_columns_go_with_the_sorted_classes_in_whatever_order_they_are_named(likelihood):
    model = GPClassifier(KERNEL, likelihood(classes=("c", "b", "a")), hyper=None).fit(X, Y)
    plain = GPClassifier(KERNEL, likelihood(classes=None), hyper=None).fit(X, Y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, Y) == 1.0
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("likelihood", JOINT)
def test_a_class_without_a_case_has_a_column(likelihood):
    model = GPClassifier(KERNEL, likelihood(classes=("Z", "a", "b", "c")), hyper=None).fit(X, Y)
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == ["Z", "a", "b", "c"]
    assert proba.shape == (6, 4)
    assert model.predict(X).tolist() == Y.tolist()
    assert log_loss(Y, proba, labels=model.classes_) < 0.7


@pytest.mark.parametrize("likelihood", JOINT)
def test_two_classes_may_have_a_function_each(likelihood):
    joint = GPClassifier(KERNEL, likelihood(), hyper=None).fit(X[:4], Y[:4])
    assert joint.predict_proba(X).shape == (6, 2)
    assert joint.score(X[:4], Y[:4]) == 1.0
    some = GPClassifier(KERNEL, likelihood(classes=("a", "b", "c")), hyper=None).fit(X[:4], Y[:4])
    assert some.predict_proba(X).shape == (6, 3)


@pytest.mark.parametrize("likelihood", JOINT)
def test_a_label_that_the_likelihood_does_not_name_is_refused(likelihood):
    with pytest.raises(ValueError, match=r"none of the classes \['a', 'b'\]: \['c'\]"):
        GPClassifier(KERNEL, likelihood(classes=("a", "b")), hyper=None).fit(X, Y)


def test_a_class_of_likelihoods_is_none():
    model = GPClassifier(KERNEL, bgp.MultinomialProbit)
    with pytest.raises(ValueError, match=r"got the class \w+: write it with \(\)"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=r"got the class \w+: write it with \(\)"):
        model.partial_fit(X, Y, classes=["a", "b", "c"])


def test_a_likelihood_of_two_classes_is_refused_of_three_with_the_ways_there_are():
    model = GPClassifier(KERNEL, bgp.Logit(), hyper=None)
    for learn in (model.fit, lambda X, y: model.partial_fit(X, y, classes=["a", "b", "c"])):
        with pytest.raises(ValueError, match=r"has 3 classes.*MultinomialProbit.*OneVsRestClassifier\(GPClassifier"):
            learn(X, Y)
    with pytest.raises(TypeError, match=r"GPClassifier\(\) has no argument 'multi_class'.*OneVsRestClassifier\(GP"):
        GPClassifier(multi_class="one_vs_rest")
    with pytest.raises(TypeError, match=r"GPClassifier\(\) has no argument 'likelyhood'\. Is it likelihood\?$"):
        GPClassifier(likelyhood=bgp.Probit())
    alone = [GPClassifier(KERNEL, bgp.Logit(), hyper=None).fit(X, c == Y).predict_proba(X)[:, 1] for c in "abc"]
    together = OneVsRestClassifier(model).fit(X, Y)
    assert together.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(together.predict_proba(X), (np.array(alone) / np.sum(alone, axis=0)).T, rtol=1e-9)
