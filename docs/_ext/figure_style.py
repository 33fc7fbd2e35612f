"""How the gallery looks: its pages are also read on a telephone, where a figure is 370 pixels wide."""

from __future__ import annotations

import warnings
from typing import Any


def prepare(gallery_conf: dict[str, Any], path: str) -> None:
    """Set what a script shows of titles, legends and warnings; sphinx-gallery has taken back the sizes of the last."""
    from matplotlib import pyplot

    pyplot.rcParams.update({"figure.titlesize": 10, "axes.titlesize": 10, "legend.fontsize": 8.5})
    # without the path of the script on the machine that builds these pages
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
    # about the speed of the machine that builds these pages, and not about the example
    warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
