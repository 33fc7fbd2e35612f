"""What a class derived from a kernel must not inherit: derivatives of a method that it has replaced."""

from __future__ import annotations

from collections.abc import Mapping


def drop_outdated(derived: type, base: type, made_from: Mapping[str, tuple[str, ...]]) -> None:
    """Put the method of ``base`` in place of each inherited one that knows nothing of a newer method.

    Parameters
    ----------
    derived : type
        A class as it is made.
    base : type
        One that it derives from, whose methods are right whatever a derived class does.
    made_from : mapping
        For the name of a method, the names of those that it follows from.
    """

    def age(name: str) -> int:
        return next(i for i, parent in enumerate(derived.__mro__) if name in vars(parent))

    for name, sources in made_from.items():
        if any(age(name) > age(source) for source in sources):
            setattr(derived, name, vars(base)[name])
