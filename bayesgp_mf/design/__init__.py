"""The next question: what a label would tell, which to ask for, and experiments that ask and are told.

Nobody looks inside.
"""

from __future__ import annotations

from bayesgp_mf.design.experiment import Experiment
from bayesgp_mf.design.feasibility import Feasibility, feasibility
from bayesgp_mf.design.information import batch, information
from bayesgp_mf.design.look_ahead import LookAhead, look_ahead

__all__ = ["Experiment", "Feasibility", "LookAhead", "batch", "feasibility", "information", "load", "look_ahead"]

load = Experiment.load
