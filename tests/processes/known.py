"""Random numbers that are known, by which draws show the linear map that makes them."""

from __future__ import annotations

import numpy as np


class UnitNormals(np.random.Generator):
    """Hands out unit vectors for independent normals, and zeros in the last draw: what comes back is the linear map."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))
        self.used = 0

    def standard_normal(self, size):
        draws, many = size
        first, self.used = self.used, self.used + many
        return np.eye(draws, draws - 1, dtype=float)[:, first : self.used]


def linear_map(process, X_new, most=400):
    """Return mean ``(m,)`` and the matrix ``(normals, m)`` that independent normals are multiplied with."""
    units = UnitNormals()
    f = process.draw_new(X_new, most, units)
    assert units.used < most
    return f[-1], f[:-1] - f[-1]
