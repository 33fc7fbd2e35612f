"""
Does the computation hold for my model?
=======================================

Data sets are drawn from the model, at one's own inputs, and fitted. Where posteriors are right, the truth has a uniform
rank among their draws. With little noise Laplace's are too sure, and TAP's are right for latent values and their mean.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

X = np.random.default_rng(1).normal(size=(40, 2))
kernel, likelihood = bgp.kernels.Matern32(1.0, 4.0), bgp.Probit(noise_variance=0.1)
replicas = 200  # tests: 20

# %%
# A verdict and a table: the chance that uniform ranks are as far off, the mean of the ranks, and their spread, which is
# above 1 where a method is too sure. The log likelihood sees most: Gaussian draws, TAP's too, reach to where a label is
# unlikely, so that the truth has a higher likelihood than they have.

found = {
    method: bgp.calibrate(X, kernel, likelihood, method=method, replicas=replicas, random_seed=1, progress=False)
    for method in ("tap", "laplace")
}
print(found["tap"])
print(found["laplace"])

# %%
# The distribution function of the ranks less that of uniform ones, with the band in which 99 of 100 exact methods stay.

fig, axes = plt.subplots(1, 2, figsize=(5.2, 2.8), sharey=True)
fig.suptitle("Ranks of the truth, by TAP and by Laplace's method")
for ax, (method, calibration) in zip(axes, found.items(), strict=True):
    uniform = bgp.diagnostics.UniformRanks(calibration.replicas, calibration.draws)
    ax.fill_between(uniform.levels, *uniform.band(0.99), color="0.85", step="mid")
    for name, ranks in calibration.ranks.items():
        ax.step(uniform.levels, uniform.excess(ranks), where="mid", label=name)
    ax.set(xlabel="rank, from 0 to 1", title={"tap": "TAP", "laplace": "Laplace"}[method])
axes[0].set(ylabel="excess over uniform")
axes[0].legend(loc="lower right")
fig.tight_layout()
plt.show()
