"""Before, between and after fits: what a model says before there are data, and whether its computation holds.

Each file has one verb of the workflow, which the top of the package names; nobody looks inside.
"""
