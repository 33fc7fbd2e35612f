"""
One input: labels and the function behind them
==============================================

Eighty labels along a line. The fit gives a latent function with its uncertainty, and the probability of a label
everywhere. Between the cases the bands are narrow; beyond them they widen back to the prior, and the probability
returns to one half.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(2)
x = np.sort(rng.uniform(0.0, 10.0, 80))
label = np.where(1.6 * np.sin(x) + rng.standard_normal(80) > 0, "yes", "no")

# %%
# ``hyper="evidence"`` finds the length scale and the variance under which the labels are most probable.

kernel = bgp.kernels.Gaussian(lengthscale=1.0, variance=1.0)
idata = bgp.fit(x[:, None], label, kernel, bgp.Probit(), hyper="evidence", random_seed=1)
print(idata["fit"].attrs["quality"])

grid = np.linspace(-2.0, 14.0, 300)
said = bgp.predict(idata, grid[:, None], draws=False)["predictions"]
mean, sd = said["latent_mean"].values, said["latent_sd"].values

# %%
# Above the latent function with its 50 % and 90 % bands; below the probability of *yes*, with the labels.

fig, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5.5), height_ratios=[3, 2])
fig.suptitle("Labels along one input: the latent function and the probability of yes")
for width, shade in ((1.645, 0.2), (0.674, 0.4)):
    above.fill_between(grid, mean - width * sd, mean + width * sd, color="C0", alpha=shade, linewidth=0)
above.plot(grid, mean, "C0", label="mean, 50 % and 90 % bands")
above.plot(grid, 1.6 * np.sin(grid), "k:", label="the function that made the labels")
above.set_ylabel("latent function f(x)")
above.legend(loc="upper right")
below.plot(grid, said["p"], "C0", label="probability of yes")
below.plot(x, label == "yes", "k|", markersize=9, label="labels")
below.set(xlabel="input x", ylabel="P(yes | x)", ylim=(-0.08, 1.08))
below.legend(loc="lower right")
fig.tight_layout()
plt.show()
