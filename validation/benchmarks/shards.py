"""Tables in Parquet files, up to ten million rows on this machine: rows a second, memory, and what more rows bring."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.special import ndtr

import bayesgp_mf as bgp
from bayesgp_mf.types import Array
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.problems import SEED

SIZES = (100_000, 1_000_000, 10_000_000)
"""In this order: the largest memory of a worker is that of the size at hand."""
ROWS, N_TEST, COLUMNS = 50_000, 20_000, 5
"""Of a file; held out; of inputs."""
INDUCING, WORKERS = 100, 2
REMARK = (
    "Rows are drawn: {columns} inputs, standard normal, and labels of a known function through a probit, in files of "
    "{rows} rows. Matern 5/2 with a length scale for each input, tuned by the evidence of 20,000 rows, {inducing} "
    "inducing cases, {workers} processes. Seconds are those of the clock, for the whole fit, and of processors: the "
    "workers' and the client's. The log score is the mean log probability of {n_test} held-out labels; that of the "
    "function itself is {true:.4f}."
)


def drawn(n: int, part: int) -> tuple[Array, Array, Array]:
    """Return inputs ``(n, 5)``, labels, and the probabilities that they were drawn with, of one file."""
    rng = np.random.default_rng([SEED, part])
    X = rng.standard_normal((n, COLUMNS))
    f = 1.5 * np.sin(1.5 * X[:, 0] + X[:, 1]) + np.cos(1.2 * X[:, 2]) * X[:, 3] + 0.7 * np.sin(2.0 * X[:, 4])
    p = ndtr(1.5 * f)
    return X, rng.random(n) < p, p


def write(folder: Path, n: int) -> None:
    """Write so many rows."""
    for part in range(n // ROWS):
        X, y, _ = drawn(ROWS, part + 1)
        pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y).to_parquet(
            folder / f"{part:04d}.parquet"
        )


def benchmarks(advance: Callable[[str], None], sizes: tuple[int, ...] = SIZES) -> Iterator[Result]:
    """Fit each size, and say what it took."""
    X_test, y_test, true = drawn(N_TEST, 0)
    rows, numbers = [], []
    kernel = bgp.kernels.Matern52(np.full(COLUMNS, 1.5), 4.0)
    for n in sizes:
        with TemporaryDirectory() as folder:
            write(Path(folder), n)
            advance(f"{n} rows written")
            table = bgp.sharded.from_parquet(folder, target="y")
            clock, own = time.perf_counter(), time.process_time()
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            idata = bgp.sharded.fit(
                table, None, kernel, bgp.Probit(), inducing=INDUCING, hyper="evidence", processes=WORKERS,
                random_seed=1, progress=False,
            )  # fmt: skip
            seconds, own = time.perf_counter() - clock, time.process_time() - own
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = bgp.predict(idata, pd.DataFrame(X_test, columns=table.columns[:COLUMNS]), draws=False)["predictions"]["p"]
        found = {
            "n": n,
            "seconds": seconds,
            "rows_a_second": n / seconds,
            "client_seconds": own,
            "worker_seconds": children.ru_utime + children.ru_stime - spent.ru_utime - spent.ru_stime,
            "largest_worker_bytes": children.ru_maxrss * 1024,
            "rounds": int(idata["fit"]["n_iterations"]),
            "log_score": bgp.diagnostics.mean_log_score(y_test, p.values),
        }
        advance(f"{n} rows fitted")
        numbers.append(found)
        rows.append(
            (
                f"{n:,}",
                f"{seconds:.0f}",
                f"{found['rows_a_second']:,.0f}",
                f"{found['worker_seconds']:.0f} + {own:.0f}",
                f"{found['largest_worker_bytes'] / 2**30:.2f}",
                f"{found['rounds']}",
                f"{found['log_score']:.4f}",
            )
        )
    header = ("Rows", "Seconds", "Rows a second", "Processor, s", "A worker, GiB", "Rounds", "Log score")
    remark = REMARK.format(
        columns=COLUMNS, rows=ROWS, inducing=INDUCING, workers=WORKERS, n_test=N_TEST,
        true=bgp.diagnostics.mean_log_score(y_test, true),
    )  # fmt: skip
    yield Listing("Tables in files, on one machine", header, tuple(rows), numbers, (remark,))
