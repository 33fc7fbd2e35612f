"""Tasks have the same answers, to the last bit, in this process, in two, and on a cluster that loses workers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from bayesgp_mf.parallel import Processes, Serial, backend
from tests.parallel import work


@pytest.fixture(scope="module")
def pool():
    with closing(backend(2)) as found:
        yield found


@pytest.fixture(params=["serial", "processes", "dask"])
def place(request):
    if request.param == "serial":
        return Serial()
    return (
        request.getfixturevalue("pool")
        if request.param == "processes"
        else backend(1, request.getfixturevalue("client"))
    )


COMMON = np.random.default_rng(0).normal(size=(50, 1001))


def test_the_same_bytes_in_the_order_of_the_items(place):
    answers = [*place.map(work.sums, range(30), COMMON)]
    for answer, expected in zip(answers, Serial().map(work.sums, range(30), COMMON), strict=True):
        np.testing.assert_array_equal(answer, expected)
    assert [*place.map(work.times, [], 2)] == []
    assert [*place.map(work.slow_first, range(20), 0.2)] == [*range(20)]


@pytest.mark.parametrize("place", ["processes", "dask"], indirect=True)
def test_as_ready_the_slow_one_comes_late(place, tmp_path):
    answers = [*place.map(work.after_others, range(8), str(tmp_path), ordered=False)]
    assert sorted(answers) == [*range(8)]
    assert answers[0] != 0


def test_a_closure_and_a_large_common_object_travel(place):
    offset = np.ones(2_000_000)  # 16 MB, of which Dask would warn
    assert [*place.map(lambda common, item: float(common[item]) + item, range(3), offset)] == [1.0, 2.0, 3.0]


def test_items_are_pulled_and_what_is_left_is_cancelled(place, tmp_path):
    taken = []

    def items():
        for item in range(1000):
            taken.append(item)
            yield item

    with closing(place.map(work.noted, items(), str(tmp_path))) as answers:
        assert [next(answers) for _ in range(3)] == [0, 1, 2]
    assert len(taken) < 60
    time.sleep(0.5)
    before = work.begun(tmp_path)
    time.sleep(0.5)
    assert work.begun(tmp_path) == before  # nothing goes on
    assert [*place.map(work.times, [1, 2], 3)] == [3, 6]  # and it is of use again


def test_an_error_arrives_in_its_place_with_its_message(place):
    answers = place.map(work.fails_at_three, range(100))
    assert [next(answers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ArithmeticError, match="no answer to 3"):
        next(answers)
    with pytest.raises(Exception, match="this and 0"):
        next(place.map(work.fails_untravelled, range(2)))
    assert next(place.map(work.times, [2], 3)) == 6


class Unsent:
    """Something that cannot be pickled."""

    def __reduce__(self):
        raise RuntimeError("not me")


def test_what_cannot_be_sent_is_said(pool):
    with pytest.raises(ValueError, match=r"cannot be sent to another process.*RuntimeError: not me.*processes=1"):
        next(pool.map(work.times, [1, 2], Unsent()))
    assert next(pool.map(work.times, [2], 3)) == 6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["processes", "dask"], indirect=True)
def test_a_worker_that_is_lost_is_made_up_for(place, tmp_path):
    answers = [*place.map(work.dies_once, range(8), str(tmp_path))]
    assert [item for item, _ in answers] == [*range(8)]
    assert (tmp_path / "died").exists()
    assert os.getpid() not in {pid for _, pid in answers}


def test_a_task_that_always_ends_its_process_is_given_up(pool):
    with pytest.raises(RuntimeError, match=r"ended 3 times .* exit code -9.*memory"):
        [*pool.map(work.dies, range(4))]
    assert next(pool.map(work.times, [2], 3)) == 6


def test_a_process_that_is_killed_from_outside_is_made_up_for(pool, tmp_path):
    (tmp_path / "died").touch()
    pids = {pid for _, pid in pool.map(work.dies_once, range(8), str(tmp_path))}
    (tmp_path / "died").unlink()
    timer = threading.Timer(0.3, os.kill, (pids.pop(), signal.SIGKILL))
    timer.start()
    assert [*pool.map(work.noted, range(12), str(tmp_path))] == [*range(12)]
    timer.join()


def test_shards_of_a_lost_process_are_made_again(tmp_path):
    makes = [lambda k=k: np.arange(10.0) + k for k in range(5)]
    with closing(Processes(makes, 2)) as pool:
        first = pool.map_reduce(lambda state, message: {"sum": state.sum() * message}, 2.0)
        assert first["sum"] == 2.0 * sum(make().sum() for make in makes)

        def dies(state, message):
            if message and state[0] == 1.0 and not os.path.exists(message):
                open(message, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return {"sum": state.sum()}

        assert pool.map_reduce(dies, f"{tmp_path}/died")["sum"] == first["sum"] / 2.0
        assert (tmp_path / "died").exists()


SCRIPT = """
import os, signal, sys, time
from contextlib import closing
from bayesgp_mf.parallel import backend

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore

class Mine:
    def __init__(self, x): self.x = x

def task(common, item):
    print("printed by a task")
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep({seconds})
    return Mine(common.x * item)

with closing(backend(2)) as workers:
    for answer in workers.map(task, range(4), Mine(3)):
        print(isinstance(answer, Mine), answer.x)
"""  # no `if __name__ == "__main__":`


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_a_script_needs_no_guard_and_its_classes_come_back(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(seconds=0))
    (tmp_path / "pids").mkdir()
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path / "pids"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "".join(f"True {3 * item}\n" for item in range(4))
    assert "printed by a task" in done.stderr


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks at processes as Linux shows them")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_after_ctrl_c_nor_a_kill(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT.format(seconds=600))
    folder = tmp_path / "pids"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py", folder], stderr=subprocess.DEVNULL, start_new_session=True
    ) as script:
        try:
            while len(os.listdir(folder)) < 2:
                assert script.poll() is None
                time.sleep(0.05)
            pids = [int(name) for name in os.listdir(folder)]
            assert all(alive(pid) for pid in pids)
            os.killpg(script.pid, how) if how == signal.SIGINT else script.kill()  # Ctrl-C goes to all of a terminal
            script.wait(30)
        finally:
            script.kill()
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def test_nothing_is_left_on_a_cluster_by_an_error(client):
    place = backend(1, client, [partial(np.full, 3, k) for k in range(3)])
    with closing(place), pytest.raises(ValueError, match="shard 2 says no") as raised:
        place.map_reduce(work.refused_at_two, np.ones(3))
    del raised
    with pytest.raises(ArithmeticError, match="3"):
        list(backend(1, client).map(work.fails_at_three, range(6)))
    until = time.monotonic() + 10.0
    while client.futures and time.monotonic() < until:  # they are let go of a moment later
        gc.collect()  # of what pytest made of the error
        time.sleep(0.05)
    assert list(client.futures) == []


def test_an_answer_that_comes_as_the_wait_for_it_ends_is_taken(client, monkeypatch):
    distributed = pytest.importorskip("distributed")
    take, waited = distributed.Future.result, []

    def ends_late(future, timeout=None):
        if timeout is None:
            return take(future)
        distributed.wait(future)  # it is done before the look for it is over
        waited.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(distributed.Future, "result", ends_late)
    with closing(backend(1, client, [partial(np.full, 3, k) for k in range(3)])) as place:
        assert place.map_reduce(work.summed, 2.0) == {"sum": 18.0}
    assert waited


def test_a_closed_client_is_refused():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, dashboard_address=":0", n_workers=1, threads_per_worker=1) as client:
        pass
    with pytest.raises(ValueError, match="client is closed"):
        backend(1, client)


@pytest.mark.parametrize("client", ["tcp://here:8786", 3, dict])
def test_what_is_no_client_is_refused(client):
    with pytest.raises(ValueError, match=r"client must be a distributed\.Client"):
        backend(1, client)
