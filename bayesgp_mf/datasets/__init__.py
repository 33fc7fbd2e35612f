"""Small classification sets with the splits of the literature, and labels drawn from a known process."""

from __future__ import annotations

from bayesgp_mf.datasets.crabs import load_crabs
from bayesgp_mf.datasets.dataset import Dataset
from bayesgp_mf.datasets.forensic_glass import load_forensic_glass
from bayesgp_mf.datasets.frames import FrameDataset
from bayesgp_mf.datasets.pima import load_pima
from bayesgp_mf.datasets.sonar import load_sonar
from bayesgp_mf.datasets.toy import Toy, make_toy

__all__ = ["Dataset", "FrameDataset", "Toy", "load_crabs", "load_forensic_glass", "load_pima", "load_sonar", "make_toy"]
