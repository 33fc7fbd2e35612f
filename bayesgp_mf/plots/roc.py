"""How well the classes are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.predicted import Predicted
from bayesgp_mf.diagnostics.tables import check_has_classes, roc_curve
from bayesgp_mf.plots._axes import LINE, POINT, axes_or_new, colour, legend_above
from bayesgp_mf.plots._curves import LINES
from bayesgp_mf.plots._names import LONGEST, as_drawn, in_legend
from bayesgp_mf.plots._predictions import predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container


def plot_roc(
    idata: Container | Predicted, *, ax: Axes | None = None, y_new: ArrayLike | None = None, **given: Any
) -> Axes:
    """Plot the true positive rate of a class against its false positive rate (ROC curve).

    Predictions are leave-one-out; with ``y_new`` they are those of `predict`. With several classes, or ordered levels,
    each has a curve against the rest. The legend has the areas under the curves: 0.5 is guessing, 1 is perfect
    separation.

    Parameters
    ----------
    idata : InferenceData, DataTree or Predicted
        What `fit` or `predict` returned, or the same loaded from a file; or the predictions that
        `diagnostics.predicted` made of it, for several figures of them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    y_new : (m,) array_like, optional
        Labels of the cases that were predicted.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes are shares of cases.

    Raises
    ------
    ValueError
        If targets are not labels, there are none of some class, or `diagnostics.predicted` would refuse the arguments.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.plots.plot_roc(idata).get_ylabel()
    'Share of yes that is found'
    """
    found = predictions(idata, y_new, given)
    check_has_classes(found)
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color=LINE, linewidth=1, linestyle="--", label="guessing: 0.50", zorder=1)
    if found.score is not None:
        curve = roc_curve(found.targets == 1, found.score)
        ax.plot(curve.false_positive, curve.true_positive, color=POINT, label=f"area under the curve: {curve.area:.3f}")
        other, name = (as_drawn(each) for each in found.classes)
        ax.set(
            xlabel=as_drawn(f"Share of {other} that is taken for {name}", longest=3 * LONGEST),
            ylabel=as_drawn(f"Share of {name} that is found", longest=2 * LONGEST),
        )
    else:
        assert found.probability is not None
        for code, name in enumerate(found.classes):
            curve = roc_curve(found.targets == code, found.probability[:, code])
            ax.plot(
                curve.false_positive, curve.true_positive, LINES[code % len(LINES)], color=colour(code),
                label=f"{in_legend(name)}: {curve.area:.3f}",
            )  # fmt: skip
        ax.set(xlabel="Share of the others that is taken for the class", ylabel="Share of the class that is found")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title="")
    legend_above(ax)
    return ax
