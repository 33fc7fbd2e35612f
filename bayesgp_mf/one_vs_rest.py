r"""One class against the rest, C times: the plain way to several classes, which is not a joint model.

Each class has a binary classifier of its own, which tells it from all others. Their probabilities q_c are answers to C
questions that know nothing of each other, and do not sum to one; what is returned is

.. math:: p_c = q_c / \sum_d q_d .

No prior over functions and no likelihood has these as its posterior. So there is no joint evidence: the sum of the C
log evidences counts every label C times, and must not be compared with that of a softmax. It is the method of those
who want TAP's speed with any of its likelihoods, and have no need of a joint posterior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.hyper import Strategy, Target, get_strategy
from bayesgp_mf.hyper.priors import Prior
from bayesgp_mf.hyper.registry import SearchName
from bayesgp_mf.hyper.rounds import check_moves, choose_on_inducing
from bayesgp_mf.hyper.strategy import averages
from bayesgp_mf.inference.assembly import assemble_inducing, check_inducing
from bayesgp_mf.inference.problem import Problem, check_likelihood
from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.inputs import (
    as_inducing,
    as_inputs_of,
    as_kernel,
    as_pandas,
    check_flags,
    check_same_cases,
    encode_targets,
    feature_names,
    warn_of_groups,
)
from bayesgp_mf.likelihoods import AnyLikelihood, Logit, Softmax
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.seeds import as_generator
from bayesgp_mf.types import Array

__all__ = ["OneVsRest", "fit_one_vs_rest"]


@dataclass(frozen=True, eq=False)
class OneVsRest:
    """Binary classifiers, one for each class against the rest; no joint posterior.

    Attributes
    ----------
    class_names : tuple of str
        In sorted order, in that of a pandas Categorical, or in that of ``classes``.
    posteriors : tuple of Posterior
        The classifier of each class: +1 is the class, -1 the rest. Each has its own kernel, evidence and leave-one-out.
    """

    class_names: tuple[str, ...]
    posteriors: tuple[Posterior, ...]

    @property
    def log_evidence(self) -> float:
        """An error to read: there is no joint model, and so no evidence of one."""
        raise UndefinedQuantityError(
            "one-vs-rest has no joint evidence: its classifiers are separate models, whose evidences "
            "[p.log_evidence for p in result.posteriors] count every label once each. Use Softmax() with method='tap' "
            "or 'laplace' to compare models."
        )

    def binary_proba(self, X_new: ArrayLike) -> Array:
        """Return what each classifier says of its class ``(m, C)``; rows do not sum to one."""
        return np.stack([posterior.predict_proba(X_new) for posterior in self.posteriors], axis=1)

    def predict_proba(self, X_new: ArrayLike) -> Array:
        """Return the probabilities ``(m, C)`` of the classes at new cases, divided by their sum.

        Raises
        ------
        ValueError
            If ``X_new`` is not a finite ``(m, d)`` array with the d of the training inputs.
        """
        return shares(self.binary_proba(X_new))

    def predict(self, X_new: ArrayLike) -> list[str]:
        """Return the name of the most probable class of each new case."""
        return [self.class_names[c] for c in np.argmax(self.predict_proba(X_new), axis=1)]

    @cached_property
    def loo_proba(self) -> Array:
        """Probabilities ``(n, C)`` of the training cases, each from the others: leave-one-out, divided by the sum."""
        each = []
        for posterior in self.posteriors:
            own = np.exp(posterior.loo.log_density)  # of the case's own side
            each.append(np.where(posterior.problem.t > 0, own, 1.0 - own))
        return shares(np.stack(each, axis=1))


def fit_one_vs_rest(
    X: ArrayLike,
    y: ArrayLike,
    kernel: Any,
    likelihood: AnyLikelihood = Logit(),
    *,
    method: MethodName = "tap",
    hyper: SearchName | Strategy | None = None,
    priors: Mapping[str, Prior] | None = None,
    classes: tuple[Any, ...] | None = None,
    random_seed: int | np.random.Generator | None = None,
    control: Control = Control(),
    progress: bool = True,
    inducing: Any = None,
) -> OneVsRest:
    """Fit one binary classifier for each class, against the rest.

    Parameters
    ----------
    X : (n, d) array_like
        Inputs, finite.
    y : (n,) array_like
        Labels of two or more classes.
    kernel : Kernel
        Of every classifier; with ``hyper``, where each search starts.
    likelihood : Likelihood
        Binary: `Logit` (default), `Probit` or `Step`.
    method : str
        A key of `methods.METHODS` with probabilities: not "svm".
    hyper : None, str or Strategy
        How each classifier chooses its own hyperparameters; a strategy that ends in one kernel, such as "evidence".
    priors : mapping of str to Prior, optional
        By name of a parameter.
    classes : tuple, optional
        All classes there are, in order.
    random_seed : int, numpy.random.Generator or None
        Of random starts.
    control : Control
        Of the solver.
    progress : bool
        Show a progress bar for what takes longer than a second.
    inducing : int, (M, d) array_like or Inducing, optional
        As for `fit`; chosen for each classifier anew.

    Returns
    -------
    OneVsRest
        With ``predict_proba``; not a joint model, and without a joint evidence.

    Raises
    ------
    ValueError
        If an argument is malformed, the likelihood is not binary, a class has no case, or ``hyper`` ends in more than
        one kernel.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.one_vs_rest import fit_one_vs_rest
    >>> glass = bgp.datasets.load_forensic_glass(fold=1)
    >>> result = fit_one_vs_rest(glass.X, glass.y, bgp.kernels.Gaussian(2.0, variance=30.0))
    >>> result.predict_proba(glass.X_test).shape
    (16, 6)
    """
    X, y = as_pandas("X", X), as_pandas("y", y)
    names = feature_names("X", X)
    check_same_cases(X, y)
    kernel = as_kernel(kernel).with_column_names(names)
    X, kernel = as_inputs_of(kernel, X)
    check_control(control)
    check_flags(progress=progress)
    check_likelihood(likelihood)
    if likelihood.targets != "binary":
        raise ValueError(
            f"one-vs-rest needs a likelihood of two classes, such as Logit() or Probit(), got "
            f"{type(likelihood).__name__}."
        )
    t, class_names = encode_targets(y, X.shape[0], Softmax(classes))
    missing = [name for c, name in enumerate(class_names) if not np.any(t == c)]
    if missing:
        raise ValueError(f"one-vs-rest needs a case of every class, and there is none of {missing}. Leave those out.")
    solver = get_method(method, likelihood)
    if not traits_of(solver).variance:
        raise ValueError(
            f"one-vs-rest compares probabilities, which method {solver.name!r} does not have. Use 'tap' or 'laplace'."
        )
    if kernel.per_class:
        raise ValueError("one-vs-rest takes a kernel for two classes, got PerClass: every classifier starts from it.")
    chosen = as_inducing(inducing, X, names, kernel)
    if chosen is None:
        check_memory(X.shape[0], len(class_names))
    else:
        check_inducing(likelihood, solver)
    strategy = None if hyper is None else get_strategy(hyper)
    if chosen is not None:
        check_moves(chosen, strategy, kernel)
    wants = "one-vs-rest wants one kernel for each classifier"
    if strategy is not None and averages(strategy):
        raise ValueError(f"{wants}, and hyper={strategy.name!r} averages over many. Use 'evidence'.")
    if strategy is None and priors:
        raise ValueError("priors are for hyperparameters that are tuned: give hyper='evidence', or leave them out.")
    rng = as_generator(random_seed)
    posteriors: list[Posterior] = []
    with (
        one_thread_if_small(X.shape[0]),
        progress_bar("one against the rest", total=len(class_names), enabled=progress) as advance,
    ):
        for c, name in enumerate(class_names):
            labels, points = np.where(t == c, 1.0, -1.0), None
            own, own_likelihood = kernel, likelihood
            if strategy is not None:
                target = Target(X, labels, likelihood, kernel, solver, priors=priors or {})
                if chosen is None:
                    result = strategy.choose(target, rng, lambda note: None)
                else:
                    result, points = choose_on_inducing(target, strategy, chosen, rng, lambda note: None)
                chosen_model, *more = result.models
                own, own_likelihood = chosen_model.kernel, chosen_model.likelihood
                if more:
                    raise ValueError(f"{wants}, and hyper={strategy.name!r} gave {1 + len(more)}. Use 'evidence'.")
            elif chosen is not None:
                points = chosen.chosen(X, labels, kernel, rng)
            if points is None:
                problem = Problem(own.gram(X), labels, own_likelihood)
            else:
                problem = assemble_inducing(own, X, labels, own_likelihood, inducing=points, settings=len(class_names))
                if not posteriors:  # of the first class as of all
                    warn_of_groups(own, X, points, names)
            posteriors.append(Posterior(own, X, problem, solver.solve(problem, control), feature_names=names))
            advance(name)
    return OneVsRest(class_names, tuple(posteriors))


def shares(each: Array) -> Array:
    total = np.sum(each, axis=1, keepdims=True)
    if not np.all(total > 0):
        raise ArithmeticError(
            "every classifier gives its own class probability zero for some case, which has no share."
        )
    return np.asarray(each / total)
