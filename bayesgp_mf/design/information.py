"""What a label is expected to tell, in nats: of the function, its maximum, a level of it, or which model holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import entr, ndtr, owens_t

from bayesgp_mf.arguments import as_generator, check_integers, check_one_of
from bayesgp_mf.container.groups import Container
from bayesgp_mf.design.beliefs import Belief, Outcomes, as_process, beliefs_of, noise_of_measurements, outcomes_of
from bayesgp_mf.design.look_ahead import after
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.factors import blocks, psd_root
from bayesgp_mf.processes.process import Process
from bayesgp_mf.types import Array

About: TypeAlias = Literal["labels", "maximum", "level", "models"]
REFERENCES = 128
"""Of the candidates, those at which a level is looked at if nothing else is said, at equal steps."""
AT_ONCE = 2**16
"""Outcomes of candidates at references that are worked on together: arrays that a processor's cache holds."""
FARTHEST = 1e6
"""Latent units within which a level is looked for."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is to be learned: ``about``, and the options of `information`, checked.

    Parameters
    ----------
    about : str
        As `information` has it.
    level : float or None
        The latent value of the level.
    draws : int
        For the maximum.
    rng : Generator
        Likewise.
    """

    about: About
    level: float | None
    draws: int
    rng: np.random.Generator

    @classmethod
    def of(cls, about: Any, level: Any, draws: Any, random_seed: Any, likelihood: Likelihood) -> Question:
        """Return a question about a model with this likelihood, or raise a ValueError that says what is wrong."""
        check_one_of("about", about, *get_args(About))
        check_integers(1, draws=draws)
        if (level is None) == (about == "level"):
            raise ValueError(
                "level is what about='level' asks for, such as level=0.75 of a probability: give it there, and "
                f"nowhere else; got level={level!r} with about={about!r}."
            )
        latent = None if level is None else latent_level(level, likelihood)
        return cls(about, latent, int(draws), as_generator(random_seed))

    @property
    def is_joint(self) -> bool:
        """Whether covariances are needed."""
        return self.about in ("maximum", "level")

    def references(self, candidates: Any, at: Any) -> Any:
        """Return the inputs where the maximum or the level is looked for; None for the candidates themselves."""
        if at is not None and not self.is_joint:
            raise ValueError(f"at says where a level or a maximum is looked for, and about={self.about!r} has none.")
        if at is not None or self.about != "level":
            return at
        table = as_pandas("candidates", candidates)
        rows = np.unique(np.linspace(0, len(table) - 1, REFERENCES).astype(np.intp))
        return table.iloc[rows] if hasattr(table, "iloc") else np.asarray(table)[rows]

    def score(self, beliefs: Sequence[Belief], outcomes: Outcomes) -> Array:
        """Return the information ``(m,)`` of a label at each of m candidates, with these outcomes."""
        chances = [outcomes.probabilities(each) for each in beliefs]
        before = np.sum([each.weight * p for each, p in zip(beliefs, chances, strict=True)], axis=0)
        if self.about == "labels":
            left = np.sum([each.weight * outcomes.expected_entropy(each) for each in beliefs], axis=0)
            return np.asarray(outcomes.entropy(before) - left)
        if self.about == "models":
            return np.asarray(outcomes.entropy(before) - _entropy_given_model(beliefs, outcomes))
        if self.about == "maximum":
            return _about_maximum(beliefs, outcomes, self.draws, self.rng)
        assert self.level is not None
        (K, m), found = before.shape, np.empty(before.shape[1])
        above = [_with_above(each, outcomes, p, self.level) for each, p in zip(beliefs, chances, strict=True)]
        for rows in blocks(m, max(1, AT_ONCE // (K * (beliefs[0].mean.size - m)))):
            both = sum(each.weight * of_rows(rows) for each, of_rows in zip(beliefs, above, strict=True))
            found[rows] = _mutual(np.asarray(both), before[:, rows])  # (K, rows, r)
        return found


def information(
    idata: Container | Process,
    candidates: Any,
    about: About = "labels",
    *,
    level: float | None = None,
    at: Any = None,
    draws: int = 2000,
    random_seed: Any = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Array:
    r"""Return how much the label of each candidate is expected to tell, in nats.

    It is the mutual information of the label and of what is to be learned: the entropy of the label less that which it
    still has, on average, once that is known.

    Parameters
    ----------
    idata : InferenceData, DataTree or Process
        What `fit` returned.
    candidates : (m, d) array_like
        Inputs that may be asked for, as those of `predict`; of duels, what ``Duels.cases`` returns.
    about : {"labels", "maximum", "level", "models"}
        What is to be learned. "labels": the latent function, and the hyperparameters that a fit averages over, known as
        BALD [1]_. "maximum": where the latent function is largest. "level": whether it is above a level, on average
        over reference inputs. "models": which of several models holds; ``idata`` is what
        ``combine(fits, weights="evidence")`` returned.
    level : float, optional
        For "level": of two classes a probability of the positive one, of a case without an offset; otherwise a latent
        value.
    at : (r, d) array_like, optional
        Where the maximum is looked for, by default among the candidates; or where the level is, by default at no more
        than 128 of them.
    draws : int
        For "maximum": joint draws of the latent values.
    random_seed : int, Generator or None
        Of the draws.
    offset, trials : (m,) array_like, optional
        Of the candidates, as for `predict`.

    Returns
    -------
    (m,) array
        Nats. That about a maximum is an estimate, which may come out below zero.

    Raises
    ------
    ValueError
        If an argument is malformed, or does not fit the fit.
    UndefinedQuantityError
        If the fit has several classes, measurements without Gaussian noise, or counts beyond 2000; if there is one
        model alone.

    Notes
    -----
    Labels, levels and counts are summed over, and latent values in 256 steps over 8 standard deviations to either side,
    small where labels are in doubt: under a probit the error is below 1e-9 nats. Of measurements all is Gaussian.
    Whether f is above a level, and the label of a probit, are two signs, whose probability is known (Owen, 1956); under
    other likelihoods it is that of the Gaussian of `look_ahead` with ``answering=0``. For the maximum measurements
    count as Gaussian given its place, and the bias of the draws is taken off to first order.

    References
    ----------
    .. [1] Houlsby, N., Huszar, F., Ghahramani, Z., & Lengyel, M. (2011). Bayesian active learning for classification
       and preference learning. arXiv 1112.5745.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> bgp.design.information(idata, [[0.0], [1.0], [4.0]]).round(3)
    array([0.068, 0.044, 0.192])
    """
    process = as_process(idata)
    question = Question.of(about, level, draws, random_seed, process.problem.likelihood)
    at = question.references(candidates, at)
    beliefs, m = beliefs_of(process, candidates, at, joint=question.is_joint, offset=offset, trials=trials)
    return question.score(beliefs, outcomes_of(beliefs, m))


def batch(
    idata: Container | Process,
    candidates: Any,
    size: int,
    about: About = "labels",
    *,
    level: float | None = None,
    at: Any = None,
    draws: int = 2000,
    random_seed: Any = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> NDArray[np.intp]:
    """Return the numbers of candidates whose labels are to be asked for together.

    The choice is greedy: after each, covariances are those that its label is expected to leave, with means as they are.

    Parameters
    ----------
    idata, candidates, about, level, at, draws, random_seed, offset, trials
        As for `information`.
    size : int
        How many labels. A candidate may be chosen several times, for labels that are drawn anew.

    Raises
    ------
    ValueError, UndefinedQuantityError
        What `information` raises, and if there are more than 5000 candidates.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> bgp.design.batch(idata, [[0.0], [4.0], [4.1], [-4.0]], 2)
    array([2, 3])
    """
    process = as_process(idata)
    question = Question.of(about, level, draws, random_seed, process.problem.likelihood)
    at = question.references(candidates, at)
    check_integers(1, size=size)
    beliefs, m = beliefs_of(process, candidates, at, joint=True, offset=offset, trials=trials)
    return greedy(question, beliefs, m, int(size), lambda score: int(np.argmax(score)))


def greedy(question: Question, beliefs: list[Belief], m: int, size: int, best: Any) -> NDArray[np.intp]:
    """Return the numbers of so many candidates, each the ``best`` by its score once labels of those before count."""
    outcomes = outcomes_of(beliefs, m)
    chosen = [best(question.score(beliefs, outcomes))]
    while len(chosen) < size:
        beliefs = [each.after(chosen[-1], _expected_drop(each, outcomes, chosen[-1])) for each in beliefs]
        chosen.append(best(question.score(beliefs, outcomes_of(beliefs, m))))
    return np.array(chosen, dtype=np.intp)


def _expected_drop(belief: Belief, outcomes: Outcomes, case: int) -> float:
    """Return the expected second derivative of the log partition in the mean, over the labels of a candidate."""
    d2 = outcomes.log_partition(belief).d2
    return float(np.sum(outcomes.probabilities(belief)[:, case] * d2[:, case]))


def latent_level(level: Any, likelihood: Likelihood) -> float:
    """Return the latent value of a level: of a probability, or as it is, or raise a ValueError."""
    is_number = isinstance(level, int | float | np.number) and not isinstance(level, bool) and math.isfinite(level)
    if not is_number:
        raise ValueError(f"level must be a number, got {level!r}.")
    if not likelihood.is_binary:
        return float(level)
    of_one = likelihood.of_one_case

    def above(f: float) -> float:
        return float(of_one.predict_proba(np.array([f]), np.zeros(1))[0]) - float(level)

    if not (above(-FARTHEST) < 0.0 < above(FARTHEST)):
        low, high = above(-FARTHEST) + level, above(FARTHEST) + level
        raise ValueError(
            f"level must be a probability of the positive class that {likelihood.display_name} can have, between "
            f"{low:.3g} and {high:.3g}, got {level!r}."
        )
    return float(brentq(above, -FARTHEST, FARTHEST, xtol=1e-12))


def _entropy_given_model(beliefs: Sequence[Belief], outcomes: Outcomes) -> Array:
    """Return the entropy of labels ``(m,)`` that is left once the model is known."""
    members = sorted({each.member for each in beliefs})
    if len(members) < 2:
        raise UndefinedQuantityError(
            "about='models' asks which of several models holds, and this is one. Pass "
            "bgp.combine({'one': idata, 'other': other}, weights='evidence')."
        )
    left = np.zeros(outcomes.t.shape[1])
    for member in members:
        own = [each for each in beliefs if each.member == member]
        weight = sum(each.weight for each in own)
        p = np.sum([each.weight * outcomes.probabilities(each) for each in own], axis=0) / weight
        left += weight * outcomes.entropy(p)
    return left


def _mutual(both: Array, before: Array) -> Array:
    """Return the information ``(m,)`` of labels about events ``(K, m, r)`` that come with each, on average over r."""
    total = both.sum(axis=0)
    left = entr(both) + entr(np.maximum(before[..., None] - both, 0.0))  # rounding, of a certain event
    of_event = entr(total) + entr(np.maximum(1.0 - total, 0.0))
    return np.asarray(np.mean(of_event + entr(before).sum(axis=0)[:, None] - left.sum(axis=0), axis=1))


def _with_above(belief: Belief, outcomes: Outcomes, p: Array, level: float) -> Callable[[slice], Array]:
    """Return what says of some candidates how probable their outcomes are together with a value above a level.

    It returns ``(K, rows, r)``: the latent value is that at each of the references. ``p`` is how probable outcomes are.
    """
    assert belief.covariance is not None
    covariance, m, noise = belief.covariance, outcomes.t.shape[1], belief.likelihood.latent_noise
    if noise is None or not belief.likelihood.is_binary or belief.likelihood is not belief.likelihood.of_one_case:
        response = outcomes.log_partition(belief)

        def by_moments(rows: slice) -> Array:
            mean, variance = after(belief, response, rows)
            return np.asarray(p[:, rows, None] * _above(mean - level, variance))

        return by_moments
    (mean, variance), there = belief.of_candidates(m), belief.variance[m:]
    seen, flip, above = variance + noise.variance, noise.flip, _above(belief.mean[m:] - level, there)
    alone = _above(mean, seen)

    def by_signs(rows: slice) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # of values that are known
            rho = covariance[:m][rows, m:] / np.sqrt(seen[rows, None] * there)
            h, k = np.broadcast_arrays((mean / np.sqrt(seen))[rows, None], (belief.mean[m:] - level) / np.sqrt(there))
            signs = np.where(there > 0, _both_positive(h, k, rho), above * alone[rows, None])
        positive = flip * above + (1.0 - 2.0 * flip) * signs
        return np.array([above - positive, positive])

    return by_signs


def _above(mean: Array, variance: Array) -> Array:
    """Return the probability that Gaussian values are above zero; one half of zero itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, ndtr(mean / np.sqrt(variance)), np.heaviside(mean, 0.5))


def _both_positive(h: Array, k: Array, rho: Array) -> Array:
    r"""Return the probability that two Gaussian values with means h and k, variance 1, correlation rho are positive.

    By Owen's T, :math:`\tfrac12[\Phi(h) + \Phi(k) - \delta] - T(h, a_h) - T(k, a_k)` with
    :math:`a_h = (k/h - \rho) / \sqrt{1 - \rho^2}` (Owen, 1956, eq. 2.1), delta = 1 where the means differ in sign.
    """
    smallest = np.finfo(np.float64).tiny  # the limit of a mean of zero
    h, k = np.where(h == 0, smallest, h), np.where(k == 0, smallest, k)
    rest = np.sqrt(np.maximum(1.0 - rho**2, 0.0))
    with np.errstate(all="ignore"):  # infinite is right, of a mean of zero
        ratio = [(b - rho * a) / (a * rest) for a, b in ((h, k), (k, h))]
    of_h, of_k = (np.where(np.isnan(each), 0.0, each) for each in ratio)  # the same value twice
    differ = np.where((h > 0) != (k > 0), 0.5, 0.0)
    return np.asarray(0.5 * (ndtr(h) + ndtr(k)) - differ - owens_t(h, of_h) - owens_t(k, of_k))


def _about_maximum(beliefs: Sequence[Belief], outcomes: Outcomes, draws: int, rng: np.random.Generator) -> Array:
    """Return the information ``(m,)`` of labels about the reference input where the latent function is largest.

    Draws of the function say what is probable given the place. Entropies of averages over n draws are too small by
    the sum over labels of var(p) / (2 n p), to first order (Miller, 1955), which is added; half logarithms of variances
    s^2 + sigma^2 are by s^4 / (2 (n - 1) (s^2 + sigma^2)^2).
    """
    m, weights = outcomes.t.shape[1], np.array([each.weight for each in beliefs])
    counts = rng.multinomial(draws, weights / weights.sum())
    drawn = [_drawn(each, count, rng) for each, count in zip(beliefs, counts, strict=True)]
    has_references = beliefs[0].mean.size > m
    place = np.argmax(np.concatenate([f[:, m:] if has_references else f for f in drawn]), axis=1)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    n = np.diff(starts, append=draws)[:, None]

    def averaged(values: Array) -> Array:
        """Return averages over the draws ``(draws, m)`` with their maximum at the same place."""
        return np.asarray(np.add.reduceat(values[order], starts, axis=0) / n)

    noise = noise_of_measurements(beliefs[0].likelihood)
    if noise is not None:
        f = np.concatenate([each[:, :m] for each in drawn])
        f, freedom, total = f - f.mean(axis=0), np.maximum(n - 1, 1), f.var(axis=0)
        spread = np.where(n > 1, (averaged(f**2) - averaged(f) ** 2) * n / freedom, total)  # one draw has none
        bias = np.where(n > 1, (spread / (spread + noise)) ** 2 / freedom, 0.0)
        left = (n / draws * (np.log(spread + noise) + bias)).sum(axis=0)
        return np.asarray(0.5 * (np.log(total + noise) - left))
    found = np.zeros(m)
    for k in range(len(outcomes.t)):
        each = zip(beliefs, drawn, strict=True)
        p = np.concatenate([outcomes.chance(k, belief.likelihood, f[:, :m]) for belief, f in each])
        mean = averaged(p)
        variance = np.maximum(averaged(p**2) - mean**2, 0.0) / np.maximum(n - 1, 1)
        bias = np.divide(0.5 * variance, mean, out=np.zeros_like(mean), where=mean > 0)
        found += entr(p.mean(axis=0)) - (n / draws * (entr(mean) + bias)).sum(axis=0)
    return found


def _drawn(belief: Belief, count: int, rng: np.random.Generator) -> Array:
    """Draw latent values ``(count, m + r)`` jointly."""
    assert belief.covariance is not None
    root = psd_root(belief.covariance)
    return np.asarray(belief.mean + rng.standard_normal((count, root.shape[1])) @ root.T)
