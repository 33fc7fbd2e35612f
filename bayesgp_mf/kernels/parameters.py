"""The one flat log vector of parameters that optimisers and samplers see, of a kernel or of a whole model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.types import Array


class Parametrised(Protocol):
    """What has parameters by name, and can be had with others: a kernel, or a kernel and a likelihood."""

    @property
    def params(self) -> Mapping[str, Array]:
        """The parameters by name."""

    def replace(self, **values: Any) -> Self:
        """Return the same with other parameters."""


Of = TypeVar("Of", bound=Parametrised)


def log_vector(kernel: Parametrised) -> Array:
    """Return the logarithms ``(p,)`` of all parameters that are not zero, in the order of ``params``.

    A parameter that is exactly zero is switched off and stays so.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.log_vector(bgp.kernels.Gaussian([1.0, 2.0], variance=3.0)).round(3)
    array([0.   , 0.693, 1.099])
    """
    return np.concatenate([np.log(value[value > 0]) for value in _arrays(kernel).values()] or [np.empty(0)])


def log_vector_names(kernel: Parametrised) -> list[str]:
    """Return a name for each entry of `log_vector`, such as ``lengthscale[2]``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.log_vector_names(bgp.kernels.Gaussian([1.0, 2.0], variance=3.0))
    ['lengthscale[0]', 'lengthscale[1]', 'variance']
    """
    names = []
    for name, value in _arrays(kernel).items():
        labels = [name] if value.ndim == 0 else [f"{name}[{i}]" for i in range(value.size)]
        names += [label for label, entry in zip(labels, np.atleast_1d(value), strict=True) if entry > 0]
    return names


def with_log_vector(kernel: Of, vector: ArrayLike) -> Of:
    """Return the kernel with the parameters that `log_vector` would give back as ``vector (p,)``.

    Raises
    ------
    ValueError
        If the length is not that of `log_vector`.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.with_log_vector(bgp.kernels.Gaussian([1.0, 2.0]), [0.0, 0.0, 0.0])
    Gaussian(lengthscale=[1.0, 1.0], variance=1.0)
    """
    values = np.exp(np.asarray(vector, dtype=np.float64))
    arrays = _arrays(kernel)
    expected = (int(sum(np.count_nonzero(value > 0) for value in arrays.values())),)
    if values.shape != expected:
        raise ValueError(f"the log vector of this kernel has shape {expected}, got {values.shape}.")
    replaced, position = {}, 0
    for name, old in arrays.items():
        new = old.copy()
        count = int(np.count_nonzero(old > 0))
        new[old > 0] = values[position : position + count]
        replaced[name], position = new, position + count
    return kernel.replace(**replaced)


def log_gradient(kernel: Parametrised, gradient: Mapping[str, ArrayLike]) -> Array:
    """Turn a gradient in the parameters, by name, into one in `log_vector`, ``(p,)``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> kernel = bgp.kernels.Gaussian(lengthscale=2.0, variance=3.0)
    >>> bgp.kernels.log_gradient(kernel, {"lengthscale": 0.5, "variance": 1.0})
    array([1., 3.])
    """
    arrays = _arrays(kernel).items()
    return np.concatenate([(np.asarray(gradient[n]) * value)[value > 0] for n, value in arrays] or [np.empty(0)])


def _arrays(kernel: Parametrised) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in kernel.params.items()}
