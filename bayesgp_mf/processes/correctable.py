"""Which processes have corrected predictions."""

from __future__ import annotations

from collections.abc import Sequence

from bayesgp_mf.processes.corrected import check_corrected, nothing_to_correct
from bayesgp_mf.processes.several_classes import Process
from bayesgp_mf.processes.single import Posterior


def correctable(parts: Sequence[Process]) -> list[Posterior]:
    """Return processes whose predictions can be corrected, or raise a ValueError that says what to do."""
    found = []
    for part in parts:
        if not isinstance(part, Posterior):
            raise ValueError("corrected=True is for two classes, and this fit has several. Leave it out.")
        if not nothing_to_correct(part.problem):
            check_corrected(part.problem, part.solution)
        found.append(part)
    return found
