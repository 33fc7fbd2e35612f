"""Functions that repeat themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.kernels.base import Homogeneous
from bayesgp_mf.kernels.stationary import Gaussian
from bayesgp_mf.kernels.values import Columns, Span, check_columns, chosen, chosen_pair, put_back, reduce_like
from bayesgp_mf.types import Array


@dataclass(frozen=True, repr=False, eq=False)
class Periodic(Homogeneous):
    r"""Periodic kernel :math:`v_0 \exp(-2 \sum_l \sin^2(\pi (x_l - x'_l) / p_l) / \ell_l^2)`.

    It is the `Gaussian` kernel between points on a circle, (cos, sin) of 2 pi x / p, for each input (Rasmussen and
    Williams 2006, eq. 4.31). A length scale of 1 is one radius of that circle, whatever the period. PyMC's
    ``pm.gp.cov.Periodic`` has a quarter of the exponent: its ``ls`` is half of this ``lengthscale``.

    Parameters
    ----------
    lengthscale : float or (d,) array
        :math:`\ell`, in radii of the circle.
    variance : float
        v_0, in squared latent units.
    period : float or (d,) array
        p, in the units of the inputs. The evidence has many maxima in it: start near the one that is meant, or keep it,
        ``fixed={"period"}``.
    columns : str, int or sequence of them, optional
        The inputs that are repeated, by name in a data frame or by position; all by default.

    Raises
    ------
    ValueError
        If a parameter is not finite and positive; on use, if one does not fit the inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Periodic
    >>> Periodic(period=7.0).cross(np.array([[0.0]]), np.array([[3.5], [7.0]])).round(4)
    array([[0.1353, 1.    ]])
    """

    lengthscale: ArrayLike = 1.0
    variance: ArrayLike = 1.0
    period: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance", "period")
    setting_names: ClassVar[tuple[str, ...]] = ("columns",)
    per_input: ClassVar[tuple[str, ...]] = ("lengthscale", "period")
    scale_name: ClassVar[str | None] = "variance"
    diag_vjp = Homogeneous.diag_vjp  # which is right whatever `gram_vjp` is

    def _angle(self, X: Array) -> Array:
        """Return 2 pi x / p ``(n, d)``."""
        check_columns("period", self.params["period"], X)
        return np.asarray((2.0 * np.pi) * X / self.params["period"])

    def _gaussian(self, width: int) -> Gaussian:
        """Return the kernel between points on circles, cosines of all inputs first."""
        return Gaussian(np.tile(np.broadcast_to(self.params["lengthscale"], width), 2), self.params["variance"])

    def spans(self, X: Array) -> dict[str, Span]:
        """Return the span of distances on the circle, a tenth of its radius to its diameter, whatever the inputs."""
        radii = np.ones(self.params["lengthscale"].shape)
        return {"lengthscale": (0.1 * radii, 2.0 * radii)}

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric, with ``variance`` on the diagonal."""
        X = self._chosen(X)
        return self._gaussian(X.shape[1]).gram(_on_circle(self._angle(X)))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        A, B = self._chosen(A), self._chosen(B)
        return self._gaussian(A.shape[1]).cross(_on_circle(self._angle(A)), _on_circle(self._angle(B)))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``."""
        X = self._chosen(X)
        gaussian, angle = self._gaussian(X.shape[1]), self._centred(X, X)
        points = _on_circle(angle)
        by_angle = 2.0 * _to_angle(angle, gaussian.inputs_vjp(points, points, gram_bar))
        return self._by_name(gaussian.gram_vjp(points, gram_bar), np.sum(by_angle * angle, axis=0))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``."""
        A, B = self._chosen(A), self._chosen(B)
        gaussian, left, right = self._gaussian(A.shape[1]), self._centred(A, A), self._centred(B, A)
        a, b = _on_circle(left), _on_circle(right)
        by_left = _to_angle(left, gaussian.inputs_vjp(b, a, cross_bar.T))
        by_right = _to_angle(right, gaussian.inputs_vjp(a, b, cross_bar))
        turned = np.sum(by_left * left, axis=0) + np.sum(by_right * right, axis=0)
        return self._by_name(gaussian.cross_vjp(a, b, cross_bar), turned)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` to ``B``, ``(b, d)``."""
        whole = B
        A, B = chosen_pair(self.columns, A, B)
        left, right = self._centred(A, A), self._centred(B, A)
        by_point = self._gaussian(A.shape[1]).inputs_vjp(_on_circle(left), _on_circle(right), cross_bar)
        gradient = (2.0 * np.pi) / self.params["period"] * _to_angle(right, by_point)
        return put_back(self.columns, gradient, whole)

    def _chosen(self, X: Array) -> Array:
        X = chosen(self.columns, X)
        check_columns("lengthscale", self.params["lengthscale"], X)
        return X

    def _centred(self, X: Array, around: Array) -> Array:
        """Return angles from the mean of some inputs: only differences count, and these keep more digits so."""
        return self._angle(X - around.mean(axis=0))

    def _by_name(self, of_gaussian: dict[str, Array], turned: Array) -> dict[str, Array]:
        """Put together the gradients, of which that in log angles ``(d,)`` is minus that in log periods."""
        by_scale = of_gaussian["lengthscale"].reshape(2, -1).sum(axis=0)
        lengthscale, period = self.params["lengthscale"], self.params["period"]
        return {
            "lengthscale": reduce_like(lengthscale, by_scale),
            "variance": of_gaussian["variance"],
            "period": reduce_like(period, np.asarray(-turned / period)),
        }


def _on_circle(angle: Array) -> Array:
    """Return points ``(n, 2d)`` on a circle for each input."""
    return np.hstack([np.cos(angle), np.sin(angle)])


def _to_angle(angle: Array, by_point: Array) -> Array:
    """Pull a derivative in points on circles ``(n, 2d)`` back to their angles ``(n, d)``."""
    by_cos, by_sin = np.hsplit(by_point, 2)
    return np.asarray(by_sin * np.cos(angle) - by_cos * np.sin(angle))
