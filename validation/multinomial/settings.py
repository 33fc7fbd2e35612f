"""Which models are sampled and approximated: cases and kernel of each, both fixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.types import Array

TEST_FOLD = 8
"""Of forensic glass: its 28 cases are predicted, the other 186 are observed."""
WINES = 100
"""Observed wines; the other 78 are predicted."""
SEED = 21
"""By which the observed wines are chosen."""


class Setting(NamedTuple):
    """What every method is given.

    Attributes
    ----------
    kernel : Kernel
        Of each class.
    X : (n, d) array
        Inputs of all cases, standardised over all of them; first those observed, then those predicted.
    codes : (n,) array
        Classes, 0 to C - 1.
    observed : int
        How many of the first cases are observed.
    class_names : tuple of str
        In the order of the codes.
    """

    kernel: Kernel
    X: Array
    codes: NDArray[np.int64]
    observed: int
    class_names: tuple[str, ...]

    @property
    def gram(self) -> Array:
        """Prior covariance ``(n, n)`` of each class."""
        return self.kernel.gram(self.X)

    @property
    def labels(self) -> list[str]:
        """Names of the classes of all cases."""
        return [self.class_names[code] for code in self.codes]


def glass() -> Setting:
    """Return forensic glass, six classes, with the cases of one fold at the end."""
    data = bgp.datasets.load_forensic_glass()
    if data.fold is None:
        raise ValueError("forensic glass must come with its folds.")
    order = np.argsort(data.fold == TEST_FOLD, kind="stable")
    names = tuple(str(name) for name in data.class_names)
    codes = np.searchsorted(np.array(names), data.y[order]).astype(np.int64)
    observed = int(np.sum(data.fold != TEST_FOLD))
    return Setting(bgp.kernels.Gaussian(2.0, 8.0), data.X[order], codes, observed, names)


def wine() -> Setting:
    """Return scikit-learn's wines, three classes, some of them observed."""
    from sklearn.datasets import load_wine

    data = load_wine()
    order = np.random.default_rng(SEED).permutation(data.target.size)
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    names = tuple(str(name) for name in data.target_names)
    return Setting(bgp.kernels.Gaussian(4.0, 20.0), X[order], data.target[order].astype(np.int64), WINES, names)


SETTINGS = {"glass": glass, "wine": wine}
"""By the name of the record."""
