"""
Doubtful labels
===============

Ten labels of the Pima data are flipped on purpose. Each case is held against all others, without a refit, and those
that the others contradict most are looked at first.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima()
wrong = np.random.default_rng(2).choice(len(pima.y), 10, replace=False)
label = (np.asarray(pima.y) == "Yes").astype(int)
label[wrong] = 1 - label[wrong]
kernel, likelihood = bgp.kernels.Gaussian(3.0) + bgp.kernels.Bias(), bgp.Probit(flip=0.05)
idata = bgp.fit(pima.X, label, kernel, likelihood, hyper="evidence", fixed={"bias_variance"}, random_seed=1)

# %%
# The likelihood knows that labels may be flipped, and how often is tuned with the kernel.

found = bgp.diagnostics.influence(idata)
print("flipped, tuned:", round(float(idata["fit"]["flip"]), 3))
found.suspects(odds=5.0).round(2)

# %%
# How many of the flipped ones are among the first? By chance it would be one in twenty.

order = np.argsort(-found.odds)
seen = np.cumsum(np.isin(order, wrong))
fig, ax = plt.subplots(figsize=(5.2, 3.2))
fig.suptitle("Flipped labels among the cases that are looked at first")
ax.step(np.arange(1, len(order) + 1), seen, where="post", label="by the odds of the others")
ax.plot([0, len(order)], [0, len(wrong)], ":", color="0.4", label="by chance")
ax.set(xlabel="cases looked at", ylabel="flipped labels found")
ax.legend()
fig.tight_layout()
plt.show()
