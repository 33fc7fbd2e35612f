"""Solvers: from a Gram matrix, targets and a likelihood to a `Solution`.

A solver never sees inputs or a kernel. All of them have one face, the protocol `inference.solver.Solver`, and stand in
one registry, `methods.METHODS`. The other methods, processes and diagnostics look inside.
"""
