"""Options: kernels, counts, yes or no, names of parameters."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, by_word
from bayesgp_mf.types import Array


def as_kernel(kernel: Any, values: Mapping[str, ArrayLike] | None = None, *, tuned: bool = False) -> Kernel:
    """Return a kernel from one, or from a covariance function of PyMC or of a package with the same interface.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        What a user gave.
    values : mapping, optional
        Values of its parameters, in place of its own.
    tuned : bool
        Whether its parameters will be tuned: then random variables may have no value, and start where PyMC starts them.

    Raises
    ------
    ValueError
        If it is neither, or a parameter has no value.
    """
    if isinstance(kernel, type):
        raise ValueError(f"kernel must be an instance, got the class {kernel.__name__}: write it with ().")
    if isinstance(kernel, Kernel):
        return kernel if values is None else kernel.replace(**values)
    # `bayesgp_mf.pymc` lies above this layer; who has a covariance function of tensors has imported PyTensor already
    has_face = "pytensor" in sys.modules and callable(kernel) and hasattr(kernel, "diag")
    if has_face and importlib.import_module("bayesgp_mf.pymc.covariance").is_cov_func(kernel):
        module = importlib.import_module("bayesgp_mf.pymc.kernel")
        made: Kernel = module.start_from_pymc(kernel) if tuned else module.kernel_from_pymc(kernel, **(values or {}))
        return made
    given = f"{type(kernel).__module__}.{type(kernel).__name__}".removeprefix("builtins.")
    raise ValueError(
        f"kernel must be one of bayesgp_mf.kernels, such as Gaussian(lengthscale=1.0), or of pm.gp.cov, got {given}."
    )


def as_likelihood(likelihood: object) -> Likelihood:
    """Return the likelihood of one model, which a word may name, or raise a ValueError that says why it is none."""
    found = by_word(likelihood) if isinstance(likelihood, str) else likelihood
    check_likelihood(found)
    return cast("Likelihood", found)


def check_model(kernel: Kernel, X: Array, likelihood: Likelihood) -> None:
    """Raise an error if targets cannot be drawn, or if a kernel and a likelihood are not of the same classes."""
    if (reason := likelihood.of_one_case.undrawn) is not None:
        raise UndefinedQuantityError(reason)
    if kernel.per_class and not likelihood.has_classes:
        raise ValueError(
            f"kernels.PerClass has a kernel for each class, and {likelihood.display_name} one latent value for each "
            "case. Use likelihood=bgp.MultinomialProbit() or Softmax(), or one kernel."
        )
    if kernel.per_class and len(kernel.diag(X[:1])) != likelihood.n_classes:
        raise ValueError(
            f"kernels.PerClass must have a kernel for each of the {likelihood.n_classes} classes, in the order "
            f"{list(likelihood.classes or ())}, and it has {len(kernel.diag(X[:1]))}."
        )


def as_names(argument: str, given: Any) -> frozenset[str]:
    """Return names of parameters as a set, or raise a ValueError that names the argument."""
    expected = f"{argument} must be a collection of parameter names, got {given!r}: write {argument}="
    if isinstance(given, str):
        raise ValueError(f"{expected}{{{given!r}}}.")
    names = list(given) if isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0 else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{expected}{{'lengthscale'}}, or leave it out.")
    return frozenset(names)


def as_probabilities(argument: str, given: ArrayLike | None) -> Array | None:
    """Return probabilities between 0 and 1, not at the ends, as an array ``(q,)``, or raise a ValueError."""
    if given is None:
        return None
    expected = f"{argument} must be probabilities between 0 and 1, such as (0.05, 0.95)"
    try:
        levels = np.atleast_1d(np.array(given, dtype=np.float64))  # a copy: it becomes a coordinate
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{expected}, got {given!r:.80}.") from error
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"{expected}, got {given!r:.80}.")
    return levels
