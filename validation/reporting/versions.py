"""Which versions numbers were made with."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the version of Python, and that of each package, or None where it is not installed."""
    return {"python": platform.python_version()} | {package: version_of(package) for package in packages}


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
