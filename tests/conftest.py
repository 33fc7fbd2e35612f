"""What many tests share: random problems, and where the reference files lie."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesgp_mf as bgp
from tests.elsewhere import Elsewhere, elsewhere

REFERENCE = Path(__file__).parent / "reference" / "toy_cases.json"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what lives as long as the tests: looking at it again took a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def toy_cases() -> list[dict[str, Any]]:
    """Return the independently solved small cases, arrays as arrays."""
    cases = json.loads(REFERENCE.read_text(encoding="utf-8"))["cases"]
    return [{k: np.array(v) if isinstance(v, list) else v for k, v in case.items()} for case in cases]


def toy_gram(case: dict[str, Any]) -> np.ndarray:
    """Return the Gram matrix of a reference case."""
    return bgp.kernels.Gaussian(case["lengthscale"], case["v0"]).gram(case["X"])


@pytest.fixture
def set_memory(monkeypatch) -> Callable[[float], None]:
    """Return a function that lets this machine have so many bytes of memory."""

    def set_bytes(available: float) -> None:
        monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": available}.__getitem__, raising=False)

    return set_bytes


@pytest.fixture
def problem() -> bgp.Problem:
    """Return a two-dimensional probit problem of 40 cases."""
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 2.0), n=40, random_seed=5)
    return bgp.Problem(bgp.kernels.Gaussian(1.0, 2.0).gram(toy.X), 2 * toy.y - 1, bgp.Probit())


@pytest.fixture(scope="session")
def pima_fit() -> Any:
    """Return Pima fitted at fixed hyperparameters, with predictions; not to be changed."""
    pima = bgp.datasets.load_pima()
    kernel = bgp.kernels.Gaussian(np.full(7, 3.0)) + bgp.kernels.Bias(1.0)
    idata = bgp.fit(pima.X, pima.y, kernel, bgp.Probit(), random_seed=1)
    return bgp.predict(idata, pima.X_test, random_seed=2)


@pytest.fixture(scope="session")
def new_process() -> Iterator[Elsewhere]:
    """Yield a process other than this one, which runs programs."""
    with elsewhere() as found:
        yield found


@pytest.fixture(scope="session")
def cluster() -> Iterator[Callable[[bool], Any]]:
    """Yield what gives a client of two Dask workers on this machine, which come again where a test ends them."""
    distributed = pytest.importorskip("distributed")
    with ExitStack() as stack:

        def begun() -> Any:
            found = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
            return stack.enter_context(distributed.Client(stack.enter_context(found)))

        clients = [begun()]

        def client(anew: bool) -> Any:
            if anew:
                stack.close()
                clients[:] = [begun()]
            return clients[0]

        yield client


@pytest.fixture
def client(cluster) -> Any:
    """Return the client, once both workers answer: one may have been ended by the test before.

    On a busy machine Dask now and then gives a worker up for good; then there is a new cluster.
    """
    found, last = cluster(False), time.monotonic() + 30.0
    while len(found.run(os.getpid, on_error="ignore")) < 2:
        time.sleep(0.05)
        if time.monotonic() > last:
            found, last = cluster(True), time.monotonic() + 30.0
    return found
