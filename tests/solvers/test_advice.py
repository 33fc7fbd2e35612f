"""What an error advises can be done with the likelihood that it is about."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import likelihoods
from bayesgp_mf.errors import ConvergenceError, Status
from bayesgp_mf.inference.problem import status_in_words
from bayesgp_mf.likelihoods.by_case import by_case

OWN = {
    "Probit": (bgp.Probit(), "Probit(noise_variance"),
    "Logit": (bgp.Logit(), "Probit(flip"),
    "Gaussian": (likelihoods.Gaussian(), "noise_variance of the likelihood"),
    "StudentT": (bgp.StudentT(), "scale of the likelihood"),
    "Poisson": (bgp.Poisson(), "NegativeBinomial(dispersion)"),
    "NegativeBinomial": (bgp.NegativeBinomial(1.0), "dispersion of the likelihood"),
    "Binomial": (likelihoods.Binomial(3), "kernels.White"),
    "Ordinal": (bgp.Ordinal([0.0]), "noise_variance of the likelihood"),
    "Quadrature": (likelihoods.Quadrature(lambda t, f: -t * f), "kernels.White"),
}


@pytest.mark.parametrize("status", [Status.STALLED, Status.NO_VALID_STEP])
@pytest.mark.parametrize("name", OWN)
def test_the_advice_is_of_the_likelihood(name, status):
    likelihood, own = OWN[name]
    for said in (likelihood, by_case(likelihood, prior_mean=np.zeros(2))):
        sentence = status_in_words(status, said, "tap")
        assert own in sentence
        assert "kernels.White(...)" in sentence
    if likelihood.targets == "real":
        assert "Probit" not in sentence
        assert "label" not in sentence


def test_parameters_that_are_named_are_there():
    for likelihood, _ in OWN.values():
        ways = likelihood.ways_to_noise
        if " of the likelihood" in ways:
            assert ways.partition(" of the likelihood")[0].split()[-1] in likelihood.parameters


def test_a_search_for_the_mode_that_stalls_says_so():
    class Downhill(bgp.StudentT):
        """A likelihood that says, wrongly, that it rises where it falls."""

        def log_prob(self, t, f):
            derivs = super().log_prob(t, f)
            return derivs._replace(d1=-derivs.d1)

    with pytest.raises(ConvergenceError, match="a larger scale of the likelihood"):
        bgp.solve([[1.0]], [0.3], Downhill(0.1), method="laplace")
