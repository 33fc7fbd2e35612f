r"""Which parameters of a likelihood may be random, and what the evidence says of them.

The evidence of the mean-field theories (naive, variational, TAP) is stationary in everything that was solved for, and a
parameter of the likelihood enters it only by way of :math:`\log Z_i`. So its derivative is the explicit one, at the
cavities of the solution,

.. math:: \frac{\partial \log p(t)}{\partial \theta} = \sum_i \partial_\theta \log Z_i(m_i, \lambda_i).

which the likelihood states (`Likelihood.parameter_derivative`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytensor.graph.basic import Variable

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import METHODS


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
