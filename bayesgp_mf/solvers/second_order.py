r"""What TAP's evidence leaves out, to second order, and the size of what is left after that.

TAP takes the other cases for Gaussian where they meet a case's own target. The exact evidence is that of TAP times the
average of a product, over cases, of the ratio of the tilted distribution and its Gaussian. Expanded in the cumulants
of the tilted distributions, the log of that average has as its leading term (Opper, Paquet & Winther 2008; JMLR 14,
2857, 2013, eq. 24)

.. math:: \tfrac12 \sum_{i \ne j} \sum_{l \ge 3} T_l(i, j), \qquad
          T_l(i, j) = \frac{\kappa_{l,i}\, \kappa_{l,j}}{l!}\, C_{ij}^l,

with C the posterior correlations and :math:`\kappa_l` the cumulants in units of standard deviations. The correction is
the term l = 3. With the next one the error grows where many cases are strongly correlated.

What is left has two parts. Pairs of cases leave out the rest of their series and what is nonlinear in them: for a pair
the average is one integral, :math:`A_{ij} = \langle F_i F_j \rangle`, so that :math:`\log A_{ij} - T_3(i, j)` is what
the correction leaves out of it. It is taken for the pairs of the largest terms, which have nearly all of it. More than
two cases leave out what no pair has, and it is of the size of the next terms of the series, taken without signs.

.. math:: \text{remaining} = \Bigl|\sum_{\text{pairs}} \log A_{ij} - T_3(i, j)\Bigr|
          + \sum_{l=4}^{6} \Bigl|\tfrac12 \sum_{i \ne j} T_l(i, j)\Bigr|.

The derivative of the correction of TAP's evidence with respect to the Gram matrix.

With :math:`a_i = c_{3,i} / v_i^3`, where :math:`c_3 = \lambda^3 d_3` is the third cumulant of a tilted distribution and
:math:`v = \lambda + \lambda^2 d_2` its variance, which is :math:`\Sigma_{ii}`, the correction is

.. math:: T = \tfrac{1}{12} \sum_{i \ne j} a_i a_j \Sigma_{ij}^3 .

So it says :math:`\tfrac14 a_i a_j \Sigma_{ij}^2` of the covariances, and of the cavities what it says of a. The heat
equation gives the derivatives in lambda,

.. math:: \partial_\lambda d_2 = \tfrac12 d_4 + d_2^2 + d_1 d_3, \qquad
          \partial_\lambda d_3 = \tfrac12 d_5 + d_1 d_4 + 3 d_2 d_3,

and the rest is TAP's fixed point, which moves with K (`loo_gradient`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants, tilted_cumulants
from bayesgp_mf.likelihoods.moments import gauss_rule
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.matrix import PosteriorCovariance
from bayesgp_mf.solvers.loo_gradient import FixedPoint
from bayesgp_mf.types import Array

ORDERS = (3, 4)
"""Of the series, summed over all pairs; the first is the correction."""
HIGHEST = 6
"""Those up to this are summed over the largest pairs, which have all but nothing of them."""
NODES = 6
"""Of the rule that integrates over one case of a pair."""
PAIRS = 4
"""Pairs that are integrated, for each case ..."""
MOST_PAIRS = 1500
"""... but at most so many: of 4000 the largest 1500 have some nine tenths of what is left of them."""
LOOKED_AT = 16_384
"""Entries of rows by which it is judged which are large."""
AT_ONCE = 2**18
"""Covariances that are worked on together, so that they stay in the cache."""
WHOLE = 4000
"""Cases up to which all pairs are summed; beyond, those of each with as many at random as ..."""
FEW = (150, 500)
"""... a quarter of the columns of the root, but at least and at most so many, the more skewed the sooner."""


LITTLE = 0.1
"""Nats up to which a correction may leave more than it is."""


class SecondOrder(NamedTuple):
    """The correction of a log evidence, in nats.

    Attributes
    ----------
    correction : float
        What is added.
    remaining : float
        The size of what is left out after that.
    """

    correction: float
    remaining: float

    @property
    def leaves_more(self) -> bool:
        """Whether it leaves more than it is, as where many cases bound one value, and is less of a guide."""
        return self.remaining > max(abs(self.correction), LITTLE)


def second_order(
    problem: Problem, solution: Solution, covariance: PosteriorCovariance | None = None
) -> SecondOrder | None:
    """Return the correction of TAP's log evidence, and the size of what it leaves; None where it is not known.

    Parameters
    ----------
    problem : Problem
        Targets and likelihood.
    solution : Solution
        TAP's, of two classes or real targets.
    covariance : PosteriorCovariance, optional
        That of the solution, where it is there already.

    Notes
    -----
    O(n^2) time beside the posterior covariance. Above 4000 cases the sums are over the pairs of all with some at
    random (the same ones each time), and what that may be off by (two standard errors) adds to what is left.
    """
    if solution.evidence.kind != "ep" or problem.likelihood.has_classes:
        return None
    sites = solution.correction.sites
    if solution.cavity is None or sites is None:  # a method of one's own
        return None
    if problem.likelihood.known_sites(problem.t, 0.0) is not None:
        return SecondOrder(0.0, 0.0)  # tilted distributions are Gaussian
    cases = _Cases(problem, solution)
    few, chance = _some_cases(cases.cumulants[0], problem.matrix.width)
    is_whole = few.size == problem.n
    sums = np.zeros((len(ORDERS), few.size))
    pairs, each = [], min(PAIRS, MOST_PAIRS / problem.n)
    rows = sites.covariance_with(few) if covariance is None else _rows(covariance, few, problem.n)
    for block, correlation in rows:
        correlation /= cases.sd[block][:, None]
        correlation /= cases.sd[few]
        numbers = np.arange(block.start, block.stop)
        itself = slice(*np.searchsorted(few, (block.start, block.stop)))
        correlation[few[itself] - block.start, np.arange(few.size)[itself]] = 0.0
        power = correlation**2
        for k, order in enumerate(ORDERS):
            power *= correlation
            weight = cases.cumulants[k, few] / factorial(order)
            sums[k] += 0.5 * weight * (cases.cumulants[k, block] @ power)
            if k == 0:
                term = power * weight
                term *= cases.cumulants[k, block][:, None]
                pairs.append(_largest_pairs(each, numbers, few, chance, correlation, term, each_once=is_whole))
    correction, fourth = np.sum(sums / chance, axis=1)
    one, other, c, term, weight = (np.concatenate(part) for part in zip(*pairs, strict=True))
    left_of_pairs = float(weight @ (cases.log_pair_average(one, other, c) - term))
    higher = [
        float(weight @ (cases.cumulants[k, one] * cases.cumulants[k, other] * c ** (k + 3))) / factorial(k + 3)
        for k in range(len(ORDERS), HIGHEST - 2)
    ]
    sampling = 0.0 if is_whole else 2.0 * float(np.std(sums[0] / chance) * np.sqrt(few.size))
    remaining = abs(left_of_pairs) + abs(float(fourth)) + float(np.sum(np.abs(higher))) + sampling
    return SecondOrder(float(correction), remaining)


def _rows(covariance: PosteriorCovariance, which: NDArray[np.intp], n: int) -> Iterator[tuple[slice, Array]]:
    """Yield copies of covariances ``(k, m)`` of all cases, some at a time, with some; not those with themselves."""
    columns: Any = slice(None) if which.size == n else which
    for block in blocks(n, max(1, AT_ONCE // which.size)):
        yield block, np.array(covariance.entries(block, columns))


class _Cases:
    """What is known of each case."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        assert solution.cavity is not None
        mean, variance = solution.cavity
        self.problem, self.cavity = problem, solution.cavity
        self.log_z = problem.likelihood.log_partition(problem.t, mean, variance).value
        self.sd = np.sqrt(variance / (1.0 + solution.correction.site_precision * variance))  # type: ignore[attr-defined]
        self.sd[variance == 0.0] = 1.0  # of what is known without a label: its covariances and cumulants are zero
        self.latent = mean + variance * solution.alpha
        self.all_cumulants = tilted_cumulants(problem.likelihood, problem.t, mean, variance, 2 * NODES - 1)
        self.cumulants = self.all_cumulants[: HIGHEST - 2]

    def log_pair_average(self, one: NDArray[np.intp], other: NDArray[np.intp], c: Array) -> Array:
        r"""Return log <F_i F_j> ``(k,)`` of pairs with correlations c, by a rule for the tilted distribution of i.

        Given f_i at x standard deviations from its mean, f_j is Gaussian with mean :math:`\mu_j + c\, s_j x` and
        variance :math:`s_j^2 (1 - c^2)`. Times the likelihood and without its own site, whose product with the cavity
        (m, lambda) is the posterior, that is log Z_j at another cavity and the norm of three Gaussians.
        """
        if not one.size:
            return np.zeros(0)
        queried, one = np.unique(one, return_inverse=True)
        nodes, weights = gauss_rule(self.all_cumulants[:, queried], NODES)
        x, s = nodes[:, one], self.sd[other]
        mean, variance = self.cavity.mean[other], self.cavity.variance[other]
        off = (mean - self.latent[other]) / s
        rest = np.maximum(1.0 - c * c, 1e-12)  # of two cases that are one only rounding is left
        # both Gaussians, with the shares of what i tells of j multiplied out: each alone has no end where c nears one
        wide = variance / s**2
        both = rest + wide * c * c
        likelihood = self.problem.likelihood.of_cases(other)
        value = likelihood.log_partition(
            np.broadcast_to(self.problem.t[other], x.shape),
            self.latent[other] + s * (off * rest + wide * c * x) / both,
            np.broadcast_to(variance * rest / both, x.shape),
        ).value
        norm = 0.5 * ((wide - 1.0) * (c * x) ** 2 + 2.0 * c * x * off - (c * off) ** 2) / both
        with np.errstate(divide="ignore"):  # nodes that a rule does not have
            terms = np.log(weights[:, one]) + value - self.log_z[other] + norm
        return np.asarray(np.logaddexp.reduce(terms, axis=0) - 0.5 * np.log(both))


def _largest_pairs(
    each: float,
    numbers: NDArray[np.intp],
    few: NDArray[np.intp],
    chance: Array,
    correlation: Array,
    term: Array,
    *,
    each_once: bool,
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array, Array]:
    """Return the pairs of some cases with few that have the largest terms, so many for each case.

    Of each pair the two cases, their correlation, the term, and how many pairs it stands for, given the ``chance`` of
    those few of being there.
    """
    flat = np.abs(term).ravel()
    step = max(flat.size // LOOKED_AT, 1)
    some = flat[::step]  # what the largest are is judged by some: it need not be known to the last pair
    most = max(int((2 if each_once else 1) * each * numbers.size) // step, 1)
    least = np.partition(some, -most)[-most] if most < some.size else 0.0
    (first,) = np.nonzero(flat > least)
    other, one = np.divmod(first, few.size)
    if each_once:
        before = few[one] < numbers[other]
        first, other, one = first[before], other[before], one[before]
    weight = (1.0 if each_once else 0.5) / chance[one]
    return few[one], numbers[other], correlation.ravel()[first], term.ravel()[first], weight


def _some_cases(skewness: Array, width: int) -> tuple[NDArray[np.intp], Array]:
    """Return numbers of the cases whose pairs are summed, and the chance that each of them had to be among them."""
    n = skewness.size
    most = int(np.clip(width // 4, *FEW))
    if n <= WHOLE:
        return np.arange(n), np.ones(n)
    size = np.abs(skewness)
    chance = np.minimum(most * (0.5 / n + 0.5 * size / max(float(np.sum(size)), np.finfo(float).tiny)), 1.0)
    # at equal steps along the sum of the chances, from a random place, in a random order of the cases
    rng = np.random.default_rng(n)
    order = rng.permutation(n)
    ends = np.concatenate([[0.0], np.cumsum(chance[order])]) + rng.random()
    taken = np.sort(order[np.diff(np.floor(ends)) > 0])
    return taken, chance[taken]


def correction_gradient(problem: Problem, solution: Solution) -> Array:
    """Return the derivative ``(n, n)``, symmetric, of the correction of TAP's log evidence in the Gram matrix.

    Parameters
    ----------
    problem : Problem
        Targets and likelihood; the Gram matrix is made where it is of low rank.
    solution : Solution
        TAP's.

    Notes
    -----
    O(n^3), about as much as ten steps of the solver.
    """
    assert solution.cavity is not None
    mean, variance = solution.cavity
    _, d1, d2 = problem.likelihood.log_partition(problem.t, mean, variance)
    v = variance + variance**2 * d2
    cumulants = tilted_cumulants(problem.likelihood, problem.t, mean, variance, 5)
    skewness = cumulants[0]
    d3, d4, d5 = derivatives_of_cumulants(cumulants, variance, d2)
    fixed_point = FixedPoint(problem, solution, variance)
    correlation = fixed_point.covariance / np.sqrt(np.multiply.outer(v, v))
    np.fill_diagonal(correlation, 0.0)
    square = correlation**2
    response = (square * correlation) @ skewness / 6.0  # what T says of the skewness of each case
    # skewness = lambda^3 d3 / v^(3/2); C_ij = Sigma_ij / sqrt(v_i v_j)
    by_v = -3.0 * skewness * response / v  # half of it by the skewness itself, half by the correlations
    unit = variance**3 / v**1.5
    mean_bar = response * unit * d4 + by_v * variance**2 * d3
    by_variance = 3.0 * skewness / variance + unit * (0.5 * d5 + d1 * d4 + 3.0 * d2 * d3)
    v_by_variance = 1.0 + 2.0 * variance * d2 + variance**2 * (0.5 * d4 + d2**2 + d1 * d3)
    variance_bar = response * by_variance + by_v * v_by_variance
    weight = skewness / np.sqrt(v)
    covariance_bar = 0.25 * square * np.multiply.outer(weight, weight)
    return fixed_point.pull_back(mean_bar, variance_bar, covariance_bar).gram
