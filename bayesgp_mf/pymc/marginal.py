"""A Gaussian process with labels in a PyMC model, its latent values integrated out by an approximation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from bayesgp_mf.inference.solution import Control, check_control
from bayesgp_mf.inputs import as_inputs, as_offset, as_weights, check_same_cases, encode_targets, feature_names
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.pymc.graph import free_inputs, interpret
from bayesgp_mf.pymc.kernel import Covariance, PymcKernel
from bayesgp_mf.pymc.mean import Mean
from bayesgp_mf.pymc.op import LatentPosterior, LogEvidence
from bayesgp_mf.pymc.parameters import split_parameters
from bayesgp_mf.types import Array

JITTER = 1e-6
"""Added to the diagonal of what PyMC will factorise; the same as in ``pm.gp``."""


class Observed(NamedTuple):
    """What `Marginal.marginal_likelihood` was given: arrays or shared variables, labels as 0 and 1."""

    name: str
    X: Any
    y: Any
    class_names: tuple[str, ...]  # of 0 and 1; empty for real targets
    features: list[str] | None  # names of the inputs, if they have names


class Marginal:
    r"""Gaussian process whose latent values are integrated out of a PyMC model by one of the methods of this package.

    The observed labels get the density p(y | hyperparameters), the method's evidence, which samplers and optimisers see
    with its exact gradient: the latent values are no variables of the model.

    Parameters
    ----------
    cov_func : pymc.gp.cov.BaseCovariance
        Prior covariance; random variables in it are the hyperparameters.
    likelihood : Likelihood
        p(label | latent value).
    method : str
        Name of a method that has an evidence: a key of `methods.METHODS`.
    control : Control
        Tolerance and largest number of steps of the inner solver.
    mean_func : pymc.gp.mean.Mean or callable, optional
        Prior mean, zero if left out: one of ``pm.gp.mean``, or a function of the inputs ``(n, d)`` that returns a
        vector, such as ``lambda X: X @ beta``. Random variables in it, as regression coefficients, are hyperparameters.
        With the methods tap, naive, variational and laplace.
    on_failure : {"reject", "raise"}
        What to do at hyperparameters where the inner solver finds no solution: take the density as zero, which a
        sampler counts as a divergence, or raise the error.
    **parameters : float or random variable
        Parameters of the likelihood that take the place of its own: ``noise_variance`` and ``flip`` of a `Probit`,
        ``noise_variance`` of a ``likelihoods.Gaussian``. Random variables need a mean-field method (tap, naive,
        variational).

    Raises
    ------
    ValueError
        If an argument is malformed.
    UndefinedQuantityError
        If the method does not define what is asked of it.

    See Also
    --------
    sample_latent : Latent values, pointwise log-likelihoods and predictions for each draw of the hyperparameters.
    latent_model : The same model without approximation, latent values included.

    Notes
    -----
    A constant or a trend whose size does not matter for itself needs no ``mean_func``: add
    ``pm.gp.cov.Constant(variance)`` or ``pm.gp.cov.Linear`` to the covariance, a Gaussian prior on it that is
    integrated out with the latent values.

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
        likelihood: Likelihood = Probit(),
        method: str = "tap",
        *,
        mean_func: Any = None,
        control: Control = Control(),
        on_failure: Literal["reject", "raise"] = "reject",
        **parameters: Any,
    ) -> None:
        check_control(control)
        self._covariance = Covariance(cov_func)
        self._mean = None if mean_func is None else Mean(mean_func)
        self.cov_func = cov_func
        self.likelihood, self._tensors = split_parameters(likelihood, parameters)
        self._options: dict[str, Any] = {"method": method, "control": control}
        self._options |= {"parameters": tuple(self._tensors), "with_mean": self._mean is not None}
        self._on_failure: Literal["reject", "raise"] = on_failure
        self._set_operations(self.likelihood)
        self._observed: Observed | None = None

    def _set_operations(self, likelihood: Likelihood) -> None:
        self._evidence = LogEvidence(likelihood, on_failure=self._on_failure, **self._options)
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
            a pandas Categorical) becomes 1, the other 0. In ``pm.Data`` they must be 0 and 1 already. Real numbers for
            a likelihood with real targets.
        offset, weights : (n,) array_like, optional
            Of each case, as `fit` has them: numbers, of the cases of X, which then are not to be replaced by others.
        dims : str, optional
            Name of the dimension of the cases.

        Returns
        -------
        TensorVariable
            Labels 0/1. Drawn without data (``pm.sample_prior_predictive``) they are those of functions from the prior.
        """
        binary, features = self.likelihood.targets == "binary", None
        table, n = X, len(X.get_value() if isinstance(X, SharedVariable) else X)
        of_cases = by_case(self.likelihood, as_offset(offset, table, n), as_weights(weights, table, n))
        self._set_operations(of_cases)
        if not isinstance(X, SharedVariable):
            check_same_cases(X, y)
            features, X = feature_names("X", X), as_inputs("X", X)
        class_names: tuple[str, ...] = ("0", "1") if binary else ()
        if not isinstance(y, SharedVariable):
            targets, class_names = encode_targets(
                y, np.shape(y)[0] if isinstance(X, SharedVariable) else len(X), self.likelihood
            )
            y = (targets > 0).astype(np.int64) if binary else targets
        self._observed = Observed(name, X, y, class_names, features)

        def logp(value: Variable, gram: Variable, *others: Variable) -> Variable:
            return self._evidence(gram, _signed(value) if binary else value, *others)[0]

        return pm.CustomDist(
            name,
            self.cov_func(X),
            *self._others(X),
            logp=logp,
            random=self._draw,
            signature=f"{','.join(['(n,n)', *['(n)'] * (self._mean is not None), *['()'] * len(self._tensors)])}->(n)",
            dtype="int64" if binary else "float64",
            observed=y,
            dims=dims,
        )

    def _others(self, X: Any) -> list[Variable]:
        """Return what the operations take behind K and t: the prior mean, if there is one, and random parameters."""
        return [*([] if self._mean is None else [self._mean(X)]), *self._tensors.values()]

    def conditional(self, name: str, X_new: Any, *, jitter: float = JITTER, **kwargs: Any) -> Variable:
        """Add the latent values at new inputs to the model in context, given the labels, and return their variable.

        Call it after the hyperparameters were sampled, for ``pm.sample_posterior_predictive(idata, var_names=[name])``.

        Parameters
        ----------
        name : str
            Of the variable.
        X_new : (m, d) array_like or pm.Data
            Inputs.
        jitter : float
            Added to the diagonal of the covariance, since PyMC factorises it.
        **kwargs
            For ``pm.MvNormal``, such as ``dims``.

        Returns
        -------
        TensorVariable
            (m,), Gaussian with the mean k' alpha, plus the prior mean, and the covariance k** - k' R k.
        """
        _, X, y, *_ = self.observed
        t = _signed(pt.as_tensor_variable(y)) if self.likelihood.targets == "binary" else y
        alpha, correction = self._latent(self.cov_func(X), t, *self._others(X))
        cross = self.cov_func(X, X_new)
        covariance = self.cov_func(X_new) - cross.T @ correction @ cross
        covariance = 0.5 * (covariance + covariance.T) + jitter * pt.eye(covariance.shape[0])
        mean = cross.T @ alpha
        if self._mean is not None:
            mean = mean + self._mean(X_new)
        return pm.MvNormal(name, mu=mean, cov=covariance, **kwargs)

    def predict(self, X_new: ArrayLike, point: Mapping[str, ArrayLike], *, diag: bool = False) -> tuple[Array, Array]:
        """Return the mean and covariance of the latent values at new inputs, at one point of the hyperparameters.

        Parameters
        ----------
        X_new : (m, d) array_like
            Inputs.
        point : dict
            Values of the hyperparameters by name, as from ``pm.find_MAP``; other names in it are ignored.
        diag : bool
            Return only the variances.

        Returns
        -------
        mean : (m,) array
            In latent units.
        covariance : (m, m) array, or (m,) if ``diag``
            In squared latent units.
        """
        process = self.posterior(point)
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
        t = 2.0 * y - 1.0 if self.likelihood.targets == "binary" else y
        kernel = PymcKernel(self._covariance, self._take(point, self._covariance.parameters))
        parameters = self._parameters_at(point)
        mean = None if self._mean is None else self._mean.at(self._take(point, self._mean.parameters))
        with one_thread_if_small(len(t)):
            means = [] if mean is None else [mean(X)]
            problem, solution = self._latent.solve(kernel.gram(X), t, *means, *parameters)
        return Posterior(kernel, X, problem, solution, mean=mean, feature_names=features)

    @cached_property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the random variables that the covariance, the mean and the likelihood depend on."""
        of_mean = {} if self._mean is None else self._mean.parameters
        return tuple(dict.fromkeys([*self._covariance.parameters, *of_mean, *self._parameter_inputs]))

    @cached_property
    def _parameter_inputs(self) -> dict[str, Variable]:
        return free_inputs(list(self._tensors.values()))

    @cached_property
    def _parameter_function(self) -> Any:
        return interpret(list(self._parameter_inputs.values()), list(self._tensors.values()))

    def _parameters_at(self, point: Mapping[str, ArrayLike]) -> list[Array]:
        values = self._take(point, self._parameter_inputs).values()
        return list(self._parameter_function(*values)) if self._tensors else []

    def _take(self, point: Mapping[str, ArrayLike], names: Mapping[str, Variable]) -> dict[str, Array]:
        missing = [name for name in names if name not in point]
        if missing:
            raise ValueError(
                f"point has no value of {missing[0]!r}; it needs {list(self.hyperparameters)}, as pm.find_MAP returns."
            )
        return {name: np.asarray(point[name], dtype=variable.dtype) for name, variable in names.items()}

    def _draw(self, gram: Array, *others: Array, rng: np.random.Generator, size: Any = None) -> Array:
        """Draw labels ``(*size, n)`` of functions from the prior."""
        mean, values = (np.zeros(gram.shape[0]), others) if self._mean is None else (others[0], others[1:])
        if not np.all(np.isfinite(gram)):
            raise ArithmeticError(
                "the covariance function overflows at a draw of the hyperparameters from their prior."
            )
        root = psd_root(gram)
        f = mean + rng.standard_normal((*(size or ()), root.shape[1])) @ root.T
        targets = self._latent.likelihood_at(values).sample(f, rng)
        return (targets > 0).astype(np.int64) if self.likelihood.targets == "binary" else targets


def _signed(y: Variable) -> Variable:
    """Return labels 0/1 as -1/+1."""
    return 2.0 * pt.cast(y, "float64") - 1.0
