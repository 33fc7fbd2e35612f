"""The same solution on many machines: tables in parts, in processes or on a Dask cluster.

Nobody looks inside: these names are its face.
"""

from __future__ import annotations

from bayesgp_mf.sharded.fit import ShardedFit, fit, fit_stream
from bayesgp_mf.sharded.predict import predict
from bayesgp_mf.sharded.sources import Table, from_arrays, from_dask, from_parquet

__all__ = ["ShardedFit", "Table", "fit", "fit_stream", "from_arrays", "from_dask", "from_parquet", "predict"]
