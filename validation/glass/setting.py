"""Which model of forensic glass is sampled and approximated: cases, kernel, both fixed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import bayesgp_mf as bgp
from bayesgp_mf.types import Array
from validation.sampling.recorded import FOLDER

RECORD = FOLDER / "glass_softmax_nuts.nc"
"""What `record_softmax` writes."""
TEST_FOLD = 8
"""Its 28 cases are predicted; the other 186 are observed."""
KERNEL = bgp.kernels.Gaussian(np.array([2.06, 6.50, 2.07, 5.78, 5.16, 1.07, 1.47, 9.94, 6.59]), variance=95.0)
"""Of each class: near the most probable hyperparameters of Laplace's approximation on all cases, with the 1996 prior.

The variance is large, so that the posterior is far from Gaussian: no easy case.
"""


class Setting(NamedTuple):
    """What every method is given.

    Attributes
    ----------
    X : (214, 9) array
        Inputs of all cases, standardised over all of them; first those observed, then those predicted.
    codes : (214,) array
        Classes, 0 to 5.
    observed : int
        How many of the first cases are observed.
    class_names : tuple of str
        In the order of the codes.
    """

    X: Array
    codes: NDArray[np.int64]
    observed: int
    class_names: tuple[str, ...]

    @property
    def gram(self) -> Array:
        """Prior covariance ``(214, 214)`` of each class."""
        return KERNEL.gram(self.X)


def load() -> Setting:
    """Return forensic glass, with the cases of one fold at the end."""
    data = bgp.datasets.load_forensic_glass()
    if data.fold is None:
        raise ValueError("forensic glass must come with its folds.")
    predicted = data.fold == TEST_FOLD
    order = np.concatenate([np.nonzero(~predicted)[0], np.nonzero(predicted)[0]])
    names = tuple(str(name) for name in data.class_names)
    codes = np.searchsorted(np.array(names), data.y[order]).astype(np.int64)
    return Setting(data.X[order], codes, int(np.sum(~predicted)), names)
