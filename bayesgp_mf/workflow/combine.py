"""One posterior of several models, by stacking, by their evidence, or with weights of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from bayesgp_mf.arguments import as_generator
from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.container.layout import BY_CASE, MODELS, SAMPLE_DIMS, TABLE, class_names_of
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.stored import names_of, not_stored
from bayesgp_mf.container.write import to_container
from bayesgp_mf.diagnostics.compare import SAME_KIND, chosen_beside_averages, compare
from bayesgp_mf.errors import warn
from bayesgp_mf.fitting import Seed
from bayesgp_mf.inputs.groups import reads
from bayesgp_mf.processes.process import Ensemble, Part, Process, Tuned
from bayesgp_mf.types import Array

LEAST = 1e-6
"""Models of less weight are left out."""
LINK = {"Poisson": "log", "NegativeBinomial": "log", "Gamma": "log", "Gaussian": "identity", "StudentT": "identity"}
"""Of likelihoods that share one; each other one has its own, and latent values in units of its own."""


def combine(
    fits: Mapping[str, Container], weights: str | ArrayLike = "stacking", *, random_seed: Seed = None
) -> Container:
    """Return one posterior of several models of the same cases, which predicts as any fit does.

    Parameters
    ----------
    fits : mapping of str to container
        What `fit` returned, by names of the models.
    weights : "stacking", "evidence", mapping of str to float, or (k,) array_like
        "stacking" chooses weights under which the leave-one-out predictions of the average are best [1]_. "evidence"
        weighs each model by its evidence, corrected where that is known: the posterior over models that are equally
        probable before. Or numbers >= 0, in the order of the fits; those of a mapping or a pandas Series by name.
    random_seed : int, numpy.random.Generator or None
        Source of the draws, as many as those of the first fit.

    Returns
    -------
    InferenceData or DataTree
        As of `fit` with an average over hyperparameters, with a node for each model, or several where a model is an
        average itself. `predict`, `loo` and `report` take it. The attribute ``models`` of the group ``fit`` is JSON
        with their ``names``, ``member``, the model of each node, and ``each``, its kernel, likelihood and method.

    Raises
    ------
    ValueError
        If there are fewer than two models, they are not of the same cases, a container does not hold its kernel, its
        likelihood or its method, or weights are wrong; or if the weights are by evidence, and the evidences cannot be
        compared.

    Warns
    -----
    UserWarning
        If likelihoods have different links, such as probit and logit; if models are stacked of which some have chosen
        hyperparameters, and others average over them.

    Notes
    -----
    Probabilities and targets are averaged whatever the links are. Latent values ``f`` are drawn from each model in its
    own units: under different links do not average them.

    A case that is left out changes weights by evidence, and not stacked ones.

    References
    ----------
    .. [1] Yao, Y., Vehtari, A., Simpson, D., & Gelman, A. (2018). Using stacking to average Bayesian predictive
       distributions. Bayesian Analysis 13(3), 917-1007.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 40)[:, None]
    >>> y, options = np.sin(3 * X[:, 0]) > 0, {"draws": 50, "random_seed": 1}
    >>> kernels = {"wavy": bgp.kernels.Gaussian(0.7, 4.0), "straight": bgp.kernels.Linear() + bgp.kernels.Bias()}
    >>> fits = {name: bgp.fit(X, y, kernel, **options) for name, kernel in kernels.items()}
    >>> both = bgp.combine(fits, weights=[0.5, 0.5], random_seed=1)
    >>> bgp.predict(both, [[0.5]], draws=False)["predictions"]["p"].values.round(2)
    array([0.67])
    """
    fits = _named(fits)
    shares = _weights(fits, weights)
    _check_same_cases(fits)
    first = fit_group(next(iter(fits.values())))
    kept = {name: idata for k, (name, idata) in enumerate(fits.items()) if shares[k] >= LEAST}
    read = {name: from_container(idata) for name, idata in fits.items()}
    X, found = _inputs(read), [read[name] for name in kept]
    _warn_of_links(read[name] for name in kept)
    shares = shares[shares >= LEAST] / shares[shares >= LEAST].sum()
    parts = tuple(replace(part, X=X) for process in found for part in process.parts)
    each = np.concatenate([share * process.weights for share, process in zip(shares, found, strict=True)])
    member = np.repeat(np.arange(len(found)), [len(process.parts) for process in found])
    by_evidence = isinstance(weights, str) and weights == "evidence"
    posterior = Ensemble(parts, each / each.sum(), member, tuple(kept), by_evidence)
    rng = as_generator(random_seed)
    sizes = [get_group(next(iter(fits.values())), "posterior").sizes[dim] for dim in SAMPLE_DIMS]
    data = get_group(next(iter(fits.values())), "constant_data")
    return to_container(
        Tuned(posterior, rng.choice(len(parts), size=sizes, p=posterior.weights)),
        class_names=class_names_of(first),
        feature_names=names_of(data["feature"].values),
        labels=data["obs_id"].values,
        rng=rng,
        attrs={"hyper": "none", TABLE: first.attrs.get(TABLE, "numpy")},
    )


def _named(fits: Any) -> dict[str, Container]:
    """Return fits by name, or raise a ValueError if an average of them could not be made or not be held."""
    if not isinstance(fits, Mapping) or hasattr(fits, "groups") or len(fits) < 2:
        raise ValueError("combine needs a mapping of at least two containers by name, as {'smooth': a, 'rough': b}.")
    named = {str(name): idata for name, idata in fits.items()}
    for name, idata in named.items():
        fit = fit_group(idata)
        if MODELS in fit.attrs:
            raise ValueError(f"{name} is an average of models already. Combine all models at once.")
        if lacking := not_stored(fit, dict.fromkeys(("kernel", "likelihood", "method"))):
            raise ValueError(
                f"the container of {name} does not hold its {next(iter(lacking))}, which is a program, and nor could "
                "that of an average. Average its predictions by hand."
            )
    return named


def _weights(fits: Mapping[str, Container], weights: Any) -> Array:
    """Return weights that sum to one, or raise a ValueError."""
    table = compare(fits).table.reindex(list(fits))
    if isinstance(weights, str) and weights == "stacking":
        for sentence in chosen_beside_averages(fits):
            warn(sentence)
        found = table["weight"].to_numpy()
    elif isinstance(weights, str) and weights == "evidence":
        kinds = table["evidence_kind"].replace(SAME_KIND)
        if kinds.nunique() > 1 or kinds.iloc[0] == "none":
            of = ", ".join(f"{name}: {kind}" for name, kind in table["evidence_kind"].items())
            raise ValueError(f"these models have no evidences of one kind ({of}). Give weights='stacking'.")
        found = softmax(table["log_bayes_factor"].to_numpy())
    else:
        try:
            if hasattr(weights, "keys"):  # as the weights of a table, which has the best model first
                by_name = {str(name): value for name, value in weights.items()}
                found = np.array([by_name[str(name)] for name in fits if len(by_name) == len(fits)], float)
            else:
                found = np.asarray(weights, dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            found = np.empty(0)
        if found.shape != (len(fits),) or not np.all(np.isfinite(found)) or np.any(found < 0) or not found.any():
            raise ValueError(
                f"weights must be 'stacking', 'evidence', or {len(fits)} numbers >= 0, not all 0, one for each fit, in "
                f"their order or by their names, got {weights!r}."
            )
    found = np.maximum(found, 0.0) / found.max()
    return np.asarray(found / found.sum())


def _inputs(found: Mapping[str, Process]) -> Array:
    """Return the inputs of all models, or raise a ValueError if two have others.

    Of a text that it does not read a model has zeros (`inputs.groups.with_unread`), which say nothing of the cases. Of
    one that it reads it has codes, which say the same where they are of the same texts.
    """
    names, (first, *others) = list(found), [process.parts[0] for process in found.values()]
    X, levels = first.X.copy(), first.kernel.levels_of_columns()
    known = _known(first)
    for name, part in zip(names[1:], others, strict=True):
        here, own = _known(part), part.kernel.levels_of_columns()
        same = X.shape == part.X.shape and all(levels.get(j, texts) == texts for j, texts in own.items())
        if not same or not np.array_equal(X[:, known & here], part.X[:, known & here]):
            raise ValueError(_other(name, "X", names[0]))
        levels |= own
        X[:, here] = part.X[:, here]
        known |= here
    return X


def _known(part: Part) -> NDArray[np.bool_]:
    """Tell which columns of inputs hold what a user gave."""
    return np.array([reads(part.kernel, j) or bool(column.any()) for j, column in enumerate(part.X.T)], dtype=bool)


def _warn_of_links(found: Iterable[Process]) -> None:
    """Warn if latent values of the models are in different units."""
    names = dict.fromkeys(type(process.problem.likelihood.of_one_case).__name__ for process in found)
    if len({LINK.get(name, name) for name in names}) > 1:
        warn(
            f"the models have different links ({', '.join(names)}), and their latent values f different units. "
            "Probabilities and targets are averaged all the same; to average f, combine models with one link."
        )


def _other(name: str, what: str, first: str) -> str:
    return f"{name} was fitted with another {what} than {first}. Only models of the same cases are combined."


def _check_same_cases(fits: Mapping[str, Container]) -> None:
    """Raise a ValueError unless all models have the same offsets and classes; `compare` has seen the rest."""
    first = next(iter(fits))
    known: dict[str, Any] = {}
    for name, idata in fits.items():
        data = get_group(idata, "constant_data")
        here: dict[str, Any] = {name: data[name].values for name in ("feature", *BY_CASE) if name in data}
        here["class_names"] = fit_group(idata).attrs["class_names"]
        known = known or here
        if other := [each for each in {**known, **here} if not np.array_equal(known.get(each, ()), here.get(each, ()))]:
            raise ValueError(_other(name, other[0], first))
