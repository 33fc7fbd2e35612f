"""Posterior processes: what a solution says anywhere. The doors and the container look inside."""
