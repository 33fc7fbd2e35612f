"""The form of the Gram matrix is chosen by itself, can be asked for, and does not change the answer."""

from functools import partial

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, LowRankError
from bayesgp_mf.hyper import Target
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.scores import EvidenceScore, LooScore
from bayesgp_mf.inference.assembly import SMALLEST, assemble, kernel_entries
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import parameter_gradient
from bayesgp_mf.kernels import Bias, Gaussian, Linear, Matern52, NeuralNetwork, Polynomial, White
from bayesgp_mf.likelihoods import Gaussian as GaussianNoise
from bayesgp_mf.likelihoods import Logit
from bayesgp_mf.matrices.low_rank import LowRankGram, pivoted_cholesky
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.sites import iterate_sites

N = 240
LOW, DENSE = Control(gram="low_rank", tolerance=1e-10), Control(gram="dense", tolerance=1e-10)
KERNELS = [
    (1, Gaussian(1.0, 2.0)),
    (2, Gaussian(1.0, 2.0)),
    (2, Gaussian([1.5, 0.9], 2.0) + Bias(0.5)),
    (3, Linear([1.0, 0.5, 2.0])),
    (3, Bias(0.7) + Linear(0.5)),
    (2, Polynomial(2, 0.5)),
    (1, NeuralNetwork(0.5, 0.3, 2.0)),
    (2, Gaussian(2.0) * Linear(0.4) + Bias()),
]
MODELS = [
    ("tap", bgp.Probit()),
    ("tap", bgp.Probit(0.1, flip=0.05)),
    ("tap", GaussianNoise(0.3)),
    ("naive", bgp.Probit()),
    ("naive", Logit()),
    ("laplace", bgp.Probit()),
    ("laplace", Logit()),
]


def data(d, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, d))
    return X, np.where(np.sin(1.5 * X[:, 0]) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


def both(d, kernel, method, likelihood):
    """Return problem and solution of low rank, then with the dense matrix."""
    X, t = data(d)
    problems = [assemble(kernel, X, t, likelihood, solver=METHODS[method], control=control) for control in (LOW, DENSE)]
    return [(problem, METHODS[method].solve(problem, LOW)) for problem in problems]


class TestSameAnswer:
    @pytest.mark.parametrize(("method", "likelihood"), MODELS, ids=repr)
    @pytest.mark.parametrize(("d", "kernel"), KERNELS, ids=repr)
    def test_as_with_the_dense_matrix(self, d, kernel, method, likelihood):
        (sparse_problem, sparse), (dense_problem, dense) = both(d, kernel, method, likelihood)
        assert sparse.info.rank == sparse_problem.gram.rank <= N / 2
        assert dense.info.rank is None
        assert sparse.evidence.value == pytest.approx(dense.evidence.value, abs=1e-6)
        np.testing.assert_allclose(sparse.alpha, dense.alpha, atol=1e-5)
        np.testing.assert_allclose(
            sparse.correction.covariance_diagonal(), dense.correction.covariance_diagonal(), atol=1e-6
        )
        solver = METHODS[method]
        if likelihood.log_concave:
            ours, theirs = (solver.leave_one_out(*pair) for pair in ((sparse_problem, sparse), (dense_problem, dense)))
            np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-5)
            np.testing.assert_allclose(ours.variance, theirs.variance, atol=1e-5)
            np.testing.assert_allclose(ours.log_density, theirs.log_density, atol=1e-5)

    def test_a_rougher_root_would_not_do(self, monkeypatch):
        monkeypatch.setattr("bayesgp_mf.inference.assembly.ACCURACY", 1.0)
        (_, sparse), (_, dense) = both(2, Gaussian(1.0, 2.0), "tap", bgp.Probit())
        assert 1e-4 < abs(sparse.evidence.value - dense.evidence.value) < 1.0

    @pytest.mark.parametrize("noise", [1e-3, 1.0])
    def test_accuracy_is_in_nats_whatever_the_noise(self, noise):
        (_, sparse), (_, dense) = both(1, Gaussian(0.5, 4.0), "tap", bgp.Probit(noise))
        assert sparse.evidence.value == pytest.approx(dense.evidence.value, abs=1e-6)

    def test_first_columns_and_newtons_direction_save_steps(self, monkeypatch):
        X, t = data(2, SMALLEST)
        problem, tap = (
            assemble(Gaussian(), X, t, bgp.Probit(), solver=METHODS["tap"], control=Control()),
            METHODS["tap"],
        )
        found = [tap.solve(problem)]
        monkeypatch.setattr("bayesgp_mf.solvers.meanfield.MOST_COLUMNS", 0.0)
        found.append(tap.solve(problem))
        plain = iterate_sites(problem, partial(tap.step, problem), tap.init(problem), Control())
        found.append(tap.finish(problem, *plain))
        steps = [solution.info.n_iterations for solution in found]
        assert steps[0] < steps[1] < steps[2]
        np.testing.assert_allclose([s.evidence.value for s in found], found[2].evidence.value, atol=1e-9)

    def test_the_papers_iteration_ends_there_too(self):
        X, t = data(2)
        problem = assemble(Gaussian(), X, t, bgp.Probit(), solver=METHODS["tap"], control=LOW)
        fast = METHODS["tap"].solve(problem, LOW)
        paper = METHODS["tap"].solve(problem, Control(scheme="paper", tolerance=1e-6, max_iterations=20000))
        assert paper.evidence.value == pytest.approx(fast.evidence.value, abs=1e-8)


class TestGradient:
    @pytest.mark.parametrize(("method", "likelihood"), MODELS, ids=repr)
    @pytest.mark.parametrize(("d", "kernel"), KERNELS, ids=repr)
    def test_is_that_with_the_dense_matrix(self, d, kernel, method, likelihood):
        X, t = data(d)
        slopes = []
        for control in (LOW, DENSE):
            target = Target(X, t, likelihood, kernel, METHODS[method], control)
            problem = target.problem_at(target.model)
            solution = METHODS[method].solve(problem, control)
            gram_bar = METHODS[method].gram_gradient(problem, solution)
            names = tuple(target.free_of_likelihood.values())
            of_likelihood = parameter_gradient(METHODS[method], problem, solution, names)
            slopes.append(target.pull_back(target.model, problem.matrix, gram_bar, of_likelihood))
        assert np.all(np.isfinite(slopes))
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("score", [EvidenceScore(), LooScore()], ids=lambda s: s.noun)
    @pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
    def test_is_the_slope_of_the_score(self, method, score):
        X, t = data(2)
        kernel = Gaussian([1.0, 1.3], 2.0) + Bias(0.5)
        target = Target(X, t, bgp.Probit(), kernel, METHODS[method], Control(gram="low_rank", tolerance=1e-11))
        objective = Objective(target, score)
        _, gradient = objective(target.start)
        for i, direction in enumerate(np.eye(target.start.size)):
            ahead, behind = (objective.value(target.start + sign * 1e-3 * direction) for sign in (1.0, -1.0))
            assert gradient[i] == pytest.approx((ahead - behind) / 2e-3, rel=1e-3, abs=2e-4)
        assert target.problem_at(target.model).gram.rank <= N / 2

    def test_without_the_block_of_the_pivots_it_would_not_be(self):
        X, t = data(2)
        kernel, tap = Gaussian(1.0, 2.0), METHODS["tap"]
        target = Target(X, t, bgp.Probit(), kernel, tap, LOW)
        problem = target.problem_at(target.model)
        gradient = tap.gram_gradient(problem, tap.solve(problem, LOW))
        pivots = problem.gram.pivots
        right = target.pull_back(target.model, problem.matrix, gradient)
        columns = gradient.columns()
        columns[pivots] -= gradient.of_inducing()
        wrong = kernel.cross_vjp(X, X[pivots], columns)["lengthscale"]
        assert abs(wrong - right[0]) > 0.1 * abs(right[0])


class Noisy(Gaussian):
    """A kernel of a user, with noise of its own on all cases but the first."""

    def diag(self, X):
        return super().diag(X) + 1e-3 * (np.arange(X.shape[0]) > 0)


class TestLargePriorVariance:
    @pytest.mark.parametrize("scale", [300.0, 1000.0])
    def test_linear_kernels_of_large_inputs(self, scale):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((SMALLEST, 4))
        t = np.where(X[:, 0] + 0.5 * rng.standard_normal(SMALLEST) > 0, 1.0, -1.0)
        kernel, tap = Linear() + Bias(), METHODS["tap"]
        problem = assemble(kernel, scale * X, t, bgp.Probit(), solver=METHODS["tap"], control=Control())
        found = tap.solve(problem)
        assert found.info.rank == 5
        # a weight of the inputs as they are is as large; the dense matrix takes hundreds of steps, and gets there
        same = assemble(Linear(scale**2) + Bias(), X, t, bgp.Probit(), solver=METHODS["tap"], control=Control())
        assert found.evidence.value == pytest.approx(tap.solve(same).evidence.value, abs=1e-6)
        few, control = slice(0, N), Control(gram="dense")
        dense = assemble(kernel, scale * X[few], t[few], bgp.Probit(), solver=METHODS["tap"], control=control)
        sparse = assemble(kernel, scale * X[few], t[few], bgp.Probit(), solver=METHODS["tap"], control=LOW)
        assert tap.solve(sparse).evidence.value == pytest.approx(tap.solve(dense).evidence.value, abs=1e-6)

    def test_gaussian_kernel(self):
        X, t = data(2)
        values = []
        for control in (Control(gram="low_rank"), Control(gram="dense")):
            problem = assemble(Gaussian(1.5, 3e5), X, t, bgp.Probit(), solver=METHODS["tap"], control=control)
            values.append(METHODS["tap"].solve(problem, control).evidence.value)
        assert values[0] == pytest.approx(values[1], abs=1e-6)

    def test_where_it_does_not_converge_the_error_names_the_dense_matrix(self):
        X, t = data(2)
        control = Control(gram="low_rank", max_iterations=3)
        problem = assemble(Gaussian(), X, t, bgp.Probit(), solver=METHODS["tap"], control=control)
        with pytest.raises(ConvergenceError, match=rf"root of rank {problem.gram.rank}; Control\(gram='dense'\)"):
            METHODS["tap"].solve(problem, control)


class TestEvidenceTolerance:
    @pytest.mark.parametrize("variance", [1.0, 30.0, 1000.0])
    def test_holds_on_a_root(self, variance):
        X, t = data(2, SMALLEST)
        tap, start = METHODS["tap"], None
        for scale in (1.0, 1.3, 1.8, 2.5):
            problem = assemble(Gaussian(scale, variance), X, t, bgp.Probit(), solver=METHODS["tap"], control=Control())
            start = tap.solve(problem, Control(tolerance=1e-6, evidence_tolerance=1e-5), start)
            exact = tap.solve(problem, Control(tolerance=1e-8), start)
            assert abs(start.evidence.value - exact.evidence.value) < 1e-5


class TestChoice:
    def problem(self, kernel=Gaussian(), n=SMALLEST, d=2, likelihood=bgp.Probit(), method="tap", gram="auto"):
        X, t = data(d, n)
        return assemble(kernel, X, t, likelihood, solver=METHODS[method], control=Control(gram=gram))

    def test_many_cases_and_a_smooth_kernel_are_of_low_rank(self):
        assert isinstance(self.problem().gram, LowRankGram)

    def test_few_cases_are_not(self):
        assert isinstance(self.problem(n=SMALLEST - 1).gram, np.ndarray)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"kernel": Gaussian() + White(0.1)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Linear() + White(1e-4)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Bias() + White(1e-6)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Gaussian() + White(1e-8)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Gaussian(1.0, 1e6) + White(0.5)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Gaussian() + Gaussian() * White(0.1)}, r"noise of its own for every case \(White\)"),
            ({"kernel": Noisy()}, r"differ by 0.001 for case 1\), as if it had noise"),
            ({"kernel": Gaussian(0.05)}, "more than n/2 = 500 columns"),
            ({"kernel": Matern52(0.3)}, "too rough"),
            ({"likelihood": bgp.Step(flip=0.1)}, "step without latent noise"),
            ({"method": "variational"}, "method 'variational' needs the dense Gram matrix"),
            ({"method": "svm"}, "method 'svm' needs the dense Gram matrix"),
        ],
        ids=repr,
    )
    def test_what_is_not_of_low_rank_stays_dense_and_says_why_if_asked(self, changes, reason):
        assert isinstance(self.problem(**changes).gram, np.ndarray)
        with pytest.raises(LowRankError, match=rf"Control\(gram='low_rank'\) is not possible: .*{reason}"):
            self.problem(**changes, gram="low_rank")

    def test_a_kernel_without_cross_vjp_stays_dense(self):
        class Plain(Gaussian):
            cross_vjp = bgp.kernels.Kernel.cross_vjp

        assert isinstance(self.problem(kernel=Plain()).gram, np.ndarray)
        with pytest.raises(LowRankError, match="Plain has no method cross_vjp"):
            self.problem(kernel=Plain() + Bias(), gram="low_rank")
        with pytest.raises(NotImplementedError, match="Plain has no cross_vjp"):
            Plain().cross_vjp(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))

    @pytest.mark.parametrize("name", ["gram", "cross", "gram_vjp"])
    def test_an_inherited_cross_vjp_is_not_used_beside_a_newer_method(self, name):
        newer = type("Newer", (Gaussian,), {name: lambda self, *args: getattr(Gaussian, name)(self, *args)})
        assert isinstance(self.problem(kernel=newer()).gram, np.ndarray)
        with pytest.raises(LowRankError, match="Newer has no method cross_vjp, or one that is older"):
            self.problem(kernel=newer() * Bias(), gram="low_rank")
        own = type("Own", (newer,), {"cross_vjp": lambda self, A, B, bar: Gaussian.cross_vjp(self, A, B, bar)})
        assert isinstance(self.problem(kernel=own()).gram, LowRankGram)
        assert isinstance(self.problem(kernel=type("Renamed", (own,), {})()).gram, LowRankGram)

    def test_a_prior_that_says_nothing_is_dense(self):
        X, t = data(2)
        still = 1e-6 * X
        assert isinstance(
            assemble(Linear(), still, t, bgp.Probit(), solver=METHODS["tap"], control=Control()).gram, np.ndarray
        )
        with pytest.raises(LowRankError, match="no column of the Gram matrix matters"):
            assemble(Linear(), still, t, bgp.Probit(), solver=METHODS["tap"], control=LOW)

    def test_a_weak_prior_may_have_but_one_column(self):
        (problem, sparse), (_, dense) = both(1, Linear(0.01), "tap", bgp.Probit())
        assert problem.gram.rank == 1
        assert sparse.evidence.value == pytest.approx(dense.evidence.value, abs=1e-8)

    def test_dense_can_be_asked_for(self):
        assert isinstance(self.problem(gram="dense").gram, np.ndarray)

    def test_there_is_no_other_form(self):
        with pytest.raises(ValueError, match="gram must be 'auto', 'dense' or 'low_rank', got 'sparse'"):
            Control(gram="sparse")

    def test_too_many_cases_for_a_dense_matrix_are_refused_before_any_work(self, set_memory):
        set_memory(8.0 * SMALLEST**2)
        with pytest.raises(MemoryError, match="1000 training cases need"):
            self.problem(gram="dense")
        assert isinstance(self.problem().gram, LowRankGram)
        with pytest.raises(MemoryError, match=r"1000 training cases need .*but the root would have more than n/3"):
            self.problem(kernel=Gaussian(0.2))
        with pytest.raises(MemoryError, match=r"1000 training cases need .*but the kernel has noise of its own"):
            self.problem(kernel=Gaussian() + White())
        with pytest.raises(MemoryError, match="1000 training cases need"):
            _ = self.problem().dense_gram

    def test_several_settings_fit_where_their_roots_do(self, set_memory):
        X, t = data(2, SMALLEST)
        target = Target(X, t, bgp.Probit(), Gaussian(), METHODS["tap"])
        rank = target.problem_at(target.model).gram.rank
        set_memory(8.0 * SMALLEST * rank * 24)
        target.check_memory(20)
        with pytest.raises(MemoryError, match=rf"at 22 settings of hyperparameters need .* for roots of rank {rank}"):
            target.check_memory(22)

    def test_a_noise_free_step_is_solved_with_the_dense_matrix(self):
        X = np.repeat(data(2, SMALLEST // 2)[0], 2, axis=0)
        t = np.tile([1.0, -1.0], SMALLEST // 2)
        with pytest.raises(InconsistentDataError):
            assemble(Gaussian(), X, t, bgp.Step(), solver=METHODS["tap"], control=Control())
        gram = assemble(Gaussian(), X, t, bgp.Probit(), solver=METHODS["tap"], control=Control()).gram
        with pytest.raises(ValueError, match="asks for every digit"):
            bgp.Problem(gram, t, bgp.Step())


class TestOutOfReach:
    """The search for a root ends early where the largest rank cannot be enough, and only there."""

    @staticmethod
    def search(kernel, X, most):
        asked = []
        entries = kernel_entries(kernel, X)

        def counted(rows, columns):
            block = entries(rows, columns)
            asked.append(block.size)
            return block

        return pivoted_cholesky(counted, kernel.diag(X), 1e-6, most), sum(asked)

    def test_a_rough_kernel_is_given_up_after_the_first_candidates(self):
        X = np.random.default_rng(0).uniform(-2, 2, (6000, 2))
        root, asked = self.search(Gaussian(0.02), X, 2000)
        assert root is None
        assert asked < 2e6  # 1000 candidates, and 400 cases; all columns would be 12 million

    @pytest.mark.parametrize("shuffled", [False, True])
    def test_a_root_of_just_the_largest_rank_is_found(self, shuffled):
        rng = np.random.default_rng(0)
        X = np.repeat(rng.standard_normal((500, 10)), 3, axis=0)  # independent, but each three times
        X = rng.permutation(X) if shuffled else X
        assert self.search(Gaussian(0.3), X, 500)[0].rank == 500
        assert self.search(Gaussian(0.3), X, 499)[0] is None


class TestDoor:
    def test_fit_chooses_and_shows_it(self):
        X, t = data(2, SMALLEST)
        answers = {}
        for gram in ("auto", "dense"):
            idata = bgp.fit(X, t, Gaussian(), draws=2, chains=1, random_seed=1, control=Control(gram=gram))
            posterior = bgp.posterior(idata)
            answers[gram] = posterior.predict_proba(X[:20] + 0.1)
        np.testing.assert_allclose(answers["auto"], answers["dense"], atol=1e-6)

    def test_evidence_ends_where_the_dense_search_does(self):
        X, t = data(2, SMALLEST)
        ends = []
        for gram in ("low_rank", "dense"):
            target = Target(X[:N], t[:N], bgp.Probit(), Gaussian(), METHODS["tap"], Control(gram=gram))
            result = bgp.hyper.Evidence(starts=1).choose(target, np.random.default_rng(0), lambda text: None)
            ends.append(np.concatenate([np.atleast_1d(v) for v in result.kernels[0].params.values()]))
        np.testing.assert_allclose(ends[0], ends[1], rtol=2e-3)

    @pytest.mark.parametrize("strategy", ["loo", "scan", "integrate"])
    def test_other_strategies_choose_the_same(self, strategy):
        X, t = data(1)
        chosen = []
        for gram in ("low_rank", "dense"):
            kernel = Gaussian(1.2)
            target = Target(
                X,
                t,
                bgp.Probit(),
                kernel,
                METHODS["tap"],
                Control(gram=gram),
                {},
                {"lengthscale": (0.1, 13.0)},
                {"variance"},
            )
            result = bgp.hyper.get_strategy(strategy).choose(target, np.random.default_rng(0), lambda text: None)
            chosen.append([float(kernel.params["lengthscale"]) for kernel in result.kernels])
        np.testing.assert_allclose(chosen[0], chosen[1], rtol=2e-3)

    def test_a_search_turns_back_where_a_rough_kernel_does_not_fit_into_memory(self, set_memory):
        X, t = data(2, SMALLEST)
        target = Target(X, t, bgp.Probit(), Gaussian(), METHODS["tap"])
        objective = Objective(target, EvidenceScore())
        set_memory(8.0 * SMALLEST * 4 * 200)
        rough = target.free_logarithms(Gaussian(0.2))
        with pytest.raises(MemoryError):  # not even the first point
            objective(rough)
        assert objective(target.start) is not None
        for _ in range(2):  # also from the prior, as after a point without a solution, or at another start
            assert objective(rough) is None
            assert isinstance(objective.last_failure, MemoryError)

    @pytest.mark.parametrize("from_prior", [False, True])
    def test_a_search_turns_back_where_low_rank_was_asked_for(self, from_prior):
        X, t = data(2)
        target = Target(X, t, bgp.Probit(), Gaussian(), METHODS["tap"], Control(gram="low_rank"))
        objective = Objective(target, EvidenceScore(), from_prior=from_prior)
        rough = target.free_logarithms(Gaussian(0.05))
        with pytest.raises(LowRankError):
            objective(rough)
        assert objective(target.start) is not None
        for _ in range(2):
            assert objective(rough) is None
            assert isinstance(objective.last_failure, LowRankError)

    def test_a_scan_passes_over_rough_kernels(self):
        X, t = data(2)
        scan = bgp.hyper.Scan({"lengthscale": [0.05, 1.0]})
        target = Target(X, t, bgp.Probit(), Gaussian(), METHODS["tap"], Control(gram="low_rank"))
        result = scan.choose(target, np.random.default_rng(0), lambda text: None)
        assert float(result.kernels[0].params["lengthscale"]) == 1.0
        assert int(result.record["hyper_n_failures"][1]) == 1
        with pytest.raises(LowRankError, match="too rough"):
            bgp.hyper.Scan({"lengthscale": [0.05]}).choose(target, np.random.default_rng(0), lambda text: None)

    def test_solve_takes_either_form(self):
        X, t = data(2)
        gram = assemble(Gaussian(), X, t, bgp.Probit(), solver=METHODS["tap"], control=LOW).gram
        assert bgp.solve(gram, t, bgp.Probit()).info.rank == gram.rank
        assert bgp.solve(gram.dense(), t, bgp.Probit()).info.rank is None

    @pytest.mark.parametrize("method", ["variational", "svm", "online"])
    def test_methods_without_a_path_of_their_own_take_the_matrix_it_stands_for(self, method):
        X, t = data(2, 60)
        kernel = Gaussian(0.3)
        gram = assemble(kernel, X, t, bgp.Probit(), solver=METHODS["tap"], control=Control(gram="dense")).gram
        low = pivoted_cholesky(kernel_entries(kernel, X), kernel.diag(X), 1e-13, 60)
        sparse, dense = (METHODS[method].solve(bgp.Problem(g, t, bgp.Probit())) for g in (low, gram))
        np.testing.assert_allclose(sparse.alpha, dense.alpha, atol=1e-6)
