"""
Who is best?
============

A season of twenty teams: who won against whom, and where. Each team has a strength, known only beside those of others.
What is the chance that the champion is the best team, and how will the next match end?
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(5)
teams = np.array([f"team {letter}" for letter in "ABCDEFGHIJKLMNOPQRST"])
strength = np.sort(rng.normal(0.0, 0.7, 20))[::-1]
home, away = np.array([(a, b) for a in range(20) for b in range(20) if a != b]).T
home_won = strength[home] - strength[away] + 0.4 + rng.standard_normal(len(home)) > 0
winner, loser = np.where(home_won, [home, away], [away, home])

season = bgp.duels.Duels(teams[winner], teams[loser], home=teams[home])
idata = bgp.fit(season.X, season.y, season.kernel(), bgp.Probit(), hyper="evidence", random_seed=1)
table = season.utility(idata, random_seed=1)
table.head(6).round(2)

# %%
# The intervals of neighbours overlap: 38 matches of each team do not order them all.

fig, ax = plt.subplots(figsize=(5.3, 4.6))
fig.suptitle("Strengths after the season, with 90 % intervals")
place = np.arange(len(table))
ax.hlines(place, table["5%"], table["95%"], color="0.6")
ax.plot(table["mean"], place, "o", label="the fit")
truth = dict(zip(teams, strength - strength.mean(), strict=True))
ax.plot([truth[team] for team in table.index], place, "|", color="C1", markersize=10, label="as simulated")
ax.set(yticks=place, yticklabels=table.index, xlabel="strength above the mean", ylabel="team")
ax.invert_yaxis()
ax.legend()
fig.tight_layout()
plt.show()

# %%
# Who is best is less sure than who won the season. The best two meet next, at either place:

print("probability to be the best:", table["best"].head(4).round(2).to_dict())
first, second = table.index[:2]
matches = season.cases([first, first], [second, second], home=[first, second])
idata = bgp.predict(idata, matches, corrected=True, draws=False)
print(f"{first} wins at home, and away:", idata["predictions"]["p"].values.round(2))
