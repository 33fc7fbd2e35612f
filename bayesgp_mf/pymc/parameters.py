r"""What may be random in a model beside the kernel, parameters of the likelihood and a prior mean, and its evidence.

The evidence of the mean-field theories (naive, variational, TAP) is stationary in everything that was solved for, and a
parameter of the likelihood enters it only by way of :math:`\log Z_i`. So its derivative is the explicit one, at the
cavities of the solution,

.. math:: \frac{\partial \log p(t)}{\partial \theta} = \sum_i \partial_\theta \log Z_i(m_i, \lambda_i).

which the likelihood states (`Likelihood.parameter_derivative`).

With the prior :math:`N(\mu, K)` of the latent values, a solver sees their deviations g from the mean, under the
likelihood shifted by it (`likelihoods.by_case`). The mean-field evidences are stationary in all that was solved for,
and the mean enters them by way of :math:`\log Z_i(\mu_i + m_i, \lambda_i)` only, so that

.. math:: \frac{\partial \log p(t)}{\partial \mu_i} = \partial_{m_i} \log Z_i = \alpha_i.

Laplace's evidence is :math:`\Psi - \tfrac12 \log\det(I + KW)` at the mode. Psi is stationary there and gives
:math:`\alpha` again, but W moves with :math:`f = \mu + g`. From :math:`dg = -KW\, df` follows
:math:`df = (I + KW)^{-1} d\mu`, and with :math:`s_i = \tfrac12 \Sigma_{ii} l'''_i`, the derivative of the other term in
f_i (`solvers.laplace`),

.. math:: \frac{\partial \log p(t)}{\partial \mu} = \alpha + (I + WK)^{-1} s = \alpha + (I - RK)\, s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS
from bayesgp_mf.pymc.graph import Function
from bayesgp_mf.types import Array


def split_parameters(likelihood: Likelihood, given: Mapping[str, Any]) -> tuple[Likelihood, dict[str, Variable]]:
    """Put numbers into a likelihood, and return it with the parameters that are random variables or other tensors."""
    check_likelihood(likelihood)
    check_parameters(likelihood, tuple(given))
    tensors = {name: value for name, value in given.items() if isinstance(value, Variable)}
    for name, tensor in tensors.items():
        if tensor.type.ndim:
            raise ValueError(
                f"{name} of {likelihood.display_name} must be one number for all cases, got a tensor of "
                f"{tensor.type.ndim} dimensions."
            )
    numbers = {name: value for name, value in given.items() if name not in tensors}
    return likelihood.with_parameters(**numbers) if numbers else likelihood, tensors


def check_single_latent(likelihood: Likelihood) -> None:
    """Raise a ValueError if a case has no single latent value under what is given as a likelihood."""
    check_likelihood(likelihood)
    if likelihood.has_classes:
        raise ValueError(
            f"Marginal and LogEvidence have one latent value for each case, and {likelihood.display_name} has one "
            "for each class. Use bayesgp_mf.fit(..., hyper='nuts'), which samples the hyperparameters with PyMC, or "
            "pymc.latent_model, which samples the latent values too."
        )


def check_parameters(likelihood: Likelihood, names: tuple[str, ...]) -> None:
    """Raise a ValueError if one of ``names`` is no parameter of the likelihood that may be random."""
    known = likelihood.parameters
    for name in names:
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters that could be given"
            raise ValueError(f"unknown parameter {name!r} of the likelihood {likelihood.display_name}: {has}.")


def check_differentiable(method: str, names: tuple[str, ...]) -> None:
    """Raise an UndefinedQuantityError if the derivative of a method's evidence in these parameters is not known."""
    if names and not traits_of(METHODS[method]).stationary:
        able = sorted(name for name, solver in METHODS.items() if traits_of(solver).stationary)
        raise UndefinedQuantityError(
            f"the evidence of method {method!r} has no derivative in {', '.join(names)} here: only the covariance may "
            f"be random. Give a number instead, or use one of the methods {', '.join(able)}."
        )


class Mean:
    """A mean function as a graph, and as a NumPy function of inputs and parameters, compiled when first used."""

    def __init__(self, mean_func: Any) -> None:
        if not callable(mean_func):
            raise ValueError(
                "mean_func must be one of pm.gp.mean, or a function of the inputs that returns a vector, such as "
                f"lambda X: X @ beta, got {type(mean_func).__name__}. A mean without a function is not known at new "
                "inputs."
            )
        self._mean_func = mean_func
        X = pt.dmatrix("X")
        self._function = Function([X], [self(X)])
        self.parameters = self._function.parameters

    def __call__(self, X: Any) -> Variable:
        """Return the means ``(n,)`` at inputs ``(n, d)``, as a graph."""
        value = pt.as_tensor_variable(self._mean_func(pt.as_tensor_variable(X)))
        if value.type.ndim != 1:
            raise ValueError(
                f"mean_func must return a vector, one number for each row of X, got {value.type.ndim} dimensions."
            )
        return pt.cast(value, "float64")

    def at(self, values: Mapping[str, Array]) -> Callable[[Array], Array]:
        """Return the function of inputs at values of the parameters."""
        return lambda X: self._function([X], values)[0]


def sum_of_means(one: Mean | None, other: Mean | None) -> Mean | None:
    """Return the sum of two prior means, of which None is zero."""
    if one is None or other is None:
        return other if one is None else one
    return Mean(lambda X: one(X) + other(X))


def check_mean(method: str, likelihood: Likelihood) -> None:
    """Raise an UndefinedQuantityError unless the derivative of a method's evidence in a prior mean is known."""
    shifted = by_case(likelihood, prior_mean=np.zeros(1))  # refuses a step
    traits = traits_of(METHODS[method])
    if traits.mean_gradient is None:
        able = sorted(name for name, solver in METHODS.items() if traits_of(solver).mean_gradient is not None)
        raise UndefinedQuantityError(
            f"method {method!r} takes no mean_func: its prior mean is zero. Use one of the methods {', '.join(able)}, "
            "or add pm.gp.cov.Constant(variance) or pm.gp.cov.Linear to cov_func, a Gaussian prior on the same trend."
        )
    if traits.check is not None:
        traits.check(shifted)
