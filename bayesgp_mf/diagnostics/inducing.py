"""Whether the inducing cases of a fit are enough: what changes where there are twice as many."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.arguments import as_generator
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.errors import Status
from bayesgp_mf.inference.assembly import assemble_inducing, diagonal_of_cross
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.inducing import NEGATIVE, InducingGram
from bayesgp_mf.types import Array

SMALL_LOO = 1e-3
"""In nats for each case; a change of the leave-one-out density below this is small ..."""
SMALL_PROBABILITY = 0.01
"""... and of the probability of a case's own target, given the others, the root of its mean square."""
LITTLE = 0.02
"""Part of the prior variances that costs 0.001 to 0.003 nats a case where it counts as noise (benchmark ``rough``)."""


@dataclass(frozen=True, slots=True)
class InducingCheck:
    """What changes with twice as many inducing cases; ``str`` of it is a verdict.

    Attributes
    ----------
    number, doubled : int
        Numbers of inducing cases of the fit, and of the solution that it is compared with.
    loo_change : float
        Change of the mean leave-one-out log density, in nats for each case.
    probability_change : float or None
        Root of the mean squared change of the probability that the other cases give a case's own label; None for real
        targets, which have none.
    evidence_change : float
        Change of the log evidence, in nats.
    independent, independent_doubled : float
        Mean part of the prior variances that counts as independent noise, before and after.
    needed : int or None
        About how many inducing cases at most would leave 2 % of the prior variances to noise, `kernels.White` apart:
        if it falls on by the same power of their number, which mostly grows. None where it is less, or does not fall.
    """

    number: int
    doubled: int
    loo_change: float
    probability_change: float | None
    evidence_change: float
    independent: float
    independent_doubled: float
    needed: int | None = None

    @property
    def enough(self) -> bool:
        """Whether predictions hardly change: the log density by less than 0.001 a case, probabilities by 0.01."""
        return abs(self.loo_change) < SMALL_LOO and (self.probability_change or 0.0) < SMALL_PROBABILITY

    def __str__(self) -> str:
        of_labels = self.probability_change is not None
        probabilities = f", probabilities by {self.probability_change:.3f} (root mean square)" if of_labels else ""
        found = (
            f"{self.doubled} instead of {self.number} inducing cases change the leave-one-out log density by "
            f"{self.loo_change:+.4f} a case{probabilities} and the log evidence by {self.evidence_change:+.1f} nats"
        )
        if self.enough:
            return f"{found}: enough."
        verdict = "take more" if self.loo_change > 0 else "they do not predict better, but differ"
        falls = f"They leave {self.independent_doubled:.1%} of the prior variances to noise instead of"
        more = "" if self.needed is None else f"; at most some {self.needed} would leave {LITTLE:.0%}, White apart"
        return f"{found}: {verdict}. {falls} {self.independent:.1%}{more}."


def inducing(idata: Container, *, random_seed: int | np.random.Generator | None = None, **given: Any) -> InducingCheck:
    """Solve a fit again with twice as many inducing cases, and return what changes.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned with ``inducing=...``, or the same loaded from a file.
    random_seed : int, numpy.random.Generator or None
        Source of the further inducing cases, which are a random part of the cases.
    **given
        ``kernel``, ``likelihood`` and ``method``, as for `predict`, if the container does not hold them.

    Returns
    -------
    InducingCheck
        Changes of leave-one-out density, probabilities and evidence; ``print`` says whether they are small.

    Raises
    ------
    ValueError
        If the container was not made by this package, has no inducing cases, or averages over hyperparameters; or if
        all cases are inducing cases already.

    Notes
    -----
    It takes about four times as long as the solution itself: the same steps with twice the inducing cases, starting
    from that solution. Hyperparameters are not changed.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(1000, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=1000) > 0
    >>> idata = bgp.fit(X, y, bgp.kernels.Matern32([1.0, 1.0]), inducing=20, draws=50, random_seed=1)
    >>> bgp.diagnostics.inducing(idata, random_seed=2).enough
    False
    """
    fit = fit_group(idata)
    if "inducing_input" not in fit:
        raise ValueError("this fit has no inducing cases: it worked with the Gram matrix of all. Nothing to double.")
    check_has_cases(fit, "leave-one-out prediction to compare")
    posterior = from_container(idata, **given)
    if len(posterior.parts) > 1:
        raise ValueError(
            "this fit averages over hyperparameters. Fit one setting of them, hyper='evidence' or None, and check that."
        )
    part: Any = posterior.parts[0]
    before, problem, solver = part.solution, part.problem, part.method
    if before.info.status is not Status.CONVERGED:
        raise ValueError(f"this fit was not solved ({before.info.status.name}), so there is nothing to hold against.")
    points = problem.matrix.points
    rng = as_generator(random_seed)
    left = _undetermined(part.kernel, part.X, problem.matrix)
    if not left.size:
        raise ValueError(
            f"further cases add nothing: the {points.shape[0]} inducing cases determine all others under this kernel, "
            "or are all cases that differ."
        )
    new = Inducing(points.shape[0]).chosen(part.X[left], problem.t[left], part.kernel, rng)
    with one_thread_if_small(problem.n):
        larger = assemble_inducing(
            part.kernel, part.X, problem.t, problem.likelihood, inducing=np.concatenate([points, new])
        )
        after = solver.solve(larger, Control(), before)
        others, others_after = part.loo.log_density, solver.leave_one_out(larger, after).log_density
    shared, prior = diagonal_of_cross(part.kernel, part.X), problem.matrix.prior
    of_its_own = float(np.mean(np.divide(prior - shared, prior, out=np.zeros_like(prior), where=prior > 0)))
    left, left_doubled = (matrix.stated["independent"] for matrix in (problem.matrix, larger.matrix))
    number, doubled = points.shape[0], larger.matrix.rank or 0
    change = np.exp(others_after) - np.exp(others)
    return InducingCheck(
        number=number,
        doubled=doubled,
        loo_change=float(np.mean(others_after - others)),
        probability_change=None if problem.likelihood.is_real else float(np.sqrt(np.mean(change**2))),
        evidence_change=after.evidence.value - before.evidence.value,
        independent=left,
        independent_doubled=left_doubled,
        needed=_needed(number, doubled, left - of_its_own, left_doubled - of_its_own, problem.n),
    )


def _needed(number: int, doubled: int, left: float, left_doubled: float, most: int) -> int | None:
    """Return how many inducing cases leave little, if what they leave goes on falling by a power of their number."""
    if left_doubled <= LITTLE or left_doubled >= left:
        return None
    power = log(left / left_doubled) / log(doubled / number)
    log_number = min(log(doubled) + log(left_doubled / LITTLE) / power, log(most))
    return min(int(float(f"{exp(log_number):.2g}")), most)


def _undetermined(kernel: Kernel, X: Array, matrix: InducingGram) -> NDArray[np.intp]:
    """Return the cases of which the inducing cases leave more than rounding of what covaries with other cases.

    Of these alone further inducing cases are worth drawing. Noise of a case's own (`White`), which is part of
    ``matrix.own``, covaries with nothing.
    """
    shared = diagonal_of_cross(kernel, X)
    of_its_own = matrix.own - (matrix.prior - shared)
    return np.flatnonzero(of_its_own > NEGATIVE * shared)
