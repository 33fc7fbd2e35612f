"""A Gram matrix that is no part of the package: known by a sparse precision, from a solution to its predictions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, diags_array, eye_array
from scipy.sparse.linalg import splu

import bayesgp_mf as bgp
from bayesgp_mf.matrices.matrix import Matrix, Sites
from bayesgp_mf.methods import get_method


def factorised(matrix):
    """Return what solves equations with a sparse positive-definite matrix, and its log determinant."""
    factor = splu(csc_array(matrix), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    if not np.all(factor.U.diagonal() > 0):
        raise bgp.NotPositiveDefiniteError("the precision is not positive definite")
    return factor.solve, float(np.sum(np.log(factor.U.diagonal())))


@dataclass(frozen=True, eq=False)
class PrecisionGram(Matrix):
    """K = A Q^-1 A' of cases at some of the nodes of a Gaussian Markov random field with precision Q."""

    precision: csc_array  # Q (nodes, nodes)
    at: np.ndarray  # the node of each case (n,)

    form = "precision"

    @cached_property
    def pick(self):
        """A (n, nodes)."""
        return eye_array(self.precision.shape[0], format="csr")[self.at]

    @cached_property
    def factor(self):
        """That of Q."""
        return factorised(self.precision)

    @cached_property
    def with_nodes(self):
        """A Q^-1 (n, nodes), the covariances of the cases with all nodes."""
        return self.factor[0](self.pick.T.toarray()).T

    def diagonal(self):
        """Return K_ii."""
        return self.with_nodes[np.arange(self.at.size), self.at]

    def __matmul__(self, vector):
        return self.pick @ self.factor[0](self.pick.T @ vector)

    def sites(self, precision):
        """Return the correction of sites."""
        return PrecisionSites(self, precision)

    def pull_back(self, gradient, field, X):
        """Return the derivatives in the parameters of a field from that in K: dK = -A Q^-1 dQ Q^-1 A'."""
        inner = self.with_nodes.T @ gradient @ self.with_nodes
        return {name: -float((slope * inner).sum()) for name, slope in field.slopes(X).items()}


class PrecisionSites(Sites):
    """The posterior under sites W, whose precision is Q + A'WA."""

    form = PrecisionGram.form

    def __init__(self, gram, site_precision):
        super().__init__(site_precision)
        self.gram, pick = gram, gram.pick
        self.solve, self.log_det_posterior = factorised(gram.precision + pick.T @ diags_array(site_precision) @ pick)

    @property
    def log_det(self):
        """Return log det(I + K W)."""
        return self.log_det_posterior - self.gram.factor[1]

    def posterior(self, shift):
        """Return the weights alpha = b - W Sigma b and the means Sigma b."""
        latent = self.gram.pick @ self.solve(self.gram.pick.T @ shift)
        return shift - (self.site_precision * latent.T).T, latent


@dataclass(frozen=True)
class Chain:
    """A process on a line that has no memory, of variance 1: its precision has three diagonals."""

    lengthscale: float

    def precision(self, x):
        """Return Q at places in order."""
        seen = np.exp(-np.diff(x) / self.lengthscale)  # the correlations of neighbours
        own, beside = 1.0 / (1.0 - seen**2), -seen / (1.0 - seen**2)
        return csc_array(diags_array([beside, np.r_[1.0, own] + np.r_[own - 1.0, 0.0], beside], offsets=[-1, 0, 1]))

    def slopes(self, x):
        """Return the derivatives of Q in the parameters, by name."""
        up, down = (Chain(self.lengthscale + h).precision(x) for h in (1e-5, -1e-5))
        return {"lengthscale": (up - down) / 2e-5}


rng = np.random.default_rng(1)
x, at = np.sort(rng.uniform(0.0, 30.0, 300)), rng.choice(300, 120)  # some nodes have two cases, many have none
y, cross = rng.poisson(np.exp(np.sin(x[at]))), np.exp(-np.abs(np.subtract.outer(x[at], x)) / 1.5)
grams = [PrecisionGram(Chain(lengthscale).precision(x), at) for lengthscale in (1.5, 1.5001, 1.4999)]
for name in ("tap", "laplace", "naive"):
    method = get_method(name)
    sparse, longer, shorter = (bgp.solve(gram, y, bgp.Poisson(), method=name) for gram in grams)
    dense = bgp.solve(cross[:, at], y, bgp.Poisson(), method=name)  # the same with all of its entries
    assert abs(sparse.evidence.value - dense.evidence.value) < 1e-7
    problem, whole = (bgp.Problem(gram, y, bgp.Poisson()) for gram in (grams[0], cross[:, at]))
    slope = grams[0].pull_back(method.gram_gradient(problem, sparse), Chain(1.5), x)["lengthscale"]
    assert abs(slope - (longer.evidence.value - shorter.evidence.value) / 2e-4) < 1e-5 < abs(slope)
    others = method.leave_one_out(problem, sparse), method.leave_one_out(whole, dense)
    np.testing.assert_allclose(*(each.log_density for each in others), atol=1e-6)
    pairs = ((sparse, grams[0].with_nodes), (dense, cross))  # predictions at all nodes, those without a case, too
    at_nodes = [(k.T @ each.alpha, 1.0 - each.correction.quadratic_diagonal(k)) for each, k in pairs]
    np.testing.assert_allclose(*at_nodes, atol=1e-6)
