"""Small classification sets with the splits of the literature, and labels drawn from a known process.

Users and `validation` look inside; nothing in the package does.
"""

from __future__ import annotations

from bayesgp_mf.datasets.dataset import Dataset, FrameDataset
from bayesgp_mf.datasets.loaders import load_crabs, load_forensic_glass, load_pima, load_sonar
from bayesgp_mf.datasets.toy import Toy, make_toy

__all__ = ["Dataset", "FrameDataset", "Toy", "load_crabs", "load_forensic_glass", "load_pima", "load_sonar", "make_toy"]
