"""Several threads at one stream lose nothing, and what a killed process left of a file is swept away."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np

import bayesgp_mf as bgp

RNG = np.random.default_rng(3)
X = RNG.normal(size=(240, 2))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=240) > 0, "yes", "no")
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)


def stream(**options):
    return bgp.streams.Stream(KERNEL, classes=("no", "yes"), random_seed=1, **options)


def test_threads_take_turns_and_no_batch_is_lost():
    one, errors = stream(budget=None), []
    ready = threading.Barrier(6)

    def learn(k):
        ready.wait()
        try:
            for part in range(4):
                some = slice(40 * k + 10 * part, 40 * k + 10 * part + 10)
                one.update(X[some], Y[some], progress=False)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=learn, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert one.n_seen == 240
    assert one.log_score.cases.sum() == 240
    assert len(one.basis) > 0
    assert {row.tobytes() for row in X} >= {row.tobytes() for row in one.basis}


def test_a_stream_can_be_copied_and_sent():
    one = stream().update(X[:100], Y[:100])
    for other in (copy.copy(one), pickle.loads(pickle.dumps(one))):
        np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))
        assert other.update(X[100:], Y[100:]).n_seen == 240
        assert one.n_seen == 100


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "stream.npz"
    code = (
        "import os, signal, sys, pathlib; from bayesgp_mf.files import whole\n"
        "with whole(pathlib.Path(sys.argv[1])) as part:\n"
        "    part.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    for target in (path, tmp_path / "other.npz"):
        ended = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
        assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".*.part"))) == 2
    sleeping = code.replace("os.kill(os.getpid(), signal.SIGKILL)", "print('written', flush=True); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", sleeping, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as live:
        assert live.stdout.readline() == b"written\n"
        one = stream().update(X, Y)
        one.save(path)
        left = [each.name for each in tmp_path.glob(".stream.npz.*.part")]
        assert len(left) == 1  # of the process that still writes
        assert f".{live.pid}-" in left[0]
        live.stdin.close()
    assert list(tmp_path.glob(".stream.npz.*.part")) == []
    assert len(list(tmp_path.glob(".other.npz.*.part"))) == 1  # another file's
    assert path.read_bytes() == b"half"  # the last who wrote
