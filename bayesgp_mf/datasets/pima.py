"""Diabetes in women of Pima heritage, in Ripley's version."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from bayesgp_mf.datasets.assemble import assemble
from bayesgp_mf.datasets.dataset import Dataset
from bayesgp_mf.datasets.frames import FrameDataset
from bayesgp_mf.datasets.read import input_matrix, read_columns

_FEATURE_NAMES = ("npreg", "glu", "bp", "skin", "bmi", "ped", "age")
_UNITS = ("count", "mg/dl", "mm Hg", "mm", "kg/m^2", "dimensionless", "years")
_DESCRIPTION = (
    "Women of Pima heritage, at least 21 years old, living near Phoenix, Arizona, tested for diabetes by "
    "the criteria of the World Health Organization (class Yes if diabetic, No if not). Inputs are number "
    "of pregnancies npreg, plasma glucose concentration in an oral glucose tolerance test glu, diastolic "
    "blood pressure bp, triceps skin fold thickness skin, body mass index bmi, diabetes pedigree function "
    "ped and age. These are the 532 complete records after serum insulin was dropped, split by Ripley at "
    "random into 200 for training and 332 for test."
)


@overload
def load_pima(*, standardise: bool = ..., as_frame: Literal[False] = ...) -> Dataset: ...
@overload
def load_pima(*, standardise: bool = ..., as_frame: Literal[True]) -> FrameDataset: ...
def load_pima(*, standardise: bool = True, as_frame: bool = False) -> Dataset | FrameDataset:
    """Load the diabetes records of Pima women in the version and the split of Ripley.

    The 532 records without missing values [2]_ of the study of [1]_, 200 for training and 332 for test.

    Parameters
    ----------
    standardise : bool
        Rescale the inputs as `load_crabs` does, and as [3]_ and [4]_ do.
    as_frame : bool
        Return data frames of pandas, with the names of the inputs and the numbers of the rows.

    Returns
    -------
    Dataset, or FrameDataset
        ``X (200, 7)``, ``X_test (332, 7)``; classes ``No`` and ``Yes`` (diabetic): 132 and 68 for
        training, 223 and 109 for test. Inputs ``npreg`` (count), ``glu`` (mg/dl), ``bp`` (mm Hg),
        ``skin`` (mm), ``bmi`` (kg/m^2), ``ped`` (dimensionless) and ``age`` (years). Rows in file order.

    Raises
    ------
    ValueError
        If ``standardise`` is not a bool.

    Notes
    -----
    Not the 768 rows of the UCI repository, which write missing values as 0. [4]_ (section 8.2) lists
    serum insulin among the inputs, but Ripley's files, which it says it uses, do not hold it.

    Source: ``Pima.tr`` and ``Pima.te`` in MASS, the R package of [5]_. Collected by the US
    National Institute of Diabetes and Digestive and Kidney Diseases.

    Licence: MASS is GPL-2 or GPL-3; its authors understand its data files not to be copyright.

    References
    ----------
    .. [1] Smith, J. W., Everhart, J. E., Dickson, W. C., Knowler, W. C., & Johannes, R. S. (1988).
       Using the ADAP learning algorithm to forecast the onset of diabetes mellitus. Proceedings of the
       Symposium on Computer Applications in Medical Care, 261-265.
    .. [2] Ripley, B. D. (1996). Pattern Recognition and Neural Networks. Cambridge University Press.
       https://doi.org/10.1017/CBO9780511812651
    .. [3] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via
       hybrid Monte Carlo. Advances in Neural Information Processing Systems 9. Section 3.
    .. [4] Opper, M., & Winther, O. (2000). Gaussian processes for classification: mean-field
       algorithms. Neural Computation 12(11), 2655-2684. https://doi.org/10.1162/089976600300014881
       Section 8: rescaling; section 8.2: split, table 2.
    .. [5] Venables, W. N., & Ripley, B. D. (2002). Modern Applied Statistics with S, 4th edition.
       Springer. https://doi.org/10.1007/978-0-387-21706-2

    Examples
    --------
    >>> from bayesgp_mf.datasets import load_pima
    >>> pima = load_pima(standardise=False)
    >>> pima
    Dataset('pima': 200 training rows (No 132, Yes 68), 332 test rows (No 223, Yes 109), 7 raw inputs)
    >>> dict(zip(pima.feature_names, pima.X[0].tolist()))["glu"]
    86.0
    """
    training, test = read_columns("pima_train.csv"), read_columns("pima_test.csv")
    return assemble(
        name="pima",
        X=np.vstack([input_matrix(rows, _FEATURE_NAMES) for rows in (training, test)]),
        y=np.array(training["type"] + test["type"]),
        train=np.repeat([True, False], [len(training["type"]), len(test["type"])]),
        standardise=standardise,
        as_frame=as_frame,
        label="type",
        feature_names=_FEATURE_NAMES,
        units=_UNITS,
        description=_DESCRIPTION,
    )
