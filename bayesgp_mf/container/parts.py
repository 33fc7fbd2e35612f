"""A fit to a table in parts as a container: what its posterior says of the inducing inputs, and nothing of each case.

The cases are where their parts are. Predictions need no more than the weights of the features of the inducing inputs
and their covariance, which stand in the group ``fit`` as those of a fit with ``inducing`` do; kernel, likelihood, and
how well the solution is known, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.layout import CASES, SAMPLE_DIMS, Layout, check_parameter_names
from bayesgp_mf.container.quality import quality_of_fit
from bayesgp_mf.container.stored import describe_likelihood, model_attrs, stored_solution
from bayesgp_mf.container.write import sealed_container
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Evidence, Info, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inference.undefined import without_cases
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.types import Array


def gradient_name(name: str) -> str:
    """Return what the derivative of the log evidence in a parameter of the kernel is called."""
    return f"hyper_gradient_{name}"  # no parameter may begin like this


def check_storable_in_parts(kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise a ValueError if a container could not have this kernel or this likelihood, before any work is done."""
    describe_likelihood(likelihood)
    check_parameter_names(kernel.params)


def posterior_in_parts(
    kernel: Kernel,
    likelihood: Likelihood,
    on_inducing: Sequence[Array],
    evidence: Evidence,
    info: Info,
    features: Sequence[str] | None,
    solver: Solver = tap,
) -> Posterior:
    """Return a posterior of no cases, of which what all cases say is known.

    ``on_inducing`` are the inducing inputs ``(M, d)``, the posterior mean ``(M,)`` of the weights of their features,
    and T ``(M, M)``, lower triangular, with T'T the posterior covariance of the weights.
    """
    points, weights, inverse_factor = map(np.ascontiguousarray, on_inducing)
    X, nothing = np.empty((0, points.shape[1])), np.empty(0)
    gram = inducing_gram(kernel, X, points, known=(nothing, weights))
    correction = gram.sites(nothing, np.asfortranarray(inverse_factor))
    solution = Solution(tap.name, nothing, correction, evidence, None, info)
    return Posterior(kernel, X, Problem(gram, nothing, likelihood), solution, solver, features)


def parts_container(
    posterior: Posterior, n_cases: int, f: Array, gradient: Mapping[str, Array], class_names: tuple[str, ...]
) -> Container:
    """Return the container of a fit to a table in parts, of which the posterior is known.

    Parameters
    ----------
    posterior : Posterior
        As `posterior_in_parts` makes it.
    n_cases : int
        Cases of all parts.
    f : (chains, draws, M) array
        Draws of the latent values at the inducing inputs.
    gradient : dict of str to array
        Derivatives of the log evidence in the parameters of the kernel.
    class_names : tuple of str
        Of the two classes, the positive one last; empty for real targets.
    """
    kernel, likelihood, solution = posterior.kernel, posterior.problem.likelihood, posterior.solution
    values = posterior.problem.matrix.stored(solution.alpha, solution.correction)
    values |= stored_solution(solution.info, solution.evidence)
    points = values["inducing_input"]
    layout = Layout(0, posterior.feature_names or np.arange(points.shape[1]), class_names, f.shape[:2])
    variables = {name: layout.variable(name, value) for name, value in values.items()}
    variables |= {name: layout.parameter(name, value) for name, value in kernel.params.items()}
    for name, value in gradient.items():
        variables[gradient_name(name)] = layout.parameter(name, np.asarray(value)).rename(gradient_name(name))
    attrs = model_attrs(kernel, likelihood, posterior.method, solution.evidence, solution.info.status)
    attrs |= {"class_names": json.dumps(class_names), CASES: n_cases}
    fit = xr.Dataset(variables, attrs=attrs)
    fit = fit.assign_attrs(quality=quality_of_fit(fit, n_cases, in_parts=True).sentence)
    return sealed_container(
        {
            "posterior": xr.Dataset({"f": layout.along((*SAMPLE_DIMS, "inducing"), f)}),
            "constant_data": xr.Dataset({"X": layout.along(("inducing", "feature"), points)}),
            "fit": fit,
        }
    )


def is_in_parts(fit: xr.Dataset) -> bool:
    """Tell whether the group ``fit`` is of a fit to a table in parts."""
    return CASES in fit.attrs


def check_has_cases(fit: xr.Dataset, what: str) -> None:
    """Raise an UndefinedQuantityError if a container has nothing of each case, which ``what`` is of."""
    if is_in_parts(fit):
        raise without_cases(what)
