"""
Few cases: averaging over hyperparameters
=========================================

With 25 labels, the length scale of highest evidence is one of many that would do. ``hyper="surrogate"`` draws
length scale and variance from their posterior and averages the predictions; ``"integrate"`` is a faster average
over a few weighted pairs of the two.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0.0, 10.0, 25))
label = np.sin(x) + 0.6 * rng.standard_normal(25) > 0
grid = np.linspace(-1.0, 13.0, 200)

kernel = bgp.kernels.Gaussian(lengthscale=1.5, variance=2.0)
priors = {"lengthscale": bgp.hyper.LogNormal(0.5, 1.0), "variance": bgp.hyper.LogNormal(0.5, 1.0)}

# %%
# Three fits that differ in one argument.

fits = {
    name: bgp.fit(x[:, None], label, kernel, hyper=name, priors=priors, random_seed=1, progress=False)
    for name in ("evidence", "integrate", "surrogate")
}
p = {name: bgp.predict(idata, grid[:, None], draws=False)["predictions"]["p"].values for name, idata in fits.items()}

# %%
# The averages are a little less certain, and the faster one agrees with the other. Below them the draws: length
# scales between a half and two would all do.

drawn = fits["surrogate"]["posterior"]
fig, (above, below) = plt.subplots(2, 1, figsize=(5.2, 7))
fig.suptitle("Probabilities at one setting, and averaged over settings")
for (name, probability), style in zip(p.items(), ("-", "--", ":"), strict=True):
    above.plot(grid, probability, style, label=f'hyper="{name}"')
above.plot(x, label, "k|", markersize=9)
above.set(xlabel="input x", ylabel="P(True | x)", ylim=(-0.05, 1.4))
above.legend(loc="upper right")
below.loglog(drawn["lengthscale"].values.ravel(), drawn["variance"].values.ravel(), ".", alpha=0.4, label="draws")
best = fits["evidence"]["fit"]
below.loglog(float(best["lengthscale"]), float(best["variance"]), "r*", markersize=12, label="most probable")
below.set(xlabel="length scale", ylabel="variance")
below.legend()
fig.tight_layout()
plt.show()

# %%
# The same draws as intervals, above those of the prior.

fig, ax = plt.subplots(figsize=(5.2, 2.8), layout="constrained")
fig.suptitle("Posterior and prior intervals of the hyperparameters")
bgp.plots.plot_hyperparameters(fits["surrogate"], ax=ax)
plt.show()
