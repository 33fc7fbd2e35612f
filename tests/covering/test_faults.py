"""Faults that are put in by hand, one for each kind of option: some cell of the table finds each."""

from __future__ import annotations

import pytest

import bayesgp_mf as bgp
from bayesgp_mf import sharded
from bayesgp_mf.sklearn import GPClassifier
from bayesgp_mf.streams.learning import Learner
from tests.covering import estimators, laws, shards, streams


def finds(of, folder, where, fault, **among):
    """Assert that a cell with values ``among`` of the options works, and no more under a fault."""
    for number, cell in enumerate(of.pairs):
        if any(cell[option] not in values for option, values in among.items()):
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*where, fault)
            try:
                of.check(cell, number, folder)
            except (AssertionError, ValueError):  # a law that does not hold, or predictions that are refused
                patch.undo()
                assert of.check(cell, number, folder) == "works"
                return
    pytest.fail("no cell finds it")


def test_offsets_that_a_method_of_fit_forgets_are_found(tmp_path):
    fit = bgp.fit

    def without(*args, method="tap", offset=None, **options):
        return fit(*args, method=method, offset=None if method == "laplace" else offset, **options)

    finds(laws.TABLE, tmp_path, (bgp, "fit"), without, method=["laplace"], offset=["numbers"])


def test_offsets_and_weights_that_a_stream_forgets_are_found(tmp_path):
    among = {"offset": ["numbers"], "hyper": ["none"]}
    where = (Learner, "likelihood_of")
    finds(streams.TABLE, tmp_path, where, lambda learner, rows: learner.likelihood, **among)


def test_classes_that_an_estimator_takes_for_each_other_are_found(tmp_path):
    right = GPClassifier.predict_proba
    among = {"likelihood": ["two classes"], "hyper": ["none"]}
    where = (GPClassifier, "predict_proba")
    finds(estimators.TABLE, tmp_path, where, lambda self, X: right(self, X)[:, ::-1], **among)


def test_a_case_of_each_part_that_is_lost_is_found(tmp_path):
    right = sharded.from_arrays
    where = (sharded, "from_arrays")
    finds(
        shards.TABLE,
        tmp_path,
        where,
        lambda parts: right([(X[:-1], y[:-1]) for X, y in parts]),
        hyper=["none"],
        table=["arrays"],
        inducing=["inputs"],
    )
