r"""The joint density of hyperparameters and latent values, with nothing integrated out, as a sampler of PyMC sees it.

With a root B B' = K of the Gram matrix, latent values are :math:`f = B u` with white u in the prior. In the posterior u
is neither white nor near zero, which is slow to sample. Any approximation acts as if each case was measured, with
precisions W and shifts nu (`matrices.matrix`):

.. math:: R = (K + W^{-1})^{-1}, \qquad \alpha = \nu - W K \alpha .

Under these sites, whatever K is, u has the precision :math:`P = I + B^T W B = C C^T` and the mean
:math:`P^{-1} B^T \nu`. So what is sampled is z with :math:`u = C^{-T}(C^{-1} B^T \nu + z)`: nearly white, and nearly
independent of the hyperparameters, if the approximation is good. It is a change of variables, whose determinant is
known: the posterior of f does not depend on the sites, only the time that it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from scipy.linalg import block_diag
from scipy.special import expit

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.diagnostics.importance import mean_and_error
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.hyper import Target
from bayesgp_mf.hyper.strategy import Advance
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.factors import cholesky, lapack_routine, psd_root
from bayesgp_mf.processes.process import Part
from bayesgp_mf.pymc.nuts import Chains, LogTarget
from bayesgp_mf.pymc.orthant_step import OrthantStep
from bayesgp_mf.types import Array

JITTER = 1e-8
"""Noise in the prior of the latent values, relative to their mean variance, where the root is a function of random
hyperparameters: a Cholesky factor, which singular matrices have none of. At fixed ones nothing is added."""
ROUNDING = 1e-8
"""A conditional variance may fall below zero by this part of the prior variance."""
DIAGONAL = 1e-10
"""Part of the largest site beside which entries off the diagonal are rounding."""
BRIDGED, STEPS = 1e-10, 1000
"""Change of a log evidence in nats at which it is found, and after how many changes it would be anyway."""


class Point(NamedTuple):
    """What there is at one setting of the hyperparameters."""

    model: Model
    roots: list[Array]  # of each class
    root: Array  # B (q n, r), those of all classes along its diagonal
    scaled: Array  # W B (q n, r)
    factor: Array  # C (r, r)
    centre: Array  # C^-1 B' nu (r,)


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint density of the free logarithms of hyperparameters ``(p,)`` and of z ``(r,)``, in one vector.

    Parameters
    ----------
    X, t : (n, d) and (n,) array
        Cases.
    model : Model
        Kernel and likelihood where nothing is random.
    random : Target or None
        What is known of the hyperparameters; None where they are those of the model.
    precision, shift : (q n, q n) and (q n,) array
        W and nu, with the q classes one after the other.
    """

    X: Array
    t: Array
    model: Model
    random: Target | None
    precision: Array
    shift: Array

    @classmethod
    def of(cls, part: Part, random: Target | None) -> Joint:
        """Return the density of the model of a posterior at one setting, or about it where ``random`` is given."""
        likelihood, solution = part.problem.likelihood, part.solution
        model = Model.of(part.kernel, likelihood) if random is None else random.model
        alpha = solution.alpha.T.ravel()
        precision, shift = np.zeros((alpha.size, alpha.size)), np.zeros(alpha.size)
        if not likelihood.forbids:  # of a step f itself is sampled
            gram = block_diag(*as_each(part.kernel.gram(part.X), likelihood.n_classes or 1))
            correction = solution.correction.dense().reshape(gram.shape)
            values, vectors = np.linalg.eigh(
                _symmetric(np.linalg.solve(np.eye(alpha.size) - correction @ gram, correction))
            )
            precision = (vectors * np.maximum(values, 0.0)) @ vectors.T  # W of outliers is negative, and P must not be
            shift = alpha + precision @ (gram @ alpha)
        return cls(part.X, part.problem.t, model, random, precision, shift)

    @property
    def p(self) -> int:
        """How many hyperparameters are sampled."""
        return 0 if self.random is None else self.random.start.size

    @cached_property
    def start(self) -> Array:
        """The hyperparameters of the model, and z = 0."""
        return self._beside(None if self.random is None else self.random.free_logarithms(self.model), 0.0)

    @cached_property
    def lower(self) -> Array:
        """Lowest values; z has none."""
        return self._beside(None if self.random is None else self.random.lower, -np.inf)

    @cached_property
    def upper(self) -> Array:
        """Highest values."""
        return self._beside(None if self.random is None else self.random.upper, np.inf)

    def _beside(self, of_parameters: Array | None, of_z: float) -> Array:
        return np.append(
            np.empty(0) if of_parameters is None else of_parameters, np.full(self._at_model.centre.size, of_z)
        )

    @cached_property
    def _at_model(self) -> Point:
        return self._point(self.model)

    def _point(self, model: Model) -> Point:
        each = as_each(model.kernel.gram(self.X), self.model.likelihood.n_classes or 1)
        if self.random is None:
            roots = [psd_root(np.asfortranarray(gram)) for gram in each]
        else:
            roots = [cholesky(gram + JITTER * np.mean(np.diag(gram)) * np.eye(len(gram))) for gram in each]
        root = roots[0] if len(roots) == 1 else block_diag(*roots)
        scaled = self.precision @ root if self._of_each is None else self._of_each[:, None] * root
        inner = np.asfortranarray(root.T @ scaled)
        inner[np.diag_indices_from(inner)] += 1.0
        factor = cholesky(inner)
        return Point(model, roots, root, scaled, factor, _solve(factor, root.T @ self.shift))

    @cached_property
    def _of_each(self) -> Array | None:
        """W of each case ``(q n,)`` where it is diagonal to rounding, so that products with it take no time."""
        diagonal = np.diag(self.precision)
        beside = np.abs(self.precision - np.diag(diagonal)).max()
        return diagonal.copy() if beside <= DIAGONAL * diagonal.max() else None

    def at(self, x: Array) -> tuple[Point, Array, Array]:
        """Return what there is at a point, u, and the latent values ``(n,)`` or ``(n, C)``."""
        point = self._at_model if self.random is None else self._point(self.random.model_at(x[: self.p]))
        u = _solve(point.factor, point.centre + x[self.p :], trans=True)
        f = (point.root @ u).reshape(-1, len(self.t)).T
        return point, u, f if point.model.likelihood.has_classes else f[:, 0]

    def __call__(self, x: Array) -> tuple[float, Array] | None:
        """Return the log density, without the constants of normal densities, with its gradient.

        None where there is none: hyperparameters that the likelihood does not take, or a prior that overflows.
        """
        if self.random is not None and not self.random.allows(x[: self.p]):
            return None
        with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
            try:
                point, u, f = self.at(x)
            except NotPositiveDefiniteError:
                return None
            value, d1, _ = point.model.likelihood.log_prob(self.t, f)
            slope = d1.T.ravel()
            u_bar = point.root.T @ slope - u
            gradient = _solve(point.factor, u_bar)
            total = float(np.sum(value) - 0.5 * u @ u - np.sum(np.log(np.diag(point.factor))))
            if self.random is not None:
                prior, of_prior = self.random.log_prior(x[: self.p])
                of_rest = self._of_hyperparameters(self.random, point, u, f, slope, gradient)
                total, gradient = total + prior, np.append(of_prior + of_rest, gradient)
        return (total, gradient) if np.isfinite(total) and np.all(np.isfinite(gradient)) else None

    def _of_hyperparameters(
        self, random: Target, point: Point, u: Array, f: Array, slope: Array, v_bar: Array
    ) -> Array:
        """Return the derivative ``(p,)`` in the free logarithms at fixed z, but that of the prior.

        ``slope`` is the derivative in f, and ``v_bar`` that in z, which determine all others.
        """
        model, roots, _, scaled, factor, centre = point
        b_bar = _solve(factor, v_bar, trans=True)
        # that in C is -u v' - b c' less the inverse of its diagonal, and C' times the last is one there, and zero below
        inner = np.outer(u @ factor, -v_bar) - np.outer(b_bar @ factor, centre)
        inner[np.diag_indices_from(inner)] -= 1.0
        root_bar = np.outer(slope, u) + np.outer(self.shift, b_bar)
        root_bar += 2.0 * (scaled @ gram_derivative(factor, inner))
        n, eye = len(self.t), np.eye(len(self.t))
        each = (root_bar[c * n : (c + 1) * n, c * n : (c + 1) * n] for c in range(len(roots)))
        bars = np.array([gram_derivative(own, own.T @ bar) for own, bar in zip(roots, each, strict=True)])
        bars += JITTER * (np.trace(bars, axis1=1, axis2=2) / n)[:, None, None] * eye
        gram_bar = bars if model.kernel.per_class else bars.sum(axis=0)
        none = np.zeros((*f.shape, *f.shape[1:]))
        of_likelihood = {
            own: float(np.sum(model.likelihood.parameter_derivative(own, self.t, f, none).value))
            for own in random.free_of_likelihood.values()
        }
        return random.pull_back(model, DenseGram(gram_bar), gram_bar, of_likelihood)

    def new(self, point: Point, X_new: Array) -> tuple[list[Any], Array]:
        """Return for new cases the weights ``(r, m)`` of u of each class, of which the mean is, and variances (C, m).

        A root of full column rank has one solution of A w = k(x), and nothing of k(x) remains.
        """
        kernel, count = point.model.kernel, len(point.roots)
        crosses = as_each(kernel.cross(self.X, X_new), count)
        if self.random is None:
            weights = [np.linalg.lstsq(root, k, rcond=None)[0] for root, k in zip(point.roots, crosses, strict=True)]
        else:
            weights = [_solve(root, k) for root, k in zip(point.roots, crosses, strict=True)]
        prior = np.array(np.broadcast_to(kernel.diag(X_new), (count, len(X_new))))
        variance = prior - np.array([np.sum(w**2, axis=0) for w in weights])
        if np.any(variance < -ROUNDING * prior):
            raise ArithmeticError(
                f"a conditional variance came out as {variance.min():.3g}, below zero beyond rounding."
            )
        return weights, np.asarray(np.maximum(variance, 0.0))

    def log_evidence(self, draws: Array, rng: np.random.Generator) -> tuple[float, float]:
        """Return the log evidence at fixed hyperparameters, and its standard error, from draws ``(chains, draws, r)``.

        By bridge sampling (Meng & Wong, 1996) between them and as many independent normal z.
        """
        new = rng.standard_normal((draws.shape[0] * draws.shape[1], draws.shape[2]))
        of_draws, of_new = (np.array([self._log_ratio(z) for z in each]) for each in (draws.reshape(new.shape), new))
        value = float(np.median(of_draws))
        for _ in range(STEPS):
            above, below = expit(of_new - value), expit(value - of_draws)
            change = float(np.log(np.mean(above)) - np.log(np.mean(below)))
            value += change
            if abs(change) < BRIDGED:
                break
        relative = np.std(above) / np.sqrt(above.size) / np.mean(above)
        if np.ptp(below) > BRIDGED:  # else the posterior is Gaussian, and nothing is random
            chains = xr.DataArray(below.reshape(draws.shape[:2]), dims=SAMPLE_DIMS)
            relative = np.hypot(relative, mean_and_error(chains)[1] / np.mean(below))
        return value, float(relative)

    def _log_ratio(self, z: Array) -> float:
        """Return the log of the joint density of z and the targets, relative to that of white z."""
        found = self(z)
        return -np.inf if found is None else found[0] + 0.5 * float(z @ z)


def as_each(grams: Array, n_classes: int) -> list[Array]:
    """Return a matrix for each class, from one that all share, or from those of all."""
    return list(grams) if grams.ndim == 3 else [grams] * n_classes


def _symmetric(matrix: Array) -> Array:
    return np.asarray(0.5 * (matrix + matrix.T))


def gram_derivative(factor: Array, inner: Array) -> Array:
    r"""Return the derivative ``(n, n)`` in a matrix, given the transpose of its Cholesky factor times that in it.

    .. math:: L^{-T} \Phi(L^T \bar L) L^{-1},

    made symmetric, where Phi keeps the lower triangle and half of the diagonal.
    """
    inner = np.tril(inner)
    inner[np.diag_indices_from(inner)] *= 0.5
    half = _solve(factor, inner, trans=True)
    return _symmetric(_solve(factor, half.T, trans=True))


def _solve(lower: Array, rows: Array, *, trans: bool = False) -> Array:
    """Return L^-1 or L^-T times rows ``(n, ...)``, for a triangle that a Cholesky factorisation made."""
    return np.asarray(lapack_routine("trtrs", lower)(lower, rows, lower=1, trans=int(trans))[0])


class LogJoint(LogTarget):
    """A joint density as an operation of PyTensor."""

    def _answer(self, x: Array) -> tuple[float, Array] | None:
        joint: Joint = self.target
        return joint(x)


@dataclass(frozen=True, slots=True)
class StepSampling:
    """How chains are run where the likelihood is a step: f itself is a variable, and `OrthantStep` moves it."""

    joint: Joint
    draws: int
    tune: int

    def run(self, seed: int, advance: Advance) -> Chains:
        """Run a chain; its draws are of z, which is u."""
        joint = self.joint
        gram, t = joint.model.kernel.gram(joint.X), joint.t
        with pm.Model():
            f = pm.MvNormal("f", mu=np.zeros(len(t)), cov=gram, initval=t * np.sqrt(np.diag(gram)))
            given = {"tune": self.tune, "chains": 1, "cores": 1, "random_seed": seed, "progressbar": False}
            idata = pm.sample(self.draws, step=OrthantStep(f, t), quiet=True, compute_convergence_checks=False, **given)
        drawn = get_group(idata, "posterior")["f"].values
        if drawn.shape[1] != self.draws:  # interrupted, PyMC returns what it has
            raise KeyboardInterrupt
        none = np.zeros(drawn.shape[:2], dtype=np.int64)
        return Chains(np.linalg.solve(psd_root(np.asfortranarray(gram)), drawn[0].T).T[None], none > 0, none, 0, 0)
