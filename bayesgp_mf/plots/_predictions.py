"""The predictions that a figure is about: made of a fit, or made already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.predicted import Predicted, predicted

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container


def predictions(idata: Container | Predicted, y_new: ArrayLike | None, given: dict[str, Any]) -> Predicted:
    """Return the predictions of a fit, or those that are given in its place, or raise a ValueError."""
    if not isinstance(idata, Predicted):
        return predicted(idata, y_new, **given)
    if y_new is not None or given:
        raise ValueError(
            "y_new, kernel, likelihood and method go with a fit, and these are its predictions already. Pass them to "
            "diagnostics.predicted."
        )
    return idata
