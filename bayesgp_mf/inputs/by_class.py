"""What is given of all classifiers of one class against the rest, or of each: kernels, priors, bounds, fixed names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_OF_CLASS = re.compile(r"class(\d+)_(.+)")


def kernels_of_classes(kernel: Any, n_classes: int) -> tuple[Any, ...]:
    """Return the kernel of each class: those of a `kernels.PerClass`, or one for all.

    Raises
    ------
    ValueError
        If a `kernels.PerClass` has not as many kernels as there are classes.
    """
    if not getattr(kernel, "per_class", False):
        return (kernel,) * n_classes
    if len(kernel.parts) != n_classes:
        raise ValueError(
            f"kernel is PerClass with {len(kernel.parts)} kernels, and there are {n_classes} classes. Give one for "
            "each class, or a single kernel from which all classifiers start."
        )
    return tuple(kernel.parts)


def mapping_of_class(
    argument: str, given: Mapping[str, T] | None, c: int, n_classes: int, fixed: Collection[str] = ()
) -> Mapping[str, T] | None:
    """Return the priors or bounds of one class: those of all, and its own, such as ``class0_lengthscale``.

    What is said of all does not concern a parameter that is ``fixed`` for this class alone.

    Raises
    ------
    ValueError
        If one is of a class that is not there.
    """
    if not isinstance(given, Mapping):
        return given  # for `fit` to refuse
    names = _names_of_class(argument, given, c, n_classes)
    return {own: given[name] for own, name in names.items() if name != own or f"class{c}_{own}" not in fixed}


def names_of_class(argument: str, given: Collection[str], c: int, n_classes: int) -> Collection[str]:
    """Return the names of one class among those that are fixed, as `mapping_of_class` does."""
    return list(_names_of_class(argument, given, c, n_classes))


def _names_of_class(argument: str, given: Collection[str], c: int, n_classes: int) -> dict[str, str]:
    """Return the names that concern one class, each by its name there; what is said of one class comes before all."""
    of_all, own = dict[str, str](), dict[str, str]()
    for name in given:
        found = _OF_CLASS.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            of_all[name] = name
        elif int(found[1]) >= n_classes:
            raise ValueError(
                f"{argument} has {name!r}, and there are {n_classes} classes: that of the last is "
                f"class{n_classes - 1}_{found[2]}."
            )
        elif int(found[1]) == c:
            own[found[2]] = name
    return of_all | own
