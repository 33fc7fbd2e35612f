"""
Several classes
===============

Three species of iris by two measures of their petals. ``MultinomialProbit`` has a latent function for each class, and
``p`` a column for each. All classes are fitted together, by TAP.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import class_scores

iris = load_iris(as_frame=True)
X = iris.data[["petal length (cm)", "petal width (cm)"]]
species = iris.target_names[iris.target]
held_out = np.arange(len(X)) % 3 == 0

kernel = bgp.kernels.Gaussian(lengthscale=2.0, variance=10.0)
priors = {"variance": bgp.hyper.LogNormal(np.log(10.0), 1.0)}  # the classes hardly overlap: the labels leave it open
options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": priors, "draws": 200, "random_seed": 1}
idata = bgp.fit(X[~held_out], species[~held_out], kernel, bgp.MultinomialProbit(), **options)

# %%
# What was said of the flowers held out.

p = bgp.predict(idata, X[held_out], draws=False)["predictions"]["p"]
names = p["class"].values
scores = class_scores(species[held_out], p.values, names)
print(f"{scores.errors} errors in {scores.cases}, log score {scores.log_score:.3f}")

# %%
# The map shows the most probable class, paler where it is less certain.

fig, ax = plt.subplots(figsize=(5.2, 3.0), layout="constrained")
fig.suptitle("Map of the most probable of three species of iris")
bgp.plots.plot_surface(idata, ax=ax)
plt.show()

# %%
# The confusion of the flowers that were fitted, each predicted from all others.

fig, ax = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
fig.suptitle("Confusion of three species, by leave-one-out")
bgp.plots.plot_confusion(idata, ax=ax)
plt.show()
