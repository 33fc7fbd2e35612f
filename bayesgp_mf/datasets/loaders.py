"""The bundled sets: diabetes in Pima women, sonar returns, crabs and forensic glass."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from bayesgp_mf.arguments import check_flags
from bayesgp_mf.datasets.dataset import Dataset, FrameDataset
from bayesgp_mf.datasets.tables import assemble, check_integer, read_columns, table_of


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
    columns = {name: training[name] + test[name] for name in training}
    train = np.repeat([True, False], [len(training["type"]), len(test["type"])])
    return assemble(table_of("pima"), columns, train, standardise=standardise, as_frame=as_frame)


# The rows the original files mark as training rows of the aspect-angle-dependent experiments, one bit a
# row: the most significant bit is the first row of the file, 1 is a training row. The file that packages
# hand on has lost these marks.
_ROWS = 208
_TRAINING_ROWS = 0xFBEFD5DEDA6B82704615CAAD6B14CB4B083A9E42AB8D7A15180A


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
    check_flags(exchange=exchange)
    marked = np.array([bit == "1" for bit in format(_TRAINING_ROWS, f"0{_ROWS}b")])
    train = ~marked if exchange else marked
    return assemble(table_of("sonar"), read_columns("sonar.csv"), train, standardise=standardise, as_frame=as_frame)


# The file holds four blocks of rows: blue males, blue females, orange males, orange females.
_GROUPS = 4
_GROUP_ROWS = 50
_GROUP_TRAINING_ROWS = 20


@overload
def load_crabs(*, draw: int = ..., standardise: bool = ..., as_frame: Literal[False] = ...) -> Dataset: ...
@overload
def load_crabs(*, draw: int = ..., standardise: bool = ..., as_frame: Literal[True]) -> FrameDataset: ...
def load_crabs(*, draw: int = 0, standardise: bool = True, as_frame: bool = False) -> Dataset | FrameDataset:
    """Load the Leptograpsus crabs of Campbell and Mahon: sex from five measures and the colour.

    The literature ([2]_, [3]_, [4]_) trains on 20 crabs of each sex and colour and tests on the other
    120, but never says which 20. ``draw`` numbers the random choices of such a split.

    Parameters
    ----------
    draw : int
        Number ``k >= 0`` of the random split. With ``rng = numpy.random.default_rng(k)``, each of the
        four groups in file order trains on the rows ``rng.permutation(50)[:20]`` of the group.
    standardise : bool
        Rescale each input, colour too, to zero mean and unit variance over the training rows
        (``ddof=0``), and the test rows with the same numbers, as [3]_ and [4]_ do.
    as_frame : bool
        Return data frames of pandas, with the names of the inputs and the numbers of the rows.

    Returns
    -------
    Dataset, or FrameDataset
        ``X (80, 6)``, ``X_test (120, 6)``; classes ``F`` and ``M``, 40 of each for training and 60 of
        each for test. Inputs ``FL RW CL CW BD`` in mm and ``colour``, 0 blue or 1 orange. Rows on both
        sides in ascending order of their place in the file.

    Raises
    ------
    ValueError
        If ``draw`` is not an integer >= 0, or ``standardise`` is not a bool.

    Notes
    -----
    One draw says little: over the draws 0 to 99 a linear discriminant makes 2 to 10 test errors, and the
    published counts of [4]_ (table 2) are 2 to 8. Report the distribution over draws. Within a group
    the file is sorted by size, so "the first 20" would ask for extrapolation to larger animals.

    Source: ``crabs`` in MASS, the R package of [5]_.

    Licence: MASS is GPL-2 or GPL-3; its authors understand its data files not to be copyright. The
    values are those of [1]_.

    References
    ----------
    .. [1] Campbell, N. A., & Mahon, R. J. (1974). A multivariate study of variation in two species of
       rock crab of the genus Leptograpsus. Australian Journal of Zoology 22(3), 417-425.
       https://doi.org/10.1071/ZO9740417
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
    >>> from bayesgp_mf.datasets import load_crabs
    >>> crabs = load_crabs(draw=0)
    >>> crabs
    Dataset('crabs': 80 training rows (F 40, M 40), 120 test rows (F 60, M 60), 6 standardised inputs)
    >>> crabs.feature_names
    ('FL', 'RW', 'CL', 'CW', 'BD', 'colour')
    """
    advice = "Pass draw=0 for one split, or each of range(100) for the distribution over splits."
    draw = check_integer("draw", draw, low=0, expected="an integer >= 0", advice=advice)
    rng, train = np.random.default_rng(draw), np.zeros(_GROUPS * _GROUP_ROWS, dtype=np.bool_)
    for group in range(_GROUPS):
        train[_GROUP_ROWS * group + rng.permutation(_GROUP_ROWS)[:_GROUP_TRAINING_ROWS]] = True
    columns = read_columns("crabs.csv")
    columns["colour"] = ["1" if form == "O" else "0" for form in columns["sp"]]
    return assemble(table_of("crabs"), columns, train, standardise=standardise, as_frame=as_frame)


_FOLDS = 10


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
        expected = f"None or an integer from 1 to {_FOLDS}"
        advice = "Pass the fold to test on, or fold=None for all rows as training rows."
        fold = check_integer("fold", fold, low=1, high=_FOLDS, expected=expected, advice=advice)
    columns = read_columns("forensic_glass.csv")
    folds = np.array(columns["fold"], dtype=np.int64)
    train = np.ones(folds.shape, dtype=np.bool_) if fold is None else folds != fold
    return assemble(table_of("forensic_glass"), columns, train, standardise=standardise, as_frame=as_frame, fold=folds)
