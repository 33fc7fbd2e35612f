"""Where the records are."""

from __future__ import annotations

from pathlib import Path

from validation.sampling.recorded import FOLDER


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Return the file of the record of a setting."""
    return folder / f"{name}_multinomial_probit_nuts.nc"
