from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.multiclass.correction import ClassCorrection, SoftmaxCorrection
from bayesgp_mf.multiclass.site_form import StarForm
from tests.multiclass.block_correction import BlockCorrection, quadratic

N, C, M = 5, 4, 3


def grams(per_class, rng):
    X = rng.standard_normal((N + M, 2))
    each = [np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / (2.0 + c)) * (1.0 + c) for c in range(C)]
    return np.stack(each) if per_class else each[0]


def stacked(gram):
    """The prior covariance of all classes as one matrix, classes first."""
    blocks = np.zeros((C, gram.shape[-1], C, gram.shape[-1]))
    for c in range(C):
        blocks[c, :, c] = gram if gram.ndim == 2 else gram[c]
    return blocks


def whole(matrices):
    """Matrices ``(N, C, C)`` of cases as one, classes first."""
    result = np.zeros((C, N, C, N))
    for i in range(N):
        result[:, i, :, i] = matrices[i]
    return result.reshape(C * N, C * N)


@pytest.fixture(params=[False, True], ids=["shared", "per class"])
def made(request):
    rng = np.random.default_rng(3)
    every = grams(request.param, rng)
    root = rng.standard_normal((N, C - 1, C - 1))
    root = 0.5 * (root + np.swapaxes(root, 1, 2))
    root[0] = 0.0  # a site that says nothing
    gram, cross = every[..., :N, :N], every[..., :N, N:]
    correction = BlockCorrection(gram, root)
    k = stacked(gram).reshape(C * N, C * N)
    w = whole(correction.site.precision)
    r = w @ np.linalg.inv(np.eye(C * N) + k @ w)
    return correction, gram, cross, k, w, r


def test_it_has_the_face_of_a_correction(made):
    assert isinstance(made[0], ClassCorrection)


def test_it_is_the_correction_of_its_sites(made):
    correction, _, _, k, w, r = made
    np.testing.assert_allclose(correction.dense().reshape(C * N, C * N), r, atol=1e-12)
    assert correction.log_det == pytest.approx(np.linalg.slogdet(np.eye(C * N) + k @ w)[1])
    values = np.random.default_rng(1).standard_normal((2, N, C))
    flat = np.swapaxes(values, 1, 2).reshape(2, -1)
    expected = np.swapaxes((flat @ r).reshape(2, C, N), 1, 2)
    np.testing.assert_allclose(correction.multiply(values), expected, atol=1e-12)
    expected = values - np.swapaxes((flat @ k @ r).reshape(2, C, N), 1, 2)
    np.testing.assert_allclose(correction.weights(values), expected, atol=1e-11)
    np.testing.assert_allclose(correction.class_block(2), r.reshape(C, N, C, N)[2, :, 2], atol=1e-12)
    assert np.abs(correction.dense().reshape(C * N, C * N) - np.linalg.pinv(w)).max() > 0.1  # the comparison can fail


def test_common_offsets_are_not_seen(made):
    correction = made[0]
    np.testing.assert_allclose(correction.multiply(np.ones((N, C))), 0.0, atol=1e-12)
    np.testing.assert_allclose(correction.site.precision.sum(axis=2), 0.0, atol=1e-13)


def test_quadratic_forms_agree(made):
    correction, _, cross, _, _, r = made
    of_class = [cross if cross.ndim == 2 else cross[c] for c in range(C)]
    blocks = correction.blocks(cross)
    for c in range(C):
        for d in range(C):
            expected = of_class[c].T @ r.reshape(C, N, C, N)[c, :, d] @ of_class[d]
            np.testing.assert_allclose(quadratic(correction, cross)[c, :, d], expected, atol=1e-11)
            np.testing.assert_allclose(blocks[:, c, d], np.diag(expected), atol=1e-11)


def test_noise_has_the_covariance_of_the_sites(made):
    correction, _, _, _, w, r = made
    unit = np.eye(N * C).reshape(N * C, N, C)
    images = np.swapaxes(correction.noise(unit), 1, 2).reshape(N * C, C * N)
    # R e with cov(e) = W^+ has the covariance R W^+ R
    np.testing.assert_allclose(images.T @ images, r @ np.linalg.pinv(w, rcond=1e-10) @ r, atol=1e-9)


def test_remaining_is_what_sites_leave(made):
    correction, _, _, k, _, r = made
    sigma = (k - k @ r @ k).reshape(C, N, C, N)
    basis = contrast_basis(C)
    for i in range(N):
        inner = basis.T @ sigma[:, i, :, i] @ basis
        root = correction.site_root[i]
        np.testing.assert_allclose(correction.remaining()[i], np.eye(C - 1) - root @ inner @ root, atol=1e-12)


def test_sites_of_the_simpler_form_give_the_same():
    rng = np.random.default_rng(5)
    gram = grams(False, rng)[:N, :N]
    simple = SoftmaxCorrection(gram, StarForm(rng.uniform(0.1, 1.0, (N, C))))
    basis = contrast_basis(C)
    values, vectors = np.linalg.eigh(basis.T @ simple.site.precision @ basis)
    general = BlockCorrection(gram, (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
    assert general.log_det == pytest.approx(simple.log_det)
    np.testing.assert_allclose(general.dense(), simple.dense(), atol=1e-12)
