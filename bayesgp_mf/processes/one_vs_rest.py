"""What C classifiers say together, each of one class against the rest: probabilities that were divided by their sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.solution import ClassLeaveOneOut
from bayesgp_mf.kernels import Kernel, PerClass
from bayesgp_mf.processes.corrected import CorrectedProba
from bayesgp_mf.processes.process import Part, Process
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False)
class OneVsRestPosterior:
    """Binary classifiers, one for each class against the rest; no joint posterior.

    Latent values have the class along their last axis, as those of `MulticlassPosterior`; here those of different
    classes are independent.

    Attributes
    ----------
    class_names : tuple of str
        Names of the classes, in order.
    classifiers : tuple of Process or Stream
        The classifier of each class: +1 is the class, -1 the rest. Each has its own kernel, evidence and leave-one-out.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> glass = bgp.datasets.load_forensic_glass(fold=1)
    >>> kernel = bgp.kernels.Gaussian(2.0, variance=30.0)
    >>> idata = bgp.fit(glass.X, glass.y, kernel, bgp.OneVsRest(bgp.Probit()), draws=50, random_seed=1)
    >>> posterior = bgp.posterior(idata)
    >>> posterior.predict_proba(glass.X_test[:2]).sum(axis=1)
    array([1., 1.])
    >>> posterior.classifiers[0].log_evidence < 0
    True
    """

    class_names: tuple[str, ...]
    classifiers: tuple[Any, ...]

    def __repr__(self) -> str:
        each = zip(self.class_names, self.classifiers, strict=True)
        return "\n".join(["OneVsRestPosterior", *(f"{name!r}: {classifier!r}" for name, classifier in each)])

    @property
    def parts(self) -> tuple[Part, ...]:
        """The posterior processes of all classifiers, at each setting of their hyperparameters."""
        return tuple(part for classifier in self.classifiers for part in classifier.parts)

    @property
    def kernel(self) -> Kernel:
        """A kernel for each class; of an average over hyperparameters each of ``classifiers`` has several."""
        if any(classifier.averaged for classifier in self.classifiers):
            raise UndefinedQuantityError(
                "this fit averages over hyperparameters: the kernels of a class are [part.kernel for part in "
                "classifiers[c].parts]."
            )
        return PerClass(*[classifier.kernel for classifier in self.classifiers])

    @property
    def log_evidence(self) -> float:
        """An error to read: there is no joint model, and so no evidence of one."""
        raise UndefinedQuantityError(
            "one-vs-rest has no joint evidence: its classifiers are separate models, whose evidences "
            "[c.log_evidence for c in posterior.classifiers] count every label once each. Use Softmax() with "
            "method='tap' or 'laplace' to compare models."
        )

    def binary_proba(self, X_new: ArrayLike) -> Array:
        """Return what each classifier says of its class ``(m, C)``; rows do not sum to one."""
        return np.stack([classifier.predict_proba(X_new) for classifier in self.classifiers], axis=1)

    def predict_proba(self, X_new: ArrayLike, *, corrected: bool = False) -> Array:
        """Return the probabilities ``(m, C)`` of the classes at new cases, divided by their sum.

        Those of the classifiers are ``corrected`` for what TAP leaves out as in `Posterior.predict_proba`.

        Raises
        ------
        ValueError
            If ``X_new`` is not a finite ``(m, d)`` array with the d of the training inputs.
        """
        return self.corrected_at(self.new_inputs(X_new)).p if corrected else shares(self.binary_proba(X_new))

    def latent_mean(self, X_new: ArrayLike) -> Array:
        """Return the posterior means ``(m, C)`` of the latent processes at new cases."""
        return self._of_each(lambda classifier: classifier.latent_mean(X_new))

    def latent(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return the posterior means and variances ``(m, C)`` of the latent processes at new cases."""
        mean, variance, _ = self.predictive_at(self.new_inputs(X_new))
        return mean, variance

    def predictive(self, X_new: ArrayLike) -> tuple[Array, Array, Array]:
        """Return means, variances and probabilities ``(m, C)`` at new cases at one go."""
        return self.predictive_at(self.new_inputs(X_new))

    def predictive_at(self, X: Array) -> tuple[Array, Array, Array]:
        """Return what `predictive` does at inputs that were checked."""
        each = [classifier.predictive_at(X) for classifier in self.classifiers]
        mean, variance, proba = (np.stack(values, axis=1) for values in zip(*each, strict=True))
        return mean, variance, shares(proba)

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return corrected probabilities ``(m, C)``, and how good they are, at inputs that were checked."""
        each = [classifier.corrected_at(X) for classifier in self.classifiers]
        return CorrectedProba(
            shares(np.stack([one.p for one in each], axis=1)),
            max(one.largest_sum_error for one in each),
            np.all([one.settled for one in each], axis=0),
        )

    @cached_property
    def proba_at_training(self) -> Array:
        """Probabilities ``(n, C)`` of the classes at the training cases, when all targets are known."""
        return shares(self._of_each(_proba_at_training))

    @property
    def log_density_at_training(self) -> Array:
        """Log probability ``(n,)`` of the class of each training case when all targets, its own too, are known."""
        return self._of_own_class(self.proba_at_training)

    @cached_property
    def loo(self) -> ClassLeaveOneOut:
        """Leave-one-out predictions: each classifier's own, with probabilities ``(n, C)`` divided by their sum.

        A case of weight w counts w times its log probability.
        """
        each = [classifier.loo for classifier in self.classifiers]
        proba = shares(self._of_each(_loo_proba))
        mean, variance = (np.stack([getattr(one, name) for one in each], axis=1) for name in ("mean", "variance"))
        return ClassLeaveOneOut(mean, variance, self._of_own_class(proba), proba)

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each case given the others, from corrected probabilities.

        Raises
        ------
        UndefinedQuantityError
            If cases have weights: what is corrected then is the density of a power, and no probability.
        """
        if _has_weights(self.classifiers[0]):
            raise UndefinedQuantityError(
                "corrected=True goes with one-vs-rest without weights: of a case with a weight a power is corrected, "
                "and no probability. Leave it out."
            )
        return self._of_own_class(shares(self._of_each(lambda one: _of_class(one, one.corrected_loo))))

    @cached_property
    def codes(self) -> Array:
        """Codes ``(n,)`` of the classes of the training cases, 0 to C - 1."""
        t = self._of_each(lambda classifier: classifier.problem.t)
        return np.asarray(np.argmax(t, axis=1), dtype=np.float64)

    def new_inputs(self, X_new: ArrayLike) -> Array:
        """Return new inputs as an array ``(m, d)``, or raise a ValueError that says why they do not fit the others."""
        inputs: Array = self.classifiers[0].new_inputs(X_new)
        return inputs

    def _of_each(self, ask: Callable[[Any], Array]) -> Array:
        return np.stack([ask(classifier) for classifier in self.classifiers], axis=1)

    def _of_own_class(self, proba: Array) -> Array:
        """Return the log probability ``(n,)`` of each case's own class, times the weight of the case."""
        weights = self.classifiers[0].problem.likelihood.stored_by_case.get("weights", 1.0)
        with np.errstate(divide="ignore"):  # a class may have no probability
            return np.asarray(weights * np.log(np.take_along_axis(proba, self.codes.astype(np.intp)[:, None], 1)[:, 0]))


def shares(each: Array) -> Array:
    """Return what each classifier says of its class ``(m, C)``, divided by the sum over classes."""
    total = np.sum(each, axis=1, keepdims=True)
    if not np.all(total > 0):
        raise ArithmeticError(
            "every classifier gives its own class probability zero for some case, which has no share."
        )
    return np.asarray(each / total)


def draw_codes(proba: Array, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int16]:
    """Draw classes ``(*shape, m)``, 0 to C - 1, each case by itself, by the probabilities ``(m, C)``."""
    level = rng.random((*shape, len(proba)))
    found = np.zeros(level.shape, dtype=np.int16)
    for end in np.cumsum(proba, axis=1)[:, :-1].T:
        found += level > end
    return found


def _of_class(classifier: Process, log_density: Array) -> Array:
    """Return the probability ``(n,)`` of the class, from the log probability of each case's own side."""
    own = np.exp(log_density)
    return np.where(classifier.problem.t > 0, own, 1.0 - own)


def _has_weights(classifier: Process) -> bool:
    """Tell whether a density of a case is that of its power, and no probability."""
    return "weights" in classifier.problem.likelihood.stored_by_case


def _proba_at_training(classifier: Process) -> Array:
    if not _has_weights(classifier):
        return _of_class(classifier, classifier.log_density_at_training)
    each = [part.new_likelihood.predict_proba(*part.at_training) for part in classifier.parts]
    weights = classifier.weights if classifier.averaged else np.ones(1)
    return np.asarray(weights @ np.array(each))


def _loo_proba(classifier: Process) -> Array:
    if not _has_weights(classifier):
        return _of_class(classifier, classifier.loo.log_density)
    each = [part.new_likelihood.predict_proba(part.loo.mean, part.loo.variance) for part in classifier.parts]
    weights = classifier.loo_weights if classifier.averaged else np.ones((1, 1))
    return np.asarray(np.sum(weights * np.array(each), axis=0))
