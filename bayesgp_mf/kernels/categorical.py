"""Groups of cases: a random effect for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.kernels.base import FromCross
from bayesgp_mf.kernels.columns import Columns, as_columns, chosen_pair
from bayesgp_mf.kernels.values import positive
from bayesgp_mf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class Categorical(FromCross):
    """Covariance ``variance`` within a group and zero between groups: an offset for each, which are independent.

    This is the random intercept of a mixed model. ``Categorical(columns="clinic") * Linear(columns="dose")`` is a
    random slope, and any kernel in place of `Linear` a function for each group. A group without training cases is
    predicted from the prior. The rank of its Gram matrix is the number of groups.

    Parameters
    ----------
    variance : float
        Prior variance of each group's offset, in squared latent units.
    columns : str, int or sequence of them, optional
        The inputs that say to which group a case belongs, by name in a data frame or by position: numbers, which are
        only asked whether they are equal. Of several all must be; all inputs by default.

    Raises
    ------
    ValueError
        If ``variance`` is not finite and positive, or ``columns`` are none.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Categorical
    >>> Categorical(2.0).gram(np.array([[0.0], [1.0], [0.0]]))
    array([[2., 0., 2.],
           [0., 2., 0.],
           [2., 0., 2.]])
    """

    variance: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("variance",)
    setting_names: ClassVar[tuple[str, ...]] = ("columns",)
    scale_name: ClassVar[str | None] = "variance"

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive("variance", self.variance))
        object.__setattr__(self, "columns", as_columns(self.columns))

    def _equal(self, A: Array, B: Array) -> NDArray[np.bool_]:
        """Tell which cases ``(a, b)`` are of one group."""
        A, B = chosen_pair(self.columns, A, B)
        equal = np.equal.outer(A[:, 0], B[:, 0])
        for a, b in zip(A.T[1:], B.T[1:], strict=True):
            equal &= np.equal.outer(a, b)
        return np.asarray(equal)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return np.asarray(np.where(self._equal(A, B), self.params["variance"], 0.0))

    def diag(self, X: Array) -> Array:
        """Return ``variance`` for each case, ``(n,)``."""
        return np.full(X.shape[0], float(self.params["variance"]))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the sum of ``cross_bar`` within groups."""
        return {"variance": np.asarray(np.sum(cross_bar, where=self._equal(A, B)))}

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the sum of ``diag_bar``."""
        return {"variance": np.asarray(diag_bar.sum())}
