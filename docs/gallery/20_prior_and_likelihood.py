"""
Would another prior change the answer?
======================================

The prior, and then the likelihood, count a little less or more, and each posterior is fitted anew. Where both move a
quantity, the data and the prior say different things of it; where only the prior does, the data say little.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(1)
X = np.sort(rng.uniform(-3.0, 3.0, 60))[:, None]
y = rng.poisson(np.exp(1.0 + np.sin(X[:, 0])))
idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0), bgp.Poisson(), random_seed=1)

# %%
# The likelihood moves each of these a little, the prior hardly: the data decide, and no quantity is marked.

quantities = {
    "first half less second": lambda f, t: f[:, :30].mean(axis=1) - f[:, 30:].mean(axis=1),
    "largest": lambda f, t: f.max(axis=1),
}
bgp.diagnostics.sensitivity(idata, quantities)

# %%
# With powers of a half and of two, the means of f at each case: how far the curve would move.

each = {f"f[{k}]": lambda f, t, k=k: f[:, k] for k in range(60)}
moments = bgp.diagnostics.sensitivity(idata, each, alphas=(0.5, 2.0), draws=400).moments["mean"]

fig, axes = plt.subplots(1, 2, figsize=(5.2, 3.2), sharey=True)
fig.suptitle("Means of f with powers of the prior, and of the likelihood")
for ax, component in zip(axes, ("prior", "likelihood"), strict=True):
    for alpha in (0.5, 1.0, 2.0):
        ax.plot(X[:, 0], [moments[name, component, alpha] for name in each], label=f"power {alpha:g}")
    ax.set(xlabel="x", title=component)
axes[0].set(ylabel="mean of f")
axes[1].legend(loc="lower right")
fig.tight_layout()
plt.show()
