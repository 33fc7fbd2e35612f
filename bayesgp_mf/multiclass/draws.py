r"""Joint draws of the latent values of several classes from a Gaussian posterior.

With all entries of the Gram matrix, without a matrix of C n rows: with :math:`K = A A^T`, u standard normal, and e
noise of the sites, :math:`\delta = u - A^T R (A u + e)` makes :math:`\hat f + A \delta` a draw, since the covariance of
:math:`A \delta` is :math:`K - 2 K R K + K R (K + \Omega) R K`.

On a root, :math:`f = L u + e` with the weights u of the features and what is a case's own, e. Weights are drawn by the
factor of their covariance. Given them :math:`e_i` has mean :math:`d_i [\alpha_i + W'_i L_i (E[u] - u)]` and the
covariance

.. math:: (I / d_i + W_i)^{-1} = \mathrm{diag}\Big(\frac{d_i}{1 + d_i w_i}\Big) + d_i^2 w'_i w_i'^T / s'_i ,

a sum, of which each part is drawn. Densities are those of the whitened values, u and :math:`e_i / \sqrt{d_i}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.linalg import block_diag

from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.factors import blocks, psd_root
from bayesgp_mf.matrices.matrix import factor_of_weights
from bayesgp_mf.matrices.root import Drawn, RootSampler
from bayesgp_mf.multiclass.correction import ClassCorrection, SoftmaxCorrection, times_gram
from bayesgp_mf.multiclass.low_rank import RootClassCorrection
from bayesgp_mf.types import Array

NewDraws: TypeAlias = Callable[[int, np.random.Generator], Array]
"""Returns so many joint draws ``(draws, m, C)`` of new cases."""


class ClassSampler(Protocol):
    """Draws from one posterior of several classes."""

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws ``(draws, n, C)`` of the training cases, with their densities."""

    def at_new(self, features: Array, new: Array) -> NewDraws:
        """Return what draws new cases, from their features and their prior covariance ``(m, m)``, or of each class."""


class DenseClassSampler:
    """Draws by roots of the Gram matrix ``(n, n)``, or of that of each class; see the module."""

    def __init__(self, gram: Array, alpha: Array, correction: SoftmaxCorrection) -> None:
        self._gram, self._alpha, self._correction = gram, alpha, correction

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        roots, correction = _roots(self._gram, self._alpha.shape[1]), self._correction
        sizes = [root.shape[1] for root in roots]
        constant = 0.5 * sum(sizes) * np.log(2.0 * np.pi)
        u = [rng.standard_normal((draws, size)) for size in sizes]
        pull = self._pull(_times_roots(u, roots), rng)
        for c, root in enumerate(roots):
            u[c] -= pull[..., c] @ root
        moved = _times_roots(u, roots)
        own = sum(np.sum(part**2, axis=1) for part in u)
        sites = np.einsum("kic,icd,kid->k", moved, correction.site.precision, moved, optimize=True)
        log_density = 0.5 * correction.log_det - 0.5 * (own + sites) - constant
        white = [root.T @ self._alpha[:, c] for c, root in enumerate(roots)]
        prior = sum(np.sum((part + mean) ** 2, axis=1) for part, mean in zip(u, white, strict=True))
        return Drawn(times_gram(self._alpha, self._gram) + moved, -0.5 * prior - constant, log_density)

    def at_new(self, features: Array, new: Array) -> NewDraws:
        """Return what draws new cases: prior draws at both kinds of cases together are carried to the posterior."""
        n, n_classes = self._alpha.shape
        roots, mean = _roots(_joined(self._gram, features, new), n_classes), times_gram(self._alpha, features)

        def draw(draws: int, rng: np.random.Generator) -> Array:
            u = [rng.standard_normal((draws, root.shape[1])) for root in roots]
            prior = _times_roots(u, roots)
            return np.asarray(mean + prior[:, n:] - times_gram(self._pull(prior[:, :n], rng), features))

        return draw

    def _pull(self, prior: Array, rng: np.random.Generator) -> Array:
        """Return R (f + e) ``(draws, n, C)`` for prior draws f and noise e of the sites."""
        return self._correction.multiply(prior) + self._correction.noise(rng.standard_normal(prior.shape))


class RootClassSampler:
    """Draws by roots of the Gram matrices, under sites of any kind: there need be no noise that they are."""

    def __init__(self, gram: Array, alpha: Array, correction: ClassCorrection) -> None:
        self._gram, self._alpha, self._precision = gram, alpha, correction.site.precision

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        n, n_classes = self._alpha.shape
        roots = block_diag(*_roots(self._gram, n_classes))
        found = RootSampler(roots, self._factor(roots), roots.T @ self._alpha.T.ravel()).draw(draws, rng)
        return found._replace(f=np.moveaxis(found.f.reshape(draws, n_classes, n), 1, 2))

    def at_new(self, features: Array, new: Array) -> NewDraws:
        """Return what draws new cases: the weights of roots of both kinds of cases together are drawn."""
        n, n_classes = self._alpha.shape
        roots, mean = _roots(_joined(self._gram, features, new), n_classes), times_gram(self._alpha, features)
        known, unknown = (block_diag(*(root[rows] for root in roots)) for rows in (slice(n), slice(n, None)))
        through = unknown @ self._factor(known)

        def draw(draws: int, rng: np.random.Generator) -> Array:
            f = rng.standard_normal((draws, through.shape[1])) @ through.T
            return np.asarray(mean + np.moveaxis(f.reshape(draws, n_classes, -1), 1, 2))

        return draw

    def _factor(self, roots: Array) -> Array:
        """Return the lower triangular C with C C' = (I + A'WA)^-1, the covariance of the weights of ``A (C n, r)``."""
        n, n_classes = self._alpha.shape
        by_class = roots.reshape(n_classes, n, -1)
        weighted = np.einsum("icd,dir->cir", self._precision, by_class).reshape(roots.shape)
        return factor_of_weights(roots.T @ weighted)


class LowRankClassSampler:
    """Draws on a Gram matrix L L' + diag(d) that all classes share; see the module.

    Parameters
    ----------
    gram : LowRankGram or InducingGram
        K.
    alpha : (n, C) array
        Weights of the posterior mean.
    mean : (M, C) array
        L' alpha, the mean of the weights of the features.
    correction : RootClassCorrection
        R.
    """

    def __init__(self, gram: Any, alpha: Array, mean: Array, correction: RootClassCorrection) -> None:
        self._gram, self._alpha, self._mean, self._correction = gram, alpha, mean, correction
        self._basis = contrast_basis(alpha.shape[1])

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        gram, correction = self._gram, self._correction
        n, n_classes = self._alpha.shape
        u, square_noise = self._weights(draws, rng)
        square = np.sum(u**2, axis=(1, 2))
        f = np.empty((draws, n, n_classes))
        for block in blocks(n):
            own, root = gram.own[block], np.asarray(gram.root[block], dtype=np.float64)
            shared = np.moveaxis(np.tensordot(u, root, axes=(1, 1)), 1, 2)  # (draws, k, C)
            away = root @ self._mean - shared
            mean = own[:, None] * (self._alpha[block] + correction.shared_times(block, away))
            noise = correction.site.own_noise(block, own, draws, rng)
            uncertain = own > 0
            square += np.sum((mean + noise)[:, uncertain] ** 2 / own[uncertain, None], axis=(1, 2))
            square_noise += np.sum(noise * correction.site.times(noise, block), axis=(1, 2))
            square_noise += np.sum(noise[:, uncertain] ** 2 / own[uncertain, None], axis=(1, 2))
            f[:, block] = shared + mean + noise
        size = n_classes * (self._mean.shape[0] + np.count_nonzero(gram.own))
        constant = 0.5 * size * np.log(2.0 * np.pi)
        return Drawn(f, -0.5 * square - constant, 0.5 * correction.log_det - 0.5 * square_noise - constant)

    def at_new(self, features: Array, new: Array) -> NewDraws:
        """Return what draws new cases: by the weights, and by what these do not explain of their covariance."""
        rest = psd_root(new - features.T @ features)

        def draw(draws: int, rng: np.random.Generator) -> Array:
            u, _ = self._weights(draws, rng)
            shared = (
                np.tensordot(u, features, axes=(1, 0))
                + rng.standard_normal((draws, u.shape[2], rest.shape[1])) @ rest.T
            )
            return np.moveaxis(shared, 1, 2)

        return draw

    def _weights(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return weights ``(draws, M, C)``, and the sums ``(draws,)`` of the squares of the noise that made them."""
        rank, n_classes = self._mean.shape
        common = rng.standard_normal((draws, rank, 1))
        noise = rng.standard_normal((draws, rank * (n_classes - 1)))
        contrasts = (noise @ self._correction.inverse_factor).reshape(draws, n_classes - 1, rank)
        u = self._mean + common / np.sqrt(n_classes) + np.moveaxis(contrasts, 1, 2) @ self._basis.T
        return u, np.sum(noise**2, axis=1) + np.sum(common**2, axis=(1, 2))


def _roots(gram: Array, n_classes: int) -> list[Array]:
    """Return A with A A' = K of each class, which may be that of all."""
    return [psd_root(gram)] * n_classes if gram.ndim == 2 else [psd_root(of_one) for of_one in gram]


def _times_roots(u: list[Array], roots: list[Array]) -> Array:
    """Return A_c u_c ``(draws, n, C)`` for ``u_c (draws, r)``."""
    return np.stack([part @ root.T for part, root in zip(u, roots, strict=True)], axis=-1)


def _joined(gram: Array, cross: Array, new: Array) -> Array:
    """Return the prior covariance of training and new cases together, of all classes or of each."""
    upper = np.concatenate([gram, cross], axis=-1)
    lower = np.concatenate([np.swapaxes(cross, -1, -2), new], axis=-1)
    return np.concatenate([upper, lower], axis=-2)
