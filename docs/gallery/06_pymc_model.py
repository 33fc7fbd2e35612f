"""
A model in PyMC: regression coefficients, groups, and a smooth function
=======================================================================

``bgp.pymc.Marginal`` has the methods of ``pm.gp``. TAP integrates the latent values out, so NUTS samples only the
hyperparameters: here a treatment effect in the mean, the spread of twelve clinics, and the scale of a smooth
function of age.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import bayesgp_mf as bgp
from bayesgp_mf.pymc import Marginal, kernel_to_pymc

rng = np.random.default_rng(2)
clinic, age, treated = rng.integers(0, 12, 100), rng.uniform(20.0, 80.0, 100), rng.integers(0, 2, 100)
level = rng.normal(0.0, 0.8, 12)
ill = np.sin(age / 10.0) + level[clinic] - 1.0 * treated + rng.standard_normal(100) > 0
X = np.column_stack([clinic, age, treated])

# %%
# Columns are told by their positions. The mean function may have random coefficients.

kernel = bgp.kernels.Gaussian(10.0, columns=[1]) + bgp.kernels.Categorical(columns=[0])
with pm.Model():
    effect = pm.Normal("effect", 0.0, 2.0)
    between = pm.HalfNormal("between", 1.0)
    scale = pm.HalfNormal("scale", 2.0)
    cov = kernel_to_pymc(kernel, gaussian_variance=scale**2, categorical_variance=between**2)
    gp = Marginal(cov, bgp.Probit(), mean_func=lambda X: effect * X[:, 2])
    gp.marginal_likelihood("y", X, ill)
    draws = 200  # tests: 10
    idata = pm.sample(draws, tune=draws, chains=2, cores=1, random_seed=1, progressbar=False)

# %%
# ``sample_latent`` draws the latent values for each draw of the hyperparameters. New cases: each clinic, at age 50,
# untreated.

new = np.column_stack([np.arange(12), np.full(12, 50.0), np.zeros(12)])
idata = bgp.pymc.sample_latent(idata, gp, new, random_seed=2)
p = idata["predictions"]["p"].values.reshape(-1, 12)

fig, (above, below) = plt.subplots(2, 1, figsize=(5.2, 6.6))
fig.suptitle("Hyperparameters by NUTS, and illness in each clinic")
for name, truth in (("effect", -1.0), ("between", 0.8)):
    drawn = idata["posterior"][name].values.ravel()
    above.hist(drawn, 30, density=True, alpha=0.5, label=f"{name} (truth {truth})")
above.set(xlabel="value", ylabel="posterior density", ylim=(0, 1.9))
above.legend(loc="upper center", ncols=2)
low, middle, high = np.quantile(p, [0.05, 0.5, 0.95], axis=0)
below.errorbar(
    np.arange(12), middle, [middle - low, high - middle], fmt="o", capsize=3, label="median, 90 % of the draws"
)
below.set(xlabel="clinic", ylabel="P(ill), age 50, untreated", ylim=(0, 1))
below.legend(loc="upper right")
fig.tight_layout()
plt.show()
