"""
One input: labels and the function behind them
==============================================

Eighty labels along a line. The fit gives a latent function with its uncertainty, and the probability of a label
everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp

rng = np.random.default_rng(2)
X = pd.DataFrame({"x": np.sort(rng.uniform(0.0, 10.0, 80))})
label = np.where(1.6 * np.sin(X["x"]) + rng.standard_normal(80) > 0, "yes", "no")

# %%
# ``hyper="evidence"`` finds the length scale and the variance under which the labels are most probable. One line
# draws the fit.

kernel = bgp.kernels.Gaussian(lengthscale=1.0, variance=1.0)
idata = bgp.fit(X, label, kernel, bgp.Probit(), hyper="evidence", random_seed=1)
print(idata["fit"].attrs["quality"])

fig, ax = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
fig.suptitle("The latent function along x, by plot_latent")
bgp.plots.plot_latent(idata, ax=ax)
plt.show()

# %%
# The same by hand, and beyond the cases: there the bands widen back to the prior, and the probability returns to
# one half.

# sphinx_gallery_thumbnail_number = 2
grid = pd.DataFrame({"x": np.linspace(-2.0, 14.0, 300)})
x, said = grid["x"], bgp.predict(idata, grid, draws=False)["predictions"]
mean, sd = said["latent_mean"].values, said["latent_sd"].values

fig, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(5.2, 4.8), height_ratios=[3, 2])
fig.suptitle("Labels along one input: the latent function and the probability of yes")
for width, shade in ((1.645, 0.2), (0.674, 0.4)):
    above.fill_between(x, mean - width * sd, mean + width * sd, color="C0", alpha=shade, linewidth=0)
above.plot(x, mean, "C0", label="mean, 50 % and 90 % bands")
above.plot(x, 1.6 * np.sin(x), "k:", label="the function that made the labels")
above.set(ylabel="latent function f(x)", ylim=(-2.6, 5.2))
above.legend(loc="upper right")
below.plot(x, said["p"], "C0", label="probability of yes")
below.plot(X["x"], label == "yes", "k|", markersize=9, label="labels")
below.set(xlabel="input x", ylabel="P(yes | x)", ylim=(-0.1, 1.6), yticks=[0.0, 0.5, 1.0])
below.legend(loc="upper right", ncols=2)
fig.tight_layout()
plt.show()
