"""The one seam between an algorithm and the machines it runs on; all above matrices may use it."""

from bayesgp_mf.seam.backends import Backend, Serial, backend, check_client
from bayesgp_mf.seam.cluster import Dask
from bayesgp_mf.seam.processes import Processes
from bayesgp_mf.seam.sums import Answer, tree_sum

__all__ = ["Answer", "Backend", "Dask", "Processes", "Serial", "backend", "check_client", "tree_sum"]
