"""How figures of the gallery look: their pages are also read on a telephone, where a figure is 370 pixels wide."""

from __future__ import annotations

import warnings
from typing import Any


def prepare(gallery_conf: dict[str, Any], path: str) -> None:
    """Set the sizes of titles and legends before a script runs; sphinx-gallery has taken back those of the last one."""
    from matplotlib import pyplot

    pyplot.rcParams.update({"figure.titlesize": 10, "axes.titlesize": 10, "legend.fontsize": 8.5})
    # about the speed of the machine that builds these pages, and not about the example
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
