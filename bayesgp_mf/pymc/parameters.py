r"""Which parameters of a likelihood may be random, and what the evidence says of them.

The evidence of the mean-field theories (naive, variational, TAP) is stationary in everything that was solved for, and a
parameter of the likelihood enters it only by way of :math:`\log Z_i`. So its derivative is the explicit one, at the
cavities of the solution,

.. math:: \frac{\partial \log p(t)}{\partial \theta} = \sum_i \partial_\theta \log Z_i(m_i, \lambda_i).

A noise variance v is added to the cavity variance, and Z solves the heat equation in that:
:math:`\partial_v \log Z = (d_2 + d_1^2)/2`. For a label flipped with probability kappa,
:math:`Z = \kappa + (1 - 2\kappa)\Phi(z)` gives :math:`\partial_\kappa \log Z = (1 - 2\Phi(z))/Z`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from scipy.special import log_ndtr

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem, check_likelihood
from bayesgp_mf.inference.solution import Cavity, Solution
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.likelihoods import Gaussian, Likelihood, Probit
from bayesgp_mf.likelihoods.shifted import Shifted, unshifted
from bayesgp_mf.methods import METHODS
from bayesgp_mf.types import Array

_NAMES: dict[type, tuple[str, ...]] = {Probit: ("noise_variance", "flip"), Gaussian: ("noise_variance",)}


def parameter_names(likelihood: Likelihood) -> tuple[str, ...]:
    """Return the names of the parameters of a likelihood that may be random; none for most."""
    return _NAMES.get(type(likelihood), ())


def split_parameters(likelihood: Likelihood, given: Mapping[str, Any]) -> tuple[Likelihood, dict[str, Variable]]:
    """Put numbers into a likelihood, and return it with the parameters that are random variables or other tensors.

    Raises
    ------
    ValueError
        If the likelihood has no parameter of a name, or refuses a value.
    """
    check_single_latent(likelihood)
    check_parameters(likelihood, tuple(given))
    tensors = {name: value for name, value in given.items() if isinstance(value, Variable)}
    numbers = {name: value for name, value in given.items() if name not in tensors}
    return with_parameters(likelihood, numbers), tensors


def check_single_latent(likelihood: Likelihood) -> None:
    """Raise a ValueError if a case has no single latent value under what is given as a likelihood."""
    check_likelihood(likelihood)
    if likelihood.targets == "classes":
        raise ValueError(
            f"models of PyMC here have one latent value for each case, and {type(likelihood).__name__} has one for "
            "each class. Use bayesgp_mf.fit(..., hyper='nuts'), which samples the hyperparameters with PyMC."
        )


def with_parameters(likelihood: Likelihood, values: Mapping[str, Any]) -> Likelihood:
    """Return a likelihood with some of its parameters replaced; ValueError if it refuses a value."""
    return dataclasses.replace(likelihood, **values) if values else likelihood  # type: ignore[type-var]


def check_parameters(likelihood: Likelihood, names: tuple[str, ...]) -> None:
    """Raise a ValueError if one of ``names`` is no parameter of the likelihood that may be random."""
    known = parameter_names(likelihood)
    for name in names:
        if name not in known:
            has = f"its parameters are {', '.join(known)}" if known else "it has no parameters that could be given"
            raise ValueError(f"unknown parameter {name!r} of the likelihood {type(likelihood).__name__}: {has}.")


def check_differentiable(method: str, names: tuple[str, ...]) -> None:
    """Raise an UndefinedQuantityError if the derivative of a method's evidence in these parameters is not known."""
    if names and not traits_of(METHODS[method]).stationary:
        able = sorted(name for name, solver in METHODS.items() if traits_of(solver).stationary)
        raise UndefinedQuantityError(
            f"the evidence of method {method!r} has no derivative in {', '.join(names)} here: only the covariance may "
            f"be random. Give a number instead, or use one of the methods {', '.join(able)}."
        )


def parameter_gradient(problem: Problem, solution: Solution, names: tuple[str, ...]) -> list[float]:
    """Return the derivative of the log evidence in each named parameter of the problem's likelihood, in nats per unit.

    ``solution`` is one of a mean-field method.
    """
    if not names:
        return []
    if solution.cavity is None:
        raise ValueError(f"a solution of method {solution.method!r} has no cavities.")
    derivatives = {"noise_variance": _in_noise_variance, "flip": _in_flip}
    return [float(np.sum(derivatives[name](problem, solution.cavity))) for name in names]


def _in_noise_variance(problem: Problem, cavity: Cavity) -> Array:
    _, d1, d2 = problem.likelihood.log_partition(problem.t, cavity.mean, cavity.variance)
    return np.asarray(0.5 * (d2 + d1**2))


def _in_flip(problem: Problem, cavity: Cavity) -> Array:
    likelihood, mean = unshifted(problem.likelihood), cavity.mean
    if not isinstance(likelihood, Probit):
        raise ValueError(f"{type(likelihood).__name__} has no label flips.")
    if isinstance(problem.likelihood, Shifted):
        mean = mean + problem.likelihood.offset
    log_z = likelihood.log_partition(problem.t, mean, cavity.variance).value
    z = problem.t * mean / np.sqrt(cavity.variance + likelihood.noise_variance)
    return np.asarray(np.exp(log_ndtr(-z) - log_z) - np.exp(log_ndtr(z) - log_z))
