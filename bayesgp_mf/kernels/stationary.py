r"""Kernels of the scaled distance :math:`r^2 = \sum_l (x_l - x'_l)^2 / \ell_l^2`.

A class states its profile k(r^2) at variance 1 and that profile's slope; everything else is common.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist, squareform

from bayesgp_mf.kernels.base import Homogeneous, Kernel, drop_outdated
from bayesgp_mf.kernels.values import (
    Columns,
    Span,
    check_columns,
    chosen,
    chosen_pair,
    positions_among,
    put_back,
    reduce_like,
    span,
)
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.notebook import curve
from bayesgp_mf.types import Array

FARTHEST = 1000.0
"""In length scales; farther apart cases have no correlation, since exp(-1000) is zero."""
PAIRS = 2**16
"""Pairs of cases handled at once: what is worked out for them stays in the processor's cache."""


class _Slopes(NamedTuple):
    """Covariances of slopes, by what they are made of.

    Attributes
    ----------
    columns : list of int
        In which they are slopes, among those of the kernel.
    bent, straight : (a, b) array
        What has a factor u for each slope; what has none, which is zero but for two slopes in one column.
    by_squared : (a, b) array
        The derivative of both in r^2.
    squared : (a, b) array
        r^2.
    """

    columns: list[int]
    bent: Array
    straight: Array
    by_squared: Array
    squared: Array


@dataclass(frozen=True, repr=False, eq=False)
class Stationary(Homogeneous):
    r"""A kernel of the scaled distance, with one length scale for all inputs or one for each.

    Parameters
    ----------
    lengthscale : float or (d,) array
        :math:`\ell` in the units of the inputs; the papers' w_l is :math:`1/\ell_l^2`.
    variance : float
        v_0, the prior variance of the process, in squared latent units.
    columns : str, int or sequence of them, optional
        The inputs whose distance counts, by name in a data frame or by position; all by default. ``lengthscale`` may
        then have one entry for each of them, in their order.

    Raises
    ------
    ValueError
        If a parameter is not finite and positive, or ``columns`` are none; on use, if one of them does not fit the
        inputs, or is a name whose position `fit` has not found.

    Attributes
    ----------
    steep : bool
        Whether the slope grows without bound as cases come close. Gradients then take differences of each pair before
        they are squared: slower, with the digits that sums of squares less products lose where the slope is large.
    """

    lengthscale: ArrayLike = 1.0
    variance: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    setting_names: ClassVar[tuple[str, ...]] = ("columns",)
    per_input: ClassVar[tuple[str, ...]] = ("lengthscale",)
    scale_name: ClassVar[str | None] = "variance"
    diag_vjp = Homogeneous.diag_vjp  # which is right whatever `gram_vjp` is
    steep: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Stationary, {"_profile_and_slope": ("profile", "slope")})
        drop_outdated(cls, Stationary, {"curvatures": ("profile", "slope", "gram", "cross")})
        drop_outdated(cls, Kernel, {"on_great_circles": ("profile", "_both")})

    @abc.abstractmethod
    def profile(self, squared: Array) -> Array:
        """Return k at variance 1 for squared scaled distances."""

    @abc.abstractmethod
    def slope(self, squared: Array) -> Array:
        """Return dk/d(r^2) at variance 1."""

    def curvatures(self, squared: Array) -> tuple[Array, Array]:
        """Return the second and third derivative of k in r^2 at variance 1; zeros at distance zero if infinite there.

        What they are multiplied with is zero of a higher order. A kernel without this method has no slopes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no curvatures; kernels.Slope cannot be of it.")

    def _figure(self) -> str:
        return curve(self.profile(np.linspace(0.0, 3.0, 61) ** 2).tolist(), "correlation, 0 to 3 length scales apart")

    def _squared(self, X: Array) -> Array:
        # differences, not inner products: equal inputs get distance zero exactly
        return np.asarray(pdist(self._scaled(X), "sqeuclidean"))

    def _scaled(self, X: Array) -> Array:
        lengthscale = self.params["lengthscale"]
        check_columns("lengthscale", lengthscale, X)
        return X / lengthscale

    def spans(self, X: Array) -> dict[str, Span]:
        """Return from a tenth of the median distance of two cases to the largest, in the columns that it sees."""
        X = chosen(self.columns, X)
        check_columns("lengthscale", self.params["lengthscale"], X)
        return {"lengthscale": span(self.params["lengthscale"], X)}

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric, with ``variance`` on the diagonal."""
        X = chosen(self.columns, X)
        gram = squareform(self.params["variance"] * self.profile(self._squared(X)))
        np.fill_diagonal(gram, self.params["variance"])
        return np.asarray(gram)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        A, B = chosen_pair(self.columns, np.asarray(A), np.asarray(B))
        cross = np.empty((A.shape[0], B.shape[0]))
        for rows, squared in self._squared_between(A, B):
            np.multiply(self.params["variance"], self.profile(squared), out=cross[rows])
        return cross

    def _squared_between(self, A: Array, B: Array) -> Iterator[tuple[slice, Array]]:
        """Yield some rows at a time, and their squared scaled distances from ``B``."""
        left, right = self._scaled(A), self._scaled(B)
        for rows in blocks(A.shape[0], max(PAIRS // max(B.shape[0], 1), 1)):
            yield rows, np.asarray(cdist(left[rows], right, "sqeuclidean"))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        r"""Return the pull-back of ``gram_bar``; for the length scales without any (n, n, d) array.

        With :math:`M = \bar K \odot \partial k / \partial r^2`, the sum over pairs
        :math:`\sum_{ij} M_{ij} (x_{il} - x_{jl})^2` is some matrix products for all l at once.
        """
        X = chosen(self.columns, X)
        # each pair once; a case and itself are at distance zero whatever the length scale
        squared, bar = self._squared(X), squareform(gram_bar, checks=False)
        profile, slope = self._profile_and_slope(squared)
        numbers = {name: 2.0 * value for name, value in self._numbers_vjp(squared, profile, bar).items()}
        numbers["variance"] += float(gram_bar.trace())
        slope *= bar
        if self.steep:
            pairs = np.array([slope @ pdist(X[:, [column]], "sqeuclidean") for column in range(X.shape[1])])
            return self._by_name(2.0 * pairs, numbers)
        slopes, a = squareform(slope), X - X.mean(axis=0)
        pairs = slopes.sum(axis=1) @ a**2 - np.einsum("il,il->l", a, slopes @ a)
        return self._by_name(2.0 * pairs, numbers)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``, as `gram_vjp` does."""
        A, B = chosen_pair(self.columns, A, B)
        centre = A.mean(axis=0)
        a, b = A - centre, B - centre
        pairs, columns = np.zeros(A.shape[1]), np.zeros(B.shape[0])
        numbers: dict[str, float] = {}
        for rows, squared in self._squared_between(A, B):
            profile, slope = self._profile_and_slope(squared)
            for name, value in self._numbers_vjp(squared, profile, cross_bar[rows]).items():
                numbers[name] = numbers.get(name, 0.0) + value
            slope *= cross_bar[rows]
            if self.steep:
                squares = (np.subtract.outer(x, z) ** 2 for x, z in zip(a[rows].T, b.T, strict=True))
                pairs += np.array([np.vdot(slope, square) for square in squares])
                continue
            pairs += slope.sum(axis=1) @ a[rows] ** 2 - 2.0 * np.einsum("il,il->l", a[rows], slope @ b)
            columns += slope.sum(axis=0)
        return self._by_name(pairs + columns @ b**2, numbers)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        r"""Return the pull-back of ``cross_bar`` to ``B``, ``(b, d)``, without any (a, b, d) array.

        With :math:`M` as in `gram_vjp`, it is :math:`2 v_0 \sum_i M_{ij} (b_{jl} - a_{il}) / \ell_l^2`. A pair at
        distance zero adds nothing, also where the slope is not finite there.
        """
        whole = B
        A, B = chosen_pair(self.columns, A, B)
        centre = A.mean(axis=0)
        a, b = A - centre, B - centre
        columns, products = np.zeros(B.shape[0]), np.zeros(B.shape)
        for rows, squared in self._squared_between(A, B):
            # equal inputs are left out, or they would come back as rounding
            slope = np.multiply(self.slope(squared), cross_bar[rows], out=np.zeros(squared.shape), where=squared > 0.0)
            columns += slope.sum(axis=0)
            products += slope.T @ a[rows]
        scale = 2.0 * self.params["variance"] / self.params["lengthscale"] ** 2
        return put_back(self.columns, np.asarray(scale * (columns[:, None] * b - products)), whole)

    @property
    def has_slopes(self) -> bool:
        """Whether it says how its profile bends."""
        return type(self).curvatures is not Stationary.curvatures

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        r"""Return the covariances ``(a, b)`` between slopes, or values, at ``A (a, d)`` and ``B (b, d)``.

        With :math:`u_l = (a_l - b_l) / \ell_l^2` and derivatives of k in :math:`r^2`, a slope in the first input is
        :math:`2 k' u_i`, one in the second its negative, and one in both
        :math:`-4 k'' u_i u_j - 2 \delta_{ij} k' / \ell_i^2`.
        """
        if first is None and second is None:
            return self.cross(A, B)
        parts = self._slopes(A, B, first, second)
        return np.zeros((A.shape[0], B.shape[0])) if parts is None else np.asarray(parts.bent + parts.straight)

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``bar (a, b)``."""
        if first is None and second is None:
            return self.cross_vjp(A, B, bar)
        parts = self._slopes(A, B, first, second)
        if parts is None:
            return {name: np.zeros(value.shape) for name, value in self.params.items()}
        A, B = chosen_pair(self.columns, A, B)
        lengthscale = np.broadcast_to(self.params["lengthscale"], A.shape[1])
        slope = bar * parts.by_squared
        squares = (np.subtract.outer(x, z) ** 2 for x, z in zip(A.T, B.T, strict=True))
        by_lengthscale = -2.0 * np.array([np.vdot(slope, square) for square in squares]) / lengthscale**3
        for column in parts.columns:  # u, of which each is over the square of its length scale
            by_lengthscale[column] -= 2.0 * float(np.vdot(bar, parts.bent)) / lengthscale[column]
        by_lengthscale[parts.columns[0]] -= 2.0 * float(np.vdot(bar, parts.straight)) / lengthscale[parts.columns[0]]
        numbers = {name: np.asarray(value) for name, value in self._numbers_of_slopes_vjp(parts, bar).items()}
        return {"lengthscale": reduce_like(self.params["lengthscale"], by_lengthscale), **numbers}

    def _numbers_of_slopes_vjp(self, parts: _Slopes, bar: Array) -> dict[str, float]:
        """Return the derivative in each parameter that is one number for all inputs, in order."""
        return {"variance": float(np.vdot(bar, parts.bent + parts.straight)) / float(self.params["variance"])}

    def _slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> _Slopes | None:
        """Return what covariances of slopes are made of, or None where the kernel is not of one of the columns."""
        ours = range(A.shape[1]) if self.columns is None else positions_among(self.columns, A.shape[1])
        if any(column is not None and column not in ours for column in (first, second)):
            return None
        columns = [list(ours).index(column) for column in (first, second) if column is not None]
        A, B = chosen_pair(self.columns, A, B)
        squared = np.asarray(cdist(self._scaled(A), self._scaled(B), "sqeuclidean"))
        lengthscale = np.broadcast_to(self.params["lengthscale"], A.shape[1])
        u = [np.subtract.outer(A[:, column], B[:, column]) / lengthscale[column] ** 2 for column in columns]
        variance = float(self.params["variance"])
        slope, (second_derivative, third) = self.slope(squared), self.curvatures(squared)
        if len(u) == 1:
            sign = 2.0 * variance * (1.0 if second is None else -1.0)
            return _Slopes(
                columns, sign * slope * u[0], np.zeros(squared.shape), sign * second_derivative * u[0], squared
            )
        # far out a product of both u is beyond all numbers, where a derivative is zero
        bent, by_squared = (-4.0 * variance * u[0] * (u[1] * each) for each in (second_derivative, third))
        own = -2.0 * variance * float(columns[0] == columns[1]) / lengthscale[columns[0]] ** 2
        return _Slopes(columns, bent, own * slope, by_squared + own * second_derivative, squared)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """Return both, at the cost of one where they share their parts."""
        return self.profile(squared), self.slope(squared)

    def _numbers_vjp(self, squared: Array, profile: Array, bar: Array) -> dict[str, float]:
        """Return what these pairs add for each parameter that is one number for all inputs, in order."""
        return {"variance": float(np.vdot(bar, profile))}

    def _by_name(self, pairs: Array, numbers: dict[str, float]) -> dict[str, Array]:
        lengthscale, variance = self.params["lengthscale"], self.params["variance"]
        by_lengthscale = reduce_like(lengthscale, -2.0 * variance * pairs / lengthscale**3)
        return {"lengthscale": by_lengthscale, **{name: np.asarray(value) for name, value in numbers.items()}}


class Gaussian(Stationary):
    r"""Gaussian kernel :math:`v_0 \exp(-r^2/2)` (2000, appendix B, item 3; 1998, eq. 2).

    Parameters
    ----------
    lengthscale : float or (d,) array
        :math:`\ell`, in the units of the inputs; the papers' w_l is :math:`1/\ell_l^2`.
    variance : float
        v_0, in squared latent units.
    columns : str, int or sequence of them, optional
        The inputs whose distance counts, by name in a data frame or by position; all by default.

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
        return -0.5 * np.exp(-0.5 * squared)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        profile = self.profile(squared)
        return profile, -0.5 * profile

    def curvatures(self, squared: Array) -> tuple[Array, Array]:
        """Return exp(-r^2/2)/4 and -exp(-r^2/2)/8."""
        profile = self.profile(squared)
        return 0.25 * profile, -0.125 * profile


class _Shared(Stationary):
    """A kernel whose profile and slope are worked out together."""

    def profile(self, squared: Array) -> Array:
        """Return k at variance 1 for squared scaled distances."""
        return self._both(squared)[0]

    def slope(self, squared: Array) -> Array:
        """Return dk/d(r^2) at variance 1; what it is multiplied with at distance zero is zero of a higher order."""
        return self._both(squared)[1]

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        return self._both(squared)

    @abc.abstractmethod
    def _both(self, squared: Array) -> tuple[Array, Array]:
        """Return both; a class derived from this one may change either."""


class Matern12(_Shared):
    r"""Matern kernel of smoothness 1/2, :math:`v_0 \exp(-r)`: that of an Ornstein-Uhlenbeck process on a line.

    Its functions are continuous and nowhere smooth.

    Parameters
    ----------
    lengthscale, variance, columns
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern12
    >>> Matern12().cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.3679]])
    """

    steep: ClassVar[bool] = True

    @property
    def on_great_circles(self) -> bool:
        """Yes [Gneiting 2013, table 1]; no other Matern kernel is at every length scale."""
        return True

    def profile(self, squared: Array) -> Array:
        """Return exp(-r)."""
        return np.exp(-np.sqrt(squared))

    def _both(self, squared: Array) -> tuple[Array, Array]:
        """Return exp(-r), and -exp(-r)/(2r) but 0 at distance zero."""
        root = np.sqrt(squared)
        decay = np.exp(-root)
        return decay, np.divide(-0.5 * decay, root, out=np.zeros_like(root), where=root > 0.0)


class Matern32(_Shared):
    r"""Matern kernel of smoothness 3/2, :math:`v_0 (1 + \sqrt3 r) \exp(-\sqrt3 r)`.

    Parameters
    ----------
    lengthscale, variance, columns
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern32
    >>> Matern32().cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.4834]])
    """

    def _both(self, squared: Array) -> tuple[Array, Array]:
        """Return (1 + sqrt(3) r) exp(-sqrt(3) r) and -(3/2) exp(-sqrt(3) r)."""
        root = np.minimum(np.sqrt(3.0 * squared), FARTHEST)
        decay = np.exp(-root)
        return (1.0 + root) * decay, -1.5 * decay

    def curvatures(self, squared: Array) -> tuple[Array, Array]:
        """Return (9/4) exp(-s)/s and -(27/8) (1 + s) exp(-s)/s^3, where s is sqrt(3) r; zero at distance zero."""
        root = np.minimum(np.sqrt(3.0 * squared), FARTHEST)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        second = 2.25 * np.exp(-root) * inverse
        return second, -1.5 * second * (1.0 + root) * inverse**2


class Matern52(_Shared):
    r"""Matern kernel of smoothness 5/2, :math:`v_0 (1 + \sqrt5 r + 5r^2/3) \exp(-\sqrt5 r)`.

    Parameters
    ----------
    lengthscale, variance, columns
        As for `Gaussian`; ``lengthscale`` may be ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern52
    >>> Matern52().cross(np.array([[0.0]]), np.array([[1.0]])).round(4)
    array([[0.524]])
    """

    def _both(self, squared: Array) -> tuple[Array, Array]:
        """Return (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r) and -(5/6) (1 + sqrt(5) r) exp(-sqrt(5) r)."""
        root = np.minimum(np.sqrt(5.0 * squared), FARTHEST)
        decay = np.exp(-root)
        return (1.0 + root + root**2 / 3.0) * decay, -(5.0 / 6.0) * (1.0 + root) * decay

    def curvatures(self, squared: Array) -> tuple[Array, Array]:
        """Return (25/12) exp(-s) and -(125/24) exp(-s)/s, where s is sqrt(5) r; the latter zero at distance zero."""
        root = np.minimum(np.sqrt(5.0 * squared), FARTHEST)
        second = (25.0 / 12.0) * np.exp(-root)
        return second, np.divide(-2.5 * second, root, out=np.zeros_like(root), where=root > 0.0)


@dataclass(frozen=True, repr=False, eq=False)
class RationalQuadratic(Stationary):
    r"""Rational quadratic kernel :math:`v_0 (1 + r^2 / (2a))^{-a}`; shape a = 1 is the Cauchy kernel.

    The Cauchy kernel of 2000, appendix B, item 4, is :math:`v_0 / (1 + \sum_l w_l (x_l - x'_l)^2)^\delta`:
    shape :math:`a = \delta` and :math:`\ell_l = (2 a w_l)^{-1/2}`.

    Parameters
    ----------
    lengthscale, variance, columns
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

    def profile(self, squared: Array) -> Array:
        """Return (1 + r^2/(2a))^-a."""
        a = float(self.params["shape"])
        return np.asarray(np.exp(-a * np.log1p(squared / (2.0 * a))))

    def slope(self, squared: Array) -> Array:
        """Return -(1 + r^2/(2a))^(-a-1) / 2."""
        a = float(self.params["shape"])
        return np.asarray(-0.5 * np.exp(-(a + 1.0) * np.log1p(squared / (2.0 * a))))

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        profile = self.profile(squared)
        return profile, -0.5 * profile / (1.0 + squared / (2.0 * float(self.params["shape"])))

    def curvatures(self, squared: Array) -> tuple[Array, Array]:
        """Return the slope times -(a+1)/(2a) / (1 + r^2/(2a)), and that times -(a+2)/(2a) / (1 + r^2/(2a))."""
        a = float(self.params["shape"])
        inverse = -0.5 / (a + 0.5 * squared)
        second = self.slope(squared) * (a + 1.0) * inverse
        return second, second * (a + 2.0) * inverse

    def _numbers_of_slopes_vjp(self, parts: _Slopes, bar: Array) -> dict[str, float]:
        a = float(self.params["shape"])
        ratio = parts.squared / (2.0 * a)
        # of log |k'| and of log k'', of which each has a power of 1 + r^2/(2a) and a factor
        by_slope = (a + 1.0) / a * ratio / (1.0 + ratio) - np.log1p(ratio)
        by_second = 1.0 / (a + 1.0) - 1.0 / a + (a + 2.0) / a * ratio / (1.0 + ratio) - np.log1p(ratio)
        bent = by_slope if len(parts.columns) == 1 else by_second
        by_shape = float(np.vdot(bar, parts.bent * bent + parts.straight * by_slope))
        return {**super()._numbers_of_slopes_vjp(parts, bar), "shape": by_shape}

    def _numbers_vjp(self, squared: Array, profile: Array, bar: Array) -> dict[str, float]:
        ratio = squared / (2.0 * float(self.params["shape"]))
        derivative = profile * (ratio / (1.0 + ratio) - np.log1p(ratio))
        by_shape = float(self.params["variance"]) * float(np.vdot(bar, derivative))
        return {**super()._numbers_vjp(squared, profile, bar), "shape": by_shape}
