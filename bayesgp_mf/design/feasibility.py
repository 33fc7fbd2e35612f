"""How likely a trial is to succeed, as the callable with a gradient that optimisers take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayesgp_mf.container.groups import Container
from bayesgp_mf.design.beliefs import as_process, naming
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.processes.process import Process
from bayesgp_mf.types import Array

STEP = 1e-3
"""Of a central difference, in standard deviations of an input in the fit."""
STENCIL = np.array([-2.0, -1.0, 1.0, 2.0])
FIRST = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
"""Weights of the first derivative, of fourth order in the step."""


@dataclass(frozen=True, eq=False)
class Feasibility:
    """The probability that a trial succeeds, at one input or several.

    Called with an input ``(d,)`` it returns a number, with ``(m, d)`` an array ``(m,)``. ``jac`` is its gradient, of
    the same shape as the input.

    Parameters
    ----------
    process : Process
        Of two classes; the positive one is success.
    """

    process: Process

    def __call__(self, x: Any) -> Any:
        """Return the probability, a number at ``(d,)`` and ``(m,)`` at ``(m, d)``."""
        p = self._at(self._rows(x))
        return float(p[0]) if np.ndim(x) < 2 else p

    def jac(self, x: Any) -> Array:
        """Return the gradient in the inputs, ``(d,)`` or ``(m, d)``, by differences of fourth order."""
        rows = self._rows(x)
        m, d = rows.shape
        spread = np.std(self.process.parts[0].X, axis=0)
        step = STEP * np.where(spread > 0, spread, 1.0)
        moves = STENCIL[:, None, None] * np.diag(step)
        p = self._at((rows[:, None, None, :] + moves).reshape(-1, d)).reshape(m, STENCIL.size, d)
        return np.asarray(np.einsum("s,msd->md", FIRST, p) / step).reshape(np.shape(x))

    def _rows(self, x: Any) -> Array:
        """Return inputs ``(m, d)``, or raise a ValueError if a table has not the columns of the fit."""
        table = x.to_frame().T.infer_objects() if isinstance(x, pd.Series) else as_pandas("x", x)
        if not isinstance(table, pd.DataFrame):
            return np.atleast_2d(np.asarray(table, dtype=np.float64))
        with naming("x"):
            return self.process.new_inputs(table)

    def _at(self, X: Array) -> Array:
        with naming("x"):
            return self.process.predict_proba(X, corrected=True)


def feasibility(idata: Container | Process) -> Feasibility:
    """Return how likely a trial is to succeed as a function of its inputs, corrected as in `predict`.

    Parameters
    ----------
    idata : InferenceData, DataTree or Process
        What `fit` returned, by TAP, of two classes; the positive one is success.

    Returns
    -------
    Feasibility
        ``g(x)``, and ``g.jac(x)``: as ``scipy.optimize.minimize(g, x0, jac=g.jac)`` and
        ``NonlinearConstraint(g, 0.9, 1.0, jac=g.jac)`` take them.

    Raises
    ------
    UndefinedQuantityError
        If the fit is not of two classes.
    ValueError
        If it is by another method than TAP.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> succeeds = bgp.design.feasibility(idata)
    >>> round(succeeds([0.5]), 2), succeeds.jac([0.5]).round(2)
    (0.8, array([0.39]))
    """
    process = as_process(idata)
    if not process.problem.likelihood.is_binary:
        raise UndefinedQuantityError(
            "feasibility is the probability of one of two labels, and this fit has no two labels. Fit whether trials "
            "succeeded."
        )
    process.check_corrected()
    return Feasibility(process)
