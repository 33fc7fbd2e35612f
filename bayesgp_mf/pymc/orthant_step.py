"""A step method for latent values under a step likelihood, which samplers that follow gradients cannot see."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pymc.distributions.multivariate import MvNormal
from pymc.model import modelcontext
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator

from bayesgp_mf.diagnostics.orthant import MoveName, get_move
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.matrices.factors import cholesky
from bayesgp_mf.types import Array


class OrthantStep(BlockedStep):  # type: ignore[misc]
    r"""Step method for f ~ MvNormal(0, K) with labels as hard constraints, t_i f_i > 0: the step likelihood.

    Exact Hamiltonian Monte Carlo [2]_ or linear elliptical slice sampling [1]_, both without rejection;
    `diagnostics.orthant` has their equations. K is that of the variable's own distribution. It may depend on
    other variables of the model, which other step methods then sample given f.

    Parameters
    ----------
    vars : random variable
        The latent values, an ``MvNormal`` ``(n,)`` with mean zero. It needs an ``initval`` that satisfies the labels,
        such as ``t * np.sqrt(np.diag(K))``.
    t : (n,) array
        Labels -1/+1. The model must hold them too, as in the example: the step itself does not look at its likelihood.
    move : {"reflect", "slice"}
        "slice" is linear elliptical slice sampling, which moves little where there are many labels.
    model : pymc.Model, optional
        The model in context by default.
    rng : optional
        Source of randomness; ``pm.sample`` sets it.
    blocked : bool
        Must be True: latent values are drawn jointly.

    Raises
    ------
    ValueError
        If an argument is invalid, or, on sampling, if the start does not satisfy the labels.
    UndefinedQuantityError
        If the variable is no ``MvNormal`` with mean zero.
    NotPositiveDefiniteError
        On sampling, if K is singular.

    References
    ----------
    .. [1] Gessner, A., Kanjilal, O., & Hennig, P. (2020). Integrals over Gaussians under linear domain constraints.
       AISTATS, PMLR 108, 2764-2774. https://proceedings.mlr.press/v108/gessner20a.html
    .. [2] Pakman, A., & Paninski, L. (2014). Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians.
       Journal of Computational and Graphical Statistics 23, 518-542. https://doi.org/10.1080/10618600.2013.788448

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesgp_mf.pymc import OrthantStep
    >>> K, t = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, -1.0])
    >>> with pm.Model():
    ...     f = pm.MvNormal("f", mu=np.zeros(2), cov=K, initval=t * np.sqrt(np.diag(K)))
    ...     y = pm.Bernoulli("y", p=pm.math.switch(f > 0, 1.0, 0.0), observed=t > 0)
    ...     step = OrthantStep(f, t)
    ...     idata = pm.sample(200, tune=100, chains=2, cores=1, step=step, random_seed=1, progressbar=False, quiet=True)
    >>> bool((idata["posterior"]["f"] * t > 0).all())
    True
    """

    name = "orthant"
    default_blocked = True
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"moved": (np.float64, [])}
    _state_class = StepMethodState  # what changes while it samples: the random numbers alone

    def __init__(
        self, vars: Any, t: Any, *, move: MoveName = "reflect", model: Any = None, rng: Any = None, blocked: bool = True
    ) -> None:
        if not blocked:
            raise ValueError("blocked must be True: latent values are drawn jointly.")
        model = modelcontext(model)
        variables = list(vars) if isinstance(vars, list | tuple) else [vars]
        if len(variables) != 1:
            raise ValueError(f"vars must be one variable, got {len(variables)}. Give each its own step method.")
        variable = model.values_to_rvs.get(variables[0], variables[0])
        covariance, mean = _prior(variable)
        self.vars = [model.rvs_to_values[variable]]
        self._move = get_move(move)
        self.tune = False
        self.rng = get_random_generator(rng)
        self._name = self.vars[0].name
        self._labels = _labels(t, variable.type.shape)
        outputs = model.replace_rvs_by_values([covariance, mean])
        self._at = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore")
        self._covariance = self._factor = np.empty((0, 0))  # of t * f, and the factor of that of f; not yet known

    def step(self, point: dict[str, Array]) -> tuple[dict[str, Array], list[dict[str, Any]]]:
        """Return the next point, and how far it is away in standard deviations of the prior, on average."""
        self._refactor(point)
        y = self._labels * point[self._name]
        if not np.all(y > 0):
            raise ValueError(
                f"{self._name!r} must start with the signs of its labels, but {int(np.sum(y <= 0))} of {y.size} "
                "differ. Give the variable initval=t * np.sqrt(np.diag(K))."
            )
        w = self._labels * (self._factor @ self.rng.standard_normal(y.size))
        after = self._move(y, w, self._covariance, self.rng)
        moved = float(np.sqrt(np.mean((after - y) ** 2 / np.diag(self._covariance))))
        return {**point, self._name: self._labels * after}, [{"moved": moved}]

    def _refactor(self, point: dict[str, Array]) -> None:
        """Factorise the covariance at a point, if it is another one than before."""
        covariance, mean = self._at(point)
        if np.any(mean != 0):
            raise UndefinedQuantityError(f"OrthantStep needs a prior mean of zero, but that of {self._name!r} is not.")
        signed = self._labels[:, None] * covariance * self._labels
        if np.array_equal(signed, self._covariance):
            return
        self._covariance, self._factor = signed, cholesky(covariance)


def LinearEllipticalSlice(vars: Any, t: Any, **options: Any) -> OrthantStep:  # noqa: N802  (it stands among classes)
    """Return `OrthantStep` with linear elliptical slice sampling as its move (Gessner, Kanjilal & Hennig, 2020).

    Parameters
    ----------
    vars, t, **options
        Those of `OrthantStep` but ``move``.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesgp_mf.pymc import LinearEllipticalSlice
    >>> with pm.Model():
    ...     f = pm.MvNormal("f", mu=np.zeros(2), cov=np.eye(2), initval=np.array([1.0, -1.0]))
    ...     LinearEllipticalSlice(f, np.array([1.0, -1.0])).name
    'orthant'
    """
    return OrthantStep(vars, t, move="slice", **options)


def _prior(variable: Any) -> tuple[Any, Any]:
    """Return covariance and mean of a multivariate normal variable, as graphs."""
    node = variable.owner
    if node is None or not isinstance(node.op, MvNormal.rv_type) or variable.ndim != 1:
        raise UndefinedQuantityError(
            f"OrthantStep samples one vector from pm.MvNormal, and {variable.name!r} is something else. With "
            "pm.gp.Latent, use prior(..., reparameterize=False)."
        )
    mean, covariance = node.op.dist_params(node)
    return covariance, mean


def _labels(t: Any, shape: tuple[int | None, ...]) -> Array:
    labels = np.asarray(t, dtype=np.float64)
    if labels.ndim != 1 or shape[0] not in (None, labels.size) or not np.all(np.abs(labels) == 1.0):
        raise ValueError(f"t must hold labels -1 and +1, one for each of the {shape[0]} latent values, got {t!r}.")
    return labels
