"""Fast deterministic approximations to Gaussian-process classifiers, in the language of PyMC and ArviZ.

The public names stand in ``__init__.pyi``, for type checkers and for this file. They are loaded when first used
(PEP 562), so that importing the package costs next to nothing; PyMC is not imported at all.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

__version__ = "0.3.0"

_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
_HOME_OF = {line.split()[-1]: line.split()[1] for line in _STUB.splitlines() if line.startswith("from ")}
__all__ = sorted(_HOME_OF)
_ROOMS = ("kernels", "likelihoods", "hyper")
"""Where a name may be that is asked for here."""


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        rooms = _ROOMS if name[:1].isupper() else ()
        within = [f"{room}.{each}" for room in rooms for each in importlib.import_module(f"{__name__}.{room}").__all__]
        absent = importlib.import_module(f"{__name__}.names").absent
        raise absent(__name__, name, [each for each in within if each.endswith(f".{name}")] or __all__)
    if home == __name__:
        return importlib.import_module(f"{home}.{name}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
