"""
Two inputs: a map of probabilities
==================================

Diabetes by plasma glucose and body mass index, the two most telling of the seven measurements of the Pima data. A
length scale for each input makes the units of the columns irrelevant.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima(standardise=False, as_frame=True)
X = pima.X[["glu", "bmi"]].rename(columns={"glu": "glucose, mg/dl", "bmi": "body mass index, kg/m²"})

kernel = bgp.kernels.Gaussian(lengthscale=[60.0, 15.0], variance=2.0) + bgp.kernels.Bias()
idata = bgp.fit(X, pima.y, kernel, bgp.Probit(), hyper="evidence", random_seed=1)
print("length scales (mg/dl, kg/m²):", idata["fit"]["gaussian_lengthscale"].values.round(1))

# %%
# The probability of *Yes*, with contours and the cases.

fig, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
fig.suptitle("Probability of diabetes by glucose and body mass index")
bgp.plots.plot_surface(idata, ax=ax)
plt.show()

# %%
# How uncertain the latent function is: least where most women are. Predictions on a grid are those of any other
# table.

glucose, bmi = np.meshgrid(np.linspace(50, 205, 60), np.linspace(16, 50, 50))
grid = pd.DataFrame({X.columns[0]: glucose.ravel(), X.columns[1]: bmi.ravel()})
sd = bgp.predict(idata, grid, draws=False)["predictions"]["latent_sd"].values.reshape(glucose.shape)
fig, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
fig.suptitle("Standard deviation of the latent function over the same two inputs")
fig.colorbar(ax.contourf(glucose, bmi, sd, 10, cmap="viridis"), label="latent standard deviation")
ax.plot(*X.to_numpy().T, "w.", markersize=3)
ax.set(xlabel=X.columns[0], ylabel=X.columns[1])
plt.show()
