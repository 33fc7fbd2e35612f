"""The forms that sites of several classes have, behind the verbs that methods ask: C numbers of a case, or a matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.star import InnerSites, star_precision, star_root
from bayesgp_mf.types import Array


class CaseSites(NamedTuple):
    """What labels make of Gaussians of the latent values of their cases."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C), of log Z in the means
    site: SiteForm
    inner: InnerSites | None = None


class OnShared(NamedTuple):
    """What sites W tell of the shared part g of latent values f = g + e, where e ~ N(0, d) is each case's own.

    What is a case's own is noise in the measurement of g.
    """

    precision: Array  # W' = W (I + d W)^-1 (n, C, C)
    carried: Array  # (I + d W)^-1 (n, C, C), by which what is known of g is carried to f
    log_det: float  # of I + d W, in nats


class SiteForm(ABC):
    """The site W_i of each case, a symmetric matrix whose rows sum to zero.

    Attributes
    ----------
    is_noise : bool
        Whether sites are measurements with noise of each class, whose common offset is unknown: none is negative.
    stored_as : str
        The name by which a container has what they are known by.

    Parameters
    ----------
    numbers : (n, C) or (n, C, C) array
        What they are known by.
    """

    is_noise: ClassVar[bool] = False
    stored_as: ClassVar[str]

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers
        self.n_classes = int(numbers.shape[1])

    @classmethod
    @abstractmethod
    def unpack(cls, packed: Array, scale: Array) -> Self:
        """Return the sites of numbers of `pack`."""

    @abstractmethod
    def pack(self, scale: Array) -> Array:
        """Return the sites as numbers ``(n, k)`` that may be mixed, in units of latent values ``scale (n, 1)``."""

    @property
    @abstractmethod
    def precision(self) -> Array:
        """W ``(n, C, C)``."""

    @property
    @abstractmethod
    def root(self) -> Array:
        """F ``(n, C, k)`` with W = F diag(J) F', signs J, and columns that sum to zero."""

    @property
    @abstractmethod
    def signs(self) -> Array:
        """J ``(n, k)``, each 1 or -1."""

    @abstractmethod
    def times(self, vectors: Array, block: slice = slice(None)) -> Array:
        """Return W v ``(..., k, C)`` of some cases."""

    @abstractmethod
    def on_shared(self, own: Array) -> OnShared:
        """Return what the sites tell of shared parts, given the variances d ``(n,)`` of what is a case's own."""

    @abstractmethod
    def own_noise(self, block: slice, own: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return draws ``(draws, k, C)`` of some cases with the covariances (I/d + W)^-1, for their d ``(k,)``."""


class StarForm(SiteForm):
    r"""Sites diag(w) - w w'/sum(w), by ``w (n, C)``, none below zero; each case has a positive one.

    With a case's own part d they tell sites of the same form of what is shared,

    .. math:: w' = w / (1 + w d), \qquad
              (I + d W)^{-1} = \mathrm{diag}(w' / w) + d\, w' w'^T / s', \qquad
              \det(I + d W) = \frac{s'}{s} \prod_c (1 + w_c d) .

    Examples
    --------
    >>> import numpy as np
    >>> StarForm(np.array([[1.0, 1.0]])).precision
    array([[[ 0.5, -0.5],
            [-0.5,  0.5]]])
    """

    is_noise = True
    stored_as = "site_weight"

    @classmethod
    def unpack(cls, packed: Array, scale: Array) -> StarForm:
        """Return the weights."""
        return cls(np.asarray((np.sinh(packed) / scale) ** 2))

    def pack(self, scale: Array) -> Array:
        """Return the roots of the weights: any, whatever their signs, are weights, so that mixtures are posteriors."""
        return np.asarray(np.arcsinh(scale * np.sqrt(self.numbers)))

    @property
    def precision(self) -> Array:
        """W ``(n, C, C)``."""
        return star_precision(self.numbers)

    @property
    def root(self) -> Array:
        """F ``(n, C, C)``."""
        return star_root(self.numbers)

    @property
    def signs(self) -> Array:
        """Ones ``(n, C)``: no site is negative."""
        return np.ones_like(self.numbers)

    def times(self, vectors: Array, block: slice = slice(None)) -> Array:
        """Return W v ``(..., k, C)``."""
        weight = self.numbers[block]
        mean = np.sum(weight * vectors, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        return np.asarray(weight * (vectors - mean))

    def _shared_weights(self, block: slice, own: Array) -> tuple[Array, Array, Array]:
        """Return 1 + w d, w' and w'/s' ``(k, C)`` of some cases."""
        share = 1.0 + self.numbers[block] * own[:, None]
        weight = self.numbers[block] / share
        return share, weight, weight / np.sum(weight, axis=1, keepdims=True)

    def on_shared(self, own: Array) -> OnShared:
        """Return what the sites tell of shared parts: no difference is taken."""
        share, weight, part = self._shared_weights(slice(None), own)
        between = weight[:, :, None] * part[:, None, :]
        carried = own[:, None, None] * between
        every = np.arange(self.n_classes)
        carried[:, every, every] += 1.0 / share
        log_det = np.sum(np.log(share)) + np.sum(np.log(np.sum(weight, axis=1) / np.sum(self.numbers, axis=1)))
        return OnShared(_of_entries_between(-between), carried, float(log_det))

    def own_noise(self, block: slice, own: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return draws whose covariance is diag(d / (1 + d w)) + d^2 w' w'' / s', a sum of which each part is drawn."""
        share, weight, part = self._shared_weights(block, own)
        noise = np.sqrt(own[:, None] / share) * rng.standard_normal((draws, *part.shape))
        return np.asarray(
            noise + own[:, None] * np.sqrt(weight * part) * rng.standard_normal((draws, part.shape[0], 1))
        )


class MatrixForm(SiteForm):
    r"""Sites that are any matrices W ``(n, C, C)``, each of which measures some directions.

    A site that does not see a common offset has C - 1 directions of its own, :math:`W_i = F_i \Omega_i F_i^T` with
    orthonormal columns and a diagonal matrix. Any omega may be zero, or negative.
    """

    stored_as = "site_matrix"

    @classmethod
    def unpack(cls, packed: Array, scale: Array) -> MatrixForm:
        """Return the sites."""
        entries = np.sinh(packed) / scale**2
        n_classes = round(0.5 + (2.0 * packed.shape[1] + 0.25) ** 0.5)
        row, column = np.triu_indices(n_classes, 1)
        site = np.zeros((packed.shape[0], n_classes, n_classes))
        site[:, row, column] = site[:, column, row] = entries
        return cls(_of_entries_between(site))

    def pack(self, scale: Array) -> Array:
        """Return the entries between classes: with their negative sums on the diagonal they are a site."""
        row, column = np.triu_indices(self.n_classes, 1)
        return np.asarray(np.arcsinh(scale**2 * self.numbers[:, row, column]))

    @property
    def precision(self) -> Array:
        """W ``(n, C, C)``."""
        return self.numbers

    @cached_property
    def directions(self) -> tuple[Array, Array]:
        """Omega ``(n, C - 1)`` and F ``(n, C, C - 1)``."""
        basis = contrast_basis(self.n_classes)
        omega, turned = np.linalg.eigh(basis.T @ self.numbers @ basis)
        return omega, basis @ turned

    @property
    def root(self) -> Array:
        """F |Omega|^(1/2) ``(n, C, C - 1)``."""
        omega, direction = self.directions
        return np.asarray(direction * np.sqrt(np.abs(omega))[:, None, :])

    @property
    def signs(self) -> Array:
        """The signs ``(n, C - 1)`` of omega."""
        return np.where(self.directions[0] < 0, -1.0, 1.0)

    def times(self, vectors: Array, block: slice = slice(None)) -> Array:
        """Return W v ``(..., k, C)``."""
        return np.asarray(np.einsum("icd,...id->...ic", self.numbers[block], vectors))

    def _in_directions(self, values: Array, block: slice = slice(None)) -> Array:
        """Return F diag(values) F' ``(k, C, C)`` of some cases."""
        direction = self.directions[1][block]
        return np.asarray((direction * values[:, None, :]) @ np.swapaxes(direction, 1, 2))

    def on_shared(self, own: Array) -> OnShared:
        """Return what the sites tell of shared parts, or raise a NotPositiveDefiniteError if that is no Gaussian."""
        share = 1.0 + own[:, None] * self.directions[0]
        if not np.all(share > 0):
            raise NotPositiveDefiniteError("a negative site says more than the prior of what is a case's own")
        carried = self._in_directions(1.0 / share) + 1.0 / self.n_classes
        return OnShared(self._in_directions(self.directions[0] / share), carried, float(np.sum(np.log(share))))

    def own_noise(self, block: slice, own: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return draws by symmetric square roots of d (I + d W)^-1."""
        share = 1.0 + own[:, None] * self.directions[0][block]
        root = self._in_directions(1.0 / np.sqrt(share), block) + 1.0 / self.n_classes
        scores = rng.standard_normal((draws, *root.shape[:2]))
        return np.asarray(np.sqrt(own)[:, None] * np.einsum("icd,kid->kic", root, scores))


def _of_entries_between(site: Array) -> Array:
    """Return sites ``(n, C, C)``, made in place of their entries between classes: rows sum to zero."""
    every = np.arange(site.shape[1])
    site[:, every, every] = 0.0
    site[:, every, every] = -np.sum(site, axis=2)
    return site


def site_form(likelihood: Any) -> type[SiteForm]:
    """Return the form that sites of a likelihood have."""
    return MatrixForm if likelihood.site_shape == "matrix" else StarForm


def match(likelihood: Any, t: Array, mean: Array, covariance: Array, **options: Any) -> CaseSites:
    """Return what labels ``t (n,)`` make of Gaussians ``(n, C)`` and ``(n, C, C)``; star sites take options."""
    if likelihood.site_shape == "matrix":
        log_partition, gradient, precision = likelihood.matrix_sites(t, mean, covariance)
        return CaseSites(log_partition, gradient, MatrixForm(precision))
    found = likelihood.star_sites(t, mean, covariance, **options)
    return CaseSites(found.log_partition, found.gradient, StarForm(found.weight), found.inner)
