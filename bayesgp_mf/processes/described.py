"""What a posterior process prints."""

from __future__ import annotations

from typing import Any

from bayesgp_mf.likelihoods.optional import of_one_case, stored_by_case


def described(process: Any) -> str:
    """Return in three lines what a process was solved for, how, and what its evidence says."""
    problem, solution = process.problem, process.solution
    likelihood, by_case = of_one_case(problem.likelihood), stored_by_case(problem.likelihood)
    evidence = f"{solution.evidence}" if solution.has_variance else "no evidence"
    return "\n  ".join(
        [
            f"{type(process).__name__}, {problem.n} cases, {process.X.shape[1]} inputs, method {solution.method!r}",
            f"{process.kernel!r}, {likelihood!r}{' with ' * bool(by_case)}{' and '.join(by_case)}",
            f"{evidence}, {solution.info.status.name.lower()}",
        ]
    )
