r"""Several classes in a stream: a latent value for each, of which a label tells their contrasts and no more.

The C functions of the classes are independent under one prior, and a label does not see what they have in common. With
an orthonormal basis H ``(C, C - 1)`` of the contrasts the stream keeps :math:`g = H^T f`, C - 1 functions that are
independent under the same prior, and made dependent by the past; the common part of f stays as the prior has it. The
site W ``(C, C)`` of a label (`likelihoods.star`) is :math:`H^T W H` in the contrasts, which
loses nothing.

A batch is a problem of several classes whose prior is the posterior so far. Of each value the basis explains a part
:math:`\phi^T v`, and what is left is noise d of the case's own, the same in all contrasts: with
:math:`c = (I + d\,H^T W H)^{-1}`, of the part that the basis explains a label tells :math:`c\,H^T W H`, and
:math:`c\,\Sigma c + d\,c` is the posterior covariance of all contrasts where :math:`\Sigma` is that of this part. A
batch of few cases finds it from their own covariances, one of many from those of the basis: the fewer numbers, the less
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, qr

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.matrices.matrix import Matrix, Sites
from bayesgp_mf.multiclass.site_form import OnShared, SiteForm
from bayesgp_mf.multiclass.star_tap import star_tap
from bayesgp_mf.streams.factor import Factor
from bayesgp_mf.streams.values import Cases, NaturalParameters, Values
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False)
class ClassValues(Values):
    """A latent value for each of C classes.

    Attributes
    ----------
    likelihood : ClassLikelihood
        Which names its classes, and makes sites of star form.
    """

    likelihood: Any

    @property
    def outputs(self) -> int:
        """A function for each contrast."""
        return int(self.likelihood.n_classes) - 1

    @cached_property
    def basis(self) -> Array:
        """H ``(C, C - 1)``."""
        return contrast_basis(self.outputs + 1)

    def gaussian(self, cases: Cases) -> tuple[Array, Array]:
        """Return means ``(m, C)`` and covariances ``(m, C, C)``."""
        own = cases.own[:, None, None] * np.eye(self.outputs)
        common = (cases.prior / (self.outputs + 1))[:, None, None]
        return cases.mean @ self.basis.T, self.basis @ (cases.covariance + own) @ self.basis.T + common

    def marginals(self, cases: Cases) -> tuple[Array, Array]:
        """Return means and variances ``(m, C)``."""
        mean, covariance = self.gaussian(cases)
        return mean, np.array(np.diagonal(covariance, axis1=1, axis2=2))

    def log_density(self, cases: Cases, t: Array) -> Array:
        """Return the log probability ``(m,)`` of labels."""
        log_density: Array = self.likelihood.predictions(t, *self.gaussian(cases))[0]
        return log_density

    def natural_parameters(self, factor: Factor, cases: Cases, t: Array, control: Control) -> NaturalParameters:
        """Return what labels tell of the contrasts."""
        batch = _Batch(factor, cases, self.basis)
        problem = Problem(batch, t, self.likelihood, covariance=True)
        sites, shift = star_tap.sites(problem, control, cases.mean @ self.basis.T)
        # of deviations from the mean so far; the factor holds what is told of the functions themselves
        return NaturalParameters(
            sites.effective_precision,
            sites.measured(shift) + np.einsum("mab,mb->ma", sites.effective_precision, cases.mean),
        )

    def _of_functions(self, values: Array, root: Callable[[], Array], rng: np.random.Generator) -> Array:
        """Return the functions of the classes ``(..., m, C)``."""
        L = root()
        common = rng.standard_normal((*values.shape[:-2], L.shape[1])) @ L.T / np.sqrt(self.outputs + 1)
        return np.asarray(values @ self.basis.T + common[..., None])


@dataclass(frozen=True, eq=False)
class _Batch(Matrix):
    """The prior of the deviations of a batch from their means so far: what TAP for several classes asks of it."""

    factor: Factor
    cases: Cases
    directions: Array  # of the contrasts (C, q)

    form = "stream"

    @property
    def description(self) -> str:
        """What it is, to be said of a failure."""
        return " in a batch of a stream"

    @property
    def of_classes(self) -> _Batch:
        """It has the verbs of `multiclass.class_gram` that TAP asks for."""
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Cases, twice."""
        return self.cases.own.size, self.cases.own.size

    def diagonal(self) -> Array:
        """Return the variances ``(m, C)`` of what the classes do not have in common."""
        return self.prior

    def __matmul__(self, vector: Array) -> Array:
        return self.times(vector)

    @cached_property
    def prior(self) -> Array:
        """The variances ``(m, C)`` of what the classes do not have in common."""
        inner = self.cases.covariance + self.cases.own[:, None, None] * np.eye(self.directions.shape[1])
        return np.asarray(np.einsum("ca,mab,cb->mc", self.directions, inner, self.directions, optimize=True))

    def times(self, values: Array) -> Array:
        """Return K v ``(m, C)``."""
        contrasts = values @ self.directions
        return np.asarray((self._before.means(contrasts) + self.cases.own[:, None] * contrasts) @ self.directions.T)

    @cached_property
    def _before(self) -> _OnBasis | _OnCases:
        """What the past says of the parts that the basis explains."""
        return self.under(None)

    def under(self, precision: Array | None) -> _OnBasis | _OnCases:
        """Return what is known of these parts when labels tell ``(m, q, q)`` of them, in fewer numbers."""
        if 2 * self.cases.own.size <= self.factor.size:
            return _OnCases(self._root, precision)
        features = self.cases.features
        if precision is None:
            return _OnBasis(self.factor, features)
        return _OnBasis(self.factor.with_sites(features, precision, np.zeros(precision.shape[:2])), features)

    @cached_property
    def _root(self) -> Array:
        """C ``(m q, m q)`` with C C' the covariance of these parts of all cases."""
        (m, q), T = self.cases.mean.shape, self.factor.inverse_factor
        projected = np.empty((T.shape[0], m, q))
        for a in range(q):
            projected[:, :, a] = T[:, a::q] @ self.cases.features
        return np.asarray(qr(projected.reshape(-1, m * q), mode="r")[0][: m * q].T)

    def sites(self, precision: Array) -> Sites:
        """Raise: its sites are those of several classes."""
        raise NotImplementedError("sites of a batch of several classes are made by correction(site).")

    def correction(self, site: SiteForm) -> _Sites:
        """Return the posterior under sites."""
        return _Sites(self, site)


@dataclass(frozen=True, eq=False)
class _Sites:
    """Sites of a batch, and the posterior under them: what TAP for several classes asks of a correction."""

    batch: _Batch
    site: SiteForm

    @cached_property
    def _on_shared(self) -> OnShared:
        return self.site.on_shared(self.batch.cases.own)

    def _in_contrasts(self, matrices: Array) -> Array:
        return np.asarray(self.batch.directions.T @ matrices @ self.batch.directions)

    @cached_property
    def effective_precision(self) -> Array:
        """What is told of phi'v, ``(m, q, q)``."""
        return self._in_contrasts(self._on_shared.precision)

    @cached_property
    def after(self) -> _OnBasis | _OnCases:
        """What is known of the parts that the basis explains."""
        return self.batch.under(self.effective_precision)

    def covariances(self) -> Array:
        """Return the posterior covariances ``(m, C, C)``, of what the classes do not have in common."""
        carried = self._in_contrasts(self._on_shared.carried)
        inner = carried @ self.after.covariances() @ carried + self.batch.cases.own[:, None, None] * carried
        return np.asarray(self.batch.directions @ inner @ self.batch.directions.T)

    def measured(self, shift: Array) -> Array:
        """Return (I + D W)^-1 b ``(m, q)`` in contrasts, for shifts ``b (m, C)``, which sum to zero."""
        return np.asarray(np.einsum("mcd,md->mc", self._on_shared.carried, shift) @ self.batch.directions)

    def weights(self, shift: Array) -> Array:
        """Return alpha = b - W K alpha ``(m, C)`` under shifts ``b (m, C)``."""
        measured = self.measured(shift)
        known = np.einsum("mab,mb->ma", self.effective_precision, self.after.means(measured))
        return np.asarray((measured - known) @ self.batch.directions.T)


@dataclass(frozen=True, eq=False)
class _OnBasis:
    """Covariance of phi'v of a batch, from that of v: for batches of many cases."""

    factor: Factor
    features: Array

    def covariances(self) -> Array:
        """Return those of each case ``(m, q, q)``."""
        return self.factor.moments(self.features)[1]

    def means(self, shift: Array) -> Array:
        """Return its product ``(m, q)`` with shifts: the means under these alone."""
        seen, T = (self.features @ shift).ravel(), self.factor.inverse_factor
        return np.asarray(self.features.T @ (T.T @ (T @ seen)).reshape(self.factor.size, -1))


@dataclass(frozen=True, eq=False)
class _OnCases:
    """The same from a root C ``(m q, m q)`` of what it was before labels told W of it: for batches of few cases."""

    root: Array
    effective_precision: Array | None

    @cached_property
    def half(self) -> Array:
        """H ``(m q, m q)`` with the covariance H'H, which is C (I + C' W C)^-1 C'."""
        if self.effective_precision is None:
            return self.root.T
        m, q, _ = self.effective_precision.shape
        inner = self.root.T @ (self.effective_precision @ self.root.reshape(m, q, -1)).reshape(m * q, -1)
        inner.ravel()[:: m * q + 1] += 1.0
        inverse = triangular_inverse(cholesky(np.asfortranarray(inner)))
        return np.asarray(blas.dtrmm(1.0, inverse, self.root.T, lower=1))

    def covariances(self) -> Array:
        """Return those of each case ``(m, q, q)``."""
        assert self.effective_precision is not None
        each = self.half.reshape(-1, *self.effective_precision.shape[:2])
        return np.asarray(np.einsum("rma,rmb->mab", each, each, optimize=True))

    def means(self, shift: Array) -> Array:
        """Return its product ``(m, q)`` with shifts."""
        return np.asarray((self.half.T @ (self.half @ shift.ravel())).reshape(shift.shape))
