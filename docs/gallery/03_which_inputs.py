"""
A table of many inputs: which of them matter?
=============================================

Seven measurements, a length scale for each (automatic relevance determination). A long one says that the function
hardly changes along its input. Priors on the length scales keep the unused ones from running away.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima(standardise=False, as_frame=True)
X = (pima.X - pima.X.mean()) / pima.X.std()  # so that one prior suits all length scales

kernel = bgp.kernels.Gaussian(lengthscale=np.full(7, 3.0), variance=2.0) + bgp.kernels.Bias()
priors = {"gaussian_lengthscale": bgp.hyper.LogNormal(np.log(5.0), 1.0)}
idata = bgp.fit(X, pima.y, kernel, bgp.Probit(), hyper="evidence", priors=priors, random_seed=1)
for name, lengthscale in zip(X.columns, idata["fit"]["gaussian_lengthscale"].values, strict=True):
    print(f"{name:6} length scale {lengthscale:4.1f}")

# %%
# How much the prediction changes when the values of an input are exchanged between the cases. Two inputs do
# nothing.

fig, ax = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
fig.suptitle("How much each of seven inputs does to the prediction")
bgp.plots.plot_relevance(idata, ax=ax)
plt.show()

# %%
# The partial dependence on an input is the probability at each of its values, averaged over the women as they are
# otherwise. Inputs are in standard deviations here.

fig, axes = plt.subplots(3, 2, figsize=(5.2, 6.6), sharey=True, layout="constrained")
fig.suptitle("Partial dependence of the probability of diabetes on six inputs")
bgp.plots.plot_partial_dependence(idata, ax=axes.ravel())
plt.show()
