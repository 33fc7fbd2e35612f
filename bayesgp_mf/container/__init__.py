"""Posterior <-> ArviZ: nobody else builds or reads a container.

Others look into `groups` (those of a container, whichever ArviZ is installed), `layout` (the names of what is in them),
`write`, `read` and `predictions`.
"""
