"""
Who is still without the event
==============================

Parts fail sooner where it is hot, and half of them still run when we look. Leaving those out would make all parts look
short-lived; `Censored` says of each that its time is later.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Censored, Weibull

rng = np.random.default_rng(1)
parts = pd.DataFrame({"temperature": rng.uniform(20.0, 90.0, 200)})
life = Weibull(2.0).sample(3.5 - 0.0004 * parts["temperature"].to_numpy() ** 2, rng)
observed = rng.uniform(1.0, 15.0, 200)
y = pd.DataFrame({"years": np.minimum(life, observed), "failed": life <= observed})
print(f"{(~y['failed']).mean():.0%} still run")

# %%
# Kernel and shape are chosen. The share of all parts that is expected to run lies on the curve of Kaplan and Meier.

idata = bgp.fit(parts, y, likelihood=Censored(Weibull(1.0)), random_seed=1)
some = pd.DataFrame({"temperature": [30.0, 80.0]}, index=["30 degrees", "80 degrees"])
figure, (all_parts, two) = plt.subplots(2, 1, figsize=(5.2, 7.0), layout="constrained")
bgp.plots.plot_survival(idata, ax=all_parts, random_seed=1)
bgp.plots.plot_survival(idata, some, ax=two)
for ax in (all_parts, two):
    ax.set(xlabel="Years", ylabel="Share that still runs")
figure.suptitle("Parts that still run: all of them, and at two temperatures")
plt.show()

# %%
# When half of the parts have failed, and by how much the answer is wrong if those that still run are left out.

seen = y["failed"].to_numpy()
alone = bgp.fit(parts[seen], y.loc[seen, "years"], likelihood=Weibull(1.0), random_seed=1)
table = bgp.survival.median_time(idata, some).to_dataframe()
table["failed parts alone"] = bgp.survival.median_time(alone, some)["median"]
table["truth"] = np.exp(3.5 - 0.0004 * some["temperature"] ** 2) * np.log(2.0) ** 0.5
table.round(1)
