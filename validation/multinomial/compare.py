"""The multinomial probit as `bayesgp_mf.fit` approximates it, held against the recorded samples."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.types import Array
from validation.multinomial.settings import Setting
from validation.sampling.recorded_classes import RecordedClasses


class Compared(NamedTuple):
    """A fit beside a sample.

    Attributes
    ----------
    observed, predicted : array
        Largest difference of a probability, over the classes, of each case that was observed, and of each that was not.
    log_evidence : float
        In nats.
    seconds : float
        Processor time, with the predictions.
    """

    observed: Array
    predicted: Array
    log_evidence: float
    seconds: float


def compare(setting: Setting, recorded: RecordedClasses, method: str) -> Compared:
    """Fit by the user's door at fixed hyperparameters, and hold the probabilities of all cases against the sample.

    Those of an observed case are of a new label at the same place: what `bayesgp_mf.predict` returns at its inputs.
    """
    n, likelihood = setting.observed, bgp.MultinomialProbit(setting.class_names)
    began = time.process_time()
    idata = bgp.fit(
        setting.X[:n],
        setting.labels[:n],
        setting.kernel,
        likelihood,
        method=method,
        draws=1,
        chains=1,
        random_seed=1,
        progress=False,
    )
    p = bgp.posterior(idata).predict_proba(setting.X)
    seconds = time.process_time() - began
    off = np.abs(p - recorded.probabilities.mean).max(axis=1)
    return Compared(off[:n], off[n:], float(idata["fit"]["log_evidence"]), seconds)
