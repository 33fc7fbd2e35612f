"""The model where none is given: a length scale for each of d standardised inputs, and how long it may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from bayesgp_mf.hyper import LogNormal, Prior
from bayesgp_mf.kernels import Gaussian, Kernel
from bayesgp_mf.types import Array

REACH = 3.0
"""Length scales at the start, in sqrt(d): the distance of two cases of standardised inputs is sqrt(2 d) or so."""
SPREAD = 0.5
"""Standard deviation of the logarithm of a length scale. Without a prior, 30 or 60 of them are fitted to noise: a
search takes ten times as long, and predicts worse than with a single one (`make bench ARGS=sklearn`)."""
VARIANCE = 10.0
"""Of the latent function of a classifier, where labels have noise variance 1."""
SIGNAL = 1.0
"""Of that of a regressor, whose targets have variance 1."""
VARIANCE_SPREAD = 1.5
NOISE = 0.1
"""Noise variance of a target of variance 1, at the start."""
_SPREADS = {"lengthscale": SPREAD, "noise_variance": 1.0}
"""A wider prior of the noise lets it go, in a few cases without any, to where rounding decides."""


def default_kernel(d: int, bounds: Mapping[str, tuple[float, float]] | None, variance: float) -> Kernel:
    """Return the kernel for d standardised inputs, whose parameters start within their bounds, if they have bounds."""
    kernel = Gaussian(np.full(d, REACH * math.sqrt(d)), variance)
    limits = {name: bounds[name] for name in kernel.params if bounds and name in bounds}
    return kernel.replace(**{name: np.clip(kernel.params[name], *limits[name]) for name in limits})


def default_priors(params: Mapping[str, Array], without: Iterable[str]) -> dict[str, Prior]:
    """Return priors of the parameters of a default model, but for those that something else is said of."""
    spread = {name: _SPREADS.get(name, VARIANCE_SPREAD) for name in params}
    centre = {name: float(np.log(np.ravel(value)[0])) for name, value in params.items()}
    left_out = set(without)
    return {name: LogNormal(centre[name], spread[name]) for name in spread if name not in left_out}
