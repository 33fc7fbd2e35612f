"""Estimators with scikit-learn's face, on the same core as `fit`; nothing in the package imports them.

They are an extra: ``pip install "bayesgp-mf[sklearn]"``.
"""

from __future__ import annotations

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    raise ModuleNotFoundError(
        'bayesgp_mf.sklearn needs scikit-learn, which is not installed: pip install "bayesgp-mf[sklearn]".',
        name="sklearn",
    ) from error

from bayesgp_mf.sklearn.classifier import GPClassifier
from bayesgp_mf.sklearn.regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor"]
