r"""A prior mean, handed to a likelihood: solvers see deviations from it, whose prior mean is zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import optional
from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    r"""The likelihood of deviations g from a prior mean: :math:`p(t_i|f_i)` with :math:`f_i = \mu_i + g_i`.

    With :math:`g \sim N(0, K)` the values f have the prior :math:`N(\mu, K)`, and whatever a solver says of g (weights
    alpha, covariances, evidence) is said of f, but for the mean. For a Gaussian,

    .. math:: \int p(t_i|\mu_i + g)\, N(g|m, \lambda)\, dg = Z_i(\mu_i + m, \lambda).

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f); not one that forbids latent values, since data that contradict it are looked for around zero.
    offset : (n,) array
        The prior means of all n cases, in latent units and in the order of the targets.

    Raises
    ------
    UndefinedQuantityError
        If the likelihood forbids latent values (a step without flips).

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods.shifted import Shifted
    >>> likelihood = Shifted(bgp.Probit(), np.array([0.5, -1.0]))
    >>> solution = bgp.solve([[2.0, 1.0], [1.0, 2.0]], [1, -1], likelihood)
    >>> solution.alpha.round(4)  # what the labels add to the prior mean
    array([ 0.423 , -0.3403])
    """

    likelihood: Likelihood
    offset: Array
    forbids: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.likelihood.forbids:
            raise UndefinedQuantityError(
                "a prior mean goes with a likelihood that forbids no latent value, and a step without flips does. Give "
                "it noise: Probit(noise_variance=1.0) or Step(flip=0.05)."
            )

    @property
    def targets(self) -> Literal["binary", "real", "classes"]:
        """Those of the likelihood."""
        return self.likelihood.targets

    @property
    def log_concave(self) -> bool:
        """Whether the likelihood is: a shift changes nothing about it."""
        return self.likelihood.log_concave

    @property
    def unshifted(self) -> Likelihood:
        """The likelihood of the latent values themselves."""
        return self.likelihood

    @property
    def is_flat(self) -> bool:
        """Whether the likelihood is."""
        return optional.is_flat(self.likelihood)

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the likelihood."""
        return optional.parameters(self.likelihood)

    @property
    def tunable(self) -> Mapping[str, optional.Tunable]:
        """As the likelihood says."""
        return optional.tunable(self.likelihood)

    def with_parameters(self, **values: float) -> Shifted:
        """Return the likelihood with other parameters, shifted as much."""
        return replace(self, likelihood=optional.with_parameters(self.likelihood, values))

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in one of the parameters."""
        return optional.parameter_derivative(self.likelihood, name, t, self._shift(mean), variance)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t | offset + f), and its derivatives in f, ``(..., n)`` each."""
        return self.likelihood.log_prob(t, self._shift(f))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t | offset + f) N(f | mean, variance), and its derivatives in mean."""
        return self.likelihood.log_partition(t, self._shift(mean), variance)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition`, where the likelihood has a form of them."""
        return optional.closed_higher_derivatives(self.likelihood, t, self._shift(mean), variance, derivs)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array | None:
        """Return what `cumulants.tilted_cumulants` does, where the likelihood has a form of it."""
        return optional.closed_cumulants(self.likelihood, t, self._shift(mean), variance, order)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are none of the likelihood."""
        optional.check_targets(self.likelihood, name, t)

    def of_cases(self, which: NDArray[np.intp]) -> Shifted:
        """Return the likelihood of the deviations of some cases."""
        return Shifted(optional.of_cases(self.likelihood, which), self.offset[which])

    def tilted_values(self, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array] | None:
        """Return what `processes.tilted.tilted_values` does, where the likelihood has a form of it."""
        known = optional.closed_tilted_values(self.likelihood, t, self._shift(mean), variance, scores)
        return None if known is None else (known[0] - self.offset, known[1])

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return P(t = +1) of the n cases when f ~ N(offset + mean, variance)."""
        return self.likelihood.predict_proba(self._shift(mean), variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each of the values offset + f, ``(..., n)``."""
        return self.likelihood.sample(self._shift(f), rng)

    def to_dict(self) -> dict[str, Any]:
        """Raise: the offsets are those of certain cases, and say nothing about others."""
        raise UndefinedQuantityError(
            "a prior mean is known here at the training cases only, so that nothing could be predicted from a file. "
            "Use a mean_func in pymc.Marginal."
        )

    def _shift(self, f: Array) -> Array:
        if np.shape(f)[-1:] != self.offset.shape:
            raise ValueError(
                f"this likelihood has the prior means of {self.offset.size} cases, all of which must be asked for at "
                f"once and in order, got shape {np.shape(f)}. Online learning, and leaving cases out, ask otherwise."
            )
        return np.asarray(f + self.offset)
