"""Fast deterministic approximations to Gaussian-process classifiers, in the language of PyMC and ArviZ.

The public names stand in ``__init__.pyi``, for type checkers and for this file. They are loaded when first used
(PEP 562), so that importing the package costs next to nothing; PyMC is not imported at all.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

__version__ = "0.2.0"

_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
_HOME_OF = {line.split()[-1]: line.split()[1] for line in _STUB.splitlines() if line.startswith("from ")}
__all__ = sorted(_HOME_OF)
_FORMER = dict.fromkeys(
    ("OneVsRest", "classifier"),
    "one class against the rest is sklearn.multiclass.OneVsRestClassifier(bgp.sklearn.GPClassifier(...)); one model of "
    "several classes is likelihood=bgp.MultinomialProbit()",
)
"""Names that there were before, and what has taken their place."""


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        instead = _FORMER.get(name, f"it has {', '.join(__all__)}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {instead}.")
    if home == __name__:
        return importlib.import_module(f"{home}.{name}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
