"""Which processes have corrected predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bayesgp_mf.processes.corrected import CorrectedProba, check_corrected, nothing_to_correct
from bayesgp_mf.processes.several_classes import Process
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.types import Array


class Correctable(Protocol):
    """A process whose predictions can be corrected, of one posterior or of several."""

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return corrected probabilities, and how good they are, at inputs that were checked."""

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each case given the others, corrected."""


def with_corrections(process: Any) -> Correctable:
    """Return a process whose predictions can be corrected, or raise a ValueError that says what to do."""
    correctable(process.parts)
    corrected: Correctable = process
    return corrected


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
