"""Covariance functions k(x, x'): what the latent function is believed to be before any data.

All above may look inside; `base` and `stationary` are for kernels of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bayesgp_mf.kernels.areal import Areal
from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.kernels.categorical import Categorical
from bayesgp_mf.kernels.combinations import DEEPEST, PerClass, Power, Product, Sum
from bayesgp_mf.kernels.constant import Bias, White
from bayesgp_mf.kernels.dot import Linear, NeuralNetwork, Polynomial
from bayesgp_mf.kernels.functionals import Difference, Kinds, Mean, Slope
from bayesgp_mf.kernels.periodic import Periodic
from bayesgp_mf.kernels.sphere import OnSphere
from bayesgp_mf.kernels.stationary import Gaussian, Matern12, Matern32, Matern52, RationalQuadratic
from bayesgp_mf.kernels.values import log_gradient, log_vector, log_vector_names, with_log_vector
from bayesgp_mf.kernels.warped import Warped
from bayesgp_mf.names import absent

__all__ = [
    "RBF",
    "Areal",
    "Bias",
    "Categorical",
    "Difference",
    "Gaussian",
    "Kernel",
    "Kinds",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Mean",
    "NeuralNetwork",
    "OnSphere",
    "PerClass",
    "Periodic",
    "Polynomial",
    "Power",
    "Product",
    "RationalQuadratic",
    "Slope",
    "Sum",
    "Warped",
    "White",
    "from_dict",
    "log_gradient",
    "log_vector",
    "log_vector_names",
    "with_log_vector",
]

RBF = Gaussian
"""The name by which most packages have it; `Gaussian` is also that of a likelihood."""

if not TYPE_CHECKING:  # which would believe that every name is there

    def __getattr__(name: str) -> Any:
        raise absent(__name__, name, __all__)


_STATIONARY = (Gaussian, Matern12, Matern32, Matern52, RationalQuadratic)
_OTHERS = (Areal, Bias, Categorical, Linear, NeuralNetwork, Periodic, Polynomial, White)
_LEAVES: dict[str, Callable[..., Kernel]] = {kernel.__name__: kernel for kernel in (*_OTHERS, *_STATIONARY)}
_COMPOSITES: dict[str, Callable[..., Kernel]] = {
    kind.__name__: kind for kind in (Sum, Product, Power, PerClass, Warped, OnSphere, Difference, Slope, Mean, Kinds)
}


def leaves(kernel: Kernel) -> list[Kernel]:
    """Return the kernels at the bottom of a kernel: itself, if it is not made of others."""
    return [part for part in all_parts(kernel) if not part.parts]


def all_parts(kernel: Kernel) -> Iterator[Kernel]:
    """Return a kernel and all that it is made of."""
    yield kernel
    for part in kernel.parts:
        yield from all_parts(part)


def is_built_in(kernel: Kernel) -> bool:
    """Tell whether a kernel is made of this package's own, and of nothing else.

    Those are covariance functions at all their parameters, and `from_dict` rebuilds them from their ``to_dict``.
    """
    known = type(kernel) in {*_LEAVES.values(), *_COMPOSITES.values()}
    return known and all(is_built_in(part) for part in kernel.parts)


def from_dict(description: dict[str, Any]) -> Kernel:
    """Rebuild a kernel from what its ``to_dict`` returned.

    Raises
    ------
    ValueError
        If the description is no dict, names no kernel of this package, or has sums and products within each other more
        than 100 deep.

    Examples
    --------
    >>> from bayesgp_mf.kernels import Bias, Gaussian, from_dict
    >>> from_dict((Gaussian(2.0) + Bias()).to_dict())
    Gaussian(lengthscale=2.0, variance=1.0) + Bias(variance=1.0)
    """
    return _from_dict(description, 0)


def _from_dict(description: dict[str, Any], depth: int) -> Kernel:
    """Rebuild a kernel that is so deep within others."""
    if depth > DEEPEST + 1:  # a `PerClass` may be around them
        raise ValueError(f"this kernel has sums and products within each other more than {DEEPEST} deep.")
    if not isinstance(description, Mapping) or not all(isinstance(key, str) for key in description):
        raise ValueError(f"description must be a dict, as to_dict of a kernel returns it, got {description!r:.80}.")
    fields = dict(description)
    name = fields.pop("kernel", None)
    if not isinstance(name, str) or name not in {*_LEAVES, *_COMPOSITES}:
        raise ValueError(f"unknown kernel {name!r}; expected one of {sorted([*_LEAVES, *_COMPOSITES])}.")
    try:
        if name in _LEAVES:
            return _LEAVES[name](**fields)
        return _COMPOSITES[name](*[_from_dict(term, depth + 1) for term in fields.pop("terms")], **fields)
    except KeyError:
        raise ValueError(f"this is no description of a {name} kernel: it has no 'terms'.") from None
    except TypeError as error:
        raise ValueError(f"this is no description of a {name} kernel: {error}") from error
