"""
Measurements with outliers
==========================

Skin folds of Pima women by body mass index. One value, 99 mm, is far from all others. Gaussian noise has to be wide
enough for it, and is then too wide for all other cases; Student's t treats it as an outlier.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima(standardise=False, as_frame=True)
X = pima.X[["bmi"]]
skin = pima.X["skin"]
rows = [*range(60), int(skin.argmax())]
X, skin = X.iloc[rows], skin.iloc[rows]

# %%
# The noise is tuned with the kernel: its variance there, its scale here. The mean of the prior is zero, so the
# target is centred.

kernel = bgp.kernels.Gaussian(lengthscale=10.0, variance=90.0)
grid = np.linspace(17.0, 48.0, 120)
fig, axes = plt.subplots(2, 1, figsize=(5.2, 6.6), sharey=True)
fig.suptitle("Skin folds by body mass index: Gaussian noise and Student's t")
for ax, likelihood in zip(axes, (bgp.likelihoods.Gaussian(100.0), bgp.StudentT(6.0, df=4)), strict=True):
    idata = bgp.fit(X, skin - 30.0, kernel, likelihood, hyper="evidence", draws=200, random_seed=1)
    idata = bgp.predict(idata, grid[:, None], quantiles=[0.05, 0.95], draws=False)
    said = idata["predictions"]
    low, high = said["y_quantile"].values.T + 30.0
    inside = np.mean((skin > np.interp(X["bmi"], grid, low)) & (skin < np.interp(X["bmi"], grid, high)))
    print(f"{type(likelihood).__name__:9} log evidence {float(idata['fit']['log_evidence']):.1f}; {inside:.0%} inside")
    ax.fill_between(grid, low, high, alpha=0.25, label="90 % of new measurements")
    ax.plot(grid, said["latent_mean"].values + 30.0, label="mean")
    ax.plot(X["bmi"], skin, "k.", label="measured")
    ax.set(title=type(likelihood).__name__, xlabel="body mass index, kg/m²", ylabel="skin fold, mm")
axes[0].legend(loc="upper left")
fig.tight_layout()
plt.show()
