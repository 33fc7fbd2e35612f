"""What a posterior process prints."""

from __future__ import annotations

from typing import Any


def described(process: Any) -> str:
    """Return in three lines what a process was solved for, how, and what its evidence says."""
    problem, solution = process.problem, process.solution
    evidence = f"{solution.evidence}" if solution.has_variance else "no evidence"
    return "\n  ".join(
        [
            f"{type(process).__name__}, {problem.n} cases, {process.X.shape[1]} inputs, method {solution.method!r}",
            f"{process.kernel!r}, {problem.likelihood!r}",
            f"{evidence}, {solution.info.status.name.lower()}",
        ]
    )
