"""Sites, the state of every expectation-propagation-like iteration, and the iteration over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Control, Info, LeaveOneOut, Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.matrix import Sites
from bayesgp_mf.solvers.accuracy import EPS
from bayesgp_mf.solvers.driver import fixed_point
from bayesgp_mf.types import Array, Derivs

FEW_DIGITS = 1e-6
"""Part of a cavity variance that is left of it below which a difference of log Z's derivatives has few digits of it."""


class SiteState(NamedTuple):
    """What the next step needs: the site of each case, exp(b f - W f^2 / 2).

    Attributes
    ----------
    precision : (n,) array
        W = 1/omega, in latent units to the power -2; negative where a label looks flipped.
    shift : (n,) array
        b, in latent units to the power -1.
    alpha : (n,) array or None
        The weights under these sites, where they are known already.
    """

    precision: Array
    shift: Array
    alpha: Array | None = None


class SitePosterior(NamedTuple):
    """The Gaussian posterior of a state, and the likelihood terms at its cavities."""

    alpha: Array
    correction: Sites
    cavity: Cavity
    derivs: Derivs


def site_of_cavity(mean: Array, d1: Array, d2: Array, variance: Array) -> tuple[Array, Array]:
    """Return precision W and shift b of the sites that a likelihood amounts to at cavities ``(n,)``.

    ``d1`` and ``d2`` are the derivatives of log Z there.
    """
    return _site(mean, d1, d2, 1.0 + variance * d2)


def _site(mean: Array, d1: Array, d2: Array, tilted: Array) -> tuple[Array, Array]:
    """Return what `site_of_cavity` does, of the posterior variances of f_i over their cavity variances."""
    precision = -d2 / tilted  # W = 1/omega, omega = -1/d2 - lambda (2000, eq. 29)
    return precision, precision * mean + d1 / tilted


def match(likelihood: Likelihood, t: Array, cavity: Cavity, derivs: Derivs, extra_noise: float = 0.0) -> SiteState:
    """Return the sites that a likelihood amounts to at cavities, where its derivatives are ``derivs``.

    ``extra_noise`` is a variance that was added to the cavities in the likelihood.
    """
    known = likelihood.known_sites(t, extra_noise)
    if known is not None:
        return SiteState(*known)
    tilted = 1.0 + cavity.variance * derivs.d2
    few = tilted < FEW_DIGITS
    share = _share_of(likelihood, t, cavity, few, extra_noise)
    if share is not None:
        some = cavity.variance[few]
        tilted[few] = (some * share + extra_noise) / (some + extra_noise)
    return SiteState(*_site(cavity.mean, derivs.d1, derivs.d2, tilted))


def lost_digits(likelihood: Likelihood, t: Array, cavity: Cavity, derivs: Derivs) -> float:
    """Return the relative error of the variances of sites that `match` finds, for what a difference has lost of them.

    It is zero where all are known in another way.
    """
    tilted = 1.0 + cavity.variance * derivs.d2
    few = tilted < FEW_DIGITS
    if not few.any() or likelihood.known_sites(t, 0.0) is not None:
        return 0.0
    return EPS / max(float(tilted.min()), EPS) if _share_of(likelihood, t, cavity, few, 0.0) is None else 0.0


def _share_of(
    likelihood: Likelihood, t: Array, cavity: Cavity, few: NDArray[np.bool_], extra_noise: float
) -> Array | None:
    """Return what is left ``(k,)`` of the variances of k cases that are ``few (n,)``, by a form of its own, or None.

    They have variances above zero: a difference of derivatives has few digits of what is left of them.
    """
    (some,) = np.nonzero(few)
    if not some.size:
        return None
    return likelihood.of_cases(some).tilted_share(t[some], cavity.mean[some], cavity.variance[some] + extra_noise)


def sites_of(solution: Solution, problem: Problem) -> SiteState:
    """Return the state that gave a solution, to start the next problem from."""
    precision = solution.sites.site_precision
    if solution.cavity is None:
        latent = problem.matrix @ solution.alpha
    else:  # which may have been another Gram matrix
        latent = solution.cavity.mean + solution.cavity.variance * solution.alpha
    # b = W (K alpha) + alpha, since alpha = b - R K b
    return SiteState(precision, precision * latent + solution.alpha)


def linear_response(problem: Problem, solution: Solution) -> LeaveOneOut:
    r"""Return the leave-one-out predictions of a solution by linear response (2000, appendix D).

    Without case i the field is (2000, eq. 51)

    .. math:: f_i - \left(\frac{1}{[(K+\Omega)^{-1}]_{ii}} - \omega_i\right) \alpha_i

    and the bracket is its variance. For TAP both are its own cavity (2000, eq. 32).

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solution : Solution
        Of a method whose correction has sites.

    Returns
    -------
    LeaveOneOut
        Means, variances ``(n,)`` and log predictive densities ``(n,)`` in nats.

    Raises
    ------
    UndefinedQuantityError
        If the likelihood is not log-concave and without some case there is no Gaussian posterior.
    """
    correction = solution.sites
    variance = correction.cavity_variance()
    (without,) = np.nonzero(variance < 0)
    if without.size:
        raise UndefinedQuantityError(
            f"method {solution.method!r} has no leave-one-out prediction for {without.size} cases (the first is "
            f"{int(without[0])}): without that case the other factors are those of no Gaussian, as it happens where a "
            "label looks flipped or a target is an outlier. Use method='tap', or a likelihood that is log-concave."
        )
    mean = problem.in_form(correction.form).field_of_others(solution.alpha, variance, correction)
    log_density = problem.likelihood.log_partition(problem.t, mean, variance).value
    return LeaveOneOut(mean, variance, log_density)


class SiteUnits:
    """Sites ``(2n,)`` in units in which the tolerance of `Control` is meant.

    A site may be weak, strong (badly fitting labels) or negative, and a change counts in proportion where it is strong:
    these are the inverse hyperbolic sines of precision and shift, in units in which a site is of order one.

    Parameters
    ----------
    at_prior : Derivs
        log Z of each case at its prior (`Problem.at_prior`).
    """

    def __init__(self, at_prior: Derivs) -> None:
        # any unit will do for a case without prior variance
        scale = 1.0 / np.sqrt(np.where(at_prior.d2 == 0, 1.0, np.abs(at_prior.d2)))
        self._n, self.units = scale.size, np.concatenate([scale**-2, 1.0 / scale])

    def pack(self, state: SiteState) -> Array:
        """Return sites in these units."""
        return np.asarray(np.arcsinh(np.concatenate(state[:2]) / self.units))

    def unpack(self, x: Array) -> SiteState:
        """Return sites in units of their own."""
        sites = self.units * np.sinh(x)
        return SiteState(sites[: self._n], sites[self._n :])


def iterate_sites(
    problem: Problem,
    step: Callable[[SiteState], SiteState],
    first: SiteState,
    control: Control,
    newton: Callable[[SiteState, SiteState, float], SiteState | None] | None = None,
    enough: Callable[[Array], bool] | None = None,
    done: int = 0,
) -> tuple[SiteState, Info]:
    """Iterate ``step`` from a state to a fixed point, in units in which the tolerance of `Control` is meant.

    ``newton``, if there is one, takes the state of the last step, by how much that step changed it, and the largest
    such change in those units; it returns by how much Newton's step would change the state, or None. ``enough`` is told
    of changes in those units, and ``done`` counts the steps before the first; see `fixed_point`.
    """
    of_sites = SiteUnits(problem.at_prior)
    n, pack = problem.n, of_sites.pack
    start = pack(first)
    known = start, first

    def unpack(x: Array) -> SiteState:
        # the same state for the same array, so that what follows from it is known to be the same
        nonlocal known
        if known[0] is not x:
            known = x, of_sites.unpack(x)
        return known[1]

    def newton_in_units(x: Array, change: Array) -> Array | None:
        if newton is None:
            return None
        slope = of_sites.units * np.cosh(x)
        residual = slope * change
        move = newton(unpack(x), SiteState(residual[:n], residual[n:]), float(np.abs(change).max()))
        return None if move is None else np.concatenate(move[:2]) / slope

    x, info = fixed_point(lambda x: pack(step(unpack(x))), start, control, newton_in_units, enough, done)
    return unpack(x), info
