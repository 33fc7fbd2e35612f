"""Likelihoods p(t | f) of one target given one latent value.

All above may look inside; `base` is for likelihoods of your own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.beta import Beta
from bayesgp_mf.likelihoods.censored import Censored
from bayesgp_mf.likelihoods.counts import NegativeBinomial, Poisson
from bayesgp_mf.likelihoods.gamma import Gamma
from bayesgp_mf.likelihoods.gaussian import Gaussian
from bayesgp_mf.likelihoods.logit import Binomial, Logit
from bayesgp_mf.likelihoods.multinomial_probit import MultinomialProbit
from bayesgp_mf.likelihoods.ordinal import Ordinal
from bayesgp_mf.likelihoods.probit import Probit, Step
from bayesgp_mf.likelihoods.quadrature import Quadrature
from bayesgp_mf.likelihoods.softmax import Softmax
from bayesgp_mf.likelihoods.student_t import StudentT
from bayesgp_mf.likelihoods.times import Exponential, LogLogistic, LogNormal, Weibull
from bayesgp_mf.likelihoods.zeros import Hurdle, Truncated, ZeroInflated
from bayesgp_mf.names import ELSEWHERE, absent

__all__ = [
    "Beta",
    "Binomial",
    "Censored",
    "Exponential",
    "Gamma",
    "Gaussian",
    "Hurdle",
    "Likelihood",
    "LogLogistic",
    "LogNormal",
    "Logit",
    "MultinomialProbit",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "Quadrature",
    "Softmax",
    "Step",
    "StudentT",
    "Truncated",
    "Weibull",
    "ZeroInflated",
    "from_dict",
]

if not TYPE_CHECKING:  # which would believe that every name is there

    def __getattr__(name: str) -> Any:
        raise absent(__name__, name, __all__)


_BY_NAME: dict[str, Callable[..., Likelihood]] = {
    name: globals()[name] for name in __all__ if name not in ("Likelihood", "Quadrature", "from_dict")
}
"""Those that a file can hold: a `Quadrature` is made of functions, which no file names."""


def is_built_in(likelihood: Likelihood) -> bool:
    """Tell whether a likelihood is one of this package's own that `from_dict` makes again from its ``to_dict``."""
    return type(likelihood) in _BY_NAME.values() and all(map(is_built_in, likelihood.made_of))


def by_word(word: str) -> Likelihood:
    """Return the likelihood that a word such as "poisson" names, or raise a ValueError if it needs more than that."""

    def lower(name: str) -> str:
        return "".join(filter(str.isalnum, name)).lower()

    found = {lower(name): name for name in _BY_NAME}.get(lower(word))
    if found is None:
        words = f"one of {sorted(map(str.lower, _BY_NAME))}, or an object such as Probit()"
        instead = {lower(name): advice for name, advice in ELSEWHERE.items()}.get(lower(word), words)
        raise ValueError(f"likelihood must be {instead}; got {word!r}.")
    parameters = inspect.signature(_BY_NAME[found]).parameters.values()
    if needed := [each.name for each in parameters if each.default is each.empty]:
        write = ", ".join(f"{name}=..." for name in needed)
        raise ValueError(
            f"likelihood={word!r} needs {', '.join(needed)}: write likelihoods.{found}({write}); "
            f"help(likelihoods.{found}) has an example."
        )
    return _BY_NAME[found]()


def from_dict(description: dict[str, Any]) -> Likelihood:
    """Rebuild a likelihood from what its ``to_dict`` returned.

    Raises
    ------
    ValueError
        If the description is no dict, or names no likelihood of this package that is made of numbers and strings alone.

    Examples
    --------
    >>> from bayesgp_mf import likelihoods
    >>> likelihoods.from_dict(likelihoods.Probit(0.5).to_dict())
    Probit(noise_variance=0.5, flip=0.0)
    """
    if not isinstance(description, Mapping) or not all(isinstance(key, str) for key in description):
        raise ValueError(f"description must be a dict, as to_dict of a likelihood returns it, got {description!r:.80}.")
    parameters = dict(description)
    name = parameters.pop("likelihood", None)
    if "of" in parameters:
        parameters["likelihood"] = from_dict(parameters.pop("of"))
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError(f"unknown likelihood {name!r}; expected one of {sorted(_BY_NAME)}.")
    made = {key: from_dict(dict(value)) for key, value in parameters.items() if isinstance(value, Mapping)}
    try:
        return _BY_NAME[name](**(parameters | made))
    except TypeError as error:
        raise ValueError(f"this is no description of a {name} likelihood: {error}") from error
