r"""One sweep over all training cases, as posterior means and covariances of their latent values.

Each case has a Gaussian factor, exp(b f - W f^2 / 2), its *site*. A visit works out which factor would give the
mean and variance that the case's likelihood gives, and changes the covariances by one rank. What the visit
starts from is all that differs between seeing a case for the first time, as if it were new, or instead of its
own former factor.

Covariances are kept as a root, Sigma = F F', and every change of them is a change of the root [1]_. Sigma itself would
lose what little variance is left where K is nearly singular, or where the noise is tiny beside it.

References
----------
.. [1] Potter's square-root filter; see Bierman, G. J. (1977). Factorization Methods for Discrete Sequential
   Estimation. Academic Press.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.matrices.factors import scaled_root
from bayesgp_mf.solvers.root_form import posterior_root
from bayesgp_mf.solvers.sites import State, match
from bayesgp_mf.types import Array, Derivs

Reuse = Literal["replace", "as_new"]
"""What becomes of a case's former factor when it is visited again."""


class Sweep(NamedTuple):
    """What one sweep did, indexed by case.

    Attributes
    ----------
    sites : State
        The sites ``(n,)`` after it.
    mean, variance : (n,) array
        Of each latent value when its own target was taken in, in latent units and their square.
    derivs : Derivs
        log Z and its derivatives there; the sum of a first sweep's values is the running log evidence, in nats.
    columns : (n, n) array
        Column i: the covariances of case i with all cases when it was visited.
    latent, sd : (n,) array
        Posterior means and standard deviations after it, in latent units.
    """

    sites: State
    mean: Array
    variance: Array
    derivs: Derivs
    columns: Array
    latent: Array
    sd: Array


def sweep(problem: Problem, order: tuple[int, ...], start: State, reuse: Reuse) -> Sweep:
    r"""Visit every case once, in the given order.

    With W, b the case's site, :math:`(\mu, \sigma^2)` its current mean and variance and :math:`(m, \lambda)` the
    same without its former factor ("as_new": with it),

    .. math::
        W' = \frac{-d_2}{1 + \lambda d_2}, \qquad b' = W' m + \frac{d_1}{1 + \lambda d_2}

    is the factor that its likelihood amounts to (2000, eq. 29). It takes the place of the former one, or
    ("as_new") multiplies it. From sites that say nothing this is thesis, eqs. 52 and 53.

    O(n^3) time, O(n^2) memory. With "replace" a case is left out, and what is returned about it but its site is
    NaN, if without its factor there is no proper Gaussian; this happens with negative factors (labels that look
    flipped), far from a fixed point. There is a NotPositiveDefiniteError if the sites together leave no proper
    Gaussian, or a case's own factor is not one.
    """
    n, t, prior = problem.n, problem.t, problem.matrix.diagonal()
    precision, shift = start.precision.copy(), start.shift.copy()
    mu, root = posterior_root(scaled_root(problem.dense_gram), start)
    mean, variance, value, d1, d2 = np.full((5, n), np.nan)
    columns = np.empty((n, n))
    for i in order:
        own = root[i].copy()
        column = root @ own
        former = State(precision[i], shift[i]) if reuse == "replace" else State(np.zeros(()), np.zeros(()))
        rest = 1.0 - former.precision * column[i]
        if not rest > 0:  # without its factor the rest is no Gaussian; it may be when the others have changed
            continue
        variance[i] = column[i] / rest
        mean[i] = (mu[i] - former.shift * column[i]) / rest
        case, own_likelihood = slice(i, i + 1), problem.likelihood.of_cases(np.array([i]))
        if variance[i] > 0 or prior[i] == 0:  # otherwise an error is raised below
            value[case], d1[case], d2[case] = own_likelihood.log_partition(t[case], mean[case], variance[case])
        with np.errstate(all="ignore"):  # what is not finite is an error below
            derivs = Derivs(value[case], d1[case], d2[case])
            site = match(own_likelihood, t[case], Cavity(mean[case], variance[case]), derivs)
            proper = np.isfinite(value[i]) and np.isfinite(site.precision[0]) and np.isfinite(site.shift[0])
            share = 1.0 + variance[i] * site.precision[0]  # variance before the target came over variance after
        if not (proper and share > 0):
            raise NotPositiveDefiniteError(
                f"case {i} has no proper Gaussian factor: latent mean {mean[i]:.3g}, variance {variance[i]:.3g} "
                f"before its target {t[i]:g} came. Allow noise by {own_likelihood.ways_to_noise}."
            )
        change = site.precision[0] - former.precision
        change_shift = site.shift[0] - former.shift
        precision[i] += change
        shift[i] += change_shift
        # one more factor (change_shift, change) in f_i: q and r of thesis, eq. 52, at the current mean and variance
        share = 1.0 + change * column[i]
        mu += column * ((change_shift - change * mu[i]) / share)
        # Sigma - (change / share) column column'; of the two roots the one that stays next to F
        root -= np.outer(column, own * (change / (share + np.sqrt(share))))
        columns[:, i] = column
    sd = np.sqrt(np.einsum("ij,ij->i", root, root))
    return Sweep(State(precision, shift), mean, variance, Derivs(value, d1, d2), columns, mu, sd)
