"""
Two inputs: a map of probabilities
==================================

Diabetes by plasma glucose and body mass index, the two most telling of the seven measurements of the Pima data. A
length scale for each input makes the units of the columns irrelevant.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima(standardise=False, as_frame=True)
X = pima.X[["glu", "bmi"]]

kernel = bgp.kernels.Gaussian(lengthscale=[60.0, 15.0], variance=2.0) + bgp.kernels.Bias()
idata = bgp.fit(X, pima.y, kernel, bgp.Probit(), hyper="evidence", random_seed=1)
print("length scales (mg/dl, kg/m²):", idata["fit"]["gaussian_lengthscale"].values.round(1))

# %%
# Probabilities on a grid. ``p`` is that of the class which comes last in the alphabet, here *Yes*.

glucose, bmi = np.meshgrid(np.linspace(50, 205, 60), np.linspace(16, 50, 50))
grid = np.column_stack([glucose.ravel(), bmi.ravel()])
said = bgp.predict(idata, grid, draws=False)["predictions"]
p = said["p"].values.reshape(glucose.shape)
sd = said["latent_sd"].values.reshape(glucose.shape)

# %%
# On the left the probability, with the cases. On the right how uncertain the latent function is: least where most
# women are.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4.4), sharey=True)
fig.suptitle("Probability of diabetes by glucose and body mass index, and its uncertainty")
levels = np.linspace(0.0, 1.0, 11)
shown = left.contourf(glucose, bmi, p, levels, cmap="RdBu_r", alpha=0.8)
left.clabel(left.contour(glucose, bmi, p, [0.25, 0.5, 0.75], colors="k", linewidths=0.8), fmt="%.2f")
for name, marker in (("No", "o"), ("Yes", "^")):
    of = (pima.y == name).to_numpy()
    left.plot(X["glu"][of], X["bmi"][of], marker, color="k", markersize=3.5, alpha=0.6, label=name)
fig.colorbar(shown, ax=left, label="P(Yes)")
left.legend(title="diabetic", loc="upper left")
left.set(xlabel="glucose, mg/dl", ylabel="body mass index, kg/m²")
fig.colorbar(right.contourf(glucose, bmi, sd, 10, cmap="viridis"), ax=right, label="latent standard deviation")
right.plot(X["glu"], X["bmi"], "w.", markersize=2)
right.set(xlabel="glucose, mg/dl")
fig.tight_layout()
plt.show()
