r"""Kernels of the scaled distance :math:`r^2 = \sum_l (x_l - x'_l)^2 / \ell_l^2`.

A class states its profile k(r^2) at variance 1 and that profile's slope; everything else is common.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist, squareform

from bayesgp_mf.kernels.base import Leaf, check_columns, reduce_like
from bayesgp_mf.kernels.parameters import positive
from bayesgp_mf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class Stationary(Leaf):
    r"""A kernel of the scaled distance, with one length scale for all inputs or one for each.

    Parameters
    ----------
    lengthscale : float or (d,) array
        :math:`\ell` in the units of the inputs; the papers' w_l is :math:`1/\ell_l^2`.
    variance : float
        v_0, the prior variance of the process, in squared latent units.

    Raises
    ------
    ValueError
        If a parameter is not finite and positive; on use, if ``lengthscale`` does not fit the inputs.
    """

    lengthscale: ArrayLike = 1.0
    variance: ArrayLike = 1.0
    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", positive("lengthscale", self.lengthscale, vector=True))
        object.__setattr__(self, "variance", positive("variance", self.variance))

    @abc.abstractmethod
    def profile(self, squared: Array) -> Array:
        """Return k at variance 1 for squared scaled distances."""

    @abc.abstractmethod
    def slope(self, squared: Array) -> Array:
        """Return dk/d(r^2) at variance 1."""

    def _squared(self, X: Array) -> Array:
        # differences, not inner products: equal inputs get distance zero exactly
        return np.asarray(pdist(self._scaled(X), "sqeuclidean"))

    def _scaled(self, X: Array) -> Array:
        lengthscale = self.params["lengthscale"]
        check_columns("lengthscale", lengthscale, X)
        return X / lengthscale

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric, with ``variance`` on the diagonal."""
        gram = squareform(self.params["variance"] * self.profile(self._squared(X)))
        np.fill_diagonal(gram, self.params["variance"])
        return np.asarray(gram)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        squared = np.asarray(cdist(self._scaled(A), self._scaled(B), "sqeuclidean"))
        return np.asarray(self.params["variance"] * self.profile(squared))

    def diag(self, X: Array) -> Array:
        """Return ``variance`` for each case, ``(n,)``."""
        return np.full(X.shape[0], float(self.params["variance"]))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        r"""Return the pull-back of ``gram_bar``; for the length scales without any (n, n, d) array.

        With :math:`M = \bar K \odot \partial k / \partial r^2`, the sum over pairs
        :math:`\sum_{ij} M_{ij} (x_{il} - x_{jl})^2` is some matrix products for all l at once.
        """
        # each pair once; a case and itself are at distance zero whatever the length scale
        squared, bar = self._squared(X), squareform(gram_bar, checks=False)
        profile, slope = self._profile_and_slope(squared)
        variance_bar = float(gram_bar.trace() + 2.0 * np.vdot(bar, profile))
        slope *= bar
        slopes, a = squareform(slope), X - X.mean(axis=0)
        pairs = slopes.sum(axis=1) @ a**2 - np.einsum("il,il->l", a, slopes @ a)
        return self._by_name(2.0 * pairs, variance_bar)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``, as `gram_vjp` does."""
        squared = np.asarray(cdist(self._scaled(A), self._scaled(B), "sqeuclidean"))
        profile, slope = self._profile_and_slope(squared)
        variance_bar = float(np.vdot(cross_bar, profile))
        slope *= cross_bar
        centre = A.mean(axis=0)
        a, b = A - centre, B - centre
        pairs = slope.sum(axis=1) @ a**2 + slope.sum(axis=0) @ b**2 - 2.0 * np.einsum("il,il->l", a, slope @ b)
        return self._by_name(pairs, variance_bar)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """Return both, at the cost of one where the slope follows from the profile."""
        return self.profile(squared), self.slope(squared)

    def _by_name(self, pairs: Array, variance_bar: float) -> dict[str, Array]:
        lengthscale, variance = self.params["lengthscale"], self.params["variance"]
        return {
            "lengthscale": reduce_like(lengthscale, -2.0 * variance * pairs / lengthscale**3),
            "variance": np.asarray(variance_bar),
        }


class Gaussian(Stationary):
    r"""Gaussian kernel :math:`v_0 \exp(-r^2/2)` (2000, appendix B, item 3; 1998, eq. 2).

    Parameters
    ----------
    lengthscale : float or (d,) array
        :math:`\ell`, in the units of the inputs; the papers' w_l is :math:`1/\ell_l^2`.
    variance : float
        v_0, in squared latent units.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Gaussian
    >>> Gaussian(lengthscale=2.0).gram(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def profile(self, squared: Array) -> Array:
        """Return exp(-r^2/2)."""
        return np.exp(-0.5 * squared)

    def slope(self, squared: Array) -> Array:
        """Return -exp(-r^2/2)/2."""
        return -0.5 * self.profile(squared)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        profile = self.profile(squared)
        return profile, -0.5 * profile


class Matern32(Stationary):
    r"""Matern kernel of smoothness 3/2, :math:`v_0 (1 + \sqrt3 r) \exp(-\sqrt3 r)`.

    Parameters
    ----------
    lengthscale, variance : float
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern32
    >>> Matern32().cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.4834]])
    """

    def profile(self, squared: Array) -> Array:
        """Return (1 + sqrt(3) r) exp(-sqrt(3) r)."""
        scaled = np.sqrt(3.0 * squared)
        return (1.0 + scaled) * np.exp(-scaled)

    def slope(self, squared: Array) -> Array:
        """Return -(3/2) exp(-sqrt(3) r)."""
        return -1.5 * np.exp(-np.sqrt(3.0 * squared))


class Matern52(Stationary):
    r"""Matern kernel of smoothness 5/2, :math:`v_0 (1 + \sqrt5 r + 5r^2/3) \exp(-\sqrt5 r)`.

    Parameters
    ----------
    lengthscale, variance : float
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern52
    >>> Matern52().cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.524]])
    """

    def profile(self, squared: Array) -> Array:
        """Return (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)."""
        scaled = np.sqrt(5.0 * squared)
        return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)

    def slope(self, squared: Array) -> Array:
        """Return -(5/6) (1 + sqrt(5) r) exp(-sqrt(5) r)."""
        scaled = np.sqrt(5.0 * squared)
        return -(5.0 / 6.0) * (1.0 + scaled) * np.exp(-scaled)


@dataclass(frozen=True, repr=False, eq=False)
class RationalQuadratic(Stationary):
    r"""Rational quadratic kernel :math:`v_0 (1 + r^2 / (2a))^{-a}`; shape a = 1 is the Cauchy kernel.

    The Cauchy kernel of 2000, appendix B, item 4, is :math:`v_0 / (1 + \sum_l w_l (x_l - x'_l)^2)^\delta`:
    shape :math:`a = \delta` and :math:`\ell_l = (2 a w_l)^{-1/2}`.

    Parameters
    ----------
    lengthscale, variance : float
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.
    shape : float
        a > 0; the kernel tends to the Gaussian one as a grows.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import RationalQuadratic
    >>> RationalQuadratic(shape=1.0).cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.6667]])
    """

    shape: ArrayLike = 1.0
    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance", "shape")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shape", positive("shape", self.shape))

    def profile(self, squared: Array) -> Array:
        """Return (1 + r^2/(2a))^-a."""
        a = float(self.params["shape"])
        return np.asarray(np.exp(-a * np.log1p(squared / (2.0 * a))))

    def slope(self, squared: Array) -> Array:
        """Return -(1 + r^2/(2a))^(-a-1) / 2."""
        a = float(self.params["shape"])
        return np.asarray(-0.5 * np.exp(-(a + 1.0) * np.log1p(squared / (2.0 * a))))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``, the shape's among them."""
        return {**super().gram_vjp(X, gram_bar), "shape": self._shape_vjp(squareform(self._squared(X)), gram_bar)}

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``, the shape's among them."""
        squared = np.asarray(cdist(self._scaled(A), self._scaled(B), "sqeuclidean"))
        return {**super().cross_vjp(A, B, cross_bar), "shape": self._shape_vjp(squared, cross_bar)}

    def _shape_vjp(self, squared: Array, bar: Array) -> Array:
        ratio = squared / (2.0 * float(self.params["shape"]))
        derivative = self.profile(squared) * (ratio / (1.0 + ratio) - np.log1p(ratio))
        return np.asarray(float(self.params["variance"]) * np.sum(bar * derivative))
