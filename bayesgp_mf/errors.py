"""What can go wrong, in words: the status of an iteration, the errors and the warnings."""

from __future__ import annotations

import enum
import inspect
import os
import warnings

_PACKAGE = os.path.dirname(__file__) + os.sep


class Status(enum.Enum):
    """How an iteration ended; the value of each member is the sentence a user reads.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> solution = bgp.solve([[1.0]], [1], bgp.Probit())
    >>> solution.info.status is bgp.Status.CONVERGED
    True
    >>> bgp.Status.CONVERGED.value
    'The equations hold to the requested tolerance.'
    """

    CONVERGED = "The equations hold to the requested tolerance."
    MAX_ITERATIONS = (
        "The largest number of iterations was reached before the tolerance. "
        "Raise Control(max_iterations=...) or start from a solution nearby."
    )
    STALLED = (
        "The residual stopped falling above the tolerance although the steps were damped. "
        "The Gram matrix may be too ill-conditioned for this tolerance, or the targets contradict each other: "
        "allow noise by kernels.White(...), or raise Control(tolerance=...)."
    )
    NO_VALID_STEP = (
        "No step, however short, led to a valid state: the equations may have no solution here. "
        "Allow noise by kernels.White(...)."
    )

    def advising(self, noise: str) -> str:
        """Return the sentence for a model that allows noise in other ways too: ``noise`` names all of them."""
        return str(self.value).replace("kernels.White(...)", noise)

    def for_classes(self, other_method: str | None) -> str:
        """Return the sentence where there are several classes, and perhaps another method that takes them."""
        sentence = str(self.value)
        if self is Status.CONVERGED:
            return sentence
        other = "" if other_method is None else f"method={other_method!r}, "
        what = sentence.partition(". ")[0]
        return f"{what}. Use {other}a larger Control(tolerance=...), or a kernel of less variance."


class ConvergenceError(RuntimeError):
    """A fixed point was not reached, so there is no result."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type, tuple[str, Status]]:  # so that it comes back from another process
        return type(self), (str(self), self.status)


class ConvergenceWarning(UserWarning):
    """Part of a computation did not converge; the message says what was done about it."""


class BoundWarning(UserWarning):
    """An optimised hyperparameter sits at a bound, or the evidence has none in it."""


class UndefinedQuantityError(ValueError):
    """The method or likelihood does not define the quantity that was asked for."""


class NotPositiveDefiniteError(ValueError):
    """A matrix that must be positive (semi-)definite is not."""


class LowRankError(ValueError):
    """A Gram matrix of low rank was asked for, and this one is not, to the accuracy that is needed."""


class DamagedFileError(ValueError):
    """A file, or what was read from it, is not what was written; the message says what of it."""


class InconsistentDataError(ValueError):
    """The labels have probability zero under the model, so there is no posterior."""


NO_SOLUTION = (ConvergenceError, NotPositiveDefiniteError, InconsistentDataError)
"""What says that a model of these cases has no solution."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)
