"""Kernels of places on a sphere, given by longitude and latitude in degrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
from scipy.spatial.distance import cdist

from bayesgp_mf import kernels  # whose parts are walked through when one is made
from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.kernels.combinations import check_of_one, depth_around
from bayesgp_mf.kernels.functionals import Functional
from bayesgp_mf.kernels.values import Columns, as_columns, chosen, positions, positive, put_back
from bayesgp_mf.kernels.warped import WarpedInputs
from bayesgp_mf.types import Array

Metric = Literal["chordal", "haversine"]
EARTH = 6371.0
"""Mean radius, in kilometres."""
LIMITS = {"longitude": 360.0, "latitude": 90.0}
"""In degrees, to either side."""
ORIGIN = np.zeros((1, 1))


class OnSphere(WarpedInputs):
    r"""A kernel of places on a sphere, of whose distance it makes covariances.

    With "chordal", the kernel below sees a place as
    :math:`R (\cos\phi \cos\lambda, \cos\phi \sin\lambda, \sin\phi)`, of longitude :math:`\lambda` and latitude
    :math:`\phi`, and distances as those through the sphere. Any kernel of three inputs may be below. A length scale is
    in units of the radius R: kilometres. At 1000 km a chord is 0.1 % shorter than the way on the sphere.

    With "haversine", it sees the distance along the great circle. Few kernels are covariance functions of that at
    every length scale: of the Matern kernels only `Matern12` [1]_. Beside it `Bias`, sums and products are taken.

    Parameters
    ----------
    kernel : Kernel
        Of places, with one length scale. Other inputs are for kernels that are added or multiplied.
    columns : pair of str or int
        Longitude and latitude, in degrees: names in a data frame, or positions.
    metric : {"chordal", "haversine"}
        Which distance.
    radius : float
        R; that of the Earth in kilometres by default.

    Raises
    ------
    ValueError
        If ``columns`` are not two, or latitude is named first; if ``kernel`` is of some columns only, or of slopes or
        differences, tells groups, has several length scales, or is not valid with "haversine"; later, if a longitude is
        beyond 360 degrees to either side, or a latitude beyond 90.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    References
    ----------
    .. [1] Gneiting, T. (2013). Strictly and non-strictly positive definite functions on spheres. Bernoulli 19,
       1327-1349.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Matern12, Matern32, OnSphere
    >>> paris, auckland = np.array([[2.35, 48.86]]), np.array([[174.76, -36.85]])
    >>> OnSphere(Matern32(5000.0), columns=[0, 1]).cross(paris, auckland).round(4)
    array([[0.0671]])
    >>> OnSphere(Matern12(5000.0), columns=[0, 1], metric="haversine").cross(paris, auckland).round(4)
    array([[0.0245]])
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: Columns = ("longitude", "latitude"),
        metric: Metric = "chordal",
        radius: float = EARTH,
    ) -> None:
        check_of_one("OnSphere", kernel)
        check_one_of("metric", metric, *get_args(Metric))
        found = as_columns(columns)
        if found is None or len(found) != 2 or str(found[0]).lower().startswith("lat"):
            raise ValueError(
                f"columns must be longitude and latitude, in this order, such as columns=[0, 1], got {columns!r}."
            )
        parts = list(kernels.all_parts(kernel))
        of_some = any(getattr(part, "columns", None) is not None or isinstance(part, Functional) for part in parts)
        if of_some or kernel.readers("groups", 3) or any(value.ndim for value in kernel.params.values()):
            raise ValueError(
                "the kernel in OnSphere is of places alone, with one length scale and no columns of its own, got "
                f"{kernel!r}. Add or multiply outside: OnSphere(Matern32(500.0)) * Matern32(2.0, columns='year')."
            )
        if metric == "haversine" and not kernel.on_great_circles:
            raise ValueError(
                f"{kernel!r} is no covariance function of distances along great circles at every length scale: "
                "variances could be negative. Matern12 is one; for others take metric='chordal', the distance through "
                "the sphere, which is shorter by 0.1 % at 1000 km."
            )
        self.kernel, self.columns, self.metric = kernel, found, metric
        self.radius = float(positive("radius", radius))
        self.depth: int = depth_around([kernel])

    def warp(self, X: Array) -> Array:
        """Return places ``(n, d)`` as points ``(n, 3)`` on the sphere."""
        longitude, latitude = chosen(self.columns, X).T
        # a pole, and a meridian by any of its numbers, is one place to the last digit
        ring, longitude = np.sin(np.radians(90.0 - np.abs(latitude))), np.radians(longitude % 360.0)
        points = np.column_stack([ring * np.cos(longitude), ring * np.sin(longitude), np.sin(np.radians(latitude))])
        return np.asarray(self.radius * points)

    def _unwarped(self, X: Array, gradient: Array) -> Array:
        x, y, z = self.warp(X).T
        longitude, latitude = np.radians(chosen(self.columns, X)).T
        inwards = np.cos(longitude) * gradient[:, 0] + np.sin(longitude) * gradient[:, 1]
        east = x * gradient[:, 1] - y * gradient[:, 0]
        north = self.radius * np.cos(latitude) * gradient[:, 2] - z * inwards
        return put_back(self.columns, np.radians(np.column_stack([east, north])), X)

    def _along(self, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        """Return the distances ``(a, b)`` along great circles, and the same as inputs ``(a b, 1)``."""
        points = [each / self.radius for each in self._seen(inputs)]  # whose squares are numbers at any radius
        angles = 2.0 * np.arctan2(cdist(points[0], points[-1]), cdist(points[0], -points[-1]))  # digits at both ends
        distances = np.asarray(self.radius * angles)
        return distances, distances.reshape(-1, 1)

    def _each(self, method: str, inputs: tuple[Array, ...]) -> Iterator[Array]:
        if method != "cross":  # of which inducing inputs may move across a pole
            self._check(inputs[0])
        if self.metric == "chordal" or method == "diag":
            return super()._each(method, inputs)
        distances, flat = self._along(inputs)
        return iter([self.kernel.cross(flat, ORIGIN).reshape(distances.shape)])

    def _parameter_vjp(self, method: str, inputs: tuple[Array, ...], bar: Array) -> dict[str, Array]:
        if self.metric == "chordal" or method == "diag":
            return super()._parameter_vjp(method, inputs, bar)
        return self.kernel.cross_vjp(self._along(inputs)[1], ORIGIN, bar.reshape(-1, 1))

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` to longitudes and latitudes of ``B (b, d)``, in degrees."""
        if self.metric == "chordal":
            return super().inputs_vjp(A, B, cross_bar)
        distances, flat = self._along((A, B))
        slopes = self.kernel.inputs_vjp(ORIGIN, flat, cross_bar.reshape(1, -1)).reshape(distances.shape)
        # of two points p, q on the sphere the distance changes by -p / (R sin(distance / R)) in q
        sines = np.sin(distances / self.radius)
        each = np.divide(slopes, sines, out=np.zeros_like(sines), where=sines > 0.0)
        return self._unwarped(B, -each.T @ (self.warp(A) / self.radius))

    def _check(self, X: Array) -> None:
        for column, degrees, (name, limit) in zip(self.columns, chosen(self.columns, X).T, LIMITS.items(), strict=True):
            beyond = np.abs(degrees) > limit
            if np.any(beyond):
                row = int(np.argmax(beyond))
                raise ValueError(
                    f"{name} must be between {-limit:g} and {limit:g} degrees, got {degrees[row]:g} in row {row} of "
                    f"column {column!r}. The columns are longitude and latitude, in this order."
                )

    def within(self, column: int, values: Array) -> Array:
        """Return degrees of a column of inputs no farther than a pole, or a turn, where it is one of places."""
        limits = dict(zip(positions(self.columns, None), LIMITS.values(), strict=True))
        return np.asarray(np.clip(values, -limits.get(column, np.inf), limits.get(column, np.inf)))

    def readers(self, how: str, width: int) -> dict[int, Kernel]:
        """Return its columns, which are read as numbers."""
        return {j: self for j in positions(self.columns, None) if j < width} if how == self.reads else {}

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "columns": self.columns, "metric": self.metric, "radius": self.radius}
