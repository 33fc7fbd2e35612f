r"""Any likelihood, given as a function, integrated over a Gaussian by adaptive quadrature.

A likelihood may be far narrower or far wider than the Gaussian, lie far from its mean, have heavy tails or an
edge. So for each case the largest value of the tilted density p(t|f) N(f) is located first, then the distances at
which the density falls off on either side; panels that double in width away from the mode are laid between them,
and each is halved until halving no longer changes the integral. Every panel is a Gauss-Lobatto rule, so that for
smooth functions the first halving confirms what is already there to rounding, and an edge next to the end of a
panel does not slip between its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.errors import NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Likelihood, check_number
from bayesgp_mf.likelihoods.moments import from_moments
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array, Derivs

_Query: TypeAlias = "Callable[[_Averages], Array | Sequence[Array]]"
_Density: TypeAlias = Callable[[Array, Array], Any]
_Slopes: TypeAlias = Callable[[Array, Array], tuple[Array, ...]]
_ORDER = 20  # nodes in a panel
_TOLERANCE = 1e-12  # change by halving, relative to the integral; the halves of a smooth panel are far better
_ROUNDING = 1e-15  # of the function, relative to its largest value in nats
_MAX_HALVINGS = 50  # a panel is at rounding size by then
_MAX_ACTIVE = 256  # panels of one case still changing: beyond this it is rounding noise in the function, not shape
_DROP = 50.0  # nats below the mode at which the integrand ends
_DISTANCES = 2.0 ** np.arange(-42, 7)  # from the mode, in standard deviations of the Gaussian
_AGREE = 1e-10  # of moments in standard deviations of the Gaussian
_LOST = 1e-8  # of a mean: below this a standard deviation has hardly a digit that rounding of latent values leaves
_BLOCK = 2048  # cases integrated together, so that memory stays bounded


def _lobatto(order: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss-Lobatto rule on [-1, 1], which includes both ends."""
    last = np.polynomial.legendre.Legendre.basis(order - 1)
    nodes = np.concatenate([[-1.0], np.sort(last.deriv().roots().real), [1.0]])
    nodes = 0.5 * (nodes - nodes[::-1])  # symmetric to the last bit
    return nodes, 2.0 / (order * (order - 1) * last(nodes) ** 2)


_NODES, _WEIGHTS = _lobatto(_ORDER)
_STENCIL = np.arange(-3.0, 4.0)
_FIRST = np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
_SECOND = np.array([2.0, -27.0, 270.0, -490.0, 270.0, -27.0, 2.0]) / 180.0


@dataclass(frozen=True, slots=True)
class Quadrature(Likelihood):
    r"""A likelihood given as a function, averaged over Gaussians numerically.

    Parameters
    ----------
    log_density : callable
        ``log_density(t, f)`` returns log p(t|f) in nats, elementwise, for two float64 arrays ``(k,)``. It must be
        finite, or -inf where p(t|f) = 0, and defined for every real f. It is called far out in f too, where overflow
        inside it is ignored.
    targets : {"binary", "real"}
        Whether t holds labels -1/+1 or real numbers (counts included).
    sampler : callable, optional
        ``sampler(f, rng)`` returns a target for each latent value, of the same shape as ``f``; only for "real".
    step : float
        Step > 0 of the central differences in f, in latent units. See Notes.

    Raises
    ------
    ValueError
        If ``log_density`` or ``sampler`` is not callable, ``targets`` is neither of the two, or ``step`` is not a
        finite number > 0; and, later, if what ``log_density`` returned is no log density.

    Notes
    -----
    With averages under the tilted density p(t|f) N(f | m, v) / Z, the derivatives of log Z in m are
    d1 = (<f> - m)/v and d2 = (Var(f) - v)/v^2, computed in f's standardised form and about its own mean. Relative to
    the likelihood's own scale their rounding errors are of the order of 1e-15 / sqrt(v) and 1e-15 / v. For v
    below ``step**2``, where that would be too much, they are instead d1 = <l'> and d2 = <l''> + Var(l') with the
    derivatives of l = log p(t|f) from central differences, unless -<l''> v is above one.

    Central differences use seven points, h = ``step`` apart. Their errors are h^6 l^(7) / 140 and
    h^6 l^(8) / 560 from truncation, and about 3e-16 abs(l)/h and 1e-15 abs(l)/h^2 from rounding: at the default
    h = 1/256 and for abs(l) of order one, some 1e-13 and 1e-10 for a likelihood that varies on a scale of one, and
    1e-8 relative for one that varies on a scale of 0.1. For a likelihood of a scale s much smaller choose h near
    s/64.

    A file holds no functions: of a saved fit, or stream, `predict`, `posterior`, `loo` and ``streams.load`` need the
    likelihood again, ``likelihood=...``.

    If the density has an edge or a kink, the integral still has an error of about 1e-9, at more cost.

    A narrow second mode hidden between points of the first scan (129 points over +-40 standard deviations), and
    invisible from them, would be missed.

    Examples
    --------
    Counts with a log rate:

    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> poisson = Quadrature(lambda t, f: t * f - np.exp(f) - gammaln(t + 1), targets="real")
    >>> poisson.log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.516535])
    """

    log_density: Callable[[Array, Array], Any]
    targets: Literal["binary", "real"] = "binary"
    sampler: Callable[[Array, np.random.Generator], Any] | None = None
    step: float = 2.0**-8
    # what a function forbids, and whether it is concave, cannot be known before it is asked
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = False

    def __repr__(self) -> str:
        density, sampler = (getattr(f, "__qualname__", repr(f)) for f in (self.log_density, self.sampler))
        return f"Quadrature({density}, targets={self.targets!r}, sampler={sampler}, step={self.step!r})"

    def __post_init__(self) -> None:
        if not callable(self.log_density):
            raise ValueError(f"log_density must be a function of (t, f), got {type(self.log_density).__name__}.")
        check_one_of("targets", self.targets, "binary", "real")
        if self.sampler is not None and not callable(self.sampler):
            raise ValueError(f"sampler must be a function of (f, rng), got {type(self.sampler).__name__}.")
        check_number("step", self.step)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f by central differences; ``t`` and ``f`` broadcast.

        Where log p is -inf within three steps of ``f`` there are no derivatives: they are NaN.

        Raises
        ------
        ValueError
            If the function returned NaN, +inf or a wrong shape.
        """
        t, f = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(f, dtype=np.float64))
        parts = _differences(self.log_density, t.ravel(), f.ravel(), self.step, needed=False)
        return Derivs(*(part.reshape(f.shape) for part in parts))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean.

        At variance 0 it is `log_prob`.

        Raises
        ------
        ValueError
            If the function returned NaN, +inf or a wrong shape, if it is -inf wherever it was asked, or if it grows
            so fast that the integral does not converge.
        """
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        shape = mean.shape
        targets, centre, spread = t.ravel(), mean.ravel(), variance.ravel()
        result = np.empty((3, centre.size))
        (certain,) = np.nonzero(spread == 0)
        if certain.size:
            result[:, certain] = _differences(self.log_density, targets[certain], centre[certain], self.step)
        (uncertain,) = np.nonzero(spread != 0)
        if uncertain.size:
            result[:, uncertain] = self.partition(targets[uncertain], centre[uncertain], spread[uncertain])
        return Derivs(*(row.reshape(shape) for row in result))

    def partition(self, t: Array, mean: Array, variance: Array, slopes: _Slopes | None = None) -> Array:
        """Return what `log_partition` does, ``(3, n)``, for variances ``(n,)`` above zero.

        ``slopes`` returns log p and its derivatives ``(k, p)`` for targets ``(k,)`` and latent values ``(k, p)``, where
        there is better than differences.
        """

        def query(average: _Averages) -> tuple[Array, Array, Array]:
            if slopes is None:
                return average.partition(self._slopes, average.tilted.scale < self.step)
            return average.partition(slopes, np.ones(average.mode.size, dtype=bool))

        return self._each((3,), t, mean, variance, query)

    def _slopes(self, t: Array, f: Array) -> tuple[Array, ...]:
        found = _differences(self.log_density, np.repeat(t, f.shape[1]), f.ravel(), self.step)
        return tuple(part.reshape(f.shape) for part in found)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does, for variances ``(n,)`` above zero."""

        def query(average: _Averages) -> list[Array]:
            offset = average.offset
            scaled = offset / average.at_nodes(np.sqrt(average(offset**2)))
            return [average(scaled**k) for k in range(1, order + 1)]

        return from_moments(self._each((order,), t, mean, variance, query))[2:]

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return what `Likelihood.tilted_share` does, for variances ``(n,)`` above zero."""
        return self._each((), t, mean, variance, lambda average: average(average.offset**2))

    def tilted_average(self, t: Array, mean: Array, variance: Array, values: _Density) -> Array:
        """Return the averages ``(n,)`` of ``values(t, f)`` over the tilted densities, for variances above zero.

        ``values`` is asked for targets ``(k,)`` and latent values ``(k, p)``.
        """
        return self._each((), t, mean, variance, lambda average: average(values(*average.targets_and_latent())))

    def _each(self, lead: tuple[int, ...], t: Array, mean: Array, variance: Array, query: _Query) -> Array:
        """Return what a function finds by averages over tilted densities, of some cases at a time: ``(*lead, n)``."""
        found = np.empty((*lead, mean.size))
        for block in blocks(mean.size, _BLOCK):
            tilted = _Tilted(self.log_density, t[block], mean[block], np.sqrt(variance[block]))
            mode, peak = _mode(tilted)
            found[..., block] = query(_Averages(tilted, mode, peak, _integrate(tilted, mode, peak)))
        return found

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return P(t = +1) when f ~ N(mean, variance), normalised over the two labels; elementwise.

        Raises
        ------
        UndefinedQuantityError
            If the targets are real.
        """
        if self.is_real:
            return Likelihood.predict_proba(self, mean, variance)
        right, wrong = (self.log_partition(np.asarray(t), mean, variance).value for t in (1.0, -1.0))
        return np.asarray(expit(right - wrong))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value; same shape as ``f``.

        Raises
        ------
        UndefinedQuantityError
            If the targets are real and no ``sampler`` was given.
        ValueError
            If the ``sampler`` returned another shape.
        """
        if self.sampler is not None:
            drawn = np.asarray(self.sampler(f, rng), dtype=np.float64)
            if drawn.shape != f.shape:
                raise ValueError(f"sampler(f, rng) must return shape {f.shape}, the shape of f, got {drawn.shape}.")
            return drawn
        if self.undrawn is not None:
            raise UndefinedQuantityError(self.undrawn)
        everywhere = np.asarray(f, dtype=np.float64).ravel()
        right, wrong = (_evaluate(self.log_density, np.full_like(everywhere, t), everywhere) for t in (1.0, -1.0))
        return np.where(rng.random(f.shape) < expit(right - wrong).reshape(f.shape), 1.0, -1.0)

    @property
    def undrawn(self) -> str | None:
        """Why `sample` cannot draw targets, and what to do about it; None if it can."""
        if not self.is_real or self.sampler is not None:
            return None
        return "a density alone cannot draw real targets. Give Quadrature(..., sampler=function of (f, rng))."

    def to_dict(self) -> dict[str, Any]:
        """Return the options and the names of the functions, by which no file finds them."""
        functions = {"log_density": self.log_density, "sampler": self.sampler}
        named = {name: _called(function) for name, function in functions.items() if function is not None}
        return {"likelihood": "Quadrature", **named, "targets": self.targets, "step": float(self.step)}


def _called(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of what is called like one."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def _evaluate(function: _Density, t: Array, f: Array) -> Array:
    """Return ``function(t, f)`` for ``t (k,)`` and ``f (k,)`` or ``(k, p)``, checked."""
    flat = f.ravel()
    targets = t if f.ndim == 1 else np.repeat(t, f.shape[1])
    with np.errstate(all="ignore"):  # far out, where the answer is -inf, overflow on the way is no accident
        returned = np.asarray(function(targets, flat))
    if returned.shape != flat.shape:
        raise ValueError(
            f"log_density(t, f) must return one value for each entry of f, shape {flat.shape}, got {returned.shape}. "
            "Write it with NumPy operations on whole arrays."
        )
    if returned.dtype.kind not in "fiub":
        raise ValueError(f"log_density(t, f) must return real numbers, got an array of {returned.dtype}.")
    values = returned.astype(np.float64)
    bad = ~(values < np.inf)
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"log_density(t, f) must be finite, or -inf where the probability is zero, but it is {values[first]} at "
            f"t = {targets[first]:g}, f = {flat[first]:g}."
        )
    return values.reshape(f.shape)


def _differences(
    function: _Density, t: Array, f: Array, step: float, *, needed: bool = True
) -> tuple[Array, Array, Array]:
    """Return log p and its first two central differences in f, ``(k,)`` each.

    Where there are none that is an error, or, if they are not ``needed``, they are NaN.
    """
    values = _evaluate(function, t, f[:, None] + step * _STENCIL)
    bad = ~np.isfinite(values).all(axis=1)
    if needed and bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"log_density has no derivative at t = {t[first]:g}, f = {f[first]:g}: it is -inf within "
            f"{3 * step:g} of it. Use a smaller Quadrature(step=...), or a density that is positive everywhere."
        )
    with np.errstate(invalid="ignore"):
        centred = values - values[:, 3:4]  # so that a large constant costs no digits
        return values[:, 3], centred @ _FIRST / step, centred @ _SECOND / step**2


class _Tilted(NamedTuple):
    """Log p(t|f) N(f | mean, scale^2) of several cases, in x = (f - mean)/scale."""

    function: _Density
    t: Array
    mean: Array
    scale: Array

    def take(self, case: Any) -> _Tilted:
        """Return the cases named by an index array."""
        return _Tilted(self.function, self.t[case], self.mean[case], self.scale[case])

    def latent(self, x: Array) -> Array:
        """Return f for ``x (k, p)``."""
        return self.mean[:, None] + self.scale[:, None] * x

    def __call__(self, x: Array) -> Array:
        """Return the log of the integrand in x, up to log(2 pi)/2; ``(k, p)``."""
        return _evaluate(self.function, self.t, self.latent(x)) - 0.5 * x**2


class _Nodes(NamedTuple):
    """Nodes of accepted panels: the case of each panel, distances from the mode and weights, ``(panels, order)``."""

    case: Any
    distance: Array
    weight: Array


class _Averages:
    """Averages over tilted densities, by the nodes of their integrals."""

    def __init__(self, tilted: _Tilted, mode: Array, peak: Array, nodes: _Nodes) -> None:
        self.tilted, self.mode, self.peak, self.nodes = tilted, mode, peak, nodes
        self.mass = self._sum(np.ones_like(nodes.weight))

    def __call__(self, values: Array) -> Array:
        """Return the averages ``(k,)`` of values at the nodes."""
        return np.asarray(self._sum(values) / self.mass)

    def at_nodes(self, values: Array) -> Array:
        """Return numbers of the cases ``(k,)`` beside their nodes, ``(panels, 1)``."""
        return np.asarray(values[self.nodes.case][:, None])

    @property
    def offset(self) -> Array:
        """Distances of the nodes from the mean."""
        return np.asarray(self.nodes.distance - self.at_nodes(self(self.nodes.distance)))

    def targets_and_latent(self) -> tuple[Array, Array]:
        """Return the targets ``(panels,)`` and latent values ``(panels, order)`` of the nodes."""
        at = self.tilted.take(self.nodes.case)
        return at.t, at.latent(self.at_nodes(self.mode) + self.nodes.distance)

    def partition(self, slopes: _Slopes, narrow: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Return log Z and its derivatives in mean, ``(k,)`` each, for scale > 0.

        Of cases that are ``narrow (k,)`` the slopes are averaged, unless the target says more than the Gaussian does,
        or moments do not agree.
        """
        scale = self.tilted.scale
        value = self.peak + np.log(self.mass) - 0.5 * np.log(2.0 * np.pi)
        d1 = (self.mode + self(self.nodes.distance)) / scale
        d2 = (self(self.offset**2) - 1.0) / scale**2
        if narrow.any():
            # moments of x would be a difference quotient over less than what the density needs to change
            inside = narrow[self.nodes.case]
            some = _Averages(self.tilted, self.mode, self.peak, _Nodes(*(part[inside] for part in self.nodes)))
            heavy = some.nodes.weight > 0  # where the weight is nothing a slope may be infinite
            _, *found = slopes(*some.targets_and_latent())
            first, second = (np.where(heavy, part, 0.0) for part in found)
            with np.errstate(invalid="ignore"):  # of those that are not narrow there are no nodes
                slope, bent = some(first), some(second)
                bend = bent + some((first - some.at_nodes(slope)) ** 2)
                # of a density that changes between nodes the slopes miss what moments know to nearly all their digits
                agree = np.maximum(np.abs(slope - d1) * scale, np.abs(bend - d2) * scale**2) <= _AGREE
                narrow = narrow & agree & (np.abs(bent) * scale**2 <= 1.0)
            d1, d2 = np.where(narrow, slope, d1), np.where(narrow, bend, d2)
        return value, d1, d2

    def _sum(self, values: Array) -> Array:
        sums = np.sum(self.nodes.weight * values, axis=1)
        return np.asarray(np.bincount(self.nodes.case, sums, minlength=self.mode.size), dtype=np.float64)


def _mode(tilted: _Tilted) -> tuple[Array, Array]:
    """Return where the tilted density is largest, ``(k,)`` in x, and its log there."""
    k = tilted.t.size
    unit = np.sinh(np.linspace(-4.0, 4.0, 129)) / np.sinh(4.0)  # denser near the mean
    reach = np.full(k, 40.0)
    best = np.zeros(k, dtype=np.intp)
    todo = np.arange(k)
    for _ in range(12):
        values = tilted.take(todo)(reach[todo][:, None] * unit)
        best[todo] = np.argmax(values, axis=1)
        lost = (best[todo] == 0) | (best[todo] == unit.size - 1) | np.isneginf(values.max(axis=1))
        todo = todo[lost]
        if todo.size == 0:
            break
        reach[todo] *= 4.0
    else:
        first = int(todo[0])
        of = f"t = {tilted.t[first]:g} against a Gaussian of mean {tilted.mean[first]:g} and standard deviation "
        of += f"{tilted.scale[first]:g}"
        if tilted.scale[first] <= _LOST * abs(tilted.mean[first]):  # far from a solution, whatever the density
            raise NotPositiveDefiniteError(
                f"there is no integral at {of}, a width that is lost in the rounding of its mean."
            )
        raise UndefinedQuantityError(
            f"log_density cannot be integrated at {of}: within {reach[first] / 4:.1g} standard deviations it is -inf "
            "everywhere, or outgrows the Gaussian."
        )
    low, high = reach * unit[best - 1], reach * unit[best + 1]
    rows, fraction = np.arange(k), np.linspace(0.0, 1.0, 17)
    for _ in range(11):  # each takes the bracket down to an eighth
        x = low[:, None] + (high - low)[:, None] * fraction
        values = tilted(x)
        top = np.argmax(values, axis=1)
        mode, peak = x[rows, top], values[rows, top]
        low, high = x[rows, np.maximum(top - 1, 0)], x[rows, np.minimum(top + 1, 16)]
    return mode, peak


def _integrate(tilted: _Tilted, mode: Array, peak: Array) -> _Nodes:
    """Return nodes whose weights, times exp(peak), integrate the tilted density in x."""
    sides = [_panels(tilted, mode, peak, sign) for sign in (-1.0, 1.0)]
    case, low, high = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    accepted: list[_Nodes] = []
    done = np.zeros(mode.size)
    tolerance = _TOLERANCE + _ROUNDING * np.abs(peak)
    _, mass = _rule(tilted, mode, peak, case, low, high)
    for _ in range(_MAX_HALVINGS):
        middle = 0.5 * (low + high)
        case, low, high = np.tile(case, 2), np.concatenate([low, middle]), np.concatenate([middle, high])
        nodes, halves = _rule(tilted, mode, peak, case, low, high)
        total = done + np.bincount(case, halves, minlength=mode.size)
        change = np.abs(halves[: mass.size] + halves[mass.size :] - mass)
        changing = np.tile(change, 2) > (tolerance * total)[case]
        crowded = np.bincount(case[changing], minlength=mode.size) > _MAX_ACTIVE
        changing &= ~crowded[case]
        settled = ~changing
        accepted.append(_Nodes(*(part[settled] for part in nodes)))
        done += np.bincount(case[settled], halves[settled], minlength=mode.size)
        case, low, high, mass = case[changing], low[changing], high[changing], halves[changing]
        if case.size == 0:
            break
    else:
        accepted.append(_rule(tilted, mode, peak, case, low, high)[0])
    return _Nodes(*(np.concatenate(parts) for parts in zip(*accepted, strict=True)))


def _panels(tilted: _Tilted, mode: Array, peak: Array, sign: float) -> tuple[Any, Array, Array]:
    """Return case, lower and upper end, from the mode, of panels on one side of it that double in width."""
    drop = peak[:, None] - tilted(mode[:, None] + sign * _DISTANCES)
    inner = np.argmax(drop > 0.5, axis=1)  # about one standard deviation of the tilted density
    outer = _DISTANCES.size - np.argmax((drop < _DROP)[:, ::-1], axis=1)
    endless = outer == _DISTANCES.size
    if (endless & (drop[:, -1] < _DROP)).any():
        first = int(np.argmax(endless & (drop[:, -1] < _DROP)))
        raise UndefinedQuantityError(
            f"log_density grows too fast to be integrated at t = {tilted.t[first]:g} against a Gaussian of mean "
            f"{tilted.mean[first]:g} and standard deviation {tilted.scale[first]:g}."
        )
    outer[(drop >= _DROP).all(axis=1)] = 0  # an edge at the mode itself
    index = np.arange(_DISTANCES.size)
    start = np.maximum(inner - 1, 0)
    case, upper = np.nonzero((index >= start[:, None]) & (index <= np.maximum(outer, start)[:, None]))
    near = np.where(upper == start[case], 0.0, _DISTANCES[upper - 1])
    ends = sign * np.stack([near, _DISTANCES[upper]])
    return case, ends.min(axis=0), ends.max(axis=0)


def _rule(tilted: _Tilted, mode: Array, peak: Array, case: Any, low: Array, high: Array) -> tuple[_Nodes, Array]:
    """Return the nodes of Gauss-Lobatto panels and the integral over each, in units of exp(peak)."""
    half = 0.5 * (high - low)[:, None]
    distance = 0.5 * (low + high)[:, None] + half * _NODES
    log_density = tilted.take(case)(mode[case][:, None] + distance)
    weight = half * _WEIGHTS * np.exp(log_density - peak[case][:, None])
    return _Nodes(case, distance, weight), np.sum(weight, axis=1)
