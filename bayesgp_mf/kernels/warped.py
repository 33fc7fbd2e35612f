"""Kernels of inputs that went through a map, such as columns made straighter by the power of Yeo and Johnson."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize_scalar

from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.kernels.combinations import Entrywise, OfOne, check_of_one, depth_around
from bayesgp_mf.kernels.values import Columns, Span, as_columns, chosen, positions
from bayesgp_mf.types import Array

STEEPEST = 4.0
"""How far powers may be from 1, to either side: the mirror of a column has the power 2 - p."""
FARTHEST = 300.0
"""Logarithm beyond which a transformed number stays there: numbers end at 10^308, and their differences before."""


class WarpedInputs(OfOne, Entrywise):
    """A kernel of inputs of which some columns went through a map, which is chosen and not tuned."""

    columns: tuple[str | int, ...]

    @abc.abstractmethod
    def warp(self, X: Array) -> Array:
        """Return inputs ``(n, d)`` as the kernel below sees them."""

    @abc.abstractmethod
    def _unwarped(self, X: Array, gradient: Array) -> Array:
        """Return a gradient in inputs ``X (n, d)``, given that in those which the kernel below sees."""

    def _value(self, values: Any) -> Array:
        (value,) = values
        return np.asarray(value)

    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        return [bar]

    def _seen(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        first = self.warp(inputs[0])
        return (first, *(first if each is inputs[0] else self.warp(each) for each in inputs[1:]))

    def _each(self, method: str, inputs: tuple[Array, ...]) -> Iterator[Array]:
        return super()._each(method, self._seen(inputs))

    def _parameter_vjp(self, method: str, inputs: tuple[Array, ...], bar: Array) -> dict[str, Array]:
        return super()._parameter_vjp(method, self._seen(inputs), bar)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` through the kernel below and the map to ``B (b, d)``."""
        first, second = self._seen((A, B))
        return self._unwarped(B, self.kernel.inputs_vjp(first, second, cross_bar))

    def spans(self, X: Array) -> dict[str, Span]:
        """Return those of the kernel below, of columns as it sees them."""
        return self.kernel.spans(self.warp(X))

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        named = self.kernel.with_column_names(names)
        if named is self.kernel and not any(isinstance(column, str) for column in self.columns):
            return self
        return self._made_with({"kernel": named, "columns": positions(self.columns, names)})

    def __repr__(self) -> str:
        plain = {n: list(value) if isinstance(value, tuple) else value for n, value in self._made_of().items()}
        others = ", ".join(f"{name}={value!r}" for name, value in plain.items() if name != "kernel")
        return f"{type(self).__name__}({self.kernel!r}, {others})"


class Warped(WarpedInputs):
    r"""A kernel of inputs of which some columns went through the transformation of Yeo and Johnson.

    With :math:`z = (x - \mathrm{centre}) / \mathrm{scale}` and a power p, a column becomes [1]_
    :math:`((1 + z)^p - 1) / p` where z >= 0, and :math:`-((1 - z)^{2 - p} - 1) / (2 - p)` elsewhere: logarithms where
    the exponent is 0. A power below 1 draws in a long tail of large values, one above 1 of small ones. Length scales
    are then in units of z. A number whose transform is beyond 10^130 is there.

    Parameters
    ----------
    kernel : Kernel
        Of the columns as they became; the other columns stay as they are.
    columns : str, int or sequence of them
        Which go through it, by name in a data frame or by position.
    power, centre, scale : float or sequence of float
        One for all, or one for each of the columns, in their order. They are chosen, not tuned: see `straightened`.

    Raises
    ------
    ValueError
        If a number is not finite, a power not between -3 and 5, a scale not positive, or there are not as many as
        columns.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    References
    ----------
    .. [1] Yeo, I.-K., & Johnson, R. A. (2000). A new family of power transformations to improve normality or symmetry.
       Biometrika 87, 954-959.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Gaussian, Warped
    >>> kernel = Warped(Gaussian(1.0), columns=0, power=0.0)  # of log(1 + x)
    >>> kernel.cross(np.array([[0.0]]), np.array([[np.e - 1.0]])).round(4)
    array([[0.6065]])
    >>> list(kernel.params)
    ['lengthscale', 'variance']
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: Columns,
        power: float | Sequence[float],
        centre: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 1.0,
    ) -> None:
        check_of_one("Warped", kernel)
        found = as_columns(columns)
        if found is None:
            raise ValueError("columns must say which columns are warped, such as columns=[0, 2], got None.")
        self.kernel, self.columns = kernel, found
        self.power, self.centre, self.scale = (
            _numbers(name, given, len(found))
            for name, given in (("power", power), ("centre", centre), ("scale", scale))
        )
        if max(abs(power - 1.0) for power in self.power) > STEEPEST:
            limits = f"{1.0 - STEEPEST:g} and {1.0 + STEEPEST:g}"
            raise ValueError(f"power must be between {limits}, got {list(self.power)}.")
        if min(self.scale) <= 0:
            raise ValueError(f"scale must be > 0, got {list(self.scale)}.")
        self.depth: int = depth_around([kernel])

    def warp(self, X: Array) -> Array:
        """Return inputs ``(n, d)`` as the kernel below sees them."""
        warped = np.array(X, dtype=np.float64)
        columns = list(positions(self.columns, None))
        warped[:, columns] = yeo_johnson(self._units(X), np.array(self.power))
        return warped

    def _units(self, X: Array) -> Array:
        with np.errstate(over="ignore"):  # far out all is at the end
            return np.asarray((chosen(self.columns, X) - np.array(self.centre)) / np.array(self.scale))

    def _unwarped(self, X: Array, gradient: Array) -> Array:
        result = np.array(gradient)
        result[:, list(positions(self.columns, None))] *= self._stretch(X)
        return result

    @property
    def has_slopes(self) -> bool:
        """Whether the kernel below has them."""
        return self.kernel.has_slopes

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the covariances ``(a, b)`` of slopes in columns as they were, by the chain rule."""
        seen = self._seen((A, B))
        return self._stretches(A, B, first, second) * self.kernel.slopes(seen[0], seen[1], first, second)

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``bar (a, b)`` through the kernel below."""
        seen = self._seen((A, B))
        return self.kernel.slopes_vjp(seen[0], seen[1], first, second, bar * self._stretches(A, B, first, second))

    def _stretches(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the products ``(a, b)`` of the slopes of the transformation at both."""
        columns = list(positions(self.columns, None))
        left, right = (
            self._stretch(X)[:, columns.index(column)] if column in columns else np.ones(X.shape[0])
            for X, column in ((A, first), (B, second))
        )
        return np.asarray(left[:, None] * right)

    def _stretch(self, X: Array) -> Array:
        """Return the slope of the transformation in each of its columns ``(n, k)``."""
        z = self._units(X)
        of_slope = np.where(z < 0, 1.0 - np.array(self.power), np.array(self.power) - 1.0)
        log = np.minimum(np.log1p(np.abs(z)), FARTHEST)
        stays = np.maximum(1.0, of_slope + 1.0) * log >= FARTHEST  # where nothing moves any more
        slope = np.where(stays, 0.0, np.exp(np.where(stays, 0.0, of_slope * log)))
        return np.asarray(slope / np.array(self.scale))

    def _made_of(self) -> dict[str, Any]:
        numbers = {"power": self.power, "centre": self.centre, "scale": self.scale}
        return {"kernel": self.kernel, "columns": self.columns, **numbers}


def yeo_johnson(z: Array, power: Array) -> Array:
    """Return numbers ``(n, k)`` transformed by the power ``(k,)`` of their column."""
    sign = np.where(z < 0, -1.0, 1.0)
    exponent = np.where(z < 0, 2.0 - power, power)
    log = np.minimum(np.log1p(np.abs(z)), FARTHEST)
    # the logarithm where the exponent is 0, of which the other form is a ratio of two zeros
    some = np.where(exponent == 0.0, 1.0, exponent)
    return sign * np.where(exponent == 0.0, log, np.expm1(np.minimum(some * log, FARTHEST)) / some)


def straightened(z: Array, weights: Array) -> float:
    """Return the power under which a column ``(n,)`` in its own units is nearest to normal, by maximum likelihood."""
    mean = partial(np.average, weights=weights)
    slope = float(mean(np.sign(z) * np.log1p(np.abs(z))))

    def loss(power: float) -> float:  # Yeo & Johnson (2000), eq. 3.1, a case
        y = yeo_johnson(z, np.array(power))
        return 0.5 * math.log(mean((y - mean(y)) ** 2)) - (power - 1.0) * slope

    found = minimize_scalar(loss, bounds=(1.0 - STEEPEST, 1.0 + STEEPEST), method="bounded")
    return round(float(found.x), 2)


def _numbers(name: str, given: float | Sequence[float], count: int) -> tuple[float, ...]:
    """Return one number for each column, or raise a ValueError."""
    try:
        values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        values = np.array([np.nan])
    if values.ndim != 1 or values.size not in (1, count) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a finite number, or {count} of them, one for each column, got {given!r}.")
    return tuple(np.broadcast_to(values, count).tolist())
