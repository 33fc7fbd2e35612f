"""Looking ahead: what each outcome of each candidate would do to the posterior at other inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.groups import Container
from bayesgp_mf.design.beliefs import Belief, Outcomes, as_process, beliefs_of, outcomes_of
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.processes.corrected import nothing_to_correct
from bayesgp_mf.processes.process import Part, Process
from bayesgp_mf.solvers.partial_response import PartialResponse, concern
from bayesgp_mf.solvers.queries import Base, Query
from bayesgp_mf.types import Array, Derivs

AT_ONCE = 2**19
"""Entries of the covariance matrices that are worked on together."""


class LookAhead(NamedTuple):
    """What is to be expected of a label, for K outcomes of m candidates.

    Attributes
    ----------
    outcome : (K, m) array
        The targets: labels -1 and +1, levels, counts; or values of a measurement at equal steps.
    probability : (K, m) array
        How probable each is, before it is known.
    mean, variance : (K, m, r) array
        Of the latent values at r reference inputs, once it is known.
    """

    outcome: Array
    probability: Array
    mean: Array
    variance: Array


def look_ahead(
    idata: Container | Process,
    candidates: Any,
    at: Any = None,
    *,
    answering: int = 64,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> LookAhead:
    r"""Return the posterior at some inputs after each label that each candidate may get, without a fit for each.

    Of a fit by TAP the sites of the cases that a label concerns most answer to it, until they match again
    (`solvers.ratio`); where all do, it is what a fit with that label says (a fit with inducing inputs would see the
    candidate by those alone, and here it counts in full). Otherwise all stay but that of the new case, which matches
    its label (2000, eqs. 33 and 34):

    .. math:: m' = m + \Sigma_{\cdot x}\, d_1(y), \qquad
        \Sigma' = \Sigma + \Sigma_{\cdot x}\, d_2(y)\, \Sigma_{x \cdot}

    with the derivatives of :math:`\log \int p(y|f) N(f | m_x, \Sigma_{xx}) df` in :math:`m_x`. That is exact with
    Gaussian noise; where a label surprises, means were off by up to 0.3 standard deviations, and variances by a third.

    Parameters
    ----------
    idata : InferenceData, DataTree or Process
        What `fit` returned. Over an average the settings are weighed anew by each label.
    candidates : (m, d) array_like
        Inputs that may be asked for, as those of `predict`.
    at : (r, d) array_like, optional
        Where the posterior is to be known; by default at the candidates.
    answering : int
        Training cases whose sites answer to each label. With 0 it takes O(r) for each.
    offset, trials : (m,) array_like, optional
        Of the candidates, as for `predict`.

    Returns
    -------
    LookAhead
        Outcomes, their probabilities, and means and variances after each.

    Raises
    ------
    ValueError
        If inputs do not fit those of the fit, or are more than 5000.
    UndefinedQuantityError
        If the fit has several classes, or measurements without Gaussian noise.

    Notes
    -----
    O(n^3) once, O(n^2) for each input, and for each outcome O(a^3 + a r) with a cases that answer.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> bgp.design.look_ahead(idata, [[0.0]], [[0.0], [1.0]]).mean[:, 0].round(2)
    array([[-0.18,  1.44],
           [ 0.18,  1.59]])
    """
    at = candidates if at is None else at
    check_integers(0, answering=answering)
    process = as_process(idata)
    beliefs, m = beliefs_of(process, candidates, at, joint=True, offset=offset, trials=trials)
    inputs = [process.new_inputs(as_pandas("candidates", each)) for each in (candidates, at)]
    outcomes = outcomes_of(beliefs, m)
    p = np.array([each.weight * outcomes.probabilities(each) for each in beliefs])
    total = p.sum(axis=0)
    prior = np.array([each.weight for each in beliefs])[:, None, None]  # also of outcomes whose probability underflows
    share = np.divide(p, total, out=np.broadcast_to(prior, p.shape).copy(), where=total > 0)[..., None]
    found = [after(each, outcomes.log_partition(each)) for each in beliefs]
    for part, belief, one in zip(process.parts, beliefs, found, strict=True):
        if answering and part.solution.evidence.kind == "ep" and not nothing_to_correct(part.problem):
            _let_answer(part, inputs, belief, outcomes, int(answering), one)
    means, variances = zip(*found, strict=True)
    mean = np.sum(share * np.array(means), axis=0)
    variance = np.sum(share * (np.array(variances) + (np.array(means) - mean) ** 2), axis=0)
    return LookAhead(outcomes.t, total, mean, variance)


def after(belief: Belief, response: Derivs, rows: slice = slice(None)) -> tuple[Array, Array]:
    """Return means and variances ``(K, m, r)`` at the reference inputs after each outcome of each candidate.

    ``response`` is the log partition of the outcomes, as `Outcomes.log_partition` has it; ``rows`` are candidates.
    """
    assert belief.covariance is not None
    m = response.d1.shape[1]
    s = belief.covariance[:m][rows, m:]
    later = belief.variance[m:] + response.d2[:, rows, None] * s**2
    mean = belief.mean[m:] + response.d1[:, rows, None] * s
    return mean, np.maximum(later, 0.0)  # rounding, of a value that is known now


class _Answering(PartialResponse):
    """Sites that answer to labels, and what they do to other latent values."""

    @property
    def _has_others(self) -> bool:
        return True

    def moved(self, i: int, columns: Array) -> tuple[Array, Array]:
        """Return changes of means and variances ``(r,)`` by a label, from covariances ``(r, k + 1)`` with the sites."""
        kept = self._kept[i]
        return columns @ kept.pull, -np.einsum("rj,rj->r", columns @ kept.shrink, columns * kept.change)


def _let_answer(
    part: Part, inputs: list[Array], belief: Belief, outcomes: Outcomes, answering: int, found: tuple[Array, Array]
) -> None:
    """Change means and variances ``(K, m, r)`` to those after the sites of training cases have answered.

    Where the equations do not settle they stay.
    """
    assert belief.covariance is not None
    base, m = Base(part.problem, part.solution), outcomes.t.shape[1]
    form = part.problem.in_form(part.solution.correction.form)
    features = (form.features(part.kernel, part.X, each) for each in inputs)
    cross, there = (base.covariance.with_new(each, slice(None)) for each in features)
    k, nothing = min(answering, base.n), np.zeros(m)
    latent = belief.of_candidates(m)
    for of_mean, of_variance, t in zip(*found, outcomes.t, strict=True):
        query = Query(None, cross, *latent, None, t, None, belief.likelihood.of_cases, nothing)
        for block in blocks(m, max(1, AT_ONCE // (k + 1) ** 2)):
            rows = np.arange(m)[block]
            some = query.only(rows)
            chosen = np.argpartition(-concern(base, some), max(k - 1, 0), axis=1)[:, :k]
            response = _Answering(base, some, chosen)
            for i in np.flatnonzero(response.answers().settled):
                columns = np.column_stack([there[:, chosen[i]], belief.covariance[rows[i], m:]])
                change = response.moved(int(i), columns)
                of_mean[rows[i]], of_variance[rows[i]] = belief.mean[m:] + change[0], belief.variance[m:] + change[1]
