"""What the tests of solvers share."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.matrices import factors


@pytest.fixture
def factorised(monkeypatch) -> list[np.dtype]:
    """Return a list that is told the precision of every dense matrix that sites make and that is factorised."""
    made, cholesky = [], factors.cholesky

    def watched(matrix, **options):
        made.append(matrix.dtype)
        return cholesky(matrix, **options)

    monkeypatch.setattr(factors, "cholesky", watched)
    return made
