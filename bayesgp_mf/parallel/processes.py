"""Shards and tasks in processes of this machine.

The processes are our own, each an interpreter that answers calls on a pipe (`worker`), and not those of a library, for
what shards and tasks ask for together. A state of gigabytes has to stay where it is: joblib's loky ends a worker whose
memory grows. Scripts without ``if __name__ == "__main__":`` and functions of a notebook have to work: those of the
standard library import the script again and pickle functions by name. And what runs has to end at once at Ctrl-C: an
executor waits for it. Measured: `sharded.fit` of 20,000 rows on two processes takes 10 s with these and 13 s with the
workers of a Dask cluster on this machine, which take 3 s more to start; workers of loky go on with a task for at least
6 s when the process that asked for it was killed.
"""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from bayesgp_mf.parallel.worker import Answer, Make, ask, in_order, pickled, receive, send, share, task, tree_sum

TRIES = 3
"""A call whose process ends so often is given up."""
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_NUMBERS = itertools.count()


class _Ended(Exception):  # noqa: N818
    """A process is gone."""


class _Call(NamedTuple):
    future: Future[Any]
    message: bytes
    before: tuple[int, bytes] | None  # what the process has to hear once before, by a number


class _Worker:
    """A process, which is begun when it is first asked, and a thread that waits for its answers."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = -1
        self._closed = False
        self._last: Future[Any] | None = None
        # a daemon: at the end of the script nobody waits for it, and the process ends with the pipe
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether all calls have their answers."""
        return self._last is None or self._last.done()

    def call(
        self, function: Callable[..., Any], *arguments: Any, before: tuple[int, bytes] | None = None
    ) -> Future[Any]:
        """Return the result of a function, to come."""
        message = pickled((function, arguments))
        future: Future[Any] = Future()
        self._last = future
        self._calls.put(_Call(future, message, before))
        return future

    def close(self) -> None:
        """End the process, in the middle of a task too; its calls are cancelled."""
        self._closed = True
        self._calls.put(None)
        self._kill()
        self._thread.join()

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                well, result, trace = pickle.loads(self._answer(call))
            except BaseException as error:
                well, result, trace = False, error, ""
            if well:
                call.future.set_result(result)
                continue
            if trace:
                result.add_note(f"In another process:\n{trace}")
            call.future.set_exception(result)
        self._end()

    def _answer(self, call: _Call) -> bytes:
        code: int | None = None
        for _ in range(TRIES):
            if self._closed:
                break
            try:
                if call.before is not None and self._heard != call.before[0]:
                    answer = self._exchange(call.before[1])
                    if not pickle.loads(answer)[0]:  # as where a class cannot be imported there
                        return answer
                    self._heard = call.before[0]
                return self._exchange(call.message)
            except (_Ended, OSError):
                code = self._end()
        if self._closed:
            raise RuntimeError("the processes were closed.")
        raise RuntimeError(
            f"a process ended {TRIES} times in the same piece of work, the last time with exit code {code}. It was "
            "killed, perhaps for memory: take fewer processes, or smaller pieces. What it printed stands above."
        )

    def _exchange(self, message: bytes) -> bytes:
        if self._process is None:
            self._process = _started()
            if self._closed:  # just now
                self._kill()
        calls, answers = self._process.stdin, self._process.stdout
        if calls is None or answers is None:
            raise _Ended
        send(calls, message)
        answer = receive(answers)
        if answer is None:
            raise _Ended
        return answer

    def _end(self) -> int | None:
        process, self._process, self._heard = self._process, None, -1
        if process is None:
            return None
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # of what can no longer be sent
                    stream.close()
        return code


def _started() -> subprocess.Popen[bytes]:
    # not to be interrupted by the Ctrl-C that ends it from here; modules are found where they are found here
    begin = (
        f"import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        f"sys.path[:], sys.argv[:] = {sys.path!r}, {sys.argv!r}; "
        "from bayesgp_mf.parallel.worker import serve; serve()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **ONE_THREAD}
    )


class Processes:
    """Shards and tasks in processes of this machine with one BLAS thread, each shard always in the same one.

    A process that is lost is made up for, as a worker of a cluster is; what ends its process three times is given up.

    Parameters
    ----------
    makes : sequence of callable
        Each makes the state of a shard; they and all messages are pickled, by value what a script defines.
    processes : int
        How many processes.
    """

    def __init__(self, makes: Sequence[Make], processes: int) -> None:
        self._makes, self._job = list(makes), f"processes-{next(_NUMBERS)}"
        self._workers = [_Worker() for _ in range(min(processes, len(self._makes)) if self._makes else processes)]

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""
        workers = itertools.cycle(self._workers)
        futures = [
            worker.call(ask, self._job, k, make, function, message)
            for k, (make, worker) in enumerate(zip(self._makes, workers, strict=False))
        ]
        result: Answer = tree_sum([future.result() for future in futures])
        return result

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], common: Any = None, *, ordered: bool = True
    ) -> Generator[Any, None, None]:
        """Yield ``function(common, item)`` for each item, of as many at a time as there are processes."""
        number = next(_NUMBERS)
        before = number, pickled((share, (number, common)))

        def submit(item: Any) -> Future[Any]:
            idle = next(worker for worker in self._workers if worker.idle)
            return idle.call(task, number, function, item, before=before)

        return in_order(submit, items, lambda: len(self._workers), self._cancel, ordered=ordered)

    def _cancel(self, running: list[Any]) -> None:
        """End the processes, since what runs cannot be asked to stop; others are begun when they are asked."""
        self.close()
        self._workers = [_Worker() for _ in self._workers]

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()
