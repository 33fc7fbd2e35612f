"""d log Z / d theta of every kernel under every method with an evidence, over six decades of length scale."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.kernels import White
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from tests.kernels.cases import CASES, SMOOTH

SCALES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
STEP = 1e-4
METHODS_WITH_EVIDENCE = [name for name in METHODS if name != "svm"]
rng = np.random.default_rng(4)
X = rng.standard_normal((7, 3))
T = np.where(X[:, 0] + 0.5 * rng.standard_normal(7) > 0, 1.0, -1.0)


def at_scale(kernel, scale):
    """Return the kernel with its length scales, or weights, times ``scale``; one without either, its variance."""
    scaled = {name: scale * v for name, v in kernel.params.items() if name.endswith(("lengthscale", "weight"))}
    return kernel.replace(**(scaled or {name: scale * v for name, v in kernel.params.items()}))


def compare(kernel, method, X=X):
    """Return the gradient in the logarithms and its central differences."""
    # exact integration of labels is a lattice rule, the gradient of which is that of the integral, not of the rule
    targets, likelihood = (X[:, 0], Gaussian(0.3)) if method == "exact" else (T, bgp.Probit())
    control = bgp.Control(tolerance=1e-10, max_iterations=5000)
    evaluate = Objective(Target(X, targets, likelihood, kernel, METHODS[method], control), EvidenceScore())
    at = evaluate.target.start
    answer = evaluate(at)
    assert answer is not None, evaluate.last_failure
    values = [evaluate.value(at + sign * STEP * e) for e in np.eye(at.size) for sign in (1.0, -1.0)]
    assert None not in values, evaluate.last_failure
    ahead, behind = np.reshape(values, (-1, 2)).T
    return answer[1], (ahead - behind) / (2.0 * STEP)


# a method sees a matrix: one method meets all kernels at all scales, and one kernel all methods at all of them; else
# each kernel meets a third of the methods, in turn
WALKED = [
    (name, method)
    for k, name in enumerate(CASES)
    for m, method in enumerate(METHODS_WITH_EVIDENCE)
    if method == "tap" or name == "gaussian ard" or (k + m) % 3 == 0
]


@pytest.mark.parametrize(("name", "method"), WALKED)
def test_gradient_of_every_kernel_under_an_evidence(name, method):
    apart, apart_if_wrong = [], []
    for scale in SCALES if method == "tap" or name == "gaussian ard" else SCALES[1::2]:
        # the variational evidence is that of an invertible Gram matrix
        inputs = X if name in SMOOTH else np.round(X)  # groups of more than one case
        gradient, difference = compare(at_scale(CASES[name], scale) + White(0.3), method, inputs)
        allowed = 3e-6 + 1e-5 * np.abs(difference)  # rounding of two values over the step; its square
        apart.append(np.max(np.abs(gradient - difference) / allowed))
        apart_if_wrong.append(np.max(np.abs(1.001 * gradient - difference) / allowed))
    assert max(apart) < 1.0
    # the control: one part in a thousand would be seen at some scale; labels of independent cases are even chances
    assert max(apart_if_wrong) > 2.0 or (name == "white" and method != "laplace")
