"""Numbers case by case: leave-one-out log predictive densities, and the values of one method against another's."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.arguments import check_integers, check_one_of
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.loo import log_densities
from bayesgp_mf.diagnostics.agreement import PROBABILITY, Compared, agreement
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.diagnostics.loo import WorstCases, label_in_words, worst_cases
from bayesgp_mf.inference.problem import as_float_array, check_finite
from bayesgp_mf.plots._axes import BAND, LINE, POINT, as_drawn, at_tick, axes_or_new, legend_above
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORST = "#c03a2b"
NEAR, WIDE = 0.04, 0.25
"""Height and width of a label, as parts of the axes."""
SMALL, LINE_HEIGHT = 7, 0.16
"""Size in points of what is said of the worst cases, and inches for a line of it."""
LETTER, FEWEST, INDENT = 0.6, 20, 4
"""Width of a letter, as a part of its size, and the fewest letters of a line, and spaces before a later one."""


def plot_loo(
    loo_i: ArrayLike | Container,
    reference: ArrayLike | None = None,
    *,
    names: tuple[str, str] = ("importance sampling", "analytic"),
    case_names: Sequence[Any] | None = None,
    worst: int = 5,
    feature: Any = None,
    inputs: int = 3,
    ax: Axes | None = None,
    **given: Any,
) -> Axes:
    """Plot the leave-one-out log density of each case, and name the worst cases with their inputs.

    Parameters
    ----------
    loo_i : (n,) array_like, InferenceData or DataTree
        Log predictive density of the label of each case given the others, in nats; or a fit that has it.
    reference : (n,) array_like, optional
        The same from another method, such as PSIS, for the horizontal axis. Without it the cases are side by side, with
        log(1/2), the score of a coin, as a line.
    names : (str, str)
        What the reference and ``loo_i`` are called.
    case_names : sequence, optional
        A name for each case; by default the row labels of the fit, or numbers from 0.
    worst : int
        How many cases to name, those with the lowest ``loo_i``.
    feature : str or int, optional
        An input of the fit for the horizontal axis.
    inputs : int
        How many inputs of the worst cases to state, the most relevant ones by `diagnostics.relevance`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container of a fit does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        With one point for each case.

    Raises
    ------
    ValueError
        If the arrays or names differ in length, hold anything that is not a finite number, or ``worst`` is
        negative; or if there is no such input.
    UndefinedQuantityError
        If the fit has no predictive density, or has nothing about single cases.

    Examples
    --------
    >>> from bayesgp_mf.plots import plot_loo
    >>> ax = plot_loo([-0.1, -2.0, -0.3], worst=1)
    >>> [text.get_text() for text in ax.texts]
    ['1']
    """
    of_fit = log_densities(cast(Any, loo_i)) if hasattr(loo_i, "groups") else None
    if of_fit is None and (given or feature is not None):
        raise ValueError("feature, kernel, likelihood and method go with a fit. Leave them out with an array.")
    densities: Any = loo_i if of_fit is None else of_fit.values
    y = _vector("loo_i", densities)
    known: Iterable[Any] = range(y.size) if of_fit is None else of_fit["obs_id"].values
    labels = [label_in_words(label) for label in (known if case_names is None else case_names)]
    if len(labels) != y.size:
        raise ValueError(f"case_names must have {y.size} names, one for each case, got {len(labels)}.")
    check_integers(0, worst=worst, inputs=inputs)
    asks = of_fit is not None and (feature is not None or reference is None)
    fit = fitted(cast(Any, loo_i), **given) if asks else None
    is_new = ax is None
    x = np.arange(y.size, dtype=np.float64) if reference is None else _vector("reference", reference, y.size)
    column = None if fit is None or feature is None else fit.column(feature)
    ax = axes_or_new(ax)
    if reference is None:
        name = "Case (number)"
        if fit is not None and column is not None:
            x, name = fit.X[:, column], as_drawn(fit.names[column])
            if column in fit.levels:
                names_of_groups = [at_tick(level) for level in fit.levels[column][: np.unique(x).size]]
                ax.set_xticks(np.unique(x), names_of_groups)
        chance = 2 if fit is None else len(fit.classes) * (not fit.likelihood.is_real)
        if chance:
            label = f"log(1/{chance}), guessing" if chance > 2 else "log(1/2)"
            ax.axhline(-np.log(chance), color=LINE, linewidth=1, linestyle="--", label=label, zorder=1)
        ax.set(xlabel=name, ylabel="Leave-one-out log predictive density (nats)")
    else:
        ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
        ax.plot(ends, ends, color=LINE, linewidth=1, label="equal", zorder=1)
        xlabel, ylabel = (f"{name}: log predictive density (nats)" for name in names)
        ax.set(xlabel=xlabel, ylabel=ylabel)
    lowest = np.argsort(y, kind="stable")[:worst]
    others = np.setdiff1d(np.arange(y.size), lowest)
    ax.plot(x[others], y[others], "o", color=POINT, markersize=3, alpha=0.7, label="one case", zorder=2)
    if lowest.size:
        ax.plot(x[lowest], y[lowest], "o", color=WORST, markersize=4, label="predicted worst", zorder=3)
    for i, leftwards in zip(lowest, _leftwards(ax, x[lowest], y[lowest]), strict=True):
        offset, side, height = ((-5, 0), "right", "center") if leftwards else ((5, 0), "left", "center")
        if reference is not None:  # below the diagonal, where no other case is
            offset, side, height = (4, -2), "left", "top"
        ax.annotate(
            at_tick(labels[i]), (x[i], y[i]), offset, textcoords="offset points", ha=side, va=height, fontsize=8
        )
    if fit is not None and inputs and lowest.size:
        found = worst_cases(cast(Any, loo_i), int(lowest.size), inputs=inputs, **given)
        lines = _in_lines(found, [labels[i] for i in lowest], _letters(ax))
        if is_new:
            figure = cast("Figure", ax.figure)
            figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * len(lines))
        ax.set_title("\n".join(lines), fontsize=SMALL, loc="left", pad=34, linespacing=1.4)
    legend_above(ax)
    return ax


def _leftwards(ax: Axes, x: Array, y: Array) -> NDArray[np.bool_]:
    """Tell which labels stand to the left of their points: towards the middle, and of two side by side the left one."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    found = np.asarray(x > 0.5 * (left + right))
    for i, j in combinations(range(len(x)), 2):
        if abs(y[i] - y[j]) < NEAR * (top - bottom) and abs(x[i] - x[j]) < WIDE * (right - left):
            found[[i, j]] = (x[i] < x[j], x[i] >= x[j])
    return found


def _letters(ax: Axes) -> int:
    """Return how many small letters stand side by side over the axes, roughly."""
    inches = ax.bbox.width / ax.figure.dpi  # also within a part of a figure
    return max(int(72.0 * inches / (LETTER * SMALL)), FEWEST)


def _in_lines(found: WorstCases, labels: list[str], letters: int) -> list[str]:
    """Return lines that say of each case its label, its target, and its inputs; one that is too long goes on below."""
    values = [
        ", ".join(f"{at_tick(name)} {at_tick(value)}" for name, value in zip(found.features, each, strict=True))
        for each in found.values
    ]
    cases = [
        f"{at_tick(label)}: {at_tick(t)}; {text}" for label, t, text in zip(labels, found.targets, values, strict=True)
    ]
    return [line for case in cases for line in _wrapped(case, letters)]


def _wrapped(case: str, letters: int) -> list[str]:
    """Return a text in lines, the later ones indented, where a formula that was torn apart is none any more."""
    first, *others = (as_drawn(line, letters, letters) for line in textwrap.wrap(case, letters - INDENT))
    return [first, *(" " * INDENT + line for line in others)]


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
        Where to draw; by default a new figure, which pyplot saves and shows.

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
        drawn = arguments_of(found, quantity)
        reference, values = np.asarray(drawn["reference"]), np.asarray(drawn["values"])
        unit = unit or drawn["unit"]
        reference_error = drawn["reference_error"] if reference_error is None else reference_error
        tolerance = drawn["tolerance"] if tolerance is None else tolerance
    quantity = quantity or "value"
    x = _vector("reference", reference)
    y = _vector("values", values, x.size)
    error = None if reference_error is None else ERRORS_SHOWN * _vector("reference_error", reference_error, x.size)
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


def arguments_of(compared: Compared, quantity: str) -> dict[str, Any]:
    """Return what `plot_agreement` draws of a comparison, by the names of its arguments."""
    of_probabilities = quantity == "probability"
    return {
        "reference": compared.second.ravel(),  # of ordered levels a probability of each
        "values": compared.first.ravel(),
        "reference_error": compared.error.ravel() if np.any(compared.error) else None,
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
    check_one_of("quantity", quantity, *known)
    compared = known[quantity]
    if compared is None:
        raise ValueError("there are no probabilities to compare: one of the two has no predictions of them.")
    return compared


def _vector(name: str, values: ArrayLike, n: int | None = None) -> Array:
    """Return ``values`` as a finite float array ``(n,)``, or raise a ValueError that names them."""
    array = as_float_array(name, values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one array with a number for each case, got shape {array.shape}.")
    if n is not None and array.size != n:
        raise ValueError(f"{name} must have {n} values, one for each case, got {array.size}.")
    check_finite(name, array, "Leave out such cases first.")
    return array
