"""Targets of which some are known to lie between limits: censored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.likelihoods.base import Likelihood, of_each
from bayesgp_mf.likelihoods.by_case import trait
from bayesgp_mf.likelihoods.limits import WithLimits
from bayesgp_mf.types import Array


@dataclass(frozen=True, slots=True, repr=False)
class Censored(WithLimits):
    r"""A likelihood of real targets of which some are not seen, but known to be above, below or between limits.

    A case that was seen says p(t|f), as without this; of one that was not, it is the probability of what is known:

    .. math:: P(T > a | f), \qquad P(T \leq b | f), \qquad P(a < T \leq b | f).

    Pass targets as ``y`` of `fit`: times and whether the event was seen, or limits (see `fit`). With a Gaussian
    likelihood it is a tobit regression.

    Parameters
    ----------
    likelihood : Likelihood
        That of targets that are seen: `Gaussian`, `LogNormal`, `Weibull`, `LogLogistic` or `Exponential`.
    other_limit : (n,) array_like, optional
        What `fit` makes of ``y``. A target is NaN here where it was seen; else it is a limit itself, and here is the
        other one: ``inf`` where it is above the target, ``-inf`` where it is below.

    Raises
    ------
    ValueError
        If ``likelihood`` is none of these, or ``other_limit`` is not one-dimensional; later, if there are not as many
        targets.

    Notes
    -----
    It is assumed that what ends the observation says nothing of the target beyond that. Targets of new cases are
    predicted as those that are seen; so are those that `sample` draws.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Censored, Exponential
    >>> times = Censored(Exponential(), other_limit=[np.nan, np.inf])
    >>> times.log_prob(np.array([2.0, 2.0]), np.zeros(2)).value
    array([-2., -2.])
    """

    likelihood: Any
    other_limit: tuple[float, ...] | ArrayLike | None = None

    of_times = trait("of_times")
    parameters = trait("parameters")
    tunable = trait("tunable")
    allows_noise = trait("allows_noise")
    largest_offset = trait("largest_offset")
    unbounded_if_weighted = trait("unbounded_if_weighted")
    link = trait("link")
    curved_at = trait("curved_at")
    predictive_moments = trait("predictive_moments")
    sample = trait("sample")

    def __repr__(self) -> str:
        if self.other_limit is None:
            return f"Censored({self.likelihood!r})"
        known = np.isfinite(self._other) | np.isinf(self._other)
        return f"Censored({self.likelihood!r}, other_limit=<{known.size} values, {int(np.sum(known))} of them limits>)"

    def __post_init__(self) -> None:
        if isinstance(self.likelihood, type) or not hasattr(self.likelihood, "between"):
            raise ValueError(
                "likelihood of Censored must be Gaussian, LogNormal, Weibull, LogLogistic or Exponential, whose "
                f"probabilities between limits are known, such as Weibull(1.0), got {self.likelihood!r:.80}."
            )
        if self.other_limit is not None:
            try:
                other = np.asarray(self.other_limit, dtype=np.float64)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(
                    f"other_limit must hold numbers, NaN or infinity, got {self.other_limit!r:.80}."
                ) from error
            if other.ndim != 1:
                raise ValueError(f"other_limit must have one number for each case, got shape {other.shape}.")
            # one NaN for all, which is equal to itself
            object.__setattr__(self, "other_limit", tuple(math.nan if v != v else v for v in other.tolist()))

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return the probability that targets are at most t, if all of these cases were seen."""
        return self.likelihood.predictive_below(t, mean, variance) if self.all_seen else None

    @property
    def all_seen(self) -> bool:
        """Whether all targets of these cases were seen."""
        return self.other_limit is None or bool(np.isnan(self._other).all())

    @property
    def takes_limits(self) -> bool:
        """Targets may be limits."""
        return True

    def form(self, t: Array) -> Likelihood:
        """Return the likelihood of what is known of such targets."""
        if self.other_limit is None:
            return self.likelihood.form(t)  # type: ignore[no-any-return]
        other = of_each("Censored", "other limits", self._other, t)
        # where other is NaN both are t
        return self.likelihood.between(np.fmin(t, other), np.fmax(t, other))  # type: ignore[no-any-return]

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are none of the likelihood, or as many as there are limits."""
        self.likelihood.check_targets(name, t)
        self.form(t)

    def of_cases(self, which: NDArray[np.intp]) -> Censored:
        """Return the likelihood of some cases."""
        other = None if self.other_limit is None else self._other[which]
        return Censored(self.likelihood.of_cases(which), other)

    def of_new_cases(self) -> Likelihood:
        """Return the likelihood of targets that are seen."""
        return self.likelihood.of_new_cases()  # type: ignore[no-any-return]

    def with_parameters(self, **values: Any) -> Censored:
        """Return the likelihood with other parameters, of the same cases."""
        return replace(self, likelihood=self.likelihood.with_parameters(**values))

    def to_dict(self) -> dict[str, Any]:
        """Return the likelihood of what is seen as its dict, and the other limits."""
        each = () if self.other_limit is None else self._other.tolist()
        plain = [None if math.isnan(v) else v if math.isfinite(v) else str(v) for v in each]  # what any JSON may hold
        other = None if self.other_limit is None else plain
        return {"likelihood": "Censored", "of": self.likelihood.to_dict(), "other_limit": other}

    def log_prob_graph(self, functions: Any, t: Any, f: Any, **values: Any) -> Any:
        """Return log p(t|f), or of what is known of t, written with the functions of ``functions``."""
        seen = self.likelihood.log_prob_graph(functions, t, f, **values)
        if self.other_limit is None:
            return seen
        finite = np.isfinite(self._other)
        other = functions.where(finite, np.where(finite, self._other, 0.0), t + 1.0)
        lower, upper = (self.likelihood.log_tails_graph(functions, limit, f, **values) for limit in (t, other))
        found = functions.where(np.isnan(self._other), seen, functions.where(self._other > 0, lower[0], lower[1]))
        return functions.where(finite, _between_graph(functions, lower, upper), found)

    @property
    def _other(self) -> Array:
        return np.asarray(self.other_limit, dtype=np.float64)


def _between_graph(functions: Any, at_target: tuple[Any, Any], at_other: tuple[Any, Any]) -> Any:
    """Return the log of the probability between two limits from the logs of that above and below each, as a graph.

    It is a difference of those that are small.
    """

    def less(k: int) -> Any:  # the log of the difference of two probabilities
        high = functions.where(at_target[k] > at_other[k], at_target[k], at_other[k])
        low = at_target[k] + at_other[k] - high
        return high + functions.log1p(-functions.exp(low - high))

    return functions.where(at_target[0] + at_other[0] < at_target[1] + at_other[1], less(0), less(1))
