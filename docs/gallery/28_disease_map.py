"""
A map of a disease
==================

Cases of a rare disease in 100 counties, most of which expect fewer than five: the logarithm of the expected number is
an ``offset``, and the map is of the relative risk. A county says little by itself, but neighbours are alike.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.spatial import Voronoi

import bayesgp_mf as bgp

# A county is what is nearest to its town. Mirror images of the towns close the counties at the border.
rng = np.random.default_rng(1)
towns = np.stack(np.meshgrid(range(10), range(10)), axis=-1).reshape(100, 2) + rng.uniform(0.1, 0.9, (100, 2))
images = [np.where(np.arange(2) == side, 2.0 * border - towns, towns) for side in (0, 1) for border in (0, 10)]
cells = Voronoi(np.concatenate([towns, *images]))
shapes = [cells.vertices[cells.regions[region]] for region in cells.point_region[:100]]
pairs = cells.ridge_points[(cells.ridge_points < 100).all(axis=1)]
names = np.array([f"county {k + 1}" for k in range(100)])
neighbours = {name: list(names[pairs[:, ::-1][pairs == k]]) for k, name in enumerate(names)}
log_risk = 0.5 * np.sin(towns[:, 0] / 2.5) + 0.4 * np.cos(towns[:, 1] / 3.0) + rng.normal(-0.1, 0.1, 100)
expected = 0.3 + rng.gamma(1.0, 4.0, 100)
cases, counties = rng.poisson(expected * np.exp(log_risk)), pd.DataFrame({"county": names})

# %%
# Two models, averaged over hyperparameters: neighbours share risk (BYM2), or each county has its own.
kernels = {
    "neighbours": bgp.kernels.Areal(neighbours, "bym2", columns="county") + bgp.kernels.Bias(),
    "each alone": bgp.kernels.Categorical(columns="county") + bgp.kernels.Bias(),
}
fits, table = {}, counties.assign(cases=cases, expected=expected.round(1), risk=np.exp(log_risk).round(2))
given = {"likelihood": bgp.Poisson(), "offset": np.log(expected)}
for name, kernel in kernels.items():
    priors = bgp.priors.suggest(counties, kernel, between=(0.3, 3.0), form="penalised complexity", **given)
    idata = bgp.fit(counties, cases, kernel, hyper="integrate", priors=priors, random_seed=1, **given)
    fits[name] = bgp.predict(idata, counties, offset=np.zeros(100), draws=False)
    mean, sd = (idata["predictions"][each].values for each in ("latent_mean", "latent_sd"))
    limits = np.exp(mean + 1.645 * sd * np.array([[0.0], [-1.0], [1.0]]))
    table[name] = [f"{median:.1f} ({low:.1f} to {high:.1f})" for median, low, high in limits.T]
    inside, error = np.mean(np.abs(mean - log_risk) < 1.645 * sd), np.sqrt(np.mean((mean - log_risk) ** 2))
    print(f"{name}: log risks are off by {error:.2f}; {inside:.0%} of them in 90 % intervals")
print(table.head(8).to_string(index=False), bgp.compare(fits).table[["elpd", "elpd_difference", "dse"]], sep="\n\n")

# %%
# County 54 has 6 cases, and 1.3 were expected. Alone it is the second worst, beside its neighbours the twentieth.
fig, axes = plt.subplots(3, 2, figsize=(5.2, 7.0), layout="constrained")
fig.suptitle("Relative risks with neighbours, and of each county alone")
rows = {"relative risk": 2.4, "standard deviation": 0.8, "chance of over 1.5": 1.0}
for column, (name, idata) in zip(axes.T, fits.items(), strict=True):
    bgp.plots.plot_map(idata, shapes, threshold=1.5, ax=column)
    for ax, (label, most) in zip(column, rows.items(), strict=True):
        ax.collections[0].set_clim(0.0, most)
        ax.collections[0].colorbar.set_label(label)
        ax.set(title=name, xlabel="east", ylabel="north")
plt.show()
