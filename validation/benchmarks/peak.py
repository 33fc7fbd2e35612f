"""Peak memory of one piece of work: each in a process of its own, ``python -m validation.benchmarks.peak NAME FILE``.

What counts is the largest resident memory while it works, less what the interpreter holds after all imports and after
the same work on a few cases, which loads what is imported late.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.types import Array
from validation.benchmarks.machine import ONE_THREAD
from validation.benchmarks.peers import gpboost_at, gpy_ep, sklearn_laplace
from validation.benchmarks.problems import Data, Fitted

ROOT = Path(__file__).parents[2]
STATUS = Path("/proc/self/status")
FEW = 20
"""Cases of the work that is done first, and not measured."""
BLOCK = 256
"""Rows of the Gram matrix that are made at once, so that making it costs no more memory than it has."""


class Peak(NamedTuple):
    """What a process reported.

    Attributes
    ----------
    bytes : int
        Largest resident memory above the interpreter's.
    seconds : float
        Of the processor, for the work.
    values : dict
        What the work returned, by name.
    """

    bytes: int
    seconds: float
    values: dict[str, float]

    def matrices(self, n: int) -> float:
        """Return the memory in units of a matrix of n x n doubles."""
        return self.bytes / (8.0 * n**2)


def measure(name: str, data: Data, lengthscale: Array, variance: float) -> Peak:
    """Run a case of ``CASES`` in a new process.

    Raises
    ------
    RuntimeError
        If the process fails; the message has the end of what it wrote.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        arrays = {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test}
        np.savez(path, lengthscale=lengthscale, variance=variance, **arrays)
        command = [sys.executable, "-m", "validation.benchmarks.peak", name, str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | ONE_THREAD
        )
    if done.returncode != 0:
        raise RuntimeError(f"{name} with {data.t.size} cases failed in its own process:\n{done.stderr[-2000:]}")
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def resident() -> tuple[int, int]:
    """Return resident memory now, and its largest value so far, in bytes.

    Linux counts what the process that started this one held into ``ru_maxrss``; its own table of this process does not.
    """
    if STATUS.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(lines["VmRSS"].split()[0]) * 1024, int(lines["VmHWM"].split()[0]) * 1024
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return largest, largest


def _given_gram(data: Data, kernel: bgp.kernels.Gaussian) -> dict[str, float]:
    gram = np.empty((data.t.size, data.t.size))
    for first in range(0, data.t.size, BLOCK):
        gram[first : first + BLOCK] = kernel.cross(data.X[first : first + BLOCK], data.X)
    return _evidence_of(gram, data)


def _from_inputs(data: Data, kernel: bgp.kernels.Gaussian) -> dict[str, float]:
    return _evidence_of(kernel.gram(data.X), data)


def _evidence_of(gram: Array, data: Data) -> dict[str, float]:
    solution = bgp.solve(gram, data.t, bgp.Probit(), control=Control(tolerance=1e-6))
    return {"log_evidence": solution.evidence.value}


def _fit_and_predict(data: Data, kernel: bgp.kernels.Gaussian) -> dict[str, float]:
    began = time.process_time()
    idata = bgp.fit(data.X, data.y, kernel, draws=1, chains=1, random_seed=1, progress=False)
    seconds = time.process_time() - began
    score = data.score(bgp.posterior(idata).predict_proba(data.X_test))
    numbers = {name: float(idata["fit"][name]) for name in ("log_evidence", "n_iterations")}
    return {**numbers, "fit_seconds": seconds, "score": score}


def _of_peer(fit: Callable[[Data, Array, float], Fitted]) -> Callable[[Data, bgp.kernels.Gaussian], dict[str, float]]:
    def run(data: Data, kernel: bgp.kernels.Gaussian) -> dict[str, float]:
        lengthscale, variance = kernel.params["lengthscale"], float(kernel.params["variance"])
        return {"log_evidence": fit(data, lengthscale, variance).log_evidence}

    return run


CASES: dict[str, Callable[[Data, bgp.kernels.Gaussian], dict[str, float]]] = {
    "tap, K given": _given_gram,
    "tap, from inputs": _from_inputs,
    "fit and predict": _fit_and_predict,
    "scikit-learn, Laplace": _of_peer(sklearn_laplace),
    "GPy, EP": _of_peer(gpy_ep),
    "GPBoost, Laplace": _of_peer(gpboost_at),
}


def main(name: str, path: str) -> None:
    """Do the work of a case on the data of a file, and print what it took as the last line, in JSON."""
    with np.load(path) as file:
        arrays = dict(file)
    kernel = bgp.kernels.Gaussian(arrays.pop("lengthscale"), float(arrays.pop("variance")))
    data = Data(**arrays)
    work = CASES[name]
    work(data.first(FEW), kernel)
    before, _ = resident()
    began = time.process_time()
    values = work(data, kernel)
    seconds = time.process_time() - began
    _, largest = resident()
    print()
    print(json.dumps({"bytes": largest - before, "seconds": seconds, "values": values}))


if __name__ == "__main__":
    main(*sys.argv[1:])
