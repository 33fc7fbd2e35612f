"""The approximations inside PyMC models: hyperparameters are sampled, latent values are integrated out.

`Marginal` has the verbs of ``pm.gp``; `LogEvidence` is the operation beneath it, log p(labels | K) with its gradient;
`sample_latent` draws the latent values afterwards, with what ArviZ needs; `latent_model` is the exact model to compare
with, `latent_conditional` predicts in it, and `OrthantStep` a step method that samples it under a step likelihood;
`kernel_from_pymc` takes a covariance function of PyMC to the rest of this package, and `kernel_to_pymc` a kernel of
this package to PyMC; `Nuts` is a strategy for `fit`. The rest of the package asks for it
only where a model or a covariance function of PyMC is given.
"""

from __future__ import annotations

from bayesgp_mf.pymc.covariance import KernelCovariance, kernel_to_pymc
from bayesgp_mf.pymc.draws import sample_latent
from bayesgp_mf.pymc.kernel import PymcKernel, kernel_from_pymc
from bayesgp_mf.pymc.latent import latent_conditional, latent_model, observe
from bayesgp_mf.pymc.marginal import Marginal
from bayesgp_mf.pymc.nuts import Nuts
from bayesgp_mf.pymc.op import LatentPosterior, LogEvidence
from bayesgp_mf.pymc.orthant_step import LinearEllipticalSlice, OrthantStep

__all__ = [
    "KernelCovariance",
    "LatentPosterior",
    "LinearEllipticalSlice",
    "LogEvidence",
    "Marginal",
    "Nuts",
    "OrthantStep",
    "PymcKernel",
    "kernel_from_pymc",
    "kernel_to_pymc",
    "latent_conditional",
    "latent_model",
    "observe",
    "sample_latent",
]
