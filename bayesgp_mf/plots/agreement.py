"""The values of one method against those of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.agreement import PROBABILITY, Compared, agreement
from bayesgp_mf.plots._axes import BAND, LINE, POINT, axes_or_new, legend_above, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

ERRORS_SHOWN = 2.0
"""Half-length of the error bars, in standard errors."""


def plot_agreement(
    reference: ArrayLike | Container,
    values: ArrayLike | Container,
    *,
    reference_error: ArrayLike | None = None,
    quantity: str | None = None,
    unit: str = "",
    names: tuple[str, str] = ("reference", "method"),
    tolerance: float | None = None,
    difference: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Plot the values of a method against a reference, or their difference from it.

    Parameters
    ----------
    reference, values : (m,) array_like, InferenceData or DataTree
        Values of the reference and of the method, one for each case; or two fits of one model, or samples and a fit, as
        for `diagnostics.agreement`, whose tolerances are drawn.
    reference_error : (m,) array_like, optional
        Standard error of each reference value (for sampling, its Monte-Carlo error); two of them are drawn
        to either side.
    quantity : str
        What is compared, for the axis labels. For containers "mean" or "sd" (of the latent values at the training
        cases) or "probability" (of the predictions); by default the first.
    unit : str
        Its unit, for the axis labels.
    names : (str, str)
        What the reference and the method are called.
    tolerance : float, optional
        Largest difference that counts as agreement; drawn as a band.
    difference : bool
        Draw ``values - reference`` upwards instead of ``values``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes
        With one point for each case.

    Raises
    ------
    ValueError
        If the arrays differ in length or hold anything that is not a finite number, there is only one container, there
        is no such quantity, or `diagnostics.agreement` refuses the containers.

    Examples
    --------
    >>> from bayesgp_mf.plots import plot_agreement
    >>> ax = plot_agreement([0.1, 0.5], [0.12, 0.49], quantity="probability", names=("NUTS", "TAP"))
    >>> ax.get_ylabel()
    'TAP: probability'
    """
    if hasattr(reference, "groups") or hasattr(values, "groups"):
        quantity = quantity or "mean"
        found = _of_containers(cast(Any, reference), cast(Any, values), quantity)
        drawn = as_drawn(found, quantity)
        reference, values, unit = found.second, found.first, unit or drawn["unit"]
        reference_error = drawn["reference_error"] if reference_error is None else reference_error
        tolerance = drawn["tolerance"] if tolerance is None else tolerance
    quantity = quantity or "value"
    x = vector("reference", reference)
    y = vector("values", values, x.size)
    error = None if reference_error is None else ERRORS_SHOWN * vector("reference_error", reference_error, x.size)
    ax = axes_or_new(ax)
    upwards = f"{names[1]} minus {names[0]}" if difference else names[1]
    what = f"{quantity} ({unit})" if unit else quantity
    ax.set(xlabel=f"{names[0]}: {what}", ylabel=f"{upwards}: {what}")
    if difference:
        y = y - x

    margin = 0.04 * (float(np.ptp(x)) or 1.0)
    ends = np.array([x.min() - margin, x.max() + margin])
    centre = np.zeros(2) if difference else ends
    ax.set_xlim(*ends)
    if tolerance is not None:
        label = f"tolerance ±{tolerance:g}"
        ax.fill_between(ends, centre - tolerance, centre + tolerance, color=BAND, linewidth=0, label=label, zorder=0)
    ax.plot(ends, centre, color=LINE, linewidth=1, zorder=1, label="equal")
    if error is not None:
        up, across = (error, None) if difference else (None, error)
        label = f"±{ERRORS_SHOWN:g} standard errors of {names[0]}"
        ax.errorbar(x, y, up, across, fmt="none", ecolor=POINT, elinewidth=0.7, alpha=0.4, label=label, zorder=2)
    ax.plot(x, y, "o", color=POINT, markersize=3, alpha=0.7, label="one case", zorder=3)
    legend_above(ax)
    return ax


def as_drawn(compared: Compared, quantity: str) -> dict[str, Any]:
    """Return what `plot_agreement` draws of a comparison, by the names of its arguments."""
    of_probabilities = quantity == "probability"
    return {
        "reference": compared.second,
        "values": compared.first,
        "reference_error": compared.error if np.any(compared.error) else None,
        "unit": "" if of_probabilities else "latent units",
        "tolerance": PROBABILITY if of_probabilities else None,  # the same for all cases
    }


def _of_containers(reference: Container, idata: Container, quantity: str) -> Compared:
    """Return a quantity from two containers."""
    for name, each in (("reference", reference), ("values", idata)):
        if not hasattr(each, "groups"):
            raise ValueError(f"reference and values must both be containers or both be arrays, and {name} is an array.")
    found = agreement(idata, reference)
    known = {"mean": found.mean, "sd": found.sd, "probability": found.probability}
    if quantity not in known:
        raise ValueError(f"quantity must be 'mean', 'sd' or 'probability', got {quantity!r}.")
    compared = known[quantity]
    if compared is None:
        raise ValueError("there are no probabilities to compare: one of the two has no predictions of them.")
    return compared
