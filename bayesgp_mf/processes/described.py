"""What a posterior process prints."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgp_mf.notebook import as_html, in_words


def described(process: Any) -> str:
    """Return in three lines what a process was solved for, how, and what its evidence says."""
    problem, solution = process.problem, process.solution
    likelihood, by_case = problem.likelihood.of_one_case, problem.likelihood.stored_by_case
    evidence = f"{solution.evidence}" if solution.has_variance else "no evidence"
    return "\n  ".join(
        [
            f"{type(process).__name__}, {problem.n} cases, {process.X.shape[1]} inputs, method {solution.method!r}",
            f"{process.kernel!r}, {likelihood!r}{' with ' * bool(by_case)}{' and '.join(by_case)}",
            f"{evidence}, {solution.info.status.name.lower()}",
        ]
    )


def described_html(process: Any) -> str:
    """Return the same for a notebook, with the parameters of the kernel by the names of the inputs."""
    problem, solution = process.problem, process.solution
    by_case = problem.likelihood.stored_by_case
    names = process.feature_names or range(process.X.shape[1])
    rows: list[tuple[str, object]] = [
        ("data", f"{problem.n} cases, {process.X.shape[1]} inputs{' with ' * bool(by_case)}{' and '.join(by_case)}"),
        ("kernel", repr(process.kernel)),
        ("likelihood", repr(problem.likelihood.of_one_case)),
        *((name, in_words(np.ravel(value), names)) for name, value in process.kernel.params.items()),
        ("method", solution.method),
        ("evidence", f"{solution.evidence}" if solution.has_variance else "none"),
        ("status", f"{solution.info.status.name.lower()} after {solution.info.n_iterations} steps"),
    ]
    return as_html(type(process).__name__, rows)
