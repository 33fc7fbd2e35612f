"""What stands in a solution where a method has no variance and no evidence: whatever is asked of it is an error.

The support-vector machine is the limit of a posterior that has shrunk to a point (2000, section 7). Its weights
are a solution like any other, but a variance of zero, or an evidence of minus infinity, would be taken for numbers.
"""

from __future__ import annotations

from typing import Any

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.solution import Evidence, LeaveOneOut
from bayesgp_mf.matrices.matrix import Correction
from bayesgp_mf.types import Array


def undefined(method: str, quantity: str) -> UndefinedQuantityError:
    """Return the error to raise where a method is asked for what it does not have."""
    return UndefinedQuantityError(
        f"method {method!r} has no {quantity}: it is a limit in which the posterior is a single function. "
        "Use method='tap' with the same kernel."
    )


def without_cases(quantity: str) -> UndefinedQuantityError:
    """Return the error to raise where something of each case is asked for, and no case is here."""
    return UndefinedQuantityError(
        f"this is a fit to a table in parts, whose cases stayed where the parts are: there is no {quantity}. Predict "
        "for cases that you have, predict(idata, X_new), or fit a part of the table as a whole: "
        "fit(X, y, kernel, inducing=...)."
    )


def _refused(quantity: str) -> Any:
    def refuse(self: Any) -> Any:
        raise undefined(self.method, quantity)

    return property(refuse, doc=f"An UndefinedQuantityError: there is no {quantity}.")


class UndefinedEvidence(Evidence):
    """The evidence of a method that has none.

    Parameters
    ----------
    method : str
        Its name, for the error message.
    """

    __slots__ = ("method",)
    method: str
    value = _refused("evidence")
    standard_error = _refused("evidence")

    def __init__(self, method: str) -> None:
        for name, given in (("method", method), ("kind", "none"), ("bound", None)):
            object.__setattr__(self, name, given)

    def __reduce__(self) -> tuple[type, tuple[str]]:  # to be copied without its value being read
        return type(self), (self.method,)

    def __repr__(self) -> str:
        return f"UndefinedEvidence({self.method!r})"

    def __str__(self) -> str:
        return f"no log evidence: method {self.method!r} has none"


class UndefinedCorrection(Correction):
    """The correction R of a method without a posterior covariance.

    Parameters
    ----------
    method : str
        Its name, for the error message.
    """

    def __init__(self, method: str) -> None:
        self.method = method

    def dense(self) -> Array:
        """Raise an UndefinedQuantityError."""
        raise undefined(self.method, "posterior variance")


class LeaveOneOutFields(LeaveOneOut):
    """Leave-one-out predictions that are fields alone, without variances or densities.

    Parameters
    ----------
    method : str
        The name of the method that made them, for the error message.
    mean : (n,) array
        Leave-one-out fields, in latent units.
    """

    __slots__ = ("method",)
    method: str
    variance = _refused("leave-one-out variance")
    log_density = _refused("predictive density")

    def __init__(self, method: str, mean: Array) -> None:
        object.__setattr__(self, "method", method)
        object.__setattr__(self, "mean", mean)

    def __reduce__(self) -> tuple[type, tuple[str, Array]]:
        return type(self), (self.method, self.mean)

    def __repr__(self) -> str:
        return f"LeaveOneOutFields({self.method!r}, {self.mean!r})"
