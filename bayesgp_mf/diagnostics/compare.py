"""Fits of several models to the same cases side by side: by evidence, and by what each case says of the others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.loo import (
    has_probabilities,
    is_of_draws,
    loo,
    observed_targets,
    pointwise_of,
    relative_to,
    weights_of_cases,
)
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.container.stored import evidence_of_fit, not_stored
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.inference.solution import Evidence

SAME_KIND = {"ep": "exact"}
"""Evidences that estimate one number, and so can be held against each other."""
SURE = 2.0
"""Standard errors by which an elpd is higher for leave-one-out to prefer a model."""
_WORDS = {
    "ep": "TAP's",
    "exact": "exact",
    "laplace": "Laplace's",
    "lower_bound": "a lower bound",
    "naive": "naive mean field's",
    "online": "of a sweep",
}


@dataclass(frozen=True, slots=True, eq=False)
class ModelComparison:
    """Models side by side, shown as the table and the sentence.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each model, those of the highest elpd first: ``log_evidence``, corrected where that is known,
        ``evidence_left``, the size of what it still leaves out, or its standard error, ``evidence_kind``,
        ``log_bayes_factor`` against the highest evidence that it can be compared with (0 or less; NaN where no other is
        of its kind), and ``log_bayes_factor_left``; then ArviZ's ``rank``, ``elpd``, ``se``, ``elpd_difference`` from
        the highest (0 or less), its standard error ``dse``, and ``weight``. All but ``rank`` and ``weight`` in nats;
        NaN where something is not known.
    sentence : str
        Which model is ahead by each, and what cannot be compared.
    """

    table: pd.DataFrame
    sentence: str

    def __str__(self) -> str:
        return f"{self.table.to_string(float_format='{:.3f}'.format)}\n{self.sentence}"

    __repr__ = __str__


def compare(
    fits: Mapping[str, Container] | Container,
    *more: Container,
    kernel: Any = None,
    likelihood: Any = None,
    method: Any = None,
) -> ModelComparison:
    """Compare models of the same cases by their evidence and by ArviZ's leave-one-out comparison.

    The evidence measures how probable the data are under the prior, and so punishes a needlessly wide prior.
    Leave-one-out [1]_ measures how well all other cases predict a case. If they disagree, the sentence says so.

    Parameters
    ----------
    fits : mapping of str to container, or container
        What `fit` or `pymc.sample_latent` returned, by names of the models; or several containers as separate
        arguments, which are numbered.
    *more : container
        The other containers, if they have no names.
    kernel, likelihood, method : optional
        As for `loo`, where containers do not hold them: one for all that do not, or a mapping with that of each, by the
        name of the model.

    Returns
    -------
    ModelComparison
        With ``table``, a data frame, and ``sentence``.

    Raises
    ------
    ValueError
        If there are fewer than two models, their cases have other targets or other weights, some have probabilities
        of the targets and others densities, one was not made by this package, or its ``kernel``, ``likelihood`` or
        ``method`` is missing.
    UndefinedQuantityError
        If a model has no leave-one-out prediction of some case.

    Notes
    -----
    Evidences can be compared if they are of the same kind; TAP's and exact ones estimate the same number. An average
    over hyperparameters has no evidence here. If the hyperparameters were chosen by the evidence, it is that of the
    best ones, and favours the model with more of them. Leave-one-out keeps what was chosen, with the case among all
    others, and so favours such models too, beside averages over hyperparameters, whose weights leave the case out.

    References
    ----------
    .. [1] Vehtari, A., Gelman, A., & Gabry, J. (2017). Practical Bayesian model evaluation using leave-one-out
       cross-validation and WAIC. Statistics and Computing 27, 1413-1432.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> y = np.sin(3 * X[:, 0]) > 0
    >>> options = {"draws": 50, "random_seed": 1}
    >>> wavy = bgp.fit(X, y, bgp.kernels.Gaussian(0.7, 4.0), bgp.Probit(), **options)
    >>> straight = bgp.fit(X, y, bgp.kernels.Linear() + bgp.kernels.Bias(), bgp.Probit(), **options)
    >>> found = bgp.compare({"wavy": wavy, "straight": straight})
    >>> found.table["log_bayes_factor"].round(1).to_dict()
    {'wavy': 0.0, 'straight': -12.3}
    >>> found.sentence.startswith("Both the evidence and leave-one-out prefer wavy, by 12 nats")
    True
    """
    named = _named(fits, more)
    evidences = _evidences(named)
    given = _given_of_each(named, {"kernel": kernel, "likelihood": likelihood, "method": method})
    _check_same_cases(named, given)
    table = evidences.join(_elpd(named, given)).sort_values("rank")
    return ModelComparison(table, " ".join([_sentence(table), *chosen_beside_averages(named)]))


def _named(fits: Any, more: tuple[Container, ...]) -> dict[str, Container]:
    if isinstance(fits, Mapping) and not hasattr(fits, "groups"):  # containers are mappings too
        if more:
            raise ValueError("give either one mapping of names to containers, or containers one after the other.")
        named = {str(name): idata for name, idata in fits.items()}
    else:
        named = {f"model {k}": idata for k, idata in enumerate((fits, *more), 1)}
    if any(isinstance(idata, list | tuple) for idata in named.values()):
        raise ValueError("compare takes containers one after the other, or a mapping of names to them: not a list.")
    if len(named) < 2:
        raise ValueError(f"compare needs two models at least, got {len(named)}.")
    return named


def _given_of_each(named: Mapping[str, Container], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each container asks for again, of what was given for all of them or by the name of the model."""
    found: dict[str, dict[str, Any]] = {name: {} for name in named}
    for what, value in given.items():
        if isinstance(value, Mapping) and not value.keys() <= named.keys():
            unknown = sorted(map(str, value.keys() - named.keys()))
            raise ValueError(
                f"{what} is given for {unknown}, and the models are {list(named)}. Give it by their names."
            )
        for name, idata in named.items():
            if not is_of_draws(idata):
                own = value.get(name) if isinstance(value, Mapping) else value
                found[name] |= not_stored(fit_group(idata), {what: own})
    return found


def _check_same_cases(named: Mapping[str, Container], given: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise a ValueError unless all models are of the same targets, in the same order, with the same weights.

    Elpd and evidence are sums over cases, in which each counts by its weight. Nor may some models have probabilities of
    the targets, and others densities.
    """
    (first, idata), *others = named.items()
    expected, weights = observed_targets(idata), weights_of_cases(idata)
    for name, other in others:
        y = observed_targets(other)
        same = y.shape == expected.shape and np.array_equal(y.values, expected.values)
        names = {targets.attrs.get("class_names") for targets in (y, expected)} - {None}  # PyMC's have none
        if not same or len(names) > 1:
            raise ValueError(
                f"{name} was fitted to other data than {first}: y differs ({y.size} cases and {expected.size}). Only "
                "models of the same targets in the same order can be compared."
            )
        if not np.array_equal(weights_of_cases(other), weights):
            raise ValueError(
                f"{name} was fitted with other weights than {first}, and evidence and leave-one-out are sums in which "
                "each case counts by its weight. Only models of the same cases with the same weights can be compared."
            )
    check_one_kind({name: has_probabilities(idata, **given[name]) for name, idata in named.items()})


def check_one_kind(known: Mapping[str, bool | None]) -> None:
    """Raise a ValueError if some models have probabilities of the targets, and others densities."""
    discrete, densities = ([name for name, is_one in known.items() if is_one is kind] for kind in (True, False))
    if discrete and densities:
        raise ValueError(
            f"{discrete[0]} has probabilities of the targets, as labels, levels and counts have, and {densities[0]} "
            "densities, which are per unit: one is not larger than the other. Compare models with likelihoods of one "
            "kind."
        )


def _evidence(idata: Container) -> Evidence | None:
    """Return the evidence at one setting of the hyperparameters; None for an average."""
    if is_of_draws(idata):
        return None
    fit = fit_group(idata)
    check_has_cases(fit, "leave-one-out prediction to compare")
    averaged = "node_weight" in fit or "log_evidence" not in fit
    return None if averaged else evidence_of_fit(fit)


def _evidences(named: Mapping[str, Container]) -> pd.DataFrame:
    rows = {}
    for name, idata in named.items():
        evidence = _evidence(idata)
        if evidence is None:
            rows[name] = (np.nan, np.nan, "none")
            continue
        left = evidence.standard_error if evidence.kind == "exact" else evidence.remaining
        rows[name] = (evidence.corrected, np.nan if left is None else left, evidence.kind)
    columns = ["log_evidence", "evidence_left", "evidence_kind"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    for _, part in table[table["evidence_kind"] != "none"].groupby(table["evidence_kind"].replace(SAME_KIND)):
        if len(part) < 2:
            continue
        best = part["log_evidence"].idxmax()
        factor = part["log_evidence"] - part["log_evidence"][best]
        left = (part["evidence_left"] + part["evidence_left"][best]).where(part.index != best, 0.0)
        table.loc[part.index, "log_bayes_factor"] = factor
        table.loc[part.index, "log_bayes_factor_left"] = left
    return table.reindex(columns=[*columns, "log_bayes_factor", "log_bayes_factor_left"])


def _elpd(named: Mapping[str, Container], given: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return ArviZ's comparison, with the names and the sign that its later generation has."""
    import arviz

    old = arviz_major() < 1
    estimates = {name: loo(idata, **given[name]) for name, idata in named.items()}
    largest = np.asarray(np.max([pointwise_of(each) for each in estimates.values()], axis=0), dtype=np.float64)
    # stacking takes exponentials, which of a gross outlier are zero in all models; weights and differences are the same
    estimates = {name: relative_to(each, largest) for name, each in estimates.items()}
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):  # at weights of zero
        warnings.filterwarnings("ignore", message="The inplace keyword in")  # ArviZ 0.23 with pandas 3.1
        found = arviz.compare(estimates, **({} if old else {"round_to": "none"}))
    elpd = found["elpd_loo" if old else "elpd"].astype(float)
    columns = {"rank": found["rank"], "elpd": elpd, "se": found["se"], "elpd_difference": elpd - elpd.max()}
    return pd.DataFrame(columns | {"dse": found["dse"], "weight": found["weight"]}).astype(float).astype({"rank": int})


def _sentence(table: pd.DataFrame) -> str:
    known = table[table["evidence_kind"] != "none"]
    kinds = sorted(set(known["evidence_kind"].replace(SAME_KIND)))
    sentences = []
    if len(known) < len(table):
        missing = ", ".join(table.index[table["evidence_kind"] == "none"])
        sentences.append(f"The log evidence is not known of {missing}, averaged over hyperparameters.")
    if len(kinds) > 1:
        of = "; ".join(f"{name}: {_WORDS[kind]}" for name, kind in known["evidence_kind"].items())
        sentences.append(f"These log evidences are of kinds that cannot be compared ({of}).")
    if sentences or len(known) < 2:
        return " ".join([*sentences, _by_loo(table)])
    return _by_both(table)


def chosen_beside_averages(named: Mapping[str, Container]) -> list[str]:
    """Return a sentence if the hyperparameters of some models were chosen, and those of others averaged over."""
    fits = {name: fit_group(idata) for name, idata in named.items() if not is_of_draws(idata)}
    averaged = [name for name, fit in fits.items() if "node_weight" in fit]
    chosen = [name for name, fit in fits.items() if name not in averaged and fit.attrs.get("hyper", "none") != "none"]
    if not (averaged and chosen):
        return []
    return [
        f"The hyperparameters of {', '.join(chosen)} were chosen with the case that is left out among all others, "
        f"those of {', '.join(averaged)} averaged without it: the elpd of the former is too high, often by a good part "
        "of a nat for each hyperparameter."
    ]


def _by_loo(table: pd.DataFrame) -> str:
    first, second = table.index[0], table.iloc[1]
    ahead, error = -second["elpd_difference"], second["dse"]
    by = f"{ahead:.2g} nats with a standard error of {error:.2g}"
    if ahead < SURE * error:
        return f"Leave-one-out has no clear preference: {first} is ahead of {table.index[1]} by {by}."
    return f"Leave-one-out prefers {first}, by {by}."


def _by_both(table: pd.DataFrame) -> str:
    best, first = table["log_bayes_factor"].idxmax(), table.index[0]
    others = table.drop(best)
    next_best = others.loc[others["log_bayes_factor"].idxmax()]
    factor, left = -next_best["log_bayes_factor"], next_best["log_bayes_factor_left"]
    unsure = " That is less than what the evidences leave out." if factor <= left else ""
    if best == first:
        second = table.iloc[1]
        if factor == 0.0 and second["elpd_difference"] == 0.0:
            return f"Neither the evidence nor leave-one-out tells {best} and {table.index[1]} apart: they are equal."
        if -second["elpd_difference"] < SURE * second["dse"]:
            return f"The evidence of {best} is the highest, by {factor:.2g} nats.{unsure} {_by_loo(table)}"
        return (
            f"Both the evidence and leave-one-out prefer {best}, by {factor:.2g} nats and by "
            f"{-second['elpd_difference']:.2g}, with a standard error of {second['dse']:.2g}.{unsure}"
        )
    row = table.loc[first]
    of_first, off = -row["log_bayes_factor"], table.loc[best]
    left = row["log_bayes_factor_left"]
    if of_first <= left:
        return (
            f"The evidence does not tell {best} and {first} apart: they differ by {of_first:.2g} ± {left:.2g} nats. "
            f"{_by_loo(table)}"
        )
    within = "less" if -off["elpd_difference"] < SURE * off["dse"] else "more"
    known = "" if np.isnan(left) else f" ± {left:.2g}"
    return (
        f"They disagree: the evidence prefers {best} to {first} by {of_first:.2g}{known} nats, and leave-one-out "
        f"{first} by {-off['elpd_difference']:.2g} nats, {within} than two standard errors ({off['dse']:.2g}). The "
        "evidence also counts against a prior that is wider than needed; leave-one-out asks for predictions alone."
    )
