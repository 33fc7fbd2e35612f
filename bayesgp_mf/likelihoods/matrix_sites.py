r"""Sites of a case of several classes that are any symmetric matrix.

Those of `likelihoods.star` are C numbers above zero. Labels that tell which of the latent values is largest, without
noise, and labels that may be flipped make others: differences :math:`f_t - f_c` are measured with nothing between the
classes, or a label is so unlikely that it makes its case *less* certain.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from bayesgp_mf.types import Array


class MatrixSites(NamedTuple):
    """What one label of each case makes of the Gaussian of its latent values, by a site that is any matrix."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C), of log Z in the means; the tilted mean is m + V gradient; rows sum to zero
    precision: Array  # W (n, C, C), symmetric, of any sign; its rows sum to zero


@runtime_checkable
class MatrixSiteLikelihood(Protocol):
    """The protocol of a likelihood of several classes whose sites may be of no star form."""

    @property
    def star_shaped(self) -> bool:
        """Whether all of them are."""

    @property
    def log_concave(self) -> bool:
        """Whether none of them makes a case less certain."""

    def matrix_sites(self, t: Array, mean: Array, covariance: Array) -> MatrixSites:
        """Return the sites of cases with classes ``t (n,)`` at Gaussians ``(n, C)`` and ``(n, C, C)``."""


def has_matrix_sites(likelihood: object) -> TypeGuard[MatrixSiteLikelihood]:
    """Tell whether sites of a likelihood are of no star form."""
    return isinstance(likelihood, MatrixSiteLikelihood) and not likelihood.star_shaped
