"""More draws of a fit whose container has few: the same posterior, drawn from again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from bayesgp_mf.container.draws import draw_training
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.container.layout import Layout, common_attrs
from bayesgp_mf.container.stored import names_of
from bayesgp_mf.container.write import drawn_groups
from bayesgp_mf.processes.process import Part

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container


def with_draws(idata: Container, posterior: Part, chains: int, draws: int, rng: np.random.Generator) -> Container:
    """Return a container of the same fit, at one setting of the hyperparameters, with other draws.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned; it is left as it is.
    posterior : Posterior or MulticlassPosterior
        What was read from it.
    chains, draws : int
        How many.
    rng : numpy.random.Generator
        Source of randomness.
    """
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    features = names_of(groups["constant_data"]["feature"].values)
    layout = Layout(
        posterior.problem.n,
        features or np.arange(posterior.X.shape[1]),
        tuple(json.loads(groups["fit"].attrs["class_names"])),
        (chains, draws),
        groups["constant_data"]["obs_id"].values,
    )
    node = np.zeros((chains, draws), dtype=np.intp)
    drawn = drawn_groups(posterior, draw_training(posterior, node, rng, "gaussian"), node, {}, layout, [], {})
    return make_container(groups | {name: group.assign_attrs(common_attrs()) for name, group in drawn.items()})
