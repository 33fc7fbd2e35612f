r"""Points and weights at which a density close to a standard normal one is evaluated, to integrate over it.

A design is a set of points z_k with weights such that, for a function h and the standard normal density phi,
:math:`\sum_k w_k h(z_k) \approx \int h\, \phi\, dz`, exactly so for the mean and the covariance. For another density pi
the weights are :math:`w_k \pi(z_k) / \phi(z_k)`, normalised.

References
----------
.. [1] Rue, H., Martino, S., & Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using
   integrated nested Laplace approximations. JRSS B 71, 319-392. https://doi.org/10.1111/j.1467-9868.2008.00700.x
   Section 6.5.
.. [2] Sanchez, S. M., & Sanchez, P. J. (2005). Very large fractional factorial and central composite designs. ACM
   Transactions on Modeling and Computer Simulation 15, 362-377. https://doi.org/10.1145/1113316.1113320
.. [3] Naylor, J. C., & Smith, A. F. M. (1982). Applications of a method for the efficient computation of posterior
   distributions. Applied Statistics 31, 214-225. https://doi.org/10.2307/2347995
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.types import Array


class Design(NamedTuple):
    """Points ``(k, p)`` in standardised coordinates, and their weights ``(k,)``, which sum to one."""

    points: Array
    weights: Array


def product_rule(p: int, points: int) -> Design:
    """Return the product of p Gauss-Hermite rules: exact for polynomials up to degree 2 ``points`` - 1 in each z."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    grid = np.meshgrid(*[nodes] * p, indexing="ij")
    shares = np.meshgrid(*[weights] * p, indexing="ij")
    return Design(np.stack([axis.ravel() for axis in grid], axis=1), np.prod([s.ravel() for s in shares], axis=0))


def central_composite(p: int, reach: float) -> Design:
    r"""Return a central composite design ([1]_, section 6.5): a centre, and points on a sphere about it.

    On the sphere, of radius :math:`f_0 \sqrt p` with ``reach`` f_0 > 1, lie two points on each axis and the corners of
    a cube, or, where those are many, a fraction of them in which no two-factor interaction hides another ([2]_). With N
    points on it, the weights :math:`1/(N f_0^2)` of each, and :math:`1 - 1/f_0^2` of the centre, make mean and
    covariance exact.
    """
    on_axes = reach * np.sqrt(p) * np.vstack([np.eye(p), -np.eye(p)])
    sphere = np.vstack([on_axes, reach * factorial(p)])
    share = 1.0 / (sphere.shape[0] * reach**2)
    points = np.vstack([np.zeros(p), sphere])
    return Design(points, np.append(1.0 - 1.0 / reach**2, np.full(sphere.shape[0], share)))


def central_composite_size(p: int) -> int:
    """Return how many points `central_composite` has, without making them."""
    return 1 + 2 * p + _runs(_walsh_indices(p))


def factorial(p: int) -> Array:
    """Return a two-level design ``(2^m, p)`` of resolution V, entries -1 and 1.

    Column j is the Walsh function of an index. Each index is the smallest that is no exclusive or of three or fewer
    earlier ones, which makes those of [2]_: 1, 2, 4, 8, 15, 16, 32, 51, ...
    """
    indices = _walsh_indices(p)
    return np.array(
        [[1.0 - 2.0 * ((run & index).bit_count() % 2) for index in indices] for run in range(_runs(indices))]
    )


def _runs(indices: list[int]) -> int:
    return 1 << indices[-1].bit_length()


def _walsh_indices(p: int) -> list[int]:
    indices: list[int] = []
    pairs, triples = {0}, {0}  # exclusive ors of at most two, at most three
    candidate = 0
    while len(indices) < p:
        candidate += 1
        if candidate not in triples:
            triples |= {candidate ^ pair for pair in pairs}
            pairs |= {candidate ^ index for index in (0, *indices)}
            indices.append(candidate)
    return indices
