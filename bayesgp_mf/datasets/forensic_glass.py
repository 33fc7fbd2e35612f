"""Forensic glass: the kind of a glass fragment from its composition, in six classes."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from bayesgp_mf.datasets.assemble import assemble, check_integer
from bayesgp_mf.datasets.dataset import Dataset
from bayesgp_mf.datasets.frames import FrameDataset
from bayesgp_mf.datasets.read import input_matrix, read_columns

_FOLDS = 10
_FEATURE_NAMES = ("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe")
_UNITS = ("1000 (refractive index - 1.518)",) + ("% by weight of oxide",) * 8
_DESCRIPTION = (
    "Fragments of glass from forensic work, collected by B. German of the Home Office Forensic Science "
    "Service, Aldermaston. Classes are WinF window float glass (70 rows), WinNF window non-float glass "
    "(76), Veh vehicle window glass (17), Con containers (13), Tabl tableware (9) and Head vehicle "
    "headlamps (29). Inputs are the refractive index RI, as 1000 times its excess over 1.518, and the "
    "weight of the oxides of eight elements in percent. The ten folds, of unequal size, are those "
    "printed in the scripts of Venables and Ripley (2002)."
)


@overload
def load_forensic_glass(
    *, fold: int | None = ..., standardise: bool = ..., as_frame: Literal[False] = ...
) -> Dataset: ...
@overload
def load_forensic_glass(
    *, fold: int | None = ..., standardise: bool = ..., as_frame: Literal[True]
) -> FrameDataset: ...
def load_forensic_glass(
    *, fold: int | None = None, standardise: bool = True, as_frame: bool = False
) -> Dataset | FrameDataset:
    """Load the forensic glass fragments of German with the ten folds of Venables and Ripley.

    Six classes of glass from refractive index and composition. There is no fixed test set: results are
    ten-fold cross-validation errors ([1]_, [2]_ section 12.6, [3]_ table 2).

    Parameters
    ----------
    fold : int, optional
        The fold, 1 to 10, to test on; the other nine are the training rows. By default all 214 rows are
        training rows and the test set is empty.
    standardise : bool
        Rescale the inputs as `load_crabs` does, and as [3]_ does. With ``fold=None`` that is over all rows, so
        for cross-validation load fold after fold, lest the test rows leak into the rescaling.
    as_frame : bool
        Return data frames of pandas, with the names of the inputs and the numbers of the rows.

    Returns
    -------
    Dataset, or FrameDataset
        ``X (214, 9)`` and ``X_test (0, 9)`` without ``fold``; with it ``X (214 - m, 9)`` and
        ``X_test (m, 9)``, where ``m`` is 16, 24, 15, 24, 16, 25, 20, 28, 19, 27 for the folds 1 to 10.
        Classes ``Con`` (13), ``Head`` (29), ``Tabl`` (9), ``Veh`` (17), ``WinF`` (70), ``WinNF`` (76).
        Input ``RI`` is 1000 (refractive index - 1.518); ``Na Mg Al Si K Ca Ba Fe`` are percent by
        weight of the oxide. ``fold`` gives the fold of each training row. Rows in file order.

    Raises
    ------
    ValueError
        If ``fold`` is neither None nor an integer from 1 to 10, or ``standardise`` is not a bool.

    Notes
    -----
    The folds are not stratified. That [3]_ used the same ones is likely but not known. One row is an
    exact repeat of another one's inputs. ``RI`` is rounded to its two published decimals.

    Source: ``fgl`` in MASS, the R package of [2]_, and the vector ``rand`` of its ``scripts/ch12.R``. At
    the UCI repository the same fragments are "Glass Identification" [4]_.

    Licence: MASS is GPL-2 or GPL-3; its authors understand its data files not to be copyright.

    References
    ----------
    .. [1] Ripley, B. D. (1996). Pattern Recognition and Neural Networks. Cambridge University Press.
       https://doi.org/10.1017/CBO9780511812651
    .. [2] Venables, W. N., & Ripley, B. D. (2002). Modern Applied Statistics with S, 4th edition.
       Springer. https://doi.org/10.1007/978-0-387-21706-2
    .. [3] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via
       hybrid Monte Carlo. Advances in Neural Information Processing Systems 9. Section 3.
    .. [4] German, B. (1987). Glass Identification. UCI Machine Learning Repository.
       https://doi.org/10.24432/C5WW2P

    Examples
    --------
    >>> from bayesgp_mf.datasets import load_forensic_glass
    >>> load_forensic_glass().class_names
    ('Con', 'Head', 'Tabl', 'Veh', 'WinF', 'WinNF')
    >>> [load_forensic_glass(fold=k).y_test.size for k in range(1, 11)]
    [16, 24, 15, 24, 16, 25, 20, 28, 19, 27]
    """
    if fold is not None:
        fold = check_integer(
            "fold",
            fold,
            low=1,
            high=_FOLDS,
            expected=f"None or an integer from 1 to {_FOLDS}",
            advice="Pass the fold to test on, or fold=None for all rows as training rows.",
        )
    columns = read_columns("forensic_glass.csv")
    folds = np.array(columns["fold"], dtype=np.int64)
    return assemble(
        name="forensic_glass",
        X=input_matrix(columns, _FEATURE_NAMES),
        y=np.array(columns["type"]),
        train=np.ones(folds.shape, dtype=np.bool_) if fold is None else folds != fold,
        standardise=standardise,
        as_frame=as_frame,
        label="type",
        feature_names=_FEATURE_NAMES,
        units=_UNITS,
        description=_DESCRIPTION,
        fold=folds,
    )
