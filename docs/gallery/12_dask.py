"""
A Dask frame, fitted where its partitions are
=============================================

The partitions stay with the workers; only sums travel, whose size depends on the number of inducing cases. The result
is that of the whole table, however it is cut. Here the cluster is this process; for another one, only the address in
``Client`` changes.
"""

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

import bayesgp_mf as bgp

cases = 20_000  # tests: 1_000
rng = np.random.default_rng(1)
table = pd.DataFrame(rng.normal(size=(cases, 2)), columns=["x", "y"])
table["label"] = np.where(np.sin(2 * table["x"]) + table["y"] + 0.5 * rng.normal(size=cases) > 0, "late", "on time")
inputs = table[["x", "y"]].to_numpy()[:60]  # the same inducing inputs for all fits, so that they can be compared
kernel = bgp.kernels.Matern32(lengthscale=[1.0, 1.5], variance=3.0)

# %%
# Three cuts of the table by ``sharded.fit``, and ``fit`` on the whole.

evidence = {}
with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
    for parts in (2, 5, 10):
        frame = dd.from_pandas(table, npartitions=parts)
        idata = bgp.sharded.fit(frame, "label", kernel, inducing=inputs, positive="late", client=client, random_seed=1)
        evidence[f"{parts} partitions"] = float(idata["fit"]["log_evidence"])
late = (table["label"] == "late").to_numpy()
whole = bgp.fit(table[["x", "y"]], late, kernel, inducing=inputs, draws=10, random_seed=1)
for name, value in evidence.items():
    print(f"{name:14} differs from the whole table by {value - float(whole['fit']['log_evidence']):+.1e} nats")

# %%

x, y = np.meshgrid(np.linspace(-3, 3, 60), np.linspace(-3, 3, 60))
grid = pd.DataFrame({"x": x.ravel(), "y": y.ravel()})
p = bgp.predict(idata, grid, draws=False)["predictions"]["p"].values.reshape(x.shape)
fig, ax = plt.subplots(figsize=(5.2, 4.2))
shown = ax.contourf(x, y, p, np.linspace(0, 1, 11), cmap="RdBu_r")
ax.plot(*inputs.T, "k+", label="inducing inputs")
fig.colorbar(shown, label="P(late)")
ax.legend(loc="upper right")
ax.set(title="Probability fitted to a table in ten parts", xlabel="x", ylabel="y")
fig.tight_layout()
plt.show()
