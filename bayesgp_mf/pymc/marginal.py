"""A Gaussian process with labels in a PyMC model, its latent values integrated out by an approximation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inputs import tables
from bayesgp_mf.inputs.frames import as_pandas, row_labels
from bayesgp_mf.inputs.labels import encode_targets
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.methods import MethodName
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.pymc.covariance import Combined, as_cov_func
from bayesgp_mf.pymc.graph import Function, interpreted
from bayesgp_mf.pymc.kernel import PymcCovariance, PymcKernel
from bayesgp_mf.pymc.op import LatentPosterior, LogEvidence, Mean, split_parameters, sum_of_means
from bayesgp_mf.types import Array

JITTER = 1e-6
"""Added to the diagonal of what PyMC will factorise; the same as in ``pm.gp``."""


_SHARED = "likelihood", "method", "control", "on_failure"
"""What the processes of a sum have in common, beside the parameters of the likelihood."""


class Observed(NamedTuple):
    """What `Marginal.marginal_likelihood` was given: arrays or shared variables, labels as 0 and 1."""

    name: str
    X: Any
    y: Any
    class_names: tuple[str, ...]  # of 0 and 1; empty for real targets
    features: list[str] | None  # names of the inputs, if they have names


class Marginal:
    r"""Gaussian process whose latent values are integrated out of a PyMC model by one of the methods of this package.

    The observed labels get the density p(y | hyperparameters), the method's evidence, with its exact gradient. The
    latent values are not variables of the model.

    Parameters
    ----------
    cov_func : pymc.gp.cov.BaseCovariance or Kernel
        Prior covariance; random variables in it are the hyperparameters. A kernel of this package keeps its numbers;
        `kernel_to_pymc` replaces them by random variables.
    likelihood : Likelihood or str
        p(label | latent value).
    method : str
        Name of a method that has an evidence: a key of `methods.METHODS`.
    control : Control
        Tolerance and largest number of steps of the inner solver, and the form in which it has the Gram matrix:
        ``gram="auto"`` is a root of low rank from 150 cases on, if there is one.
    mean_func : pymc.gp.mean.Mean or callable, optional
        Prior mean, zero if left out: one of ``pm.gp.mean``, or a function of the inputs ``(n, d)`` that returns a
        vector, such as ``lambda X: X @ beta``. Random variables in it, as regression coefficients, are hyperparameters.
        With the methods tap, naive, variational and laplace.
    on_failure : {"reject", "raise"}
        What to do at hyperparameters where the solver finds no solution: "reject" makes the density zero, which a
        sampler counts as a divergence; "raise" raises the error.
    **parameters : float or random variable
        Values that replace the parameters of the likelihood: ``noise_variance`` and ``flip`` of a `Probit`,
        ``noise_variance`` of a ``likelihoods.Gaussian``, ``dispersion`` of a ``likelihoods.NegativeBinomial``,
        ``scale`` and ``df`` of a ``likelihoods.StudentT`` Random variables need a mean-field method (tap, naive,
        variational).

    Attributes
    ----------
    parameters : dict
        Those parameters of the likelihood that are random variables or other tensors, by name.
    terms : tuple of Marginal
        The processes that were added; of a single process, itself.

    Raises
    ------
    ValueError
        If an argument is invalid.
    UndefinedQuantityError
        If the method does not define a quantity.

    See Also
    --------
    sample_latent : Latent values, pointwise log-likelihoods and predictions for each draw of the hyperparameters.
    latent_model : The same model without approximation, latent values included.

    Notes
    -----
    A constant or a trend whose size is of no interest needs no ``mean_func``. Add ``pm.gp.cov.Constant(variance)`` or
    ``pm.gp.cov.Linear`` to the covariance: a Gaussian prior on it, integrated out with the latent values.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesgp_mf.pymc import Marginal
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.InverseGamma("lengthscale", 3.0, 3.0)
    ...     gp = Marginal(pm.gp.cov.ExpQuad(1, ls=lengthscale))
    ...     y = gp.marginal_likelihood("y", X, X[:, 0] > 0)
    >>> gp.posterior({"lengthscale": 1.0}).predict_proba([[-1.0], [1.0]]).round(2)
    array([0.09, 0.91])
    """

    def __init__(
        self,
        cov_func: Any,
        likelihood: Likelihood | str = Probit(),
        method: MethodName = "tap",
        *,
        mean_func: Any = None,
        control: Control = Control(),
        on_failure: Literal["reject", "raise"] = "reject",
        **parameters: Any,
    ) -> None:
        check_control(control)
        self.cov_func = as_cov_func(cov_func)
        self._covariance = PymcCovariance(self.cov_func)
        self.mean_func = None if mean_func is None else Mean(mean_func)
        self.likelihood, self.parameters = split_parameters(likelihood, parameters)
        self._options: dict[str, Any] = {"method": method, "control": control}
        self._options |= {"parameters": tuple(self.parameters), "with_mean": self.mean_func is not None}
        self.control, self.on_failure = control, on_failure
        self._set_operations(self.likelihood)
        self.method = self._evidence.method
        self.terms: tuple[Marginal, ...] = (self,)
        self._observed: Observed | None = None

    def __add__(self, other: Any) -> Marginal:
        """Return the process of the sum of two functions: their covariances and their prior means are added.

        Raises
        ------
        ValueError
            If the two differ in anything else, as the targets have one likelihood, and one method solves.
        """
        if not isinstance(other, Marginal):
            return NotImplemented
        differ = [name for name in _SHARED if getattr(self, name) != getattr(other, name)]
        ours, theirs = self.parameters, other.parameters
        differ += [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) is not theirs.get(name)]
        if differ:
            raise ValueError(
                f"two processes are added that differ in {', '.join(differ)}. The targets are those of the sum: give "
                "both the same likelihood, the same variables as its parameters, and the same options."
            )
        total = Marginal(
            Combined(operator.add, self.cov_func, other.cov_func),  # PyMC adds no constant to white noise
            mean_func=sum_of_means(self.mean_func, other.mean_func),
            **{name: getattr(self, name) for name in _SHARED},
            **self.parameters,
        )
        total.terms = self.terms + other.terms
        return total

    def _set_operations(self, likelihood: Likelihood) -> None:
        self._evidence = LogEvidence(likelihood, on_failure=self.on_failure, **self._options)
        self._latent = LatentPosterior(likelihood, **self._options)

    @property
    def observed(self) -> Observed:
        """What `marginal_likelihood` was given; a ValueError before that."""
        if self._observed is None:
            raise ValueError("there is no data yet: call marginal_likelihood(name, X, y) in the model first.")
        return self._observed

    def marginal_likelihood(
        self,
        name: str,
        X: Any,
        y: Any,
        *,
        offset: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        dims: str | None = None,
    ) -> Variable:
        """Add the observed labels to the model in context, and return their variable.

        Parameters
        ----------
        name : str
            Of the variable.
        X : (n, d) array_like or pm.Data
            Inputs.
        y : (n,) array_like or pm.Data
            Labels: any two distinct values, of which the larger (or later in the alphabet, or the later category of
            a pandas Categorical) becomes 1, the other 0. In ``pm.Data`` they must be 0 and 1 already. Counts or real
            numbers for a likelihood that has them as targets.
        offset, weights : (n,) array_like, optional
            Of each case, as `fit` has them: numbers, of the cases of X, which then are not to be replaced by others.
        dims : str, optional
            Name of the dimension of the cases, whose coordinate, unless the model has one, are the row labels of X.

        Returns
        -------
        TensorVariable
            Labels 0/1. Drawn without data (``pm.sample_prior_predictive``) they are those of functions from the prior.
        """
        binary, features = self.likelihood.is_binary, None
        X, y = as_pandas("X", X), as_pandas("y", y)
        tables.check_all_same_cases(X=X, y=y, offset=offset, weights=weights)
        table, n = X, len(X.get_value() if isinstance(X, SharedVariable) else X)
        likelihood = self.likelihood
        if not isinstance(y, SharedVariable):
            y, likelihood = with_limits(y, likelihood)
        of_cases = by_case(likelihood, tables.as_offset(offset, table, n), tables.as_weights(weights, table, n))
        self._set_operations(of_cases)
        if not isinstance(X, SharedVariable):
            features, X = tables.feature_names("X", X), tables.as_inputs("X", X, copy=True)
            model, labels = pm.modelcontext(None), row_labels("X", table)
            if isinstance(dims, str) and dims not in model.coords:
                model.add_coord(dims, np.arange(n) if labels is None else labels)
        class_names: tuple[str, ...] = ("0", "1") if binary else ()
        if not isinstance(y, SharedVariable):
            targets, class_names = encode_targets(
                y, np.shape(y)[0] if isinstance(X, SharedVariable) else len(X), likelihood
            )
            y = (targets > 0).astype(np.int64) if binary else targets
        self._observed = Observed(name, X, y, class_names, features)

        others = self._others(X)

        def logp(value: Variable, gram: Variable, *others: Variable) -> Variable:
            return self._evidence(gram, _signed(value) if binary else value, *others)[0]

        return pm.CustomDist(
            name,
            self.cov_func(X),
            *others,
            logp=logp,
            random=self._draw,
            signature=f"{','.join(['(n,n)', *('(n)' if other.type.ndim else '()' for other in others)])}->(n)",
            dtype="int64" if binary else "float64",
            observed=y,
            dims=dims,
        )

    def _others(self, X: Any) -> list[Variable]:
        """Return what the operations take behind K and t: the prior mean, if there is one, and random parameters."""
        return [*([] if self.mean_func is None else [self.mean_func(X)]), *self.parameters.values()]

    def conditional(
        self,
        name: str,
        X_new: Any,
        *,
        given: Mapping[str, Marginal] | None = None,
        jitter: float = JITTER,
        **kwargs: Any,
    ) -> Variable:
        """Add the latent values at new inputs to the model in context, given the labels, and return their variable.

        Call it after the hyperparameters were sampled, for ``pm.sample_posterior_predictive(idata, var_names=[name])``.

        Parameters
        ----------
        name : str
            Of the variable.
        X_new : (m, d) array_like or pm.Data
            Inputs.
        given : dict, optional
            ``{"gp": total}`` where this process is a part of a sum, ``total = gp1 + gp2``, that has the labels: the
            values are those of this part.
        jitter : float
            Added to the diagonal of the covariance, since PyMC factorises it.
        **kwargs
            For ``pm.MvNormal``, such as ``dims``.

        Returns
        -------
        TensorVariable
            (m,), Gaussian with the mean k' alpha, plus the prior mean, and the covariance k** - k' R k.
        """
        total = self._total(given)
        X, (alpha, correction) = total.observed.X, total.latent_posterior()
        if not isinstance(X_new, Variable):
            X_new = as_pandas("X_new", X_new)
            tables.check_same_features(total.observed.features, X_new)
            X_new = tables.as_inputs("X_new", X_new)
        cross = self.cov_func(X, X_new)
        covariance = self.cov_func(X_new) - cross.T @ correction @ cross
        covariance = 0.5 * (covariance + covariance.T) + jitter * pt.eye(covariance.shape[0])
        mean = cross.T @ alpha
        if self.mean_func is not None:
            mean = mean + self.mean_func(X_new)
        mean, covariance = interpreted([mean, covariance])  # PyTensor would compile for a minute
        return pm.MvNormal(name, mu=mean, cov=covariance, **kwargs)

    def latent_posterior(self) -> tuple[Variable, Variable]:
        """Return alpha ``(n,)`` and R ``(n, n)`` of the posterior given the labels, as graphs: a `LatentPosterior`."""
        _, X, y, *_ = self.observed
        t = _signed(pt.as_tensor_variable(y)) if self.likelihood.is_binary else y
        alpha, correction = self._latent(self.cov_func(X), t, *self._others(X))
        return alpha, correction

    def predict(
        self,
        X_new: ArrayLike,
        point: Mapping[str, ArrayLike],
        *,
        diag: bool = False,
        given: Mapping[str, Marginal] | None = None,
    ) -> tuple[Array, Array]:
        """Return the mean and covariance of the latent values at new inputs, at one point of the hyperparameters.

        Parameters
        ----------
        X_new : (m, d) array_like
            Inputs.
        point : dict
            Values of the hyperparameters by name, as from ``pm.find_MAP``; other names in it are ignored.
        diag : bool
            Return only the variances.
        given : dict, optional
            ``{"gp": total}`` where this process is a part of a sum that has the labels, as for `conditional`.

        Returns
        -------
        mean : (m,) array
            In latent units.
        covariance : (m, m) array, or (m,) if ``diag``
            In squared latent units.
        """
        total = self._total(given)
        process = total.posterior(point)
        if total is not self:
            kernel, mean = self._at(point)
            process = Posterior(kernel, process.X, process.problem, process.solution, mean=mean)
        if diag:
            return process.latent(X_new)
        X_new = process.new_inputs(X_new)
        cross = process.kernel.cross(process.X, X_new)
        return process.latent_mean(X_new), process.kernel.gram(X_new) - process.solution.correction.quadratic(cross)

    def posterior(self, point: Mapping[str, ArrayLike]) -> Posterior:
        """Return the posterior process at one point of the hyperparameters.

        With probabilities (``predict_proba``), leave-one-out (``loo``), the evidence and draws. With a ``mean_func``
        its ``problem`` and ``solution`` are those of the deviations from the prior mean, and all else has it added.

        Parameters
        ----------
        point : dict
            Values of the hyperparameters by name, as from ``pm.find_MAP``; other names in it are ignored.

        Raises
        ------
        ValueError
            If there is no data yet, or a hyperparameter is missing.
        ConvergenceError, InconsistentDataError, ArithmeticError
            If the inner solver finds no solution.
        """
        _, X, y, _, features = self.observed
        X, y = (np.asarray(data.get_value() if isinstance(data, SharedVariable) else data) for data in (X, y))
        t = 2.0 * y - 1.0 if self.likelihood.is_binary else y
        kernel, mean = self._at(point)
        parameters = self._of_likelihood([], self._take(point, self._of_likelihood.parameters))
        with one_thread_if_small(len(t)):
            means = [] if mean is None else [mean(X)]
            problem, solution = self._latent.solve(kernel.gram(X), t, *means, *parameters)
        return Posterior(kernel, X, problem, solution, mean=mean, feature_names=features)

    def _total(self, given: Mapping[str, Marginal] | None) -> Marginal:
        """Return the process that has the labels: this one, or a sum that it is a part of."""
        if given is None:
            return self
        total = given.get("gp") if isinstance(given, Mapping) else None
        if not isinstance(total, Marginal) or set(given) != {"gp"}:
            got = f"the keys {list(given)}" if isinstance(given, Mapping) else type(given).__name__
            raise ValueError(
                "given must be {'gp': total}, with the sum of processes that has the data and the likelihood, by its "
                f"marginal_likelihood, got {got}."
            )
        if not set(self.terms) <= set(total.terms):
            raise ValueError("given['gp'] is no sum of which this process is a part: write total = gp1 + gp2.")
        return total

    def _at(self, point: Mapping[str, ArrayLike]) -> tuple[PymcKernel, Callable[[Array], Array] | None]:
        """Return kernel and prior mean at a point."""
        kernel = PymcKernel(self._covariance, self._take(point, self._covariance.parameters))
        mean = self.mean_func
        return kernel, None if mean is None else mean.at(self._take(point, mean.parameters))

    @cached_property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the random variables that the covariance, the mean and the likelihood depend on."""
        of_mean = {} if self.mean_func is None else self.mean_func.parameters
        return tuple(dict.fromkeys([*self._covariance.parameters, *of_mean, *self._of_likelihood.parameters]))

    @cached_property
    def _of_likelihood(self) -> Function:
        return Function([], list(self.parameters.values()))

    def _take(self, point: Mapping[str, ArrayLike], names: Mapping[str, Variable]) -> dict[str, Array]:
        missing = [name for name in names if name not in point]
        if missing:
            raise ValueError(
                f"point has no value of {missing[0]!r}; it needs {list(self.hyperparameters)}, as pm.find_MAP returns."
            )
        return {name: np.asarray(point[name], dtype=variable.dtype) for name, variable in names.items()}

    def _draw(self, gram: Array, *others: Array, rng: np.random.Generator, size: Any = None) -> Array:
        """Draw labels ``(*size, n)`` of functions from the prior."""
        mean, values = (np.zeros(gram.shape[0]), others) if self.mean_func is None else (others[0], others[1:])
        if not np.all(np.isfinite(gram)):
            raise ArithmeticError(
                "the covariance function overflows at a draw of the hyperparameters from their prior."
            )
        root = psd_root(gram)
        f = mean + rng.standard_normal((*(size or ()), root.shape[1])) @ root.T
        targets = self._latent.likelihood_at(values).sample(f, rng)
        return (targets > 0).astype(np.int64) if self.likelihood.is_binary else targets


def _signed(y: Variable) -> Variable:
    """Return labels 0/1 as -1/+1."""
    return 2.0 * pt.cast(y, "float64") - 1.0
