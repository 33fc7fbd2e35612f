"""Posterior <-> ArviZ: nobody else builds or reads a container."""
