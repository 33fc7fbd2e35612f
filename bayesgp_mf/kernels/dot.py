r"""Kernels of the weighted inner product :math:`s(x,x') = \sum_l w_l x_l x'_l`."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import check_integers, check_one_of
from bayesgp_mf.kernels.base import FromCross
from bayesgp_mf.kernels.values import Columns, check_columns, chosen, chosen_pair, put_back, reduce_like
from bayesgp_mf.types import Array


def _inner(weight: Array, A: Array, B: Array) -> Array:
    check_columns("weight", weight, A)
    root = np.sqrt(weight)
    left = A * root
    # one product of a matrix with itself is exactly symmetric
    return left @ (left if B is A else B * root).T


def _inner_diag(weight: Array, X: Array) -> Array:
    check_columns("weight", weight, X)
    return np.asarray(np.sum(weight * X**2, axis=1))


def _weight_vjp(weight: Array, A: Array, B: Array, inner_bar: Array) -> Array:
    """Pull the derivative with respect to s(a_i, b_j) back to the weights, by one matrix product."""
    return reduce_like(weight, np.einsum("il,il->l", A, inner_bar @ B))


def _weight_diag_vjp(weight: Array, X: Array, inner_bar: Array) -> Array:
    """Pull the derivative with respect to s(x_i, x_i) back to the weights."""
    check_columns("weight", weight, X)
    return reduce_like(weight, inner_bar @ X**2)


def _inputs_vjp(weight: Array, A: Array, inner_bar: Array) -> Array:
    """Pull the derivative with respect to s(a_i, b_j) back to the second inputs, ``(b, d)``."""
    check_columns("weight", weight, A)
    return np.asarray(weight * (inner_bar.T @ A))


def _units(X: Array, column: int | None) -> Array:
    """Return inputs at which a linear function has the value of its slope in a column; the same ones, if it is None."""
    return X if column is None else np.tile(np.eye(X.shape[1])[column], (X.shape[0], 1))


class OfInner(FromCross):
    """A kernel that is a function of the weighted inner product alone."""

    weight: ArrayLike
    columns: Columns
    per_input: ClassVar[tuple[str, ...]] = ("weight",)

    @abc.abstractmethod
    def _value(self, inner: Array) -> Array:
        """Return the covariances, given the inner products."""

    @abc.abstractmethod
    def _bars(self, bar: Array, inner: Callable[[], Array]) -> tuple[Array, dict[str, Array]]:
        """Pull the derivative with respect to covariances back to their inner products, and to the other parameters."""

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return self._value(_inner(self.params["weight"], *chosen_pair(self.columns, A, B)))

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``."""
        return self._value(_inner_diag(self.params["weight"], chosen(self.columns, X)))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``."""
        weight, (A, B) = self.params["weight"], chosen_pair(self.columns, A, B)
        inner_bar, others = self._bars(cross_bar, lambda: _inner(weight, A, B))
        return {"weight": _weight_vjp(weight, A, B, inner_bar), **others}

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``diag_bar``."""
        weight, X = self.params["weight"], chosen(self.columns, X)
        inner_bar, others = self._bars(diag_bar, lambda: _inner_diag(weight, X))
        return {"weight": _weight_diag_vjp(weight, X, inner_bar), **others}

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` to ``B``, ``(b, d)``."""
        weight, whole = self.params["weight"], B
        A, B = chosen_pair(self.columns, A, B)
        inner_bar, _ = self._bars(cross_bar, lambda: _inner(weight, A, B))
        return put_back(self.columns, _inputs_vjp(weight, A, inner_bar), whole)


@dataclass(frozen=True, repr=False, eq=False)
class Linear(OfInner):
    r"""Linear kernel :math:`\sum_l w_l x_l x'_l` (2000, appendix B, item 1; add `Bias` for a threshold).

    Its Gram matrix has rank d at most.

    Parameters
    ----------
    weight : float or (d,) array
        w_l > 0, the prior variance of each input's coefficient.
    columns : str, int or sequence of them, optional
        The inputs that the kernel is of, by name in a data frame or by position; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Linear
    >>> Linear(weight=[1.0, 0.5]).cross(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[7.]])
    """

    weight: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("weight",)
    setting_names: ClassVar[tuple[str, ...]] = ("columns",)
    scale_name: ClassVar[str | None] = "weight"

    def _value(self, inner: Array) -> Array:
        return inner

    def _bars(self, bar: Array, inner: Callable[[], Array]) -> tuple[Array, dict[str, Array]]:
        return bar, {}

    @property
    def has_slopes(self) -> bool:
        """They are the coefficients."""
        return True

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the covariances ``(a, b)`` between coefficients, or values."""
        return self.cross(_units(A, first), _units(B, second))

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``bar (a, b)``."""
        return self.cross_vjp(_units(A, first), _units(B, second), bar)


@dataclass(frozen=True, repr=False, eq=False)
class Polynomial(OfInner):
    r"""Polynomial kernel :math:`v_0 (b + \sum_l w_l x_l x'_l)^k`.

    Parameters
    ----------
    degree : int
        k >= 1; chosen, not tuned.
    weight : float or (d,) array
        w_l > 0; the papers' :math:`(1 + x \cdot x'/d)^k` has w = 1/d.
    offset : float
        b >= 0; zero leaves only the terms of degree k.
    variance : float
        v_0, in squared latent units.
    columns : str, int or sequence of them, optional
        The inputs that the kernel is of, by name in a data frame or by position; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Polynomial
    >>> Polynomial(degree=2, weight=0.5).diag(np.array([[2.0]]))
    array([9.])
    """

    degree: int = 2
    weight: ArrayLike = 1.0
    offset: ArrayLike = 1.0
    variance: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("weight", "offset", "variance")
    setting_names: ClassVar[tuple[str, ...]] = ("degree", "columns")
    may_be_zero: ClassVar[tuple[str, ...]] = ("offset",)
    scale_name: ClassVar[str | None] = "variance"

    def __post_init__(self) -> None:
        check_integers(1, degree=self.degree)
        object.__setattr__(self, "degree", int(self.degree))
        super().__post_init__()

    def _value(self, inner: Array) -> Array:
        return np.asarray(self.params["variance"] * (self.params["offset"] + inner) ** self.degree)

    def _bars(self, bar: Array, inner: Callable[[], Array]) -> tuple[Array, dict[str, Array]]:
        base = self.params["offset"] + inner()
        power = base ** (self.degree - 1)
        inner_bar = np.asarray(self.params["variance"] * self.degree * bar * power)
        return inner_bar, {"offset": np.asarray(inner_bar.sum()), "variance": np.asarray(np.sum(bar * power * base))}


@dataclass(frozen=True, repr=False, eq=False)
class NeuralNetwork(FromCross):
    r"""Arcsine kernel of a two-layer network with infinitely many hidden units (1998, eq. 1; 2000, app. B, item 2).

    .. math:: v_0 \frac{2}{\pi} \arcsin \frac{s(x,x')}{\sqrt{(c + s(x,x))\,(c + s(x',x'))}},
              \qquad s(x,x') = b + \sum_l w_l x_l x'_l

    with c = 1 for hidden units :math:`2\Phi(u) - 1` and c = 0 for hidden units sgn(u).

    Parameters
    ----------
    weight : float or (d,) array
        w_l > 0, the prior variance of each input's weight in a hidden unit.
    bias : float
        b >= 0, the prior variance of a hidden unit's threshold; the papers have b = 0.
    variance : float
        v_0, in squared latent units.
    activation : {"erf", "sign"}
        The hidden units; with "sign" an input at the origin needs b > 0.
    columns : str, int or sequence of them, optional
        The inputs that the kernel is of, by name in a data frame or by position; all by default.

    Raises
    ------
    ValueError
        If a parameter is not allowed; on use, for activation "sign", if some s(x,x) is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import NeuralNetwork
    >>> NeuralNetwork(activation="sign").cross(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])).round(6)
    array([[0.5]])
    """

    weight: ArrayLike = 1.0
    bias: ArrayLike = 0.0
    variance: ArrayLike = 1.0
    activation: Literal["erf", "sign"] = "erf"
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("weight", "bias", "variance")
    setting_names: ClassVar[tuple[str, ...]] = ("activation", "columns")
    per_input: ClassVar[tuple[str, ...]] = ("weight",)
    may_be_zero: ClassVar[tuple[str, ...]] = ("bias",)
    scale_name: ClassVar[str | None] = "variance"

    def __post_init__(self) -> None:
        check_one_of("activation", self.activation, "erf", "sign")
        super().__post_init__()

    def _inner(self, A: Array, B: Array) -> Array:
        return np.asarray(self.params["bias"] + _inner(self.params["weight"], A, B))

    def _norm(self, X: Array) -> Array:
        """Return c + s(x,x), ``(n,)``."""
        own = self.params["bias"] + _inner_diag(self.params["weight"], X)
        if self.activation == "sign" and np.any(own == 0):
            raise ValueError(
                "NeuralNetwork(activation='sign') is undefined at the origin, and "
                f"row {int(np.argmin(own))} of X is there. Give bias > 0 or use activation='erf'."
            )
        return np.asarray(own + (1.0 if self.activation == "erf" else 0.0))

    def _angle(self, inner: Array, norm_a: Array, norm_b: Array) -> tuple[Array, Array]:
        """Return asin(s / sqrt(c c')) and the root of c c' - s^2, as an arctan that is safe at the ends."""
        product = np.multiply.outer(norm_a, norm_b)
        root = np.sqrt(np.maximum(product - inner**2, 0.0))  # Cauchy-Schwarz: below zero only by rounding
        return np.arctan2(inner, root), root

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``."""
        gram = self.cross(X, X)
        np.fill_diagonal(gram, self.diag(X))
        return gram

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        A, B = chosen_pair(self.columns, A, B)
        angle, _ = self._angle(self._inner(A, B), self._norm(A), self._norm(B))
        return np.asarray(self.params["variance"] * (2.0 / np.pi) * angle)

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``."""
        X = chosen(self.columns, X)
        return np.asarray(self.params["variance"] * (2.0 / np.pi) * self._own_angle(X)[0])

    def _own_angle(self, X: Array) -> tuple[Array, Array]:
        """Return asin(s / (c + s)) of each case with itself, and its slope in s."""
        norm = self._norm(X)
        if self.activation == "sign":  # a right angle, whatever s
            return np.full(norm.shape, 0.5 * np.pi), np.zeros(norm.shape)
        own = norm - 1.0
        root = np.sqrt(norm + own)
        return np.arctan2(own, root), 1.0 / (norm * root)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``."""
        A, B = chosen_pair(self.columns, A, B)
        weight = self.params["weight"]
        angle, inner_bar, norm_a_bar, norm_b_bar = self._bars(A, B, cross_bar)
        by_norms = norm_a_bar @ A**2 + norm_b_bar @ B**2
        return {
            "weight": _weight_vjp(weight, A, B, inner_bar) + reduce_like(weight, by_norms),
            "bias": np.asarray(inner_bar.sum() + norm_a_bar.sum() + norm_b_bar.sum()),
            "variance": np.asarray(np.sum(cross_bar * angle) * 2.0 / np.pi),
        }

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``, whose diagonal belongs to `diag`, as that of `gram` does."""
        between = gram_bar.copy()
        np.fill_diagonal(between, 0.0)
        own = self.diag_vjp(X, np.diag(gram_bar))
        return {name: np.asarray(value + own[name]) for name, value in self.cross_vjp(X, X, between).items()}

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``diag_bar``."""
        X = chosen(self.columns, X)
        angle, slope = self._own_angle(X)
        own_bar = (2.0 / np.pi) * self.params["variance"] * diag_bar * slope
        return {
            "weight": _weight_diag_vjp(self.params["weight"], X, own_bar),
            "bias": np.asarray(own_bar.sum()),
            "variance": np.asarray(np.sum(diag_bar * angle) * 2.0 / np.pi),
        }

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` to ``B``, ``(b, d)``."""
        weight, whole = self.params["weight"], B
        A, B = chosen_pair(self.columns, A, B)
        _, inner_bar, _, norm_b_bar = self._bars(A, B, cross_bar)
        gradient = _inputs_vjp(weight, A, inner_bar) + 2.0 * weight * norm_b_bar[:, None] * B
        return put_back(self.columns, np.asarray(gradient), whole)

    def _bars(self, A: Array, B: Array, cross_bar: Array) -> tuple[Array, Array, Array, Array]:
        """Return the angles, and pull ``cross_bar`` back to s(a, b) and to the norms of both sides."""
        inner, norm_a, norm_b = self._inner(A, B), self._norm(A), self._norm(B)
        angle, root = self._angle(inner, norm_a, norm_b)
        if self.activation == "sign":
            # x and x' on one ray: the angle is pi/2 whatever the weights
            on_ray = root <= 1e-7 * np.sqrt(np.multiply.outer(norm_a, norm_b))
            slope = np.divide(1.0, root, out=np.zeros_like(root), where=~on_ray)
        else:
            slope = 1.0 / root
        inner_bar = (2.0 / np.pi) * float(self.params["variance"]) * cross_bar * slope
        # d angle / d norm = -s / (2 norm root)
        norm_a_bar = -0.5 * np.sum(inner_bar * inner, axis=1) / norm_a
        norm_b_bar = -0.5 * np.sum(inner_bar * inner, axis=0) / norm_b
        return angle, inner_bar, norm_a_bar, norm_b_bar
