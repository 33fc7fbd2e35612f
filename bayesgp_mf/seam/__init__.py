"""The one seam between an algorithm and the machines it runs on; all above matrices may use it."""

from bayesgp_mf.seam.backends import Answer, Backend, Dask, Processes, Serial, tree_sum

__all__ = ["Answer", "Backend", "Dask", "Processes", "Serial", "tree_sum"]
