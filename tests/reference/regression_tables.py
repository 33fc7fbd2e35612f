"""Two tables of measurements, standardised, as scikit-learn's optimum was recorded on them and as it is held to."""

from __future__ import annotations

import numpy as np

import bayesgp_mf as bgp


def standardised(values):
    """Return columns with mean zero and standard deviation one."""
    return (values - values.mean(axis=0)) / values.std(axis=0)


def tables():
    """Return inputs and targets: Pima's body mass index, and the body depth of crabs by their frontal lobe."""
    pima, crabs = bgp.datasets.load_pima(), bgp.datasets.load_crabs()
    bmi = list(pima.feature_names).index("bmi")
    depth = list(crabs.feature_names).index("BD")
    lobe = list(crabs.feature_names).index("FL")
    return {
        "pima": (standardised(np.delete(pima.X, bmi, axis=1)), standardised(pima.X[:, bmi])),
        "crabs": (standardised(crabs.X[:, [lobe]]), standardised(crabs.X[:, depth])),
    }
