"""Functions by the path from which they are imported, ``module:name``: what a file can hold of a function.

A file must not be able to run code of its choosing. So nothing is imported for it: a path is followed only into a
module that the user has imported, only to a function that is defined there by that name, and never into the standard
library, whose functions do things to files and processes.
"""

from __future__ import annotations

import re
import sys
from types import FunctionType
from typing import Any

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def path_of(function: Any) -> str | None:
    """Return the path ``module:name`` of a function at the top of a module that others can import, or None.

    There is none of a lambda, of a function within another, or of one in a script or a notebook.
    """
    if not isinstance(function, FunctionType) or function.__module__ == "__main__":
        return None
    path = f"{function.__module__}:{function.__qualname__}"
    return path if _found(path) is function else None


def function_at(path: Any) -> FunctionType:
    """Return the function at a path, of a module that is imported already; nothing is imported.

    Raises
    ------
    ValueError
        If it is no path, its module is not imported, or there is no such function in it.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"a function is saved as 'module:name', got {path!r:.80}.")
    module = path.partition(":")[0]
    function = _found(path)
    if function is None and module not in sys.modules:
        raise ValueError(
            f"the likelihood's function is {path}, and no module is imported for a file. Import {module} first if you "
            "trust it, or pass likelihood=Quadrature(...) with the function."
        )
    if function is None:
        raise ValueError(
            f"the likelihood's function is {path}, and the module has no function of that name that is defined in it "
            "(or is of the standard library). Pass likelihood=Quadrature(...) with the function."
        )
    return function


def _found(path: str) -> FunctionType | None:
    """Return the function at a path, without importing anything: not even what a module loads when it is asked."""
    module, _, name = path.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names or module not in sys.modules:
        return None
    found = vars(sys.modules[module]).get(name)
    defined_there = isinstance(found, FunctionType) and (found.__module__, found.__qualname__) == (module, name)
    return found if defined_there else None
