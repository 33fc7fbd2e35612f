"""
Before there are data
=====================

Which outcomes does a model expect? Priors are suggested from the inputs and from what one knows of the probabilities.
The prior predictive shows what they say, and a prior that is too wide shows at once.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima()
kernel = bgp.kernels.Gaussian() + bgp.kernels.Bias()

# %%
# Each prior comes with a sentence that says what it means.

priors = bgp.priors.suggest(pima.X, kernel, between=(0.1, 0.9))
print(priors)

# %%
# Draws of all that is random: hyperparameters, latent values, labels. Beside them those of a kernel with a variance
# that looks harmless, 100.

wide = bgp.kernels.Gaussian(3.0, 100.0) + bgp.kernels.Bias(100.0)
drawn = {
    "suggested": bgp.prior_predictive(pima.X, kernel, priors=priors, draws=300, random_seed=1),
    "variance 100": bgp.prior_predictive(pima.X, wide, draws=300, random_seed=1),
}

# %%
# Under the wide prior nearly every probability is near 0 or 1 before any label was seen.

fig, axes = plt.subplots(1, 2, figsize=(5.2, 2.6), sharey=True)
fig.suptitle("What two priors say of the probability of diabetes")
for ax, (name, prior) in zip(axes, drawn.items(), strict=True):
    p = bgp.Probit().predict_proba(prior["prior"]["f"].values.ravel(), np.array(0.0))
    ax.hist(p, bins=20, density=True, color="C0")
    ax.set(xlabel="probability", title=name)
axes[0].set(ylabel="density")
fig.tight_layout()
plt.show()
