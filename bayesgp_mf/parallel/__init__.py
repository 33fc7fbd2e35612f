"""What stands between an algorithm and the machines it runs on; all above matrices may use it."""

from bayesgp_mf.parallel.backends import Backend, Serial, backend, check_client
from bayesgp_mf.parallel.cluster import Dask
from bayesgp_mf.parallel.processes import Processes
from bayesgp_mf.parallel.worker import Answer, tree_sum

__all__ = ["Answer", "Backend", "Dask", "Processes", "Serial", "backend", "check_client", "tree_sum"]
