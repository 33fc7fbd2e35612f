r"""How likely a target is to be at most a number, where its latent value is Gaussian.

A count is at most t where its latent value is below a random number V that depends on t: the log of a gamma variable
for Poisson's law, the logit of a beta variable for the binomial and the negative-binomial one. So

.. math:: P(T \le t) = P(f < c + V), \qquad f \sim N(m, v),

which is an average over the narrower of the two of what the other says in closed form: smooth at the scale of the
nodes, so that a trapezoidal rule is right to rounding. Student's t is a mixture of Gaussians over the same log of a
gamma variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.special import betainc, expit, gammaincc, ndtr

from bayesgp_mf.matrices.factors import blocks, blocks_by_size
from bayesgp_mf.types import Array

DROP = 38.0
"""In nats, how far below its peak a density is left out: exp(-38) is below rounding."""
STEP = 0.25
"""Between nodes of V, whose characteristic function falls by exp(-pi/2) a unit: what is left out is below exp(-38)."""
FEWER = 8.0
"""From so large a shape on V is narrower, and so is the step."""
NODES: Array = np.linspace(-8.8, 8.8, 89)
"""Those of a standard Gaussian."""
NARROWER, EVERY_THIRD = 0.25, NODES[2::3]
"""Share of the variance of V up to which that of f needs fewer nodes: beyond their frequencies is less than e**-36."""
SMALL = 1e-2
"""Below it six terms of a series of the exponential are nearly all its digits."""
LONG = 0.1
"""Below this b the density of V falls so slowly beyond its bend that equal steps would be thousands."""
BEND: Array = np.arange(-40.0, 41.0, 4.0)
TAIL: Array = np.arange(1.0, 7.0) * 8.0
SIDES: Array = np.arange(-9.0, 10.0, 2.0)
"""Ends of panels then: about the bend; beyond it, in units of 1/b; in standard deviations of f."""
PANEL = leggauss(16)
PANELS_OF_ALL = (BEND.size + TAIL.size + SIDES.size) * PANEL[0].size
ENTRIES = 2**18
"""Nodes of all cases at a time."""


def count_below(a: Array, b: Array, shift: Array, mean: Array, variance: Array) -> Array:
    r"""Return :math:`P(f < c + V)` for :math:`f \sim N(m, v)`; all arguments broadcast.

    Parameters
    ----------
    a, b : array
        V is the logit of a beta variable of these shapes, a >= 1 and b > 0, or, where b is infinite, the log of a gamma
        variable of shape a.
    shift : array
        c.
    mean, variance : array
        m and v >= 0.
    """
    a, b, shift, mean, variance = np.broadcast_arrays(a, b, shift, mean, variance)
    shape = a.shape
    a, b, shift, mean, sd = a.ravel(), b.ravel(), shift.ravel(), mean.ravel(), np.sqrt(variance.ravel())
    found = np.empty(a.size)
    with np.errstate(over="ignore"):
        width = sd**2 * (1.0 + _bend(a, b))  # beside the steepest flank of V, which has an edge where a or b is small
    wide, narrower = width > 1.0, width <= NARROWER
    (long,) = np.nonzero(wide & (b < LONG))
    for block in blocks(long.size, max(ENTRIES // PANELS_OF_ALL, 1)):
        some = long[block]
        found[some] = _by_panels(a[some], b[some], (mean - shift)[some], sd[some])
    for nodes, those in ((EVERY_THIRD, narrower), (NODES, ~(wide | narrower))):
        (narrow,) = np.nonzero(those)
        weight = np.exp(-0.5 * nodes**2)
        weight /= weight.sum()
        for block in blocks(narrow.size, ENTRIES // nodes.size):
            some = narrow[block]
            x = (mean - shift)[some, None] + sd[some, None] * nodes
            found[some] = _above(a[some, None], b[some, None], x) @ weight
    (wide_ones,) = np.nonzero(wide & (b >= LONG))
    for some, x, weights in _deviations(a[wide_ones], b[wide_ones]):
        which = wide_ones[some]
        peak = np.log(a[which]) - np.where(np.isinf(b[which]), 0.0, np.log(b[which]))
        v = (peak + shift[which] - mean[which])[:, None] + x
        found[which] = np.einsum("ij,ij->i", weights, ndtr(v / sd[which, None]))
    return found.reshape(shape)


def _by_panels(a: Array, b: Array, mean: Array, sd: Array) -> Array:
    """Return P(f < V) for b that is nearly zero, as an average over f.

    P(V > x) falls within some units of log a, and is exponential beyond: on each panel all factors are smooth.
    """
    low, high = (mean + SIDES[end] * sd for end in (0, -1))
    bend = np.log(a)[:, None] + BEND
    ends = (bend, bend[:, -1:] + TAIL / b[:, None], mean[:, None] + sd[:, None] * SIDES)
    edges = np.sort(np.clip(np.concatenate(ends, axis=1), low[:, None], high[:, None]), axis=1)
    half = 0.5 * np.diff(edges, axis=1)[..., None]
    x = edges[:, :-1, None] + half * (1.0 + PANEL[0])
    z = (x - mean[:, None, None]) / sd[:, None, None]
    weights = half * PANEL[1] * np.exp(-0.5 * z**2)
    a, b, last = a[:, None, None], b[:, None, None], bend[:, -1, None, None]
    over = np.maximum(x - last, 0.0)  # where it is exponential, while exp(-x) may be no number any more
    above = _above(a, b, np.minimum(x, last)) * np.exp(-b * over)
    return np.asarray(np.sum(weights * above, axis=(1, 2)) / np.sum(weights, axis=(1, 2)))


def student_t_below(residual: Array, variance: Array, scale: float, df: float) -> Array:
    r"""Return :math:`P(T \le t)` for :math:`T = f + s T_\nu`, with ``residual`` t - m, which broadcasts with v."""
    residual, variance = np.broadcast_arrays(residual, variance)
    found, flat, spread = np.empty(residual.size), residual.ravel(), variance.ravel()
    shape = np.full(found.size, 0.5 * df)
    with np.errstate(over="ignore"):
        for some, x, weights in _deviations(shape, np.full(found.size, np.inf)):
            total = spread[some, None] + scale**2 * np.exp(-x)
            found[some] = np.einsum("ij,ij->i", weights, ndtr(flat[some, None] / np.sqrt(total)))
    return found.reshape(residual.shape)


def _above(a: Array, b: Array, x: Array) -> Array:
    """Return P(V > x)."""
    of_gamma = np.isinf(b)
    found = np.empty(np.broadcast_shapes(a.shape, b.shape, x.shape))
    with np.errstate(over="ignore"):
        gammaincc(a, np.exp(x), out=found, where=of_gamma)
    betainc(b, a, expit(-x), out=found, where=~of_gamma)
    return found


def _deviations(a: Array, b: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Yield some cases at a time, with nodes ``(k, p)`` of V in deviations from its mode, and their weights.

    The log density is that of the mode plus a x - (a + b) log(1 + q (exp(x) - 1)), q = a/(a + b), which for an infinite
    b is a (x + 1 - exp(x)). It keeps its digits where a is the smaller of the two; V has the other sign with a and b
    exchanged.
    """
    small, large = np.minimum(a, b), np.maximum(a, b)
    bend = _bend(a, b)
    root = np.sqrt(2.0 * DROP / bend)
    reach = np.where(bend >= DROP, root * (1.0 + root / 3.0), DROP / small + 2.0)
    points = 2.0 * np.ceil(reach * np.sqrt(1.0 + bend / FEWER) / STEP) + 1.0
    for some in blocks_by_size(points, ENTRIES):
        x = reach[some, None] * np.linspace(-1.0, 1.0, int(points[some[-1]]))
        weights = np.exp(_log_density(small[some, None], large[some, None], x))
        weights /= weights.sum(axis=1, keepdims=True)
        yield some, x * np.where(a[some] <= b[some], 1.0, -1.0)[:, None], weights


def _bend(a: Array, b: Array) -> Array:
    """Return the curvature of the log density of V at its mode, a b/(a + b)."""
    small = np.minimum(a, b)
    return np.asarray(small / (1.0 + small / np.maximum(a, b)))


def _log_density(small: Array, large: Array, x: Array) -> Array:
    of_gamma = np.isinf(large)
    total = small + np.where(of_gamma, 1.0, large)
    q = small / total
    near = np.minimum(x, 30.0)
    beyond = x - near  # of which log(1 + q (exp(x) - 1)) is then all there is, but for rounding
    with np.errstate(over="ignore"):
        beta = small * x - total * (np.log1p(q * np.expm1(near)) + _rest(q, near, beyond))
        return np.where(of_gamma, small * below_exponential(x), beta)


def below_exponential(x: Array) -> Array:
    """Return x + 1 - exp(x), with its digits near zero."""
    near = x**2 * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x / 720))))
    return np.asarray(np.where(np.abs(x) < SMALL, -near, x - np.expm1(x)))


def _rest(q: Array, near: Array, beyond: Array) -> Array:
    """Return log(1 + q (exp(near + beyond) - 1)) - log(1 + q (exp(near) - 1)) for beyond >= 0."""
    share = np.minimum(q * np.exp(near) / (1.0 + q * np.expm1(near)), 1.0)  # which rounding may exceed
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-share), np.log(share) + beyond) * (beyond > 0)


LARGEST = 1e300
"""A quantile beyond this is infinite: so a count whose rate overflows."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)


def quantiles(below: Callable[[Array], Array], levels: Array, centre: Array, spread: Array, *, whole: bool) -> Array:
    """Return the smallest t with P(T <= t) >= q, ``(q, m)``, of m targets.

    Parameters
    ----------
    below : callable
        P(T <= t) ``(q, m)`` for t ``(q, m)``.
    levels : (q,) array
        Probabilities between 0 and 1.
    centre, spread : (m,) array
        Where to begin, and in what steps; of no account for targets that are whole numbers.
    whole : bool
        Whether targets are whole numbers >= 0.
    """
    wanted = np.broadcast_to(levels[:, None], (levels.size, centre.size))
    step = np.ones(wanted.shape) if whole else np.broadcast_to(spread, wanted.shape).copy()
    low = np.full(wanted.shape, -1.0) if whole else centre - step
    high = low + step
    while not whole and (down := (below(low) >= wanted) & (low > -LARGEST)).any():
        high = np.where(down, low, high)
        step = np.where(down, 2.0 * step, step)
        low = np.where(down, low - step, low)
    while (up := (below(high) < wanted) & (high < LARGEST)).any():
        low = np.where(up, high, low)
        growth = np.maximum(2.0, np.sqrt(step)) if whole else 2.0  # a count may have any number of digits
        step = np.where(up, growth * np.minimum(step, LARGEST / growth), step)
        high = np.where(up, high + step, high)
    unit = np.broadcast_to(spread, wanted.shape)
    if not whole:  # one above zero has all its digits, in whatever unit
        above = (low < 0) & (high > 0) & (below(np.zeros(wanted.shape)) < wanted)
        low = np.where(above, 0.0, low)
        unit = np.where(low >= 0, 0.0, unit)
    while True:
        middle = 0.5 * low + 0.5 * high
        if whole:
            far = (low > 1.0) & (high > 4.0 * low)
            middle = np.floor(np.where(far, np.sqrt(np.maximum(low, 1.0)) * np.sqrt(np.maximum(high, 1.0)), middle))
        else:
            tiny = np.finfo(np.float64).tiny
            far = (low >= 0) & (high > 4.0 * np.maximum(low, tiny))
            middle = np.where(far, np.sqrt(np.maximum(low, tiny)) * np.sqrt(np.maximum(high, tiny)), middle)
        between = (low < middle) & (middle < high)
        if not whole:
            between &= high - low > ROUNDING * np.maximum(np.maximum(np.abs(low), np.abs(high)), unit)
        if not between.any():
            return np.where(high < LARGEST, high, np.inf)
        enough = below(middle) >= wanted
        low, high = np.where(between & ~enough, middle, low), np.where(between & enough, middle, high)


WINDOW = leggauss(256)
"""Over at most 17 units of the narrower of a Gaussian and a function that falls, but for tails of the latter."""
HALVINGS = 60


def average_of_falling(below: Callable[[Array, Array], Array], t: Array, mean: Array, variance: Array) -> Array:
    """Return averages over f ~ N(mean, variance) of a function of t and f that falls in f from 1 to 0; all of a shape.

    It is averaged where it is neither 1 nor 0 to rounding, which bisection finds.
    """
    shape = t.shape
    t, mean, sd = t.ravel(), mean.ravel(), np.sqrt(variance.ravel())
    found = np.empty(t.size)
    for some in blocks(t.size, ENTRIES // WINDOW[0].size):
        at, centre, width = t[some], mean[some], sd[some]
        ends = list[Array]()
        for level in (1.0 - 1e-16, 1e-16):
            low, high = centre + NODES[0] * width, centre + NODES[-1] * width
            for _ in range(HALVINGS):
                middle = 0.5 * (low + high)
                above = below(at, middle) >= level
                low, high = np.where(above, middle, low), np.where(above, high, middle)
            ends.append(0.5 * (low + high))
        low, half = ends[0], 0.5 * (ends[1] - ends[0])
        f = low[:, None] + half[:, None] * (1.0 + WINDOW[0])
        certain = width == 0
        unit = np.where(certain, 1.0, width)
        density = np.exp(-0.5 * ((f - centre[:, None]) / unit[:, None]) ** 2) * (half / unit)[:, None]
        inside = (below(at[:, None], f) * density) @ WINDOW[1] / np.sqrt(2.0 * np.pi)
        found[some] = np.where(certain, below(at, centre), ndtr((low - centre) / unit) + inside)
    return found.reshape(shape)
