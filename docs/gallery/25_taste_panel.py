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
juices = pd.DataFrame(rng.uniform(0.0, 10.0, (30, 2)), columns=["sugar", "acid"]).round(1)
juices.index = [f"juice {k}" for k in range(1, 31)]


def liking(sugar, acid):
    """Return what the panel likes on average: sugar, with acid to match."""
    return 3.0 - 0.12 * (sugar - 7.0) ** 2 - 0.15 * (acid - 0.6 * sugar) ** 2


beyond = 0.3 * rng.standard_normal(30)  # of each juice, beside sugar and acid
utility = liking(juices["sugar"], juices["acid"]).to_numpy() + beyond
a = rng.integers(0, 30, 200)
b = (a + rng.integers(1, 30, 200)) % 30
won = utility[a] - utility[b] + rng.standard_normal(200) > 0
names = juices.index.to_numpy()
panel = bgp.duels.Duels(names[np.where(won, a, b)], names[np.where(won, b, a)], items=juices)

taste = Gaussian([5.0, 5.0], 4.0, columns=["sugar", "acid"]) + Categorical(0.1, columns="item")
idata = bgp.fit(panel.X, panel.y, panel.kernel(taste), bgp.Probit(), hyper="evidence", random_seed=1)
panel.utility(idata, random_seed=1).head(5).round(2)

# %%
# Juices that nobody made are rows of a table like any others. The same duels, with a grid of them beside the juices:

sugar, acid = np.meshgrid(np.linspace(0.0, 10.0, 21), np.linspace(0.0, 10.0, 21))
grid = pd.DataFrame({"sugar": sugar.ravel(), "acid": acid.ravel()}, index=[f"recipe {k}" for k in range(441)])
winner, loser = np.where(won, [a, b], [b, a])
recipes = bgp.duels.Duels(names[winner], names[loser], items=pd.concat([juices, grid]))
table = recipes.utility(idata, draws=1000, random_seed=1)
found = table["mean"].loc[grid.index].to_numpy().reshape(sugar.shape)

fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 4.2), layout="constrained", sharey=True)
for ax, values, title in ((left, found, "as the duels tell it"), (right, liking(sugar, acid), "as simulated")):
    lines = ax.contour(sugar, acid, values - values.max(), levels=[-6, -4, -2, -1, -0.5], colors="C0")
    ax.clabel(lines, fontsize=8)
    ax.plot(juices["sugar"], juices["acid"], ".", color="0.5", label="a juice")
    best = np.unravel_index(np.argmax(values), values.shape)
    ax.plot(sugar[best], acid[best], "*", color="C1", markersize=13, label="the best recipe")
    ax.set(xlabel="sugar", title=f"Utility below the best, {title}")
left.set_ylabel("acid")
left.legend(loc="upper left")
plt.show()

# %%
# The best juice of the table, and the best recipe, are likely to be close. The panel can be asked:

best_juice = table["mean"].loc[juices.index].idxmax()
best_recipe = table["mean"].loc[grid.index].idxmax()
duel = recipes.cases([best_recipe], [best_juice])
p = bgp.predict(idata, duel, corrected=True, draws=False)["predictions"]["p"].values[0]
print(f"sugar {grid['sugar'][best_recipe]:.1f}, acid {grid['acid'][best_recipe]:.1f} beats {best_juice}: {p:.2f}")

# %%
# Who beats whom among the twelve best juices; a disc that stands out from its field is a duel that went otherwise:

fig, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
bgp.plots.plot_duels(idata, panel, ax=ax, most=12, random_seed=1)
plt.show()
