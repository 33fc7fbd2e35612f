"""The operations under PyTensor's numba linker: as calls back to Python, without its warning that it does so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import generate_fallback_impl, register_funcify_and_cache_key

from bayesgp_mf.pymc.op import Inference
from bayesgp_mf.pymc.target import LogTarget


def _call_python(op: Any, node: Apply, **kwargs: Any) -> tuple[Callable[..., Any], None]:
    with warnings.catch_warnings():
        # it is news to nobody that this operation is written in Python, and it costs 0.05 ms
        warnings.filterwarnings("ignore", message="Numba will use object mode")
        return generate_fallback_impl(op, node, **kwargs), None  # None: not to be cached on disk


register_funcify_and_cache_key(Inference)(_call_python)
register_funcify_and_cache_key(LogTarget)(_call_python)
