"""Predictions for a table in parts, made where its parts are and gathered nowhere."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.streams import Stream


def predict(stream: Stream, frame: Any) -> Any:
    """Return predictions for the rows of a Dask frame, lazily.

    Parameters
    ----------
    stream : Stream
        A posterior, such as `ShardedFit.stream`.
    frame : dask.dataframe.DataFrame
        New cases; columns that are no inputs are left out.

    Returns
    -------
    dask.dataframe.DataFrame
        ``latent_mean``, ``latent_sd`` and, of two classes, ``p``, the probability of the second one; with the index of
        the frame. Nothing is computed before it is asked for, and ``to_parquet`` gathers nothing.

    Raises
    ------
    ValueError
        If the frame lacks inputs of the stream.
    """
    if not hasattr(frame, "map_partitions"):
        raise ValueError(f"frame must be a Dask frame, got {type(frame).__name__}; a stream predicts others itself.")
    names = list(frame.columns) if stream.features is None else stream.features
    missing = [name for name in names if name not in list(frame.columns)]
    if missing:
        raise ValueError(f"the frame lacks columns {missing} of the inputs {names}.")
    columns = ["latent_mean", "latent_sd", *(["p"] if stream.likelihood.targets == "binary" else [])]
    meta = pd.DataFrame({name: np.empty(0) for name in columns})
    return frame[names].map_partitions(partial(_predicted, stream, columns), meta=meta)


def _predicted(stream: Stream, columns: list[str], part: pd.DataFrame) -> pd.DataFrame:
    if not len(part):
        return pd.DataFrame({name: np.empty(0) for name in columns}, index=part.index)
    with one_thread_if_small(0):  # a core for each worker
        mean, variance = stream.latent(part)
        found = {"latent_mean": mean, "latent_sd": np.sqrt(variance)}
        if "p" in columns:
            found["p"] = stream.likelihood.predict_proba(mean, variance)
    return pd.DataFrame(found, index=part.index)
