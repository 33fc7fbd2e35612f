"""Labels drawn from a Gaussian process that is known, so that a method can be held against the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.arguments import as_generator, check_integers
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit
from bayesgp_mf.matrices.factors import psd_root
from bayesgp_mf.types import Array


class Toy(NamedTuple):
    """A problem drawn from its own model.

    Attributes
    ----------
    X : (n, d) array
        Training inputs.
    y : (n,) array
        Training labels 0/1 (real targets for a likelihood that has them).
    f : (n,) array
        The latent values behind them.
    X_test, y_test, f_test : arrays
        The same for new cases of the same function.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> toy.X.shape, toy.y[:5]
    ((40, 2), array([1., 1., 1., 1., 1.]))
    """

    X: Array
    y: Array
    f: Array
    X_test: Array
    y_test: Array
    f_test: Array


def make_toy(
    kernel: Kernel,
    likelihood: Likelihood = Probit(),
    *,
    n: int = 100,
    n_test: int = 100,
    d: int = 2,
    random_seed: int | np.random.Generator | None = None,
) -> Toy:
    """Draw inputs from N(0, I), one function from the prior, and a label for each input.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance of the function.
    likelihood : Likelihood
        How labels follow from it.
    n, n_test : int
        Training and test cases.
    d : int
        Inputs.
    random_seed : int, numpy.random.Generator or None
        Source of randomness.

    Returns
    -------
    Toy
        X (n, d), y and f (n,), and the same for the test cases.

    Raises
    ------
    ValueError
        If ``n`` or ``d`` is not a positive integer, ``n_test`` is negative, or ``random_seed`` is no seed.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(), n=50, random_seed=1)
    >>> toy.X.shape, toy.y.shape
    ((50, 2), (50,))
    """
    check_integers(1, n=n, d=d)
    check_integers(0, n_test=n_test)
    rng = as_generator(random_seed)
    X = rng.standard_normal((n + n_test, d))
    root = psd_root(kernel.gram(X))
    # a number for each case, of which the root takes as many as its rank: that may differ by the processor's rounding
    f = root @ rng.standard_normal(n + n_test)[: root.shape[1]]
    t = likelihood.sample(f, rng)
    y = (t > 0).astype(np.float64) if likelihood.is_binary else t
    return Toy(X[:n], y[:n], f[:n], X[n:], y[n:], f[n:])
