"""Competitors on large tables, each in its own process: ``python -m validation.benchmarks.contest NAME FILE SECONDS``.

A competitor trains, and says now and then how it would predict. Whenever it does, its clock stops, and its predictions
are scored; the curve of score against time is what it is compared by. One that breaks, or passes its limit of processor
time, keeps what it had until then, and says what happened.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from signal import SIGXCPU
from typing import Any, NamedTuple

import numpy as np

from validation.benchmarks.competitors import COMPETITORS, Competitor
from validation.benchmarks.machine import ONE_THREAD
from validation.benchmarks.peak import ROOT, resident
from validation.benchmarks.problems import Data

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
"""TensorFlow reads its number of threads, and what it is to say, before it is imported."""


class Checkpoint(NamedTuple):
    """A competitor at one time of its training.

    Attributes
    ----------
    seconds : float
        Of the processor, for training so far; compilation counts, imports and predictions do not.
    imports : float
        Of the processor, until everything was imported.
    predict : float
        Of the processor, for the predictions of all held-out cases.
    bytes : int
        Largest resident memory of the process so far, the interpreter and all libraries in it.
    score : float
        Mean log probability of the held-out labels, in nats.
    error : float
        Part of the held-out labels that are not the more probable class.
    """

    seconds: float
    imports: float
    predict: float
    bytes: int
    score: float
    error: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a competitor.

    Attributes
    ----------
    name : str
        A key of ``COMPETITORS``.
    curve : tuple of Checkpoint
        In the order of time; empty where it broke before it could predict.
    failure : str
        Why it ended early; empty where it did not.
    """

    name: str
    curve: tuple[Checkpoint, ...]
    failure: str = ""

    @property
    def best(self) -> Checkpoint | None:
        """The checkpoint of the highest score, the first of them; None where there is none."""
        return max(self.curve, key=lambda checkpoint: checkpoint.score, default=None)

    def reached(self, score: float) -> float | None:
        """Return the seconds of training after which the score was at least so high; None where it never was."""
        return next((checkpoint.seconds for checkpoint in self.curve if checkpoint.score >= score), None)

    def within(self, seconds: float) -> float | None:
        """Return the best score that it had after at most so many seconds of training; None where it had none."""
        scores = [checkpoint.score for checkpoint in self.curve if checkpoint.seconds <= seconds]
        return max(scores, default=None)


def compete(name: str, data: Data, limit: int) -> Outcome:
    """Run a competitor in a new process, for at most ``limit`` seconds of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)
        command = [sys.executable, "-m", "validation.benchmarks.contest", name, str(path), str(limit)]
        environment = os.environ | ONE_THREAD | QUIET
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    curve = tuple(Checkpoint(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith('{"seconds"'))
    return Outcome(name, curve, failure_of(done, limit))


def failure_of(done: subprocess.CompletedProcess[str], limit: int) -> str:
    """Return why a process did not come to its end, in words; nothing where it did."""
    if done.returncode == 0:
        return ""
    if done.returncode == -SIGXCPU:
        return f"stopped after {limit} s"
    last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
    return last[0].strip() if last else f"ended with status {done.returncode}"


def train(competitor: Competitor, data: Data, report: Callable[[Checkpoint], object]) -> None:
    """Import what a competitor needs, train it, and report whenever it can predict.

    Raises
    ------
    ValueError
        If what it predicts are no probabilities.
    """
    for module in competitor.modules:
        import_module(module)
    imports = time.process_time()
    began = imports
    for predict in competitor.train(data):
        now = time.process_time()
        probabilities = predict(data.X_test)
        predicted = time.process_time() - now
        error = float(np.mean((probabilities > 0.5) != (data.y_test == 1)))
        _, largest = resident()
        report(Checkpoint(now - began, imports, predicted, largest, data.score(probabilities), error))
        began += time.process_time() - now


def main(name: str, path: str, limit: str) -> None:
    """Train a competitor on the data of a file, and print a line of JSON whenever it can predict."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 60))
    with np.load(path) as file:
        data = Data(**file)
    train(COMPETITORS[name], data, lambda checkpoint: print(json.dumps(checkpoint._asdict()), flush=True))


def as_numbers(outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """Return what is written as JSON."""
    return [
        {"name": name, "failure": outcome.failure, "curve": [checkpoint._asdict() for checkpoint in outcome.curve]}
        for name, outcome in outcomes.items()
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
