"""Sonar: mines versus rocks."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from bayesgp_mf.datasets.assemble import assemble, check_flag
from bayesgp_mf.datasets.dataset import Dataset
from bayesgp_mf.datasets.frames import FrameDataset
from bayesgp_mf.datasets.read import input_matrix, read_columns

# The rows the original files mark as training rows of the aspect-angle-dependent experiments, one bit a
# row: the most significant bit is the first row of the file, 1 is a training row. The file that packages
# hand on has lost these marks.
_ROWS = 208
_TRAINING_ROWS = 0xFBEFD5DEDA6B82704615CAAD6B14CB4B083A9E42AB8D7A15180A

_FEATURE_NAMES = tuple(f"x{band}" for band in range(1, 61))
_DESCRIPTION = (
    "Sonar returns from a metal cylinder (class M, 'mine', 111 rows) and from a roughly cylindrical rock "
    "(class R, 97 rows), taken at many aspect angles. The 60 inputs are the energy in 60 frequency bands, "
    "integrated over time, between 0 and 1. The split is the 104/104 aspect-angle-dependent one of Gorman "
    "and Sejnowski (1988); its test rows are easier than its training rows."
)


@overload
def load_sonar(*, standardise: bool = ..., exchange: bool = ..., as_frame: Literal[False] = ...) -> Dataset: ...
@overload
def load_sonar(*, standardise: bool = ..., exchange: bool = ..., as_frame: Literal[True]) -> FrameDataset: ...
def load_sonar(*, standardise: bool = True, exchange: bool = False, as_frame: bool = False) -> Dataset | FrameDataset:
    """Load the sonar returns of Gorman and Sejnowski with their own split.

    Mines against rocks [1]_, in the 104/104 split balanced over aspect angle that [1]_ and [2]_ use.
    The test rows are the easier half: [2]_ (section 8.1) finds a test error of 0.077 and a
    leave-one-out error of 0.212, and the reverse after exchanging the two sets.

    Parameters
    ----------
    standardise : bool
        Rescale the inputs as `load_crabs` does, and as [2]_ does.
    exchange : bool
        Train on the test set and test on the training set.
    as_frame : bool
        Return data frames of pandas, with the names of the inputs and the numbers of the rows.

    Returns
    -------
    Dataset, or FrameDataset
        ``X (104, 60)``, ``X_test (104, 60)``; classes ``M`` mine (metal cylinder) and ``R`` rock: 49 M
        and 55 R for training, 62 M and 42 R for test, the other way round with ``exchange``. Rows in
        the order of the original file. Raw inputs are dimensionless energies in [0, 1].

    Raises
    ------
    ValueError
        If ``standardise`` or ``exchange`` is not a bool.

    Notes
    -----
    Source: the UCI repository's "Connectionist Bench (Sonar, Mines vs. Rocks)" [3]_, in the copy that
    the R package mlbench carries as ``Sonar``. The split is certain: it is the original files' own mark
    on each row.

    Licence: CC BY 4.0 as listed by the UCI repository (cite [1]_ and [3]_); mlbench is GPL-2.

    References
    ----------
    .. [1] Gorman, R. P., & Sejnowski, T. J. (1988). Analysis of hidden units in a layered network
       trained to classify sonar targets. Neural Networks 1(1), 75-89.
       https://doi.org/10.1016/0893-6080(88)90023-8
    .. [2] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field
       algorithms. Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
       Section 8: rescaling; section 8.1: split, table 1, exchange of the two sets.
    .. [3] Sejnowski, T., & Gorman, R. (1988). Connectionist Bench (Sonar, Mines vs. Rocks). UCI Machine
       Learning Repository. https://doi.org/10.24432/C5T01Q

    Examples
    --------
    >>> from bayesgp_mf.datasets import load_sonar
    >>> load_sonar()
    Dataset('sonar': 104 training rows (M 49, R 55), 104 test rows (M 62, R 42), 60 standardised inputs)
    >>> load_sonar(exchange=True).X_test.shape
    (104, 60)
    """
    exchange = check_flag("exchange", exchange)
    columns = read_columns("sonar.csv")
    marked = np.array([bit == "1" for bit in format(_TRAINING_ROWS, f"0{_ROWS}b")])
    return assemble(
        name="sonar",
        X=input_matrix(columns, _FEATURE_NAMES),
        y=np.array(columns["label"]),
        train=~marked if exchange else marked,
        standardise=standardise,
        as_frame=as_frame,
        label="label",
        feature_names=_FEATURE_NAMES,
        units=("dimensionless",) * len(_FEATURE_NAMES),
        description=_DESCRIPTION,
    )
