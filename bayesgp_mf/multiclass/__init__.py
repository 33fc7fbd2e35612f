"""More than two classes: what differs where each case has one latent value for each class.

Latent values, weights and means are ``(n, C)``: cases first, classes last. Gram matrices are ``(n, n)`` where the
classes share one kernel, and ``(C, n, n)`` where each has its own. No matrix of C n rows is ever made.
`methods`, processes and streams look inside.
"""

from __future__ import annotations
