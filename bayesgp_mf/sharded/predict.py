"""Predictions for a table in parts, made where its parts are and gathered nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesgp_mf.container.groups import Container
from bayesgp_mf.fitting import posterior
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.processes.process import Process
from bayesgp_mf.sharded.fit import ShardedFit
from bayesgp_mf.streams import Stream
from bayesgp_mf.types import Array


def predict(stream: Stream | ShardedFit | Process | Container, frame: Any) -> Any:
    """Return predictions for the rows of a Dask frame, lazily.

    Parameters
    ----------
    stream : Stream, ShardedFit, Process, InferenceData or DataTree
        A posterior: a stream, what `sharded.fit_stream`, `sharded.fit` or `bgp.fit` returned, or `bgp.posterior` of
        that; of two classes or real targets.
    frame : dask.dataframe.DataFrame
        New cases; columns that are not inputs are ignored.

    Returns
    -------
    dask.dataframe.DataFrame
        ``latent_mean``, ``latent_sd`` and, for two classes, ``p``, the probability of class 1; with the index of the
        frame. It is computed when you ask for it, and ``to_parquet`` collects nothing on the client.

    Raises
    ------
    ValueError
        If ``stream`` is not such a posterior, or the frame lacks some of its inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["distance", "wind"])
    >>> frame["label"] = np.where(frame["wind"] > 0, "late", "on time")
    >>> import dask.dataframe as dd
    >>> ddf = dd.from_pandas(frame, npartitions=3)
    >>> idata = bgp.sharded.fit(ddf, "label", bgp.kernels.Gaussian(2.0), inducing=20, positive="late", random_seed=1)
    >>> bgp.sharded.predict(idata, ddf[["distance", "wind"]]).head(2).columns.tolist()
    ['latent_mean', 'latent_sd', 'p']
    """
    if not hasattr(frame, "map_partitions"):
        raise ValueError(
            f"frame must be a Dask frame, got {type(frame).__name__}; others are predicted by "
            "bgp.predict(idata, X_new) and stream.predict_proba(X_new)."
        )
    known = _known(stream)
    names = list(frame.columns) if known.features is None else list(known.features)
    missing = [name for name in names if name not in list(frame.columns)]
    if missing:
        raise ValueError(f"the frame lacks columns {missing} of the inputs {names}.")
    columns = ["latent_mean", "latent_sd", *(["p"] if known.has_classes else [])]
    meta = pd.DataFrame({name: np.empty(0) for name in columns})
    return frame[names].map_partitions(partial(_predicted, known, columns), meta=meta)


class _Known(NamedTuple):
    """What predictions take: the names of the inputs, and mean, sd and (of two classes) the probability at new ones."""

    features: Sequence[str] | None
    has_classes: bool
    at: Callable[[Any], tuple[Array, ...]]


def _known(given: Any) -> _Known:
    """Return what predictions take of a posterior, or raise a ValueError if it is none."""
    if isinstance(given, ShardedFit):
        given = given.stream
    if isinstance(given, Stream):
        has_classes = given.likelihood.is_binary
        return _Known(given.features, has_classes, partial(_of_stream, given))
    process = posterior(given) if hasattr(given, "groups") else given
    parts: Any = process.parts if isinstance(process, Process) else ()
    if not parts or parts[0].problem.likelihood.has_classes:
        raise ValueError(
            "stream must be a Stream, what sharded.fit or bgp.fit returned, or bgp.posterior(idata), of two classes or "
            f"real targets, got {type(given).__name__}."
        )
    has_classes = parts[0].problem.likelihood.is_binary
    return _Known(parts[0].feature_names, has_classes, process.predictive if has_classes else process.latent)


def _of_stream(stream: Stream, X: Any) -> tuple[Array, ...]:
    mean, variance = stream.latent(X)
    if stream.likelihood.is_real:
        return mean, variance
    return mean, variance, stream.likelihood.predict_proba(mean, variance)


def _predicted(known: _Known, columns: list[str], part: pd.DataFrame) -> pd.DataFrame:
    if not len(part):
        return pd.DataFrame({name: np.empty(0) for name in columns}, index=part.index)
    with one_thread_if_small(0):  # a core for each worker
        mean, variance, *proba = known.at(part)
    return pd.DataFrame(dict(zip(columns, [mean, np.sqrt(variance), *proba], strict=True)), index=part.index)
