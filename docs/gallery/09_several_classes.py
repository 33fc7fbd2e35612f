"""
Several classes
===============

Three species of iris by two measures of their petals. ``Softmax`` has a latent function for each class, and ``p`` a
column for each.
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

kernel = bgp.kernels.Gaussian(lengthscale=[2.0, 1.0], variance=10.0)
options = {"method": "laplace", "hyper": "evidence", "draws": 200, "random_seed": 1}
idata = bgp.fit(X[~held_out], species[~held_out], kernel, bgp.Softmax(), **options)
p = bgp.predict(idata, X[held_out], draws=False)["predictions"]["p"]
names = p["class"].values
scores = class_scores(species[held_out], p.values, names)
print(f"{scores.errors} errors in {scores.cases}, log score {scores.log_score:.3f}")

# %%
# The map shows the most probable class, paler where it is less certain. Beside it what was said of the flowers held
# out.

length, width = np.meshgrid(np.linspace(0.5, 7.5, 90), np.linspace(0.0, 2.8, 70))
grid = np.column_stack([length.ravel(), width.ravel()])
of_grid = bgp.predict(idata, grid, draws=False)["predictions"]["p"].values
colours = np.array([[0.0, 0.45, 0.7], [0.9, 0.6, 0.0], [0.0, 0.6, 0.5]])  # told apart by the colour-blind too

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4.2), width_ratios=[3, 2])
fig.suptitle("Map of three classes, and the confusion of held-out flowers")
picture = 1.0 - of_grid @ (1.0 - colours)
left.imshow(picture.reshape(*length.shape, 3), origin="lower", extent=(0.5, 7.5, 0.0, 2.8), aspect="auto", alpha=0.7)
for name, colour, marker in zip(names, colours, "o^s", strict=True):
    of = species == name
    left.plot(*X[of].to_numpy().T, marker, color=colour, markeredgecolor="k", markersize=5, label=name)
left.set(xlabel=X.columns[0], ylabel=X.columns[1])
left.legend(loc="upper left")
table = np.array([p.values[species[held_out] == name].mean(axis=0) for name in names])
right.imshow(table, cmap="Blues", vmin=0, vmax=1)
for (row, column), value in np.ndenumerate(table):
    right.text(column, row, f"{value:.2f}", ha="center", va="center", color="w" if value > 0.5 else "k")
right.set(xticks=range(3), yticks=range(3), xticklabels=names, yticklabels=names)
right.set(xlabel="predicted, mean probability", ylabel="species")
fig.tight_layout()
plt.show()
