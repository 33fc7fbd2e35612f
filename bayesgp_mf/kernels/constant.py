"""Kernels that do not look at the inputs: one covariance for all, and independent noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csc_array, csr_array

from bayesgp_mf.kernels.base import Homogeneous
from bayesgp_mf.matrices.precision import Field
from bayesgp_mf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class Bias(Homogeneous):
    """Constant covariance: an offset common to all cases (v_1 in 2000, appendix B); ``k + 2.0`` is ``k + Bias(2.0)``.

    Parameters
    ----------
    variance : float
        Prior variance of the offset, in squared latent units.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Bias
    >>> Bias(2.0).gram(np.zeros((2, 1)))
    array([[2., 2.],
           [2., 2.]])
    """

    variance: ArrayLike = 1.0
    scale_name: ClassVar[str | None] = "variance"
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "nothing"
    flat: ClassVar[bool] = True

    @property
    def on_great_circles(self) -> bool:
        """Yes: no distance matters."""
        return True

    def cross(self, A: Array, B: Array) -> Array:
        """Return ``variance`` everywhere, ``(a, b)``."""
        return np.full((A.shape[0], B.shape[0]), float(self.params["variance"]))

    def field(self, X: Array) -> Field:
        """Return the field on one node."""
        variance = float(self.params["variance"])
        precision = csc_array([[1.0 / variance]])
        return Field(csr_array(np.ones((X.shape[0], 1))), precision, {"variance": -precision / variance})

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the sum of ``cross_bar``."""
        return {"variance": np.asarray(cross_bar.sum())}

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return zeros ``(b, d)``: no covariance depends on the inputs."""
        return np.zeros(B.shape)


@dataclass(frozen=True, repr=False, eq=False)
class White(Homogeneous):
    """Independent noise on every case, new cases too (v in 2000, eq. 39 and appendix A).

    It is part of the process: `gram` and `diag` include it, `cross` does not, so two cases with the same input still
    differ. ``Step()`` with White(v) is the same model as ``Probit(v)`` without.

    Parameters
    ----------
    variance : float
        v, in squared latent units.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import White
    >>> White(0.5).gram(np.zeros((2, 1)))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    variance: ArrayLike = 1.0
    scale_name: ClassVar[str | None] = "variance"
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "nothing"
    diag_vjp = Homogeneous.diag_vjp  # which is right whatever `gram_vjp` is

    def gram(self, X: Array) -> Array:
        """Return ``variance`` on the diagonal, ``(n, n)``."""
        return np.diag(self.diag(X))

    def cross(self, A: Array, B: Array) -> Array:
        """Return zeros ``(a, b)``: the noise of other cases is independent."""
        return np.zeros((A.shape[0], B.shape[0]))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the trace of ``gram_bar``."""
        return {"variance": np.asarray(np.trace(gram_bar))}

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return zero: `cross` does not depend on it."""
        return {"variance": np.zeros(())}

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return zeros ``(b, d)``: no covariance depends on the inputs."""
        return np.zeros(B.shape)
