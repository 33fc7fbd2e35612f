"""
A map of the globe
==================

A quantity was measured at 150 stations. On a map of longitude and latitude the stations left and right of the
180th meridian are at opposite edges, and those around a pole are far apart. A kernel that sees places on the sphere
knows better.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Matern32, OnSphere

rng = np.random.default_rng(3)


def field(places):
    """Return the true quantity: a few waves around the globe, the strongest over the Pacific."""
    from_pacific, north = np.radians(places["longitude"] - 180.0), np.radians(places["latitude"])
    return 2.0 * (np.cos(north) * np.cos(0.5 * from_pacific)) ** 2 * np.cos(2.0 * from_pacific) + np.sin(north)


evenly = np.degrees(np.arcsin(rng.uniform(-1.0, 1.0, 2150)))  # on the sphere
places = pd.DataFrame({"longitude": rng.uniform(-180.0, 180.0, 2150), "latitude": evenly})
stations, others = places[:150], places[150:]
measured = field(stations) + 0.3 * rng.standard_normal(150)

# %%
# The same kernel twice: on the sphere, with a length scale in kilometres, and on the flat map, with two in degrees.
kernels = {"on the sphere": OnSphere(Matern32(3000.0)), "on the flat map": Matern32([40.0, 40.0])}
fits = {}
edges = (np.abs(others["longitude"]) > 150.0) | (np.abs(others["latitude"]) > 65.0)
print(f"{'':16} evidence  error  near the edges of the map")
for name, kernel in kernels.items():
    given = {"likelihood": bgp.likelihoods.Gaussian(0.1), "method": "exact", "hyper": "evidence", "random_seed": 1}
    idata = bgp.fit(stations, measured, kernel, **given)
    off = bgp.predict(idata, others, draws=False)["predictions"]["latent_mean"].values - field(others)
    evidence = float(idata["fit"]["log_evidence"])
    print(f"{name:16} {evidence:8.1f} {np.std(off):6.2f} {np.std(off[edges]):8.2f}")
    fits[name] = idata

# %%
# The flat map has a seam, and is unsure along its edges.
east, north = (each.ravel() for each in np.meshgrid(np.arange(-177.5, 180.0, 5.0), np.arange(-87.5, 90.0, 5.0)))
grid = pd.DataFrame({"longitude": east, "latitude": north})
corners = np.array([[-2.5, -2.5], [2.5, -2.5], [2.5, 2.5], [-2.5, 2.5]])
cells = [corners + centre for centre in grid.to_numpy()]
fig, axes = plt.subplots(4, 1, figsize=(5.0, 9.0), layout="constrained")
fig.suptitle("150 stations, on the sphere and on the flat map")
for column, (name, idata) in zip((axes[::2], axes[1::2]), fits.items(), strict=True):
    bgp.plots.plot_map(bgp.predict(idata, grid, draws=False), cells, ax=column)
    for ax, what in zip(column, ("mean", "standard deviation"), strict=True):
        ax.collections[0].set_edgecolor("face")
        ax.collections[0].colorbar.set_label(what)
        ax.set(title=name, xticks=[-180, 0, 180], yticks=[-90, 0, 90])
plt.show()
