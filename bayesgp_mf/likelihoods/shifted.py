r"""What is added to latent values, handed to a likelihood: a prior mean (solvers see deviations), or an offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Likelihood, Tunable
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True, eq=False)
class Shifted(Likelihood):
    r"""The likelihood of deviations g from a prior mean: :math:`p(t_i|f_i)` with :math:`f_i = \mu_i + g_i`.

    With :math:`g \sim N(0, K)` the values f have the prior :math:`N(\mu, K)`, and whatever a solver says of g (weights
    alpha, covariances, evidence) is said of f, but for the mean. For a Gaussian,

    .. math:: \int p(t_i|\mu_i + g)\, N(g|m, \lambda)\, dg = Z_i(\mu_i + m, \lambda).

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f); not one that forbids latent values, since data that contradict it are looked for around zero.
    offset : (n,) array
        What is added for all n cases, in latent units and in the order of the targets.
    of_prior : bool
        Whether these are prior means: then what a posterior calls latent values are f. Else they are offsets, such as
        the log of an exposure: known for each case, they belong to its target, and the latent values are g.

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
    of_prior: bool = True
    forbids: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.likelihood.forbids:
            raise UndefinedQuantityError(
                f"{'a prior mean' if self.of_prior else 'an offset'} goes with a likelihood that forbids no latent "
                "value, and a step without flips does. Give it noise: Probit(noise_variance=1.0) or Step(flip=0.05)."
            )
        size = np.abs(self.offset)
        if not self.of_prior and np.any(size > self.likelihood.largest_offset):
            raise ValueError(
                f"offset must be between -{self.likelihood.largest_offset:g} and as much above zero for "
                f"{type(self.of_one_case).__name__}, got {self.offset[np.argmax(size)]:g} at index "
                f"{int(np.argmax(size))}. It is added to the latent value: of an exposure pass the logarithm."
            )
        if self.has_classes:
            raise UndefinedQuantityError(
                "an offset goes with one latent value for each case, and there is one for each class. Leave it out."
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
        """The likelihood of what a posterior calls latent values."""
        return self.likelihood if self.of_prior else self

    @property
    def of_one_case(self) -> Likelihood:
        """The likelihood without what is added."""
        return self.likelihood.of_one_case

    @property
    def stored_by_case(self) -> dict[str, Array]:
        """What a container holds of each case; nothing of a prior mean, which is a function of the inputs."""
        return self.likelihood.stored_by_case | ({} if self.of_prior else {"offset": self.offset})

    @property
    def is_flat(self) -> bool:
        """Whether the likelihood is."""
        return self.likelihood.is_flat

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the likelihood."""
        return self.likelihood.parameters

    @property
    def tunable(self) -> Mapping[str, Tunable]:
        """As the likelihood says."""
        return self.likelihood.tunables

    def with_parameters(self, **values: float) -> Shifted:
        """Return the likelihood with other parameters, shifted as much."""
        return replace(self, likelihood=self.likelihood.with_parameters(**values))

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in one of the parameters."""
        return self.likelihood.parameter_derivative(name, t, self._shift(mean), variance)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t | offset + f), and its derivatives in f, ``(..., n)`` each."""
        return self.likelihood.log_prob(t, self._shift(f))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t | offset + f) N(f | mean, variance), and its derivatives in mean."""
        return self.likelihood.log_partition(t, self._shift(mean), variance)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition`, where the likelihood has a form of them."""
        return self.likelihood.higher_derivatives(t, self._shift(mean), variance, derivs)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array | None:
        """Return what `cumulants.tilted_cumulants` does, where the likelihood has a form of it."""
        return self.likelihood.tilted_cumulants(t, self._shift(mean), variance, order)

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return what `Likelihood.tilted_share` does, where the likelihood knows it."""
        return self.likelihood.tilted_share(t, self._shift(mean), variance)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are none of the likelihood."""
        self.likelihood.check_targets(name, t)

    def of_cases(self, which: NDArray[np.intp]) -> Shifted:
        """Return the likelihood of the deviations of some cases."""
        return replace(self, likelihood=self.likelihood.of_cases(which), offset=self.offset[which])

    @property
    def new_case_facts(self) -> tuple[str, ...]:
        """What may be given of each new case: its offset, and what the likelihood takes."""
        return (*(() if self.of_prior else ("offset",)), *self.likelihood.new_case_facts)

    def of_new_cases(self, offset: Array | None = None, **given: Array) -> Likelihood:
        """Return the likelihood of cases that are not those of the fit, whose offsets must be given.

        Raises
        ------
        ValueError
            If they are not.
        """
        likelihood = self.likelihood.of_new_cases(**given)
        if self.of_prior:
            return likelihood
        if offset is None:
            raise ValueError(
                "offset is missing: this fit has an offset for each case, so that targets of new cases depend on "
                "theirs. Pass predict(idata, X_new, offset=...), one for each row of X_new, such as np.log(exposure); "
                "zeros for an exposure of 1."
            )
        return Shifted(likelihood, offset, of_prior=False)

    def known_sites(self, t: Array, noise: float) -> tuple[Array, Array] | None:
        """Return sites that are the same at every cavity, where the likelihood has such: those of the deviations."""
        found = self.likelihood.known_sites(t, noise)
        return None if found is None else (found[0], found[1] - found[0] * self.offset)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return mean and variance of the targets of the n cases when f ~ N(offset + mean, variance)."""
        return self.likelihood.predictive_moments(self._shift(mean), variance)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return the probability that targets of the n cases are at most t when f ~ N(offset + mean, variance)."""
        return self.likelihood.predictive_below(t, self._shift(mean), variance)

    @property
    def whole_targets(self) -> bool:
        """Whether those of the likelihood are whole numbers."""
        return self.likelihood.whole_targets

    @property
    def n_levels(self) -> int | None:
        """Of ordered levels, how many there are."""
        return self.likelihood.n_levels

    def level_probabilities(self, mean: Array, variance: Array) -> Array | None:
        """Return the probability of each level of the n cases when f ~ N(offset + mean, variance)."""
        return self.likelihood.level_probabilities(self._shift(mean), variance)

    def tilted_values(self, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array] | None:
        """Return what `processes.tilted.tilted_values` does, where the likelihood has a form of it."""
        known = self.likelihood.tilted_values(t, self._shift(mean), variance, scores)
        return None if known is None else (known[0] - self.offset, known[1])

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return P(t = +1) of the n cases when f ~ N(offset + mean, variance)."""
        return self.likelihood.predict_proba(self._shift(mean), variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each of the values offset + f, ``(..., n)``."""
        return self.likelihood.sample(self._shift(f), rng)

    def to_dict(self) -> dict[str, Any]:
        """Raise: the offsets are those of certain cases, and say nothing about others."""
        if not self.of_prior:
            raise UndefinedQuantityError(
                "offsets are those of certain cases: fit(X, y, kernel, likelihood, offset=...)."
            )
        raise UndefinedQuantityError(
            "a prior mean is known here at the training cases only, so that nothing could be predicted from a file. "
            "Use a mean_func in pymc.Marginal."
        )

    def _shift(self, f: Array) -> Array:
        if np.shape(f)[-1:] != self.offset.shape:
            raise ValueError(
                f"this likelihood has the {'prior means' if self.of_prior else 'offsets'} of {self.offset.size} cases, "
                f"all of which must be asked for at once and in order, got shape {np.shape(f)}."
            )
        return np.asarray(f + self.offset)
