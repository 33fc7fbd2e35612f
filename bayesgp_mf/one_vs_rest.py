"""Fits of one class against the rest: C fits of two classes, one after the other, and what they say together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.container.classifiers import check_fit_together, side_by_side
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.stored import not_stored
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.fitting import fit as fit_two_classes
from bayesgp_mf.fitting import posterior
from bayesgp_mf.hyper import Prior
from bayesgp_mf.inference.solver import Solver, traits_of
from bayesgp_mf.inputs import (
    as_inputs_of,
    as_kernel,
    as_names,
    as_pandas,
    check_all_same_cases,
    check_flags,
    encode_classes,
    feature_names,
    kernels_of_classes,
    mapping_of_class,
    names_of_class,
)
from bayesgp_mf.likelihoods.one_vs_rest import OneVsRest
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.processes.one_vs_rest import OneVsRestPosterior
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.seeds import as_generator

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

__all__ = ["fit"]


def fit(
    X: Any,
    y: Any,
    kernel: Any,
    likelihood: OneVsRest,
    *,
    positive: Any = None,
    method: MethodName | Solver = "tap",
    priors: Mapping[str, Prior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: Collection[str] = (),
    random_seed: int | np.random.Generator | None = None,
    progress: bool = True,
    offset: Any = None,
    weights: Any = None,
    **options: Any,
) -> Container:
    """Return the container of a binary classifier for each class, as `bayesgp_mf.fit` does; ``options`` are its own.

    Raises
    ------
    ValueError
        If an argument is invalid, or a class has no case.
    UndefinedQuantityError
        If the method has no probabilities, or there is an offset.
    """
    table, y = as_pandas("X", X), as_pandas("y", y)
    check_all_same_cases(X=table, y=y, weights=weights)
    check_flags(progress=progress)
    if positive is not None:
        raise ValueError(
            "positive says which of two classes is the positive one: with OneVsRest each is. Leave it out."
        )
    if offset is not None:
        raise UndefinedQuantityError(
            "an offset goes with one latent value for each case, and OneVsRest has one for each class. Leave it out."
        )
    made = as_kernel(kernel, tuned=options.get("hyper") is not None).with_column_names(feature_names("X", table))
    n = as_inputs_of(made, table)[0].shape[0]
    t, names = encode_classes(y, n, "OneVsRest", likelihood.classes)
    missing = [name for c, name in enumerate(names) if not np.any(t == c)]
    if missing:
        raise ValueError(f"OneVsRest needs a case of every class, and there is none of {missing}. Leave those out.")
    likelihoods = likelihood.of_each_class(len(names))
    solver = get_method(method, likelihoods[0])
    if not traits_of(solver).variance:
        raise UndefinedQuantityError(
            f"OneVsRest compares probabilities, which method {solver.name!r} does not have. Use 'tap' or 'laplace'."
        )
    kernels, rng, fixed = kernels_of_classes(kernel, len(names)), as_generator(random_seed), as_names("fixed", fixed)
    each, classifiers = list[Any](), list[Any]()
    with (
        one_thread_if_small(n),
        progress_bar("one class against the rest", total=len(names), enabled=progress) as advance,
    ):
        for c, name in enumerate(names):
            try:
                one = fit_two_classes(
                    X,
                    t == c,
                    kernels[c],
                    likelihoods[c],
                    method=method,
                    priors=mapping_of_class("priors", priors, c, len(names), fixed),
                    bounds=mapping_of_class("bounds", bounds, c, len(names), fixed),
                    fixed=names_of_class("fixed", fixed, c, len(names)),
                    random_seed=rng,
                    progress=False,
                    weights=weights,
                    **options,
                )
            except Exception as error:
                error.add_note(f"This was the classifier of class {name!r} against the rest.")
                raise
            given = {"kernel": kernels[c], "likelihood": likelihoods[c], "method": solver}
            each.append(one)
            classifiers.append(posterior(one, **not_stored(get_group(one, "fit"), given)))
            check_fit_together([get_group(one, "fit")], len(names))
            advance(name)
        return side_by_side(each, OneVsRestPosterior(names, tuple(classifiers)), rng)


def __getattr__(name: str) -> Any:
    if name == "fit_one_vs_rest":
        raise ImportError(
            "fit_one_vs_rest is gone: use bayesgp_mf.fit(X, y, kernel, bayesgp_mf.OneVsRest(bayesgp_mf.Logit())), "
            "which returns a container, and bayesgp_mf.predict."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
