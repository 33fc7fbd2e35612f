"""Fast deterministic approximations to Gaussian-process classifiers, in the language of PyMC and ArviZ.

The public names. They are loaded when first used (PEP 562), so that importing the package costs next to
nothing; PyMC is not imported at all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesgp_mf import (
        datasets,
        diagnostics,
        hyper,
        kernels,
        likelihoods,
        online,
        plots,
        pymc,
        sharded,
        sklearn,
        streams,
    )
    from bayesgp_mf.container.frames import to_frame
    from bayesgp_mf.container.loo import loo
    from bayesgp_mf.diagnostics.compare import compare
    from bayesgp_mf.errors import (
        BoundWarning,
        ConvergenceError,
        ConvergenceWarning,
        InconsistentDataError,
        NotPositiveDefiniteError,
        Status,
        UndefinedQuantityError,
    )
    from bayesgp_mf.fitting import fit, posterior, predict
    from bayesgp_mf.inference.inducing import Inducing
    from bayesgp_mf.inference.problem import Problem
    from bayesgp_mf.inference.solution import Control, Solution
    from bayesgp_mf.likelihoods import (
        Binomial,
        Logit,
        MultinomialProbit,
        NegativeBinomial,
        Ordinal,
        Poisson,
        Probit,
        Softmax,
        Step,
        StudentT,
    )
    from bayesgp_mf.methods import solve
    from bayesgp_mf.processes.single import Posterior
    from bayesgp_mf.reports.report import report

__version__ = "0.2.0"

__all__ = [
    "Binomial",
    "BoundWarning",
    "Control",
    "ConvergenceError",
    "ConvergenceWarning",
    "InconsistentDataError",
    "Inducing",
    "Logit",
    "MultinomialProbit",
    "NegativeBinomial",
    "NotPositiveDefiniteError",
    "Ordinal",
    "Poisson",
    "Posterior",
    "Probit",
    "Problem",
    "Softmax",
    "Solution",
    "Status",
    "Step",
    "StudentT",
    "UndefinedQuantityError",
    "compare",
    "datasets",
    "diagnostics",
    "fit",
    "hyper",
    "kernels",
    "likelihoods",
    "loo",
    "online",
    "plots",
    "posterior",
    "predict",
    "pymc",
    "report",
    "sharded",
    "sklearn",
    "solve",
    "streams",
    "to_frame",
]

_SUBPACKAGES = {
    "datasets",
    "diagnostics",
    "hyper",
    "kernels",
    "likelihoods",
    "online",
    "plots",
    "pymc",
    "sharded",
    "sklearn",
    "streams",
}
_HOMES = {
    "container.frames": ("to_frame",),
    "container.loo": ("loo",),
    "diagnostics.compare": ("compare",),
    "errors": (
        "BoundWarning",
        "ConvergenceError",
        "ConvergenceWarning",
        "InconsistentDataError",
        "NotPositiveDefiniteError",
        "Status",
        "UndefinedQuantityError",
    ),
    "fitting": ("fit", "posterior", "predict"),
    "likelihoods": (
        "Binomial",
        "Logit",
        "MultinomialProbit",
        "NegativeBinomial",
        "Ordinal",
        "Poisson",
        "Probit",
        "Softmax",
        "Step",
        "StudentT",
    ),
    "methods": ("solve",),
    "processes.single": ("Posterior",),
    "reports.report": ("report",),
    "inference.inducing": ("Inducing",),
    "inference.problem": ("Problem",),
    "inference.solution": ("Control", "Solution"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_FORMER = dict.fromkeys(
    ("OneVsRest", "classifier"),
    "one class against the rest is sklearn.multiclass.OneVsRestClassifier(bgp.sklearn.GPClassifier(...)); one model of "
    "several classes is likelihood=bgp.MultinomialProbit()",
)
"""Names that there were before, and what has taken their place."""


if not TYPE_CHECKING:  # to a type checker that saw it, every name would be there

    def __getattr__(name):
        if name in _SUBPACKAGES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOME_OF:
            value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
            globals()[name] = value
            return value
        instead = _FORMER.get(name, f"it has {', '.join(__all__)}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {instead}.")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
