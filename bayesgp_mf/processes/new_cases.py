"""What is known of new cases beside their inputs, handed to a posterior process that is asked of their targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.processes.process import Process
from bayesgp_mf.types import Array

_ADVICE = {
    "offset": "this fit has no offset. Leave it out, or fit with one, fit(..., offset=np.zeros(n))",
    "trials": "trials are those of likelihoods.Binomial, and this fit has another likelihood. Leave them out",
}


def with_new_cases(process: Process, given: Mapping[str, Array]) -> Process:
    """Return a process that is to be asked of new cases with these offsets and trials ``(m,)``, by name.

    Raises
    ------
    ValueError
        If the fit has not what is given, or has what is not given and must be.
    """
    check_new_cases(process.parts[0].problem.likelihood, given)
    if not given:
        return process
    parts = [replace(part, new_cases=dict(given)) for part in process.parts]
    return Process(tuple(parts), process.weights) if process.averaged else parts[0]


def check_new_cases(likelihood: Likelihood, given: Mapping[str, Array]) -> None:
    """Raise a ValueError if the fit has not what is given, or has what is not given and must be."""
    for name in given:
        if name not in likelihood.new_case_facts:
            raise ValueError(f"{name} of new cases goes with a fit that has it, and {_ADVICE[name]}.")
    likelihood.of_new_cases(**given)  # which raises if something is missing
