"""A posterior process: weighted parts, each at one setting of the hyperparameters, and what they say together.

Of new targets that is what a likelihood says whose latent values are Gaussian, or known by points and their weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import ClassLeaveOneOut, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.groups import as_new_inputs
from bayesgp_mf.inputs.tables import as_values_of_cases
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.below import quantiles
from bayesgp_mf.methods import get_method
from bayesgp_mf.notebook import as_html, in_words
from bayesgp_mf.processes.corrected import CorrectedProba, LeftOut, Points, check_corrected, together
from bayesgp_mf.solvers.second_order import SecondOrder
from bayesgp_mf.types import Array, Derivs


class Latent(NamedTuple):
    """Latent values of new cases, each a mixture of q Gaussians.

    Attributes
    ----------
    likelihood : Likelihood
        Of the m cases.
    mean, variance, weights : (m, q) array
        Of the Gaussians; of each case the weights sum to one. Points have variance zero.
    """

    likelihood: Likelihood
    mean: Array
    variance: Array
    weights: Array

    @classmethod
    def gaussian(cls, likelihood: Likelihood, mean: Array, variance: Array) -> Self:
        """Return Gaussian ones with means and variances ``(m,)``."""
        return cls(likelihood, mean[:, None], variance[:, None], np.ones((mean.size, 1)))

    @classmethod
    def at_points(cls, likelihood: Likelihood, points: Points, prior_mean: Array) -> Self:
        """Return those known by corrected densities, less the prior mean ``(m,)``."""
        values = points.values + prior_mean[:, None]
        return cls(likelihood, values, np.zeros_like(values), points.weights)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)`` of what has given ones ``(m, q)`` in each Gaussian."""
        if mean.shape[1] == 1:
            return mean[:, 0], variance[:, 0]
        average = self._sum(mean)
        with np.errstate(invalid="ignore"):  # of a mean that is infinite there is no variance
            return average, self._sum(variance + (mean - average[:, None]) ** 2)

    def latent_moments(self) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)`` of the latent values."""
        return self.moments(self.mean, self.variance)

    def target_moments(self) -> tuple[Array, Array] | None:
        """Return mean and variance ``(m,)`` of the targets, or None if the likelihood does not say."""
        known = self._each(lambda likelihood, *latent: likelihood.predictive_moments(*latent))
        return None if known is None else self.moments(*(part.reshape(self.mean.shape) for part in known))

    def level_probabilities(self) -> Array | None:
        """Return the probabilities ``(m, K)`` of ordered levels, or None where there are none."""
        known = self._each(lambda likelihood, *latent: likelihood.level_probabilities(*latent))
        return None if known is None else self._sum(np.moveaxis(known.reshape(*self.mean.shape, -1), -1, 0)).T

    def below(self, t: Array) -> Array | None:
        """Return how likely targets are to be at most t ``(..., m)``, or None if the likelihood does not say."""
        at = np.repeat(t, self.mean.shape[1], axis=-1)
        known = self._each(lambda likelihood, *latent: likelihood.predictive_below(at, *latent))
        return None if known is None else self._sum(known.reshape(*t.shape, -1))

    def quantiles(self, levels: Array) -> Array:
        """Return quantiles ``(q, m)`` of the targets, of a likelihood that says how likely they are to be below."""
        mean, variance = self.latent_moments()

        def below(t: Array) -> Array:
            return np.asarray(self.below(t))

        return quantiles(below, levels, mean, np.sqrt(variance) + 1.0, whole=self.likelihood.is_discrete)

    def _each(self, ask: Callable[[Likelihood, Array, Array], Any]) -> Any:
        """Return what the likelihood says of all Gaussians, those of the first case first."""
        likelihood, (m, q) = self.likelihood, self.mean.shape
        if q > 1:
            likelihood = likelihood.of_cases(np.repeat(np.arange(m), q))
        return ask(likelihood, self.mean.ravel(), self.variance.ravel())

    def _sum(self, values: Array) -> Array:
        """Return averages over the Gaussians ``(..., m)`` of ``(..., m, q)``; those without a weight have no say."""
        return np.asarray(np.sum(np.where(self.weights > 0, values, 0.0) * self.weights, axis=-1))


LARGEST_JOINT = 5000
"""New cases that are drawn by their covariance matrix."""

SHOWN = 6
"""Parameters of the kernel whose ranges an average prints."""


class NotJointlyError(ValueError):
    """There are too many new cases to draw their latent values jointly; so many as `LARGEST_JOINT` can always be."""


Marginals: TypeAlias = Literal["gaussian", "tilted"]
"""What single latent values are drawn from: the Gaussian approximation, or cavity times likelihood."""


class Draws(NamedTuple):
    """Joint draws of the latent values at the training cases.

    Attributes
    ----------
    f : (draws, n) array
        In latent units.
    log_likelihood : Derivs
        log p(t|f) of each case, ``(draws, n)``, with its derivatives in f.
    log_p : (draws,) array
        Log of likelihood times prior density, in nats.
    log_q : (draws,) array
        Log density of what the draws come from, in nats: a Gaussian, one with tilted marginals, or, for exact draws,
        the posterior itself.

    Notes
    -----
    Both densities are with respect to the whitened latent values u, f = A u with A A' = K, in which a
    singular K has a density too. Their difference, all that importance sampling needs, is the same.
    """

    f: Array
    log_likelihood: Derivs
    log_p: Array
    log_q: Array


class Process:
    """A weighted set of parts that differ in the hyperparameters of their kernels and likelihoods.

    A posterior at one setting of the hyperparameters has one part, itself, of weight 1. Of several classes latent
    values have the class along their last axis.

    Parameters
    ----------
    parts : tuple of Posterior or of MulticlassPosterior
        One for each setting of the hyperparameters, of the same training cases.
    weights : (k,) array
        Posterior weights of the settings; they sum to one.

    Attributes
    ----------
    problem : Problem
        That of the first part; targets, and the kind of likelihood, are those of all.
    averaged : bool
        Whether it is an average over the hyperparameters, and not at one setting of them.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X, t = np.array([[0.0], [1.0]]), np.array([-1.0, 1.0])
    >>> parts = []
    >>> for lengthscale in (0.5, 2.0):
    ...     kernel = bgp.kernels.Gaussian(lengthscale)
    ...     problem = bgp.Problem(kernel.gram(X), t, bgp.Probit())
    ...     parts.append(bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, t, bgp.Probit())))
    >>> Process(tuple(parts), np.array([0.5, 0.5])).predict_proba([[1.0]]).round(3)
    array([0.592])
    """

    problem: Problem
    averaged = True

    def __init__(self, parts: tuple[Part, ...], weights: Array) -> None:
        self._parts, self._weights = parts, weights
        self.problem = parts[0].problem

    @property
    def parts(self) -> tuple[Part, ...]:
        """One for each setting of the hyperparameters."""
        return self._parts

    @property
    def weights(self) -> Array:
        """Posterior weights ``(k,)`` of the settings, which sum to one."""
        return self._weights

    def __repr__(self) -> str:
        return "\n  ".join([self._title, *(f"{name}: {text}" for name, text in self._ranges())])

    def _repr_html_(self) -> str:
        kernel, likelihood = self.parts[0].kernel, self.problem.likelihood.of_one_case
        first = [("kernel of the first", repr(kernel)), ("likelihood of the first", repr(likelihood))]
        return as_html(self._title, [*first, *self._ranges()])

    @property
    def _title(self) -> str:
        return f"Average of {len(self.parts)} x {type(self.parts[0]).__name__}, {self.problem.n} cases"

    def _ranges(self) -> list[tuple[str, str]]:
        """Return the smallest and largest weight, hyperparameters and log evidence."""
        ranges = {"weights": self.weights}
        for name in list(self.parts[0].kernel.params)[:SHOWN]:
            ranges[name] = np.array([part.kernel.params[name] for part in self.parts])
        likelihoods = [part.problem.likelihood for part in self.parts]
        if any(likelihood is not likelihoods[0] for likelihood in likelihoods):
            for name in likelihoods[0].parameters:
                ranges[f"likelihood {name}"] = np.array([likelihood.parameters[name] for likelihood in likelihoods])
        ranges["log evidence"] = self.log_evidences
        return [(name, f"{np.min(values):.4g} to {np.max(values):.4g}") for name, values in ranges.items()]

    @property
    def new_likelihood(self) -> Likelihood:
        """That of new cases, given the latent values that `latent` returns; of the first part."""
        first = self.parts[0]
        return first.problem.likelihood.unshifted.of_new_cases(**first.new_cases)

    @property
    def log_evidences(self) -> Array:
        """Log evidence ``(k,)`` of each setting, in nats."""
        return np.array([part.log_evidence for part in self.parts])

    def latent_mean(self, X_new: ArrayLike) -> Array:
        """Return the mean ``(m,)`` of the latent process at new cases, averaged over the settings."""
        return self.latent_mean_at(self.new_inputs(X_new))

    def latent_mean_at(self, X: Array) -> Array:
        """Return what `latent_mean` does at inputs that were checked."""
        return self._average(lambda part: part.latent_mean_at(X))

    def latent(self, X_new: ArrayLike) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the latent process at new cases, over the settings too.

        Parameters
        ----------
        X_new : (m, d) array_like
            Inputs. A row that equals a training input is a new case too: noise of a White kernel is drawn
            anew for it. The training cases themselves are `at_training`.

        Returns
        -------
        mean, variance : (m,) array
            k(x)' alpha (2000, eq. 31) and k(x,x) - k(x)' R k(x) (2000, eq. 27), in latent units and their
            square; of several classes ``(m, C)``.

        Raises
        ------
        ValueError
            If ``X_new`` is not a finite ``(m, d)`` array with the d of the training inputs.
        """
        return self.latent_at(self.new_inputs(X_new))

    def latent_at(self, X: Array) -> tuple[Array, Array]:
        """Return what `latent` does at inputs that were checked."""
        return self.moments(lambda part, _: part.latent_at(X))

    def predict_proba(self, X_new: ArrayLike, *, corrected: bool = False) -> Array:
        """Return the probability ``(m,)`` of the second class (t = +1) at new cases (2000, eq. 12).

        Over several settings of the hyperparameters it is averaged (1996, eq. 9). Of several classes it returns the
        probabilities ``(m, C)`` of all; rows sum to one. Those of TAP are more accurate than averages over its Gaussian
        posterior, which is far from the truth near observed cases where the prior is wide: under a multinomial probit
        of three or more classes the sites of the nearest cases are matched anew (`multiclass.joint`), under a softmax
        the nearest case keeps its own shape (`multiclass.nearest`, O(C^2 n^2) for each new case). On inducing cases, on
        a root of low rank, and where labels may be flipped, they are averages.

        Parameters
        ----------
        X_new : (m, d) array_like
            Inputs.
        corrected : bool
            Correct TAP's probabilities for most of what its approximation leaves out (`solvers.ratio`): each is then
            the ratio of the evidences with and without the new label.

        Raises
        ------
        ValueError
            If ``X_new`` is not a finite ``(m, d)`` array with the d of the training inputs; or if ``corrected``, and
            the solution is not TAP's of two classes.
        UndefinedQuantityError
            If the likelihood has no classes, or the method no variance.

        Warns
        -----
        ConvergenceWarning
            If some of the probabilities could not be corrected.
        UserWarning
            If the likelihood is not log-concave: then corrected probabilities may be worse than TAP's.

        Examples
        --------
        >>> import numpy as np
        >>> import bayesgp_mf as bgp
        >>> X, t, kernel = np.array([[0.0], [0.2], [1.0]]), np.array([-1.0, -1.0, 1.0]), bgp.kernels.Gaussian()
        >>> problem = bgp.Problem(kernel.gram(X), t, bgp.Step())
        >>> posterior = bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, t, bgp.Step()))
        >>> posterior.predict_proba([[0.5]]).round(4)
        array([0.355])
        >>> posterior.predict_proba([[0.5]], corrected=True).round(4)
        array([0.3786])
        """
        if not corrected:
            return self.predictive(X_new)[2]
        return self.corrected_at(self.new_inputs(X_new)).p

    def check_corrected(self) -> None:
        """Raise a ValueError that says what to do if predictions cannot be corrected."""
        for part in self.parts:
            check_corrected(part.problem, part.solution)

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return corrected probabilities, and how good they are, at inputs that were checked."""
        self.check_corrected()
        return together(self.weights, [part.corrected_at(X) for part in self.parts])

    def density(self, X_new: ArrayLike, f: ArrayLike) -> Array:
        """Return the marginal densities of single latent values, corrected as in `predict_proba`.

        Each is the ratio of the evidences with and without the value known (`solvers.ratio`). It need not be Gaussian.
        It integrates to one up to the remaining error, which is a check.

        Parameters
        ----------
        X_new : (m, d) array_like
            Inputs. As in `latent`, a row that equals a training input is a new case.
        f : (q,) or (m, q) array_like
            Latent values: the same for all cases, or those of each.

        Returns
        -------
        (m, q) array
            Densities, per latent unit.

        Raises
        ------
        ValueError
            If ``X_new`` or ``f`` has another shape or is not finite; or if the solution is not TAP's of two classes.
        UndefinedQuantityError
            If a variance is zero: then the value is known, and has no density.

        Warns
        -----
        ConvergenceWarning
            If some of the densities could not be corrected, and are the Gaussian's.

        Examples
        --------
        >>> import numpy as np
        >>> import bayesgp_mf as bgp
        >>> X, t, kernel = np.array([[0.0], [0.2], [1.0]]), np.array([-1.0, -1.0, 1.0]), bgp.kernels.Gaussian()
        >>> problem = bgp.Problem(kernel.gram(X), t, bgp.Step())
        >>> posterior = bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, t, bgp.Step()))
        >>> posterior.density([[0.5]], [-1.0, -0.5, 0.0, 0.5]).round(3)
        array([[0.063, 0.529, 1.316, 0.158]])
        """
        X = self.new_inputs(X_new)
        return self.density_at(X, as_values_of_cases(f, X.shape[0]))

    def density_at(self, X: Array, f: Array) -> Array:
        """Return what `density` does at inputs and values ``(m, q)`` that were checked."""
        self.check_corrected()
        return self._average(lambda part: part.density_at(X, f))

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each case given the others, corrected as in `predict_proba`."""
        self.check_corrected()
        return -self._without_cases([part.corrected_loo for part in self.parts])[1]

    @property
    def loo_of_worst(self) -> LeftOut | None:
        """Leave-one-out densities ``(n,)``, corrected where TAP's are farthest off; None where they cannot be."""
        return None

    def shift_at(self, X: Array) -> float | None:
        """How far a probability may be off at new cases, at the setting of the largest weight; None if not known."""
        return self.parts[int(np.argmax(self.weights))].shift_at(X)

    def predictive(self, X_new: ArrayLike) -> tuple[Array, Array, Array]:
        """Return mean, variance and probability ``(m,)`` at new cases at one go, over the settings."""
        return self.predictive_at(self.new_inputs(X_new))

    def predictive_at(self, X: Array) -> tuple[Array, Array, Array]:
        """Return what `predictive` does at inputs that were checked."""

        def ask(part: Part, _: float) -> tuple[Array, Array]:
            mean, variance, proba = part.predictive_at(X)
            return np.array([mean, proba]), np.array([variance, np.zeros_like(proba)])

        (mean, proba), (variance, _) = self.moments(ask)
        return mean, variance, proba

    @cached_property
    def at_training(self) -> tuple[Array, Array]:
        """Mean and variance ``(n,)`` of the latent values of the training cases."""
        return self.moments(lambda part, _: part.at_training)

    @property
    def mean_at_training(self) -> Array:
        """Mean ``(n,)`` of the latent values of the training cases."""
        return self._average(lambda part: part.mean_at_training)

    def mean_at_some(self, which: NDArray[np.intp]) -> Array:
        """Return the mean ``(k,)`` of the latent values of the training cases with given numbers."""
        return self._average(lambda part: part.mean_at_some(which))

    @property
    def log_density_at_training(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        each = np.array([part.log_density_at_training for part in self.parts])
        return np.asarray(logsumexp(each, b=self.weights[:, None], axis=0))

    @cached_property
    def loo(self) -> LeaveOneOut:
        r"""Leave-one-out predictions, with the hyperparameters uncertain too.

        Without case i a setting weighs :math:`w_k / p_k(t_i|t_{-i})` times a constant, since the weights hold the case
        itself. So

        .. math:: p(t_i|t_{-i}) = \Bigl[\sum_k w_k / p_k(t_i|t_{-i})\Bigr]^{-1},

        with each p_k the free estimate of its method, and mean and variance are averaged with those weights.
        """
        parts = [part.loo for part in self.parts]
        log_weights, total = self._without_cases([loo.log_density for loo in parts])
        shares = np.exp(log_weights - total)
        means = np.array([loo.mean for loo in parts])
        mean = np.einsum("ki,ki...->i...", shares, means)
        spread = np.array([loo.variance for loo in parts]) + (means - mean) ** 2
        variance = np.einsum("ki,ki...->i...", shares, spread)
        each = [loo.probability for loo in parts if isinstance(loo, ClassLeaveOneOut)]
        if each:
            return ClassLeaveOneOut(mean, variance, -total, np.einsum("ki,ki...->i...", shares, np.array(each)))
        return LeaveOneOut(mean, variance, -total)

    @property
    def loo_weights(self) -> Array:
        """Weights ``(k, n)`` of the settings without each case, which sum to one."""
        log_weights, total = self._without_cases([part.loo.log_density for part in self.parts])
        return np.asarray(np.exp(log_weights - total))

    def _without_cases(self, log_densities: Sequence[Array]) -> tuple[Array, Array]:
        """Return the logs of the weights ``(k, n)`` without each case, times a constant, and of their sums."""
        with np.errstate(divide="ignore"):  # a setting may have no weight
            log_weights = np.log(self.weights)[:, None] - np.array(log_densities)
        return log_weights, np.asarray(logsumexp(log_weights, axis=0))

    def with_parts(self, parts: Sequence[Part]) -> Process:
        """Return the same average of parts that were changed."""
        return Process(tuple(parts), self.weights)

    def new_inputs(self, X_new: ArrayLike) -> Array:
        """Return new inputs as an array ``(m, d)``, or raise a ValueError that says why they do not fit the others."""
        first = self.parts[0]
        return as_new_inputs(X_new, first.X, first.feature_names, self.reader)

    @property
    def reader(self) -> Kernel:
        """A kernel that reads of inputs what those of all parts do."""
        return self.parts[0].kernel

    def _average(self, ask: Callable[[Part], Array]) -> Array:
        return np.asarray(sum(weight * ask(part) for weight, part in zip(self.weights, self.parts, strict=True)))

    def moments(self, ask: Callable[[Part, float], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return mean and variance over the settings, from each one's, of which no two are kept (West, 1979)."""
        total, mean, spread = 0.0, np.zeros(()), np.zeros(())
        for weight, part in zip(self.weights, self.parts, strict=True):
            here, variance = ask(part, float(weight))
            if weight > 0:
                total += weight
                change = here - mean
                mean = mean + (weight / total) * change
                spread = spread + weight * (variance + change * (here - mean))
        return mean, spread / total


class Ensemble(Process):
    """Several models of the same cases, each of one part or more.

    Parameters
    ----------
    parts, weights
        As of any process.
    member : (k,) array of int
        Which model each part is of.
    names : tuple of str
        Of the models.
    posterior : bool
        Whether the weights are those of a posterior over models, which a case changes; stacking's, and your own, are
        what they are without it too.
    """

    def __init__(
        self, parts: tuple[Part, ...], weights: Array, member: NDArray[np.intp], names: tuple[str, ...], posterior: bool
    ) -> None:
        super().__init__(parts, weights)
        self.member, self.names, self.posterior = member, names, posterior

    @property
    def _title(self) -> str:
        each = [f"{name} {self.weights[self.member == k].sum():.2g}" for k, name in enumerate(self.names)]
        return f"Average of models, {self.problem.n} cases: {', '.join(each)}"

    def _ranges(self) -> list[tuple[str, str]]:
        return []

    def with_parts(self, parts: Sequence[Part]) -> Ensemble:
        """Return the same average of parts that were changed."""
        return Ensemble(tuple(parts), self.weights, self.member, self.names, self.posterior)

    @property
    def reader(self) -> Kernel:
        """A kernel that reads what those of all models do: texts that one reads, another need not."""
        firsts = np.unique(self.member, return_index=True)[1]
        kernels = [self.parts[k].kernel for k in firsts]
        found: Kernel = reduce(add, [part for each in kernels for part in (each.parts if each.per_class else [each])])
        return found

    def _without_cases(self, log_densities: Sequence[Array]) -> tuple[Array, Array]:
        log_weights, total = super()._without_cases(log_densities)
        if self.posterior:
            return log_weights, total
        of_members = [np.flatnonzero(self.member == k) for k in range(len(self.names))]
        known = np.log([self.weights[rows].sum() for rows in of_members])
        without = np.array([logsumexp(log_weights[rows], axis=0) for rows in of_members]) - known[:, None]
        total = -np.asarray(logsumexp(known[:, None] - without, axis=0))  # the density is the average of the members'
        return log_weights - without[self.member] + total, total


@dataclass(frozen=True, eq=False, repr=False)
class Part(Process):
    """A posterior at one setting of the hyperparameters: kernel, training inputs, and a solution of the problem.

    `Posterior` is that of one latent function, `MulticlassPosterior` that of one for each class.

    Attributes
    ----------
    kernel : Kernel
        The prior covariance, with the hyperparameters it was solved for.
    X : (n, d) array
        Training inputs.
    problem : Problem
        Gram matrix, targets, likelihood.
    solution : Solution
        alpha, correction R, evidence.
    solver : Solver, optional
        The method that made the solution; by default the one that has the solution's name.
    feature_names : sequence of str, optional
        The names of the inputs, if they have names. Then a data frame of new cases must have the same columns, in the
        same order.
    new_cases : mapping of str to array, optional
        Further data of new cases by name, ``(m,)`` each: their ``offset``, their ``trials``.
    """

    kernel: Kernel
    X: Array
    problem: Problem
    solution: Solution
    solver: Solver | None = None
    feature_names: Sequence[str] | None = None
    new_cases: Mapping[str, Array] = field(default_factory=dict)
    averaged = False

    def __repr__(self) -> str:
        problem, solution = self.problem, self.solution
        likelihood = f"{problem.likelihood.of_one_case!r}{self._with_facts}"
        title = f"{type(self).__name__}, {problem.n} cases, {self.X.shape[1]} inputs, method {solution.method!r}"
        status = solution.info.status.name.lower()
        return f"{title}\n  {self.kernel!r}, {likelihood}\n  {solution.evidence}, {status}"

    def _repr_html_(self) -> str:
        problem, solution, d = self.problem, self.solution, self.X.shape[1]
        rows: list[tuple[str, object]] = [
            ("data", f"{problem.n} cases, {d} inputs{self._with_facts}"),
            ("kernel", repr(self.kernel)),
            ("likelihood", repr(problem.likelihood.of_one_case)),
            *(
                (name, in_words(np.ravel(value), self.feature_names or range(d)))
                for name, value in self.kernel.params.items()
            ),
            ("method", solution.method),
            ("evidence", f"{solution.evidence}"),
            ("status", f"{solution.info.status.name.lower()} after {solution.info.n_iterations} steps"),
        ]
        return as_html(type(self).__name__, rows)

    @property
    def _with_facts(self) -> str:
        by_case = self.problem.likelihood.stored_by_case
        return " with " * bool(by_case) + " and ".join(by_case)

    @property
    def parts(self) -> tuple[Self]:
        """Itself."""
        return (self,)

    @property
    def weights(self) -> Array:
        """One: that of its one setting of the hyperparameters."""
        return np.ones(1)

    def with_parts(self, parts: Sequence[Part]) -> Process:
        """Return the one part."""
        return parts[0]

    @property
    def loo_weights(self) -> Array:
        """Weights ``(1, n)`` of the one setting without each case: one."""
        return np.ones((1, self.problem.n))

    def moments(self, ask: Callable[[Part, float], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return mean and variance over the settings, of which there is one."""
        return ask(self, 1.0)

    @property
    def log_evidence(self) -> float:
        """Log evidence, in nats; ``solution.evidence.kind`` says of which kind."""
        return self.solution.evidence.value

    @cached_property
    def method(self) -> Solver:
        """The method that made the solution."""
        return get_method(self.solution.method, self.problem.likelihood) if self.solver is None else self.solver

    @cached_property
    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions: latent mean and variance, log predictive density of each case."""
        return self.method.leave_one_out(self.problem, self.solution)

    def stored(self) -> dict[str, NDArray[Any]]:
        """Return what a container must hold of it beside what it holds of every fit."""
        return {}

    def shift_at(self, X: Array) -> float | None:
        """How far a probability may be off at new cases; None where it is not known."""
        return None

    def corrected_points_at(self, X: Array) -> Points | None:
        """Return latent values less the prior mean with corrected weights, of one latent value a case."""
        raise UndefinedQuantityError("several classes have no corrected latent values. Leave corrected out.")

    def latent_of_new(self, X: Array, corrected: Points | None = None) -> Latent:
        """Return latent values of new cases, for what the likelihood says of their targets."""
        return Latent.gaussian(self.new_likelihood, *self.latent_at(X))

    @property
    def corrections(self) -> tuple[SecondOrder | None, float | None]:
        """The second-order correction of the evidence, and by how much it moves probabilities; None if not known."""
        return None, None

    def draw(self, draws: int, rng: np.random.Generator, marginals: Marginals = "gaussian") -> Draws:
        r"""Draw latent values of the training cases jointly from the approximate posterior, or from the exact one.

        Of several classes they are ``(draws, n, C)``, and the derivatives of the log likelihood are those in the latent
        value of the case's own class.

        Parameters
        ----------
        draws : int
            How many.
        rng : numpy.random.Generator
            Source of randomness; the same numbers make draws of both kinds.
        marginals : {"gaussian", "tilted"}
            "gaussian" draws from the Gaussian approximation. "tilted" carries each of its marginals onto
            :math:`p(t_i|f) N(f|m_i, \lambda_i) / Z_i`, the cavity times the likelihood (2000, fig. 1), and leaves the
            dependence as it is. For TAP mean and variance of the two are the same; for the other mean-field methods
            only the mean is. Of several classes there are no tilted ones.

        Returns
        -------
        Draws
            Values with the log densities that importance sampling needs.

        Raises
        ------
        ValueError
            If there are no such marginals, or the method has no cavities to tilt.
        NotPositiveDefiniteError
            If the marginals are tilted and the Gram matrix is singular: values that were changed one by one no longer
            satisfy the linear relations between them.
        """
        return next(self.draw_in_blocks(draws, draws, rng, marginals))

    @abstractmethod
    def draw_in_blocks(
        self, draws: int, size: int, rng: np.random.Generator, marginals: Marginals = "gaussian"
    ) -> Iterator[Draws]:
        """Return the draws of `draw` a few at a time, at most ``size``, so that memory need not hold more of them.

        Exact draws, and those of several classes, come all at once.
        """

    def draw_new(self, X_new: ArrayLike, draws: int, rng: np.random.Generator) -> Array:
        """Draw latent values ``(draws, m)`` of new cases jointly from the Gaussian posterior, or from the exact one.

        Of several classes they are ``(draws, m, C)``.

        Up to 5000 cases are drawn by their covariance matrix. Beyond that, whole functions are drawn (`paths`): prior
        covariances are off by at most 1e-8 of the prior variance, and time and memory grow as m, not m^3. This needs a
        process that is smooth on the scale of the cases. Under a Gram matrix of low rank all new cases are drawn so.

        On inducing cases, the part that these do not explain is drawn for each case by itself beyond 5000 new cases, as
        it is for the training cases.

        Raises
        ------
        ValueError
            If there are more than 5000 new cases, and they vary in more than 5000 ways that the training cases do not
            determine; or of several classes, whose joint covariance would not fit.
        """
        return self.draw_at(self.new_inputs(X_new), draws, rng)

    @abstractmethod
    def draw_at(self, X: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return what `draw_new` does at inputs that were checked."""


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """What came of a choice of hyperparameters.

    Attributes
    ----------
    posterior : Process
        At the hyperparameters that were chosen, or averaged over those that were drawn.
    node : (chains, draws) array of int
        Which part of the posterior each draw is to come from.
    stats : dict
        What the strategy says of each draw, ``(chains, draws)``.
    record : dict
        How it went, with the names of the dimensions of each array; empty where hyperparameters are kept.
    names : tuple of str
        Of the hyperparameters, along the dimension ``hyper`` of the record.
    log_evidence : float or None
        That which a search for the largest ended with.
    sampled : bool
        Whether the parts are at random draws of the hyperparameters, and not at the nodes of a rule.
    node_evidence : (k,) array or None
        Of an average, the log evidence by which each part was weighed or drawn; None where it is the part's own.
    log_prior : dict of str to array
        Of an average, the log prior density of the hyperparameters of each part, by name, ``(k, ...)``.
    priors : mapping of str to object
        The priors of the hyperparameters, by name of a parameter.
    """

    posterior: Process
    node: NDArray[np.intp]
    stats: dict[str, Array] = field(default_factory=dict)
    record: Mapping[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    log_evidence: float | None = None
    sampled: bool = False
    node_evidence: Array | None = None
    log_prior: dict[str, Array] = field(default_factory=dict)
    priors: Mapping[str, Any] = field(default_factory=dict)


_ADVICE = {
    "offset": "this fit has no offset. Leave it out, or fit with one, fit(..., offset=np.zeros(n))",
    "trials": "trials are those of likelihoods.Binomial, and this fit has another likelihood. Leave them out",
}


def with_new_cases(process: Process, given: Mapping[str, Array]) -> Process:
    """Return a process that is to be asked of new cases with these offsets and trials ``(m,)``, by name.

    Raises
    ------
    ValueError
        If the fit has not what is given, or has what is not given and must be.
    """
    check_new_cases(process.parts[0].problem.likelihood, given)
    if not given:
        return process
    return process.with_parts([replace(part, new_cases=dict(given)) for part in process.parts])


def check_new_cases(likelihood: Likelihood, given: Mapping[str, Array]) -> None:
    """Raise a ValueError if the fit has not what is given, or has what is not given and must be."""
    for name in given:
        if name not in likelihood.new_case_facts:
            raise ValueError(f"{name} of new cases: {_ADVICE[name]}.")
    likelihood.of_new_cases(**given)  # which raises if something is missing
