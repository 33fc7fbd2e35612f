r"""A power of a likelihood, averaged over Gaussians: :math:`\int p(t|f)^w\, N(f | m, v)\, df`.

Where p is log-concave so is its power, and the average is the self-checking rule of `likelihoods.centred`; else it is
the adaptive one of `likelihoods.quadrature`. The mode of :math:`w \log p(t|f) - (f - m)^2/(2v)` is that of log p with
the variance w v in place of v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods import centred
from bayesgp_mf.likelihoods.base import Likelihood, Targets
from bayesgp_mf.likelihoods.quadrature import Quadrature
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True, eq=False)
class Powered(Likelihood):
    """Powers of the likelihood of some cases, by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f) of these cases.
    weights : (k,) array
        The exponents, above zero.
    """

    likelihood: Likelihood
    weights: Array

    forbids: ClassVar[bool] = False

    @property
    def targets(self) -> Targets:
        """Those of the likelihood."""
        return self.likelihood.targets

    @property
    def log_concave(self) -> bool:
        """Whether the likelihood is, and so are its powers."""
        return self.likelihood.log_concave

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return the probability that one target is +1: a new case counts once."""
        return self.likelihood.predict_proba(mean, variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw one target for each latent value."""
        return self.likelihood.sample(f, rng)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t|f) and its derivatives in f, ``(..., k)``."""
        with np.errstate(over="ignore"):  # far out: minus infinity is the answer
            return Derivs(*(self.weights * part for part in self.likelihood.log_prob(t, f)))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f)^w N(f | mean, variance), and its derivatives in mean; ``(..., k)``."""
        query = _Asked(self, t, mean, variance)
        if query.by_mode:
            found = centred.log_partition(query.curve, query.mean, query.variance, query.bracket)
        else:
            found = Derivs(*query.adaptive())
        return Derivs(*(part.reshape(query.shape) for part in found))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero, if the likelihood has them."""
        if np.any(variance):
            return None
        once = self.likelihood.log_partition(t, mean, variance)
        found = self.likelihood.higher_derivatives(t, mean, variance, once)
        return None if found is None else (self.weights * found[0], self.weights * found[1])

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does, for variances ``(k,)`` above zero."""
        query = _Asked(self, t, mean, variance)
        if query.by_mode:
            return centred.tilted_cumulants(query.curve, query.mean, query.variance, query.bracket, order)
        return query.quadrature().tilted_cumulants(query.numbers, query.mean, query.variance, order)

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return what `Likelihood.tilted_share` does, for variances ``(k,)`` above zero."""
        query = _Asked(self, t, mean, variance)
        if query.by_mode:
            return centred.tilted_share(query.curve, query.mean, query.variance, query.bracket)
        return query.quadrature().tilted_share(query.numbers, query.mean, query.variance)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the derivative of `log_partition` in a parameter, and its two derivatives in mean, ``(k,)`` each.

        The first is :math:`w \langle \partial \log p \rangle`, averaged over the tilted distribution; the others are
        joint cumulants with f over powers of the variance.
        """
        query = _Asked(self, t, mean, variance)
        slope = query.slope(name)
        if query.by_mode:
            found = centred.parameter_derivative(query.curve, slope, query.mean, query.variance, query.bracket)
            return Derivs(*(part.reshape(query.shape) for part in found))
        answer = np.empty((3, query.mean.size))
        (certain,), (rows,) = np.nonzero(query.variance == 0), np.nonzero(query.variance > 0)
        answer[:, certain] = slope(certain, query.mean[certain])
        if rows.size:
            answer[:, rows] = centred.adaptive_derivative(
                query.quadrature(), rows, query.mean, query.variance, lambda i, f: slope(i, f).value
            )
        return Derivs(*(part.reshape(query.shape) for part in answer))


class _Asked:
    """What is asked of a power: targets and Gaussians of one shape, flattened, and the case that each is of."""

    def __init__(self, power: Powered, t: Array, mean: Array, variance: Array) -> None:
        self._power = power
        numbers = np.arange(power.weights.size)
        arrays = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)), numbers)
        self.shape = arrays[0].shape
        self._t, self.mean, self.variance = (np.ascontiguousarray(a).ravel() for a in arrays[:3])
        self._case: NDArray[np.intp] = arrays[3].ravel().astype(np.intp)
        self.numbers = np.arange(float(self.mean.size))
        self.by_mode = power.likelihood.log_concave and self._has_brackets()

    def likelihood(self, rows: NDArray[np.intp]) -> Likelihood:
        """Return the likelihood of some rows, at least one."""
        return self._power.likelihood.of_cases(self._case[rows])

    def curve(self, rows: Any, f: Array) -> Derivs:
        """Return w log p(t|f) with two derivatives, as `centred.Curve`."""
        which = np.ravel(rows)
        if not which.size:
            return Derivs(f, f, f)
        found = self.likelihood(which).log_prob(self._t[which], f.T)
        weights = self._power.weights[self._case[which]]
        return Derivs(*((weights * part).T for part in found))

    def bracket(self, rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return bounds of the modes, as `centred.Bracket`."""
        if not mean.size:
            return mean, mean
        likelihood, t = self.likelihood(rows), self._t[rows]
        spread = variance * self._power.weights[self._case[rows]]
        known = likelihood.mode_bracket(t, mean, spread)
        if known is not None:
            return known
        with np.errstate(over="ignore", invalid="ignore"):
            # the slope of log p falls along f, so that the mode is no farther than that at the mean says
            end = mean + spread * likelihood.log_prob(t, mean).d1
        return np.minimum(mean, end), np.maximum(mean, end)

    def _has_brackets(self) -> bool:
        (rows,) = np.nonzero(self.variance > 0)
        lower, upper = self.bracket(rows, self.mean[rows], self.variance[rows])
        return bool(np.all(np.isfinite(lower) & np.isfinite(upper)))

    def quadrature(self) -> Quadrature:
        """Return the rows as a likelihood whose targets are their numbers, to be integrated adaptively."""
        return Quadrature(lambda i, f: self.curve(i.astype(np.intp), f).value, targets="real")

    def adaptive(self) -> Array:
        """Return what `Powered.log_partition` does, ``(3, rows)``."""
        found = np.empty((3, self.mean.size))
        (certain,), (rows,) = np.nonzero(self.variance == 0), np.nonzero(self.variance != 0)
        found[:, certain] = self.curve(certain, self.mean[certain])
        if rows.size:
            query = self.numbers[rows], self.mean[rows], self.variance[rows]
            found[:, rows] = self.quadrature().log_partition(*query)
        return found

    def slope(self, name: str) -> centred.Curve:
        """Return w times the derivative of log p(t|f) in a parameter, with two derivatives in f."""

        def ask(rows: Any, f: Array) -> Derivs:
            which = np.ravel(rows)
            if not which.size:
                return Derivs(f, f, f)
            t = np.broadcast_to(self._t[which], f.T.shape)
            found = self.likelihood(which).parameter_derivative(name, t, f.T, np.zeros(t.shape))
            weights = self._power.weights[self._case[which]]
            return Derivs(*((weights * part).T for part in found))

        return ask
