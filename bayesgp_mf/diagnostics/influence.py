r"""What each case does to a fit: to its evidence, its hyperparameters and its predictions, without refits.

The log evidence with case i less that without it is its leave-one-out log density. With :math:`\Sigma` the posterior
covariance and :math:`m_i^\setminus, v_i^\setminus` its cavity, the posterior at x without the site of case i has

.. math:: m(x) + \frac{\Sigma_{xi}}{\Sigma_{ii}} (m_i^\setminus - m_i), \qquad
    v(x) + \frac{\Sigma_{xi}^2}{\Sigma_{ii}^2} (v_i^\setminus - \Sigma_{ii}),

the other sites being kept (2000, eq. 50 and 51, at other inputs). The hyperparameters move by a Newton step of
the search: with H the Hessian of the log evidence of the others, at the summit of all, and l_i the leave-one-out log
density, by :math:`H^{-1} \nabla l_i` in the logarithms of the parameters. What that does to m(x) and v(x) without case
i is added, to first order. From the ten largest steps a search goes on to the summit without the case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.layout import class_names_of
from bayesgp_mf.container.loo import log_densities, observed_targets
from bayesgp_mf.container.read import check_priors, fit_group, from_container
from bayesgp_mf.container.stored import priors_of
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.diagnostics.hyperparameters import for_readers
from bayesgp_mf.diagnostics.predicted import predicted
from bayesgp_mf.errors import UndefinedQuantityError, warn
from bayesgp_mf.hyper.objective import DIFFERENCE, Objective
from bayesgp_mf.hyper.optimise import FIRST_STEP, GAIN, uphill
from bayesgp_mf.hyper.priors import Prior
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.groups import as_new_inputs
from bayesgp_mf.inputs.tables import facts_of_new_cases
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.processes.process import Part, with_new_cases
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.types import Array

FAR = 0.5
"""How far a step, in the logarithm, is to be trusted."""
KEPT = 0.5
"""Share of the curvature that must be left without a case, in each direction, for a step of its own."""
FOLLOWED = 10
"""Cases at most, of those that move hyperparameters the most, from whose step on the summit without them is looked for:
..."""
NEAR = 0.05
"""... steps longer than that, in the logarithm."""
INSIDE = 1e-3
"""How far from a bound, in the logarithm, a parameter must be to have a summit there."""


@shown_as_table(lambda found: f"{len(found.cases)} cases, the strangest first:")
@dataclass(frozen=True, eq=False)
class Influence:
    """What each of n cases does to a fit.

    Attributes
    ----------
    log_evidence : (n,) array
        By how much it raises the log evidence, in nats: the log density of its target given the others, to the power of
        its weight.
    odds : (n,) array or None
        Of labels, the odds that the others give against the label of the case, whatever its weight; inf where they are
        beyond the largest double.
    hyperparameters : (n, p) array or None
        By how much the logarithms of the hyperparameters would move without it, where they are at the summit of the log
        evidence; ``names`` are theirs.
    latent_mean, probability : (n, m) array or None
        By how much those of new cases would move without it.
    cases : (n,) array
        The labels of its rows.
    targets : (n,) array
        Targets; labels by name.
    """

    log_evidence: Array
    odds: Array | None
    hyperparameters: Array | None
    names: tuple[str, ...]
    latent_mean: Array | None
    probability: Array | None
    cases: NDArray[Any] = field(repr=False)
    targets: NDArray[Any] = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each case: its target, log_evidence, odds, and the hyperparameters, the strangest first."""
        columns: dict[str, Any] = {"target": self.targets, "log_evidence": self.log_evidence}
        if self.odds is not None:
            columns["odds"] = self.odds
        if self.hyperparameters is not None:
            columns |= {name: self.hyperparameters[:, k] for k, name in enumerate(self.names)}
        if self.latent_mean is not None:
            columns["largest_latent_mean"] = np.max(np.abs(self.latent_mean), axis=1)
        table = pd.DataFrame(columns, index=pd.Index(self.cases, name="obs_id"))
        return table.sort_values("log_evidence", kind="stable")

    def suspects(self, odds: float = 3.0) -> pd.DataFrame:
        """Return the cases whose label the others contradict by such odds or more, the strangest first.

        Raises
        ------
        UndefinedQuantityError
            If targets are no labels.
        """
        if self.odds is None:
            raise UndefinedQuantityError(
                "suspects are cases with a doubtful label, and these targets are numbers or ordered levels: look at "
                "to_frame(), the strangest first."
            )
        table = self.to_frame()
        return table[table["odds"] >= odds]


def influence(
    idata: Container,
    X_new: ArrayLike | None = None,
    *,
    offset: ArrayLike | None = None,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
    priors: dict[str, Prior] | None = None,
) -> Influence:
    """Return what each case does to the evidence, the hyperparameters and the predictions of a fit.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    X_new : (m, d) array_like, optional
        New cases whose predictions matter.
    offset : (m,) array_like or float, optional
        Those of the new cases, if the fit has offsets.
    kernel, likelihood, method, priors : optional
        Those of the fit that the container does not hold.

    Returns
    -------
    Influence
        ``to_frame()`` has a row for each case, ``suspects()`` those whose label the others contradict.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or ``X_new`` or ``offset`` does not match it.
    UndefinedQuantityError
        If you ask for predictions, and there are several classes, several settings of the hyperparameters, or a method
        without sites; or if the container has no leave-one-out predictions.

    Warns
    -----
    UserWarning
        If you ask for predictions, and beside the ten cases that move hyperparameters the most another moves one by
        more than a factor of 1.6: farther than a step knows.

    Notes
    -----
    Hyperparameters are those of ``hyper="evidence"``; a parameter at a bound is left out. They take some
    p (p + 3) / 2 solutions, for p of them, and the ten cases that move them the most some ten each. Held against refits
    in 14 problems of 60 cases, searched under priors, with 20 new cases, what each case does to means and to
    probabilities had correlations of 0.999 and more; the largest difference was 0.04 of a mean, where one moved by
    0.85, and 0.011 of a probability, where one moved by 0.19. If one measurement is a gross error the evidence may have
    another summit without it, which only a new search from several starts finds.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2.0, 2.0, 30)[:, None]
    >>> y = (X[:, 0] > 0).astype(int)
    >>> y[3] = 1  # a slip
    >>> idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 4.0), draws=50, random_seed=1)
    >>> bgp.diagnostics.influence(idata).suspects()["odds"].round(1).to_dict()
    {3: 25.5}
    """
    fit = fit_group(idata)
    check_has_cases(fit, "influence of each case")
    process, names = from_container(idata, kernel, likelihood, method), class_names_of(fit)
    check_priors(priors, process.parts[0])
    if X_new is None and offset is not None:
        raise ValueError("offset is of new cases, and there is no X_new. Give their inputs, or leave it out.")
    observed, each = observed_targets(idata), log_densities(idata).values
    part, X, odds = process.parts[0], np.empty((0, 0)), None
    if not process.problem.likelihood.is_real:
        found = predicted(idata, kernel=kernel, likelihood=likelihood, method=method)
        p = np.asarray(found.probability)[np.arange(len(each)), found.targets]
        with np.errstate(over="ignore", divide="ignore"):
            odds = np.expm1(-each) if "weights" not in process.problem.likelihood.stored_by_case else (1.0 - p) / p
    at_one = not process.averaged and part.solution.correction.sites is not None and part.problem.t.ndim == 1
    at_one &= not process.problem.likelihood.has_classes
    if X_new is not None:
        if not at_one:
            raise UndefinedQuantityError(
                "X_new is for fits of one latent value a case at one setting of the hyperparameters, by a method with "
                "sites, as TAP, Laplace's and the mean fields have them. Leave it out."
            )
        X = as_new_inputs(X_new, part.X, part.feature_names, part.kernel)
        given = facts_of_new_cases(X_new, len(X), offset, None)
        if given or part.problem.likelihood.is_binary:  # else only f is asked for, which has no offset
            part = with_new_cases(process, given).parts[0]
    with one_thread_if_small(len(each)):
        moves = None
        if fit.attrs.get("hyper") == "evidence" and at_one:
            moves = _hyperparameters(part, X, **priors_of(fit, priors, part.kernel))
            steps = np.zeros(1) if moves is None else np.abs(moves.logarithms[~moves.followed]).max(axis=1, initial=0.0)
            if X.size and steps.max(initial=0.0) > FAR:
                warn(
                    f"beside the {FOLLOWED} cases that move hyperparameters the most, {np.count_nonzero(steps > FAR)} "
                    f"move one by a factor of up to {np.exp(steps.max()):.2g}, farther than a step is to be trusted: "
                    "fit again without one to see what it does."
                )
        moved = (None, None) if X_new is None else _predictions(part, X, moves)
    return Influence(
        log_evidence=each,
        odds=odds,
        hyperparameters=None if moves is None else moves.logarithms,
        names=() if moves is None else for_readers(idata, moves.names),
        latent_mean=moved[0],
        probability=moved[1],
        cases=observed["obs_id"].values,
        targets=np.array(names)[observed.values.astype(np.intp)] if names else observed.values,
    )


class _Moves(NamedTuple):
    """By how much the logarithms of p hyperparameters move without each case ``(n, p)``, and what that does.

    ``latent (2, n, m)`` are the means and variances of new cases without each case, at its hyperparameters. Of cases
    that were ``followed`` these are those of the summit without them.
    """

    logarithms: Array
    names: tuple[str, ...]
    latent: Array
    followed: NDArray[np.bool_]


def _without(part: Part, X: Array) -> Array:
    """Return means and variances ``(2, n, m)`` of latent values at inputs without each case, the other sites kept."""
    sites: Any = part.solution.correction.sites
    covariance, n = sites.posterior_covariance(), part.problem.n
    features = part.problem.matrix.features(part.kernel, part.X, X)
    share = covariance.with_new(features, np.arange(n)).T / covariance.diagonal[:, None]
    loo, (mean, variance), (here, spread) = part.loo, part.at_training, part.latent_at(X)
    changed = share * (loo.mean - mean)[:, None], share**2 * (loo.variance - variance)[:, None]
    return np.array([here + changed[0], spread + changed[1]])


def _predictions(part: Part, X: Array, moves: _Moves | None) -> tuple[Array, Array | None]:
    """Return by how much latent means, and probabilities of labels, at inputs move without each case, ``(n, m)``."""
    mean, variance = _without(part, X) if moves is None else moves.latent
    here, spread = part.latent_at(X)
    if not part.problem.likelihood.is_binary:
        return mean - here, None
    likelihood = part.new_likelihood
    p = likelihood.predict_proba(mean, np.maximum(variance, 0.0))
    return mean - here, p - likelihood.predict_proba(here, spread)


def _hyperparameters(part: Part, X: Array, **chosen: Any) -> _Moves | None:
    """Return what each case does to the hyperparameters at the summit; None where there is none inside the bounds."""
    problem, control = part.problem, Control(throw=True, progress=False)
    model = part.kernel, part.method, control
    target = Target(part.X, problem.t, problem.likelihood, *model, **chosen)
    at, objective = target.start, Objective(target, EvidenceScore())
    (inside,) = np.nonzero((at > target.lower + INSIDE) & (at < target.upper - INSIDE))
    p, pairs = inside.size, list(combinations(range(inside.size), 2))

    def seen(step: Array) -> tuple[Array, Array, Array | None] | None:
        """Return leave-one-out densities, the gradient of the objective, and new cases, where their slopes need it."""
        found = objective(at + step)
        if found is None:
            return None
        there = _part_at(target, at + step)
        new = _without(there, X) if X.size and np.count_nonzero(step) < 2 else None
        return there.loo.log_density, found[1][inside], new

    steps = DIFFERENCE * np.eye(at.size)[inside]
    found = [seen(step) for step in (np.zeros(at.size), *steps, *-steps, *(steps[j] + steps[k] for j, k in pairs))]
    if not p or any(each is None for each in found):
        return None
    loo, gradients, new = zip(*filter(None, found), strict=True)
    here, ahead, back, both = np.split(np.array(loo), [1, p + 1, 2 * p + 1])
    slopes, bends = ahead - back, np.zeros((problem.n, p, p))
    np.einsum("ikk->ki", bends)[:] = ahead - 2.0 * here + back
    for (j, k), value in zip(pairs, both, strict=True):
        bends[:, j, k] = bends[:, k, j] = value - ahead[j] - ahead[k] + here[0]
    hessian = (np.array(gradients[1 : p + 1]) - gradients[p + 1 : 2 * p + 1]) / (2.0 * DIFFERENCE)
    hessian = 0.5 * (hessian + hessian.T)
    if not np.all(np.linalg.eigvalsh(hessian) < 0):  # no summit in these parameters
        return None
    without = hessian - bends / DIFFERENCE**2
    kept = np.linalg.eigvals(np.linalg.solve(hessian, without)).real.min(axis=1) > KEPT  # else the step is that of all
    curvature = np.where(kept[:, None, None], without, hessian)
    moved = np.asarray(np.linalg.solve(curvature, slopes.T[:, :, None])[:, :, 0]) / (2.0 * DIFFERENCE)
    latent: Array = np.empty((2, problem.n, 0))
    if X.size:
        change = np.array(new[1 : p + 1]) - np.array(new[p + 1 : 2 * p + 1])
        latent = np.asarray(new[0] + np.einsum("np,pknm->knm", moved, change) / (2.0 * DIFFERENCE))
    followed = np.zeros(problem.n, dtype=bool)
    size = np.abs(moved).max(axis=1)
    for i in np.argsort(-size)[: min(FOLLOWED, np.count_nonzero(size > NEAR))]:
        others = np.delete(np.arange(problem.n), i)
        cases = part.X[others], problem.t[others], problem.likelihood.of_cases(others)
        apart = Target(*cases, *model, **chosen)
        begin = np.array(at)
        begin[inside] += np.clip(moved[i], -FAR, FAR)
        run = uphill(
            Objective(apart, EvidenceScore()), begin, (target.lower, target.upper), gain=GAIN, first_step=FIRST_STEP
        )
        followed[i] = np.isfinite(run.value)
        if followed[i]:
            moved[i] = (run.end - at)[inside]
            latent[:, i] = _part_at(apart, run.end).latent_at(X) if X.size else latent[:, i]
    return _Moves(moved, tuple(target.names[k] for k in inside), latent, followed)


def _part_at(target: Target, log_free: Array) -> Part:
    model = target.model_at(log_free)
    problem, solver = target.problem_at(model), target.solver
    return make_process(model.kernel, target.X, problem, solver.solve(problem, target.control), solver)
