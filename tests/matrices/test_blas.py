"""The limit on BLAS threads: there inside, gone afterwards, whatever runs beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import bayesgp_mf as bgp
from bayesgp_mf.matrices.blas import SMALL, one_thread_if_small


def blas_threads() -> set[int]:
    scipy.linalg.cholesky(np.eye(2))  # its library must be loaded to be counted
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_small_work_gets_one_thread_and_large_work_is_left_alone():
    with one_thread_if_small(SMALL):
        assert blas_threads() == {1}
        with one_thread_if_small(3):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with one_thread_if_small(SMALL + 1):
        assert blas_threads() == {2}


def test_one_thread_that_is_there_already_is_left_alone(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("there is nothing to limit")

    monkeypatch.setattr(ThreadpoolController, "limit", refuse)
    with threadpool_limits(1, user_api="blas"), one_thread_if_small(3):
        assert blas_threads() == {1}
    with pytest.raises(AssertionError, match="nothing to limit"), one_thread_if_small(3):
        pass


def test_fit_and_predict_keep_to_one_thread(monkeypatch):
    seen = []

    def watch(owner, method):
        real = getattr(owner, method)

        def watched(*arguments):
            seen.append((method, blas_threads()))
            return real(*arguments)

        monkeypatch.setattr(owner, method, watched)

    # that of the training cases, of new ones with them, of new ones together; what draws of them are asked
    for owner, method in ((bgp.kernels.Gaussian, "gram"), (bgp.kernels.Gaussian, "cross"), (bgp.Probit, "sample")):
        watch(owner, method)
    X = np.random.default_rng(0).standard_normal((10, 2))
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), draws=5, random_seed=0)
    assert {method for method, _ in seen} == {"gram", "cross", "sample"}  # "cross" to judge the scale of the inputs
    assert [threads for _, threads in seen] == [{1}] * len(seen)
    seen.clear()
    bgp.predict(idata, X, random_seed=0)
    assert {method for method, _ in seen} == {"gram", "cross", "sample"}
    assert [threads for _, threads in seen] == [{1}] * len(seen)
    assert blas_threads() == {2}


def test_an_error_inside_restores_the_threads():
    with pytest.raises(KeyboardInterrupt), one_thread_if_small(3):
        raise KeyboardInterrupt
    assert blas_threads() == {2}


def test_the_limit_holds_until_the_last_thread_is_done():
    """Else the others would go on with more threads, and their sums round differently."""
    both, first_is_out, seen = threading.Barrier(2), threading.Event(), []

    def first():
        with one_thread_if_small(3):
            both.wait()
        first_is_out.set()

    def second():
        with one_thread_if_small(3):
            both.wait()
            first_is_out.wait()
            seen.append(blas_threads())

    workers = [threading.Thread(target=work) for work in (first, second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert seen == [{1}]
    assert blas_threads() == {2}


IN_THREADS = """
import threading
import numpy as np, scipy.linalg
import bayesgp_mf as bgp
from threadpoolctl import threadpool_info

rng = np.random.default_rng(0)
X = rng.standard_normal((100, 2))
t = np.where(X[:, 0] + 0.5 * rng.standard_normal(100) > 0, 1, -1)
kernel = bgp.kernels.Gaussian(1.0) + bgp.kernels.White(0.1)
gram = kernel.gram(X)

def solved(method):
    solution = bgp.solve(gram, t, bgp.Logit() if method == "online" else bgp.Probit(), method=method)
    return solution.alpha.tobytes(), solution.evidence.value

def fitted():
    idata = bgp.fit(X[:60], t[:60], kernel, hyper=bgp.hyper.Evidence(starts=1), draws=20, random_seed=1, progress=False)
    new = bgp.predict(idata, X[60:80], random_seed=2)
    return tuple(group[name].values.tobytes() for group, name in ((idata["posterior"], "f"), (new["predictions"], "f")))

jobs = [lambda method=method: solved(method) for method in ("tap", "laplace", "naive", "variational", "online")]
jobs.append(fitted)
threads = lambda: [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
before, alone, wrong = threads(), [job() for job in jobs], []

def work(first):
    for k in range(first, first + len(jobs) // 2):
        if jobs[k % len(jobs)]() != alone[k % len(jobs)]:
            wrong.append(k % len(jobs))

workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(before, threads(), sorted(wrong))
"""


def test_eight_threads_give_the_serial_bytes_and_leave_nothing_behind():
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", IN_THREADS], capture_output=True, text=True, check=True, env=environment
    )
    before, after, wrong = run.stdout.strip()[1:-1].split("] [")
    assert before == after
    assert "2" in before
    assert wrong == ""
