r"""Predictive probabilities as ratios of corrected evidences.

.. math:: p(t_* | t) = Z(t, t_*) / Z(t)

holds exactly. TAP's own prediction leaves the sites of the other cases as they are while a new label comes in. Here
they answer to it, and both evidences are corrected to second order (`second_order`), which takes most of the error away
(an idea of Tierney and Kadane, 1986, there for Laplace's method).

The problem with one case more is solved near the solution that there is. With posterior means :math:`\mu` and
covariance :math:`\Sigma` of that solution, the new case among them, and changes D of the site precisions and db of the
shifts,

.. math:: \Sigma' = \Sigma (1 + D \Sigma)^{-1}, \quad \mu' = \mu + \Sigma' h, \quad h = db - D \mu, \qquad
    \Delta \log Z = db^T \mu - \tfrac12 \mu^T D \mu - \tfrac12 \log\det(1 + D \Sigma) + \tfrac12 h^T \Sigma' h
                    + \Delta \sum_i [\log Z_i - \log Z_i^{\text{site}}].

Where the covariance is nearly of low rank, all sites answer (`full_response`). Else those of the cases answer that it
concerns most (`partial_response`); what the others add is taken to third order in the change of their cavities, up to
which their answer does not count. If that is not small, more cases are let answer.

The same with a latent value that is known instead of a label is its density: :math:`p(f_* | t) = Z(t, f_*) / Z(t)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.matrix import PosteriorCovariance
from bayesgp_mf.solvers.full_response import Compressed, FullResponse
from bayesgp_mf.solvers.partial_response import PartialResponse, concern
from bayesgp_mf.solvers.queries import Base, Query
from bayesgp_mf.solvers.settling import Answers
from bayesgp_mf.types import Array

ANSWERING = (64, 128, 256)
"""Cases whose sites answer to a label: as many as this, then more where the others would answer as well."""
REST = 1e-3
"""What the others may change of a probability, or of the log of that of a left-out label or of a density."""
AT_ONCE = 2**19
"""Entries of the covariance matrices that are worked on together."""


class Ratios(NamedTuple):
    """What evidences with one label more say of each of some cases.

    Attributes
    ----------
    p : (m,) array
        Of class 1: the share of its label in the sum of both.
    extreme : (m,) array
        Where the equations of one label have a solution and those of the other none, p is the ratio of the first, and
        this is what it would be if the other is impossible. Elsewhere it is p.
    total : (m,) array
        The sum of the probabilities of the two labels, each by itself a ratio of evidences: one, but for errors. NaN
        where it is not settled.
    settled : (m,) bool array
        Whether the equations were solved, and what was neglected in them is small.
    one_sided : (m,) bool array
        Whether that is so for one label alone.
    """

    p: Array
    extreme: Array
    total: Array
    settled: NDArray[np.bool_]
    one_sided: NDArray[np.bool_]


class OneMore:
    """TAP's solution, of which it is asked what one case or one latent value more or less does to the evidence.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        TAP's.
    few : int or None
        With it so many cases answer at first, which is often enough where few questions are asked; all others as where
        it is None.
    covariance : PosteriorCovariance, optional
        That of the solution, where it is there already.

    Attributes
    ----------
    base : Base
        What is known of the solution.

    Notes
    -----
    O(n^3) once for a dense Gram matrix, O(n r^2) for a root of rank r; then for each case O(n r^2) where all n cases
    answer, r being the rank of nearly all of the posterior covariance, and O(n k + k^3) where k do.
    """

    def __init__(
        self,
        problem: Problem,
        solution: Solution,
        few: int | None = None,
        covariance: PosteriorCovariance | None = None,
    ) -> None:
        self.base, self._few = Base(problem, solution, covariance), few

    @cached_property
    def _compressed(self) -> Compressed | None:
        if self._few is not None or self.base.n <= ANSWERING[0]:
            return None
        return Compressed.of(self.base)

    def new_cases(self, features: Array, mean: Array, variance: Array, offset: Array) -> Ratios:
        """Return what is said of the labels of new cases.

        Parameters
        ----------
        features : (r, m) array
            By which the form of the Gram matrix knows the new cases: `Matrix.features`.
        mean, variance : (m,) array
            Of their latent values under the solution.
        offset : (m,) array
            Prior means and offsets, which are not in ``mean``.
        """
        cross = self.base.covariance.with_new(features, slice(None))
        likelihood = self.base.likelihood.of_one_case
        query = Query(features, cross, mean, variance, None, None, None, lambda _: likelihood, offset)
        questions = [query._replace(label=np.full(mean.size, label)) for label in (1.0, -1.0)]

        def neglected(found: Sequence[Answers], rows: NDArray[np.intp]) -> Array:
            odds = found[0].log_ratio - found[1].log_ratio
            return np.asarray(expit(odds) * expit(-odds) * np.abs(found[0].rest - found[1].rest))

        (plus, minus), settled = self._answers(questions, neglected)
        total, p = np.full(settled.size, np.nan), expit(plus.log_ratio - minus.log_ratio)
        total[settled] = np.exp(plus.log_ratio[settled]) + np.exp(minus.log_ratio[settled])
        extreme, one_sided = p.copy(), np.zeros(settled.size, dtype=bool)
        # where a label contradicts those that there are, as under a step, the other's evidence says all
        for sure, known, other in ((1.0, plus, minus), (0.0, minus, plus)):
            neglected_of_one = np.exp(np.minimum(known.log_ratio, 0.0)) * np.abs(known.rest)
            rows = np.flatnonzero(known.settled & ~other.settled & (neglected_of_one <= REST))
            ratio = np.exp(known.log_ratio[rows])
            p[rows], extreme[rows], one_sided[rows] = np.abs(1.0 - sure - np.minimum(ratio, 1.0)), sure, True
            total[rows] = np.maximum(ratio, 1.0)
        return Ratios(p, extreme, total, settled, one_sided)

    def left_out(self, which: NDArray[np.intp]) -> tuple[Array, NDArray[np.bool_]]:
        """Return log p(t_i | the others) of training cases (numbers ``(m,)`` in `Base.cases`), and where it is right.

        It is the ratio of the evidences with and without the case. Of two labels it is better known from that with its
        label and with the other, since the two probabilities sum to one. Where nothing can have the other label, and
        where a weight makes of them no probabilities, it is the first all the same.
        """
        base, likelihood = self.base, self.base.likelihood
        cross = base.covariance.entries(which, np.arange(base.n))
        cross[np.arange(which.size), which] = base.variance[which]
        query = Query(
            None, cross, base.mean[which], base.variance[which], which, None, None,
            lambda some: likelihood.of_cases(which[some]), np.zeros(which.size),
        )  # fmt: skip
        found, settled = np.zeros(which.size), np.zeros(which.size, dtype=bool)
        if likelihood.is_binary and "weights" not in likelihood.stored_by_case:
            (other,), settled = self._answers(
                [query._replace(label=-base.t[which])],
                lambda answers, rows: expit(answers[0].log_ratio) * np.abs(answers[0].rest),
            )
            found[settled] = log_expit(-other.log_ratio[settled])
        rows = np.flatnonzero(~settled)
        if rows.size:
            without = query._replace(label=np.full(which.size, np.nan)).only(rows)
            (answers,), settled[rows] = self._answers([without], lambda answers, _: np.abs(answers[0].rest))
            found[rows] = -answers.log_ratio
        return found, settled & base.known_without[which]

    def log_density(
        self, features: Array, mean: Array, variance: Array, values: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return the log density of latent values ``(m,)`` of new cases, and where it is right.

        Parameters
        ----------
        features, mean, variance
            As in `new_cases`.
        values : (m,) array
            One value for each case, less the prior mean.
        """
        cross = self.base.covariance.with_new(features, slice(None))
        likelihood = self.base.likelihood.of_one_case  # of which nothing is asked
        query = Query(features, cross, mean, variance, None, None, values, lambda _: likelihood, np.zeros(mean.size))
        sd = np.sqrt(variance)

        def neglected(found: Sequence[Answers], rows: NDArray[np.intp]) -> Array:
            with np.errstate(divide="ignore"):  # nothing is neglected where all answer
                log_error = np.log(np.abs(found[0].rest)) + found[0].log_ratio + np.log(sd[rows])
            return np.exp(np.minimum(log_error, 0.0))  # more need not be told apart, and might be beyond all numbers

        (answers,), settled = self._answers([query], neglected)
        return answers.log_ratio, settled

    def _answers(
        self, questions: Sequence[Query], neglected: Callable[[Sequence[Answers], NDArray[np.intp]], Array]
    ) -> tuple[list[Answers], NDArray[np.bool_]]:
        """Answer some questions of the same cases, where each is settled, and what was neglected in them is small."""
        base, m, first = self.base, questions[0].mean.size, questions[0]
        found = [Answers(np.full(m, np.nan), np.zeros(m), np.zeros(m, dtype=bool)) for _ in questions]
        settled, left = np.zeros(m, dtype=bool), np.arange(m)
        answering = ANSWERING if self._few is None else (self._few, *ANSWERING)

        def keep(rows: NDArray[np.intp], each: Sequence[Answers]) -> NDArray[np.bool_]:
            for whole, part in zip(found, each, strict=True):
                for kept, given in zip(whole, part, strict=True):
                    kept[rows] = given
            solved = np.all([part.settled for part in each], axis=0)
            settled[rows] = solved & (neglected(each, rows) <= REST)
            return np.asarray(solved)

        if self._compressed is not None and first.itself is None:  # there all cases stay
            size = max(1, AT_ONCE // self._compressed.root.size)
            for rows in (left[part] for part in blocks(m, size)):
                keep(rows, [FullResponse(self._compressed, query.only(rows)).answers() for query in questions])
            left = np.flatnonzero(~settled)
        others = base.n if first.itself is None else base.n - 1
        for most in answering:
            k = min(most, others)
            solved = np.zeros(m, dtype=bool)
            for rows in (left[part] for part in blocks(left.size, max(1, AT_ONCE // (k + 1) ** 2))):
                some = first.only(rows)
                chosen = np.argpartition(-concern(base, some), max(k - 1, 0), axis=1)[:, :k]
                solved[rows] = keep(
                    rows, [PartialResponse(base, query.only(rows), chosen).answers() for query in questions]
                )
            left = np.flatnonzero(solved & ~settled)  # equations that few cannot solve are not solved by more
            if k == others or not left.size:
                break
        return found, settled
