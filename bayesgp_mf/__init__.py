"""Fast deterministic approximations to Gaussian-process classifiers, in the language of PyMC and ArviZ.

The public names. They are loaded when first used (PEP 562), so that importing the package costs next to
nothing; PyMC is not imported at all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # "as", so that these are names of the package to type checkers too
    from bayesgp_mf import datasets as datasets
    from bayesgp_mf import diagnostics as diagnostics
    from bayesgp_mf import hyper as hyper
    from bayesgp_mf import kernels as kernels
    from bayesgp_mf import likelihoods as likelihoods
    from bayesgp_mf import online as online
    from bayesgp_mf import plots as plots
    from bayesgp_mf import pymc as pymc
    from bayesgp_mf import sharded as sharded
    from bayesgp_mf import sklearn as sklearn
    from bayesgp_mf import streams as streams
    from bayesgp_mf.container.files import load as load
    from bayesgp_mf.container.files import save as save
    from bayesgp_mf.container.frames import to_frame as to_frame
    from bayesgp_mf.container.loo import loo as loo
    from bayesgp_mf.diagnostics.compare import compare as compare
    from bayesgp_mf.errors import BoundWarning as BoundWarning
    from bayesgp_mf.errors import ConvergenceError as ConvergenceError
    from bayesgp_mf.errors import ConvergenceWarning as ConvergenceWarning
    from bayesgp_mf.errors import DamagedFileError as DamagedFileError
    from bayesgp_mf.errors import InconsistentDataError as InconsistentDataError
    from bayesgp_mf.errors import LowRankError as LowRankError
    from bayesgp_mf.errors import NotPositiveDefiniteError as NotPositiveDefiniteError
    from bayesgp_mf.errors import Status as Status
    from bayesgp_mf.errors import UndefinedQuantityError as UndefinedQuantityError
    from bayesgp_mf.fitting import fit as fit
    from bayesgp_mf.fitting import posterior as posterior
    from bayesgp_mf.fitting import predict as predict
    from bayesgp_mf.inference.inducing import Inducing as Inducing
    from bayesgp_mf.inference.problem import Problem as Problem
    from bayesgp_mf.inference.solution import Control as Control
    from bayesgp_mf.inference.solution import Solution as Solution
    from bayesgp_mf.likelihoods import Binomial as Binomial
    from bayesgp_mf.likelihoods import Logit as Logit
    from bayesgp_mf.likelihoods import MultinomialProbit as MultinomialProbit
    from bayesgp_mf.likelihoods import NegativeBinomial as NegativeBinomial
    from bayesgp_mf.likelihoods import Ordinal as Ordinal
    from bayesgp_mf.likelihoods import Poisson as Poisson
    from bayesgp_mf.likelihoods import Probit as Probit
    from bayesgp_mf.likelihoods import Softmax as Softmax
    from bayesgp_mf.likelihoods import Step as Step
    from bayesgp_mf.likelihoods import StudentT as StudentT
    from bayesgp_mf.methods import solve as solve
    from bayesgp_mf.processes.single import Posterior as Posterior
    from bayesgp_mf.reports.report import report as report

__version__ = "0.2.0"

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
    "container.files": ("load", "save"),
    "container.frames": ("to_frame",),
    "container.loo": ("loo",),
    "diagnostics.compare": ("compare",),
    "errors": (
        "BoundWarning",
        "ConvergenceError",
        "ConvergenceWarning",
        "DamagedFileError",
        "InconsistentDataError",
        "LowRankError",
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
__all__ = sorted([*_SUBPACKAGES, *_HOME_OF])  # as the names above, which a test compares
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
