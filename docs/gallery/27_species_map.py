"""
A map of a species
==================

Birds counted at 200 places. Observers stayed for different times: the logarithm of the hours is an ``offset``. At one
place in five, wind let nobody hear a bird. And birds come in groups: counts vary more than a Poisson law allows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import ZeroInflated

rng = np.random.default_rng(6)
places = pd.DataFrame(rng.uniform(0.0, 30.0, (200, 2)), columns=["east (km)", "north (km)"])
sides = np.meshgrid(np.arange(0.5, 30.0), np.arange(0.5, 30.0))
squares = pd.DataFrame(np.reshape(sides, (2, 900)).T, columns=places.columns)
f, truth = (1.5 + 1.2 * np.sin(at["east (km)"] / 4.0) * np.cos(at["north (km)"] / 5.0) for at in (places, squares))
hours = rng.uniform(0.5, 3.0, 200)
birds = rng.poisson(np.exp(f) * hours * rng.gamma(2.0, 0.5, 200)) * (rng.random(200) < 0.8)

# %%
# Five models: three likelihoods leave out one cause, or both; the last kernel is wrong, smooth over twice the size of
# the map. The truth is known here: how much of the map has it within 90 % intervals of the rate, and how wide are they?
kernel, groups = bgp.kernels.Matern32(6.0) + bgp.kernels.Bias(4.0), bgp.NegativeBinomial(2.0)
models = {
    "groups and wind": (kernel, ZeroInflated(groups, 0.2), ["bias_variance"]),
    "groups, no wind": (kernel, groups, ["bias_variance"]),
    "wind, no groups": (kernel, ZeroInflated(bgp.Poisson(), 0.2), ["bias_variance"]),
    "Poisson": (kernel, bgp.Poisson(), ["bias_variance"]),
    "wrong kernel": (kernel.replace(matern32_lengthscale=60.0), ZeroInflated(groups, 0.2), list(kernel.params)),
}
fits, search = {}, bgp.hyper.Evidence(starts=1)
for name, (k, likelihood, fixed) in models.items():
    fits[name] = bgp.fit(places, birds, k, likelihood, hyper=search, fixed=fixed, offset=np.log(hours), random_seed=1)
    bgp.predict(fits[name], squares, offset=np.zeros(900), draws=False)
    mean, sd = (fits[name]["predictions"][each].values for each in ("latent_mean", "latent_sd"))
    inside, width = np.mean(np.abs(truth - mean) < 1.645 * sd), np.exp(3.29 * sd.mean())
    print(f"{name:16} {inside:4.0%} in intervals {width:4.1f}-fold wide, log rates off by {np.mean(mean - truth):5.2f}")
print(bgp.compare(fits).table[["log_evidence", "elpd", "elpd_difference", "dse"]].round(1))

# %%
# Without the wind the rates are too low. Poisson's function must explain each group, and knows nothing between places.
# The wrong kernel is sure, and wrong: its intervals are half as wide, and most miss the truth (in red: above 8).
shapes = squares.to_numpy()[:, None, :] + [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]]
fig, axes = plt.subplots(3, 2, figsize=(5.2, 7.0), layout="constrained", sharex=True, sharey=True)
fig.suptitle("Birds an hour, with the kernel and with a wrong one")
rows = {"log of birds an hour": 2.6, "standard deviation": 0.6, "chance of over 8": 1.0}
for column, name in zip(axes.T, ("groups and wind", "wrong kernel"), strict=True):
    bgp.plots.plot_map(fits[name], shapes, threshold=np.log(8.0), scale="latent", ax=column)
    for ax, (label, most) in zip(column, rows.items(), strict=True):
        ax.collections[0].set(clim=(0.0, most), linewidth=0.0, antialiased=False)
        ax.collections[0].colorbar.set_label(label)
        ax.contour(*sides, truth.to_numpy().reshape(30, 30), [np.log(8.0)], colors="red")
        ax.set_title(name)
        ax.label_outer()
plt.show()
