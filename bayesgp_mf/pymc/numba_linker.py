"""The operations under PyTensor's numba linker: as calls back to Python, without its warning that it does so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify

from bayesgp_mf.pymc.covariance import AtKernel
from bayesgp_mf.pymc.graph import Interpreted
from bayesgp_mf.pymc.op import Inference
from bayesgp_mf.pymc.target import LogTarget


def _call_python(op: Any, node: Apply, **kwargs: Any) -> Callable[..., Any]:
    with warnings.catch_warnings():
        # it is news to nobody that this operation is written in Python, and it costs 0.05 ms
        warnings.filterwarnings("ignore", message="Numba will use object mode")
        return cast("Callable[..., Any]", generate_fallback_impl(op, node, **kwargs))


numba_funcify.register(Inference)(_call_python)
numba_funcify.register(AtKernel)(_call_python)
numba_funcify.register(LogTarget)(_call_python)
numba_funcify.register(Interpreted)(_call_python)
