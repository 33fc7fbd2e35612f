r"""Draws of a Gaussian approximation with each marginal carried onto the tilted distribution of its case.

What a mean-field theory says of one latent value is not Gaussian. It is the cavity, which is Gaussian, times the
likelihood of the case's own target (2000, fig. 1):

.. math:: q_i(f) = p(t_i|f)\, N(f | m_i, \lambda_i) / Z_i.

A draw with the standard score :math:`x` in the Gaussian marginal goes to the quantile of the same level,
:math:`F_i(f') = \Phi(x)`, case by case. The map is monotone, so that the draws keep their dependence (the Gaussian
copula), and its slope :math:`df'/dx = \phi(x) / q_i(f')` gives their density.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri_exp

from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

_REACH = 9.0  # the map is tabulated for scores up to this, which no draw exceeds; beyond, it goes on along a line
_PANELS = 320
_STAGES = 12  # grids after which the density counts as too rough
_JUMP = 0.5  # the largest step of the log of the slope from knot to knot; the interpolation is good to some 1e-6 then
_LOG_OUTSIDE = -92.0  # log of the mass that the first grid may leave out
_SAME = 1e-9  # the largest difference in nats between the integral over the grid and the likelihood's own
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)


def tilted_values(likelihood: Likelihood, t: Array, cavity: Cavity, scores: Array) -> tuple[Array, Array]:
    """Return the values of the tilted distributions at the levels of standard scores, and the log of their slopes.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f).
    t : (n,) array
        Targets.
    cavity : Cavity
        Means and variances ``(n,)``; the variances are positive.
    scores : (draws, n) array
        x, whose level is the standard normal distribution function.

    Returns
    -------
    values : (draws, n) array
        f' with F_i(f') = Phi(x), in latent units.
    log_slopes : (draws, n) array
        Log of df'/dx: of the very map that was used, so that densities that are computed with it are those of the
        values.

    Raises
    ------
    ArithmeticError
        If a density has an edge or a peak so narrow that it was not integrated to 1e-9 nats.
    """
    in_closed_form = likelihood.tilted_values(t, cavity.mean, cavity.variance, scores)
    if in_closed_form is not None:
        return in_closed_form
    known, reached, slopes = _knots(likelihood, t, cavity)
    values, log_slopes = np.empty_like(scores), np.empty_like(scores)
    for i in range(t.size):
        values[:, i], log_slopes[:, i] = _interpolate(known[:, i], reached[:, i], slopes[:, i], scores[:, i])
    return values, log_slopes


def _knots(likelihood: Likelihood, t: Array, cavity: Cavity) -> tuple[Array, Array, Array]:
    """Return scores, values and slopes ``(knots, n)`` of the map, from grids that follow it ever more closely."""
    log_z, d1, d2 = likelihood.log_partition(t, cavity.mean, cavity.variance)
    scale = np.sqrt(cavity.variance)
    mean, sd = cavity.mean + cavity.variance * d1, scale * np.sqrt(np.maximum(1.0 + cavity.variance * d2, 1e-12))
    inner = mean + sd * np.linspace(-12.0, 12.0, 97)[:, None]
    # beyond these ends lies less than p_max N(f) / Z
    log_max = np.maximum(likelihood.log_prob(t, inner).value.max(axis=0), 0.0)
    ends = scale * -ndtri_exp(np.minimum(_LOG_OUTSIDE + log_z - log_max, 0.0))
    edges = np.sort(np.concatenate([inner, cavity.mean + ends * np.linspace(-1.0, 1.0, 193)[:, None]]), axis=0)
    for stage in range(_STAGES):
        scores, log_slopes, log_mass = _scores(likelihood, t, cavity, edges)
        off = np.abs(log_mass - log_z)
        inside = np.abs(scores[1:]) < _REACH - 1.0  # where draws are; the last steps before the ends may be large
        jumps = np.where(inside, np.abs(np.diff(log_slopes, axis=0)), 0.0).max(axis=0)
        if stage > 0 and np.all(off < _SAME) and np.all(jumps < _JUMP):
            return scores, edges[1:-1], np.exp(log_slopes)
        edges = np.stack([_even(edges[1:-1, i], scores[:, i], log_slopes[:, i]) for i in range(t.size)], 1)
    worst = int(np.argmax(np.maximum(off / _SAME, jumps / _JUMP)))
    raise ArithmeticError(
        f"the tilted distribution of case {worst} (target {t[worst]:g}, cavity mean {cavity.mean[worst]:g}, sd "
        f"{scale[worst]:g}) was not tabulated: its integral is off by {off[worst]:.2g} nats. Its density has "
        "an edge or a very narrow peak; use marginals='gaussian'."
    )


def _even(edges: Array, scores: Array, log_slopes: Array) -> Array:
    """Return a new grid ``(_PANELS,)``: each step the same sum of a change in score and one in the log of the slope."""
    first = max(int(np.searchsorted(scores, -_REACH)) - 1, 0)
    last = int(np.searchsorted(scores, _REACH)) + 1
    edges, scores, log_slopes = edges[first:last], scores[first:last], log_slopes[first:last]
    travelled = np.concatenate([[0.0], np.cumsum(np.diff(scores) + np.minimum(np.abs(np.diff(log_slopes)), _REACH))])
    return np.interp(np.linspace(0.0, travelled[-1], _PANELS + 1), travelled, edges)


def _scores(likelihood: Likelihood, t: Array, cavity: Cavity, edges: Array) -> tuple[Array, Array, Array]:
    """Return the scores of the inner edges ``(k - 2, n)``, the log of the slope there, and the log of the integral.

    The level of an edge is taken from the nearer end, where it is a small number with all its digits.
    """

    def log_density(f: Array) -> Array:
        gauss = -0.5 * (f - cavity.mean) ** 2 / cavity.variance - 0.5 * np.log(2.0 * np.pi * cavity.variance)
        return np.asarray(likelihood.log_prob(t, f).value + gauss)

    half = 0.5 * np.diff(edges, axis=0)
    middle = edges[:-1] + half
    terms = np.stack([log_density(middle + half * x) + np.log(w) for x, w in zip(_NODES, _WEIGHTS, strict=True)])
    with np.errstate(divide="ignore"):  # two edges may be one
        log_panels = np.logaddexp.reduce(terms, axis=0) + np.log(half)
    below = np.logaddexp.accumulate(log_panels, axis=0)
    above = np.logaddexp.accumulate(log_panels[::-1], axis=0)[::-1]
    total = below[-1]
    lower, upper = below[:-1] - total, above[1:] - total
    scores = np.where(lower < upper, ndtri_exp(np.minimum(lower, 0.0)), -ndtri_exp(np.minimum(upper, 0.0)))
    log_normal = -0.5 * scores**2 - 0.5 * np.log(2.0 * np.pi)
    return scores, log_normal - log_density(edges[1:-1]) + total, total


def _interpolate(scores: Array, values: Array, slopes: Array, at: Array) -> tuple[Array, Array]:
    """Return the monotone rational spline through knots with given slopes, and the log of its slope [1]_.

    References
    ----------
    .. [1] Gregory, J. A., & Delbourgo, R. (1982). Piecewise rational quadratic interpolation to monotonic data. IMA
       Journal of Numerical Analysis 2, 123-130. Eqs. 2.4 and 2.6. https://doi.org/10.1093/imanum/2.2.123
    """
    inside = np.clip(at, scores[0], scores[-1])
    k = np.clip(np.searchsorted(scores, inside, side="right") - 1, 0, scores.size - 2)
    width, rise = np.diff(scores)[k], np.diff(values)[k]
    chord, left, right = rise / width, slopes[k], slopes[k + 1]
    part = (inside - scores[k]) / width
    rest = 1.0 - part
    denominator = chord + (left + right - 2.0 * chord) * part * rest
    value = values[k] + rise * part * (chord * part + left * rest) / denominator
    slope = chord**2 * (right * part**2 + 2.0 * chord * part * rest + left * rest**2) / denominator**2
    return value + slope * (at - inside), np.log(slope)
