"""Kernel and likelihood as one thing with parameters: what a choice of hyperparameters chooses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

PREFIX = "likelihood_"
"""Stands before the name of a parameter of the likelihood where the kernel has one of the same name."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A kernel and a likelihood, with the parameters of both under their names.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance.
    likelihood : Likelihood
        p(t | f).
    named : mapping of str to str
        Parameters of the likelihood that belong to the hyperparameters: by the name that they have here, that which
        the likelihood gives them. The others are part of it.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.hyper import Model
    >>> model = Model.of(bgp.kernels.Gaussian(2.0), bgp.likelihoods.Gaussian(0.1))
    >>> list(model.params)
    ['lengthscale', 'variance', 'noise_variance']
    >>> model.replace(noise_variance=0.5).likelihood
    Gaussian(noise_variance=0.5)
    """

    kernel: Kernel
    likelihood: Likelihood
    named: Mapping[str, str]

    @classmethod
    def of(cls, kernel: Kernel, likelihood: Likelihood, also: Collection[str] = ()) -> Model:
        """Return a model with those parameters of the likelihood that are tuned by default, and ``also`` some others.

        One that is zero is switched off, and is none of them unless it is named.
        """
        rules, values = likelihood.tunables, likelihood.parameters
        names = public_names(kernel, likelihood)
        named = {
            name: own for name, own in names.items() if name in also or (rules[own].by_default and values[own] != 0)
        }
        return cls(kernel, likelihood, named)

    @property
    def params(self) -> Mapping[str, Array]:
        """The parameters of the kernel, then those of the likelihood, by name."""
        if not self.named:
            return self.kernel.params
        values = self.likelihood.parameters
        return {**self.kernel.params, **{name: np.asarray(values[own]) for name, own in self.named.items()}}

    def replace(self, **values: Any) -> Model:
        """Return the model with some parameters replaced; ValueError if kernel or likelihood refuses a value."""
        now = self.likelihood.parameters
        ours = {own: float(values.pop(name)) for name, own in self.named.items() if name in values}
        ours = {own: value for own, value in ours.items() if value != now[own]}  # the same numbers, the same object
        return replace(
            self,
            kernel=self.kernel.replace(**values) if values else self.kernel,
            likelihood=self.likelihood.with_parameters(**ours) if ours else self.likelihood,
        )

    def limit(self, name: str) -> float:
        """Return what a parameter must stay below."""
        return self.likelihood.tunables[self.named[name]].below if name in self.named else np.inf


def public_names(kernel: Kernel, likelihood: Likelihood) -> dict[str, str]:
    """Return all parameters of a likelihood by the name that they have beside a kernel."""
    taken = kernel.params
    return {PREFIX + own if own in taken else own: own for own in likelihood.parameters}
