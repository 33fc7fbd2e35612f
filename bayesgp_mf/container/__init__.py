"""Posterior <-> ArviZ: nobody else builds or reads a container.

Doors, diagnostics, pages, tables in parts and estimators look inside, each for what a file's name says: `groups` (those
of a container, whichever ArviZ is installed), `layout` (the names of what is in them), `write`, `read`, `predictions`,
`loo`, `draws`, `frames`, `parts`, `stored`, `quality`.
"""
