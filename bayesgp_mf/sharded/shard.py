r"""A part of the cases, with their sites: what it does in a round of TAP on inducing cases.

Sites and roots live where the rows live. A round has two messages. The first says how to mix the last steps into the
next state, and the answer is what the sites of these cases say of the inducing values, :math:`L^T W' L` and
:math:`L^T b'`, which add up. The second has the posterior that follows from all, and the answer is by how much the
sites would change, with the products that the mixing of the next step needs (`solvers.driver` has the loop).

Both answers cost n M^2. While the steps are long they are taken in single precision, a block of rows at a time, at half
the time; what is solved is solved in double precision. Before the first round the sites may be matched to a posterior
that is known already, of a random part of all cases: after that few rounds are left.

Where sites are known beforehand, as those of a Gaussian likelihood are, the equations are linear: one round solves
them, and no cavity is asked for, whose variance small noise would leave to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.inference.problem import derivs_at_prior
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.inputs.labels import encode_labels
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.inducing import InducingGram, inducing_gram
from bayesgp_mf.matrices.root import Root, RootGradient, variances, weighted_square
from bayesgp_mf.matrices.root_gram import RootCorrection
from bayesgp_mf.sharded.sources import Rows
from bayesgp_mf.solvers.accuracy import in_deviations
from bayesgp_mf.solvers.driver import MEMORY, Memory
from bayesgp_mf.solvers.sites import SiteState, SiteUnits, match
from bayesgp_mf.types import Array

SINGLE_BLOCK = 4096
"""Rows that are there in single precision at once."""
SMALLEST_REST = 1e-6
"""One less the precision of a site times the posterior variance: below this the case is all that is known of itself."""


class ShardModel(NamedTuple):
    """What the cases are looked at with; every message has it, for whoever has to start anew.

    Attributes
    ----------
    number : int
        Changes with the model.
    kernel, likelihood : Kernel, Likelihood
        Prior covariance, and p(t | f).
    points : (M, d) array
        Inducing inputs.
    classes : tuple or None
        The two classes, the positive one last; None for real targets.
    """

    number: int
    kernel: Kernel
    likelihood: Likelihood
    points: Array
    classes: tuple[Any, Any] | None


class Form(NamedTuple):
    """How to go on: the first message of a round.

    Attributes
    ----------
    model : ShardModel
        The model.
    number : int
        Of the message, from 0; who has not had the one before starts from nothing, and says so.
    before : tuple of str
        What is done first, in order: verbs of `solvers.driver.Memory`.
    weights : (k,) array or None
        Of the last differences.
    damping : float
        Of the step; 0 begins again from here.
    single : bool
        Whether single precision will do.
    """

    model: ShardModel
    number: int
    before: tuple[str, ...]
    weights: Array | None
    damping: float
    single: bool = False


class Measure(NamedTuple):
    """The posterior that follows from all cases: the second message.

    Attributes
    ----------
    model : ShardModel
        The model.
    number : int
        Of the message.
    inverse_factor : (M, M) array
        T, with T'T the posterior covariance of the weights of the features.
    mean : (M,) array
        Their mean.
    single : bool
        Whether single precision will do.
    """

    model: ShardModel
    number: int
    inverse_factor: Array
    mean: Array
    single: bool = False


class Begin(NamedTuple):
    """Where to begin: the message before the first round.

    Attributes
    ----------
    model : ShardModel
        The model.
    number : int
        Of the message.
    posterior : (Array, Array) or None
        Factor and mean, as `Measure` has them, of some of the cases, to whose cavities the sites are matched; None lets
        them say nothing.
    """

    model: ShardModel
    number: int
    posterior: tuple[Array, Array] | None


class Largest(float):
    """A number whose sum with another is the larger of the two; NaN is larger than all."""

    def __add__(self, other: float) -> Largest:
        return Largest(self if not self <= other else other)


class Shard:
    """The cases of a part with their sites, under one model.

    Parameters
    ----------
    rows : Rows
        Inputs and labels.
    model : ShardModel
        The model.
    before : Shard, optional
        The same cases under another one, whose sites are a start.
    """

    def __init__(self, rows: Rows, model: ShardModel, before: Shard | None = None) -> None:
        self.X, self.model = rows.X, model
        self.t = targets_of(rows, model)
        self.kernel, self.likelihood = model.kernel, model.likelihood
        self.gram: InducingGram = inducing_gram(model.kernel, rows.X, model.points)
        self.next, self.answer = 0, dict[str, Any]()
        self.known = self.likelihood.known_sites(self.t, 0.0)
        self.memory = Memory(self._first())
        if before is not None:
            self.next = before.next
            if self.known is None:
                self.memory = Memory(self.units.pack(before.units.unpack(before.memory.tried)))

    @cached_property
    def units(self) -> SiteUnits:
        """Units of the sites."""
        return SiteUnits(derivs_at_prior(self.likelihood, self.t, self.gram.prior))

    def _first(self) -> Array:
        """Return sites that say nothing, or those that are known."""
        return np.zeros(2 * self.t.size) if self.known is None else self.units.pack(SiteState(*self.known))

    def forget(self, x: Array | None = None) -> None:
        """Start from some sites, by default from those that say nothing."""
        self.memory = Memory(self._first() if x is None else x)

    def natural_parameters(self) -> tuple[SiteState, Array, Array, Array]:
        """Return the sites that are tried, 1 + W d, and W' and b' of the shared part, ``(n,)`` each."""
        sites = self.units.unpack(self.memory.tried) if self.known is None else SiteState(*self.known)
        share = 1.0 + sites.precision * self.gram.own
        return sites, share, sites.precision / share, sites.shift / share

    def once(self, number: int, function: Callable[[Shard, bool], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer to a message, also where it comes again, because the answer was lost on its way.

        ``function`` takes these cases, and whether the message before never came: they start from nothing then.
        """
        if number != self.next - 1:
            lost = number != self.next
            with np.errstate(all="ignore"):
                if lost:
                    self.forget()
                self.next = number + 1
                self.answer = function(self, lost) | {"lost": int(lost)}
        return self.answer


def shard_of(rows: Rows, model: ShardModel) -> Shard:
    """Return the cases of a part under a model."""
    if rows.shard is None or rows.shard.model.number != model.number:
        rows.shard = Shard(rows, model, rows.shard)
    found: Shard = rows.shard
    return found


def targets_of(rows: Rows, model: ShardModel) -> Array:
    """Return targets ``(n,)`` as a solver wants them, or raise a ValueError that names the part."""
    if model.classes is None:
        return real_targets(rows)
    try:
        return 2.0 * encode_labels(rows.y, model.classes) - 1.0
    except ValueError as error:
        raise ValueError(f"{rows.name}: {error}") from error


def real_targets(rows: Rows) -> Array:
    """Return real targets ``(n,)``, or raise a ValueError that names the part and the row."""
    if rows.y.dtype.kind not in "fiub":
        raise ValueError(f"{rows.name}: targets must be real numbers, got {rows.y.dtype}.")
    t = np.asarray(rows.y, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(t))
    if bad.size:
        raise ValueError(f"{rows.name}: row {int(bad[0])} has the target {t[bad[0]]}.")
    return t


def begin(rows: Rows, message: Begin) -> dict[str, Any]:
    """Match the sites to the posterior of some of the cases; those say nothing that cannot be matched."""

    def begun(shard: Shard, lost: bool) -> dict[str, Any]:
        shard.forget()
        if message.posterior is not None and shard.known is None:
            after, _, refused = _matched(shard, Measure(message.model, message.number, *message.posterior, True))
            shard.forget(None if refused or not np.all(np.isfinite(after)) else after)
        return {}

    return shard_of(rows, message.model).once(message.number, begun)


def _square_in_single_precision(root: Root, weights: Array) -> Array:
    """Return what `weighted_square` does, of rows in single precision whose sum is in double precision."""
    result = np.zeros((root.shape[1], root.shape[1]), order="F")
    for block in blocks(weights.size, SINGLE_BLOCK):
        result += weighted_square(root[block].astype(np.float32), weights[block])
    return result


def _variances_in_single_precision(root: Root, inverse_factor: Array) -> Array:
    """Return what `variances` does, in single precision."""
    short: Any = np.asfortranarray(inverse_factor, dtype=np.float32)
    parts = [variances(root[block].astype(np.float32), short) for block in blocks(root.shape[0], SINGLE_BLOCK)]
    return np.concatenate([np.empty(0), *parts])


def form(rows: Rows, message: Form) -> dict[str, Any]:
    """Return what the sites of the next state say of the inducing values."""

    def formed(shard: Shard, lost: bool) -> dict[str, Any]:
        if not lost:
            for verb in message.before:
                getattr(shard.memory, verb)()
            if message.damping == 0.0:  # also those that had to start from nothing
                shard.memory = Memory(shard.memory.x)
            else:
                shard.memory.mix(message.damping, message.weights)
        _, share, precision, shift = shard.natural_parameters()
        root, square = shard.gram.root, _square_in_single_precision if message.single else weighted_square
        return {
            "precision": square(root, precision),
            "shift": np.asarray(root.T @ shift),
            "refused": int(not np.all(share > 0) or not np.all(np.isfinite(shift))),
        }

    return shard_of(rows, message.model).once(message.number, formed)


def measure(rows: Rows, message: Measure) -> dict[str, Any]:
    """Return by how much the sites would change, and the part of these cases in the log evidence."""

    def measured(shard: Shard, _: bool) -> dict[str, Any]:
        after, sums, refused = _matched(shard, message)
        memory = shard.memory
        change = after - memory.tried
        refused |= not np.all(np.isfinite(change))
        memory.tried_change = change
        differences = memory.differences
        products = np.zeros((MEMORY + 1, MEMORY + 2))  # of this shard's part of the differences, and of the change
        if differences and not refused:
            stacked, k = np.array(differences), len(differences)
            products[:k, :k], products[:k, -1] = stacked @ stacked.T, stacked @ change
        size = Largest(np.max(np.abs(change), initial=0.0))
        return {"size": size, "products": products, **sums, "refused": int(refused)}

    return shard_of(rows, message.model).once(message.number, measured)


def _matched(shard: Shard, message: Measure) -> tuple[Array, dict[str, Any], bool]:
    """Return the sites that match the likelihood at the cavities, in their units, and sums over these cases.

    These are the part in the log evidence, and what `solvers.accuracy` judges rounding by.
    """
    gram = shard.gram
    sites, share, precision, shift = shard.natural_parameters()
    # posterior of the part of the latent values that the inducing cases explain
    mean_there = np.asarray(gram.root @ message.mean)
    how = _variances_in_single_precision if message.single else variances
    variance_there = how(gram.root, message.inverse_factor)
    alpha = shift - precision * mean_there
    sums = partial(_sums, gram, sites.precision, alpha)
    if shard.known is not None:
        # log N(t|L mu, Omega + D), into which no difference of large numbers enters: the log evidence is the sum over
        # all cases, less (mu' mu + log det A)/2. L' alpha says how well the equations hold
        of_cases = shard.likelihood.log_partition(shard.t, mean_there, gram.own).value
        return shard.memory.tried, sums(np.sum(of_cases), of_cases @ of_cases, 0.0, gram.root.T @ alpha), False
    rest = 1.0 - precision * variance_there
    variance = variance_there / rest + gram.own  # 2000, eq. 28
    mean = mean_there + gram.own * alpha - variance * alpha  # 2000, eq. 19
    back = np.zeros(message.mean.size)
    if not np.all(np.abs(rest) > SMALLEST_REST) or not np.all((variance > 0) | (gram.prior == 0)):
        return shard.memory.tried, sums(np.nan, np.nan, np.inf, back), True
    derivs = shard.likelihood.log_partition(shard.t, mean, variance)
    growth = 1.0 + sites.precision * variance
    value = np.sum(derivs.value - 0.5 * alpha * mean + 0.5 * np.log(growth) - 0.5 * np.log(share))
    terms = derivs.value @ derivs.value + 0.25 * (alpha * mean) @ (alpha * mean)
    sd = np.sqrt(np.maximum(variance / growth, 0.0))
    gap = in_deviations(variance * (derivs.d1 - alpha), sd) if alpha.size else 0.0
    after = shard.units.pack(match(shard.likelihood, shard.t, Cavity(mean, variance), derivs))
    return after, sums(value, terms, gap, back), False


def _sums(
    gram: InducingGram, precision: Array, alpha: Array, value: Any, terms: Any, gap: float, back: Array
) -> dict[str, Any]:
    """Return the part of these cases in the log evidence, and in what says how well the numbers are known."""
    prior, zero = gram.prior, np.zeros(alpha.size)
    return {
        "value": float(value),
        "n": alpha.size,
        "terms": float(terms),
        "information": float(prior @ np.maximum(precision, 0.0)),
        "weight": float(prior @ alpha**2),
        "independent": float(np.sum(np.divide(gram.own, prior, out=zero, where=prior > 0))),
        "gap": Largest(gap),
        "back": np.asarray(back),
    }


def gradient(rows: Rows, message: Measure) -> dict[str, Any]:
    """Return the part of these cases in the gradient of the log evidence, and in the sum that K_mm needs."""
    shard = shard_of(rows, message.model)
    lost = shard.next - 1 != message.number  # these are not the sites of that posterior
    sites, _, precision, shift = shard.natural_parameters()
    alpha = shift - precision * (shard.gram.root @ message.mean)
    correction = RootCorrection(shard.gram, sites.precision, message.inverse_factor)
    seen = 0.5 * message.mean, message.mean  # L' alpha is the mean of the weights
    bar = RootGradient(shard.gram, 0.5 * alpha, alpha, correction, np.zeros_like(alpha), seen)
    found: dict[str, Any] = {f"d {name}": value for name, value in bar.of_diagonal(shard.kernel, shard.X).items()}
    for block, of_block in bar.of_cross():
        for name, value in shard.kernel.cross_vjp(shard.X[block], shard.gram.points, of_block).items():
            found[f"d {name}"] = found[f"d {name}"] + value
    return found | {"square": bar.square(), "lost": int(lost)}
