"""Survival curves of new cases, or of all cases of a fit beside what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.plots import _axes
from bayesgp_mf.survival import kaplan_meier, population_survival, survival_function

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

POINTS = 60
"""Times at which a curve is known, if nobody says which."""


def plot_survival(
    idata: Container,
    X_new: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    times: ArrayLike | None = None,
    level: float = 0.9,
    offset: ArrayLike | None = None,
    random_seed: Any = None,
    **given: Any,
) -> Axes:
    """Plot how likely new cases are to be without the event; or which share of the cases of the fit is, and was.

    Without ``X_new`` there is one curve, the share that the fit expects of all its cases, and the Kaplan-Meier curve of
    these, if all limits are from below. Where the two part the model has the wrong shape.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    X_new : (m, d) array_like, optional
        New inputs, a curve for each.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    times : (q,) array_like, optional
        Where to know the curves; by default up to the largest time of the fit.
    level : float
        Posterior probability of the bands.
    offset : float or (m,) array_like, optional
        Offsets of the new cases; required if the fit has offsets.
    random_seed : int, numpy.random.Generator or None
        Source of the functions that make the band of all cases.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis is the share without the event.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import Exponential
    >>> X = np.arange(6.0)[:, None]
    >>> idata = bgp.fit(X, [2.0, 1.0, 3.0, 5.0, 4.0, 6.0], bgp.kernels.Bias(), Exponential(), draws=10, random_seed=1)
    >>> bgp.plots.plot_survival(idata, random_seed=1).get_ylabel()
    'Share without the event'
    """
    fit = fitted(idata, **given)
    known, t = fit.process.problem.likelihood.of_one_case, fit.process.problem.t
    at = np.linspace(min(0.0, float(np.min(t))), float(np.max(t)), POINTS) if times is None else np.asarray(times)
    ax = _axes.axes_or_new(ax)
    if X_new is None:
        found = population_survival(idata, at, level=level, random_seed=random_seed, **given)
        curves = [("all cases, expected", found)]
        other = np.full(t.size, np.nan) if known.all_seen else np.asarray(getattr(known, "other_limit", None))
        if not np.any(other < np.inf):
            steps, share = kaplan_meier(np.column_stack([t, np.isnan(other)]))
            steps, share = np.concatenate([[at[0]], steps]), np.concatenate([[1.0], share])
            ax.step(steps, share, where="post", color=_axes.ACCENT, linewidth=1.2, label="Kaplan-Meier", zorder=4)
    else:
        found = survival_function(idata, X_new, at, level=level, offset=offset, **given)
        curves = [(_axes.in_legend(str(label)), found.sel(obs_id=label)) for label in found["obs_id"].values]
    for code, (name, curve) in enumerate(curves):
        shade = _axes.colour(code)
        ax.fill_between(at, curve["lower"], curve["upper"], color=shade, alpha=0.2, linewidth=0.0)
        ax.plot(at, curve["mean"], _axes.LINES[code % len(_axes.LINES)], color=shade, label=name)
    ax.set(xlabel="Time" if known.of_times else "Target", ylabel="Share without the event", ylim=(-0.02, 1.02))
    _axes.legend_above(ax)
    return ax
