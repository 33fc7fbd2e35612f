"""
A table of many inputs: which of them matter?
=============================================

Seven measurements, a length scale for each (automatic relevance determination). A long one says that the function
hardly changes along its input. Priors on the length scales keep the unused ones from running away.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima(standardise=False)
raw = pd.DataFrame(pima.X, columns=pima.feature_names)
units = dict(zip(pima.feature_names, pima.units, strict=True))
X = (raw - raw.mean()) / raw.std()  # so that one prior suits all length scales

kernel = bgp.kernels.Gaussian(lengthscale=np.full(7, 3.0), variance=2.0) + bgp.kernels.Bias()
priors = {"gaussian_lengthscale": bgp.hyper.LogNormal(np.log(5.0), 1.0)}
idata = bgp.fit(X, pima.y, kernel, bgp.Probit(), hyper="evidence", priors=priors, random_seed=1)
lengthscale = idata["fit"]["gaussian_lengthscale"].values
print(bgp.loo(idata))

# %%
# The partial dependence on one input: the probability at each of its values, averaged over what the other inputs
# are in the table. It is in the units of the column again.

order = np.argsort(lengthscale)
fig, axes = plt.subplots(4, 2, figsize=(7, 10))
fig.suptitle("Relevance of seven inputs, and the partial dependence of the probability on each")
axes[0, 0].barh(np.array(X.columns)[order][::-1], 1.0 / lengthscale[order][::-1], color="C0")
axes[0, 0].set(title="relevance", xlabel="1 / length scale", ylabel="input")
for ax, column in zip(axes.flat[1:], X.columns[order], strict=True):
    values = np.linspace(X[column].quantile(0.02), X[column].quantile(0.98), 12)
    tables = np.concatenate([X.assign(**{column: value}).to_numpy() for value in values])
    p = bgp.predict(idata, tables, draws=False)["predictions"]["p"].values.reshape(values.size, len(X))
    shown = values * raw[column].std() + raw[column].mean()
    ax.fill_between(shown, np.quantile(p, 0.1, axis=1), np.quantile(p, 0.9, axis=1), color="C0", alpha=0.2)
    ax.plot(shown, p.mean(axis=1), "C0")
    ax.set(title=column, xlabel=f"{column}, {units[column]}", ylabel="P(Yes)", ylim=(0, 1))
fig.tight_layout()
plt.show()
