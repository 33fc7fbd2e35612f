"""
A panel of tasters
==================

Thirty juices differ in sugar and acid. A panel says of two at a time which one it likes better. How much of either does
it like best, and would a juice that nobody has tasted yet be better?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Categorical, Gaussian

rng = np.random.default_rng(3)
names = np.array([f"juice {k}" for k in range(1, 31)])
juices = pd.DataFrame(rng.uniform(0.0, 10.0, (30, 2)).round(1), columns=["sugar", "acid"], index=names)
liked = 3.0 - 0.12 * (juices["sugar"] - 7.0) ** 2 - 0.15 * (juices["acid"] - 0.6 * juices["sugar"]) ** 2
utility = liked.to_numpy() + 0.3 * rng.standard_normal(30)  # a juice is more than sugar and acid
a = rng.integers(0, 30, 200)
b = (a + rng.integers(1, 30, 200)) % 30
winner, loser = np.where(utility[a] - utility[b] + rng.standard_normal(200) > 0, [a, b], [b, a])

panel = bgp.duels.Duels(names[winner], names[loser], items=juices)
taste = Gaussian([5.0, 5.0], 4.0, columns=["sugar", "acid"]) + Categorical(0.1, columns="item")
idata = bgp.fit(panel.X, panel.y, panel.kernel(taste), bgp.Probit(), hyper="evidence", random_seed=1)
panel.utility(idata, random_seed=1).head(5).round(2)

# %%
# Juices that nobody made are rows of a table like any others: the same duels, with a grid of recipes beside the juices.

sugar, acid = np.meshgrid(np.linspace(0.0, 10.0, 21), np.linspace(0.0, 10.0, 21))
grid = pd.DataFrame({"sugar": sugar.ravel(), "acid": acid.ravel()}, index=[f"recipe {k}" for k in range(441)])
recipes = bgp.duels.Duels(names[winner], names[loser], items=pd.concat([juices, grid]))
mean = recipes.utility(idata, draws=1000, random_seed=1)["mean"]
best, best_juice = mean[grid.index].idxmax(), mean[names].idxmax()

fig, ax = plt.subplots(figsize=(5.0, 4.4), layout="constrained")
fig.suptitle("Utility of recipes below that of the best one")
below = mean[grid.index].to_numpy().reshape(21, 21) - mean[best]
lines = ax.contour(sugar, acid, below, [-6, -4, -2, -1, -0.5], colors="C0", linestyles="solid")
ax.clabel(lines)
ax.plot(juices["sugar"], juices["acid"], ".", color="0.5", label="a juice")
ax.plot(*grid.loc[best], "*", color="C1", markersize=13, label="the best recipe")
ax.plot(7.0, 4.2, "x", color="black", label="the best, as simulated")
ax.set(xlabel="sugar", ylabel="acid")
fig.legend(loc="outside lower center", ncols=3)
plt.show()

# %%
# The best recipe, and the chance that it beats the best juice of the table:

p = bgp.predict(idata, recipes.cases([best], [best_juice]), corrected=True, draws=False)["predictions"]["p"].values
print(f"sugar {grid['sugar'][best]:.1f}, acid {grid['acid'][best]:.1f} beats {best_juice}: {p[0]:.2f}")
