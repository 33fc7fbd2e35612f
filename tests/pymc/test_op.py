"""The operation: its value is the solver's, its gradient that of its value, and a failure is no density."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph

import bayesgp_mf as bgp
from bayesgp_mf.errors import LowRankError
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.pymc import LatentPosterior, LogEvidence
from bayesgp_mf.pymc.graph import interpret
from tests.pymc.conftest import INTERPRETED

MEAN_FIELD = ("tap", "naive", "variational")
PARAMETERS = {
    "probit": (bgp.Probit(), ("noise_variance",), (0.7,)),
    "probit with flips": (bgp.Probit(), ("noise_variance", "flip"), (0.7, 0.04)),
    "flips of a step": (bgp.Step(0.1), ("flip",), (0.04,)),
    "regression": (Gaussian(), ("noise_variance",), (0.3,)),
}


def apply(op, *, gradient=False, mode=INTERPRETED):
    """Return a function of K, t and the parameters: all outputs, or the gradient of the first."""
    K, t = pt.dmatrix("K"), pt.dvector("t")
    parameters = [pt.dscalar(name) for name in op.parameters]
    outputs = op(K, t, *parameters)
    if gradient:
        outputs = pytensor.grad(outputs[0], [K, *parameters])
    return pytensor.function([K, t, *parameters], outputs, mode=mode, on_unused_input="ignore")


@pytest.fixture(scope="module")
def gram(data):
    return bgp.kernels.Gaussian(0.8, 3.0).gram(data.X) + 0.2 * np.eye(20)


def central(function, at, step):
    return (function(at + step) - function(at - step)) / (2.0 * step)


@pytest.mark.parametrize("method", ["tap", "naive", "variational", "laplace", "online"])
@pytest.mark.parametrize("likelihood", [bgp.Probit(0.5), bgp.Logit()], ids=lambda x: type(x).__name__)
def test_value_and_gradient_in_the_covariance(gram, data, method, likelihood):
    value, derivative, converged = apply(LogEvidence(likelihood, method=method))(gram, data.t)
    assert value == bgp.solve(gram, data.t, likelihood, method=method).evidence.value
    assert converged == 1.0
    (pulled_back,) = apply(LogEvidence(likelihood, method=method), gradient=True)(gram, data.t)
    np.testing.assert_array_equal(pulled_back, derivative)
    rng = np.random.default_rng(2)
    direction = rng.standard_normal((20, 3))
    direction = direction @ direction.T / 20.0

    def along(step):
        return bgp.solve(gram + step * direction, data.t, likelihood, method=method).evidence.value

    difference = central(along, 0.0, 1e-5 if method == "variational" else 1e-4)
    assert np.sum(direction * derivative) == pytest.approx(difference, rel=1e-6)
    # the control: a derivative that counts each off-diagonal element once would not pass
    assert np.sum(np.tril(direction) * derivative) != pytest.approx(difference, rel=1e-2)


@pytest.mark.parametrize("method", MEAN_FIELD)
@pytest.mark.parametrize("case", PARAMETERS)
def test_gradient_in_the_parameters(gram, data, method, case):
    likelihood, names, values = PARAMETERS[case]
    evidence = apply(LogEvidence(likelihood, parameters=names, method=method))
    slopes = apply(LogEvidence(likelihood, parameters=names, method=method), gradient=True)(gram, data.t, *values)[1:]
    for i, slope in enumerate(slopes):

        def along(value, i=i):
            return float(evidence(gram, data.t, *[value if j == i else v for j, v in enumerate(values)])[0])

        difference = central(along, values[i], 1e-4 * values[i])
        assert float(slope) == pytest.approx(difference, rel=1e-6, abs=1e-7)
        assert abs(difference) > 0.1  # so that the comparison can fail ...
        assert 0.5 * float(slope) != pytest.approx(difference, rel=1e-2)  # ... as it does for a wrong factor


@pytest.mark.parametrize("method", ["tap", "naive"])
def test_noise_of_the_likelihood_is_noise_in_the_prior(gram, data, method):
    # another way to the same number: p(t) depends on K + v I only (2000, appendix A)
    op = LogEvidence(bgp.Probit(), parameters=["noise_variance"], method=method)
    _, in_gram, in_noise, _ = apply(op)(gram, data.t, 0.7)
    assert in_noise == pytest.approx(np.trace(in_gram), rel=1e-6)


def test_regression_is_exact(gram, data):
    y = np.sin(data.X[:, 0])
    op = LogEvidence(Gaussian(), parameters=["noise_variance"])
    value, in_gram, in_noise, _ = apply(op)(gram, y, 0.3)
    total = gram + 0.3 * np.eye(20)
    alpha = np.linalg.solve(total, y)
    expected = -0.5 * (y @ alpha + np.linalg.slogdet(2.0 * np.pi * total)[1])
    slope = 0.5 * (np.outer(alpha, alpha) - np.linalg.inv(total))
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(in_gram, slope, rtol=1e-8, atol=1e-10)
    assert in_noise == pytest.approx(np.trace(slope), rel=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "names", "K", "values"),
    [
        (bgp.Probit(), (), lambda K: np.full_like(K, np.inf), ()),
        (bgp.Probit(), (), lambda K: -K, ()),
        (bgp.Probit(), ("noise_variance",), lambda K: K, (-0.1,)),
        (bgp.Probit(), ("noise_variance", "flip"), lambda K: K, (1.0, 0.5)),
        (bgp.Step(), (), np.ones_like, ()),
    ],
    ids=["overflow", "no covariance", "negative variance", "labels exchanged", "contradiction"],
)
def test_a_failure_has_density_zero_and_can_be_shown(gram, data, likelihood, names, K, values):
    value, in_gram, *rest = apply(LogEvidence(likelihood, parameters=names))(K(gram), data.t, *values)
    assert value == -np.inf
    assert not in_gram.any()
    assert rest == [0.0] * (len(names) + 1)
    gradients = apply(LogEvidence(likelihood, parameters=names), gradient=True)(K(gram), data.t, *values)
    assert all(np.all(gradient == 0.0) for gradient in gradients)
    with pytest.raises((ValueError, ArithmeticError)):
        apply(LogEvidence(likelihood, parameters=names, on_failure="raise"))(K(gram), data.t, *values)


@pytest.mark.filterwarnings("ignore:.*ConvergenceError.* does not allow us to add")  # PyTensor 2, where it is raised
def test_an_unsolved_equation_is_a_failure_and_logged(gram, data, caplog):
    short = bgp.Control(max_iterations=2)
    with caplog.at_level("INFO", logger="bayesgp_mf.pymc.op"):
        value, _, converged = apply(LogEvidence(bgp.Probit(), control=short))(gram, data.t)
    assert (value, converged) == (-np.inf, 0.0)
    assert "largest number of iterations" in caplog.text
    with pytest.raises(bgp.ConvergenceError):
        apply(LogEvidence(bgp.Probit(), control=short, on_failure="raise"))(gram, data.t)
    # a solution that was not asked to be raised for is none all the same
    lax = bgp.Control(max_iterations=2, throw=False)
    assert apply(LogEvidence(bgp.Probit(), control=lax))(gram, data.t)[0] == -np.inf


@pytest.mark.parametrize("with_mean", [False, True], ids=["zero mean", "a mean"])
@pytest.mark.parametrize(
    ("method", "likelihood"), [("tap", bgp.Poisson()), ("naive", bgp.Probit()), ("laplace", bgp.Logit())]
)
def test_a_root_of_low_rank_has_the_value_and_the_derivatives_of_the_whole_matrix(method, likelihood, with_mean):
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(0.0, 6.0, 180))[:, None]
    f = np.sin(X[:, 0])
    t = (
        rng.poisson(np.exp(f)).astype(float)
        if isinstance(likelihood, bgp.Poisson)
        else np.sign(f + rng.normal(size=180))
    )
    gram, mean = bgp.kernels.Gaussian(1.0, 2.0).gram(X), [0.1 * f] if with_mean else []
    on_root, whole = (
        interpret([], LogEvidence(likelihood, method=method, with_mean=with_mean, control=control)(gram, t, *mean))()
        for control in (bgp.Control(), bgp.Control(gram="dense"))
    )
    assert on_root[0] != whole[0]  # they are worked out in two ways
    for one, other in zip(on_root, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    rough = bgp.kernels.Matern12(1.0).gram(X)
    asked = {"method": method, "with_mean": with_mean, "control": bgp.Control(gram="low_rank")}
    with pytest.raises(LowRankError, match="more than n/2 = 90 columns"):
        interpret([], LogEvidence(likelihood, on_failure="raise", **asked)(rough, t, *mean))()
    assert interpret([], LogEvidence(likelihood, **asked)(rough, t, *mean))()[0] == -np.inf
    short = bgp.Control(gram="low_rank", max_iterations=1)  # which says what failed, as the whole matrix would
    with pytest.raises(bgp.ConvergenceError):
        LogEvidence(likelihood, **asked | {"control": short}).solve(gram, t, *mean)
    with pytest.raises(LowRankError, match="'exact' needs the whole matrix"):
        LogEvidence(bgp.Probit(), method="exact", control=bgp.Control(gram="low_rank"))


@pytest.mark.parametrize("likelihood", [bgp.Poisson(), bgp.NegativeBinomial(2.0)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(("size", "mean"), [(1e4, 0.0), (1.0, -20.0), (1.0, 10.0)])
def test_counts_far_from_the_prior_mean_are_as_right_on_a_root(likelihood, size, mean):
    X = np.linspace(0.0, 10.0, 180)[:, None]
    counts = np.random.default_rng(0).poisson(size * np.exp(np.sin(X[:, 0]))).astype(float)
    gram = (bgp.kernels.Gaussian(1.2) + bgp.kernels.Bias(200.0)).gram(X)
    on_root, whole = (
        interpret([], LogEvidence(likelihood, with_mean=True, control=control)(gram, counts, np.full(180, mean)))()
        for control in (bgp.Control(), bgp.Control(gram="dense"))
    )
    assert on_root[0] == pytest.approx(whole[0], abs=1e-7)
    assert np.sum(gram * on_root[1]) == pytest.approx(np.sum(gram * whole[1]), abs=1e-6)


def test_what_is_no_covariance_is_refused_where_a_root_is_looked_for():
    X = np.linspace(0.0, 1.0, 180)[:, None]
    gram, t = bgp.kernels.Gaussian(1.0).gram(X), np.resize([1.0, -1.0, -1.0], 180)
    hidden = gram.copy()
    hidden[5, 7] = hidden[7, 5] = 2.0
    balanced = gram.copy()  # nothing of it is seen by a product with alternating signs
    for i, j, change in ((100, 10, 0.3), (100, 11, -0.3), (101, 10, -0.3), (101, 11, 0.3)):
        balanced[i, j] += change
        balanced[j, i] += change
    for wrong, error, words in (
        (gram + np.triu(np.ones((180, 180)), 1), ValueError, "symmetric"),
        (hidden, bgp.NotPositiveDefiniteError, "positive semi-definite"),
        (balanced, bgp.NotPositiveDefiniteError, "positive semi-definite"),
        (gram - 0.1 * np.eye(180), bgp.NotPositiveDefiniteError, "positive semi-definite"),
    ):
        with pytest.raises(error, match=words):
            interpret([], LogEvidence(bgp.Probit(), on_failure="raise")(wrong, t))()


def test_mistakes_are_no_failures(gram, data):
    with pytest.raises(ValueError, match=r"labels -1 and \+1"):
        apply(LogEvidence(bgp.Probit()))(gram, 2.0 * data.t)
    with pytest.raises(ValueError, match="symmetric"):
        apply(LogEvidence(bgp.Probit()))(gram + np.triu(np.ones((20, 20))), data.t)
    with pytest.raises(bgp.UndefinedQuantityError, match="laplace"):
        apply(LogEvidence(bgp.Step(), method="laplace"))(gram, data.t)
    with pytest.raises(bgp.UndefinedQuantityError, match="svm"):
        apply(LogEvidence(bgp.Step(), method="svm"))(gram, data.t)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="noise_variance, flip"):
        LogEvidence(bgp.Probit(), parameters=["sigma"])
    with pytest.raises(ValueError, match="no parameters"):
        LogEvidence(bgp.Logit(), parameters=["noise_variance"])
    with pytest.raises(ValueError, match="method must be one of"):
        LogEvidence(bgp.Probit(), method="ep")
    with pytest.raises(ValueError, match="on_failure must be"):
        LogEvidence(bgp.Probit(), on_failure="ignore")
    for method in ("laplace", "online", "exact"):
        with pytest.raises(bgp.UndefinedQuantityError, match="only the covariance may be random"):
            LogEvidence(bgp.Probit(), parameters=["noise_variance"], method=method)
    with pytest.raises(ValueError, match="takes K, t, flip, got 2 inputs"):
        LogEvidence(bgp.Probit(), parameters=["flip"])(pt.dmatrix(), pt.dvector())
    with pytest.raises(ValueError, match="K must have 2 dimensions"):
        LogEvidence(bgp.Probit())(pt.dvector(), pt.dvector())


def test_second_derivatives_are_refused():
    K, t, noise = pt.dmatrix("K"), pt.dvector("t"), pt.dscalar("noise")
    value, in_gram, *_ = LogEvidence(bgp.Probit(), parameters=["noise_variance"])(K, t, noise)
    with pytest.raises(NotImplementedError, match="second derivatives are not there"):
        pytensor.grad(in_gram.sum(), noise)
    with pytest.raises(NotImplementedError, match="second derivatives are not there"):
        pytensor.grad(pytensor.grad(value, noise), noise)
    with pytest.raises(NotImplementedError, match="conditional"):
        pytensor.grad(LatentPosterior(bgp.Probit())(K, t)[0].sum(), K)


def test_shapes_are_known_without_solving():
    K, t = pt.dmatrix("K"), pt.dvector("t")
    value, in_gram, *_ = LogEvidence(bgp.Probit())(K, t)
    shapes = pytensor.function([K, t], [*value.shape, *in_gram.shape], mode="FAST_COMPILE", on_unused_input="ignore")
    assert not any(isinstance(node.op, LogEvidence) for node in shapes.maker.fgraph.apply_nodes)
    assert shapes(np.eye(3), np.ones(3)) == [3, 3]
    static = LogEvidence(bgp.Probit())(np.eye(3), np.ones(3))
    assert [output.type.shape for output in static] == [(), (3, 3), ()]


def test_it_vectorises_with_its_gradient(gram, data):
    K, t, noise, several = pt.dmatrix("K"), pt.dvector("t"), pt.dscalar("noise"), pt.dvector("several")
    value = LogEvidence(bgp.Probit(), parameters=["noise_variance"])(K, t, noise)[0]
    values = vectorize_graph(value, {noise: several})
    run = pytensor.function([K, t, several], [values, pytensor.grad(values.sum(), several)], mode=INTERPRETED)
    single = apply(LogEvidence(bgp.Probit(), parameters=["noise_variance"]))
    expected = [single(gram, data.t, noise)[::2] for noise in (0.5, 2.0)]
    for found, wanted in zip(run(gram, data.t, [0.5, 2.0]), zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("mode", ["FAST_RUN", "NUMBA"])
def test_every_linker_gives_the_same_without_a_warning(gram, data, mode):
    for op in (LogEvidence(bgp.Probit(), parameters=["noise_variance"]), LatentPosterior(bgp.Probit())):
        values = [0.7] * len(op.parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
            found = apply(op, mode=mode)(gram, data.t, *values)
        for a, b in zip(found, apply(op)(gram, data.t, *values), strict=True):
            np.testing.assert_array_equal(a, b)


def test_it_leaves_its_arguments_alone_and_shares_no_results(gram, data):
    run = apply(LogEvidence(bgp.Probit()))
    K, t = gram.copy(), data.t.copy()
    first = run(K, t)
    kept = [np.array(result) for result in first]
    run(2.0 * K, t)
    np.testing.assert_array_equal(K, gram)
    for a, b in zip(first, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_threads_do_not_see_each_other(gram, data):
    # chains of nutpie are threads that share one operation: what one asks must not change another's answer
    op = LogEvidence(bgp.Probit(), parameters=["flip"])
    node = op(pt.dmatrix(), pt.dvector(), pt.dscalar()).copy()[0].owner
    flips = np.linspace(0.0, 0.2, 5)

    def ask(flip):
        storage = [[None] for _ in node.outputs]
        op.perform(node, [gram, data.t, np.asarray(flip)], storage)
        return [part[0].tobytes() for part in storage]

    alone = [ask(flip) for flip in flips]
    wrong = []

    def work(k):
        for i in np.random.default_rng(k).integers(5, size=10):
            if ask(flips[i]) != alone[i]:
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(set(map(tuple, alone))) == 5
