"""What is believed before a label: latent values of candidates, jointly Gaussian, and which outcomes they may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, xlogy

from bayesgp_mf.container.groups import Container
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.fitting import posterior
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import facts_of_new_cases
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.processes.process import LARGEST_JOINT, Latent, Process, with_new_cases
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.types import Array, Derivs

REACH = 8.0
"""Standard deviations to either side of a mean over which is summed."""
NODES = 256
"""Latent values over which an entropy is averaged. They are even in number: none is at zero, where a step jumps."""
MEASUREMENTS = 64
"""Values of a measurement over which is summed."""
MOST_COUNTS = 2000
"""Counts that are told apart."""
BEYOND = 1e-9
"""Probability of larger counts, which are left out."""


@dataclass(frozen=True, eq=False)
class Belief:
    """Gaussian latent values of m candidates, then of r reference inputs, at one setting of the hyperparameters.

    Attributes
    ----------
    likelihood : Likelihood
        Of the candidates.
    mean, variance : (m + r,) array
        Of the latent values.
    covariance : (m + r, m + r) array or None
        Theirs, where it was asked for.
    weight : float
        Of this setting.
    member : int
        Which of several models it is of.
    """

    likelihood: Likelihood
    mean: Array
    variance: Array
    covariance: Array | None = None
    weight: float = 1.0
    member: int = 0

    def of_candidates(self, m: int) -> tuple[Array, Array]:
        """Return means and variances ``(m,)`` of the candidates alone."""
        return self.mean[:m], self.variance[:m]

    def after(self, case: int, drop: float) -> Belief:
        """Return the belief with the variance of one case less by what a label there is expected to take away.

        Under a label y the posterior covariance is that before plus s s' d2(y), with s the covariances with the case
        (2000, eqs. 33 and 34). The mean stays: on average over labels it does.
        """
        assert self.covariance is not None
        s = self.covariance[case]
        changed = self.covariance + drop * np.outer(s, s)
        np.fill_diagonal(changed, np.maximum(changed.diagonal(), 0.0))  # rounding, of a value that is known now
        return replace(self, covariance=changed, variance=changed.diagonal())


class Outcomes(NamedTuple):
    """What the target of each candidate may be.

    Attributes
    ----------
    t : (K, m) array
        Labels -1 and +1, levels, counts; or values of a measurement at equal steps.
    step : (K, m) array
        The width of what each stands for: one, or that step; zero of a count that cannot be.
    """

    t: Array
    step: Array

    def probabilities(self, belief: Belief) -> Array:
        """Return how probable each is ``(K, m)``."""
        mean, variance = belief.of_candidates(self.t.shape[1])
        if belief.likelihood.is_binary:
            return two(belief.likelihood.predict_proba(mean, variance))
        return np.asarray(np.exp(self.log_partition(belief).value) * self.step)

    def log_partition(self, belief: Belief) -> Derivs:
        """Return how probable each is ``(K, m)``, as a logarithm, and its derivatives in the mean."""
        known = (np.broadcast_to(each, self.t.shape) for each in belief.of_candidates(self.t.shape[1]))
        return belief.likelihood.log_partition(self.t, *known)

    def chance(self, k: int, likelihood: Likelihood, f: Array) -> Array:
        """Return how probable outcome k is ``(q, m)`` at latent values ``(q, m)``."""
        t, known = np.broadcast_to(self.t[k], f.shape), np.zeros_like(f)
        if likelihood.is_binary:
            return np.asarray(two(likelihood.predict_proba(f, known))[k])
        if likelihood.n_levels is not None:
            below: Any = [likelihood.predictive_below(each, f, known) for each in (t - 1.0, t)]
            return np.asarray(below[1] - below[0])
        return np.asarray(np.exp(likelihood.log_prob(t, f).value) * self.step[k])

    def entropy(self, p: Array) -> Array:
        """Return the entropy in nats of probabilities ``(K, m)``; of a density if they are those of its values."""
        return np.asarray((entr(p) + xlogy(p, self.step)).sum(axis=0))

    def expected_entropy(self, belief: Belief) -> Array:
        """Return the entropy ``(m,)`` of the target once the latent value is known, on average over that."""
        mean, variance = belief.of_candidates(self.t.shape[1])
        measured, noise = noise_of_measurements(belief.likelihood), belief.likelihood.latent_noise
        if measured is not None:
            return np.asarray(np.broadcast_to(0.5 * np.log(2.0 * np.pi * np.e * measured), mean.shape))
        unit, sd = 1.0 if noise is None or not noise.variance else np.sqrt(noise.variance), np.sqrt(variance)
        low, high = (np.arcsinh((mean + side * sd) / unit) for side in (-REACH, REACH))
        u = np.linspace(low, high, NODES)  # of asinh(f): f is dense where labels are in doubt, wherever its mean is
        f = unit * np.sinh(u)
        weight = np.exp(-0.5 * np.divide(f - mean, sd, out=np.zeros_like(f), where=sd > 0) ** 2) * np.cosh(u)
        each = sum(entr(self.chance(k, belief.likelihood, f)) for k in range(len(self.t)))
        return np.asarray(np.sum(weight * each, axis=0) / weight.sum(axis=0))


def noise_of_measurements(likelihood: Likelihood) -> float | Array | None:
    """Return the variance of Gaussian noise by which targets are off the latent values and offsets, if they are."""
    noise = likelihood.of_one_case.latent_noise
    return None if noise is None or likelihood.is_discrete else noise.variance


def two(p: Array) -> Array:
    """Return the probabilities of both labels ``(2, ...)`` from those of the positive one."""
    return np.array([1.0 - p, p])


def outcomes_of(beliefs: Sequence[Belief], m: int) -> Outcomes:
    """Return what the targets of m candidates may be, the same outcomes for all settings."""
    likelihood, one = beliefs[0].likelihood, np.ones(m)
    if likelihood.is_binary:
        return Outcomes(np.outer([-1.0, 1.0], one), np.ones((2, m)))
    if likelihood.n_levels is not None:
        t = np.outer(np.arange(float(likelihood.n_levels)), one)
        return Outcomes(t, np.ones_like(t))
    latents = [Latent.gaussian(each.likelihood, *each.of_candidates(m)) for each in beliefs]
    if likelihood.is_discrete and latents[0].below(np.zeros(m)) is not None:
        each_largest = np.max([each.quantiles(np.array([1.0 - BEYOND])) for each in latents], axis=0).reshape(m)
        largest = each_largest.max()
        if largest >= MOST_COUNTS:
            raise UndefinedQuantityError(
                f"counts of candidates may be as large as {largest:.3g}, and information is a sum over up to "
                f"{MOST_COUNTS} counts. Leave out the candidates where they are largest, or count in larger units."
            )
        t = np.outer(np.arange(largest + 1.0), one)
        return Outcomes(np.minimum(t, each_largest), (t <= each_largest).astype(np.float64))
    if noise_of_measurements(likelihood) is None:
        raise unknown_outcomes(likelihood)
    moments = [known for each in latents if (known := each.target_moments()) is not None]
    low = np.min([mean - REACH * np.sqrt(variance) for mean, variance in moments], axis=0)
    high = np.max([mean + REACH * np.sqrt(variance) for mean, variance in moments], axis=0)
    t = np.linspace(low, high, MEASUREMENTS)
    return Outcomes(t, np.broadcast_to((high - low) / (MEASUREMENTS - 1), t.shape))


def unknown_outcomes(likelihood: Likelihood) -> UndefinedQuantityError:
    """Return the error to raise where information about outcomes is not known."""
    return UndefinedQuantityError(
        "information is known of labels, levels, counts and measurements with Gaussian noise, and the likelihood is "
        f"{likelihood.display_name}."
    )


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Give errors about new inputs the name that these have here."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("X_new", argument)) from error


def as_process(idata: Container | Process) -> Process:
    """Return the posterior process of a fit, or that which is given."""
    return idata if isinstance(idata, Process) else posterior(idata)


def beliefs_of(
    idata: Container | Process,
    candidates: Any,
    at: Any = None,
    *,
    joint: bool,
    offset: Any = None,
    trials: Any = None,
) -> tuple[list[Belief], int]:
    """Return what a fit believes of candidates, then of inputs ``at``, and how many candidates there are.

    Raises
    ------
    ValueError
        If tables do not fit the inputs of the fit, or are too many to know jointly.
    UndefinedQuantityError
        If the fit has several classes.
    """
    process, table = as_process(idata), as_pandas("candidates", candidates)
    with naming("candidates"):
        X = process.new_inputs(table)
        facts = facts_of_new_cases(table, len(X), offset, trials)
    with naming("at"):
        inputs = X if at is None else np.concatenate([X, process.new_inputs(as_pandas("at", at))])
    if joint and len(inputs) > LARGEST_JOINT:
        raise ValueError(
            f"candidates and at must be at most {LARGEST_JOINT} rows together, whose covariances are needed, got "
            f"{len(inputs)}. Take a random part of them."
        )
    member = getattr(process, "member", np.zeros(len(process.parts), dtype=np.intp))
    found = []
    for part, weight, k in zip(with_new_cases(process, facts).parts, process.weights, member, strict=True):
        if not isinstance(part, Posterior):
            raise UndefinedQuantityError(
                "bgp.design is for one latent value a case, and this fit has several classes. Fit one class against "
                "the rest."
            )
        known = part.joint_at(inputs) if joint else part.latent_at(inputs)
        mean, variance, covariance = (*known, None) if not joint else (known[0], known[1].diagonal(), known[1])
        found.append(Belief(part.new_likelihood, mean, variance, covariance, float(weight), int(k)))
    return found, len(X)
